"""Variables by name: made once, found again where the scope says so."""

import numpy as np
import pytest

import aioflow as af
from aioflow.library import initializers


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_scopes_go_before_names_and_name_scopes_do_not(graph):
    with af.variable_scope("a") as outer, af.name_scope("other"), af.variable_scope("b") as inner:
        v = af.get_variable("v", [2])
        built = af.constant(1.0, name="c")
    assert (outer.name, inner.name, v.name, built.name) == ("a", "a/b", "a/b/v:0", "a/other/b/c:0")
    assert inner.original_name_scope == "a/other/b/"
    with af.variable_scope("a"):
        assert af.constant(1.0, name="c").name == "a_1/c:0"
        assert af.get_variable("w", [2]).name == "a/w:0"


def test_a_scope_is_entered_again_as_it_is(graph):
    with af.variable_scope("a", initializer=af.ones_initializer(), dtype=af.float64) as scope:
        v = af.get_variable("v", [2])
    with af.variable_scope("b"), af.variable_scope(scope, reuse=True) as again:
        assert (again.name, af.get_variable("v")) == ("a", v)
        assert af.get_variable_scope() is again
    with af.variable_scope(scope, auxiliary_name_scope=False):
        assert af.get_variable("w", [2]).dtype is af.float64
        assert af.constant(1.0, name="c").name == "c:0"
    assert af.get_variable_scope().name == ""


def test_default_names_are_made_unique(graph):
    names = []
    for _ in range(2):
        with af.variable_scope(None, "layer", [af.constant(1.0)]) as scope:
            names.append((scope.name, af.get_variable("v", [1]).name))
    assert names == [("layer", "layer/v:0"), ("layer_1", "layer_1/v:0")]
    with af.variable_scope("given", "layer") as scope:
        assert scope.name == "given"


def test_reuse_is_inherited_and_may_be_automatic(graph):
    with af.variable_scope("a", reuse=af.AUTO_REUSE):
        v = af.get_variable("v", [2])
        with af.variable_scope("b"):
            w = af.get_variable("w", [2])
            assert af.get_variable("w", [2]) is w
        assert af.get_variable("v", [2]) is v
    with af.variable_scope("a"):
        af.get_variable_scope().reuse_variables()
        with af.variable_scope("b", reuse=False):
            assert af.get_variable("w") is w
    assert af.global_variables() == [v, w]
    assert af.get_variable_scope().trainable_variables() == [v, w]


def in_scope(build, **options):
    with af.variable_scope("s", **options):
        return build()


REFUSED = {
    "made twice": (lambda: in_scope(lambda: af.get_variable("v", [2])), "'s/v' exists already; .* reuse=True"),
    "not there": (lambda: in_scope(lambda: af.get_variable("w", [2]), reuse=True), "'s/w' does not exist"),
    "another shape": (
        lambda: in_scope(lambda: af.get_variable("v", [3]), reuse=True), r"'s/v' has shape \[2\], .* \[3\]",
    ),
    "another dtype": (
        lambda: in_scope(lambda: af.get_variable("v", [2], af.int32), reuse=True), "has dtype float32, .* int32",
    ),
    "no shape": (lambda: af.get_variable("w"), "shape of a new variable must be known: 'w'"),
    "two shapes": (lambda: af.get_variable("w", [1], initializer=[1.0]), "leave out shape="),
    "no default": (lambda: af.get_variable("w", [1], af.complex64), "complex64 needs an initializer"),
    "a tensor of another dtype": (
        lambda: af.get_variable("w", dtype=af.float32, initializer=af.constant([1, 2])), "has dtype int32, not float32",
    ),
    "no getter": (lambda: af.get_variable("w", [1], custom_getter=3), "a custom_getter is a function"),
    "no partitioner": (lambda: af.get_variable("w", [1], partitioner=3), "a partitioner is a function"),
    "read and trained": (
        lambda: af.get_variable(
            "w", [1], trainable=True, synchronization=af.VariableSynchronization.ON_READ
        ), "ON_READ cannot be trainable",
    ),
    "no reuse": (lambda: af.variable_scope("s", reuse="yes").__enter__(), "reuse is True, False, None"),
    "new and reused": (lambda: af.variable_scope(None, "s", reuse=True).__enter__(), "give it a name"),
    "too many parts": (
        lambda: af.get_variable("w", [1], partitioner=lambda shape, dtype: [2]), r"each axis of \[1\], not \[2\]",
    ),
    "parts of two axes": (
        lambda: af.get_variable("w", [2, 2], partitioner=lambda shape, dtype: [2, 2]), "along one axis, not along",
    ),
    "parts of none": (lambda: af.get_variable("w", [2], partitioner=lambda shape, dtype: 2), "each axis of .*, not 2"),
    "parts of an open shape": (
        lambda: af.get_variable("w", [None], partitioner=af.fixed_size_partitioner(2)), "must be known: 'w' has",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_got_is_refused(graph, what):
    build, text = REFUSED[what]
    first = in_scope(lambda: af.get_variable("v", [2]))
    with pytest.raises(ValueError, match=text):
        build()
    assert af.global_variables() == [first]


def test_a_scope_needs_a_name(graph):
    with pytest.raises(TypeError, match="default_name"), af.variable_scope(None):
        pass


def test_a_variable_that_was_not_finished_is_not_kept(graph):
    def fail(shape, dtype):
        af.zeros(shape)
        raise RuntimeError("no value")

    def build():
        with graph.transaction(), af.variable_scope(None, "layer"):
            af.get_variable("kept", [1])
            af.get_variable("lost", [1], initializer=fail)

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no value"):
            build()
    with af.variable_scope(None, "layer") as scope:
        assert (scope.name, af.get_variable("kept", [1]).name) == ("layer", "layer/kept:0")


async def test_first_values_come_from_initializers_values_and_defaults(graph):
    with af.variable_scope("s", initializer=af.constant_initializer(3.0)):
        variables = [
            af.get_variable("a", [2]),
            af.get_variable("b", initializer=[1.0, 2.0]),
            af.get_variable("c", initializer=np.array([4, 5])),
            af.get_variable("d", [2], initializer=lambda shape, dtype: af.fill(shape, af.constant(6, dtype))),
            af.get_variable("e", [2], initializer=af.ones_initializer),
        ]
    variables += [af.get_variable("f", [2], af.int32), af.get_variable("g", [2], af.bool_)]
    expected = [[3, 3], [1, 2], [4, 5], [6, 6], [1, 1], [0, 0], [False, False]]
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        assert [value.tolist() for value in await session.run(variables)] == expected
    assert [v.dtype.name for v in variables] == ["float32", "float32", "int64", "float32", "float32", "int32", "bool"]


def test_regularizers_constraints_collections_and_getters_are_handed_on(graph):
    def doubling(getter, name, *args, **kwargs):
        return getter(name + "_2", *args, **kwargs)

    with af.variable_scope("s", regularizer=lambda v: af.reduce_sum(v * v), constraint=af.abs, custom_getter=doubling):
        v = af.get_variable("v", [2], trainable=False, collections=["mine"])
    assert (v.name, v.constraint, v.trainable) == ("s/v_2:0", af.abs, False)
    assert graph.get_collection("mine") == [v]
    (loss,) = graph.get_collection(af.GraphKeys.REGULARIZATION_LOSSES)
    assert loss.name == "s/v_2/regularizer/reduce_sum:0"


def test_what_tensorflow_says_of_copies_and_handles_is_taken_and_changes_nothing(graph):
    every = {"synchronization": af.VariableSynchronization.ON_READ, "aggregation": af.VariableAggregation.MEAN}
    with af.variable_scope("a", None, None, None, None, None, None, None, None, None, True):
        made = af.get_variable("v", [2], use_resource=False, **every)
    local = af.get_local_variable("l", [2], None, None, None, True, None, None, None, True, True, **every)
    plain = af.Variable([1.0], name="w", use_resource=True, **every)
    assert [each.name for each in (made, local, plain)] == ["a/v:0", "l:0", "w:0"]
    assert not local.trainable
    assert af.local_variables() == [local]


def test_a_getter_follows_use_resource_where_tensorflow_has_it(graph):
    found = af.get_variable(
        "v", [2], None, None, None, None, None, None, None, True, True, lambda get, name, **kwargs: name
    )
    assert found == "v"


def test_local_variables_are_not_global(graph):
    v = af.get_local_variable("v", [2])
    assert (af.local_variables(), af.global_variables(), af.trainable_variables()) == ([v], [], [])


# Initializers


async def value_of(initializer, shape, **options):
    with af.Graph().as_default() as graph:
        value = initializer(shape, **options)
        async with af.Session(graph=graph) as session:
            return await session.run(value)


@pytest.mark.parametrize(
    ("initializer", "shape", "dtype", "expected"),
    [
        (af.zeros_initializer(), [2], None, np.zeros(2, np.float32)),
        (af.zeros_initializer(af.int32), [2], None, np.zeros(2, np.int32)),
        (af.zeros_initializer(), [], "bool", np.False_),
        (af.zeros_initializer(), [2], "string", np.array([b"", b""], object)),
        (af.ones_initializer(), [1, 2], "int8", np.ones((1, 2), np.int8)),
        (af.constant_initializer(2.5), [2], None, np.full(2, 2.5, np.float32)),
        (af.constant_initializer([1, 2, 3]), [2, 3], "int32", np.array([[1, 2, 3], [3, 3, 3]], np.int32)),
        (af.identity_initializer(2.0), [2, 3], None, np.array([[2, 0, 0], [0, 2, 0]], np.float32)),
    ],
)
async def test_constant_initializers(initializer, shape, dtype, expected):
    value = np.asarray(await value_of(initializer, shape, dtype=dtype))
    np.testing.assert_array_equal(value, expected)
    assert value.dtype == expected.dtype


@pytest.mark.parametrize(
    ("initializer", "deviation", "limit"),
    [
        (af.random_uniform_initializer(-3.0, 3.0, seed=1), np.sqrt(3), 3.0),
        (af.random_normal_initializer(0.0, 2.0, seed=1), 2.0, 20.0),
        (af.truncated_normal_initializer(0.0, 2.0, seed=1), 2 * 0.8796, 4.0),
        (af.glorot_uniform_initializer(seed=1), np.sqrt(2 / 300), np.sqrt(6 / 300)),
        (af.glorot_normal_initializer(seed=1), np.sqrt(2 / 300), 1.0),
        (af.variance_scaling_initializer(2.0, "fan_out", "untruncated_normal", seed=1), np.sqrt(2 / 200), 1.0),
        (initializers.he_normal(1), np.sqrt(2 / 100), 1.0),
        (initializers.he_uniform(1), np.sqrt(2 / 100), np.sqrt(6 / 100)),
        (initializers.lecun_normal(1), np.sqrt(1 / 100), 1.0),
        (initializers.lecun_uniform(1), np.sqrt(1 / 100), np.sqrt(3 / 100)),
    ],
)
async def test_random_initializers_have_the_spread_they_say(initializer, deviation, limit):
    value = await value_of(initializer, [100, 200])
    assert value.dtype == np.float32
    assert abs(value.mean()) < 0.05 * deviation
    np.testing.assert_allclose(value.std(), deviation, rtol=0.03)
    assert abs(value).max() <= limit
    assert (await value_of(initializer, [3], dtype=af.float64)).dtype == np.float64
    np.testing.assert_array_equal(value, await value_of(initializer, [100, 200]))


def test_default_names_begin_anew_each_time_the_scope_around_is_entered(graph):
    def layer():
        with af.variable_scope(None, "layer"):
            return af.get_variable("v", [2])

    with af.variable_scope("model"):
        first, second = layer(), layer()
    with af.variable_scope("model", reuse=True) as scope:
        assert (layer(), layer()) == (first, second)
        with af.variable_scope(scope):
            pass
        with pytest.raises(ValueError, match="'model/layer_2/v' does not exist"):
            layer()
    with af.variable_scope("other"):
        assert layer().op.name == "other/layer/v"
    assert (first.op.name, second.op.name) == ("model/layer/v", "model/layer_1/v")


def test_variables_made_in_branches_and_loops_are_named_as_outside(graph):
    def step(i, x):
        with af.variable_scope("a"), af.variable_scope(None, "b"):
            return i + 1, x + af.cond(x > 0, lambda: af.get_variable("v", []) * 1, lambda: af.get_variable("w", []) * 1)

    with af.variable_scope("model"):
        af.while_loop(lambda i, x: i < 3, step, [0, 1.0])
    assert [v.op.name for v in af.trainable_variables()] == ["model/a/b/v", "model/a/b/w"]
    assert {v.graph for v in af.trainable_variables()} == {graph}


@pytest.mark.parametrize(("shape", "fans"), [([], (1, 1)), ([7], (7, 7)), ([3, 4], (3, 4)), ([5, 2, 3, 4], (30, 40))])
def test_fans_of_filters_count_their_extent(shape, fans):
    assert initializers._fans(shape) == fans


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: af.variance_scaling_initializer(0.0), "scale must be positive"),
        (lambda: af.variance_scaling_initializer(mode="fan"), "fan_in, fan_out, fan_avg"),
        (lambda: af.variance_scaling_initializer(distribution="flat"), "'flat'"),
        (lambda: af.variance_scaling_initializer(dtype=af.int32), "int32"),
        (lambda: af.identity_initializer()([2]), "two axes"),
        (lambda: af.constant_initializer([1.0], verify_shape=True)([2]), r"\[1\]"),
    ],
)
def test_what_is_no_initializer_is_refused(graph, build, text):
    with pytest.raises(ValueError, match=text):
        build()


async def test_an_initializer_without_arguments_gives_the_shape(graph):
    made = af.get_variable("made", initializer=lambda: af.fill([2], 5.0))
    assert made.shape == [2]
    with pytest.raises(ValueError, match="the shape of a new variable must be known: 'other'"):
        af.get_variable("other", initializer=lambda shape, dtype=None: af.zeros(shape, dtype))
    async with af.Session(graph=graph) as session:
        await session.run(made.initializer)
        assert (await session.run(made)).tolist() == [5, 5]


def test_a_getter_gets_all_arguments_and_that_of_the_call_replaces_that_of_the_scope(graph):
    def record(getter, name, **options):
        seen.append((name, sorted(options)))
        return getter(name, **options)

    seen = []
    with af.variable_scope("s", custom_getter=record, caching_device="/cpu:0", use_resource=True) as scope:
        af.get_variable("v", [1])
        other = af.get_variable("w", [1], custom_getter=lambda getter, name, **options: getter(name + "_2", **options))
    assert [name for name, _ in seen] == ["s/v"]
    assert {"aggregation", "caching_device", "partitioner", "synchronization", "use_resource"} < set(seen[0][1])
    assert (other.op.name, scope.caching_device, scope.use_resource) == ("s/w_2", "/cpu:0", True)
    scope.set_caching_device(None)
    scope.set_use_resource(None)
    assert (scope.caching_device, scope.use_resource) == (None, None)


def test_a_variable_in_parts_is_found_without_its_partitioner(graph):
    parts = af.get_variable("v", initializer=af.ones([6, 2]), partitioner=af.fixed_size_partitioner(3))
    with af.variable_scope("", reuse=True):
        assert af.get_variable("v", [6, 2]) is parts
        with pytest.raises(ValueError, match=r"has shape \[6, 2\], but \[5, 2\]"):
            af.get_variable("v", [5, 2])


def test_strings_begin_empty(graph):
    assert af.get_variable("v", [2], af.string).dtype is af.string
