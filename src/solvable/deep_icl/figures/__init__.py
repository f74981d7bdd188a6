"""The paper's experiments and claims as accounts tell them, and figures of ours."""

from . import (
    batch,
    depth,
    fs,
    fs_ood,
    full_attention,
    iso_landscape,
    iso_sgd,
    iso_training,
    joint,
    optimal_shape,
    rrs_beta,
    rrs_landscape,
    rrs_time,
    softmax,
    untied,
    untied_contexts,
    untied_depth,
    width,
)

# In the order of the report.
_MODULES = (
    iso_training,
    iso_landscape,
    iso_sgd,
    batch,
    fs,
    fs_ood,
    rrs_time,
    rrs_beta,
    rrs_landscape,
    width,
    depth,
    joint,
    untied,
    untied_depth,
    untied_contexts,
    full_attention,
    softmax,
    optimal_shape,
)
FIGURES = tuple(module.FIGURE for module in _MODULES)
