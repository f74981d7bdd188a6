"""What five scalars save: whole published runs, compilation included, against vectors in R^d."""

import subprocess
import sys
import time

import pytest

from solvable import single_location as sl

# In a process of its own: nothing is compiled yet.
FULL = """
import time
import jax
jax.config.update("jax_enable_x64", True)
from solvable import single_location as sl
began = time.perf_counter()
task = sl.Task(dim={dim}, length=10, noise={noise})
run = sl.train(task, sl.sphere(task, runs=30), lam=sl.decay({lam}, 1e-4), **{options})
run.loss.block_until_ready()
print(time.perf_counter() - began)
"""

RUNS = {
    "fig4a": (400, 0.0, 1.0, {"lr": 4e-3, "steps": 120_000, "log_every": 300}, 1 / 2),
    "fig5": (80, 0.1, 2.0, {"lr": 1e-3, "steps": 200_000, "log_every": 500, "batch": 5}, 1 / 4),
}


def a_step_in_all_of_space(task, lam, options):
    """Seconds of a step of 30 runs: a difference of two short runs, each compiled before."""
    options = {name: x for name, x in options.items() if name not in ("steps", "log_every")}
    start = sl.sphere(task, runs=30)

    def run(steps):
        began = time.perf_counter()
        sl.train_brute(task, start, lam=lam, steps=steps, log_every=steps, **options)
        return time.perf_counter() - began

    few, many = 10, 210
    run(few), run(many)
    return (min(run(many) for _ in range(2)) - min(run(few) for _ in range(2))) / (many - few)


@pytest.mark.benchmark(group="single_location")
@pytest.mark.parametrize("name", RUNS)
def test_a_published_figure_from_nothing(name, benchmark):
    dim, noise, lam, options, limit = RUNS[name]
    task = sl.Task(dim=dim, length=10, noise=noise)
    full = options["steps"] * a_step_in_all_of_space(task, sl.decay(lam, 1e-4), options)
    script = FULL.format(dim=dim, noise=noise, lam=lam, options=options)

    def fresh():
        out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
        return float(out.stdout)

    seconds = benchmark.pedantic(fresh, rounds=1)
    benchmark.extra_info |= {"seconds": seconds, "ratio": seconds / full}
    print(f"\n{name}: {seconds:.1f} s; 1/{full / seconds:.0f} of the vectors' {full:.0f} s")
    assert seconds / full <= limit
