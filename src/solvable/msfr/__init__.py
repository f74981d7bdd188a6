"""A Solvable Attention for Neural Scaling Laws (Lyu, Wang, Zhu; ICLR 2025)."""

from .model import LinearAttention as LinearAttention
from .model import SoftmaxAttention as SoftmaxAttention
from .model import train_brute as train_brute
from .reduced import Run as Run
from .reduced import flow as flow
from .reduced import train as train
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
