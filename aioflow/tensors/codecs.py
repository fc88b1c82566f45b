"""Lossy forms of floating arrays, for edges where fewer bytes are worth more than all of the digits.

    bfloat16             the upper half of a float32, rounded to the nearest: half the bytes, 8 bits of precision
    bfloat16_truncated   the same, cut off: it is filled in with zeros on the other side
    float16              half the bytes, 11 bits of precision; what is beyond 65504 becomes infinite
    int8                 whole multiples of a 126th of the largest magnitude: a quarter of the bytes
    int8_rows            the same, with a largest magnitude for each row (along the last axis)
    top_k:0.01           the hundredth of the elements that is largest in magnitude. What is left out is kept, and added
                         to what is sent next, so that in the long run nothing is lost: for gradients

NaN and infinities arrive as themselves in every form. Dtype and shape are what they were. Each form is one array: the
first three have the shape of what is sent; the others are bytes: rank and sizes as int64, then scales or values in the
dtype of what is sent, then codes or places.
"""

import dataclasses
import math
import threading
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.tensors.dtypes import Array, Namespace, TensorShape
from aioflow.tensors.recursion import shown

NAMES: Final = ("bfloat16", "bfloat16_truncated", "float16", "int8", "int8_rows", "top_k")
LINKS: Final = ("devices", "workers")
_LARGEST_CODE: Final = 126
"""Of finite numbers; 127 and -127 are the infinities, -128 is NaN."""
_NAN_CODE: Final = -128
_NAN_HALF: Final = 0x7FC0
_LONG: Final = np.dtype(np.int64).itemsize


class Codec(NamedTuple):
    """A lossy form by its name; `keep` is the fraction of the elements that `top_k` sends."""

    name: str
    keep: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Codec":
        """The codec of that text, as `int8` or `top_k:0.01`. ValueError if there is none."""
        name, _, number = text.partition(":") if isinstance(text, str) else ("", "", "")
        if name == "top_k":
            return cls(name, _fraction(number, text))
        if name in NAMES and not number and ":" not in text:
            return cls(name)
        raise ValueError(f"{text!r} is no lossy form; there are {', '.join(NAMES[:-1])} and top_k:0.01 (any fraction)")

    def __str__(self) -> str:
        return f"{self.name}:{self.keep}" if self.name == "top_k" else self.name


def _fraction(number: str, text: str) -> float:
    try:
        keep = float(number)
    except ValueError:
        keep = math.nan
    if not 0 < keep <= 0.5:
        raise ValueError(f"{text!r}: top_k is given a fraction above 0 and up to 0.5, as in 'top_k:0.01'")
    return keep


def edge_codecs(setting: object) -> dict[str, Codec]:
    """The codecs of `Config(compression=)`, for edges between `devices` of one task and for those between `workers`.

    TypeError or ValueError for anything else, and for `top_k`: an activation would get what was left out of the last.
    """
    chosen = dict.fromkeys(LINKS, setting) if isinstance(setting, str) else {} if setting is None else setting
    if not isinstance(chosen, Mapping):
        raise TypeError(f"compression is the name of a lossy form, or one by link, not {shown(setting)}")
    unknown = sorted(map(str, chosen.keys() - set(LINKS)))
    if unknown:
        raise ValueError(f"compression is chosen for 'devices' and 'workers', not for {', '.join(unknown)}")
    try:
        codecs = {link: Codec.parse(text) for link, text in chosen.items()}
    except ValueError as error:
        raise ValueError(f"compression: {error}") from None
    for codec in codecs.values():
        if codec.name == "top_k":
            raise ValueError(
                f"compression of all edges cannot be {str(codec)!r}, which adds to each value what was left out of the "
                f"one before: it is for gradients. Mark those, by af.lossy(gradient, {str(codec)!r})"
            )
    return codecs


# Half of the bytes


def to_bfloat16(xp: Namespace, x: Array, truncated: bool) -> Array:
    """The upper halves of the elements as float32, in an array of uint16."""
    flat = xp.asarray(x).astype(np.float32, copy=False).reshape(-1)
    bits = flat.view(np.uint32)
    halves = bits >> 16
    if not truncated:  # ties to even, as in any rounding
        halves &= 1
        halves += 0x7FFF
        halves += bits
        halves >>= 16
    halves = halves.astype(np.uint16)
    xp.copyto(halves, _NAN_HALF, where=xp.isnan(flat))  # a GPU would be waited for if a mask were the index
    return halves.reshape(x.shape)


def from_bfloat16(xp: Namespace, halves: Array, dtype: np.dtype[Any]) -> Array:
    """The elements whose upper halves these are; the lower ones are 0."""
    bits = xp.asarray(halves).astype(np.uint32)
    return xp.left_shift(bits, 16, out=bits).view(np.float32).astype(dtype, copy=False)


# Scaled codes


def int8_bytes(sizes: tuple[int, ...], itemsize: int, rows: bool) -> int:
    """How many bytes `to_int8` makes."""
    count = math.prod(sizes)
    scales = math.prod(_scales_of(sizes, rows)) if count else 0
    return _LONG * (1 + len(sizes)) + scales * itemsize + count


def _scales_of(sizes: tuple[int, ...], rows: bool) -> tuple[int, ...]:
    return (*sizes[:-1], 1) if rows and sizes else (1,) * len(sizes)


def to_int8(xp: Namespace, x: Array, rows: bool) -> Array:
    """Each element divided by a scale and rounded, in bytes behind the scales."""
    x = xp.asarray(x)
    if not x.size:
        return _packed(xp, x.shape)
    axis = -1 if rows and x.ndim else None
    peak = xp.maximum(x.max(axis=axis, keepdims=True), -x.min(axis=axis, keepdims=True))
    finite = xp is np and bool(np.isfinite(peak).all())  # elsewhere one would have to wait for the answer
    if not finite:
        peak = xp.abs(xp.where(xp.isfinite(x), x, 0)).max(axis=axis, keepdims=True)
    scale = xp.maximum(peak / _LARGEST_CODE, np.finfo(x.dtype).tiny)
    codes = xp.rint(x / scale)
    if not finite:
        codes = xp.clip(codes, -_LARGEST_CODE - 1, _LARGEST_CODE + 1)
        codes = xp.where(xp.isnan(codes), _NAN_CODE, codes)
    return _packed(xp, x.shape, scale, codes.astype(np.int8))


def from_int8(xp: Namespace, wire: Array, dtype: np.dtype[Any], shape: TensorShape, rows: bool) -> Array:
    """The codes times their scales."""
    sizes, body = _unpacked(wire, shape)
    count = math.prod(sizes)
    if not count:
        return xp.zeros(sizes, dtype)
    scale = body[: body.size - count].view(dtype).reshape(_scales_of(sizes, rows))
    codes = body[body.size - count :].view(np.int8).reshape(sizes)
    values = xp.asarray(xp.multiply(codes, scale, dtype=dtype))
    if xp is not np or codes.min() < -_LARGEST_CODE or codes.max() > _LARGEST_CODE:
        xp.copyto(values, math.inf, where=codes > _LARGEST_CODE)
        xp.copyto(values, -math.inf, where=codes < -_LARGEST_CODE)
        xp.copyto(values, math.nan, where=codes == _NAN_CODE)
    return values


# The largest elements


def to_top_k(xp: Namespace, x: Array, keep: float, carried: Array | None) -> tuple[Array, Array]:
    """The largest elements of x + carried with their places, in bytes; and the rest, with zeros where they were.

    What is not finite is sent in any case, so that the rest always is.
    """
    x = xp.asarray(x)
    rest = x.flatten() if carried is None else (x + carried).reshape(-1)
    wild = rest.size - int(xp.count_nonzero(xp.isfinite(rest)))
    count = max(math.ceil(keep * rest.size), wild)
    places = xp.argpartition(xp.abs(rest), rest.size - count)[rest.size - count :] if count else xp.zeros(0, np.int64)
    places = xp.sort(places.astype(_place_type(rest.size)))
    values = rest[places]
    rest[places] = 0
    return _packed(xp, x.shape, values, places), rest.reshape(x.shape)


def from_top_k(xp: Namespace, wire: Array, dtype: np.dtype[Any], shape: TensorShape, keep: float) -> Array:
    """A tensor of zeros and the elements that were sent. ValueError, before it allocates, if these are too few."""
    sizes, body = _unpacked(wire, shape)
    size = math.prod(sizes)
    place_type = np.dtype(_place_type(size))
    count = body.size // (dtype.itemsize + place_type.itemsize)
    if count < math.floor(keep * size):
        raise ValueError(f"{count} of {size} elements were sent; the share to send is {keep:g}")
    values = xp.zeros(size, dtype)
    split = count * dtype.itemsize
    values[body[split:].view(place_type)] = body[:split].view(dtype)
    return values.reshape(sizes)


def _place_type(size: int) -> type[np.signedinteger[Any]]:
    return np.int32 if size <= np.iinfo(np.int32).max else np.int64


# Bytes


def _packed(xp: Namespace, sizes: tuple[int, ...], *parts: Array) -> Array:
    """Rank, sizes, and the parts, the coarser aligned first: bytes."""
    head = xp.asarray(np.array([len(sizes), *sizes], np.int64))
    return xp.concatenate([part.reshape(-1).view(np.uint8) for part in (head, *parts)])


def _unpacked(wire: Array, shape: TensorShape) -> tuple[tuple[int, ...], Array]:
    """The sizes, read only where they are not known before, and the bytes of the parts."""
    sizes: Any = shape.sizes
    if not shape.is_fully_defined():
        rank = int(wire[:_LONG].view(np.int64)[0])
        sizes = tuple(map(int, wire[_LONG : _LONG * (1 + rank)].view(np.int64))) if 0 <= rank <= 64 else (-1,)
        if min(sizes, default=0) < 0:
            raise ValueError("a tensor in a lossy form has a header with an impossible shape")
    return sizes, wire[_LONG * (1 + len(sizes)) :]


# What is kept from step to step


class Residual:
    """What `top_k` has left out so far of one edge. Safe to use from any thread.

    A step takes all of it and gives back what it leaves out itself. Steps at the same time take it once, and what they
    leave out adds up: whatever was left out is sent once. It is dropped when a value of another shape is sent. What a
    step sent in vain is left out again, without the value that was the step's own.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._rest: Array | None = None
        self._vain: list[tuple[Array, Array | None]] = []
        """What steps gave and had taken that were in vain, while others went on with what they gave."""
        self._lock: Final = threading.Lock()

    def take(self, shape: tuple[int, ...]) -> Array | None:
        """What was left out, for whoever adds it to a value of that shape; nothing is kept until it is given back."""
        with self._lock:
            rest, self._rest = self._rest, None
            vain, self._vain = self._vain, []
        if rest is not None and rest.shape != shape:
            return None
        for given, carried in vain:
            if given.shape == shape:
                amends = -given if carried is None else carried - given
                rest = amends if rest is None else rest + amends
        return rest

    def give(self, rest: Array | None) -> None:
        """Keep that, too."""
        if rest is None:
            return
        with self._lock:
            same = self._rest is not None and self._rest.shape == rest.shape
            self._rest = self._rest + rest if same else rest

    def undo(self, given: Array, carried: Array | None) -> None:
        """A step that took `carried` and gave what it left out itself was in vain: it is as if it had not been."""
        with self._lock:
            if self._rest is given:
                self._rest = carried
            elif self._rest is None or self._rest.shape == given.shape:
                self._vain.append((given, carried))

    def release(self) -> None:
        """Forget it."""
        with self._lock:
            self._rest, self._vain = None, []

    def __repr__(self) -> str:
        return f"<Residual {self.name!r} {'empty' if self._rest is None else list(self._rest.shape)}>"


@dataclasses.dataclass(frozen=True, slots=True)
class Saving:
    """What one edge has carried in a lossy form.

    Attributes:
        times: how many values.
        sent: their bytes as they were sent.
        saved: how many more they would have been.
    """

    times: int = 0
    sent: int = 0
    saved: int = 0


class Savings:
    """The bytes that lossy forms have saved, by edge. Safe to use from any thread."""

    def __init__(self) -> None:
        self._edges: dict[str, Saving] = {}
        self._lock: Final = threading.Lock()

    def add(self, edge: str, sent: int, whole: int) -> None:
        """One more value of that edge, `sent` bytes long instead of `whole`."""
        with self._lock:
            before = self._edges.get(edge, Saving())
            self._edges[edge] = Saving(before.times + 1, before.sent + sent, before.saved + whole - sent)

    @property
    def edges(self) -> dict[str, Saving]:
        """What each edge has carried so far."""
        with self._lock:
            return dict(self._edges)

    def release(self) -> None:
        """Begin anew."""
        with self._lock:
            self._edges.clear()
