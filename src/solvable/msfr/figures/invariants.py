"""What the paper derives on the way: what is conserved, a limit, and the amplitudes it neglects."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from matplotlib.ticker import NullFormatter
from scipy.integrate import quad

from ...reproduce import Figure, at_most, near, settings_of
from ...reproduce.numerals import number
from ...reproduce.panels import Panel, drawn, law, level, line, tokens
from .. import Init, Task, data_law, loss, sample, time_law
from ._conserved import descended, excess_of, gh, moved, parts_across, solved
from ._printed_laws import Peak
from ._source_average import average_loss, flow_losses
from ._varied import flow_ratio, varied_amplitude, varied_sums

fig = Figure(
    "msfr/invariants",
    "What is conserved, MSFR as a limit, and amplitudes",
    settings={
        "quick": {"starts": 4, "halvings": 4, "data": 3000, "num_tasks": 10**9},
        "default": {"starts": 8, "halvings": 6, "data": 20_000, "num_tasks": 10**12},
        "full": {"starts": 32, "halvings": 8, "data": 100_000, "num_tasks": 10**15},
    },
    constants={
        "context": 3.0,
        "strength": 0.5,
        "spread": 0.4,  # of the entries of v and w at the start
        "until": 1.5,  # in t
        "lr": 0.02,
        "contexts": (100.0, 1000.0, 10_000.0, 100_000.0),
        "alpha": 1.8,
        "limit_tasks": 4,
        "decays": (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0, 24.0),
        "limit_start": (0.3, 0.33),  # √ψ v, √ψ w
        "varied": ((0.0, 0.0), (1.0, 0.0), (0.0, 0.5), (0.5, 0.3)),  # β, γ
        "deltas": (0.1, 10.0, 1e7),
        "front": 100.0,  # the task that is being learned when amplitudes are judged
        "flow_tasks": 10**5,
        "first_strength": 1e4,  # Λ_1 of the flow, so that Λ_s ≫ 1
    },
    note=(
        "(a), (b): one task, # = N, Λ = 0.5, several starts with entries of N(0, 0.4²), ψ = 3 in "
        "(a); gh is (38)'s, Λη_s − η_{S+1} and Λρ_s − ρ_{S+1} are (120)'s. In (b) H is that of "
        "(7), starts are ∝ ψ^−½ and times ∝ 1/ψ. (c), (d): source/capacity features (108) to (112) "
        "with ω_k = k^−τ, so that ω_1 = 1 and (113) is e_s e_sᵀ; linear attention with all entries "
        "of V and W, S = 4, Λ_s ~ N(0, I); tokens are averaged over exactly. MSFR has the "
        "strengths Λ_{s;s}. The paper's limit is τ → ∞; with Gaussian features (114) ψ → ∞ is "
        "needed besides, as a square of modulus 1 on average is not 1: (c) is at ψ = ∞, (d) at "
        "τ = ∞. Features ±√ω_k would need τ → ∞ only. (e): the sum of (17) with one Δ for all "
        "tasks and 2a_sΛ_s = κs^−m, m = α+β+3γ, as F.3 assumes with Λ_s² ≫ 1, over its law with "
        "the exact amplitude, against the task s* = (κt)^{1/m} that is being learned; with a large "
        "Δ tasks are learned one by one at first. (f): the "
        "loss over its laws in t and N with their exact amplitudes. The paper's ~ neglects "
        "coefficients: that they come out otherwise by Laplace's method contradicts nothing."
    ),
)


@fig.data
def conserved(settings: Any) -> xr.Dataset:
    """(38) and (120) along the flow, along descent, and with the whole H."""
    lam, shape = settings.strength, (2, settings.starts, 2)
    start = np.random.default_rng(settings.seed).normal(0.0, settings.spread, shape)
    u = np.array([1.0, lam])
    matrix = settings.context * np.outer(u, u)
    rate = settings.context * (1.0 + lam**2)
    times = settings.until * np.array([0.1, 0.3, 1.0])
    of_flow = moved(solved(matrix, start, lam), times, matrix, lam)
    rates = settings.lr * 0.5 ** np.arange(settings.halvings)
    excess = excess_of(matrix, start, lam, settings.until)
    lost, predicted, kept = [], [], []
    for lr in rates:
        v, w = descended(matrix, start, lam, lr, round(settings.until / lr))
        lost.append(np.log(gh(start[0], start[1], matrix) / gh(v, w, matrix)))
        predicted.append(2.0 * lr * rate**2 * excess)
        size = np.sqrt(np.sum(start**2, axis=(0, 2)))
        change = np.abs(parts_across(v, w, lam) - parts_across(start[0], start[1], lam))
        kept.append(np.max(change / size, axis=0))
    whole = []
    for context in settings.contexts:
        share = settings.context / context  # of time; starts are its root
        h = context * np.outer(u, u) + np.diag([1.0, 0.0])
        scaled = solved(h, math.sqrt(share) * start, lam)
        whole.append(moved(scaled, share * times, h, lam))
    return xr.Dataset(
        {
            "flow_product": ("start", of_flow[0]),
            "flow_across": ("start", of_flow[1]),
            "descent_product": (("lr", "start"), lost),
            "descent_predicted": (("lr", "start"), predicted),
            "descent_across": (("lr", "start"), kept),
            "whole_product": (("psi", "start"), [x for x, _ in whole]),
            "whole_across": (("psi", "start"), [x for _, x in whole]),
        },
        coords={"lr": rates, "psi": list(settings.contexts)},
    )


@fig.data
def limit(settings: Any) -> xr.Dataset:
    """(113): the loss along the flow for several τ and ψ, and of MSFR."""
    count = settings.limit_tasks
    strengths = np.random.default_rng(settings.seed).normal(size=(count, count))
    task = Task(count, settings.alpha, np.ones(count), np.diag(strengths))
    weights, (a, b) = np.asarray(task.weights), settings.limit_start
    start = (np.full((count, count + 1), a), np.full((count + 1, count), b))
    t = np.append(0.0, np.geomspace(1e-2, 30.0, 60))
    msfr = np.asarray(loss(task, Init(a, b), t, "zeroth"))

    def gap(decay: float, context: float) -> float:
        found = flow_losses(weights, strengths, decay, context, start, t)
        return float(np.max(np.abs(found - msfr)) / msfr[0])

    return xr.Dataset(
        {
            "gap_decay": ("tau", [gap(tau, math.inf) for tau in settings.decays]),
            "gap_context": ("psi", [gap(math.inf, psi) for psi in settings.contexts]),
        },
        coords={"tau": list(settings.decays), "psi": list(settings.contexts)},
    )


@fig.data
def average(settings: Any) -> xr.Dataset:
    """The exact average over tokens, and drawn ones, at random V and W, τ = 3."""
    count, context, decay = settings.limit_tasks, 20, 3.0
    task = Task(count, settings.alpha, float(context), 1.0)
    drawn_tokens = sample(task, settings.data, seed=settings.seed, features="source", decay=decay)
    phi, label = np.asarray(drawn_tokens.phi), np.asarray(drawn_tokens.label)
    index = np.asarray(drawn_tokens.task)
    strengths = np.stack([_strength(phi, index, s) for s in range(count)])
    rng = np.random.default_rng(settings.seed + 1)
    params = (rng.normal(0.0, 0.2, (count, count + 1)), rng.normal(0.0, 0.2, (count + 1, count)))
    query = params[1] @ phi[:, :-1, -1].T
    f = np.einsum("ni,nic,njc,jn->n", params[0][index], phi, phi, query, optimize=True)
    squares = 0.5 * (f - label) ** 2
    # A mean for every task: the shares of tasks among the data are not what is asked.
    means = np.array([squares[index == s].mean() for s in range(count)])
    spread = np.array([squares[index == s].std() for s in range(count)])
    errors = spread / np.sqrt(np.bincount(index, minlength=count))
    weights = np.asarray(task.weights)
    return xr.Dataset(
        {
            "average": average_loss(weights, strengths, decay, float(context), params),
            "drawn": weights @ means,
            "drawn_error": math.sqrt(np.sum((weights * errors) ** 2)),
        }
    )


def _strength(phi: np.ndarray, index: np.ndarray, task: int) -> np.ndarray:
    """Λ_s, from the tokens of one datum of the task."""
    one = phi[np.argmax(index == task), :, :-1]
    return np.linalg.lstsq(one[:-1].T, one[-1], rcond=None)[0]


@fig.data
def varied(settings: Any) -> xr.Dataset:
    """(17) with one Δ: the sum over its law, and the flow itself at fewer tasks."""
    places = np.geomspace(1.0, settings.num_tasks, 60)
    shape = (len(settings.varied), len(settings.deltas))
    ratio, exponent, wanted = np.empty((*shape, 60)), np.empty(shape), np.empty(shape)
    at_front, along = np.empty(shape), np.empty(shape)
    for i, (beta, gamma) in enumerate(settings.varied):
        m = settings.alpha + beta + 3.0 * gamma
        for j, delta in enumerate(settings.deltas):
            nu, amplitude = varied_amplitude(settings.alpha, beta, gamma, 1.0, delta, 2.0)
            x = np.append(places, settings.front) ** m
            value, local = varied_sums(settings, beta, gamma, delta, x)
            found = value / (amplitude * x**-nu)
            ratio[i, j], at_front[i, j] = found[:-1], found[-1]
            exponent[i, j], wanted[i, j] = local[-1], nu
            along[i, j] = flow_ratio(settings, beta, gamma, delta)
    dims = ("case", "delta")
    return xr.Dataset(
        {
            "ratio": ((*dims, "place"), ratio),
            "ratio_front": (dims, at_front),
            "ratio_flow": (dims, along),
            "exponent": (dims, exponent),
            "exponent_law": (dims, wanted),
        },
        coords={"place": places, "delta": list(settings.deltas)},
    )


@fig.data
def fixed(settings: Any) -> xr.Dataset:
    """Table 1's laws in t and N: the loss over them, and Laplace's constant."""
    alpha, init = settings.alpha, Init(0.1, 0.11)
    task = Task(settings.num_tasks, alpha, 100.0, 0.5)
    found: dict[str, Any] = {}
    for name, each in (("time", time_law(task, init)), ("data", data_law(task, init))):
        x = each.grid(6)
        low, high = each.window(0.02)
        middle = math.sqrt(low * high)
        found[f"{name}_ratio"] = (f"{name}_x", each.loss(x) / each(x))
        found[f"{name}_middle"] = float(each.loss(middle) / each(middle))
        found[f"{name}_x"] = x
    peak = Peak(1e8, alpha, 1.0, data=False)
    area, _ = quad(
        lambda y: math.exp(y - peak.x * peak.exponent(math.exp(y))),
        0.0, 40.0 / (alpha - 1.0), epsabs=0.0, epsrel=1e-12, limit=400,
        points=[math.log(peak.place)],
    )  # fmt: skip
    return xr.Dataset(found | {"laplace": peak.area / area})


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """(a), (b) what is conserved, (c), (d) MSFR as a limit, (e), (f) amplitudes."""
    settings = settings_of(d)
    worst = d.max("start")
    inverse = d.psi[-1] / d.psi
    across = r"$\Lambda\eta_s - \eta_{S+1}$"
    descent = Panel(
        "learning rate",
        "largest change",
        [
            tokens(d.lr, worst.descent_product, r"$\log gh$"),
            line(d.lr, worst.descent_predicted, r"$2\,lr\,a^2\!\int (f-\Lambda)^2 dt$", 0),
            tokens(d.lr, np.maximum(worst.descent_across, 1e-17), across, 1),
            level(
                float(worst.flow_product), color="0.5", linestyle="--", label="$gh$ along the flow"
            ),
        ],
        log="xy",
        title="order zero, descent",
        ylim=(3e-18, 30.0),
        where="center right",
        legend=7.0,
        more=[lambda axes: axes.xaxis.set_minor_formatter(NullFormatter())],
    )
    whole = Panel(
        r"$\psi$",
        "largest change",
        [
            tokens(d.psi, worst.whole_product, "$gh$"),
            tokens(d.psi, worst.whole_across, across, 1),
            law(
                d.psi,
                2.0 * float(worst.whole_product[-1]) * inverse,
                r"$\propto 1/\psi$",
            ),
        ],
        log="xy",
        title="whole $H$, flow",
    )
    decay = Panel(
        r"$\tau$",
        r"$\max_t |L - L_{MSFR}|\,/\,L(0)$",
        [
            tokens(d.tau, d.gap_decay, "source features"),
            law(d.tau, 3.0 * d.gap_decay[-1] * 2.0 ** (d.tau[-1] - d.tau), r"$\propto 2^{-\tau}$"),
        ],
        log="y",
        title=r"$\psi = \infty$",
    )
    context = Panel(
        r"$\psi$",
        r"$\max_t |L - L_{MSFR}|\,/\,L(0)$",
        [
            tokens(d.psi, d.gap_context, "Gaussian features"),
            law(d.psi, 2.0 * float(d.gap_context[-1]) * inverse, r"$\propto 1/\psi$"),
        ],
        log="xy",
        title=r"$\tau = \infty$",
    )
    ends = (0, len(settings.deltas) - 1)
    varied_marks = [
        line(
            d.place,
            d.ratio[i, j],
            rf"$\beta = {beta:g}$, $\gamma = {gamma:g}$" if j == 0 else "",
            i,
            linestyle="-" if j == 0 else "--",
            linewidth=1.2,
        )
        for i, (beta, gamma) in enumerate(settings.varied)
        for j in ends
    ]
    ratios = [
        line(d.time_x, d.time_ratio, "time, $x = t$"),
        line(d.data_x, d.data_ratio, "data, $x = N$", 1),
    ]
    deltas = rf"$\Delta = {settings.deltas[0]:g}$, dashed $10^7$"
    over = {"log": "x", "ylim": (0.0, 1.6), "legend": 7.0}
    return drawn(
        descent,
        whole,
        decay,
        context,
        Panel("$s^*$", "(17) / law", [*varied_marks, level(1.0)], title=deltas, **over),
        Panel("$x$", "$L$ / law", [*ratios, level(1.0)], title="Table 1", **over),
        rows=2,
    )


ENDS = "single tasks are seen at Δ = 10⁷, and tasks beyond the last are (s*/S)^(α+2γ−1)"
SOLVER = "the ODE solver keeps 13 digits a step"


def _slope(values: Any, factor: float) -> float:
    """The exponent between the last two of some values, whose places differ by a factor."""
    return float(math.log(values[-2] / values[-1]) / math.log(factor))


@fig.claim("paper", "Sec. 3.2, (38)")
def product(d):
    """At order zero gh = 2C along the flow (largest |gh/2C − 1|, {starts} starts)."""
    return near(d.flow_product.max(), 0.0, 1e-9, because=SOLVER)


@fig.claim("new", "(38)")
def product_descent(d):
    """In gradient descent log gh falls by 2 lr a² ∫(f − Λ)² dt, to first order in lr (fallen over
    predicted at the smallest lr, furthest from 1)."""
    ratio = (d.descent_product / d.descent_predicted).values[-1]
    words = f"lr {float(d.lr[-1]):g}. A step multiplies gh by (1 − x²)², x = lr a (f − Λ)."
    why = "descent is of order lr away from the flow, along which the integral is taken"
    return near(ratio[np.argmax(np.abs(ratio - 1.0))], 1.0, 0.02, because=why, note=words)


@fig.claim("check", "(38)")
def product_order(d):
    """What log gh falls by is in proportion to the learning rate (exponent from the two
    smallest)."""
    why = "the next order in lr is left out"
    return near(_slope(d.descent_product.max("start").values, 2.0), 1.0, 0.02, because=why)


@fig.claim("paper", "App. J.1, (120)")
def across(d):
    """At order zero Λη_s − η_{{S+1}} and Λρ_s − ρ_{{S+1}} are conserved by the flow (largest change
    over the length of the start)."""
    return near(d.flow_across.max(), 0.0, 1e-9, because=SOLVER)


@fig.claim("new", "(120)")
def across_descent(d):
    """Gradient descent conserves them, too, at every learning rate (largest change over the length
    of the start)."""
    words = f"lr {float(d.lr[0]):g} and less. Every step is along (1, Λ)."
    return near(d.descent_across.max(), 0.0, 1e-11, because="round-off of its steps", note=words)


@fig.claim("new", "(38), (120)", word="{x}-context", over=("product", "across"))
def by_context(d, x):
    """With the whole H of (7) what order zero conserves ({x}) changes in proportion to 1/ψ
    (exponent of the largest change, from the two longest contexts)."""
    worst = d[f"whole_{x}"].max("start").values
    psi = d.psi.values
    words = (
        f"{number(float(worst[0]))} at ψ = {psi[0]:g}, {number(float(worst[-1]))} at {psi[-1]:g}."
    )
    why = "the next order in 1/ψ is left out"
    return near(_slope(worst, psi[-1] / psi[-2]), 1.0, 0.01, because=why, note=words)


@fig.claim("paper", "App. H.1, (113)")
def msfr_limit(d):
    """MSFR is the limit of the regression under the source/capacity condition for large τ, with
    ω_1 = 1 and ψ → ∞ (largest |L − L_MSFR|/L(0) along the flow at the largest τ)."""
    words = f"τ = {float(d.tau[-1]):g}; at the paper's τ = 3 it is {float(d.gap_decay[2]):.2g}."
    why = "first order in 2^−τ = 6e-8, whose coefficient (8 here, 6 to 14 of six seeds) we measure"
    return near(d.gap_decay[-1], 0.0, 1e-6, because=why, note=words)


@fig.claim("new", "App. H.1, (113)")
def limit_decay(d):
    """It is approached like 2^−τ, the second eigenvalue (−log₂ of the gap's fall a unit of τ)."""
    gap, tau = d.gap_decay.values, d.tau.values
    found = math.log2(gap[-2] / gap[-1]) / (tau[-1] - tau[-2])
    return near(found, 1.0, 0.01, because="the third eigenvalue is (2/3)^20 of it")


@fig.claim("new", "App. H.1, (113), (114)")
def limit_context(d):
    """With Gaussian features it is approached like 1/ψ at τ = ∞ (exponent from the two longest
    contexts)."""
    psi = d.psi.values
    words = (
        f"{number(float(d.gap_context[0]))} of L(0) at ψ = {psi[0]:g}: squares of Gaussians vary "
        "from context to context, so that a loss of about Λ²/ψ stays for ever."
    )
    why = "the next order in 1/ψ is left out"
    return near(_slope(d.gap_context.values, psi[-1] / psi[-2]), 1.0, 0.01, because=why, note=words)


@fig.claim("check", "App. H.1")
def tokens_average(d):
    """The exact average of the loss over tokens is that of drawn ones (distance in standard errors;
    ψ = 20, τ = 3, random V and W)."""
    off = abs(float(d.average - d.drawn)) / float(d.drawn_error)
    words = f"{number(float(d.average))} and {number(float(d.drawn))}, {settings_of(d).data} data."
    return at_most(off, 4.0, because="chance exceeds it once in 16 000 times", note=words)


@fig.claim("paper", "(17), (96)")
def varied_exponent(d):
    """With one Δ and Λ_s² ≫ 1, L ∝ t^(−(α+2γ−1)/(α+β+3γ)) (largest distance of the sum's local
    exponent, four β, γ and three Δ, as task {front:g} is learned)."""
    gap = np.max(np.abs(d.exponent - d.exponent_law).values)
    return near(gap, 0.0, 1e-4, because=ENDS)


@fig.claim("new", "(17)")
def varied_sum(d):
    """Its amplitude is (Z/2m) κ^−ν Γ(ν)[Li_{{ν−1}}(−Δ) − Li_ν(−Δ)], 2a_sΛ_s = κs^−m, m = α+β+3γ,
    ν = (α+2γ−1)/m (sum over law, furthest from 1)."""
    ratio = d.ratio_front.values.ravel()
    worst = ratio[np.argmax(np.abs(ratio - 1.0))]
    return near(worst, 1.0, 1e-4, because=ENDS)


@fig.claim("new", "(17), (84)")
def varied_flow(d):
    """The loss of the flow has Λ_1² times that amplitude (loss over law, furthest from 1)."""
    ratio = d.ratio_flow.values.ravel()
    worst = ratio[np.argmax(np.abs(ratio - 1.0))]
    words = (
        "γ > 0 from Λ_1 = 10⁴, so that Λ_s² ≫ 1; with γ = 0 κ has 1 + Λ² and nothing is "
        "assumed. (84), with ∝, leaves Λ_1² open."
    )
    why = "tasks beyond the last, of S = 10⁵, are (s*/S)^(α+2γ−1) = 0.4 % at γ = 0"
    return near(worst, 1.0, 0.01, because=why, note=words)


@fig.claim("new", "F.2, which neglects coefficients", word="{x}-amplitude", over=("time", "data"))
def amplitude(d, x):
    """L over its law in {x}, with the exact amplitude, is 1 amid the law's window
    (S = {num_tasks:.0e})."""
    why = "tasks beyond the last are (s*/S)^(α−1)"
    words = {
        "time": "A = (Z/2α) k^(1/α−1) ∫ x^(−1/α) (f − Λ)² dx, x = kt, k = Zψ(1 + Λ²).",
        "data": "A = (Ze²/2α) Γ(1 − 1/α) Z^(1/α−1), e = f(0) − Λ.",
    }
    return near(d[f"{x}_middle"], 1.0, 5e-4, because=why, note=words[x])


@fig.claim("new", "(72), which neglects coefficients")
def laplace(d):
    """Laplace's method has √(2π)/(eΓ(1 − 1/α)) of ∫e^(−F(s)t) ds, at all large t (ratio)."""
    alpha = settings_of(d).alpha
    ratio = math.sqrt(2.0 * math.pi) / (math.e * math.gamma(1.0 - 1.0 / alpha))
    return near(
        d.laplace,
        ratio,
        1e-5,
        because="the peak is found by numbers",
        note="The width of the peak over its place is 1/α at all t, so that the method is not "
        "controlled; scaling makes the exponent exact all the same. c and F'' by minimisation, the "
        "integral by quadrature.",
    )
