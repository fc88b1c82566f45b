"""`warm_start`: variables begin with values of another model, whose vocabulary may differ."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from aioflow.checkpoint import Checkpoint
from aioflow.files.filesystem import FILES, Path, as_name
from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import zeros
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.select import where
from aioflow.library.partitioned_variables import known_sizes
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import TensorShape
from aioflow.tensors.recursion import safe_repr
from aioflow.train.checkpoints import opened
from aioflow.train.initial_values import check_stored, set_initial_value, stored_value
from aioflow.train.savable import Entry


class VocabInfo(NamedTuple):
    """The vocabularies of a variable with a row for each word, now and in the checkpoint.

    A vocabulary is a file of words, one a line. Rows of words that the old vocabulary has are taken over; rows of new
    words, and those of buckets for other words, begin with the `backup_initializer`, by default with zeros.

    Attributes:
        new_vocab: the file of the words now.
        new_vocab_size: the number of words now.
        num_oov_buckets: the rows for words that are in no vocabulary; they come last.
        old_vocab: the file of the words in the checkpoint.
        old_vocab_size: the number of words in the checkpoint; -1 for all of the file.
        backup_initializer: (shape, dtype=) returns the values of the other rows.
        axis: 0 for a row for each word, 1 for a column.

    Examples:
        >>> af.train.VocabInfo("new.txt", 100, 1, "old.txt").axis
        0
    """

    new_vocab: Path
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: Path
    old_vocab_size: int = -1
    backup_initializer: Callable[..., Any] | None = None
    axis: int = 0


def warm_start(
    ckpt_to_initialize_from: Path,
    vars_to_warm_start: str | Sequence[str] | Sequence[Variable] | None = ".*",
    var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
    var_name_to_prev_var_name: Mapping[str, str] | None = None,
) -> None:
    """Give variables new initializers, which read their values from a checkpoint; see `init_from_checkpoint`. Blocks.

    Args:
        ckpt_to_initialize_from: a checkpoint, or a directory, whose newest one is taken.
        vars_to_warm_start: a regular expression for the beginnings of names of trainable variables; a list of such
            expressions for all global variables; a list of variables; or None for those with vocabularies alone.
        var_name_to_vocab_info: the vocabularies of variables, by the names of the variables.
        var_name_to_prev_var_name: names in the checkpoint, where they differ, by the names of the variables.

    Raises:
        NotFoundError: there is no checkpoint, or no file of a vocabulary.
        ValueError: the checkpoint has no tensor for a variable, or one of another dtype or shape; a vocabulary does not
            fit; or a name in the last two arguments belongs to no variable that is started.

    Examples:
        >>> weight = af.Variable(7.0, name="weight")
        >>> await session.run(weight.initializer)
        >>> path = await af.train.Saver([weight]).save(session, "run/warm", 1)
        >>> with af.Graph().as_default() as graph:
        ...     again = af.Variable(0.0, name="weight")
        ...     af.train.warm_start(path)
        >>> async with af.Session(graph=graph) as other:
        ...     await other.run(again.initializer)
        ...     print(await other.run(again))
        7.0
    """
    graph = get_default_graph()
    vocabularies, earlier = dict(var_name_to_vocab_info or {}), dict(var_name_to_prev_var_name or {})
    variables = {each.op.name: each for each in _chosen(graph, vars_to_warm_start, vocabularies)}
    if unused := sorted({*vocabularies, *earlier} - variables.keys()):
        raise ValueError(f"{', '.join(unused)}: no variable of that name is started from the checkpoint")
    checkpoint = opened(ckpt_to_initialize_from)
    with graph.transaction():
        for name, variable in variables.items():
            stored = earlier.get(name, name)
            value = (
                _remapped(checkpoint, stored, variable, _checked(name, vocabularies[name]))
                if name in vocabularies
                else _same(checkpoint, stored, variable)
            )
            set_initial_value(variable, value)


def _chosen(graph: Graph, given: Any, vocabularies: Iterable[str]) -> list[Variable]:
    if given is None or isinstance(given, str):
        found = graph.get_collection(GraphKeys.TRAINABLE_VARIABLES, given)
        return found if given is not None else [each for each in found if each.op.name in vocabularies]
    items = list(given)
    if all(isinstance(item, Variable) for item in items):
        return items
    if not all(isinstance(item, str) for item in items):
        raise TypeError(f"vars_to_warm_start is an expression, a list of them or of variables, not {safe_repr(given)}")
    return [each for item in items for each in graph.get_collection(GraphKeys.GLOBAL_VARIABLES, item)]


def _same(checkpoint: Checkpoint, stored: str, variable: Variable) -> Tensor:
    entry = Entry(stored, variable.dtype, variable.shape)
    check_stored(checkpoint, variable.name, entry)
    return stored_value(checkpoint, entry, variable)


def _checked(name: str, info: Any) -> VocabInfo:
    if not isinstance(info, VocabInfo):
        raise TypeError(f"the vocabularies of {name!r} are an af.train.VocabInfo, not {safe_repr(info)}")
    if info.axis not in (0, 1):
        raise ValueError(f"the vocabulary of {name!r} belongs to axis 0 or 1, not {info.axis}")
    return info


def _remapped(checkpoint: Checkpoint, stored: str, variable: Variable, info: VocabInfo) -> Tensor:
    """Return the initial value with the rows of known words, wherever they are now."""
    old, new = _words(info.old_vocab, info.old_vocab_size), _words(info.new_vocab, info.new_vocab_size)
    shape = known_sizes(variable.shape)
    if len(shape) <= info.axis or shape[info.axis] != len(new) + info.num_oov_buckets:
        raise ValueError(
            f"{variable.name!r} has shape {shape}, and {len(new)} words with {info.num_oov_buckets} buckets on axis "
            f"{info.axis}"
        )
    before = TensorShape([*shape[: info.axis], len(old), *shape[info.axis + 1 :]])
    entry = Entry(stored, variable.dtype, before)
    check_stored(checkpoint, variable.name, entry)
    places = {word: place for place, word in enumerate(old)}
    rows = np.array([*[places.get(word, -1) for word in new], *[-1] * info.num_oov_buckets], np.int32)
    known = (rows >= 0).reshape([-1 if axis == info.axis else 1 for axis in range(len(shape))])
    graph = variable.graph
    value = stored_value(checkpoint, entry, variable)
    with (
        graph.as_default(),
        graph.control_dependencies(None),
        graph.colocate_with(variable.handle, ignore_existing=True),
    ):
        make = info.backup_initializer
        backup = zeros(shape, variable.dtype) if make is None else make(shape, dtype=variable.dtype)
        taken = gather(value, np.maximum(rows, 0), axis=info.axis)
        return where(np.broadcast_to(known, shape), taken, backup) if len(old) else backup


def _words(path: Path, size: int) -> list[bytes]:
    """Return the words of a vocabulary. ValueError if the file has fewer than that number."""
    words = FILES.read(path).split(b"\n")
    words = [word.rstrip(b"\r") for word in (words[:-1] if words and not words[-1] else words)]
    if size > len(words):
        raise ValueError(f"{as_name(path)!r} has {len(words)} words, and not {size}")
    return words if size < 0 else words[:size]
