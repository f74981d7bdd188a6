"""How JAX computes for the command line: in double precision, and remembering what it compiled."""

import hashlib
import os
import platform
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .arguments import Flag
from .screen import note


@dataclass(frozen=True)
class ComputeOptions:
    """How it is computed."""

    compile_cache: Flag = True
    """neither reuse nor keep compiled code ($SOLVABLE_CACHE, else ~/.cache/solvable)"""

    def quieten(self) -> None:
        """Keep XLA from talking; must come before JAX is imported, here or in a child process."""
        if self.compile_cache:
            # On x86, XLA takes two tuning hints of its own for instructions that the processor
            # lacks, and says so at length for whatever it reloads (jax-ml/jax#38445).
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

    def prepare(self) -> None:
        """Configure JAX; must come before anything is compiled."""
        self.quieten()
        import jax

        jax.config.update("jax_enable_x64", True)
        if not self.compile_cache:
            jax.config.update("jax_enable_compilation_cache", False)
            return
        folder = cache_folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            note(f"compiling without a cache: {folder} cannot be written ({error.strerror})")
            return
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def cache_folder() -> Path:
    """Where compiled code is kept; other compilers and other processors have other folders."""
    from importlib.metadata import version

    from ..caches import base_folder

    flags = hashlib.sha256(_cpu_flags().encode()).hexdigest()[:12]
    return base_folder() / f"jaxlib-{version('jaxlib')}-{flags}"


def _cpu_flags() -> str:
    """What the processor can do: code compiled for more than that would crash."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    flags = (line for line in lines if line.startswith(("flags", "Features")))
    return next(flags, platform.processor())
