"""The third witness: the same training on real tokens, at a size where they fit."""

from typing import Any

import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Finding, Statement, near, step, worst_ratio
from .. import Init, SoftmaxInit, Task, train, train_brute

ROUND_OFF = 1e-10  # between tokens and the reduction, along the whole trajectory


def on_tokens(task: Task, init: Init | SoftmaxInit, **how: Any) -> xr.Dataset:
    """The loss in time by training on tokens and by the reduction, from one data set."""
    brute = train_brute(task, init, progress=step, **how)
    reduced = train(task, init, **how)
    return xr.Dataset(
        {
            "tokens": ("token_time", np.asarray(brute.loss)),
            "reduced": ("token_time", np.asarray(reduced.loss)),
        },
        coords={"token_time": brute.time},
    )


def claim_tokens(fig: Figure, source: str, setting: str) -> None:
    """Claim that training on tokens is the reduced dynamics, for some setting."""

    def tokens(d: xr.Dataset) -> Finding:
        return near(worst_ratio(d.tokens, d.reduced), 0.0, ROUND_OFF, because="round-off")

    tokens.__doc__ = _said(setting)
    fig.claim("check", source)(tokens)


def _said(setting: str) -> str:
    return (
        f"Training on real tokens is the reduced dynamics to round-off, {setting} (largest "
        "relative gap of L)."
    )


def tokens_statement(figure: str, source: str, setting: str) -> Statement:
    """That training on tokens is the reduced dynamics, for some setting."""
    return Statement(f"{figure}/tokens", _said(setting), source, "check")


def judge_tokens(statement: Statement, data: xr.Dataset) -> Claim:
    """Tokens against the reduction."""
    return statement.judge(0.0, worst_ratio(data.tokens, data.reduced), ROUND_OFF)
