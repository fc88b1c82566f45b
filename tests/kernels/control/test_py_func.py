"""Python functions as operations."""

import asyncio
import contextvars
import functools
import threading

import ml_dtypes
import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.kernels.context import Context
from aioflow.kernels.control.py_func import numpy_function, py_func
from aioflow.resources.containers import Resources
from aioflow.tensors.dtypes import DeviceKind
from aioflow.testing import Gate
from tests.support.evaluate import View

color = contextvars.ContextVar("color", default="none")


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


class Step:
    """What a py_func sees of a step: threads."""

    async def in_thread(self, function, *args):
        call = functools.partial(contextvars.copy_context().run, function, *args)
        return await asyncio.get_running_loop().run_in_executor(None, call)


def call(result, *values):
    """A coroutine of what the kernel of an operation gives for these values."""
    op = result if isinstance(result, af.Operation) else (result[0] if isinstance(result, list) else result).op
    view = View(op)
    kernel = op.definition.kernel_for(DeviceKind.CPU, view.input_specs)
    assert kernel.asynchronous
    return kernel.bind(op.definition, view, np)(Context(np, Resources(), Step()), *values)


def plain(function):
    return function


def asynchronous(function):
    @functools.wraps(function)
    async def later(*args):
        await asyncio.sleep(0)
        return function(*args)

    return later


KINDS = pytest.mark.parametrize("kind", [plain, asynchronous])


# Building


def test_the_result_has_the_form_of_the_dtypes():
    single = py_func(abs, [1.0], af.float32)
    several = numpy_function(divmod, [7, 2], [af.int32, "int64"], name="d")
    nothing = py_func(print, [], [])
    assert (single.dtype, single.shape.ndims) == (af.float32, None)
    assert ([t.dtype for t in several], several[0].op.name) == ([af.int32, af.int64], "d")
    assert isinstance(nothing, af.Operation)
    assert py_func(abs, [1.0], [af.float32])[0].op.type == "py_func"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((3, [], af.float32), "func must be callable, or the name of a function that a server has, not 3"),
        ((abs, 1.0, af.float32), "a list or tuple of tensors is needed"),
        ((abs, [1.0], "float31"), "is not a dtype"),
    ],
)
def test_what_is_no_call_is_refused(arguments, text):
    with pytest.raises(TypeError, match=text):
        py_func(*arguments)


def test_there_is_no_gradient():
    x = af.placeholder(af.float32, [])
    assert af.gradients(py_func(abs, [x], af.float32), x) == [None]


# Calling


@KINDS
async def test_the_function_gets_arrays_and_gives_the_results(kind):
    y = py_func(kind(lambda x, s, n: (x * n, s)), [[1.0, 2.0], "text", 3], [af.float32, af.string])
    product, text = await call(y, np.array([1, 2], np.float32), b"text", np.float32(3))
    assert (product.tolist(), text.tolist()) == ([3, 6], b"text")
    assert (product.dtype, text.dtype) == (np.float32, object)


@KINDS
async def test_the_function_cannot_write_to_its_inputs(kind):
    value = np.ones(2)
    kept = []

    def write(x, scalar):
        assert isinstance(scalar, np.float64)
        kept.append(x)
        x[0] = 5.0

    with pytest.raises(errors.InvalidArgumentError, match="read-only"):
        await call(py_func(kind(write), [value, 1.0], []), value, np.float64(1))
    assert value.flags.writeable
    assert np.shares_memory(kept[0], value)


@KINDS
async def test_what_the_function_returns_is_nobody_elses(kind):
    buffer = np.zeros(3)
    first, second = py_func(kind(lambda x: (buffer, x)), [np.zeros(3)], [af.float64, af.float64]), np.ones(3)
    mine, passed = await call(first, second)
    buffer[:] = second[:] = 7
    assert (mine.tolist(), passed.tolist()) == ([0, 0, 0], [1, 1, 1])
    assert mine.flags.writeable


@KINDS
async def test_the_function_sees_the_callers_context_variables(kind):
    y = py_func(kind(lambda: color.get()), [], af.string)
    color.set("blue")
    assert (await call(y)).item() == b"blue"


@pytest.mark.real
async def test_a_plain_function_runs_on_a_thread_and_an_asynchronous_one_on_the_loop():
    found = []

    async def look():
        found.append(threading.current_thread())

    await call(py_func(lambda: found.append(threading.current_thread()), [], []))
    await call(py_func(look, [], []))
    assert [thread is threading.main_thread() for thread in found] == [False, True]


async def test_any_callable_that_is_asynchronous_runs_on_the_loop():
    class Adder:
        async def __call__(self, x):
            return x + asyncio.get_running_loop().time() * 0

    async def add(n, x):
        await asyncio.sleep(0)
        return x + n

    for function, expected in ((Adder(), 1), (functools.partial(add, np.float32(2)), 3)):
        assert await call(py_func(function, [1.0], af.float32), np.float32(1)) == expected


async def test_nothing_is_called_before_the_run():
    calls = []
    y = py_func(lambda: calls.append(1), [], [])
    assert calls == []
    await call(y)
    await call(y)
    assert calls == [1, 1]


# Results


@pytest.mark.parametrize(
    ("returned", "wanted", "dtype", "expected"),
    [
        (1, af.int64, np.int64, 1),
        (1.5, af.float32, np.float32, 1.5),
        (1, af.bfloat16, ml_dtypes.bfloat16, 1),
        ("text", af.string, object, b"text"),
        (np.array(["x"]), af.string, object, [b"x"]),
        (np.float32(2), af.float32, np.float32, 2),
        (np.array([1, 2], ">i4"), af.int32, np.int32, [1, 2]),
        (([1, 2],), af.uint8, np.uint8, [1, 2]),
        (True, af.bool, np.bool_, True),
    ],
)
async def test_python_numbers_take_the_declared_dtype(returned, wanted, dtype, expected):
    found = await call(py_func(lambda: returned, [], wanted))
    assert (found.dtype, found.tolist()) == (dtype, expected)
    assert isinstance(found, np.ndarray)


@pytest.mark.parametrize(
    ("returned", "wanted", "text"),
    [
        (np.float64(1), [af.float32], "value 0 of the function has dtype float64, but must be float32: convert it by"),
        ((1, np.zeros(2)), [af.int32, af.int32], "value 1 of the function has dtype float64, but must be int32"),
        (1.5, [af.int32], "result 0 of the function must be int32: 1.5 is not a value of dtype int32"),
        (object(), [af.float32], "of type object is not a value of dtype float32"),
        ([[1], [2, 3]], [af.int32], "returned 2 values, and is to return int32: a list or tuple is several values"),
        ((1, 2), [af.int32] * 3, "the function returned 2 values, and is to return int32, int32, int32"),
        (None, [af.int32], "the function returned 0 values, and is to return int32"),
        (1, [], "the function returned 1 values, and is to return nothing"),
        (np.array([1], "M8[s]"), [af.int64], "is not a dtype of aioflow"),
    ],
)
@KINDS
async def test_results_that_are_not_as_declared_are_refused(kind, returned, wanted, text):
    with pytest.raises(errors.InvalidArgumentError) as caught:
        await call(py_func(kind(lambda: returned), [], wanted))
    assert text in caught.value.message


async def test_a_coroutine_that_a_plain_function_returns_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match="pass the `async def` function itself"):
        await call(py_func(lambda: asyncio.sleep(0), [], []))


# Errors


@pytest.mark.parametrize(
    ("raised", "kind_of_error"),
    [
        (ValueError("v"), errors.InvalidArgumentError),
        (TypeError("t"), errors.InvalidArgumentError),
        (StopIteration("s"), errors.OutOfRangeError),
        (StopAsyncIteration("s"), errors.OutOfRangeError),
        (MemoryError("m"), errors.ResourceExhaustedError),
        (NotImplementedError("n"), errors.UnimplementedError),
        (KeyError("k"), errors.UnknownError),
        (asyncio.CancelledError("c"), errors.CancelledError),
        (GeneratorExit(), errors.UnknownError),
        (BaseException("b"), errors.UnknownError),
        (errors.NotFoundError("f"), errors.NotFoundError),
    ],
)
@KINDS
async def test_what_the_function_raises_becomes_the_error_of_its_kind(kind, raised, kind_of_error):
    def fail():
        raise raised

    with pytest.raises(kind_of_error) as caught:
        await call(py_func(kind(fail), [], []))
    assert type(caught.value) is kind_of_error
    if not isinstance(raised, errors.OpError):
        assert isinstance(caught.value.__cause__, type(raised))
    assert asyncio.current_task().cancelling() == 0


# Waiting and cancelling


async def test_a_time_limit_inside_the_function_works():
    async def slow():
        async with asyncio.timeout(1):
            await asyncio.sleep(10)

    async def patient():
        try:
            await slow()
        except TimeoutError:
            return 1.0

    assert await call(py_func(patient, [], af.float32)) == 1.0
    with pytest.raises(errors.DeadlineExceededError):
        await call(py_func(slow, [], []))


async def test_cancelling_cancels_the_function_and_waits_for_it():
    gate, log = Gate(), []

    async def function():
        try:
            await gate.wait()
        finally:
            await asyncio.sleep(5)
            log.append("cleaned up")

    task = asyncio.create_task(call(py_func(function, [], [])))
    await gate.arrived()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["cleaned up"]
    assert asyncio.get_running_loop().time() == 5


async def test_a_function_that_does_not_give_way_does_not_hide_the_cancellation():
    gate = Gate()

    async def stubborn():
        with pytest.raises(asyncio.CancelledError):
            await gate.wait()
        with pytest.raises(asyncio.CancelledError):
            await gate.wait()
        return 1.0

    task = asyncio.create_task(call(py_func(stubborn, [], af.float32)))
    await gate.arrived()
    task.cancel()
    await gate.arrived(2)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_while_being_cancelled_is_reported_and_does_not_replace_the_cancellation():
    gate, reported = Gate(), []
    asyncio.get_running_loop().set_exception_handler(lambda loop, problem: reported.append(problem["exception"]))

    async def careless():
        try:
            await gate.wait()
        finally:
            raise ValueError("in the cleanup")

    task = asyncio.create_task(call(py_func(careless, [], [])))
    await gate.arrived()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [str(error) for error in reported] == ["in the cleanup"]


async def test_closing_the_kernel_cancels_the_function():
    gate, log = Gate(), []

    async def function():
        try:
            await gate.wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    coroutine = call(py_func(function, [], []))
    coroutine.send(None)
    await gate.arrived()
    coroutine.close()
    await asyncio.sleep(0)
    assert log == ["cancelled"]


# In a session


@pytest.mark.real
async def test_plain_and_asynchronous_functions_in_one_run(graph):
    x = af.placeholder(af.float32, [None])
    meeting = asyncio.Event()

    def on_a_thread(value):
        loop.call_soon_threadsafe(meeting.set)
        return value + np.float32(len(color.get()))

    async def on_the_loop(value):
        await meeting.wait()
        return value * np.float32(len(color.get()))

    loop = asyncio.get_running_loop()
    total = py_func(on_the_loop, [x], af.float32) + py_func(on_a_thread, [x], af.float32)
    color.set("blue")
    async with af.Session(graph=graph) as session:
        assert (await session.run(total, {x: [1, 2]})).tolist() == [9, 14]


async def test_a_failing_function_is_named_with_its_line(graph):
    x = af.placeholder(af.float32, [])
    y = py_func(lambda x: 1 / 0, [x], af.float32, name="divide")
    async with af.Session(graph=graph) as session:
        with pytest.raises(errors.UnknownError, match="ZeroDivisionError: division by zero") as caught:
            await session.run(y, {x: 1.0})
    assert (caught.value.op, caught.value.op_type, caught.value.shapes) == ("divide", "py_func", ("float32[]",))
    assert __file__ in caught.value.line


async def test_cancelling_a_run_leaves_the_session_usable(graph):
    gate, ended = Gate(), []

    async def wait():
        try:
            await gate.wait()
        finally:
            ended.append(True)
        return 1.0

    y = py_func(wait, [], af.float32)
    async with af.Session(graph=graph) as session:
        for _ in range(2):
            run = asyncio.create_task(session.run([y, y + 1.0, py_func(wait, [], af.float32)]))
            await gate.arrived(2)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        gate.open()
        assert await session.run(y) == 1.0


async def test_an_error_that_is_raised_again_does_not_end_whoever_caught_it_before(graph):
    error, caught, gate = errors.DataLossError("again and again"), asyncio.Event(), Gate()

    def fail():
        raise error

    async def catch():
        try:
            await session.run(y)
        except errors.DataLossError:
            caught.set()
            await gate.wait()
        return "went on"

    y = py_func(fail, [], af.float32)
    async with af.Session(graph=graph) as session:
        first = asyncio.create_task(catch())
        await caught.wait()
        with pytest.raises(errors.DataLossError):
            await session.run(y)
        gate.open()
        assert await first == "went on"


@KINDS
async def test_a_scalar_is_a_number_or_bytes(kind):
    seen = []
    values = [b"x", np.float64(1.5), np.array(2), np.array([b"x"], object)]
    await call(py_func(kind(lambda *given: seen.extend(map(type, given))), values, []), *values)
    assert seen == [bytes, np.float64, np.int64, np.ndarray]
