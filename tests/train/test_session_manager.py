"""Sessions made ready: from which checkpoint, and what keeps its values."""

import logging
import os

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.train.session_creator import FailedRuns


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


# Damaged checkpoints


async def saved(folder, count):
    """A counter, and checkpoints of the steps up to so many, each of another time."""
    step = af.train.get_or_create_global_step()
    train, saver = step.assign_add(1).op, af.train.Saver()
    async with af.Session() as session:
        await session.run(step.initializer)
        paths = []
        for _ in range(count):
            await session.run(train)
            paths.append(await saver.save(session, folder / "model.ckpt", step))
    return step, train, paths


def damage(path):
    file = os.path.join(path, "model-00001-of-00001.safetensors")
    with open(file, "r+b") as opened:
        opened.seek(-1, os.SEEK_END)
        last = opened.read(1)[0]
        opened.seek(-1, os.SEEK_END)
        opened.write(bytes([last ^ 1]))


@pytest.mark.parametrize("restore", ["all", "lost"])
async def test_training_goes_on_from_the_newest_checkpoint_that_is_not_damaged(tmp_path, caplog, restore):
    step, train, paths = await saved(tmp_path, 4)
    damage(paths[3])
    damage(paths[2])
    with caplog.at_level(logging.ERROR):
        async with af.train.MonitoredTrainingSession(checkpoint_dir=tmp_path, restore=restore) as session:
            assert await session.run(step) == 2
            await session.run(train)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert all(f"checkpoint {path} is damaged" in line for path, line in zip(paths[3:1:-1], told, strict=True))
    async with af.train.MonitoredTrainingSession(checkpoint_dir=tmp_path) as session:
        assert await session.run(step) == 3, "what was saved since is newer than what is damaged"


async def test_what_a_parameter_server_lost_is_restored_from_an_older_checkpoint_if_the_newest_is_damaged(tmp_path):
    step, _, paths = await saved(tmp_path, 2)
    af.Variable(0, name="kept", collections=[af.GraphKeys.LOCAL_VARIABLES])
    damage(paths[1])
    creator = af.train.ChiefSessionCreator(af.train.Scaffold(), checkpoint_dir=tmp_path, restore="lost")
    creator.finalize()
    async with af.Session() as session:
        await session.run(af.get_default_graph().get_collection(af.GraphKeys.LOCAL_VARIABLES)[0].initializer)
        assert await creator.repair_session(session, FailedRuns()) is session
        assert await session.run(step) == 1
    assert creator.prepared.checkpoint == paths[0]


async def test_if_all_checkpoints_are_damaged_the_error_is_that_of_the_newest(tmp_path):
    step, _, paths = await saved(tmp_path, 2)
    for path in paths:
        damage(path)
    with pytest.raises(errors.DataLossError, match="damaged"):
        async with af.train.MonitoredTrainingSession(checkpoint_dir=tmp_path):
            pass
    creator = af.train.ChiefSessionCreator(checkpoint_filename_with_path=paths[1])
    with pytest.raises(errors.DataLossError, match="damaged"):
        async with af.train.MonitoredSession(creator):
            pass
    assert step.op.name == "global_step"


# What is waited for


async def test_what_a_worker_waits_for_is_named_when_its_time_is_over():
    never = af.FIFOQueue(1, [af.string]).dequeue(name="never")
    creator = af.train.WorkerSessionCreator(af.train.Scaffold(ready_op=never), max_wait_secs=30)
    with pytest.raises(errors.DeadlineExceededError, match="'never'"):
        async with af.train.MonitoredSession(creator):
            pass


# Local variables


def added_up(ready_op=None):
    """What is added up in a local variable, by runs of which one loses a peer; and a session of a chief."""
    total = af.Variable(0, collections=[af.GraphKeys.LOCAL_VARIABLES], name="added_up")
    lost = iter([False, False, True, *[False] * 9])

    def run():
        if next(lost):
            raise errors.UnavailableError("gone")
        return np.int32(1)

    add = total.assign_add(af.py_func(run, [], af.int32, stateful=True))
    scaffold = af.train.Scaffold(ready_op=None if ready_op is None else ready_op(total))
    return total, add, scaffold


@pytest.mark.parametrize("is_chief", [True, False])
async def test_what_local_variables_hold_stays_after_a_loss_that_was_not_theirs(is_chief):
    total, add, scaffold = added_up()
    async with af.train.MonitoredTrainingSession(scaffold=scaffold, is_chief=is_chief, restore="lost") as session:
        assert [await session.run(add) for _ in range(4)] == [1, 2, 3, 4]
        assert len(session.recoveries) == 1
    async with af.train.MonitoredTrainingSession(scaffold=scaffold, is_chief=is_chief, restore="lost") as session:
        assert await session.run(total) == 0, "another training begins anew"


async def test_local_variables_begin_anew_with_all_others_or_if_nobody_knows_whether_they_have_values():
    _, add, _ = added_up()
    async with af.train.MonitoredTrainingSession(restore="all") as session:
        assert [await session.run(add) for _ in range(4)] == [1, 2, 1, 2]
    with af.Graph().as_default():
        _, add, scaffold = added_up(lambda total: af.report_uninitialized_variables([]))
        async with af.train.MonitoredTrainingSession(scaffold=scaffold, restore="lost") as session:
            assert [await session.run(add) for _ in range(4)] == [1, 2, 1, 2]


async def test_the_gradients_added_up_before_a_loss_count():
    weights, x = af.Variable(np.zeros(1, np.float32), name="weights"), af.placeholder(af.float32, [1])
    opt = af.train.GradientAccumulationOptimizer(af.train.GradientDescentOptimizer(1.0))
    train = opt.apply_gradients([(x, weights)])
    _, add, _ = added_up()
    async with af.train.MonitoredTrainingSession(restore="lost") as session:
        await session.run(opt.accumulate_op, {x: [1]})
        await session.run(opt.accumulate_op, {x: [2]})
        for _ in range(3):
            await session.run(add)
        await session.run(train, {x: [30]})
        assert await session.run(weights) == [-11]
        assert len(session.recoveries) == 1
