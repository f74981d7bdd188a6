"""What Reduction A saves: its whole time, compilation included, against training on tokens."""

import subprocess
import sys
import time

import pytest

from solvable import shallow_icl as icl

TASK = icl.Task(dim=4, context=31)

# In a process of its own: nothing is compiled yet, and the peak memory is the run's.
FULL = """
import time, resource
import jax
jax.config.update("jax_enable_x64", True)
from solvable import shallow_icl as icl
began = time.perf_counter()
task = icl.Task(dim=4, context=31)
data = icl.sample(task, sequences={sequences}, seed=0)
run = icl.train(data, icl.{start!r}, lr={lr}, steps={steps}, units="code", seed=0)
run.loss.block_until_ready()
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""

RUNS = {
    "merged": (icl.merged(heads=8, scale=1e-6), 5000, 1e-3, 6001, 1 / 15),
    "separate": (icl.separate(heads=5, rank=1, scale=1e-2), 80000, 0.02, 10001, 1 / 300),
}


def a_step_on_tokens(start, sequences, lr):
    """Seconds of a step on tokens: a difference of two short runs, each compiled before."""
    data = icl.sample(TASK, sequences)
    few, many = 1, 6

    def run(steps):
        began = time.perf_counter()
        icl.train_brute(data, start, lr=lr, steps=steps, log_every=steps, units="code")
        return time.perf_counter() - began

    run(few), run(many)
    return (min(run(many) for _ in range(2)) - min(run(few) for _ in range(2))) / (many - few)


@pytest.mark.benchmark(group="shallow_icl")
@pytest.mark.parametrize("name", RUNS)
def test_a_published_run_from_nothing(name, benchmark):
    start, sequences, lr, steps, limit = RUNS[name]
    tokens = steps * a_step_on_tokens(start, sequences, lr)
    script = FULL.format(start=start, sequences=sequences, lr=lr, steps=steps)

    def fresh():
        out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
        return [float(word) for word in out.stdout.split()]

    seconds, memory = benchmark.pedantic(fresh, rounds=1)
    benchmark.extra_info |= {"seconds": seconds, "gib": memory, "ratio": seconds / tokens}
    print(f"\n{name}: {seconds:.2f} s, {memory:.2f} GiB; 1/{tokens / seconds:.0f} of the tokens")
    assert seconds / tokens <= limit
    assert memory <= 2.0


def of_a_power_flow(dim):
    """Seconds of merged attention's flow to t = 10¹⁸ on so many directions."""
    began = time.perf_counter()
    icl.power_flow(1.5, 1000.0, [1e9, 1e18], dim=dim)
    return time.perf_counter() - began


@pytest.mark.benchmark(group="shallow_icl")
def test_the_flow_on_a_power_law_costs_the_same_at_any_size(benchmark):
    few = min(of_a_power_flow(10**3) for _ in range(3))
    many = benchmark.pedantic(lambda: min(of_a_power_flow(10**8) for _ in range(3)), rounds=1)
    benchmark.extra_info |= {"seconds": many, "ratio": many / few}
    print(f"\n10⁸ directions to t = 10¹⁸: {many:.2f} s, {many / few:.1f} times 10³ directions")
    assert many < 5.0 * few
