"""Softmax attention: its exact risk, its descent in five scalars, and its SGD in law."""

import itertools
import math

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import ks_2samp

from solvable import memory
from solvable import single_location as sl
from solvable.labs.single_location import LAB
from solvable.single_location import reduced, state

NAMES = state.NAMES
PLACE = dict(zip(NAMES, (0.3, 0.5, -0.1, 0.2, 0.15), strict=True))
X = sl.State(**PLACE)
GAMMA = math.sqrt(0.5)


def softmax(score):
    weight = np.exp(score - np.max(score, axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


def by_quadrature(task, lam, nodes=160):
    """The excess risk by a product rule over the tokens along k, given which all is Gaussian."""
    node, weight = hermegauss(nodes)
    weight = weight / weight.sum()
    grids = np.meshgrid(*[node] * task.length, indexing="ij")
    along = np.stack([grid.ravel() for grid in grids], axis=-1)
    chance = np.prod(np.meshgrid(*[weight] * task.length, indexing="ij"), axis=0).ravel()
    gamma, x = float(task.gamma), PLACE
    k = along * np.array([gamma] + [1.0] * (task.length - 1))
    k[:, 0] += task.signal * x["kappa"]
    a = softmax(lam * k)
    # Given X·k: the means of X·v and Y, and their covariances.
    value = x["rho"] * along * np.array([gamma] + [1.0] * (task.length - 1))
    value[:, 0] += task.signal * x["theta"]
    square = (1.0 - x["rho"] ** 2) * np.array([gamma**2] + [1.0] * (task.length - 1))
    miss = gamma * x["eta"] * along[:, 0] - np.sum(a * value, axis=1)
    spread = gamma**2 * (1.0 - x["eta"] ** 2) + np.sum(a**2 * square, axis=1)
    spread -= 2.0 * a[:, 0] * gamma**2 * (x["nu"] - x["rho"] * x["eta"])
    return float(np.sum(chance * (miss**2 + spread)))


@pytest.mark.parametrize(
    ("task", "lam"),
    [
        (sl.Task(40, 1, gamma=0.5), 0.7),
        (sl.Task(400, 2, gamma=GAMMA), 0.3),
        (sl.Task(9, 2, gamma=1.4), 1.1),
        (sl.Task(20, 3, gamma=0.9), 0.5),
    ],
)
def test_the_risk_is_that_of_few_tokens_by_quadrature(task, lam):
    nodes = 160 if task.length < 3 else 80
    wanted = by_quadrature(task, lam, nodes)
    assert sl.softmax_excess(task, X, lam).item() == pytest.approx(wanted, abs=1e-10)


def of_two(task, lam, x):
    """The excess risk of two tokens: given the difference of their X·k all is Gaussian."""
    g2, var, mean = float(task.gamma) ** 2, 1.0 + float(task.gamma) ** 2, task.signal * x["kappa"]
    # Y and the two X·v: their means, covariances, and covariances with that difference.
    start = np.array([0.0, task.signal * x["theta"], 0.0])
    cov = np.array([[g2, g2 * x["nu"], 0.0], [g2 * x["nu"], g2, 0.0], [0.0, 0.0, 1.0]])
    cross = np.array([g2 * x["eta"], g2 * x["rho"], -x["rho"]])

    def density(u):
        a = expit(lam * u)
        weight = np.array([1.0, -a, a - 1.0])
        miss = weight @ (start + cross * (u - mean) / var)
        spread = weight @ (cov - np.outer(cross, cross) / var) @ weight
        return (miss**2 + spread) * math.exp(-0.5 * (u - mean) ** 2 / var) / math.sqrt(var)

    reach, step = 9.0 * math.sqrt(var), 40.0 / lam
    cuts = [0.0, *(s * step * 8.0**-k for s in (-1, 1) for k in range(3)), mean]
    ends = [mean - reach, *sorted(c for c in cuts if abs(c - mean) < reach), mean + reach]
    parts = [quad(density, *pair, epsabs=1e-13, limit=200)[0] for pair in itertools.pairwise(ends)]
    return sum(parts) / math.sqrt(2.0 * math.pi)


@pytest.mark.parametrize(
    ("task", "lam", "change"),
    [
        (sl.Task(400, 2), 1e-4, {}),
        (sl.Task(400, 2), 1.0, {"kappa": -0.3, "nu": -0.5, "theta": 0.4, "eta": -0.2}),
        (sl.Task(400, 2), 100.0, {"kappa": 0.02, "rho": -0.5}),
        (sl.Task(40, 2, gamma=5.0), 3.0, dict.fromkeys(NAMES, 0.0)),
        (sl.Task(400, 2), 0.3, {"kappa": 1.0, "nu": 1.0, "theta": 0.0, "eta": 0.0, "rho": 0.0}),
    ],
)
def test_the_risk_of_two_tokens_at_any_temperature_to_all_digits(task, lam, change):
    """The error of its sums is controlled: 1e-13 of what is summed."""
    x = PLACE | change
    size = 1.0 + (task.signal * x["theta"]) ** 2 + float(task.gamma) ** 2
    found = sl.softmax_excess(task, sl.State(**x), lam).item()
    assert found == pytest.approx(of_two(task, lam, x), abs=2e-13 * size)


@pytest.mark.parametrize("lam", [0.1, 3.0])
def test_slopes_are_those_of_another_integral(lam):
    task, step = sl.Task(40, 2, gamma=0.8), 1e-4
    found = sl.softmax_slopes(task, X, lam)
    for name in NAMES:
        up, down = (of_two(task, lam, PLACE | {name: PLACE[name] + h}) for h in (step, -step))
        # Of differences the error is step² times a third derivative, (λD)³ at most.
        error = step**2 * (1.0 + (lam * task.signal) ** 3)
        assert getattr(found, name).item() == pytest.approx((up - down) / (2 * step), abs=error)


@pytest.mark.parametrize("lam", [0.1, 1.0, 4.0])
def test_the_risk_is_that_of_many_tokens_drawn(lam):
    task, draws = sl.Task(400, 10), 200_000
    rng = np.random.default_rng(3)
    k, v = (np.asarray(vector)[:4] for vector in state.vectors(task, X))
    tokens = rng.standard_normal((draws, 10, 4))
    tokens[:, 0] *= float(task.gamma)
    tokens[:, 0, 0] += task.signal
    guess = np.sum(softmax(lam * (tokens @ k)) * (tokens @ v), axis=1)
    square = (tokens[:, 0, 1] - guess) ** 2
    error = square.std() / math.sqrt(draws)
    assert abs(square.mean() - sl.softmax_excess(task, X, lam).item()) < 4.0 * error


def test_at_small_lam_the_mean_token_is_left():
    """To first order in λ."""
    task, x = sl.Task(400, 10), PLACE
    g2, length = 0.5, 10
    mean = g2 - 2.0 * g2 * x["nu"] / length
    mean += ((task.signal * x["theta"]) ** 2 + g2 + length - 1.0) / length**2
    gaps = [sl.softmax_excess(task, X, lam).item() - mean for lam in (2e-3, 1e-3)]
    assert abs(gaps[1]) < 1e-3
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.01)  # the next order


def test_the_oracle_of_equal_tokens_is_bayes():
    """At γ = 1 the posterior of the location is a softmax at λ = √(d/2)."""
    task = sl.Task(16, 10, gamma=1.0)
    bayes = sl.bayes_risk(task, draws=2**17)
    found = sl.softmax_excess(task, sl.State(1.0, 1.0, rho=0.0), task.signal).item()
    assert abs(found - bayes.excess) < 4.0 * bayes.error
    for lam in (0.9, 1.1):  # where that λ is best
        assert sl.softmax_excess(task, sl.State(1.0, 1.0), lam * task.signal).item() > found


def test_slopes_are_those_of_the_risk():
    task, lam, step = sl.Task(80, 6, gamma=0.8), 0.6, 1e-4
    places = {
        name: {n: x + step * np.array([1.0, -1.0]) * (n == name) for n, x in PLACE.items()}
        for name in NAMES
    }
    every = {n: np.concatenate([place[n] for place in places.values()]) for n in NAMES}
    up, down = np.asarray(sl.softmax_excess(task, sl.State(**every), lam)).reshape(5, 2).T
    found = sl.softmax_slopes(task, X, lam)
    wanted = (up - down) / (2.0 * step)
    np.testing.assert_allclose([getattr(found, n) for n in NAMES], wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("gamma", [0.5, 1.5])
def test_the_origin_has_a_drift_and_no_sign_to_choose(gamma):
    """ν̇ = 2γ²/L, κ̇ = 2λD(1−γ²)(L−1)/L³ and ∂κ̇/∂ν = 2γ²λD(L−1)/L² to first order in λ."""
    lam, length, g2 = 1e-3, 10, gamma**2
    task = sl.Task(400, length, gamma=gamma)
    origin, aside = (sl.softmax_slopes(task, sl.State(0.0, nu), lam) for nu in (0.0, 1e-3))
    drift = 2.0 * lam * task.signal * (1.0 - g2) * (length - 1) / length**3
    push = 2.0 * g2 * lam * task.signal * (length - 1) / length**2
    assert -origin.nu.item() == pytest.approx(2.0 * g2 / length, rel=1e-4)
    assert -origin.kappa.item() == pytest.approx(drift, rel=0.02)
    assert (origin.kappa - aside.kappa).item() / 1e-3 == pytest.approx(push, rel=0.02)
    assert [abs(getattr(origin, n).item()) for n in ("theta", "eta", "rho")] == [0.0] * 3


def test_share_is_the_mean_attention_of_the_informative_token():
    task, lam = sl.Task(60, 4), 0.8
    rng = np.random.default_rng(1)
    along = rng.standard_normal((200_000, 4))
    along[:, 0] = float(task.gamma) * along[:, 0] + task.signal * 0.2
    share = softmax(lam * along)[:, 0]
    found = sl.softmax_share(task, 0.2, lam).item()
    assert abs(found - share.mean()) < 4.0 * share.std() / math.sqrt(len(share))
    assert sl.softmax_share(task, [1.0, -1.0], 3.0).tolist() == pytest.approx([1.0, 0.0], abs=1e-3)


@pytest.mark.slow
def test_five_scalars_are_the_vectors_in_all_of_space():
    task, options = sl.Task(400, 10), {"lam": 0.7, "lr": 4e-3, "attention": "softmax"}
    start = sl.sphere(task, 2)
    few = sl.train(task, start, steps=2000, log_every=400, **options)
    full = sl.train_brute(task, start, steps=2000, log_every=400, **options)
    for name in (*NAMES, "loss"):
        np.testing.assert_allclose(getattr(few, name), getattr(full, name), rtol=0, atol=1e-12)
    loss = np.asarray(few.loss)
    assert np.min(loss[:, 0] - loss[:, -1]) > 0.4  # else nothing was compared


def test_training_on_tokens_nears_the_reduction_as_one_over_the_root_of_the_batch():
    task, how = sl.Task(8, 5, gamma=0.8), {"lam": 0.8, "lr": 0.1, "steps": 24, "log_every": 24}
    exact = sl.train(task, X, attention="softmax", **how)
    want = np.array([np.asarray(getattr(exact, name))[-1] for name in NAMES])
    assert want[0] - PLACE["kappa"] > 0.2  # else nothing was learned
    apart = []
    for batch in (32, 2048):
        start = sl.State(*(np.full(24, PLACE[name]) for name in NAMES))
        log = on_tokens(task, start, batch=batch, **how)
        gap = np.stack([log[name][:, -1] for name in NAMES], axis=1) - want
        apart.append(math.sqrt(np.mean(gap**2)))
    # 120 numbers, partly dependent: their mean square is known to about 20 %.
    assert apart[0] / apart[1] == pytest.approx(8.0, rel=0.3)
    assert apart[1] < 0.02


CHAINS = {
    "dim 20": (sl.Task(20, 5, noise=0.1), 0.8, 6e-2, 60),
    "dim 6": (sl.Task(6, 5, noise=0.3), 1.2, 1e-1, 30),
}
BATCH, REPLICAS = 3, 3000


def on_tokens(task, start, *, lam, lr, batch, steps, log_every):
    """SGD of the vectors on tokens, in numpy: the five scalars at the log points."""
    rng = np.random.default_rng(0)
    k, v = (np.asarray(vector) for vector in state.vectors(task, start))
    log = {name: [np.asarray(getattr(start, name))] for name in NAMES}
    runs = len(k)
    for step in range(1, steps + 1):
        x = rng.standard_normal((runs, batch, task.length, task.dim))
        x[:, :, 0] *= float(task.gamma)
        x[:, :, 0, 0] += task.signal
        y = x[:, :, 0, 1] + float(task.noise) * rng.standard_normal((runs, batch))
        score, value = (np.einsum("rbld,rd->rbl", x, place) for place in (k, v))
        a = softmax(lam * score)
        guess = np.sum(a * value, axis=2)
        miss = (2.0 / batch * (guess - y))[:, :, None]
        moved = []
        for place, weight in ((k, lam * a * (value - guess[:, :, None])), (v, a)):
            push = np.einsum("rbl,rbld->rd", miss * weight, x)
            push -= np.sum(push * place, axis=1, keepdims=True) * place
            place = place - lr * push
            moved.append(place / np.linalg.norm(place, axis=1, keepdims=True))
        k, v = moved
        if step % log_every == 0:
            now = (k[:, 0], v[:, 1], v[:, 0], k[:, 1], np.sum(k * v, axis=1))
            for name, scalar in zip(NAMES, now, strict=True):
                log[name].append(scalar)
    return {name: np.stack(points, axis=1) for name, points in log.items()}


def scalars_of(run):
    return {name: np.asarray(getattr(run, name)) for name in NAMES}


def smallest_p(one, other):
    tests = [ks_2samp(one[name][:, k], other[name][:, k]) for name in NAMES for k in range(1, 4)]
    return min(test.pvalue for test in tests), len(tests)


@pytest.mark.slow
@pytest.mark.parametrize("setting", CHAINS)
def test_the_chain_is_sgd_in_law(setting, monkeypatch):
    """Five scalars at three times against SGD on tokens; without the Wishart terms it is not."""
    task, lam, lr, steps = CHAINS[setting]
    start = sl.State(*(np.full(REPLICAS, PLACE[name]) for name in NAMES))
    options = {"lam": lam, "lr": lr, "batch": BATCH, "steps": steps, "log_every": steps // 3}
    full = on_tokens(task, start, **options)
    chain = scalars_of(sl.train(task, start, attention="softmax", **options))
    p, count = smallest_p(chain, full)
    assert p > 0.01 / (count * len(CHAINS))
    apart = [
        abs(chain[n][:, 3].mean() - full[n][:, 3].mean())
        / math.sqrt((chain[n][:, 3].var() + full[n][:, 3].var()) / REPLICAS)
        for n in NAMES
    ]
    assert max(apart) < 4.0

    draw = reduced.ChainSupply._draw

    def without_the_rest(supply, chunk):
        normal, chi = draw(supply, chunk)
        normal[:, -1] = 0.0
        return normal, np.zeros_like(chi)

    monkeypatch.setattr(reduced.ChainSupply, "_draw", without_the_rest)
    p, _ = smallest_p(scalars_of(sl.train(task, start, attention="softmax", **options)), full)
    assert p < 1e-6


def test_one_token_has_all_the_attention():
    """Then k does not matter and stays, and v is learned: 2γ²(1 − ν) + D²θ² is lost."""
    task, how = sl.Task(40, 1), {"lam": 0.3, "lr": 1e-2, "batch": 2, "steps": 300}
    start = sl.sphere(task, runs=4)
    run = sl.train(task, start, attention="softmax", **how)
    nu, theta = np.asarray(run.nu), np.asarray(run.theta)
    np.testing.assert_allclose(run.loss, 1.0 - nu + 20.0 * theta**2, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(np.asarray(run.kappa)[:, -1], start.kappa, atol=1e-9)
    assert np.max(np.asarray(run.loss)[:, -1] / np.asarray(run.loss)[:, 0]) < 0.8


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attention": "soft"}, "attention must be"),
        ({"lam": sl.decay(1.0, 1e-4)}, "lam must be one number for softmax"),
        ({"lam": lambda step: 0.1}, "lam must be one number for softmax"),
        ({"lam": 1e-300}, "lam must be nearer to 1"),
        ({"lam": 1000.0}, "lam must be nearer to 1"),
        ({"task": sl.Task(5, 3), "batch": 2}, "dim must be at least 6 for SGD"),
    ],
)
@pytest.mark.parametrize("train", [sl.train, sl.train_brute])
def test_bad_input_is_one_sentence(train, options, words):
    if train is sl.train_brute and "task" in options:
        pytest.skip("any dimension")
    given = {"task": sl.Task(400, 10), "lam": 0.1, "lr": 1e-3, "steps": 2, "attention": "softmax"}
    given |= options
    with pytest.raises(ValueError, match=words) as caught:
        train(given.pop("task"), sl.State(0.3, 0.5), **given)
    assert "\n" not in str(caught.value)


def test_what_was_trained_with_erf_does_not_go_on_with_softmax():
    task, start, how = sl.Task(40, 3), sl.State(0.3, 0.5), {"lam": 0.1, "lr": 1e-3}
    run = sl.train(task, start, steps=2, **how)
    with pytest.raises(ValueError, match="softmax attention, projected gradient descent"):
        sl.train(task, start, steps=4, attention="softmax", resume=run, **how)


def test_tables_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1e6)
    task = sl.Task(400, 10)
    with pytest.raises(ValueError, match="runs must be smaller than 100"):
        sl.train(task, sl.sphere(task, 100), lam=1.0, lr=1e-3, steps=2, attention="softmax")
    with pytest.raises(ValueError, match="entries of x must be smaller than 100"):
        sl.softmax_excess(task, sl.sphere(task, 100), 1.0)
    with pytest.raises(ValueError, match="entries of kappa must be smaller than 100"):
        sl.softmax_share(task, np.zeros(100), 1.0)


def test_the_question_knows_softmax():
    given = {"attention": "softmax", "dim": 40, "length": 1, "lam": 0.3, "lr": 1e-2, "steps": 3}
    asked = {**given, "start": "sphere", "runs": 4, "batch": 2}
    run = sl.train(
        sl.Task(40, 1),
        sl.sphere(sl.Task(40, 1), runs=4),
        attention="softmax",
        **{"lam": 0.3, "lr": 1e-2, "steps": 3, "batch": 2},
    )
    told = LAB.ask(witness="reduced", **asked)
    assert np.asarray(told.nu).tolist() == np.asarray(run.nu).tolist()
    with pytest.raises(ValueError, match="attention must be erf for the theory, not softmax"):
        LAB.ask(witness="theory", **given)
    with pytest.raises(ValueError, match="lam_decay is for attention erf, not softmax"):
        LAB.ask(witness="reduced", **given, lam_decay=1e-3)
