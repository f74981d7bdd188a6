"""The three context laws, and samplers of real contexts."""

import math
import sys
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from .. import memory, validation
from ..compiling import jit, stage
from ..numerics.host import unpacked
from .spectrum import MAX_DIM, Spectrum, check_exponents

MAX_ROWS = 10**7  # directions that stand one by one
MAX_CONTEXT = 10**12
MAX_ALPHA = 1e8
_MAX_SEED = 2**63 - 1


class Isotropic(eqx.Module):
    r"""Isotropic covariates (ISO): ``x ~ N(0, I)``, ``b ~ N(0, I)``, ``y = b·x/√D + σε``.

    The theory is that of D → ∞ at P = αD; with `dim` real contexts can be drawn as well.

    Args:
        alpha: α = P/D, the context length over the dimension.
        noise: σ, the standard deviation of the context labels' noise.
        dim: D, needed for training on tokens only; then α·D must be a whole number.
        queries: K, the query tokens of a context; None for the mean over all queries.

    >>> Isotropic(alpha=2.0)
    Isotropic(alpha=2, noise=0)
    """

    alpha: Float[Array, ""]
    noise: Float[Array, ""]
    dim: int | None = eqx.field(static=True)
    context: int | None = eqx.field(static=True)  # P = αD, where D is given
    queries: int | None = eqx.field(static=True)

    def __init__(self, alpha, noise=0.0, dim=None, queries=None):
        self.alpha = _number("alpha", alpha, 0.0, MAX_ALPHA, open_low=True)
        self.noise = _number("noise", noise, 0.0, 1e6)
        self.dim = None if dim is None else validation.whole("dim", dim, 1, MAX_ROWS)
        self.queries = _limited("queries", queries, MAX_CONTEXT)
        self.context = None
        if self.dim is not None and validation.is_concrete(self.alpha):
            length = float(self.alpha) * self.dim
            if round(length) < 1 or abs(length - round(length)) > 1e-9 * length:
                raise ValueError(f"alpha·dim must be a whole number, at least 1, not {length:.12g}")
            self.context = round(length)

    def __repr__(self) -> str:
        return _words(self, alpha=self.alpha)

    @property
    def width(self) -> int | None:
        """N = D: there is no bottleneck."""
        return self.dim


class Structured(eqx.Module):
    """What `FixedStructure` and `RotatedStructure` share: a spectrum of covariates and tasks.

    Attributes:
        spectrum: eigenvalues λ of the covariates' covariance, and a = ω λ, the part of E y² along
            each; Σa is the loss before training.
        noise: σ.
        nu, beta: ν and β of a power law; None of any other spectrum.
    """

    spectrum: Spectrum
    noise: Float[Array, ""]
    nu: Float[Array, ""] | None
    beta: Float[Array, ""] | None
    context: int | None = eqx.field(static=True)
    queries: int | None = eqx.field(static=True)

    def _fill(self, nu, beta, dim, lam, omega, spectrum, context, noise, queries, whole) -> None:
        power = {"nu": nu, "beta": beta, "dim": dim}
        given = [name for name, value in power.items() if value is not None]
        if (lam is None) != (omega is None):
            raise ValueError("lam and omega must be given together")
        if bool(given) + (lam is not None) + (spectrum is not None) != 1:
            raise ValueError("nu, beta and dim must be given, or lam and omega, or a spectrum")
        self.nu = self.beta = None
        if given:
            if len(given) < 3:
                raise ValueError("nu, beta and dim must be given together")
            self.nu, self.beta = check_exponents(nu, beta)
            count = validation.whole("dim", dim, 1, MAX_ROWS if whole else MAX_DIM)
            self.spectrum = Spectrum.power(self.nu, self.beta, count, whole=whole)
        elif spectrum is not None:
            if not isinstance(spectrum, Spectrum) or spectrum.dim == math.inf:
                raise ValueError("spectrum must be a deep_icl.Spectrum of finite dim")
            self.spectrum = spectrum if not whole or spectrum.single else _one_by_one(spectrum)
        else:
            self.spectrum = Spectrum.given(lam, omega)
        self.noise = _number("noise", noise, 0.0, 1e6)
        self.context = _limited("context", context, MAX_CONTEXT)
        self.queries = _limited("queries", queries, MAX_CONTEXT)

    @property
    def dim(self) -> int:
        """D, the number of directions."""
        return int(self.spectrum.dim)

    @property
    def rows(self) -> Spectrum:
        """The spectrum with every direction by itself, of up to 10⁷."""
        if self.spectrum.single:
            return self.spectrum
        if self.nu is None:
            return _one_by_one(self.spectrum)
        _whole_rows(self.dim)
        return Spectrum.power(self.nu, self.beta, self.dim, whole=True)

    @property
    def lam(self) -> Float[Array, " dim"]:
        """λ_k, the eigenvalues of the covariates' covariance."""
        return self.rows.lam

    @property
    def share(self) -> Float[Array, " dim"]:
        """a_k = ω_k λ_k, the part of E y² along each direction."""
        return self.rows.share

    @property
    def omega(self) -> Float[Array, " dim"]:
        """ω_k, the second moments of the task vector."""
        rows = self.rows
        _, share, lam = unpacked(rows.share, rows.lam)
        return stage(share / lam)


class FixedStructure(Structured):
    r"""One covariance for all contexts (FS): ``x ~ N(0, Σ)``, ``y = b·x + σε``, ``E b bᵀ = Ω``.

    Σ and Ω are diagonal in one basis: ``λ_k = k^-ν`` and ``a_k = ω_k λ_k ∝ k^-(νβ+1)`` with
    ``Σ a_k = 1``; ``b_k = ±√ω_k`` with random signs.

    Args:
        nu: ν, the capacity exponent.
        beta: β, the source exponent.
        dim: D.
        context: P, the context length; None (or infinity) for contexts without end.
        noise: σ, the standard deviation of the context labels' noise.
        queries: K, the query tokens of a context; None for the mean over all queries.
        lam, omega: the spectra λ and ω themselves, instead of ν, β and D; or
        spectrum: both with multiplicities, a `Spectrum`.

    >>> FixedStructure(nu=1.25, beta=1.25, dim=128)
    FixedStructure(nu=1.25, beta=1.25, dim=128, noise=0)
    """

    def __init__(
        self,
        nu=None,
        beta=None,
        dim=None,
        context=None,
        noise=0.0,
        queries=None,
        *,
        lam=None,
        omega=None,
        spectrum=None,
    ):
        self._fill(nu, beta, dim, lam, omega, spectrum, context, noise, queries, True)

    def __repr__(self) -> str:
        return _words(self, nu=self.nu, beta=self.beta, dim=self.dim, context=self.context)

    @property
    def width(self) -> int:
        """N = D: there is no bottleneck."""
        return self.dim


class RotatedStructure(Structured):
    r"""A covariance that is rotated from context to context (RRS).

    ``x ~ N(0, O Λ Oᵀ)`` and ``b = O (w⊙s)`` with a Haar rotation O for each context; the spectra
    are those of `FixedStructure`. A width N < D lets attention see a projection Π of rank N only,
    ``Γ = γ (D/N) Π``: an embedding of unit variance, so that γ, the learning rate and the time mean
    the same at every width and have a limit of large D.

    Args:
        nu: ν, the capacity exponent.
        beta: β, the source exponent.
        dim: D, up to 10¹⁵ for a power law.
        width: N, from 1 to D; None for D.
        context: P, the context length; None (or infinity) for contexts without end.
        noise: σ, the standard deviation of the context labels' noise.
        queries: K, the query tokens of a context; None for the mean over all queries.
        lam, omega: the spectra λ and ω themselves, instead of ν, β and D; or
        spectrum: both with multiplicities, a `Spectrum`.

    >>> RotatedStructure(nu=1.25, beta=1.0, dim=200, width=60, context=100)
    RotatedStructure(nu=1.25, beta=1, dim=200, width=60, context=100, noise=0)
    """

    width: int = eqx.field(static=True)

    def __init__(
        self,
        nu=None,
        beta=None,
        dim=None,
        width=None,
        context=None,
        noise=0.0,
        queries=None,
        *,
        lam=None,
        omega=None,
        spectrum=None,
    ):
        self._fill(nu, beta, dim, lam, omega, spectrum, context, noise, queries, False)
        limited = _limited("width", width, self.dim)
        self.width = self.dim if limited is None else limited
        if self.width < self.dim:
            _tell_of_convention()

    def __repr__(self) -> str:
        narrow = self.width if self.width < self.dim else None
        return _words(
            self, nu=self.nu, beta=self.beta, dim=self.dim, width=narrow, context=self.context
        )


Task = Isotropic | FixedStructure | RotatedStructure


class Contexts(eqx.Module):
    """Real contexts: P labelled tokens, then K queries.

    Attributes:
        x: the tokens.
        y: their labels; those of the queries are without noise.
        b: the task vector of every context, as it stands in ``y = b·x`` (ISO: with its 1/√D).
        covariance: Σ of every context's tokens, for the mean over all queries.
    """

    x: Float[Array, "contexts tokens dim"]
    y: Float[Array, "contexts tokens"]
    b: Float[Array, "contexts dim"]
    covariance: Float[Array, "contexts dim dim"]


def _one_by_one(spectrum: Spectrum) -> Spectrum:
    """A spectrum of multiplicities, every direction by itself."""
    dim = int(spectrum.dim)
    _whole_rows(dim)
    why = "it says how many directions there are"
    validation.concrete("weight", spectrum.weight, why=why)
    many = np.asarray(spectrum.weight)
    each = np.repeat(np.arange(many.size), many.astype(int))
    _, lam, share = unpacked(spectrum.lam, spectrum.share)
    return Spectrum(stage(lam[each]), stage(share[each] / many[each]), stage(np.ones(dim)), dim)


def _whole_rows(dim: int) -> None:
    if dim > MAX_ROWS:
        raise ValueError(
            f"dim must be at most {MAX_ROWS} where every direction is needed, not {dim}: losses, "
            "optima, floors and flows of a RotatedStructure work beyond"
        )


_told = {"convention": False}


def _tell_of_convention() -> None:
    """Once a process, of users' own calls: for one version, as γ and t have changed."""
    frame, level = sys._getframe(2), 3
    while frame.f_back is not None and _root(frame) in ("equinox", "jaxtyping", "beartype"):
        frame, level = frame.f_back, level + 1
    if _root(frame) == "solvable" or _told["convention"]:
        return
    _told["convention"] = True
    warnings.warn(
        "where width < dim, gamma, lr and t are now those of Γ = γ (D/N) Π, no longer of γ Π: "
        "divide an old gamma by D/N, an old lr or t by (D/N)²",
        ConventionWarning,
        stacklevel=level,
    )


def _root(frame: Any) -> str:
    return frame.f_globals.get("__name__", "").partition(".")[0]


class ConventionWarning(FutureWarning):
    """Numbers that users give have another meaning than in the version before."""


def told(task: Task) -> dict[str, Any]:
    """The law, field by field, what is most telling first: for the words on a run's problem."""
    names = ["alpha", "nu", "beta", "dim", "width", "context", "noise", "queries"]
    fields = {name: getattr(task, name) for name in names if hasattr(task, name)}
    if isinstance(task, Structured):
        fields |= {name: getattr(task.spectrum, name) for name in ("lam", "share")}
    return {"law": type(task).__name__, **fields}


def check_task(task: Any, *allowed: Any) -> None:
    """Raise unless `task` is one of the lab's context laws, or of those allowed."""
    kinds = allowed or (Isotropic, FixedStructure, RotatedStructure)
    if not isinstance(task, kinds):
        names = " or ".join(f"deep_icl.{kind.__name__}" for kind in kinds)
        raise ValueError(f"task must be a {names}, not {type(task).__name__}")
    validation.needs_double("a task")


def rotations(
    key: Key[Array, ""], count: int, dim: int, columns: int | None = None
) -> Float[Array, "count dim columns"]:
    """Haar rotations of R^dim, or their first `columns` columns."""
    normal = jax.random.normal(key, (count, dim, dim if columns is None else columns))
    q, r = jnp.linalg.qr(normal)
    # Without the signs of R's diagonal QR is not Haar.
    return q * jnp.sign(jnp.diagonal(r, axis1=1, axis2=2))[:, None, :]


def is_silent(task: Task) -> bool:
    """Whether there is no noise, which then need not be drawn."""
    return validation.is_concrete(task.noise) and float(task.noise) == 0.0


def draw(task: Task, key: Key[Array, ""], contexts: int, silent: bool = False) -> Contexts:
    """Fresh contexts; `task` must have a finite context. Without noise none is drawn."""
    dim, labelled, asked = task.dim, task.context, task.queries or 0
    assert dim is not None
    assert labelled is not None
    where, which, what, off = jax.random.split(key, 4)
    x = jax.random.normal(what, (contexts, labelled + asked, dim))
    if isinstance(task, Isotropic):
        b = jax.random.normal(which, (contexts, dim)) / math.sqrt(dim)
        covariance = jnp.broadcast_to(jnp.eye(dim), (contexts, dim, dim))
    else:
        x = x * jnp.sqrt(task.lam)[None, None, :]
        signs = jax.random.rademacher(which, (contexts, dim), x.dtype)
        b = signs * jnp.sqrt(task.omega)[None, :]
        covariance = jnp.broadcast_to(jnp.diag(task.lam), (contexts, dim, dim))
        if isinstance(task, RotatedStructure):
            turn = rotations(where, contexts, dim)
            x = jnp.einsum("cde,cpe->cpd", turn, x)
            b = jnp.einsum("cde,ce->cd", turn, b)
            covariance = jnp.einsum("cde,e,cfe->cdf", turn, task.lam, turn)
    y = jnp.einsum("cpd,cd->cp", x, b)
    if not silent:
        noise = task.noise * jax.random.normal(off, (contexts, labelled))
        y = y.at[:, :labelled].add(noise)
    return Contexts(x, y, b, covariance)


_draw = jit(draw, filtered=True)


def refuse_large(task: Task, needed: float, *names: str) -> None:
    """Raise where one context takes too many bytes, by the largest of its sizes."""
    sizes = {name: getattr(task, name) or 0 for name in names}
    name = max(names, key=lambda name: sizes[name])
    memory.refuse(name, sizes[name], needed)


def sample(task: Task, contexts: int, seed: int = 0) -> Contexts:
    """Real contexts, drawn from the task's law: ``y = b·x + σε`` (accounts).

    Args:
        task: the law; its dimension and context must be finite.
        contexts: how many.
        seed: of the draw.

    >>> sample(Isotropic(alpha=2.0, dim=4, queries=3), contexts=5).x.shape
    (5, 11, 4)
    """
    check_task(task)
    if task.dim is None:
        raise ValueError("dim must be given to draw contexts: Isotropic(alpha, dim=…)")
    if task.context is None:
        raise ValueError("context must be finite to draw contexts")
    count = validation.whole("contexts", contexts, 1, MAX_CONTEXT)
    tokens = task.context + (task.queries or 0)
    one = 16.0 * (tokens + task.dim) * (task.dim + 1)
    refuse_large(task, one, "dim", "context", "queries")
    memory.refuse("contexts", contexts, one * count)
    return _draw(task, jax.random.key(seed_of(seed)), count, is_silent(task))


def seed_of(seed: Any) -> int:
    """A seed that JAX can take, or an error."""
    validation.whole("seed", seed)
    return validation.whole("seed", seed, 0, _MAX_SEED)


def _number(name: str, value: Any, low: float, high: float, *, open_low: bool = False) -> Array:
    number = validation.floating(name, value)
    validation.shaped(name, number, ())
    validation.within(name, number, low, high, open_low=open_low)
    return number


def _limited(name: str, value: Any, high: int) -> int | None:
    """A whole number from 1, or None for None and infinity."""
    if value is None or (isinstance(value, float) and value == math.inf):
        return None
    return validation.whole(name, value, 1, high)


def _words(task: Any, **fields: Any) -> str:
    fields |= {"noise": task.noise}
    if isinstance(task, Isotropic):
        fields |= {"dim": task.dim}
    fields |= {"queries": task.queries}
    told = {name: value for name, value in fields.items() if value is not None}
    return f"{type(task).__name__}({validation.brief(**told)})"
