"""The experiment: a probe for every layer, judged on every set of sentences."""

import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from ... import validation
from .cache import usable
from .encoder import Encoder, Features, features, open_encoder
from .extra import require
from .probe import PROBES, fit
from .sentences import SentenceSet, sentence_sets

if TYPE_CHECKING:
    import xarray as xr

Progress = Callable[[int, int], None]
_PACKAGES = ("torch", "transformers", "scikit-learn")


def run(
    encoder: str | os.PathLike[str] | None = None,
    sample: int | None = None,
    probes: Sequence[str] = tuple(PROBES),
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> "xr.Dataset":
    """Where in an encoder the sign of a sentence can be read off its [CLS] vector.

    One probe a layer is fitted to the training sentences and judged on every set.

    Args:
        encoder: a folder or a name on the Hugging Face hub of a BERT-type encoder; None for the
            MiniLM sentence encoder that comes with the extra.
        sample: at most so many distinct sentences of every set, half of them positive; None for
            all.
        probes: of `PROBES`.
        cache: the folder in which vectors are kept; ``$SOLVABLE_CACHE`` or the user's cache folder
            unless given. All sentences take 0.23 GB (MiniLM) or 0.87 GB (BERT base).
        progress: called with (done, of): first sentences encoded, then probes fitted.
        seed: of the sample, and of the order in which saga visits sentences.

    Returns:
        accuracy (probe, layer, set) with the embedding as layer 0, pooled (probe, set) over the
        layers from 1 on, iterations and converged (probe, layer), sentences and distinct (set).

    Raises:
        ModuleNotFoundError: without the extra; it says what to install.

    Reference: the paper's probing experiment (bert-base-uncased, saga).
    """
    if sample is not None and validation.whole("sample", sample, 2) % 2:
        raise ValueError(f"sample must be even, to be half positive, not {sample}")
    if isinstance(probes, str) or not probes:
        raise ValueError(f"probes must be a list of {', '.join(PROBES)}, not {probes!r}")
    for kind in probes:
        validation.one_of("probes", kind, tuple(PROBES))
    seed = validation.whole("seed", seed)
    require(packaged=encoder is None)
    import xarray as xr

    used = open_encoder(encoder)
    folder = usable(cache)
    sets = dict(sentence_sets())
    if sample is not None:
        sets = {name: each.sampled(sample, seed) for name, each in sets.items()}
    vectors = _encode(used, sets, folder, progress)
    layers = next(iter(vectors.values())).layers

    accuracy = np.zeros((len(probes), layers, len(sets)))
    iterations = np.zeros((len(probes), layers), dtype=int)
    converged = np.zeros((len(probes), layers), dtype=bool)
    for layer in range(layers):
        data = {name: _labelled(each, vectors[name], layer) for name, each in sets.items()}
        for p, kind in enumerate(probes):
            probe = fit(kind, *data["train"], seed=seed)
            accuracy[p, layer] = [probe.accuracy(*data[name]) for name in sets]
            iterations[p, layer], converged[p, layer] = probe.iterations, probe.converged
            if progress is not None:
                progress(layer * len(probes) + p + 1, layers * len(probes))
    dims = ("probe", "layer", "set")
    return xr.Dataset(
        {
            "accuracy": (dims, accuracy),
            "pooled": (("probe", "set"), accuracy[:, 1:].mean(axis=1)),
            "iterations": (("probe", "layer"), iterations),
            "converged": (("probe", "layer"), converged),
            "sentences": ("set", [len(each) for each in sets.values()]),
            "distinct": ("set", [len(each.distinct) for each in sets.values()]),
        },
        coords={"probe": list(probes), "layer": np.arange(layers), "set": list(sets)},
        attrs={
            "encoder": used.name,
            "encoder_digest": used.fingerprint,
            "encoder_versions": {package: version(package) for package in _PACKAGES},
        },
    )


def _encode(
    encoder: Encoder, sets: dict[str, SentenceSet], folder: os.PathLike, progress: Progress | None
) -> dict[str, Features]:
    """The vectors of every set's distinct sentences; sets of the same ones share them."""
    lists = {each.distinct: name for name, each in sets.items()}
    total, before = sum(map(len, lists)), 0
    found: dict[tuple[str, ...], Features] = {}
    if progress is not None:
        progress(0, total)
    for distinct in lists:

        def tell(done: int, before: int = before) -> None:
            if progress is not None:
                progress(before + done, total)

        found[distinct] = features(encoder, distinct, folder, tell)
        before += len(distinct)
    return {name: found[each.distinct] for name, each in sets.items()}


def _labelled(given: SentenceSet, vectors: Features, layer: int) -> tuple[np.ndarray, np.ndarray]:
    """The vectors after a layer and the labels, one a sentence, repeated as in the set."""
    place = {sentence: k for k, sentence in enumerate(given.distinct)}
    rows = [place[sentence] for sentence in given.sentences]
    return vectors.layer(layer)[rows], np.array(given.labels)
