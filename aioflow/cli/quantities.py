"""Numbers as people read them, as the live page writes them."""

import math
from typing import Final

_UNKNOWN: Final = "-"
_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_PREFIXES: Final = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_HOUR, _MINUTES = 3600, 120


def number(value: float | None) -> str:
    """A number with three digits or, if it is an integer, all; `-` for one that is unknown."""
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def in_bytes(value: float | None) -> str:
    """Bytes in the largest unit of which there is at least one."""
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    place = 0
    while abs(value) >= 1024 and place < len(_BYTES) - 1:
        value, place = value / 1024, place + 1
    return f"{value:.0f} {_BYTES[place]}" if place == 0 or value >= 100 else f"{value:.3g} {_BYTES[place]}"


def in_seconds(value: float | None) -> str:
    """Seconds, from nanoseconds to hours."""
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    if value >= _HOUR:
        return f"{value // 3600:.0f} h {value % 3600 // 60:.0f} min"
    if value >= _MINUTES:
        return f"{value // 60:.0f} min {value % 60:.0f} s"
    factor, prefix = next((pair for pair in _PREFIXES if abs(value) >= pair[0] * 0.9995), _PREFIXES[-1])
    return f"{value / factor:.3g} {prefix}s" if value else "0 s"
