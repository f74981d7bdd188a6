"""``solvable reproduce``: a paper's figures, its claims judged, and a page to look at."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from . import INTERRUPTED
from .arguments import Flag, Maybe, Repeated, pairs
from .compute import ComputeOptions
from .progress import Figures
from .screen import note, print_json, print_rich

if TYPE_CHECKING:
    from ..reproduce import Claim, Outcome, Size

NEWS = 1
SOME = 5  # folders that are named
MANY = 10  # figures from which on one is told how long it may take
ROOMY = 120  # columns of a terminal from which the statements fit beside their numbers


@dataclass(frozen=True)
class Reproduce:
    """Compute figures, judge their claims, and write a page (index.html) to look at.

    Data that are there already for the same settings, versions and code are kept, and judged anew;
    an interrupted run goes on where it was. Exit status 0: every verdict is the known one.
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
    set: Annotated[
        Repeated, tyro.conf.arg(metavar="NAME=VALUE", help_behavior_hint="", name="set")
    ] = ()
    """another value of a setting, once for each (solvable list LAB/FIGURE has them); kept apart"""
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
        from ..reproduce import numerals

        chosen = reproduce.figures(self.targets or ("all",))
        change = pairs("--set", self.set, "alpha=2.0")
        left_out: list[str] = []
        if len(chosen) > MANY:
            note(f"{len(chosen)} figures at size {size}; {self.out / 'log.txt'} tells how it goes")
        with Figures([figure.id for figure in chosen]) as watch:
            try:
                outcomes = reproduce.run(
                    [figure.id for figure in chosen],
                    out=self.out,
                    size=size,
                    change=change,
                    jobs=self.jobs,
                    fresh=self.fresh,
                    prepare=self.compute.prepare,
                    watch=watch,
                    warn=left_out.append,
                )
            except KeyboardInterrupt:
                watch.close()
                note(f"interrupted; the same command goes on with what is in {self.out}")
                return INTERRUPTED
        page = self.out / "index.html"
        if self.json:
            facts = [{**asdict(outcome), "good": outcome.good} for outcome in outcomes]
            counts = numerals.counted(_own(outcomes))
            document = {"size": size, "report": str(page), "counts": counts, "figures": facts}
            print_json({**document, "left_out": left_out})
        else:
            if refused := [o for o in outcomes if o.changes and o.state == "failed"]:
                raise ValueError(f"{refused[0].figure} with these settings: {refused[0].error}")
            print_rich(
                *_table(outcomes), *_news(outcomes), *_summary(outcomes), f"the page: {page}"
            )
            _tell_left_out(left_out, self.out)
        # What was asked for by its own name and cannot be computed here is no success.
        asked = any(o.state == "skipped" and o.figure in self.targets for o in outcomes)
        return NEWS if asked or not all(o.good for o in outcomes) else 0


def _tell_left_out(folders: list[str], out: Path) -> None:
    for folder in folders[:SOME]:
        note(f"left out of the page: {out / folder}")
    if len(folders) > SOME:
        note(f"left out of the page: {len(folders) - SOME} more folders, which the page names")


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
    table.add_column("kind", no_wrap=True)
    for heading in ("expected", "measured"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for outcome in outcomes:
        blank = [""] * (roomy + 3)
        if outcome.error:
            skipped = outcome.state == "skipped"
            verdict = ("skipped", "yellow") if skipped else ("failed", "bold red")
            table.add_row(Text(outcome.figure, style="bold"), *blank, Text(*verdict))
            continue
        table.add_row(Text(outcome.figure, style="bold"), *blank, "")
        for claim in outcome.claims:
            words = [claim.statement] if roomy else []
            numbers = numerals.expected(claim), numerals.number(claim.measured)
            name = claim.id.removeprefix(outcome.figure)
            table.add_row(name, *words, claim.kind, *numbers, _verdict(outcome, claim))
    return [table] if table.row_count else []


def _news(outcomes: "list[Outcome]") -> list[str]:
    """What is to be said of verdicts that are not the known ones, and of figures that failed."""
    from rich.markup import escape

    from ..reproduce import numerals

    lines = [f"{o.figure}: {o.error}" for o in outcomes if o.error]
    for claim in _own(outcomes):
        if not claim.as_known:
            why = numerals.why_it_fails(claim) if claim.verdict == "fails" else ""
            words = why or f"It {claim.verdict}, where it was known as: {claim.known}."
            lines.append(f"{claim.id}: {words} {claim.note}".rstrip())
    return [escape(line) for line in lines]


def _verdict(outcome: "Outcome", claim: "Claim") -> Any:
    """A verdict, and whether it is news."""
    from rich.text import Text

    if claim.unjudged:
        return Text("not judged")
    if outcome.changes:
        return Text(f"{claim.verdict} (changed)")
    if claim.as_known:
        known = claim.verdict == "fails"
        style = "yellow" if known else _STYLES[claim.verdict]
        return Text("fails, as known" if known else claim.verdict, style=style)
    return Text(f"{claim.verdict} (known: {claim.known})", style="bold red")


def _own(outcomes: "list[Outcome]") -> "list[Claim]":
    """The claims of figures that have their own settings."""
    return [claim for outcome in outcomes if not outcome.changes for claim in outcome.claims]


def _summary(outcomes: "list[Outcome]") -> list[str]:
    from ..reproduce import numerals

    kept = sum(outcome.state == "kept" for outcome in outcomes)
    figures = f"{len(outcomes)} figure{'' if len(outcomes) == 1 else 's'}"
    if kept:
        figures += f" ({kept} with data of an earlier run; --fresh computes again)"
    if skipped := sum(outcome.state == "skipped" for outcome in outcomes):
        figures += f", {skipped} of them skipped"
    claims = _own(outcomes)
    words = [figures, numerals.card(claims)]
    if news := sum(not claim.as_known for claim in claims):
        verdicts = numerals.plural(news, "1 verdict is", f"{news} verdicts are")
        words.append(f"{verdicts} not the known {numerals.plural(news, 'one', 'ones')}")
    if any(outcome.changes for outcome in outcomes):
        words.append("settings were changed: these verdicts are nobody's claims, and do not count")
    return [word for word in words if word]
