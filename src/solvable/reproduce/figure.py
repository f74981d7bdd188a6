"""A figure of a paper: data, picture, verdicts, each declared once."""

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from .claim import SIZES, Claim, Finding, Kind, Quote, Size, Statement
from .stage import stage

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

_NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]*\w)?", re.ASCII)
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Family:
    """One claim, or as many as there are values that it is made over."""

    word: str
    text: str
    source: str
    kind: Kind
    quote: Quote | None
    known: Any
    over: str | Sequence[Any] | None
    find: Callable[..., Finding]

    def members(
        self, id: str, values: Mapping[str, Any]
    ) -> list[tuple[Statement, tuple[Any, ...]]]:
        """Its statements, and what `find` is to be called with beside the dataset."""
        if self.over is None:
            return [(self._statement(id, self.word, self.text.format(**values)), ())]
        over = values[self.over] if isinstance(self.over, str) else self.over
        word = self.word if "{" in self.word else f"{self.word}-{{x}}"
        return [
            (self._statement(id, word.format(x=x), self.text.format(x=x, **values)), (x,))
            for x in over
        ]

    def _statement(self, id: str, word: str, text: str) -> Statement:
        return Statement(f"{id}/{word}", text, self.source, self.kind, self.quote, self.known)


class Figure:
    """A figure of a paper, or one that the paper lacks.

    Its data come from functions under ``@figure.data``, its picture from the one under
    ``@figure.draw``, its claims from those under ``@figure.claim``; the last two see nothing but
    the data, and the settings that these were computed with (`settings_of`).
    """

    def __init__(
        self,
        id: str,
        title: str,
        settings: Mapping[Size, Mapping[str, Any]],
        *,
        constants: Mapping[str, Any] | None = None,
        note: str = "",
        seed: int = 0,
        missing: Callable[[], str] = lambda: "",
        modules: Sequence[str] = (),
    ):
        """Declare a figure.

        Args:
            id: LAB/FIGURE, for example "msfr/fig3".
            title: what it shows, in a few words.
            settings: for each size what it is computed with.
            constants: what it is computed with at every size.
            note: what a reader must know: choices of ours where the paper is silent.
            seed: from which all its randomness comes; a setting, too.
            missing: what must be installed before it can be computed, in a sentence; empty where
                nothing is missing.
            modules: whole modules that its numbers depend on, beside what its stages import.
        """
        if id.count("/") != 1 or not all(_NAME.fullmatch(part) for part in id.split("/")):
            raise ValueError(
                f"id must be LAB/FIGURE, of letters, digits, '-', '_', '.', not {id!r}"
            )
        if absent := [size for size in SIZES if size not in settings]:
            raise ValueError(f"settings of {id} must have {', '.join(absent)}")
        self.id, self.title, self.note, self.seed = id, title, note, seed
        self.settings, self.constants = settings, dict(constants or {})
        self.missing, self.modules = missing, tuple(modules)
        self.module = str(sys._getframe(1).f_globals.get("__name__", ""))
        self._draw: Callable[[xr.Dataset], matplotlib.figure.Figure] | None = None
        self._stages: dict[str, Callable[..., Any]] = {}
        self._families: list[_Family] = []

    def data(self, function: _Function) -> _Function:
        """Declare a stage of the data: ``function(settings, …) -> Dataset``.

        Further arguments are the datasets of earlier stages, by their names. What is finished of
        an interrupted run is not computed again.
        """
        name, (first, *needs) = function.__name__, inspect.signature(function).parameters
        if first != "settings" or not set(needs) <= set(self._stages):
            raise TypeError(f"{name} must take settings and earlier stages, not {first}, {needs}")
        if name in self._stages:
            raise ValueError(f"{self.id} has the stage {name} twice")
        self._stages[name] = function
        return function

    def draw(self, function: _Function) -> _Function:
        """Declare the picture: ``function(dataset) -> matplotlib.figure.Figure``."""
        self._draw = function
        return function

    def claim(
        self,
        kind: Kind,
        source: str,
        *,
        word: str = "",
        over: str | Sequence[Any] | None = None,
        quote: Quote | None = None,
        known: Literal["fails"] | Mapping[Size, Literal["fails"]] | None = None,
    ) -> Callable[[Callable[..., Finding]], Callable[..., Finding]]:
        """Declare a claim: ``function(dataset) -> Finding``, whose docstring says what is claimed.

        Args:
            kind: where it comes from, one of `KINDS`.
            source: where the paper says it.
            word: the last part of its id; the function's name unless given.
            over: values, or the name of the setting that has them, for a claim each: the function
                takes one after the dataset, and the docstring and `word` have ``{x}`` in its place.
                A docstring may name other settings so, too.
            quote: what the paper prints and this corrects.
            known: "fails" where it is known not to hold, as the note explains; by size, where that
                differs.
        """

        def register(function: Callable[..., Finding]) -> Callable[..., Finding]:
            text = " ".join((function.__doc__ or "").split())
            if not text:
                raise TypeError(f"{function.__name__} must say what it claims, in a docstring")
            name = word or function.__name__.strip("_").replace("_", "-")
            self._families.append(_Family(name, text, source, kind, quote, known, over, function))
            ids = [said.id for said in self.statements]  # what is wrong is told at once
            if twice := {id for id in ids if ids.count(id) > 1}:
                raise ValueError(f"{min(twice)} is claimed twice")
            return function

        return register

    @property
    def lab(self) -> str:
        """The lab it belongs to."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """Its name within the lab."""
        return self.id.partition("/")[2]

    @property
    def stages(self) -> tuple[Callable[..., Any], ...]:
        """The functions behind its data."""
        return tuple(self._stages.values())

    @property
    def axes(self) -> set[str]:
        """The settings over which it makes claims, one a value."""
        return {family.over for family in self._families if isinstance(family.over, str)}

    def __repr__(self) -> str:
        return f"Figure({self.id!r})"

    def values(self, size: Size, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All that it is computed with at a size, as it is read back from a file."""
        found = {"seed": self.seed, **self.constants, **self.settings[size], **(changes or {})}
        return json.loads(json.dumps(found))

    @property
    def statements(self) -> tuple[Statement, ...]:
        """What it claims, before anything is computed."""
        return tuple(said for said, _, _ in self._announced(_settled(self.values("default"))))

    def _announced(self, values: Mapping[str, Any]) -> Iterable[tuple[Statement, Any, Any]]:
        for family in self._families:
            for said, arguments in family.members(self.id, values):
                yield said, family.find, arguments

    def compute(self, size: Size, changes: Mapping[str, Any] | None = None) -> "xr.Dataset":
        """The data: one dataset that holds all that the picture and the claims need."""
        values = self.values(size, changes)
        dataset = self._merged(SimpleNamespace(**_settled(values)))
        return dataset.assign_attrs(settings=values)

    def _merged(self, settings: SimpleNamespace) -> "xr.Dataset":
        import xarray as xr

        parts: dict[str, xr.Dataset] = {}
        for name, function in self._stages.items():
            _, *needs = inspect.signature(function).parameters
            given = {each: parts[each] for each in needs}
            parts[name] = stage(name, lambda f=function, g=given: f(settings, **g))
        return xr.merge(parts.values(), join="exact", combine_attrs="no_conflicts")

    def picture(self, dataset: "xr.Dataset") -> "matplotlib.figure.Figure":
        """The picture of a dataset, made within `style.figure_style`."""
        if self._draw is None:
            raise RuntimeError(f"{self.id} has no picture: declare one with its draw")
        return self._draw(dataset)

    def judge(self, dataset: "xr.Dataset", size: Size = "default") -> list[Claim]:
        """The claims, with none forgotten and none unannounced.

        A claim that raises has no number, fails, and says so; the others are judged.
        """
        claims = []
        for said, find, arguments in self._announced(_settled(dataset.attrs["settings"])):
            try:
                claims.append(said.judged(find(dataset, *arguments), size))
            except Exception as error:
                words = f"It cannot be judged ({type(error).__name__}: {error})."
                claims.append(said.unjudged(words, size))
        return claims


def settings_of(dataset: "xr.Dataset") -> SimpleNamespace:
    """What a figure's dataset was computed with."""
    return SimpleNamespace(**_settled(dataset.attrs["settings"]))


def _settled(values: Any) -> Any:
    """Lists as tuples: the same after a file as before."""
    match values:
        case dict():
            return {name: _settled(value) for name, value in values.items()}
        case list():
            return tuple(_settled(value) for value in values)
        case _:
            return values
