"""A figure of a paper: data, picture, verdicts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from .claim import Claim, Statement

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

Size = Literal["quick", "default", "full"]
SIZES: tuple[Size, ...] = get_args(Size)


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, or one that the paper lacks.

    Attributes:
        id: LAB/FIGURE, for example "msfr/fig3".
        title: what it shows, in a few words.
        settings: for each size what it is computed with; part of what makes two runs the same.
        statements: what it claims, before anything is computed.
        compute: the data, in one dataset that holds all that `draw` and `claims` need.
        draw: the picture of a dataset, made within `style.figure_style`.
        claims: the statements judged by a dataset, each once, in their order.
        note: what a reader must know: choices of ours where the paper is silent.
        seed: from which all its randomness comes.
        constants: what it is computed with at every size; told with the settings.
        missing: what must be installed before it can be computed, in a sentence; empty where
            nothing is missing.
    """

    id: str
    title: str
    settings: Mapping[Size, Mapping[str, Any]]
    statements: tuple[Statement, ...]
    compute: Callable[[Size], "xr.Dataset"]
    draw: Callable[["xr.Dataset"], "matplotlib.figure.Figure"]
    claims: Callable[["xr.Dataset"], list[Claim]]
    note: str = ""
    seed: int = 0
    constants: Mapping[str, Any] = field(default_factory=dict)
    missing: Callable[[], str] = lambda: ""

    def __post_init__(self) -> None:
        if self.id.count("/") != 1 or not all(part.strip() for part in self.id.split("/")):
            raise ValueError(f"id must be LAB/FIGURE, not {self.id!r}")
        if missing := [size for size in SIZES if size not in self.settings]:
            raise ValueError(f"settings of {self.id} must have {', '.join(missing)}")
        for statement in self.statements:
            if not statement.id.startswith(f"{self.id}/"):
                raise ValueError(f"a statement of {self.id} cannot have the id {statement.id!r}")

    @property
    def lab(self) -> str:
        """The lab it belongs to."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """Its name within the lab."""
        return self.id.partition("/")[2]

    def judge(self, dataset: "xr.Dataset") -> list[Claim]:
        """The claims, with none forgotten and none unannounced."""
        claims = self.claims(dataset)
        announced, judged = [s.id for s in self.statements], [c.id for c in claims]
        if announced != judged:
            raise RuntimeError(f"{self.id} announces {announced} and judges {judged}")
        return claims
