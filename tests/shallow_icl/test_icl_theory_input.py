"""Bad input to the theory: one sentence that names the field."""

import math

import numpy as np
import pytest

from solvable import shallow_icl as icl

TASK = icl.Task(4, 31)
WHITE = icl.Task(4, 31, "white")
START = icl.separate(5, 1, 1e-3)
RELATED = icl.Task(4, 31, task_covariance=[4.0, 1.0, 1.0, 1.0])
MIXED = icl.Task(4, 31, "white", in_context=0.5)
SEVERAL = icl.Task(4, 31, outputs=2)

pytestmark = pytest.mark.usefixtures("as_users_run_it")

CASES = [
    (icl.fixed_point, (TASK, [4]), "subset"),
    (icl.fixed_point, (TASK, [0, 0]), "subset"),
    (icl.fixed_point, (TASK, [-1]), "subset"),
    (icl.fixed_point, (TASK, 2), "subset"),
    (icl.fixed_point, (TASK, [0.5]), "subset"),
    (icl.fixed_point, ("task", [0]), "task"),
    (icl.plateau_loss, (RELATED, [0]), "task_covariance"),
    (icl.plateau_loss, (MIXED, [0]), "in_context"),
    (icl.aligned_weights, (SEVERAL, [0]), "outputs"),
    (icl.aligned_weights, (TASK, [0, 1], 1), "heads"),
    (icl.stability, (SEVERAL, [0]), "outputs"),
    (icl.stability, (TASK, "12"), "subset"),
    (icl.mid_levels, (RELATED,), "task_covariance"),
    (icl.crossing_times, ([0.0, 1.0], [1.0, 0.5, 0.2], [0.7]), "time"),
    (icl.crossing_times, ([0.0, 0.0], [1.0, 0.5], [0.7]), "time"),
    (icl.crossing_times, ([0.0, math.nan], [1.0, 0.5], [0.7]), "time"),
    (icl.crossing_times, ([0.0, 1.0], [1.0, 0.5], [0.6, 0.7]), "levels"),
    (icl.plateau_levels, ([0.0, 1.0], [1.0, 0.5], 0.7), "levels"),
    (icl.final_weights, (TASK, [(0, 1), (1,)]), "groups"),
    (icl.final_weights, (TASK, 3), "groups"),
    (icl.final_weights, (TASK, [3]), "groups"),
    (icl.rank_escape_rate, (TASK, (0,), 0), "direction"),
    (icl.rank_escape_rate, (TASK, (0,), 4), "direction"),
    (icl.white_map, (TASK, 1e-6, 1.0), "spectrum"),
    (icl.white_map, (WHITE, -1.0, 1.0), "u0"),
    (icl.white_map, (WHITE, 1.0, -1.0), "t"),
    (icl.white_map, (WHITE, 1.0, math.nan), "t"),
    (icl.white_loss, (WHITE, "small", 1.0), "u0"),
    (icl.half_rise_time, (MIXED, 1.0), "in_context"),
    (icl.growing_mode, (TASK, np.zeros((2, 1, 5)), np.zeros((2, 4, 4))), "key_query"),
    (icl.growing_mode, (TASK, np.zeros((2, 1, 4)), np.zeros((2, 5, 4))), "value"),
    (icl.growing_mode, (TASK, np.zeros((2, 1, 5)), np.zeros((3, 5, 4))), "key_query"),
    (icl.escape_time, (TASK, 2.0), "scale"),
    (icl.escape_time, (TASK, 0.0), "scale"),
    (icl.escape_time, (MIXED, 0.1), "in_context"),
    (icl.escape_rate, (TASK, "both"), "part"),
    (icl.escape_rate, (None,), "task"),
    (icl.softmax_rate, (MIXED,), "in_context"),
    (icl.growth, (TASK, 4, 1.0, 0.1), "direction"),
    (icl.growth, (TASK, 0, -1.0, 0.1), "t"),
    (icl.growth, (TASK, 0, 1.0, 0.0), "start"),
    (icl.growth, (TASK, 0, 1.0, 2.0), "start"),
    (icl.growth, (SEVERAL, 0, 1.0, 0.1), "outputs"),
    (icl.growth_time, (TASK, 0, 0.0, 0.1), "fraction"),
    (icl.growth_time, (TASK, 0, 1.5, 0.1), "fraction"),
    (icl.growth_time, (RELATED, 0, 0.5, 0.1), "task_covariance"),
    (icl.drop_times, (TASK, icl.merged(5, 1e-3)), "kind"),
    (icl.drop_times, (TASK, icl.separate(5, attention="softmax")), "attention"),
    (icl.drop_times, (TASK, icl.separate(5, zero_blocks=False)), "zero_blocks"),
    (icl.drop_times, (TASK, None), "start"),
    (icl.drop_times, (WHITE, START), "spectrum"),
    (icl.drop_times, (SEVERAL, START), "outputs"),
    (icl.drop_times, (RELATED, START), "task_covariance"),
    (icl.drop_times, (MIXED, START), "in_context"),
    (icl.largest_rate, (TASK, icl.merged(5, 1e-3, attention="softmax")), "attention"),
    (icl.largest_rate, (TASK, "merged"), "start"),
    (icl.largest_rate, (TASK, START, "metres"), "units"),
    (icl.largest_rate, (icl.Task(4, None), START, "code"), "units"),
    (icl.largest_rate, (SEVERAL, START), "outputs"),
    (icl.conserved_merged, (np.zeros((2, 3)), np.zeros((2, 3))), "value"),
    (icl.conserved_merged, (np.zeros((2, 1, 3)), np.zeros((3, 3, 2))), "key_query"),
    (
        icl.conserved_separate,
        (np.zeros((2, 1, 3)), np.zeros((2, 2, 3)), np.zeros((2, 1, 2))),
        "query",
    ),
    (icl.fewer_heads, (np.zeros((2, 1, 3)), np.zeros((3, 3, 2))), "key_query"),
]


@pytest.mark.parametrize(
    ("verb", "arguments", "field"), CASES, ids=[f"{v.__name__}-{f}" for v, _, f in CASES]
)
def test_theory_names_the_bad_argument(verb, arguments, field):
    with pytest.raises(ValueError, match=rf"\b{field}\b") as error:
        verb(*arguments)
    message = str(error.value)
    assert "\n" not in message
    assert " must " in message


def test_drops_name_the_bad_seed_units_and_rate():
    with pytest.raises(ValueError, match=r"\bseed\b"):
        icl.drop_times(TASK, START, seed=[])
    with pytest.raises(ValueError, match=r"\bseed\b"):
        icl.drop_times(TASK, START, seed=-1)
    with pytest.raises(ValueError, match=r"\bunits\b"):
        icl.drop_times(TASK, START, units="metres")
    with pytest.raises(ValueError, match=r"\blr\b"):
        icl.drop_times(TASK, START).steps(0.0)
    with pytest.raises(ValueError, match=r"\brank\b"):
        icl.final_weights(TASK, [(0, 1)], rank=1)
