"""Isotropic contexts of finite dimension, as one spectrum."""

import numpy as np

from .. import Isotropic, RotatedStructure, draw_spectra

_LEAST = 1e-12  # in place of eigenvalues that are 0 where α < 1


def pooled(alpha: float, dim: int, contexts: int, seed: int) -> RotatedStructure:
    """Drawn contexts of D dimensions as a task whose loss is their mean loss.

    Without noise the loss of a context is ``Σ_i (1 − γs_i/L)^(2L)/D`` with the eigenvalues s of
    its ``XᵀX/P``: the eigenvalues of all contexts together are a spectrum with endless contexts.
    """
    drawn = draw_spectra(Isotropic(alpha, dim=dim), contexts, seed=seed)
    lam = np.maximum(drawn.eigenvalues.ravel(), _LEAST)
    return RotatedStructure(lam=lam, omega=1.0 / (lam.size * lam))
