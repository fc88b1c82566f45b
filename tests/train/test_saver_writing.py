"""Checkpoints that are written while training goes on, and those that cannot be."""

import asyncio
import errno
import logging
import os

import pytest

import aioflow as af
from aioflow.checkpoint.storage import LocalStorage
from aioflow.testing import Gate, faulty_kernel
from tests.support.saver_model import Model, entries, saved_step

# While training goes on


async def test_what_is_written_are_the_values_at_the_moment_when_saving_began(tmp_path):
    model, gate = Model(), Gate()
    with faulty_kernel("save_shard", gate=gate):
        async with model.session() as session:
            await session.run(model.init)
            await session.run(model.train)
            writing = await model.saver.save_async(session, tmp_path / "model", model.steps)
            await gate.arrived()
            for _ in range(3):
                await session.run(model.train)
            assert not writing.done()
            gate.open()
            assert saved_step(await writing) == 1
            assert await model.at(session) == 4


async def test_no_more_checkpoints_are_written_at_a_time_than_may_be(tmp_path):
    model, gate = Model(max_in_flight=2, max_to_keep=None), Gate()
    with faulty_kernel("save_shard", gate=gate):
        async with model.session() as session, model.saver:
            await session.run(model.init)
            for number in range(2):
                await model.saver.save_async(session, tmp_path / "model", number)
            third = asyncio.create_task(model.saver.save_async(session, tmp_path / "model", 2))
            await gate.arrived(2)
            await session.run(model.train)
            assert not third.done()
            assert gate.entered == 2
            gate.open()
            assert saved_step(await (await third)) == 1
    assert entries(tmp_path) == ["model-0", "model-1", "model-2"]


async def test_cancelling_a_save_leaves_the_older_checkpoint_as_it_was(tmp_path):
    model, gate = Model(), Gate()
    async with model.session() as session:
        await session.run(model.init)
        path = await model.saver.save(session, tmp_path / "model")
    with faulty_kernel("commit_checkpoint", gate=gate):
        async with model.session() as session:
            await model.saver.restore(session, path)
            await session.run(model.train)
            saving = asyncio.create_task(model.saver.save(session, tmp_path / "model"))
            await gate.arrived()
            saving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await saving
            await model.saver.finish()
    assert saved_step(path) == 0
    async with model.session() as session:
        await model.saver.restore(session, path)
        await model.saver.save(session, tmp_path / "other")
        await af.train.Saver([model.weights]).save(session, tmp_path / "third")
    assert entries(tmp_path) == ["model", "other", "third"]


# When writing fails


@pytest.fixture
def full_disk(monkeypatch):
    """The disk is full as long as the list is not empty."""
    full = [True]
    write = LocalStorage.write

    def refuse(self, name, parts):
        if full:
            raise af.errors.ResourceExhaustedError(f"{name}: {os.strerror(errno.ENOSPC)}")
        write(self, name, parts)

    monkeypatch.setattr(LocalStorage, "write", refuse)
    return full


async def test_a_full_disk_is_reported_at_once_and_after_the_run_and_training_goes_on(tmp_path, full_disk, caplog):
    told, heard = [], asyncio.Event()

    def hear(path, error):
        told.append((path, type(error)))
        heard.set()

    model = Model(on_failure=hear)
    async with model.session() as session:
        full_disk.clear()
        await session.run(model.init)
        path = await model.saver.save(session, tmp_path / "model", 0)
        full_disk.append(True)
        await session.run(model.train)
        with caplog.at_level(logging.ERROR, "aioflow.train"):
            writing = await model.saver.save_async(session, tmp_path / "model", 1)
            await session.run(model.train)
            await heard.wait()
            assert writing.done()
        assert told == [(str(tmp_path / "model-1"), af.errors.ResourceExhaustedError)]
        assert "No space left" in caplog.text
        assert await model.at(session) == 2
        with pytest.raises(af.errors.ResourceExhaustedError, match="No space left"):
            await model.saver.finish()
        await model.saver.finish()
        assert entries(tmp_path) == ["model-0"]
        full_disk.clear()
        await model.saver.save(session, tmp_path / "model", 2)
    assert saved_step(path) == 0
    assert model.saver.last_checkpoints == [path, str(tmp_path / "model-2")]


async def test_whoever_awaits_a_save_hears_alone_that_it_failed(tmp_path, full_disk, caplog):
    model = Model()
    async with model.session() as session:
        await session.run(model.init)
        with pytest.raises(af.errors.ResourceExhaustedError), caplog.at_level(logging.ERROR):
            await model.saver.save(session, tmp_path / "model")
        await model.saver.finish()
    assert not caplog.records


async def test_a_save_that_is_given_up_before_it_has_begun_to_wait_leaves_no_checkpoint(tmp_path):
    model, gate = Model(), Gate()
    with faulty_kernel("save_shard", gate=gate):
        async with model.session() as session:
            await session.run(model.init)
            writing = await model.saver.save_async(session, tmp_path / "model")
            await writing.cancel()
            gate.open()
            with pytest.raises(asyncio.CancelledError):
                await writing
            await model.saver.finish()
            await session.run(model.train)
    assert entries(tmp_path) == []


async def test_a_block_that_fails_gives_up_what_it_was_saving(tmp_path):
    model, gate = Model(), Gate()
    with faulty_kernel("save_shard", gate=gate):
        async with model.session() as session:
            await session.run(model.init)

            async def fail():
                async with model.saver:
                    await model.saver.save_async(session, tmp_path / "model")
                    raise KeyError

            with pytest.raises(KeyError):
                await fail()
    assert entries(tmp_path) == []


async def test_a_variable_without_a_value_is_not_saved(tmp_path):
    model = Model()
    async with model.session() as session:
        with pytest.raises(af.errors.FailedPreconditionError, match="not initialized"):
            await model.saver.save(session, tmp_path / "model")
        await model.saver.finish()
    assert entries(tmp_path) == []


async def test_a_session_that_is_closed_ends_what_it_was_writing(tmp_path):
    model, gate = Model(), Gate()
    with faulty_kernel("save_shard", gate=gate):
        async with model.session() as session:
            await session.run(model.init)
            writing = await model.saver.save_async(session, tmp_path / "model")
            await gate.arrived()
        with pytest.raises(af.errors.CancelledError):
            await writing
    assert entries(tmp_path) == []
