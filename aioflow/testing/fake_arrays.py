"""Arrays in the memory of a fake GPU. They contain NumPy arrays, but NumPy's functions refuse them.

A FakeArray has the attributes, methods and operators of CuPy's arrays. It never becomes a NumPy array by itself, and a
kernel never takes a host array. There are no scalars: where NumPy returns a scalar, the result is an array of rank 0.
"""

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.testing.fake_memory import Block, Loan

ABSENT: Final = frozenset(["ctypes", "getfield", "resize", "setfield", "setflags", "to_device"])
"""Attributes of NumPy's arrays that CuPy's do not have."""
GIVES_HOST: Final = frozenset(["tolist", "item", "tobytes", "dump", "dumps"])
"""Methods that return host values."""
LOOKS: Final = GIVES_HOST | {"nonzero", "compress"}
"""Methods that look at values."""
CHANGES: Final = frozenset(["fill", "sort", "partition", "put", "itemset"])
"""Methods that change the array."""


class FakeArray:
    """An array in the memory of a fake GPU."""

    __slots__ = ("__weakref__", "_block", "_data", "base")
    __array_ufunc__ = None  # NumPy's functions refuse it, and its operators call those of this class

    def __init__(self, data: Any, block: Block | Loan, base: "FakeArray | None" = None) -> None:
        self._data = data
        self._block = block
        self.base: FakeArray | None = base

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("an array in GPU memory is not converted to a NumPy array; call get()")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in (np.shape, np.ndim, np.size):
            raise TypeError(f"numpy.{function.__name__} takes no arrays in GPU memory")
        return getattr(args[0], function.__name__)

    shape = property(lambda self: self._data.shape)
    dtype = property(lambda self: self._data.dtype)
    ndim = property(lambda self: self._data.ndim)
    size = property(lambda self: self._data.size)
    nbytes = property(lambda self: self._data.nbytes)
    itemsize = property(lambda self: self._data.itemsize)
    strides = property(lambda self: self._data.strides)
    flags = property(lambda self: self._data.flags)
    device = property(lambda self: self._block.device)

    def get(self) -> Any:
        """Return a copy in host memory. The host waits for the GPU."""
        self.device.machine.look("get")
        return self._data.copy()

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Any:
        return iter([self[index] for index in range(len(self))])

    def __getitem__(self, index: Any) -> Any:
        self._check_index(index)
        return self.device.call("getitem", operator.getitem, (self, index))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check_index(index)
        self.device.call("setitem", operator.setitem, (self, index, value), changed=(self,))

    def _check_index(self, index: Any) -> None:
        """Count an index with a mask as a look: the number of selected elements depends on the values."""
        if any(isinstance(part, FakeArray) and part.dtype == bool for part in _parts(index)):
            self.device.machine.look("a mask")

    @property
    def real(self) -> "FakeArray":
        """A view of the real parts."""
        return self.device.call("real", lambda data: data.real, (self,))  # type: ignore[no-any-return]

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> "FakeArray":
        """A view of the imaginary parts."""
        return self.device.call("imag", lambda data: data.imag, (self,))  # type: ignore[no-any-return]

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    @property
    def T(self) -> "FakeArray":
        """A view with reversed axes."""
        return self.device.call("T", lambda data: data.T, (self,))  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<FakeArray {self.dtype}{list(self.shape)} on {self.device.index}>"


def _parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _method(name: str) -> Callable[..., Any]:
    """Return a method of CuPy's arrays that computes like NumPy's."""
    function = getattr(np.ndarray, name)

    def method(self: FakeArray, *args: Any, **kwargs: Any) -> Any:
        if name in LOOKS:
            self.device.machine.look(name)
        if kwargs.keys() & {"initial", "where"}:
            raise TypeError(f"CuPy's {name} has neither initial nor where")
        if name in GIVES_HOST:
            return function(self._data, *args, **kwargs)
        return self.device.call(name, function, (self, *args), kwargs, (self,) if name in CHANGES else ())

    return method


def _operator(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def apply(self: FakeArray, *others: Any) -> Any:
        if any(isinstance(other, (np.ndarray, list, tuple, str)) for other in others):
            raise TypeError(f"unsupported type {type(others[0])}: a kernel takes no host array")
        return self.device.call(name, function, (self, *others))

    return apply


def _reflected(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def apply(self: FakeArray, other: Any) -> Any:
        if isinstance(other, (np.ndarray, list, tuple, str)):
            raise TypeError(f"unsupported type {type(other)}: a kernel takes no host array")
        return self.device.call(name, lambda mine, theirs: function(theirs, mine), (self, other))

    return apply


def _in_place(name: str) -> Callable[..., Any]:
    function = getattr(operator, f"i{name}")

    def apply(self: FakeArray, other: Any) -> FakeArray:
        def change(mine: Any, theirs: Any) -> None:
            function(mine, theirs)

        self.device.call(f"i{name}", change, (self, other), changed=(self,))
        return self

    return apply


def _look(kind: Callable[[Any], Any], name: str) -> Callable[..., Any]:
    def apply(self: FakeArray) -> Any:
        self.device.machine.look(name)
        return kind(self._data)

    return apply


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
):
    _bare = _name.rstrip("_")
    setattr(FakeArray, f"__{_bare}__", _operator(_name))
    setattr(FakeArray, f"__r{_bare}__", _reflected(_name))
    if _bare != "matmul":  # CuPy has none
        setattr(FakeArray, f"__i{_bare}__", _in_place(_bare))
for _name in ("neg", "pos", "abs", "invert", "lt", "le", "eq", "ne", "gt", "ge"):
    setattr(FakeArray, f"__{_name}__", _operator(_name))
for _kind in (int, float, complex, bool):
    setattr(FakeArray, f"__{_kind.__name__}__", _look(_kind, f"{_kind.__name__}()"))
FakeArray.__index__ = _look(operator.index, "index()")  # type: ignore[attr-defined]
FakeArray.__hash__ = None  # type: ignore[assignment]
for _name in dir(np.ndarray):
    _taken = _name[0] == "_" or _name in ABSENT or hasattr(FakeArray, _name)
    if not _taken and callable(getattr(np.ndarray, _name)):
        setattr(FakeArray, _name, _method(_name))
