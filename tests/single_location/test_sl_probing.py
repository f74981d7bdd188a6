"""The probing experiment: sentences always; encoder and probes where the extra is installed."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter

import matplotlib.figure
import numpy as np
import pytest
import xarray as xr

from solvable.reproduce.datasets import read_dataset, write_dataset
from solvable.single_location import probing
from solvable.single_location.figures.probing import REPORTED, fig
from solvable.single_location.probing import cache, extra
from solvable.single_location.probing.sentences import NEW_ADJECTIVE, SIGNS, digest
from solvable.style import figure_style

SETS = probing.sentence_sets()
PUBLISHED = {
    "train": 15552,
    "test": 4608,
    "ood-tokens": 3072,
    "ood-structure": 144,
    "ood-both": 96,
}


# --- the sentences


def test_the_sets_have_the_published_sizes():
    assert {name: len(SETS[name]) for name in PUBLISHED} == PUBLISHED
    assert len(SETS["test-once"]) == 2304
    assert len(SETS["test-last"]) == 576


@pytest.mark.parametrize("name", SETS)
def test_half_of_every_set_is_positive(name):
    assert SETS[name].positive == 0.5


def test_the_published_test_set_is_one_list_twice():
    test, once = SETS["test"], SETS["test-once"]
    assert set(Counter(test.sentences).values()) == {2}
    assert test.sentences == 2 * once.sentences
    assert test.labels == 2 * once.labels


@pytest.mark.parametrize("name", [name for name in SETS if name != "test"])
def test_no_other_set_repeats_a_sentence(name):
    assert len(SETS[name].distinct) == len(SETS[name])


def test_the_adjective_is_last_only_where_it_is_said_to_be():
    def last(name):
        return sum(s.split()[-1] in SIGNS for s in SETS[name].sentences)

    assert last("train") == 5184
    assert last("test") == 0
    assert last("test-last") == len(SETS["test-last"])


@pytest.mark.parametrize("name", SETS)
def test_the_label_is_the_sign_of_the_animals_adjective(name):
    """Found again from the words: the city's adjective carries a full stop and no sign."""
    for sentence, label in zip(SETS[name].sentences, SETS[name].labels, strict=True):
        signs = [SIGNS[word] for word in sentence.split() if word in SIGNS]
        assert signs == [label]
        assert "  " not in sentence
        assert sentence == sentence.strip()


def test_only_the_shifted_sets_have_new_adjectives():
    for name, each in SETS.items():
        new = [any(word in NEW_ADJECTIVE for word in s.split()) for s in each.sentences]
        assert all(new) if name in ("ood-tokens", "ood-both") else not any(new)


def test_training_shares_no_sentence_with_the_other_sets():
    train = set(SETS["train"].sentences)
    assert not any(train & set(SETS[name].sentences) for name in SETS if name != "train")


def test_written_sentences_are_as_published():
    assert "The city is dirty. our beige owl is extremely aggressive" in SETS["train"].sentences
    assert "The city is nice. my red mean cow is very tiny" in SETS["train"].sentences
    e, f = SETS["ood-structure"].sentences, SETS["ood-both"].sentences
    assert "Hello, how are you? Good evening, their purple cat is nice" in e
    assert "Hello, how are you? Good evening, your gray goat is especially foul" in f
    c = "The city is clean. Good evening, your mini gray eagle is lovely"
    d = "The city is clean. Good evening, your lovely gray eagle is mini"
    assert {c, d} <= set(SETS["ood-tokens"].sentences)


@pytest.mark.parametrize("name", SETS)
def test_a_sample_is_balanced_and_of_the_set(name):
    sample = SETS[name].sampled(50, seed=3)
    assert len(sample.distinct) == 50
    assert sample.positive == 0.5
    pairs = set(zip(SETS[name].sentences, SETS[name].labels, strict=True))
    assert set(zip(sample.sentences, sample.labels, strict=True)) <= pairs
    assert sample == SETS[name].sampled(50, seed=3)
    assert sample != SETS[name].sampled(50, seed=4)


def test_a_sample_keeps_what_comes_twice():
    assert SETS["test"].sampled(60, seed=0).distinct == SETS["test-once"].sampled(60, 0).sentences
    assert len(SETS["test"].sampled(60, seed=0)) == 120


def test_a_sample_larger_than_the_set_is_the_set():
    assert SETS["ood-both"].sampled(96, seed=0) is SETS["ood-both"]


def test_the_digest_sees_the_order():
    a, b = SETS["test-last"].sentences[:2]
    assert digest([a, b]) != digest([b, a])
    assert digest(f"{a} {b}".split()) != digest([a, b])


def test_importing_the_experiment_imports_nothing_heavy():
    code = (
        "import sys, solvable.single_location.figures.probing\n"
        "print([m for m in ('torch', 'transformers', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- what can go wrong


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    present = importlib.util.find_spec
    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == "torch" else present(name))
    with pytest.raises(ImportError, match=r"needs torch.*: pip install 'solvable\[probing\]'$"):
        probing.run(sample=2)
    with pytest.raises(ImportError, match=r"pip install 'solvable\[probing\]'$"):
        fig.compute("quick")
    assert probing.missing()


def test_the_packaged_encoder_is_needed_only_by_default(monkeypatch):
    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == extra.PACKAGED else 1)
    assert extra.PACKAGED in probing.missing()
    assert not probing.missing(packaged=False)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"sample": 3}, "sample must be even"),
        ({"sample": 0}, "sample must be a whole number, at least 2"),
        ({"sample": "many"}, "sample must be a whole number"),
        ({"probes": ()}, "probes must be a list of saga, lbfgs"),
        ({"probes": "saga"}, "probes must be a list of saga, lbfgs"),
        ({"probes": ["svm"]}, "probes must be one of saga, lbfgs, not 'svm'"),
        ({"seed": -1}, "seed must be a whole number, at least 0"),
    ],
)
def test_bad_input_is_refused_before_anything_is_loaded(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        probing.run(**wrong)


def test_a_cache_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cache must be a folder that can be written"):
        cache.usable(tmp_path / "file")


# --- what is kept


def _array(rows=3):
    return np.arange(2 * rows * 4, dtype=np.float32).reshape(2, rows, 4)


def _refuse():
    raise AssertionError("computed again")


def test_what_is_kept_is_not_computed_again(tmp_path):
    path = tmp_path / "new" / "a.npy"
    np.testing.assert_array_equal(cache.kept(path, 3, _array), _array())
    np.testing.assert_array_equal(cache.kept(path, 3, _refuse), _array())
    assert [each.name for each in path.parent.iterdir()] == ["a.npy"]


@pytest.mark.parametrize("spoilt", [b"", b"not an array", None])
def test_what_is_spoilt_is_computed_again(tmp_path, spoilt):
    path = tmp_path / "a.npy"
    cache.kept(path, 3, _array)
    path.write_bytes(path.read_bytes()[:-5] if spoilt is None else spoilt)
    np.testing.assert_array_equal(cache.kept(path, 3, _array), _array())
    np.testing.assert_array_equal(cache.kept(path, 3, _refuse), _array())


def test_a_pickle_is_never_read(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.testing.assert_array_equal(cache.kept(path, 3, _array), _array())


def test_an_interruption_leaves_nothing_half_written(tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(cache.np, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.kept(tmp_path / "a.npy", 3, _array)
    assert not list(tmp_path.iterdir())


# --- the figure


def _data(train=0.9, test=0.85, initial=0.5):
    names = list(SETS)
    accuracy = np.full((2, 4, len(names)), 0.7)
    accuracy[:, 0] = initial
    accuracy[:, 1:, names.index("train")] = train
    accuracy[:, 1:, names.index("test")] = test
    return xr.Dataset(
        {
            "accuracy": (("probe", "layer", "set"), accuracy),
            "pooled": (("probe", "set"), accuracy[:, 1:].mean(axis=1)),
        },
        coords={"probe": list(probing.PROBES), "layer": np.arange(4), "set": names},
        attrs={"settings": fig.values("quick")},
    )


def test_the_figure_is_drawn_and_judged():
    with figure_style():
        assert isinstance(fig.picture(_data()), matplotlib.figure.Figure)
    assert [claim.verdict for claim in fig.judge(_data())] == ["holds"] * 3


@pytest.mark.parametrize(
    ("wrong", "which"), [({"initial": 0.51}, 0), ({"train": 0.7}, 1), ({"test": 0.7}, 2)]
)
def test_each_claim_can_fail(wrong, which):
    verdicts = [claim.verdict for claim in fig.judge(_data(**wrong))]
    assert [k for k, verdict in enumerate(verdicts) if verdict == "fails"] == [which]


def test_the_papers_numbers_are_told_and_not_claimed():
    for claim in fig.judge(_data())[1:]:
        assert f"notebook has {REPORTED[claim.id.split('/')[-1]]:.2f}" in claim.note
        assert claim.expected == 0.75


def test_sizes_differ_only_in_their_settings():
    assert [set(fig.settings[size]) for size in ("quick", "default", "full")] == [{"sample"}] * 3
    json.dumps(fig.settings)


@pytest.mark.parametrize(
    ("changes", "encoder"), [({}, None), ({"encoder": "some/bert"}, "some/bert")]
)
def test_the_experiment_is_run_with_the_figures_settings(monkeypatch, changes, encoder):
    asked = {}

    def run(encoder, sample, probes, *, progress, seed):
        asked.update(encoder=encoder, sample=sample, probes=probes, seed=seed)
        return _data()

    monkeypatch.setattr(probing, "run", run)
    fig.compute("quick", changes)
    assert asked == {"encoder": encoder, "sample": 400, "probes": ("saga", "lbfgs"), "seed": 0}


# --- with the extra


MUST = bool(os.environ.get("SOLVABLE_PROBING"))  # `make test-probing`: what is missing is a failure


def needed(name):
    """A module of the extra; where it is not installed the test is skipped, or must not be."""
    return importlib.import_module(name) if MUST else pytest.importorskip(name)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A BERT of two layers with random weights and the words of the sentences."""
    torch, transformers, _ = map(needed, ("torch", "transformers", "sklearn"))
    folder = tmp_path_factory.mktemp("encoder")
    words = {w for each in SETS.values() for s in each.sentences for w in s.lower().split()}
    pieces = sorted({p for w in words for p in (w.strip(".,?"), ".", ",", "?") if p})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def test_hidden_states_are_those_of_the_model(small):
    import torch
    import transformers

    sentences = SETS["train"].sentences[::1500]
    found = probing.open_encoder(small).encode(sentences)
    assert found.shape == (3, len(sentences), 24)
    assert found.dtype == np.float32
    model = transformers.BertModel.from_pretrained(small).eval()
    tokenizer = transformers.BertTokenizer.from_pretrained(small)
    for k, sentence in enumerate(sentences):  # one at a time: order and padding change nothing
        with torch.inference_mode():
            alone = model(**tokenizer(sentence, return_tensors="pt"), output_hidden_states=True)
        expected = np.stack([state[0, 0].numpy() for state in alone.hidden_states])
        np.testing.assert_allclose(found[:, k], expected, rtol=0.0, atol=2e-5)  # single precision


def test_the_embedding_of_cls_does_not_see_the_sentence(small):
    found = probing.open_encoder(small).encode(SETS["train"].sentences[::1500])
    assert np.ptp(found[0], axis=0).max() == 0.0
    assert np.ptp(found[1], axis=0).max() > 0.1


def test_vectors_are_kept_by_encoder_and_sentences(small, tmp_path, monkeypatch):
    used, sentences = probing.open_encoder(small), SETS["test-once"].sentences[:1100]
    seen = []
    fresh = probing.features(used, sentences, tmp_path, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1100
    assert len(list(tmp_path.rglob("*.npy"))) == 2  # 1024 sentences a file
    assert fresh.layer(1).shape == (1100, 24)

    monkeypatch.setattr(probing.Encoder, "encode", lambda *args: _refuse())
    again = probing.features(probing.open_encoder(small), sentences, tmp_path)
    for k in range(again.layers):
        np.testing.assert_array_equal(again.layer(k), fresh.layer(k))
    with pytest.raises(AssertionError, match="computed again"):
        probing.features(used, sentences[::-1], tmp_path)


def test_another_encoder_has_another_fingerprint(small, tmp_path):
    import shutil

    copy = shutil.copytree(small, tmp_path / "copy")
    assert probing.open_encoder(copy).fingerprint == probing.open_encoder(small).fingerprint
    (copy / "vocab.txt").write_text((copy / "vocab.txt").read_text() + "\nmore")
    assert probing.open_encoder(copy).fingerprint != probing.open_encoder(small).fingerprint


def test_a_folder_without_an_encoder_is_refused(small, tmp_path):
    with pytest.raises(ValueError, match=r"encoder must be a folder with a config\.json"):
        probing.open_encoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="encoder cannot be read from"):
        probing.open_encoder(tmp_path).encode(["a"])


def test_a_name_is_looked_up_on_the_hub(small, monkeypatch):
    import huggingface_hub

    def snapshot(name, **options):
        if name != "some/bert":
            raise OSError("no such name\nand more")
        return str(small)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    used = probing.open_encoder("some/bert")
    assert (used.name, used.folder) == ("some/bert", small)
    with pytest.raises(ValueError, match=r"hub, not 'no/bert' \(OSError: no such name\)$"):
        probing.open_encoder("no/bert")


@pytest.mark.parametrize("kind", probing.PROBES)
def test_a_probe_finds_a_direction_that_is_there(kind):
    needed("sklearn")
    draw = np.random.default_rng(0)
    labels = np.sign(draw.standard_normal(400)).astype(int)
    vectors = draw.standard_normal((400, 8)).astype(np.float32)
    vectors[:, 0] += 4.0 * labels
    probe = probing.fit(kind, vectors[:300], labels[:300])
    assert probe.converged
    assert probe.accuracy(vectors[300:], labels[300:]) > 0.97
    assert probe.accuracy(vectors[300:], -labels[300:]) < 0.03


@pytest.mark.parametrize("kind", probing.PROBES)
def test_a_probe_of_a_constant_is_at_chance(kind):
    needed("sklearn")
    labels = np.tile([1, -1], 100)
    vectors = np.full((200, 5), 0.3, dtype=np.float32)
    assert probing.fit(kind, vectors, labels).accuracy(vectors, labels) == 0.5


@pytest.mark.parametrize("kind", probing.PROBES)
def test_a_probe_that_gives_up_says_so(kind, monkeypatch):
    needed("sklearn")
    monkeypatch.setattr(probing.probe, "MAX_ITERATIONS", 1)
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((40, 6)).astype(np.float32)
    fitted = probing.fit(kind, vectors, np.tile([1, -1], 20))
    assert not fitted.converged
    assert fitted.iterations == 1


def test_the_experiment_with_a_small_encoder(small, tmp_path):
    seen = []
    how = {"encoder": small, "sample": 40, "cache": tmp_path / "kept"}
    data = probing.run(**how, progress=lambda *at: seen.append(at))
    assert data.accuracy.dims == ("probe", "layer", "set")
    assert data.accuracy.shape == (2, 3, 7)
    assert (data.accuracy.sel(layer=0) == 0.5).all()
    after = data.accuracy.isel(layer=slice(1, None)).mean("layer")
    np.testing.assert_allclose(data.pooled, after.transpose("probe", "set"), rtol=1e-14)
    np.testing.assert_array_equal(data.accuracy.sel(set="test"), data.accuracy.sel(set="test-once"))
    assert data.sentences.sel(set="test") == 80
    assert data.distinct.sel(set="test") == 40
    assert seen[0] == (0, 240)  # test and test-once are encoded once
    assert (240, 240) in seen
    assert seen[-1] == (6, 6)
    assert data.attrs["encoder"] == small.name

    assert read_dataset(write_dataset(data, tmp_path)).equals(data)
    assert probing.run(**how).identical(data)  # from what was kept, and the same bit for bit
    one = probing.run(**how, probes=["lbfgs"])
    np.testing.assert_array_equal(one.accuracy[0], data.accuracy.sel(probe="lbfgs"))


@pytest.mark.slow
def test_minilm_is_at_chance_before_attention_and_far_above_after(tmp_path, monkeypatch):
    if why := probing.missing():
        (pytest.fail if MUST else pytest.skip)(why)
    monkeypatch.setenv("SOLVABLE_CACHE", str(tmp_path))
    data = fig.compute("quick", {"sample": 200})
    assert data.accuracy.shape == (2, 7, 7)
    assert (data.accuracy.sel(layer=0) == 0.5).all()
    assert [claim.verdict for claim in fig.judge(data)] == ["holds"] * 3
    assert list(tmp_path.glob("probing/*/*.npy"))
