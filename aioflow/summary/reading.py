"""`summary_iterator`: the events of a file, as TensorBoard reads them."""

from collections.abc import Iterator
from typing import Any

from aioflow.files.filesystem import Path, as_name
from aioflow.files.tfrecord import tf_record_iterator
from aioflow.summary.writer import protocol_buffer


def summary_iterator(path: Path) -> Iterator[Any]:
    """Yield the events of an event file. Blocks: call it on a thread where a loop runs.

    Args:
        path: the file, as a FileWriter has written it.

    Raises:
        UnimplementedError: TensorBoard is not installed.
        NotFoundError: there is no such file.
        DataLossError: it is damaged.

    Examples:
        >>> async with af.summary.FileWriter("events") as writer:
        ...     writer.add_summary(await session.run(af.summary.scalar("loss", 0.5)), 7)
        >>> (file,) = af.gfile.Glob("events/*")
        >>> [event.step for event in af.train.summary_iterator(file) if event.HasField("summary")]
        [7]
    """
    event = protocol_buffer("Event")
    for record in tf_record_iterator(as_name(path)):
        yield event.FromString(record)
