"""Closed-form solutions of gradient flow on linear attention, and the losses built on them."""

from ._flow import balanced as balanced
from ._flow import exact_flow as exact_flow
from ._flow import parameters as parameters
from ._loss import ORDERS as ORDERS
from ._loss import Order as Order
from ._loss import loss as loss
from ._loss import predict as predict
from ._loss import residual as residual
