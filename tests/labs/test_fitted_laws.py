"""The labs' own curves as laws: their slopes, what a fit finds again, and what is refused."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from solvable import deep_icl, msfr, scaling

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Fitted:
    """A law, a curve of it in time, and what is searched for.

    Attributes:
        make: the lab's `curve_law`.
        settings: of a small law of t.
        true: its parameters, and
        times: where its curve is known.
        searched: exponents that a search starts from in [0.02, 3], and the least of each.
        pinned: what is held while they are.
        half: what is held where half the curve is given, and
        close: how well the other half is foretold then.
    """

    make: Any
    settings: dict[str, Any]
    true: dict[str, float]
    times: np.ndarray
    searched: dict[str, float]
    pinned: dict[str, float] = field(default_factory=dict)
    half: dict[str, float] = field(default_factory=dict)
    close: float = 1e-8

    @property
    def law(self) -> Any:
        return self.make(**self.settings)

    def curve(self, law: Any, **changed: float) -> np.ndarray:
        values = np.array([(self.true | changed)[name] for name in law.parameters])
        return law.curve(values, self.times[:, None])


FITTED = {
    "msfr": Fitted(
        make=msfr.curve_law,
        settings={"num_tasks": 40},
        true={"E": 0.02, "A": 2.0, "alpha": 1.8, "beta": 0.5, "gamma": 0.3, "unit_t": 3.0},
        times=np.geomspace(1e-3, 1e4, 32),
        searched={"alpha": 1.001},
        pinned={"beta": 0.0, "gamma": 0.0},
        half={"beta": 0.5, "gamma": 0.3},
    ),
    "deep_icl": Fitted(
        make=deep_icl.curve_law,
        settings={"dim": 60},
        true={"E": 0.02, "A": 2.0, "nu": 1.5, "beta": 0.8, "unit_t": 3.0},
        times=np.geomspace(1e-2, 1e7, 32),
        searched={"nu": 0.05, "beta": 0.05},
        close=1e-7,
    ),
}
LAWS = {lab: fitted.law for lab, fitted in FITTED.items()}

ENDS = {"t": (1e-3, 1e9), "L": (1.0, 1e3), "N": (1.0, 38.0), "P": (1.0, 38.0)}


def deep(*resources):
    """A law of deep_icl over resources, places for each, and values of its parameters."""
    x = np.stack([np.geomspace(*ENDS[name], 15) for name in resources], axis=1)
    return deep_icl.curve_law(resources, dim=40), x, [0.1, 2.0, 1.5, 0.8] + [0.8] * x.shape[1]


ONE = FITTED["msfr"]
SLOPES = {
    "msfr, t": (LAWS["msfr"], ONE.times[:, None], list(ONE.true.values()), 1e-7),
    **{
        f"deep_icl, {' '.join(names)}": (*deep(*names), 1e-6)
        for names in (("t",), ("L",), ("N",), ("P",), ("P", "t", "L", "N"))
    },
}


@pytest.mark.parametrize("case", SLOPES)
def test_slopes_are_central_differences(case):
    law, x, values, close = SLOPES[case]
    slopes, shifts = law.slopes(np.array(values), x), 1e-5 * np.eye(len(values))
    differences = (law.curve(values + shifts, x) - law.curve(values - shifts, x)) / 2e-5
    for slope, difference in zip(slopes.T, differences, strict=True):
        # Differences are good to h² and to round-off over h.
        assert np.max(np.abs(slope - difference)) < close * np.max(np.abs(difference))


@pytest.mark.slow
@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("lab", FITTED)
def test_exponents_are_found_from_anywhere(lab):
    """Noise-free recovery to 1e-8 from 100 starts in [0.02, 3] (within their bounds)."""
    one, law = FITTED[lab], LAWS[lab]
    rng, worst = np.random.default_rng(0), 0.0
    data = {"t": one.times, "y": one.curve(law, **one.pinned)}
    for row in np.exp(rng.uniform(np.log(0.02), np.log(3.0), (100, len(one.searched)))):
        start = dict(zip(one.searched, np.maximum(row, list(one.searched.values())), strict=True))
        found = scaling.fit(
            law,
            data,
            y="y",
            loss="squares",
            pinned=one.pinned,
            start={name: float(value) for name, value in start.items()} | {"unit_t": 1.0},
        )
        assert found.status == "converged"
        worst = max(worst, *(abs(found[name] - one.true[name]) for name in one.searched))
    assert worst < 1e-8


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("lab", FITTED)
def test_half_a_curve_foretells_the_other_half(lab):
    one, law = FITTED[lab], LAWS[lab]
    y, half = one.curve(law), len(one.times) // 2
    early = {"t": one.times[:half]}
    found = scaling.fit(law, early, y=y[:half], loss="squares", pinned=one.half)
    # The early half knows E, which is 1 % of it, to about 1e-10 at round-off of 1e-16.
    np.testing.assert_allclose(found.curve({"t": one.times[half:]}), y[half:], rtol=one.close)


REFUSED = {
    "msfr": [
        ({"resources": ()}, "resources must be one or more of t, D, N"),
        ({"resources": ("t", "t")}, "each once"),
        ({"resources": ("L",)}, "resources must be one of t, D, N, not 'L'"),
        ({"resources": ("t", "N")}, "must not hold t and N together"),
        ({"order": "second"}, "order must be one of"),
        ({"context": -1.0}, "context must lie in"),
        ({"num_tasks": 0}, "num_tasks must be a whole number"),
    ],
    "deep_icl": [
        ({"resources": ()}, "resources must be one or more of t, L, N, P"),
        ({"resources": ("t", "t")}, "each once"),
        ({"resources": ("D",)}, "resources must be one of t, L, N, P, not 'D'"),
        ({"dim": 1}, "dim must be a whole number, from 2"),
        ({"dim": 2.5}, "dim must be a whole number"),
    ],
}


@pytest.mark.parametrize(
    ("lab", "arguments", "message"), [(lab, *case) for lab in REFUSED for case in REFUSED[lab]]
)
@pytest.mark.usefixtures("as_users_run_it")
def test_bad_input_is_refused(lab, arguments, message):
    with pytest.raises(ValueError, match=message):
        FITTED[lab].make(**arguments)
