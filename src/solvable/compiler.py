"""Whether JAX's compiler adds up: asked by trying, as no list of versions can know.

Every jaxlib from 0.10.2 to 0.12.0.1 hands reductions on a CPU to a library (YNNPACK) that takes two
`expm1`, or two `log1p`, of different arguments for one and the same, so that their difference sums
to 0; 0.10.2 also mixes up the rows of long products (jax-ml/jax#39103). `REPAIR` is XLA's flag
against it, and `repair` sets it where it is known to exist: XLA ends a process that has a flag
which it does not know.
"""

import contextlib
import functools
import hashlib
import os
import platform
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .caches import base_folder

if TYPE_CHECKING:
    import numpy as np

REPAIR = "--xla_cpu_experimental_ynn_fusion_type="
_FIRST, _LAST = (0, 10, 2), (0, 12, 0, 1)  # the releases that need the flag, and take it


class BrokenCompiler(RuntimeError):
    """JAX's compiler returns wrong numbers here."""


def repair() -> None:
    """Switch the faulty reductions off; of use only before JAX has compiled anything."""
    flags = os.environ.get("XLA_FLAGS", "")
    if _FIRST <= _release() <= _LAST and REPAIR.rstrip("=") not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {REPAIR}".strip()


def check(device: Any = None) -> None:
    """Raise `BrokenCompiler` unless compiled sums are right on a device; the default one's if None.

    What passes is remembered in the cache folder for this jaxlib, its flags, device and processor.
    On another device than a CPU, a compiler for the CPU that fails is told once, as a warning.
    """
    import jax

    device = device or _default_device()
    _check_platform(device)
    if device.platform != "cpu":
        try:
            _check_platform(jax.devices("cpu")[0])
        except BrokenCompiler as error:
            warnings.warn(f"{error} (used only for what is placed on the CPU)", stacklevel=3)


def refuse_cpu(arguments: Any) -> None:
    """Raise `BrokenCompiler` if `arguments` are to be worked on by a CPU whose compiler fails."""
    import jax
    from jax.core import Tracer

    leaves = jax.tree.leaves(arguments)
    placed = (x for x in leaves if isinstance(x, jax.Array) and not isinstance(x, Tracer))
    if _default_device().platform == "cpu" or any(
        device.platform == "cpu" for x in placed if x.committed for device in x.devices()
    ):
        _check_platform(jax.devices("cpu")[0])


def cpu_fails() -> bool:
    """Whether the CPU's compiler has been seen to fail in this process."""
    return any(where[0] == "cpu" and error for where, error in _seen.items())


_seen: dict[tuple[str, str], str] = {}  # (platform, kind of device) → what is wrong, if anything


def _default_device() -> Any:
    import jax

    chosen: Any = getattr(jax.config, "jax_default_device", None)
    if isinstance(chosen, str):
        return jax.devices(chosen)[0]
    return jax.devices()[0] if chosen is None else chosen


def _check_platform(device: Any) -> None:
    where = (device.platform, device.device_kind)
    if where not in _seen:
        mark = _mark(device)
        if mark.exists():
            _seen[where] = ""
        else:
            # In a thread of its own: this one may be tracing a user's function.
            with ThreadPoolExecutor(1) as thread:
                error = thread.submit(_largest_error, device).result()
            _seen[where] = _complaint(device) if error > _ALLOWED else ""
            if not _seen[where]:
                _remember(mark)
    if _seen[where]:
        raise BrokenCompiler(_seen[where])


def _complaint(device: Any) -> str:
    where = "a CPU" if device.platform == "cpu" else f"{device.platform} ({device.device_kind})"
    flag = _FIRST <= _release() <= _LAST and device.platform == "cpu"
    cure = "call solvable.setup() before JAX computes anything, or " if flag else ""
    given = [word for word in os.environ.get("XLA_FLAGS", "").split() if word.startswith(REPAIR)]
    if flag and given and given[-1] != REPAIR:
        cure = f"let {REPAIR} have no value in XLA_FLAGS, or "
    return (
        f"jaxlib {metadata.version('jaxlib')} silently returns wrong sums on {where} "
        f"(jax-ml/jax#39103); {cure}install a release that is right: "
        "pip install jax==0.10.1 jaxlib==0.10.1"
    )


@functools.cache
def _release() -> tuple[int, ...]:
    digits = metadata.version("jaxlib").split("+")[0].split(".")
    return tuple(int(part) for part in digits if part.isdigit())


# Sums of 16 to 500 terms in single precision; what is broken is off by all of it.
_ALLOWED = 1e-4


def _largest_error(device: Any) -> float:
    """The largest error of the known cases, relative to each's largest sum: 1e-6 where all is well.

    They are compiled as one function, each on an argument of its own, as they would be alone.
    """
    import jax
    import numpy as np

    arguments = _arguments()
    compiled = jax.jit(lambda *given: [case(m) for case, m in zip(_cases(), given, strict=True)])
    with jax.enable_x64(True):
        found = compiled(*(jax.device_put(m, device) for m in arguments))
    errors = []
    for case, m, sums in zip(_cases(np), arguments, found, strict=True):
        true = case(m.astype(float))
        errors.append(np.max(np.abs(np.asarray(sums) - true)) / np.max(np.abs(true)))
    worst = float(np.max(errors))
    return worst if np.isfinite(worst) else np.inf


def _arguments() -> "list[np.ndarray]":
    import numpy as np

    numbers = np.random.default_rng(0).uniform(-0.7, 0.7, (500, 16))
    # jax-ml/jax#39103, past the 2^14th row; a GPU multiplies single precision in 10 bits.
    count = np.arange(16_385.0)
    rows = np.stack([count, np.zeros_like(count), np.zeros_like(count)], axis=1)
    return [numbers, numbers.astype(np.float32), rows]


def _cases(xp: Any = None) -> list[Callable[[Any], Any]]:
    """What is known to go wrong, in JAX, or in numpy for comparison."""
    import jax.numpy as jnp

    xp = jnp if xp is None else xp

    def odd(function: Callable[[Any], Any], axis: int) -> Callable[[Any], Any]:
        return lambda m: xp.sum(function(m) - function(-m), axis=axis)

    def squares(rows: Any) -> Any:
        return xp.sum((rows @ xp.eye(3, dtype=rows.dtype)) ** 2, axis=1)

    return [odd(xp.expm1, 1), odd(xp.log1p, 0), squares]


def _mark(device: Any) -> Path:
    """The file that says that this compiler has passed."""
    from jaxlib import xla_client

    # The options as XLA has read them: a flag set too late is not among them.
    options = xla_client.CompileOptions().SerializeAsString()
    words = (
        metadata.version("jaxlib"),
        device.platform,
        device.device_kind,
        device.client.platform_version,
        cpu_flags(),
        options.hex(),
        Path(__file__).read_text(),
    )
    name = hashlib.sha256("\n".join(words).encode()).hexdigest()[:24]
    return base_folder() / "compilers" / f"{device.platform}-{name}"


def _remember(mark: Path) -> None:
    with contextlib.suppress(OSError):  # then it is tried again next time
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text("compiled sums are right\n")


def cpu_flags() -> str:
    """What the processor can do: code compiled for more than that would crash."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    flags = (line for line in lines if line.startswith(("flags", "Features")))
    return next(flags, platform.processor())
