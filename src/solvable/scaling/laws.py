"""The laws that data are fitted by: power laws, their sums, and one that bends."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .. import validation
from .law import Bounds, Law

EXPONENT: Bounds = (1e-3, 10.0)
AMPLITUDE: Bounds = (0.0, np.inf)
_TRIED = (0.05, 0.2, 0.5, 1.2)  # exponents that a search starts from


@dataclass(frozen=True)
class Additive:
    """``y = E + Σ_x A_x x^-a_x``, a power law in every resource.

    Attributes:
        name: of the law.
        resources: the columns x.
        amplitudes: the names A_x, and
        exponents: a_x.
    """

    name: str
    resources: tuple[str, ...]
    amplitudes: tuple[str, ...]
    exponents: tuple[str, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """E, the amplitudes, the exponents."""
        return ("E", *self.amplitudes, *self.exponents)

    @property
    def linear(self) -> tuple[str, ...]:
        """E and the amplitudes."""
        return ("E", *self.amplitudes)

    @property
    def logarithmic(self) -> tuple[str, ...]:
        """The amplitudes."""
        return self.amplitudes

    @property
    def bounds(self) -> Mapping[str, Bounds]:
        """Nothing below 0, and no exponent above 10."""
        return dict.fromkeys(self.linear, AMPLITUDE) | dict.fromkeys(self.exponents, EXPONENT)

    def curve(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The curve at points x for values (…, parameters): (…, points)."""
        return values[..., :1] + np.sum(self._terms(values, x)[0], axis=-1)

    def slopes(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """∂y/∂θ: (…, points, parameters)."""
        terms, powers, logs = self._terms(values, x)
        return np.concatenate([np.ones_like(terms[..., :1]), powers, -logs * terms], axis=-1)

    def _terms(self, values: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, ...]:
        """``A x^-a``, ``x^-a`` and log x."""
        count, logs = len(self.resources), np.log(x)
        powers = np.exp(-values[..., None, 1 + count :] * logs)
        return values[..., None, 1 : 1 + count] * powers, powers, logs

    def starts(self, x: np.ndarray) -> np.ndarray:
        """A grid of exponents."""
        count = len(self.resources)
        grid = np.array(list(itertools.product(_TRIED, repeat=count)))
        return np.concatenate([np.ones((len(grid), 1 + count)), grid], axis=1)

    def rescaled(self, values: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """The values whose curve at ``x·factors`` is that of `values` at x."""
        count, moved = len(self.resources), np.array(values, float)
        moved[..., 1 : 1 + count] *= factors ** moved[..., 1 + count :]
        return moved


def power(resource: str = "x") -> Additive:
    """``y = E + A x^-a``.

    >>> power("steps").parameters
    ('E', 'A', 'a')
    """
    return Additive("power", (resource,), ("A",), ("a",))


def chinchilla(size: str = "N", data: str = "D") -> Additive:
    """``L = E + A N^-a + B D^-b``.

    >>> law = chinchilla()
    >>> law.curve(np.array([1.69, 406.4, 410.7, 0.34, 0.28]), np.array([[7e10, 1.4e12]])).round(4)
    array([1.9366])
    """
    return Additive("chinchilla", (size, data), ("A", "B"), ("a", "b"))


def additive(*resources: str) -> Additive:
    """``y = E + Σ_x A_x x^-a_x`` with any number of resources.

    >>> additive("N", "D", "L").parameters
    ('E', 'A_N', 'A_D', 'A_L', 'a_N', 'a_D', 'a_L')
    """
    if not resources or len(set(resources)) < len(resources):
        raise ValueError(f"resources must be one or more different names, not {resources}")
    return Additive(
        "additive",
        resources,
        tuple(f"A_{x}" for x in resources),
        tuple(f"a_{x}" for x in resources),
    )


@dataclass(frozen=True)
class Broken:
    """``y = E + A x^-a (1 + (x/x0)^(1/s))^(-(c-a)s)``: exponent a, and c beyond x0.

    The bend is 4s wide in log x, s = 0 being a corner. Small s are not tried below 0.02.
    """

    resource: str = "x"

    name = "broken"
    parameters = ("E", "A", "a", "c", "x0", "s")
    linear = ("E", "A")
    exponents = ("a", "c")
    logarithmic = ("A", "x0", "s")

    @property
    def resources(self) -> tuple[str, ...]:
        """The one column."""
        return (self.resource,)

    @property
    def bounds(self) -> Mapping[str, Bounds]:
        """Exponents as everywhere; the bend may be anywhere, up to 20 wide."""
        return {
            "E": AMPLITUDE,
            "A": AMPLITUDE,
            "a": EXPONENT,
            "c": EXPONENT,
            "x0": (0.0, np.inf),
            "s": (0.02, 5.0),
        }

    def curve(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The curve at points x for values (…, parameters): (…, points)."""
        return values[..., :1] + values[..., 1:2] * self._shape(values, x)[0]

    def slopes(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """∂y/∂θ: (…, points, parameters)."""
        shape, logs, bend, past = self._shape(values, x)
        a, c, x0, s = (values[..., k, None] for k in range(2, 6))
        term = values[..., 1:2] * shape
        columns = [
            np.ones_like(shape),
            shape,
            term * (s * bend - logs),
            -term * s * bend,
            term * (c - a) * past / x0,
            -term * (c - a) * (bend - past * (logs - np.log(x0)) / s),
        ]
        return np.stack(columns, axis=-1)

    def _shape(self, values: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, ...]:
        """``x^-a (1 + u)^(-(c-a)s)``; log x; log(1 + u) and u/(1 + u) of u = (x/x0)^(1/s)."""
        a, c, x0, s = (values[..., k, None] for k in range(2, 6))
        logs = np.log(x[:, 0])
        u = (logs - np.log(x0)) / s
        bend = np.logaddexp(0.0, u)
        return np.exp(-a * logs - (c - a) * s * bend), logs, bend, np.exp(u - bend)

    def starts(self, x: np.ndarray) -> np.ndarray:
        """Exponents, bends along the data, sharp and smooth."""
        logs = np.log(x[:, 0])
        bends = np.exp(np.linspace(logs.min(), logs.max(), 9)[1:-1])
        steep = (0.05, 0.2, 0.6, 1.8)
        grid = itertools.product([1.0], [1.0], steep, steep, bends, (0.1, 0.5))
        return np.array(list(grid))

    def rescaled(self, values: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """The values whose curve at ``x·factors`` is that of `values` at x."""
        moved = np.array(values, float)
        moved[..., 1] *= factors[0] ** moved[..., 2]
        moved[..., 4] *= factors[0]
        return moved


LAWS = ("power", "chinchilla", "additive", "broken")


def named(name: str, resources: Sequence[str]) -> Law:
    """One of the laws by its name, over resources by theirs.

    >>> named("additive", ["N", "D"]).parameters
    ('E', 'A_N', 'A_D', 'a_N', 'a_D')
    """
    validation.one_of("law", name, LAWS)
    if name == "additive":
        return additive(*resources)
    needed = 2 if name == "chinchilla" else 1
    if len(resources) != needed:
        words = "two resources, size and data" if needed == 2 else "one resource"
        raise ValueError(f"{name} takes {words}, not {', '.join(resources) or 'none'}")
    if name == "chinchilla":
        return chinchilla(*resources)
    return power(*resources) if name == "power" else Broken(*resources)
