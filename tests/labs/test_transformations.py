"""Every public function of theory under `jit`, `vmap` and `grad`, at one legal point.

A lab's module has `TRACED`, by name (function of keyword numbers, the point), and `HOST`, by name
(the same) for what is worked out on the host: that says so in one sentence when it is traced.
`NUMBERS` names the public functions and classes of neither kind.
"""

import importlib
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import haste

from . import LABS

pytestmark = pytest.mark.slow

MODULES = {lab: importlib.import_module(f"tests.labs.{lab}") for lab in LABS}


def every(table):
    return [
        pytest.param(*case, id=f"{lab}.{name}")
        for lab, module in MODULES.items()
        for name, case in getattr(module, table).items()
    ]


def numbers(out):
    """The floating-point arrays of what a function gives."""
    leaves = [jnp.asarray(x) for x in jax.tree.leaves(out) if not isinstance(x, str)]
    return [x for x in leaves if jnp.issubdtype(x.dtype, jnp.floating)]


def assert_close(found, wanted, words):
    assert len(found) == len(wanted) > 0
    for x, y in zip(found, wanted, strict=True):
        scale = np.max(np.abs(y), initial=0.0, where=np.isfinite(y)) or 1.0
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12 * scale, err_msg=words)


@pytest.mark.parametrize(("function", "point"), every("TRACED"))
def test_theory_works_under_jit_vmap_and_grad(function, point):
    point = {name: jnp.asarray(value, float) for name, value in point.items()}
    plain = numbers(function(**point))

    def total(point):
        values = numbers(function(**point))
        return sum(jnp.sum(x) for x in values), values

    # All three in one program: compiling is what this costs.
    together = haste.jit(jax.vmap(jax.grad(total, has_aux=True)))
    slopes, batch = together({name: np.stack([value, value]) for name, value in point.items()})
    for row in (0, 1):
        assert_close([np.asarray(x)[row] for x in batch], plain, "jit, vmap and grad")
    for name, slope in slopes.items():
        assert np.isfinite(slope).all(), name


@pytest.mark.parametrize(("function", "point"), every("HOST"))
def test_what_is_worked_out_on_the_host_says_so(function, point):
    assert len(jax.tree.leaves(function(**point))) > 0
    for transform in (jax.jit, jax.grad):
        with pytest.raises(ValueError, match=r"cannot be traced by JAX \(jit, vmap, grad\)"):
            transform(lambda point: function(**point))(
                {name: jnp.asarray(value, float) for name, value in point.items()}
            )


@pytest.mark.parametrize("lab", LABS)
def test_no_public_function_is_forgotten(lab):
    package = importlib.import_module(f"solvable.{lab}")
    public = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and callable(value) and not inspect.ismodule(value)
    }
    module = MODULES[lab]
    told = {name.split(",")[0] for name in (*module.TRACED, *module.HOST)} | set(module.NUMBERS)
    assert told == public
