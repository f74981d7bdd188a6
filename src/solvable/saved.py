"""Runs on disk, from which training goes on bit for bit: a Zarr store each.

The store holds the dataset that `Run.to_xarray` gives, for every reader of Zarr, and beside it, in
the group "state", the arrays of the state in their order.
"""

import hashlib
import json
import secrets
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .compiling import stage
from .fingerprint import difference
from .training import R, Run, Training, variables

_KIND = "a run of solvable, format 1"


def save(run: Run, path: str | Path, attrs: Mapping[str, str] = {}) -> None:
    """Write a run, whole or not at all; one that was saved there is replaced.

    Args:
        run: of any training, also one that was interrupted.
        path: a new folder, or that of a saved run.
        attrs: more words that are kept with it; `attributes` gives them back.
    """
    import zarr

    path = _found(path)
    if path.exists() and not _is_saved(path):
        raise ValueError(f"save must be a new path or a saved run, not {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new-{secrets.token_hex(4)}")
    arrays = {name: np.asarray(array) for name, _, array in variables(run)}
    leaves = [_numbers(leaf) for leaf in jax.tree.leaves(run.state)]
    dataset = run.to_xarray().assign_attrs(
        solvable=_KIND,
        saved=dict(attrs),
        digest=_digest(arrays, leaves, run.origin),
    )
    try:
        with warnings.catch_warnings(), zarr.config.set({"array.write_empty_chunks": True}):
            # Not in the specification of Zarr 3 yet; without it xarray warns whoever opens it.
            warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
            dataset.to_zarr(new, mode="w", consolidated=False)
            state = zarr.open_group(new, mode="a").create_group("state")
            for k, leaf in enumerate(leaves):
                state.create_array(str(k), data=leaf)
            zarr.consolidate_metadata(str(new))
        old = _aside(path)
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
            path.rename(old)
        new.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def load(path: str | Path, training: Training[R]) -> R:
    """A saved run as `training` labels it, for its `resume`.

    Raises:
        ValueError: if there is no saved run, if it is damaged, or if its arrays are not those of
            such a training. That it is of another problem is what `resume` says.
    """
    path = _found(path)
    about = _attributes(path)
    try:
        arrays, leaves, origin = _read(path, about)
    except Exception as error:
        raise ValueError(f"the run saved in {path} is damaged: {type(error).__name__}") from error
    if _digest(arrays, leaves, origin) != about.get("digest"):
        raise ValueError(f"the run saved in {path} is damaged: it is not what was written")
    wanted = jax.tree.leaves(training.state)
    fits = [(x.shape, x.dtype) for x in map(_numbers, wanted)] == [
        (x.shape, x.dtype) for x in leaves
    ]
    if fits:
        keys = zip(leaves, wanted, strict=True)
        state = jax.tree.unflatten(
            jax.tree.structure(training.state), [_like(leaf, key) for leaf, key in keys]
        )
        seen = training.seen(state, int(arrays["step"][-1]))
        there = {name: (np.shape(x)[:-1], x.dtype) for name, _, x in variables(seen)}
        if there == {name: (x.shape[:-1], x.dtype) for name, x in arrays.items()}:
            return _filled(seen, arrays, origin)
    why = difference(origin, training.words) or "its arrays have other shapes"
    raise ValueError(f"the run saved in {path} is not of such a training: {why}")


def attributes(path: str | Path) -> dict[str, str]:
    """The words that a run was saved with."""
    return dict(_attributes(_found(path)).get("saved", {}))


def _read(
    path: Path, about: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], list[np.ndarray], dict[str, str]]:
    """Logged arrays by name, those of the state, and the origin."""
    import zarr

    group = zarr.open_group(path, mode="r", use_consolidated=False)
    state: Any = group["state"]
    arrays: dict[str, Any] = {name: np.asarray(x[...]) for name, x in group.arrays()}
    leaves = [np.asarray(state[str(k)][...]) for k in range(len(list(state.array_keys())))]
    return arrays, leaves, json.loads(about["origin"])


def _filled(seen: R, arrays: Mapping[str, np.ndarray], origin: Mapping[str, str]) -> R:
    """A run of one log point with all of them."""
    found: dict[str, list[Any]] = {}
    for name, of, leaf in variables(seen):
        whole = arrays[name]
        found.setdefault(of.name, []).append(
            whole if isinstance(leaf, np.ndarray) else stage(whole)
        )
    trees = {name: jax.tree.structure(getattr(seen, name)) for name in found}
    filled = {name: jax.tree.unflatten(trees[name], leaves) for name, leaves in found.items()}
    return replace(seen, **filled, origin=dict(origin))


def _found(path: str | Path) -> Path:
    """The path, where the old run is put back if the new one did not take its place."""
    path = Path(path).absolute()
    if not path.exists() and _is_saved(_aside(path)):
        _aside(path).rename(path)
    return path


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _attributes(path: Path) -> dict[str, Any]:
    """All that a saved run says of itself, or an error."""
    if not path.exists():
        raise ValueError(f"there is no saved run in {path}")
    if not _is_saved(path):
        raise ValueError(f"{path} is no saved run")
    return json.loads((path / "zarr.json").read_text())["attributes"]


def _is_saved(path: Path) -> bool:
    """Whether `save` has written what is there."""
    try:
        found = json.loads((path / "zarr.json").read_text())
        return found["attributes"]["solvable"] == _KIND
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _digest(
    arrays: Mapping[str, np.ndarray], leaves: Sequence[np.ndarray], origin: Mapping[str, str]
) -> str:
    """Of all bits of a run: a chunk that is missing is not an error to Zarr."""
    parts = {**arrays, **{f"state/{k}": leaf for k, leaf in enumerate(leaves)}}
    words = {
        name: f"{x.dtype}{x.shape}{hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}"
        for name, x in parts.items()
    }
    told = json.dumps([words, dict(origin)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _numbers(leaf: Any) -> np.ndarray:
    """An array of a state; random keys as the numbers they are."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)


def _like(numbers: np.ndarray, leaf: Any) -> Any:
    """Numbers as an array, or as random keys where `leaf` is."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(stage(numbers), impl=jax.random.key_impl(leaf))
    return stage(numbers)
