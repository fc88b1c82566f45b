"""Stacks live for one step; large values leave a device that is nearly full."""

import asyncio
import gc

import numpy as np
import pytest

import aioflow as af
from aioflow.devices.device import local_devices
from aioflow.devices.gpu import Gpu, SwappedValue
from aioflow.kernels.control.stacks import Stack
from aioflow.kernels.control.transfer import put_away, taken_back
from aioflow.kernels.state.variables import read_variable
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import Machine


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def pushed(stack, *values, **options):
    """The last push of these values, one after the other."""
    last = None
    for value in values:
        with af.control_dependencies([] if last is None else [last]):
            last = af.stack_push_v2(stack, value, **options)
    return last


def popped(stack, count, after, dtype=af.float32):
    found = []
    for _ in range(count):
        with af.control_dependencies([after]):
            after = af.stack_pop_v2(stack, dtype)
        found.append(after)
    return found


@pytest.mark.parametrize("swap_memory", [False, True])
async def test_what_is_pushed_last_is_popped_first_whatever_its_shape(graph, swap_memory):
    stack = af.stack_v2(-1, af.float32)
    values = [np.float32(1), np.ones((2, 3), np.float32), np.zeros(5000, np.float32)]
    last = pushed(stack, *values, swap_memory=swap_memory)
    assert last.shape == [5000]
    found = popped(stack, 3, last)
    assert found[0].shape == af.TensorShape(None)
    async with af.Session(graph=graph) as session:
        for value, expected in zip(await session.run(found), reversed(values), strict=True):
            np.testing.assert_array_equal(value, expected)


async def test_a_stack_ends_with_its_step(graph):
    value = af.placeholder(af.float32, [])
    stack = af.stack_v2(1, af.float32)
    push = pushed(stack, value)
    (pop,) = popped(stack, 1, push)
    async with af.Session(graph=graph) as session:
        for _ in range(3):  # a stack that stayed would be full the second time
            assert await session.run(push, {value: 5}) == 5
        assert await asyncio.gather(*[session.run(pop, {value: n}) for n in range(5)]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda s: pushed(s, 1.0, 2.0, 3.0), "stack 'mine' is full: it holds 2 elements"),
        (lambda s: popped(s, 2, pushed(s, 1.0))[-1], "stack 'mine' is empty: nothing can be popped"),
        (lambda s: popped(s, 1, af.stack_close_v2(s))[-1], "stack 'mine' was closed"),
    ],
)
async def test_misuse_is_an_error_of_the_run(graph, misuse, text):
    result = misuse(af.stack_v2(2, af.float32, "mine"))
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match=text):
            await session.run(result)


async def test_a_stack_without_a_name_has_that_of_its_operation(graph):
    result = pushed(af.stack_v2(0, af.float32, name="here"), 1.0)
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match="stack 'here' is full: it holds 0 elements"):
            await session.run(result)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda s: af.stack_push_v2(s, np.int32(1)), "the stack holds float32, and the element is int32; use af.cast"),
        (lambda s: af.stack_pop_v2(s, af.int32), "the stack holds float32, not int32"),
        (lambda s: af.stack_pop_v2(af.constant(1.0), af.float32), r"a handle to a stack is needed, not float32\[\]"),
        (lambda s: af.stack_close_v2(af.TensorArray(af.float32, 1).flow), "a handle to a stack is needed, not list"),
        (lambda s: read_variable(s), r"a handle to a resource is needed, not resource\(float32\)"),
        (lambda s: af.stack_v2(2, af.resource), "a stack holds tensors, not resources"),
        (lambda s: af.stack_v2(0.5, af.float32), "max_size must be made of integers, not float32"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_built(graph, build, text):
    with pytest.raises(TypeError, match=text):
        build(af.stack_v2(2, af.float32))


def test_a_stack_shows_what_it_holds():
    stack = Stack("s", -1)
    stack.push(1)
    assert repr(stack) == "<Stack 's' of 1>"
    stack.close()
    assert repr(stack) == "<Stack 's' of 0, closed>"


# Swapping, on a fake GPU


@pytest.fixture
def gpu():
    machine = Machine(strict=True)
    driver = FakeGpu(machine, limit=1 << 16)
    gpu = Gpu(driver, "/job:localhost/replica:0/task:0/device:GPU:0")
    yield gpu
    gc.collect()
    machine.run()
    machine.check()
    assert driver.used == 0
    gpu.close()


LARGE = np.arange(1024, dtype=np.float32)


@pytest.mark.parametrize(("others", "is_moved"), [(10, False), (11, True), (12, True)])
async def test_a_large_value_is_moved_while_its_device_is_nearly_full(gpu, others, is_moved):
    held = [gpu.copy_in(LARGE) for _ in range(others)]
    value = gpu.copy_in(LARGE)
    kept = put_away(gpu, value)
    assert isinstance(kept, SwappedValue) == is_moved
    del value
    assert gpu.driver.used == (others + (not is_moved)) * LARGE.nbytes  # at once, in the order of the stream
    back = taken_back(gpu, kept)
    await gpu.settled()
    np.testing.assert_array_equal(back._data, LARGE)
    assert len(held) == others


async def test_small_values_and_values_in_host_memory_are_not_moved(gpu):
    held = [gpu.copy_in(LARGE) for _ in range(15)]
    small = gpu.copy_in(LARGE[:512])
    assert put_away(gpu, small) is small
    assert put_away(gpu, LARGE) is LARGE
    assert taken_back(gpu, LARGE) is LARGE
    await gpu.settled()
    assert len(held) == 15


def test_on_a_cpu_nothing_is_moved():
    (cpu,) = local_devices(af.Config())
    assert put_away(cpu, LARGE) is LARGE
    assert taken_back(cpu, LARGE) is LARGE
