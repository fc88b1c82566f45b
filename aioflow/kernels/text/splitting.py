"""Strings divided into pieces."""

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, TextLike
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op, op
from aioflow.graph.operators import OPERATORS
from aioflow.graph.params import renamed
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.families import CPU, TEXT, costs
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import (
    STRING,
    Array,
    Namespace,
    Spec,
    TensorShape,
    int64,
)
from aioflow.tensors.object_arrays import make_array, to_list

Split = Callable[[bytes], list[bytes]]


def _pieces(source: Spec) -> tuple[Spec, Spec, Spec]:
    """The parts of a sparse matrix with one row for each string."""
    rows = source.only(STRING).with_rank(1, "source").sizes
    assert rows is not None
    return (
        Spec(int64, TensorShape.matrix(None, 2)),
        Spec(dtypes.string, TensorShape.vector(None)),
        Spec(int64, TensorShape.vector(2), (rows[0], None)),
    )


def _kernel(made: Op[Any], splitter: Callable[[NodeView], Callable[..., Split]]) -> None:
    """Declare the kernel, by the function of a node and of the inputs after the first, and that it has no gradient."""
    made.no_gradient("text does not vary smoothly")
    costs(made, 2 * TEXT)

    @made.kernel(CPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Callable[..., tuple[Array, Array, Array]]:
        split_by = splitter(node)
        return lambda source, *marks: _parts(split_by(*marks), source)


def _parts(split: Split, source: Array) -> tuple[Array, Array, Array]:
    counts: list[int] = []
    values: list[bytes] = []
    for text in to_list(source):  # no list of lists: Python's collector would scan it repeatedly
        items = split(text)
        counts.append(len(items))
        values += items
    lengths = make_array(counts, dtype=np.int64)
    row = np.repeat(np.arange(len(counts)), lengths)
    places = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.stack([row, places], 1), make_array(values), np.array([len(counts), lengths.max(initial=0)], np.int64)


@op(name="string_split")
def _string_split(source: Spec, delimiter: Spec, skip_empty: bool = True) -> tuple[Spec, Spec, Spec]:
    """The parts of each string between bytes that are in `delimiter`, or each byte if that is empty.

    The parts of a sparse matrix: indices, values, dense_shape. With `skip_empty` empty parts are left out.
    """
    delimiter.only(STRING).with_rank(0, "delimiter")
    return _pieces(source)


@op(name="string_split_v2")
def _string_split_v2(source: Spec, sep: str = "", maxsplit: int = -1) -> tuple[Spec, Spec, Spec]:
    """The parts of each string between occurrences of `sep`, as Python splits; between blanks if that is empty.

    At most `maxsplit` splits are made from the left, if it is not negative.
    """
    return _pieces(source)


def _at_any(skip_empty: bool, delimiter: Array) -> Split:
    marks: bytes = delimiter.item()
    return functools.partial(_split_at, marks, bytes.maketrans(marks, marks[:1] * len(marks)), skip_empty)


def _split_at(marks: bytes, same: bytes, skip_empty: bool, text: bytes) -> list[bytes]:
    if not marks:
        return [text[place : place + 1] for place in range(len(text))]
    items = text.translate(same).split(marks[:1])
    return [item for item in items if item] if skip_empty else items


_kernel(_string_split, lambda node: functools.partial(_at_any, node.attrs["skip_empty"]))
_kernel(
    _string_split_v2,
    lambda node: lambda: lambda text: text.split(node.attrs["sep"].encode() or None, node.attrs["maxsplit"]),
)
_SPARSE: Final = "SparseTensor"
_RAGGED: Final = "RaggedTensor"


def _result(source: Any, result_type: str, split_vector: Callable[[Any], Any]) -> Any:
    """Return the pieces as a SparseTensor or a RaggedTensor. ValueError for another type."""
    if result_type == _RAGGED:
        return OPERATORS["ragged_pieces"](source, split_vector)
    if result_type != _SPARSE:
        raise ValueError(f"result_type must be {_SPARSE!r} or {_RAGGED!r}, not {result_type!r}")
    return SparseTensor(*split_vector(source))


@transactional
def string_split(
    source: TensorLike,
    sep: TextLike | None = None,
    skip_empty: bool = True,
    delimiter: TextLike | None = None,
    result_type: str = _SPARSE,
    name: str | None = None,
) -> Any:
    """The parts of each string of a vector, one row for each: between bytes that are in `sep`, by default blanks.

    An empty `sep` takes strings apart into bytes. With `skip_empty` empty parts are left out. The result is of
    `result_type`, "SparseTensor" or "RaggedTensor"; only the latter takes strings of other ranks.

    Examples:
        >>> words = af.string_split(["a b", "c"])
        >>> await session.run([words.indices, words.values])
        [array([[0, 0],
               [0, 1],
               [1, 0]]), array([b'a', b'b', b'c'], dtype=object)]
    """
    given = delimiter if sep is None else sep
    marks = " " if given is None else given
    return _result(source, result_type, lambda texts: _string_split(texts, marks, skip_empty, name=name))


@transactional
def split(
    input: TensorLike | None = None,
    sep: str | None = None,
    maxsplit: int = -1,
    result_type: str = _SPARSE,
    source: TensorLike | None = None,
    name: str | None = None,
) -> Any:
    """The parts of each string of a vector, one row for each, as Python's `str.split(sep, maxsplit)` gives them.

    The result is of `result_type`, "SparseTensor" or "RaggedTensor"; only the latter takes strings of other ranks.

    Examples:
        >>> (await session.run(af.strings.split(["a b", "c"], result_type="RaggedTensor"))).to_list()
        [[b'a', b'b'], [b'c']]
        >>> await session.run(af.strings.split(["a b", "c"]).values)
        array([b'a', b'b', b'c'], dtype=object)
    """
    given = renamed("input", input, source)
    return _result(given, result_type, lambda texts: _string_split_v2(texts, sep or "", maxsplit, name=name))
