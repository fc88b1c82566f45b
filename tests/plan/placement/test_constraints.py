"""Which devices nodes may be put on, and which of them must share one; what is said when that cannot be."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.graph.device_spec import DeviceSpec
from aioflow.kernels.state.variables import read_variable
from aioflow.plan.placement.colocation import UnionFind, is_everywhere, is_state, state_key
from aioflow.plan.placement.constraints import lowered
from aioflow.plan.placement.refinement import place
from aioflow.tensors.dtypes import DeviceKind
from tests.support.placements import HERE, Told, flow_of, only_cpu, only_gpu, short, sites, work

THERE = "/job:localhost/replica:0/task:1"


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def placed(flow, devices=None, **options):
    """The short name of the device of each node, by the node's name."""
    found = place(flow, devices or sites(cpus=3), Told(), **options)
    return {node.name: short(device) for node, device in found.devices.items()}


def refused(flow, devices=None, **options):
    with pytest.raises(af.errors.InvalidArgumentError) as caught:
        place(flow, devices or sites(cpus=3), Told(), **options)
    return caught.value


# Sets


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_a_union_of_sets_holds_what_edges_connect(pairs):
    sets = UnionFind()
    for one, other in pairs:
        sets.join(("key", one), ("key", other))  # keys that are equal and not the same object
    components = {number: {number} for number in range(21)}
    for one, other in pairs:
        if components[one] is not components[other]:
            merged = components[one] | components[other]
            components.update(dict.fromkeys(merged, merged))
    for one, other in itertools.combinations(range(21), 2):
        joined = sets.find(("key", one)) == sets.find(("key", other))
        assert joined == (components[one] is components[other])


# Requests


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        ("", ["CPU:0", "CPU:1", "GPU:0", "task:1/device:CPU:0", "task:1/device:CPU:1", "task:1/device:GPU:0"]),
        ("/cpu:1", ["CPU:1", "task:1/device:CPU:1"]),
        ("/device:CPU:*/task:0", ["CPU:0", "CPU:1"]),
        ("/device:GPU:0", ["GPU:0", "task:1/device:GPU:0"]),
        ("/gpu:*", ["GPU:0", "task:1/device:GPU:0"]),
        ("/task:1", ["task:1/device:CPU:0", "task:1/device:CPU:1", "task:1/device:GPU:0"]),
        ("/job:localhost/replica:0/task:1/device:CPU:0", ["task:1/device:CPU:0"]),
    ],
)
def test_what_is_asked_for_in_part_leaves_the_rest_open(asked, allowed):
    with af.device(asked):
        ends = [work([], seconds=(1.0, 1.0)) for _ in range(12)]  # long, so that all devices are used
    assert sorted(set(placed(flow_of(*ends), sites(cpus=2, gpus=1, tasks=2)).values())) == allowed


def test_devices_without_a_kernel_are_left_out_and_the_report_says_so():
    ends = [work([], seconds=(1.0, 1.0)), only_cpu([])]
    flow = flow_of(*ends)
    found = place(flow, sites(cpus=1, gpus=1), Told())
    by_name = {node.name: (short(found.devices[node]), found.reasons[node]) for node in flow.nodes}
    assert by_name["test_only_cpu"] == ("CPU:0", "kernels for CPU alone")


def test_feeds_and_constants_need_no_place():
    x = af.placeholder(af.float32, [])
    assert placed(flow_of(x + 1.0, feeds=[x])) == {"add": "CPU:0"}


# Who shares a device. Each case builds what is fetched, and names the sets of nodes that share one.


def variable_and_its_users():
    variable = af.Variable([1.0], name="v")
    busy = work([variable.read_value()], seconds=(1.0, 1.0))
    return [busy, work([], seconds=(1.0, 1.0)), variable.assign_add(busy)], [
        {"v", "read_variable", "assign_add_variable"}
    ]


def two_handles_to_one_variable():
    first, second = (af.Variable([1.0], name=name, use_resource=True) for name in "ab")
    for each in (first, second):
        each.handle.op.attrs["shared_name"] = "shared"
    ends = [work([each.read_value()], seconds=(1.0, 1.0)) for each in (first, second)]
    return ends, [{"a", "b", "read_variable", "read_variable_1"}]


def queue_and_its_users():
    queue = af.FIFOQueue(3, [af.float32], [[]], name="q")
    put = queue.enqueue(af.reduce_sum(work([], seconds=(1.0, 1.0))), name="put")
    return [put, queue.dequeue(name="take"), queue.size(name="count")], [{"q", "put", "take", "count"}]


def chain_of_neighbours():
    a = work([], seconds=(1.0, 1.0), name="a")
    with af.get_default_graph().colocate_with(a.op):
        b = work([], seconds=(1.0, 1.0), name="b")
    with af.get_default_graph().colocate_with(b.op):
        c = work([], seconds=(1.0, 1.0), name="c")
    return [a, b, c], [{"a", "b", "c"}]


def neighbours_of_what_is_not_run():
    pruned = work([], name="pruned")
    with af.get_default_graph().colocate_with(pruned.op):
        ends = [work([], seconds=(1.0, 1.0), name=name) for name in "ab"]
    return ends, [{"a", "b"}]


def neighbours_of_two():
    a, b = (work([], seconds=(1.0, 1.0), name=name) for name in "ab")
    with af.get_default_graph().colocate_with(a.op), af.get_default_graph().colocate_with(b.op):
        both = work([], name="both")
    return [a, b, both], [{"a", "b", "both"}]


@pytest.mark.parametrize(
    "case",
    [
        variable_and_its_users,
        two_handles_to_one_variable,
        queue_and_its_users,
        chain_of_neighbours,
        neighbours_of_what_is_not_run,
        neighbours_of_two,
    ],
)
def test_what_belongs_together_shares_a_device(case):
    ends, together = case()
    tensors = [end for end in ends if isinstance(end, af.Tensor)]
    found = placed(flow_of(*tensors, targets=[end for end in ends if not isinstance(end, af.Tensor)]))
    for names in together:
        assert names <= found.keys()
        assert len({found[name] for name in names}) == 1


@pytest.mark.parametrize("inside", [False, True])
def test_who_is_beside_what_is_not_run_goes_where_that_asked_to_be(graph, inside):
    with af.device("/cpu:2"):
        pruned = work([], name="pruned")
    with graph.colocate_with(pruned.op):
        beside = (
            af.cond(af.reduce_sum(work([])) > 0, lambda: work([], name="a"), lambda: work([])) if inside else work([])
        )
    assert placed(flow_of(beside))[beside.op.name] == "CPU:2"


def test_a_list_is_a_value_and_may_be_elsewhere():
    array = af.TensorArray(af.float32, 1, element_shape=[])
    with af.device("/cpu:1"):
        array = array.write(0, 1.0)
    with af.device("/cpu:2"):
        end = array.read(0)
    assert placed(flow_of(end))[end.op.name] == "CPU:2"


# What cannot be


def variable_away_from_its_users():
    with af.device("/cpu:0"):
        variable = af.Variable([1.0], name="v")
    with af.device("/cpu:1"):
        return read_variable(variable.handle, name="away")


def neighbours_apart():
    with af.device("/cpu:0"):
        a = work([], name="a")
    with af.get_default_graph().colocate_with(a.op), af.device("/cpu:1"):
        return work([a], name="b")


def tasks_apart():
    with af.device("/task:0"):
        a = work([], name="a")
    with af.get_default_graph().colocate_with(a.op), af.device("/task:1"):
        return work([a], name="b")


def kernels_apart():
    a = only_cpu([], name="a")
    with af.get_default_graph().colocate_with(a.op):
        return only_gpu([a], name="b")


def no_kernel():
    with af.device("/gpu:0"):
        return only_cpu([], name="a")


def no_kernel_inside():
    x = work([])
    with af.device("/gpu:0"):
        return af.cond(af.reduce_sum(x) > 0, lambda: only_cpu([x], name="a"), lambda: af.reduce_sum(x))


def no_such_number():
    with af.device("/cpu:7"):
        return work([], name="a")


def no_such_type():
    with af.device("/device:TPU:0"):
        return work([], name="a")


def no_such_job():
    with af.device("/job:other/cpu:0"):
        return work([], name="a")


def no_such_device_for_a_constant():
    with af.device("/cpu:7"):
        one = af.constant(1.0, name="a")
    return work([one])


def malformed():
    end = work([], name="a")
    end.op.device = "/cpu:zero"
    return end


CANNOT_BE = [
    (
        variable_away_from_its_users,
        "away",
        ["which both work on 'v'", "'v' asks for /device:CPU:0", "for /device:CPU:1"],
    ),
    (neighbours_apart, "b", ["'a' (built at", "must be on one device", "/device:CPU:0", "/device:CPU:1", "colocation"]),
    (tasks_apart, "b", ["'a' asks for /task:0", "'b' for /task:1"]),
    (kernels_apart, "b", ["'a' (built at", "kernels of the first for CPU", "of the second for GPU"]),
    (no_kernel, "a", ["has no kernel for ()", "device:GPU:0; it has them for CPU", "device:CPU:0"]),
    (no_kernel_inside, "a", ["has no kernel for (float32[1])", "it has them for CPU"]),
    (no_such_number, "a", ["there is no device /device:CPU:7; there are", "device:CPU:1", "allow_soft_placement"]),
    (no_such_type, "a", ["there is no device /device:TPU:0; there are", "device:CPU:1", "allow_soft_placement"]),
    (no_such_job, "a", ["there is no device /job:other/device:CPU:0; there are"]),
    (no_such_device_for_a_constant, "a", ["there is no device /device:CPU:7"]),
    (malformed, "a", ["malformed device name '/cpu:zero' at 'cpu:zero'"]),
]


@pytest.mark.parametrize(("case", "culprit", "words"), CANNOT_BE, ids=lambda value: getattr(value, "__name__", None))
def test_what_cannot_be_placed_is_said_with_names_lines_and_devices(case, culprit, words):
    error = refused(flow_of(case()), sites(cpus=2, gpus=1, tasks=2))
    for word in words:
        assert word in error.message
    assert error.op.rpartition("/")[2] == culprit
    assert "test_constraints.py" in error.line


@pytest.mark.parametrize(
    ("case", "where"),
    [
        (variable_away_from_its_users, {"CPU"}),
        (neighbours_apart, {"CPU"}),
        (no_kernel, {"CPU"}),
        (no_kernel_inside, {"CPU"}),
        (no_such_number, {"CPU"}),
        (no_such_type, {"CPU", "GPU"}),
        (no_such_device_for_a_constant, {"CPU", "GPU"}),
    ],
)
def test_soft_placement_lets_go_of_number_and_type(case, where):
    end = case()
    found = placed(flow_of(end), sites(cpus=2, gpus=1), soft=True)
    assert found[end.op.name].partition(":")[0] in where


@pytest.mark.parametrize("case", [no_such_job, tasks_apart, kernels_apart, malformed])
def test_soft_placement_never_lets_go_of_job_and_task_nor_finds_kernels(case):
    assert refused(flow_of(case()), sites(cpus=2, gpus=1, tasks=2), soft=True).message


def test_the_only_device_there_is_must_be_what_is_asked_for():
    one = sites(cpus=1)
    assert "there is no device /device:CPU:7; there are" in refused(flow_of(no_such_number()), one).message
    assert placed(flow_of(no_such_number()), one, soft=True) == {"a_1": "CPU:0"}
    with af.device(f"{HERE}/cpu:0"):
        assert set(placed(flow_of(work([])), one).values()) == {"CPU:0"}


# State


def key_of(flow, name):
    return next(state_key(node) for node in flow.nodes if node.name == name)


def test_state_stays_where_it_is():
    variable = af.Variable([1.0], name="v")
    flow = flow_of(work([variable.read_value()], seconds=(1.0, 1.0)))
    for home in ("CPU:0", "CPU:2"):
        found = placed(flow, homes={key_of(flow, "v"): f"{HERE}/device:{home}"})
        assert found["v"] == found["read_variable"] == home


def test_a_home_that_is_gone_is_forgotten():
    variable = af.Variable([1.0], name="v")
    flow = flow_of(variable.read_value())
    assert placed(flow, homes={key_of(flow, "v"): f"{HERE}/device:CPU:9"})["v"] == "CPU:0"


def test_state_that_lives_elsewhere_than_is_asked_for_is_an_error():
    with af.device("/cpu:1"):
        variable = af.Variable([1.0], name="v")
    flow = flow_of(variable.read_value())
    homes = {key_of(flow, "v"): f"{HERE}/device:CPU:2"}
    assert f"lives on {HERE}/device:CPU:2" in refused(flow, homes=homes).message
    assert placed(flow, homes=homes, soft=True)["v"] == "CPU:2"


def test_two_states_that_live_apart_cannot_be_worked_on_together():
    first, second = (af.Variable([1.0], name=name) for name in "ab")
    chosen = af.cond(af.reduce_sum(work([])) > 0, lambda: first.read_value(), lambda: second.read_value())
    flow = flow_of(chosen)
    homes = {key_of(flow, name): f"{HERE}/device:CPU:{number}" for number, name in enumerate("ab")}
    message = refused(flow, homes=homes).message
    assert "'a' lives on" in message
    assert "'b' on" in message


def test_state_is_put_where_its_users_in_other_calls_ask_for_it():
    variable = af.Variable([1.0], name="v")
    with af.device("/cpu:2"):
        read_variable(variable.handle)
    assert placed(flow_of(targets=[variable.initializer]))["v"] == "CPU:2"


# Control flow


def loop(body):
    return af.while_loop(lambda i: i < 3, body, [0])


def test_a_loop_in_one_piece_goes_where_what_is_inside_asks_to_be():
    with af.device("/cpu:2"):
        end = loop(lambda i: i + 1)
    flow = flow_of(end)
    assert lowered(flow, sites(cpus=3), {}) is flow
    assert placed(flow)[end.op.name] == "CPU:2"


def test_a_loop_that_asks_for_two_devices_is_to_be_lowered_and_then_each_part_is_where_it_asks_to_be():
    def body(i):
        with af.device("/cpu:1"):
            i = af.identity(i + 1, name="one")
        with af.device("/cpu:2"):
            return af.identity(i, name="two")

    devices = placed(lowered(flow_of(loop(body)), sites(cpus=3), {}))
    assert devices["while/body/one"] == "CPU:1"
    assert devices["while/body/two"] == "CPU:2"
    ring = [
        name for name in devices if name.startswith(("while/enter1", "while/merge1", "while/switch1", "while/exit1"))
    ]
    assert len(ring) == 4
    assert len({devices[name] for name in [*ring, "while/next1"]}) == 1


def test_a_loop_away_from_its_state_is_to_be_lowered():
    variable = af.Variable(1, name="v")
    with af.device("/cpu:1"):
        flow = flow_of(loop(lambda i: i + variable.read_value()))
    home = {key_of(flow, "v"): f"{HERE}/device:CPU:2"}
    assert placed(lowered(flow, sites(cpus=3), {}))["while"] == "CPU:1"
    devices = placed(lowered(flow, sites(cpus=3), home), homes=home)
    assert devices["v"] == devices["while/capture1"] == devices["while/body/read_variable"] == "CPU:2"
    assert devices["while/body/add"] == "CPU:1"


def test_of_two_loops_over_one_state_that_ask_for_different_devices_one_is_lowered():
    variable = af.Variable(1, name="v")
    ends = []
    for device in ("/cpu:1", "/cpu:2"):
        with af.device(device):
            ends.append(loop(lambda i: i + variable.read_value()))
    devices = placed(lowered(flow_of(*ends), sites(cpus=3), {}))
    assert devices["v"] == devices["while"] == devices["while_1/body/read_variable"] == "CPU:1"
    assert devices["while_1/body/add"] == "CPU:2"


def test_a_loop_of_which_no_kind_of_device_can_do_all_is_to_be_lowered():
    end = loop(lambda i: i + af.cast(only_cpu([only_gpu([])]), af.int32))
    devices = sites(cpus=1, gpus=1)
    found = placed(lowered(flow_of(end), devices, {}), devices)
    assert (found["while/body/test_only_cpu"], found["while/body/test_only_gpu"]) == ("CPU:0", "GPU:0")


def test_an_inner_loop_away_from_its_state_is_lowered_too():
    variable = af.Variable(1, name="v")

    def body(i):
        with af.device("/cpu:1"):
            return loop(lambda j: j + i * variable.read_value())

    flow = flow_of(loop(body))
    home = {key_of(flow, "v"): f"{HERE}/device:CPU:2"}
    devices = placed(lowered(flow, sites(cpus=3), home), homes=home)
    inner = "while/body/while/body"
    assert (devices[f"{inner}/read_variable"], devices[f"{inner}/add"]) == ("CPU:2", "CPU:1")


# Random graphs


REQUESTS = [
    "",
    "",
    "",
    "/cpu:0",
    "/cpu:1",
    "/gpu:0",
    "/device:GPU:*",
    "/task:1",
    "/task:0/cpu:1",
    "/cpu:5",
    "/job:other",
]


@st.composite
def programs(draw):
    """Operations on tensors, variables and each other, some of which ask for devices or company."""
    tensors = [work([])]
    states = [af.Variable([1.0]) for _ in range(draw(st.integers(0, 2)))]
    targets = []
    for _ in range(draw(st.integers(1, 12))):
        inputs = draw(st.lists(st.sampled_from(tensors), max_size=3))
        beside = draw(st.sampled_from([None, None, *[tensor.op for tensor in tensors]]))
        asked = draw(st.just("") | st.sampled_from(REQUESTS))
        kind = draw(st.sampled_from(["work", "work", "cpu", "gpu", "state"]))
        with af.get_default_graph().colocate_with(beside, ignore_existing=True), af.device(asked):
            if kind == "state" and states:
                state = draw(st.sampled_from(states))
                targets.append(state.assign_add(af.reshape(tensors[-1], [1])).op)
                tensors.append(state.read_value())
            else:
                made = {"cpu": only_cpu, "gpu": only_gpu}.get(kind, work)
                tensors.append(af.reshape(made(inputs), [1]))
    return flow_of(*tensors, targets=targets)


def check(flow, devices, available, soft):
    """No constraint is violated."""
    by_name = {site.name: site for site in available}
    assert devices.keys() == {node for node in flow.nodes if not is_everywhere(node)}
    for node, name in devices.items():
        site, asked = by_name[name], DeviceSpec.from_string(node.operation.device)
        for part in ("job", "replica", "task", *(() if soft else ("device_type", "device_index"))):
            assert getattr(asked, part) in (None, getattr(site.spec, part))
        assert node.definition.kernel_for(site.kind, node.input_specs) is not None
        for source, index in node.inputs:
            if is_state(source.output_specs[index]):
                assert devices[source] == name
    by_operation = {node.operation.name: node for node in devices}
    for node in devices:
        for other in filter(None, map(by_operation.get, node.operation.colocation)):
            assert devices[node] == devices[other] or is_apart_from_gpu(node, other, devices, by_name)


def is_apart_from_gpu(node, other, devices, by_name):
    """Whether one is on a GPU, and the other, without a kernel for GPUs, on a CPU of the same task."""
    places = [(by_name[devices[each]], each) for each in (node, other)]
    (cpu, alone), (gpu, _) = sorted(places, key=lambda place: place[0].kind is DeviceKind.GPU)
    return (
        (cpu.kind, gpu.kind) == (DeviceKind.CPU, DeviceKind.GPU)
        and cpu.spec.task == gpu.spec.task
        and alone.definition.kernel_for(DeviceKind.GPU, alone.input_specs) is None
    )


@given(st.data(), st.booleans(), st.sampled_from([(2, 1, 2), (3, 0, 1), (1, 1, 1), (12, 4, 1)]))
def test_whatever_is_placed_keeps_to_all_constraints_and_is_placed_so_again(data, soft, shape):
    with af.Graph().as_default():
        flow = data.draw(programs())
    available = sites(*shape)
    try:
        found = place(flow, available, Told(), soft=soft)
    except af.errors.InvalidArgumentError as wrong:
        error = wrong
    else:
        check(flow, found.devices, available, soft)
        assert place(flow, available, Told(), soft=soft).devices == found.devices
        assert found.makespan > 0
        assert str(found.report()).count("\n") == len(found.devices)
        return
    assert error.op is not None
    assert "device" in error.message


@pytest.mark.parametrize(
    ("home", "asked", "found"),
    [("/cpu:1", "", "CPU:1"), ("/gpu:0", "", "CPU:0"), ("/gpu:0", "/cpu:2", "CPU:2"), ("/gpu:0", "/gpu:0", "CPU:0")],
)
def test_an_op_colocated_with_a_variable_leaves_it_only_if_the_variable_is_on_a_gpu(graph, home, asked, found):
    with af.device(home):
        variable = af.Variable([0.0, 0.0], name="v")
    with graph.colocate_with(variable.op), af.device(asked):
        drawn = af.random_uniform([2], name="drawn")
    places = placed(flow_of(af.assign(variable, drawn)), sites(cpus=3, gpus=1))
    assert (places["v"], places["drawn"]) == (home[1:].upper(), found)


def test_a_request_against_the_cpu_of_a_variable_is_refused_beside_gpus_too(graph):
    with af.device("/cpu:1"):
        variable = af.Variable([0.0], name="v")
    with graph.colocate_with(variable.op), af.device("/cpu:2"):
        drawn = af.random_uniform([1], name="drawn")
    error = refused(flow_of(af.assign(variable, drawn)), sites(cpus=3, gpus=1))
    assert "'v' asks for /device:CPU:1, 'drawn' for /device:CPU:2" in str(error)
