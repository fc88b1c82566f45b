"""Converts graphs and traces to the protocol buffers of TensorFlow, which the package `tensorboard` contains.

The writer calls it on its thread, since importing the package or converting a large graph takes long.
"""

import importlib.util
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.operation import Operation
from aioflow.graph.subgraph import Body
from aioflow.kernels.data.summary_wire import NUMBERS
from aioflow.tensors.dtypes import DType, Spec, TensorShape
from aioflow.tracing import NodeStats, RunMetadata, Transfer

_MISSING: Final = "event files need the package tensorboard: pip install aioflow-engine[tensorboard]"
_PRODUCER: Final = 22
"""The version of the format."""
_LONGEST: Final = 200
"""The most characters of an attribute's text."""


def check_installed() -> None:
    """Raise UnimplementedError if the package `tensorboard` is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise errors.UnimplementedError(_MISSING)


def _proto() -> Any:
    """Return the package of messages. Importing these two modules imports all others."""
    import tensorboard.compat.proto.config_pb2
    import tensorboard.compat.proto.event_pb2

    return tensorboard.compat.proto


def file_writer(logdir: str, max_queue: int, flush_secs: float, suffix: str) -> Any:
    """Open a new event file in that folder. Its writer has its own thread."""
    import tensorboard.summary.writer.event_file_writer as files

    return files.EventFileWriter(logdir, max_queue, flush_secs, suffix)


def protocol_buffer(name: str) -> Any:
    """Return the message class Event, SessionLog, Summary, SummaryDescription or TaggedRunMetadata."""
    check_installed()
    return getattr(_proto().summary_pb2 if name.startswith("Summary") else _proto().event_pb2, name)


def __getattr__(name: str) -> Any:
    """Import a message class of TensorBoard. UnimplementedError if the package is not installed."""
    if name in ("Event", "SessionLog", "Summary", "SummaryDescription", "TaggedRunMetadata"):
        return protocol_buffer(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def event(wall_time: float, step: int | None) -> Any:
    """Return an empty Event."""
    made = protocol_buffer("Event")(wall_time=wall_time)
    if step is not None:
        made.step = step
    return made


# Graphs


def graph_def(operations: Iterable[Operation]) -> bytes:
    """Return the operations as a GraphDef. The operations of a branch or loop are in a scope named after it."""
    nodes = [_node(operation, prefix) for operation, prefix in _with_bodies(operations, "")]
    versions = _proto().versions_pb2.VersionDef(producer=_PRODUCER)
    data: bytes = _proto().graph_pb2.GraphDef(node=nodes, versions=versions).SerializeToString()
    return data


def _with_bodies(operations: Iterable[Operation], prefix: str) -> Iterator[tuple[Operation, str]]:
    """Yield all operations and those in their bodies, each with the prefix of its name."""
    for operation in operations:
        yield operation, prefix
        for name, value in operation.attrs.items():
            if isinstance(value, Body):
                yield from _with_bodies(value.graph.get_operations(), f"{prefix}{operation.name}/{name}/")


def _node(operation: Operation, prefix: str) -> Any:
    reads = [f"{prefix}{tensor.op.name}" + (f":{tensor.index}" if tensor.index else "") for tensor in operation.inputs]
    after = [f"^{prefix}{control.name}" for control in operation.control_inputs]
    make = _proto().attr_value_pb2.AttrValue
    shapes = make.ListValue(shape=[_shape(output.spec.shape) for output in operation.outputs])
    attributes = {name: _attribute(value) for name, value in operation.attrs.items() if not isinstance(value, Body)}
    attributes["_output_shapes"] = make(list=shapes)
    if operation.outputs:
        attributes["T"] = make(type=NUMBERS[operation.outputs[0].dtype])
    return _proto().node_def_pb2.NodeDef(
        name=prefix + operation.name, op=operation.type, input=[*reads, *after], device=operation.device,
        attr=attributes,
    )  # fmt: skip


def _shape(shape: TensorShape) -> Any:
    make = _proto().tensor_shape_pb2.TensorShapeProto
    if shape.ndims is None:
        return make(unknown_rank=True)
    sizes = [-1 if size is None else size for size in shape.as_list()]
    return make(dim=[make.Dim(size=size) for size in sizes])


def _attribute(value: Any) -> Any:
    """Return an attribute as its own kind if the format has it, else as text."""
    make = _proto().attr_value_pb2.AttrValue
    match value:
        case bool():
            return make(b=value)
        case int() if -(1 << 63) <= value < 1 << 63:
            return make(i=value)
        case float():
            return make(f=value)
        case DType():
            return make(type=NUMBERS[value])
        case TensorShape():
            return make(shape=_shape(value))
        case np.ndarray():
            return make(s=f"{value.dtype.name} {list(value.shape)}".encode())
        case str() | bytes():
            return make(s=value.encode() if isinstance(value, str) else value)
        case Spec():
            return make(s=str(value).encode())
    return make(s=repr(value)[:_LONGEST].encode())


# Traces


def run_metadata(metadata: RunMetadata) -> bytes:
    """Return the records of a traced run as a RunMetadata with step statistics by device."""
    later = time.time() - time.perf_counter()
    threads: dict[int, int] = {}
    devices: dict[str, list[Any]] = {}
    for stats in metadata.step_stats:
        thread = threads.setdefault(stats.thread, len(threads) + 1)
        devices.setdefault(stats.device, []).append(_execution(stats, later, thread))
    for transfer in metadata.transfers:
        devices.setdefault(transfer.target, []).append(_transfer(transfer, later))
    make = _proto().step_stats_pb2
    found = [make.DeviceStepStats(device=device, node_stats=made) for device, made in devices.items()]
    written = _proto().config_pb2.RunMetadata(step_stats=make.StepStats(dev_stats=found))
    data: bytes = written.SerializeToString()
    return data


def _execution(stats: NodeStats, later: float, thread: int) -> Any:
    made = _times(stats.name, later, stats.scheduled, stats.start, stats.end)
    made.thread_id, made.timeline_label = thread, f"{stats.name} = {stats.op_type}"
    made.memory.add(allocator_name=stats.device, total_bytes=stats.output_bytes, peak_bytes=stats.output_bytes)
    return made


def _transfer(transfer: Transfer, later: float) -> Any:
    made = _times("RecvTensor", later, transfer.asked, transfer.start, transfer.arrived)
    made.timeline_label = f"[{transfer.bytes} B] {transfer.key} from {transfer.source} to {transfer.target}"
    return made


def _times(name: str, later: float, scheduled: float, start: float, end: float) -> Any:
    """Return one execution: times in microseconds since 1970, `later` in seconds, the end relative to the start."""
    length = max(0, round((end - start) * 1e6))
    return _proto().step_stats_pb2.NodeExecStats(
        node_name=name, scheduled_micros=round((scheduled + later) * 1e6),
        all_start_micros=round((start + later) * 1e6),
        op_end_rel_micros=length, all_end_rel_micros=length,
    )  # fmt: skip
