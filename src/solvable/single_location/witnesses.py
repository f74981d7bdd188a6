"""Who answers the questions of `solvable.labs.single_location`."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
from jaxtyping import Array, Float

from .. import validation
from ..labs.single_location import SCALARS, Asked
from ..training import Training
from . import model
from . import reduced as reduction
from .schedule import decay
from .state import State, manifold, sphere
from .task import Task
from .theory import (
    bayes_risk,
    best_lam,
    critical_lam,
    crossover_lam,
    ended,
    excess_risk,
    linear_excess,
    manifold_flow,
    oracle_excess,
    oracle_rates,
    origin_growth,
    saddle,
    swapped,
)

if TYPE_CHECKING:
    import xarray as xr

MAX_BAYES = 10**6  # tokens, beyond which the Bayes risk would take its time
_SCORES = 2**21  # of tokens for the Bayes risk: a fraction of a second
_DRAWS = 2**17
ON_MANIFOLD = 1e-6  # distance: round-off of either precision


class Theory(eqx.Module):
    """The flow on the manifold at any times."""

    task: Task
    start: State
    lam: Float[Array, ""]

    def __call__(self, t: Any) -> dict[str, Any]:
        """Excess risk, κ and ν of every run."""
        x = manifold_flow(self.task, self.start, t, lam=self.lam)
        dims = ("run", "time")
        return {
            "loss": (dims, excess_risk(self.task, x, self.lam)),
            "kappa": (dims, x.kappa),
            "nu": (dims, x.nu),
        }


def theory(q: Asked) -> Theory:
    """Gradient flow on the manifold."""
    task = Task(**vars(q.task))
    return Theory(task, _start(q, task), validation.floating("lam", q.schedule.lam))


def reduced(q: Asked) -> Training:
    """K and v trained in their five scalars."""
    return _trained(q, reduction.prepare)


def tokens(q: Asked) -> Training:
    """K and v trained as vectors of R^d, with `batch` on tokens."""
    return _trained(q, model.prepare)


def _trained(q: Asked, prepare: Any) -> Training:
    task, how = Task(**vars(q.task)), q.schedule
    lam = decay(how.lam, how.lam_decay) if how.lam_decay else how.lam
    start = _start(q, task)
    kind = q.start.attention
    return prepare(task, start, lam=lam, lr=how.lr, batch=how.batch, attention=kind, seed=how.seed)


def _start(q: Asked, task: Task) -> State:
    """The starts, on one axis."""
    runs = q.start.runs or 1
    if q.start.start != "state":
        draw = sphere if q.start.start == "sphere" else manifold
        return draw(task, runs, seed=q.schedule.seed)
    if runs > 1 and q.schedule.batch is None:
        raise ValueError(f"runs must be 1 from a given state without batch, not {runs}")
    scalars: dict[str, Any] = {name: [getattr(q.start, name)] * runs for name in SCALARS}
    return State(**scalars)


def derived(data: "xr.Dataset") -> "xr.Dataset":
    """|κ| and |ν| of every run, and what tables show of the runs: means that mean something.

    Of one run, and on the manifold, where there is one end but for its sign, those of |κ| and |ν|.
    Of others means over the runs with one end, never two, with their number where there are two
    ends; while a run has not come to an end, none. The distance is told but where there are two.
    """
    if "kappa" not in data:
        return data
    size = {name: abs(data[name]) for name in ("kappa", "nu", "eta") if name in data}
    data = data.assign(abs_kappa=size["kappa"], abs_nu=size["nu"])
    far = {"mean_distance": data.distance.mean("run")} if "distance" in data else {}
    if "eta" not in data or data.sizes["run"] == 1 or data.distance.max() < ON_MANIFOLD:
        return data.assign(far | {f"mean_{x}": size[x].mean("run") for x in ("kappa", "nu")})
    last = data.isel(time=-1)
    found = ended(last.kappa, last.nu, last.eta)
    counts = found.counts
    if counts["undecided"]:
        return data.assign(far)
    if not (counts["oracle"] and counts["swapped"]):
        data = data.assign(far)
    for name, basin in (("kappa", "oracle"), ("nu", "oracle"), ("eta", "swapped")):
        if counts[basin]:
            here = found.end == basin
            words = f"|{SCALARS[name]}|, {basin if here.all() else f'{counts[basin]} {basin}'}"
            mean = size[name].isel(run=here).mean("run")
            data = data.assign({f"{basin}_{name}": mean.assign_attrs(long_name=words)})
    return data


def facts(q: Asked) -> dict[str, tuple[float | None, str]]:
    """What the closed forms tell of the task at one λ; the excess risks come first."""
    task, lam = Task(**vars(q.task)), q.schedule.lam
    best, rates, bayes = best_lam(task), oracle_rates(task, lam), None
    if task.length <= MAX_BAYES:
        bayes = bayes_risk(task, draws=max(2, min(_DRAWS, _SCORES // task.length)))
    return {
        "oracle_excess": (
            oracle_excess(task, lam).item(),
            "excess risk of the oracle, k = k*, v = v*",
        ),
        "swapped_excess": (swapped(task, lam).excess.item(), "… of the swapped minimum"),
        "best_excess": (best.excess, "… of the oracle at its best λ"),
        "linear_excess": (linear_excess(task).item(), "… of the best linear predictor"),
        "bayes_excess": (None if bayes is None else bayes.excess, "… of the Bayes predictor"),
        "bayes_excess_error": (None if bayes is None else bayes.error, "its standard error"),
        "best_lam": (best.lam, "best constant λ of the oracle"),
        "crossover_lam": (
            crossover_lam(task),
            "λ below which the swapped minimum beats the oracle",
        ),
        "critical_lam": (
            critical_lam(task),
            "λ_c above which the manifold repels at the oracle",
        ),
        "kappa_rate": (rates.kappa.item(), "rate of 1 − κ at the oracle"),
        "nu_rate": (rates.nu.item(), "rate of 1 − ν at the oracle"),
        "saddle_rate": (saddle(task, lam).growth.item(), "rate from (0, 0) towards the oracle"),
        "origin_rate": (
            origin_growth(task, lam).item(),
            "rate from (0, 0) towards the swapped minimum",
        ),
    }
