"""What one evaluation of the deterministic equivalent costs, against contexts that are drawn."""

import time

import jax
import numpy as np
import pytest

from solvable import deep_icl as deep

TASK = deep.RotatedStructure(nu=1.25, beta=1.0, dim=200, width=60, context=100)
DEPTHS = list(range(1, 33))
SHAPES = [(64, None), (256, None), (64, 128), (None, 128)]


def warm(function):
    """The best of several runs, once compiled."""
    function()
    spent = []
    for _ in range(8):
        began = time.perf_counter()
        function()
        spent.append(time.perf_counter() - began)
    return min(spent)


@pytest.mark.benchmark(group="deep_icl")
def test_all_depths_of_the_equivalent(benchmark):
    def once():
        return jax.block_until_ready(deep.loss(TASK, step_size=0.18, depth=DEPTHS))

    once()
    benchmark.pedantic(once, rounds=10)
    # As many contexts as give the same losses to 1 %.
    began = time.perf_counter()
    deep.draw_spectra(TASK, 60).loss(step_size=0.18, depth=[32])
    drawn = time.perf_counter() - began
    ratio = warm(once) / drawn
    benchmark.extra_info |= {"ratio": ratio}
    print(f"\n1/{1.0 / ratio:.0f} of 60 drawn contexts ({drawn:.2f} s)")
    assert ratio < 1.0 / 3.0


@pytest.mark.benchmark(group="deep_icl")
def test_a_flow_costs_as_much_as_few_evaluations(benchmark):
    """One evaluation of the resolvents serves every γ on the way."""
    t = np.geomspace(1e-2, 1e4, 50)

    def flow():
        return jax.block_until_ready(deep.loss_curve(TASK, t, 32))

    def one():
        return jax.block_until_ready(deep.loss(TASK, gamma=40.0, depth=32))

    benchmark.pedantic(flow, rounds=3)
    ratio = warm(flow) / warm(one)
    benchmark.extra_info |= {"ratio": ratio}
    print(f"\na flow at 50 times: {ratio:.1f} evaluations")
    assert ratio < 100.0


@pytest.mark.benchmark(group="deep_icl")
@pytest.mark.parametrize(("width", "context"), SHAPES)
def test_the_optimum_at_512_directions(width, context, benchmark):
    task = deep.RotatedStructure(nu=1.25, beta=0.8, dim=512, width=width, context=context)
    deep.optimum(task, depth=32)
    benchmark.pedantic(lambda: deep.optimum(task, depth=32), rounds=3)

    def landscape():
        steps = np.linspace(0.1, 2.0, 40) / deep.edge(task).item()
        return jax.block_until_ready(deep.loss(task, step_size=steps, depth=32))

    ratio = warm(lambda: deep.optimum(task, depth=32)) / warm(landscape)
    benchmark.extra_info |= {"ratio": ratio}
    print(f"\noptimum: {ratio:.2f} of a landscape of 40 steps")
    assert ratio < 2.0
