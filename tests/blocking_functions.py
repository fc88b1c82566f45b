"""Functions for `--py-funcs` that hold the GIL, so that their whole process seems to be dead."""

import ctypes

import numpy as np


def hold_gil(seconds):
    """Hold the GIL for so many seconds, as a sort of objects does."""
    ctypes.PyDLL(None).usleep(int(1e6 * seconds))
    return np.float32(seconds)


__all__ = ["hold_gil"]
