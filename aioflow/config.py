"""`af.config`: the configuration of a session, the options of a run, and TensorFlow's functions of devices.

The functions set what `Session()` has when it is given no `Config`.
"""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from aioflow.graph.device_spec import DeviceSpec
from aioflow.lazy import Face
from aioflow.tensors.codecs import edge_codecs
from aioflow.tensors.recursion import safe_repr

if TYPE_CHECKING:
    import ssl

    from aioflow.devices.driver import Driver
    from aioflow.plan.cost_model import CostModel
    from aioflow.session.default_config import get_soft_device_placement as get_soft_device_placement
    from aioflow.session.default_config import set_soft_device_placement as set_soft_device_placement
    from aioflow.session.device_lists import LogicalDevice as LogicalDevice
    from aioflow.session.device_lists import LogicalDeviceConfiguration as LogicalDeviceConfiguration
    from aioflow.session.device_lists import PhysicalDevice as PhysicalDevice
    from aioflow.session.device_lists import functions_run_eagerly as experimental_functions_run_eagerly  # noqa: F401
    from aioflow.session.device_lists import functions_run_eagerly as functions_run_eagerly
    from aioflow.session.device_lists import get_logical_device_configuration as get_logical_device_configuration
    from aioflow.session.device_lists import get_visible_devices as get_visible_devices
    from aioflow.session.device_lists import list_logical_devices as list_logical_devices
    from aioflow.session.device_lists import list_physical_devices as list_physical_devices
    from aioflow.session.device_lists import run_functions_eagerly as experimental_run_functions_eagerly  # noqa: F401
    from aioflow.session.device_lists import run_functions_eagerly as run_functions_eagerly
    from aioflow.session.device_lists import set_logical_device_configuration as set_logical_device_configuration
    from aioflow.session.device_lists import set_visible_devices as set_visible_devices

_KINDS: Final = ("CPU", "GPU")

Tls: TypeAlias = "str | os.PathLike[str] | ssl.SSLContext | tuple[ssl.SSLContext, ssl.SSLContext]"


def _threads() -> int:
    """A thread for each core, up to where more of them mostly wait for Python's lock."""
    return min(4, os.cpu_count() or 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a session; TensorFlow's ConfigProto.

    Attributes:
        operation_timeout: the time limit in seconds of a run without its own; None for no limit.
        plan_cache_size: the number of call signatures whose plans are kept; the least recently used goes first.
        executor: `regions` compiles nodes that never suspend; `tokens` runs one node at a time, as the reference.
        optimize: whether to simplify plans, merge duplicates and fold constants.
        device_count: the number of devices of each kind, such as {"CPU": 4}; by default one CPU, and all GPUs.
        gpus: drivers of GPUs instead of CuPy: fake ones, as in `aioflow.testing`.
        compute_threads: the threads of each device for heavy kernels; by default one per core, up to 4, so that the
            next batch is decoded while a step computes. They start at their first use.
        blas_threads: the threads of NumPy's matrix products in this process while the session is open; None for no
            change.
        allow_soft_placement: whether an operation may run on another device of its task, if the requested device does
            not exist or has no kernel for it. Otherwise that is an error.
        log_device_placement: whether to log the placement of each plan, with the reasons.
        cost_model: the costs of operations and transfers, for placement; estimates by default.
        order_for_memory: whether nodes may run in another order than the user's to save memory.
        schedule_receives: whether large values from other devices are received just before they are needed.
        recompute: whether to drop long-lived values and compute them again. The step takes up to a tenth more time as
            estimated from shapes, in practice up to a third; the log `aioflow.plan` has the estimate, at level INFO.
        swap_to_host: whether a GPU swaps long-lived values out to host memory until they are needed: as many as its
            memory_limit requires; without a limit, as many as at most double the estimated time of the step.
        compression: the lossy codec of floating-point tensors between devices, such as "bfloat16", or one between the
            devices of a task and one between workers, such as {"workers": "int8"}; any codec of `af.lossy` but
            `top_k`, which is for marked gradients.
        track_memory: whether each device tracks the results of its kernels: live bytes, their peak, by op.
        memory_limit: the most bytes of devices, such as {"CPU:1": 1 << 30}; beyond it ResourceExhaustedError.
        fuse_elementwise: whether element-wise kernels over large arrays run block by block, on all cores; the results
            are the same.
        fast_math: whether functions such as `sigmoid` of large float32 arrays may be computed by whatever is fastest
            here, within 4 units in the last place. Otherwise an op gives the same bits however it is run. Operations
            that a plan makes one, a convolution and the normalisation after it, round less often than each by itself.
        cuda_graphs: whether the kernels of a GPU that depend on arrays only are launched together, as CUDA graphs. Each
            graph keeps memory for its values. Not with `track_memory` or `memory_limit`.
        stall_report: seconds without progress after which the session logs the operations that its steps wait for; None
            for never.
        close_timeout: seconds for which `close()` waits for kernels of cancelled runs that are still in C code.
        heartbeat_timeout: seconds after which the steps of a silent task have failed, with an error that names it. A
            task is lost after 85 % of this time without a sign of life, also while it is dialled. A task whose loop is
            blocked is not lost. It also sets how long the session itself may be silent.
        token_file: the file that holds the token of the cluster; by default the variable AIOFLOW_TOKEN, if it is set,
            is the token.
        ssl: for TLS between tasks: the directory of `aioflow ca init`, or a context for dialling, or a pair of contexts
            for listening and dialling.
        shared_memory: whether processes of one user on one host exchange large values in shared memory, on Linux.
        busy_poll: whether a loop whose messages follow each other within 1.5 ms waits for the next one of its cluster
            without sleeping, and so keeps a processor busy, on Linux. Others may use the processor, too.
        file_roots: the folders, or URLs, below which operations may read and write files. None means everywhere in a
            session of this process, and nowhere in a server.
        device_filters: the tasks of the cluster that the session uses, such as ["/job:ps", "/job:worker/task:0"]; by
            default all of them. Other tasks need not exist.

    Examples:
        >>> config = af.Config(device_count={"CPU": 2}, operation_timeout=30.0)
        >>> async with af.Session(config=config) as other:
        ...     print([device.name[-5:] for device in other.list_devices()])
        ['CPU:0', 'CPU:1']
    """

    operation_timeout: float | None = None
    plan_cache_size: int = 256
    executor: Literal["regions", "tokens"] = "regions"
    optimize: bool = True
    device_count: Mapping[str, int] | None = None
    gpus: "Sequence[Driver] | None" = None
    compute_threads: int = dataclasses.field(default_factory=_threads)
    blas_threads: int | None = None
    allow_soft_placement: bool = False
    log_device_placement: bool = False
    cost_model: "CostModel | None" = None
    order_for_memory: bool = True
    schedule_receives: bool = True
    recompute: bool = False
    swap_to_host: bool = False
    compression: str | Mapping[str, str] | None = None
    track_memory: bool = False
    memory_limit: Mapping[str, int] | None = None
    fuse_elementwise: bool = True
    fast_math: bool = False
    cuda_graphs: bool = False
    stall_report: float | None = 60.0
    close_timeout: float = 5.0
    heartbeat_timeout: float = 5.0
    token_file: str | os.PathLike[str] | None = dataclasses.field(default=None, repr=False)
    ssl: "Tls | None" = dataclasses.field(default=None, repr=False)
    shared_memory: bool = True
    busy_poll: bool = True
    file_roots: Sequence[str | os.PathLike[str]] | None = None
    device_filters: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check_flags(self)
        _check_count("plan_cache_size", self.plan_cache_size, 1)
        _check_count("compute_threads", self.compute_threads, 1)
        if self.blas_threads is not None:
            _check_count("blas_threads", self.blas_threads, 1)
        _check_devices(self.device_count)
        gpus = self.gpus
        if gpus is not None and not (isinstance(gpus, Sequence) and all(hasattr(gpu, "array_type") for gpu in gpus)):
            raise TypeError(f"gpus is a list of drivers, as FakeGpu of aioflow.testing.fake_gpu, not {safe_repr(gpus)}")
        if self.cost_model is not None and not hasattr(self.cost_model, "transfer"):
            raise TypeError(f"cost_model must be CostModel, not {safe_repr(self.cost_model)}")
        edge_codecs(self.compression)
        object.__setattr__(self, "memory_limit", _limits(self.memory_limit))
        if self.executor not in ("regions", "tokens"):
            raise ValueError(f"executor must be 'regions' or 'tokens', not {safe_repr(self.executor)}")
        _check_seconds("operation_timeout", self.operation_timeout)
        _check_seconds("stall_report", self.stall_report)
        _check_seconds("close_timeout", self.close_timeout)
        _check_beats(self.heartbeat_timeout)
        if self.token_file is not None and not isinstance(self.token_file, (str, os.PathLike)):
            raise TypeError("token_file is the path of a file, not a token")
        for name in ("file_roots", "device_filters"):
            if isinstance(getattr(self, name), (str, bytes, os.PathLike)):
                raise TypeError(f"{name} is a list, not {getattr(self, name)!r}")

    def memory_limit_of(self, kind: str, index: int) -> int | None:
        """Bytes that a device may hold; None for no limit."""
        return (self.memory_limit or {}).get(f"{kind}:{index}")


@dataclasses.dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of one run.

    TensorFlow's `trace_level` and `timeout_in_ms` set `trace` and `timeout`; they are arguments only.

    Attributes:
        timeout: seconds after which the run ends with DeadlineExceededError; None for the session's limit.
        trace: whether to write the times and bytes of every node to the RunMetadata of the run, if it has one, and to
            the session's cost model.
        check_numerics: whether the run ends at the first tensor, in the order of the graph, that is not finite, or
            whose dtype or shape contradicts the shape rule of the op.

    Args:
        trace_level: NO_TRACE, or SOFTWARE_TRACE, HARDWARE_TRACE or FULL_TRACE, which all trace everything.
        timeout_in_ms: milliseconds; 0 for the session's limit.
        report_tensor_allocations_upon_oom: without effect.

    Raises:
        ValueError: there are two limits, or the level is none of these.

    Examples:
        >>> af.RunOptions(trace_level=af.RunOptions.FULL_TRACE, timeout_in_ms=500)
        RunOptions(timeout=0.5, trace=True, check_numerics=False)
        >>> queue = af.FIFOQueue(1, [af.int32])
        >>> try:
        ...     await session.run(queue.dequeue(), options=af.RunOptions(timeout=0.01))
        ... except af.errors.DeadlineExceededError as error:
        ...     print(type(error).__name__)
        DeadlineExceededError
    """

    timeout: float | None = None
    trace: bool = False
    check_numerics: bool = False
    _: dataclasses.KW_ONLY
    trace_level: dataclasses.InitVar[int] = 0
    timeout_in_ms: dataclasses.InitVar[int] = 0
    report_tensor_allocations_upon_oom: dataclasses.InitVar[bool] = False
    NO_TRACE: ClassVar[int] = 0
    SOFTWARE_TRACE: ClassVar[int] = 1
    HARDWARE_TRACE: ClassVar[int] = 2
    FULL_TRACE: ClassVar[int] = 3

    def __post_init__(self, trace_level: int, timeout_in_ms: int, report_tensor_allocations_upon_oom: bool) -> None:
        _check_count("trace_level", trace_level, self.NO_TRACE)
        _check_count("timeout_in_ms", timeout_in_ms, 0)
        if trace_level > self.FULL_TRACE:
            raise ValueError(f"trace_level is 0 for no trace, or 1, 2 or 3, not {trace_level}")
        if timeout_in_ms and self.timeout is not None:
            raise ValueError(f"give timeout={self.timeout!r} or timeout_in_ms={timeout_in_ms}, not both")
        if trace_level:
            object.__setattr__(self, "trace", True)
        if timeout_in_ms:
            object.__setattr__(self, "timeout", timeout_in_ms / 1000)
        _check_flags(self)
        _check_seconds("timeout", self.timeout)


def _check_flags(config: "Config | RunOptions") -> None:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.type is bool and not isinstance(value, bool):
            raise TypeError(f"{field.name} is True or False, not {safe_repr(value)}")


def _check_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be int, not {safe_repr(value)}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, and is {value}")


def _check_devices(counts: object) -> None:
    if not isinstance(counts, Mapping | None):
        raise TypeError(f"device_count is by kind, as {{'CPU': 4}}, not {safe_repr(counts)}")
    for kind, count in (counts or {}).items():
        if kind not in _KINDS:
            raise ValueError(f"device_count is by kind, CPU or GPU, not {kind!r}")
        _check_count(f"device_count[{kind!r}]", count, 1 if kind == "CPU" else 0)


def _limits(given: object) -> Mapping[str, int] | None:
    """Limits of memory by the shortest names of devices, as `CPU:1`."""
    if not isinstance(given, Mapping | None):
        raise TypeError(f"memory_limit is by device, as {{'CPU:0': 1 << 30}}, not {safe_repr(given)}")
    if given is None:
        return None
    limits: dict[str, int] = {}
    for name, limit in given.items():
        _check_count(f"memory_limit[{name!r}]", limit, 0)
        short = _short(name)
        if short in limits:
            raise ValueError(f"memory_limit is given for {short} twice")
        limits[short] = limit
    return limits


def _short(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"memory_limit is by the names of devices, as 'CPU:0', not {name!r}")
    try:
        spec = DeviceSpec.from_string(name)
    except ValueError as error:
        raise ValueError(f"memory_limit: {error}") from None
    device = DeviceSpec(device_type=spec.device_type, device_index=spec.device_index)
    if device != spec or None in (spec.device_type, spec.device_index):
        raise ValueError(f"memory_limit is by the kind and number of a device, as 'CPU:0', not {name!r}")
    return f"{spec.device_type}:{spec.device_index}"


def _check_seconds(name: str, value: float | None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {safe_repr(value)}")
    if not value >= 0:
        raise ValueError(f"{name} is in seconds and cannot be {value}")


def _check_beats(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"heartbeat_timeout is a number of seconds, not {safe_repr(value)}")
    if not 0 < value < math.inf:
        raise ValueError(f"heartbeat_timeout is in seconds, more than 0 and finite, and cannot be {value}")


def expect(name: str, value: object, kind: type) -> None:
    """TypeError unless `value` is None or of that class."""
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise TypeError(f"{name} must be {kind.__name__}, not {safe_repr(value)}")


Face(__name__, {
    __name__: "Config RunOptions",
    "aioflow.session": "optimizer=config_optimizer threading=config_threading",
    "aioflow.session.default_config": "get_soft_device_placement set_soft_device_placement",
    "aioflow.session.device_lists": (
        "LogicalDevice LogicalDeviceConfiguration PhysicalDevice "
        "experimental_functions_run_eagerly=functions_run_eagerly "
        "experimental_run_functions_eagerly=run_functions_eagerly functions_run_eagerly "
        "get_logical_device_configuration get_visible_devices list_logical_devices list_physical_devices "
        "run_functions_eagerly set_logical_device_configuration set_visible_devices"
    ),
})  # fmt: skip
