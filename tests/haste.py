"""Compiling in haste what only the tests compile: a third sooner, for what soon is computed."""

import functools

import jax

jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
