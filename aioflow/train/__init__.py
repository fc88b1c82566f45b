"""Training: optimizers, learning rates, the global step, moving averages; input by queues, and their coordination.

`Server` is imported when it is first looked for: it needs packages that a local session does not.
"""

from typing import TYPE_CHECKING, Any

from aioflow.net.cluster import ClusterSpec
from aioflow.train.adam import AdamOptimizer
from aioflow.train.adaptive import AdadeltaOptimizer, AdagradOptimizer, RMSPropOptimizer
from aioflow.train.batching import (
    batch,
    batch_join,
    maybe_batch,
    maybe_batch_join,
    maybe_shuffle_batch,
    maybe_shuffle_batch_join,
    shuffle_batch,
    shuffle_batch_join,
)
from aioflow.train.coordinator import Coordinator
from aioflow.train.decay import (
    cosine_decay,
    exponential_decay,
    inverse_time_decay,
    natural_exp_decay,
    piecewise_constant,
    piecewise_constant_decay,
    polynomial_decay,
)
from aioflow.train.device_setter import (
    GreedyLoadBalancingStrategy,
    byte_size_load_fn,
    replica_device_setter,
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
from aioflow.train.input import (
    input_producer,
    limit_epochs,
    match_filenames_once,
    range_input_producer,
    slice_input_producer,
    string_input_producer,
)
from aioflow.train.moving_averages import ExponentialMovingAverage
from aioflow.train.optimizer import Optimizer
from aioflow.train.queue_runner import QueueRunner, add_queue_runner, start_queue_runners

if TYPE_CHECKING:
    from aioflow.net.server import Server
    from aioflow.net.stopping import stop_servers

__all__ = [
    "AdadeltaOptimizer", "AdagradOptimizer", "AdamOptimizer", "ClusterSpec", "Coordinator",
    "ExponentialMovingAverage", "FtrlOptimizer", "GradientDescentOptimizer", "GreedyLoadBalancingStrategy",
    "MomentumOptimizer", "Optimizer", "QueueRunner", "RMSPropOptimizer", "Server", "add_queue_runner",
    "assert_global_step", "batch", "batch_join", "byte_size_load_fn", "cosine_decay", "create_global_step",
    "exponential_decay", "get_global_step", "get_or_create_global_step", "global_step", "input_producer",
    "inverse_time_decay", "limit_epochs", "match_filenames_once", "maybe_batch", "maybe_batch_join",
    "maybe_shuffle_batch", "maybe_shuffle_batch_join", "natural_exp_decay", "piecewise_constant",
    "piecewise_constant_decay", "polynomial_decay", "range_input_producer", "replica_device_setter",
    "shuffle_batch", "shuffle_batch_join", "slice_input_producer", "start_queue_runners", "stop_servers",
    "string_input_producer",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "Server":
        from aioflow.net.server import Server

        return Server
    if name == "stop_servers":
        from aioflow.net.stopping import stop_servers

        return stop_servers
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
