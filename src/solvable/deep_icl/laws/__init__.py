"""Scaling laws of deep linear attention in time, depth, width and context, and the best shape."""

from ._additive import AdditiveLaw as AdditiveLaw
from ._additive import additive_law as additive_law
from ._additive import additive_loss as additive_loss
from ._exponents import Exponents as Exponents
from ._exponents import attention_time_exponent as attention_time_exponent
from ._exponents import exponents as exponents
from ._fitted import curve_law as curve_law
from ._law import Law as Law
from ._resources import law as law
from ._shape import Shape as Shape
from ._shape import optimal_shape as optimal_shape
from ._untied import UntiedLaw as UntiedLaw
from ._untied import untied_depth_law as untied_depth_law
