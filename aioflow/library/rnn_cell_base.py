"""The base of all cells of recurrent nets: their variables, and their initial state."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from aioflow.graph.building import get_default_graph
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import identity, zeros
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.elementwise import exp, sigmoid, tanh
from aioflow.kernels.nn.activation import bias_add, elu, relu, selu, softplus, softsign
from aioflow.kernels.nn.softmax import softmax
from aioflow.library.control import name_scope
from aioflow.library.nn_functions import hard_sigmoid
from aioflow.library.variable_scope import Reuse, VariableScope, get_variable, variable_scope
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.tensors.class_names import snake_case
from aioflow.tensors.dtypes import FLOAT, DType, as_dtype, float32
from aioflow.tensors.shape import TensorShape

Activation = Callable[[Tensor], Tensor]


class RNNCell:
    """One step of a recurrent network: (inputs, state) -> (output, next state).

    A subclass defines `state_size`, `output_size` and `call(inputs, state)`, which builds a step. It creates variables
    by `get_variable`, in `build(inputs_shape)` or in `call`, in a variable scope that the first call of the cell opens:
    the scope is named `name`, made unique in the enclosing scope, or is the `scope` argument. All calls of a cell use
    the same variables.

    Args:
        trainable: whether optimizers change its variables.
        name: the name of its variable scope; by default that of its class, such as `lstm_cell` for LSTMCell.
        dtype: the dtype of its variables; by default that of its inputs.
        reuse: whether its variables exist already, in the scope of exactly that name.

    Examples:
        >>> class Sum(af.nn.rnn_cell.RNNCell):
        ...     state_size = output_size = 1
        ...     def call(self, inputs, state):
        ...         total = state + af.reduce_sum(inputs, 1, keepdims=True)
        ...         return total, total
        >>> _, total = af.nn.dynamic_rnn(Sum(), np.ones((1, 5, 3), np.float32), dtype=af.float32)
        >>> await session.run(total)
        array([[15.]], dtype=float32)
    """

    built = False
    _trainable = True
    _name: str | None = None
    _dtype: DType | None = None
    _reuse: Reuse = None
    _scope: VariableScope | None = None
    _home: Graph | None = None
    _variables: tuple[Variable, ...] = ()

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, reuse: Reuse = None) -> None:
        self._trainable = trainable
        self._name = name
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._reuse = reuse

    # Defined by subclasses

    @property
    def state_size(self) -> Any:
        """The size of the state: an int or a TensorShape without the batch, or a nested structure of these."""
        raise NotImplementedError(f"{type(self).__name__} has no state_size")

    @property
    def output_size(self) -> Any:
        """The size of the output: an int or a TensorShape without the batch, or a nested structure of these."""
        raise NotImplementedError(f"{type(self).__name__} has no output_size")

    def build(self, inputs_shape: Any) -> None:
        """Create the variables. Called once, before the first `call`, with the shape of the inputs."""

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return the output and the next state."""
        raise NotImplementedError(f"{type(self).__name__} has no call(inputs, state)")

    # Called by users

    def __call__(self, inputs: Any, state: Any, scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Return the output and the next state.

        Args:
            inputs: the input of this step, [batch, features] for the cells of this module.
            state: the state before, with the structure and sizes of `state_size`.
            scope: the variable scope of the cell, if this is its first call.

        Raises:
            ValueError: shapes or structures do not fit, or variables exist against `reuse`, or are missing.
        """
        with get_default_graph().transaction(), self._open_scope(scope):
            given = nest.map_structure(convert_to_tensor, inputs)
            self._build_once(given, nest.map_structure(lambda tensor: tensor.shape, given))
            return self.call(given, state)

    def all_steps(self, inputs: Any, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any] | None:
        """The outputs of all steps and the last state by one operation; None if the cell must be called in a loop.

        The inputs are [steps, batch, ...]. `lengths` are those of the sequences, if they differ.
        """
        return None

    @contextlib.contextmanager
    def with_variables(self, inputs: Any, shapes: Any) -> Iterator[None]:
        """Inside, the cell has its variables, for inputs of these shapes in a step."""
        with get_default_graph().transaction(), self._open_scope(None):
            self._build_once(inputs, shapes)
            yield

    def _build_once(self, inputs: Any, shapes: Any) -> None:
        if not self.built:
            self._set(_dtype=self._dtype or _dtype_of(inputs))
            self.build(shapes)
            self._set(built=True)

    def zero_state(self, batch_size: NumberLike, dtype: Any) -> Any:
        """Return a state of zeros, with the structure of `state_size`, each [batch_size, size]."""
        with name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            return zero_states(self.state_size, batch_size, dtype)

    def get_initial_state(self, inputs: Any = None, batch_size: NumberLike | None = None, dtype: Any = None) -> Any:
        """Return a state of zeros for `inputs` [batch, ...], or for that batch size and dtype."""
        if inputs is not None:
            tensor = convert_to_tensor(inputs)
            known = None if tensor.spec.rank is None else tensor.shape[0].value
            batch_size = shape(tensor)[0] if known is None else known
            dtype = tensor.dtype
        if batch_size is None or dtype is None:
            raise ValueError("get_initial_state needs inputs, or a batch_size and a dtype")
        return self.zero_state(batch_size, dtype)

    @property
    def name(self) -> str:
        """The name of its variable scope, before it is made unique."""
        return self._name or snake_case(type(self).__name__)

    @property
    def dtype(self) -> DType | None:
        """The dtype of its variables, None if it is not known yet."""
        return self._dtype

    @property
    def variables(self) -> list[Any]:
        """Its variables in the order of creation, including those of inner cells."""
        return list(self._variables)

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that optimizers change."""
        return [variable for variable in self.variables if variable.trainable]

    weights = variables
    trainable_weights = trainable_variables

    # Variables

    def add_variable(self, name: str, shape: Any, initializer: Any = None) -> Any:
        """Return a variable of the cell, by `get_variable`."""
        return get_variable(name, shape, self._dtype or float32, initializer, trainable=self._trainable)

    @contextlib.contextmanager
    def _open_scope(self, scope: str | VariableScope | None) -> Iterator[None]:
        """Inside, `get_variable` creates variables of the cell, or finds existing ones."""
        graph = get_default_graph().root
        if self._home not in (None, graph):
            raise ValueError(f"the variables of {self!r} are in another graph: make another cell for this one")
        if self._scope is not None:
            block = variable_scope(self._scope, reuse=self.built or self._reuse)
        elif scope is not None or self._reuse:
            entered = self.name if scope is None else scope
            block = variable_scope(entered, reuse=self._reuse, custom_getter=self._record_variable)
        else:
            block = variable_scope(None, self.name, custom_getter=self._record_variable)
        with block as opened:
            if self._scope is None:
                self._set(_scope=opened, _home=graph)
            yield

    def _record_variable(self, getter: Callable[..., Any], name: str, *args: Any, **options: Any) -> Any:
        variable = getter(name, *args, **options)
        if all(variable is not each for each in self._variables):
            self._set(_variables=(*self._variables, variable))
        return variable

    def _set(self, **attributes: Any) -> None:
        """Set attributes. They are restored if the present construction fails."""
        before = {name: getattr(self, name) for name in attributes}
        self.__dict__.update(attributes)
        get_default_graph().on_failure(lambda: self.__dict__.update(before))

    def __repr__(self) -> str:
        return f"<af.nn.rnn_cell.{type(self).__name__} {self.name!r}>"


def _dtype_of(inputs: Any) -> DType:
    """Return the dtype of the first floating tensor of a structure, else float32."""
    return next((tensor.dtype for tensor in nest.flatten(inputs) if tensor.dtype in FLOAT), float32)


def sizes_of(size: Any) -> list[Any]:
    """Return the sizes of a leaf of `state_size` or `output_size`, without the batch."""
    return size.as_list() if isinstance(size, TensorShape) else [size]


def zero_states(state_size: Any, batch_size: NumberLike, dtype: Any) -> Any:
    """Return zeros with the structure of `state_size`, each [batch_size, size], of one dtype or a structure of them."""
    sizes = nest.flatten(state_size)
    dtypes = nest.flatten(dtype) if nest.is_nested(dtype) else [dtype] * len(sizes)
    pairs = zip(sizes, dtypes, strict=True)
    return nest.pack_sequence_as(state_size, [zeros([batch_size, *sizes_of(s)], as_dtype(d)) for s, d in pairs])


def features_of(inputs_shape: TensorShape) -> int:
    """Return the number of features of inputs [batch, features]. ValueError if it is unknown."""
    if inputs_shape.ndims not in (None, 2):
        raise ValueError(f"the inputs of a cell have shape [batch, features], not {inputs_shape}")
    size = None if inputs_shape.sizes is None else inputs_shape.sizes[1]
    if size is None:
        raise ValueError(f"the number of features of the inputs must be known, their shape is {inputs_shape}")
    return size


def linear(parts: Sequence[Tensor], kernel: Any, bias: Any) -> Tensor:
    """Return the concatenated parts times `kernel`, plus `bias`."""
    return bias_add(matmul(concat(parts, 1), kernel), bias)


def checked_units(num_units: Any, what: str = "num_units") -> int:
    """Check a number of units. TypeError or ValueError for other values."""
    if isinstance(num_units, bool) or not hasattr(num_units, "__index__"):
        raise TypeError(f"{what} must be an int, not {num_units!r}")
    if num_units < 1:
        raise ValueError(f"{what} must be at least 1, not {num_units}")
    return int(num_units)


_ACTIVATIONS: Final[dict[str, Activation]] = {
    "elu": elu,
    "exponential": exp,
    "hard_sigmoid": hard_sigmoid,
    "linear": identity,
    "relu": relu,
    "selu": selu,
    "sigmoid": sigmoid,
    "softmax": softmax,
    "softplus": softplus,
    "softsign": softsign,
    "tanh": tanh,
}


def checked_activation(activation: Activation | str | None) -> Activation:
    """Return the activation function of a cell, given itself or by its name; `tanh` by default."""
    if isinstance(activation, str):
        if activation not in _ACTIVATIONS:
            raise ValueError(f"{activation!r} is no activation; the names are {', '.join(_ACTIVATIONS)}")
        return _ACTIVATIONS[activation]
    if activation is not None and not callable(activation):
        raise TypeError(f"activation must be a function of a tensor, as af.nn.relu, not {activation!r}")
    return tanh if activation is None else activation
