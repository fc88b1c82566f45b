"""The operators of tensors and variables: each builds an operation."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from aioflow.graph.numpy_functions import Symbolic
from aioflow.lazy import Registry

if TYPE_CHECKING:
    from aioflow.graph.convert import NumberLike, TensorLike
    from aioflow.graph.operation import Tensor

OPERATORS: Final[Registry[Callable[..., "Tensor"]]] = Registry(
    "aioflow.kernels.math", "aioflow.kernels.array", "aioflow.kernels", "aioflow.library"
)
"""What the operators build: filled by the kernels' modules at import, as {"add": add, ...}."""


class Operand(Symbolic):
    """A base class for tensors and variables: what stands on one side of an operator."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> "Tensor":
        return OPERATORS["getitem"](self, key)

    def __neg__(self) -> "Tensor":
        return OPERATORS["negative"](self)

    def __abs__(self) -> "Tensor":
        return OPERATORS["abs"](self)

    def __invert__(self) -> "Tensor":
        return OPERATORS["invert"](self)

    def __add__(self, other: "TensorLike") -> "Tensor":
        return OPERATORS["add"](self, other)

    def __radd__(self, other: "TensorLike") -> "Tensor":
        return OPERATORS["add"](other, self)

    def __sub__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["subtract"](self, other)

    def __rsub__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["subtract"](other, self)

    def __mul__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["multiply"](self, other)

    def __rmul__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["multiply"](other, self)

    def __truediv__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["truediv"](self, other)

    def __rtruediv__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["truediv"](other, self)

    def __floordiv__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["floordiv"](self, other)

    def __rfloordiv__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["floordiv"](other, self)

    def __mod__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["mod"](self, other)

    def __rmod__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["mod"](other, self)

    def __pow__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["pow"](self, other)

    def __rpow__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["pow"](other, self)

    def __matmul__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["matmul"](self, other)

    def __rmatmul__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["matmul"](other, self)

    def __and__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["bitand"](self, other)

    def __rand__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["bitand"](other, self)

    def __or__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["bitor"](self, other)

    def __ror__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["bitor"](other, self)

    def __xor__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["bitxor"](self, other)

    def __rxor__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["bitxor"](other, self)

    def __lt__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["less"](self, other)

    def __le__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["less_equal"](self, other)

    def __gt__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["greater"](self, other)

    def __ge__(self, other: "NumberLike") -> "Tensor":
        return OPERATORS["greater_equal"](self, other)
