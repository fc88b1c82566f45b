"""How many bytes of a checkpoint are written, read or imported."""

import asyncio
import io

import numpy as np
import pytest

import aioflow as af
from aioflow.checkpoint import Checkpoint, Draft
from aioflow.checkpoint.records import BLOCK
from aioflow.files.byte_count import ByteCount

SIZES = [3 << 20, 1 << 16]
"""Elements of the variables: the first has several blocks."""
BYTES = 4 * sum(SIZES)


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        for number, size in enumerate(SIZES):
            af.get_variable(f"v{number}", [size], initializer=af.ones_initializer())
    return graph


class Told:
    """What a function of progress was told."""

    def __init__(self):
        self.calls = []

    def __call__(self, done, total):
        self.calls.append((done, total))

    def check(self, least, most):
        """The counts grow to the number of all bytes, which lies within bounds."""
        done = [each for each, _ in self.calls]
        assert done == sorted(done)
        assert done[-1] == self.calls[-1][1]
        assert least <= done[-1] <= most
        self.calls.clear()


@pytest.mark.real
@pytest.mark.parametrize("mode", ["consistent", "uncoordinated"])
async def test_a_checkpoint_tells_how_many_bytes_are_written_and_read(graph, tmp_path, mode):
    with graph.as_default():
        saver, init = af.train.Saver(mode=mode), af.global_variables_initializer()
    told = Told()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        path = await saver.save(session, tmp_path / "model", progress=told)
        told.check(BYTES, BYTES + 1000)  # the header of the file is written, too
        await saver.restore(session, path, progress=told)
        told.check(BYTES, BYTES)
        await saver.restore(session, path, variables=saver.variables[1:], progress=told)
        told.check(4 * SIZES[1], 4 * SIZES[1])
        await saver.import_safetensors(session, path, progress=told)
        told.check(BYTES, BYTES)
        await af.porting.import_weights(session, path, progress=told)
        told.check(BYTES, BYTES)
        await af.porting.import_weights(
            session, {"v1": np.zeros(SIZES[1], np.float32)}, allow_missing=True, progress=told
        )
        told.check(4 * SIZES[1], 4 * SIZES[1])
        await saver.restore(session, path)
        assert told.calls == []


def test_each_part_of_a_file_is_told(tmp_path):
    calls, size = [], 9 * BLOCK
    draft = Draft(tmp_path / "model", "token", count=ByteCount(lambda *counts: calls.append(counts)))
    shard = draft.write_shard(0, 1, {"a": np.ones(size, np.uint8)})
    header = shard.size - size
    assert calls == [(header + done * BLOCK, shard.size) for done in (0, 4, 8, 9)]
    draft.commit([shard], {})
    found, told = Checkpoint.open(tmp_path / "model"), []
    found.count = ByteCount(lambda *counts: told.append(counts))
    found.read("a", [1], [size - 1])
    assert len(told) == 9
    assert told[-1] == (size - 1, 0)


@pytest.mark.real
async def test_a_save_goes_on_when_its_progress_cannot_be_told(graph, tmp_path):
    with graph.as_default():
        saver, init = af.train.Saver(), af.global_variables_initializer()
    calls, heard = [], []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(str(context["exception"])))

    def fail(done, total):
        calls.append(done)
        raise RuntimeError("nobody listens")

    async with af.Session(graph=graph) as session:
        await session.run(init)
        path = await saver.save(session, tmp_path / "model", progress=fail)
    assert af.train.load_variable(path, "v1").shape == (SIZES[1],)
    assert len(calls) == 1
    assert heard == ["nobody listens"]


@pytest.mark.real
@pytest.mark.parametrize("progress", [True, asyncio.sleep])
async def test_a_progress_that_is_no_plain_function_is_refused_before_anything_is_written(graph, tmp_path, progress):
    with graph.as_default():
        af.Variable(1.0)
        init, saver = af.global_variables_initializer(), af.train.Saver()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        with pytest.raises(TypeError, match="progress is a plain function"):
            await saver.save(session, tmp_path / "model", progress=progress)
    assert not [*tmp_path.iterdir()]


async def test_weights_of_a_model_are_told_and_shown_as_sizes(tmp_path):
    with af.Graph().as_default():
        model, shown = af.Sequential([af.layers.Input([1024]), af.layers.Dense(512)]), io.StringIO()
        async with model:
            with af.train.Progress(unit="byte", stream=shown, every=0.0, clock=lambda: 0.0) as progress:
                path = await model.save_weights(str(tmp_path / "model"), progress=progress)
                await model.load_weights(path, progress=progress)
    assert shown.getvalue().splitlines()[-1] == "2 MiB of 2 MiB"
