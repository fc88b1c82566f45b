"""The configuration of a session as a message, with the fields and bytes of TensorFlow's."""

from collections.abc import Mapping
from typing import ClassVar, Final

from aioflow.kernels.data.message import Entries, Enum, Field, Items, Message
from aioflow.net.cluster_messages import ClusterDef
from aioflow.net.rewriter_messages import RewriterConfig

Fields = Mapping[str, Field]


class GPUOptions(Message):
    """The GPUs of a session, and their memory.

    Attributes:
        per_process_gpu_memory_fraction: the part of the memory of each GPU that a session may use; 0 for all.
        visible_device_list: the GPUs that a session uses: the first ones of this process, as "0,1".
        allow_growth: without effect: memory is always taken when it is needed.

    Examples:
        >>> options = af.GPUOptions(per_process_gpu_memory_fraction=0.5)
        >>> af.ConfigProto(gpu_options=options).gpu_options.per_process_gpu_memory_fraction
        0.5
    """

    class Experimental(Message):
        """Fields for which TensorFlow promises nothing."""

        class VirtualDevices(Message):
            """The devices that a GPU is divided into."""

            FIELDS: ClassVar[Fields] = {
                "memory_limit_mb": Field(1, "float", repeated=True),
                "priority": Field(2, "int32", repeated=True),
                "device_ordinal": Field(3, "int32", repeated=True),
            }
            memory_limit_mb: list[float]
            priority: list[int]
            device_ordinal: list[int]

        class StreamMergeOptions(Message):
            """The streams that TensorFlow makes one."""

            FIELDS: ClassVar[Fields] = {
                "merge_host_to_device_stream": Field(1, "bool"),
                "merge_device_to_host_stream": Field(2, "bool"),
                "merge_device_to_device_stream": Field(3, "bool"),
            }

        FIELDS: ClassVar[Fields] = {
            "virtual_devices": Field(1, VirtualDevices, repeated=True),
            "use_unified_memory": Field(2, "bool"),
            "num_dev_to_dev_copy_streams": Field(3, "int32"),
            "collective_ring_order": Field(4, "string"),
            "timestamped_allocator": Field(5, "bool"),
            "kernel_tracker_max_interval": Field(7, "int32"),
            "kernel_tracker_max_bytes": Field(8, "int32"),
            "kernel_tracker_max_pending": Field(9, "int32"),
            "internal_fragmentation_fraction": Field(10, "double"),
            "use_cuda_malloc_async": Field(11, "bool"),
            "disallow_retry_on_allocation_failure": Field(12, "bool"),
            "gpu_host_mem_limit_in_mb": Field(13, "float"),
            "gpu_host_mem_disallow_growth": Field(14, "bool"),
            "num_virtual_devices_per_gpu": Field(15, "int32"),
            "gpu_system_memory_size_in_mb": Field(16, "int32"),
            "populate_pjrt_gpu_client_creation_info": Field(17, "bool"),
            "node_id": Field(18, "int32"),
            "stream_merge_options": Field(19, StreamMergeOptions),
        }
        virtual_devices: Items

    FIELDS: ClassVar[Fields] = {
        "per_process_gpu_memory_fraction": Field(1, "double"),
        "allocator_type": Field(2, "string"),
        "deferred_deletion_bytes": Field(3, "int64"),
        "allow_growth": Field(4, "bool"),
        "visible_device_list": Field(5, "string"),
        "polling_active_delay_usecs": Field(6, "int32"),
        "polling_inactive_delay_msecs": Field(7, "int32"),
        "force_gpu_compatible": Field(8, "bool"),
        "experimental": Field(9, Experimental),
    }
    per_process_gpu_memory_fraction: float
    allocator_type: str
    deferred_deletion_bytes: int
    allow_growth: bool
    visible_device_list: str
    polling_active_delay_usecs: int
    polling_inactive_delay_msecs: int
    force_gpu_compatible: bool
    experimental: Experimental


class OptimizerOptions(Message):
    """Whether graphs are simplified before they run.

    Attributes:
        opt_level: L1 to simplify graphs, the default, or L0.
        global_jit_level: without effect: operations that never wait are always compiled together.

    Examples:
        >>> af.OptimizerOptions(opt_level=af.OptimizerOptions.L0).opt_level
        -1
        >>> af.OptimizerOptions.GlobalJitLevel.Name(1)
        'ON_1'
    """

    Level: Final = Enum("Level", L1=0, L0=-1)
    GlobalJitLevel: Final = Enum("GlobalJitLevel", DEFAULT=0, OFF=-1, ON_1=1, ON_2=2)
    L1, L0 = Level.values()
    DEFAULT, OFF, ON_1, ON_2 = GlobalJitLevel.values()
    FIELDS: ClassVar[Fields] = {
        "do_common_subexpression_elimination": Field(1, "bool"),
        "do_constant_folding": Field(2, "bool"),
        "opt_level": Field(3, "enum", enum=Level),
        "do_function_inlining": Field(4, "bool"),
        "global_jit_level": Field(5, "enum", enum=GlobalJitLevel),
        "max_folded_constant_in_bytes": Field(6, "int64"),
        "cpu_global_jit": Field(7, "bool"),
    }
    do_common_subexpression_elimination: bool
    do_constant_folding: bool
    opt_level: int
    do_function_inlining: bool
    global_jit_level: int
    max_folded_constant_in_bytes: int
    cpu_global_jit: bool


class GraphOptions(Message):
    """How graphs become plans.

    Attributes:
        optimizer_options: whether they are simplified.
        rewrite_options: the passes over them.
        enable_recv_scheduling: whether large values from other devices are received just before they are needed, which
            is the default here.
        enable_bfloat16_sendrecv: whether floats are sent between tasks as bfloat16.

    Examples:
        >>> options = af.GraphOptions(optimizer_options=af.OptimizerOptions(opt_level="L0"))
        >>> async with af.Session(config=af.ConfigProto(graph_options=options)) as other:
        ...     print(other.config.optimize)
        False
    """

    FIELDS: ClassVar[Fields] = {
        "enable_recv_scheduling": Field(2, "bool"),
        "optimizer_options": Field(3, OptimizerOptions),
        "build_cost_model": Field(4, "int64"),
        "infer_shapes": Field(5, "bool"),
        "place_pruned_graph": Field(6, "bool"),
        "enable_bfloat16_sendrecv": Field(7, "bool"),
        "timeline_step": Field(8, "int32"),
        "build_cost_model_after": Field(9, "int64"),
        "rewrite_options": Field(10, RewriterConfig),
    }
    enable_recv_scheduling: bool
    optimizer_options: OptimizerOptions
    build_cost_model: int
    infer_shapes: bool
    place_pruned_graph: bool
    enable_bfloat16_sendrecv: bool
    timeline_step: int
    build_cost_model_after: int
    rewrite_options: RewriterConfig


class ThreadPoolOptionProto(Message):
    """A pool of threads."""

    FIELDS: ClassVar[Fields] = {"num_threads": Field(1, "int32"), "global_name": Field(2, "string")}
    num_threads: int
    global_name: str


class RPCOptions(Message):
    """How TensorFlow's tasks reach each other."""

    FIELDS: ClassVar[Fields] = {
        "use_rpc_for_inprocess_master": Field(1, "bool"),
        "compression_algorithm": Field(2, "string"),
        "compression_level": Field(3, "int32"),
        "cache_rpc_response": Field(4, "bool"),
        "disable_session_connection_sharing": Field(5, "bool"),
        "num_channels_per_target": Field(6, "int32"),
    }


class SessionMetadata(Message):
    """The name and version of a session."""

    FIELDS: ClassVar[Fields] = {"name": Field(1, "string"), "version": Field(2, "int64")}


class CoordinatedJob(Message):
    """A job, and how many tasks it has."""

    FIELDS: ClassVar[Fields] = {"name": Field(1, "string"), "num_tasks": Field(2, "int32")}


class CoordinationServiceConfig(Message):
    """How TensorFlow's tasks watch each other."""

    FIELDS: ClassVar[Fields] = {
        "service_type": Field(1, "string"),
        "service_leader": Field(2, "string"),
        "enable_health_check": Field(3, "bool"),
        "cluster_register_timeout_in_ms": Field(4, "int64"),
        "heartbeat_timeout_in_ms": Field(5, "int64"),
        "shutdown_barrier_timeout_in_ms": Field(7, "int64"),
        "agent_destruction_without_shutdown": Field(8, "bool"),
        "recoverable_jobs": Field(9, "string", repeated=True),
        "coordinated_job_list": Field(10, CoordinatedJob, repeated=True),
        "allow_new_incarnation_to_reconnect": Field(11, "bool"),
        "force_disable": Field(12, "bool"),
        "poll_for_error_from_service_at_startup": Field(13, "bool"),
        "cluster_register_with_barrier": Field(14, "bool"),
    }


class ConfigProto(Message):
    """The configuration of a session as a message. `af.Config` has all that aioflow can do.

    A session takes both. Of this message it takes the attributes below, and ignores those that change no result, such
    as `use_per_session_threads`, `placement_period` and the single passes of `rewrite_options`. It refuses the others
    by a ValueError that names them.

    Attributes:
        device_count: the number of devices of each kind, by "CPU" and "GPU".
        intra_op_parallelism_threads: the threads of NumPy's matrix products; 0 for no change.
        inter_op_parallelism_threads: the threads of each device for heavy kernels; 0 for one per core.
        device_filters: the tasks of the cluster that the session uses.
        allow_soft_placement: whether an operation may run on another device than the one that it asks for.
        log_device_placement: whether the log has where operations are placed.
        operation_timeout_in_ms: the time limit of a run without its own; 0 for none.
        gpu_options: its GPUs, and their memory.
        graph_options: how graphs become plans.

    Examples:
        >>> config = af.ConfigProto(device_count={"CPU": 2}, operation_timeout_in_ms=30000)
        >>> async with af.Session(config=config) as other:
        ...     print(len(other.list_devices()), other.config.operation_timeout)
        2 30.0
    """

    class Experimental(Message):
        """Fields for which TensorFlow promises nothing."""

        MlirBridgeRollout: Final = Enum(
            "MlirBridgeRollout", MLIR_BRIDGE_ROLLOUT_UNSPECIFIED=0, MLIR_BRIDGE_ROLLOUT_ENABLED=1,
            MLIR_BRIDGE_ROLLOUT_DISABLED=2,
        )  # fmt: skip
        FIELDS: ClassVar[Fields] = {
            "collective_group_leader": Field(1, "string"),
            "executor_type": Field(3, "string"),
            "recv_buf_max_chunk": Field(4, "int32"),
            "use_numa_affinity": Field(5, "bool"),
            "collective_deterministic_sequential_execution": Field(6, "bool"),
            "collective_nccl": Field(7, "bool"),
            "share_session_state_in_clusterspec_propagation": Field(8, "bool"),
            "disable_thread_spinning": Field(9, "bool"),
            "share_cluster_devices_in_session": Field(10, "bool"),
            "session_metadata": Field(11, SessionMetadata),
            "optimize_for_static_graph": Field(12, "bool"),
            "enable_mlir_bridge": Field(13, "bool"),
            "disable_output_partition_graphs": Field(14, "bool"),
            "xla_fusion_autotuner_thresh": Field(15, "int64"),
            "enable_mlir_graph_optimization": Field(16, "bool"),
            "mlir_bridge_rollout": Field(17, "enum", enum=MlirBridgeRollout),
            "use_tfrt": Field(18, "bool"),
            "disable_functional_ops_lowering": Field(21, "bool"),
            "xla_prefer_single_graph_cluster": Field(22, "bool"),
            "coordination_config": Field(23, CoordinationServiceConfig),
            "disable_optimize_for_static_graph": Field(24, "bool"),
            "disable_eager_executor_streaming_enqueue": Field(26, "bool"),
            "enable_multi_host": Field(27, "bool"),
            "backend_server_port": Field(28, "int32"),
            "target_tpu": Field(29, "bool"),
            "target_gpu": Field(30, "bool"),
            "stream_merge_threshold": Field(31, "int32"),
            "tfrt_use_ifrt": Field(32, "bool"),
            "finalize_function_library_runtime": Field(33, "bool"),
            "finalize_resource_manager": Field(34, "bool"),
            "tf2xla_dump_dir": Field(35, "string"),
            "online_cost_analysis": Field(36, "bool"),
        }

    FIELDS: ClassVar[Fields] = {
        "device_count": Field(1, "int32", key="string"),
        "intra_op_parallelism_threads": Field(2, "int32"),
        "placement_period": Field(3, "int32"),
        "device_filters": Field(4, "string", repeated=True),
        "inter_op_parallelism_threads": Field(5, "int32"),
        "gpu_options": Field(6, GPUOptions),
        "allow_soft_placement": Field(7, "bool"),
        "log_device_placement": Field(8, "bool"),
        "use_per_session_threads": Field(9, "bool"),
        "graph_options": Field(10, GraphOptions),
        "operation_timeout_in_ms": Field(11, "int64"),
        "session_inter_op_thread_pool": Field(12, ThreadPoolOptionProto, repeated=True),
        "rpc_options": Field(13, RPCOptions),
        "cluster_def": Field(14, ClusterDef),
        "isolate_session_state": Field(15, "bool"),
        "experimental": Field(16, Experimental),
        "share_cluster_devices_in_session": Field(17, "bool"),
        "pluggable_device_options": Field(18, GPUOptions),
    }
    device_count: Entries
    intra_op_parallelism_threads: int
    placement_period: int
    device_filters: list[str]
    inter_op_parallelism_threads: int
    gpu_options: GPUOptions
    allow_soft_placement: bool
    log_device_placement: bool
    use_per_session_threads: bool
    graph_options: GraphOptions
    operation_timeout_in_ms: int
    session_inter_op_thread_pool: Items
    rpc_options: RPCOptions
    cluster_def: ClusterDef
    isolate_session_state: bool
    experimental: Experimental
    share_cluster_devices_in_session: bool
    pluggable_device_options: GPUOptions
