import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from report_folder import DROPPED, FIGURES, GONE, LAB, PAPER, fill, installed, put

from solvable import __version__
from solvable.papers import solvable_bibtex
from solvable.reproduce import Finding, Statement, registry, sealed
from solvable.reproduce.numerals import duration, expected, number, why_it_fails
from solvable.reproduce.page import _maths
from solvable.reproduce.report import write_report
from solvable.reproduce.store import results

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """The elements and the text, with every element closed where it must be."""

    def __init__(self, source: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))

    def all(self, name: str) -> list[str]:
        """Every value of an attribute."""
        return [each[name] or "" for _, each in self.elements if name in each]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def source(out: Path) -> str:
    with installed():
        write_report(out)
    return (out / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


def plain(text: str) -> str:
    """The text as it is read: powers raised and indices lowered without their marks."""
    bare = re.sub(r"\^\((.*?)\)", r"\1", text)
    return re.sub(r"\s+", " ", re.sub(r"\b(\w)_(\w)\b", r"\1\2", bare))


def part(source: str, start: str, end: str) -> str:
    """What a reader reads between two pieces of markup."""
    _, _, rest = source.partition(start)
    inside, found, _ = rest.partition(end)
    assert found
    return Page(f"<p>{inside}</p>" if "<" not in inside else f"{inside}").text


def test_numbers_read_as_written_by_hand():
    shown = [number(x) for x in (0.0, -0.25, 12.0, 0.0002268, 3.14159, 99999.5, 1e-5, -1e-15)]
    assert shown == ["0", "−0.25", "12", "0.0002268", "3.142", "10⁵", "10⁻⁵", "−10⁻¹⁵"]
    assert [number(x) for x in (123456.0, 2.5e-7, float("inf"), float("-inf"))] == [
        "123456", "2.5\u00a0×\u00a010⁻⁷", "∞", "−∞",
    ]  # fmt: skip


def test_times_are_never_of_sixty_seconds_or_minutes():
    assert [duration(s) for s in (0.0, 59.94, 59.96, 3599.4, 3599.6, 7199.0)] == [
        "0.0 s", "59.9 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "2 h 0 min",
    ]  # fmt: skip


def test_a_failing_claim_says_what_is_wrong_with_its_numbers():
    def why(wanted: float, measured: float, tolerance: float | str) -> str:
        said = Statement("l/f/w", "", "", "new")
        return why_it_fails(said.judged(Finding(measured, wanted, tolerance)))

    assert why(0.5, 0.75, 0.01) == (
        "Measured 0.75, which is 0.25 away from 0.5; 0.01 is allowed."
    )  # fmt: skip
    assert why(2.0, 1.25, "at least") == "Measured 1.25, which is less than 2."
    assert why(2.0, 3.0, "at most") == "Measured 3, which is more than 2."
    assert why(2.0, float("nan"), "at most") == "No finite number came out."
    assert "printed form" in why(2.0, 2.0, 0.1)


def test_every_claim_is_there_with_its_numbers(source: str, page: Page, out: Path):
    for result in results(out)[0].values():
        for claim in result.claims:
            row = plain(part(source, f'<tr role="row" id="{claim.id}">', "</tr>"))
            wanted = (claim.statement, claim.kind, claim.source, claim.note, expected(claim))
            for words in (*wanted, claim.because, number(claim.measured), claim.verdict):
                assert plain(words) in row, (claim.id, words)
    assert len(re.findall('<tr role="row" id=', source)) == 9


def test_every_kind_is_explained(page: Page):
    assert "paperthe paper states it" in page.text
    assert "checktwo of our own witnesses agree" in page.text


def test_every_figure_shows_title_note_settings_command_time_and_picture(source: str):
    for figure in (*FIGURES[:-1], DROPPED, GONE):
        words = part(source, f'<article id="{figure.id}">', "</article>")
        assert plain(figure.title) in words
        assert "num_tasks = 100" in words
        assert "psi_1 = 1e-05" in words
        assert "seed = 3" in words
        assert f"solvable reproduce {figure.id}" in words
    assert plain(FIGURES[0].note) in part(source, '<article id="demo/fig1">', "</article>")
    assert "solvable reproduce demo/fig1 --quick in 3.7 s" in Page(source).text
    assert "solvable reproduce demo/fig3a in 1 min 15 s" in Page(source).text


def test_pictures_are_embedded_and_have_their_titles_as_alternative(page: Page):
    images = [each for tag, each in page.elements if tag == "img"]
    titles = [figure.title for figure in (*FIGURES[:-1], DROPPED, GONE)]
    assert [each["alt"] for each in images] == titles
    for each in images:
        assert (each["src"] or "").startswith("data:image/svg+xml;base64,")
        assert int(each["width"] or 0) > int(each["height"] or 0) > 0


def test_a_heavy_drawing_is_shown_by_its_pixels(out: Path, tmp_path: Path):
    shutil.copytree(out / "gone", tmp_path / "gone")
    drawing = tmp_path / "gone" / "fig4" / "figure.svg"
    drawing.write_bytes(drawing.read_bytes() + b"<!--" + b" " * 2_000_000 + b"-->")
    sealed_again(tmp_path / "gone" / "fig4")
    write_report(tmp_path)
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    (image,) = [each for tag, each in page.elements if tag == "img"]
    assert (image["src"] or "").startswith("data:image/png;base64,")


def sealed_again(folder: Path, **change) -> None:
    body = sealed.manifest(folder)
    sealed.seal(folder, **{**body, **change})


def test_special_characters_are_text(page: Page):
    tags = {tag for tag, _ in page.elements}
    assert tags.isdisjoint({"script", "b", "i", "sic", "flow", "examples", "zero", "computed"})
    for words in (
        PAPER.title,
        PAPER.venue,
        "beta/(1+\\beta) <sic>",
        "start = <zero>",
        "Li & Söhne",
    ):
        assert words in page.text


def test_nothing_is_fetched(source: str, page: Page):
    for src in page.all("src"):
        assert src.startswith("data:")
    for href in page.all("href"):
        assert not re.match(r"[a-z]+:|//", href) or href == "data:,"
    assert not re.search(r"url\(|@import", source)


def test_links_lead_somewhere(page: Page, out: Path):
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    files = 0
    for href in page.all("href"):
        if href.startswith("#"):
            assert unquote(href[1:]) in ids
        elif href != "data:,":
            assert (out / unquote(href)).exists()
            files += 1
    assert files == 6 * 4


def test_errata_are_gathered_with_the_quote_what_is_right_and_the_numbers(source: str):
    found = part(source, "<h3>Errata found</h3>", "</section>")
    assert found.count("Printed") == found.count("Right") == 2
    assert "Printed\\beta/(1+\\beta) <sic> ((12), error; it gives 0.4444)Right" in found
    assert "PrintedS^\\alpha (below (31), slip" in found
    assert "(below (31), slip; it gives 7)RightThe window" in found
    assert plain("expected −0.4444 ± 0.01, measured −0.4441") in found
    assert "By the exact <flow>." in found


def test_what_is_news_comes_first_and_what_is_known_after(source: str):
    found = part(source, "<h3>Verdicts that are not the known ones</h3>", "</section>")
    assert "The optimum is at <γ> = ½.NumbersNo finite number came out." in found
    assert "The solver found no root & said so." in found
    assert "Measured 1.25, which is less than 2." in found
    assert "amplitude" not in found
    known = part(source, "<h3>Known not to hold</h3>", "</section>")
    assert "The amplitude is 3.NumbersMeasured" in known
    assert source.index("Verdicts that are not") < source.index("<h3>Contents</h3>")
    assert (
        "The paper: 2 hold corrected, 1 does not hold. Reported of the paper: 1 holds, 1 does not "
        "hold. Ours: 2 new results (1 fails), 1 check. 2 verdicts are not the known ones."
    ) in Page(source).text


def test_contents_name_every_figure_in_order_with_its_verdicts(source: str):
    nav = part(source, '<ul class="contents">', "</ul>")
    wanted = [
        "Figure 1 Loss & time: theory < training, at a short and a long context ✓ 3 hold",
        "Figure 3a A misprinted law ✎ 2 corrected",
        "Table 1 Numbers that do not come out ✗ 3 fail",
        "Window A figure without any claim no claims",
        "Figure 9 Not <computed> yet not computed",
        "Dropped A figure that the lab no longer has no claims",
        "Errata found All corrections in one list ✎ 2 corrected",
    ]
    assert nav == "".join(wanted)


def test_what_is_not_computed_is_named_with_its_command(source: str):
    missing = part(source, "<h3>Not yet computed</h3>", "</section>")
    assert "Figure 9: Not <computed> yet solvable reproduce demo/fig9" in missing


def test_what_is_left_to_do_is_asked_for_at_the_size_of_the_rest(tmp_path: Path):
    put(tmp_path, FIGURES[3], "quick")
    with installed():
        write_report(tmp_path)
    text = Page((tmp_path / "index.html").read_text(encoding="utf-8")).text
    assert "solvable reproduce demo/fig9 --quick" in text
    assert "All of them: solvable reproduce demo --quick" in text


def test_a_lab_that_is_not_installed_or_broken_still_shows(
    page: Page, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert "The lab 'gone' is not installed here" in page.text
    assert GONE.title in page.text

    def broken(name: str):
        raise ImportError(name)

    shutil.copytree(out / "demo", tmp_path / "demo")
    monkeypatch.setattr(registry, "names", lambda: ["demo"])
    monkeypatch.setattr(registry, "lab", broken)
    write_report(tmp_path)
    text = Page((tmp_path / "index.html").read_text(encoding="utf-8")).text
    assert "The lab 'demo' is not installed here" in text
    assert "Printed: \\beta/(1+\\beta) <sic> ((12), error; it gives 0.4444)." in text


def test_machine_versions_times_and_bibtex_are_there(page: Page, out: Path):
    about = next(iter(results(out)[0].values())).about
    assert about["machine"]["processor"] in page.text
    for name, version in about["versions"].items():
        assert f"{name} {version}" in page.text
    assert "All, one after the other2 h 7 min" in page.text.replace(" 2 h", "2 h")
    entries = "".join(page.words)
    assert PAPER.bibtex in entries
    assert solvable_bibtex(__version__) in entries


def test_machines_are_told_apart(out: Path, tmp_path: Path):
    shutil.copytree(out / "demo", tmp_path / "demo")
    about = sealed.manifest(tmp_path / "demo" / "fig1")["about"]
    about["machine"]["cores"] = 4096
    sealed_again(tmp_path / "demo" / "fig1", about=about)
    with installed():
        write_report(tmp_path)
    text = Page((tmp_path / "index.html").read_text(encoding="utf-8")).text
    assert re.search(r"Figuresdemo/fig1Machine[^:]*4096 cores", text)
    assert "Figuresdemo/fig3a, demo/table1, demo/window, demo/droppedMachine" in text


def test_headings_are_in_order_and_tables_have_their_heads(page: Page):
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert {each.get("scope") for tag, each in page.elements if tag == "th"} == {"row", "col"}


def test_the_same_folder_gives_the_same_page(source: str, out: Path):
    with installed():
        write_report(out)
    assert (out / "index.html").read_text(encoding="utf-8") == source
    assert not list(out.glob(".index*"))


def test_an_empty_folder_says_so(tmp_path: Path):
    write_report(tmp_path)
    text = Page((tmp_path / "index.html").read_text(encoding="utf-8")).text
    assert "No figure has been finished in this folder so far." in text
    assert "solvable reproduce msfr" in text


def test_a_half_written_figure_is_left_out(out: Path, tmp_path: Path):
    shutil.copytree(out / "demo", tmp_path / "demo")
    (tmp_path / "demo" / "fig1" / "figure.png").unlink()
    with installed():
        write_report(tmp_path)
    text = Page((tmp_path / "index.html").read_text(encoding="utf-8")).text
    assert "4 of 6 figures computed" in text
    assert "demo/fig1 is damaged (figure.png)" in text
    assert f"Figure 1: {LAB.figures[0].title} solvable reproduce demo/fig1" in text


def test_powers_are_raised_and_indices_lowered():
    assert _maths("L^-β + N^(−νβ/((3+β)ν+2))") == "L<sup>-β</sup> + N<sup>−νβ/((3+β)ν+2)</sup>"
    assert (
        _maths("(1−γλ/L)^2L, 10^10.5, N^min(β,1)") == "(1−γλ/L)<sup>2L</sup>, 10^10.5, N^min(β,1)"
    )
    assert _maths("L ∝ t^(−(α−1)/α), p_s < 1") == ("L ∝ t<sup>−(α−1)/α</sup>, p<sub>s</sub> &lt; 1")
    assert _maths("dγ_k/dt = ω_kλ_k²") == ("dγ<sub>k</sub>/dt = ω<sub>k</sub>λ<sub>k</sub>²")
    assert _maths("e^{−2aΛt} and law_tasks, 2^(−ψ_s)") == (
        "e<sup>−2aΛt</sup> and law_tasks, 2<sup>−ψ<sub>s</sub></sup>"
    )
