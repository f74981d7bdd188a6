"""Fixed points of separate attention: their maps, losses and stability, and levels between them."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...numerics.host import packed, unpacked
from ..task import Task
from ._directions import axes, diagonal, one_output, subset_of
from ._population import plateau_losses
from ._rank import final_weights


def fixed_point(task: Task, subset: Any) -> Float[Array, "dim dim"]:
    r"""The map of a fixed point: ``M_S = Σ_{d ∈ S} w*_d e_d e_dᵀ``, ``w*_d = 1/(λ_d γ_d)``.

    Every subset S of the eigenvectors is one, so that there are 2^D functions where training can
    rest. It is principal component regression in context.

    Args:
        task: the data law; its task covariance must be the identity.
        subset: S, places of eigenvectors, 0 for the largest eigenvalue.

    Returns:
        M in the tokens' coordinates.

    Reference: eq. (12).

    >>> fixed_point(Task(dim=2, context=10, spectrum="white"), [1]).round(6).tolist()
    [[0.0, 0.0], [0.0, 1.538462]]
    """
    moments = diagonal(task)
    places = np.array(subset_of(task, subset), int)
    _, vectors, best = unpacked(axes(task), moments.best)
    return packed((vectors[:, places] * best[places][None, :]) @ vectors[:, places].T)


def plateau_loss(task: Task, subset: Any) -> Float[Array, ""]:
    r"""The loss of a fixed point: ``L(M_S) = tr Λ − Σ_{d ∈ S} λ_d/γ_d``.

    Summed over what is not learned, so that long contexts lose no digits. With fewer heads than
    dimensions training ends at the loss of the first H eigenvectors.

    Args:
        task: the data law; its task covariance must be the identity.
        subset: S, places of eigenvectors, 0 for the largest eigenvalue.

    Reference: eq. (15).

    >>> plateau_loss(Task(dim=4, context=31), [0, 1]).round(8).item()
    0.37737216
    """
    moments = diagonal(task)
    rest = np.setdiff1d(np.arange(task.dim), subset_of(task, subset))
    return packed(moments.floor + (moments.cross * moments.best)[rest].sum())


def aligned_weights(
    task: Task, subset: Any, heads: int | None = None
) -> dict[str, Float[Array, "..."]]:
    r"""Weights at a fixed point: each learned direction has one head, ``k = q = v e_d``.

    ``v_d = (w*_d)^{1/3}``; the other heads are zero.

    Args:
        task: the data law, with one output.
        subset: S, places of eigenvectors, 0 for the largest eigenvalue, one a head.
        heads: H, at least as many; as many unless given.

    Returns:
        "value" (heads, 1, features), "key" (heads, 1, features) and "query" (heads, 1, dim): the
        entries that reach the prediction, in the paper's units and the tokens' coordinates.

    Reference: eqs. (16)–(17).

    >>> aligned_weights(Task(dim=2, context=10, spectrum="white"), [0])["value"].shape
    (1, 1, 3)
    """
    places = subset_of(task, subset)
    return final_weights(task, [(d,) for d in places], heads=heads)


def stability(task: Task, subset: Any) -> Float[Array, ""]:
    r"""The least eigenvalue of the Hessian of L at the aligned weights of a fixed point.

    A head that holds the learned direction i can turn to an unlearned one d: in ``(δk_d, δq_d)``
    the Hessian is

    ``[[2 a_d λ_i v⁴, −2 λ_d² v], [−2 λ_d² v, 2 a_i λ_d v⁴]]``, ``v = (λ_i γ_i)^{−1/3}``,

    ``a = λ²γ``; it has a negative eigenvalue where ``λ_d/γ_d > λ_i/γ_i``. No other block has one.
    So the plateaus that training visits, which hold the largest eigenvalues, are no strict saddles
    (zero is returned: they are left algebraically), and all other sets are.

    Args:
        task: the data law, with one output; its task covariance must be the identity.
        subset: S, places of eigenvectors, 0 for the largest eigenvalue.

    Reference: derived for this package.

    >>> task = Task(dim=4, context=31)
    >>> [stability(task, s).round(4).item() for s in ([0, 1], [1], [0, 2])]
    [0.0, -0.0655, -0.0579]
    """
    moments = diagonal(task)
    one_output(task)
    held = np.array(subset_of(task, subset), int)
    rest = np.setdiff1d(np.arange(task.dim), held)
    if held.size == 0 or rest.size == 0:
        return packed(0.0 * moments.floor)
    xp, moments = unpacked(moments)
    v = xp.cbrt(moments.best[held])[:, None]
    key = 2.0 * moments.gram[rest][None, :] * moments.spectrum[held][:, None] * v**4
    query = 2.0 * moments.gram[held][:, None] * moments.spectrum[rest][None, :] * v**4
    both = -2.0 * moments.cross[rest][None, :] * v
    largest = 0.5 * (key + query) + xp.sqrt((0.5 * (key - query)) ** 2 + both**2)
    least = (key * query - both**2) / largest
    return packed(xp.minimum(xp.min(least), 0.0))


def mid_levels(task: Task) -> Float[Array, " dim"]:
    r"""The losses half-way between two plateaus, ``½(L(M_m) + L(M_{m+1}))``, m = 0 … D − 1.

    A drop is where the loss crosses one of them.

    Args:
        task: the data law; its task covariance must be the identity.

    Reference: derived for this package.

    >>> mid_levels(Task(dim=4, context=31)).round(4).tolist()
    [0.8203, 0.509, 0.2936, 0.1729]
    """
    diagonal(task)
    _, levels = unpacked(plateau_losses(task))
    return packed(0.5 * (levels[:-1] + levels[1:]))


def _curve(time: Any, loss: Any, levels: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    parts = {"time": time, "loss": loss, "levels": levels}
    for name, part in parts.items():
        validation.concrete(name, part, why="levels are looked for")
    time, loss, levels = (validation.real(name, part) for name, part in parts.items())
    if loss.ndim == 0 or time.shape != loss.shape[-1:]:
        raise ValueError(
            f"time must be one axis as long as the last of loss, not of shape {time.shape} with "
            f"loss of shape {loss.shape}"
        )
    if time.size == 0:
        raise ValueError("time must have one point or more, not none")
    if not np.all(np.diff(time) > 0.0):
        raise ValueError("time must increase, not stand still, fall or hold a NaN")
    if levels.ndim != 1 or not np.all(np.diff(levels) < 0.0):
        raise ValueError(f"levels must be one axis of decreasing numbers, not {levels.tolist()}")
    return time, loss, levels


def crossing_times(time: Any, loss: Any, levels: Any) -> Float[np.ndarray, "*batch levels"]:
    """When curves first fall to given levels, linear between two points of a curve.

    Args:
        time: the points' times, or steps, increasing, (points,).
        loss: the curves, (…, points).
        levels: decreasing, (levels,).

    Returns:
        Times (…, levels): the first point's where a curve starts below; NaN where it never falls
        so far.

    >>> crossing_times([0.0, 1.0, 2.0], [1.0, 0.6, 0.2], [0.8, 0.4, 0.1]).round(12).tolist()
    [0.5, 1.5, nan]
    """
    time, loss, levels = _curve(time, loss, levels)
    below = loss[..., None, :] <= levels[:, None]  # (…, levels, points)
    after = np.argmax(below, axis=-1)
    before = np.maximum(after - 1, 0)
    high = np.take_along_axis(loss, before, -1)
    low = np.take_along_axis(loss, after, -1)
    fallen = np.where(after > 0, high - low, 1.0)
    share = np.where(after > 0, (high - levels) / fallen, 0.0)
    crossed = time[before] + share * (time[after] - time[before])
    return np.where(below.any(-1), crossed, np.nan)


def plateau_levels(time: Any, loss: Any, levels: Any) -> Float[np.ndarray, "*batch plateaus"]:
    """The height of each plateau: the loss where ``|dL/d ln t|`` is least between two drops.

    Args:
        time: the points' times, or steps, increasing, (points,).
        loss: the curves, (…, points).
        levels: whose crossings are the drops, decreasing, (levels,).

    Returns:
        Losses (…, levels − 1), one between any two successive drops; NaN where a curve has not both
        or no point in between.

    >>> t = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    >>> plateau_levels(t, [1.0, 0.9, 0.51, 0.5, 0.48, 0.1], [0.7, 0.3]).tolist()
    [0.5]
    """
    time, loss, levels = _curve(time, loss, levels)
    drops = crossing_times(time, loss, levels)
    later = time > 0.0
    time, loss = time[later], loss[..., later]
    if time.size < 2:
        return np.full((*loss.shape[:-1], max(0, levels.size - 1)), np.nan)
    slope = np.abs(np.gradient(loss, np.log(time), axis=-1))
    inside = (time > drops[..., :-1, None]) & (time < drops[..., 1:, None])
    flat = np.argmin(np.where(inside, slope[..., None, :], np.inf), axis=-1)
    return np.where(inside.any(-1), np.take_along_axis(loss, flat, -1), np.nan)
