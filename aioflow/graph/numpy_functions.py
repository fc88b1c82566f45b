"""Handles NumPy's functions on tensors: operators build operations, other functions raise TypeError.

A tensor has a value only in a run, so NumPy cannot compute with it; the TypeError names the function to use. NumPy
calls `__array_ufunc__` or `__array_function__` of its operands. For `array + tensor` it passes `np.add`, and this
module calls the tensor's own operator.
"""

from collections.abc import Mapping
from typing import Any, Final

_OPERATORS: Final[Mapping[str, tuple[str, str]]] = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"),
    "power": ("__pow__", "__rpow__"),
    "matmul": ("__matmul__", "__rmatmul__"),
    "bitwise_and": ("__and__", "__rand__"),
    "bitwise_or": ("__or__", "__ror__"),
    "bitwise_xor": ("__xor__", "__rxor__"),
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
}
"""{ufunc: (method of the left operand, method of the right one)} of binary operators."""
_SAME: Final = frozenset({
    "abs", "acos", "acosh", "add", "angle", "argmax", "argmin", "argsort", "asin", "asinh", "atan", "atan2",
    "atanh", "bincount", "broadcast_to", "ceil", "clip_by_value", "concat", "conj", "cos", "cosh", "count_nonzero",
    "cross", "cumprod", "cumsum", "diag", "divide", "einsum", "equal", "exp", "expand_dims", "expm1", "eye",
    "floor", "greater", "greater_equal", "imag", "less", "less_equal", "linalg.cholesky", "linalg.cross",
    "linalg.det", "linalg.eigh", "linalg.eigvalsh", "linalg.inv", "linalg.lstsq", "linalg.matmul", "linalg.norm",
    "linalg.pinv", "linalg.qr", "linalg.slogdet", "linalg.solve", "linalg.svd", "linalg.tensordot", "linalg.trace",
    "linspace", "log", "log1p", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "maximum",
    "meshgrid", "minimum", "mod", "multiply", "negative", "not_equal", "ones_like", "pad", "polyval", "pow",
    "range", "rank", "real", "reciprocal", "repeat", "reshape", "rint", "roll", "round", "searchsorted", "shape",
    "sign", "sin", "sinh", "size", "sort", "split", "sqrt", "square", "squeeze", "stack", "subtract", "tan", "tanh",
    "tensordot", "tile", "trace", "transpose", "unique", "unravel_index", "where", "zeros_like",
})  # fmt: skip
"""NumPy's functions that aioflow has under the same name."""
_OTHERS: Final[Mapping[str, str]] = {
    "absolute": "abs", "all": "reduce_all", "amax": "reduce_max", "amin": "reduce_min", "any": "reduce_any",
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "argwhere": "where", "around": "round", "average": "reduce_mean",
    "bitwise_and": "bitwise.bitwise_and", "bitwise_or": "bitwise.bitwise_or", "bitwise_xor": "bitwise.bitwise_xor",
    "clip": "clip_by_value", "concatenate": "concat", "conjugate": "conj",
    "dot": "tensordot", "fabs": "abs", "flip": "reverse", "float_power": "pow", "floor_divide": "floordiv",
    "fmod": "truncatemod", "hstack": "concat", "invert": "bitwise.invert",
    "isfinite": "is_finite", "isinf": "is_inf", "isnan": "is_nan", "left_shift": "bitwise.left_shift",
    "max": "reduce_max", "mean": "reduce_mean", "min": "reduce_min", "ndim": "rank", "nonzero": "where",
    "power": "pow", "prod": "reduce_prod", "ravel": "reshape", "remainder": "floormod",
    "right_shift": "bitwise.right_shift", "std": "reduce_std", "sum": "reduce_sum",
    "swapaxes": "transpose", "take": "gather", "true_divide": "truediv", "var": "reduce_variance",
    "vstack": "concat",
}  # fmt: skip
"""NumPy's functions that aioflow has under another name."""


class Symbolic:
    """Base class of symbols for values that a run computes; NumPy's functions refuse them."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Return the result of an operator between an array and a symbol.

        TypeError, naming the function to use, for others.
        """
        operator = _OPERATORS.get(ufunc.__name__)
        if operator is None or method != "__call__" or kwargs or len(inputs) != 2:
            raise _no_value_error(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}", self)
        left, right = inputs
        mine, other, name = (left, right, operator[0]) if isinstance(left, Symbolic) else (right, left, operator[1])
        found = getattr(type(mine), name, None)
        if found is None:
            raise _no_value_error(ufunc.__name__, self)
        result = found(mine, other)
        if result is NotImplemented and ufunc.__name__ in ("equal", "not_equal"):
            return (left is right) == (ufunc.__name__ == "equal")
        return result

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Raise TypeError, naming the function to use."""
        module = function.__module__.removeprefix("numpy").removeprefix(".")
        raise _no_value_error(f"{module}.{function.__name__}".removeprefix("."), self)


def equivalent_name(name: str) -> str | None:
    """Return aioflow's name of a function of NumPy, such as `linalg.norm`; None if there is no such function."""
    return _OTHERS.get(name, name if name in _SAME else None)


def _no_value_error(name: str, value: object) -> TypeError:
    found = equivalent_name(name)
    hint = "use" if found is None else f"use af.{found} in the graph, or"
    return TypeError(f"np.{name} takes arrays, and {value!r} has no value yet: {hint} the value from a run")
