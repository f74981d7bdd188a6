"""How fast weights of all blocks leave a small start on a data set."""

import numpy as np

from .. import Statistics


def first_slope(moments: Statistics) -> np.ndarray:
    """``c_{a|(b,c)} = E[y_q G_ab x_{q,c}]`` of a data set, rows a; weights first grow by it."""
    rows = moments.task.features
    first, second = np.triu_indices(rows)
    kept = np.asarray(moments.cross).reshape(len(first), -1)
    whole = np.zeros((rows, rows, kept.shape[1]))
    whole[first, second] = whole[second, first] = kept
    return whole.reshape(rows, -1)
