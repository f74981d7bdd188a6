"""Training in its exact small state space: one γ, one for each layer or direction, four weights."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from .. import training
from ..compiling import stage
from .run import Layers, Run, Time, checked, prepared
from .start import Init, gamma_of
from .task import FixedStructure, RotatedStructure, Task, seed_of
from .theory import Equivalent as Evaluated
from .theory import (
    FixedLaw,
    Parabola,
    Resolvents,
    Spectral,
    fixed_equivalent,
    fixed_law,
    fixed_points,
    is_population,
    losses,
    product_loss,
    single_layer,
    single_layer_loss,
    spectral,
    spectral_loss,
)


class Population(eqx.Module):
    """Losses that are sums over eigenvalues: γ tied, untied, or of every direction.

    Attributes:
        spectrum: the sum.
        depth: L.
        untied: whether γ has an axis of layers.
    """

    spectrum: Spectral
    depth: Float[Array, ""]
    untied: bool = eqx.field(static=True)

    def loss_and_slope(self, gamma: Float[Array, "*parts"]) -> tuple[Array, Array]:
        """𝓛 and d𝓛/dγ."""
        if self.untied:
            return jax.value_and_grad(lambda g: product_loss(self.spectrum, g))(gamma)
        return jax.value_and_grad(lambda g: spectral_loss(self.spectrum, g, self.depth))(gamma)


class Equivalent(eqx.Module):
    """The deterministic equivalent of a `RotatedStructure` with finite width or context."""

    resolvents: Resolvents
    noise: Float[Array, ""]
    depth: Float[Array, ""]

    def loss_and_slope(self, gamma: Float[Array, ""]) -> tuple[Array, Array]:
        """𝓛 and d𝓛/dγ."""
        return losses(self.resolvents, gamma, self.depth, self.noise)


class SingleLayer(eqx.Module):
    """One layer of a `RotatedStructure` with finite width or context: a parabola, exact."""

    law: Parabola

    def loss_and_slope(self, gamma: Float[Array, ""]) -> tuple[Array, Array]:
        """𝓛 and d𝓛/dγ."""
        return self.law.loss(gamma), self.law.slope(gamma)


class Preconditioned(eqx.Module):
    """A diagonal Γ in contexts of P tokens: exact for one layer, the equivalent for more."""

    law: FixedLaw
    depth: Float[Array, ""]
    single: bool = eqx.field(static=True)
    points: int = eqx.field(static=True)

    def loss_and_slope(self, gamma: Float[Array, " dim"]) -> tuple[Array, Array]:
        """𝓛 and d𝓛/dγ."""

        def value(gamma: Float[Array, " dim"]) -> Float[Array, ""]:
            if self.single:
                return single_layer_loss(self.law, gamma)
            return fixed_equivalent(self.law, gamma, self.depth, self.points)

        return jax.value_and_grad(value)(gamma)


class Descent(eqx.Module):
    """Gradient descent on a loss that depends on γ only.

    Attributes:
        law: the loss and its slope.
        pace: by which the slope is multiplied: L for untied layers, which then move like tied ones.
        attention: whether the parameters are the four weights of full attention.
    """

    law: Population | Equivalent | SingleLayer | Preconditioned
    pace: Float[Array, ""]
    attention: bool = eqx.field(static=True)

    def gradient(self, params: Float[Array, "*parts"], step: Int[Array, ""]) -> Array:
        """d𝓛/dγ, or d𝓛/dγ · dγ/dw."""
        if not self.attention:
            return self.pace * self.law.loss_and_slope(params)[1]
        gamma, pull = jax.vjp(gamma_of, params)
        return pull(self.law.loss_and_slope(gamma)[1])[0]

    def observe(self, params: Float[Array, "*parts"]) -> dict[str, Array]:
        """Loss, γ, and the weights of full attention."""
        gamma = gamma_of(params) if self.attention else params
        seen = {"loss": self.law.loss_and_slope(gamma)[0], "gamma": gamma}
        return seen | {"weights": params} if self.attention else seen


def _law(
    task: Task, start: Float[Array, "..."], depth: int, untied: bool
) -> Population | Equivalent | SingleLayer | Preconditioned:
    deep = stage(float(depth))
    if is_population(task):
        return Population(spectral(task, whole=untied), deep, untied)
    if untied:
        raise ValueError("layers must be 'tied' where width or context is finite")
    if bool(np.any(np.asarray(start) < 0.0)):
        raise ValueError("gamma must be at least 0 where width or context is finite")
    if isinstance(task, FixedStructure):
        law = fixed_law(task)
        return Preconditioned(law, deep, depth == 1, fixed_points(law, None, float(depth)))
    assert isinstance(task, RotatedStructure)
    if depth == 1:
        return SingleLayer(Parabola(*(stage(x) for x in single_layer(task))))
    found = Evaluated.of(task).for_depth(float(depth))
    return Equivalent(jax.tree.map(stage, found), task.noise, deep)


def train(
    task: Task,
    start: Init,
    *,
    depth: int,
    lr: Any,
    steps: int,
    layers: Layers = "tied",
    time: Time = "scalar",
    seed: int = 0,
    log_every: int | None = None,
    log_points: int | None = None,
    progress: training.Progress | None = None,
    resume: Run | None = None,
) -> Run:
    r"""Gradient descent in the exact small state space, on the loss over all contexts.

    By symmetry Γ stays γI for `Isotropic` and `RotatedStructure`, and diagonal for
    `FixedStructure`: ``γ ← γ − lr d𝓛/dγ`` (accounts). Where the width or the context is finite 𝓛 is
    the deterministic equivalent, for one layer the exact loss (derived).

    Args:
        task: the context law.
        start: γ, or the four weights of full attention, ``γ = w_x² w_q w_k w_v``.
        depth: L.
        lr: step size.
        steps: how many steps.
        layers: "tied", or "untied": one γ for each layer, whose step size is L·lr, so that equal
            layers move like tied ones.
        time: what lr is measured in: "scalar", or "matrix", the step size of the N × N matrix Γ,
            in which γ moves N times as slowly (`FixedStructure`: the same).
        seed: not used: nothing is drawn.
        log_every: steps between two log points; or
        log_points: points of the log, evenly spaced in log step; 200 unless log_every is given.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A `Run`; the last axis is the log points.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> from solvable.deep_icl import Isotropic
    >>> run = train(Isotropic(alpha=2.0), Init(gamma=0.0), depth=8, lr=1.0, steps=2000)
    >>> print(run.gamma[-1].round(4), run.loss[-1].round(6))
    5.3333 0.026576
    """
    options = {"layers": layers, "time": time, "seed": seed}
    return prepare(task, start, depth=depth, lr=lr, **options).run(
        steps=steps, log_every=log_every, log_points=log_points, progress=progress, resume=resume
    )


def prepare(
    task: Task,
    start: Init,
    *,
    depth: int,
    lr: Any,
    layers: Layers = "tied",
    time: Time = "scalar",
    seed: int = 0,
) -> training.Training[Run]:
    """What `train` trains, before any step."""
    begin, depth, rate = checked(task, start, depth, lr, layers, time)
    seed_of(seed)
    attention, untied = start.weights is not None, layers == "untied"

    def build() -> tuple[Descent, Float[Array, "..."]]:
        pace = stage(float(depth if untied else 1))
        return Descent(_law(task, begin, depth, untied), pace, attention), begin

    options = {"depth": depth, "lr": lr, "rate": rate, "layers": layers, "time": time}
    return prepared("deep_icl.train", build, task, start, **options)
