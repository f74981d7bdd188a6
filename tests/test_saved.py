"""Saved runs are the runs, and training goes on from them bit for bit."""

import dataclasses
import importlib
import json
import shutil

import jax
import numpy as np
import optax
import pytest
import xarray as xr
from tests.labs import LABS

from solvable import deep_icl, msfr, saved, shallow_icl, single_location, stores, training

pytestmark = pytest.mark.slow

TABLES = {lab: importlib.import_module(f"tests.labs.{lab}").RESUMED for lab in LABS}
TRAINED = {f"{lab}.{name}": case for lab, table in TABLES.items() for name, case in table.items()}
PREPARE = {
    train: importlib.import_module(f"{lab.__name__}.{module}").prepare
    for lab in (msfr, shallow_icl, single_location, deep_icl)
    for train, module in ((lab.train, "reduced"), (lab.train_brute, "model"))
}
PREPARED = [name for name, (train, _, _) in TRAINED.items() if train in PREPARE]
TASK, INIT = msfr.Task(3, 1.8, 5.0, 0.5), msfr.Init(v=0.1, w=0.11)


def prepared(name, **changes):
    train, options, _ = TRAINED[name]
    kept = {k: v for k, v in options.items() if k not in ("steps", "log_every")}
    return PREPARE[train](**{**kept, **changes})


def msfr_training(**law):
    return msfr.reduced.prepare(msfr.Task(**{**LAW, **law}), INIT, lr=0.1)


LAW = {"num_tasks": 3, "alpha": 1.8, "context": 5.0, "strength": 0.5}


def assert_bitwise(one, other):
    assert type(one) is type(other)
    assert one.origin == other.origin
    for field in dataclasses.fields(one):
        if field.name == "origin":
            continue
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        assert jax.tree.structure(mine) == jax.tree.structure(theirs)
        for x, y in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
            assert (type(x), x.dtype) == (type(y), y.dtype)
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


@pytest.mark.parametrize("name", TRAINED)
def test_every_run_is_a_dataset(name):
    train, options, _ = TRAINED[name]
    run = train(**options)
    found = run.to_xarray()
    assert found.sizes["time"] == len(run.step)
    np.testing.assert_array_equal(found.step, run.step)
    time = found.times if run.time.ndim > 1 else found.time
    np.testing.assert_array_equal(time, run.time)
    assert json.loads(found.attrs["origin"]) == run.origin
    assert found.attrs["status"] == "ok"
    shape = np.shape(run.loss)
    runs = ["run"] if len(shape) == 2 else [f"run_{k}" for k in range(len(shape) - 1)]
    assert found.loss.dims == (*runs, "time")
    assert len(repr(run)) < 150
    logged = {variable for variable, _, _ in training.variables(run)}
    assert {*map(str, found.variables)} == logged


def test_the_axes_of_a_dataset_have_names():
    data = shallow_icl.sample(shallow_icl.Task(3, 7), 20)
    start = shallow_icl.separate(2, 1, 0.1)
    options = {"lr": [0.1, 0.2], "seed": (0, 1, 2), "steps": 2, "tests": {"same": data}}
    found = shallow_icl.train(data, start, **options).to_xarray()
    assert found.times.dims == ("run_0", "time")
    assert found["map"].dims == ("run_0", "run_1", "dim", "dim_2", "time")
    assert found.tests_same.dims == ("run_0", "run_1", "time")
    assert "key_query" not in found
    run = msfr.train(TASK, INIT, lr=0.1, steps=2, seed=(0, 1), data=9)
    assert run.to_xarray().predictions.dims == ("run", "task", "time")
    full = deep_icl.train(
        deep_icl.Isotropic(2.0), deep_icl.Init(weights=0.4), depth=2, lr=0.1, steps=2
    )
    assert full.to_xarray().weights.dims == ("weights_0", "time")
    untied = deep_icl.train(
        deep_icl.Isotropic(2.0), deep_icl.Init(gamma=0.4), depth=3, lr=0.1, steps=2, layers="untied"
    )
    assert untied.to_xarray().gamma.dims == ("parts", "time")


@pytest.mark.parametrize("name", PREPARED)
def test_a_saved_run_goes_on_bit_for_bit(name, tmp_path):
    whole = prepared(name).run(steps=6, log_every=2)
    part = prepared(name).run(steps=4, log_every=2)
    path = tmp_path / "run.zarr"
    saved.save(part, path, {"asked": "so"})
    again = saved.load(path, prepared(name))
    assert_bitwise(again, part)
    assert saved.attributes(path) == {"asked": "so"}
    assert_bitwise(prepared(name).run(steps=6, log_every=2, resume=again), whole)
    assert [x.name for x in tmp_path.iterdir()] == ["run.zarr"]


def test_a_saved_run_is_a_dataset_to_every_reader(tmp_path):
    run = msfr_training().run(steps=4, log_every=2)
    saved.save(run, tmp_path / "run.zarr")
    with xr.open_zarr(tmp_path / "run.zarr", chunks=None) as found:
        assert found.load().equals(run.to_xarray())
        assert found.attrs["status"] == "ok"


def test_zeros_and_nan_keep_their_signs(tmp_path):
    run = msfr_training().run(steps=4, log_every=2)
    odd = dataclasses.replace(run, loss=-0.0 * run.loss, train_loss=-np.nan * run.train_loss)
    saved.save(odd, tmp_path / "run.zarr")
    assert_bitwise(saved.load(tmp_path / "run.zarr", msfr_training()), odd)


def test_a_run_of_another_problem_is_loaded_and_refused_by_resume(tmp_path):
    path = tmp_path / "run.zarr"
    saved.save(msfr_training().run(steps=4), path)
    other = msfr_training(alpha=1.9)
    run = saved.load(path, other)
    words = "resume must be a run of the same problem: its task.alpha is 1.8, here it is 1.9"
    with pytest.raises(ValueError, match=words):
        other.run(steps=8, resume=run)
    with pytest.raises(
        ValueError, match=r"such a training: its task\.num_tasks is 3, here it is 4"
    ):
        saved.load(path, msfr_training(num_tasks=4))
    adam = msfr.reduced.prepare(TASK, INIT, optimizer=optax.adam(1e-3))
    with pytest.raises(ValueError, match=r"such a training: its lr is 0\.1, here it is none"):
        saved.load(path, adam)


def test_what_is_no_saved_run_is_refused_and_kept(tmp_path):
    run = msfr_training().run(steps=4)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    run.to_xarray().drop_attrs().to_zarr(tmp_path / "other.zarr", consolidated=False)
    for name in ("notes", "file", "other.zarr"):
        path = tmp_path / name
        with pytest.raises(ValueError, match="save must be a new path or a saved run, not "):
            saved.save(run, path)
        with pytest.raises(ValueError, match="is no saved run"):
            saved.load(path, msfr_training())
        with pytest.raises(ValueError, match="is no saved run"):
            saved.attributes(path)
    with pytest.raises(ValueError, match="there is no saved run in "):
        saved.load(tmp_path / "none", msfr_training())
    assert (tmp_path / "notes" / "a.txt").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("part", ["loss/c/0", "state/0/c/0/0", "state/1", "state", "predictions"])
@pytest.mark.parametrize("how", ["gone", "cut", "other"])
def test_a_damaged_run_is_refused(tmp_path, part, how):
    path = tmp_path / "run.zarr"
    saved.save(msfr_training().run(steps=4), path)
    there = path / part
    assert there.exists()
    if how == "gone":
        shutil.rmtree(there) if there.is_dir() else there.unlink()
    else:
        chunk = max(there.rglob("*"), key=str) if there.is_dir() else there
        chunk = chunk / "zarr.json" if chunk.is_dir() else chunk
        chunk.write_bytes(chunk.read_bytes()[:-3] if how == "cut" else b"other")
    with pytest.raises(ValueError, match=r"the run saved in .* is damaged: ") as error:
        saved.load(path, msfr_training())
    assert "\n" not in str(error.value)


def test_a_save_that_fails_leaves_the_old_run_whole(tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    old, new = (msfr_training().run(steps=steps) for steps in (4, 8))
    saved.save(old, path)
    with monkeypatch.context() as patch:
        patch.setattr("zarr.consolidate_metadata", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            saved.save(new, path)
    assert_bitwise(saved.load(path, msfr_training()), old)
    saved.save(new, path)
    assert_bitwise(saved.load(path, msfr_training()), new)
    assert [x.name for x in tmp_path.iterdir()] == ["run.zarr"]


@pytest.mark.parametrize("killed", [1, 2, 3])
def test_a_save_that_is_killed_leaves_a_whole_run(tmp_path, monkeypatch, killed):
    """Before the old run is put aside, before the new one takes its place, before the old goes."""
    path = tmp_path / "run.zarr"
    old, new = (msfr_training().run(steps=steps) for steps in (4, 8))
    saved.save(old, path)
    calls, rename = [], type(path).rename

    class Killed(BaseException):
        pass

    def renamed(source, target):
        calls.append(target)
        if len(calls) == killed:
            raise Killed
        return rename(source, target)

    def removed(*_, **__):
        if len(calls) >= min(killed, 2):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "rename", renamed)
        patch.setattr(stores.shutil, "rmtree", removed)
        with pytest.raises(Killed):
            saved.save(new, path)
    assert_bitwise(saved.load(path, msfr_training()), new if killed == 3 else old)
    saved.save(new, path)
    assert_bitwise(saved.load(path, msfr_training()), new)
