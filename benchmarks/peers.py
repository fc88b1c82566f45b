"""Imports the peers quietly, late, and in a compatible order. ImportError if one is not installed."""

import contextlib
import importlib
import os
from collections.abc import Callable
from typing import Any

AIOFLOW, TENSORFLOW, TORCH, JAX, NUMPY = "aioflow", "TensorFlow", "PyTorch", "jax.jit", "NumPy"


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


def jax() -> Any:
    """Import JAX: functions compiled by XLA for the CPU, float32, with its default threads."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    return importlib.import_module("jax")


def jax_sgd(loss: Callable[..., Any], rate: float) -> Callable[..., Any]:
    """Return the jitted function from parameters and batch to the loss and the parameters after a step of SGD."""
    module = jax()

    def update(parameters: Any, *batch: Any) -> Any:
        value, slopes = module.value_and_grad(loss)(parameters, *batch)
        return value, module.tree.map(lambda each, slope: each - rate * slope, parameters, slopes)

    return module.jit(update, donate_argnums=0)  # type: ignore[no-any-return]


def jax_cross_entropy(logits: Any, labels: Any) -> Any:
    """Return the mean softmax cross-entropy of integer labels."""
    module = jax()
    chosen = module.numpy.take_along_axis(module.nn.log_softmax(logits), labels[:, None], 1)
    return -chosen.mean()
