"""Memory of this process that a value from another process has filled."""

from typing import Any

import numpy as np


class ReceivedMemory:
    """The owner of such memory. It lives as long as arrays over it."""


def made_read_only(value: Any) -> Any:
    """The received value. If it is an array in such memory, it is read-only now, so that a variable can hold it."""
    if isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
        whole = value.base
        if isinstance(whole.base, ReceivedMemory):
            value.flags.writeable = whole.flags.writeable = False
    return value
