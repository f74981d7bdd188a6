"""`jit` for this library: a compiler that was tried, and code that is forgotten before it is much.

Linux allows a process 65 530 memory maps (``vm.max_map_count``), of which compiled code takes 3 to
600 a function; past them LLVM fails and the process dies. So above a share of them the library
forgets what it has compiled, and compiles again what is needed again. What others have compiled
is theirs.
"""

import functools
import gc
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import equinox as eqx
import jax
import jax.monitoring
import numpy as np

from . import compiler

F = TypeVar("F", bound=Callable[..., Any])

_MAPS, _LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
_SHARE = 0.6  # of the maps that may be in use before code is forgotten
_LOOK = 50  # compilations between two looks at them

_ours: "weakref.WeakSet[Any]" = weakref.WeakSet()
_state = {"compiled": 0, "looked": 0, "checked": False, "beware_cpu": False}


def _count(event: str, duration_secs: float, **_: str | int) -> None:
    _state["compiled"] += event.endswith("backend_compile_duration")


jax.monitoring.register_event_duration_secs_listener(_count)


@overload
def jit(function: F, *, static_argnames: str | Sequence[str] = ..., filtered: bool = ...) -> F: ...


@overload
def jit(
    *, static_argnames: str | Sequence[str] = ..., filtered: bool = ...
) -> Callable[[F], F]: ...


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Sequence[str] = (),
    filtered: bool = False,
) -> Any:
    """`jax.jit`, or equinox's `filter_jit`, of a function of this library.

    Args:
        function: what is compiled; without it a decorator is returned.
        static_argnames: arguments whose values are compiled in.
        filtered: arguments are pytrees of which only arrays are traced.

    >>> import jax.numpy as jnp
    >>> twice = jit(lambda x: 2.0 * x)
    >>> twice(jnp.asarray(3.0)).item()
    6.0
    """
    if function is None:
        return functools.partial(jit, static_argnames=static_argnames, filtered=filtered)
    if filtered:
        compiled: Any = eqx.filter_jit(function)
        memory = compiled._cached  # equinox has no door to it
    else:
        compiled = memory = jax.jit(function, static_argnames=static_argnames)

    _ours.add(memory)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        prepare((args, kwargs))
        return compiled(*args, **kwargs)

    return call


def stage(value: Any) -> jax.Array:
    """Numbers of the host as a JAX array, which can be looked at inside of `jit`, too.

    `jnp.asarray` would compile a program for every shape.
    """
    if isinstance(value, jax.Array):
        return value
    with jax.ensure_compile_time_eval():
        return jax.device_put(np.asarray(value))


def prepare(arguments: Any = ()) -> None:
    """What comes before compiled code is run: a compiler that was tried, and room for its code."""
    if not _state["checked"]:
        compiler.check()
        _state["checked"] = True
        _state["beware_cpu"] = compiler.cpu_fails()
    if _state["beware_cpu"]:
        compiler.refuse_cpu(arguments)
    if _state["compiled"] - _state["looked"] >= _LOOK:
        _state["looked"] = _state["compiled"]
        if maps_in_use() > _SHARE * maps_allowed():
            forget()


def forget() -> None:
    """Forget what this library has compiled; it is compiled again when it is needed."""
    for memory in list(_ours):
        memory.clear_cache()
    gc.collect()


def maps_in_use() -> int:
    """The memory maps of this process; 0 where the system does not tell."""
    try:
        with _MAPS.open("rb") as maps:
            return sum(1 for _ in maps)
    except OSError:
        return 0


def maps_allowed() -> float:
    """How many memory maps a process may have; infinity where the system does not tell."""
    try:
        return float(_LIMIT.read_text())
    except (OSError, ValueError):
        return float("inf")
