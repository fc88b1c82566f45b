"""`save`: a part of a graph as a model in the ONNX format, with the values that its variables have in a session."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aioflow import errors
from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.exporters import EXPORTERS
from aioflow.onnx.exporting import VERSION, Export
from aioflow.onnx.protobuf import package
from aioflow.onnx.tensors import NUMBERS
from aioflow.session import Session
from aioflow.tensors.as_array import AnyArray

_FORMAT = 10
"""The version of the format that operators of version 21 go with."""


async def save(
    path: str | os.PathLike[str], inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], session: Session
) -> None:
    """Write what computes the outputs from the inputs to a file, once ONNX's checker has accepted it.

    Variables become initial values, with the values that they have in the session. The file is written on a thread; a
    cancelled call may leave a part of it.

    Args:
        path: the file.
        inputs: the tensors that users of the model give, by the names that they get. They need not be placeholders.
        outputs: the results, by name.
        session: the session that has the variables.

    Raises:
        ImportError: the package onnx is not installed.
        UnimplementedError: operations have no form in ONNX; the error lists them all. No file is written.
        InvalidArgumentError: an output depends on a placeholder that is not among the inputs.
    """
    operations = _needed(inputs.values(), outputs.values())
    _check(operations)
    reads = [op.outputs[0] for op in operations if op.type == "read_variable"]
    values = await session.run(reads) if reads else []
    data = _model(operations, inputs, outputs, dict(zip(reads, values, strict=True)))
    await asyncio.to_thread(Path(path).write_bytes, data)


def _needed(inputs: Any, outputs: Any) -> list[Operation]:
    """The operations that compute the outputs, in the order in which they were built, as far as the inputs."""
    given, found = {*inputs}, dict[Operation, None]()
    left = [tensor for tensor in outputs if tensor not in given]
    while left:
        op = left.pop().op
        if op in found:
            continue
        found[op] = None
        if op.type != "read_variable":
            left += [tensor for tensor in op.inputs if tensor not in given]
    places = {op: place for place, op in enumerate(next(iter(found)).graph.get_operations())} if found else {}
    return sorted(found, key=places.__getitem__)


def _check(operations: Sequence[Operation]) -> None:
    fed = [op.name for op in operations if op.type == "placeholder"]
    if fed:
        raise errors.InvalidArgumentError(f"the outputs need placeholder {fed[0]!r}, which is not among the inputs")
    known = {"constant", "read_variable"} | EXPORTERS.keys()
    missing = dict.fromkeys(f"{op.type} ({op.name!r})" for op in operations if op.type not in known)
    if missing:
        raise errors.UnimplementedError(f"{len(missing)} operations have no form in ONNX: {', '.join(missing)}")


def _model(
    operations: Sequence[Operation],
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
    values: Mapping[Tensor, AnyArray],
) -> bytes:
    export = Export({tensor: name for name, tensor in inputs.items()}, {*inputs, *outputs})
    for op in operations:
        if op.type == "constant":
            export.give(op.outputs[0], op.attrs["value"])
        elif op.type == "read_variable":
            export.give(op.outputs[0], values[op.outputs[0]], op.inputs[0].op.name)
        else:
            export.build(op, EXPORTERS[op.type])
    for name, tensor in outputs.items():
        export.nodes.append(export.node("Identity", [export.name(tensor)], [name]))
    return _message(export, inputs, outputs)


def _message(export: Export, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> bytes:
    onnx = package()
    initials = [onnx.numpy_helper.from_array(array, name) for name, array in export.initials.items()]
    declared = [list(_declared(each)) for each in (inputs, outputs)]
    graph = onnx.helper.make_graph(export.nodes, "aioflow", *declared, initials)
    opsets = [onnx.helper.make_opsetid("", VERSION)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=_FORMAT, producer_name="aioflow")
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _declared(tensors: Mapping[str, Tensor]) -> Iterator[Any]:
    """The declarations of tensors; an open size is named after its axis."""
    for name, tensor in tensors.items():
        sizes = tensor.spec.sizes
        shape = None if sizes is None else [f"{name}_{i}" if size is None else size for i, size in enumerate(sizes)]
        yield package().helper.make_tensor_value_info(name, NUMBERS[tensor.dtype], shape)
