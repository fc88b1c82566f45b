"""The array namespace of fake GPUs: those functions of NumPy that CuPy has, on arrays in GPU memory."""

import ast
import functools
import types
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.tensors.dtypes import bfloat16
from aioflow.testing.fake_arrays import FakeArray
from aioflow.testing.fake_streams import FakeDevice

_ABSENT = """
asmatrix block bmat busday_count busday_offset bytes_ char character core ctypeslib datetime64 einsum_path emath
errstate frompyfunc fromregex geomspace getbufsize geterr histogram_bin_edges insert isnat ma matrix matvec memmap
nanpercentile nanquantile ndenumerate nditer nested_iters object_ polyder polydiv polyint random rec record seterr
spacing str_ strings timedelta64 typecodes unstack vecdot vecmat void linalg.diagonal linalg.matrix_norm
linalg.multi_dot linalg.outer linalg.svdvals linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm
"""
ABSENT: Final = frozenset(_ABSENT.split())
"""Names that NumPy has and CuPy 14 does not, and random numbers, which CuPy draws in another way."""
LOOKS: Final = frozenset([
    "nonzero", "flatnonzero", "argwhere", "unique", "extract", "compress", "bincount", "histogram", "digitize",
    "array_equal", "allclose",
])  # fmt: skip
"""Functions that look at values in CuPy, mostly because the shape of the result depends on them."""
TAKES_HOST: Final = frozenset(["array", "asarray", "asanyarray", "ascontiguousarray"])
"""Functions that copy host arrays."""
CHANGES_FIRST: Final = frozenset(["copyto", "put", "put_along_axis", "putmask", "place", "fill_diagonal"])
"""Functions that change their first argument."""
_WITHOUT_BFLOAT16 = """
all any bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
bitwise_xor clip divmod float_power gcd invert lcm left_shift logical_not logical_xor right_shift
"""
WITHOUT_BFLOAT16: Final = frozenset(_WITHOUT_BFLOAT16.split())
"""Functions that CuPy 14 has for other floats and not for bfloat16, or for integers only."""
_FOLDS: Final = {"reduce": ("add", "multiply"), "accumulate": ("add", "multiply"), "reduceat": ("add",)}
"""{method of ufuncs: the ufuncs for which CuPy has it}."""
_SCATTERS: Final = {
    "add": "int32 uint32 uint64 float16 float32 float64 complex64 complex128",
    "subtract": "int32 uint32 uint64 float16 float32 float64 complex64 complex128",
    "maximum": "int32 uint32 uint64 float32 float64",
    "minimum": "int32 uint32 uint64 float32 float64",
}
"""{ufunc with `at`: its dtypes}."""


class FakeNamespace(types.ModuleType):
    """The namespace of a machine's GPUs, or a part of it like `linalg`. Kernels use the thread's current stream."""

    def __init__(self, machine: Any, module: Any = np, prefix: str = "") -> None:
        super().__init__(f"fake.{prefix}".rstrip("."))
        self._machine = machine
        self._module = module
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._prefix + name in ABSENT:
            raise AttributeError(f"CuPy has no {self._prefix}{name}")
        if name == "ndarray":
            return FakeArray
        if name == "ElementwiseKernel":
            return functools.partial(FakeElementwiseKernel, self._machine)
        found = getattr(self._module, name)
        if isinstance(found, types.ModuleType):
            made: Any = FakeNamespace(self._machine, found, f"{self._prefix}{name}.")
        elif isinstance(found, np.ufunc):
            made = FakeUfunc(self._machine, name, found)
        elif callable(found) and not isinstance(found, type):
            made = FakeFunction(self._machine, name, found)
        else:
            made = found
        setattr(self, name, made)
        return made


class FakeFunction:
    """A function of the namespace."""

    def __init__(self, machine: Any, name: str, function: Callable[..., Any]) -> None:
        self._machine = machine
        self._name = self.__name__ = name
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launch the function on the current stream."""
        device: FakeDevice = self._machine.stream.device
        name = self._name
        if name in LOOKS or (name == "where" and len(args) + len(kwargs) == 1):
            self._machine.look(name)
        if name in TAKES_HOST and args and not _holds_arrays(args[0]):
            return device.from_host(self._function(*args, **kwargs))
        _check_sizes(name, args)
        check_reduction(name, kwargs)
        if name in WITHOUT_BFLOAT16 and any(isinstance(arg, FakeArray) and arg.dtype == bfloat16.np for arg in args):
            raise TypeError(f"CuPy's {name} takes no bfloat16")
        changed = [args[0]] if name in CHANGES_FIRST else []
        out = kwargs.get("out")
        changed += [] if out is None else list(out) if isinstance(out, tuple) else [out]
        result = device.call(name, self._function, args, kwargs, changed)
        return out if out is not None and not isinstance(out, tuple) else result


class FakeUfunc(FakeFunction):
    """A ufunc of the namespace."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launch the ufunc. `out` may be positional."""
        ufunc: np.ufunc = self._function  # type: ignore[assignment]
        if len(args) > ufunc.nin:
            kwargs["out"] = args[ufunc.nin] if ufunc.nout == 1 else tuple(args[ufunc.nin :])
            args = args[: ufunc.nin]
        if unknown := kwargs.keys() - {"out", "dtype", "casting", "where"}:
            raise TypeError(f"CuPy's {self._name} takes no {', '.join(unknown)}")
        return super().__call__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        ufunc: Any = self._function
        if name == "outer":
            return FakeFunction(self._machine, f"{self._name}.outer", ufunc.outer)
        if name == "at":
            return self._at
        if self._name not in _FOLDS.get(name, ()):
            raise NotImplementedError(f"{self._name}.{name} is not supported by CuPy")
        return FakeFunction(self._machine, f"{self._name}.{name}", _narrow(getattr(ufunc, name)))

    def _at(self, array: FakeArray, indices: Any, values: Any) -> None:
        if array.dtype.name not in _SCATTERS.get(self._name, "").split():
            raise TypeError(f"CuPy's {self._name}.at takes no {array.dtype}")
        ufunc: Any = self._function
        array.device.call(f"{self._name}.at", ufunc.at, (array, indices, values), changed=(array,))


class FakeElementwiseKernel(FakeFunction):
    """A kernel whose lines of C, like `T v2 = v0 + exp(v1);`, are also valid Python."""

    def __init__(self, machine: Any, taken: str, given: str, lines: str, name: str, *, preamble: str) -> None:
        self._taken = [part.split()[1] for part in taken.split(", ")]
        self._given = [part.split()[1] for part in given.split(", ")]
        self._lines = [line.removeprefix("T ").removesuffix(";").split(" = ", 1) for line in lines.splitlines()]
        super().__init__(machine, name, self._compute)

    def _compute(self, *arrays: Any) -> Any:
        narrow = any(array.dtype == bfloat16.np for array in arrays)
        values = dict(
            zip(self._taken, [array.astype(np.float32) for array in arrays] if narrow else arrays, strict=True)
        )
        for target, text in self._lines:
            found = _evaluate(ast.parse(text, mode="eval").body, values)
            values[target] = found.astype(bfloat16.np).astype(np.float32) if narrow else found
        if narrow:
            values = {name: value.astype(bfloat16.np) for name, value in values.items()}
        shape = np.broadcast_shapes(*[array.shape for array in arrays])
        made = [np.array(np.broadcast_to(values[name], shape)) for name in self._given]
        return made[0] if len(made) == 1 else tuple(made)


_OF_C: Final[dict[str, Callable[..., Any]]] = {
    "T": lambda value: value, "ceil": np.ceil, "cos": np.cos, "exp": np.exp, "expm1": np.expm1, "fabs": np.fabs,
    "floor": np.floor, "log": np.log, "log1p": np.log1p, "select": np.where, "sin": np.sin, "sqrt": np.sqrt,
    "tanh": np.tanh,
}  # fmt: skip


_OPERATORS: Final[dict[type, Callable[..., Any]]] = {
    ast.Add: np.add, ast.Div: np.divide, ast.Eq: np.equal, ast.Gt: np.greater, ast.Lt: np.less, ast.Mult: np.multiply,
    ast.NotEq: np.not_equal, ast.Sub: np.subtract, ast.USub: np.negative,
}  # fmt: skip


def _evaluate(tree: Any, values: dict[str, Any]) -> Any:
    """Evaluate an expression of arithmetic, comparisons and calls."""
    match tree:
        case ast.Name(id=name):
            return values[name]
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](_evaluate(operand, values))
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return _OPERATORS[type(op)](_evaluate(left, values), _evaluate(right, values))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _OF_C[name](*[_evaluate(each, values) for each in args])
    raise NotImplementedError(f"{ast.unparse(tree)} is not supported in a fake kernel")


def _narrow(method: Callable[..., Any]) -> Callable[..., Any]:
    """Limit the method to the parameters that CuPy has."""
    known = ["array", "indices", "axis", "dtype", "out", "keepdims"]

    def called(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 5 or kwargs.keys() - known:
            raise TypeError("CuPy has neither initial nor where")
        return method(*args, **kwargs)

    return called


_SIZES: Final = dict.fromkeys(["arange", "full", "zeros", "ones", "empty"], 0) | dict.fromkeys(
    ["repeat", "tile", "split", "roll", "reshape", "broadcast_to"], 1
)
"""{function that takes sizes: their position}."""


def _check_sizes(name: str, args: tuple[Any, ...]) -> None:
    """Raise TypeError for sizes in GPU memory, since the host must know them."""
    place = _SIZES.get(name)
    if place is not None and len(args) > place and _holds_arrays(args[place]):
        raise TypeError(f"CuPy's {name} takes sizes from host memory")


def check_reduction(name: str, kwargs: dict[str, Any]) -> None:
    """Raise TypeError for parameters that CuPy's reductions do not have."""
    if name in _REDUCTIONS and kwargs.keys() & {"initial", "where"}:
        raise TypeError(f"CuPy's {name} has neither initial nor where")


_REDUCTIONS: Final = frozenset(["max", "min", "amax", "amin", "sum", "prod", "all", "any", "mean", "std", "var"])


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_arrays, value))
    return isinstance(value, FakeArray)
