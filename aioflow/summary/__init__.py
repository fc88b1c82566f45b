"""Summaries for TensorBoard: operations that make them, and writers of event files.

The writers need `pip install aioflow-engine[tensorboard]`.

    with graph.as_default():
        af.summary.scalar("loss", loss)
        af.summary.histogram("weights", weights)
        merged = af.summary.merge_all()

    async with af.Session(graph=graph) as session, af.summary.FileWriter("logs", graph) as writer:
        text, _ = await session.run([merged, train])
        writer.add_summary(text, step)

`tensorboard --logdir logs` shows them. The package is needed where files are written, not where operations run.
`Event`, `SessionLog`, `Summary`, `SummaryDescription` and `TaggedRunMetadata` are its messages, loaded when asked for.
"""

from typing import Any, Final

from aioflow.summary import events
from aioflow.summary.functions import audio, histogram, image, merge, merge_all, scalar, tensor_summary, text
from aioflow.summary.writer import FileWriter, FileWriterCache

_MESSAGES: Final = ("Event", "SessionLog", "Summary", "SummaryDescription", "TaggedRunMetadata")


def __getattr__(name: str) -> Any:
    """A message of TensorBoard's. UnimplementedError if the package is not installed."""
    if name in _MESSAGES:
        return events.protocol_buffer(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "FileWriter", "FileWriterCache", "audio", "histogram", "image", "merge", "merge_all", "scalar", "tensor_summary",
    "text",
]  # fmt: skip
