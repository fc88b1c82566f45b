"""Abstract values: what is known of a tensor before it is computed.

`DType`, `Dimension` and `TensorShape` are the public vocabulary; `Spec` (a dtype, a shape, and what is known of a small
integer value) is what an op's shape rule takes and returns.
"""

import enum
import math
import types
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array: TypeAlias = Any
"""A tensor's value: an ndarray or NumPy scalar on the CPU, a CuPy array on a GPU, an object for a resource."""

Namespace: TypeAlias = types.ModuleType
"""The array module of a device, `numpy` or `cupy`: the `xp` that a kernel computes with."""


class DeviceKind(enum.StrEnum):
    """The kinds of device a kernel can be written for."""

    CPU = "CPU"
    GPU = "GPU"


class DType:
    """The type of a tensor's elements. One object per type: compare with `is` or `==`."""

    __slots__ = ("family", "name", "np")

    def __init__(self, name: str, numpy_type: npt.DTypeLike, family: str) -> None:
        self.name: Final = name
        self.np: Final[np.dtype[Any]] = np.dtype(numpy_type)
        self.family: Final = family

    @property
    def as_numpy_dtype(self) -> type:
        """The NumPy scalar type."""
        return self.np.type

    @property
    def size(self) -> int:
        """Bytes per element (of a pointer, for strings and resources)."""
        return self.np.itemsize

    is_floating = property(lambda self: self.family == "floating")
    is_complex = property(lambda self: self.family == "complex")
    is_integer = property(lambda self: self.family in ("signed", "unsigned"))
    is_unsigned = property(lambda self: self.family == "unsigned")
    is_bool = property(lambda self: self.family == "bool")
    is_numeric = property(lambda self: self.family not in ("bool", "string", "resource"))
    is_differentiable = property(lambda self: self.family in ("floating", "complex"))

    @property
    def real(self) -> "DType":
        """The dtype of the real part; itself if it is not complex."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    @property
    def min(self) -> Any:
        """The lowest finite value. TypeError where there is none."""
        return self._limit("min")

    @property
    def max(self) -> Any:
        """The highest finite value. TypeError where there is none."""
        return self._limit("max")

    def _limit(self, which: str) -> Any:
        if self.is_floating:
            return getattr(ml_dtypes.finfo(self.np), which)  # type: ignore[no-untyped-call]
        if self.is_integer:
            return getattr(np.iinfo(self.np), which)
        raise TypeError(f"{self.name} has no {which}imum")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        try:
            return self is as_dtype(other)
        except TypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"af.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


bool_ = DType("bool", np.bool_, "bool")
int8 = DType("int8", np.int8, "signed")
int16 = DType("int16", np.int16, "signed")
int32 = DType("int32", np.int32, "signed")
int64 = DType("int64", np.int64, "signed")
uint8 = DType("uint8", np.uint8, "unsigned")
uint16 = DType("uint16", np.uint16, "unsigned")
uint32 = DType("uint32", np.uint32, "unsigned")
uint64 = DType("uint64", np.uint64, "unsigned")
float16 = DType("float16", np.float16, "floating")
float32 = DType("float32", np.float32, "floating")
float64 = DType("float64", np.float64, "floating")
bfloat16 = DType("bfloat16", ml_dtypes.bfloat16, "floating")
float8_e4m3fn = DType("float8_e4m3fn", ml_dtypes.float8_e4m3fn, "floating")
float8_e5m2 = DType("float8_e5m2", ml_dtypes.float8_e5m2, "floating")
complex64 = DType("complex64", np.complex64, "complex")
complex128 = DType("complex128", np.complex128, "complex")
string = DType("string", np.object_, "string")
resource = DType("resource", np.object_, "resource")

ALL: Final = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, bfloat16,
    float8_e4m3fn, float8_e5m2, complex64, complex128, string, resource,
)  # fmt: skip
_BY_NAME: Final = {d.name: d for d in ALL} | {"half": float16, "double": float64}
_BY_NUMPY: Final = {d.np: d for d in ALL if d.family not in ("string", "resource")}
_BY_PYTHON: Final = {bool: bool_, int: int32, float: float32, complex: complex128, str: string, bytes: string}

FLOAT: Final = frozenset(d for d in ALL if d.is_floating)
COMPLEX: Final = frozenset(d for d in ALL if d.is_complex)
INTEGER: Final = frozenset(d for d in ALL if d.is_integer)
SIGNED: Final = frozenset(d for d in ALL if d.family == "signed")
BOOL: Final = frozenset({bool_})
STRING: Final = frozenset({string})
NUMERIC: Final = FLOAT | COMPLEX | INTEGER
ANY: Final = frozenset(ALL) - {resource}


def as_dtype(value: object) -> DType:
    """The DType for a DType, a name, a NumPy dtype or scalar type, or a Python type. TypeError if there is none."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if isinstance(value, type) and value in _BY_PYTHON:
        return _BY_PYTHON[value]
    try:
        numpy_type = np.dtype(value)  # type: ignore[call-overload]
    except TypeError:
        raise TypeError(f"{value!r} is no dtype of aioflow") from None
    if numpy_type.kind in "OSU":
        return string
    found = _BY_NUMPY.get(numpy_type.newbyteorder("="))
    if found is None:
        raise TypeError(f"{value!r} is no dtype of aioflow; it has {', '.join(sorted(_BY_NAME))}")
    return found


class Dimension:
    """The size of one axis: a number, or None while unknown. Arithmetic with an unknown gives an unknown."""

    __slots__ = ("value",)

    def __init__(self, value: "int | Dimension | None") -> None:
        self.value: Final = _size(value)

    def is_compatible_with(self, other: "int | Dimension | None") -> bool:
        """Whether both can be the same size."""
        theirs = _size(other)
        return self.value is None or theirs is None or self.value == theirs

    def merge_with(self, other: "int | Dimension | None") -> "Dimension":
        """The one of both that is known. ValueError if they differ."""
        return Dimension(merge_sizes(self.value, _size(other)))

    def _combine(self, other: "int | Dimension | None", function: Any) -> "Dimension":
        theirs = _size(other)
        return Dimension(None if self.value is None or theirs is None else function(self.value, theirs))

    def __add__(self, other: "int | Dimension | None") -> "Dimension":
        return self._combine(other, lambda a, b: a + b)

    def __sub__(self, other: "int | Dimension | None") -> "Dimension":
        return self._combine(other, lambda a, b: a - b)

    def __mul__(self, other: "int | Dimension | None") -> "Dimension":
        return self._combine(other, lambda a, b: a * b)

    def __floordiv__(self, other: "int | Dimension | None") -> "Dimension":
        return self._combine(other, lambda a, b: a // b)

    __radd__, __rmul__ = __add__, __mul__

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


def _size(value: "int | Dimension | None") -> int | None:
    if value is None or isinstance(value, Dimension):
        return None if value is None else value.value
    size = value.__index__()
    if size < 0:
        raise ValueError(f"a dimension cannot be negative: {size}")
    return size


def merge_sizes(a: int | None, b: int | None) -> int | None:
    """The known one of two sizes. ValueError if both are known and differ."""
    if a is not None and b is not None and a != b:
        raise ValueError(f"dimensions {a} and {b} are not compatible")
    return b if a is None else a


Sizes: TypeAlias = tuple[int | None, ...]


class TensorShape:
    """The shape of a tensor as far as it is known: not even the rank, some sizes, or all.

    `sizes` is the plain form used inside: a tuple of numbers and None, or None for unknown rank.
    """

    __slots__ = ("sizes",)

    def __init__(self, dims: "ShapeLike") -> None:
        self.sizes: Final[Sizes | None] = _sizes(dims)

    @classmethod
    def scalar(cls) -> "TensorShape":
        """The shape of rank 0."""
        return cls(())

    @classmethod
    def vector(cls, length: int | None) -> "TensorShape":
        """A shape of rank 1."""
        return cls((length,))

    @classmethod
    def matrix(cls, rows: int | None, columns: int | None) -> "TensorShape":
        """A shape of rank 2."""
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
        """How many elements, None unless every size is known."""
        return None if self.sizes is None or None in self.sizes else math.prod(self.sizes)  # type: ignore[arg-type]

    def is_fully_defined(self) -> bool:
        """Whether every size is known."""
        return self.sizes is not None and None not in self.sizes

    def assert_is_fully_defined(self) -> None:
        """ValueError unless every size is known."""
        if not self.is_fully_defined():
            raise ValueError(f"shape {self} is not fully defined")

    def as_list(self) -> list[int | None]:
        """The sizes as a list. ValueError for unknown rank."""
        if self.sizes is None:
            raise ValueError("as_list() of a shape of unknown rank")
        return list(self.sizes)

    def as_plain(self) -> list[int] | None:
        """The form for the wire and for files: -1 for an unknown size, None for unknown rank."""
        return None if self.sizes is None else [-1 if size is None else size for size in self.sizes]

    @classmethod
    def from_plain(cls, plain: list[int] | None) -> "TensorShape":
        """The shape that `as_plain` wrote."""
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
        """What is known of a tensor that has both shapes. ValueError if none can."""
        theirs = as_shape(other)
        if not self.is_compatible_with(theirs):
            raise ValueError(f"shapes {self} and {theirs} are not compatible")
        if self.sizes is None or theirs.sizes is None:
            return theirs if self.sizes is None else self
        return TensorShape([b if a is None else a for a, b in zip(self.sizes, theirs.sizes, strict=True)])

    def concatenate(self, other: "ShapeLike") -> "TensorShape":
        """This shape's axes followed by the other's; unknown rank if either is."""
        theirs = _sizes(other)
        return UNKNOWN if self.sizes is None or theirs is None else TensorShape(self.sizes + theirs)

    def with_rank(self, rank: int) -> "TensorShape":
        """This shape, known to have that rank. ValueError if it has another."""
        return self.merge_with((None,) * rank)

    def __len__(self) -> int:
        return len(self.as_list())

    def __iter__(self) -> Iterator[Dimension]:
        return (Dimension(size) for size in self.as_list())

    def __getitem__(self, key: Any) -> Any:
        if self.sizes is None:
            return UNKNOWN if isinstance(key, slice) else Dimension(None)
        return TensorShape(self.sizes[key]) if isinstance(key, slice) else Dimension(self.sizes[key])

    def __bool__(self) -> bool:
        return self.sizes is not None

    def __eq__(self, other: object) -> bool:
        try:
            return self.sizes == _sizes(other)  # type: ignore[arg-type]
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


ShapeLike: TypeAlias = "TensorShape | Iterable[int | Dimension | None] | int | Dimension | None"


def _sizes(dims: ShapeLike) -> Sizes | None:
    if dims is None or isinstance(dims, TensorShape):
        return None if dims is None else dims.sizes
    if isinstance(dims, (int, np.integer, Dimension)):
        return (_size(dims),)
    return tuple([_size(dim) for dim in dims])


def as_shape(value: ShapeLike) -> TensorShape:
    """`value` as a TensorShape."""
    return value if isinstance(value, TensorShape) else TensorShape(value)


UNKNOWN: Final = TensorShape(None)
SCALAR: Final = TensorShape(())

Known: TypeAlias = "int | tuple[int | None, ...] | None"
"""What is known of a small integer value when the graph is built: a scalar, a vector with gaps, or nothing."""


class Spec:
    """An abstract value: dtype, shape, and what is known of a small integer value."""

    __slots__ = ("dtype", "known", "shape")

    def __init__(self, dtype: DType, shape: TensorShape = UNKNOWN, known: Known = None) -> None:
        self.dtype: Final = dtype
        self.shape: Final = shape
        self.known: Final = known

    @property
    def sizes(self) -> Sizes | None:
        """The shape's plain form."""
        return self.shape.sizes

    @property
    def rank(self) -> int | None:
        """The rank, None when unknown."""
        return None if self.shape.sizes is None else len(self.shape.sizes)

    @property
    def bytes(self) -> int | None:
        """Size of the whole value in bytes, None unless the shape is fully known."""
        count = self.shape.num_elements()
        return None if count is None else count * self.dtype.size

    def only(self, *families: frozenset[DType]) -> "Spec":
        """Itself (without the known value) if its dtype is in one of the families, else TypeError."""
        if not any(self.dtype in family for family in families):
            allowed = sorted(dtype.name for family in families for dtype in family)
            raise TypeError(f"dtype {self.dtype.name} is not supported; use one of {', '.join(allowed)}")
        return Spec(self.dtype, self.shape)

    def with_shape(self, shape: ShapeLike) -> "Spec":
        """The same dtype with another shape."""
        return Spec(self.dtype, as_shape(shape))

    def with_dtype(self, dtype: DType) -> "Spec":
        """The same shape with another dtype."""
        return Spec(dtype, self.shape)

    def with_rank(self, rank: int) -> "Spec":
        """Itself with that rank. ValueError naming the shape if it has another."""
        try:
            return Spec(self.dtype, self.shape.with_rank(rank), self.known)
        except ValueError:
            raise ValueError(f"rank {rank} is needed, the shape is {self.shape}") from None

    def same_dtype(self, *others: "Spec") -> "Spec":
        """Itself, if all others have its dtype, else TypeError."""
        for other in others:
            if other.dtype is not self.dtype:
                raise TypeError(f"dtypes {self.dtype.name} and {other.dtype.name} differ; cast one of them")
        return self

    def broadcast(self, other: "Spec") -> TensorShape:
        """The shape both broadcast to, by NumPy's rule. ValueError if they cannot."""
        return broadcast_shapes(self.shape, other.shape)

    def axis(self, axis: int) -> int:
        """`axis` counted from the front where the rank is known. ValueError if there is no such axis."""
        return normalise_axis(axis, self.rank)

    def __str__(self) -> str:
        return self.dtype.name + ("" if self.shape.sizes is None else str(self.shape))

    def __repr__(self) -> str:
        return f"Spec({self})"


class ResourceSpec(Spec):
    """A handle to live state: `items` are the dtypes and shapes of what it holds."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Spec, ...]) -> None:
        super().__init__(resource, SCALAR)
        self.items: Final = items

    @classmethod
    def check(cls, spec: Spec, count: int | None = None) -> "ResourceSpec":
        """`spec` as a handle (holding `count` things). TypeError if it is none."""
        if not isinstance(spec, cls) or count not in (None, len(spec.items)):
            raise TypeError(f"a handle to a resource is needed, not {spec}")
        return spec

    def __str__(self) -> str:
        return f"resource({', '.join(str(item) for item in self.items)})"


def broadcast_shapes(a: TensorShape, b: TensorShape) -> TensorShape:
    """The shape that `a` and `b` broadcast to, by NumPy's rule. ValueError if they cannot.

    Where the result surely is one operand's shape it is that very object: by this, planning knows that two shapes
    are equal in every run although a size is open.
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
    """Whether broadcasting `part` to `whole` surely leaves `whole` as it is."""
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
    """`axis` counted from the front where `rank` is known. ValueError if out of range."""
    if rank is None:
        return axis
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for rank {rank}")
    return axis % rank


def spec_of(value: Array) -> Spec:
    """The Spec of a concrete value; a resource for what is no array."""
    if isinstance(value, (np.ndarray, np.generic)):
        return Spec(as_dtype(value.dtype), TensorShape(value.shape))
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    return Spec(resource, SCALAR) if dtype is None or shape is None else Spec(as_dtype(dtype), TensorShape(shape))
