"""Inputs: what a line of the table draws for its op. Shapes and attributes shrink; elements come from a seed."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

HALF: Final = ("float16",)
FLOAT: Final = ("float32", "float64")
FLOATS: Final = (*FLOAT, *HALF)
COMPLEX: Final = ("complex64", "complex128")
SIGNED: Final = ("int32", "int64", "int8", "int16")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
INTS: Final = (*SIGNED, *UNSIGNED)
BOOL: Final = ("bool",)
STRING: Final = ("str",)
NUMBERS: Final = (*FLOATS, *INTS, *COMPLEX)
ANY: Final = (*NUMBERS, *BOOL, *STRING)

NO_TEXT: Final = b"\xff\x00"
"""Bytes that are no UTF-8."""
_WORDS: Final = [b"", b"a", b"b", b"ab", b"Az", b" x ", b"10", b"-1.5", NO_TEXT, "λμ".encode()]


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of an op: arrays that are fed for its tensors, and its attributes."""

    arrays: tuple[np.ndarray[Any, Any], ...]
    attrs: dict[str, Any]

    def __repr__(self) -> str:
        arrays = [f"array({array.tolist()}, {array.dtype}, shape={array.shape})" for array in self.arrays]
        return ", ".join([*arrays, *[f"{name}={value!r}" for name, value in self.attrs.items()]])


def call(*arrays: Any, **attrs: Any) -> Call:
    """A call on these arrays with these attributes."""
    return Call(tuple(np.asarray(array) for array in arrays), attrs)


class Draw:
    """What the lines draw with. `tame` numbers, for gradients, have no NaN, no infinity and no extremes."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], tame: bool) -> None:
        self._draw = draw
        self.tame = tame

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return self._draw(st.sampled_from(options))

    def integer(self, low: int, high: int) -> int:
        """An integer, `high` included."""
        return int(self._draw(st.integers(low, high)))

    def dtype(self, *names: str) -> str:
        """A dtype; where gradients are compared a wide floating or complex one, if there is one."""
        moved = [name for name in names if name in (*FLOAT, *COMPLEX)]
        return str(self.pick(*(moved if self.tame and moved else names)))

    def shape(self, low: int = 0, high: int = 3, sides: tuple[int, int] = (0, 4)) -> tuple[int, ...]:
        """A shape of so many axes."""
        return tuple(self.integer(*sides) for _ in range(self.integer(low, high)))

    def axis(self, shape: Sequence[int]) -> int:
        """An axis, counted from either end."""
        return self.integer(-len(shape), len(shape) - 1)

    def axes(self, shape: Sequence[int]) -> Any:
        """None, an axis, or several, counted from either end."""
        if not len(shape) or self.pick(False, False, True):
            return None
        if self.pick(True, False):
            return self.axis(shape)
        chosen = [axis for axis in range(len(shape)) if self.pick(True, False)]
        return [axis - len(shape) if self.pick(True, False) else axis for axis in chosen]

    def broadcast(self, count: int, high: int = 3, sides: tuple[int, int] = (0, 4)) -> list[tuple[int, ...]]:
        """Shapes that broadcast together."""
        whole = self.shape(0, high, sides)
        return [self._part(whole) for _ in range(count)]

    def _part(self, whole: tuple[int, ...]) -> tuple[int, ...]:
        if self.pick(True, False):
            return whole
        kept = whole[self.integer(0, len(whole)) :]
        return tuple(1 if self.pick(False, False, True) else size for size in kept)

    def rng(self) -> np.random.Generator:
        """A source of elements."""
        return np.random.default_rng(self.integer(0, 2**32 - 1))

    def array(
        self, dtype: str, shape: Sequence[int], low: float | None = None, high: float | None = None
    ) -> np.ndarray[Any, Any]:
        """An array: between `low` and `high` (integers: both included) if they are given."""
        rng, shape = self.rng(), tuple(shape)
        if dtype == "str":
            return np.array([_WORDS[i] for i in rng.integers(0, len(_WORDS), shape).ravel()], object).reshape(shape)
        if dtype == "bool":
            return np.asarray(rng.integers(0, 2, shape), bool)
        kind = np.dtype(dtype).kind
        wild = not self.tame and low is None and high is None and self.pick(False, True)
        if kind == "c":
            parts = [self._floats(rng, shape, low, high, False) for _ in range(2)]
            return np.asarray(parts[0] + 1j * parts[1], dtype)
        if kind in "iu":
            return _integers(rng, np.dtype(dtype), shape, low, high, wild)
        with np.errstate(over="ignore"):
            values = self._floats(rng, shape, low, high, wild).astype(dtype)
        return _salted(rng, values, _extremes(np.dtype(dtype))) if wild else values

    def _floats(self, rng: Any, shape: Any, low: float | None, high: float | None, wild: bool) -> Any:
        if low is not None or high is not None:
            return rng.uniform(-4 if low is None else low, 4 if high is None else high, shape)
        wide = rng.normal(0, 2, shape)
        return np.where(rng.random(shape) < 0.4, np.round(wide * (2 if not wild else 20)) / 2, wide)

    def ids(self, shape: Sequence[int], low: int, high: int) -> np.ndarray[Any, Any]:
        """Integers that are indices, of one of the two dtypes of indices."""
        return self.array(self.pick("int32", "int64"), shape, low, high)


def _integers(rng: Any, dtype: Any, shape: Any, low: float | None, high: float | None, wild: bool) -> Any:
    info = np.iinfo(dtype)
    least = max(info.min, -4 if low is None else int(low))
    values = np.asarray(rng.integers(least, (5 if high is None else int(high)) + 1, shape), dtype)
    return _salted(rng, values, [info.min, info.max, info.max // 2]) if wild else values


def _salted(rng: Any, values: Any, extremes: Sequence[Any]) -> Any:
    chosen = np.asarray(np.array(extremes, values.dtype)[rng.integers(0, len(extremes), values.shape)])
    return np.asarray(np.where(rng.random(values.shape) < 0.3, chosen, values), values.dtype)


def _extremes(dtype: Any) -> list[Any]:
    info = np.finfo(dtype)
    return [np.nan, np.inf, -np.inf, -0.0, 0.0, info.max, info.min, float(info.tiny) * 4, 40.5, -40.5]


# Inputs of many ops


def one(
    *dtypes: str,
    low: float | None = None,
    high: float | None = None,
    ranks: tuple[int, int] = (0, 3),
    sides: tuple[int, int] = (0, 4),
) -> Callable[[Draw], Call]:
    """One array."""
    return lambda d: call(d.array(d.dtype(*dtypes), d.shape(*ranks, sides), low, high))


def several(count: int, *dtypes: str, low: float | None = None, high: float | None = None) -> Callable[[Draw], Call]:
    """Arrays of one dtype that broadcast together."""

    def drawn(d: Draw) -> Call:
        dtype = d.dtype(*dtypes)
        return call(*[d.array(dtype, shape, low, high) for shape in d.broadcast(count)])

    return drawn


def two(*dtypes: str, low: float | None = None, high: float | None = None) -> Callable[[Draw], Call]:
    """Two arrays of one dtype that broadcast together."""
    return several(2, *dtypes, low=low, high=high)


def alike(
    count: int, *dtypes: str, low: float | None = None, high: float | None = None, ranks: tuple[int, int] = (0, 3)
) -> Callable[[Draw], Call]:
    """Arrays of one dtype and one shape."""

    def drawn(d: Draw) -> Call:
        dtype, shape = d.dtype(*dtypes), d.shape(*ranks)
        return call(*[d.array(dtype, shape, low, high) for _ in range(count)])

    return drawn
