"""`save`: a part of a graph as a model in the ONNX format, with the values that its variables have in a session."""

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aioflow import errors
from aioflow.files.threaded_write import write_on_thread
from aioflow.graph.effects import changes_variables
from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.exporting import Export, declaration, is_written, needed_operations, operations_within
from aioflow.onnx.results import Output, Result, results_of
from aioflow.onnx.tensors import NUMBERS
from aioflow.onnx.writing import Content, write
from aioflow.session import Session
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import resource

_VERSIONS: Final = ((21, 10, 22), (23, 11, 23), (24, 12, 24), (25, 13, 26))
"""Versions of ONNX's operators, of the format that they go with, and the last number of a dtype that they have."""


async def save(
    path: str | os.PathLike[str],
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Output],
    session: Session,
    external_data: bool = False,
) -> None:
    """Write what computes the outputs from the inputs to a file, once ONNX's checker has accepted it.

    Variables become initial values, with the values that they have in the session. If they and the constants have more
    than 1.9 GB together, the large ones go in a second file beside the model, of its name with `_data` behind it. The
    files are written on a thread, and take their names when both are complete and on the disk, the model last. A
    cancelled save has ended, and leaves the files as they were, unless they have their names already.

    Args:
        path: the file.
        inputs: the tensors that users of the model give, by the names that they get. They need not be placeholders.
        outputs: the results, by name: tensors, or lists of tensors of one dtype, or TensorArrays, which become
            sequences.
        session: the session that has the variables.
        external_data: whether the large weights of a smaller model go in a second file, too.

    Raises:
        ImportError: the package onnx is not installed.
        TypeError: an input is not a tensor, but a TensorArray, for example, or an output has no tensors.
        ValueError: an input and an output have the same name, a name is empty or no text, or there is no output.
        UnimplementedError: operations have no form in ONNX, or wait for a change of a variable that the outputs need;
            the error lists them all. No file is written.
        InvalidArgumentError: an output depends on a placeholder that is not among the inputs.
        FailedPreconditionError: the path is that of a folder.
        PermissionDeniedError, ResourceExhaustedError: the files may not be written, the disk is full, or the texts of
            the model have more than 2 GiB.

    Examples:
        >>> x = af.placeholder(af.float32, [None, 2], name="x")
        >>> await af.onnx.save("model.onnx", inputs={"x": x}, outputs={"y": af.nn.relu(x)}, session=session)
        >>> imported = af.onnx.load("model.onnx", af.Graph())
        >>> imported.outputs["y"].shape
        TensorShape([None, 2])
    """
    _check_names(inputs, outputs)
    _check_tensors(inputs)
    results = results_of(outputs)
    needed = [tensor for result in results for tensor in result.tensors]
    fixed = _fixed(needed_operations(needed, {*inputs.values()}))
    operations = needed_operations(needed, {*inputs.values(), *fixed})
    used = {*needed, *[tensor for op in operations for tensor in op.inputs]}
    fixed = [tensor for tensor in fixed if tensor in used]
    _check(operations)
    reads = _reads(operations) | {tensor: tensor for tensor in fixed}
    values = await session.run(reads) if reads else {}
    export = _export(inputs, results, values, fixed)
    given = [declaration(name, tensor.spec, f"{name}_") for name, tensor in inputs.items()]
    versions = _versions([*inputs.values()], operations)
    declared = given, [result.declared() for result in results]
    content = Content(export.nodes, *declared, export.initials, *versions, external_data)
    await write_on_thread(os.fspath(path), functools.partial(write, Path(path), content))


def _check_tensors(named: Mapping[str, Any]) -> None:
    for name, tensor in named.items():
        if not isinstance(tensor, Tensor) or tensor.dtype is resource:
            raise TypeError(f"{name!r} of a saved model is a tensor, not {tensor!r}; save what is read from it")


def _check_names(inputs: Mapping[str, Tensor], outputs: Mapping[str, Output]) -> None:
    if not outputs:
        raise ValueError("a saved model needs an output: `outputs` is empty")
    for name in (*inputs, *outputs):
        if not isinstance(name, str) or not name:
            raise ValueError(f"{name!r} cannot name an input or output of a saved model: give a text that is not empty")
    for name in outputs:
        if name in inputs:
            raise ValueError(f"{name!r} names an input and an output of a saved model: ONNX needs different names")


def _fixed(operations: Sequence[Operation]) -> list[Tensor]:
    """Results of operations without a form in ONNX that depend on constants alone: they become constants themselves."""
    constant, found = set[Operation](), list[Tensor]()
    for op in operations:
        depends = op.inputs and not op.control_inputs and not op.definition.stateful
        if op.type == "constant" or (depends and all(tensor.op in constant for tensor in op.inputs)):
            constant.add(op)
            found += [] if is_written(op) else [each for each in op.outputs if each.dtype in NUMBERS]
    return found


def _check(operations: Sequence[Operation]) -> None:
    fed = [op.name for op in operations if op.type == "placeholder"]
    if fed:
        raise errors.InvalidArgumentError(f"the outputs need placeholder {fed[0]!r}, which is not among the inputs")
    every = operations_within(operations)
    missing = dict.fromkeys(f"{_kind(op)} ({op.name!r})" for op in every if not is_written(op))
    if missing:
        raise errors.UnimplementedError(f"{len(missing)} operations have no form in ONNX: {', '.join(missing)}")
    _check_order(operations)


def _kind(op: Operation) -> str:
    """The type of an operation, with a complex dtype: ONNX may have it for real numbers alone."""
    dtypes = [tensor.dtype.name for tensor in (*op.inputs, *op.outputs) if tensor.dtype.is_complex]
    return f"{op.type} of {dtypes[0]}" if dtypes else op.type


def _check_order(operations: Sequence[Operation]) -> None:
    """UnimplementedError if an operation waits for a change of a variable of the model, in which nothing changes."""
    handles = {op.outputs[0] for op in operations if op.type == "variable"}
    found, left = set[Operation](), [first for op in operations_within(operations) for first in op.control_inputs]
    while left:
        op = left.pop()
        if op not in found:
            found.add(op)
            left += [*op.control_inputs, *[tensor.op for tensor in op.inputs]]
    changes = sorted(op.name for op in found if changes_variables(op.definition) and handles.intersection(op.inputs))
    if changes:
        raise errors.UnimplementedError(f"the outputs wait for changes of their variables: {', '.join(changes)}")


def _reads(operations: Sequence[Operation]) -> dict[Tensor, Tensor]:
    """A read of each variable, by its handle; a variable has one from its construction on."""
    handles = {op.outputs[0] for op in operations if op.type == "variable"}
    found: dict[Tensor, Tensor] = {}
    for op in next(iter(handles)).graph.get_operations() if handles else ():
        if op.type == "read_variable" and op.inputs[0] in handles:
            found.setdefault(op.inputs[0], op.outputs[0])
    return found


def _versions(inputs: Sequence[Tensor], operations: Sequence[Operation]) -> tuple[int, int]:
    """The versions of the operators and of the format: the oldest that have all dtypes."""
    tensors = [*inputs, *[tensor for op in operations_within(operations) for tensor in op.outputs]]
    newest = max([NUMBERS.get(tensor.dtype, 0) for tensor in tensors], default=0)
    return next((version, form) for version, form, last in _VERSIONS if newest <= last)


def _export(
    inputs: Mapping[str, Tensor],
    results: Sequence[Result],
    values: Mapping[Tensor, AnyArray],
    fixed: Sequence[Tensor],
) -> Export:
    taken = {*inputs, *[result.name for result in results]}
    export = Export({tensor: name for name, tensor in inputs.items()}, taken, values)
    for tensor in fixed:
        if tensor.dtype.is_complex:
            export.set_parts(tensor, values[tensor])
        else:
            export.bind(tensor, export.initial(values[tensor], tensor.op.name))
    export.write([tensor for result in results for tensor in result.tensors], {*inputs.values(), *fixed})
    for result in results:
        result.write(export)
    return export
