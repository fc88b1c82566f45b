"""Empty lists among the arguments of an op: graph/empty_lists.py."""

import pytest

import aioflow as af
from aioflow.kernels.array.select import select


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    ("build", "dtypes"),  # of TensorFlow
    [
        (lambda: af.reduce_any([]), [af.bool]),
        (lambda: af.logical_and([], []), [af.bool, af.bool]),
        (lambda: af.logical_not([[], []]), [af.bool]),
        (lambda: af.string_join([[], []]), [af.string, af.string]),
        (lambda: af.string_join([[], "a"]), [af.string, af.string]),
        (lambda: af.strings.lower(()), [af.string]),
        (lambda: af.decode_raw([], af.int32), [af.string]),
        (lambda: af.strings.to_number([]), [af.string]),
        (lambda: select([], [], []), [af.bool, af.float32, af.float32]),
        (lambda: af.as_string([]), [af.float32]),
        (lambda: af.add([], []), [af.float32, af.float32]),
    ],
)
def test_an_empty_list_has_the_only_dtype_that_the_op_has(graph, build, dtypes):
    made = build().op
    assert [tensor.dtype for tensor in made.inputs] == dtypes
    assert len(graph.get_operations()) == len(made.inputs) + 1


async def test_empty_lists_are_computed(graph):
    async with af.Session(graph=graph) as session:
        found = await session.run([af.reduce_all([]), af.strings.length([[], []])])
    assert (bool(found[0]), found[1].shape) == (True, (2, 0))


@pytest.mark.parametrize(
    "build",
    [
        lambda: af.bitwise.bitwise_and([], []),
        lambda: af.logical_and([], [1.0]),
        lambda: af.logical_not([1.0]),
        lambda: af.strings.lower(af.constant([])),
    ],
)
def test_other_dtypes_are_refused_as_before(graph, build):
    with pytest.raises(TypeError, match="dtype float32 is not supported"):
        build()
