"""Scaling laws of linear attention: exponents, amplitudes, windows, and the compute frontier.

Exponents are those of the paper's two tables in their corrected form. Amplitudes carry no fitted
constant: where tasks share context, strength and init, the loss of a task is a function of
``a_s t`` alone and the sum over tasks a Mellin integral of it. Every law reports the window in
which the finite-size loss really follows it.
"""

from ._exponents import Exponents as Exponents
from ._exponents import exponents as exponents
from ._fitted import curve_law as curve_law
from ._frontier import Frontier as Frontier
from ._frontier import compute_law as compute_law
from ._frontier import frontier as frontier
from ._law import Law as Law
from ._resources import data_law as data_law
from ._resources import size_law as size_law
from ._resources import time_law as time_law
