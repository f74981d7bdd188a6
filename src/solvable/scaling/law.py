"""What a law is: parameters in, a curve over resources out."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .. import validation

Bounds = tuple[float, float]
_ROWS = 64  # of parameters, given to compiled code at once


@runtime_checkable
class Law(Protocol):
    """A law ``y = f(x; θ)`` that can be fitted and planned with.

    f is linear and homogeneous in the parameters named `linear`: doubling them doubles the curve.
    Labs and users implement this; `Formula` makes one of a function.

    Attributes:
        name: of the law.
        resources: the columns x it takes, in their order.
        parameters: the names θ, in their order.
        linear: the amplitudes among them, whose lower bound is 0 or −∞.
        exponents: those that say nothing when their interval includes 0.
        logarithmic: positive scales, whose uncertainty is a factor: their interval is symmetric in
            the logarithm.
        bounds: (low, high) of every parameter.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def resources(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def parameters(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def linear(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def exponents(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def logarithmic(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def bounds(self) -> Mapping[str, Bounds]: ...  # noqa: D102

    def curve(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The curve at points x (points, resources) for values (…, parameters): (…, points)."""
        ...

    def slopes(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """∂f/∂θ: (…, points, parameters)."""
        ...

    def starts(self, x: np.ndarray) -> np.ndarray:
        """Where to look first: rows of all parameters; those of amplitudes are not looked at."""
        ...

    def rescaled(self, values: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """The values whose curve at ``x·factors`` is that of `values` at x."""
        ...


@dataclass(frozen=True)
class Formula:
    """A law made of a function written in `jax.numpy`, which gives its derivatives.

    Args:
        name: of the law.
        resources: the columns it takes.
        function: of two dictionaries, the parameters (numbers) and the resources (arrays of one
            length), to the curve (an array of that length).
        bounds: (low, high) of every parameter, in order.
        begin: the values a fit starts from, of every parameter that is not linear; their
            combinations are tried.
        linear, exponents, logarithmic: as in `Law`.
        units: a parameter that is the unit of a resource, by the resource: ``x/unit`` is all that
            the function sees of it.
        settings: what else it was made with, to be told with a result.

    >>> import jax.numpy as jnp
    >>> decay = Formula(
    ...     name="decay",
    ...     resources=("t",),
    ...     function=lambda p, x: p["E"] + p["A"] * jnp.exp(-x["t"] / p["tau"]),
    ...     bounds={"E": (0.0, jnp.inf), "A": (0.0, jnp.inf), "tau": (0.0, jnp.inf)},
    ...     begin={"tau": (0.1, 1.0, 10.0)},
    ...     linear=("E", "A"),
    ...     logarithmic=("A", "tau"),
    ...     units={"t": "tau"},
    ... )
    >>> decay.curve(np.array([1.0, 2.0, 5.0]), np.array([[0.0], [np.inf]])).tolist()
    [3.0, 1.0]
    """

    name: str
    resources: tuple[str, ...]
    function: Callable[[dict[str, Any], dict[str, Any]], Any]
    bounds: Mapping[str, Bounds]
    begin: Mapping[str, Sequence[float]]
    linear: tuple[str, ...] = ()
    exponents: tuple[str, ...] = ()
    logarithmic: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        for field_name in ("linear", "exponents", "logarithmic"):
            for name in getattr(self, field_name):
                validation.one_of(field_name, name, self.parameters)
        missing = [n for n in self.parameters if n not in self.linear and n not in self.begin]
        if missing:
            raise ValueError(
                f"begin must have values of {missing[0]}, which is not linear, to start from"
            )

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(self.bounds)

    @cached_property
    def _compiled(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The curve and its slopes of the first `count` of `_ROWS` rows, one by one.

        Any number of rows is one compilation, and memory is that of one row.
        """
        import jax
        import jax.numpy as jnp

        from ..compiling import jit

        validation.needs_double("a Formula")

        def curve(values: Any, x: Any) -> Any:
            given = dict(zip(self.parameters, values, strict=True))
            return self.function(given, dict(zip(self.resources, x.T, strict=True)))

        def slopes(values: Any, x: Any) -> Any:
            along = jax.linearize(lambda moved: curve(moved, x), values)[1]
            return jax.vmap(along, out_axes=1)(jnp.eye(len(values), dtype=values.dtype))

        def by_row(function: Callable[..., Any]) -> Callable[..., Any]:
            def run(rows: Any, x: Any, count: Any) -> Any:
                like = jax.eval_shape(function, rows[0], x)
                begin = jnp.zeros((_ROWS, *like.shape), like.dtype)

                def add(k: Any, out: Any) -> Any:
                    return out.at[k].set(function(rows[k], x))

                return jax.lax.fori_loop(0, count, add, begin)

            return jit(run)

        return by_row(curve), by_row(slopes)

    def _each(self, compiled: Callable[..., Any], values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """A function of one row of values, for values (…, parameters)."""
        rows, found = np.reshape(values, (-1, values.shape[-1])), []
        for k in range(0, max(len(rows), 1), _ROWS):
            part = rows[k : k + _ROWS]
            padded = np.pad(part, [(0, _ROWS - len(part)), (0, 0)])
            found.append(np.asarray(compiled(padded, x, len(part)))[: len(part)])
        out = np.concatenate(found)
        return out.reshape(*values.shape[:-1], *out.shape[1:])

    def curve(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The curve at points x for values (…, parameters): (…, points)."""
        return self._each(self._compiled[0], values, x)

    def slopes(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """∂f/∂θ: (…, points, parameters)."""
        return self._each(self._compiled[1], values, x)

    def starts(self, x: np.ndarray) -> np.ndarray:
        """The combinations of `begin`; units are multiples of the column's geometric mean."""
        mean = dict(zip(self.resources, np.exp(np.mean(np.log(x), axis=0)), strict=True))
        scale = {unit: mean[resource] for resource, unit in self.units.items()}
        axes = [
            [1.0] if name in self.linear else [v * scale.get(name, 1.0) for v in self.begin[name]]
            for name in self.parameters
        ]
        return np.array(list(itertools.product(*axes)))

    def rescaled(self, values: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """The values whose curve at ``x·factors`` is that of `values` at x."""
        moved = np.array(values, float)
        for resource, factor in zip(self.resources, factors, strict=True):
            if resource in self.units:
                moved[..., self.parameters.index(self.units[resource])] *= factor
        return moved
