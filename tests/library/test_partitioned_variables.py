"""Variables in parts: used, trained, stored and restored as one."""

import numpy as np
import pytest

import aioflow as af


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


WHOLE = np.arange(14, dtype=np.float32).reshape(7, 2)


async def test_a_variable_in_parts_is_used_like_one(graph):
    with af.variable_scope("s", partitioner=af.fixed_size_partitioner(3)) as scope:
        w = af.get_variable("w", initializer=WHOLE)
        scalar = af.get_variable("scalar", [])
        scope.set_partitioner(None)
        alone = af.get_variable("alone", [2])
    with af.variable_scope("s", reuse=True):
        assert list(af.get_variable("w", [7, 2], partitioner=af.fixed_size_partitioner(3))) == list(w)
    assert [(p.op.name, p.shape.as_list()) for p in w] == [
        ("s/w/part_0", [3, 2]), ("s/w/part_1", [2, 2]), ("s/w/part_2", [2, 2]),
    ]  # fmt: skip
    assert (w.name, w.shape.as_list(), w.dtype, len(w), w.partitions) == ("s/w", [7, 2], af.float32, 3, [3, 1])
    assert [type(v) for v in (scalar, alone)] == [af.Variable] * 2
    assert af.trainable_variables()[:3] == list(w)
    rows, product = af.nn.embedding_lookup(w, [0, 6, 3]), af.matmul(af.ones([1, 7]), w)
    assert [type(g) for g in af.gradients(rows, list(w))] == [af.IndexedSlices] * 3
    doubled = w.assign(2 * WHOLE)
    with pytest.raises(ValueError, match="not compatible"):
        w.assign(WHOLE[1:])
    async with af.Session(graph=graph) as session:
        await session.run(w.initializer)
        found = await session.run([w, w + 1, w[2:4], rows, product])
        expected = [WHOLE, WHOLE + 1, WHOLE[2:4], WHOLE[[0, 6, 3]], WHOLE.sum(0, keepdims=True)]
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        await session.run(doubled)
        np.testing.assert_array_equal(await session.run(w), 2 * WHOLE)


async def test_other_axes_are_cut_too_and_parts_have_the_values_of_the_whole(graph):
    parts = af.create_partitioned_variables([2, 5], [1, 2], WHOLE.ravel()[:10].reshape(2, 5), name="table")
    again = af.get_variable("w", [4, 2], partitioner=af.fixed_size_partitioner(2), initializer=af.ones_initializer)
    assert [part.op.name for part in parts] == ["table/part_0", "table/part_1"]
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        first, second, ones = await session.run([*parts, again])
    np.testing.assert_array_equal(np.hstack([first, second]), WHOLE.ravel()[:10].reshape(2, 5))
    np.testing.assert_array_equal(ones, np.ones((4, 2)))


async def test_checkpoints_hold_the_whole_with_its_slots_for_any_number_of_parts(graph, tmp_path):
    w = af.get_variable("w", initializer=WHOLE, partitioner=af.fixed_size_partitioner(3))
    train = af.train.AdamOptimizer(0.1).minimize(af.reduce_sum(w * w))
    saver, init = af.train.Saver(), af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        await session.run(train)
        path, value = await saver.save(session, tmp_path / "model"), await session.run(w)
    assert af.train.list_variables(path)[2:] == [("w", [7, 2]), ("w/Adam", [7, 2]), ("w/Adam_1", [7, 2])]
    with af.Graph().as_default() as other:
        two = af.get_variable("w", [7, 2], partitioner=af.fixed_size_partitioner(2))
        named, whole = af.train.Saver([two]), af.get_variable("whole", [7, 2])
        inside = [af.get_variable(f"{name}/w", [7, 2], partitioner=af.fixed_size_partitioner(4)) for name in ("a", "b")]
        af.train.init_from_checkpoint(path, {"w": whole, "/": "a/"})
        af.train.init_from_checkpoint(path, {"w": inside[1]})
        restored = af.train.import_meta_graph(saver.export_meta_graph(), import_scope="copy")
    async with af.Session(graph=other) as session:
        await session.run([whole.initializer, *[part.initializer for each in inside for part in each]])
        await named.restore(session, path)
        await restored.restore(session, path)
        copies = other.get_collection(af.GraphKeys.TRAINABLE_VARIABLES, "copy/")
        found = [*await session.run([two, whole, *inside]), np.vstack(await session.run(copies))]
    assert [np.array_equal(each, value) for each in found] == [True] * 5
    assert [each.part_of.begin for each in copies] == [(0, 0), (3, 0), (5, 0)]
