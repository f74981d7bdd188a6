from tests.command import jax_settings, solvable

__all__ = ["jax_settings", "solvable"]
