"""``solvable list``: what there is."""

from dataclasses import asdict, dataclass
from typing import Any

from ..papers import PAPERS
from .arguments import Flag
from .screen import print_json, print_rich


@dataclass(frozen=True)
class List:
    """Show every lab with its paper, its figures and its claims."""

    json: Flag = False
    """print one JSON document instead of a table"""

    def run(self) -> int:
        """Print the labs."""
        labs = [_describe(lab) for lab in PAPERS]
        if self.json:
            print_json({"labs": labs})
        else:
            print_rich(_table(labs))
        return 0


def _describe(lab: str) -> dict[str, Any]:
    paper = {name: value for name, value in asdict(PAPERS[lab]).items() if name != "lab"}
    return {"name": lab, "title": paper["title"], "paper": paper, "figures": [], "claims": []}


def _table(labs: list[dict[str, Any]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    table.add_column("lab", style="bold", no_wrap=True)
    table.add_column("paper")
    table.add_column("figures", justify="right")
    table.add_column("claims", justify="right")
    for lab in labs:
        paper = lab["paper"]
        words = f"{paper['title']}\n{', '.join(paper['authors'])}\n{paper['venue']} {paper['year']}"
        counts = (
            str(len(lab[what])) if lab[what] else "none yet" for what in ("figures", "claims")
        )
        table.add_row(lab["name"], words, *counts)
    return table
