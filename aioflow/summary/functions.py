"""Summary operations with TensorFlow's names. Each returns a string for a `FileWriter`, tagged by name and scope."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Tensor
from aioflow.kernels.data import summary as ops
from aioflow.kernels.data import summary_wire
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import float32, string

_NO_TAG: Final = re.compile(r"[^-/\w.]", re.ASCII)
Collections = Iterable[str] | None


@contextlib.contextmanager
def _tag_scope(name: str, family: str | None, tensor: Tensor) -> Iterator[tuple[str, str]]:
    """Enter the scope of the operation. Yields its name and the tag: the same name, after the family."""
    clean = _NO_TAG.sub("_", name).lstrip("/")
    group = _NO_TAG.sub("_", family or "").strip("/")
    if not clean:
        raise ValueError(f"a summary needs a name, not {name!r}")
    with contextlib.ExitStack() as stack:
        try:
            scope = stack.enter_context(name_scope(f"{group}/{clean}" if group else clean, values=[tensor]))
        except ValueError as error:
            complaint = f"{name!r} cannot be the name of a summary" + (f" of the family {family!r}" if group else "")
            raise ValueError(f"{complaint}: {error}; begin with a letter, a digit or a dot") from None
        tag = scope.rstrip("/")
        yield scope, f"{group}/{tag}" if group else tag


def _add_to_collections(summary: Tensor, collections: Collections) -> Tensor:
    """Add the summary to the collections, by default to the one of `merge_all`, and return it."""
    keys = [GraphKeys.SUMMARIES] if collections is None else collections
    summary.graph.add_to_collections(keys, summary)
    return summary


_SUMMARY_V2: Final = "_SUMMARY_V2"


@transactional
def scalar(name: str, tensor: TensorLike, collections: Collections = None, family: str | None = None) -> Tensor:
    """Return the summary of a number: a point of a curve.

    Args:
        name: its tag, after the names of the enclosing scopes. Letters outside of ASCII become `_`; a tag begins with
            `_` only inside a scope.
        tensor: a number of any real dtype.
        collections: the collections to add it to; by default `SUMMARIES`, which `merge_all` merges.
        family: a prefix of the tag; TensorBoard shows summaries of one family together.

    Raises:
        ValueError: the name cannot be a tag.

    Examples:
        >>> summary = af.summary.scalar("loss", 0.5)
        >>> type(await session.run(summary)).__name__
        'bytes'
    """
    value = convert_to_tensor(tensor)
    with _tag_scope(name, family, value) as (scope, tag):
        return _add_to_collections(ops.scalar_summary(value, tag, name=scope), collections)


@transactional
def histogram(name: str, values: TensorLike, collections: Collections = None, family: str | None = None) -> Tensor:
    """Return the histogram of the values. The run raises InvalidArgumentError if some are not finite.

    Args:
        name: see `scalar`.
        values: numbers of any real dtype, in any shape.
        collections: see `scalar`.
        family: see `scalar`.

    Examples:
        >>> type(await session.run(af.summary.histogram("weights", [1.0, 2.0]))).__name__
        'bytes'
    """
    value = convert_to_tensor(values)
    with _tag_scope(name, family, value) as (scope, tag):
        return _add_to_collections(ops.histogram_summary(value, tag, name=scope), collections)


@transactional
def image(
    name: str, tensor: TensorLike, max_outputs: int = 3, collections: Collections = None, family: str | None = None
) -> Tensor:
    """Return the summary of the first images of a batch. The run needs Pillow: `pip install aioflow-engine[image]`.

    Args:
        name: see `scalar`; `/image` follows in the tag, and the number of the image if there are several.
        tensor: [batch, height, width, channels] with 1, 3 or 4 channels; uint8, or floats, which are scaled so that
            the largest is 255, and 0 is 128 if there are negative ones. Values that are not finite become red.
        max_outputs: the most images to show.
        collections: see `scalar`.
        family: see `scalar`.

    Examples:
        >>> af.summary.image("picture", af.zeros([1, 8, 8, 3])).dtype
        af.string
    """
    value = convert_to_tensor(tensor)
    with _tag_scope(name, family, value) as (scope, tag):
        return _add_to_collections(ops.image_summary(value, tag, max_outputs, name=scope), collections)


@transactional
def audio(
    name: str,
    tensor: TensorLike,
    sample_rate: TensorLike,
    max_outputs: int = 3,
    collections: Collections = None,
    family: str | None = None,
) -> Tensor:
    """Return the summary of the first sounds of a batch.

    Args:
        name: see `scalar`; `/audio` follows in the tag, and the number of the sound if there are several.
        tensor: float32, [batch, frames] or [batch, frames, channels], from -1 to 1.
        sample_rate: frames per second.
        max_outputs: the most sounds to keep.
        collections: see `scalar`.
        family: see `scalar`.

    Examples:
        >>> waves = af.constant(np.zeros((1, 100, 1), np.float32))
        >>> af.summary.audio("tone", waves, sample_rate=8000).dtype
        af.string
    """
    value = convert_to_tensor(tensor, float32)
    with _tag_scope(name, family, value) as (scope, tag):
        rate = convert_to_tensor(sample_rate, preferred_dtype=float32)
        return _add_to_collections(ops.audio_summary(value, rate, tag, max_outputs, name=scope), collections)


@transactional
def text(name: str, tensor: TensorLike, collections: Collections = None) -> Tensor:
    """Return the summary of a string, which TensorBoard shows as Markdown, or of an array of strings, as a table.

    Args:
        name: see `scalar`.
        tensor: strings.
        collections: see `scalar`.

    Examples:
        >>> type(await session.run(af.summary.text("note", "tea"))).__name__
        'bytes'
    """
    value = convert_to_tensor(tensor)
    if value.dtype is not string:
        raise ValueError(f"the summary {name!r} needs strings, not {value.dtype.name}; see af.as_string")
    with _tag_scope(name, None, value) as (scope, tag):
        return _add_to_collections(
            ops.tensor_summary(value, tag, summary_wire.metadata("text"), name=scope), collections
        )


@transactional
def tensor_summary(
    name: str,
    tensor: TensorLike,
    summary_description: str | None = None,
    collections: Collections = None,
    summary_metadata: Any = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """Return the summary of a whole tensor, for a plugin of TensorBoard that knows its meaning.

    Args:
        name: see `scalar`.
        tensor: numbers, bools or strings.
        summary_description: the description that TensorBoard shows, in Markdown.
        collections: see `scalar`.
        summary_metadata: a SummaryMetadata, which names the plugin.
        family: see `scalar`.
        display_name: the name that TensorBoard shows instead of the tag.

    Examples:
        >>> af.summary.tensor_summary("values", af.constant([1, 2])).dtype
        af.string
    """
    value = convert_to_tensor(tensor)
    metadata = b"" if summary_metadata is None else bytes(summary_metadata.SerializeToString())
    metadata += summary_wire.metadata("", display_name or "", summary_description or "")
    with _tag_scope(name, family, value) as (scope, tag):
        return _add_to_collections(ops.tensor_summary(value, tag, metadata, name=scope), collections)


@transactional
def merge(inputs: Iterable[TensorLike], collections: Collections = None, name: str | None = None) -> Tensor:
    """Return one summary with the values of all. The run raises InvalidArgumentError if two have the same tag.

    Args:
        inputs: summaries.
        collections: the collections to add it to; none by default.
        name: the name of the operation.
        name: the name of the operation.

    Examples:
        >>> summaries = af.summary.merge([af.summary.scalar("loss", 0.5)])
        >>> type(await session.run(summaries)).__name__
        'bytes'
    """
    summaries = [convert_to_tensor(value) for value in inputs]
    with name_scope(name, "Merge", summaries) as scope:
        return _add_to_collections(ops.merge_summary(summaries, name=scope), collections or ())


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Tensor | None:
    """Merge the summaries in a collection of the default graph. Returns None if there are none.

    Args:
        key: the collection.
        scope: a regular expression; only summaries whose names begin with a match are merged.
        name: the name of the operation.

    Examples:
        >>> loss = af.summary.scalar("loss", 0.5)
        >>> type(await session.run(af.summary.merge_all())).__name__
        'bytes'
    """
    summaries = get_default_graph().get_collection(key, scope)
    return merge(summaries, name=name) if summaries else None


def all_v2_summary_ops() -> list[Any]:
    """Return the operations of the default graph that write summaries themselves, as those of TensorFlow 2 do.

    They are the items of the collection `_SUMMARY_V2`. The functions of `af.summary` add none: their operations return
    the summary, which `merge_all` collects.

    Examples:
        >>> loss = af.summary.scalar("loss", 0.5)
        >>> af.summary.all_v2_summary_ops()
        []
    """
    return get_default_graph().get_collection(_SUMMARY_V2)
