"""A step as Chrome trace JSON, as Perfetto opens it."""

from collections.abc import Iterator
from typing import Any

from aioflow.dashboard.messages import Step


def chrome_trace(step: Step) -> dict[str, Any]:
    """Return the events of a step, with times in microseconds since its begin."""
    return {"traceEvents": list(_events(step))}


def _events(step: Step) -> Iterator[dict[str, Any]]:
    devices = {lane.device: number + 1 for number, lane in enumerate(step.lanes)}
    places = [{"pid": devices[lane.device], "tid": number + 1} for number, lane in enumerate(step.lanes)]
    for device, number in devices.items():
        yield {"name": "process_name", "ph": "M", "pid": number, "args": {"name": device}}
    for lane, place in zip(step.lanes, places, strict=True):
        yield {"name": "thread_name", "ph": "M", **place, "args": {"name": lane.thread}}
    for number, bar in enumerate(step.bars):
        about = {"op": bar.name, "output_bytes": bar.bytes, "ready": bar.ready * 1e6}
        event = {"name": bar.op_type, **places[bar.lane], "args": about}
        if bar.waits:  # waits overlap
            yield {**event, "cat": "wait", "ph": "b", "id": number, "ts": bar.start * 1e6}
            yield {**event, "cat": "wait", "ph": "e", "id": number, "ts": bar.end * 1e6}
        else:
            yield {**event, "cat": "compute", "ph": "X", "ts": bar.start * 1e6, "dur": (bar.end - bar.start) * 1e6}
    for number, arrow in enumerate(step.arrows):
        if arrow.source >= 0 and arrow.target >= 0:
            event = {"name": "transfer", "cat": "transfer", "id": number}
            yield {**event, **places[arrow.source], "ph": "s", "ts": arrow.sent * 1e6}
            yield {**event, **places[arrow.target], "ph": "f", "bp": "e", "ts": arrow.arrived * 1e6}
