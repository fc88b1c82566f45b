"""Numbers as people read them."""

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def seconds(value: float) -> str:
    """A time, as `1.5 ms`."""
    if value >= 120:
        return f"{value // 60:.0f} min {value % 60:.0f} s"
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def size(count: float) -> str:
    """A number of bytes, as `1.5 KiB`."""
    place = 0
    while count >= 1024 and place < len(_UNITS) - 1:
        count, place = count / 1024, place + 1
    return f"{count:.3g} {_UNITS[place]}" if place else f"{count:.0f} B"


def counted(count: int, what: str) -> str:
    """A number of things, as `1 operation` and `2 operations`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
