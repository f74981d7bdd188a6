"""Folders of finished figures: whole or not there."""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import secrets
import shutil
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .claim import Claim, finite
from .figure import Figure, Size

if TYPE_CHECKING:
    import xarray as xr

FILES = ("figure.svg", "figure.png", "data.zarr", "claims.json")
PACKAGES = (
    "solvable", "jax", "jaxlib", "equinox", "diffrax", "optax",
    "numpy", "scipy", "xarray", "zarr", "matplotlib",
    "torch", "transformers", "scikit-learn",
)  # fmt: skip
# What of Solvable itself a figure's numbers can depend on, beside its lab.
_SHARED = ("numerics", "training.py", "validation.py", "style.py")


def write_dataset(dataset: "xr.Dataset", path: Path) -> None:
    """Write a Zarr store whole or not at all."""
    words = [name for name, variable in dataset.variables.items() if variable.dtype.kind == "U"]
    for name in words:  # Zarr has a specification of strings of any length, not of fixed length
        dataset = dataset.assign({name: dataset[name].astype(object)})
    beside = path.with_name(f".{path.name}-{secrets.token_hex(4)}.tmp")
    with warnings.catch_warnings():
        # Not in the specification of Zarr 3 yet; without it xarray warns whoever opens the store.
        warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
        dataset.to_zarr(beside, mode="w", consolidated=True)
    with contextlib.suppress(OSError):  # another run was quicker with the same numbers
        beside.rename(path)
        return
    shutil.rmtree(beside)


def read_dataset(path: Path) -> "xr.Dataset":
    """A Zarr store as a dataset in memory."""
    import xarray as xr

    with xr.open_zarr(path, chunks=None) as dataset:
        return dataset.load()


def versions() -> dict[str, str]:
    """Of Solvable, of what its numbers depend on, and of Python."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def machine() -> dict[str, Any]:
    """What it was computed on."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {"processor": model, "cores": os.cpu_count(), "system": platform.system()}


def code_digest(figure: Figure) -> str:
    """Of the code behind a figure, so that numbers of an older state are not taken for its own."""
    package = (figure.compute.__module__ or "").split(".")
    ours = package[0] == "solvable"
    roots = [_folder(".".join(package[:2] if ours else package[:1]))]
    if (house := _folder("solvable")) is not None:
        roots += [house / name for name in _SHARED]
    digest = hashlib.sha256()
    for root in roots:
        if root is None:
            continue
        files = sorted(root.rglob("*.py")) if root.is_dir() else [root]
        for file in files:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _folder(module: str) -> Path | None:
    """Where a module's code is: its folder, or its file where it is no package."""
    loaded = sys.modules.get(module)
    origin = getattr(loaded, "__file__", None)
    if origin is None and (spec := find_spec(module)) is not None:
        origin = spec.origin
    if origin is None:
        return None
    path = Path(origin)
    return path.parent if path.name == "__init__.py" else path


@dataclass(frozen=True)
class Config:
    """What was asked: two results with the same `key` are the same."""

    figure: str
    size: Size
    settings: dict[str, Any]
    seed: int
    versions: dict[str, str]
    code: str

    @classmethod
    def of(cls, figure: Figure, size: Size) -> "Config":
        """The config of a figure at a size, here and now."""
        settings = {**figure.constants, **figure.settings[size]}
        settings = json.loads(json.dumps(settings))  # as it is read back
        return cls(figure.id, size, settings, figure.seed, versions(), code_digest(figure))

    @property
    def key(self) -> str:
        """A digest of it all."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:24]

    def difference(self, result: "Result") -> str:
        """In what an older result differs."""
        old, new = result.attributes.get("config", {}), asdict(self)
        changed = [name for name in new if old.get(name) != new[name]]
        return f"other {', '.join(changed)}" if changed else "computed afresh"

    @property
    def command(self) -> str:
        """The command that remakes it."""
        option = "" if self.size == "default" else f" --{self.size}"
        return f"solvable reproduce {self.figure}{option}"


@dataclass(frozen=True)
class Result:
    """A finished figure, read back from its folder."""

    folder: Path
    figure: str
    size: Size
    key: str
    attributes: dict[str, Any]
    claims: list[Claim]


def folder_of(out: Path, figure: str) -> Path:
    """Where a figure's files are."""
    return out.joinpath(*figure.split("/"))


def bench_of(out: Path, figure: str, key: str) -> Path:
    """Where a figure is worked on until it is whole."""
    lab, name = figure.split("/")
    return out / lab / f".{name}-{key}.work"


def read_result(folder: Path) -> Result | None:
    """The result in a folder, or None where there is no whole one."""
    if not all((folder / name).exists() for name in FILES):
        return None
    try:
        claims = [Claim(**_numbers(c)) for c in json.loads((folder / "claims.json").read_text())]
        stored = json.loads((folder / "data.zarr" / "zarr.json").read_text())["attributes"]
        config = stored["config"]
        return Result(folder, config["figure"], config["size"], stored["key"], stored, claims)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _numbers(claim: dict[str, Any]) -> dict[str, Any]:
    absent = {name: float("nan") for name in ("expected", "measured") if claim[name] is None}
    return {**claim, **absent}


def results(out: Path) -> dict[str, Result]:
    """Every whole figure under `out`, by its id."""
    found = (read_result(folder) for folder in sorted(out.glob("*/*")) if folder.is_dir())
    return {result.figure: result for result in found if result is not None}


def write_result(
    bench: Path, figure: Figure, config: Config, dataset: "xr.Dataset", claims: list[Claim],
    seconds: float,
) -> Path:  # fmt: skip
    """Write all files of a figure into a new folder on its workbench; it is yet to be published."""
    from ..style import figure_style

    done = bench / f"whole-{secrets.token_hex(4)}"
    done.mkdir()
    attributes = {
        "title": figure.title,
        "note": figure.note,
        "config": asdict(config),
        "key": config.key,
        "seed": config.seed,
        "versions": config.versions,
        "command": config.command,
        "machine": machine(),
        "seconds": round(seconds, 3),
    }
    write_dataset(dataset.assign_attrs(attributes), done / "data.zarr")
    with figure_style():
        picture = figure.draw(dataset)
        # Without the date, the same data give the same file.
        picture.savefig(done / "figure.svg", metadata={"Date": None})
        picture.savefig(done / "figure.png")
    rows = [
        {**asdict(c), "expected": finite(c.expected), "measured": finite(c.measured)}
        for c in claims
    ]
    (done / "claims.json").write_text(json.dumps(rows, ensure_ascii=False, indent=2) + "\n")
    return done


def publish(done: Path, folder: Path) -> None:
    """Put a whole folder in its place. Killed at any point, a half-written one is never there."""
    old = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}.old")
    if folder.exists():
        folder.rename(old)
    done.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def sweep_up(out: Path, figure: str, keep: Path | None) -> None:
    """Remove what killed runs left of a figure, except the workbench still of use."""
    lab, name = figure.split("/")
    for pattern in (f".{name}-*.old", f".{name}-*.work"):
        for folder in (out / lab).glob(pattern):
            if folder != keep:
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def held(out: Path) -> Iterator[None]:
    """Hold the folder `out` for this run alone; the hold ends with the process, however it ends."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise ValueError(
            f"out must be a folder that can be written, not {str(out)!r} ({error.strerror})"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"out is in use by another run: {str(out)!r}") from None
        yield
