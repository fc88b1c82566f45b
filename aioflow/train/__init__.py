"""Training: optimizers, learning rates, the global step, moving averages, savers, monitored sessions, replicas, input.

Input: losses and variables of a graph, and a session. Output: operations that train, and objects that await runs:
coordinators, savers, hooks. Names and arguments are those of `tf.train`. `Server` is imported on first use, because it
needs packages that a local session does not.
"""

from typing import TYPE_CHECKING, Any

from aioflow.net.cluster import ClusterSpec
from aioflow.train.adam import AdamOptimizer
from aioflow.train.adaptive import AdadeltaOptimizer, AdagradOptimizer, RMSPropOptimizer
from aioflow.train.all_reduce import all_reduce_gradients, broadcast_variables
from aioflow.train.async_replicas_optimizer import AsyncReplicasOptimizer
from aioflow.train.average_gradients import average_gradients
from aioflow.train.basic_session_run_hooks import (
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    StopAtStepHook,
)
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
from aioflow.train.checkpoint_saver_hook import CheckpointSaverHook, CheckpointSaverListener
from aioflow.train.checkpoints import (
    CheckpointReader,
    checkpoint_exists,
    latest_checkpoint,
    list_variables,
    load_checkpoint,
    load_variable,
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
from aioflow.train.gradient_accumulation import GradientAccumulationOptimizer
from aioflow.train.gradient_compression import compress_gradients
from aioflow.train.gradient_descent import GradientDescentOptimizer, MomentumOptimizer
from aioflow.train.input import (
    input_producer,
    limit_epochs,
    match_filenames_once,
    range_input_producer,
    slice_input_producer,
    string_input_producer,
)
from aioflow.train.monitored_session import MonitoredSession, SingularMonitoredSession
from aioflow.train.monitored_training_session import MonitoredTrainingSession
from aioflow.train.moving_averages import ExponentialMovingAverage
from aioflow.train.optimizer import Optimizer
from aioflow.train.pipeline import Pipelined, Stage, pipeline
from aioflow.train.progress import Progress, ProgressHook
from aioflow.train.queue_runner import QueueRunner, add_queue_runner, start_queue_runners
from aioflow.train.recovery import Recovery
from aioflow.train.saver import Saver
from aioflow.train.scaffold import Scaffold
from aioflow.train.session_creator import ChiefSessionCreator, SessionCreator, WorkerSessionCreator
from aioflow.train.session_manager import SessionManager
from aioflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from aioflow.train.summary_hooks import ProfilerHook, StepCounterHook, SummarySaverHook
from aioflow.train.supervisor import Supervisor
from aioflow.train.sync_replicas_optimizer import SyncReplicasOptimizer
from aioflow.train.triggers import SecondOrStepTimer
from aioflow.train.writing import Writing

if TYPE_CHECKING:
    from aioflow.net.server import Server
    from aioflow.net.stopping import stop_servers

__all__ = [
    "AdadeltaOptimizer", "AdagradOptimizer", "AdamOptimizer", "AsyncReplicasOptimizer", "CheckpointReader",
    "CheckpointSaverHook", "CheckpointSaverListener", "ChiefSessionCreator", "ClusterSpec", "Coordinator",
    "ExponentialMovingAverage", "FeedFnHook", "FinalOpsHook", "FtrlOptimizer", "GlobalStepWaiterHook",
    "GradientAccumulationOptimizer", "GradientDescentOptimizer", "GreedyLoadBalancingStrategy",
    "LoggingTensorHook", "MomentumOptimizer", "MonitoredSession", "MonitoredTrainingSession",
    "NanLossDuringTrainingError", "NanTensorHook", "Optimizer", "Pipelined", "ProfilerHook", "Progress",
    "ProgressHook", "QueueRunner", "RMSPropOptimizer", "Recovery", "Saver", "Scaffold", "SecondOrStepTimer",
    "Server", "SessionCreator", "SessionManager", "SessionRunArgs", "SessionRunContext", "SessionRunHook",
    "SessionRunValues", "SingularMonitoredSession", "Stage", "StepCounterHook", "StopAtStepHook",
    "SummarySaverHook", "Supervisor", "SyncReplicasOptimizer", "WorkerSessionCreator", "Writing",
    "add_queue_runner", "all_reduce_gradients", "assert_global_step", "average_gradients", "batch",
    "batch_join", "broadcast_variables", "byte_size_load_fn", "checkpoint_exists", "compress_gradients",
    "cosine_decay", "create_global_step", "exponential_decay", "get_global_step", "get_or_create_global_step",
    "global_step", "input_producer", "inverse_time_decay", "latest_checkpoint", "limit_epochs",
    "list_variables", "load_checkpoint", "load_variable", "match_filenames_once", "maybe_batch",
    "maybe_batch_join", "maybe_shuffle_batch", "maybe_shuffle_batch_join", "natural_exp_decay",
    "piecewise_constant", "piecewise_constant_decay", "pipeline", "polynomial_decay", "range_input_producer",
    "replica_device_setter", "shuffle_batch", "shuffle_batch_join", "slice_input_producer",
    "start_queue_runners", "stop_servers", "string_input_producer",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "Server":
        from aioflow.net.server import Server

        return Server
    if name == "stop_servers":
        from aioflow.net.stopping import stop_servers

        return stop_servers
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
