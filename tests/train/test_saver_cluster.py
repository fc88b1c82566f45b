"""Saving and restoring variables that are on several tasks, some of which are lost on the way."""

import asyncio
import functools
import os
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest

import aioflow as af
from aioflow.checkpoint import list_checkpoints
from aioflow.testing import Chaos, Gate, cluster, faulty_kernel
from aioflow.train.savable import SavedVariable
from aioflow.train.saving import grouped
from tests.support.cluster_runs import every_fourth_seed, failed, new_graph, survives

SPEC = {"ps": 2, "worker": 1}
WEATHER = Chaos(seconds=5.0, lasting=(0.05, 5.0))


def training():
    """Two variables on two tasks that are both equal to the number of steps, and slots beside them."""
    with new_graph() as graph:
        with af.device("/job:ps/task:0"):
            first = af.Variable(np.zeros(4, np.float32), name="first")
            steps = af.train.create_global_step()
        with af.device("/job:ps/task:1"):
            second = af.Variable(np.zeros((2, 3), np.float32), name="second")
        updates = [first.assign_add(np.ones(4, np.float32)), second.assign_add(np.ones((2, 3), np.float32))]
        train = af.group(*updates, steps.assign_add(1))
        init = af.global_variables_initializer()
    return SimpleNamespace(graph=graph, first=first, second=second, steps=steps, train=train, init=init)


def saver_of(model, **options):
    with model.graph.as_default():
        return af.train.Saver([model.first, model.second, model.steps], **options)


async def at(session, model):
    """The step that both variables are at."""
    first, second, steps = await session.run([model.first, model.second, model.steps])
    assert np.all(first == steps)
    assert np.all(second == steps)
    return int(steps)


def simulated(folder, **options):
    return cluster(SPEC, 0, config=af.Config(file_roots=[folder]), **options)


def loads(checkpoint):
    """The step of a checkpoint, which is of one moment."""
    steps = checkpoint.read("global_step")
    assert all(np.all(checkpoint.read(name) == steps) for name in ("first", "second"))
    return int(steps)


async def test_each_task_writes_what_it_has_in_a_file_of_its_own(tmp_path):
    model = training()
    saver, together = saver_of(model), saver_of(model, sharded=False)
    async with simulated(tmp_path) as hosts, af.Session(hosts.target("worker", 0), graph=model.graph) as session:
        await session.run(model.init)
        path = await saver.save(session, tmp_path / "model", model.steps)
        await session.run(model.train)
        one = await together.save(session, tmp_path / "together")
        await saver.restore(session, path)
        assert await at(session, model) == 0
        await saver.restore(session, one)
        assert await at(session, model) == 1
        assert await saver.latest_checkpoint(session, tmp_path) == one
    found = {checkpoint.path: checkpoint for checkpoint in list_checkpoints(tmp_path)}
    assert files_of(found[path]) == {"first": 1, "global_step": 1, "second": 2}
    assert files_of(found[one]) == {"first": 1, "global_step": 1, "second": 1}


def files_of(checkpoint):
    """In which file each tensor is."""
    return {name: int(stored.pieces[0][0][6:11]) for name, stored in checkpoint.tensors.items()}


def test_slots_are_saved_where_their_variables_are():
    with af.Graph().as_default():
        with af.device("/job:ps/task:1/device:GPU:0"):
            weights = af.Variable([1.0], name="weights")
        slot = af.Variable([1.0], name="elsewhere")
        af.train.MomentumOptimizer(0.1, 0.9).minimize(af.reduce_sum(weights * slot), var_list=[weights])
        saved = [SavedVariable(variable.op.name, variable) for variable in af.global_variables()]
        found = {group.device: [each.name for each in group.members] for group in grouped(saved, sharded=True)}
    assert found == {"": ["elsewhere"], "/job:ps/task:1/device:CPU:0": ["weights", "weights/Momentum"]}


async def test_all_tasks_write_what_they_had_when_saving_began_while_training_goes_on(tmp_path):
    model, gate = training(), Gate()
    saver = saver_of(model)
    with faulty_kernel("save_shard", gate=gate):
        async with simulated(tmp_path) as hosts, af.Session(hosts.target("worker", 0), graph=model.graph) as session:
            await session.run(model.init)
            await session.run(model.train)
            writing = await saver.save_async(session, tmp_path / "model")
            await gate.arrived(2)
            await session.run(model.train)
            gate.open()
            await writing
            assert await at(session, model) == 2
    assert list(map(loads, list_checkpoints(tmp_path))) == [1]


async def test_nothing_is_written_outside_of_the_file_roots_of_a_task(tmp_path):
    model = training()
    saver, allowed = saver_of(model), tmp_path / "allowed"
    allowed.mkdir()
    async with simulated(allowed) as hosts, af.Session(hosts.target("worker", 0), graph=model.graph) as session:
        await session.run(model.init)
        for path in (tmp_path / "model", allowed / ".." / "model"):
            with pytest.raises(af.errors.PermissionDeniedError, match="may not be used"):
                await saver.save(session, path)
            with pytest.raises(af.errors.PermissionDeniedError):
                await saver.restore(session, path)
            with pytest.raises(af.errors.PermissionDeniedError):
                await saver.latest_checkpoint(session, path)
        assert await at(session, model) == 0
    assert os.listdir(tmp_path) == ["allowed"]
    assert os.listdir(allowed) == []


async def test_a_task_that_was_started_anew_gets_back_what_it_had(tmp_path):
    model = training()
    saver = saver_of(model)
    async with simulated(tmp_path) as hosts, af.Session(hosts.target("worker", 0), graph=model.graph) as session:
        await session.run(model.init)
        await session.run(model.train)
        path = await saver.save(session, tmp_path / "model")
        await hosts.crash("ps", 1)
        await hosts.start("ps", 1)
        with pytest.raises(af.errors.AbortedError, match="/job:ps/replica:0/task:1 has restarted"):
            await session.run(model.second)
        await saver.restore(session, path, variables=[model.second])
        assert await at(session, model) == 1


# Whatever happens


@functools.cache
def last_three():
    model = training()
    return model, saver_of(model, max_to_keep=3)


async def saves(run):
    """Whatever is found is whole and of one moment, and a save that gave a path is among it."""
    model, saver = last_three()
    saver.set_last_checkpoints_with_time([])
    with tempfile.TemporaryDirectory() as folder:
        async with run.session(model.graph) as session:
            last, ready = None, False
            for _ in range(4):
                ready = ready or await restored(run, session, model, saver, folder)
                ready = ready and not failed(await run.step(session, model.train, limit=2.0))
                if ready:
                    number = run.random.randint(0, 99)
                    last = await saved(run, saver, session, os.path.join(folder, "model"), number) or last
                await run.at_random(0.5)
            await run.calm()
            found = {checkpoint.path: checkpoint for checkpoint in list_checkpoints(folder)}
            assert last is None or last in found
            for checkpoint in found.values():
                loads(checkpoint)
            for _ in range(3):
                if await restored(run, session, model, saver, folder):
                    break
            await at(session, model)
            last = await saver.save(session, os.path.join(folder, "last"))
            found = {checkpoint.path: checkpoint for checkpoint in list_checkpoints(folder)}
        assert last in found
        assert set(os.listdir(folder)) == {"checkpoint", *map(os.path.basename, found)}


async def restored(run, session, model, saver, folder):
    """Whether the variables were initialized or restored."""
    limit = af.RunOptions(timeout=2.0)
    try:
        path = await saver.latest_checkpoint(session, folder)
        await (session.run(model.init, options=limit) if path is None else saver.restore(session, path, limit))
    except af.errors.OpError:
        return False
    return True


async def saved(run, saver, session, path, number):
    """The path of a checkpoint that was saved while steps went on; None if that failed."""
    try:
        async with asyncio.timeout(run.random.choice([0.01, 5.0])):
            return await saver.save(session, path, number, af.RunOptions(timeout=2.0))
    except (af.errors.OpError, TimeoutError):
        return None


@every_fourth_seed
def test_whatever_happens_to_tasks_no_checkpoint_is_left_that_loads_wrongly(seeds, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)  # the machine goes on when its tasks crash
    survives(seeds, saves, spec=SPEC, chaos=WEATHER, config=af.Config(file_roots=[tempfile.gettempdir()]))
