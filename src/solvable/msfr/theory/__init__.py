"""Closed-form solutions of gradient flow on linear attention, and the losses built on them."""

from ._exact import Resampled as Resampled
from ._flow import balanced as balanced
from ._flow import exact_flow as exact_flow
from ._flow import parameters as parameters
from ._loss import MAX_TIME as MAX_TIME
from ._loss import ORDERS as ORDERS
from ._loss import Order as Order
from ._loss import Rows as Rows
from ._loss import initial_residual as initial_residual
from ._loss import joint_loss as joint_loss
from ._loss import kernel_of as kernel_of
from ._loss import loss as loss
from ._loss import predict as predict
from ._loss import read as read
from ._loss import residual as residual
from ._loss import rows_of as rows_of
from ._loss import shared_flow as shared_flow
from ._loss import shares_everything as shares_everything
from ._loss import starts as starts
from ._modes import Start as Start
from ._zeroth import zeroth_residual as zeroth_residual
