import importlib.util
import json
import re
from importlib.metadata import version

from solvable.papers import PAPERS


def test_list_tells_every_lab_with_its_paper_as_json(solvable):
    done = solvable("list", "--json")
    assert (done.status, done.err) == (0, "")
    labs = json.loads(done.out)["labs"]
    assert [lab["name"] for lab in labs] == list(PAPERS)
    figures, claims = labs[0].pop("figures"), labs[0].pop("claims")
    assert [figure["id"] for figure in figures][:2] == ["msfr/fig2", "msfr/fig3"]
    assert [claim["id"] for claim in claims] == [id for f in figures for id in f["claims"]]
    assert all(claim["statement"] and claim["source"] and claim["kind"] for claim in claims)
    quoted = [claim for claim in claims if claim["quote"]]
    assert all(claim["kind"] == "paper" for claim in quoted)
    assert all(set(claim["known"].values()) == {"holds corrected"} for claim in quoted)
    (softmax,) = (claim for claim in claims if claim["id"] == "msfr/fig5/alphas")
    assert softmax["known"]["quick"] == "fails"
    asked, witnesses = labs[0].pop("question"), labs[0].pop("witnesses")
    assert asked["task"]["alpha"]["default"] == 1.8
    assert (asked["task"]["alpha"]["low"], asked["task"]["alpha"]["symbol"]) == (1.0, "α")
    assert list(witnesses) == ["theory", "reduced", "tokens"]
    by_name = {lab["name"]: lab for lab in labs}
    shallow = by_name["shallow_icl"]
    assert list(shallow["not_at_hand"]) == ["Fig. 7", "Fig. 8", "Fig. 10", "Fig. 13"]
    assert shallow["question"]["sample"]["antithetic"]["flag"] is True
    deep = by_name["deep_icl"]
    assert deep["question"]["task"]["context"]["default"] == "inf"
    assert deep["question"]["model"]["depth"]["spread"] is True
    axes = {name: (who["axis"], who["over"]) for name, who in deep["witnesses"].items()}
    assert axes["theory"] == ("time", ["depth"])
    assert axes["optimum"] == ("", ["width", "context", "alpha", "depth"])
    assert labs[0].pop("not_at_hand") == {}
    counts = labs[0].pop("counts")
    assert sum(counts.values()) == len(claims)
    assert labs[0] == {
        "name": "msfr",
        "title": "A Solvable Attention for Neural Scaling Laws",
        "paper": {
            "key": "lyu2025solvable",
            "title": "A Solvable Attention for Neural Scaling Laws",
            "authors": ["Bochen Lyu", "Di Wang", "Zhanxing Zhu"],
            "venue": "International Conference on Learning Representations (ICLR)",
            "year": 2025,
            "arxiv": "",
        },
    }


def test_list_fits_a_terminal_of_80_columns(solvable, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = solvable("list").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("A Solvable Attention for Neural Scaling Laws" in line for line in lines)
    assert any("Bochen Lyu, Di Wang, Zhanxing Zhu" in line for line in lines)
    assert any(line.startswith("not at hand: Fig. 7, Fig. 8, Fig. 10, Fig. 13") for line in lines)


def test_list_shows_what_a_figure_claims(solvable, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    out = " ".join(solvable("list", "msfr/table2").out.split())
    assert "/data-gamma-0.5" in out
    assert "L ∝ N^(−(α+2γ−1)/α)" in out
    assert "/data-gamma-0.5 corrects what is printed (Eq. (105); Table 2 has the right" in out
    assert "Settings at the default size, which --set changes: seed = 0, " in out
    assert "msfr/fig3" not in out
    out = " ".join(solvable("list", "deep_icl/width").out.split())
    assert "[Known not to hold.]" in out
    (lab,) = json.loads(solvable("list", "msfr/window", "--json").out)["labs"]
    assert [figure["id"] for figure in lab["figures"]] == ["msfr/window"]


def test_list_refuses_an_unknown_figure(solvable):
    done = solvable("list", "msfr/fig99")
    assert done.status == 2
    assert "figure of msfr must be one of fig2" in done.err


def test_the_labs_with_papers_are_those_that_can_be_imported():
    for lab, paper in PAPERS.items():
        assert paper.lab == lab
        assert importlib.util.find_spec(f"solvable.{lab}") is not None


def _entries(bibtex: str) -> dict[str, dict[str, str]]:
    """Fields of every entry, by key; fails unless all of the text is entries."""
    entry = re.compile(r"@\w+\{(\w+),\n((?:  \w+ *= \{.*\},\n)+)\}\n*")
    assert entry.sub("", bibtex) == ""
    return {
        key: dict(re.findall(r"(\w+) *= \{(.*)\},\n", fields))
        for key, fields in entry.findall(bibtex)
    }


def test_cite_prints_bibtex_of_solvable_and_of_every_paper(solvable):
    done = solvable("cite")
    assert (done.status, done.err) == (0, "")
    assert done.out.count("{") == done.out.count("}")
    entries = _entries(done.out)
    assert set(entries) == {"solvable", *(paper.key for paper in PAPERS.values())}
    assert entries["solvable"]["version"] == version("solvable")
    assert entries["lyu2025solvable"] == {
        "title": "{A Solvable Attention for Neural Scaling Laws}",
        "author": "Bochen Lyu and Di Wang and Zhanxing Zhu",
        "booktitle": "International Conference on Learning Representations (ICLR)",
        "year": "2025",
    }
    title = "Theory of Scaling Laws for In-Context Regression: Depth, Width, Context and Time"
    assert entries["bordelon2025theory"] == {
        "title": f"{{{title}}}",
        "author": "Blake Bordelon and Mary I. Letey and Cengiz Pehlevan",
        "eprint": "2510.01098",
        "archivePrefix": "arXiv",
        "year": "2025",
    }


def test_cite_names_each_lab_once(solvable):
    assert solvable("cite", "msfr", "msfr").out == solvable("cite", "msfr").out


def test_cite_gives_the_same_entries_as_json(solvable):
    entries = json.loads(solvable("cite", "msfr", "--json").out)["entries"]
    assert "\n\n".join(entry["bibtex"] for entry in entries) + "\n" == solvable("cite", "msfr").out
