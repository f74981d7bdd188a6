"""Softmax attention: how it leaves a small start, and training at varied lengths."""

from types import SimpleNamespace

import numpy as np
import pytest

from solvable import shallow_icl as icl
from solvable.shallow_icl.figures import fig5

LAW, HEADS, P = {"dim": 2, "context": 4}, 2, 12
LAWS = {
    "plain": icl.Task(**LAW),
    "varied": icl.Task(**LAW, lengths="varied"),
    "outputs": icl.Task(**LAW, outputs=2),
}
TINY = 1e-30  # an imaginary step: its derivative has no cancellation


def sequences(data):
    """Every sequence at every length, one by one: tokens with the query last, and the target."""
    x, y, target = map(np.asarray, (data.x, data.y, data.target))
    longest = data.task.context
    for m in range(1 if data.task.lengths == "varied" else longest, longest + 1):
        for p in range(len(x)):
            shown = np.concatenate([y[p, :m], np.zeros((1, y.shape[2]))])
            yield np.concatenate([x[p, : m + 1], shown], axis=1), target[p, m]


def written_out(data, weights):
    """The loss, a sequence and a head at a time, with nothing padded; weights may be complex."""
    terms = []
    for tokens, target in sequences(data):
        query, guess = tokens[-1, : data.task.dim], 0.0
        for h, value in enumerate(weights["value"]):
            if "key" in weights:
                inner = weights["key"][h].T @ weights["query"][h]
            else:
                inner = weights["key_query"][h]
            attention = np.exp(tokens @ inner @ query)
            guess = guess + value @ (attention @ tokens) / attention.sum()
        terms.append(np.mean((target - guess) ** 2))
    return np.mean(terms)


def slope(data, weights):
    """∂L/∂W by imaginary steps."""
    found = {}
    for name, x in weights.items():
        found[name] = np.zeros(x.shape)
        for place in np.ndindex(x.shape):
            moved = x.astype(complex)
            moved[place] += 1j * TINY
            found[name][place] = np.imag(written_out(data, weights | {name: moved})) / TINY
    return found


def flat(weights):
    """One row a head, as the modes are written."""
    return np.concatenate([x.reshape(len(x), -1) for x in weights.values()], axis=1)


def at(row, like):
    """The weights of a row of numbers."""
    rows, found, done = row.reshape(HEADS, -1), {}, 0
    for name, x in like.items():
        size = x[0].size
        found[name] = rows[:, done : done + size].reshape(x.shape)
        done += size
    return found


@pytest.mark.parametrize("law", LAWS)
def test_modes_are_the_eigenvectors_of_the_slopes_jacobian_at_zero(law):
    """By differences of the slope of the written-out loss: rates, modes and what drives them."""
    task = LAWS[law]
    data = icl.sample(task, P, seed=3)
    like = {
        "value": np.zeros((HEADS, task.outputs, task.features)),
        "key_query": np.zeros((HEADS, task.features, task.dim)),
    }

    def flow(row):  # τ dW/dt = −½ ∂L/∂W
        return -0.5 * flat(slope(data, at(row, like))).ravel()

    size, step = flat(like).size, 1e-3
    # The loss is even or odd to every order that matters: the next of a central difference is h².
    columns = [(flow(step * e) - flow(-step * e)) / (2.0 * step) for e in np.eye(size)]
    jacobian = np.array(columns)
    assert np.abs(jacobian - jacobian.T).max() < 1e-5
    modes = icl.softmax_modes(data, HEADS)
    assert modes.rate.size >= 2

    drive = flow(np.zeros(size))
    for rate, mode, amplitude in zip(modes.rate, modes.mode, modes.amplitude, strict=True):
        whole = np.tile(mode, HEADS)  # all heads alike
        np.testing.assert_allclose(jacobian @ whole, rate * whole, rtol=0, atol=3e-6)
        assert amplitude == pytest.approx(abs(whole @ drive) / HEADS / rate, rel=1e-5)
    opposite = np.concatenate([modes.apart_mode, -modes.apart_mode])
    np.testing.assert_allclose(jacobian @ opposite, modes.apart * opposite, rtol=0, atol=3e-6)
    # Nothing that grows is missing: all heads alike, or apart, where X̄ cancels.
    turn = np.kron([[1.0, 1.0], [1.0, -1.0]], np.eye(size // 2)) / 2**0.5
    turned = turn @ jacobian @ turn.T
    alike, apart = turned[: size // 2, : size // 2], turned[size // 2 :, size // 2 :]
    grown = np.linalg.eigvalsh(alike)[::-1]
    np.testing.assert_allclose(grown[: modes.rate.size], modes.rate, rtol=0, atol=3e-6)
    assert grown[modes.rate.size] < 3e-6
    assert np.linalg.eigvalsh(apart)[-1] == pytest.approx(modes.apart, abs=3e-6)


@pytest.mark.parametrize(
    ("sequences", "seed", "heads", "scale"),
    [
        (500, 0, 8, 8.7e-4),
        (2000, 0, 8, 1.1e-3),
        (2000, 1, 8, 3.4e-4),
        (5000, 0, 8, 2.1e-4),
        (5000, 1, 8, 1.2e-5),
        (5000, 2, 8, 6.4e-4),
        (8000, 0, 8, 8.9e-5),
        (2000, 0, 2, 5.6e-3),
        (2000, 0, 32, 5e-7),
    ],
)
def test_critical_scales_of_data_sets(sequences, seed, heads, scale):
    """Worked out apart from the package, to two digits and without the 1 in ln(1 + 1/A)."""
    data = icl.sample(icl.Task(4, 31), sequences, seed=seed, centred=True, whitened=True)
    assert icl.softmax_modes(data, heads).critical == pytest.approx(scale, rel=0.07)


def test_what_drives_all_heads_falls_with_the_number_of_sequences():
    """As P^-1/2, while the rates go to the population's: the slopes over 16 times as many."""
    task = icl.Task(4, 31)
    sizes, gaps = [], []
    for count in (500, 8000):
        found = [icl.softmax_modes(icl.sample(task, count, seed=s), 8) for s in range(12)]
        sizes.append(np.mean([np.linalg.norm(m.amplitude[:3]) for m in found]))
        gaps.append(np.mean([abs(m.apart - float(icl.softmax_rate(task))) for m in found]))
    slopes = np.log(np.divide([sizes[1], gaps[1]], [sizes[0], gaps[0]])) / np.log(16.0)
    # A mean over 12 sets is known within a fifth: .25/ln 16 is .1.
    np.testing.assert_allclose(slopes, -0.5, atol=0.2)


def test_nothing_drives_the_heads_together_on_symmetric_data():
    options = {"seed": 2, "centred": True, "whitened": True}
    task = icl.Task(4, 31)
    both = icl.sample(task, 80, antithetic=True, query_flip=True, **options)
    modes = icl.softmax_modes(both, 8)
    assert modes.amplitude.max() < 1e-14
    assert modes.critical < 1e-20
    one = icl.sample(task, 80, query_flip=True, **options)
    assert icl.softmax_modes(one, 8).critical > 1e-6


def test_weights_are_read_along_the_modes():
    data = icl.sample(LAWS["plain"], P, seed=3)
    modes = icl.softmax_modes(data, HEADS)
    along = [0.3, -0.2]
    mean = along[0] * modes.mode[0] + along[1] * modes.mode[1]
    rows = np.stack([mean + 0.5 * modes.apart_mode, mean - 0.5 * modes.apart_mode])
    value, inner = rows[:, :3].reshape(HEADS, 1, 3), rows[:, 3:].reshape(HEADS, 3, 2)
    apart, together = modes.along(value[..., None], inner[..., None])  # one log point
    np.testing.assert_allclose(apart[:, 0], [0.5, -0.5], atol=1e-14)
    np.testing.assert_allclose(together[:2, 0], along, atol=1e-14)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: icl.softmax_modes(icl.Task(2, 4), 2), "data must be shallow_icl.Sequences"),
        (lambda: icl.softmax_modes(icl.sample(icl.Task(2, 4), 9), 0), "heads must be"),
        (lambda: icl.softmax_modes(icl.sample(icl.Task(500, 1), 2), 2), "dim must be smaller"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("kind", ["merged", "separate", "outputs"])
def test_a_step_at_varied_lengths_is_that_of_every_length_alone(kind):
    """A step of training on tokens against imaginary steps of the written-out loss, no padding."""
    outputs = 2 if kind == "outputs" else 1
    task = icl.Task(**LAW, lengths="varied", noise=0.2, outputs=outputs)
    data = icl.sample(task, P, seed=5)
    if kind == "separate":
        start = icl.separate(HEADS, 1, 0.8, zero_blocks=False, attention="softmax")
    else:
        start = icl.merged(HEADS, 0.8, zero_blocks=False, attention="softmax")
    run = icl.train(data, start, lr=0.1, steps=1, log_every=1)
    names = ("value", "key", "query") if kind == "separate" else ("value", "key_query")
    logged = {name: np.asarray(getattr(run, name)) for name in names}
    before = {name: x[..., 0] for name, x in logged.items()}
    assert run.loss[0] == pytest.approx(written_out(data, before), rel=1e-13)
    expected = slope(data, before)
    for name, x in logged.items():
        taken = (x[..., 0] - x[..., 1]) / 0.1
        np.testing.assert_allclose(taken, expected[name], rtol=0, atol=1e-12)
        assert np.abs(taken).max() > 1e-2


def test_varied_lengths_that_are_all_equal_are_the_fixed_one():
    """A context of one example has one length."""
    parts = {name: getattr(icl.sample(icl.Task(2, 1), P), name) for name in ("x", "y", "target")}
    start = icl.merged(HEADS, 0.8, attention="softmax")
    losses = []
    for lengths in ("varied", "fixed"):
        data = icl.Sequences(icl.Task(2, 1, lengths=lengths), **parts)
        losses.append(icl.train(data, start, lr=0.3, steps=60, log_every=1).loss)
    np.testing.assert_allclose(*losses, rtol=1e-12)
    assert losses[0][-1] < 0.9 * losses[0][0]


@pytest.mark.parametrize(
    ("level", "width", "settled"),
    [(0.15, 4.0, True), (0.5, 4.0, False), (0.15, 0.3, False)],
    ids=["it has", "a plateau", "a shoulder"],
)
def test_a_loss_that_has_not_settled_is_not_counted(level, width, settled):
    """From 1 to a level at step 300, as a power of the step; it is at 2000."""
    steps = np.arange(0.0, 2001.0, 10.0)
    losses = level + (1.0 - level) / (1.0 + (steps / 300.0) ** (2.0 * width))
    settings = SimpleNamespace(drops=(0.05, 0.15), settled=0.3)
    assert fig5._has_settled(steps, losses, settings) == settled


def test_nothing_grows_where_there_is_nothing_to_learn():
    task = icl.Task(2, 3)
    still = icl.Sequences(task, np.ones((4, 4, 2)), np.zeros((4, 4, 1)), np.zeros((4, 4, 1)))
    modes = icl.softmax_modes(still, 2)
    assert (modes.apart, modes.rate.size, modes.critical) == (0.0, 0, 0.0)
