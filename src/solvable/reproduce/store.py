"""Folders of finished figures: whole or not there, and never what they no longer are.

Under `out`, LAB/FIGURE/ holds a figure at the size asked last. Beside it, hidden: ``.FIGURE@SIZE``,
the same at another size; ``.FIGURE@SIZE-KEY.work``, what is being computed; ``.FIGURE-….old``, what
was just replaced. A figure with changed settings has a folder of its own, ``FIGURE@NAME=VALUE``.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from . import sealed
from .change import typed
from .claim import SIZES, Claim, Quote, Size, finite
from .closure import closure
from .datasets import DATA, write_dataset
from .figure import Figure

if TYPE_CHECKING:
    import xarray as xr

FILES = ("figure.svg", "figure.png", DATA, "claims.json")
PICTURES = ("figure.svg", "figure.png")
PACKAGES = (
    "solvable", "jax", "jaxlib", "equinox", "diffrax", "optax",
    "numpy", "scipy", "xarray", "zarr", "matplotlib",
    "torch", "transformers", "scikit-learn",
)  # fmt: skip
_OURS = {*FILES, sealed.MANIFEST}
_NUMBERS = ("expected", "measured", "tolerance")
_READABLE = re.compile(r"[\w.,=+-]{1,80}", re.ASCII)


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


@dataclass(frozen=True)
class Config:
    """What was asked: two datasets with the same `key` are the same.

    Attributes:
        figure: LAB/FIGURE.
        size: "quick", "default" or "full".
        changes: the settings that are not the figure's own.
        settings: all of them.
        code: of every module of ours behind the data, a digest.
        versions: of every other package behind them.
        look: a digest of the code behind the picture; none of the data's business.
    """

    figure: str
    size: Size
    changes: dict[str, Any]
    settings: dict[str, Any]
    code: dict[str, str]
    versions: dict[str, str]
    look: str

    @classmethod
    def of(cls, figure: Figure, size: Size, changes: Mapping[str, Any] | None = None) -> "Config":
        """The config of a figure at a size, here and now."""
        whole = closure((), [figure.module])
        behind = closure(figure.stages, figure.modules)
        drawn = closure((), ["solvable.reproduce.panels", "solvable.drawing", "solvable.style"])
        look = json.dumps([whole.code, drawn.code, drawn.versions], sort_keys=True)
        return cls(
            figure=figure.id,
            size=size,
            changes=json.loads(json.dumps(dict(sorted((changes or {}).items())))),
            settings=figure.values(size, changes),
            code=behind.code,
            versions=behind.versions,
            look=hashlib.sha256(look.encode()).hexdigest()[:16],
        )

    @property
    def data(self) -> dict[str, Any]:
        """All that the data depend on."""
        return {name: value for name, value in asdict(self).items() if name != "look"}

    @property
    def key(self) -> str:
        """A digest of all that the data depend on."""
        return hashlib.sha256(json.dumps(self.data, sort_keys=True).encode()).hexdigest()[:24]

    def difference(self, old: Mapping[str, Any]) -> str:
        """Why data with an older config are not these."""
        words = []
        for name, what in (("settings", "other settings"), ("versions", "other versions")):
            if changed := _changed(old.get(name, {}), asdict(self)[name]):
                words.append(f"{what} ({', '.join(changed)})")
        if changed := _changed(old.get("code", {}), self.code):
            some = ", ".join(changed[:3]) + (", …" if len(changed) > 3 else "")
            words.append(f"other code ({some})")
        return " and ".join(words)

    @property
    def command(self) -> str:
        """The command that remakes it."""
        option = "" if self.size == "default" else f" --{self.size}"
        sets = "".join(f" --set {quote(f'{n}={typed(v)}')}" for n, v in self.changes.items())
        return f"solvable reproduce {self.figure}{option}{sets}"

    @property
    def slot(self) -> str:
        """The name of its folder: the figure's, with what was changed."""
        name = self.figure.partition("/")[2]
        if not self.changes:
            return name
        words = ",".join(f"{name}={typed(value)}" for name, value in self.changes.items())
        if not _READABLE.fullmatch(words):
            words = hashlib.sha256(words.encode()).hexdigest()[:12]
        return f"{name}@{words}"

    def folder(self, out: Path) -> Path:
        """Where its files are."""
        return out / self.figure.partition("/")[0] / self.slot

    def resting(self, out: Path, size: Size) -> Path:
        """Where they are kept while another size is shown."""
        return self.folder(out).with_name(f".{self.slot}@{size}")

    def bench(self, out: Path) -> Path:
        """Where it is worked on until it is whole."""
        return self.folder(out).with_name(f".{self.slot}@{self.size}-{self.key}.work")


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]


@dataclass(frozen=True)
class Result:
    """A finished figure, read back from its folder.

    Attributes:
        folder: where it is.
        config: what was asked, as in `Config`.
        key: of its data.
        about: title, note, command, versions, machine, seconds.
        claims: as they were judged last.
        damaged: its files that are not as they were written.
    """

    folder: Path
    config: dict[str, Any]
    key: str
    about: dict[str, Any]
    claims: list[Claim]
    damaged: tuple[str, ...] = ()

    @property
    def figure(self) -> str:
        """LAB/FIGURE."""
        return self.config["figure"]

    @property
    def size(self) -> Size:
        """At which it was computed."""
        return self.config["size"]

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that are not the figure's own."""
        return self.config["changes"]

    @property
    def sound(self) -> bool:
        """Whether its data are as they were written."""
        return not any(name.partition("/")[0] == DATA for name in self.damaged)


def read_result(folder: Path) -> Result:
    """The result in a folder.

    Raises:
        ValueError: where there is none that is ours; says why.
    """
    body = sealed.manifest(folder)
    try:
        result = Result(folder, body["config"], body["key"], body["about"], [])
        config = Config(**{**result.config, "look": ""})
    except (KeyError, TypeError):
        raise ValueError("is of another version") from None
    lab, names = folder.parent.name, (config.slot, f".{config.slot}@{config.size}")
    if lab != config.figure.partition("/")[0] or folder.name not in names:
        raise ValueError(f"holds {config.figure}")
    broken = sealed.damaged(folder, body)
    claims: list[Claim] = []
    try:
        claims = [_claim(row) for row in json.loads((folder / "claims.json").read_text("utf-8"))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        broken = sorted({*broken, "claims.json"})
    return Result(folder, result.config, result.key, result.about, claims, tuple(broken))


def _claim(row: dict[str, Any]) -> Claim:
    absent = {name: float("nan") for name in _NUMBERS if row[name] is None}
    quote = None if row["quote"] is None else Quote(**row["quote"])
    return Claim(**{**row, **absent, "quote": quote})


def rows(claims: list[Claim]) -> list[dict[str, Any]]:
    """Claims as JSON has them, where what is not finite is null."""
    found = []
    for claim in claims:
        values = asdict(claim)
        numbers = {name: values[name] for name in (*_NUMBERS, "as_printed")}
        loose = {name: x for name, x in numbers.items() if isinstance(x, float)}
        found.append({**values, **{name: finite(x) for name, x in loose.items()}})
    return found


def results(out: Path) -> tuple[dict[Path, Result], dict[Path, str]]:
    """Every whole figure under `out` by its folder, and why other folders are none."""
    found: dict[Path, Result] = {}
    others: dict[Path, str] = {}
    for folder in sorted(out.glob("*/*")):
        if folder.name.startswith(".") or not folder.is_dir():
            continue
        try:
            result = read_result(folder)
        except ValueError as error:
            others[folder] = str(error)
            continue
        if result.damaged:
            others[folder] = f"is damaged ({result.damaged[0]})"
        else:
            found[folder] = result
    return found, others


def write_result(
    bench: Path,
    figure: Figure,
    config: Config,
    dataset: "xr.Dataset",
    claims: list[Claim],
    *,
    seconds: float,
    kept: Result | None = None,
) -> Path:
    """Write all files of a figure into a new folder on its workbench; it is yet to be published.

    Args:
        bench: the workbench.
        figure: what is drawn.
        config: what was asked.
        dataset: the data.
        claims: judged.
        seconds: that the data took.
        kept: an earlier result with the same data, whose files are taken over where they are good.
    """
    from ..style import figure_style

    bench.mkdir(parents=True, exist_ok=True)
    about = {
        "title": figure.title,
        "note": figure.note,
        "command": config.command,
        "versions": versions(),
        "machine": machine(),
        "seconds": round(seconds, 3),
    }
    if kept is None:
        facts = {"config": config.data, "key": config.key, **about}
        done = write_dataset(dataset.assign_attrs(facts), bench)
    else:
        about |= {name: kept.about[name] for name in ("versions", "machine", "seconds")}
        done = bench / f"new-{secrets.token_hex(4)}"
        shutil.copytree(kept.folder / DATA, done / DATA, copy_function=_link)
    if kept is not None and not drawn_anew(kept, config):
        for name in PICTURES:
            _link(kept.folder / name, done / name)
    else:
        with figure_style():
            picture = figure.picture(dataset)
            # Without the date, the same data give the same file.
            picture.savefig(done / "figure.svg", metadata={"Date": None})
            picture.savefig(done / "figure.png")
    text = json.dumps(rows(claims), ensure_ascii=False, indent=2)
    (done / "claims.json").write_text(text + "\n", encoding="utf-8")
    sealed.seal(done, key=config.key, config=asdict(config), about=about)
    return done


def drawn_anew(kept: Result, config: Config) -> bool:
    """Whether a kept result needs another picture."""
    return kept.config["look"] != config.look or not set(PICTURES).isdisjoint(kept.damaged)


def _link(source: Any, target: Any) -> None:
    try:
        os.link(source, target)
    except OSError:  # no links here
        shutil.copy2(source, target)


def candidate(out: Path, config: Config) -> tuple[Result | None, str]:
    """Data of an earlier run that answer to a config, or why there are none.

    They are looked for where the figure is shown, and where its other sizes rest.
    """
    why = ""
    for folder in (config.folder(out), config.resting(out, config.size)):
        if not folder.is_dir():
            continue
        try:
            found = read_result(folder)
        except ValueError as error:
            why = why or f"{folder.name} {error}"
            continue
        if found.size != config.size:
            continue
        if found.key == config.key and found.sound:
            return found, ""
        damage = "" if found.sound else f"{DATA} is damaged or missing"
        why = config.difference(found.config) or damage or why
    return None, why


def publish(done: Path, config: Config, out: Path) -> None:
    """Put a whole folder in its place, and what was there where it belongs.

    Killed at any point, a half-written folder is never there and nothing is lost; `recover` goes on
    from wherever it was.

    Raises:
        OSError: where something stands in the way.
    """
    folder = config.folder(out)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise FileExistsError(f"{folder} is no folder of ours")
    if folder.exists():
        folder.rename(_aside(folder, config, out))
    done.rename(folder)
    sealed.sync(folder.parent)
    recover(config, out)


def _aside(folder: Path, config: Config, out: Path) -> Path:
    """Where what is shown goes: to rest, or to be removed where it is of the same size."""
    size = _size(folder)
    if size is None or size == config.size:
        return folder.with_name(f".{folder.name}-{secrets.token_hex(4)}.old")
    rest = config.resting(out, size)
    if rest.exists():  # older than what is shown
        _carry(rest, folder)
        _remove(rest)
    return rest


def _size(folder: Path) -> Size | None:
    """The size of a result, however damaged."""
    try:
        size = sealed.manifest(folder)["config"]["size"]
    except (ValueError, KeyError, TypeError):
        return None
    return size if size in SIZES else None


def recover(config: Config, out: Path) -> None:
    """Finish what a killed run began to put in place; a user's own files end where one looks."""
    folder = config.folder(out)
    parent = folder.parent
    if not parent.is_dir():
        return
    old = _named(parent, rf"\.{re.escape(folder.name)}-[0-9a-f]{{8}}\.old")
    for each in sorted(old, key=lambda path: path.stat().st_mtime, reverse=True):
        if not folder.exists():
            each.rename(folder)
            continue
        _carry(each, folder)
        _remove(each)
    shown = _size(folder) if folder.is_dir() else None
    for size in SIZES if shown else ():
        rest = config.resting(out, size)
        if rest.is_dir():
            _carry(rest, folder)
            if size == shown:  # computed anew since
                _remove(rest)


def _carry(source: Path, target: Path) -> None:
    """Move what is not ours from one folder to another, over nothing."""
    for path in source.iterdir():
        if path.name in _OURS:
            continue
        new, tries = target / path.name, 0
        while new.exists() or new.is_symlink():
            tries += 1
            new = target / f"{path.name}~{tries}"
        path.rename(new)


def _remove(folder: Path) -> None:
    """Remove a folder of ours."""
    for name in _OURS:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def sweep_up(config: Config, out: Path, keep: Path | None) -> None:
    """Remove the workbenches of a figure at a size, except the one still of use."""
    parent = config.folder(out).parent
    if not parent.is_dir():
        return
    stem = re.escape(f"{config.slot}@{config.size}")
    for bench in _named(parent, rf"\.{stem}-[0-9a-f]{{24}}\.work"):
        if bench != keep:
            shutil.rmtree(bench, ignore_errors=True)
            continue
        for left in _named(bench, r"new-[0-9a-f]{8}"):  # what was being written
            shutil.rmtree(left, ignore_errors=True)


def _named(parent: Path, pattern: str) -> list[Path]:
    """The folders whose whole name is of a form."""
    fits = re.compile(pattern).fullmatch
    return [path for path in parent.iterdir() if fits(path.name) and path.is_dir()]


@contextlib.contextmanager
def held(out: Path) -> Iterator[None]:
    """Hold the folder `out` for this run alone; the hold ends with the process, however it ends."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        # What a link named .lock leads to is not ours to open.
        lock = os.open(out / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise ValueError(
            f"out must be a folder that can be written, not {str(out)!r} ({error.strerror})"
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"out is in use by another run: {str(out)!r}") from None
        yield
    finally:
        os.close(lock)
