"""Linear probes: a logistic regression on the [CLS] vectors of one layer."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ... import validation
from .extra import require

PROBES = {
    "saga": "saga on raw vectors, as published",
    "lbfgs": "lbfgs on standardised vectors",
}
MAX_ITERATIONS = 1000


@dataclass(frozen=True)
class Probe:
    """A fitted probe.

    Attributes:
        kind: of `PROBES`.
        iterations: of the solver.
        converged: whether it stopped by its tolerance, before its iterations were used up.
    """

    kind: str
    iterations: int
    converged: bool
    _model: Any

    def accuracy(
        self, vectors: Float[np.ndarray, "sentence width"], labels: Int[np.ndarray, " sentence"]
    ) -> float:
        """The fraction of sentences whose label is found."""
        return float(np.mean(self._model.predict(_typed(self.kind, vectors)) == labels))


def _typed(kind: str, vectors: np.ndarray) -> np.ndarray:
    """Single precision, as published, for saga; double for an optimum."""
    return vectors.astype(np.float32 if kind == "saga" else np.float64, copy=False)


def fit(
    kind: str,
    vectors: Float[np.ndarray, "sentence width"],
    labels: Int[np.ndarray, " sentence"],
    *,
    seed: int = 0,
) -> Probe:
    """Fit a probe.

    Where all vectors are the same, as those before attention are, there is nothing to fit: saga
    would wander about an optimum that its tolerance does not recognise. The probe then tells the
    commoner label.

    Args:
        kind: "saga": the published one, scikit-learn's logistic regression with the solver saga,
            at most 1000 iterations, defaults otherwise, on the vectors as they are. "lbfgs": with
            the solver lbfgs, on vectors standardised by the training set. The features' scale is
            small, so that the tolerance of saga stops it early; lbfgs reaches its optimum.
        vectors: of the training sentences.
        labels: ±1.
        seed: saga visits the sentences in a random order.
    """
    validation.one_of("kind", kind, tuple(PROBES))
    require()
    from sklearn.dummy import DummyClassifier  # pyright: ignore[reportMissingImports]
    from sklearn.exceptions import ConvergenceWarning  # pyright: ignore[reportMissingImports]
    from sklearn.linear_model import LogisticRegression  # pyright: ignore[reportMissingImports]
    from sklearn.pipeline import make_pipeline  # pyright: ignore[reportMissingImports]
    from sklearn.preprocessing import StandardScaler  # pyright: ignore[reportMissingImports]

    if np.array_equal(vectors, np.broadcast_to(vectors[:1], vectors.shape)):
        return Probe(kind, 0, True, DummyClassifier(strategy="most_frequent").fit(vectors, labels))
    regression = LogisticRegression(solver=kind, max_iter=MAX_ITERATIONS, random_state=seed)
    model = make_pipeline(StandardScaler(), regression) if kind == "lbfgs" else regression
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(_typed(kind, vectors), labels)
    for each in said:
        if not issubclass(each.category, ConvergenceWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    gave_up = any(issubclass(each.category, ConvergenceWarning) for each in said)
    return Probe(kind, int(np.max(regression.n_iter_)), not gave_up, model)
