"""Python functions as operations, of values that have a method `numpy`."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aioflow.graph.convert import TensorLike
from aioflow.kernels.control.py_func import Named, py_func


class Value(np.ndarray[Any, np.dtype[Any]]):
    """An array with TensorFlow's method for its content."""

    def numpy(self) -> npt.NDArray[Any]:
        """The content, which cannot be written to."""
        return self.view(np.ndarray)


def py_function(
    func: Named | None = None,
    inp: Sequence[TensorLike] | None = None,
    Tout: Any = None,
    name: str | None = None,
) -> Any:
    """Calls `func` with the values of `inp`, as `py_func` does; the values have a method `numpy`.

    Without `func`, the result is a decorator, which makes of a function one that is called with tensors. There is no
    gradient: wrap it in a function with `custom_gradient`.

    Args:
        func: the function, plain or `async def`; see `py_func`. It may return None if `Tout` is empty or None.
        inp: a list of tensors.
        Tout: the dtypes of the results in a list, or one dtype; None for none.
        name: the name of the operation.

    Examples:
        >>> await session.run(af.py_function(lambda x: x.numpy() + 1, [2.0], af.float32))
        np.float32(3.0)
        >>> @af.py_function(Tout=af.float32)
        ... def half(x):
        ...     return x.numpy() / 2
        >>> await session.run(half(3.0))
        np.float32(1.5)
    """
    if func is None:
        if inp is not None:
            raise ValueError("py_function: inp is given without func; as a decorator it takes Tout and name alone")
        return functools.partial(_decorated, Tout=Tout, name=name)
    return py_func(_with_values(func), [] if inp is None else inp, [] if Tout is None else Tout, name=name)


def _decorated(func: Callable[..., Any], Tout: Any, name: str | None) -> Callable[..., Any]:
    @functools.wraps(func)
    def call(*tensors: TensorLike) -> Any:
        return py_function(func, tensors, Tout, name)

    return call


def _as_value(array: Any) -> Value:
    return np.asarray(array, object if isinstance(array, bytes) else None).view(Value)


def _with_values(func: Named) -> Named:
    """The function with its arguments as values; the name of a function stays."""
    if not callable(func):
        return func
    if inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(type(func).__call__):

        async def wait(*arrays: Any) -> Any:
            return await func(*[_as_value(array) for array in arrays])

        return functools.update_wrapper(wait, func)

    def call(*arrays: Any) -> Any:
        return func(*[_as_value(array) for array in arrays])

    return functools.update_wrapper(call, func)
