"""What outlives steps: a variable, and a queue of a graph."""

from typing import TYPE_CHECKING

from aioflow.notebook.card import card, facts, lines
from aioflow.notebook.scopes import names

if TYPE_CHECKING:
    from aioflow.library.queues import QueueBase
    from aioflow.library.variables import Variable


def variable_html(variable: "Variable", line: str) -> str:
    """A variable, and the operations that read and change it.

    Args:
        variable: the variable.
        line: the user's line that built it.
    """
    rows = [
        ("dtype", variable.dtype.name),
        ("shape", str(variable.shape)),
        ("trainable", "yes" if variable.trainable else "no"),
        ("used by", names(each.name for each in variable.handle.consumers() if each is not variable.initializer)),
        ("given a value by", variable.initializer.name),
        ("device", variable.device),
        ("built at", line),
    ]
    return card(variable.op.name, facts(rows), note="Variable")


def queue_html(queue: "QueueBase", line: str) -> str:
    """A queue, its elements, and the operations that use it.

    Args:
        queue: the handle.
        line: the user's line that built it.
    """
    handle, labels = queue.queue_ref, queue.names or [""] * len(queue.dtypes)
    parts = zip(labels, queue.dtypes, queue.shapes, strict=True)
    capacity = handle.op.attrs.get("capacity")
    rows = [
        ("capacity", "" if capacity is None else "no limit" if capacity < 0 else f"{capacity:,}"),
        ("an element", lines([f"{label} {dtype.name}{shape}".lstrip() for label, dtype, shape in parts])),
        ("used by", names(each.name for each in handle.consumers())),
        ("device", handle.device),
        ("built at", line),
    ]
    return card(handle.op.name, facts(rows), note=type(queue).__name__)
