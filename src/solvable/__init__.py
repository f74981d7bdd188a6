"""Solvable: a laboratory for solvable models of attention.

Each lab is a sub-package, imported on demand: ``from solvable import msfr``. The closed forms need
double precision: call `solvable.setup()` first. What can be asked of a lab, and who answers, is its
description: ``solvable.lab("msfr").compare(alpha=2.0)``.
"""

from importlib import metadata as _metadata

from .asking import Lab as Lab
from .asking import LabLaw as LabLaw
from .asking import Witness as Witness
from .computing import compile_cache as compile_cache
from .computing import setup as setup
from .labs import lab as lab

try:
    __version__ = _metadata.version("solvable")
except _metadata.PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+source"
