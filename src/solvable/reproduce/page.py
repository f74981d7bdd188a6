"""The HTML of the report card: one file, no script, nothing fetched."""

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .. import __version__
from ..papers import PAPERS, Paper, solvable_bibtex
from .claim import KINDS, Claim
from .figure import Figure
from .numerals import card, duration, expected, listed, number, plural, why_it_fails
from .store import FILES, Result

# A drawing with so many strokes is slow to show; its pixels are not.
_HEAVY = 2_000_000
_MARKS = {"fails": "✗", "holds corrected": "✎", "holds": "✓"}  # from the worst to the best
_SIZES = {"quick": "quick (smaller than the default)", "full": "full (where the laws are clean)"}
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'"


@dataclass(frozen=True)
class Picture:
    """A finished figure, and what the registry knows of it; None where it is not registered."""

    result: Result
    figure: Figure | None

    @property
    def id(self) -> str:
        """LAB/FIGURE, with what was changed of its settings."""
        return f"{self.result.folder.parent.name}/{self.result.folder.name}"

    @property
    def claims(self) -> list[Claim]:
        """Its claims, judged."""
        return self.result.claims

    @property
    def changed(self) -> bool:
        """Whether it was computed with other settings than the figure's own."""
        return bool(self.result.changes)

    @property
    def title(self) -> str:
        """What it shows."""
        return self.figure.title if self.figure else str(self.result.about.get("title", ""))

    @property
    def seconds(self) -> float:
        """How long it took."""
        return float(self.result.about.get("seconds", 0.0))


@dataclass(frozen=True)
class Chapter:
    """A paper on the page.

    Attributes:
        name: of its lab.
        paper: None where the lab is not installed.
        pictures: the finished figures, in the order of the page.
        missing: the figures that are not computed.
        order: the ids of both, as the lab has them.
    """

    name: str
    paper: Paper | None
    pictures: Sequence[Picture]
    missing: Sequence[Figure]
    order: Sequence[str] = ()

    @property
    def title(self) -> str:
        """The paper's, or the lab's name."""
        return self.paper.title if self.paper else self.name

    @property
    def claims(self) -> list[Claim]:
        """Of all its finished figures that have their own settings."""
        return [claim for _, claim in self.placed]

    @property
    def placed(self) -> list[tuple[Picture, Claim]]:
        """The claims, and where each is."""
        return [(p, c) for p in self.pictures if not p.changed for c in p.claims]


def page(chapters: Sequence[Chapter], out: Path, left_out: Sequence[str] = ()) -> str:
    """The whole page.

    Args:
        chapters: one a paper.
        out: the folder it is written to, from which its links start.
        left_out: folders that are no figures, and why.
    """
    title = "Report card" + (f": {chapters[0].title}" if len(chapters) == 1 else "")
    body = "\n".join(_chapter(chapter, out) for chapter in chapters) if chapters else _nothing()
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)} – Solvable</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
{_header(chapters)}
<main>
{body}
{_making(chapters) if chapters else ""}
{_left_out(left_out)}
{_citing(chapters)}
</main>
</body>
</html>
"""


def _header(chapters: Sequence[Chapter]) -> str:
    rows = [
        f'<li><a href="{_to(c.name)}">{escape(c.title)}</a> {escape(card(c.claims))}</li>'
        for c in chapters
    ]
    papers = f'<ul class="papers">{"".join(rows)}</ul>' if len(rows) > 1 else ""
    kinds = "".join(
        f"<dt>{_kind(kind)}</dt><dd>{escape(words)}</dd>" for kind, words in KINDS.items()
    )
    return f"""<header>
<h1>Solvable: report card</h1>
<p>Figures computed anew, and claims judged by numbers. A claim {_verdict("holds")} if what was
measured is what was expected, within the tolerance stated; it {_verdict("holds corrected")} if it
does so only after something the paper prints, quoted here, is put right; otherwise it
{_verdict("fails")}. Where a claim is known not to hold, that is a finding, and said so. Every claim
has a kind:</p>
<dl class="kinds">{kinds}</dl>
{papers}
</header>"""


def _nothing() -> str:
    labs = "".join(
        f"<li>{escape(paper.title)}: {_command(f'solvable reproduce {name}')}</li>"
        for name, paper in PAPERS.items()
    )
    return f"""<section>
<h2>No figure yet</h2>
<p>No figure has been finished in this folder so far. Each appears here as soon as it is.</p>
<ul>{labs}</ul>
</section>"""


def _chapter(chapter: Chapter, out: Path) -> str:
    paper = chapter.paper
    if paper is None:
        origin = f"The lab {chapter.name!r} is not installed here: this is what its files say."
    else:
        origin = f"{listed(paper.authors)}. {paper.venue}, {paper.year}."
    return f"""<section class="paper" id="{_anchor(chapter.name)}">
<h2>{escape(chapter.title)}</h2>
<p class="origin">{escape(origin)}</p>
<p class="answer">{_answer(chapter)}</p>
<p>{_extent(chapter)}</p>
{_failing(chapter)}
{_contents(chapter)}
{"".join(_picture(picture, chapter, out) for picture in chapter.pictures)}
{_missing(chapter)}
{_errata(chapter)}
</section>"""


def _answer(chapter: Chapter) -> str:
    """Does it hold?"""
    claims = chapter.claims
    if not claims:
        only = bool(chapter.pictures) and all(picture.changed for picture in chapter.pictures)
        return "Only figures with changed settings." if only else "It makes no claims."
    words = card(claims)
    if news := sum(not claim.as_known for claim in claims):
        verdicts = plural(news, "1 verdict is", f"{news} verdicts are")
        return _mark("fails", f"{words} {verdicts} not the known {plural(news, 'one', 'ones')}.")
    worst = "holds corrected" if any(c.verdict != "holds" for c in claims) else "holds"
    return _mark(worst, words)


def _extent(chapter: Chapter) -> str:
    """How much of the paper that says something about."""
    own = [picture for picture in chapter.pictures if not picture.changed]
    done, missing = len(own), len(chapter.missing)
    sizes = Counter(picture.result.size for picture in own)
    parts = [f"{done} of {done + missing} figures computed" if missing else _count(done, "figure")]
    parts += [f"{sizes[size]} at size {words}" for size, words in _SIZES.items() if sizes[size]]
    if changed := len(chapter.pictures) - done:
        parts.append(f"{changed} with changed settings, whose claims are not counted")
    return escape("; ".join(parts) + ".")


def _failing(chapter: Chapter) -> str:
    """What came out as nobody expected, and what is known not to hold."""
    news = [(p, c) for p, c in chapter.placed if not c.as_known]
    known = [(p, c) for p, c in chapter.placed if c.as_known and c.verdict == "fails"]
    return _findings(
        chapter, "Verdicts that are not the known ones", "fails", [_fallen(*each) for each in news]
    ) + _findings(chapter, "Known not to hold", "known", [_fallen(*each) for each in known])


def _fallen(picture: Picture, claim: Claim) -> str:
    if claim.verdict == "fails":
        numbers = why_it_fails(claim)
    else:
        numbers = f"It {claim.verdict} now, where it was known as: {claim.known}."
    return _finding(
        {
            "Claim": _maths(claim.statement),
            "Numbers": escape(numbers),
            "Note": _maths(claim.note),
            "Where": _where(picture, claim),
        }
    )


def _errata(chapter: Chapter) -> str:
    entries = []
    for picture, claim in chapter.placed:
        if claim.quote is None or claim.verdict != "holds corrected":
            continue
        numbers = f"expected {expected(claim)}, measured {number(claim.measured)}"
        entry = {
            "Printed": _quoted(claim),
            "Right": _maths(claim.statement),
            "Numbers": escape(numbers),
            "Note": _maths(claim.note),
            "Where": _where(picture, claim),
        }
        entries.append(_finding(entry))
    return _findings(chapter, "Errata found", "corrected", entries)


def _quoted(claim: Claim) -> str:
    """The paper's own words, where they stand, and the number that they give."""
    quote = claim.quote
    assert quote is not None
    value = "" if claim.as_printed is None else f"; it gives {number(claim.as_printed)}"
    words = f"{quote.where}, {quote.grade}{value}"
    return f'<q class="quote">{escape(quote.text)}</q> <span class="where">({escape(words)})</span>'


def _findings(chapter: Chapter, heading: str, kind: str, entries: Sequence[str]) -> str:
    if not entries:
        return ""
    return f"""<section class="findings {kind}" id="{_anchor(f"{chapter.name}/{kind}")}">
<h3>{heading}</h3>
<ol>{"".join(entries)}</ol>
</section>"""


def _finding(entry: dict[str, str]) -> str:
    rows = "".join(f"<dt>{name}</dt><dd>{html}</dd>" for name, html in entry.items() if html)
    return f"<li><dl>{rows}</dl></li>"


def _where(picture: Picture, claim: Claim) -> str:
    link = f'judged under <a href="{_to(_row(picture, claim))}">{escape(_label(picture.id))}</a>'
    return f"{escape(claim.source)}; {link}" if claim.source else link


def _contents(chapter: Chapter) -> str:
    found = {p.id: _content(p.id, p.title, _outline(p)) for p in chapter.pictures}
    absent = '<span class="tally absent">not computed</span>'
    found |= {figure.id: _content(figure.id, figure.title, absent) for figure in chapter.missing}
    order = {id: k for k, id in enumerate(chapter.order)}
    place = {p.id: order.get(p.result.figure, len(order)) for p in chapter.pictures} | order
    rows = [found[id] for id in sorted(found, key=lambda id: (place[id], id))]
    if corrected := [c for c in chapter.claims if c.verdict == "holds corrected"]:
        link = f'<a href="{_to(f"{chapter.name}/corrected")}">Errata found</a>'
        rows.append(f"<li>{link} <span>All corrections in one list</span> {_tally(corrected)}</li>")
    return f"""<nav aria-label="{escape(f"Figures of {chapter.title}")}">
<h3>Contents</h3>
<ul class="contents">{"".join(rows)}</ul>
</nav>"""


def _content(id: str, title: str, tally: str) -> str:
    link = f'<a href="{_to(id)}">{escape(_label(id))}</a>'
    return f"<li>{link} <span>{escape(title)}</span> {tally}</li>"


def _outline(picture: Picture) -> str:
    if picture.changed:
        values = ", ".join(f"{n} = {_plain(v)}" for n, v in picture.result.changes.items())
        return f'<span class="tally absent">{escape(values)}</span>'
    return _tally(picture.claims)


def _tally(claims: Sequence[Claim]) -> str:
    """The verdicts on a figure in a few words, the worst first."""
    counts = Counter(claim.verdict for claim in claims)
    words = {
        "fails": f"{counts['fails']} {plural(counts['fails'], 'fails', 'fail')}",
        "holds corrected": f"{counts['holds corrected']} corrected",
        "holds": f"{counts['holds']} {plural(counts['holds'], 'holds', 'hold')}",
    }
    parts = [_mark(verdict, words[verdict]) for verdict in _MARKS if counts[verdict]]
    return f'<span class="tally">{" ".join(parts) or "no claims"}</span>'


def _picture(picture: Picture, chapter: Chapter, out: Path) -> str:
    note = picture.figure.note if picture.figure else str(picture.result.about.get("note", ""))
    if chapter.paper and not picture.figure:
        note = "Made by another version: the lab has no such figure now."
    title = f" {escape(picture.title)}" if picture.title else ""
    if picture.changed:
        title += f' <span class="changed">{_changes(picture)}</span>'
    return f"""<article id="{_anchor(picture.id)}">
<figure>
<figcaption>
<h3><a href="{_to(picture.id)}">{escape(_label(picture.id))}</a>{title}</h3>
{f"<p>{_maths(note)}</p>" if note else ""}
</figcaption>
{_image(picture)}
</figure>
{_claims(picture)}
{_facts(picture, out)}
</article>
"""


def _changes(picture: Picture) -> str:
    values = ", ".join(f"{name} = {_plain(v)}" for name, v in picture.result.changes.items())
    words = "statements and note speak of the figure's own settings, and verdicts do not count"
    return escape(f"changed: {values}; {words}")


def _image(picture: Picture) -> str:
    """The drawing, as an image: the ids within two of them do not meet."""
    content, kind, frame = (picture.result.folder / "figure.svg").read_bytes(), "svg+xml", ""
    # In points; said beforehand, so that nothing moves while the page is shown.
    size = re.search(rb'<svg[^>]* width="([\d.]+)pt" height="([\d.]+)pt"', content[:4000])
    if size:
        width, height = (round(float(side) * 4 / 3) for side in size.groups())
        frame = f' width="{width}" height="{height}" style="--wide: {width}px"'
    if len(content) > _HEAVY:
        content, kind = (picture.result.folder / "figure.png").read_bytes(), "png"
    label = escape(_label(picture.id))
    alt = escape(picture.title) or label
    source = f"data:image/{kind};base64,{b64encode(content).decode()}"
    # It scrolls within itself on a phone, where the keyboard must reach it.
    return f"""<div class="picture" tabindex="0" role="group" aria-label="{label}">
<img alt="{alt}"{frame} src="{source}">
</div>"""


def _claims(picture: Picture) -> str:
    if not picture.claims:
        return "<p>It makes no claims.</p>"
    heads = ("Claim", "Kind", "Source", "Expected", "Measured", "Verdict")
    names = "".join(
        f'<th scope="col" role="columnheader" class="{name.lower()}">{name}</th>' for name in heads
    )
    return f"""<table class="claims" role="table">
<caption>Claims of {escape(_label(picture.id))}</caption>
<thead role="rowgroup"><tr role="row">{names}</tr></thead>
<tbody role="rowgroup">
{"".join(_claim(picture, claim) for claim in picture.claims)}</tbody>
</table>"""


def _claim(picture: Picture, claim: Claim) -> str:
    # The roles keep it a table for those who listen, also where it is laid out as cards.
    parts = [f"Printed: {_quoted(claim)}." if claim.quote else "", _maths(claim.note)]
    if claim.because:
        parts.append(_maths(f"Tolerance: {claim.because}."))
    note = f'<span class="note">{" ".join(filter(None, parts))}</span>' if any(parts) else ""
    known = " (known)" if claim.as_known and claim.verdict == "fails" else ""
    known = f" (known: {claim.known})" if not claim.as_known else known
    known = " (changed)" if picture.changed else known
    cells = {
        "Kind": _kind(claim.kind),
        "Source": escape(claim.source),
        "Expected": escape(expected(claim)),
        "Measured": escape(number(claim.measured)),
        "Verdict": "not judged" if claim.unjudged else f"{_verdict(claim.verdict)}{escape(known)}",
    }
    rest = "".join(
        f'<td role="cell" class="{name.lower()}" data-name="{name}">{html}</td>'
        for name, html in cells.items()
    )
    head = f'<th scope="row" role="rowheader">{_maths(claim.statement)}{note}</th>'
    return f'<tr role="row" id="{_anchor(_row(picture, claim))}">{head}{rest}</tr>\n'


def _row(picture: Picture, claim: Claim) -> str:
    """A claim's place on the page: its id, except where settings were changed."""
    return f"{picture.id}/{claim.id.rpartition('/')[2]}"


def _kind(kind: str) -> str:
    return f'<span class="kind">{escape(kind)}</span>'


def _facts(picture: Picture, out: Path) -> str:
    """What it was computed with, and what is in its folder."""
    result = picture.result
    settings = result.config["settings"]
    values = ", ".join(
        f"<code>{escape(name)} = {escape(_plain(value))}</code>" for name, value in settings.items()
    )
    home = result.folder.relative_to(out).as_posix()
    files = ", ".join(f'<a href="{quote(f"{home}/{name}")}">{name}</a>' for name in FILES)
    command = str(result.about.get("command", f"solvable reproduce {picture.id}"))
    return f"""<dl class="facts">
<dt>Size</dt><dd>{escape(_SIZES.get(result.size, result.size))}</dd>
<dt>Settings</dt><dd>{values}</dd>
<dt>Made by</dt><dd>{_command(command)} in {duration(picture.seconds)}</dd>
<dt>Files</dt><dd>{files}</dd>
</dl>"""


_ONCE = r"(?:[^(){}]|\([^(){}]*\))*"
_INNER = rf"(?:[^(){{}}]|\({_ONCE}\))*"  # brackets within brackets, two deep
_BARE = "[-−]?\\d*[A-Za-zα-ω½]+(?![\\w½(])"  # L^−β, P^−½; not 10^10.5, N^min(β,1)
_POWER = re.compile(rf"\^(?:\(({_INNER})\)|\{{({_INNER})\}}|({_BARE}))")
# A letter by itself, or a Greek one anywhere (ω_kλ_k), and an index of Latin letters or digits.
_INDEX = re.compile(
    r"((?:(?<![^\W_])[^\W\d_]|[α-ωΑ-Ω])\u0303?\u0302?)_([A-Za-z0-9]+|[^\W_])(?![A-Za-z0-9])"
)


def _maths(text: str) -> str:
    """The text with its powers ``t^(−½)`` raised and its indices ``p_s`` lowered."""
    raised = _POWER.sub(lambda found: f"<sup>{found[found.lastindex or 0]}</sup>", escape(text))
    return _INDEX.sub(r"\1<sub>\2</sub>", raised)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _missing(chapter: Chapter) -> str:
    if not chapter.missing:
        return ""
    sizes = {picture.result.size for picture in chapter.pictures}
    option = f" --{sizes.pop()}" if sizes in ({"quick"}, {"full"}) else ""
    rows = "".join(
        f'<li id="{_anchor(figure.id)}"><span>{escape(_label(figure.id))}: '
        f"{escape(figure.title)}</span> {_command(f'solvable reproduce {figure.id}{option}')}</li>"
        for figure in chapter.missing
    )
    everything = _command(f"solvable reproduce {chapter.name}{option}")
    all_of_them = f"<p>All of them: {everything}</p>" if len(chapter.missing) > 1 else ""
    return f"""<section class="missing">
<h3>Not yet computed</h3>
{all_of_them}
<ul>{rows}</ul>
</section>"""


def _making(chapters: Sequence[Chapter]) -> str:
    """On what machine, with which packages, in what time."""
    pictures = [picture for chapter in chapters for picture in chapter.pictures]
    rows = "".join(
        f'<tr><th scope="row"><a href="{_to(p.id)}">{escape(p.id)}</a></th>'
        f"<td>{escape(p.result.size)}</td><td>{duration(p.seconds)}</td></tr>\n"
        for p in pictures
    )
    total = duration(sum(picture.seconds for picture in pictures))
    return f"""<section>
<h2>How it was computed</h2>
{_machines(pictures)}
<h3>Time</h3>
<table class="times">
<thead>
<tr><th scope="col">Figure</th><th scope="col">Size</th><th scope="col">Time</th></tr>
</thead>
<tbody>
{rows}</tbody>
<tfoot>
<tr><th scope="row" colspan="2">All, one after the other</th><td>{total}</td></tr>
</tfoot>
</table>
</section>"""


def _machines(pictures: Sequence[Picture]) -> str:
    """Each machine and set of packages once; with its figures, where there are several."""
    made: dict[tuple[str, str], list[str]] = {}
    for picture in pictures:
        about = picture.result.about
        machine = about.get("machine", {})
        cores = machine.get("cores")
        words = [machine.get("processor"), cores and _count(cores, "core"), machine.get("system")]
        packages = [f"{name} {version}" for name, version in about.get("versions", {}).items()]
        place = ", ".join(str(word) for word in words if word) or "unknown"
        made.setdefault((place, ", ".join(packages) or "unknown"), []).append(picture.id)
    parts = []
    for (place, packages), ids in made.items():
        which = f"<dt>Figures</dt><dd>{escape(', '.join(ids))}</dd>" if len(made) > 1 else ""
        parts.append(
            f'<dl class="facts">{which}<dt>Machine</dt><dd>{escape(place)}</dd>'
            f"<dt>Packages</dt><dd>{escape(packages)}</dd></dl>"
        )
    return "\n".join(parts)


def _left_out(folders: Sequence[str]) -> str:
    if not folders:
        return ""
    rows = "".join(f"<li>{escape(each)}</li>" for each in folders)
    return f"""<section>
<h2>Left out</h2>
<p>Folders here that hold no whole figure of this version:</p>
<ul>{rows}</ul>
</section>"""


def _citing(chapters: Sequence[Chapter]) -> str:
    entries = [chapter.paper.bibtex for chapter in chapters if chapter.paper]
    entries += [solvable_bibtex(version) for version in _versions(chapters)]
    blocks = "\n".join(f'<pre tabindex="0">{escape(entry)}</pre>' for entry in entries)
    return f"""<section>
<h2>How to cite</h2>
{blocks}
</section>"""


def _versions(chapters: Sequence[Chapter]) -> Iterable[str]:
    """Of Solvable, those that made the figures; the one here where nobody says."""
    found = {
        str(picture.result.about.get("versions", {}).get("solvable", __version__))
        for chapter in chapters
        for picture in chapter.pictures
    }
    return sorted(found) or [__version__]


def _verdict(verdict: str) -> str:
    return _mark(verdict, verdict)


def _mark(verdict: str, words: str = "") -> str:
    """A sign, with words: a verdict is never told by colour or sign alone."""
    kind = verdict.rpartition(" ")[2]
    sign = f'<span aria-hidden="true">{_MARKS.get(verdict, "?")}</span>'
    return (
        f'<span class="verdict {escape(kind)}">{sign}{" " if words else ""}{escape(words)}</span>'
    )


def _command(line: str) -> str:
    return f'<code class="command">{escape(line)}</code>'


def _label(id: str) -> str:
    """How one speaks of a figure: "msfr/fig3a" is Figure 3a."""
    name, _, changes = id.partition("/")[2].partition("@")
    if changes:
        return f"{_label(f'/{name}')}, changed"
    if found := re.fullmatch(r"(fig|figure|table)[-_]?(\d+\w*)", name):
        return f"{'Table' if found[1] == 'table' else 'Figure'} {found[2]}"
    return name[:1].upper() + name[1:]


def _anchor(id: str) -> str:
    return escape(re.sub(r"\s", "-", id))


def _to(id: str) -> str:
    return escape("#" + quote(re.sub(r"\s", "-", id)))


def _count(number: int, thing: str) -> str:
    return f"{number} {plural(number, thing, thing + 's')}"
