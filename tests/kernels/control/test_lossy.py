"""Lossy forms: what they lose and what never; error feedback; which edges get one, and the nodes that make it."""

import math
import threading

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import aioflow as af
from aioflow import errors
from aioflow.kernels.context import Context, Undo
from aioflow.kernels.control import control_flow
from aioflow.kernels.control.lossy import lossy, lossy_encode, savings_of
from aioflow.plan.passes.compress import Compression, decoding, encoding
from aioflow.plan.passes.flow import Value, verify
from aioflow.plan.passes.prune import prune
from aioflow.resources.containers import Resources
from aioflow.tensors import codecs, dtypes
from aioflow.tensors.codecs import NAMES, Codec, Residual, Saving, SavingsByEdge
from aioflow.tensors.dtypes import DeviceKind, TensorShape
from tests.support.evaluate import View

CPU_0, CPU_1 = (f"/job:localhost/replica:0/task:0/device:CPU:{index}" for index in (0, 1))
FAR = "/job:localhost/replica:0/task:1/device:CPU:0"
CODECS = ["bfloat16", "bfloat16_truncated", "float16", "int8", "int8_rows", "top_k:0.25"]
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
FLOATS = st.sampled_from([np.float32, np.float64])


def numbers(**options):
    def of(dtype):
        width = np.dtype(dtype).itemsize * 8
        return arrays.arrays(dtype, SHAPES, elements=st.floats(width=width, **options))

    return FLOATS.flatmap(of)


class Step:
    """All that these kernels ask of a step."""

    def __init__(self):
        self.ended = False
        self.undo = Undo()

    def common(self, kind):
        assert kind is Undo
        return self.undo

    def check(self):
        if self.ended:
            raise errors.CancelledError("the step has ended")


class Pair:
    """The nodes around one edge, run as a plan would run them. `wire` is what was sent last."""

    def __init__(self, shape, codec, dtype=np.float32, open_shape=False, resources=None):
        with af.Graph().as_default():
            x = af.placeholder(dtype, [None] * len(shape) if open_shape else shape, name="x")
            flow = verify(prune((), (af.negative(x, name="y"),), ()))
        self.value = flow.fetches[0]
        self.nodes = encoding(self.value, Codec.parse(codec), CPU_0, "")
        self.decoder = decoding(Value(self.nodes[-1], 0), self.value, Codec.parse(codec), CPU_0, CPU_1)
        self.resources = resources or Resources()
        self.step = Step()
        self.context = Context(np, self.resources, self.step)

    def run(self, node, *inputs):
        kernel = node.definition.kernel_for(DeviceKind.CPU, node.input_specs)
        function = kernel.bind(node.definition, node, np)
        with np.errstate(all="ignore"):
            result = function(self.context, *inputs) if kernel.context else function(*inputs)
        spec = node.output_specs[0]
        if spec.dtype is not dtypes.resource:
            assert np.asarray(result).dtype == spec.dtype.np
            assert spec.shape.is_compatible_with(np.shape(result))
        return result

    def __call__(self, x):
        handles = [self.run(node) for node in self.nodes[:-1]]
        self.wire = self.run(self.nodes[-1], x, *handles)
        return self.run(self.decoder, self.wire)


def through(x, codec, open_shape=False):
    """What arrives of an array that is sent in that form."""
    return Pair(np.shape(x), codec, np.asarray(x).dtype, open_shape)(x)


# What is lost, and what is not


@pytest.mark.parametrize("codec", CODECS)
@given(numbers(), st.booleans())
def test_dtype_and_shape_arrive_whatever_the_values(codec, x, open_shape):
    found = through(x, codec, open_shape)
    assert (np.asarray(found).dtype, np.shape(found)) == (x.dtype, x.shape)


@pytest.mark.parametrize("codec", CODECS)
@given(numbers())
def test_what_is_not_finite_arrives_as_itself(codec, x):
    x[np.abs(x) > (65504 if codec == "float16" else 3e38)] = np.inf
    found = np.asarray(through(x, codec))
    wild = ~np.isfinite(x)
    np.testing.assert_array_equal(found[wild], x[wild])
    assert np.isfinite(found[~wild]).all()


@pytest.mark.parametrize(("codec", "digits"), [("bfloat16", 2**-8), ("bfloat16_truncated", 2**-7), ("float16", 2**-11)])
@given(numbers(min_value=-6e4, max_value=6e4, allow_subnormal=False))
def test_halves_have_their_digits(codec, digits, x):
    found = through(x, codec)
    smallest = 2**-25 if codec == "float16" else 1e-38
    assert (np.abs(found - x) <= np.abs(x) * digits * (1 + 1e-6) + smallest).all()


@given(arrays.arrays(np.uint32, 40))
def test_every_float_is_rounded_to_bfloat16_as_in_a_cast_and_truncated_by_its_bits(bits):
    x = bits.view(np.float32)
    nan = np.isnan(x)
    expected = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(through(x, "bfloat16"), expected)
    cut = through(x, "bfloat16_truncated")
    np.testing.assert_array_equal(cut[~nan].view(np.uint32), bits[~nan] & 0xFFFF0000)
    assert np.isnan(cut[nan]).all()


def test_a_nan_whose_mark_is_in_the_lower_half_stays_nan():
    x = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF], np.uint32).view(np.float32)
    for codec in ("bfloat16", "bfloat16_truncated"):
        assert np.isnan(through(x, codec)).all()


@pytest.mark.parametrize("codec", ["int8", "int8_rows"])
@given(numbers(min_value=-(2.0**100), max_value=2.0**100))
def test_a_code_is_off_by_half_a_scale_at_most(codec, x):
    found = through(x, codec)
    axis = -1 if codec == "int8_rows" and x.ndim else None
    if x.size:
        scale = np.abs(x).max(axis=axis, keepdims=True) / 126
        assert (np.abs(found - x) <= scale * (0.5 + 1e-4) + np.finfo(x.dtype).tiny).all()


def test_a_row_of_small_numbers_keeps_its_digits_beside_a_row_of_large_ones():
    x = np.array([[1e-6, 2e-6], [1e6, 2e6]], np.float32)
    assert (through(x, "int8")[0] == 0).all()
    np.testing.assert_allclose(through(x, "int8_rows"), x, rtol=0.005)


def test_what_no_code_is_near_decides_no_scale():
    x = np.array([np.inf, 1.0, -126.0, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(through(x, "int8"), x)


@pytest.mark.parametrize("codec", CODECS)
def test_zeros_arrive_as_zeros(codec):
    assert through(np.zeros((2, 3), np.float32), codec).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("codec", CODECS)
def test_arrays_may_lie_in_memory_in_any_way(codec):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for view in (x.T, x[:, ::2], x[::-1], x[..., 1:3]):
        np.testing.assert_array_equal(through(view, codec), through(view.copy(), codec))


@pytest.mark.parametrize(
    ("codec", "size"),
    [("bfloat16", 2000), ("float16", 2000), ("int8", 1032), ("int8_rows", 1128), ("top_k:0.01", 104)],
)
def test_fewer_bytes_are_sent_and_counted(codec, size):
    pair = Pair((25, 40), codec)
    for _ in range(2):
        pair(np.ones((25, 40), np.float32))
        assert pair.wire.nbytes in (size, size - 4)
    sent = pair.wire.nbytes
    edge = f"y:0 from {CPU_0} to {CPU_1}"
    assert savings_of(pair.context.resources).edges == {edge: Saving(2, 2 * sent, 2 * (4000 - sent))}


def test_savings_can_begin_anew():
    savings = SavingsByEdge()
    savings.add("edge", 10, 40)
    savings.release()
    assert savings.edges == {}


# Error feedback


@given(numbers(min_value=-1e6, max_value=1e6), st.floats(0.01, 0.5))
def test_what_is_sent_and_what_is_left_out_make_the_whole(x, keep):
    wire, rest = codecs.to_top_k(np, x, keep, None)
    sent = codecs.from_top_k(np, wire, x.dtype, TensorShape(None), keep)
    np.testing.assert_array_equal(sent + rest, x)
    assert not np.logical_and(sent, rest).any()
    assert np.count_nonzero(sent) <= math.ceil(keep * x.size)
    if x.size:
        assert np.abs(rest).max() <= np.abs(sent).max()


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ([1, 1 << 40], "0 of 1099511627776 elements were sent, which is less than the fraction 0.01"),
        ([2, 1 << 31, 1 << 31], "0 of 4611686018427387904 elements were sent"),
        ([1, -5], "an impossible shape"),
        ([-1], "an impossible shape"),
        ([1 << 40, 1], "an impossible shape"),
    ],
)
def test_a_header_of_a_huge_shape_before_few_bytes_takes_no_memory(head, says):
    wire = np.array(head, np.int64).view(np.uint8)
    with pytest.raises(ValueError, match=says):
        codecs.from_top_k(np, wire, np.dtype(np.float32), TensorShape(None), 0.01)
    with pytest.raises(ValueError, match=r"shape|size"):
        codecs.from_int8(np, wire, np.dtype(np.float32), TensorShape(None), False)


@given(numbers())
def test_all_that_is_not_finite_is_sent_so_that_the_rest_always_is(x):
    wire, rest = codecs.to_top_k(np, x, 0.01, None)
    assert np.isfinite(rest).all()
    wild = ~np.isfinite(x)
    np.testing.assert_array_equal(codecs.from_top_k(np, wire, x.dtype, TensorShape(None), 0.01)[wild], x[wild])


@given(st.lists(arrays.arrays(np.float64, 12, elements=st.integers(-99, 99)), min_size=1, max_size=12))
def test_in_the_long_run_nothing_is_lost(values):
    pair = Pair((12,), "top_k:0.1", np.float64)
    sent = sum(pair(x) for x in values)
    (residual,) = pair.resources.alive()[:1]
    np.testing.assert_array_equal(sent + residual.take((12,)), sum(values))


def test_what_is_left_out_is_sent_before_long_even_if_it_is_small():
    pair = Pair((4,), "top_k:0.25")
    x = np.array([1.0, 0.4, 0.3, 0.0], np.float32)
    found = [pair(x) for _ in range(20)]
    np.testing.assert_allclose(sum(found) / 20, x, atol=0.1)


def test_a_step_that_ends_while_it_is_encoded_changes_nothing():
    pair = Pair((4,), "top_k:0.25")
    x = np.array([4.0, 3.0, 2.0, 1.0], np.float32)
    pair(x)
    pair.step.ended = True
    with pytest.raises(errors.CancelledError):
        pair(x)
    pair.step.ended = False
    assert pair(np.zeros(4, np.float32)).tolist() == [0, 3, 0, 0]


def test_of_a_step_that_fails_after_it_has_sent_nothing_is_kept():
    pair = Pair((4,), "top_k:0.25")
    pair(np.array([4.0, 3.0, 2.0, 1.0], np.float32))
    pair.step.undo = Undo()
    assert pair(np.zeros(4, np.float32)).tolist() == [0, 3, 0, 0]
    pair.step.undo.now()
    pair.step.undo.now()
    pair.step.undo = Undo()
    assert pair(np.zeros(4, np.float32)).tolist() == [0, 3, 0, 0]


def test_a_change_of_a_step_that_has_failed_is_taken_back_at_once():
    undo, found = Undo(), []
    undo.add(lambda: found.append(1))
    undo.add(lambda: found.append(2))
    assert found == []
    undo.now()
    assert found == [2, 1]
    undo.add(lambda: found.append(3))
    undo.now()
    assert found == [2, 1, 3]


def test_a_value_of_another_shape_begins_anew():
    residual = Residual("edge")
    residual.give(np.ones(3))
    assert residual.take((4,)) is None
    assert residual.take((3,)) is None
    residual.give(np.ones(3))
    residual.give(np.zeros(4))
    residual.undo(np.ones(3), None)
    assert residual.take((4,)).tolist() == [0, 0, 0, 0]
    residual.undo(np.ones(3), None)
    assert residual.take((4,)) is None


def test_what_is_left_out_is_kept_by_edge_and_device_from_plan_to_plan():
    resources = Resources()
    x = np.array([2.0, 1.0, 0.0, 0.0], np.float32)
    Pair((4,), "top_k:0.25", resources=resources)(x)
    assert Pair((4,), "top_k:0.25", resources=resources)(0 * x).tolist() == [0, 1, 0, 0]
    names = [thing.name for thing in resources.alive() if isinstance(thing, Residual)]
    assert names == [f"y:0 as top_k:0.25 on {CPU_0}"]


def test_it_is_forgotten_with_its_session():
    residual = Residual("edge")
    residual.give(np.ones(3))
    assert repr(residual) == "<Residual 'edge' [3]>"
    residual.release()
    assert repr(residual) == "<Residual 'edge' empty>"


STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["done", "cancelled", "in vain"])), max_size=30)


@given(STEPS)
def test_steps_at_the_same_time_send_what_is_left_out_once(moves):
    """Four steps take, and later give back or are cancelled, or turn out to be in vain still later, in any order."""
    residual = Residual("edge")
    under_way, given_in, sent = {}, 0.0, 0.0
    vain = {}
    for step, how in moves:
        x = np.array([8.0, 4.0, 2.0, 1.0]) * (step + 1)
        if step in vain:
            residual.undo(*vain.pop(step))
            continue
        if step not in under_way:
            under_way[step] = residual.take(x.shape)
            continue
        carried = under_way.pop(step)
        if how == "cancelled":
            residual.give(carried)
            continue
        wire, rest = codecs.to_top_k(np, x, 0.25, carried)
        residual.give(rest)
        if how == "in vain":
            vain[step] = rest, carried
            continue
        given_in = given_in + x
        sent = sent + codecs.from_top_k(np, wire, x.dtype, TensorShape([4]), 0.25)
    for carried in under_way.values():
        residual.give(carried)
    for given_back in vain.values():
        residual.undo(*given_back)
    left = residual.take((4,))
    np.testing.assert_array_equal(sent + (0 if left is None else left), given_in)


def test_threads_at_the_same_time_lose_nothing():
    pair = Pair((64,), "top_k:0.1", np.float64)
    x = np.arange(64.0)
    found = []
    threads = [threading.Thread(target=lambda: found.extend(pair(x) for _ in range(50))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    residual = next(thing for thing in pair.resources.alive() if isinstance(thing, Residual))
    np.testing.assert_array_equal(sum(found) + residual.take((64,)), 200 * x)


# Names


@pytest.mark.parametrize("text", CODECS)
def test_a_codec_is_read_from_its_text(text):
    assert str(Codec.parse(text)) == text
    assert Codec.parse(text).name in NAMES


@pytest.mark.parametrize(
    "text", ["", "int4", "INT8", "int8:", "int8:3", "top_k", "top_k:", "top_k:0", "top_k:0.6", "top_k:nan", "top_k:x",
             "top_k:-0.1", None, 8],
)  # fmt: skip
def test_what_is_no_codec_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a lossy codec|needs a fraction above 0 and up to 0.5"):
        Codec.parse(text)


# Marks


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_a_mark_is_where_its_tensor_is_whatever_scope_it_is_built_in(graph):
    with af.device("/cpu:1"):
        x = af.placeholder(af.float32, [2], name="x")
    with af.device("/cpu:0"):
        marked = lossy(x, "int8", name="marked")
    assert marked.op.colocation == ("x",)
    assert marked.name == "marked:0"


@pytest.mark.parametrize("dtype", ["int32", "bool", "string", "complex64", "bfloat16", "float16"])
def test_only_wide_floats_can_be_marked(graph, dtype):
    x = af.placeholder(dtype, [2])
    with pytest.raises(TypeError, match=f"dtype {dtype} is not supported; use one of float32, float64"):
        lossy(x, "int8")
    assert [op.type for op in graph.get_operations()] == ["placeholder"]


def test_a_mark_names_a_codec(graph):
    with pytest.raises(ValueError, match=r"'zip' is not a lossy codec; use bfloat16, .* or top_k:0.01"):
        lossy(af.zeros([2]), "zip")
    with pytest.raises(ValueError, match="lossy_encode_top_k"):
        lossy_encode(af.zeros([2]), "top_k:0.1")


def test_the_gradient_is_marked_on_request(graph):
    x = af.placeholder(af.float32, [2])
    for gradients in (True, False):
        y = lossy(x, "bfloat16", gradients=gradients)
        (dx,) = af.gradients(af.exp(y), [x])
        assert (dx.op.type == "lossy") is gradients
    (dx,) = af.gradients(af.exp(lossy(x, "top_k:0.5", gradients=True)), [x])
    assert dx.op.attrs == {"codec": "top_k:0.5", "gradients": True}
    assert dx.op.colocation == (dx.op.inputs[0].op.name,)


def test_of_indexed_slices_the_values_are_marked(graph):
    slices = af.IndexedSlices(af.zeros([2, 3]), af.constant([0, 4]), af.constant([5, 3]))
    marked = lossy(slices, "int8")
    assert marked.values.op.type == "lossy"
    assert (marked.indices, marked.dense_shape) == (slices.indices, slices.dense_shape)


async def test_on_one_device_a_mark_changes_nothing(graph):
    x = np.array([1.001, np.nan], np.float32)
    async with af.Session() as session:
        np.testing.assert_array_equal(await session.run(lossy(af.constant(x), "int8")), x)


# Which edges


def value_of(tensor):
    return verify(prune((), (tensor,), ())).fetches[0]


@pytest.mark.parametrize(
    ("dtype", "shape", "expected"),
    [
        ("float32", [2], "int8"), ("float64", [None, 3], "int8"), ("float32", [], None), ("float32", None, None),
        ("int32", [2], None), ("bool", [2], None), ("string", [2], None), ("complex64", [2], None),
        ("float16", [2], None), ("bfloat16", [2], None),
    ],
)  # fmt: skip
def test_a_setting_is_for_wide_floats_that_are_surely_more_than_one_number(graph, dtype, shape, expected):
    value = value_of(af.placeholder(dtype, shape))
    found = Compression("int8").codec_for(value, CPU_0, CPU_1)
    assert (None if found is None else str(found)) == expected
    assert Compression().codec_for(value, CPU_0, CPU_1) is None


@pytest.mark.parametrize(
    ("setting", "near", "far"),
    [
        (None, None, None), ({}, None, None), ("float16", "float16", "float16"), ({"workers": "int8"}, None, "int8"),
        ({"devices": "bfloat16", "workers": "int8_rows"}, "bfloat16", "int8_rows"),
    ],
)  # fmt: skip
def test_edges_between_workers_may_have_another_form_than_those_inside_one(graph, setting, near, far):
    value = value_of(af.placeholder(af.float32, [2]))
    chosen = [Compression(setting).codec_for(value, CPU_0, target) for target in (CPU_1, FAR)]
    assert [None if codec is None else str(codec) for codec in chosen] == [near, far]


def test_a_mark_counts_for_more_than_the_setting_and_for_single_numbers_too(graph):
    for shape in ([2], [], None):
        value = value_of(lossy(af.placeholder(af.float64, shape), "float16"))
        for setting in (None, "int8"):
            assert Compression(setting).codec_for(value, CPU_0, FAR) == Codec("float16")


def test_a_mark_is_seen_through_what_only_hands_on(graph):
    x = lossy(af.placeholder(af.float32, [2]), "int8")
    for tensor in (af.identity(x), control_flow.switch(x, af.placeholder(af.bool, []))[1]):
        assert Compression().codec_for(value_of(tensor), CPU_0, CPU_1) == Codec("int8")
    assert Compression().codec_for(value_of(af.negative(x)), CPU_0, CPU_1) is None


@pytest.mark.parametrize(
    ("setting", "error", "said"),
    [
        ("zip", ValueError, r"compression: 'zip' is not a lossy codec"),
        ({"workers": "zip"}, ValueError, r"compression: 'zip' is not a lossy codec"),
        ({"wire": "int8"}, ValueError, r"not wire"), (8, TypeError, r"compression must be the name of a lossy codec"),
        ("top_k:0.1", ValueError, r"is for gradients only. Mark each gradient by af.lossy\(gradient, 'top_k:0.1'\)"),
        ({"workers": "top_k:0.1"}, ValueError, r"compression of all edges cannot be 'top_k:0.1'"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_refused_when_it_is_made(setting, error, said):
    with pytest.raises(error, match=said):
        af.Config(compression=setting)


# The nodes


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("open_shape", [False, True])
def test_the_nodes_are_legal_and_named_after_the_edge(codec, open_shape):
    pair = Pair((3, 4), codec, np.float64, open_shape)
    nodes = [*pair.nodes, pair.decoder]
    assert [node.name for node in nodes[-2:]] == [f"y:0 as {codec}", f"y:0 of {codec} on {CPU_1}"]
    assert {node.operation for node in nodes} == {pair.value.node.operation}
    assert pair.decoder.output_specs[0].shape is pair.value.spec.shape
    for node in nodes:
        specs = node.definition.infer(node.input_specs, node.attrs)
        assert list(map(str, specs)) == list(map(str, node.output_specs))


def test_kernels_are_bound_by_what_nodes_say(graph):
    made = lossy_encode(af.placeholder(af.float32, [2]), "bfloat16_truncated")
    kernel = made.op.definition.kernel_for(DeviceKind.CPU, [])
    assert kernel.bind(made.op.definition, View(made.op), np)(np.float32([1, -2])).tolist() == [0x3F80, 0xC000]
