"""Dimension and TensorShape: the shape of a tensor as far as it is known, and NumPy's rules on shapes."""

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, SupportsIndex, TypeAlias

import numpy as np


def _applied(function: Callable[[int, int], Any], a: int | None, b: "Size") -> Any:
    """Return `function` of two sizes; None if one is unknown, NotImplemented if `b` is not a size."""
    if b is not None and not isinstance(b, (int, np.integer, Dimension)):
        return NotImplemented
    size = b.value if isinstance(b, Dimension) else b
    return None if a is None or size is None else function(a, int(size))


def _dimension(function: Callable[[int, int], int], a: int | None, b: "Size") -> "Dimension":
    result = _applied(function, a, b)
    return result if result is NotImplemented else Dimension(result)


class Dimension:
    """The size of one axis: a number, or None while unknown.

    Arithmetic with an unknown size gives an unknown size; an order comparison gives None. Unknown sizes are equal.

    Examples:
        >>> af.Dimension(3) + 4, af.Dimension(None) + 4
        (Dimension(7), Dimension(None))
    """

    __slots__ = ("value",)

    def __init__(self, value: "int | Dimension | None") -> None:
        self.value: Final = _size(value)

    def is_compatible_with(self, other: "int | Dimension | None") -> bool:
        """Whether both can be the same size."""
        theirs = _size(other)
        return self.value is None or theirs is None or self.value == theirs

    def assert_is_compatible_with(self, other: "int | Dimension | None") -> None:
        """Check that both may be equal. ValueError if they may not."""
        if not self.is_compatible_with(other):
            raise ValueError(f"sizes {self.value} and {Dimension(other).value} are not compatible")

    def merge_with(self, other: "int | Dimension | None") -> "Dimension":
        """Return the known one of both sizes. ValueError if both are known and differ."""
        return Dimension(merge_sizes(self.value, _size(other)))

    def __add__(self, other: "Size") -> "Dimension":
        return _dimension(operator.add, self.value, other)

    def __radd__(self, other: "Size") -> "Dimension":
        return _dimension(operator.add, self.value, other)

    def __mul__(self, other: "Size") -> "Dimension":
        return _dimension(operator.mul, self.value, other)

    def __rmul__(self, other: "Size") -> "Dimension":
        return _dimension(operator.mul, self.value, other)

    def __sub__(self, other: "Size") -> "Dimension":
        return _dimension(operator.sub, self.value, other)

    def __rsub__(self, other: "Size") -> "Dimension":
        return _dimension(lambda mine, theirs: theirs - mine, self.value, other)

    def __floordiv__(self, other: "Size") -> "Dimension":
        return _dimension(operator.floordiv, self.value, other)

    def __rfloordiv__(self, other: "Size") -> "Dimension":
        return _dimension(lambda mine, theirs: theirs // mine, self.value, other)

    def __mod__(self, other: "Size") -> "Dimension":
        return _dimension(operator.mod, self.value, other)

    def __rmod__(self, other: "Size") -> "Dimension":
        return _dimension(lambda mine, theirs: theirs % mine, self.value, other)

    def __lt__(self, other: "Size") -> bool | None:
        result: bool | None = _applied(operator.lt, self.value, other)
        return result

    def __le__(self, other: "Size") -> bool | None:
        result: bool | None = _applied(operator.le, self.value, other)
        return result

    def __gt__(self, other: "Size") -> bool | None:
        result: bool | None = _applied(operator.gt, self.value, other)
        return result

    def __ge__(self, other: "Size") -> bool | None:
        result: bool | None = _applied(operator.ge, self.value, other)
        return result

    def __int__(self) -> int:
        return self.__index__()

    def __index__(self) -> int:
        if self.value is None:
            raise TypeError("an unknown Dimension has no integer value; test `.value is None` first")
        return self.value

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, Dimension) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Dimension({self.value})"


def _size(value: "SupportsIndex | None") -> int | None:
    if value is None or isinstance(value, Dimension):
        return None if value is None else value.value
    size = operator.index(value)
    if size < 0:
        raise ValueError(f"a dimension cannot be negative: {size}")
    return size


def merge_sizes(a: int | None, b: int | None) -> int | None:
    """Return the known one of two sizes. ValueError if both are known and differ."""
    if a is not None and b is not None and a != b:
        raise ValueError(f"dimensions {a} and {b} are not compatible")
    return b if a is None else a


def dimension_at_index(shape: "TensorShape", index: int) -> Dimension:
    """Return the size of that axis, unknown if the rank is unknown.

    Examples:
        >>> af.dimension_at_index(af.TensorShape([2, None]), 0)
        Dimension(2)
    """
    return Dimension(None) if shape.sizes is None else Dimension(shape.sizes[index])


def dimension_value(dimension: "int | Dimension | None") -> int | None:
    """Return the size of a Dimension as an int, or None while unknown. An int or None is returned unchanged.

    Examples:
        >>> af.dimension_value(af.TensorShape([2, None])[0])
        2
    """
    return dimension.value if isinstance(dimension, Dimension) else dimension


Size: TypeAlias = int | np.integer[Any] | Dimension | None
"""The size of an axis as users give it."""
Sizes: TypeAlias = tuple[int | None, ...]


class TensorShape:
    """The shape of a tensor as far as it is known: unknown rank, or known rank with known and unknown sizes.

    `sizes` is the plain form for internal use: a tuple of numbers and None, or None for unknown rank.

    Examples:
        >>> shape = af.TensorShape([None, 3])
        >>> shape.merge_with([2, None]), shape.is_compatible_with([2, 4])
        (TensorShape([2, 3]), False)
    """

    __slots__ = ("sizes",)

    def __init__(self, dims: "ShapeLike") -> None:
        self.sizes: Final[Sizes | None] = _sizes(dims)

    @classmethod
    def scalar(cls) -> "TensorShape":
        """Return the shape of rank 0."""
        return cls(())

    @classmethod
    def vector(cls, length: int | None) -> "TensorShape":
        """Return a shape of rank 1."""
        return cls((length,))

    @classmethod
    def matrix(cls, rows: int | None, columns: int | None) -> "TensorShape":
        """Return a shape of rank 2."""
        return cls((rows, columns))

    @property
    def ndims(self) -> int | None:
        """The rank, None when unknown."""
        return None if self.sizes is None else len(self.sizes)

    rank = ndims

    @property
    def dims(self) -> list[Dimension] | None:
        """One Dimension per axis, None for unknown rank."""
        return None if self.sizes is None else [Dimension(size) for size in self.sizes]

    def num_elements(self) -> int | None:
        """The number of elements, None unless every size is known."""
        return None if self.sizes is None or None in self.sizes else math.prod(self.sizes)  # type: ignore[arg-type]

    def is_fully_defined(self) -> bool:
        """Whether every size is known."""
        return self.sizes is not None and None not in self.sizes

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError unless every size is known."""
        if not self.is_fully_defined():
            raise ValueError(f"shape {self} is not fully defined")

    def as_list(self) -> list[int | None]:
        """Return the sizes as a list. ValueError for unknown rank."""
        if self.sizes is None:
            raise ValueError("as_list() of a shape of unknown rank")
        return list(self.sizes)

    def as_plain(self) -> list[int] | None:
        """Return the form for the wire and for files: -1 for an unknown size, None for unknown rank."""
        return None if self.sizes is None else [-1 if size is None else size for size in self.sizes]

    @classmethod
    def from_plain(cls, plain: list[int] | None) -> "TensorShape":
        """Return the shape that `as_plain` wrote."""
        return cls(None if plain is None else [None if size == -1 else size for size in plain])

    def is_compatible_with(self, other: "ShapeLike") -> bool:
        """Whether some array could have both shapes."""
        theirs = _sizes(other)
        if self.sizes is None or theirs is None:
            return True
        return len(self.sizes) == len(theirs) and all(
            a is None or b is None or a == b for a, b in zip(self.sizes, theirs, strict=True)
        )

    def merge_with(self, other: "ShapeLike") -> "TensorShape":
        """Return the shape with every size that one of both knows. ValueError if no array can have both shapes."""
        theirs = as_shape(other)
        if not self.is_compatible_with(theirs):
            raise ValueError(f"shapes {self} and {theirs} are not compatible")
        if self.sizes is None or theirs.sizes is None:
            return self if theirs.sizes is None else theirs
        merged = TensorShape([b if a is None else a for a, b in zip(self.sizes, theirs.sizes, strict=True)])
        return self if merged.sizes == self.sizes else merged

    def concatenate(self, other: "ShapeLike") -> "TensorShape":
        """Return this shape's axes followed by the other's; unknown rank if either rank is unknown."""
        theirs = _sizes(other)
        return UNKNOWN if self.sizes is None or theirs is None else TensorShape(self.sizes + theirs)

    def with_rank(self, rank: int) -> "TensorShape":
        """Return this shape with that rank. ValueError if its rank is another."""
        return self.merge_with((None,) * rank)

    def with_rank_at_least(self, rank: int) -> "TensorShape":
        """Return this shape. ValueError if its rank is known to be lower."""
        if self.sizes is not None and len(self.sizes) < rank:
            raise ValueError(f"rank {rank} or more is needed, the shape is {self}")
        return self

    def with_rank_at_most(self, rank: int) -> "TensorShape":
        """Return this shape. ValueError if its rank is known to be higher."""
        if self.sizes is not None and len(self.sizes) > rank:
            raise ValueError(f"rank {rank} or less is needed, the shape is {self}")
        return self

    def assert_has_rank(self, rank: int | None) -> None:
        """Raise ValueError if the rank is known to be another."""
        if rank is not None and self.sizes is not None and len(self.sizes) != rank:
            raise ValueError(f"rank {rank} is needed, the shape is {self}")

    def assert_same_rank(self, other: "ShapeLike") -> None:
        """Raise ValueError if both ranks are known and differ."""
        theirs = as_shape(other)
        if self.sizes is not None and theirs.sizes is not None and len(self.sizes) != len(theirs.sizes):
            raise ValueError(f"shapes {self} and {theirs} differ in rank")

    def assert_is_compatible_with(self, other: "ShapeLike") -> None:
        """Raise ValueError unless some array could have both shapes."""
        theirs = as_shape(other)
        if not self.is_compatible_with(theirs):
            raise ValueError(f"shapes {self} and {theirs} are not compatible")

    def most_specific_compatible_shape(self, other: "ShapeLike") -> "TensorShape":
        """Return the shape with the sizes that both share; unknown rank if the ranks differ."""
        theirs = as_shape(other)
        if self.sizes is None or theirs.sizes is None or len(self.sizes) != len(theirs.sizes):
            return UNKNOWN
        shared = TensorShape([a if a == b else None for a, b in zip(self.sizes, theirs.sizes, strict=True)])
        return self if shared.sizes == self.sizes else shared

    def __len__(self) -> int:
        return len(self.as_list())

    def __iter__(self) -> Iterator[Dimension]:
        return (Dimension(size) for size in self.as_list())

    def __getitem__(self, key: Any) -> Any:
        if self.sizes is None:
            return _slice_of_unknown(key) if isinstance(key, slice) else Dimension(None)
        return TensorShape(self.sizes[key]) if isinstance(key, slice) else Dimension(self.sizes[key])

    def __bool__(self) -> bool:
        return self.sizes is not None

    def __eq__(self, other: object) -> bool:
        try:
            return self.sizes == _sizes(other)
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.sizes)

    def __str__(self) -> str:
        if self.sizes is None:
            return "<unknown>"
        return f"[{', '.join('?' if size is None else str(size) for size in self.sizes)}]"

    def __repr__(self) -> str:
        return f"TensorShape({None if self.sizes is None else list(self.sizes)})"


ShapeLike: TypeAlias = TensorShape | Iterable[SupportsIndex | None] | SupportsIndex | None


def _sizes(dims: Any) -> Sizes | None:
    if dims is None or isinstance(dims, TensorShape):
        return None if dims is None else dims.sizes
    if isinstance(dims, (int, np.integer, Dimension)):
        return (_size(dims),)
    return tuple([_size(dim) for dim in dims])


def as_shape(value: ShapeLike) -> TensorShape:
    """Return `value` as a TensorShape.

    Examples:
        >>> af.as_shape([2, None])
        TensorShape([2, None])
    """
    return value if isinstance(value, TensorShape) else TensorShape(value)


UNKNOWN: Final = TensorShape(None)
SCALAR: Final = TensorShape(())


def broadcast_shapes(a: TensorShape, b: TensorShape) -> TensorShape:
    """Return the shape that `a` and `b` broadcast to by NumPy's rule. ValueError if they cannot.

    If the result is certainly the shape of one operand, that operand's object is returned. Planning uses object
    identity to know that two shapes are equal in every run although a size is unknown.
    """
    if a.sizes is None or b.sizes is None:
        return UNKNOWN
    if a is b or _dominates(a.sizes, b.sizes):
        return a
    if _dominates(b.sizes, a.sizes):
        return b
    rank = max(len(a.sizes), len(b.sizes))
    left = (1,) * (rank - len(a.sizes)) + a.sizes
    right = (1,) * (rank - len(b.sizes)) + b.sizes
    try:
        return TensorShape([_broadcast_sizes(x, y) for x, y in zip(left, right, strict=True)])
    except ValueError:
        raise ValueError(f"shapes {a} and {b} cannot be broadcast together") from None


def _dominates(whole: Sizes, part: Sizes) -> bool:
    """Whether broadcasting `part` to `whole` certainly gives `whole`."""
    return len(part) <= len(whole) and all(
        y == 1 or (x is not None and x == y) for x, y in zip(whole[len(whole) - len(part) :], part, strict=True)
    )


def _broadcast_sizes(x: int | None, y: int | None) -> int | None:
    if x == 1 or y == 1:
        return y if x == 1 else x
    if x is None or y is None:
        return y if x is None else x
    return merge_sizes(x, y)


def normalise_axis(axis: int, rank: int | None) -> int:
    """Return `axis` counted from the front if `rank` is known. ValueError if it is out of range."""
    if rank is None:
        return axis
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for rank {rank}")
    return axis % rank


def _slice_of_unknown(key: slice) -> TensorShape:
    """The part of a shape of unknown rank: as many unknown sizes as the slice has, if it says how many."""
    first = 0 if key.start is None else key.start
    if key.stop is None or key.step not in (None, 1) or first < 0 or key.stop < first:
        return UNKNOWN
    return TensorShape([None] * (key.stop - first))
