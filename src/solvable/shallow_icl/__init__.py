"""Training Dynamics of In-Context Learning in Linear Attention (Zhang et al., ICML 2025)."""

from .model import CubicMLP as CubicMLP
from .model import MergedAttention as MergedAttention
from .model import SeparateAttention as SeparateAttention
from .model import train_brute as train_brute
from .reduced import train as train
from .run import Run as Run
from .start import Start as Start
from .start import merged as merged
from .start import mlp as mlp
from .start import separate as separate
from .statistics import Statistics as Statistics
from .statistics import statistics as statistics
from .task import Sequences as Sequences
from .task import Task as Task
from .task import sample as sample
from .theory import Population as Population
from .theory import converged_map as converged_map
from .theory import loss as loss
from .theory import plateau_losses as plateau_losses
from .theory import population as population
from .units import unit_factor as unit_factor
