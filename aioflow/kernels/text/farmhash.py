"""FarmHash's Fingerprint64 (Geoff Pike, Google), which never changes: TensorFlow's `fingerprint` and fast buckets."""

from typing import Final

from aioflow.kernels.text.hash_words import MASK, Number, Words, rotate

_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F
_SEED: Final = 81
_ROUND: Final = 64
"""The bytes that one round of a long string reads."""

Pair = tuple[Number, Number]


def fingerprint64(text: Words) -> Number:
    """The fingerprint of each string, 64 bits."""
    if text.length <= 16:
        return _to_16(text)
    if text.length <= 32:
        return _to_32(text)
    if text.length <= 64:
        return _to_64(text)
    return _long(text)


def _mixed(number: Number) -> Number:
    return number ^ number >> 47


def _joined(u: Number, v: Number, factor: Number) -> Number:
    """Two numbers as one."""
    a = _mixed((u ^ v) * factor & MASK)
    b = _mixed((v ^ a) * factor & MASK)
    return b * factor & MASK


def _fetch(text: Words, start: int) -> Number:
    return text.number(start, 8)


def _to_16(text: Words) -> Number:
    length, factor = text.length, _K2 + 2 * text.length
    if length >= 8:
        a, b = _fetch(text, 0) + _K2 & MASK, _fetch(text, length - 8)
        c = rotate(b, 27) * factor + a & MASK
        d = (rotate(a, 39) + b & MASK) * factor & MASK
        return _joined(c, d, factor)
    if length >= 4:
        return _joined(length + (text.number(0, 4) << 3) & MASK, text.number(length - 4, 4), factor)
    if not length:
        return _K2
    first, middle, last = text.number(0, 1), text.number(length >> 1, 1), text.number(length - 1, 1)
    y, z = first + (middle << 8), length + (last << 2)
    return _mixed((y * _K2 ^ z * _K0) & MASK) * _K2 & MASK


def _to_32(text: Words) -> Number:
    length, factor = text.length, _K2 + 2 * text.length
    a, b = _fetch(text, 0) * _K1 & MASK, _fetch(text, 8)
    c, d = _fetch(text, length - 8) * factor & MASK, _fetch(text, length - 16) * _K2 & MASK
    return _joined(_turned(a, b, c, d), a + rotate(b + _K2 & MASK, 46) + c & MASK, factor)


def _turned(a: Number, b: Number, c: Number, d: Number) -> Number:
    return rotate(a + b & MASK, 21) + rotate(c, 34) + d & MASK


def _to_64(text: Words) -> Number:
    length, factor = text.length, _K2 + 2 * text.length
    a, b = _fetch(text, 0) * _K2 & MASK, _fetch(text, 8)
    c, d = _fetch(text, length - 8) * factor & MASK, _fetch(text, length - 16) * _K2 & MASK
    y = _turned(a, b, c, d)
    z = _joined(y, a + rotate(b + _K2 & MASK, 46) + c & MASK, factor)
    e, f = _fetch(text, 16) * factor & MASK, _fetch(text, 24)
    g = (y + _fetch(text, length - 32) & MASK) * factor & MASK
    h = (z + _fetch(text, length - 24) & MASK) * factor & MASK
    return _joined(_turned(e, f, g, h), e + rotate(f + a & MASK, 46) + g & MASK, factor)


def _long(text: Words) -> Number:
    x = (_SEED * _K2 & MASK) + _fetch(text, 0) & MASK
    y = _SEED * _K1 + 113 & MASK
    z = _mixed(y * _K2 + 113 & MASK) * _K2 & MASK
    v: Pair = (0, 0)
    w: Pair = (0, 0)
    rest = (text.length - 1) % _ROUND
    for start in range(0, text.length - 1 - rest, _ROUND):
        x, y, z, v, w = _round(text, start, (x, y, z, v, w), _K1, 1)
    factor = _K1 + ((z & 0xFF) << 1)
    w = w[0] + rest & MASK, w[1]
    v = v[0] + w[0] & MASK, v[1]
    w = w[0] + v[0] & MASK, w[1]
    x, y, z, v, w = _round(text, text.length - _ROUND, (x, y, z, v, w), factor, 9)
    first = _joined(v[0], w[0], factor) + _mixed(y) * _K0 + z & MASK
    return _joined(first, _joined(v[1], w[1], factor) + x & MASK, factor)


State = tuple[Number, Number, Number, Pair, Pair]


def _round(text: Words, start: int, state: State, factor: Number, weight: int) -> State:
    """One round over 64 bytes; the last one has another factor, and a weight of 9."""
    x, y, z, v, w = state
    x = rotate(x + y + v[0] + _fetch(text, start + 8) & MASK, 27) * factor & MASK
    y = rotate(y + v[1] + _fetch(text, start + 48) & MASK, 22) * factor & MASK
    x = x ^ w[1] * weight & MASK
    y = y + v[0] * weight + _fetch(text, start + 40) & MASK
    z = rotate(z + w[0] & MASK, 31) * factor & MASK
    v = _weak(text, start, v[1] * factor & MASK, x + w[0] & MASK)
    w = _weak(text, start + 32, z + w[1] & MASK, y + _fetch(text, start + 16) & MASK)
    return z, y, x, v, w


def _weak(text: Words, start: int, a: Number, b: Number) -> Pair:
    """A quick hash of 32 bytes with two seeds."""
    first, second, third, fourth = [_fetch(text, start + offset) for offset in (0, 8, 16, 24)]
    a = a + first & MASK
    b = rotate(b + a + fourth & MASK, 43)
    whole = a + second + third & MASK
    return whole + fourth & MASK, b + rotate(whole, 20) + a & MASK
