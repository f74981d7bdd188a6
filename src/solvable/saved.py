"""Runs on disk, from which training goes on bit for bit: a Zarr store each.

The store holds the dataset that `Run.to_xarray` gives, for every reader of Zarr, and beside it, in
the group "state", the arrays of the state in their order.
"""

import hashlib
import json
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
from .stores import RUN, found, is_run, quiet, replaced
from .training import R, Run, Training, variables


def save(run: Run, path: str | Path, attrs: Mapping[str, str] = {}) -> None:
    """Write a run, whole or not at all; one that was saved there is replaced.

    Args:
        run: of any training, also one that was interrupted.
        path: a new folder, or that of a saved run.
        attrs: more words that are kept with it; `attributes` gives them back.
    """
    import zarr

    path = found(path)
    if path.exists() and not is_run(path):
        raise ValueError(f"save must be a new path or a saved run, not {path}")
    arrays = {name: np.asarray(array) for name, _, array in variables(run)}
    leaves = [_numbers(leaf) for leaf in jax.tree.leaves(run.state)]
    dataset = run.to_xarray().assign_attrs(
        {**attrs, "status": run.status},
        solvable=RUN,
        saved=dict(attrs),
        digest=_digest(arrays, leaves, run.origin),
    )

    def make(new: Path) -> None:
        with quiet(), zarr.config.set({"array.write_empty_chunks": True}):
            dataset.to_zarr(new, mode="w", consolidated=False)
            state = zarr.open_group(new, mode="a").create_group("state")
            for k, leaf in enumerate(leaves):
                state.create_array(str(k), data=leaf)
            zarr.consolidate_metadata(str(new))

    replaced(path, make)


def load(path: str | Path, training: Training[R]) -> R:
    """A saved run as `training` labels it, for its `resume`.

    Raises:
        ValueError: if there is no saved run, if it is damaged, or if its arrays are not those of
            such a training. That it is of another problem is what `resume` says.
    """
    path = found(path)
    about = _attributes(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is amiss is told in one sentence
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
    return dict(_attributes(found(path)).get("saved", {}))


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


def _attributes(path: Path) -> dict[str, Any]:
    """All that a saved run says of itself, or an error."""
    if not path.exists():
        raise ValueError(f"there is no saved run in {path}")
    if not is_run(path):
        raise ValueError(f"{path} is no saved run")
    return json.loads((path / "zarr.json").read_text())["attributes"]


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
