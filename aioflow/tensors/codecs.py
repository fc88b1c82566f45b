"""Lossy codecs for arrays of floats. An edge with a codec sends fewer bytes, and loses precision.

    bfloat16             the upper half of a float32, rounded to nearest: half the bytes, 8 bits of precision
    bfloat16_truncated   the same without rounding; the receiver fills the lower half with zeros
    float16              half the bytes, 11 bits of precision; magnitudes above 65504 become infinite
    int8                 multiples of the largest magnitude divided by 126: a quarter of the bytes
    int8_rows            the same, with the largest magnitude of each row (along the last axis)
    top_k:0.01           the 1 % of the elements with the largest magnitudes. The sender keeps the others and adds them
                         to the next value, so nothing is lost in the long run: for gradients

Every codec keeps NaN, infinities, dtype and shape. An encoded value is one array. For the first three codecs it has the
shape of the value; for the others it is bytes: rank and sizes as int64, then scales or values in the dtype of the
value, then codes or positions.
"""

import dataclasses
import math
import threading
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.tensors.dtypes import Array, Namespace, TensorShape
from aioflow.tensors.recursion import safe_repr

NAMES: Final = ("bfloat16", "bfloat16_truncated", "float16", "int8", "int8_rows", "top_k")
LINKS: Final = ("devices", "workers")
_LARGEST_CODE: Final = 126
"""The largest code of a finite number; 127 and -127 are the infinities, -128 is NaN."""
_NAN_CODE: Final = -128
_NAN_HALF: Final = 0x7FC0
_LONG: Final = np.dtype(np.int64).itemsize


class Codec(NamedTuple):
    """A lossy codec; `keep` is the fraction of the elements that `top_k` sends."""

    name: str
    keep: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Codec":
        """Return the codec named by `text`, such as `int8` or `top_k:0.01`. ValueError for an unknown name."""
        name, _, number = text.partition(":") if isinstance(text, str) else ("", "", "")
        if name == "top_k":
            return cls(name, _parse_fraction(number, text))
        if name in NAMES and not number and ":" not in text:
            return cls(name)
        raise ValueError(f"{text!r} is not a lossy codec; use {', '.join(NAMES[:-1])} or top_k:0.01 (any fraction)")

    def __str__(self) -> str:
        return f"{self.name}:{self.keep}" if self.name == "top_k" else self.name


def _parse_fraction(number: str, text: str) -> float:
    try:
        keep = float(number)
    except ValueError:
        keep = math.nan
    if not 0 < keep <= 0.5:
        raise ValueError(f"{text!r}: top_k needs a fraction above 0 and up to 0.5, as in 'top_k:0.01'")
    return keep


def edge_codecs(setting: object) -> dict[str, Codec]:
    """Return the codecs of `Config(compression=)` for edges between `devices` of one task and between `workers`.

    Raises TypeError or ValueError for any other setting, and for `top_k`, which would add the rest of one activation to
    the next one.
    """
    chosen = dict.fromkeys(LINKS, setting) if isinstance(setting, str) else {} if setting is None else setting
    if not isinstance(chosen, Mapping):
        raise TypeError(
            f"compression must be the name of a lossy codec, or a dict of names by link, not {safe_repr(setting)}"
        )
    unknown = sorted(map(str, chosen.keys() - set(LINKS)))
    if unknown:
        raise ValueError(f"compression has the keys 'devices' and 'workers', not {', '.join(unknown)}")
    try:
        codecs = {link: Codec.parse(text) for link, text in chosen.items()}
    except ValueError as error:
        raise ValueError(f"compression: {error}") from None
    for codec in codecs.values():
        if codec.name == "top_k":
            raise ValueError(
                f"compression of all edges cannot be {str(codec)!r}: it adds the elements left out of one value "
                f"to the next one, and is for gradients only. Mark each gradient by af.lossy(gradient, {str(codec)!r})"
            )
    return codecs


# bfloat16


def to_bfloat16(xp: Namespace, x: Array, truncated: bool) -> Array:
    """Return the upper halves of the elements as float32, in an array of uint16."""
    flat = xp.asarray(x).astype(np.float32, copy=False).reshape(-1)
    bits = flat.view(np.uint32)
    halves = bits >> 16
    if not truncated:  # round half to even
        halves &= 1
        halves += 0x7FFF
        halves += bits
        halves >>= 16
    halves = halves.astype(np.uint16)
    xp.copyto(halves, _NAN_HALF, where=xp.isnan(flat))  # indexing by a mask would wait for the GPU
    return halves.reshape(x.shape)


def from_bfloat16(xp: Namespace, halves: Array, dtype: np.dtype[Any]) -> Array:
    """Return the elements with these upper halves and zeros as lower halves."""
    bits = xp.asarray(halves).astype(np.uint32)
    return xp.left_shift(bits, 16, out=bits).view(np.float32).astype(dtype, copy=False)


# int8


def int8_bytes(sizes: tuple[int, ...], itemsize: int, rows: bool) -> int:
    """Return the number of bytes that `to_int8` makes."""
    count = math.prod(sizes)
    scales = math.prod(_scales_shape(sizes, rows)) if count else 0
    return _LONG * (1 + len(sizes)) + scales * itemsize + count


def _scales_shape(sizes: tuple[int, ...], rows: bool) -> tuple[int, ...]:
    return (*sizes[:-1], 1) if rows and sizes else (1,) * len(sizes)


def to_int8(xp: Namespace, x: Array, rows: bool) -> Array:
    """Encode as bytes: the scales, then each element divided by its scale and rounded."""
    x = xp.asarray(x)
    if not x.size:
        return _pack(xp, x.shape)
    axis = -1 if rows and x.ndim else None
    peak = xp.maximum(x.max(axis=axis, keepdims=True), -x.min(axis=axis, keepdims=True))
    finite = xp is np and bool(np.isfinite(peak).all())  # on a GPU the test would wait for the device
    if not finite:
        peak = xp.abs(xp.where(xp.isfinite(x), x, 0)).max(axis=axis, keepdims=True)
    scale = xp.maximum(peak / _LARGEST_CODE, np.finfo(x.dtype).tiny)
    codes = xp.rint(x / scale)
    if not finite:
        codes = xp.clip(codes, -_LARGEST_CODE - 1, _LARGEST_CODE + 1)
        codes = xp.where(xp.isnan(codes), _NAN_CODE, codes)
    return _pack(xp, x.shape, scale, codes.astype(np.int8))


def from_int8(xp: Namespace, wire: Array, dtype: np.dtype[Any], shape: TensorShape, rows: bool) -> Array:
    """Decode the bytes of `to_int8`: the codes times their scales."""
    sizes, body = _unpack(wire, shape)
    count = math.prod(sizes)
    if not count:
        return xp.zeros(sizes, dtype)
    scale = body[: body.size - count].view(dtype).reshape(_scales_shape(sizes, rows))
    codes = body[body.size - count :].view(np.int8).reshape(sizes)
    values = xp.asarray(xp.multiply(codes, scale, dtype=dtype))
    if xp is not np or codes.min() < -_LARGEST_CODE or codes.max() > _LARGEST_CODE:
        xp.copyto(values, math.inf, where=codes > _LARGEST_CODE)
        xp.copyto(values, -math.inf, where=codes < -_LARGEST_CODE)
        xp.copyto(values, math.nan, where=codes == _NAN_CODE)
    return values


# top_k


def to_top_k(xp: Namespace, x: Array, keep: float, carried: Array | None) -> tuple[Array, Array]:
    """Return the largest elements of x + carried with their positions, as bytes, and the rest.

    The rest has zeros in their place. NaN and infinities are always sent, so the rest is always finite.
    """
    x = xp.asarray(x)
    rest = x.flatten() if carried is None else (x + carried).reshape(-1)
    wild = rest.size - int(xp.count_nonzero(xp.isfinite(rest)))
    count = max(math.ceil(keep * rest.size), wild)
    places = xp.argpartition(xp.abs(rest), rest.size - count)[rest.size - count :] if count else xp.zeros(0, np.int64)
    places = xp.sort(places.astype(_place_type(rest.size)))
    values = rest[places]
    rest[places] = 0
    return _pack(xp, x.shape, values, places), rest.reshape(x.shape)


def from_top_k(xp: Namespace, wire: Array, dtype: np.dtype[Any], shape: TensorShape, keep: float) -> Array:
    """Return a tensor of zeros with the sent elements. Raises ValueError, before it allocates, if too few were sent."""
    sizes, body = _unpack(wire, shape)
    size = math.prod(sizes)
    place_type = np.dtype(_place_type(size))
    count = body.size // (dtype.itemsize + place_type.itemsize)
    if count < math.floor(keep * size):
        raise ValueError(f"{count} of {size} elements were sent, which is less than the fraction {keep:g}")
    values = xp.zeros(size, dtype)
    split = count * dtype.itemsize
    values[body[split:].view(place_type)] = body[:split].view(dtype)
    return values.reshape(sizes)


def _place_type(size: int) -> type[np.signedinteger[Any]]:
    return np.int32 if size <= np.iinfo(np.int32).max else np.int64


# Bytes


def _pack(xp: Namespace, sizes: tuple[int, ...], *parts: Array) -> Array:
    """Return rank, sizes and the parts as bytes. The parts come in order of falling alignment."""
    head = xp.asarray(np.array([len(sizes), *sizes], np.int64))
    return xp.concatenate([part.reshape(-1).view(np.uint8) for part in (head, *parts)])


def _unpack(wire: Array, shape: TensorShape) -> tuple[tuple[int, ...], Array]:
    """Return the sizes and the bytes of the parts. Sizes are read only if `shape` leaves them open."""
    sizes: Any = shape.sizes
    if not shape.is_fully_defined():
        rank = int(wire[:_LONG].view(np.int64)[0])
        sizes = tuple(map(int, wire[_LONG : _LONG * (1 + rank)].view(np.int64))) if 0 <= rank <= 64 else (-1,)
        if min(sizes, default=0) < 0:
            raise ValueError("the header of a compressed tensor has an impossible shape")
    return sizes, wire[_LONG * (1 + len(sizes)) :]


# State kept between steps


class Residual:
    """The sum of the elements of one edge that `top_k` has not sent yet. Safe to use from any thread.

    A step takes the whole sum, adds it to its value, and gives back the elements that it does not send. Of concurrent
    steps only one takes the sum; the rests that they give back are added up. A value of another shape drops the sum.
    After a failed step, `undo` restores what that step had taken.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._rest: Array | None = None
        self._vain: list[tuple[Array, Array | None]] = []
        """(given, carried) of failed steps whose rests other steps had taken already; the next `take` corrects its sum.
        """
        self._lock: Final = threading.Lock()

    def take(self, shape: tuple[int, ...]) -> Array | None:
        """Remove and return the sum, to be added to a value of that shape; None if it is empty or has another shape."""
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
        """Add the elements that a step did not send."""
        if rest is None:
            return
        with self._lock:
            same = self._rest is not None and self._rest.shape == rest.shape
            self._rest = self._rest + rest if same else rest

    def undo(self, given: Array, carried: Array | None) -> None:
        """Revoke a failed step, which took `carried` and gave `given`."""
        with self._lock:
            if self._rest is given:
                self._rest = carried
            elif self._rest is None or self._rest.shape == given.shape:
                self._vain.append((given, carried))

    def release(self) -> None:
        """Drop the sum."""
        with self._lock:
            self._rest, self._vain = None, []

    def __repr__(self) -> str:
        return f"<Residual {self.name!r} {'empty' if self._rest is None else list(self._rest.shape)}>"


@dataclasses.dataclass(frozen=True, slots=True)
class Saving:
    """The traffic of one compressed edge.

    Attributes:
        times: the number of values sent.
        sent: their bytes after compression.
        saved: the bytes that compression removed.

    Examples:
        >>> af.Saving(times=1, sent=100, saved=300)
        Saving(times=1, sent=100, saved=300)
    """

    times: int = 0
    sent: int = 0
    saved: int = 0


class SavingsByEdge:
    """The bytes that lossy codecs have saved, by edge. Safe to use from any thread."""

    def __init__(self) -> None:
        self._edges: dict[str, Saving] = {}
        self._lock: Final = threading.Lock()

    def add(self, edge: str, sent: int, whole: int) -> None:
        """Count a value of that edge that took `sent` bytes instead of `whole`."""
        with self._lock:
            before = self._edges.get(edge, Saving())
            self._edges[edge] = Saving(before.times + 1, before.sent + sent, before.saved + whole - sent)

    @property
    def edges(self) -> dict[str, Saving]:
        """The traffic of each edge so far."""
        with self._lock:
            return dict(self._edges)

    def release(self) -> None:
        """Drop all counts."""
        with self._lock:
            self._edges.clear()
