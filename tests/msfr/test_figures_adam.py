"""What the figures of Adam read off their data, and that their claims notice what is wrong."""

from types import SimpleNamespace

import numpy as np
import pytest

from solvable.msfr.figures import adam, fig10
from solvable.reproduce.claim import agrees
from solvable.reproduce.figure import _settled


def holds(found):
    return agrees(found.expected, found.measured, found.tolerance)


def test_the_envelope_is_the_lowest_curve_at_each_compute():
    t = np.geomspace(1.0, 100.0, 40)
    sizes = np.array([10, 100])
    losses = 1.0 / sizes[:, None] + 1.0 / t
    compute = np.array([5.0, 20.0, 900.0, 9000.0, 2e4])
    best, at = fig10._envelope(compute, sizes, t, losses)
    # L(C/D; D) at each size that reaches it: none, the smaller alone, both, the larger alone, none.
    np.testing.assert_allclose(best[1:4], [0.6, 0.1 + 1 / 90, 0.01 + 1 / 90], rtol=2e-3)
    assert np.isinf(best[[0, 4]]).all()
    np.testing.assert_array_equal(at[1:4], [10, 10, 100])


def test_peaks_are_those_of_a_ringing():
    t = np.arange(400)
    size = np.abs(np.exp(-0.05 * t) * np.cos(0.1 * np.pi * t))
    peak = adam._peaks(size)
    np.testing.assert_array_equal(peak, np.arange(60, 400, 10))
    np.testing.assert_allclose(np.diff(np.log(size[peak])) / 10, -0.05)


def test_the_slow_factor_is_that_of_steps_that_grow():
    """A heavy ball whose step is lr/√v̂, v̂ ∝ β2^t/(1 − β2^t), without Adam."""
    b1, x, m, path = 0.9, 1.0, 0.0, []
    for t in range(1, 401):
        m = b1 * m + (1 - b1) * x
        x -= 0.4 * np.sqrt((1 - 0.999**t) / 0.999**t) * m
        path.append(x)
    rate = adam._rate(np.abs(np.array([1.0, *path])))
    assert rate / (-0.5 * np.log(b1)) == pytest.approx(1.0, abs=0.01)


@pytest.fixture(scope="module")
def data():
    settings = _settled(adam.fig.values("quick") | {"last": 400})
    parts = [stage(SimpleNamespace(**settings)) for stage in (adam.family, adam.losses)]
    return parts[0].merge(parts[1]).assign_attrs(settings=settings)


def test_claims_hold_of_the_family(data):
    for found in (
        adam.exponent_many(data),
        adam.exponent_endless(data),
        adam.amplitude(data),
        adam.flow(data),
        adam.no_law(data),
        adam.rings(data, 0.9),
    ):
        assert holds(found), found


def test_claims_fail_of_others(data):
    late = data.step_loss / data.step_loss[-1]
    steeper = data.assign(endless=data.endless * late**-0.01)
    assert not holds(adam.exponent_endless(steeper))
    assert not holds(adam.amplitude(data.assign(endless=1.05 * data.endless)))
    assert not holds(adam.flow(data.assign(flow=1.2 * data.flow)))
    t = data.every
    for fall in (4.5, 15.2):  # no power law, however steep
        assert not holds(adam.no_law(data.assign(few_loss=np.maximum(t, 1.0) ** -fall)))
    assert not holds(adam.no_law(data.assign(few_loss=data.few_loss * np.exp(0.005 * t))))
    assert not holds(adam.rings(data.assign(ringing=data.ringing * np.exp(0.001 * t)), 0.9))
    plain = 0.9 ** (0.5 * t) * np.cos(0.15 * t)  # steps that do not grow
    assert not holds(adam.rings(data.assign(ringing=plain.expand_dims(momentum=[0.9])), 0.9))
