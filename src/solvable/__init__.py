"""Solvable: a laboratory for solvable models of attention.

Each lab is a sub-package, imported on demand: ``from solvable import msfr``.
"""

from importlib import metadata as _metadata

from ._guard import refuse_broken_jaxlib as _refuse_broken_jaxlib

try:
    __version__ = _metadata.version("solvable")
except _metadata.PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+source"

_refuse_broken_jaxlib(_metadata.version("jaxlib"))
