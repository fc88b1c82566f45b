"""Graphs as plain data, and back."""

import contextlib
import copy
import json
import math
import random
import re

import ml_dtypes
import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.graph.graphdef import GraphDef, NodeDef
from aioflow.graph.subgraph import bodies_of
from aioflow.tensors import dtypes, plain_data
from tests.support.evaluate import evaluate
from tests.support.every_op import build, every_op
from tests.support.scale import amount

FORMS = {
    "plain": (GraphDef.to_plain, GraphDef.from_plain),
    "json": (GraphDef.to_json, GraphDef.from_json),
    "msgpack": (GraphDef.to_msgpack, GraphDef.from_msgpack),
}


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def imported(graph_def, **arguments):
    """A new graph with the operations of `graph_def`, and what importing returned."""
    with af.Graph().as_default() as graph:
        return graph, af.import_graph_def(graph_def, **{"name": "", **arguments})


def facts(graph):
    return [
        (op.name, op.type, [t.name for t in op.inputs], [c.name for c in op.control_inputs], op.device, op.container,
         op.colocation, op.line, op.gradient_override, op.origin and op.origin.name,
         [(t.dtype, t.shape, t.spec.known) for t in op.outputs], {k: repr(v) for k, v in op.attrs.items()})
        for op in graph.get_operations()
    ]  # fmt: skip


# Attributes

integers = st.integers(-(2**63), 2**64 - 1)
shapes = st.none() | st.lists(st.none() | st.integers(0, 2**63 - 1), max_size=4)
TENSORS = [dtype for dtype in dtypes.EVERY if dtype is not dtypes.resource]


@st.composite
def arrays(draw):
    dtype = draw(st.sampled_from(TENSORS))
    sizes = draw(st.lists(st.integers(0, 3), max_size=3))
    count = math.prod(sizes)
    if dtype is dtypes.string:
        array = np.empty(count, object)
        array[:] = draw(st.lists(st.binary(max_size=4), min_size=count, max_size=count))
        return array.reshape(sizes)
    raw = draw(st.binary(min_size=count * dtype.size, max_size=count * dtype.size))
    return np.frombuffer(bytes(b & 1 for b in raw) if dtype is dtypes.bool_ else raw, dtype.np).reshape(sizes)


scalars = st.one_of(
    st.none(), st.booleans(), integers, st.floats(), st.text(max_size=5), st.binary(max_size=5),
    st.sampled_from(dtypes.EVERY), shapes.map(af.TensorShape), arrays(),
)  # fmt: skip
attributes = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


def same(a, b):
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        bytes_are = a.dtype == object or a.tobytes() == b.tobytes()
        return (
            (a.dtype, a.shape) == (b.dtype, b.shape) and bytes_are and (a.dtype != object or a.tolist() == b.tolist())
        )
    return type(a) is type(b) and (a == b or (a != a and b != b))


@given(attributes)
def test_attributes_come_back_from_every_form(value):
    plain_data.check_plain(value)
    written = plain_data.to_plain(value)
    assert same(plain_data.from_plain(written), value)
    assert same(plain_data.from_plain(msgpack.unpackb(msgpack.packb(written))), value)
    node = NodeDef("x", "no_op", attr={"value": value})
    for write, read in FORMS.values():
        assert same(read(write(GraphDef((node,)))).node[0].attr["value"], value)


def test_arrays_come_back_read_only():
    for array in (np.ones(2), np.array([b"x"], object), np.zeros((0, 3))):
        found = plain_data.from_plain(plain_data.to_plain(array))
        assert not found.flags.writeable
        np.testing.assert_array_equal(found, array)
    assert same(plain_data.from_plain(plain_data.to_plain(np.array([1, 2], ">i4"))), np.array([1, 2], "<i4"))


@pytest.mark.parametrize(
    "value",
    [
        1 << 64, -(1 << 63) - 1, object(), {"a": 1}, [1], {1}, print, np.float32, np.array([object()]),
        np.array([(1,)], [("x", int)]), np.array(["text"], object), 1j, slice(1),
    ],
)  # fmt: skip
def test_what_has_no_plain_form_is_refused(value):
    for write in (plain_data.to_plain, plain_data.check_plain):
        with pytest.raises(ValueError, match=r"has no plain form|cannot be sent or stored"):
            write(value)
        with pytest.raises(ValueError, match=r"has no plain form|cannot be sent or stored"):
            write((1, (value,)))


def an_array(dtype="int32", shape=(2,), data=b"12345678"):
    return {"array": {"dtype": dtype, "shape": list(shape), "data": data}}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (1 << 64, "is not an attribute"),
        (0.5, "0.5 is not an attribute"),
        ([1], "1 of list is not an attribute"),
        ({}, "0 of dict is not an attribute"),
        ({"float": 1, "bytes": b""}, "2 of dict is not an attribute"),
        ({"pickle": b""}, "use None, a bool, str, int of 64 bits, or one of float, bytes"),
        ({3: b""}, "is not an attribute"),
        ({"tuple": "ab"}, "is not an attribute"),
        ({"float": "1e999"}, "'1e999' is not a number"),
        ({"float": True}, "True is not a number"),
        ({"float": 10**400}, "is not a number"),
        ({"bytes": "text"}, "'text' is not bytes"),
        ({"dtype": "float31"}, "'float31' is not a dtype: use one of bool, int8"),
        ({"dtype": "object"}, "'object' is not a dtype"),
        ({"dtype": ["int8"]}, "1 of list is not a dtype"),
        ({"shape": [1.0]}, "is not a shape"),
        ({"shape": [True]}, "is not a shape"),
        ({"shape": [-2]}, "a dimension cannot be negative: -2"),
        ({"shape": 3}, "3 is not a shape"),
        ({"array": []}, "is not an array: it needs dtype, shape and data"),
        ({"array": {"dtype": "int8"}}, "is not an array"),
        (an_array("O"), "'O' is not a dtype"),
        (an_array("resource"), "an array of resource[2] has"),
        (an_array(shape=(3,)), "an array of int32[3] has 12 bytes, not 8 of bytes"),
        (an_array(shape=(-2,)), "is not the shape of an array"),
        (an_array(shape=(2.0,)), "is not the shape of an array"),
        (an_array(shape=(1,) * 65), "a list of at most 64 integers"),
        (an_array(shape=(1 << 60,)), "bytes, not 8 of bytes"),
        (an_array(shape=(0, 1 << 62, 1 << 62), data=b""), "is larger than any memory"),
        (an_array(data="12345678"), "has 8 bytes, not '12345678'"),
        (an_array("bool", (2,), b"\0\2"), "an array of bool has bytes other than 0 and 1"),
        (an_array("string", (2,), [b"a"]), "an array of string[2] is a list of 2 bytes, not 1 of list"),
        (an_array("string", (1,), ["a"]), "is a list of 1 bytes"),
        (an_array("string", (1 << 59,), [b"a"]), "not 1 of list"),
    ],
)
def test_what_is_no_attribute_is_refused(data, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        plain_data.from_plain(data)
    with pytest.raises(ValueError, match=r"node 'x': attr: "):
        GraphDef.from_plain(document(node(attr={"a": data})))


def test_tuples_are_nested_to_a_bound():
    def nested(depth):
        value = ()
        for _ in range(depth):
            value = (value,)
        return value

    assert plain_data.from_plain(plain_data.to_plain(nested(plain_data.DEEPEST - 1))) == nested(plain_data.DEEPEST - 1)
    deep = {"tuple": []}
    for _ in range(plain_data.DEEPEST):
        deep = {"tuple": [deep]}
    for refuse in (lambda: plain_data.check_plain(nested(plain_data.DEEPEST)), lambda: plain_data.from_plain(deep)):
        with pytest.raises(ValueError, match="nested more than 32 deep"):
            refuse()


# Documents


def node(name="x", op="no_op", **fields):
    return {"name": name, "op": op, **fields}


def document(*nodes, **changes):
    return {"format": "aioflow.graph", "version": 1, "nodes": list(nodes), **changes}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([], "0 of list is not a graph: it has no 'format': 'aioflow.graph'"),
        ({}, "is not a graph"),
        (document(format="onnx"), "is not a graph"),
        (document(version=2), "version 2 of the graph format is not known, 1 is"),
        (document(version=True), "version True"),
        (document(version="1"), "version '1'"),
        (document(nodes={}), "a graph has format, version and a list of nodes"),
        (document(more=1), "'more'"),
        (document(3), "node 0 has 3: it needs a name and an op"),
        (document({"name": "x"}), "node 0 has ('name',): it needs a name and an op, and may have input, attr"),
        (document(node(), node(fields=1)), "node 1 has ('name', 'op', 'fields')"),
        (document(node("_x")), "node '_x': '_x' cannot be its name"),
        (document(node(3)), "node 3: 3 cannot be its name"),
        (document(node("x:0")), "cannot be its name"),
        (document(node(op=3)), "node 'x': 3 cannot be its op"),
        (document(node(input="y")), "node 'x': 'y' cannot be its input"),
        (document(node(input=[3])), "node 'x': (3,) cannot be its input"),
        (document(node(input=["y:-1"])), "node 'x': 'y:-1' is not an input: write op, op:index or ^op"),
        (document(node(input=["y:01"])), "'y:01' is not an input"),
        (document(node(input=["y:9999999999"])), "is not an input"),
        (document(node(input=["^y:0"])), "'^y:0' is not an input"),
        (document(node(input=["^y", "z"])), "an input comes after one that starts with '^'"),
        (document(node(attr=[])), "0 of list cannot be its attr"),
        (document(node(device="gpu0")), "node 'x': malformed device name 'gpu0'"),
        (document(node(device=None)), "None cannot be its device"),
        (document(node(container="_")), "'_' cannot be its container"),
        (document(node(colocation=["_"])), "cannot be its colocation"),
        (document(node(colocation="y")), "'y' cannot be its colocation"),
        (document(node(shapes=[[-2]])), "node 'x': shapes: a dimension cannot be negative"),
        (document(node(shapes=[3])), "node 'x': shapes: 3 is not a shape"),
        (document(node(line=["f", 1.0, "g"])), "cannot be its line"),
        (document(node(line=["f"])), "cannot be its line"),
        (document(node(gradient=3)), "3 cannot be its gradient"),
        (document(node(origin="")), "'' cannot be its origin"),
    ],
)
def test_what_is_no_graph_is_refused(data, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        GraphDef.from_plain(data)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "nan", '{"format": NaN}', '{"format": 1, "format": 1}', '{"$bytes": 3}', '{"$bytes": "é"}',
     '{"$bytes": "a"}', "[" * 100_000, b"\xff", "1" * 10_000],
)  # fmt: skip
def test_json_that_is_no_graph_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 (json's own text where it is not JSON at all)
        GraphDef.from_json(text)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x93\x01", b"\x91" * 100_000, b"\xdd" + b"\xff" * 4, b"\xdf" + b"\xff" * 4, b"\xc6" + b"\xff" * 4,
     msgpack.packb({1: 2}), msgpack.packb({b"a": 1}), msgpack.packb(msgpack.ExtType(1, b"x")), msgpack.packb(1) * 2,
     msgpack.packb(document(msgpack.Timestamp(1)))],
)  # fmt: skip
def test_msgpack_that_is_no_graph_is_refused(data):
    with pytest.raises(ValueError, match=r"not a graph|node 0 has"):
        GraphDef.from_msgpack(data)


def test_a_document_reads_as_the_docstring_shows_it(graph):
    x = af.placeholder(af.float32, [None, 2], name="x")
    with graph.control_dependencies([af.no_op(name="init")]):
        af.matmul(x, x, transpose_b=True, name="layer/product")
    written = json.loads(graph.as_graph_def().to_json())
    product = written["nodes"][2]
    assert (written["format"], written["version"]) == ("aioflow.graph", 1)
    assert (product["name"], product["op"]) == ("layer/product", "matmul")
    assert product["input"] == ["x", "x", "^init"]
    assert product["attr"]["transpose_b"] is True
    assert product["line"][0] == __file__
    assert written["nodes"][0]["attr"] == {
        "dtype": {"dtype": "float32"}, "shape": {"shape": [-1, 2]}, "is_list": False
    }  # fmt: skip


# Whole graphs


@st.composite
def graphs(draw):
    """A graph of everything a node can have."""
    graph = af.Graph()
    with graph.as_default():
        for _ in range(draw(st.integers(0, 12))):
            build_one(draw, graph)
    return graph


def build_one(draw, graph):
    operations = graph.get_operations()
    tensors = [t for op in operations for t in op.outputs]
    some = st.lists(st.sampled_from(operations), max_size=2) if operations else st.just([])
    with (
        graph.control_dependencies(draw(some)),
        graph.name_scope(draw(st.sampled_from([None, "a", "b"]))),
        graph.device(draw(st.sampled_from([None, "/gpu:1", "/job:w/task:2"]))),
        graph.container(draw(st.sampled_from(["", "shared"]))),
        graph.colocate_with(draw(st.sampled_from([None, *operations])), ignore_existing=True),
        graph.gradient_override_map(draw(st.sampled_from([{}, {"identity": "other"}]))),
    ):
        kind = draw(st.sampled_from(["constant", "placeholder", "no_op", "identity_n", "identity", "known"]))
        if kind == "constant":
            af.constant(draw(arrays()), name=draw(st.sampled_from([None, "c", "C"])))
        elif kind == "placeholder":
            x = af.placeholder(draw(st.sampled_from(TENSORS)), draw(st.sampled_from([None, [None], [2, None]])))
            x.set_shape(draw(st.sampled_from([None, x.shape, [2] * (x.shape.ndims or 0)])))
        elif kind == "known":
            af.fill(af.constant(draw(st.lists(st.integers(0, 3), max_size=3)), af.int32), 1.5)
        elif kind == "no_op" or not tensors:
            af.no_op()
        else:
            chosen = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3))
            af.identity_n(chosen) if kind == "identity_n" else af.identity(chosen[0])


@pytest.mark.parametrize("form", FORMS)
@given(graphs())
def test_a_graph_comes_back_from_every_form(form, graph):
    write, read = FORMS[form]
    graph_def = graph.as_graph_def()
    found = read(write(graph_def))
    assert found == graph_def
    assert hash(found) == hash(graph_def)
    copied, _ = imported(found)
    assert facts(copied) == facts(graph)
    assert copied.as_graph_def() == graph_def


@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_is_free(graph, random):
    nodes = list(graph.as_graph_def().node)
    random.shuffle(nodes)
    copied, _ = imported(GraphDef(tuple(nodes)))
    assert {fact[0]: fact for fact in facts(copied)} == {fact[0]: fact for fact in facts(graph)}


@given(graphs(), st.data())
def test_damaged_documents_are_refused_or_harmless(graph, data):
    written = copy.deepcopy(graph.as_graph_def().to_plain())
    for _ in range(data.draw(st.integers(1, 3))):
        damage(written, data.draw)
    with af.Graph().as_default() as other:
        try:
            af.import_graph_def(GraphDef.from_plain(written), name="")
        except ValueError:
            assert other.version == 0
            assert other._used == {}


JUNK = st.sampled_from([None, True, -1, 3, 0.5, "x", "^x", b"x", [], {}, [1], {"tuple": []}, {"float": 1}, 1 << 70])


def damage(part, draw):
    """Replace, drop or exchange something somewhere inside."""
    while isinstance(part, (dict, list)) and part:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        key, other = draw(st.sampled_from(keys)), draw(st.sampled_from(keys))
        how = draw(st.integers(0, 5))
        if how == 0:
            part[key] = draw(JUNK)
        elif how == 1:
            del part[key]
        elif how == 2:
            part[key], part[other] = part[other], part[key]
        else:
            part = part[key]
            continue
        return


@given(graphs(), st.data())
def test_damaged_bytes_are_refused_or_harmless(graph, data):
    packed = bytearray(graph.as_graph_def().to_msgpack())
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        imported(GraphDef.from_msgpack(bytes(packed)))


@every_op(most=1)
def test_every_op_goes_through_json_with_the_same_values(name, sample):
    graph, outputs, feeds = build(sample)
    copied, found = imported(
        GraphDef.from_json(graph.as_graph_def().to_json()), return_elements=[t.name for t in [*outputs, *feeds]]
    )
    assert facts(copied) == facts(graph)
    if any(op.definition.stateful for op in graph.get_operations()):
        return
    again = evaluate(found[: len(outputs)], dict(zip(found[len(outputs) :], feeds.values(), strict=True)))
    for ours, theirs in zip(again, evaluate(outputs, feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# Writing


def test_what_exists_in_this_process_alone_cannot_leave_it(graph):
    af.py_func(lambda: 1.0, [], af.float32, name="call")
    with pytest.raises(ValueError, match=r"^node 'call': attribute 'func': <function .* exists only in this process"):
        graph.as_graph_def()


def test_a_custom_gradient_stays_behind_and_is_missed_when_it_is_needed(graph):
    x = af.placeholder(af.float32, [], name="x")
    y = af.custom_gradient(lambda x: (x * 2.0, lambda dy: dy * 3.0))(x)
    _, (x, y) = imported(graph.as_graph_def(), return_elements=[x.name, y.name])
    with pytest.raises(LookupError, match="stayed with the graph it was built in"):
        af.gradients(y, x)


def test_shapes_that_were_told_travel_and_help_shape_rules_again(graph):
    x = af.identity(af.placeholder(af.float32, None, name="fed"), name="x")
    x.set_shape([None, 3])
    y = af.matmul(x, af.ones([3, 2]), name="y")
    graph_def = graph.as_graph_def()
    assert [node.shapes for node in graph_def.node if node.shapes] == [(af.TensorShape([None, 3]),)]
    _, (found,) = imported(graph_def, return_elements=[y.name])
    assert found.shape == y.shape == [None, 2]


def test_a_gradient_names_the_forward_operation(graph):
    x = af.placeholder(af.float32, [], name="x")
    (dx,) = af.gradients(af.tanh(x, name="h"), x)
    copied, _ = imported(graph.as_graph_def(), name="there")
    assert dx.op.origin.name == "h"
    assert copied.get_operation_by_name(f"there/{dx.op.name}").origin.name == "there/h"


# Reading


def graph_def(*nodes):
    return GraphDef.from_plain(document(*nodes))


def test_importing_prefixes_names_with_a_new_scope(graph):
    af.no_op(name="import")
    some = graph_def(node("a"), node("b", input=["^a"], colocation=["a"]))
    assert af.import_graph_def(some) is None
    assert af.import_graph_def(some, name="there", return_elements=[]) == []
    with graph.name_scope("outer"):
        af.import_graph_def(some)
    assert [op.name for op in graph.get_operations()][1:] == [
        "import_1/a", "import_1/b", "there/a", "there/b", "outer/import/a", "outer/import/b",
    ]  # fmt: skip
    assert graph.get_operation_by_name("there/b").colocation == ("there/a",)


def test_importing_takes_place_in_the_scopes_around(graph):
    x = af.no_op(name="x")
    with graph.control_dependencies([x]), graph.device("/job:w/gpu:1"), graph.container("around"):
        af.import_graph_def(graph_def(node("a"), node("b", input=["^a"], device="/cpu:0", container="own")), name="")
    a, b = graph.get_operations()[1:]
    assert (a.control_inputs, a.device, a.container) == ((x,), "/job:w/device:GPU:1", "around")
    assert (b.control_inputs, b.device, b.container) == ((a, x), "/job:w/device:CPU:0", "own")


def test_a_node_without_a_line_has_that_of_the_import(graph):
    af.import_graph_def(graph_def(node("a"), node("b", line=["model.py", 7, "build"])), name="")
    assert graph.get_operation_by_name("a").line[0] == __file__
    assert graph.get_operation_by_name("b").line == ("model.py", 7, "build")


def test_attributes_that_are_left_out_have_their_defaults(graph):
    x = af.ones([2, 2], name="x")
    found = af.import_graph_def(graph_def(node("y", "matmul", input=["x", "x"])), {"x": x}, ["y"], name="")
    assert found[0].attrs == af.matmul(x, x).op.attrs


PAIR = (
    node("x", "placeholder", attr={"dtype": {"dtype": "float32"}, "shape": {"shape": [2]}}),
    node("both", "identity_n", input=["x:0", "x"]),
    node("y", "identity", input=["both:1", "^both"]),
)


def test_inputs_can_be_mapped(graph):
    value, first = af.constant([1.0, 2.0, 3.0], name="value"), af.no_op(name="first")
    y, both, x = af.import_graph_def(
        graph_def(*PAIR), {"both:1": value, "^both": first}, ["y:0", "both:1", "x"], name="there"
    )
    assert (y.op.inputs, y.op.control_inputs, y.shape) == ((value,), (first,), [3])
    assert both is value
    assert x is graph.get_operation_by_name("there/x")


def test_what_is_mapped_need_not_be_there_as_long_as_it_is_read(graph):
    (y,) = af.import_graph_def(graph_def(node("y", "identity", input=["gone"])), {"gone:0": 1.5}, ["y:0"])
    assert y.op.inputs[0].op.name == "import/_inputs/constant"
    assert af.import_graph_def(graph_def(*PAIR), {"y": 1.0}) is None


def test_a_mapped_input_can_break_a_cycle(graph):
    cyclic = graph_def(node("a", "identity", input=["b"]), node("b", "identity", input=["a"]))
    a, b = af.import_graph_def(cyclic, {"a": af.constant(1.0)}, ["a", "b"], name="")
    assert a.inputs[0].op is b


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([node(op="matmull")], "node 'x' (matmull): there is no such op; did you mean 'matmul'?"),
        ([node(op="__import__")], "node 'x' (__import__): there is no such op"),
        ([node(), node()], "node 'x' (no_op): the name occurs twice"),
        ([node(input=["^y"])], "there is no 'y' to take an input from: add it, or map it by input_map"),
        ([node(), node("y", "identity", input=["x"])], "'x' has 0 outputs; there is no 'x:0'"),
        ([*PAIR, node("z", "identity", input=["both:2"])], "'both' has 2 outputs; there is no 'both:2'"),
        ([*PAIR, node("z", "no_op", input=["x"])], "node 'z' (no_op): it takes 0 inputs, and has 1"),
        ([*PAIR, node("z", "matmul", input=["x"])], "it takes 2 inputs, and has 1"),
        ([*PAIR, node("z", "identity", attr={"a": 1}, input=["x"])], "it has no attribute 'a', but none"),
        ([*PAIR, node("z", "matmul", attr={"transpose_a": 1}, input=["x", "x"])], "'transpose_a', which is of type"),
        ([node("z", "placeholder", attr={"dtype": "float32", "shape": None})], "'float32' cannot be its attribute"),
        ([node("z", "placeholder")], "node 'z' (placeholder): missing a required argument: 'dtype'"),
        ([node("z", "constant", attr={"value": "text"})], "node 'z' (constant): "),
        ([*PAIR, node("z", "matmul", input=["x", "x"])], "inputs: float32[2], float32[2]"),
        ([*PAIR, node("z", "identity", input=["x"], shapes=[[3]])], "shapes [2] and [3] are not compatible"),
        ([*PAIR, node("z", "identity", input=["x"], shapes=[[2], [2]])], "it has 1 outputs and 2 shapes"),
        ([node("z", colocation=["a"])], "there is no 'a' to share a device with"),
        ([node("z", input=["^z"])], "node 'z' (no_op): it needs its own result: z <- z; break the cycle"),
        ([node("a", input=["^b"]), node("b", input=["^c"]), node("c", input=["^b"])], "b <- c <- b"),
        ([node("z", "py_func", attr={"func": 3, "Tout": {"tuple": []}})], "cannot be its attribute 'func'"),
        ([node("z", container="_x")], "node 'z': '_x' cannot be its container"),
        ([node("z", container="a b")], "node 'z': 'a b' cannot be its container"),
        ([node("taken")], "the graph has an operation 'taken' already; choose another name scope"),
        ([node("z", op="matmull", line=["model.py", 7, "build"])], "\n  built at: model.py:7 in build"),
    ],
)
def test_what_cannot_be_built_names_the_node_and_adds_nothing(graph, nodes, text):
    af.no_op(name="taken")
    names = dict(graph._used)
    random.Random(1).shuffle(nodes)
    with pytest.raises(ValueError, match=re.escape(text)):
        af.import_graph_def(graph_def(*nodes), name="")
    assert (graph.version, graph._used) == (1, names)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"input_map": {"gone": 1.0}}, ValueError, "input_map has 'gone:0', which is not in the graph_def"),
        ({"input_map": {"y:1": 1.0}}, ValueError, "input_map has 'y:1'"),
        ({"input_map": {"a b": 1.0}}, ValueError, "'a b' is not an input"),
        ({"input_map": {3: 1.0}}, TypeError, "3 is not a valid name in a GraphDef"),
        ({"input_map": {"x": 1.0}, "name": ""}, ValueError, "input_map has 1.0 for 'x': without a name scope"),
        ({"input_map": {"^y": 3}}, TypeError, "neither a tensor nor an operation"),
        ({"return_elements": ["gone"]}, ValueError, "return_elements has 'gone', which is not in the graph_def"),
        ({"return_elements": ["y:1"]}, ValueError, "return_elements has 'y:1'"),
        ({"return_elements": ["^y"]}, ValueError, "return_elements has '^y'"),
        ({"return_elements": [3]}, TypeError, "3 is not a valid name in a GraphDef"),
        ({"name": "_x"}, ValueError, "'_x' is not a valid scope name"),
        ({"graph_def": {}}, TypeError, "a GraphDef is needed, not dict"),
    ],
)
def test_arguments_are_checked(graph, arguments, error, text):
    with pytest.raises(error) as caught:
        af.import_graph_def(**{"graph_def": graph_def(*PAIR), **arguments})
    assert text in str(caught.value)
    assert (graph.version, graph._used) == (0, {})


def test_a_finalized_graph_takes_no_import(graph):
    graph.finalize()
    with pytest.raises(RuntimeError, match="the graph is finalized"):
        af.import_graph_def(graph_def(*PAIR))


def test_a_long_chain_is_imported_in_any_order():
    nodes = [node(f"n{i}", input=[f"^n{i - 1}"] if i else []) for i in range(amount(4_000, 20_000))]
    graph, _ = imported(graph_def(*reversed(nodes)))
    assert [op.name for op in graph.get_operations()] == [item["name"] for item in nodes]


def test_a_long_cycle_is_named_in_part():
    size = amount(4_000, 20_000)
    nodes = [node(f"n{i}", input=[f"^n{(i - 1) % size}"]) for i in range(size)]
    with pytest.raises(ValueError, match="it needs its own result") as caught:
        imported(graph_def(*nodes))
    assert len(str(caught.value)) < 200


def test_narrow_floats_travel_bit_for_bit(graph):
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        af.constant(np.arange(256, dtype=np.uint8).view(dtype))
    copied, _ = imported(GraphDef.from_json(graph.as_graph_def().to_json()))
    for ours, theirs in zip(copied.get_operations(), graph.get_operations(), strict=True):
        assert ours.attrs["value"].dtype == theirs.attrs["value"].dtype
        assert ours.attrs["value"].tobytes() == theirs.attrs["value"].tobytes()


def test_a_body_shares_a_device_with_an_operation_that_was_imported_before():
    with af.Graph().as_default() as graph:
        weight = af.Variable(2.0, name="weight")
        first, version = graph.as_graph_def(), graph.version
        with af.device("/device:CPU:0"):
            af.while_loop(lambda x: x < 9.0, lambda x: x * weight, [1.0], name="loop")
    with af.Graph().as_default() as other:
        af.import_graph_def(first, name="")
        before = {"weight:0": other.get_tensor_by_name("weight:0")}
        af.import_graph_def(graph.as_graph_def(version), before, name="")
        (body,) = [each for each in bodies_of(other.get_operation_by_name("loop")) if len(each.outputs) == 1][-1:]
        assert ("weight",) in [operation.colocation for operation in body.graph.get_operations()]
