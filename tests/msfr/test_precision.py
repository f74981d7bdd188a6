"""Without double precision every public function refuses, in one sentence, or is as right."""

import numpy as np
import optax

from solvable import msfr

TASK, INIT = msfr.Task(3, 1.8, 5.0, 0.5, gamma=0.1), msfr.Init(v=0.1, w=0.11)
SOFTMAX = msfr.SoftmaxInit(0.1, 0.1, 0.1)
LINEAR = msfr.LinearAttention.start(TASK, INIT)
TOKENS = msfr.sample(TASK, 4)
ADAM = optax.adam(1e-3)
FLAT, SOURCE = msfr.Task(3, 1.8, 5.0, 0.5), msfr.source_start(TASK)

CALLS = {
    "Task": lambda: msfr.Task(3, 1.8, 5.0, 0.5),
    "Task, weights": lambda: TASK.weights,
    "Task, strengths": lambda: TASK.strengths,
    "Task, rounded": lambda: TASK.rounded(),
    "Init": lambda: msfr.Init(0.1, 0.1),
    "SoftmaxInit": lambda: msfr.SoftmaxInit(0.1, 0.1, 0.1),
    "LinearAttention": lambda: msfr.LinearAttention.start(TASK, INIT),
    "SoftmaxAttention": lambda: msfr.SoftmaxAttention.start(TASK, SOFTMAX),
    "loss": lambda: msfr.loss(TASK, INIT, 1.0),
    "predict": lambda: msfr.predict(TASK, INIT, 1.0),
    "residual": lambda: msfr.residual(TASK, INIT, 1.0),
    "parameters": lambda: msfr.parameters(TASK, INIT, 1.0),
    "balanced": lambda: msfr.balanced(0.5, 0.1, 1.0, 1.0),
    "exact_flow": lambda: msfr.exact_flow([[1.0]], [1.0], [1.0], target=0.5, t=1.0),
    "exponents": lambda: msfr.exponents(1.8),
    "time_law": lambda: msfr.time_law(TASK, INIT),
    "size_law": lambda: msfr.size_law(TASK, INIT),
    "data_law": lambda: msfr.data_law(TASK, INIT),
    "compute_law": lambda: msfr.compute_law(TASK, INIT),
    "frontier": lambda: msfr.frontier(TASK, INIT, [1.0]),
    "curve_law": lambda: msfr.curve_law(num_tasks=3),
    "flow": lambda: msfr.flow(TASK, INIT, [1.0]),
    "sample": lambda: msfr.sample(TASK, 4),
    "train": lambda: msfr.train(TASK, INIT, optimizer=ADAM, steps=1),
    "train, softmax": lambda: msfr.train(TASK, SOFTMAX, optimizer=ADAM, steps=1),
    "train_brute": lambda: msfr.train_brute(TASK, INIT, optimizer=ADAM, steps=1, data=3),
    "adamw": lambda: msfr.adamw(5e-3),
    "adam_residual": lambda: msfr.adam_residual(TASK, INIT, 1, 1.0),
    "adam_loss": lambda: msfr.adam_loss(TASK, INIT, 1),
    "adam_regimes": lambda: msfr.adam_regimes(TASK, INIT),
    "train_tokens": lambda: msfr.train_tokens(LINEAR, TOKENS, optimizer=ADAM, steps=1),
    "repetition": lambda: msfr.repetition(TASK, INIT, 1.0),
    "sgd_loss": lambda: msfr.sgd_loss(TASK, INIT, 5, lr=0.1, batch=1),
    "sgd_amplitude": lambda: msfr.sgd_amplitude(FLAT, INIT, lr=0.1, batch=1),
    "mean_square_rate": lambda: msfr.mean_square_rate(TASK, INIT, lr=0.1, batch=1),
    "stability_edge": lambda: msfr.stability_edge(FLAT, INIT, batch=1),
    "one_hit_step": lambda: msfr.one_hit_step(FLAT, INIT),
    "best_batch": lambda: msfr.best_batch(FLAT, INIT, 0.1),
    "largest_batch": lambda: msfr.largest_batch(FLAT, INIT),
    "softmax_start": lambda: msfr.softmax_start(TASK, SOFTMAX),
    "softmax_modes": lambda: msfr.softmax_modes(TASK, SOFTMAX),
    "source_start": lambda: msfr.source_start(TASK),
    "source_strengths": lambda: msfr.source_strengths(TASK),
    "source_loss": lambda: msfr.source_loss(SOURCE, np.eye(3), np.ones(3) / 3),
    "train_source": lambda: msfr.train_source(TASK, lr=0.1, steps=1),
}
RESULTS = {"AdamRegimes", "Exponents", "Frontier", "Law", "Repetition", "Run", "SoftmaxModes"}
RESULTS |= {"SoftmaxStart", "SourceRun", "Tokens"}  # what the others give
