"""The closed forms against 50-digit tables."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

from solvable import shallow_icl as icl
from solvable.shallow_icl.theory._head import Head

TABLE = json.loads((Path(__file__).parents[1] / "oracles" / "shallow_icl.json").read_text())
EPS = np.finfo(float).eps


def grouped(points, *names):
    """Points that share what is named, in lists."""
    groups = {}
    for point in points:
        groups.setdefault(json.dumps([point[name] for name in names]), []).append(point)
    return groups.values()


def task_of(point):
    spectrum = point.get("spectrum") or [point["eigenvalue"]] * point["dim"]
    return icl.Task(len(spectrum), point["context"], spectrum)


def off(found, true, scale):
    """The difference from a 50-digit number in units of a scale."""
    with mp.workdps(50):
        return float(abs(mpf(float(found)) - mpf(true)) / mpf(scale))


LAW = ("spectrum", "context", "direction", "start")
GROWTH = list(grouped((p for p in TABLE["growth"] if "t" in p), *LAW))
WAITS = list(grouped((p for p in TABLE["growth"] if "fraction" in p), *LAW))
WHITE = list(grouped(TABLE["white"], "dim", "eigenvalue", "context", "u0"))


def test_tables_have_hundreds_of_points():
    assert sum(map(len, GROWTH)) >= 200
    assert sum(map(len, WAITS)) >= 70
    assert sum(map(len, WHITE)) >= 200


@pytest.mark.parametrize("points", GROWTH)
def test_growing_head_is_within_1e12_of_its_final_size(points):
    task, direction, start = task_of(points[0]), points[0]["direction"], points[0]["start"]
    full, cross = float(points[0]["full"]), np.asarray(icl.population(task).cross)[direction]
    found = icl.growth(task, direction, [p["t"] for p in points], start)
    for point, v in zip(points, found.tolist(), strict=True):
        # A rounding of t, or of λ and γ, is one of v by t v̇: that is not the form's to mend.
        x = v / full
        sharp = cross * full * point["t"] * x**2 * (1.0 - x**3)
        assert off(v, point["v"], full) <= 1e-12 + 4 * EPS * sharp, point


@pytest.mark.parametrize("points", WAITS)
def test_growth_time_is_within_1e12_of_the_blow_up_time(points):
    task, direction, start = task_of(points[0]), points[0]["direction"], points[0]["start"]
    cross = np.asarray(icl.population(task).cross)[direction]
    found = icl.growth_time(task, direction, [p["fraction"] for p in points], start)
    for point, t in zip(points, found.tolist(), strict=True):
        scale = max(1.0 / (cross * start), 1.0 / (cross * point["fraction"] * float(point["full"])))
        assert off(t, point["time"], scale) <= 1e-12, point


@pytest.mark.parametrize("points", WHITE)
def test_white_time_course_is_within_1e12(points):
    task, u0 = task_of(points[0]), points[0]["u0"]
    times = [p["t"] for p in points]
    maps, losses = icl.white_map(task, u0, times), icl.white_loss(task, u0, times)
    rate = 2.0 * math.sqrt(task.dim) * np.asarray(icl.population(task).cross)[0]
    for point, sigma, loss in zip(points, maps.tolist(), losses.tolist(), strict=True):
        # e^{rate t} amplifies the rounding of its exponent by rate t while σ grows.
        x = sigma / float(point["limit"])
        sharp = 4 * EPS * rate * point["t"] * abs(x * (1.0 - x))
        assert off(sigma, point["sigma"], point["limit"]) <= 1e-12 + sharp, point
        assert off(loss, point["loss"], task.dim * point["eigenvalue"]) <= 1e-12 + 2 * sharp, point


@pytest.mark.parametrize("point", TABLE["plateaus"], ids=lambda p: f"{p['case']}-{p['context']}")
def test_plateaus_keep_their_digits_at_every_context(point):
    task = task_of(point)
    for m, true in enumerate(point["losses"]):
        found = icl.plateau_loss(task, range(m))
        # Relative: long contexts end at a loss of order 1/N.
        assert off(found, true, true if mpf(true) else 1.0) <= 1e-13
    with mp.workdps(50):
        last = [mpf(x) for x in point["losses"]]
        middle = [(a + b) / 2 for a, b in itertools.pairwise(last)]
        for found, true in zip(icl.mid_levels(task).tolist(), middle, strict=True):
            assert off(found, true, true) <= 1e-13
    for d, true in enumerate(point["best"]):
        assert off(np.asarray(icl.fixed_point(task, [d]))[d, d], true, true) <= 1e-14


@pytest.mark.parametrize("point", TABLE["heads"])
def test_blow_up_time_of_a_head_is_within_1e12(point):
    k, q, c = (np.array(point[name]) for name in ("k", "q", "c"))
    head = Head(point["v"], 0.5 * (k + q), 0.5 * (k - q), c)
    assert off(head.end, point["time"], point["time"]) <= 1e-12
    # Smaller weights take as much longer.
    small = Head(1e-6 * point["v"], 0.5e-6 * (k + q), 0.5e-6 * (k - q), c)
    assert small.end == pytest.approx(1e6 * head.end, rel=1e-12)
