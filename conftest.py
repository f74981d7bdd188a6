"""Float64, strict dtypes and checked shapes for every test and doctest, in `tests` and in `src`."""

import os

import hypothesis
import jax
from jaxtyping import install_import_hook

# Before the first import of solvable, so that every annotation in it is enforced.
install_import_hook("solvable", "beartype.beartype")

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

hypothesis.settings.register_profile("local", deadline=None, max_examples=40)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")
