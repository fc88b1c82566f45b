"""Training: optimizers, learning rates, the global step, moving averages."""

from aioflow.train.adam import AdamOptimizer
from aioflow.train.adaptive import AdadeltaOptimizer, AdagradOptimizer, RMSPropOptimizer
from aioflow.train.ftrl import FtrlOptimizer
from aioflow.train.global_step import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from aioflow.train.gradient_descent import GradientDescentOptimizer, MomentumOptimizer
from aioflow.train.optimizer import Optimizer

__all__ = [
    "AdadeltaOptimizer", "AdagradOptimizer", "AdamOptimizer", "FtrlOptimizer", "GradientDescentOptimizer",
    "MomentumOptimizer", "Optimizer", "RMSPropOptimizer", "assert_global_step", "create_global_step", "get_global_step",
    "get_or_create_global_step", "global_step",
]  # fmt: skip
