"""Sequences whose length only the run knows: fed, carried by loops, made by branches, cut, joined and mapped."""

import numpy as np
import pytest

import aioflow as af
from tests.onnx.models import graph, helper, model, node, onnx, value

ROWS = [np.array([[1, 2]], np.float32), np.array([[3, 4], [5, 6]], np.float32), np.zeros((0, 2), np.float32)]


SUM = graph([node("Add", ["a", "b"], ["c"])], [value("a"), value("b")], [value("c")])


def sequence(name, shape=None):
    """The declaration of a sequence of float32."""
    return helper.make_tensor_sequence_value_info(name, onnx.TensorProto.FLOAT, shape)


def assert_same(found, wanted):
    """Equal dtypes, shapes and elements, also of all elements of lists."""
    if isinstance(wanted, list):
        assert isinstance(found, list)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    else:
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)


async def outputs_of(data, *cases):
    """The outputs of one model for each list of inputs."""
    imported = af.onnx.load(data, af.Graph())
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        feeds = [dict(zip(imported.inputs.values(), each, strict=True)) for each in cases]
        return [list((await session.run(imported.outputs, each)).values()) for each in feeds]


async def test_fed_sequences_are_read_changed_joined_and_mapped():
    turned = graph([node("Transpose", ["a"], ["b"])], [value("a", [None, 2]), value("c", [1, 2])], [value("b")])
    data = model(
        [
            node("SequenceInsert", ["s", "t"], ["longer"]),
            node("SequenceInsert", ["longer", "t", "p"], ["more"]),
            node("SequenceErase", ["more", "p"], ["less"]),
            node("SequenceErase", ["less"], ["same"]),
            node("SequenceLength", ["more"], ["count"]),
            node("SequenceAt", ["more", "p"], ["one"]),
            node("ConcatFromSequence", ["more"], ["rows"], axis=-2),
            node("SequenceMap", ["s", "t"], ["turned"], body=turned),
            node("ConcatFromSequence", ["turned"], ["columns"], axis=1),
        ],
        [sequence("s", [None, 2]), value("t", [1, 2]), value("p", [], np.int64)],
        [sequence("more"), sequence("less"), sequence("same"), value("count", [], np.int64), value("one"),
         value("rows"), value("columns")],
    )  # fmt: skip
    t = np.array([[7, 8]], np.float32)
    cases = [(ROWS, 1), (ROWS, -1), (ROWS[:1], 0)]
    for (rows, place), found in zip(
        cases, await outputs_of(data, *[(s, t, np.int64(p)) for s, p in cases]), strict=True
    ):
        more = [*rows, t]
        more.insert(place, t)
        less = more.copy()
        del less[place]
        assert_same(found[:3], [more, less, less[:-1]])
        assert_same(found[3:], [np.int64(len(more)), more[place], np.concatenate(more), np.concatenate(rows).T])


@pytest.mark.parametrize("counts", [(1, 2), (2, 1)])
async def test_fed_sequences_of_other_lengths_are_not_mapped_together(counts):
    data = model([node("SequenceMap", ["s", "t"], ["y"], body=SUM)], [sequence("s"), sequence("t")], [sequence("y")])
    with pytest.raises(af.errors.InvalidArgumentError, match="index 1 is out of range for size 1"):
        await outputs_of(data, [ROWS[:1] * count for count in counts])


async def test_positions_that_the_run_knows_change_sequences_of_known_length():
    data = model(
        [
            node("SequenceConstruct", ["x", "x"], ["both"]),
            node("SequenceInsert", ["both", "y", "p"], ["more"]),
            node("SequenceErase", ["both", "p"], ["less"]),
            node("ConcatFromSequence", ["more"], ["stack"], axis=1, new_axis=1),
        ],
        [value("x", [2]), value("y", [2]), value("p", [1], np.int64)],
        [sequence("more"), sequence("less"), value("stack")],
    )
    x, y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    (found,) = await outputs_of(data, (x, y, np.array([-1])))
    assert_same(found, [[x, y, x], [x], np.stack([x, y, x], 1)])
    for place in (3, 1 << 32):
        with pytest.raises(af.errors.InvalidArgumentError, match=f"index {place} "):
            await outputs_of(data, (x, y, np.array([place])))


async def test_axes_are_split_into_as_many_parts_as_the_run_says():
    data = model(
        [
            node("SplitToSequence", ["x", "size"], ["even"], axis=1),
            node("SplitToSequence", ["x", "sizes"], ["parts"]),
            node("SplitToSequence", ["x"], ["rows"]),
            node("SplitToSequence", ["x"], ["columns"], axis=1, keepdims=0),
        ],
        [value("x", ["n", "m"]), value("size", [], np.int64), value("sizes", ["k"], np.int64)],
        [sequence(name) for name in ("even", "parts", "rows", "columns")],
    )
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    (found,) = await outputs_of(data, (x, np.int64(2), np.array([0, 2])))
    assert_same(found, [[x[:, :2], x[:, 2:4], x[:, 4:]], [x[:0], x], [x[:1], x[1:]], [*x.T]])


async def test_loops_carry_sequences_and_branches_return_them():
    """Each of n iterations appends the first numbers of x, or two sequences of other lengths end up as one."""
    step = graph(
        [
            node("Add", ["i", "one"], ["end"]),
            node("Slice", ["x", "zero", "end"], ["part"]),
            node("SequenceInsert", ["before", "part"], ["after"]),
            node("Identity", ["go"], ["on"]),
            node("SequenceLength", ["after"], ["size"]),
        ],
        [value("i", [], np.int64), value("go", [], np.bool_), sequence("before")],
        [value("on", [], np.bool_), sequence("after"), value("size", [], np.int64)],
    )
    two = graph([node("SequenceConstruct", ["x", "x"], ["a"])], [], [sequence("a")])
    none = graph([node("SequenceEmpty", [], ["b"])], [], [sequence("b")])
    data = model(
        [
            node("SequenceEmpty", [], ["empty"]),
            node("Loop", ["n", "", "empty"], ["grown", "sizes"], body=step),
            node("If", ["q"], ["chosen"], then_branch=two, else_branch=none),
            node("Loop", ["n", "", "chosen"], ["both", "more"], body=step),
        ],
        [value("x", [3]), value("n", [], np.int64), value("q", [], np.bool_)],
        [sequence("grown"), value("sizes", None, np.int64), sequence("chosen"), sequence("both")],
        one=np.array([1]),
        zero=np.array([0]),
    )
    x = np.array([1, 2, 3], np.float32)
    parts = [x[:1], x[:2], x]
    found = await outputs_of(data, (x, np.int64(3), np.True_), (x, np.int64(0), np.False_))
    assert_same(found[0], [parts, np.array([1, 2, 3]), [x, x], [x, x, *parts]])
    assert_same([found[1][0], *found[1][2:]], [[], [], []])


@pytest.mark.parametrize(
    ("nodes", "inputs", "kind", "match"),
    [
        ([node("SequenceConstruct", ["x"], ["y"])], [helper.make_value_info("x", helper.make_sequence_type_proto(
            sequence("s").type))], af.errors.UnimplementedError, "input 'x' is a sequence, and runs are fed"),
        ([node("SequenceAt", ["x", "p"], ["y"])], [value("x", [2]), value("p", [], np.int64)], TypeError,
         "its input 'input_sequence' must be a sequence, and a tensor is given"),
        ([node("ConcatFromSequence", ["x"], ["y"], axis=1)], [sequence("x")], ValueError,
         "the rank of .* must be known"),
        ([node("If", ["q"], ["y"], else_branch=graph([node("Identity", ["x"], ["b"])], [], [value("b")]),
               then_branch=graph([node("Optional", [], ["a"], type=value("a").type)], [], [value("a")]))],
         [value("x", [2]), value("q", [], np.bool_)], ValueError,
         "node 'y' .If.: .*a result is an empty optional, and no branch or body declares it"),
        ([node("SequenceEmpty", [], ["e"]), node("ConcatFromSequence", ["e"], ["y"], axis=0)], [], ValueError,
         "a sequence without elements cannot be joined"),
        ([node("SequenceConstruct", ["x", "x"], ["a"]), node("SequenceConstruct", ["x"], ["b"]),
          node("SequenceMap", ["a", "b"], ["y"], body=SUM)], [value("x", [2])], ValueError,
         r"its sequences have \[2, 1\] elements"),
    ],
)  # fmt: skip
def test_what_no_sequence_can_do_names_the_node(nodes, inputs, kind, match):
    with pytest.raises(kind, match=match):
        af.onnx.load(model(nodes, inputs, [value("y")]), af.Graph())


async def test_a_list_is_no_input_of_a_saved_model_and_its_flow_no_output(tmp_path):
    with af.Graph().as_default():
        array = af.TensorArray.placeholder(af.float32, [])
        async with af.Session() as session:
            for inputs, outputs in (({"x": array}, {"y": array.size()}), ({}, {"y": array.flow})):
                with pytest.raises(TypeError, match="of a saved model is a tensor"):
                    await af.onnx.save(tmp_path / "model.onnx", inputs=inputs, outputs=outputs, session=session)
