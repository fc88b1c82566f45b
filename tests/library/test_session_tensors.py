"""Tensors that stay in a session between its runs."""

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import cluster


async def test_a_tensor_stays_until_it_is_deleted():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2])
        keep, text = af.get_session_handle(x * 2), af.get_session_handle(af.constant(["a", "b"]))
    async with af.Session(graph=graph) as session:
        first = await session.run(keep, {x: [1.0, 2.0]})
        second, words = await session.run([keep, text], {x: [3.0, 4.0]})
        assert first.handle != second.handle
        assert first.dtype is af.float32
        with graph.as_default():
            holder, tensor = af.get_session_tensor(first, af.float32)
            total = af.reduce_sum(tensor)
            named, deleter = af.delete_session_tensor(second.handle)
        assert [await session.run(total, {holder: each.handle}) for each in (first, second)] == [6.0, 14.0]
        before = graph.version
        assert (await words.eval()).tolist() == [b"a", b"b"]
        value = await first.eval()
        value[:] = 0  # the caller's own
        assert (await first.eval()).tolist() == [2.0, 4.0]
        assert graph.version == before + 4  # a placeholder and a read for each dtype, built once
        await session.run(deleter, {named: second.handle})
        for again in (deleter, total):
            with pytest.raises(errors.NotFoundError, match=r"no tensor of handle 'float32;.*deleted"):
                await session.run(again, {named: second.handle, holder: second.handle})
        with graph.as_default():
            _, wrong = wrong_holder, _ = af.get_session_tensor(words, af.float32)
        with pytest.raises(errors.InvalidArgumentError, match="and not float32"):
            await session.run(wrong, {wrong_holder: words.handle})
        await first.delete()
        with pytest.raises(errors.NotFoundError):
            await first.delete()


async def test_a_run_that_fails_keeps_nothing():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [])
        keep = af.get_session_handle(x)
        with af.control_dependencies([keep.op]):
            failing = af.check_numerics(x, "no number")
    async with af.Session(graph=graph) as session:
        with pytest.raises(errors.InvalidArgumentError, match="no number"):
            await session.run([keep, failing], {x: np.nan})
        handle = await session.run(keep, {x: 1.0})
        number = int(handle.handle.split(";")[1]) - 1
        lost = af.TensorHandle(f"float32;{number};{handle.handle.split(';')[2]}", af.float32)
        with pytest.raises(errors.NotFoundError):
            await lost.eval()
        assert await handle.eval() == 1.0


async def test_a_tensor_stays_on_its_task():
    with af.Graph().as_default() as graph, af.device("/job:worker/task:1"):
        keep = af.get_session_handle(af.constant(7))
    async with cluster({"worker": 2}) as simulated, af.Session(simulated.target("worker", 0), graph=graph) as session:
        handle = await session.run(keep)
        assert "/job:worker/replica:0/task:1/" in handle.handle
        assert await handle.eval() == 7
        await handle.delete()


def test_what_is_no_handle_is_refused():
    with af.Graph().as_default():
        for bad in ("", "float32", "float32;x;/device:CPU:0", ";1;"):
            with pytest.raises(ValueError, match="is no handle of a session's tensor"):
                af.get_session_tensor(bad, af.float32)
        with pytest.raises(TypeError, match=r"what a run of af.get_session_handle returns, not 7"):
            af.delete_session_tensor(7)
        with pytest.raises(TypeError, match="no value that could stay"):
            af.get_session_handle(af.Variable(1.0).handle)
