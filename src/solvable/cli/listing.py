"""``solvable list``: what there is."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ..question import groups, parameters
from .arguments import Flag
from .compute import ComputeOptions
from .screen import print_json, print_rich

if TYPE_CHECKING:
    from ..asking import Lab
    from ..question import Parameter
    from ..reproduce import Figure


@dataclass(frozen=True)
class List:
    """Show every lab with its paper, its figures and its claims."""

    targets: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="[TARGET ...]", help_behavior_hint=""),
    ] = ()
    """LAB, LAB/FIGURE or all, whose claims to show; else every lab and figure is, without them"""
    json: Flag = False
    """print one JSON document, claims included, instead of tables"""

    def run(self) -> int:
        """Print the labs, or the claims of some figures."""
        ComputeOptions().quieten()
        from .. import reproduce

        if self.json:
            chosen = {figure.id for figure in reproduce.figures(self.targets or ("all",))}
            labs = [_describe(lab, chosen) for lab in reproduce.labs().values()]
            print_json({"labs": [lab for lab in labs if lab["figures"] or not self.targets]})
        elif self.targets:
            for figure in reproduce.figures(self.targets):
                print_rich(*_claims(figure))
        else:
            words = "solvable list msfr/fig3 shows the claims of a figure, --json those of all"
            print_rich(*(_table(lab) for lab in reproduce.labs().values()), words)
        return 0


def _describe(lab: "Lab", chosen: set[str]) -> dict[str, Any]:
    paper = asdict(lab.paper)
    name = paper.pop("lab")
    figures = [figure for figure in lab.figures if figure.id in chosen]
    return {
        "name": name,
        "title": paper["title"],
        "paper": paper,
        "figures": [
            {
                "id": f.id,
                "title": f.title,
                "note": f.note,
                "settings": {size: f.values(size) for size in f.settings},
                "claims": [s.id for s in f.statements],
            }
            for f in figures
        ],
        "not_at_hand": dict(lab.absent),
        "counts": _counts(figures),
        **_asked(lab),
        "claims": [
            {
                "id": s.id,
                "statement": s.text,
                "kind": s.kind,
                "source": s.source,
                "quote": None if s.quote is None else asdict(s.quote),
                "known": {size: s.known_at(size) for size in figure.settings},
            }
            for figure in figures
            for s in figure.statements
        ],
    }


def _asked(lab: "Lab") -> dict[str, Any]:
    """What can be asked of a lab, and who answers."""
    if lab.question is None:
        return {"witnesses": {}, "question": {}}
    usual = lab.question().settled().document()
    return {
        "witnesses": {
            name: {
                "title": who.title,
                "trains": who.trains,
                "takes": lab.taken(name),
                "axis": who.axis,
                "over": list(who.over),
            }
            for name, who in lab.witnesses.items()
        },
        "question": {
            key: {
                name: {"default": usual[key][name], **_told(parameter)}
                for name, parameter in parameters(group).items()
            }
            for key, group in groups(lab.question).items()
        },
    }


def _told(parameter: "Parameter") -> dict[str, Any]:
    """What a slider needs to know."""
    names = ("symbol", "doc", "low", "high", "open_low", "whole", "words")
    names += ("endless", "spread", "row", "file", "flag")
    return {name: getattr(parameter, name) for name in names}


def _table(lab: "Lab") -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    paper = lab.paper
    heading = Text.assemble(
        (f"{paper.lab}  ", "bold"),
        (paper.title, "bold"),
        f"\n{', '.join(paper.authors)}; {paper.venue} {paper.year}",
        f"\nwitnesses: {', '.join(lab.witnesses)}" if lab.witnesses else "",
    )
    table = Table(
        title=heading,
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        header_style="bold",
        pad_edge=False,
        show_edge=False,
    )
    if lab.absent:
        table.caption, table.caption_justify, table.caption_style = _absent(lab), "left", ""
    table.add_column("figure", no_wrap=True)
    table.add_column("title")
    table.add_column("claims")
    for figure in lab.figures:
        table.add_row(figure.id, figure.title, _announced([figure]))
    table.add_section()
    table.add_row("all", "", _announced(lab.figures))
    return table


def _absent(lab: "Lab") -> str:
    """The figures of the paper that are not at hand, by the reason."""
    reasons = dict.fromkeys(lab.absent.values())
    there = {why: [name for name in lab.absent if lab.absent[name] == why] for why in reasons}
    return "\n".join(f"not at hand: {', '.join(n)} ({why})" for why, n in there.items())


def _announced(figures: "Sequence[Figure]") -> str:
    from ..reproduce import numerals

    return numerals.announced(_counts(figures))


def _counts(figures: "Sequence[Figure]") -> dict[str, int]:
    """How many claims of each kind figures make."""
    return dict(Counter(s.kind for f in figures for s in f.statements))


def _claims(figure: "Figure") -> list[Any]:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    table.add_column("claim", overflow="fold")
    table.add_column("statement", ratio=1)
    table.add_column("kind", no_wrap=True)
    table.add_column("source")
    quotes: list[str] = []
    for said in figure.statements:
        words, name = escape(said.text), said.id.removeprefix(figure.id)
        if said.known:
            sizes = "" if said.known == "fails" else f" at size {', '.join(said.known)}"
            words += escape(f" [Known not to hold{sizes}.]")
        table.add_row(name, words, said.kind, said.source)
        if said.quote:
            place, printed = said.quote.where, said.quote.text
            quotes.append(escape(f"{name} corrects what is printed ({place}): {printed}"))
    heading = f"[bold]{figure.id}[/bold]  {escape(figure.title)}"
    settings = ", ".join(f"{n} = {json.dumps(v)}" for n, v in figure.values("default").items())
    told = f"Settings at the default size, which --set changes: {settings}"
    note = [escape(figure.note)] if figure.note else []
    return [heading, *note, escape(told), table, *quotes, ""]
