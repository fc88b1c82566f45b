"""A loaded model: its tensors and variables by the model's names."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.library.tensor_array import TensorArray
from aioflow.library.variables import Variable
from aioflow.onnx.optional_value import OptionalValue


@dataclasses.dataclass(frozen=True, slots=True)
class ImportedModel:
    """A model as a part of a graph.

        imported = af.onnx.load("model.onnx")
        async with af.Session() as session:
            await session.run(imported.initializer)
            results = await session.run(imported.outputs, {imported.inputs["x"]: batch})

    Attributes:
        graph: the graph that it was loaded into.
        inputs: the tensors to feed, by name; for a sequence a TensorArray, which is fed a list of arrays; for an
            optional an `af.onnx.OptionalValue`, which is fed its value, or None.
        outputs: the results, by name: tensors, and for sequences lists of tensors or TensorArrays. A run gives both as
            lists of arrays. An optional of which only the run knows whether it is empty is an `OptionalValue`, and one
            that is known to be empty is None.
        tensors: all tensors of the model's outermost graph, by name.
        variables: the weights, by name.
        initializer: the operation that gives the variables the values of the file.
        defaults: the inputs that have a value in the file, by name: a run may be fed another one. They are the weights
            and floating-point scalars among such inputs; others, such as axes, are fixed when the graph is built.

    Examples:
        >>> x = af.placeholder(af.float32, [None, 2], name="x")
        >>> await af.onnx.save("model.onnx", inputs={"x": x}, outputs={"y": x * 2.0}, session=session)
        >>> imported = af.onnx.load("model.onnx", af.Graph())
        >>> [*imported.inputs], [*imported.outputs]
        (['x'], ['y'])
    """

    graph: Graph
    inputs: Mapping[str, Tensor | TensorArray | OptionalValue]
    outputs: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    variables: Mapping[str, Variable]
    initializer: Operation
    defaults: Mapping[str, Tensor]
