"""The functions that workers of the benchmarks register for `py_func`."""

import time


def fail() -> None:
    """Raise an error with the present time of the clock that all processes of a machine share."""
    raise ValueError(f"failed at {time.clock_gettime(time.CLOCK_MONOTONIC)!r}.")
