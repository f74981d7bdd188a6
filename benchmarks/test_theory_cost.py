"""What the closed forms cost, in units of each other, in one run."""

import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from solvable import msfr

TIMES = np.geomspace(1e-3, 1e5, 200)
INIT = msfr.Init(v=0.1, w=0.11)
GIB = 2**30


def law(num_tasks):
    return msfr.Task(num_tasks, 1.8, 100.0, 0.5)


def arrays(num_tasks):
    """The same tasks with a context each, so that all of them are summed."""
    return msfr.Task(num_tasks, 1.8, np.full(num_tasks, 100.0), 0.5)


def loss(task, order, init=INIT):
    return lambda: jax.block_until_ready(msfr.loss(task, init, TIMES, order))


def cpu(work):
    """CPU seconds of `work`, after one call."""
    work()
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.benchmark(group="many tasks")
@pytest.mark.parametrize("order", ["zeroth", "exact"])
def test_a_million_million_tasks_cost_what_a_thousand_do(benchmark, order):
    few = min(cpu(loss(law(10**3), order)) for _ in range(5))
    many = benchmark.pedantic(
        lambda: min(cpu(loss(law(10**12), order)) for _ in range(3)), rounds=3
    )
    benchmark.extra_info["10¹² / 10³ tasks"] = many / few
    print(f"\n{order}: 10¹² tasks × 200 times {1e3 * many:.0f} ms, {many / few:.1f} of 10³ tasks")
    assert many <= 20.0 * few


@pytest.mark.benchmark(group="many tasks")
def test_nodes_cost_a_fraction_of_the_sum(benchmark):
    """The same loss of 10⁵ tasks, by nodes and by all of them."""
    whole = min(cpu(loss(arrays(10**5), "zeroth")) for _ in range(2))
    few = benchmark.pedantic(lambda: cpu(loss(law(10**5), "zeroth")), rounds=5)
    benchmark.extra_info["nodes / all"] = few / whole
    print(f"\nnodes / all tasks = 1/{whole / few:.0f}")
    assert few <= whole / 4.0


FIRST = """
import resource, sys
import numpy as np
import solvable
solvable.setup(cache=False)
from solvable import msfr
task = msfr.Task(10**12, 1.8, 100.0, 0.5)
times = np.geomspace(1e-3, 1e9, 200)
before = resource.getrusage(resource.RUSAGE_SELF)
msfr.loss(task, msfr.Init(v=0.1, w=0.11), times, sys.argv[1])
after = resource.getrusage(resource.RUSAGE_SELF)
print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
"""


@pytest.mark.benchmark(group="many tasks")
@pytest.mark.parametrize("order", ["zeroth", "exact"])
def test_the_first_loss_of_a_process_compiles_nothing(benchmark, order):
    """In units of a second call's: compiling took 600 of them."""

    def first():
        command = [sys.executable, "-c", FIRST, order]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    again = min(cpu(loss(law(10**12), order)) for _ in range(3))
    found = benchmark.pedantic(first, rounds=1)
    benchmark.extra_info["first / again"] = found / again
    print(f"\n{order}: first call {found:.2f} CPU-s, {found / again:.1f} of a second one")
    assert found <= 15.0 * again


def seconds(work, rounds):
    """The least wall time of `work`, after one call that compiles."""
    work()
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


@pytest.mark.benchmark(group="order zero")
def test_order_zero_is_linear_in_the_tasks(benchmark):
    single = seconds(loss(arrays(10**5), "zeroth"), rounds=5)
    benchmark.pedantic(loss(arrays(2 * 10**5), "zeroth"), rounds=5, warmup_rounds=1)
    ratio = benchmark.stats.stats.min / single
    benchmark.extra_info["ratio"] = ratio
    print(f"\n2·10⁵ / 10⁵ tasks = {ratio:.2f}")
    assert 1.6 <= ratio <= 2.5


@pytest.mark.benchmark(group="order zero")
def test_order_zero_costs_a_few_exponentials(benchmark):
    """Both in CPU time, over as many elements."""
    elements = jax.device_put(np.linspace(0.0, 1.0, 10**5 * len(TIMES)).reshape(10**5, -1))
    add = jax.jit(lambda x: jax.numpy.sum(jax.numpy.exp(-x), axis=0))

    unit = min(cpu(lambda: jax.block_until_ready(add(elements))) for _ in range(3))
    whole = benchmark.pedantic(lambda: cpu(loss(arrays(10**5), "zeroth")), rounds=3)
    benchmark.extra_info["order zero / exp and sum"] = whole / unit
    print(f"\norder zero / exp and sum = {whole / unit:.1f}")
    assert whole <= 8.0 * unit


MEMORY = """
import resource, sys
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
from solvable import msfr
task = msfr.Task(int(sys.argv[1]), 1.8, np.full(int(sys.argv[1]), 100.0), 0.5)
times = np.geomspace(1e-3, 1e5, 200)
msfr.loss(task, msfr.Init(v=0.1, w=0.11), times, "zeroth").block_until_ready()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)  # Linux counts in KiB
"""


@pytest.mark.benchmark(group="order zero")
def test_order_zero_fits_in_memory_at_a_million_tasks(benchmark):
    """10⁶ × 200 doubles are 1.5 GiB by themselves: the sum must be streamed."""

    def peak():
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, "1000000"], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    most = benchmark.pedantic(peak, rounds=1)
    whole = 10**6 * len(TIMES) * 8
    benchmark.extra_info["peak / (tasks × times × 8)"] = most / whole
    print(f"\npeak {most / GIB:.2f} GiB, {most / whole:.2f} of the array of residuals")
    assert most < 2 * GIB


@pytest.mark.benchmark(group="exact")
def test_tasks_that_share_everything_share_one_exact_flow(benchmark):
    """Both in units of order zero at the same size."""
    size = 10**5
    unit = seconds(loss(law(size), "zeroth"), rounds=3)
    apart = msfr.Init(np.full((size, 2), 0.1), np.full((size, 2), 0.11))  # equal, but not known so
    general = seconds(loss(law(size), "exact", apart), rounds=1)
    benchmark.pedantic(loss(law(size), "exact"), rounds=3, warmup_rounds=1)
    shared = benchmark.stats.stats.min
    benchmark.extra_info |= {"shared / zero": shared / unit, "general / zero": general / unit}
    print(f"\nin units of order zero: shared {shared / unit:.2f}, general {general / unit:.1f}")
    assert shared <= 0.25 * general
