"""Functions for `--py-funcs` that hold the GIL, so that their whole process seems to be dead."""

import ctypes
import os

import numpy as np


def hold_gil(path):
    """Hold the GIL, like a sort of objects, until a process opens the FIFO of that name for writing.

    The name is bytes. With an empty name it returns at once.
    """
    name = path
    if name:
        os.close(ctypes.PyDLL(None).open(name, os.O_RDONLY))
    return np.float32(1.0)
