"""``solvable reproduce``: a paper's figures, its claims judged, and a page to look at."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from . import INTERRUPTED
from .arguments import Flag, Maybe
from .compute import ComputeOptions
from .progress import Figures
from .screen import note, print_json, print_rich

if TYPE_CHECKING:
    from ..reproduce import Outcome, Size

CLAIM_FAILS = 1
ROOMY = 120  # columns of a terminal from which the statements fit beside their numbers


@dataclass(frozen=True)
class Reproduce:
    """Compute figures, judge their claims, and write a page (index.html) to look at.

    What is there already for the same settings and version is kept; an interrupted run goes on
    where it was.
    """

    targets: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="[TARGET ...]", help_behavior_hint=""),
    ] = ()
    """all, LAB or LAB/FIGURE (msfr, msfr/fig3; solvable list names them); all unless given"""
    compute: ComputeOptions = field(default_factory=ComputeOptions)
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("out")
    """the folder for LAB/FIGURE/{figure.svg, figure.png, data.zarr, claims.json} and index.html"""
    quick: Flag = False
    """a smaller size, with the same claims"""
    full: Flag = False
    """the size at which the laws are clean; takes long"""
    jobs: Maybe[int] = None
    """figures worked on at once; as many as there are processors unless given"""
    fresh: Flag = False
    """compute again what is there"""
    json: Flag = False
    """print one JSON document instead of the table of claims"""

    def run(self) -> int:
        """Reproduce, and print the claims."""
        if self.quick and self.full:
            raise ValueError("quick and full cannot both be given")
        size: Size = "quick" if self.quick else "full" if self.full else "default"
        self.compute.quieten()
        from .. import reproduce

        chosen = reproduce.figures(self.targets or ("all",))
        with Figures([figure.id for figure in chosen]) as watch:
            try:
                outcomes = reproduce.run(
                    [figure.id for figure in chosen],
                    out=self.out,
                    size=size,
                    jobs=self.jobs,
                    fresh=self.fresh,
                    prepare=self.compute.prepare,
                    watch=watch,
                )
            except KeyboardInterrupt:
                watch.close()
                note(f"interrupted; the same command goes on with what is in {self.out}")
                return INTERRUPTED
        page = self.out / "index.html"
        if self.json:
            facts = [{**asdict(outcome), "good": outcome.good} for outcome in outcomes]
            print_json({"size": size, "report": str(page), "figures": facts})
        else:
            names = " ".join(self.targets)
            hint = f"solvable list {names} says what is claimed" if names else "--json says more"
            print_rich(*_table(outcomes), _summary(outcomes), f"the page: {page}; {hint}")
        # What was asked for by its own name and cannot be computed here is no success.
        asked = any(o.state == "skipped" and o.figure in self.targets for o in outcomes)
        return CLAIM_FAILS if asked or not all(o.good for o in outcomes) else 0


_STYLES = {"holds": "green", "holds corrected": "yellow", "fails": "bold red"}


def _table(outcomes: "list[Outcome]") -> list[Any]:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ..reproduce import numerals

    roomy = Console().width >= ROOMY
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    table.add_column("claim", overflow="fold")
    if roomy:
        table.add_column("statement", ratio=1)
    for heading in ("expected", "measured"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for outcome in outcomes:
        for claim in outcome.claims:
            words = [claim.statement] if roomy else []
            numbers = numerals.expected(claim), numerals.number(claim.measured)
            table.add_row(
                claim.id, *words, *numbers, Text(claim.verdict, style=_STYLES[claim.verdict])
            )
        if outcome.error:
            words = [outcome.error] if roomy else []
            skipped = outcome.state == "skipped"
            verdict = ("skipped", "yellow") if skipped else ("not computed", "bold red")
            table.add_row(outcome.figure, *words, "", "", Text(*verdict))
    return [table] if table.row_count else []


def _summary(outcomes: "list[Outcome]") -> str:
    counts = Counter(claim.verdict for outcome in outcomes for claim in outcome.claims)
    words = [f"{counts[verdict]} {verdict}" for verdict in _STYLES if counts[verdict]]
    kept = sum(outcome.state == "kept" for outcome in outcomes)
    figures = f"{len(outcomes)} figure{'' if len(outcomes) == 1 else 's'}"
    if kept:
        figures += f" ({kept} kept from an earlier run; --fresh computes again)"
    if skipped := sum(outcome.state == "skipped" for outcome in outcomes):
        figures += f", {skipped} of them skipped"
    return f"{figures}; claims: {', '.join(words) or 'none'}"
