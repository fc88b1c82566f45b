"""Training: optimizers, learning rates, the global step, moving averages, savers, monitored sessions, replicas, input.

Input: losses and variables of a graph, and a session. Output: operations that train, and objects that await runs:
coordinators, savers, hooks. Names and arguments are those of `tf.train`. `Server` is imported on first use, because it
needs packages that a local session does not.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.files.graph_files import write_graph as write_graph
from aioflow.kernels.data.example_messages import BytesList as BytesList
from aioflow.kernels.data.example_messages import Example as Example
from aioflow.kernels.data.example_messages import Feature as Feature
from aioflow.kernels.data.example_messages import FeatureList as FeatureList
from aioflow.kernels.data.example_messages import FeatureLists as FeatureLists
from aioflow.kernels.data.example_messages import Features as Features
from aioflow.kernels.data.example_messages import FloatList as FloatList
from aioflow.kernels.data.example_messages import Int64List as Int64List
from aioflow.kernels.data.example_messages import SequenceExample as SequenceExample
from aioflow.net.cluster import ClusterSpec as ClusterSpec
from aioflow.net.cluster_messages import ClusterDef as ClusterDef
from aioflow.net.cluster_messages import JobDef as JobDef
from aioflow.net.cluster_messages import ServerDef as ServerDef
from aioflow.net.server import Server as Server
from aioflow.net.server import stop_servers as stop_servers
from aioflow.saved_model.meta_graph import export_meta_graph as export_meta_graph
from aioflow.saved_model.meta_graph import import_meta_graph as import_meta_graph
from aioflow.summary.reading import summary_iterator as summary_iterator
from aioflow.train import experimental as experimental
from aioflow.train.all_reduce import all_reduce_gradients as all_reduce_gradients
from aioflow.train.all_reduce import broadcast_variables as broadcast_variables
from aioflow.train.async_replicas_optimizer import AsyncReplicasOptimizer as AsyncReplicasOptimizer
from aioflow.train.basic_session_run_hooks import CheckpointSaverHook as CheckpointSaverHook
from aioflow.train.basic_session_run_hooks import CheckpointSaverListener as CheckpointSaverListener
from aioflow.train.basic_session_run_hooks import FeedFnHook as FeedFnHook
from aioflow.train.basic_session_run_hooks import FinalOpsHook as FinalOpsHook
from aioflow.train.basic_session_run_hooks import GlobalStepWaiterHook as GlobalStepWaiterHook
from aioflow.train.basic_session_run_hooks import LoggingTensorHook as LoggingTensorHook
from aioflow.train.basic_session_run_hooks import NanLossDuringTrainingError as NanLossDuringTrainingError
from aioflow.train.basic_session_run_hooks import NanTensorHook as NanTensorHook
from aioflow.train.basic_session_run_hooks import StopAtStepHook as StopAtStepHook
from aioflow.train.batching import batch as batch
from aioflow.train.batching import batch_join as batch_join
from aioflow.train.batching import maybe_batch as maybe_batch
from aioflow.train.batching import maybe_batch_join as maybe_batch_join
from aioflow.train.batching import maybe_shuffle_batch as maybe_shuffle_batch
from aioflow.train.batching import maybe_shuffle_batch_join as maybe_shuffle_batch_join
from aioflow.train.batching import shuffle_batch as shuffle_batch
from aioflow.train.batching import shuffle_batch_join as shuffle_batch_join
from aioflow.train.checkpoint_iterator import checkpoints_iterator as checkpoints_iterator
from aioflow.train.checkpoint_manager import CheckpointManager as CheckpointManager
from aioflow.train.checkpoint_messages import CheckpointState as CheckpointState
from aioflow.train.checkpoint_messages import SaverDef as SaverDef
from aioflow.train.checkpoint_states import generate_checkpoint_state_proto as generate_checkpoint_state_proto
from aioflow.train.checkpoint_states import get_checkpoint_mtimes as get_checkpoint_mtimes
from aioflow.train.checkpoint_states import get_checkpoint_state as get_checkpoint_state
from aioflow.train.checkpoint_states import remove_checkpoint as remove_checkpoint
from aioflow.train.checkpoint_states import update_checkpoint_state as update_checkpoint_state
from aioflow.train.checkpoints import CheckpointReader as CheckpointReader
from aioflow.train.checkpoints import checkpoint_exists as checkpoint_exists
from aioflow.train.checkpoints import latest_checkpoint as latest_checkpoint
from aioflow.train.checkpoints import list_variables as list_variables
from aioflow.train.checkpoints import load_checkpoint as NewCheckpointReader
from aioflow.train.checkpoints import load_checkpoint as load_checkpoint
from aioflow.train.checkpoints import load_variable as load_variable
from aioflow.train.composed_optimizers import AdafactorOptimizer as AdafactorOptimizer
from aioflow.train.composed_optimizers import AdamaxOptimizer as AdamaxOptimizer
from aioflow.train.composed_optimizers import LambOptimizer as LambOptimizer
from aioflow.train.composed_optimizers import LionOptimizer as LionOptimizer
from aioflow.train.composed_optimizers import NadamOptimizer as NadamOptimizer
from aioflow.train.coordinator import Coordinator as Coordinator
from aioflow.train.decay import cosine_decay as cosine_decay
from aioflow.train.decay import cosine_decay_restarts as cosine_decay_restarts
from aioflow.train.decay import exponential_decay as exponential_decay
from aioflow.train.decay import inverse_time_decay as inverse_time_decay
from aioflow.train.decay import linear_cosine_decay as linear_cosine_decay
from aioflow.train.decay import natural_exp_decay as natural_exp_decay
from aioflow.train.decay import noisy_linear_cosine_decay as noisy_linear_cosine_decay
from aioflow.train.decay import piecewise_constant as piecewise_constant
from aioflow.train.decay import piecewise_constant_decay as piecewise_constant_decay
from aioflow.train.decay import polynomial_decay as polynomial_decay
from aioflow.train.decoupled_decay import AdamWOptimizer as AdamWOptimizer
from aioflow.train.device_setter import GreedyLoadBalancingStrategy as GreedyLoadBalancingStrategy
from aioflow.train.device_setter import byte_size_load_fn as byte_size_load_fn
from aioflow.train.device_setter import replica_device_setter as replica_device_setter
from aioflow.train.gradient_accumulation import GradientAccumulationOptimizer as GradientAccumulationOptimizer
from aioflow.train.gradient_averages import average_gradients as average_gradients
from aioflow.train.gradient_averages import compress_gradients as compress_gradients
from aioflow.train.initial_values import init_from_checkpoint as init_from_checkpoint
from aioflow.train.input import input_producer as input_producer
from aioflow.train.input import limit_epochs as limit_epochs
from aioflow.train.input import match_filenames_once as match_filenames_once
from aioflow.train.input import range_input_producer as range_input_producer
from aioflow.train.input import slice_input_producer as slice_input_producer
from aioflow.train.input import string_input_producer as string_input_producer
from aioflow.train.looper import LooperThread as LooperThread
from aioflow.train.monitored_session import MonitoredSession as MonitoredSession
from aioflow.train.monitored_session import SingularMonitoredSession as SingularMonitoredSession
from aioflow.train.monitored_training_session import MonitoredTrainingSession as MonitoredTrainingSession
from aioflow.train.moving_averages import ExponentialMovingAverage as ExponentialMovingAverage
from aioflow.train.moving_averages import assign_moving_average as assign_moving_average
from aioflow.train.object_checkpoint import Checkpoint as Checkpoint
from aioflow.train.object_checkpoint import CheckpointStatus as CheckpointStatus
from aioflow.train.optimizer import Optimizer as Optimizer
from aioflow.train.optimizers import AdadeltaOptimizer as AdadeltaOptimizer
from aioflow.train.optimizers import AdagradOptimizer as AdagradOptimizer
from aioflow.train.optimizers import AdamOptimizer as AdamOptimizer
from aioflow.train.optimizers import FtrlOptimizer as FtrlOptimizer
from aioflow.train.optimizers import GradientDescentOptimizer as GradientDescentOptimizer
from aioflow.train.optimizers import MomentumOptimizer as MomentumOptimizer
from aioflow.train.optimizers import RMSPropOptimizer as RMSPropOptimizer
from aioflow.train.pipelining import Pipelined as Pipelined
from aioflow.train.pipelining import Stage as Stage
from aioflow.train.pipelining import pipeline as pipeline
from aioflow.train.progress import Progress as Progress
from aioflow.train.progress import ProgressHook as ProgressHook
from aioflow.train.proximal_optimizers import AdagradDAOptimizer as AdagradDAOptimizer
from aioflow.train.proximal_optimizers import ProximalAdagradOptimizer as ProximalAdagradOptimizer
from aioflow.train.proximal_optimizers import ProximalGradientDescentOptimizer as ProximalGradientDescentOptimizer
from aioflow.train.queue_runner import QueueRunner as QueueRunner
from aioflow.train.queue_runner import add_queue_runner as add_queue_runner
from aioflow.train.queue_runner import start_queue_runners as start_queue_runners
from aioflow.train.recovery import Recovery as Recovery
from aioflow.train.saver import Saver as Saver
from aioflow.train.saving import Writing as Writing
from aioflow.train.scaffold import Scaffold as Scaffold
from aioflow.train.session_creator import ChiefSessionCreator as ChiefSessionCreator
from aioflow.train.session_creator import SessionCreator as SessionCreator
from aioflow.train.session_creator import WorkerSessionCreator as WorkerSessionCreator
from aioflow.train.session_manager import SessionManager as SessionManager
from aioflow.train.session_run_hook import SessionRunArgs as SessionRunArgs
from aioflow.train.session_run_hook import SessionRunContext as SessionRunContext
from aioflow.train.session_run_hook import SessionRunHook as SessionRunHook
from aioflow.train.session_run_hook import SessionRunValues as SessionRunValues
from aioflow.train.step_counter import SecondOrStepTimer as SecondOrStepTimer
from aioflow.train.step_counter import assert_global_step as assert_global_step
from aioflow.train.step_counter import create_global_step as create_global_step
from aioflow.train.step_counter import get_global_step as get_global_step
from aioflow.train.step_counter import get_or_create_global_step as get_or_create_global_step
from aioflow.train.step_counter import global_step as global_step
from aioflow.train.summary_hooks import ProfilerHook as ProfilerHook
from aioflow.train.summary_hooks import StepCounterHook as StepCounterHook
from aioflow.train.summary_hooks import SummarySaverHook as SummarySaverHook
from aioflow.train.supervisor import Supervisor as Supervisor
from aioflow.train.supervisor import basic_train_loop as basic_train_loop
from aioflow.train.sync_replicas_optimizer import SyncReplicasOptimizer as SyncReplicasOptimizer
from aioflow.train.warm_starting import VocabInfo as VocabInfo
from aioflow.train.warm_starting import warm_start as warm_start

__all__ = ["AdadeltaOptimizer", "AdafactorOptimizer", "AdagradDAOptimizer", "AdagradOptimizer", "AdamOptimizer",
    "AdamWOptimizer", "AdamaxOptimizer", "AsyncReplicasOptimizer", "BytesList", "Checkpoint", "CheckpointManager",
    "CheckpointReader", "CheckpointSaverHook", "CheckpointSaverListener", "CheckpointState", "CheckpointStatus",
    "ChiefSessionCreator", "ClusterDef", "ClusterSpec", "Coordinator", "Example", "ExponentialMovingAverage", "Feature",
    "FeatureList", "FeatureLists", "Features", "FeedFnHook", "FinalOpsHook", "FloatList", "FtrlOptimizer",
    "GlobalStepWaiterHook", "GradientAccumulationOptimizer", "GradientDescentOptimizer", "GreedyLoadBalancingStrategy",
    "Int64List", "JobDef", "LambOptimizer", "LionOptimizer", "LoggingTensorHook", "LooperThread", "MomentumOptimizer",
    "MonitoredSession", "MonitoredTrainingSession", "NadamOptimizer", "NanLossDuringTrainingError", "NanTensorHook",
    "NewCheckpointReader", "Optimizer", "Pipelined", "ProfilerHook", "Progress", "ProgressHook",
    "ProximalAdagradOptimizer", "ProximalGradientDescentOptimizer", "QueueRunner", "RMSPropOptimizer", "Recovery",
    "Saver", "SaverDef", "Scaffold", "SecondOrStepTimer", "SequenceExample", "Server", "ServerDef", "SessionCreator",
    "SessionManager", "SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues",
    "SingularMonitoredSession", "Stage", "StepCounterHook", "StopAtStepHook", "SummarySaverHook", "Supervisor",
    "SyncReplicasOptimizer", "VocabInfo", "WorkerSessionCreator", "Writing", "add_queue_runner", "all_reduce_gradients",
    "assert_global_step", "assign_moving_average", "average_gradients", "basic_train_loop", "batch", "batch_join",
    "broadcast_variables", "byte_size_load_fn", "checkpoint_exists", "checkpoints_iterator", "compress_gradients",
    "cosine_decay", "cosine_decay_restarts", "create_global_step", "experimental", "exponential_decay",
    "export_meta_graph", "generate_checkpoint_state_proto", "get_checkpoint_mtimes", "get_checkpoint_state",
    "get_global_step", "get_or_create_global_step", "global_step", "import_meta_graph", "init_from_checkpoint",
    "input_producer", "inverse_time_decay", "latest_checkpoint", "limit_epochs", "linear_cosine_decay",
    "list_variables", "load_checkpoint", "load_variable", "match_filenames_once", "maybe_batch", "maybe_batch_join",
    "maybe_shuffle_batch", "maybe_shuffle_batch_join", "natural_exp_decay", "noisy_linear_cosine_decay",
    "piecewise_constant", "piecewise_constant_decay", "pipeline", "polynomial_decay", "range_input_producer",
    "remove_checkpoint", "replica_device_setter", "shuffle_batch", "shuffle_batch_join", "slice_input_producer",
    "start_queue_runners", "stop_servers", "string_input_producer", "summary_iterator", "update_checkpoint_state",
    "warm_start", "write_graph"]
