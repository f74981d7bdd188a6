"""How JAX computes for the command line: as `solvable.setup` has it, and silently."""

from dataclasses import dataclass

from .. import compiler, computing
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
            computing.quieten()

    def prepare(self) -> None:
        """Configure JAX; must come before anything is compiled."""
        self.quieten()
        computing.setup(cache=False)
        if self.compile_cache:
            reason = computing.compile_cache()
            if reason:
                note(f"compiling without a cache: {reason}")
        else:
            import jax

            jax.config.update("jax_enable_compilation_cache", False)
        compiler.check()
