from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command import jax_settings, solvable
from tests.outside.packages import installed, saxe_files

__all__ = ["jax_settings", "solvable"]


@pytest.fixture(scope="module")
def saxe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The lab of docs/add-a-model.md, two files; the folder it is in."""
    with installed(saxe_files(), tmp_path_factory.mktemp("saxe")) as site:
        yield site


@pytest.fixture(scope="module")
def whole_saxe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same with the figure and the law that the page adds."""
    with installed(saxe_files(extended=True), tmp_path_factory.mktemp("saxe")) as site:
        yield site
