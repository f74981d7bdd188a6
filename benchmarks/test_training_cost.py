"""What the exact reductions save: their time in units of the training on tokens, in one run."""

import time

import jax
import optax
import pytest

from solvable import msfr

STEPS, DATA = 5000, 64


def seconds(work, rounds):
    """The least wall time of `work`, after one call that compiles."""
    jax.block_until_ready(work())
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        jax.block_until_ready(work())
        best = min(best, time.perf_counter() - began)
    return best


def on_tokens(task, init, few, many, **options):
    """Seconds of STEPS steps on tokens: a difference of two short runs, without their log.

    `many` steps must take much longer than the log, or its noise is all that is measured.
    """

    def run(steps):
        return lambda: (
            msfr.train_brute(task, init, steps=steps, log_every=steps, data=DATA, **options).loss
        )

    short, long = (seconds(run(steps), rounds=3) for steps in (few, many))
    return (long - short) * STEPS / (many - few)


def reduced(task, init, **options):
    return lambda: jax.block_until_ready(
        msfr.train(task, init, steps=STEPS, log_every=STEPS, data=DATA, **options).loss
    )


def judge(benchmark, work, tokens, limit):
    benchmark.pedantic(work, rounds=5, warmup_rounds=1)
    ratio = benchmark.stats.stats.min / tokens
    benchmark.extra_info["ratio"] = ratio
    print(f"\nreduced / tokens = 1/{1 / ratio:.0f} ({tokens:.0f} s on tokens)")
    assert ratio <= limit


@pytest.mark.benchmark(group="training")
def test_linear_attention_by_gradient_descent(benchmark):
    """The paper's size: 500 tasks, contexts of 100, 5000 steps."""
    task, init, options = msfr.Task(500, 1.8, 100, 0.5), msfr.Init(0.1, 0.11), {"lr": 1e-3}
    tokens = on_tokens(task, init, 2, 302, **options)
    judge(benchmark, reduced(task, init, **options), tokens, 1 / 1000)


@pytest.mark.benchmark(group="training")
def test_softmax_attention_by_adamw(benchmark):
    """100 tasks, contexts of 50: at the paper's size one log point on tokens takes minutes."""
    task, init = msfr.Task(100, 1.8, 50, 0.5), msfr.SoftmaxInit(0.1, 0.1, 0.11)
    options = {"optimizer": optax.adamw(5e-3, weight_decay=1e-5)}
    tokens = on_tokens(task, init, 2, 302, **options)
    judge(benchmark, reduced(task, init, **options), tokens, 1 / 20)
