"""The papers behind the labs, and how to cite them and Solvable itself."""

from dataclasses import dataclass


def _entry(kind: str, key: str, fields: dict[str, str]) -> str:
    width = max(map(len, fields))
    lines = [f"  {name:<{width}} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])


@dataclass(frozen=True)
class Paper:
    """A published solvable model.

    Attributes:
        lab: the sub-package that holds the model.
        key: the citation key.
        title: as published.
        authors: first and last names, in the paper's order.
        venue: where it was published.
        year: when.
        arxiv: its number there, of a preprint; empty for a paper of a conference.
    """

    lab: str
    key: str
    title: str
    authors: tuple[str, ...]
    venue: str
    year: int
    arxiv: str = ""

    @property
    def bibtex(self) -> str:
        """The BibTeX entry; the title's second braces keep its capitals."""
        if self.arxiv:
            where = {"eprint": self.arxiv, "archivePrefix": "arXiv"}
        else:
            where = {"booktitle": self.venue}
        return _entry(
            "misc" if self.arxiv else "inproceedings",
            self.key,
            {
                "title": f"{{{self.title}}}",
                "author": " and ".join(self.authors),
                **where,
                "year": str(self.year),
            },
        )


# Keyed by lab: exactly the labs that can be imported.
PAPERS = {
    paper.lab: paper
    for paper in (
        Paper(
            lab="msfr",
            key="lyu2025solvable",
            title="A Solvable Attention for Neural Scaling Laws",
            authors=("Bochen Lyu", "Di Wang", "Zhanxing Zhu"),
            venue="International Conference on Learning Representations (ICLR)",
            year=2025,
        ),
        Paper(
            lab="shallow_icl",
            key="zhang2025training",
            title="Training Dynamics of In-Context Learning in Linear Attention",
            authors=("Yedi Zhang", "Aaditya K. Singh", "Peter E. Latham", "Andrew Saxe"),
            venue="International Conference on Machine Learning (ICML)",
            year=2025,
        ),
        Paper(
            lab="single_location",
            key="marion2025attention",
            title="Attention layers provably solve single-location regression",
            authors=("Pierre Marion", "Raphaël Berthier", "Gérard Biau", "Claire Boyer"),
            venue="International Conference on Learning Representations (ICLR)",
            year=2025,
        ),
        Paper(
            lab="deep_icl",
            key="bordelon2025theory",
            title=(
                "Theory of Scaling Laws for In-Context Regression: Depth, Width, Context and Time"
            ),
            authors=("Blake Bordelon", "Mary I. Letey", "Cengiz Pehlevan"),
            venue="arXiv:2510.01098",
            year=2025,
            arxiv="2510.01098",
        ),
    )
}

SOLVABLE_KEY = "solvable"


def solvable_bibtex(version: str) -> str:
    """The BibTeX entry of Solvable itself, at one version.

    >>> print(solvable_bibtex("0.1.0"))
    @software{solvable,
      title   = {{Solvable: a laboratory for solvable models of attention}},
      author  = {{The Solvable authors}},
      version = {0.1.0},
      year    = {2026},
    }
    """
    return _entry(
        "software",
        SOLVABLE_KEY,
        {
            "title": "{Solvable: a laboratory for solvable models of attention}",
            "author": "{The Solvable authors}",
            "version": version,
            "year": "2026",
        },
    )
