"""Training: optimizers, learning rates, the global step, moving averages, savers, monitored sessions, replicas, input.

Input: losses and variables of a graph, and a session. Output: operations that train, and objects that await runs:
coordinators, savers, hooks. Names and arguments are those of `tf.train`. `Server` is imported on first use, because it
needs packages that a local session does not.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.files.graph_files": "write_graph",
    "aioflow.kernels.data.example_messages": (
        "BytesList Example Feature FeatureList FeatureLists Features FloatList Int64List SequenceExample"
    ),
    "aioflow.net.cluster": "ClusterSpec",
    "aioflow.net.cluster_messages": "ClusterDef JobDef ServerDef",
    "aioflow.net.server": "Server stop_servers",
    "aioflow.saved_model.meta_graph": "export_meta_graph import_meta_graph",
    "aioflow.summary.reading": "summary_iterator",
    ".": "experimental",
    "aioflow.train.all_reduce": "all_reduce_gradients broadcast_variables",
    "aioflow.train.async_replicas_optimizer": "AsyncReplicasOptimizer",
    "aioflow.train.basic_session_run_hooks": (
        "CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook LoggingTensorHook "
        "NanLossDuringTrainingError NanTensorHook StopAtStepHook"
    ),
    "aioflow.train.batching": (
        "batch batch_join maybe_batch maybe_batch_join maybe_shuffle_batch maybe_shuffle_batch_join shuffle_batch "
        "shuffle_batch_join"
    ),
    "aioflow.train.checkpoint_iterator": "checkpoints_iterator",
    "aioflow.train.checkpoint_manager": "CheckpointManager",
    "aioflow.train.checkpoint_messages": "CheckpointState SaverDef",
    "aioflow.train.checkpoint_states": (
        "generate_checkpoint_state_proto get_checkpoint_mtimes get_checkpoint_state remove_checkpoint "
        "update_checkpoint_state"
    ),
    "aioflow.train.checkpoints": (
        "CheckpointReader NewCheckpointReader=load_checkpoint checkpoint_exists latest_checkpoint list_variables "
        "load_checkpoint load_variable"
    ),
    "aioflow.train.composed_optimizers": (
        "AdafactorOptimizer AdamaxOptimizer LambOptimizer LionOptimizer NadamOptimizer"
    ),
    "aioflow.train.coordinator": "Coordinator",
    "aioflow.train.decay": (
        "cosine_decay cosine_decay_restarts exponential_decay inverse_time_decay linear_cosine_decay natural_exp_decay "
        "noisy_linear_cosine_decay piecewise_constant piecewise_constant_decay polynomial_decay"
    ),
    "aioflow.train.decoupled_decay": "AdamWOptimizer",
    "aioflow.train.device_setter": "GreedyLoadBalancingStrategy byte_size_load_fn replica_device_setter",
    "aioflow.train.gradient_accumulation": "GradientAccumulationOptimizer",
    "aioflow.train.gradient_averages": "average_gradients compress_gradients",
    "aioflow.train.input": (
        "input_producer limit_epochs match_filenames_once range_input_producer slice_input_producer "
        "string_input_producer"
    ),
    "aioflow.train.initial_values": "init_from_checkpoint",
    "aioflow.train.looper": "LooperThread",
    "aioflow.train.monitored_session": "MonitoredSession SingularMonitoredSession",
    "aioflow.train.monitored_training_session": "MonitoredTrainingSession",
    "aioflow.train.moving_averages": "ExponentialMovingAverage assign_moving_average",
    "aioflow.train.object_checkpoint": "Checkpoint CheckpointStatus",
    "aioflow.train.optimizer": "Optimizer",
    "aioflow.train.optimizers": (
        "AdadeltaOptimizer AdagradOptimizer AdamOptimizer FtrlOptimizer GradientDescentOptimizer MomentumOptimizer "
        "RMSPropOptimizer"
    ),
    "aioflow.train.pipelining": "Pipelined Stage pipeline",
    "aioflow.train.progress": "Progress ProgressHook",
    "aioflow.train.proximal_optimizers": (
        "AdagradDAOptimizer ProximalAdagradOptimizer ProximalGradientDescentOptimizer"
    ),
    "aioflow.train.queue_runner": "QueueRunner add_queue_runner start_queue_runners",
    "aioflow.train.recovery": "Recovery",
    "aioflow.train.saver": "Saver",
    "aioflow.train.saving": "Writing",
    "aioflow.train.scaffold": "Scaffold",
    "aioflow.train.session_creator": "ChiefSessionCreator SessionCreator WorkerSessionCreator",
    "aioflow.train.session_manager": "SessionManager",
    "aioflow.train.session_run_hook": "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues",
    "aioflow.train.step_counter": (
        "SecondOrStepTimer assert_global_step create_global_step get_global_step get_or_create_global_step "
        "global_step"
    ),
    "aioflow.train.summary_hooks": "ProfilerHook StepCounterHook SummarySaverHook",
    "aioflow.train.supervisor": "Supervisor basic_train_loop",
    "aioflow.train.sync_replicas_optimizer": "SyncReplicasOptimizer",
    "aioflow.train.warm_starting": "VocabInfo warm_start",
})  # fmt: skip
