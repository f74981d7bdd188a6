"""Every lab on the command line: what is refused, what diverges, what is told of its paper."""

import json

import pytest
from tests.command import assert_refused, document

from solvable.papers import PAPERS

from . import LABS

SENTENCES = {
    "msfr": [
        ("solve --alpha 1.0", "alpha must lie in (1, 10], not 1"),
        ("solve --alpha nan", "alpha must lie in (1, 10], not nan"),
        ("solve --context -5", "context must lie in (0, 1e+09], not -5"),
        ("solve --strength -inf", "strength must lie in [-1e+06, 1e+06], not -inf"),
        ("solve --num-tasks 0", "num_tasks must be a whole number, from 1 to "),
        ("solve --size 502", "size must be a whole number, from 1 to 501, not 502"),
        ("solve --data 0", "data must be a whole number, at least 1, not 0"),
        ("solve --t-min 0", "t_min must lie in (0, 1e+300], not 0"),
        ("solve --t-max 1e-4", "t_max must lie in (0.001, 1e+300], not 0.0001"),
        ("solve --t-max inf", "t_max must lie in (0.001, 1e+300], not inf"),
        ("solve --points 1", "points must be a whole number, at least 2, not 1"),
        ("train --v nan", "v must lie in [-1000, 1000], not nan"),
        ("train --lr -1", "lr must lie in (0, inf), not -1"),
        ("train --optimizer adamw --lr 0", "lr must lie in (0, inf), not 0"),
        ("train --steps -1", "steps must be a whole number, at least 0, not -1"),
        ("train --log-every 0", "log_every must be a whole number, at least 1, not 0"),
        ("train --seed -1", "seed must be a whole number, at least 0, not -1"),
        ("train --value 0.2", "value is for attention softmax, not linear"),
        ("train --attention softmax --w 1", "w is for attention linear, not softmax"),
    ],
    "shallow_icl": [
        ("solve --alpha 2", "--alpha is not an option of solvable solve shallow_icl"),
        ("train --softmaxx", "--softmaxx is not an option of solvable train shallow_icl"),
        ("train --blocks some", "--blocks must be one of all, zero, aligned, not 'some'"),
        ("solve --context few", "--context must be a whole number or inf, not 'few'"),
        ("solve --context 0", "context must be a whole number, from 1 to 1000000000000000, or inf"),
        ("solve --eigenvalues 1 x", "--eigenvalues must be numbers, not ['1', 'x']"),
        ("solve --eigenvalues", "eigenvalues must be followed by one number or more"),
        ("solve --eigenvalues 1 -1", "eigenvalues must lie in [1e-12, 1e+06], not -1"),
        ("solve --eigenvalues 2 1 --dim 3", "dim must be 2, one an eigenvalue, not 3"),
        ("solve --eigenvalues 1 --spectrum white", "spectrum cannot be given with eigenvalues"),
        ("solve --exponent 2", "exponent is for spectrum power, not linear"),
        ("solve --spectrum power --exponent 21", "exponent must lie in [0, 20], not 21"),
        ("solve --normalise n-1", "normalise is for lengths varied, not fixed"),
        ("solve --dim 0", "dim must be a whole number, from 1 to 1000000000, not 0"),
        ("solve --context 2.5", "context must be a whole number, from 1 to "),
        ("solve --context inf --units code", "units must be paper when the context is infinite"),
        ("solve --scale nan", "scale must lie in (0, 1000], not nan"),
        ("solve --lr 0", "lr must lie in (0, inf), not 0"),
        ("solve --steps -1", "steps must be a whole number, at least 0, not -1"),
        ("solve --log-every 0", "log_every must be a whole number, at least 1, not 0"),
        ("solve --seed -1", "seed must be a whole number, at least 0, not -1"),
        ("solve --t-min 0", "t_min must lie in (0, 1e+300], not 0"),
        ("solve --t-max 0", "t_max must lie in (0, 1e+300], not 0"),
        ("solve --t-min 5 --t-max 2", "t_max must lie in (5, 1e+300], not 2"),
        ("solve --t-min 1e6", "t_max must lie in (1e+06, 1e+300], not "),
        ("solve --lr 1e300", "lr must be at most 1e+100, not 1e+300"),
        ("solve --points 1", "points must be a whole number, at least 2, not 1"),
        (
            "solve --attention softmax",
            "--attention is not an option of solvable solve shallow_icl; solvable train and "
            "compare have it",
        ),
        ("solve --in-context 0.5", "in_context must be 1 on the population, not 0.5; sequences"),
        ("solve --blocks all", "blocks must be one of zero, aligned, not 'all'"),
        ("solve --model merged --rank 2", "rank is for model separate, not merged"),
        ("solve --model mlp --init B", "init is for model separate, not mlp"),
        (
            "train --model mlp --attention softmax --sequences 9",
            "attention must be linear for model mlp, not softmax",
        ),
        (
            "train --attention softmax --with theory",
            "attention must be linear for the theory, not softmax",
        ),
        ("train --antithetic", "antithetic needs sequences"),
        ("train --data-seed 3", "data_seed needs sequences"),
        ("train --in-context 0.5", "in_context must be 1 on the population, not 0.5; sequences"),
        ("train --labels noise", "in_context must be 0 when labels is 'noise', not 1"),
        ("train --sequences 0", "sequences must be a whole number, from 1 to "),
        ("train --sequences 3 --antithetic", "antithetic needs an even number of sequences"),
        ("train --sequences 9 --blocks aligned", "blocks cannot be 'aligned' on a data set"),
        ("train --blocks all", "blocks cannot be 'all' on the population"),
        ("train --blocks aligned", "blocks 'aligned' is for merged attention"),
        (
            "train --brute --blocks zero --sequences 9",
            "blocks must be all for the tokens, not zero",
        ),
    ],
    "single_location": [
        ("solve --alpha 2", "--alpha is not an option of solvable solve single_location"),
        ("train --lambda 1", "--lambda is not an option of solvable train single_location"),
        ("train --start middle", "--start must be one of manifold, sphere, state, not 'middle'"),
        ("solve --dim 3", "dim must be a whole number, from 4 to 1000000000, not 3"),
        ("solve --length 0", "length must be a whole number, from 1 to 1000000000, not 0"),
        ("solve --gamma 0", "gamma must lie in [1e-06, 1000], not 0"),
        ("solve --noise -1", "noise must lie in [0, 1e+06], not -1"),
        ("solve --kappa 1.5", "kappa must lie in [-1, 1], not 1.5"),
        ("solve --nu nan", "nu must lie in [-1, 1], not nan"),
        ("solve --lam 0", "lam must lie in (0, 1000], not 0"),
        ("solve --t-min 0", "t_min must lie in (0, 1e+12], not 0"),
        ("solve --t-max 1e13", "t_max must lie in (0.001, 1e+12], not 1e+13"),
        ("solve --points 1", "points must be a whole number, at least 2, not 1"),
        ("train --lam -1", "lam must lie in (0, 1000], not -1"),
        ("train --lam inf --lam-decay 1", "lam must lie in (0, 1000], not inf"),
        ("train --lam-decay -1", "lam_decay must lie in [0, 1e+06], not -1"),
        ("train --lr 0", "lr must lie in (0, inf), not 0"),
        ("train --steps -1", "steps must be a whole number, at least 0, not -1"),
        ("train --log-every 0", "log_every must be a whole number, at least 1, not 0"),
        ("train --seed -1", "seed must be a whole number, at least 0, not -1"),
        ("train --batch 0", "batch must be a whole number, at least 1, not 0"),
        ("train --batch 1 --dim 5", "dim must be at least 6 for SGD, not 5"),
        ("train --runs 0", "runs must be a whole number, at least 1, not 0"),
        ("train --runs 2 --nu 0.1", "runs must be 1 from a given state without batch, not 2"),
        ("train --kappa 0.9 --eta 0.9", "kappa² + eta² must be at most 1, not 1.62"),
        ("train --kappa 1 --rho 0.5", "rho must be that of two unit vectors with these kappa"),
        ("train --start sphere --nu 0.1", "start cannot be given with kappa, nu, theta, eta, rho"),
    ],
    "deep_icl": [
        (
            "solve --gama 1",
            "--gama is not an option of solvable solve deep_icl; did you mean --gamma",
        ),
        ("solve --law flat", "--law must be one of rrs, fs, iso, not 'flat'"),
        (
            "solve --over step",
            "--over must be one of time, step_size, width, context, alpha, depth, not 'step'",
        ),
        ("solve --nu 0", "nu must lie in (0, 20], not 0"),
        ("solve --beta nan", "beta must lie in (0, 20], not nan"),
        ("solve --dim 0", "dim must be a whole number, from 1 to 1000000000000000, not 0"),
        ("solve --width 65", "width must be a whole number, from 1 to 64, not 65"),
        (
            "solve --context 0",
            "context must be a whole number, from 1 to 1000000000000, or inf, not 0",
        ),
        ("solve --context 2.5", "context must be a whole number"),
        ("solve --context few", "--context must be whole numbers or inf, not "),
        ("solve --noise -1", "noise must lie in [0, 1e+06], not -1"),
        ("solve --law iso --alpha 0", "alpha must lie in (0, 1e+08], not 0"),
        ("solve --law iso --nu 1", "nu is for law rrs or fs, not iso"),
        ("solve --law iso --context 10", "context is for law rrs or fs, not iso"),
        ("solve --law fs --width 3", "width is for law rrs, not fs"),
        ("solve --alpha 2", "alpha is for law iso, not rrs"),
        ("solve --law fs --context 9", "context must be inf for the flow of law fs"),
        ("solve --width 4 8", "width must be one number for the theory, not 4 8"),
        ("solve --depth", "depth must be followed by one number or more"),
        ("solve --depth 0", "depth must be a whole number, from 1 to 10000000, or inf, not 0"),
        ("solve --depth 1.5", "depth must be a whole number, from 1 to 10000000, or inf, not 1.5"),
        ("solve --depth inf --width 9", "depth must be finite for a flow with finite width"),
        ("solve --depth 2 4 --with reduced", "depth must be one number for the reduced, not 2 4"),
        ("solve --over step_size --depth inf", "depth must be finite for the landscape"),
        ("solve --over step_size --gamma 1", "gamma is for --over time, not step_size"),
        ("solve --over depth --time matrix", "time is for --over time, not depth"),
        ("solve --over depth --t-max 5", "t_max is for --over time, not depth"),
        ("solve --over depth --points 5", "points is for --over time or step_size"),
        ("solve --over depth --with reduced", "with is for --over time"),
        ("solve --contexts 5", "contexts is for --with tokens"),
        ("solve --lr 1", "lr is for --with reduced or tokens"),
        ("solve --draws 9", "draws is for --over width or context or alpha or depth, not time"),
        ("solve --over width --at", "at must be followed by one number or more"),
        ("solve --over width --at 80", "width must be a whole number, from 1 to 64, not 80"),
        ("solve --over width --at 2.5", "width must be a whole number, from 1 to "),
        ("solve --over alpha", "alpha is for law iso, not rrs"),
        ("solve --law iso --over width", "width is for law rrs, not iso"),
        ("solve --t-min 0", "t_min must lie in (0, 1e+300], not 0"),
        ("solve --at 1 --t-max 9", "t_max and at cannot both be given"),
        ("solve --points 1", "points must be a whole number, at least 2, not 1"),
        ("solve --over step_size --points 1", "points must be a whole number, at least 2, not 1"),
        ("solve --gamma 1 --weights 1", "gamma and weights cannot both be given"),
        ("solve --weights -1", "weights (√2 w, w, w, w), w > 1e-30, for the flow"),
        ("solve --law iso --time matrix", "dim must be given for time 'matrix'"),
        ("solve --spectrum none.csv", "spectrum must be a file that can be read, not 'none.csv'"),
        ("solve --spectrum README.md --nu 2", "nu cannot be given with spectrum"),
        ("solve --spectrum README.md --law iso", "spectrum is for law rrs or fs, not iso"),
        ("train --depth 0", "depth must be a whole number, from 1 to 10000000, or inf, not 0"),
        ("train --depth inf", "depth must be a whole number, from 1 to 1000000, not inf"),
        ("train --depth 1 2", "solvable train deep_icl takes no argument '2'"),
        ("train --lr 0", "lr must lie in (0, inf), not 0"),
        ("train --steps -1", "steps must be a whole number, at least 0, not -1"),
        ("train --log-every 0", "log_every must be a whole number, at least 1, not 0"),
        (
            "train --layers untied --context 5",
            "layers must be 'tied' where width or context is finite",
        ),
        ("train --layers untied --weights 1", "layers must be 'tied' for the weights of full"),
        ("train --seed 1", "seed is for --brute"),
        ("train --contexts 8", "contexts is for --brute"),
        (
            "train --brute --contexts 0",
            "contexts must be a whole number, from 1 to 10000000, not 0",
        ),
        ("train --brute --seed -1", "seed must be a whole number, at least 0, not -1"),
        ("train --brute --law fs --contexts 3", "contexts needs queries"),
        ("train --brute --law iso", "dim must be given to train on contexts of iso"),
        (
            "train --brute --law iso --dim 3 --alpha 0.5",
            "alpha·dim must be a whole number, at least 1",
        ),
        ("train --brute --weights 1", "context must be given to train full attention"),
        ("train --brute --weights 1 --context 9", "queries must be given to train full attention"),
        (
            "train --law fs --weights 1",
            "law must be rrs or iso for untied layers and full attention, not fs",
        ),
    ],
}


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("lab", "line", "sentence"), [(lab, *case) for lab in LABS for case in SENTENCES[lab]]
)
def test_bad_input_gets_one_sentence_and_status_2(solvable, lab, line, sentence):
    command, *words = line.split()
    assert_refused(solvable(command, lab, *words), sentence)


# A few steps of a small model at a rate that is far too large.
DIVERGING = {
    "msfr": "--num-tasks 4 --context 6 --steps 40 --lr 1e3",
    "shallow_icl": "--dim 3 --context 8 --steps 20 --lr 1e3",
    "single_location": "--dim 20 --length 4 --runs 2 --steps 20 --lr 1e200",
    "deep_icl": "--nu 1.25 --beta 0.7 --dim 12 --steps 50 --depth 4 --lr 1e3",
}


@pytest.mark.parametrize("lab", LABS)
def test_a_run_that_diverged_says_so_and_ends_with_status_1(solvable, lab):
    done = solvable("train", lab, *DIVERGING[lab].split(), "--json")
    assert done.status == 1
    told = json.loads(done.out, parse_constant=pytest.fail)
    last = told["loss"][-1]
    assert (told["status"], last[-1] if isinstance(last, list) else last) == ("diverged", None)
    assert done.err.startswith("solvable: training diverged: the loss is ")
    assert done.err.endswith("; try a smaller --lr\n")
    assert done.err.count("\n") == 1
    words = DIVERGING[lab].split()[:-1]
    assert document(solvable("train", lab, *words, "1e-3", "--json"))["status"] == "ok"


@pytest.mark.parametrize("lab", LABS)
def test_cite_and_list_know_the_paper(solvable, lab):
    assert f"{{{{{PAPERS[lab].title}}}}}" in solvable("cite", lab).out
    (told,) = document(solvable("list", lab, "--json"))["labs"]
    assert (told["title"], told["paper"]["arxiv"]) == (PAPERS[lab].title, PAPERS[lab].arxiv)
    assert told["figures"]
