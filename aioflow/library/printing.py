"""`af.print` and `af.strings.format`: values of a run as text."""

import builtins
import sys
from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.text.string_format import print_text, string_format
from aioflow.library import logging
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.library.variables import Variable
from aioflow.tensors import dtypes

_MARK: Final = "\0{}"
"""Stands for a tensor in the template of a print."""


def format(
    template: str,
    inputs: TensorLike | Sequence[TensorLike],
    placeholder: str = "{}",
    summarize: int = 3,
    name: str | None = None,
) -> Tensor:
    """Return the template, in which the text of the next of `inputs` takes the place of each placeholder.

    Args:
        template: text with as many placeholders as there are inputs.
        inputs: a tensor, or a list or tuple of them.
        placeholder: what marks a place.
        summarize: how many parts are shown at each end of an axis, all of them if negative.
        name: the operation's name.

    Raises:
        ValueError: there are more or fewer placeholders than inputs.

    Examples:
        >>> await session.run(af.strings.format("x = {}", [af.constant([1, 2])]))
        b'x = [1 2]'
    """
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    return string_format(given, template, placeholder, summarize, name=name)


@transactional
def print(
    *inputs: Any,
    output_stream: Any = None,
    summarize: int = 3,
    sep: str = " ",
    end: str = "\n",
    name: str | None = None,
) -> Operation:
    """Return an operation that prints `inputs` each time it runs: tensors, text, and lists and dicts of them.

    Args:
        inputs: the values to print; a tensor is printed with its value in the run.
        output_stream: sys.stderr, which is the default, sys.stdout, or a function of af.logging such as
            af.logging.info.
        summarize: how many parts of a tensor are shown at each end of an axis, all of them if negative.
        sep: what stands between the inputs.
        end: what stands after them; a logger ends its own lines.
        name: the operation's name.

    Raises:
        ValueError: the output stream is none of these.

    Examples:
        >>> import sys
        >>> await session.run(af.print("x =", af.constant([1, 2]), output_stream=sys.stdout))
        x = [1 2]
    """
    stream = _stream(output_stream)
    with get_default_graph().name_scope(name or "print") as scope:
        if len(inputs) == 1 and isinstance(inputs[0], Tensor) and _is_text(inputs[0]):
            return print_text(inputs[0], stream, end, name=scope)
        tensors: list[Tensor] = []
        template = sep.join([each if isinstance(each, str) else repr(_marked(each, tensors)) for each in inputs])
        return print_text(string_format(tensors, template, _MARK, summarize), stream, end, name=scope)


def _is_text(tensor: Tensor) -> bool:
    return tensor.dtype is dtypes.string and tensor.shape.rank == 0


def _stream(chosen: Any) -> str:
    if chosen is None or chosen is sys.stderr:
        return "stderr"
    if chosen is sys.stdout:
        return "stdout"
    for level in ("debug", "info", "warning", "error"):
        if chosen is getattr(logging, level):
            return level
    raise ValueError(f"output_stream is sys.stderr, sys.stdout or a function of af.logging, not {chosen!r}")


class _Shown:
    """An object with a given repr."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _marked(value: Any, tensors: list[Tensor]) -> Any:
    """`value` with marks in place of its tensors, which are added to the list."""
    if isinstance(value, (Tensor, Variable)):
        tensors.append(convert_to_tensor(value))
        return _Shown(_MARK)
    if isinstance(value, SparseTensor):
        tensors += [value.indices, value.values, value.dense_shape]
        return _Shown(f"'SparseTensor(indices={_MARK}, values={_MARK}, shape={_MARK})'")
    if isinstance(value, RaggedTensor):
        tensors += [value.flat_values, *value.nested_row_splits]
        return _Shown(f"'RaggedTensor(values={_MARK}, row_splits={', '.join([_MARK] * value.ragged_rank)})'")
    if isinstance(value, dict):
        return {key: _marked(each, tensors) for key, each in value.items()}
    if type(value) in (list, builtins.tuple):
        return type(value)([_marked(each, tensors) for each in value])
    return value
