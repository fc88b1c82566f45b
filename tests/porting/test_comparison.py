"""Aids for porting a model: porting.py."""

import contextlib

import ml_dtypes
import numpy as np
import pytest

import aioflow as af

CONFIGS = {
    "tokens": af.Config(executor="tokens"),
    "as built": af.Config(optimize=False),
    "tokens, as built": af.Config(executor="tokens", optimize=False),
}
inf, nan = np.inf, np.nan


@contextlib.asynccontextmanager
async def opened(graph_a, graph_b=None, config=None):
    """Two sessions: of one graph or of two, the second with a configuration of its own."""
    async with af.Session(graph=graph_a) as a, af.Session(graph=graph_b or graph_a, config=config) as b:
        yield a, b


class Net:
    """A linear model whose loss is scaled, and whose weights begin, as the test says."""

    def __init__(self, scale=1.0, start=0.5, optimizer=af.train.GradientDescentOptimizer, dtype=af.float32):
        self.graph = af.Graph()
        with self.graph.as_default():
            self.x = af.placeholder(dtype, [None, 3], name="x")
            self.rate = af.placeholder_with_default(np.array(0.1, dtype.np), [], name="rate")
            self.weights = af.Variable(np.full([3, 1], start, dtype.np), name="weights")
            self.seen = af.Variable(0, name="seen", trainable=False)
            y = af.tanh(af.matmul(self.x, self.weights), name="y")
            self.loss = af.reduce_mean(af.square(y) * scale, name="loss")
            self.train = optimizer(self.rate).minimize(self.loss, global_step=self.seen, name="train")
            self.init = af.global_variables_initializer()

    def batch(self, rate=0.0, seed=0):
        return {self.x: np.random.default_rng(seed).standard_normal((4, 3)), self.rate: rate}


@contextlib.asynccontextmanager
async def ready(net_a, net_b=None, config=None):
    """Two sessions with initialised variables."""
    net_b = net_b or net_a
    async with opened(net_a.graph, net_b.graph, config) as (a, b):
        await a.run(net_a.init)
        await b.run(net_b.init)
        yield a, b


async def apart(x, y, feed=None):
    """The only difference of two constants of one name."""
    graphs = [af.Graph(), af.Graph()]
    for graph, value in zip(graphs, (x, y), strict=True):
        with graph.as_default():
            af.constant(value, name="c")
    async with opened(*graphs) as (a, b):
        (difference,) = (await af.compare(a, b, "c:0")).differences
    return difference


# Counting parameters


def test_the_report_counts_the_parameters_of_each_variable_in_the_order_they_were_made():
    with af.Graph().as_default() as graph, af.name_scope("layer"):
        af.Variable(af.zeros([1000, 64]), name="weights")
        af.Variable(np.zeros(3), trainable=False, name="b")
        af.Variable(7, name="step", trainable=False, collections=[af.GraphKeys.LOCAL_VARIABLES])
    report = af.parameter_report(graph)
    assert report.rows == (
        ("layer/weights", (1000, 64), "float32", 64_000, True),
        ("layer/b", (3,), "float64", 3, False),
    )
    assert (report.total, report.trainable) == (64_003, 64_000)
    assert str(report).splitlines() == [
        "layer/weights        64,000  float32[1000, 64]",
        "layer/b                   3  float64[3]  not trainable",
        "total                64,003  64,000 of them trainable",
    ]


def test_the_report_is_of_the_default_graph_and_lines_up_with_short_names_or_none():
    with af.Graph().as_default():
        assert str(af.parameter_report()) == "total             0  0 of them trainable"
        af.Variable(1.0, name="w")
        assert str(af.parameter_report()).splitlines() == [
            "w                 1  float32[]",
            "total             1  1 of them trainable",
        ]


def test_a_variable_of_open_shape_cannot_be_counted():
    with af.Graph().as_default() as graph:
        af.Variable(af.placeholder(af.float32, [None, 2]), validate_shape=False, name="v")
    with pytest.raises(ValueError, match="variable 'v' has shape <unknown>"):
        af.parameter_report(graph)


# How far two tensors are apart


@pytest.mark.parametrize(
    ("x", "y", "absolute", "relative", "index"),
    [
        ([1.0, 2.0, 4.0], [1.0, 2.5, 4.0], 0.5, 0.2, (1,)),
        ([[1.0, -2.0]], [[1.0, 2.0]], 4, 2, (0, 1)),
        (3.0, 3.0, 0, 0, ()),
        (np.float32(3), np.float32(2), 1, 1 / 3, ()),
        ([nan, inf, -inf], [nan, inf, -inf], 0, 0, (0,)),
        ([1.0, nan], [1.0, 2.0], inf, inf, (1,)),
        ([1.0, inf], [1.0, 2.0], inf, inf, (1,)),
        ([inf], [-inf], inf, inf, (0,)),
        ([0.0, 1.0], [1e-9, 1.0], 1e-9, 1, (0,)),
        (np.zeros([0, 3]), np.zeros([0, 3]), 0, 0, ()),
        (np.zeros([2, 3]), np.zeros([3, 2]), inf, inf, ()),
        ([True, False], [True, True], 1, 1, (1,)),
        (np.int64(2**53), np.int64(2**53 + 1), 1, 2.0**-53, ()),
        (np.uint8(0), np.uint8(255), 255, 1, ()),
        ([1 + 1j], [1 - 1j], 2, 2**0.5, (0,)),
        (np.complex64(1j), np.float32(1), 2**0.5, 2**0.5, ()),
        (np.float32(1), np.complex64(1j), 2**0.5, 2**0.5, ()),
        (np.array([1.0], ml_dtypes.bfloat16), np.array([1.0078125], ml_dtypes.bfloat16), 2.0**-7, 1 / 129, (0,)),
        (np.array([1.0], ml_dtypes.bfloat16), np.array([1.0], np.float64), 0, 0, (0,)),
    ],
)
async def test_a_difference_is_the_largest_absolute_and_relative_one_and_where(x, y, absolute, relative, index):
    found = await apart(x, y)
    assert (found.tensor, found.op_type, found.index) == ("c:0", "constant", index)
    assert (found.absolute, found.relative) == (pytest.approx(absolute), pytest.approx(relative))
    assert bool(found.extremes) == (absolute > 0)


async def test_one_element_must_exceed_both_tolerances():
    large, small = [1000.0, 1e-9], [1000.001, 2e-9]
    found = await apart(np.array(large), np.array(small))
    assert (found.absolute, found.relative) == (pytest.approx(1e-3), 0.5)
    comparison = af.Comparison((found,))
    assert comparison.first(rtol=1e-5, atol=1e-8) is None
    assert comparison.first(rtol=1e-7, atol=1e-8) is found
    assert comparison.first(rtol=1e-5, atol=1e-10) is found


async def test_the_extremes_are_the_elements_that_none_exceeds_in_both():
    x = np.array([1.0, 1000.0, 10.0, 10.0, 5.0])
    y = np.array([2.0, 1003.0, 12.0, 10.5, 5.0])
    expected = [(3.0, 3 / 1003), (2.0, 1 / 6), (1.0, 0.5)]
    assert (await apart(x, y)).extremes == tuple(pytest.approx(pair) for pair in expected)


# Comparing two sessions


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
async def test_configurations_agree_on_every_tensor_in_the_order_of_the_graph(config):
    net = Net(optimizer=af.train.AdamOptimizer)
    async with ready(net, config=config) as (a, b):
        for _ in range(3):
            comparison = await af.compare(a, b, [net.loss, net.train], net.batch(rate=0.1))
            assert comparison.first() is None
        assert await a.run(net.seen) == await b.run(net.seen) == 3
    names = [difference.tensor for difference in comparison.differences]
    tensors = [tensor.name for operation in net.graph.get_operations() for tensor in operation.outputs]
    assert names == [name for name in tensors if name in names]
    assert {"y:0", "loss:0"} < set(names)
    assert not {"x:0", "rate:0", "weights:0"} & set(names)
    assert str(comparison).splitlines() == [str(difference) for difference in comparison.differences]


async def test_graphs_built_by_the_same_program_are_matched_by_name_and_the_first_difference_tells_where():
    one, other = Net(), Net(scale=2.0)
    async with ready(one, other) as (a, b):
        comparison = await af.compare(a, b, one.loss, one.batch())
    apart = [difference for difference in comparison.differences if difference.absolute]
    assert comparison.first() is apart[0]
    assert [difference.op_type for difference in apart] == ["constant", "multiply", "reduce_mean"]
    assert apart[2].relative == pytest.approx(0.5)
    assert f"{__file__}:" in apart[0].line
    assert str(apart[2]).startswith("loss:0 (reduce_mean): ")
    assert str(apart[2]).endswith(" absolute, 0.5 relative at ()")
    assert comparison.first(rtol=1) is None


async def test_feeds_are_given_by_tensor_or_name_and_for_the_second_session_apart():
    one, other = Net(), Net()
    batch = one.batch()
    named = {"x:0": batch[one.x], "rate:0": 0.0}
    async with ready(one, other) as (a, b):
        for feeds, feeds_b in ((batch, None), (named, None), (batch, named), (named, other.batch())):
            assert (await af.compare(a, b, ["loss:0", ("train",)], feeds, feeds_b)).first() is None
        differing = await af.compare(a, b, "loss:0", batch, other.batch(seed=1))
    assert differing.first().op_type == "matmul"


async def test_what_is_fed_is_neither_compared_nor_computed():
    net = Net()
    y = net.graph.get_tensor_by_name("y:0")
    async with ready(net) as (a, b):
        comparison = await af.compare(a, b, {"loss": net.loss, "y": y}, {y: [[0.5]]})
        assert (await af.compare(a, b, y, {y: [[0.5]]})).differences == ()
    types = [difference.op_type for difference in comparison.differences]
    assert (types[0], types[-1]) == ("square", "reduce_mean")
    assert not {"read_variable", "matmul", "tanh"} & set(types)


async def test_text_and_handles_are_passed_over_but_what_is_fetched_runs():
    ran = []
    with af.Graph().as_default() as graph:
        text = af.py_func(lambda: ran.append("ran") or b"text", [], af.string)
        size = af.size(text)
    async with opened(graph) as (a, b):
        assert (await af.compare(a, b, text)).differences == ()
        assert len(ran) == 2
        assert [found.tensor for found in (await af.compare(a, b, size)).differences] == [size.name]


async def test_a_tensor_that_the_other_graph_lacks_is_refused():
    one, other = Net(), Net()
    with one.graph.as_default():
        more = af.negative(one.loss, name="more")
    async with ready(one, other) as (a, b):
        with pytest.raises(ValueError, match="no operation 'more'"):
            await af.compare(a, b, more, one.batch())


# Learning turned off


async def later(batches):
    for batch in batches:
        yield batch


@pytest.mark.parametrize("gather", [list, iter, later])
async def test_with_learning_off_two_systems_agree_on_every_batch(gather):
    net = Net(optimizer=lambda rate: af.train.MomentumOptimizer(rate, 0.9))
    with net.graph.as_default():
        net.init = af.group(net.init, af.Variable("text is not compared").initializer, af.Variable([nan]).initializer)
    batches = [net.batch(seed=seed) for seed in range(5)]
    async with ready(net, config=CONFIGS["tokens, as built"]) as (a, b):
        comparisons = await af.check_learning_off(a, b, net.loss, net.train, gather(batches))
        assert [await session.run(net.seen) for session in (a, b)] == [5, 5]
    assert [comparison.first() for comparison in comparisons] == [None] * 5


async def test_systems_that_begin_apart_differ_in_the_first_batch_and_where_they_read():
    one, other = Net(start=0.5), Net(start=0.6)
    async with ready(one, other) as (a, b):
        with pytest.raises(AssertionError, match="batch 0 differs first at read_variable:0") as caught:
            await af.check_learning_off(a, b, one.loss, one.train, [one.batch()])
    assert f"\n  built at: {__file__}:" in str(caught.value)


@pytest.mark.parametrize("gather", [list, later])
async def test_a_loss_that_differs_is_named_with_its_batch_unless_tolerated(gather):
    graphs = [af.Graph(), af.Graph()]
    for graph, slope in zip(graphs, (1.0, 1.01), strict=True):
        with graph.as_default():
            x = af.placeholder(af.float32, [], name="x")
            af.py_func(lambda x, slope=slope: np.maximum(x, slope * x), [x], af.float32, name="loss")
            af.no_op(name="train")
    batches = [{"x:0": value} for value in (-1.0, 0.0, 1.0, 2.0)]
    async with opened(*graphs) as (a, b):
        with pytest.raises(AssertionError, match="batch 2 differs first at loss:0"):
            await af.check_learning_off(a, b, "loss:0", "train", gather(batches))
        assert len(await af.check_learning_off(a, b, "loss:0", "train", batches, rtol=0.02)) == 4


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
async def test_a_variable_that_is_learned_is_named_with_its_batch(config):
    net = Net()
    async with ready(net, config=config) as (a, b):
        with pytest.raises(AssertionError, match="batch 1 changed variable 'weights'"):
            await af.check_learning_off(a, b, net.loss, net.train, [net.batch(), net.batch(rate=0.1)])


async def test_a_variable_that_only_the_second_system_changes_be_it_within_the_tolerance_is_named():
    graphs = [af.Graph(), af.Graph()]
    for graph, learned in zip(graphs, (0.0, 2.0**-21), strict=True):
        with graph.as_default():
            af.group(af.Variable([2.0], name="bias").assign_add([learned]), name="train")
            af.variables_initializer(af.global_variables(), name="init")
    async with opened(*graphs) as (a, b):
        await a.run("init")
        await b.run("init")
        with pytest.raises(AssertionError, match="batch 0 changed variable 'bias'"):
            await af.check_learning_off(a, b, [], "train", [{}])
