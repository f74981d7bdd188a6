"""Laws for curves: fits with intervals, where they hold, and what to do with a budget."""

from .cost import Cost as Cost
from .fitting import Fit as Fit
from .fitting import HoldOut as HoldOut
from .fitting import Known as Known
from .fitting import Parameter as Parameter
from .fitting import Prediction as Prediction
from .fitting import fit as fit
from .law import Formula as Formula
from .law import Law as Law
from .laws import Additive as Additive
from .laws import Broken as Broken
from .laws import additive as additive
from .laws import chinchilla as chinchilla
from .laws import power as power
from .planning import Interval as Interval
from .planning import Mistake as Mistake
from .planning import Plan as Plan
from .planning import plan as plan
from .straight import LocalExponent as LocalExponent
from .straight import Window as Window
from .straight import local_exponent as local_exponent
from .straight import power_window as power_window
from .window import longest_window as longest_window
