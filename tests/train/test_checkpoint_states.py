"""The file that lists the checkpoints of a directory, managers of directories, and evaluations beside a training."""

import asyncio
import os
from pathlib import Path

import pytest

import aioflow as af
from aioflow import errors

t = af.train


@pytest.fixture
async def session():
    with af.Graph().as_default() as graph:
        af.Variable(7, name="state")
        step = t.create_global_step()
        init, grow = af.global_variables_initializer(), step.assign_add(1, name="grow")
    assert grow.op.name == "grow"
    async with af.Session(graph=graph) as session:
        with graph.as_default():
            await session.run(init)
            yield session


def test_a_state_is_written_and_read_with_paths_relative_to_its_directory(tmp_path):
    run = str(tmp_path / "run")
    assert t.get_checkpoint_state(run) is None
    t.update_checkpoint_state(run, f"{run}/m-2", [f"{run}/m-1"], "mine", [5.5, 6.5][:1], 2.0)
    assert Path(run, "mine").read_text().splitlines() == [
        f'model_checkpoint_path: "{run}/m-2"',
        f'all_model_checkpoint_paths: "{run}/m-1"', f'all_model_checkpoint_paths: "{run}/m-2"',
        "all_model_checkpoint_timestamps: 5.5", "all_model_checkpoint_timestamps: 0.0", "last_preserved_timestamp: 2.0",
    ]  # fmt: skip
    state = t.get_checkpoint_state(run, "mine")
    assert state.all_model_checkpoint_paths == [f"{run}/m-1", f"{run}/m-2"]
    assert (state.all_model_checkpoint_timestamps, state.last_preserved_timestamp) == ([5.5, 0.0], 2.0)
    assert str(t.generate_checkpoint_state_proto("run", "run/m-2")) == (
        'model_checkpoint_path: "m-2"\nall_model_checkpoint_paths: "m-2"\n'
    )
    with pytest.raises(ValueError, match="2 times were given for 1 checkpoints"):
        t.generate_checkpoint_state_proto(run, "m", ["m"], [1.0, 2.0])
    with pytest.raises(RuntimeError, match="has the name of the file"):
        t.update_checkpoint_state(run, f"{run}/checkpoint")
    for text in ("nonsense", 'model_checkpoint_path: "a', "model_checkpoint_path: a", "", b"\xff"):
        Path(run, "bad").write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ValueError, match=r"bad' (is damaged|names no)"):
            t.get_checkpoint_state(run, "bad")


async def test_the_state_of_a_saver_is_read_and_its_checkpoints_are_removed(tmp_path, session):
    saver = t.Saver(max_to_keep=2)
    paths = [await saver.save(session, tmp_path / "m", number) for number in (1, 2, 3)]
    state = t.get_checkpoint_state(tmp_path)
    assert (state.model_checkpoint_path, state.all_model_checkpoint_paths) == (paths[2], paths[1:])
    first, second = t.get_checkpoint_mtimes([paths[1], tmp_path / "missing", paths[2]])
    assert first <= second
    t.update_checkpoint_state(tmp_path, paths[1], latest_filename="older")
    assert t.latest_checkpoint(tmp_path) == paths[2]
    assert t.latest_checkpoint(tmp_path, "older") == paths[1]
    assert t.latest_checkpoint(tmp_path, "missing") is None
    saver.export_meta_graph(f"{paths[2]}.meta")
    for path in (paths[1], paths[2], paths[2]):
        t.remove_checkpoint(path)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "older"]
    assert t.latest_checkpoint(tmp_path, "older") is None


async def test_a_saver_may_be_built_later_or_have_nothing_to_save(tmp_path, session):
    with af.Graph().as_default() as graph:
        empty, later = t.Saver(allow_empty=True), t.Saver(defer_build=True)
        assert graph.version == 0
        with pytest.raises(ValueError, match="no variables to save"):
            later.build()
    assert (await empty.save(session, tmp_path / "m"), await empty.restore(session, tmp_path / "m")) == ("", None)
    assert os.listdir(tmp_path) == []
    with session.graph.as_default():
        for use in (later.save, later.restore):
            with pytest.raises(RuntimeError, match=r"build\(\) this Saver first"):
                await use(session, tmp_path / "m")
        later.build()
        before = session.graph.version
        later.build()  # has been
        assert session.graph.version == before
    await later.restore(session, await later.save(session, tmp_path / "m"))
    described = later.as_saver_def()
    assert (described.filename_tensor_name, described.sharded, described.version) == ("save/path:0", True, 2)
    assert session.graph.get_tensor_by_name(described.save_tensor_name).op.type == "commit_checkpoint"
    assert session.graph.get_operation_by_name(described.restore_op_name).name == "save/restored"


async def test_a_manager_goes_on_where_an_earlier_one_has_stopped(tmp_path, session):
    calls = []

    def made():
        return t.CheckpointManager(t.Saver(), tmp_path, 2, init_fn=lambda: calls.append("init"))

    first = made()
    assert (first.latest_checkpoint, await first.restore_or_initialize(), calls) == (None, None, ["init"])
    saved = [await first.save() for _ in range(3)]
    assert saved == [f"{tmp_path}/ckpt-{number}" for number in (1, 2, 3)]
    assert (first.checkpoints, first.latest_checkpoint) == (saved[1:], saved[2])
    second = made()
    assert (await second.restore_or_initialize(), calls) == (saved[2], ["init"])
    assert await second.save() == f"{tmp_path}/ckpt-4"
    assert await second.save(9) == f"{tmp_path}/ckpt-9"
    assert second.checkpoints == [f"{tmp_path}/ckpt-4", f"{tmp_path}/ckpt-9"]
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "ckpt-4", "ckpt-9"]


async def test_a_manager_saves_once_in_so_many_steps(tmp_path, session):
    step = t.get_global_step()
    manager = t.CheckpointManager(t.Saver(), tmp_path, None, step_counter=step, checkpoint_interval=2)
    found = []
    for _ in range(4):
        found.append(await manager.save())
        await session.run("grow")
    assert [path and path[-1] for path in found] == ["1", None, "2", None]
    assert await manager.save(check_interval=False) == f"{tmp_path}/ckpt-3"
    for build, error, text in [
        (lambda: t.CheckpointManager(7, tmp_path, 1), TypeError, r"an af\.train\.Saver or Checkpoint, not 7"),
        (lambda: t.CheckpointManager(t.Saver(), tmp_path, 0), ValueError, "max_to_keep is 1 or more"),
        (lambda: t.CheckpointManager(t.Saver(), tmp_path, 1, checkpoint_interval=2), ValueError, "a step_counter"),
    ]:
        with pytest.raises(error, match=text):
            build()


async def test_an_evaluation_gets_each_new_checkpoint_and_ends_in_time(tmp_path, session):
    saver, clock, asked = t.Saver(), asyncio.get_running_loop().time, []

    def more():
        asked.append(clock())
        return len(asked) == 2

    found = []
    async for path in t.checkpoints_iterator(tmp_path, min_interval_secs=5, timeout=10, timeout_fn=more):
        found.append((path, clock()))
        if len(found) == 1:
            await saver.save(session, tmp_path / "m", 2)
            await saver.save(session, tmp_path / "m", 3)
    assert found == []
    assert len(asked) == 2
    asked.clear()
    await saver.save(session, tmp_path / "m", 1)
    async for path in t.checkpoints_iterator(tmp_path, min_interval_secs=5, timeout=10):
        found.append((path[-1], clock()))
        if len(found) == 1:
            await saver.save(session, tmp_path / "m", 2)
            await saver.save(session, tmp_path / "m", 3)
    assert [number for number, _ in found] == ["1", "3"]
    assert 5 <= found[1][1] - found[0][1] < 7


async def test_a_looper_calls_until_the_stop_and_its_error_stops_the_others():
    clock = asyncio.get_running_loop().time
    calls = []

    class Counting(t.LooperThread):
        def start_loop(self):
            calls.append("begin")

        async def run_loop(self):
            calls.append(clock())
            if len(calls) == 4:
                self._coord.request_stop()

        def stop_loop(self):
            calls.append("end")

    async with t.Coordinator() as coord:
        looper = Counting(coord, 10)
        assert not looper.is_alive()
        looper.start()
        assert looper.is_alive()
        with pytest.raises(RuntimeError, match="was started before"):
            looper.start()
        await looper.join()
    assert [calls[0], calls[-1], calls[2] - calls[1], calls[3] - calls[2]] == ["begin", "end", 10, 10]
    with pytest.raises(errors.DataLossError, match="broken"):  # noqa: PT012
        async with t.Coordinator() as coord:
            t.LooperThread.loop(coord, None, _fail, [errors.DataLossError], {"text": "broken"})
            await coord.wait_for_stop()
    with pytest.raises(ValueError, match=r"needs an af.train.Coordinator, not 7"):
        t.LooperThread(7, 1)
    with pytest.raises(ValueError, match="those of a target"):
        t.LooperThread(coord, 1, args=[1])
    with pytest.raises(RuntimeError, match="was not started"):
        await t.LooperThread(coord, 1).join()


def _fail(kind, text):
    raise kind(text)


async def test_a_basic_loop_makes_steps_until_the_supervisor_stops(tmp_path):
    with af.Graph().as_default():
        step = t.create_global_step()
        grow = step.assign_add(1)
        supervisor = t.Supervisor(logdir=tmp_path)

    async def train(session, most, *, by):
        if await session.run(grow) >= most * by:
            supervisor.request_stop()

    await t.basic_train_loop(supervisor, train, [3], {"by": 2})
    assert t.load_variable(tmp_path, "global_step") == 6
