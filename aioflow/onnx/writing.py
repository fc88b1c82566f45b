"""A model as a file, with the bytes of its large weights in a second one where they are many.

A message of protocol buffers has at most 2 GiB. All files are written and checked in a folder beside the model, and
take their names when they are complete: a graph may have the former ones mapped into its memory.
"""

import dataclasses
import os
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aioflow import errors
from aioflow.checkpoint.storage import LocalStorage
from aioflow.checkpoint.writing import SPAN
from aioflow.files.filesystem import translate_errors
from aioflow.onnx.attaching import attached
from aioflow.onnx.protobuf import encode_error, package
from aioflow.onnx.tensors import EXTERNAL, data_length, data_of, header_of
from aioflow.tensors.as_array import AnyArray

_LARGEST: Final = 1_900_000_000
"""The most bytes of a model with its weights in one file."""
_LEAST: Final = 1 << 12
"""The fewest bytes of a large initial value, and the step of places in the second file: the size of a page."""


@dataclasses.dataclass(frozen=True, slots=True)
class Content:
    """The content of a model.

    Attributes:
        nodes: messages.
        inputs: declarations, as messages.
        outputs: declarations, as messages.
        initials: the initial values, by name.
        opset: the version of ONNX's operators.
        form: the version of the format.
        external_data: whether large initial values go in a second file, however few they are.
    """

    nodes: Sequence[Any]
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    initials: Mapping[str, AnyArray]
    opset: int
    form: int
    external_data: bool

    def large(self) -> dict[str, AnyArray]:
        """The initial values whose bytes no message copies."""
        numbers = {name: array for name, array in self.initials.items() if array.dtype != object}
        return {name: array for name, array in numbers.items() if data_length(array) >= _LEAST}


def write(path: Path, content: Content, given_up: threading.Event) -> None:
    """Write a model, once ONNX's checker has accepted it. Nothing changes at the path if it fails, or is given up.

    The name of a second file is that of the model with `_data` behind it. It takes that right before the model does.

    Raises:
        FailedPreconditionError: the path is that of a folder.
        PermissionDeniedError, ResourceExhaustedError: the file may not be written, the disk is full, or the model has
            more than 2 GiB beside its large numeric weights.
        CancelledError: it was given up.
    """
    if path.is_dir():
        raise errors.FailedPreconditionError(f"{str(path)!r} is a folder, not a file")
    folder = path.parent.resolve()
    draft = folder / f".{path.name}.{secrets.token_hex(4)}"
    try:
        with translate_errors(str(path)):
            names = _fill(draft, path.name, content, given_up)
            _check_going(given_up)
            for name in names:
                os.replace(draft / name, folder / name)
    except encode_error() as error:
        text = f"{str(path)!r} would have more than 2 GiB beside large weights, the most of a file in the ONNX format"
        raise errors.ResourceExhaustedError(text) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _fill(draft: Path, name: str, content: Content, given_up: threading.Event) -> list[str]:
    """Write the files of a model to a new folder, durably. Returns their names, that of the model last.

    The checker sees the model with its weights in a second file in any case: it reads them not.
    """
    storage, large, beside = LocalStorage(str(draft)), content.large(), f"{name}_data"
    model, graph = _messages(content, large)
    whole = _with_places(model, graph, large, beside)
    apart = large and (content.external_data or len(whole) + sum(map(data_length, large.values())) > _LARGEST)
    if large:
        storage.write(beside, _spans(_aligned(large) if apart else (), given_up))
    storage.write(name, [memoryview(whole)])
    package().checker.check_model(draft / name)
    if large and not apart:
        storage.write(name, _spans(attached(model, graph, large), given_up))
    return [beside, name] if apart else [name]


def _messages(content: Content, large: Mapping[str, AnyArray]) -> tuple[Any, Any]:
    """A model without its graph, and its graph without large initial values."""
    helper, from_array = package().helper, package().numpy_helper.from_array
    small = [from_array(array, name) for name, array in content.initials.items() if name not in large]
    graph = helper.make_graph(content.nodes, "aioflow", content.inputs, content.outputs, small)
    opsets = [helper.make_opsetid("", content.opset)]
    model = helper.make_model(
        package().GraphProto(), opset_imports=opsets, ir_version=content.form, producer_name="aioflow"
    )
    model.ClearField("graph")
    return model, graph


def _with_places(model: Any, graph: Any, large: Mapping[str, AnyArray], file: str) -> bytes:
    """The bytes of a model, with the place of each large initial value in a second file."""
    whole, offset = package().ModelProto(graph=graph), 0
    whole.MergeFrom(model)
    for name, array in large.items():
        tensor, length = header_of(name, array), data_length(array)
        tensor.data_location = EXTERNAL
        for key, value in (("location", file), ("offset", str(offset)), ("length", str(length))):
            tensor.external_data.add(key=key, value=value)
        whole.graph.initializer.append(tensor)
        offset += length + -length % _LEAST
    return bytes(whole.SerializeToString())


def _aligned(large: Mapping[str, AnyArray]) -> Iterator[memoryview]:
    """The bytes of the second file, in which each value begins at a page."""
    for array in large.values():
        yield data_of(array)
        yield memoryview(bytes(-data_length(array) % _LEAST))


def _spans(parts: Iterable[memoryview], given_up: threading.Event) -> Iterator[memoryview]:
    """The parts in spans, between which a write can be given up."""
    for part in parts:
        for start in range(0, len(part), SPAN):
            _check_going(given_up)
            yield part[start : start + SPAN]


def _check_going(given_up: threading.Event) -> None:
    if given_up.is_set():
        raise errors.CancelledError("the save was given up")
