"""Formulas of NumPy's functions, written as nodes of ONNX instead of being computed.

The kernels of special functions are formulas of float64 by regions of their inputs. `Term` stands for an array in them:
what NumPy computes of it becomes a node, and of regions `Where`. So a saved model computes the same as the kernel, to
the last places that the runtime's own functions are good to.
"""

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

import numpy as np

from aioflow.onnx.exporting import Export
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import as_dtype

_UFUNCS: Final[Mapping[Any, str]] = {
    np.absolute: "Abs", np.add: "Add", np.bitwise_and: "And", np.bitwise_or: "Or", np.cos: "Cos", np.divide: "Div",
    np.equal: "Equal", np.exp: "Exp", np.floor: "Floor", np.greater: "Greater", np.greater_equal: "GreaterOrEqual",
    np.invert: "Not", np.isinf: "IsInf", np.isnan: "IsNaN", np.less: "Less", np.less_equal: "LessOrEqual",
    np.log: "Log", np.maximum: "Max", np.minimum: "Min", np.multiply: "Mul", np.negative: "Neg", np.power: "Pow",
    np.rint: "Round", np.sin: "Sin", np.sqrt: "Sqrt", np.subtract: "Sub",
}  # fmt: skip
"""Functions that ONNX has just so."""


class Writer:
    """Adds the nodes of one formula; equal constants of it are one initial value."""

    def __init__(self, export: Export) -> None:
        self.export: Final = export
        self.active: Final[list[Any]] = []
        self._constants: dict[tuple[float, float], str] = {}

    def term(self, type: str, *values: Any, **attributes: Any) -> "Term":
        """The result of an operator."""
        return Term(self, self.export.add(type, *[self.name(value) for value in values], **attributes))

    def name(self, value: Any) -> str:
        """The name of a term, or of a number, which becomes an initial value."""
        if isinstance(value, Term):
            return value.name
        if not isinstance(value, numbers.Real | np.generic):
            raise ValueError(f"a formula has numbers, and no {type(value).__name__}")
        number = float(value)
        key = number, math.copysign(1.0, number)
        if key not in self._constants:
            self._constants[key] = self.export.initial(np.float64(number))
        return self._constants[key]


class Term(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of float64 in a formula that is written down: its name in the model."""

    dtype: Final = np.dtype(np.float64)

    def __init__(self, writer: Writer, name: str) -> None:
        self._writer: Final = writer
        self.name: Final = name

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None) -> "Term":
        if method != "__call__" or (ufunc not in _UFUNCS and ufunc not in _WRITTEN):
            raise ValueError(f"ONNX has no {ufunc.__name__}")
        if ufunc in _UFUNCS:
            return self._writer.term(_UFUNCS[ufunc], *inputs)
        made: Term = _WRITTEN[ufunc](self._writer, *inputs)
        return made

    def __array_function__(self, function: Any, types: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
        if function not in _WRITTEN:
            raise ValueError(f"ONNX has no {function.__name__}")
        return _WRITTEN[function](self._writer, *inputs, **options)

    def astype(self, dtype: Any) -> "Term":
        """Its values in another dtype."""
        return self._writer.term("Cast", self, to=NUMBERS[as_dtype(dtype)])

    def by_region(self, choices: Sequence[tuple[Any, Callable[..., Any]]], *inputs: Self) -> Any:
        """The result of each function where its mask is true; NaN where no mask is.

        A function that leads to itself is left out the second time: it does so for inputs of the other regions.
        """
        found: Any = math.nan
        for mask, function in choices:
            if function not in self._writer.active:
                self._writer.active.append(function)
                found = self._writer.term("Where", mask, function(*inputs), found)
                self._writer.active.pop()
        return found


def _copysign(writer: Writer, size: Any, sign: Any) -> Any:
    """ONNX has no sign of zeros: it is that of the reciprocal."""
    negative = (sign < 0) | writer.term("Less", writer.term("Reciprocal", sign), 0.0)
    return writer.term("Where", negative, -np.abs(size), np.abs(size))


def _log1p(writer: Writer, x: Term) -> Any:
    """The logarithm of u = 1 + x, corrected by what the sum loses; x itself where u is 1."""
    u = 1 + x
    kept = u - 1
    near = writer.term("Where", writer.term("Equal", u, 1.0), x, np.log(u) * (x / kept))
    return writer.term("Where", writer.term("Equal", kept, x), np.log(u), near)


def _full_like(writer: Writer, like: Term, value: float) -> Any:
    return writer.term("Expand", value, writer.term("Shape", like))


_WRITTEN: Final[Mapping[Any, Callable[..., Any]]] = {
    np.clip: lambda writer, x, low, high: np.minimum(np.maximum(x, low), high),
    np.copysign: _copysign,
    np.fmod: lambda writer, x, y: writer.term("Mod", x, y, fmod=1),
    np.full_like: _full_like,
    np.isfinite: lambda writer, x: ~(np.isinf(x) | np.isnan(x)),
    np.isposinf: lambda writer, x: np.isinf(x) & (x > 0),
    np.log1p: _log1p,
    np.ones_like: lambda writer, x: _full_like(writer, x, 1.0),
    np.square: lambda writer, x: x * x,
    np.tan: lambda writer, x: np.sin(x) / np.cos(x),  # ONNX Runtime has the tangent of float32 alone
    np.where: lambda writer, mask, x, y: writer.term("Where", mask, x, y),
    np.zeros_like: lambda writer, x: _full_like(writer, x, 0.0),
}
"""Functions that several nodes stand for."""
