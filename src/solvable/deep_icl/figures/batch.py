"""What a finite batch leaves, at every depth: SGD on the matrix Γ around the optimum γ*I."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.optimize import minimize_scalar

from ...reproduce import Figure, Finding, at_most, near, settings_of
from ...reproduce.panels import Mark, Panel, drawn, entry, law, level, line, theory, tokens
from ...style import LAW, THEORY, TOKENS, colour
from .. import Isotropic, RotatedStructure, batch_floor, sgd_curve

NAMES = {"rotated": "RRS", "isotropic": "ISO"}
POINTS = 40  # of a run, at which it is looked at
LATE, EARLY = slice(POINTS // 2, None), slice(0, POINTS // 5)

fig = Figure(
    "deep_icl/batch",
    "What a finite batch leaves, at every depth",
    settings={
        "quick": {"batches": (6, 18), "steps": 640, "seeds": 3, "drawn": 20_000, "asked": 48},
        "default": {"batches": (6, 18), "steps": 2000, "seeds": 3} | {"drawn": 40_000, "asked": 64},
        "full": {"batches": (6, 12, 24, 48), "steps": 10_000, "seeds": 8}
        | {"drawn": 100_000, "asked": 128},
    },
    constants={
        "cases": tuple(f"{kind}-{n}" for kind in ("rotated", "isotropic") for n in (1, 2, 4)),
        "loads": (0.025, 0.05, 0.1),  # η times the largest curvature
        "dim": 8,
        "rotated": {"nu": 1.25, "beta": 0.8},
        "isotropic": {"alpha": 4.0, "noise": 1.5},
        # Tr S of very many directions: ν and β, D, and L = 1 … 2^octaves.
        "pairs": ((1.25, 0.5), (1.5, 1.5)),
        "many": 10**8,
        "octaves": 11,
        # One layer's recursion: α and σ, of its η → 0, at D and τ = B/D.
        "large": ((1.0, 0.0), (2.0, 0.5)),
        "dims": (64, 128, 256, 512),
        "slow": 1e-6,
        # Antisymmetric Γ: α, D, L, and how large beside γ*.
        "long": 8.0,
        "turned_dims": (8, 32),
        "deep": (1, 2, 4, 8),
        "turns": (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3),
    },
    note=(
        "SGD on the matrix Γ from γ*I with B fresh contexts a step, tasks and label noise drawn, "
        "queries averaged exactly: the step of `train_brute`, η that of Γ's entries, for all runs "
        "of a case at once. The excess is that of the mean loss: over contexts that no run has "
        "seen, the loss of Γ less that of γ*I on the same contexts, less its slope there, whose "
        "mean is zero. Rotated: ν = 1.25, β = 0.8, endless contexts, D = 8. Isotropic: α = 4, "
        "σ = 1.5, D = 8. With less noise γ* comes closer to the edge of stability: a few of 10⁴ "
        "contexts have most of Tr S (σ = ½, L = 4), and at a finite η one of them throws Γ out of "
        "its basin (α = 2, σ = 1, L = 2, B = 6, ηh = 0.1: half of the runs within 4000 steps). "
        "Ratios to the law are taken to η → 0 by least squares in η and η/B."
    ),
)


class _Law:
    """A context law in numbers of the host."""

    def __init__(self, task: Any):
        whole = isinstance(task, RotatedStructure)
        self.lam = np.asarray(task.lam) if whole else np.ones(task.dim)
        self.root = np.sqrt(np.asarray(task.omega)) if whole else None
        self.context, self.noise = task.context, float(task.noise)


class _Contexts:
    """Contexts of a law, in the way tokens give them: Σ̂, Xᵀy/P, the task, and Σ."""

    def __init__(self, law: "_Law", shape: tuple[int, ...], generator: np.random.Generator):
        normal, dim = generator.standard_normal, law.lam.size
        self.lam = law.lam
        if law.root is None:
            x = normal((*shape, law.context, dim))
            self.b = normal((*shape, dim)) / math.sqrt(dim)
            y = _times(x, self.b)
            y = y + law.noise * normal(y.shape)
            back = np.swapaxes(x, -1, -2) / law.context
            self.moment, self.seen = back @ x, _times(back, y)
            self.turn = None
        else:  # endless: b and Σ are the same for all, and Γ is turned
            self.b = law.root
            turn, upper = np.linalg.qr(normal((*shape, dim, dim)))
            turn = turn * np.sign(np.einsum("...ii->...i", upper))[..., None, :]
            self.turn, back = turn, np.swapaxes(turn, -1, -2)
            self.moment, self.seen = back @ (self.lam[:, None] * turn), back @ (self.lam * self.b)

    def missed(self, gamma: np.ndarray, depth: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """The error v after the layers, and what each of them was given."""
        w, given = np.zeros_like(self.seen), []
        for _ in range(depth):
            given.append(self.seen - _times(self.moment, w))
            w = w + _times(gamma, given[-1]) / depth
        return self.b - (w if self.turn is None else _times(self.turn, w)), given

    def loss(self, gamma: np.ndarray, depth: int) -> np.ndarray:
        """``vᵀΣv`` in every context."""
        return np.sum(self.lam * self.missed(gamma, depth)[0] ** 2, axis=-1)

    def slope(self, gamma: np.ndarray, depth: int) -> np.ndarray:
        """Its gradient in Γ, back through the layers."""
        v, given = self.missed(gamma, depth)
        back = -2.0 * self.lam * v
        if self.turn is not None:
            back = _times(np.swapaxes(self.turn, -1, -2), back)
        pulls = []
        for _ in given:
            pulls.append(back)
            back = back - _times(self.moment, _times(np.swapaxes(gamma, -1, -2), back)) / depth
        left, right = np.stack(pulls[::-1], axis=-1), np.stack(given, axis=-1)
        return left @ np.swapaxes(right, -1, -2) / depth


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return (matrix @ vector[..., None])[..., 0]


def _case(settings: Any, name: str) -> tuple[Any, int]:
    kind, _, depth = name.partition("-")
    law = getattr(settings, kind)
    if kind == "rotated":
        return RotatedStructure(**law, dim=settings.dim), int(depth)
    return Isotropic(**law, dim=settings.dim), int(depth)


def _excess(
    task: Any, depth: int, gamma: float, batch: int, rates: np.ndarray, settings: Any, seed: int
) -> np.ndarray:
    """The mean loss of Γ over that of γ*I along runs with different η."""
    generator = np.random.default_rng([seed, batch, depth])
    law, start = _Law(task), gamma * np.eye(task.dim)
    now, found = np.broadcast_to(start, (rates.size, task.dim, task.dim)).copy(), []
    for k in range(1, settings.steps + 1):
        fresh = _Contexts(law, (rates.size, batch), generator)
        now -= rates[:, None, None] * fresh.slope(now[:, None], depth).mean(axis=1)
        if k % (settings.steps // POINTS) == 0:
            others = _Contexts(law, (settings.asked,), generator)
            rise = others.loss(now[:, None], depth).mean(axis=1) - others.loss(start, depth).mean()
            slope = others.slope(start, depth).mean(axis=0)
            found.append(rise - np.sum(slope * (now - start), axis=(1, 2)))
    return np.asarray(found).T


@fig.data
def runs(settings: Any) -> xr.Dataset:
    """SGD from γ*I at several η and B, and the law."""
    loads, seeds = np.asarray(settings.loads), settings.seeds
    steps = np.arange(1, POINTS + 1) * (settings.steps // POINTS)
    cases = []
    for number, name in enumerate(settings.cases):
        task, depth = _case(settings, name)
        more = {} if isinstance(task, RotatedStructure) or depth == 1 else {"drawn": settings.drawn}
        how: dict[str, Any] = {"time": "matrix", "seed": settings.seed, **more}
        unit = batch_floor(task, depth, lr=1.0, contexts=1, **how)
        rates = loads / unit.curvature.max()
        rows: dict[str, list[Any]] = {"excess": [], "told": [], "floor": []}
        for batch in settings.batches:
            seed = settings.seed + number
            every = np.repeat(rates, seeds)
            seen = _excess(task, depth, unit.gamma, batch, every, settings, seed)
            rows["excess"].append(seen.reshape(loads.size, seeds, POINTS))
            laws = [batch_floor(task, depth, lr=x, contexts=batch, **how) for x in rates]
            rows["told"].append([one.after(steps) for one in laws])
            rows["floor"].append([one.loss for one in laws])
        axes = {"excess": ("pace", "run", "step"), "told": ("pace", "step"), "floor": ("pace",)}
        found: dict[str, Any] = {x: (("batch", *axes[x]), np.asarray(rows[x])) for x in rows}
        found["rate"] = ("pace", rates)
        found |= {"noise": unit.noise.sum(), "unsure": unit.error / unit.loss}
        cases.append(xr.Dataset(found | {"curvature": ("part", unit.curvature)}))
    joined = xr.concat(cases, xr.IndexVariable("case", list(settings.cases)))
    return joined.assign_coords(batch=list(settings.batches), pace=loads, step=steps)


@fig.data
def depths(settings: Any) -> xr.Dataset:
    """Tr S against L, of a few directions and of very many."""
    layers = 2 ** np.arange(settings.octaves + 1)
    tasks = [RotatedStructure(nu, beta, settings.many) for nu, beta in settings.pairs]
    few = [_case(settings, "rotated-1")[0]]
    rows = [
        [batch_floor(task, int(n), lr=1.0, contexts=1, time="matrix").noise.sum() for n in layers]
        for task in tasks
    ]
    own = [batch_floor(few[0], int(n), lr=1.0, contexts=1).noise.sum() for n in layers[:4]]
    found: dict[str, Any] = {"many_noise": (("pair", "layers"), np.asarray(rows))}
    found["few_noise"] = ("layers", np.append(own, np.full(layers.size - 4, np.nan)))
    return xr.Dataset(found, coords={"layers": layers})


@fig.data
def recursion(settings: Any) -> xr.Dataset:
    """What SGD leaves of one isotropic layer at growing D, over where the recursion settles."""
    rows, eta = [], settings.slow
    for alpha, noise in settings.large:
        curvature = 1.0 + (1.0 + noise**2) / alpha
        endless: dict[str, Any] = {"batch": 1.0, "queries": 1e15}
        curve = sgd_curve(Isotropic(alpha, noise), lr=eta, steps=1, **endless)
        # The recursion's η has the 2/D of the gradient in it: twice the step of γ.
        rows.append(
            [
                batch_floor(Isotropic(alpha, noise, dim=d), 1, lr=eta / 2, contexts=d).loss
                / (curvature * float(curve.floor))
                for d in settings.dims
            ]
        )
    return xr.Dataset({"over": (("layer", "dim"), rows)}, coords={"dim": list(settings.dims)})


@fig.data
def turned(settings: Any) -> xr.Dataset:
    """The mean loss of γ*(I + aJ), J antisymmetric and orthogonal, over that of γ*I."""
    means, errors = np.empty((2, 2, len(settings.deep), len(settings.turns)))
    for n, dim in enumerate(settings.turned_dims):
        # As many numbers are drawn at every D: the loss of a wide context fluctuates less.
        number = round(settings.drawn * (settings.dim / dim) ** 2)
        turn, eye = np.kron(np.eye(dim // 2), [[0.0, 1.0], [-1.0, 0.0]]), np.eye(dim)
        generator = np.random.default_rng([settings.seed, 99])
        contexts = _Contexts(_Law(Isotropic(settings.long, dim=dim)), (number,), generator)
        for k, depth in enumerate(settings.deep):

            def mean(
                gamma: float, depth: int = depth, eye: Any = eye, contexts: Any = contexts
            ) -> float:
                return float(np.log(contexts.loss(gamma * eye, depth).mean()))

            best: Any = minimize_scalar(mean, bounds=(0.3 * depth, depth), method="bounded")
            gamma = best.x
            first = contexts.loss(gamma * eye, depth)
            rise = [contexts.loss(gamma * (eye + a * turn), depth) - first for a in settings.turns]
            means[n, k] = np.mean(rise, axis=1) / first.mean()
            errors[n, k] = np.std(rise, axis=1, ddof=1) / math.sqrt(first.size) / first.mean()
    both = ("turned_dim", "deep", "turn")
    places = {"turned_dim": list(settings.turned_dims), "deep": list(settings.deep)}
    return xr.Dataset(
        {"rise": (both, means), "rise_error": (both, errors)},
        coords=places | {"turn": list(settings.turns)},
    )


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Excess against B, η and steps, Tr S against L, a turned Γ, and one layer's recursion."""
    settings, by_batch, by_rate, by_time = settings_of(d), [], [], []
    first, slow, fast = settings.batches[0], settings.loads[0], settings.loads[-1]
    late = d.excess.isel(step=LATE).mean("step")
    mean, spread = late.mean("run"), 2.0 * late.std("run", ddof=1) / d.sizes["run"] ** 0.5
    for k, name in enumerate(d.case.values):
        kind, _, depth = str(name).partition("-")
        label, here = f"{NAMES[kind]}, $L = {depth}$", {"case": name, "pace": fast}
        by_batch.append(_bars(d.batch, mean.sel(here), spread.sel(here), k))
        by_batch.append(theory(d.batch, d.floor.sel(here), label, k))
        here = {"case": name, "batch": first}
        share = d.told.sel(here).isel(step=LATE).mean("step")
        beside = d.pace * (1.0 + 0.03 * (k - 2.5))  # so that bars can be told apart
        by_rate.append(_bars(beside, mean.sel(here) / share, spread.sel(here) / share, k))
        if kind == "rotated":
            run = d.sel(case=name, pace=slow)
            x, few = d.step * float(run.rate), {"step": POINTS // 20}  # looks in one point
            seen = (run.excess / run.floor).mean(["run", "batch"]).coarsen(few).mean()
            by_time.append(tokens(x.coarsen(few).mean(), seen, "", k, markersize=3.5))
            by_time.append(theory(x, (run.told / run.floor)[0], label, k))
    by_batch.append(entry("SGD", color="0.3", **TOKENS))
    by_batch.append(entry(r"$\eta\,\mathrm{Tr}\,S/4B$", color="0.3", **THEORY))
    by_rate.append(level(1.0, **LAW))
    nu, beta = settings.rotated["nu"], settings.rotated["beta"]
    words = rf"$D = {settings.dim}$, $\nu = {nu:g}$, $\beta = {beta:g}$"
    noise = [tokens(d.layers, d.few_noise, words, 0)]
    for k, (nu, beta) in enumerate(settings.pairs):
        row, power = d.many_noise[k], 2.0 + beta + min(beta, 1.0)
        words = rf"$D = 10^8$, $\nu = {nu:g}$, $\beta = {beta:g}$"
        noise.append(line(d.layers, row, words, k + 1))
        fall = 0.2 * float(row[-1]) * (d.layers / float(d.layers[-1])) ** -power
        noise.append(law(d.layers, fall, "" if k else r"$L^{-(2+\beta+\min(\beta,1))}$"))
    turns = [level(0.0)]
    for k, n in enumerate(settings.deep):
        here = d.isel(turned_dim=0).sel(deep=n)
        turns.append(_bars(d.turn, here.rise, 2.0 * here.rise_error, k))
        turns.append(line(d.turn, here.rise, f"$L = {n}$", k))
    limits = [law(d.dim, float(d.over[0, 0] - 1.0) * d.dim[0] / d.dim, "$1/D$")]
    for k, (alpha, sigma) in enumerate(settings.large):
        words = rf"$\alpha = {alpha:g}$, $\sigma = {sigma:g}$"
        limits.append(line(d.dim, d.over[k] - 1.0, words, k, marker="o", markersize=3.5))
    wide, look = r"$\eta\,h_\mathrm{max}$", _SMALL
    a, b = rf"{wide} $= {fast:g}$", f"$B = {first}$"
    c = rf"from $\gamma^*I$, {wide} $= {slow:g}$"
    e = rf"ISO, $D = {settings.turned_dims[0]}$, $\alpha = {settings.long:g}$, $\sigma = 0$"
    excess, over = r"excess of $\mathcal{L}$", r"excess / $(\eta\,\mathrm{Tr}\,S/4B)$"
    batches, paces, dims = (_ticks(x.values) for x in (d.batch, d.pace, d.dim))
    top = (None, 30.0 * float(d.floor.sel(pace=fast).max()))  # room for the legend
    two = lambda axes: axes.legend(fontsize=7.0, loc="upper right", ncols=2)  # noqa: E731
    turn, ratio = r"$\Delta\mathcal{L}/\mathcal{L}$ of $\gamma^*(I + aJ)$", "over recursion $-$ 1"
    return drawn(
        Panel("$B$", excess, by_batch, "xy", a, ylim=top, legend=0, more=[batches, two]),
        Panel(wide, "excess / law", by_rate, "x", b, legend=0, more=[paces]),
        Panel(r"$\eta n$", over, by_time, "x", c, where="lower right", ylim=(0.2, 1.4), **look),
        Panel("$L$", r"$\mathrm{Tr}\,S$", noise, "xy", "RRS, endless contexts", **look),
        Panel("$a$", turn, turns, "", e, ylim=(-0.3, 0.3), **look),
        Panel("$D$", ratio, limits, "xy", r"ISO, $L = 1$, $\eta \to 0$", more=[dims], **look),
        rows=2,
    )


_SMALL: dict[str, Any] = {"legend": 7.0}


def _bars(x: Any, y: Any, error: Any, k: int) -> Mark:
    """Points with two standard errors."""
    look: dict[str, Any] = {"yerr": error, "color": colour(k), "fmt": "o", "markersize": 3.5}
    return Mark(lambda axes: axes.errorbar(x, y, **look))


def _ticks(values: Any) -> Any:
    def put(axes: Any) -> None:
        axes.set_xticks(values, [f"{x:g}" for x in values])
        axes.xaxis.set_minor_formatter("")

    return put


def _limit(d: xr.Dataset, name: str, window: slice) -> tuple[float, float, float]:
    """Measured over told at η → 0, its standard error, and the largest correction at a finite η.

    By least squares with weights ∝ η, as runs see so many times the relaxation.
    """
    here = d.sel(case=name).isel(step=window)
    ratio = here.excess.mean("step", skipna=False) / here.told.mean("step")
    ratio = ratio.transpose("batch", "pace", "run")
    load, inverse = xr.broadcast(d.pace, 1.0 / d.batch, ratio)[:2]
    load, inverse = (x.transpose(*ratio.dims).values.ravel() for x in (load, inverse))
    design = np.stack([np.ones_like(load), load, load * inverse], axis=1)
    root = np.sqrt(load)[:, None]
    values = ratio.values.ravel()
    found, *_ = np.linalg.lstsq(root * design, root[:, 0] * values, rcond=None)
    left = root[:, 0] * (values - design @ found)
    variance = left @ left / (values.size - 3) * np.linalg.inv((root * design).T @ (root * design))
    most = abs(design[:, 1:] @ found[1:]).max()
    return float(found[0]), math.sqrt(variance[0, 0]), float(most)


def _law(d: xr.Dataset, name: str, window: slice, note: str = "") -> Finding:
    limit, error, most = _limit(d, name, window)
    here = d.sel(case=name)
    unsure = float(here.unsure)
    words = f"Standard errors {error:.4f} over the runs and {unsure:.4f} of Tr S; the first order "
    words += f"in η is at most {most:.3f}. {note}"
    because = "3 standard errors, and for the next order in η the square of the first"
    slack = 3.0 * math.hypot(error, unsure) + most**2
    return near(limit, 1.0, slack, because=because, note=words.strip())


@fig.claim("new", "derived", word="law-{x}", over="cases")
def on_the_law(d, x):
    """Started at γ*I, SGD with batches of B contexts leaves Σ_i (η/4B) Tr S_i (1 − e^(−2ηh_i n)),
    which becomes (η/4B) Tr S: no curvature is in it (mean excess over the second half of the runs
    over the law, at η → 0; {x})."""
    here = d.sel(case=x)
    done = (here.told.isel(step=LATE).mean("step") / here.floor).min()
    return _law(d, x, LATE, f"At the least of η it has come to {float(done):.3f} of its end.")


@fig.claim("new", "derived")
def approach(d):
    """The approach has a rate for each part of Γ, 2ηh of its trace, of the rest of its symmetric
    part, of its antisymmetric part (mean excess over the first fifth of the runs over the law, at
    η → 0; rotated, L = 4)."""
    here = d.sel(case="rotated-4")
    rates = ", ".join(f"{x:.2g}" for x in here.curvature.values)
    fast = 1.0 - np.exp(-2.0 * here.rate * here.curvature[0] * d.step)
    slow = here.told / here.floor
    ratio = (fast / slow).isel(step=EARLY).mean("step").max()
    words = f"h = {rates}; with the first for all parts it would be up to {float(ratio):.2f} there."
    return _law(d, "rotated-4", EARLY, words)


@fig.claim("new", "derived")
def batches(d):
    """It falls as 1/B (log-log slope at η → 0 from the smallest to the largest B, mean over the
    cases)."""
    slopes, errors, most = [], [], []
    ends = [d.sel(batch=[settings_of(d).batches[k]]) for k in (0, -1)]
    span = math.log(float(ends[1].batch[0]) / float(ends[0].batch[0]))
    for name in d.case.values:
        (first, e1, m1), (last, e2, _) = (_line(one, name) for one in ends)
        slopes.append(math.log(last / first) / span - 1.0)
        errors.append(math.hypot(e1 / first, e2 / last) / span)
        most.append(m1**2 / span)
    error = math.sqrt(sum(e**2 for e in errors)) / len(errors)
    because = "3 standard errors, and for the next order in η the square of the first"
    words = f"Standard error {error:.4f}; slopes " + ", ".join(f"{x:.3f}" for x in slopes) + "."
    slack = 3.0 * error + float(np.mean(most))
    return near(np.mean(slopes), -1.0, slack, because=because, note=words)


def _line(d: xr.Dataset, name: str) -> tuple[float, float, float]:
    """As `_limit`, at one B."""
    here = d.sel(case=name).isel(step=LATE, batch=0)
    ratio = (here.excess.mean("step", skipna=False) / here.told.mean("step")).transpose(
        "pace", "run"
    )
    load = np.repeat(d.pace.values, ratio.sizes["run"])
    fit, cov = np.polyfit(load, ratio.values.ravel(), 1, w=np.sqrt(load), cov=True)
    return float(fit[1]), math.sqrt(cov[1, 1]), abs(float(fit[0])) * load.max()


@fig.claim("new", "derived", word="depth-{x}", over=(0, 1))
def deeper(d, x):
    """Depth makes it quieter: of endless rotated contexts Tr S falls as L^−(2+β+min(β,1)), faster
    than the loss, L^−β (local exponent in the last octave, D = 10⁸; pair {x} of ν and β)."""
    nu, beta = settings_of(d).pairs[x]
    local = -np.diff(np.log2(d.many_noise[x].values))
    because = "twice what the exponent moves in the octave: its steps shrink by 0.6 in each"
    words = f"ν = {nu:g}, β = {beta:g}; octaves " + ", ".join(f"{v:.3f}" for v in local) + "."
    told = 2.0 + beta + min(beta, 1.0)
    slack = 2.0 * abs(local[-1] - local[-2])
    return near(local[-1], told, slack, because=because, note=words)


@fig.claim("check", "accounts: ISO SGD; derived")
def one_layer(d):
    """For one isotropic layer it is what the recursion of SGD leaves, cC, as η → 0 and D → ∞
    (ratio, extrapolated from the two largest D; the furthest of two α and σ)."""
    ends = 2.0 * d.over.values[:, 1:] - d.over.values[:, :-1]
    far = np.argmax(abs(ends[:, -1] - 1.0))
    gap, dims = abs(d.over.values - 1.0), settings_of(d).dims
    because = "what the extrapolation moved when D was doubled last, three times what is left"
    words = f"Largest gap {gap[:, 0].max():.4f} at D = {dims[0]}, {gap[:, -1].max():.4f} at "
    words += f"D = {dims[-1]}. The recursion's η has the 2/D of the gradient in it."
    slack = abs(ends[far, -1] - ends[far, -2])
    return near(ends[far, -1], 1.0, slack, because=because, note=words)


@fig.claim("new", "numbers")
def saddle(d):
    """On isotropic contexts of α = 8 without noise γ*I is no minimum for deep Γ, at D = 8 and 32:
    an antisymmetric part lowers the mean loss (relative change of the loss at a = 0.2, L = 4, plus
    3 standard errors, the larger of two D)."""
    here = d.sel(deep=4, turn=0.2)
    words = "Change " + ", ".join(
        f"{float(here.rise[n]):.4f} ± {float(here.rise_error[n]):.4f} (D = {dim})"
        for n, dim in enumerate(d.turned_dim.values)
    )
    words += ". Largest fall at each depth, D = 8: "
    lows = d.rise.isel(turned_dim=0).min("turn").values
    words += ", ".join(f"{x:.3f} (L = {n})" for x, n in zip(lows, d.deep.values, strict=True))
    because = "above 0 γ*I would be as good; γ* is the best γ on the same contexts"
    change = (here.rise + 3.0 * here.rise_error).max()
    return at_most(change, 0.0, because=because, note=words + ".")


FIGURE = fig
