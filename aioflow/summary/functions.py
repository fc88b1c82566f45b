"""Summary operations by TensorFlow's names: each a string that a `FileWriter` writes, tagged by its name and scope."""

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
def _tagged(name: str, family: str | None, tensor: Tensor) -> Iterator[tuple[str, str]]:
    """The scope that is the operation's name, and its tag: the same, after the family that it is shown with."""
    clean = _NO_TAG.sub("_", name).lstrip("/")
    group = _NO_TAG.sub("_", family or "").strip("/")
    if not clean:
        raise ValueError(f"a summary needs a name, which {name!r} is not")
    with contextlib.ExitStack() as stack:
        try:
            scope = stack.enter_context(name_scope(f"{group}/{clean}" if group else clean, values=[tensor]))
        except ValueError as error:
            told = f"{name!r} cannot be the name of a summary" + (f" of the family {family!r}" if group else "")
            raise ValueError(f"{told}: {error}; begin with a letter, a digit or a dot") from None
        tag = scope.rstrip("/")
        yield scope, f"{group}/{tag}" if group else tag


def _collected(summary: Tensor, collections: Collections) -> Tensor:
    """The summary, kept in those collections; for `merge_all` by default."""
    keys = [GraphKeys.SUMMARIES] if collections is None else collections
    summary.graph.add_to_collections(keys, summary)
    return summary


@transactional
def scalar(name: str, tensor: TensorLike, collections: Collections = None, family: str | None = None) -> Tensor:
    """The summary of a number: a point of a curve.

    Args:
        name: its tag, after the names of the scopes around: other letters than those of ASCII become `_`, with which it
            can only begin inside a scope.
        tensor: a number of any real dtype.
        collections: what it is added to; `SUMMARIES`, by default, is what `merge_all` merges.
        family: a prefix of the tag: what has the same is shown together.

    Raises:
        ValueError: there can be no tag of that name.
    """
    value = convert_to_tensor(tensor)
    with _tagged(name, family, value) as (scope, tag):
        return _collected(ops.scalar_summary(value, tag, name=scope), collections)


@transactional
def histogram(name: str, values: TensorLike, collections: Collections = None, family: str | None = None) -> Tensor:
    """The summary of how many of the values lie where. InvalidArgumentError in the run if some are not finite.

    Args:
        name: as of `scalar`.
        values: numbers of any real dtype, in any shape.
        collections: as of `scalar`.
        family: as of `scalar`.
    """
    value = convert_to_tensor(values)
    with _tagged(name, family, value) as (scope, tag):
        return _collected(ops.histogram_summary(value, tag, name=scope), collections)


@transactional
def image(
    name: str, tensor: TensorLike, max_outputs: int = 3, collections: Collections = None, family: str | None = None
) -> Tensor:
    """The summary of the first pictures of a batch. It needs Pillow where it runs: `pip install aioflow-engine[image]`.

    Args:
        name: as of `scalar`; tags go on with `/image`, and of several pictures with the number of each.
        tensor: [batch, height, width, channels] with 1, 3 or 4 channels; uint8, or floats, which are scaled so that
            the largest is 255, and 0 is 128 if there are negative ones. What is not finite is red.
        max_outputs: how many pictures are shown.
        collections: as of `scalar`.
        family: as of `scalar`.
    """
    value = convert_to_tensor(tensor)
    with _tagged(name, family, value) as (scope, tag):
        return _collected(ops.image_summary(value, tag, max_outputs, name=scope), collections)


@transactional
def audio(
    name: str,
    tensor: TensorLike,
    sample_rate: TensorLike,
    max_outputs: int = 3,
    collections: Collections = None,
    family: str | None = None,
) -> Tensor:
    """The summary of the first sounds of a batch.

    Args:
        name: as of `scalar`; tags go on with `/audio`, and of several sounds with the number of each.
        tensor: float32, [batch, frames] or [batch, frames, channels], from -1 to 1.
        sample_rate: frames per second.
        max_outputs: how many can be listened to.
        collections: as of `scalar`.
        family: as of `scalar`.
    """
    value = convert_to_tensor(tensor, float32)
    with _tagged(name, family, value) as (scope, tag):
        rate = convert_to_tensor(sample_rate, preferred_dtype=float32)
        return _collected(ops.audio_summary(value, rate, tag, max_outputs, name=scope), collections)


@transactional
def text(name: str, tensor: TensorLike, collections: Collections = None) -> Tensor:
    """The summary of texts, which TensorBoard shows as Markdown; of an array of strings, as a table.

    Args:
        name: as of `scalar`.
        tensor: strings.
        collections: as of `scalar`.
    """
    value = convert_to_tensor(tensor)
    if value.dtype is not string:
        raise ValueError(f"the summary {name!r} is of strings, not of {value.dtype.name}; see af.as_string")
    with _tagged(name, None, value) as (scope, tag):
        return _collected(ops.tensor_summary(value, tag, summary_wire.metadata("text"), name=scope), collections)


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
    """The summary of a whole tensor, for a plugin of TensorBoard's that knows what to do with it.

    Args:
        name: as of `scalar`.
        tensor: numbers, truth values or strings.
        summary_description: what TensorBoard says of it, in Markdown.
        collections: as of `scalar`.
        summary_metadata: a SummaryMetadata of TensorBoard's, which names the plugin.
        family: as of `scalar`.
        display_name: what TensorBoard calls it, instead of the tag.
    """
    value = convert_to_tensor(tensor)
    told = b"" if summary_metadata is None else bytes(summary_metadata.SerializeToString())
    told += summary_wire.metadata("", display_name or "", summary_description or "")
    with _tagged(name, family, value) as (scope, tag):
        return _collected(ops.tensor_summary(value, tag, told, name=scope), collections)


@transactional
def merge(inputs: Iterable[TensorLike], collections: Collections = None, name: str | None = None) -> Tensor:
    """One summary with the values of all. InvalidArgumentError in the run if two have one tag.

    Args:
        inputs: summaries.
        collections: what it is added to; nothing by default.
        name: the name of the operation.
    """
    summaries = [convert_to_tensor(value) for value in inputs]
    with name_scope(name, "Merge", summaries) as scope:
        return _collected(ops.merge_summary(summaries, name=scope), collections or ())


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Tensor | None:
    """One summary of all that a collection of the default graph has; None if it has none.

    Args:
        key: the collection.
        scope: only of those whose names begin so, a regular expression.
        name: the name of the operation.
    """
    summaries = get_default_graph().get_collection(key, scope)
    return merge(summaries, name=name) if summaries else None
