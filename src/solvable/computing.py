"""How JAX computes: in double precision, with a compiler that adds up, remembering its code."""

import hashlib
import os
import tempfile
from importlib import metadata
from pathlib import Path

from . import compiler
from .caches import base_folder


def setup(*, cache: bool = True) -> None:
    """Double precision, and a cache of compiled code: one line before JAX is imported.

    Where the installed jaxlib needs it for right sums, ``XLA_FLAGS`` gets its flag, which works
    until JAX has computed something. XLA is kept from telling at length of the processor whenever
    it reloads code, which works until JAX is imported.

    Args:
        cache: keep compiled code on disk for the next time, as `compile_cache` does.

    >>> import solvable
    >>> solvable.setup(cache=False)
    """
    compiler.repair()
    if cache:
        quieten()
    import jax

    jax.config.update("jax_enable_x64", True)
    if cache:
        compile_cache()


def quieten() -> None:
    """Keep XLA from talking; must come before JAX is imported, here or in a child process."""
    # On x86, XLA takes two tuning hints of its own for instructions that the processor lacks, and
    # says so at length for whatever it reloads (jax-ml/jax#38445).
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def compile_cache(folder: str | os.PathLike[str] | None = None) -> str:
    """Keep what JAX compiles on disk, and use what is there.

    Args:
        folder: where; ``$SOLVABLE_CACHE``, else ``solvable`` in the user's cache folder. Within it
            other compilers and other processors have other folders.

    Returns:
        Why there is no cache: "" unless the folder cannot be written.
    """
    import jax

    place = cache_folder(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        return f"{place} cannot be written ({error.strerror})"
    jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", str(place))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return ""


def cache_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Where compiled code is kept; other compilers and other processors have other folders."""
    flags = hashlib.sha256(compiler.cpu_flags().encode()).hexdigest()[:12]
    base = base_folder() if folder is None else Path(folder).absolute()
    return base / f"jaxlib-{metadata.version('jaxlib')}-{flags}"
