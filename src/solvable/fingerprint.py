"""What a training run depends on, in words: runs are of one problem if all of them agree."""

import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

# Where a function of the step is looked at, beside its program: another one gives other values.
_STEPS = np.array([0, *(n * 10**k for k in range(9) for n in (1, 2, 5))])


def fingerprint(**fields: Any) -> dict[str, str]:
    """Every number and option of a problem, by name; what is large by a digest.

    Dataclasses and mappings are told field by field, arrays by type, shape and the SHA-256 of
    their bytes, functions of the step by their values, optax optimisers by the program that an
    update is.

    >>> fingerprint(kind="msfr.train", task={"context": 9.0, "alpha": 1.8}, batch=None)
    {'kind': 'msfr.train', 'task.context': '9', 'task.alpha': '1.8', 'batch': 'none'}
    """
    words: dict[str, str] = {}
    for name, value in fields.items():
        _tell(name, value, words)
    return words


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """The first field in which two problems differ, with both values; "" if there is none.

    >>> difference({"task.context": "9"}, {"task.context": "20"})
    'its task.context is 9, here it is 20'
    """
    for name in {**new, **old}:
        before, after = old.get(name, "none"), new.get(name, "none")
        if before != after:
            return f"its {name} is {before}, here it is {after}"
    return ""


def _tell(name: str, value: Any, words: dict[str, str]) -> None:
    if value is None:
        words[name] = "none"
    elif isinstance(value, Mapping):
        for part, inner in value.items():
            _tell(f"{name}.{part}", inner, words)
    elif hasattr(value, "init") and hasattr(value, "update"):  # optax's transformations
        words[name] = program_of(value, jnp.zeros(2, jnp.result_type(float)))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        words[name] = type(value).__name__
        for field in dataclasses.fields(value):
            _tell(f"{name}.{field.name}", getattr(value, field.name), words)
    elif isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        words[name] = _array(np.asarray(jax.random.key_data(value)))
    elif isinstance(value, str):
        words[name] = value
    elif callable(value):
        with jax.numpy_dtype_promotion("standard"):  # a user's own function
            seen = eqx.filter_jit(jax.vmap(value))(_STEPS)
            program = _program(value, jnp.asarray(0))
        words[name] = f"a function of the step, {_array(np.asarray(seen))} {program}"
    else:
        words[name] = _array(np.asarray(value))


def _array(value: np.ndarray) -> str:
    """A number as it is; several by type, shape and digest, alike on every machine."""
    if value.dtype == object:
        if not all(isinstance(entry, int) for entry in value.flat):
            raise TypeError(f"no fingerprint of {value!r}")
        return str(value.tolist())  # seeds beyond 64 bits
    if value.size == 1 and value.ndim == 0:
        return repr(value.item()).removesuffix(".0")
    if value.ndim == 1 and value.size <= 4:
        return "[" + ", ".join(_array(entry) for entry in map(np.asarray, value)) + "]"
    plain = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
    digest = hashlib.sha256(plain.tobytes()).hexdigest()[:16]
    return f"{value.dtype.name}{list(value.shape)} {digest}"


def program_of(optimizer: Any, weights: Any) -> str:
    """The digest of what an update of these weights is: constants are hidden in closures.

    An optimiser may be made for weights of one shape, such as one that holds some of them.
    """
    with jax.numpy_dtype_promotion("standard"):
        memory = optimizer.init(weights)
        program = _program(optimizer.update, weights, memory, weights)
    kept = "|".join(_array(np.asarray(x)) for x in jax.tree.leaves(memory))
    return f"optax {hashlib.sha256(f'{program}|{kept}'.encode()).hexdigest()[:16]}"


def _program(function: Any, *args: Any) -> str:
    """The digest of a function's program, with all constants that it and its parts hold."""
    program = jax.make_jaxpr(function)(*args)
    text = re.sub(r"0x[0-9a-f]+", "", str(program.jaxpr))
    held = (_array(np.asarray(x)) for x in _constants(program))
    return hashlib.sha256("|".join([text, *held]).encode()).hexdigest()[:16]


def _constants(program: Any) -> Iterator[Any]:
    """Those of a closed program and of every program that it calls."""
    yield from getattr(program, "consts", ())
    for equation in getattr(program, "jaxpr", program).eqns:
        for value in jax.tree.leaves(equation.params, is_leaf=lambda x: hasattr(x, "eqns")):
            if hasattr(value, "eqns"):
                yield from _constants(value)
