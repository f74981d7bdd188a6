"""Scaling laws of in-context regression: depth, width, context, time (Bordelon et al., 2025)."""

from .contexts import Spectra as Spectra
from .contexts import draw_spectra as draw_spectra
from .reduced import train as train
from .run import Run as Run
from .start import Init as Init
from .task import Contexts as Contexts
from .task import FixedStructure as FixedStructure
from .task import Isotropic as Isotropic
from .task import RotatedStructure as RotatedStructure
from .task import sample as sample
from .theory import Optimum as Optimum
from .theory import SGDCurve as SGDCurve
from .theory import edge as edge
from .theory import floor as floor
from .theory import gamma_curve as gamma_curve
from .theory import loss as loss
from .theory import loss_curve as loss_curve
from .theory import optimum as optimum
from .theory import ridge_loss as ridge_loss
from .theory import sgd_curve as sgd_curve
from .theory import shift_radius as shift_radius
from .theory import shifted_loss as shifted_loss
from .theory import untied_loss as untied_loss
from .theory import untied_optimum as untied_optimum
