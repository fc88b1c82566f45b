"""Python functions as operations: plain ones on a thread, `async def` ones on the loop."""

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.graph.convert import TensorLike
from aioflow.graph.op import op
from aioflow.graph.operation import Operation
from aioflow.kernels.context import Context
from aioflow.tensors.as_array import AnyArray, as_array
from aioflow.tensors.dtypes import Array, DeviceKind, DType, Spec, as_dtype

CPU = DeviceKind.CPU

Function = Callable[..., Any]
Named = Function | str
"""A function, or the name by which a server knows one."""


def py_func(func: Named, inp: Sequence[TensorLike], Tout: Any, stateful: bool = True, name: str | None = None) -> Any:
    """Calls `func` with the values of `inp`, which it cannot write to, and returns its results as tensors.

    The values are arrays. A scalar is a NumPy number, and one string is bytes.

    A plain function runs on a thread, an `async def` as its own task on the session's loop, both with the context
    variables of the caller of `session.run`. Cancelling the run cancels that task and waits until it has ended; a
    function on a thread cannot be interrupted: the run does not wait for it and drops its results.

    Args:
        func: the function. It returns one array or number per dtype of `Tout`: several in a list or tuple. On the
            workers of a cluster it is a name, under which each worker that may run it has registered a function:
            `Server(py_funcs={name: function})`, `aioflow worker --py-funcs MODULE`.
        inp: a list of tensors.
        Tout: the dtypes of the results in a list, or one dtype. Arrays must have just that dtype.
        stateful: ignored, for the function is called in every run that needs it.
        name: the name of the operation.

    Returns:
        A list of tensors; a tensor if `Tout` is one dtype; the operation if `Tout` is empty.

    Raises:
        InvalidArgumentError: in the run: number or dtypes of the results differ from `Tout`; or `func` raised
            ValueError or TypeError. Other exceptions are converted: StopIteration to OutOfRangeError, MemoryError to
            ResourceExhaustedError, NotImplementedError to UnimplementedError, others to UnknownError.
        PermissionDeniedError: before the run: a function of that name is not registered.

    Examples:
        >>> async def lengths(names):
        ...     return np.array([len(name) for name in names])
        >>> await session.run(af.py_func(lengths, [["tea", "coffee"]], af.int64))
        array([3, 6])
    """
    several = isinstance(Tout, (list, tuple))
    wanted = [as_dtype(dtype) for dtype in (Tout if several else [Tout])]
    made: Any = _py_func(inp, func, wanted, name=name)
    if isinstance(made, Operation):
        return made
    return list(made) if several else made[0]


def numpy_function(func: Named, inp: Sequence[TensorLike], Tout: Any, name: str | None = None) -> Any:
    """The same as `py_func`.

    Examples:
        >>> await session.run(af.numpy_function(np.cumsum, [[1, 2, 3]], af.int64))
        array([1, 3, 6])
    """
    return py_func(func, inp, Tout, name=name)


@op(name="py_func", stateful=True, waits=True)
def _py_func(inp: Sequence[Spec], func: Named, Tout: Sequence[DType]) -> tuple[Spec, ...]:
    """The results of `func`, a function of one process: of the dtypes `Tout`, of any shape."""
    if not (callable(func) or (isinstance(func, str) and func)):
        raise TypeError(f"func must be callable, or the name of a function that a server has, not {func!r}")
    return tuple([Spec(dtype) for dtype in Tout]) or None  # type: ignore[return-value]


_py_func.no_gradient("a Python function has no known derivative: wrap it in a function with af.custom_gradient")


@_py_func.kernel(CPU)
async def _(ctx: Context, inp: Sequence[Array], *, func: Named, Tout: Sequence[DType]) -> Any:
    if isinstance(func, str):
        func = ctx.step.py_func(func)
    arguments = [_read_only(value) for value in inp]
    if inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(type(func).__call__):
        results = _results(await _in_task(func, arguments), Tout)
    else:
        call = functools.update_wrapper(functools.partial(_call, func, Tout), func)
        results = await ctx.step.in_thread(call, *arguments)
    return results[0] if len(Tout) == 1 else results


def _read_only(value: Array) -> Any:
    """A view that cannot be written to; a scalar as a NumPy number or as bytes, neither of which can."""
    if isinstance(value, bytes) or value.ndim == 0:
        return value if isinstance(value, bytes) else value[()]
    view: AnyArray = value.view()
    view.flags.writeable = False
    return view


# Calling


def _call(func: Function, wanted: Sequence[DType], *arguments: AnyArray) -> list[AnyArray]:
    """Call the function, on a thread. Raises only OpErrors: a future cannot hold a StopIteration."""
    try:
        returned = func(*arguments)
    except BaseException as error:
        made = _converted(error)
        raise made from made.__cause__
    if inspect.iscoroutine(returned):
        returned.close()
        raise errors.InvalidArgumentError(f"{func!r} returned a coroutine: pass the `async def` function itself")
    return _results(returned, wanted)


async def _in_task(func: Function, arguments: Sequence[AnyArray]) -> Any:
    """Call the async function in its own task, so that it may use `asyncio.timeout` and the like."""

    async def call() -> Any:
        return await func(*arguments)

    task = asyncio.create_task(call(), name=f"py_func {func!r}")
    try:
        await asyncio.wait([task])  # awaiting the task itself would leave it to the function whether to be cancelled
    except asyncio.CancelledError:
        await _end(task)
        raise
    except GeneratorExit:
        task.cancel()
        raise
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is None:
        return task.result()
    made = _converted(error)
    raise made from made.__cause__


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel the task and return when it has ended, passing on every further cancellation to it."""
    while not task.done():
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    if not task.cancelled() and task.exception() is not None:
        problem = {"message": "a py_func failed while it was cancelled", "exception": task.exception(), "task": task}
        asyncio.get_running_loop().call_exception_handler(problem)


def _converted(error: BaseException) -> BaseException:
    """The OpError for an exception of the function; KeyboardInterrupt and SystemExit unchanged."""
    if isinstance(error, asyncio.CancelledError):
        made = errors.CancelledError("the function raised asyncio.CancelledError, but the run was not cancelled")
        made.__cause__ = error
        return made
    cause = error.__cause__
    if isinstance(error, RuntimeError) and isinstance(cause, StopIteration):  # a coroutine converts it
        return errors.from_exception(cause)
    return error if isinstance(error, (KeyboardInterrupt, SystemExit)) else errors.from_exception(error)


# Results


def _results(returned: Any, wanted: Sequence[DType]) -> list[AnyArray]:
    """The function's results, as arrays without other references. InvalidArgumentError if they differ from `Tout`."""
    values = returned if isinstance(returned, (list, tuple)) else () if returned is None else (returned,)
    if len(values) != len(wanted):
        names = ", ".join(dtype.name for dtype in wanted) or "nothing"
        mend = ": a list or tuple is several values, return an array" if len(wanted) == 1 and len(values) > 1 else ""
        raise errors.InvalidArgumentError(f"the function returned {len(values)} values, and is to return {names}{mend}")
    return [_result(index, value, dtype) for index, (value, dtype) in enumerate(zip(values, wanted, strict=True))]


def _result(index: int, value: Any, dtype: DType) -> AnyArray:
    try:
        array = as_array(value, None if isinstance(value, (np.ndarray, np.generic)) else dtype, strict=True)
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgumentError(f"result {index} of the function must be {dtype.name}: {error}") from error
    if as_dtype(array.dtype) is not dtype:
        raise errors.InvalidArgumentError(
            f"value {index} of the function has dtype {array.dtype}, but must be {dtype.name}: convert it by .astype"
        )
    return np.array(array) if isinstance(value, np.ndarray) else array
