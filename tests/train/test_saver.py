"""Saving and restoring variables of a session in this process."""

import asyncio
import json
import os
import threading
import time

import ml_dtypes
import numpy as np
import pytest

import aioflow as af
from aioflow.checkpoint import Checkpoint, Draft
from tests.support.saver_model import Model, entries, saved_step

SAFE = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")


# There and back


@pytest.mark.parametrize("mode", ["consistent", "uncoordinated"])
async def test_what_was_saved_is_restored_by_a_session_that_initialized_nothing(tmp_path, mode):
    model = Model(mode=mode)
    async with model.session() as session:
        await session.run(model.init)
        await session.run(model.train)
        path = await model.saver.save(session, tmp_path / "model.ckpt", model.steps)
        await session.run(model.train)
    assert path == str(tmp_path / "model.ckpt-1")
    moment = {"step_boundary": True} if mode == "consistent" else {}
    assert Checkpoint.open(path).facts == {"mode": mode, "global_step": 1, **moment}
    async with model.session() as session:
        await model.saver.restore(session, path)
        assert await model.at(session) == 1
        await session.run(model.train)
        assert await model.at(session) == 2
    assert saved_step(path) == 1


@pytest.mark.parametrize(
    "value",
    [
        np.float64(0.5),
        np.arange(6, dtype=np.int8).reshape(2, 3),
        np.array([1.5, -2.0], ml_dtypes.bfloat16),
        np.array([True, False]),
        np.array([1 + 2j], np.complex64),
        np.zeros((0, 4), np.float32),
        np.array([b"some", b"", b"\xff text"], object),
        b"text",
    ],
    ids=repr,
)
async def test_a_value_of_any_dtype_comes_back_as_it_was(tmp_path, value):
    with af.Graph().as_default() as graph:
        variable = af.Variable(value)
        saver = af.train.Saver()
    async with af.Session(graph=graph) as session:
        await session.run(variable.initializer)
        before = await session.run(variable)
        path = await saver.save(session, tmp_path / "one")
    async with af.Session(graph=graph) as session:
        await saver.restore(session, path)
        after = await session.run(variable)
    assert np.asarray(after).dtype == np.asarray(before).dtype
    np.testing.assert_array_equal(after, before)


async def test_another_reader_of_safetensors_reads_what_was_saved(tmp_path):
    model = Model()
    async with model.session() as session:
        await session.run(model.init)
        path = await model.saver.save(session, tmp_path / "model")
    (file,) = [name for name in entries(path) if name.endswith(".safetensors")]
    found = SAFE.load_file(os.path.join(path, file))
    assert {name: array.dtype for name, array in found.items()} == {"weights": np.float32, "global_step": np.int64}


async def test_plain_safetensors_files_are_imported(tmp_path):
    model = Model()
    SAFE.save_file({"weights": np.full((3, 2), 7, np.float32), "global_step": np.array(7)}, tmp_path / "a.safetensors")
    async with model.session() as session:
        await model.saver.import_safetensors(session, tmp_path / "a.safetensors")
        assert await model.at(session) == 7
        with pytest.raises(af.errors.NotFoundError):
            await model.saver.import_safetensors(session, tmp_path / "b.safetensors")


async def test_a_name_map_renames_the_tensors_of_plain_files(tmp_path):
    with af.Graph().as_default() as graph:
        kernel, bias = af.Variable([0.0, 0.0], name="head/kernel"), af.Variable([0.0], name="head/bias")
        saver = af.train.Saver()
    path = tmp_path / "a.safetensors"
    stored = {"model.fc.kernel": [1.0, 2.0], "model.fc.bias": [3.0], "optimizer/rate": [4.0]}
    SAFE.save_file({name: np.array(value, np.float32) for name, value in stored.items()}, path)
    async with af.Session(graph=graph) as session:
        for name_map in (
            {"model.fc": "head", "optimizer": None},
            {"model/fc": "head", "optimizer.rate": None},
            [(r"^model\.fc\.", "head/"), ("optimizer", None)],
            lambda name: name.replace("model.fc", "head") if name.startswith("model") else None,
        ):
            await saver.import_safetensors(session, path, name_map=name_map)
            assert [each.tolist() for each in await session.run([kernel, bias])] == [[1, 2], [3]]
        one_of_them = [("model.fc.kernel", "head.kernel"), ("model|optimizer", None)]
        await saver.import_safetensors(session, path, name_map=one_of_them, variables=[kernel])
        assert (await session.run(kernel)).tolist() == [1, 2]
        for name_map, error, text in (
            ({"model.fc": "head"}, af.errors.InvalidArgumentError, "'optimizer/rate' is in the ch"),
            (
                {"model.fc": "tail", "optimizer": None},
                af.errors.InvalidArgumentError,
                "none was restored: .*'head/bias'",
            ),
            ({"encoder": "head"}, ValueError, "no tensor or module"),
            (lambda name: None, ValueError, "leaves out all 3 tensors"),
            (lambda name: "head/bias", ValueError, "the same name"),
            (5, TypeError, "a dict, a function or a list"),
        ):
            with pytest.raises(error, match=text):
                await saver.import_safetensors(session, path, name_map=name_map)


async def test_restoring_replaces_values_and_later_updates_leave_the_restored_ones_alone(tmp_path):
    model = Model()
    async with model.session() as session:
        await session.run(model.init)
        path = await model.saver.save(session, tmp_path / "model")
        await session.run(model.train)
        await model.saver.restore(session, path)
        first = await session.run(model.weights)
        await session.run(model.train)
        assert not first.any()
        assert await model.at(session) == 1


# Names


async def test_variables_are_saved_and_restored_under_the_names_that_are_given(tmp_path):
    with af.Graph().as_default() as graph:
        one, other = af.Variable([1.0, 2.0], name="one"), af.Variable([3.0], name="other")
        saver = af.train.Saver({"kernel": one, "bias": other})
        partly = af.train.Saver({"bias": other})
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        path = await saver.save(session, tmp_path / "both")
        await session.run([one.assign([0.0, 0.0]), other.assign([0.0])])
        await partly.restore(session, path)
        values = await session.run([one, other])
    assert af.train.list_variables(path) == [("bias", [1]), ("kernel", [2])]
    assert [value.tolist() for value in values] == [[0.0, 0.0], [3.0]]


def rows(*counts, **options):
    """A table that lies in parts of so many rows, all zero, and what saves it."""
    with af.Graph().as_default() as graph:
        parts = [af.Variable(np.zeros((count, 2), np.float32), name=f"part_{i}") for i, count in enumerate(counts)]
        saver = af.train.Saver({"table": parts}, **options)
    return graph, parts, saver


async def test_a_table_in_parts_is_saved_as_one_and_restored_into_other_parts(tmp_path):
    graph, parts, saver = rows(3, 2)
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    async with af.Session(graph=graph) as session:
        for part, value in zip(parts, [table[:3], table[3:]], strict=True):
            await part.load(value, session)
        path = await saver.save(session, tmp_path / "table")
    np.testing.assert_array_equal(af.train.load_variable(path, "table"), table)
    graph, parts, saver = rows(1, 4)
    async with af.Session(graph=graph) as session:
        await saver.restore(session, path)
        np.testing.assert_array_equal(np.concatenate(await session.run(parts)), table)


async def test_a_tensor_of_another_shape_is_restored_only_if_that_is_asked_for(tmp_path):
    def flat(**options):
        with af.Graph().as_default() as graph:
            variable = af.Variable(np.zeros(6, np.float32), name="weights")
            return graph, variable, af.train.Saver([variable], **options)

    model = Model()
    async with model.session() as session:
        await session.run(model.init)
        await session.run(model.train)
        path = await model.saver.save(session, tmp_path / "model")
    graph, variable, saver = flat()
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match=r"'weights' has .*\[3, 2\].*\[6\]"):
            await saver.restore(session, path)
    graph, variable, saver = flat(reshape=True)
    async with af.Session(graph=graph) as session:
        await saver.restore(session, path)
        assert (await session.run(variable)).tolist() == [1.0] * 6


async def test_a_tensor_of_another_shape_is_not_restored_into_variables_that_hold_its_rows(tmp_path):
    with af.Graph().as_default() as graph:
        flat = af.Variable(np.ones(4, np.float32))
        saver = af.train.Saver({"table": flat})
    async with af.Session(graph=graph) as session:
        await session.run(flat.initializer)
        path = await saver.save(session, tmp_path / "table")
    graph, _, saver = rows(1, 1, reshape=True)
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match=r"none was restored: 'table' has the shape \[4\]"):
            await saver.restore(session, path)


@pytest.mark.parametrize("values", [(["a"], ["b"]), ([1.0], [2])], ids=["texts", "two dtypes"])
def test_rows_that_no_checkpoint_can_hold_are_refused_when_the_saver_is_built(values):
    with af.Graph().as_default():
        parts = [af.Variable(value) for value in values]
        with pytest.raises(ValueError, match="parts of 'table' must have one numeric dtype"):
            af.train.Saver({"table": parts})


# Some variables


async def test_some_variables_are_restored_and_the_others_neither_read_nor_compared(tmp_path):
    model = Model()
    async with model.session() as session:
        await session.run(model.init)
        await session.run(model.train)
        path = await model.saver.save(session, tmp_path / "model")
    with af.Graph().as_default() as graph:
        steps = af.Variable(np.int64(0), name="global_step")
        other = af.Variable(np.ones(7, np.float32), name="weights")
        missing = af.Variable(1.0, name="missing")
        beside = af.Variable(1.0, name="beside")
        saver = af.train.Saver([steps, other, missing], extra=False)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        await saver.restore(session, path, variables=[steps, steps])
        assert await session.run(steps) == 1
        with pytest.raises(af.errors.InvalidArgumentError) as caught:
            await saver.restore(session, path, variables=[other, steps])
        assert "'weights'" in str(caught.value)
        assert "missing" not in str(caught.value)
        with pytest.raises(ValueError, match="beside: not among the variables"):
            await saver.restore(session, path, variables=[steps, beside])
        with pytest.raises(ValueError, match="variables is empty"):
            await saver.restore(session, path, variables=[])
        assert float(await session.run(af.reduce_sum(other))) == 7.0


async def test_a_part_of_a_table_is_restored_alone(tmp_path):
    graph, parts, saver = rows(3, 2)
    async with af.Session(graph=graph) as session:
        for part, value in zip(parts, [1.0, 2.0], strict=True):
            await part.load(np.full(part.shape, value, np.float32), session)
        path = await saver.save(session, tmp_path / "table")
        for part in parts:
            await part.load(np.zeros(part.shape, np.float32), session)
        await saver.restore(session, path, variables=parts[1:])
        assert [float(np.mean(value)) for value in await session.run(parts)] == [0.0, 2.0]


@pytest.mark.real
@pytest.mark.parametrize("some", [False, True])
async def test_nothing_is_assigned_before_all_is_read(tmp_path, monkeypatch, some):
    with af.Graph().as_default() as graph:
        first, second = af.Variable(1.0, name="first"), af.Variable(1.0, name="second")
        saver, init = af.train.Saver(), af.global_variables_initializer()
        zero = af.group(first.assign(0.0), second.assign(0.0))
    read, go, loop, begun = Checkpoint.read, threading.Event(), asyncio.get_running_loop(), asyncio.Event()

    def slowly(self, name, *box):
        if name == "second":
            loop.call_soon_threadsafe(begun.set)
            go.wait()
        return read(self, name, *box)

    async with af.Session(graph=graph) as session:
        await session.run(init)
        path = await saver.save(session, tmp_path / "model")
        await session.run(zero)
        monkeypatch.setattr(Checkpoint, "read", slowly)
        task = asyncio.create_task(saver.restore(session, path, variables=[first, second] if some else None))
        await begun.wait()
        for _ in range(20):
            assert await session.run([first, second]) == [0.0, 0.0]
        go.set()
        await task
        assert await session.run([first, second]) == [1.0, 1.0]


# Checkpoints that do not fit


async def test_every_difference_is_told_and_nothing_is_restored(tmp_path):
    model = Model()
    async with model.session() as session:
        await session.run(model.init)
        path = await model.saver.save(session, tmp_path / "model")
    with af.Graph().as_default() as graph:
        weights = af.Variable(np.ones((2, 2), np.float32), name="weights")
        steps = af.Variable(np.float32(1), name="global_step")
        missing = af.Variable(1.0, name="missing")
        saver = af.train.Saver([weights, steps, missing])
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        with pytest.raises(af.errors.InvalidArgumentError) as caught:
            await saver.restore(session, path)
        values = await session.run([weights, steps, missing])
    assert {float(np.mean(value)) for value in values} == {1.0}
    assert [name for name in ("weights", "global_step", "missing") if repr(name) not in str(caught.value)] == []


async def test_what_no_variable_wants_is_an_error_unless_variables_were_chosen(tmp_path):
    model = Model()
    async with model.session() as session:
        await session.run(model.init)
        path = await model.saver.save(session, tmp_path / "model")
    with af.Graph().as_default() as graph:
        steps = af.train.create_global_step()
        alone, chosen = af.train.Saver(), af.train.Saver([steps])
        lenient = af.train.Saver(extra=True)
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match="'weights' is in the checkpoint"):
            await alone.restore(session, path)
        await chosen.restore(session, path)
        await lenient.restore(session, path)


@pytest.mark.parametrize("damage", ["flip", "truncate", "no manifest", "another version", "leads elsewhere"])
async def test_a_damaged_checkpoint_restores_nothing(tmp_path, damage):
    model = Model()
    async with model.session() as session:
        await session.run(model.init)
        path = await model.saver.save(session, tmp_path / "model")
        await session.run(model.train)
        damaged(path, damage)
        with pytest.raises(af.errors.OpError):
            await model.saver.restore(session, path)
        assert await model.at(session) == 1
        assert await model.saver.latest_checkpoint(session, tmp_path) == (path if damage == "flip" else None)


def damaged(path, damage):
    manifest = os.path.join(path, "manifest.json")
    file = os.path.join(path, "model-00001-of-00001.safetensors")
    if damage == "no manifest":
        os.unlink(manifest)
    elif damage in ("another version", "leads elsewhere"):
        with open(manifest) as opened:
            told = json.load(opened)
        if damage == "another version":
            told["version"] = 99
        else:
            told["shards"][0]["file"] = "../model.safetensors"
        with open(manifest, "w") as opened:
            json.dump(told, opened)
    else:
        with open(file, "r+b") as opened:
            opened.seek(-1, os.SEEK_END)
            if damage == "truncate":
                opened.truncate()
            else:
                (last,) = opened.read(1)
                opened.seek(-1, os.SEEK_END)
                opened.write(bytes([last ^ 1]))


# Which stay


async def test_the_last_checkpoints_stay_and_older_ones_go(tmp_path):
    model = Model(max_to_keep=2)
    async with model.session() as session:
        await session.run(model.init)
        paths = []
        for _ in range(4):
            await session.run(model.train)
            paths.append(await model.saver.save(session, tmp_path / "model", model.steps))
        assert entries(tmp_path) == ["model-3", "model-4"]
        assert model.saver.last_checkpoints == paths[2:]
        assert 'model_checkpoint_path: "model-4"' in (tmp_path / "checkpoint").read_text()
        assert (
            af.train.latest_checkpoint(tmp_path) == await model.saver.latest_checkpoint(session, tmp_path) == paths[3]
        )
        later = af.train.Saver([model.weights], max_to_keep=1, name="later")
        later.recover_last_checkpoints(paths[2:])
        await later.save(session, tmp_path / "model", 5)
    assert entries(tmp_path) == ["model-5"]
    assert not af.train.checkpoint_exists(paths[3])


async def test_what_leads_to_a_checkpoint_that_is_kept_is_not_deleted(tmp_path):
    model = Model(max_to_keep=1)
    (tmp_path / "runs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    async with model.session() as session:
        await session.run(model.init)
        for folder in ("runs", "link", "link/../runs"):
            path = await model.saver.save(session, f"{tmp_path}/{folder}/model", 1)
            assert saved_step(path) == 0
        model.saver.recover_last_checkpoints([f"{tmp_path}/link/model-1"])
        await model.saver.save(session, tmp_path / "runs" / "model", 2)
    assert entries(tmp_path / "runs") == ["model-2"]


async def test_a_draft_of_another_process_is_swept_when_nothing_was_written_in_it_for_an_hour(tmp_path, monkeypatch):
    model, hidden = Model(), [".model-7.other.draft"]
    Draft(tmp_path / "model-7", "other").write_shard(0, 1, {"a": np.zeros(2)})
    async with model.session() as session:
        await session.run(model.init)
        await model.saver.save(session, tmp_path / "model", 1)
        assert entries(tmp_path) == [*hidden, "model-1"]
        await model.saver.save(session, tmp_path / "best", 1)
        later = time.time() + 3660
        monkeypatch.setattr(time, "time", lambda: later)
        await model.saver.save(session, tmp_path / "best", 2)
        assert entries(tmp_path) == [*hidden, "best-1", "best-2", "model-1"]
        await model.saver.save(session, tmp_path / "model", 2)
    assert entries(tmp_path) == ["best-1", "best-2", "model-1", "model-2"]


async def test_a_restart_deletes_neither_what_is_to_stay_for_ever_nor_what_others_have_saved(tmp_path, monkeypatch):
    async def train(seconds, **options):
        model = Model(**options)
        with model.graph.as_default():
            best, manager = af.train.Saver(max_to_keep=0, name="best"), af.train.SessionManager()
        async with await manager.prepare_session("", model.init, model.saver, tmp_path) as session:
            for _ in range(6):
                await session.run(model.train)
                now[0] += seconds
                await model.saver.save(session, tmp_path / "model", model.steps)
            await best.save(session, tmp_path / "best", model.steps)

    now = [time.time()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    await train(1200, max_to_keep=2, keep_checkpoint_every_n_hours=1)
    assert entries(tmp_path) == ["best-6", "model-4", "model-5", "model-6"]
    now[0] += 3600
    await train(1, max_to_keep=3)
    assert entries(tmp_path) == ["best-12", "best-6", "model-10", "model-11", "model-12", "model-4"]


@pytest.mark.parametrize(("pad", "name"), [(False, "model-7"), (True, "model-00000007")])
@pytest.mark.parametrize("step", [7, np.int64(7)], ids=repr)
async def test_a_step_is_the_end_of_the_path(tmp_path, pad, name, step):
    model = Model(pad_step_number=pad)
    async with model.session() as session:
        await session.run(model.init)
        assert await model.saver.save(session, os.fsencode(tmp_path / "model"), step) == str(tmp_path / name)


def test_checkpoints_are_read_without_a_graph(tmp_path):
    model = Model()

    async def save():
        async with model.session() as session:
            await session.run(model.init)
            await model.saver.save(session, tmp_path / "model", 1)

    asyncio.run(save())
    for place in (tmp_path, tmp_path / "model-1"):
        reader = af.train.load_checkpoint(place)
        assert reader.get_variable_to_shape_map() == {"weights": [3, 2], "global_step": []}
        assert reader.get_variable_to_dtype_map() == {"weights": af.float32, "global_step": af.int64}
        assert reader.has_tensor("weights")
        assert not reader.has_tensor("other")
        assert af.train.load_variable(place, "global_step:0") == 0
    with pytest.raises(af.errors.NotFoundError):
        reader.get_tensor("other")
    with pytest.raises(af.errors.NotFoundError):
        af.train.load_checkpoint(tmp_path / "elsewhere")


# What makes no Saver


def test_a_saver_refuses_what_it_cannot_save():
    with af.Graph().as_default():
        with pytest.raises(ValueError, match="no variables"):
            af.train.Saver()
        one, table, row = af.Variable(1.0), af.Variable(np.zeros((2, 2))), af.Variable(np.zeros((1, 3)))
        for wanted, kind, text in [
            ([], ValueError, "no variables"),
            ([af.constant(1.0)], TypeError, "a Saver saves variables"),
            ([one, one], ValueError, "two variables"),
            ({"": one}, TypeError, "names"),
            ({"x": 1.0}, TypeError, "a Saver saves variables"),
            ({"x": []}, ValueError, "rows"),
            ({"x": [one]}, ValueError, "rows"),
            ({"x": [table, row]}, ValueError, "rows"),
        ]:
            with pytest.raises(kind, match=text):
                af.train.Saver(wanted)
        for options, text in [
            ({"mode": "exact"}, "mode"),
            ({"max_in_flight": 0}, "max_in_flight"),
            ({"max_to_keep": -1}, "max_to_keep"),
            ({"keep_checkpoint_every_n_hours": 0}, "keep_checkpoint_every_n_hours"),
        ]:
            with pytest.raises(ValueError, match=text):
                af.train.Saver([one], **options)


async def test_a_path_is_needed(tmp_path):
    model = Model()
    async with model.session() as session:
        await session.run(model.init)
        with pytest.raises(ValueError, match="path"):
            await model.saver.save(session, "")


async def test_a_missing_tensor_and_no_path_are_errors_of_their_own(tmp_path):
    with af.Graph().as_default() as graph:
        v, w = af.Variable(1.0, name="v"), af.Variable([1.0], name="w")
        part, whole, other = af.train.Saver([v]), af.train.Saver([v, w]), af.train.Saver({"v": w})
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        path = await part.save(session, tmp_path / "model")
        with pytest.raises(af.errors.NotFoundError, match="none was restored: 'w' is missing"):
            await whole.restore(session, path)
        with pytest.raises(af.errors.InvalidArgumentError, match="'v' has the shape"):
            await other.restore(session, path)
        whole.set_last_checkpoints([path])
        assert whole.last_checkpoints == [path]
        with pytest.raises(ValueError, match="latest_checkpoint has found no checkpoint"):
            await whole.restore(session, None)
