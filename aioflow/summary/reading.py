"""`summary_iterator`: the events of a file."""

from collections.abc import Iterator

from aioflow import errors
from aioflow.files.filesystem import Path, as_name
from aioflow.files.tfrecord import tf_record_iterator
from aioflow.summary.messages import Event


def summary_iterator(path: Path) -> Iterator[Event]:
    """Yield the events of an event file. Blocks: call it on a thread where a loop runs.

    Args:
        path: the file, as a FileWriter has written it.

    Raises:
        NotFoundError: there is no such file.
        DataLossError: it is damaged.

    Examples:
        >>> async with af.summary.FileWriter("events") as writer:
        ...     writer.add_summary(await session.run(af.summary.scalar("loss", 0.5)), 7)
        >>> (file,) = af.gfile.Glob("events/*")
        >>> [event.step for event in af.train.summary_iterator(file) if event.HasField("summary")]
        [7]
    """
    for record in tf_record_iterator(as_name(path)):
        yield _event(record, as_name(path))


def _event(record: bytes, path: str) -> Event:
    try:
        return Event.FromString(record)
    except ValueError as error:
        raise errors.DataLossError(f"{path!r} is no event file: {error}") from None
