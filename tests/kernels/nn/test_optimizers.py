"""The fused updates beneath the optimizers: in place, atomic, never in each other's way."""

import threading

import ml_dtypes
import numpy as np
import pytest

import aioflow as af
import aioflow.kernels.nn.proximal_optimizers  # declares updates
from aioflow import errors
from aioflow.devices.cpu import Cores
from aioflow.graph.op import REGISTRY
from aioflow.kernels.context import Context
from aioflow.kernels.nn import optimizers, update
from aioflow.resources.containers import Resources, VariableState
from aioflow.tensors.dtypes import DeviceKind, Spec, as_dtype

UPDATES = sorted(name for name in REGISTRY if name.startswith(("apply_", "sparse_apply_")))


class Step:
    ended = False

    journal = None

    def check(self):
        if self.ended:
            raise errors.CancelledError("the step has ended")


@pytest.fixture
def step():
    return Step()


@pytest.fixture
def cores():
    made = Cores("cores", 2)
    yield made
    made.close()


@pytest.fixture
def context(step):
    return Context(np, Resources(), step)


class Node:
    """What a kernel with attributes sees of its node."""

    def __init__(self, attrs):
        self.attrs = attrs


def state(value, name="w"):
    made = VariableState(name, Spec(as_dtype(value.dtype), af.TensorShape(value.shape)))
    made.assign(value)
    return made


def roles(op):
    return [("handle" if p.marker is None else p.name) for p in op.params if p.role == "tensor"]


def call_of(name, **attrs):
    """The op's kernel as (context, *inputs) -> None."""
    op = REGISTRY[name]
    defaults = {p.name: op.__signature__.parameters[p.name].default for p in op.params if p.role == "attr"}
    node = Node({**defaults, **attrs})
    return op.kernels[DeviceKind.CPU][0].bind(op, node, np)


def inputs_for(name, states, grad, indices=None, number=0.5):
    """The inputs of an op: states for its handles, and one number for all others but the gradient."""
    handles, number = iter(states), grad.dtype.type(number)
    given = {"grad": grad, "delta": grad, "indices": indices}
    return [next(handles) if role == "handle" else given.get(role, number) for role in roles(REGISTRY[name])]


def states_for(name, value):
    count = roles(REGISTRY[name]).count("handle")
    return [state(value.copy(), f"s{index}") for index in range(count)]


@pytest.mark.parametrize("name", UPDATES)
def test_what_nobody_holds_is_changed_in_place_and_what_is_held_is_not(context, name):
    value, rows = np.full((4, 3), 0.5), np.array([0, 2])
    states = states_for(name, value)
    grad = np.ones((2, 3)) if name.startswith("sparse") else np.ones((4, 3))
    call, inputs = call_of(name), inputs_for(name, states, grad, rows)
    places = [id(each.read()) for each in states]
    call(context, *inputs)
    assert [id(each.read()) for each in states] == places
    held = [each.read() for each in states]
    before = [array.copy() for array in held]
    call(context, *inputs)
    for array, copy, each in zip(held, before, states, strict=True):
        np.testing.assert_array_equal(array, copy)
        assert each.read() is not array
    assert (states[0].read() != before[0]).any()
    assert (grad == 1).all()


@pytest.mark.parametrize("name", [name for name in UPDATES if not name.startswith("sparse")])
def test_large_ones_come_to_the_same_in_place_and_from_what_is_held(step, cores, name, monkeypatch):
    monkeypatch.setattr(update, "LARGE", 3 * update.BLOCK)
    draw = np.random.default_rng(3)
    value, grad = draw.uniform(0.5, 1.0, [2, 3, update.BLOCK]), draw.normal(size=[2, 3, update.BLOCK])
    free, shared = states_for(name, value), states_for(name, value)
    context, held = Context(np, Resources(), step, device=cores), [each.read() for each in shared]
    for states in (free, shared):
        call_of(name)(context, *inputs_for(name, states, grad))
    assert all((array == value).all() for array in held)
    for one, other in zip(free, shared, strict=True):
        np.testing.assert_array_equal(one.read(), other.read())


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("rate", [0.1, 0.0, -3e38, 1e-40, np.nan, np.inf])
def test_a_large_variable_descends_with_the_bits_of_numpy(step, is_held, rate):
    draw = np.random.default_rng(7)
    value, delta = [draw.integers(0, 1 << 32, (257, 130), np.uint32).view(np.float32) for _ in range(2)]
    with np.errstate(all="ignore"):
        wanted = value - delta * np.float32(rate)
        free = state(value.copy())
        held = free.read() if is_held else None
        call_of("apply_gradient_descent")(Context(np, Resources(), step), free, np.float32(rate), delta)
    found = free.read()
    assert held is None or held.tobytes() == value.tobytes()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(found[~np.isnan(found)].view(np.uint32), wanted[~np.isnan(wanted)].view(np.uint32))


@pytest.mark.parametrize("name", UPDATES)
def test_a_step_that_has_ended_changes_nothing(context, step, name):
    states = states_for(name, np.full((2, 2), 0.5))
    step.ended = True
    with pytest.raises(errors.CancelledError):
        call_of(name)(context, *inputs_for(name, states, np.ones((2, 2)), np.array([0, 1])))
    assert all((each.read() == 0.5).all() for each in states)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("name", UPDATES)
def test_dtypes_stay_what_they_are(context, name, dtype):
    states = states_for(name, np.full((2, 2), 0.5, dtype))
    call_of(name)(context, *inputs_for(name, states, np.ones((2, 2), dtype), np.array([0, 1])))
    assert [each.read().dtype for each in states] == [dtype] * len(states)
    assert np.isfinite(states[0].read().astype(float)).all()


@pytest.mark.parametrize("name", [name for name in UPDATES if name.startswith("sparse")])
def test_rows_that_do_not_exist_are_named_and_nothing_is_changed(context, name):
    states = states_for(name, np.full((2, 2), 0.5))
    for stray in (2, -1):
        with pytest.raises(errors.InvalidArgumentError, match=f"index {stray} is out of range for 's0' with 2 rows"):
            call_of(name)(context, *inputs_for(name, states, np.ones((2, 2)), np.array([0, stray])))
    assert all((each.read() == 0.5).all() for each in states)


@pytest.mark.parametrize("name", UPDATES)
def test_rows_and_scalars_may_be_none_or_one(context, name):
    if name.startswith("sparse"):
        value, grad = np.ones((3, 2)), np.ones((0, 2))
    else:
        value, grad = np.float64(1.0), np.float64(1.0)
    states = states_for(name, value)
    call_of(name)(context, *inputs_for(name, states, grad, np.array([], np.int32)))
    assert {type(each.read()) for each in states} == {np.ndarray}
    assert {each.read().shape for each in states} == {np.shape(value)}


@pytest.mark.parametrize("name", [name for name in UPDATES if roles(REGISTRY[name]).count("handle") > 1])
def test_a_variable_is_not_its_own_slot(context, name):
    states = states_for(name, np.ones((2, 2)))
    states[1] = states[0]
    with pytest.raises(errors.InvalidArgumentError, match="must be different"):
        call_of(name)(context, *inputs_for(name, states, np.ones((2, 2)), np.array([0, 1])))
    states[0].change(lambda value: None)


@pytest.mark.real
def test_updates_from_many_threads_are_atomic_and_never_wait_for_each_other(context):
    first, second = (state(np.zeros(3000), name) for name in "ab")
    call, one = call_of("apply_momentum"), np.float64(1.0)
    grad = np.ones(3000)

    def work(var, slot):
        for _ in range(100):
            call(context, var, slot, np.float64(0.0), grad, one)

    threads = [threading.Thread(target=work, args=pair) for pair in [(first, second), (second, first)] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (first.read() == 200).all()
    assert (second.read() == 200).all()


def test_a_slot_that_is_busy_is_waited_for_with_nothing_held(context):
    var, slot = state(np.zeros(2)), state(np.zeros(2), "slot")
    slot.begin_change()
    inputs = var, slot, np.float64(1.0), np.ones(2), np.float64(0.0)
    thread = threading.Thread(target=call_of("apply_momentum"), args=(context, *inputs))
    thread.start()
    slot.end_change()
    thread.join()
    assert var.read().tolist() == [-1.0, -1.0]


# What is refused when the graph is built


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda w, s: optimizers.apply_gradient_descent(w, 0.1, [1.0]), ValueError, r"\[2\] and \[1\]"),
        (lambda w, s: optimizers.apply_gradient_descent(w, [0.1], [1.0, 1.0]), ValueError, "rank 0 is needed"),
        (
            lambda w, s: optimizers.apply_gradient_descent(w, 0.1, af.zeros(2, af.float64)),
            TypeError,
            "float32 and float64",
        ),
        (lambda w, s: optimizers.apply_gradient_descent(w, 0.1, af.constant([1, 1])), TypeError, "int32"),
        (
            lambda w, s: optimizers.apply_gradient_descent([1.0, 1.0], 0.1, [1.0, 1.0]),
            TypeError,
            "handle to a resource",
        ),
        (lambda w, s: optimizers.apply_momentum(w, s, 0.1, [1.0, 1.0], 0.9), ValueError, r"\[2\] and \[3\]"),
        (lambda w, s: optimizers.sparse_apply_adagrad(w, w, 0.1, [1.0], [[0]]), ValueError, "rank 1 is needed"),
        (lambda w, s: optimizers.sparse_apply_adagrad(w, w, 0.1, [1.0], [0.0]), TypeError, "float32"),
        (lambda w, s: optimizers.sparse_apply_adagrad(w, w, 0.1, [1.0, 2.0], [0]), ValueError, r"\[2\] and \[1\]"),
        (lambda w, s: optimizers.apply_ftrl(w, w, w, [1.0, 1.0], 1.0, 0.0, [0.0], -0.5), ValueError, "rank 0"),
        (
            lambda w, s: optimizers.apply_rms_prop(
                *[af.Variable(1j).handle for _ in range(3)], 0.1, 0.9, 0.0, 1e-9, af.constant(1j)
            ),
            TypeError,
            "complex128 is not supported",
        ),
        (
            lambda w, s: optimizers.sparse_apply_gradient_descent(af.Variable(1.0).handle, 0.1, [1.0], [0]),
            ValueError,
            "no rows",
        ),
        (lambda w, s: optimizers.deduplicate_rows([[1.0]], [0, 1]), ValueError, "not compatible"),
    ],
)
def test_updates_that_cannot_fit_are_refused(graph, build, error, text):
    w, slot = af.Variable([1.0, 2.0]), af.Variable([1.0, 2.0, 3.0])
    with pytest.raises(error, match=text):
        build(w.handle, slot.handle)


async def test_complex_variables_descend(graph):
    w = af.Variable([1 + 1j])
    with af.Session(graph=graph).as_default() as session:
        await session.run(w.initializer)
        await session.run(optimizers.apply_gradient_descent(w.handle, 0.5 + 0j, [2j]))
        assert (await session.run(w)).tolist() == [1 + 0j]
        await session.close()
