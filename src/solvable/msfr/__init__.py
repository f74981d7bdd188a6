"""A Solvable Attention for Neural Scaling Laws (Lyu, Wang, Zhu; ICLR 2025)."""

from .laws import Exponents as Exponents
from .laws import Frontier as Frontier
from .laws import Law as Law
from .laws import compute_law as compute_law
from .laws import data_law as data_law
from .laws import exponents as exponents
from .laws import frontier as frontier
from .laws import size_law as size_law
from .laws import time_law as time_law
from .model import LinearAttention as LinearAttention
from .model import SoftmaxAttention as SoftmaxAttention
from .model import train_brute as train_brute
from .reduced import flow as flow
from .reduced import train as train
from .run import Run as Run
from .start import Init as Init
from .start import SoftmaxInit as SoftmaxInit
from .task import Task as Task
from .task import Tokens as Tokens
from .task import sample as sample
from .theory import balanced as balanced
from .theory import exact_flow as exact_flow
from .theory import loss as loss
from .theory import parameters as parameters
from .theory import predict as predict
from .theory import residual as residual
