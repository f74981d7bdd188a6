"""The code behind data: found from imports, wherever they stand, and nothing else."""

import importlib
import sys

import pytest

from solvable import reproduce
from solvable.reproduce import closure as closures
from solvable.reproduce.store import Config

FILES = {
    "__init__.py": "",
    "figures/__init__.py": "from . import one, two\n",
    "figures/one.py": """
import functools
import numpy as np
from solvable.reproduce import near
from ..theory import exact as told
from ..paint import brush
from . import _shared
from ._shared import COUNT, unused

SCALE, OTHER = 2.0, 3.0


def data(settings):
    "What it is."
    from ..late import late
    return helper(told(COUNT)) + _shared.grid(3) + late()


def helper(x):
    return SCALE * x


def draw(d):
    return brush(d, OTHER, _shared.colour())


partial = functools.partial(data, 1)
""",
    "figures/two.py": "def data(settings):\n    import scipy.special\n    return scipy.special\n",
    "figures/_shared.py": """
COUNT = 4
unused = 5


def grid(n):
    return list(range(n)) + [base]


base = 1


def colour():
    return "red"
""",
    "theory.py": "from .deep import deep\n\n\ndef exact(x):\n    return deep(x)\n",
    "deep.py": "def deep(x):\n    return x\n",
    "late.py": "from solvable import numerics\n\n\ndef late():\n    return 0\n",
    "paint.py": "import matplotlib\n\n\ndef brush(*a):\n    return a\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package on disk; `edit` changes one of its files."""
    for name, text in FILES.items():
        path = tmp_path / "pack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "pack"
    for name in [name for name in sys.modules if name.partition(".")[0] == "pack"]:
        del sys.modules[name]


def found(function="data", module="pack.figures.one"):
    closures.forget()
    return closures.closure([getattr(importlib.import_module(module), function)])


def edit(package, name, old, new):
    path = package / name
    assert path.read_text().count(old) == 1, old
    path.write_text(path.read_text().replace(old, new))


def test_all_that_is_imported_is_found_and_nothing_else(package):
    code = found().code
    assert set(code) >= {
        "pack.figures.one", "pack.figures._shared", "pack.theory", "pack.deep", "pack.late",
        "solvable.numerics",
    }  # fmt: skip
    assert not any("paint" in module or "reproduce" in module or "two" in module for module in code)
    assert found("partial").code == code


def test_versions_are_of_what_is_imported(package):
    assert "numpy" not in found().versions  # imported in the module, and not by its data
    assert set(found(module="pack.figures.two").versions) == {"scipy"}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("figures/one.py", "SCALE * x", "SCALE + x"),  # what the data call
        ("figures/one.py", "SCALE, OTHER = 2.0", "SCALE, OTHER = 2.5"),  # and name
        ("figures/one.py", "_shared.grid(3)", "_shared.grid(4)"),
        ("figures/_shared.py", "base = 1", "base = 2"),
        ("figures/_shared.py", "COUNT = 4", "COUNT = 3"),
        ("theory.py", "return deep(x)", "return -deep(x)"),
        ("deep.py", "return x", "return 2 * x"),
        ("late.py", "return 0", "return 1"),  # imported within a function
    ],
)
def test_a_change_behind_the_data_is_seen(package, name, old, new):
    before = found().code
    edit(package, name, old, new)
    assert found().code != before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("figures/one.py", "brush(d, OTHER", "brush(OTHER, d"),
        ("figures/one.py", "What it is.", "What it was."),
        ("figures/_shared.py", '"red"', '"blue"'),
        ("figures/_shared.py", "unused = 5", "unused = 6"),
        ("paint.py", "return a", "return 2 * a"),
        ("figures/two.py", "return scipy.special", "return scipy"),
    ],
)
def test_a_change_of_picture_or_claims_is_none_of_the_data(package, name, old, new):
    before = found().code
    edit(package, name, old, new)
    assert found().code == before


def test_real_figures_depend_on_numerics_and_scaling_and_not_on_how_they_are_judged():
    code = Config.of(reproduce.figures(["msfr/fig3"])[0], "quick").code
    assert {"solvable.training", "solvable.numerics.streaming", "solvable.scaling.law"} <= set(code)
    assert not any(".reproduce" in module or ".cli" in module for module in code)
    one, two = (reproduce.figures([f"single_location/{name}"])[0] for name in ("fig7a", "fig7b"))
    assert Config.of(one, "quick").look != Config.of(two, "quick").look
