"""From TensorFlow's ConfigProto to the Config of a session."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aioflow.config import Config
from aioflow.devices import cuda
from aioflow.kernels.data.message import Message
from aioflow.net.config_messages import ConfigProto, GPUOptions, GraphOptions
from aioflow.net.rewriter_messages import RewriterConfig
from aioflow.tensors.recursion import safe_repr

_TAKEN: Final = frozenset({
    "device_count", "intra_op_parallelism_threads", "inter_op_parallelism_threads", "device_filters",
    "allow_soft_placement", "log_device_placement", "operation_timeout_in_ms",
    "gpu_options.per_process_gpu_memory_fraction", "gpu_options.visible_device_list",
    "graph_options.enable_recv_scheduling", "graph_options.enable_bfloat16_sendrecv",
    "graph_options.optimizer_options.opt_level", "graph_options.rewrite_options.disable_meta_optimizer",
    "graph_options.rewrite_options.memory_optimization",
})  # fmt: skip
_WITHOUT_EFFECT: Final = frozenset({
    "placement_period", "use_per_session_threads", "rpc_options", "gpu_options.allow_growth",
    "gpu_options.deferred_deletion_bytes", "gpu_options.force_gpu_compatible",
    "gpu_options.polling_active_delay_usecs", "gpu_options.polling_inactive_delay_msecs",
    "graph_options.infer_shapes", "graph_options.place_pruned_graph", "graph_options.optimizer_options",
})  # fmt: skip
"""Fields that change no result, whole messages among them. Pruned graphs are always placed, and memory always grows."""
_PASSES: Final = frozenset({"Toggle", "NumIterationsType"})
_MIXED: Final = "auto_mixed_precision"
_MENDS: Final[Mapping[str, str]] = {
    "cluster_def": "give the address of its master to af.Session(target)",
    "experimental": "these are fields of TensorFlow's runtime",
    "gpu_options.allocator_type": "limit the memory by af.Config(memory_limit=)",
    "gpu_options.experimental": "limit the memory by af.Config(memory_limit=)",
    "graph_options.build_cost_model": "give af.RunOptions(trace=True) to runs, or af.Config(cost_model=)",
    "graph_options.build_cost_model_after": "give af.RunOptions(trace=True) to runs, or af.Config(cost_model=)",
    "graph_options.timeline_step": "give af.RunOptions(trace=True) to runs",
    "isolate_session_state": "give operations an af.container of their own",
    "session_inter_op_thread_pool": "give inter_op_parallelism_threads",
}


def config_of(config: ConfigProto) -> Config:
    """Return the configuration that a message describes.

    Raises:
        TypeError: it is another message or object.
        ValueError: a field has no counterpart, or a value that no session can have.
    """
    if not isinstance(config, ConfigProto):
        raise TypeError(f"config must be Config or ConfigProto, not {safe_repr(config)}")
    for path in _paths(config, ""):
        _check(path)
    return Config(**_fields(config))


def _paths(message: Message, prefix: str) -> Iterator[str]:
    """The fields that are set, as `gpu_options.allow_growth`."""
    for name, field in message.present():
        value = getattr(message, name)
        if isinstance(value, Message):
            yield from _paths(value, f"{prefix}{name}.")
        elif not (field.enum is not None and _is_pass(name, field.enum.name)):
            yield prefix + name


def _is_pass(name: str, enum: str) -> bool:
    """Whether the field turns one pass on or off, which changes no result."""
    return enum in _PASSES and not name.startswith(_MIXED)


def _check(path: str) -> None:
    parts = path.split(".")
    above = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    if path in _TAKEN or any(each in _WITHOUT_EFFECT for each in above):
        return
    mend = next((_MENDS[each] for each in above if each in _MENDS), "see af.Config for what a session can do")
    raise ValueError(f"{path} of the ConfigProto has no counterpart in a session of aioflow: {mend}")


def _fields(config: ConfigProto) -> dict[str, Any]:
    found: dict[str, Any] = {
        "allow_soft_placement": config.allow_soft_placement,
        "log_device_placement": config.log_device_placement,
        "device_filters": tuple(config.device_filters),
        "blas_threads": config.intra_op_parallelism_threads or None,
    }
    if config.inter_op_parallelism_threads:
        found["compute_threads"] = config.inter_op_parallelism_threads
    if config.operation_timeout_in_ms:
        found["operation_timeout"] = config.operation_timeout_in_ms / 1000
    return {**found, **_devices(dict(config.device_count), config.gpu_options), **_of_graphs(config.graph_options)}


# Devices


def _devices(counts: dict[str, int], options: GPUOptions) -> dict[str, Any]:
    visible = _visible(options.visible_device_list)
    if visible is not None:
        counts["GPU"] = min(visible, counts.get("GPU", visible))
    fraction = options.per_process_gpu_memory_fraction
    if not 0 <= fraction <= 1:
        raise ValueError(f"per_process_gpu_memory_fraction is a part of a GPU's memory, from 0 to 1, not {fraction}")
    gpus = cuda.device_count()
    used = min(counts.get("GPU", gpus), gpus) if fraction else 0
    limits = {f"GPU:{index}": int(fraction * cuda.memory_bytes(index)) for index in range(used)}
    return {"device_count": counts or None, "memory_limit": limits or None}


def _visible(text: str) -> int | None:
    """How many GPUs a list of their numbers chooses; None for an empty one. ValueError unless they are the first."""
    if not text:
        return None
    chosen = [part.strip() for part in text.split(",")]
    if chosen != [str(index) for index in range(len(chosen))]:
        raise ValueError(
            f"visible_device_list has the first GPUs of this process, as '0,1', not {text!r}; to leave out earlier "
            "ones, set CUDA_VISIBLE_DEVICES"
        )
    return len(chosen)


# Graphs


def _of_graphs(options: GraphOptions) -> dict[str, Any]:
    rewrites = options.rewrite_options
    plain = options.optimizer_options.opt_level < 0 or rewrites.disable_meta_optimizer
    found: dict[str, Any] = {"optimize": not plain, **_memory(rewrites)}
    if options.enable_bfloat16_sendrecv:
        found["compression"] = {"workers": "bfloat16"}
    return found


def _memory(rewrites: RewriterConfig) -> dict[str, Any]:
    """How a step saves memory."""
    both = {"recompute": True, "swap_to_host": True}
    found: dict[int, dict[str, Any]] = {
        RewriterConfig.DEFAULT_MEM_OPT: {},
        RewriterConfig.NO_MEM_OPT: {"order_for_memory": False},
        RewriterConfig.SWAPPING_HEURISTICS: {"swap_to_host": True},
        RewriterConfig.RECOMPUTATION_HEURISTICS: {"recompute": True},
        RewriterConfig.SCHEDULING_HEURISTICS: {"order_for_memory": True},
        RewriterConfig.HEURISTICS: both,
    }
    if rewrites.memory_optimization not in found:
        kind = RewriterConfig.MemOptType.text(rewrites.memory_optimization)
        raise ValueError(f"memory_optimization {kind} has no counterpart: give af.Config(recompute=, swap_to_host=)")
    return found[rewrites.memory_optimization]
