"""The peers, imported quietly, late, and in an order in which they live together. ImportError: not installed."""

import contextlib
import importlib
import os
from typing import Any

AIOFLOW, TENSORFLOW, TORCH, NUMPY = "aioflow", "TensorFlow", "PyTorch", "NumPy"


def aioflow() -> Any:
    """aioflow, as users import it."""
    return importlib.import_module("aioflow")


def tensorflow() -> Any:
    """TensorFlow in v1 mode: graphs and sessions, resource variables, loops of Switch, Merge and NextIteration."""
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
    """PyTorch, eager, with its own choice of threads."""
    return importlib.import_module("torch")
