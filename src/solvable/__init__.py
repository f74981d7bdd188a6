"""Solvable: a laboratory for solvable models of attention.

Each lab is a sub-package, imported on demand: ``from solvable import msfr``. The closed forms need
double precision: call `solvable.setup()` first.
"""

from importlib import metadata as _metadata

from .computing import compile_cache as compile_cache
from .computing import setup as setup

try:
    __version__ = _metadata.version("solvable")
except _metadata.PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+source"
