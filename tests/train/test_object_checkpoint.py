"""`af.train.Checkpoint` saves variables by the attributes that hold them, under TensorFlow's names."""

import numpy as np
import pytest

import aioflow as af
from aioflow import errors

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


class Model(af.Module):
    def __init__(self, value):
        super().__init__()
        self.w = af.Variable([value, value], name="anything")
        self.parts = [af.Variable(value), {"k/x.y": af.Variable(value)}]
        self.note = "text"


def objects(value):
    """A model, its optimizers, a step, a table, a layer and a partitioned variable, and an operation that trains."""
    model = Model(value)
    step = af.Variable(0, dtype=af.int64, trainable=False)
    momentum, adam = af.train.MomentumOptimizer(0.1, 0.9), af.train.AdamOptimizer(0.1)
    trains = [each.minimize(af.reduce_sum(model.w * model.w), step, [model.w]) for each in (momentum, adam)]
    layer = af.layers.Dense(2, name="dense")
    layer(af.zeros([1, 3]))
    split = af.get_variable("split", [4, 1], partitioner=af.fixed_size_partitioner(2))
    checkpoint = af.train.Checkpoint(
        model=model, step=step, opt=momentum, adam=adam, again={"model": model}, layer=layer, split=split
    )
    return checkpoint, af.group(*trains)


NAMES = [
    "adam/beta1_power", "adam/beta2_power", "layer/bias", "layer/kernel", "model/parts/0", "model/parts/1/k.Sx..y",
    "model/w", "model/w/.OPTIMIZER_SLOT/adam/m", "model/w/.OPTIMIZER_SLOT/adam/v",
    "model/w/.OPTIMIZER_SLOT/opt/momentum", "save_counter", "split", "step",
]  # fmt: skip


async def test_objects_come_back_under_the_names_of_their_attributes(tmp_path):
    with af.Graph().as_default() as graph:
        checkpoint, train = objects(2.0)
        start = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(start)
        await session.run(train)
        path = await checkpoint.save(tmp_path / "ckpt")
        assert path == str(tmp_path / "ckpt-1")
        assert await checkpoint.save(tmp_path / "ckpt") == str(tmp_path / "ckpt-2")
        saved = await session.run([checkpoint.model.w, checkpoint.step, checkpoint.layer.weights])
        await session.run(train)
        wanted = await session.run(checkpoint.model.w)
    found = [name.removesuffix(VALUE) for name, _ in af.train.list_variables(path)]
    assert set(NAMES) - {"adam/beta1_power", "adam/beta2_power"} <= set(found)
    with af.Graph().as_default() as graph:
        checkpoint, train = objects(5.0)
    async with af.Session(graph=graph) as session:
        status = (await checkpoint.restore(path)).assert_consumed().assert_nontrivial_match().expect_partial()
        assert (status.missing, status.unused) == ((), ())
        again = await session.run([checkpoint.model.w, checkpoint.step, checkpoint.layer.weights])
        for one, other in zip(saved, again, strict=True):
            np.testing.assert_equal(one, other)
        await session.run(train)
        np.testing.assert_array_equal(await session.run(checkpoint.model.w), wanted)
        assert await session.run(checkpoint.save_counter) == 1


async def test_what_does_not_match_is_told_and_initialized(graph, tmp_path):
    a, b = af.Variable(1.0), af.Variable(2.0)
    both = af.train.Checkpoint(a=a, b=b)
    async with af.Session(graph=graph) as session:
        await session.run([a.initializer, b.initializer])
        path = await both.save(tmp_path / "both")
        plain = await af.train.Checkpoint(a=a).write(tmp_path / "plain")
        await session.run(b.assign(7.0))
        status = await af.train.Checkpoint(a=a).restore(path)
        assert status.unused == (f"b{VALUE}",)
        with pytest.raises(AssertionError, match="no variable has b/"):
            status.assert_consumed()
        status = await both.read(plain)
        assert status.missing == (f"b{VALUE}",)
        with pytest.raises(AssertionError, match="the checkpoint does not have b/"):
            status.assert_existing_objects_matched()
        await status.initialize_or_restore()
        assert await session.run(b) == 2.0
        await session.run(a.assign(5.0))
        await (await both.restore(None)).initialize_or_restore(session)
        assert await session.run([a, b]) == [1.0, 2.0]
        with pytest.raises(AssertionError, match="no variable of these objects"):
            (await af.train.Checkpoint(c=af.Variable(0.0)).restore(path)).assert_nontrivial_match()
        with pytest.raises(errors.NotFoundError):
            await both.restore(tmp_path / "gone")


def test_only_objects_with_variables_are_taken(graph):
    with pytest.raises(ValueError, match="a is 3"):
        af.train.Checkpoint(a=3)


async def test_a_checkpoint_needs_a_session(graph):
    with pytest.raises(ValueError, match="no default session"):
        await af.train.Checkpoint(a=af.Variable(1.0)).save("x")
    with pytest.raises(TypeError, match=r"is saved in an af\.Session, not 3"):
        await af.train.Checkpoint(a=af.Variable(1.0)).save("x", session=3)


async def test_a_manager_keeps_the_last_checkpoints_of_objects(graph, tmp_path):
    checkpoint = af.train.Checkpoint(a=af.Variable(1.0))
    manager = af.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    async with af.Session(graph=graph) as session:
        await session.run(checkpoint.a.initializer)
        assert await manager.restore_or_initialize() is None
        paths = [await manager.save() for _ in range(2)]
        checkpoint.b = af.Variable(2.0)
        await session.run(checkpoint.b.initializer)
        paths.append(await manager.save())
        assert paths == [str(tmp_path / f"ckpt-{number}") for number in (1, 2, 3)]
        assert manager.checkpoints == paths[1:]
        assert not (tmp_path / "ckpt-1").exists()
    async with af.Session(graph=graph) as session:
        again = af.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
        assert await again.restore_or_initialize() == paths[-1]
        assert await session.run([checkpoint.b, checkpoint.save_counter]) == [2.0, 3]
        assert await again.save() == str(tmp_path / "ckpt-4")
        assert again.checkpoints == [paths[-1], str(tmp_path / "ckpt-4")]
    with pytest.raises(TypeError, match=r"manages an af\.train\.Saver or Checkpoint, not 3"):
        af.train.CheckpointManager(3, tmp_path, max_to_keep=2)
