"""Training: optimizers, learning rates, the global step, moving averages."""

from aioflow.train.adam import AdamOptimizer
from aioflow.train.adaptive import AdadeltaOptimizer, AdagradOptimizer, RMSPropOptimizer
from aioflow.train.decay import (
    cosine_decay,
    exponential_decay,
    inverse_time_decay,
    natural_exp_decay,
    piecewise_constant,
    piecewise_constant_decay,
    polynomial_decay,
)
from aioflow.train.ftrl import FtrlOptimizer
from aioflow.train.global_step import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from aioflow.train.gradient_descent import GradientDescentOptimizer, MomentumOptimizer
from aioflow.train.moving_averages import ExponentialMovingAverage
from aioflow.train.optimizer import Optimizer

__all__ = [
    "AdadeltaOptimizer", "AdagradOptimizer", "AdamOptimizer", "ExponentialMovingAverage", "FtrlOptimizer",
    "GradientDescentOptimizer", "MomentumOptimizer", "Optimizer", "RMSPropOptimizer", "assert_global_step",
    "cosine_decay", "create_global_step", "exponential_decay", "get_global_step", "get_or_create_global_step",
    "global_step", "inverse_time_decay", "natural_exp_decay", "piecewise_constant", "piecewise_constant_decay",
    "polynomial_decay",
]  # fmt: skip
