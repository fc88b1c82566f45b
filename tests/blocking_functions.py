"""Functions for `--py-funcs` that hold the GIL, so that their whole process seems to be dead."""

import ctypes

import numpy as np


def hold_gil(seconds):
    """Hold the GIL for that many seconds, like a sort of objects."""
    ctypes.PyDLL(None).usleep(int(1e6 * seconds))
    return np.float32(seconds)


__all__ = ["hold_gil"]
