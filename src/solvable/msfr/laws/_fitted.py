"""The model's finite-size curve as a law that curves of any origin can be fitted by."""

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...compiling import stage
from ...numerics.streaming import sum_rows
from ...scaling import Formula
from ..start import Init
from ..task import Task
from ..theory import (
    MAX_TIME,
    ORDERS,
    Order,
    Rows,
    all_rows,
    initial_residual,
    kernel_of,
    rest_square,
    rows_of,
)

Resource = Literal["t", "D", "N"]
RESOURCES = ("t", "D", "N")
_PIECE = 1 << 18  # entries (tasks × points) worked on at once
# Where a search starts: the first task is learned at these multiples of the data's middle. The
# curve has steps, a task each, and with them minima: the places lie close where it is the only one.
_ALONE = tuple(np.geomspace(1e-5, 30.0, 20).tolist())
_BENDS = (1e-4, 3e-3, 0.1, 3.0)
_SIZES = (1e-3, 3e-2, 0.3)


def curve_law(
    resources: Sequence[Resource] = ("t",),
    *,
    num_tasks: int = 500,
    context: Any = 100.0,
    strength: Any = 0.5,
    v: Any = 0.1,
    w: Any = 0.11,
    order: Order = "zeroth",
) -> Formula:
    r"""``y = E + A L(t/unit_t, D/unit_D, N/unit_N)/L(0)``: the model's own curve, to be fitted.

    L is `loss`, ``½ Σ_s p_s (f_s − Λ_s)²`` with ``p_s ∝ s^-α``, ``ψ_s = ψ_1 s^-β`` and
    ``Λ_s = Λ_1 s^-γ``, at finite S: it starts at L(0), bends where the first task is learned,
    falls like a power of its resource, and ends with the last task. What is not among the resources
    has no limit; without t, what a model of size D has data for and can learn is learned.

    Between whole D the loss is interpolated: task s is learned by the share ``D − s`` in [0, 1].
    Where D is the model's own size, pin ``unit_D`` to 1: the curve has corners at whole D.

    What one curve tells apart (the condition number of a fit with S = 500 to 40 times over eight
    decades, early bend included): E, A, α and unit_t at β = γ = 0, 5 to 12; with β or γ besides, 38
    or 23; with both, 320, or 16 with unit_t pinned. A curve in D alone hardly tells γ from α (900)
    and says nothing of β; a table in t and D tells all three (63). Without the bends there is one
    exponent, ``(α+2γ−1)/(α+β+γ)``, and α, β, γ cannot be told apart.

    Args:
        resources: which of t (time), D (model size) and N (data); not t and N together.
        num_tasks: S.
        context: ψ_1.
        strength: Λ_1.
        v, w: where linear attention starts.
        order: "zeroth", "first", or "exact" (which compiles for long).

    Returns:
        The law, with the parameters E, A, alpha, beta, gamma and a unit of every resource: how much
        of the data's resource makes 1 of the model's.

    >>> from solvable import msfr
    >>> law = msfr.curve_law(num_tasks=50)
    >>> law.parameters
    ('E', 'A', 'alpha', 'beta', 'gamma', 'unit_t')
    >>> law.curve(np.array([1.0, 2.0, 1.8, 0.0, 0.0, 1.0]), np.array([[1e-9], [1e9]])).round(4)
    array([3., 1.])
    """
    validation.needs_double("a law to be fitted")
    names = tuple(resources)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"resources must be one or more of t, D, N, each once, not {resources!r}")
    for name in names:
        validation.one_of("resources", name, RESOURCES)
    if "t" in names and "N" in names:
        raise ValueError("resources must not hold t and N together: data limit a model trained out")
    validation.one_of("order", order, ORDERS)
    given = {"context": context, "strength": strength, "v": v, "w": w}
    for name, value in given.items():
        validation.concrete(name, value, why="a law to be fitted is built")
        validation.shaped(name, validation.floating(name, value), ())
    Task(num_tasks, 2.0, context, strength).fit(24.0)  # refuses what is no task
    Init(v, w)
    settings = (int(num_tasks), *map(float, given.values()), order)
    return _law(names, *settings)


@lru_cache(maxsize=16)
def _law(
    names: tuple[Resource, ...],
    num_tasks: int,
    context: float,
    strength: float,
    v: float,
    w: float,
    order: Order,
) -> Formula:
    task = partial(Task, num_tasks=num_tasks, context=context, strength=strength)
    init = Init(v, w)

    def function(given: dict[str, Any], columns: dict[str, Any]) -> Any:
        model = task(alpha=given["alpha"], beta=given["beta"], gamma=given["gamma"])
        places = {name: columns[name] / given[f"unit_{name}"] for name in names}
        return given["E"] + given["A"] * relative_loss(model, init, places, order)

    units = {name: f"unit_{name}" for name in names}
    bend = _first_time(context, strength, v, w)
    places = _ALONE if len(names) == 1 else _BENDS
    tried = {
        "t": tuple(x / bend for x in places),
        "D": _ALONE if len(names) == 1 else _SIZES,
        "N": places,
    }
    return Formula(
        name="msfr",
        resources=names,
        function=function,
        bounds={
            "E": (0.0, math.inf),
            "A": (0.0, math.inf),
            "alpha": (1.001, 10.0),
            "beta": (0.0, 10.0),
            "gamma": (0.0, 10.0),
            **dict.fromkeys(units.values(), (0.0, math.inf)),
        },
        begin={
            "alpha": (1.2, 1.7, 3.0),
            "beta": (0.2,),
            "gamma": (0.2,),
            **{units[name]: tried[name] for name in names},
        },
        linear=("E", "A"),
        exponents=("alpha",),
        logarithmic=("A", *units.values()),
        units=units,
        settings={
            "num_tasks": num_tasks,
            "context": context,
            "strength": strength,
            "v": v,
            "w": w,
            "order": order,
        },
    )


def relative_loss(
    task: Task, init: Init, places: dict[str, Array], order: Order
) -> Float[Array, " points"]:
    """L/L(0) at points t, D, N; what is not given has no limit."""
    # Between whole D the sum has corners, which nodes cannot see.
    rows = all_rows(task, init) if "D" in places else rows_of(task, init)
    kernel = kernel_of(order, None)
    count = next(iter(places.values())).shape[0]

    def losses(part: Rows) -> Array:
        start, weight = part.start, part.weight
        initial = (initial_residual(start, order) ** 2)[:, None]
        rest = rest_square(start, order)[:, None]
        left = jnp.broadcast_to(rest, (weight.shape[0], count))
        if "t" in places:
            time = jnp.minimum(places["t"], MAX_TIME)
            left = kernel(start, weight[:, None] * time[None, :]) ** 2
        if "N" in places:
            missed = jnp.log1p(-jnp.minimum(weight, 1.0 - 1e-16))
            unseen = jnp.exp(missed[:, None] * places["N"][None, :])
            left = rest + (initial - rest) * unseen
        if "D" in places:
            learned = jnp.clip(places["D"][None, :] - part.index[:, None], 0.0, 1.0)
            left = learned * left + (1.0 - learned) * initial
        return part.share[:, None] * left

    rows = jax.tree.map(stage, rows)
    total = sum_rows(losses, rows, piece=max(1, _PIECE // count))
    return total / jnp.sum(rows.share * initial_residual(rows.start, order) ** 2)


def _first_time(context: float, strength: float, v: float, w: float) -> float:
    """About when the first task is learned: ``log(1 + Λ/f(0))/(2aσ)`` of Theorem 3.1."""
    along = context * (1.0 + strength) ** 2
    product = 0.25 * (along * (v + w) ** 2) * (along * (v - w) ** 2)
    sigma = max(math.sqrt(strength**2 + product), 1e-12)
    begin = max(abs(along * v * w), 1e-300)
    wait = max(math.log1p(abs(strength) / begin), 1.0)
    return wait / (context * (1.0 + strength**2) * sigma)
