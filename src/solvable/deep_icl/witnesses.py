"""Who answers the questions of `solvable.labs.deep_icl`."""

import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from ..labs.deep_icl import Asked
from ..pinned import path_of
from ..question import brief
from ..table import read
from ..training import Training
from . import model
from . import reduced as reduction
from .laws import attention_time_exponent, exponents
from .run import checked
from .spectrum import Spectrum
from .start import Init
from .task import FixedStructure, Isotropic, RotatedStructure, Task
from .theory import (
    edge,
    floor,
    is_population,
    loss,
    loss_curve,
    scalar_times,
    untied_curve,
    untied_optimum,
)
from .theory import optimum as best_of

if TYPE_CHECKING:
    import xarray as xr

_WEIGHTS = ("w_x", "w_q", "w_k", "w_v")
_WIDE = ("width", "context", "alpha")  # what the optimum may go over, besides depth
_CAPS = {"width": 1.0, "context": 2.0}  # β beyond which exponents are capped


def measured(q: Asked) -> Spectrum:
    """The user's own spectrum, or a sentence that names file, line and column."""
    path = Path(path_of(str(q.task.spectrum)))
    try:
        table = read(path)
        second = "share" if "share" in table.names else "omega"
        others = set(table.names) - {"lam", second, "weight", ""}
        if others or not {"lam", second} <= set(table.names):
            there = ", ".join(filter(None, table.names))
            raise ValueError(
                "its columns must be lam and omega, or lam and share, and weight where there is "
                f"one, not {there}"
            )
        rows = {name: _column(table, name) for name in ("lam", second)}
        weight = _column(table, "weight") if "weight" in table.names else None
        omega = rows[second] if second == "omega" else rows["share"] / rows["lam"]
        if second == "share" and weight is not None:
            omega = omega / weight  # a share is that of all directions of its row
        return Spectrum.given(rows["lam"], omega, weight)
    except ValueError as error:
        raise ValueError(f"spectrum {path.name}: {error}") from None


def _column(table: Any, name: str) -> np.ndarray:
    """A column without a gap, in its range."""
    source = table.label_source("it", name)
    kept, empty = table.complete([source])
    if empty:
        gap = min(set(range(table.rows)) - set(kept))
        raise ValueError(f"{name} must not be empty ({table.places(gap)})")
    values = table.finite(source, name, kept)
    wrong = values <= 0.0 if name == "lam" else values < 0.0
    if name == "weight":
        wrong = (values < 1.0) | (values % 1.0 != 0.0)
    if wrong.any():
        row = int(wrong.argmax())
        must = {"lam": "positive", "weight": "a whole number, at least 1"}.get(name, "at least 0")
        raise ValueError(f"{name} must be {must}, not {values[row]:g} ({table.places(row)})")
    return values


def task_of(q: Asked, **changed: Any) -> Any:
    """The context law of a question; `changed` fields take the place of those asked for."""
    told: dict[str, Any] = vars(q.task) | {"queries": q.sample.queries} | changed
    law, noise = told["law"], told["noise"]
    if law == "iso":
        return Isotropic(told["alpha"], noise, told["dim"], told["queries"])
    more = {name: told[name] for name in ("context", "noise", "queries")}
    if q.task.spectrum is None:
        more |= {name: told[name] for name in ("nu", "beta", "dim")}
    else:
        more["spectrum"] = measured(q)
    if law == "fs":
        return FixedStructure(**more)
    return RotatedStructure(width=told["width"], **more)


def _start(q: Asked) -> Init:
    if q.start.weights is not None:
        return Init(weights=q.start.weights)
    gamma = q.start.gamma
    return Init(gamma=list(gamma) if isinstance(gamma, tuple) else gamma)


def _depth(q: Asked) -> Any:
    return list(q.model.depth) if isinstance(q.model.depth, tuple) else q.model.depth


class Theory:
    """Gradient flow at any times, and the optimum of every depth that it tends to."""

    def __init__(self, q: Asked):
        self.q, self.task = q, task_of(q)
        if isinstance(self.task, FixedStructure) and self.task.context is not None:
            raise ValueError("context must be inf for the flow of law fs; training answers there")

    def __call__(self, t: Any) -> dict[str, Any]:
        """𝓛(t), and γ* with the load and the loss there."""
        depth, start, time = _depth(self.q), _start(self.q), self.q.schedule.time
        found: dict[str, Any] = {"loss": loss_curve(self.task, t, depth, start=start, time=time)}
        if isinstance(self.task, FixedStructure):  # γ* is a row, and of finite contexts takes time
            return found
        best, dims = best_of(self.task, depth), ("depth",) * isinstance(depth, list)
        found |= {"best_gamma": (dims, best.gamma), "best_loss": (dims, best.loss)}
        return found | {"load": (dims, _load(self.task, best.gamma, depth))}


class OwnTheory:
    """Gradient flow of layers with a γ each, and the least loss that they can have."""

    def __init__(self, q: Asked):
        self.task, self.unit, depth = task_of(q), q.schedule.time, q.model.depth
        if isinstance(depth, tuple) or depth == math.inf:
            words = f"not {brief(depth)}"
            raise ValueError(
                f"depth must be one finite number for untied layers over time, {words}"
            )
        begin, self.depth, _ = checked(
            self.task, _start(q), depth, q.schedule.lr, q.model.layers, self.unit
        )
        if not is_population(self.task):
            raise ValueError("width and context must be left out for untied layers over time")
        self.start = Init(gamma=begin)

    def __call__(self, t: Any) -> dict[str, Any]:
        """𝓛(t), γ of every layer, and 𝓛 of the best ones."""
        found = untied_curve(self.task, scalar_times(self.task, t, self.unit), start=self.start)
        least = untied_optimum(self.task, self.depth).loss
        told = {"long_name": "loss of the best untied layers"}
        return {
            "loss": found.loss,
            "gamma": (("time", "parts"), found.gamma),
            "best_loss": ((), least, told),
        }


def theory(q: Asked) -> Theory | OwnTheory:
    """Gradient flow, by quadrature; of untied layers by an implicit method."""
    return OwnTheory(q) if q.model.layers == "untied" else Theory(q)


class Landscape(eqx.Module):
    """The loss at any γ/L."""

    law: dict[str, Any]
    q: Asked = eqx.field(static=True)

    def __call__(self, step_size: Any) -> dict[str, Any]:
        """𝓛(γ/L); of a fixed structure all entries of Γ's diagonal are γ."""
        task, sizes = task_of(self.q, **self.law), np.asarray(step_size)
        fixed = isinstance(task, FixedStructure)
        rows = sizes[:, None] * np.ones((1, task.dim)) if fixed else sizes
        return {"loss": loss(task, step_size=rows, depth=_depth(self.q))}

    def grid(self, points: int) -> np.ndarray:
        """From 0 to the edge of stability."""
        return np.linspace(0.0, 2.0 / float(edge(task_of(self.q, **self.law))), points)


def landscape(q: Asked) -> Landscape:
    """The loss over γ/L."""
    if math.inf in np.ravel(_depth(q)):
        raise ValueError("depth must be finite for the landscape, which is over γ/L, not inf")
    if q.task.nu is None:
        return Landscape({}, q)
    power = {"nu": q.task.nu, "beta": q.task.beta}
    return Landscape(power, q.changed(nu=None, beta=None))


class Best:
    """The loss at the best γ, over depth, width, context and α."""

    def __init__(self, q: Asked):
        self.q = q
        self.wide = {n: x for n in _WIDE if isinstance(x := getattr(q.task, n), tuple)}
        places = itertools.product(*self.wide.values())
        self.tasks: list[Any] = [
            task_of(q, **dict(zip(self.wide, place, strict=True))) for place in places
        ]

    def __call__(self) -> dict[str, Any]:
        """𝓛(γ*), γ*, its load, and what the resource that is gone over leaves by itself."""
        depth = _depth(self.q)
        found = [self._optimum(task, depth) for task in self.tasks]
        shape = tuple(map(len, self.wide.values())) + np.shape(depth)
        told: dict[str, Any] = {
            name: np.reshape([np.asarray(each[name]) for each in found], shape)
            for name in found[0]
            if name != "layer_gamma"
        }
        if "layer_gamma" in found[0]:
            rows = np.reshape([np.asarray(each["layer_gamma"]) for each in found], (*shape, -1))
            dims = (*self.wide, *("depth",) * isinstance(depth, list), "layer")
            told["layer_gamma"] = (dims, rows, {"long_name": "γ of every layer"})
        return told | self._floor(depth)

    def _optimum(self, task: Task, depth: Any) -> dict[str, Any]:
        told = self.q.model
        drawn: dict[str, Any] = {"contexts": told.draws, "seed": self.q.schedule.seed}
        if told.draws is not None and isinstance(task, Isotropic) and task.dim is None:
            raise ValueError("dim must be given to draw contexts of iso")
        if told.layers == "untied":
            best = untied_optimum(task, depth, **drawn)
            names = ("loss", "error", "typical", "rounded", "bound", "gamma")
            more = {n: getattr(best, n) for n in names if getattr(best, n) is not None}
            return more | {"layer_gamma": more.pop("gamma")}
        best = best_of(task, depth, margin=told.margin, **drawn)
        names = [n for n in ("loss", "error", "typical") if getattr(best, n) is not None]
        more = {name: getattr(best, name) for name in names}
        if isinstance(task, FixedStructure):
            return more
        return more | {"best_gamma": best.gamma, "load": _load(task, best.gamma, depth)}

    def _floor(self, depth: Any) -> dict[str, Any]:
        """Of a rotated structure and one resource."""
        if self.q.task.law != "rrs" or len(self.wide) > 1 or self.q.model.layers == "untied":
            return {}
        if not self.wide:
            dims = ("depth",) * isinstance(depth, list)
            found: Any = floor(self.tasks[0], "depth", depth=depth)
            return {"floor": (dims, found, {"long_name": "depth alone"})}
        (over,) = self.wide
        limit: Any = over
        found = [floor(task, limit).item() for task in self.tasks]
        return {"floor": ((over,), found, {"long_name": f"{over} alone"})}


def _load(task: Task, gamma: Any, depth: Any) -> np.ndarray:
    """γ·edge/L, stable below 2; no number where the depth is infinite."""
    layers = np.asarray(depth, float)
    with np.errstate(invalid="ignore"):
        load = np.asarray(gamma) * float(edge(task)) / layers
    return np.where(np.isinf(layers), np.nan, load)


def optimum(q: Asked) -> Best:
    """The loss at the best γ."""
    return Best(q)


def reduced(q: Asked) -> Training:
    """Gradient descent on one γ, one for each layer or direction, or four weights."""
    return reduction.prepare(task_of(q), _start(q), **_training(q))


def tokens(q: Asked) -> Training:
    """The matrix Γ, or those of full attention, trained on contexts."""
    task = task_of(q)
    if task.dim is None:
        raise ValueError("dim must be given to train on contexts of iso")
    if q.start.weights is not None:
        for name, value in (("context", task.context), ("queries", task.queries)):
            if value is None:
                raise ValueError(f"{name} must be given to train full attention on contexts")
    drawn: dict[str, Any] = {"contexts": q.sample.contexts or 1, "seed": q.schedule.seed}
    return model.prepare(task, _start(q), **_training(q), **drawn)


def _training(q: Asked) -> dict[str, Any]:
    how: dict[str, Any] = {"lr": q.schedule.lr, "time": q.schedule.time}
    return {"depth": q.model.depth, "layers": q.model.layers, **how}


def derived(data: "xr.Dataset") -> "xr.Dataset":
    """The mean γ over layers or directions, and the four weights by their names."""
    if "gamma" in data and "parts" in data.gamma.dims:
        data = data.assign(mean_gamma=data.gamma.mean("parts"))
    if "weights" in data:
        (axis,) = [dim for dim in data.weights.dims if dim != "time"]
        each = {name: data.weights.isel({axis: k}) for k, name in enumerate(_WEIGHTS)}
        data = data.drop_vars("weights").assign(each)
    return data


def facts(q: Asked) -> dict[str, tuple[float | None, str]]:
    """The edge of stability, what width and context leave, and the exponents of the laws."""
    told: dict[str, tuple[float | None, str]] = {}
    if not any(isinstance(getattr(q.task, name), tuple) for name in _WIDE):
        task = task_of(q)
        told["edge"] = (edge(task).item(), "edge of the spectrum; stable for γ < 2L/edge")
        if isinstance(task, RotatedStructure):
            told |= _floors(task)
    if q.task.law != "rrs" or q.task.nu is None or q.task.beta is None:
        return told
    powers = exponents(q.task.nu, q.task.beta, q.schedule.time, layers=q.model.layers)
    for name in ("time", "depth", "width", "context"):
        capped = ", capped" if q.task.beta > _CAPS.get(name, math.inf) else ""
        told[f"{name}_exponent"] = (float(getattr(powers, name)), f"exponent of {name}{capped}")
    if q.model.layers == "untied":
        exact, words = (2.0 + q.task.nu) * q.task.beta, "exponent of untied depth"
        told["depth_exponent"] = (float(powers.depth), f"{words}, where contexts differ")
        told["exact_depth_exponent"] = (exact, f"{words}, where all are alike")
        return told
    if q.start.weights is not None:
        power = float(attention_time_exponent(q.task.beta))
        return told | {"time_exponent": (power, "exponent of time, of full attention")}
    told["compute_exponent"] = (float(powers.compute()), "exponent of compute t·N²·L")
    return told


def _floors(task: RotatedStructure) -> dict[str, tuple[float | None, str]]:
    narrow, short = task.width < task.dim, task.context is not None
    both = narrow and short and (task.context or 0) > task.width + 1
    asked: dict[Any, bool] = {"width": narrow, "context": short, "both": both}
    words = {"both": "both, trained to the end"}
    silent = ", without noise" if float(task.noise) else ""
    return {
        f"{name}_floor": (
            floor(task, name).item(),
            f"loss that is left by {words.get(name, name)}{silent}",
        )
        for name, wanted in asked.items()
        if wanted
    }
