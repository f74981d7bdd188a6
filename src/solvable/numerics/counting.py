"""Sums over very many whole numbers: Gauss rules of the counting measure on blocks.

A sum ``Σ_{s=a}^{b−1} h(s)`` is an integral over the counting measure, whose Gauss rule with k nodes
is exact for polynomials of degree 2k − 1 and converges geometrically for analytic h. On blocks that
grow with s a few hundred nodes serve any number of terms.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

ORDER = 16  # nodes a block
MOST = 2**53  # beyond it whole numbers are not told apart
_SHARPNESS = 1.4  # ρ_B^−32 = 4e-16: of the nearest singularity's angle over half a block's length
_LONGEST = 0.23  # half of a block's length over its middle, for powers of s
_FIRST = 64  # numbers that are always summed one by one

Rows = Float[np.ndarray, "blocks order"]


def gauss_of_counting(length: Int[np.ndarray, " blocks"], order: int = ORDER) -> tuple[Rows, Rows]:
    """The Gauss rules of the counting measure on {0 … n−1}, one row for each n ≥ 0.

    The Jacobi matrix of the Gram polynomials has ``b_j = ½ n j √((1 − (j/n)²)/(4j² − 1))`` beside
    a diagonal of (n−1)/2. Up to `order` numbers are taken themselves; the rest of such a row has
    weight 0.

    Args:
        length: n of each row.
        order: nodes of each row.

    Returns:
        Nodes and weights, (blocks, order).

    >>> x, w = gauss_of_counting(np.array([10]), 3)
    >>> x.round(6).tolist(), w.round(6).tolist()
    ([[0.672468, 4.5, 8.327532]], [[2.8157, 4.368601, 2.8157]])
    """
    n = np.asarray(length, float)[:, None]
    place = np.arange(order, dtype=float)[None, :]
    few = n <= order
    x = np.where(few, np.minimum(place, np.maximum(n - 1.0, 0.0)), 0.0)
    w = np.where(few & (place < n), 1.0, 0.0)
    many = ~few[:, 0]
    if many.any():
        x[many], w[many] = _golub_welsch(n[many], order)
    return x, w


def _golub_welsch(n: Float[np.ndarray, "blocks 1"], order: int) -> tuple[Rows, Rows]:
    j = np.arange(1.0, order)[None, :]
    # In units of n, so that nothing overflows and long blocks lose no digits.
    beside = 0.5 * j * np.sqrt((1.0 - (j / n) ** 2) / (4.0 * j**2 - 1.0))
    matrix = np.zeros((len(n), order, order))
    k = np.arange(order - 1)
    matrix[:, k, k + 1] = matrix[:, k + 1, k] = beside
    x, frame = np.linalg.eigh(matrix)
    w = frame[:, 0, :] ** 2
    x, w = 0.5 * (x - x[:, ::-1]), 0.5 * (w + w[:, ::-1])
    w = w / np.sum(w, axis=1, keepdims=True)
    return 0.5 * (n - 1.0) + n * x, n * w


def block_edges(
    count: int, *, angle: float = math.inf, cuts: tuple[int, ...] = (), near: tuple[int, ...] = ()
) -> Int[np.ndarray, " edges"]:
    """Where blocks of 1 … count begin, and count + 1: see `counting_rule`."""
    half = min(angle / _SHARPNESS, _LONGEST)
    ratio = (1.0 + half) / (1.0 - half)
    first = min(max(_FIRST, math.ceil(ORDER / (ratio - 1.0))), count)
    last = count + 1
    edges = [*range(1, first + 1), first + 1]
    while edges[-1] < last:
        edges.append(min(max(int(edges[-1] * ratio), edges[-1] + 1), last))
    # Towards these lengths fall by halves, so that what happens there alone is seen.
    for place in (last, *near):
        steps = (1 << np.arange(max(last - 1, 1).bit_length())).tolist()
        edges += [place, *(place - step for step in steps), *(place + step for step in steps)]
    edges += cuts
    found = np.unique(np.asarray(edges, dtype=np.int64))
    return found[(found >= 1) & (found <= last)]


def counting_rule(
    count: int, *, angle: float = math.inf, cuts: tuple[int, ...] = (), near: tuple[int, ...] = ()
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Nodes and weights with ``Σ_{s=1}^{count} h(s) = Σ_j w_j h(s_j)`` for h analytic in log s.

    The first numbers are taken one by one; then come blocks ``[a, ρa)`` with 16 nodes each, ρ small
    enough for the nearest singularity of h, and shorter and shorter ones towards the last number,
    in which a sum of exponentially small terms may live.

    Args:
        count: how many numbers, up to 2^53.
        angle: how far from the real axis of log s the nearest singularity of h is.
        cuts: whole numbers at which h jumps: its value there counts to what comes after.
        near: whole numbers next to which h is singular on the real axis itself.

    Returns:
        Nodes, increasing, and weights, both read-only: 528 at 10⁵, 1840 at 10¹⁵.

    >>> s, w = counting_rule(10**9)
    >>> len(s), f"{np.sum(w / s**1.8):.15f}"
    (1056, '1.882229539233154')
    """
    if not 1 <= count <= MOST:
        raise ValueError(f"count must lie in [1, 2^53], not {count}")
    return _rule(int(count), float(angle), tuple(sorted(cuts)), tuple(sorted(near)))


@lru_cache(maxsize=64)
def _rule(
    count: int, angle: float, cuts: tuple[int, ...], near: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    edges = block_edges(count, angle=angle, cuts=cuts, near=near)
    x, w = gauss_of_counting(np.diff(edges), ORDER)
    inside = w > 0.0
    nodes, weights = (edges[:-1, None] + x)[inside], w[inside]
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


class TailSum:
    """``Σ_{s ≥ first} h(s)`` up to the last number of some blocks, at any whole `first`.

    Whole blocks are summed once; the one that `first` lies in gets a rule of its own.

    Args:
        edges: where blocks begin, and the end, as from `block_edges`.
        term: h, of one axis of numbers.
    """

    def __init__(
        self,
        edges: Int[np.ndarray, " edges"],
        term: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]],
    ):
        self.edges, self.term = edges, term
        lengths = np.diff(edges)
        if np.all(lengths == 1):
            sums = term(edges[:-1].astype(float))
        else:
            x, w = gauss_of_counting(lengths)
            sums = np.sum(w * self._at(edges[:-1, None] + x), axis=1)
        self.after = np.append(np.cumsum(sums[::-1])[::-1], 0.0)  # from each edge on

    def _at(self, nodes: Rows) -> Rows:
        return self.term(nodes.ravel()).reshape(nodes.shape)

    def block(self, first: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The block that a number lies in; of one past the end, the last edge."""
        return np.searchsorted(self.edges, first, side="right") - 1

    def __call__(self, first: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The sum from `first` on, a number between the first edge and the last."""
        edges, k = self.edges, self.block(first)
        after = np.minimum(k + 1, len(edges) - 1)
        inside = (first != edges[k]) & (k < len(edges) - 1)
        found = np.where(inside, self.after[after], self.after[k])
        if inside.any():
            begin = first[inside]
            x, w = gauss_of_counting(edges[after[inside]] - begin)
            found[inside] += np.sum(w * self._at(begin[:, None] + x), axis=1)
        return found
