"""Lets the process keep the memory that steps free.

GNU's C library gives a freed block of 128 KiB or more back to the system, and returns free memory at the end of the
heap. The next step takes both anew, page by page: in a training step of a recurrent network a tenth of the time. A
block that is freed raises these two limits to its own size and to twice its size, for the rest of the process. One
block, which is never touched and so takes no memory, raises them at once as far as they go.

`MALLOC_TRIM_THRESHOLD_` or `MALLOC_MMAP_THRESHOLD_` in the environment switch that off, as the manual of `mallopt`
says. Other C libraries are not affected.
"""

import functools
from typing import Final

import numpy as np

KEPT: Final = 31 << 20
"""The bytes up to which the library keeps freed blocks: it takes no notice of blocks of 32 MiB or more."""


@functools.cache
def keep_freed_memory() -> None:
    """Keep freed blocks of up to `KEPT` bytes, and up to twice as much at the end of the heap."""
    np.empty(KEPT, np.uint8)
