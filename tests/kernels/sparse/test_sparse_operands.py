"""Ops of dense tensors that take a sparse one: those that are 0 at 0, and those of shapes."""

import numpy as np
import pytest

import aioflow as af


async def test_ops_that_are_0_at_0_and_ops_of_shapes_take_a_sparse_tensor():
    with af.Graph().as_default() as graph:
        sparse = af.SparseTensor([[0, 1], [1, 2]], af.constant([4.0, -9.0]), [2, 3])
        kept = [af.identity(sparse), af.abs(sparse, name="far"), af.negative(af.negative(sparse)), af.square(sparse)]
        made = [*kept, af.sign(sparse), af.sqrt(af.abs(sparse)), af.tanh(sparse), af.cast(sparse, af.int32)]
        sizes = [af.shape(sparse, out_type=af.int64), af.size(sparse), af.rank(sparse)]
    assert all(isinstance(each, af.SparseTensor) and each.shape == [2, 3] for each in made)
    assert made[1].op.name == "far/abs"
    async with af.Session(graph=graph) as session:
        found, shapes = await session.run([made, sizes])
    wanted = [[4, -9], [4, 9], [4, -9], [16, 81], [1, -1], [2, 3], np.tanh([4.0, -9]), [4, -9]]
    for one, values in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.values, values, rtol=1e-6)
        assert one.indices.tolist() == [[0, 1], [1, 2]]
    assert found[-1].values.dtype == np.int32
    assert shapes[0].tolist() == [2, 3]
    assert shapes[1:] == [6, 2]
    with graph.as_default(), pytest.raises(TypeError, match=r"exp: argument 'x': .*use af.sparse_tensor_to_dense"):
        af.exp(sparse)


async def test_a_sparse_loop_variable_may_change_its_number_of_elements():
    with af.Graph().as_default() as graph:
        first = af.SparseTensor([[0]], [1.0], [9])

        def longer(i, x):
            place = af.reshape(af.cast(i, af.int64) + 1, [1, 1])
            return i + 1, af.SparseTensor(af.concat([x.indices, place], 0), af.concat([x.values, [2.0]], 0), [9])

        _, last = af.while_loop(lambda i, x: i < 3, longer, [0, first])
    assert last.indices.shape == [None, 1]
    async with af.Session(graph=graph) as session:
        found = await session.run(last)
    assert found.indices.tolist() == [[0], [1], [2], [3]]
    assert found.values.tolist() == [1, 2, 2, 2]
