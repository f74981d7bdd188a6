"""Solvable: a laboratory for solvable models of attention.

Each lab is a sub-package, imported on demand: ``from solvable import msfr``.
"""

from importlib import metadata as _metadata

from ._guard import refuse_broken_jaxlib as _refuse_broken_jaxlib

__version__ = _metadata.version("solvable")

_refuse_broken_jaxlib(_metadata.version("jaxlib"))
