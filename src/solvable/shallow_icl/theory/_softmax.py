"""How softmax attention leaves a small start on a data set: by one drop, or by several."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ... import memory, validation
from ..task import Sequences, counted

_PIECE = 2**22  # entries of the tokens that are in memory at once


@dataclass(frozen=True)
class SoftmaxModes:
    r"""What small weights of merged softmax attention do on a data set.

    Modes are unit vectors of one head's live weights, W^V's bottom rows first, row by row.

    Attributes:
        apart: r_f, the rate at which differences between heads grow, per t/τ.
        apart_mode: the mode that does.
        rate: r_j, those at which all heads grow together, decreasing; only what grows.
        mode: e_j, of each.
        amplitude: A_j: driven from zero, every head is at ``A_j (e^{r_j t/τ} − 1)`` along e_j.
        critical: s_c, the scale of the start above which the differences are the first to arrive;
            0 where nothing drives the heads together.
    """

    apart: float
    apart_mode: Float[np.ndarray, " weights"]
    rate: Float[np.ndarray, " modes"]
    mode: Float[np.ndarray, "modes weights"]
    amplitude: Float[np.ndarray, " modes"]
    critical: float

    def along(
        self, value: Any, key_query: Any
    ) -> tuple[Float[np.ndarray, "heads *points"], Float[np.ndarray, "modes *points"]]:
        """What the weights of a run have in its modes.

        Args:
            value: as logged, (heads, outputs, features, …).
            key_query: as logged, (heads, features, dim, …).

        Returns:
            The heads' differences from their mean along `apart_mode`, (heads, …), and their mean
            along every e_j, (modes, …).
        """
        parts = [np.asarray(part, float) for part in (value, key_query)]
        whole = np.concatenate(
            [part.reshape(len(part), -1, *part.shape[3:]) for part in parts], axis=1
        )
        mean = whole.mean(axis=0)
        apart = np.tensordot(self.apart_mode, whole - mean, axes=(0, 1))
        return apart, np.tensordot(self.mode, mean, axes=1)


def _prefixes(data: Sequences) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Tokens, queries and targets of every length, some sequences at a time."""
    whole = [np.asarray(part, float) for part in (data.x, data.y, data.target)]
    count, columns = whole[0].shape[:2]
    first = 1 if data.task.lengths == "varied" else columns - 1
    many = max(1, _PIECE // (columns * data.task.features))
    for start in range(0, count, many):
        x, y, target = (part[start : start + many] for part in whole)
        for m in range(first, columns):
            shown = np.concatenate([y[:, :m], np.zeros_like(y[:, :1])], axis=1)
            yield np.concatenate([x[:, : m + 1], shown], axis=2), x[:, m], target[:, m]


def _linearised(data: Sequences) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """c, S and 𝒞 of all outputs, as a vector and two matrices."""
    rows, dim, outputs = data.task.features, data.task.dim, data.task.outputs
    drive, square = np.zeros((outputs, rows)), np.zeros((rows, rows))
    cross = np.zeros((outputs, rows, rows, dim))
    count = 0
    for tokens, query, target in _prefixes(data):
        mean = tokens.mean(axis=1)
        apart = tokens - mean[:, None]
        spread = np.swapaxes(apart, 1, 2) @ apart / tokens.shape[1]
        drive += target.T @ mean
        square += mean.T @ mean
        cross += np.einsum("po,pab,pc->oabc", target, spread, query, optimize=True)
        count += len(mean)
    scale = count * outputs  # the loss is a mean over both
    damping = np.kron(np.eye(outputs), square / scale)
    return drive.ravel() / scale, damping, cross.reshape(outputs * rows, -1) / scale


def softmax_modes(data: Sequences, heads: int) -> SoftmaxModes:
    r"""The growth of small weights of merged softmax attention on a data set.

    At first order in the scores attention is uniform but for them, and a query sees

    ``ŷ = Σ_i a_iᵀ (X̄ + Ĉ K_i x_q)``,

    a_i the bottom row of W^V_i, K_i the first D columns of W^KQ_i, X̄ and Ĉ the mean and the
    covariance of the N + 1 tokens. With ``c = E y_q X̄``, ``S = E X̄X̄ᵀ`` and
    ``𝒞_{a|(b,c)} = E y_q Ĉ_ab x_{q,c}`` the mean over the heads obeys

    ``τȧ = c − H S a + 𝒞K``,  ``τK̇ = 𝒞ᵀa``,

    while the differences between heads, for which X̄ cancels, grow at ``r_f = σ_max(𝒞)``. The
    eigenpairs (r_j, e_j) of ``[[−HS, 𝒞], [𝒞ᵀ, 0]]`` are what all heads do together: c drives them
    from any start, by ``A_j (e^{r_j t/τ} − 1)``, ``A_j = |e_j·(c, 0)|/r_j``. They are at size one
    at ``t_j = τ ln(1 + 1/A_j)/r_j``, and the differences at ``τ ln(1/s)/r_f`` from a start of scale
    s: the later ones after a pause of the loss, unless s is above about

    ``s_c = max_j e^{−r_f t_j/τ} ≈ max_j A_j^{r_f/r_j}``.

    In the population c = 0; on P sequences it is of the size P^-½.

    Args:
        data: the sequences; varied lengths are averaged over.
        heads: H.

    Returns:
        Rates per t/τ, of which a step of rate η is 2η; amplitudes and s_c in the model's own units.

    Reference: derived for this package.

    >>> from ..task import Task, sample
    >>> four = sample(Task(dim=4, context=31), 80, antithetic=True, query_flip=True)
    >>> softmax_modes(four, heads=8).critical < 1e-12
    True
    """
    if not isinstance(data, Sequences):
        raise ValueError(f"data must be shallow_icl.Sequences, not {type(data).__name__}")
    validation.concrete("data", data, why="moments are summed up")
    validation.needs_double("softmax_modes")
    heads, task = counted("heads", heads), data.task
    size = task.features * (task.outputs + task.dim)
    memory.refuse("dim", task.dim, 64.0 * size**2)
    drive, damping, cross = _linearised(data)
    first, top, second = np.linalg.svd(cross, full_matrices=False)
    together = np.zeros((size, size))
    together[: drive.size, : drive.size] = -heads * damping
    together[: drive.size, drive.size :] = cross
    together[drive.size :, : drive.size] = cross.T
    rate, mode = np.linalg.eigh(together)
    grows = rate > 1e-9 * top[0]
    rate, mode = rate[grows][::-1], mode[:, grows][:, ::-1].T
    amplitude = np.abs(mode[:, : drive.size] @ drive) / rate
    with np.errstate(divide="ignore"):
        arrival = np.log1p(1.0 / amplitude) / rate
    soonest = float(arrival.min(initial=np.inf))
    return SoftmaxModes(
        apart=float(top[0]),
        apart_mode=np.concatenate([first[:, 0], second[0]]) * 0.5**0.5,
        rate=rate,
        mode=mode,
        amplitude=amplitude,
        critical=0.0 if soonest == np.inf else float(np.exp(-top[0] * soonest)),
    )
