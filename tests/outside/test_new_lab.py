"""``solvable new-lab`` writes a package that works as it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import assert_refused, document
from tests.outside.packages import installed

from solvable.cli.new_lab import rendered

FILES = {
    "pyproject.toml",
    "README.md",
    "src/relax/__init__.py",
    "src/relax/lab.py",
    "src/relax/witnesses.py",
    "tests/test_relax.py",
}


@pytest.fixture(scope="module")
def relax(tmp_path_factory):
    with installed(rendered("relax"), tmp_path_factory.mktemp("new")) as site:
        yield site


def test_it_says_what_comes_next(solvable, tmp_path):
    done = solvable("new-lab", "relax", "--out", tmp_path)
    assert (done.status, done.err) == (0, "")
    assert f"pip install -e {tmp_path / 'relax'}" in done.out
    assert "solvable compare relax" in done.out
    written = {str(p.relative_to(tmp_path / "relax")) for p in tmp_path.rglob("*") if p.is_file()}
    assert written == FILES


def test_its_help_imports_nothing_heavy():
    code = (
        "import sys; from solvable.cli import main; assert main(['new-lab', '--help']) == 0;"
        "print([name for name in ('jax', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: solvable new-lab")
    assert done.stdout.endswith("[]\n")


def test_nothing_is_left_to_fill_in():
    for text in rendered("relax").values():
        assert "NAME" not in text
        assert "YEAR" not in text


def test_a_folder_that_is_there_is_left_alone(solvable, tmp_path):
    (tmp_path / "relax").mkdir()
    assert_refused(solvable("new-lab", "relax", "--out", tmp_path), "relax must not exist yet")
    assert list((tmp_path / "relax").iterdir()) == []


@pytest.mark.parametrize("name", ["Relax", "my-lab", "2d", "_relax", "relax_", "class", "", "λ"])
def test_a_name_must_be_one_of_python(solvable, tmp_path, name):
    done = solvable("new-lab", "--out", tmp_path, "--", name)
    assert_refused(done, f"name must be a Python name in lower case, such as my_lab, not {name!r}")
    assert list(tmp_path.iterdir()) == []


def test_a_name_must_be_free(solvable, tmp_path):
    refused = solvable("new-lab", "msfr", "--out", tmp_path)
    assert_refused(refused, "name must be none of the labs msfr, ")
    refused = solvable("new-lab", "json", "--out", tmp_path)
    assert_refused(refused, "name must not be that of an installed module: 'json' is one")
    assert list(tmp_path.iterdir()) == []


def test_it_is_written_as_ruff_would(tmp_path):
    for path, text in rendered("relax").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for words in (["format", "--check", "--line-length", "100"], ["check"]):
        ruff = [str(Path(sys.executable).with_name("ruff")), *words, "--no-cache", "."]
        done = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_its_own_tests_pass(relax):
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(words, cwd=relax.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


@pytest.mark.usefixtures("relax")
def test_every_verb_knows_it(solvable, tmp_path):
    found = document(solvable("compare", "relax", "--json"))
    assert found["verdicts"] == {"theory": "agrees", "tokens": "agrees"}
    assert "relax/witnesses" in solvable("list").out
    assert "A relaxation" in solvable("cite", "relax").out
    for words in (["solve"], ["train"], ["train", "--brute"]):
        verb, *more = words
        assert document(solvable(verb, "relax", *more, "--json"))["loss"][0] > 0.0


@pytest.mark.slow
@pytest.mark.usefixtures("relax")
def test_its_figure_is_reproduced(solvable, tmp_path):
    done = solvable("reproduce", "relax", "--quick", "--out", tmp_path)
    assert done.status == 0, done.err
    assert (tmp_path / "relax" / "witnesses" / "figure.svg").exists()
