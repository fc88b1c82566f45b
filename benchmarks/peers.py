"""Imports the peers quietly, late, and in a compatible order. ImportError if one is not installed."""

import contextlib
import importlib
import os
from typing import Any

AIOFLOW, TENSORFLOW, TORCH, NUMPY = "aioflow", "TensorFlow", "PyTorch", "NumPy"


def aioflow() -> Any:
    """Import aioflow."""
    return importlib.import_module("aioflow")


def tensorflow() -> Any:
    """Import TensorFlow in v1 mode: graphs, sessions, resource variables, loops of Switch, Merge and NextIteration."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with contextlib.suppress(ImportError):
        torch()
    module = importlib.import_module("tensorflow.compat.v1")
    module.disable_eager_execution()
    module.enable_resource_variables()
    module.disable_control_flow_v2()
    module.logging.set_verbosity(module.logging.ERROR)
    return module


def torch() -> Any:
    """Import PyTorch, eager, with its default threads."""
    return importlib.import_module("torch")
