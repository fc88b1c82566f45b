"""The passes over a graph as a message, with the fields and bytes of TensorFlow's."""

from collections.abc import Mapping
from typing import ClassVar, Final

from aioflow.kernels.data.message import Entries, Enum, Field, Items, Message
from aioflow.kernels.data.node_messages import AttrValue

Fields = Mapping[str, Field]


class AutoParallelOptions(Message):
    """Whether TensorFlow runs copies of a graph on several GPUs, and how many."""

    FIELDS: ClassVar[Fields] = {"enable": Field(1, "bool"), "num_replicas": Field(2, "int32")}
    enable: bool
    num_replicas: int


class ScopedAllocatorOptions(Message):
    """The ops whose outputs TensorFlow puts beside each other."""

    FIELDS: ClassVar[Fields] = {"enable_op": Field(1, "string", repeated=True)}
    enable_op: list[str]


class VerifierConfig(Message):
    """How TensorFlow checks a graph after its passes."""

    Toggle: Final = Enum("Toggle", DEFAULT=0, ON=1, OFF=2)
    FIELDS: ClassVar[Fields] = {
        "verification_timeout_in_ms": Field(1, "int64"),
        "structure_verifier": Field(2, "enum", enum=Toggle),
    }
    verification_timeout_in_ms: int
    structure_verifier: int


class RewriterConfig(Message):
    """The passes over a graph. `disable_meta_optimizer` and `memory_optimization` have an effect in a session.

    Attributes:
        disable_meta_optimizer: whether no pass runs.
        memory_optimization: how a step saves memory, a value of `MemOptType`.
    """

    Toggle: Final = Enum("Toggle", DEFAULT=0, ON=1, OFF=2, AGGRESSIVE=3, EXPERIMENTAL_MLIR=4, EXPERIMENTAL_BOTH=5)
    CpuLayout: Final = Enum("CpuLayout", NO_CONVERSION_ON_CPU=0, NCHW_TO_NHWC=1, NHWC_TO_NCHW=2)
    NumIterationsType: Final = Enum("NumIterationsType", DEFAULT_NUM_ITERS=0, ONE=1, TWO=2)
    MemOptType: Final = Enum(
        "MemOptType", DEFAULT_MEM_OPT=0, NO_MEM_OPT=1, MANUAL=2, SWAPPING_HEURISTICS=4, RECOMPUTATION_HEURISTICS=5,
        SCHEDULING_HEURISTICS=6, HEURISTICS=3,
    )  # fmt: skip
    DEFAULT, ON, OFF, AGGRESSIVE, EXPERIMENTAL_MLIR, EXPERIMENTAL_BOTH = Toggle.values()
    NO_CONVERSION_ON_CPU, NCHW_TO_NHWC, NHWC_TO_NCHW = CpuLayout.values()
    DEFAULT_NUM_ITERS, ONE, TWO = NumIterationsType.values()
    DEFAULT_MEM_OPT, NO_MEM_OPT, MANUAL, SWAPPING_HEURISTICS = MemOptType.values()[:4]
    RECOMPUTATION_HEURISTICS, SCHEDULING_HEURISTICS, HEURISTICS = MemOptType.values()[4:]

    class CustomGraphOptimizer(Message):
        """A pass of a plugin, by name."""

        FIELDS: ClassVar[Fields] = {
            "name": Field(1, "string"),
            "parameter_map": Field(2, AttrValue, key="string"),
        }
        name: str
        parameter_map: Entries

    FIELDS: ClassVar[Fields] = {
        "layout_optimizer": Field(1, "enum", enum=Toggle),
        "disable_model_pruning": Field(2, "bool"),
        "constant_folding": Field(3, "enum", enum=Toggle),
        "memory_optimization": Field(4, "enum", enum=MemOptType),
        "auto_parallel": Field(5, AutoParallelOptions),
        "memory_optimizer_target_node_name_scope": Field(6, "string"),
        "arithmetic_optimization": Field(7, "enum", enum=Toggle),
        "dependency_optimization": Field(8, "enum", enum=Toggle),
        "loop_optimization": Field(9, "enum", enum=Toggle),
        "function_optimization": Field(10, "enum", enum=Toggle),
        "debug_stripper": Field(11, "enum", enum=Toggle),
        "meta_optimizer_iterations": Field(12, "enum", enum=NumIterationsType),
        "shape_optimization": Field(13, "enum", enum=Toggle),
        "remapping": Field(14, "enum", enum=Toggle),
        "scoped_allocator_optimization": Field(15, "enum", enum=Toggle),
        "scoped_allocator_opts": Field(16, ScopedAllocatorOptions),
        "min_graph_nodes": Field(17, "int32"),
        "pin_to_host_optimization": Field(18, "enum", enum=Toggle),
        "disable_meta_optimizer": Field(19, "bool"),
        "meta_optimizer_timeout_ms": Field(20, "int64"),
        "fail_on_optimizer_errors": Field(21, "bool"),
        "implementation_selector": Field(22, "enum", enum=Toggle),
        "auto_mixed_precision": Field(23, "enum", enum=Toggle),
        "common_subgraph_elimination": Field(24, "enum", enum=Toggle),
        "auto_mixed_precision_mkl": Field(25, "enum", enum=Toggle),
        "experimental_disable_compressed_tensor_optimization": Field(26, "bool"),
        "experimental_disable_folding_quantization_emulation": Field(27, "bool"),
        "use_plugin_optimizers": Field(28, "enum", enum=Toggle),
        "auto_mixed_precision_cpu": Field(29, "enum", enum=Toggle),
        "experimental_conditional_code_motion": Field(30, "enum", enum=Toggle),
        "auto_mixed_precision_onednn_bfloat16": Field(31, "enum", enum=Toggle),
        "disable_tfg_optimizer": Field(32, "bool"),
        "cpu_layout_conversion": Field(50, "enum", enum=CpuLayout),
        "optimizers": Field(100, "string", repeated=True),
        "custom_optimizers": Field(200, CustomGraphOptimizer, repeated=True),
        "inter_optimizer_verifier_config": Field(300, VerifierConfig),
        "post_optimization_verifier_config": Field(301, VerifierConfig),
    }
    disable_meta_optimizer: bool
    memory_optimization: int
    auto_parallel: AutoParallelOptions
    optimizers: list[str]
    custom_optimizers: Items
