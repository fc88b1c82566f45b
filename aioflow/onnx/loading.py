"""`load`: a model from a file or bytes into a graph."""

from collections.abc import Iterator

from aioflow import errors
from aioflow.files.byte_count import Progress
from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, identity, placeholder, placeholder_with_default
from aioflow.library.control import group
from aioflow.library.tensor_array import TensorArray
from aioflow.library.variables import Variable
from aioflow.onnx.build import Builder, Scope, valid_name
from aioflow.onnx.call import Value
from aioflow.onnx.expansion import check_size
from aioflow.onnx.loaded import ImportedModel
from aioflow.onnx.missing import check_operators
from aioflow.onnx.model import GraphBody, Model, ValueType
from aioflow.onnx.operators.lists import element_spec
from aioflow.onnx.operators.optionals import present
from aioflow.onnx.optional_value import OptionalValue
from aioflow.onnx.reading import Source, read_model
from aioflow.onnx.weights import Role, roles
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import FLOAT, as_dtype, bool_


def load(
    path_or_bytes: Source, graph: Graph | None = None, trainable: bool = True, progress: Progress | None = None
) -> ImportedModel:
    """Build the operations of a model in the ONNX format, of version 7 of its operators or later.

    Floating-point weights become variables, other initial values constants. The names of the model are those of
    operations and variables, with "_" for characters that these cannot have. A size that the model states of an output,
    or of a tensor between nodes, and that does not follow from the nodes is checked in each run. The file is read at
    once: call this before the event loop serves others, or on a thread.

    Args:
        path_or_bytes: the path of a file, in whose folder external data may lie, or the bytes of a model.
        graph: the graph to build in; the default graph by default.
        trainable: whether optimizers change the weights by default. The mean and variance of batch normalisation are
            never trainable.
        progress: called with the number of built nodes and of all nodes after each node, such as
            `af.train.Progress(unit="node")`; None for nothing.

    Returns:
        The tensors to feed and to fetch, by the model's names.

    Raises:
        ImportError: the package onnx is not installed.
        UnimplementedError: operators are not known, all of which the error lists, or a dtype is not. Nothing is built.
        DataLossError: the bytes are no model, or are damaged.
        InvalidArgumentError: names are missing or given twice, nodes form a cycle or make an output of another dtype
            than the model declares, or functions call each other without end or so often that they stand for more
            nodes than a graph can hold.
        PermissionDeniedError: external data lie outside of the model's folder, or a file may not be read.
        NotFoundError: the file, or one of external data, does not exist.
        FailedPreconditionError: one of them is a folder, a pipe or a device, which is not read.
        ResourceExhaustedError: a sparse tensor has more than 2 GiB as a dense one.
        ValueError, TypeError: inputs of a node do not fit each other, or its operator.

    Examples:
        >>> x = af.placeholder(af.float32, [None, 2], name="x")
        >>> await af.onnx.save("model.onnx", inputs={"x": x}, outputs={"y": x * 2.0}, session=session)
        >>> imported = af.onnx.load("model.onnx")
        >>> await session.run(imported.initializer)
        >>> await session.run(imported.outputs, {imported.inputs["x"]: [[1.0, 2.0]]})
        {'y': array([[2., 4.]], dtype=float32)}
    """
    model = read_model(path_or_bytes)
    check_operators(model)
    check_size(model)
    target = get_default_graph() if graph is None else graph
    with target.as_default(), target.transaction():
        return _Import(model, trainable, progress or _silent).result(target)


def _silent(done: int, total: int) -> None:
    """Show no progress."""


class _Import:
    """Builds one model."""

    def __init__(self, model: Model, trainable: bool, progress: Progress) -> None:
        self._model = model
        self._trainable = trainable
        self._progress = progress
        self._variables: dict[str, Variable] = {}

    def result(self, graph: Graph) -> ImportedModel:
        body = self._model.graph
        inputs = {name: _input(name, declared) for name, declared in body.inputs.items()}
        scope: Scope = {**inputs, **dict(self._initial_values(body))}
        builder = Builder(self._model)
        for done, node in enumerate(body.nodes, 1):
            builder.run([node], scope, self._model.opsets, body.declared)
            self._progress(done, len(body.nodes))
        for name, declared in body.outputs.items():
            scope[name] = scope[name] if declared.kind == "optional" else present(scope[name])
            _check_output(name, declared, scope[name])
        outputs = {name: _output(name, scope[name]) for name in body.outputs}
        tensors = {name: value for name, value in scope.items() if isinstance(value, Tensor)}
        initializer = group(*[variable.initializer for variable in self._variables.values()], name="initializer")
        defaults = {name: tensors[name] for name in self._model.defaults if self._is_open(name)}
        return ImportedModel(graph, inputs, outputs, tensors, self._variables, initializer, defaults)

    def _initial_values(self, body: GraphBody) -> Iterator[tuple[str, Tensor]]:
        kinds = roles(body)
        for name, array in body.initializers.items():
            yield name, self._initial_value(name, array, kinds[name])

    def _initial_value(self, name: str, array: AnyArray, role: Role) -> Tensor:
        if role is Role.CONSTANT:
            value = constant(array, name=valid_name(name))
            return placeholder_with_default(value, value.shape) if self._is_open(name) else value
        trainable = self._trainable and role is Role.WEIGHT
        variable = self._variables[name] = Variable(array, trainable, name=valid_name(name))
        # Its first read will do: nothing that is built before changes it.
        read = variable.graph.as_graph_element(variable, allow_operation=False)
        assert isinstance(read, Tensor)
        return read

    def _is_open(self, name: str) -> bool:
        """Whether a run may be fed another value. The graph may be built by integers and vectors of settings."""
        if name not in self._model.defaults or name in self._variables:
            return name in self._model.defaults
        array = self._model.graph.initializers[name]
        return array.ndim == 0 and as_dtype(array.dtype) in FLOAT


def _input(name: str, declared: ValueType) -> Tensor | TensorArray | OptionalValue:
    """The tensor, sequence or optional to feed."""
    if declared.kind != "optional" or declared.element is None:
        return _fed(name, declared)
    value = _fed(name, declared.element)
    return OptionalValue(placeholder(bool_, [], name=f"{valid_name(name)}_has_value"), value)


def _fed(name: str, declared: ValueType) -> Tensor | TensorArray:
    if declared.kind == "sequence" and (element := element_spec(declared)) is not None:
        return TensorArray.placeholder(element.dtype, element.shape, name=valid_name(name))
    if declared.kind != "tensor" or declared.dtype is None:
        raise errors.UnimplementedError(
            f"input {name!r} is a {declared.kind}, and runs are fed tensors and lists of them"
        )
    return placeholder(declared.dtype, declared.shape, name=valid_name(name))


def _check_output(name: str, declared: ValueType, value: Value) -> None:
    """InvalidArgumentError if the nodes make something else of an output than the model declares, if it does."""
    if declared.kind == "optional":
        inner = value.value if isinstance(value, OptionalValue) else value
        if declared.element is not None and inner is not None:
            _check_output(name, declared.element, inner)
        return
    if declared.kind == "tensor" and declared.dtype is None:
        return
    made = "no value" if value is None else "a tensor" if isinstance(value, Tensor) else "a sequence"
    if made != f"a {declared.kind}":
        raise errors.InvalidArgumentError(f"output {name!r} is declared as a {declared.kind}, and nodes make {made}")
    if isinstance(value, Tensor) and declared.dtype is not None and value.dtype is not declared.dtype:
        raise errors.InvalidArgumentError(
            f"output {name!r} is declared as {declared.dtype.name}, and the node {value.op.name!r} makes "
            f"{value.dtype.name}"
        )


def _output(name: str, value: Value) -> Value:
    if isinstance(value, TensorArray):
        return value.with_flow(identity(value.flow, name=valid_name(name)))
    if isinstance(value, list):
        return [_output(name, item) for item in value]
    if isinstance(value, OptionalValue):
        return value
    return None if value is None else identity(value, name=valid_name(name))
