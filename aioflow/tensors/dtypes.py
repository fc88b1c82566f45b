"""Dtypes and Specs: the description of a tensor before a run computes it.

`DType`, with `Dimension` and `TensorShape` of `shape`, is public. A `Spec` holds a dtype, a shape, and the value of a
small integer tensor as far as it is known; an op's shape rule takes and returns Specs.
"""

import enum
import re
import types
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from aioflow.tensors.recursion import safe_repr
from aioflow.tensors.shape import SCALAR as SCALAR
from aioflow.tensors.shape import UNKNOWN as UNKNOWN
from aioflow.tensors.shape import Dimension as Dimension
from aioflow.tensors.shape import ShapeLike as ShapeLike
from aioflow.tensors.shape import Sizes as Sizes
from aioflow.tensors.shape import TensorShape as TensorShape
from aioflow.tensors.shape import as_shape as as_shape
from aioflow.tensors.shape import broadcast_shapes as broadcast_shapes
from aioflow.tensors.shape import merge_sizes as merge_sizes
from aioflow.tensors.shape import normalise_axis as normalise_axis

Array: TypeAlias = Any
"""A tensor's value: an ndarray or NumPy scalar on the CPU, a CuPy array on a GPU, an object for a resource."""

Namespace: TypeAlias = types.ModuleType
"""The array module of a device, `numpy` or `cupy`: the `xp` that a kernel computes with."""


class DeviceKind(enum.StrEnum):
    """The kinds of device that kernels are declared for."""

    CPU = "CPU"
    GPU = "GPU"


class DType:
    """The type of a tensor's elements. One object per type: compare with `is` or `==`.

    Examples:
        >>> af.float32.name, af.float32.size, af.float32.is_floating
        ('float32', 4, True)
    """

    __slots__ = ("family", "name", "np", "size")

    def __init__(self, name: str, numpy_type: npt.DTypeLike, family: str) -> None:
        self.name: Final = name
        self.np: Final[np.dtype[Any]] = np.dtype(numpy_type)
        self.family: Final = family
        self.size: Final = self.np.itemsize
        """Bytes per element; for strings and resources the size of a pointer."""

    @property
    def as_numpy_dtype(self) -> type:
        """The NumPy scalar type."""
        return self.np.type

    @property
    def is_floating(self) -> bool:
        """Whether it is a floating type."""
        return self.family == "floating"

    @property
    def is_complex(self) -> bool:
        """Whether it is a complex type."""
        return self.family == "complex"

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type."""
        return self.family in ("signed", "unsigned")

    @property
    def is_unsigned(self) -> bool:
        """Whether it is an integer type without a sign."""
        return self.family == "unsigned"

    @property
    def is_bool(self) -> bool:
        """Whether it is bool."""
        return self.family == "bool"

    @property
    def is_numeric(self) -> bool:
        """Whether it is a type of numbers."""
        return self.family not in ("bool", "string", "resource")

    @property
    def is_differentiable(self) -> bool:
        """Whether gradients flow through tensors of it."""
        return self.family in ("floating", "complex")

    @property
    def is_numpy_compatible(self) -> bool:
        """Whether NumPy's arrays hold its elements; texts are in arrays of objects."""
        return self.family != "resource"

    @property
    def base_dtype(self) -> "DType":
        """Itself: there are no types of references."""
        return self

    @property
    def real_dtype(self) -> "DType":
        """As `real`."""
        return self.real

    @property
    def real(self) -> "DType":
        """The dtype of the real part of a complex dtype; any other dtype itself."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def is_compatible_with(self, other: object) -> bool:
        """Whether `other` is the same dtype. No dtype converts implicitly."""
        return self is as_dtype(other)

    @property
    def min(self) -> Any:
        """The lowest finite value. TypeError for a dtype without one."""
        return self._limit("min")

    @property
    def max(self) -> Any:
        """The highest finite value. TypeError for a dtype without one."""
        return self._limit("max")

    @property
    def limits(self) -> tuple[Any, Any]:
        """The range of an image's brightness: [0, 1] for floats, [0, max] for integers, [False, True] for bool.

        TypeError for a dtype that images cannot have.
        """
        if self.is_bool:
            return False, True
        return 0, 1 if self.is_floating else self.max

    def _limit(self, which: str) -> Any:
        if self.is_floating:
            return getattr(ml_dtypes.finfo(self.np), which)  # type: ignore[no-untyped-call]
        if self.is_integer:
            return getattr(ml_dtypes.iinfo(self.np), which)  # type: ignore[no-untyped-call]
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


bool_: Final = DType("bool", np.bool_, "bool")
int8: Final = DType("int8", np.int8, "signed")
int16: Final = DType("int16", np.int16, "signed")
int32: Final = DType("int32", np.int32, "signed")
int64: Final = DType("int64", np.int64, "signed")
uint8: Final = DType("uint8", np.uint8, "unsigned")
uint16: Final = DType("uint16", np.uint16, "unsigned")
uint32: Final = DType("uint32", np.uint32, "unsigned")
uint64: Final = DType("uint64", np.uint64, "unsigned")
float16: Final = DType("float16", np.float16, "floating")
float32: Final = DType("float32", np.float32, "floating")
float64: Final = DType("float64", np.float64, "floating")
bfloat16: Final = DType("bfloat16", ml_dtypes.bfloat16, "floating")
float8_e4m3fn: Final = DType("float8_e4m3fn", ml_dtypes.float8_e4m3fn, "floating")
float8_e5m2: Final = DType("float8_e5m2", ml_dtypes.float8_e5m2, "floating")
complex64: Final = DType("complex64", np.complex64, "complex")
complex128: Final = DType("complex128", np.complex128, "complex")
string: Final = DType("string", np.object_, "string")
resource: Final = DType("resource", np.object_, "resource")

ALL: Final = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, bfloat16,
    float8_e4m3fn, float8_e5m2, complex64, complex128, string, resource,
)  # fmt: skip
"""The dtypes that kernels compute with."""

int2: Final = DType("int2", ml_dtypes.int2, "signed")
int4: Final = DType("int4", ml_dtypes.int4, "signed")
uint2: Final = DType("uint2", ml_dtypes.uint2, "unsigned")
uint4: Final = DType("uint4", ml_dtypes.uint4, "unsigned")
float4_e2m1fn: Final = DType("float4_e2m1fn", ml_dtypes.float4_e2m1fn, "floating")
float8_e4m3fnuz: Final = DType("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, "floating")
float8_e5m2fnuz: Final = DType("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, "floating")
float8_e8m0fnu: Final = DType("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, "floating")

NARROW: Final = frozenset({int2, int4, uint2, uint4, float4_e2m1fn, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu})
"""Dtypes of stored numbers, each in a byte. They are moved and cast; to compute with them, cast them first."""
EVERY: Final = (*ALL, *sorted(NARROW, key=lambda dtype: dtype.name))

QUANTIZED_DTYPES: Final = frozenset({int8, int16, int32, uint8, uint16})
"""The dtypes of stored integers that stand for real numbers: TensorFlow's qint8, qint16, qint32, quint8 and quint16.

The limits of the real numbers lie in tensors beside them.
"""

_BY_NAME: Final = (
    {d.name: d for d in EVERY}
    | {f"q{d.name}": d for d in QUANTIZED_DTYPES}
    | {"half": float16, "float": float32, "double": float64}
)
_BY_NUMPY: Final = {d.np: d for d in EVERY if d.family not in ("string", "resource")}
_TYPE_TEXT: Final = re.compile(r"[<>=|]?[biufcSU]\d+")
_BY_PYTHON: Final = {
    bool: bool_, int: int32, float: float32, complex: complex128, str: string, bytes: string, object: string,
}  # fmt: skip

DTypeLike: TypeAlias = DType | np.dtype[Any] | type[Any] | str
"""What users pass for a dtype: one of aioflow's, a name, a NumPy dtype or scalar type, or a Python type."""

FLOAT: Final = frozenset(d for d in ALL if d.is_floating)
COMPLEX: Final = frozenset(d for d in ALL if d.is_complex)
INTEGER: Final = frozenset(d for d in ALL if d.is_integer)
SIGNED: Final = frozenset(d for d in ALL if d.family == "signed")
BOOL: Final = frozenset({bool_})
STRING: Final = frozenset({string})
NUMERIC: Final = FLOAT | COMPLEX | INTEGER
ANY: Final = frozenset(EVERY) - {resource}
GPU_DTYPES: Final = frozenset(d for d in ALL if d.np.isbuiltin == 1 and not d.np.hasobject) | {bfloat16}
"""The dtypes of arrays on a GPU: all except strings and float8."""


def as_dtype(value: object) -> DType:
    """Return the DType for a DType, a name, a NumPy dtype or scalar type, or a Python type. TypeError if none fits.

    Examples:
        >>> af.as_dtype("float32") is af.float32
        True
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if isinstance(value, type) and value in _BY_PYTHON:
        return _BY_PYTHON[value]
    numpy_type = _as_numpy(value)
    if numpy_type is not None and numpy_type.kind in "OSU":
        return string
    found = None if numpy_type is None else _BY_NUMPY.get(numpy_type.newbyteorder("="))
    if found is None:
        raise TypeError(f"{safe_repr(value)} is not a dtype of aioflow; it has {', '.join(d.name for d in ALL)}")
    return found


def _as_numpy(value: Any) -> np.dtype[Any] | None:
    """Return NumPy's dtype. None for values whose dtype NumPy would guess: None, a user's class, any text."""
    guessed = value is None or (isinstance(value, type) and not issubclass(value, np.generic))
    if guessed or (isinstance(value, str) and _TYPE_TEXT.fullmatch(value) is None):
        return None
    try:
        found: np.dtype[Any] = np.dtype(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return found


Known: TypeAlias = "int | tuple[int | None, ...] | None"
"""A small integer value as far as it is known when the graph is built: a scalar, a vector with gaps, or None."""


class DTypeError(TypeError):
    """A dtype is none of those that are allowed.

    Attributes:
        allowed: the dtypes that are.
    """

    def __init__(self, dtype: DType, allowed: frozenset[DType]) -> None:
        names = ", ".join(sorted(each.name for each in allowed))
        super().__init__(f"dtype {dtype.name} is not supported; use one of {names}")
        self.allowed: Final = allowed


class Spec:
    """An abstract value: a dtype, a shape, and a small integer value as far as it is known."""

    __slots__ = ("dtype", "known", "shape")

    def __init__(self, dtype: DType, shape: TensorShape = UNKNOWN, known: Known = None) -> None:
        self.dtype: Final = dtype
        # a new object for an unknown shape, since planning takes the same object for equal shapes
        self.shape: Final = shape if shape.sizes is not None else TensorShape(None)
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
        """Return the Spec without its known value. DTypeError if its dtype is in none of the families."""
        if not any(self.dtype in family for family in families):
            raise DTypeError(self.dtype, frozenset().union(*families))
        return self if self.known is None else Spec(self.dtype, self.shape)

    def with_shape(self, shape: ShapeLike) -> "Spec":
        """Return a Spec of the same dtype and another shape."""
        return Spec(self.dtype, as_shape(shape))

    def with_dtype(self, dtype: DType) -> "Spec":
        """Return a Spec of the same shape and another dtype."""
        return Spec(dtype, self.shape)

    def with_rank(self, rank: int, what: str = "") -> "Spec":
        """Return the Spec with that rank. ValueError, naming `what` and the shape, if the rank is another."""
        try:
            return Spec(self.dtype, self.shape.with_rank(rank), self.known)
        except ValueError:
            label = f"{what}: " if what else ""
            raise ValueError(f"{label}rank {rank} is needed, the shape is {self.shape}") from None

    def same_dtype(self, *others: "Spec") -> "Spec":
        """Return this Spec. TypeError if one of the others has another dtype."""
        for other in others:
            if other.dtype is not self.dtype:
                raise TypeError(f"dtypes {self.dtype.name} and {other.dtype.name} differ; cast one of them")
        return self

    def broadcast(self, other: "Spec") -> TensorShape:
        """Return the shape that both broadcast to by NumPy's rule. ValueError if they cannot."""
        return broadcast_shapes(self.shape, other.shape)

    def axis(self, axis: int) -> int:
        """Return `axis` counted from the front if the rank is known. ValueError if it is out of range."""
        return normalise_axis(axis, self.rank)

    def __str__(self) -> str:
        return self.dtype.name + ("" if self.shape.sizes is None else str(self.shape))

    def __repr__(self) -> str:
        return f"Spec({self})"


class ResourceSpec(Spec):
    """A handle to live state; `items` are the Specs of the values that the state holds."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Spec, ...]) -> None:
        super().__init__(resource, SCALAR)
        self.items: Final = items

    @classmethod
    def check(cls, spec: Spec, count: int | None = None) -> "ResourceSpec":
        """Return `spec`, a handle that holds `count` values. TypeError if it is no handle, or holds another number."""
        if type(spec) is not cls or count not in (None, len(spec.items)):
            raise TypeError(f"a handle to a resource is needed, not {spec}")
        return spec

    def __str__(self) -> str:
        return f"resource({', '.join(str(item) for item in self.items)})"


class ListSpec(ResourceSpec):
    """The value of a `TensorArray`: a list of tensors of one dtype, or of such lists.

    Attributes:
        items: a tuple with one Spec, that of an element.
        size: the number of slots, if it is known and fixed.
        dynamic_size: whether a write past the end makes the list longer.
        clear_after_read: whether a slot can be read only once.
        infer_shape: whether all elements have one shape.
    """

    __slots__ = ("clear_after_read", "dynamic_size", "infer_shape", "size")

    def __init__(
        self,
        element: Spec,
        size: int | None = None,
        *,
        dynamic_size: bool = False,
        clear_after_read: bool = False,
        infer_shape: bool = True,
    ) -> None:
        super().__init__((element,))
        self.size: Final = None if dynamic_size else size
        self.dynamic_size: Final = dynamic_size
        self.clear_after_read: Final = clear_after_read
        self.infer_shape: Final = infer_shape

    @classmethod
    def check(cls, spec: Spec, count: int | None = None) -> "ListSpec":
        """Return `spec`, a list. TypeError if it is none."""
        if not isinstance(spec, cls):
            raise TypeError(f"the flow of a TensorArray is needed, not {spec}")
        return spec

    @classmethod
    def record(cls, element: Spec) -> "ListSpec":
        """Return a list of any length whose elements may differ in the sizes that `element` leaves open."""
        return cls(element, dynamic_size=True, infer_shape=False)

    @property
    def element(self) -> Spec:
        """The Spec of an element. Elements may differ in the sizes that it leaves open."""
        return self.items[0]

    def with_item(self, element: Spec) -> "ListSpec":
        """Return a list with the same properties and other elements."""
        return self._with(element, self.size)

    def _with(self, element: Spec, size: int | None) -> "ListSpec":
        dynamic, clear = self.dynamic_size, self.clear_after_read
        return ListSpec(element, size, dynamic_size=dynamic, clear_after_read=clear, infer_shape=self.infer_shape)

    def common_with(self, other: "ListSpec") -> "ListSpec":
        """Return the properties that both lists share. TypeError if their elements differ in dtype."""
        mine, theirs = self.element, other.element
        size = self.size if self.size == other.size else None
        if isinstance(mine, ListSpec) and isinstance(theirs, ListSpec):
            return self._with(mine.common_with(theirs), size)
        shape = mine.same_dtype(theirs).shape.most_specific_compatible_shape(theirs.shape)
        return self._with(Spec(mine.dtype, TensorShape(shape)), size)

    def __str__(self) -> str:
        return f"list({self.element}{'' if self.size is None else f', {self.size}'})"


def spec_of(value: Array) -> Spec:
    """Return the Spec of a concrete value; a value that is no array counts as a resource."""
    if isinstance(value, (np.ndarray, np.generic)):
        return Spec(as_dtype(value.dtype), TensorShape(value.shape))
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    return Spec(resource, SCALAR) if dtype is None or shape is None else Spec(as_dtype(dtype), TensorShape(shape))
