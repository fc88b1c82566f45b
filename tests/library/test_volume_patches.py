"""Patches of volumes: library/volume_patches.py. oracle/ops/image_parts.py compares them with TensorFlow's."""

import numpy as np
import pytest

import aioflow as af


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [[1, 1, 1, 1, 1], [1, 2, 1, 3, 1], [1, 5, 1, 1, 1]])
async def test_patches_are_the_same_when_sizes_are_open(graph, padding, strides):
    volume = np.arange(2 * 3 * 4 * 5 * 2, dtype=np.int32).reshape(2, 3, 4, 5, 2)
    opened = af.placeholder(af.int32, [None] * 5)
    closed, late = [
        af.extract_volume_patches(given, [1, 2, 2, 3, 1], strides, padding) for given in (af.constant(volume), opened)
    ]
    async with af.Session(graph=graph) as session:
        found, again = await session.run([closed, late], {opened: volume})
    assert closed.shape == found.shape
    np.testing.assert_array_equal(found, again)
    if padding == "VALID":
        np.testing.assert_array_equal(found[1, 0, 0, 0], volume[1, :2, :2, :3].ravel())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([1, 2, 2, 3], [1, 1, 1, 1, 1], "VALID"), r"ksizes are \[1, planes, rows, columns, 1\]"),
        (([1, 2, 2, 3, 1], [2, 1, 1, 1, 1], "VALID"), r"strides are \[1, planes, rows, columns, 1\]"),
        (([1, 9, 2, 3, 1], [1, 1, 1, 1, 1], "VALID"), "larger than volumes of shape"),
        (([1, 2, 2, 3, 1], [1, 1, 1, 1, 1], "FULL"), "'SAME' or 'VALID', not 'FULL'"),
    ],
)
def test_other_windows_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        af.extract_volume_patches(np.zeros([1, 3, 4, 5, 1]), *given)
