import pytest
from tests.command import jax_settings, solvable

__all__ = ["jax_settings", "solvable"]


@pytest.fixture(autouse=True)
def settings_are_set_back(jax_settings: None) -> None:
    """Also for what is run without the fixture `solvable`."""
