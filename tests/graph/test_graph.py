"""The graph: names, scopes, control inputs, devices, collections, transactions, and what its elements say."""

import asyncio
import contextvars
import gc
import inspect
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.graph import scopes
from aioflow.graph.building import transactional
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.operation import Tensor, describe_line
from aioflow.graph.operators import OPERATORS


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def a(name=None):
    """A new operation."""
    return af.no_op(name=name)


def state(graph):
    """All that building can change."""
    operations = graph.get_operations()
    return (
        [(op.name, op.id, [t.name for t in op.inputs], op.control_inputs, op.device) for op in operations],
        {t.name: (t.consumers(), t.shape.sizes) for op in operations for t in op.outputs},
        dict(graph._used),
        {key: graph.get_collection(key) for key in graph.get_all_collection_keys()},
        (set(graph._unfeedable), set(graph._unfetchable)),
    )


# Elements


def test_a_graph_keeps_operations_in_the_order_they_were_built(graph):
    operations = [a(), af.constant(1.0).op, a()]
    assert graph.get_operations() == operations
    assert [op.id for op in operations] == [0, 1, 2]
    assert graph.version == 3


def test_elements_are_found_by_name_and_by_what_stands_for_them(graph):
    one = af.constant(1.0, name="one")
    variable = af.Variable(2.0)
    assert graph.get_tensor_by_name("one:0") is graph.as_graph_element(b"one:0") is graph.as_graph_element(one) is one
    assert graph.get_operation_by_name("one") is graph.as_graph_element("one") is one.op
    assert isinstance(graph.as_graph_element(variable), Tensor)


@pytest.mark.parametrize(
    ("find", "value", "error", "text"),
    [
        ("as_graph_element", "two", KeyError, "the graph has no operation 'two'"),
        ("as_graph_element", "two:0", KeyError, "the graph has no operation 'two' (asked for 'two:0')"),
        ("as_graph_element", "one:1", KeyError, "'one' has 1 outputs; there is no 'one:1'"),
        ("as_graph_element", "one:x", ValueError, "'one:x' is not a tensor's name; write op:index"),
        ("as_graph_element", "one:-1", ValueError, "is not a tensor's name"),
        ("as_graph_element", 3, TypeError, "3 of type int is neither a tensor nor an operation"),
        ("as_graph_element", None, TypeError, "None of type NoneType"),
        ("get_tensor_by_name", "one", ValueError, "'one' names an operation; a tensor's name is 'one:0'"),
        ("get_operation_by_name", "one:0", ValueError, "'one:0' names a tensor; its operation's name is 'one'"),
    ],
)
def test_what_is_not_found_says_why(graph, find, value, error, text):
    af.constant(1.0, name="one")
    with pytest.raises(error) as caught:
        getattr(graph, find)(value)
    assert text in caught.value.args[0]


def test_an_element_of_another_graph_is_refused(graph):
    with af.Graph().as_default():
        stranger = af.constant(1.0)
    with pytest.raises(ValueError, match="is not an element of this graph"):
        graph.as_graph_element(stranger)
    with pytest.raises(ValueError, match="belongs to another graph"):
        af.add(af.constant(1.0), stranger)
    with pytest.raises(TypeError, match="is not an operation"):
        graph.as_graph_element(af.constant(1.0), allow_tensor=False)


def test_an_operation_knows_its_consumers_and_its_only_output(graph):
    x = af.constant(1.0, name="x")
    y, z = x + x, x * 2.0
    assert x.consumers() == [y.op, z.op]
    assert x.op.output is x
    assert (x.op.type, y.op.get_attr("name") if "name" in y.op.attrs else None) == ("constant", None)
    with pytest.raises(ValueError, match="'no_op' has 0 outputs, not one"):
        _ = a().output
    with pytest.raises(ValueError, match="'x' has no attribute 'nothing'; it has value"):
        x.op.get_attr("nothing")
    assert x.op.get_attr("dtype") is y.op.get_attr("T") is af.float32


async def test_an_update_of_a_variable_is_its_new_value(graph):
    counter = af.Variable(1.0)
    value = counter.assign_add(2.0).read_value()
    with pytest.raises(ValueError, match="is no update of a variable"):
        af.constant(1.0).read_value()
    async with af.Session(graph=graph) as session:
        await session.run(counter.initializer)
        assert await session.run(value) == 3


def test_an_operation_remembers_the_users_line(graph):
    x, number = af.constant(1.0), inspect.currentframe().f_lineno
    assert x.op.line == (__file__, number, "test_an_operation_remembers_the_users_line")
    assert describe_line(x.op) == f"{__file__}:{number} in test_an_operation_remembers_the_users_line"
    with scopes.change_scope(graph, origin=x.op):
        y = af.constant(2.0)
    assert describe_line(y.op).endswith(f"(gradient of 'constant', built at {describe_line(x.op)})")


@pytest.mark.parametrize(
    ("use", "text"),
    [(bool, "use af.cond, af.where"), (iter, "use af.unstack or af.map_fn"), (len, "use its .shape, or af.shape")],
)
def test_a_tensor_has_no_value_while_the_graph_is_built(graph, use, text):
    with pytest.raises(TypeError, match=text):
        use(af.placeholder(af.float32, [2], name="x"))


def test_elements_have_what_tensorflow_calls_them(graph):
    x = af.split(af.placeholder(af.float32, [4]), 2)[1]
    assert (x.value_index, x.op.values()) == (1, x.op.outputs)
    assert x.op.traceback == [x.op.line]
    for use in (np.array, np.asarray):
        with pytest.raises(
            TypeError, match=r"split.* is not an array .*: use `await session.run\(tensor\)` for its value"
        ):
            use(x)


def test_a_tensor_is_equal_to_itself_alone(graph):
    x, y = af.constant(1.0), af.constant(1.0)
    assert x == x
    assert x != y
    assert len({x, y, x}) == 2


def test_operators_build_ops_in_both_orders(graph, monkeypatch):
    for name in ("subtract", "pow", "less", "greater", "matmul", "bitand"):
        monkeypatch.setitem(OPERATORS, name, lambda left, right, name=name: (name, left, right))
    x = af.placeholder(af.float32, [2])
    assert [x - 1, 1 - x, 3**x, x < 4, x > 4] == [
        ("subtract", x, 1), ("subtract", 1, x), ("pow", 3, x), ("less", x, 4), ("greater", x, 4),
    ]  # fmt: skip
    assert (np.ones(2) @ x)[::2] == ("matmul", x)
    assert (True & x) == ("bitand", True, x)


def test_a_shape_can_be_told_once_it_is_known(graph):
    x = af.placeholder(af.float32, [None, 3])
    x.set_shape([2, None])
    assert x.shape == [2, 3]
    before = x.shape
    x.set_shape([None, 3])
    assert x.shape is before
    with pytest.raises(ValueError, match="not compatible"):
        x.set_shape([4, 3])


def test_telling_two_tensors_one_open_shape_does_not_make_their_shapes_one(graph):
    x, y = af.placeholder(af.float32), af.placeholder(af.float32)
    shape = af.TensorShape([None, 3])
    x.set_shape(shape)
    y.set_shape(shape)
    assert x.shape == y.shape
    assert x.shape is not y.shape


async def test_running_needs_a_default_session(graph):
    with pytest.raises(ValueError, match="no default session"):
        await a().run()
    with pytest.raises(ValueError, match="no default session"):
        await af.constant(1.0).eval()


# Names


def test_a_taken_name_is_numbered_whatever_its_case(graph):
    assert [a(name).name for name in ("x", "x", "X", "x_1", "x")] == ["x", "x_1", "X_2", "x_1_1", "x_3"]


def test_the_default_name_is_that_of_the_op(graph):
    assert [a().name, a().name, af.tanh(af.constant(1.0)).op.name] == ["no_op", "no_op_1", "tanh"]


@pytest.mark.parametrize("name", ["_x", "-x", "a b", "x:0", "^x", "ä", "x\n", "/", "a b/"])
def test_a_malformed_name_is_refused(graph, name):
    with pytest.raises(ValueError, match="is not a valid operation name"):
        a(name)
    assert state(graph) == state(af.Graph())


@pytest.mark.parametrize("name", ["a", "0", ".x", "a_b", "a.b", "a-b", "a/b", "a\\b"])
def test_a_well_formed_name_is_kept(graph, name):
    assert a(name).name == name


def test_scopes_prefix_names_and_are_unique_themselves(graph):
    with graph.name_scope("layer") as first:
        assert (a("x").name, first, graph.get_name_scope()) == ("layer/x", "layer/", "layer")
        with graph.name_scope("inner") as inner:
            assert (a("_x").name, inner) == ("layer/inner/_x", "layer/inner/")
        with graph.name_scope(None) as root:
            assert (a("x").name, root) == ("x", "")
    with graph.name_scope("layer") as second:
        assert (a("x").name, second) == ("layer_1/x", "layer_1/")
    assert a("LAYER").name == "LAYER_2"


def test_a_scope_is_entered_again_by_its_own_name(graph):
    with graph.name_scope("layer") as scope:
        a("x")
    with graph.name_scope("other"), graph.name_scope(scope) as again:
        assert (a("x").name, again) == ("layer/x_1", "layer/")


def test_a_name_with_a_slash_at_its_end_is_taken_as_it_is(graph):
    with graph.name_scope("layer") as scope:
        assert a(scope).name == "layer"
        assert a(scope).name == "layer_1"
        assert a("elsewhere/y/").name == "elsewhere/y"
    assert a("elsewhere/y").name == "elsewhere/y_1"


@pytest.mark.parametrize("name", ["_x", "a b", "a b/", "x:0"])
def test_a_malformed_scope_is_refused(graph, name):
    with pytest.raises(ValueError, match="is not a valid scope name"), graph.name_scope(name):
        pass
    with graph.name_scope("outer"), graph.name_scope("_x") as scope:
        assert scope == "outer/_x/"


def test_a_name_can_be_asked_for_without_taking_it(graph):
    assert [graph.unique_name("x", mark_as_used=False) for _ in range(2)] == ["x", "x"]
    assert [graph.unique_name("x") for _ in range(2)] == ["x", "x_1"]
    with graph.name_scope("s"):
        assert graph.unique_name("x") == "s/x"


@given(st.lists(st.tuples(st.sampled_from(["x", "X", "x_1", "s/x", "x/", "x_1/"]), st.booleans()), max_size=20))
def test_names_are_unique_in_any_order(names):
    graph = af.Graph()
    with graph.as_default():
        for name, scoped in names:
            with graph.name_scope("s" if scoped else None):
                a(name)
    found = [op.name for op in graph.get_operations()]
    assert len(found) == len(set(found)) == len(names)
    assert all(graph.get_operation_by_name(name).name == name for name in found)


# Control inputs


def test_operations_run_after_those_of_the_blocks_around(graph):
    x, y, z = a("x"), af.constant(1.0, name="y"), a("z")
    with graph.control_dependencies([x, y]):
        inner = a()
        with graph.control_dependencies([z, x]):
            both = a()
        with graph.control_dependencies(None):
            free = a()
    assert (inner.control_inputs, both.control_inputs, free.control_inputs) == ((x, y.op), (x, y.op, z), ())


def test_a_control_input_that_an_input_implies_is_left_out(graph):
    x, y = a("x"), af.constant(1.0, name="y")
    with graph.control_dependencies([x, y]):
        first = af.identity(y)
        second = af.identity(first)
        with graph.control_dependencies([y]):
            third = af.identity(second)
    assert first.op.control_inputs == (x,)
    assert second.op.control_inputs == ()
    assert third.op.control_inputs == (y.op,)


def test_control_inputs_may_be_names_and_variables(graph):
    variable = af.Variable(1.0)
    with graph.control_dependencies(["x" if a("x") else "", variable]):
        assert [op.type for op in a().control_inputs] == ["no_op", graph.as_graph_element(variable).op.type]
    with pytest.raises(TypeError, match="neither a tensor nor an operation"), graph.control_dependencies([3]):
        pass


# Devices, colocation, containers, gradients


def test_device_scopes_refine_each_other(graph):
    with graph.device("/job:worker/device:GPU:1"):
        assert a().device == "/job:worker/device:GPU:1"
        with graph.device("/gpu:2"), graph.device(DeviceSpec(task=3)):
            assert a().device == "/job:worker/task:3/device:GPU:2"
        with graph.device(lambda op: f"/task:{len(op.device)}"):
            assert a().device == "/job:worker/task:24/device:GPU:1"
        with graph.device(lambda op: None):
            assert a().device == "/job:worker/device:GPU:1"
        with graph.device(None):
            assert a().device == ""


@pytest.mark.parametrize("device", ["tpu", "/gpu:x", "/job:a/job:b", DeviceSpec(job="a b")])
def test_a_malformed_device_is_refused_at_once(graph, device):
    with pytest.raises(ValueError, match="device name"), graph.device(device):
        pass


def test_a_device_function_that_fails_leaves_the_graph_as_it_was(graph):
    a("x")
    before = state(graph)
    for function in (lambda op: 1 / 0, lambda op: "nowhere"):
        with pytest.raises((ZeroDivisionError, ValueError)), graph.device(function):
            a("x")
    assert state(graph) == before


def test_colocation_is_recorded_and_leaves_devices(graph):
    x, y = a("x"), a("y")
    with graph.device("/gpu:0"), graph.colocate_with(x):
        near = a()
        with graph.colocate_with(y):
            both = a()
        with graph.colocate_with(near, ignore_existing=True):
            chained = a()
        with graph.colocate_with(None, ignore_existing=True):
            free = a()
    assert (near.device, near.colocation, near.colocation_groups()) == ("", ("x",), ["loc:@x"])
    assert (both.colocation, chained.colocation, free.colocation) == (("x", "y"), ("x",), ())
    assert x.colocation_groups() == ["loc:@x"]
    with pytest.raises(TypeError), graph.colocate_with(None):
        pass


def test_containers_are_recorded(graph):
    with graph.container("experiment"):
        assert a().container == "experiment"
    assert a().container == ""
    with pytest.raises(ValueError, match="'_x' is not a valid container name"), graph.container("_x"):
        pass


def test_gradient_overrides_are_recorded(graph):
    x = af.constant(1.0)
    with graph.gradient_override_map({"tanh": "outer", "exp": "e"}), graph.gradient_override_map({"tanh": "inner"}):
        assert [af.tanh(x).op.gradient_override, af.exp(x).op.gradient_override] == ["inner", "e"]
    assert af.tanh(x).op.gradient_override is None


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("", ""),
        ("/", ""),
        ("/cpu:0", "/device:CPU:0"),
        ("/CPU:0", "/device:CPU:0"),
        ("CPU:2", "/device:CPU:2"),
        ("cpu:2", "/device:CPU:2"),
        ("gpu", "/device:GPU:*"),
        ("/gpu", "/device:GPU:*"),
        ("/gpu:*", "/device:GPU:*"),
        ("device:CPU:1", "/device:CPU:1"),
        ("/device:cpu:1", "/device:CPU:1"),
        ("/device:GPU:*", "/device:GPU:*"),
        ("/device:*:1", "/device:*:1"),
        ("job:ps/task:1", "/job:ps/task:1"),
        ("/job:worker/task:1/cpu:0", "/job:worker/task:1/device:CPU:0"),
        ("/job:worker//task:1/", "/job:worker/task:1"),
        ("/job:*/task:1", "/task:1"),
        ("/device:tpu:7/job:w-1.x", "/job:w-1.x/device:TPU:7"),
        ("/job:worker/replica:0/task:1/device:CPU:0", "/job:worker/replica:0/task:1/device:CPU:0"),
    ],
)
def test_device_names_have_a_canonical_form(name, canonical):
    assert str(DeviceSpec.from_string(name)) == canonical
    assert DeviceSpec.from_string(canonical) == DeviceSpec.from_string(name)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("cpu0", "cpu0"),
        ("tpu:0", "tpu:0"),
        ("/cpu:-1", "cpu:-1"),
        ("/cpu: 1", "cpu: 1"),
        ("/cpu:0:1", "cpu:0:1"),
        ("/device", "device"),
        ("/device:", "device:"),
        ("/device:CPU:x", "device:CPU:x"),
        ("/job:", "job:"),
        ("/JOB:worker", "JOB:worker"),
        ("/job:worker:1", "job:worker:1"),
        ("/job:worker/task:one", "task:one"),
        ("/task:" + "1" * 5000, "task:1"),
        ("/job:worker\n", "job:worker\\n"),
        ("/cpu:\u0661", "cpu:\u0661"),
    ],
)
def test_of_a_malformed_device_name_the_part_is_named_with_what_to_write(name, part):
    with pytest.raises(ValueError, match=r"^malformed device name") as caught:
        DeviceSpec.from_string(name)
    assert f" at '{part}" in str(caught.value)
    assert "write /job:J/replica:R/task:T/device:TYPE:ID" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "twice"),
    [
        ("/job:a/job:b", "job"),
        ("/cpu:0/device:GPU:0", "index, type"),
        ("/cpu/gpu:0", "type"),
        ("/replica:*/replica:0", "replica"),
    ],
)
def test_a_device_name_that_says_something_twice_is_refused(name, twice):
    with pytest.raises(ValueError, match=f"states {twice} twice"):
        DeviceSpec.from_string(name)


# Collections and marks


def test_collections_are_named_lists(graph):
    graph.add_to_collections(["kept", "kept", "other"], "x")
    graph.add_to_collection("kept", 2)
    assert (graph.get_collection("kept"), graph.get_collection("none")) == (["x", 2], [])
    graph.get_collection("kept").append(3)
    graph.get_collection_ref("kept").append(4)
    assert graph.get_collection("kept") == ["x", 2, 4]
    graph.clear_collection("kept")
    assert graph.get_all_collection_keys() == ["other"]


def test_a_collection_is_filtered_by_the_beginning_of_names(graph):
    kept = [a("layer/x"), a("layer_1/x")]
    for value in [*kept, a("other"), "no name"]:
        graph.add_to_collection("all", value)
    assert graph.get_collection("all", "layer") == kept
    assert graph.get_collection("all", "layer/") == kept[:1]
    assert graph.get_collection("all", ".*x$") == kept


def test_feeding_and_fetching_can_be_prevented(graph):
    x = af.constant(1.0)
    assert (graph.is_feedable(x), graph.is_fetchable(x)) == (True, True)
    graph.prevent_feeding(x)
    graph.prevent_fetching(x.op)
    assert (graph.is_feedable(x), graph.is_fetchable(x), graph.is_fetchable(x.op)) == (False, False, False)


# Finalizing and failing


def test_nothing_is_added_to_a_finalized_graph(graph):
    x = af.constant(1.0)
    graph.finalize()
    assert graph.finalized
    for add in (
        lambda: af.constant(2.0),
        lambda: x + 1,
        lambda: graph.add_to_collection("c", 1),
        lambda: graph.clear_collection("c"),
    ):
        with pytest.raises(RuntimeError, match="the graph is finalized"):
            add()
    assert graph.version == 1


def fails(graph, build):
    with graph.transaction():
        build()
        raise KeyError


def build_everything(graph, x):
    """Change all that building can change."""
    with graph.name_scope("scope"), graph.control_dependencies([x]), graph.device("/gpu:0"):
        y = af.tanh(x, name="x")
    graph.add_to_collection("kept", y)
    graph.clear_collection("kept")
    graph.add_to_collection("new", y)
    graph.prevent_feeding(x)
    graph.prevent_fetching(y.op)
    x.set_shape([2])
    graph.unique_name("taken")
    return y


def test_a_failed_construction_leaves_the_graph_as_it_was(graph):
    x = af.placeholder(af.float32, [None], name="x")
    graph.add_to_collection("kept", x)
    before = state(graph)

    @transactional
    def build():
        build_everything(graph, x)
        with graph.transaction():
            a()
        raise KeyError("late")

    with graph.control_dependencies([x]):
        with pytest.raises(KeyError, match="late"):
            build()
        assert state(graph) == before
        assert af.identity(a("late") and x).op.control_inputs == ()
    assert graph.version == 3


def test_an_inner_failure_that_is_caught_undoes_the_inner_part_alone(graph):
    with graph.transaction():
        a("kept")
        with pytest.raises(KeyError):
            fails(graph, lambda: a("gone"))
        a("kept")
    assert [op.name for op in graph.get_operations()] == ["kept", "kept_1"]


def test_what_a_failed_construction_has_leaked_cannot_be_used(graph):
    leaked = []
    with pytest.raises(KeyError):
        fails(graph, lambda: leaked.append(af.constant(1.0)))
    with pytest.raises(ValueError, match="was built in a block that failed"):
        af.identity(leaked[0])
    with pytest.raises(ValueError, match="is not an element of this graph"):
        graph.as_graph_element(leaked[0])


@given(st.lists(st.sampled_from(["op", "scope", "collect", "(", "fail", ")"]), max_size=30))
def test_random_transactions_that_fail_leave_no_trace(steps):
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, None, name="x")
        perform(graph, x, iter(steps))


def perform(graph, x, steps):
    for step in steps:
        if step == "op":
            af.identity(x, name="x")
        elif step == "scope":
            with graph.name_scope("x"):
                a("x")
        elif step == "collect":
            graph.add_to_collection("c", graph.version)
        elif step == "(":
            before = state(graph)
            try:
                with graph.transaction():
                    perform(graph, x, steps)
            except KeyError:
                assert state(graph) == before
        elif step == "fail":
            if graph._journals:
                raise KeyError
        elif step == ")":
            return


def test_a_transaction_keeps_other_threads_out(graph):
    built, entered = [], threading.Event()

    def other():
        entered.set()
        with graph.as_default():
            built.append(a("other").id)

    thread = threading.Thread(target=other)
    with graph.transaction():
        thread.start()
        entered.wait()
        ids = [a().id for _ in range(1000)]
    thread.join()
    assert ids == list(range(1000))
    assert built == [1000]


def test_threads_add_at_the_same_time(graph):
    def build():
        with graph.as_default(), graph.name_scope("s"):
            for _ in range(200):
                af.identity(x, name="y")

    x = af.constant(1.0)
    threads = [threading.Thread(target=build) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    operations = graph.get_operations()
    assert [op.id for op in operations] == list(range(1601))
    assert len({op.name for op in operations}) == 1601
    assert len(x.consumers()) == 1600


# The default graph


def test_there_is_always_a_default_graph():
    outside = af.get_default_graph()
    assert af.get_default_graph() is outside
    with af.Graph().as_default() as graph:
        assert af.get_default_graph() is graph
        with af.Graph().as_default() as inner:
            assert af.get_default_graph() is inner
        assert af.get_default_graph() is graph
        with pytest.raises(RuntimeError, match="leave the block first"):
            af.reset_default_graph()
    af.reset_default_graph()
    assert af.get_default_graph() is not outside


async def test_tasks_have_scopes_of_their_own(graph):
    async def build(name):
        with af.Graph().as_default() as own, own.name_scope(name), own.device(f"/job:{name}"):
            await asyncio.sleep(0)
            operation = a("x")
            await asyncio.sleep(0)
        return operation.graph is own, operation.name, operation.device, af.get_default_graph() is graph

    with graph.name_scope("outer"):
        found = await asyncio.gather(build("p"), build("q"))
        assert a("x").name == "outer/x"
    assert found == [(True, "p/x", "/job:p", True), (True, "q/x", "/job:q", True)]


async def test_tasks_inherit_the_scopes_they_are_created_in(graph):
    async def build():
        return a("x").name

    with graph.name_scope("outer"):
        task = asyncio.create_task(build())
    assert await task == "outer/x"
    assert a("x").name == "x"


def test_a_thread_starts_outside_of_all_scopes(graph):
    found = []

    def look():
        found.append((af.get_default_graph() is graph, graph.get_name_scope()))

    with graph.name_scope("outer"):
        for context in (contextvars.Context(), contextvars.copy_context()):
            thread = threading.Thread(target=context.run, args=(look,))
            thread.start()
            thread.join()
    assert found == [(False, ""), (True, "outer")]


def test_scopes_belong_to_one_graph(graph):
    other = af.Graph()
    with graph.name_scope("s"), graph.device("/gpu:0"), other.as_default():
        assert (a("x").name, a().device) == ("x", "")


def test_a_graph_is_freed_with_its_last_reference():
    with af.Graph().as_default() as graph:
        af.tanh(af.constant(1.0))
    freed = weakref.ref(graph)
    del graph
    gc.collect()
    assert freed() is None


def test_an_undo_that_fails_does_not_end_up_in_later_transactions():
    graph, undone = af.Graph(), []

    def fail(undo):
        with graph.transaction():
            graph.on_failure(undo)
            raise OSError("not built")

    with pytest.raises(ZeroDivisionError):
        fail(lambda: 1 / 0)
    with pytest.raises(OSError, match="not built"):
        fail(lambda: undone.append(1))
    graph.on_failure(lambda: undone.append(2))
    assert undone == [1]
    assert not graph._journals
