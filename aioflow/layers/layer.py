"""A layer: weights, and a function of tensors that uses them."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from aioflow.graph.building import add_user_line, same_graph
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import identity
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.layers import by_name, calls
from aioflow.layers.called import Called
from aioflow.layers.masks import give_masks, masks_of
from aioflow.layers.numbers import sizes, switch
from aioflow.layers.regularizers import Regularizer
from aioflow.layers.signatures import accepted, check_arguments, first_of, parameters, takes_one_tensor
from aioflow.library.control import name_scope
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.tensors.class_names import snake_case
from aioflow.tensors.dtypes import DTypeLike, as_dtype, float32, float64
from aioflow.tensors.recursion import safe_repr
from aioflow.tensors.shape import ShapeLike, TensorShape


class Layer(Called):
    """Weights, and a function of tensors that uses them.

    A layer is called with a tensor, or a structure of tensors. The first call makes its weights, for the shapes of its
    inputs; each call adds operations to the graph of the inputs. So one layer called twice shares its weights.

    A subclass makes its weights in `build`, by `add_weight`, and defines `call`. A layer that is an attribute of it, or
    in a list or dict that is one, is a part of it: its weights are among those of the whole.

    Args:
        trainable: whether optimizers change its weights.
        name: its name, under which its weights and operations are found; that of the class by default, made unique in
            the graph.
        dtype: the dtype of its weights.
        input_shape: the shape of its inputs without the batch, from which a `Sequential` can be built at once.

    Examples:
        >>> class Scale(af.layers.Layer):
        ...     def build(self, input_shape):
        ...         self.factor = self.add_weight("factor", [], initializer="ones")
        ...     def call(self, inputs):
        ...         return inputs * self.factor
        >>> Scale()(af.ones([2, 3])).shape
        TensorShape([2, 3])
    """

    supports_masking = False
    """Whether outputs get the masks that `compute_mask` gives for those of the inputs."""
    casts_integers = False
    """Whether inputs that are integers, booleans or arrays of float64 become floats, of the dtype of the weights."""
    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Remember the arguments, for `like_this`. TypeError for one that the class has not, by its name."""
        kind: type = cls
        known = accepted(kind)
        if known is not None:
            check_arguments(kind, options, known)
        made = super().__new__(cls)
        made._made_with = args, options
        return made

    def __init__(
        self,
        trainable: bool = True,
        name: str | None = None,
        dtype: DTypeLike = float32,
        input_shape: ShapeLike = None,
    ) -> None:
        """TypeError for a name that is no text, a flag that is none, or a shape that is no list of sizes."""
        if not isinstance(name, str | None):
            raise TypeError(f"name is text, not {safe_repr(name)}")
        self._trainable = switch("trainable", trainable)
        self.dtype: Final = as_dtype(dtype)
        self.built: bool = False
        self.input_shape: Final = None if input_shape is None else sizes("input_shape", input_shape)
        self._given_name: Final = name
        self._name: str | None = None
        self._own: list[Variable] = []
        self._made: list[TensorShape] | None = None
        self._penalties: list[Tensor] = []

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute of layers

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, which says so if a subclass has not called `super().__init__()`."""
            if "_own" not in vars(self):
                kind = type(self).__name__
                raise AttributeError(f"{kind} has no {name!r}: call super().__init__() first in {kind}.__init__")
            return super().__getattribute__(name)  # raises the error of the attribute

    # What a subclass defines

    def build(self, input_shape: Any) -> None:
        """Make the weights for inputs of this shape, or structure of shapes."""

    def call(self, *inputs: Any, **arguments: Any) -> Any:
        """Return the result for the inputs, the first parameter.

        `training`, if it is a parameter, says whether the call is one for training. `mask`, if it is one, has the
        masks of the inputs.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no call")

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the output, or masks of the outputs, given those of the inputs, which it returns by default."""
        return mask

    def add_weight(
        self,
        name: str,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        initializer: Any = "glorot_uniform",
        regularizer: Any = None,
        trainable: bool = True,
        constraint: Any = None,
    ) -> Variable:
        """Make a weight, in `build`.

        Args:
            name: its name within the layer.
            shape: its shape, of known sizes.
            dtype: its dtype; that of the layer by default.
            initializer: a name or a function (shape, dtype=) that gives the initial value.
            regularizer: a name or a function whose result for the weight is added to the loss; None for nothing.
            trainable: whether optimizers change it, if the layer is trainable.
            constraint: a name or a function that optimizers apply after each update; None for nothing.

        Raises:
            ValueError: a size is unknown, or there is nothing of that name.
        """
        wanted = as_dtype(self.dtype if dtype is None else dtype)
        known = sizes(f"the shape of the weight {name!r}", shape)
        if not known.is_fully_defined():
            raise ValueError(f"the weight {name!r} of {self.name!r} needs known sizes, not {known}")
        value = by_name.initializer(initializer)
        made = Variable(
            lambda: value(known.as_list(), dtype=wanted), trainable, dtype=wanted, name=name,
            constraint=by_name.constraint(constraint),
        )  # fmt: skip
        self._own.append(made)
        penalty: Regularizer | None = by_name.regularizer(regularizer)
        if penalty is not None:
            with made.graph.as_default():  # outside of a branch or loop that calls the layer first
                self._penalties.append(penalty(made))
            made.graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, self._penalties[-1])
        return made

    def add_loss(self, loss: Tensor) -> None:
        """Add a scalar to the loss of the model, in `call`.

        Outside of `fit` and `evaluate` it joins the collection `REGULARIZATION_LOSSES`, which
        `af.losses.get_total_loss` adds up. ValueError for a loss inside a branch or loop: return it from there first.
        """
        effects = calls.effects()
        if loss.graph is not loss.graph.root:
            raise ValueError(
                f"the loss {loss.op.name!r} is inside a branch or loop: add what the branch or loop returns"
            )
        if effects is not None:
            effects.losses.append(loss)
        else:
            loss.graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)

    def add_activity(self, regularizer: Regularizer | None, outputs: Tensor) -> None:
        """Add the penalty of outputs to the loss, as a mean over the elements of the batch; nothing without one."""
        if regularizer is not None:
            self.add_loss(div_no_nan(regularizer(outputs), cast(shape(outputs)[0], outputs.dtype)))

    def add_update(self, update: Operation) -> None:
        """Run an operation in each step of training, in `call`. It is also in the collection `UPDATE_OPS`.

        ValueError for one inside a branch or loop.
        """
        if update.graph is not update.graph.root:
            raise ValueError(
                f"the update {update.name!r} is inside a branch or loop, and would run outside of it: call the layer "
                "before or after it, or with training=False"
            )
        effects = calls.effects()
        if effects is not None:
            effects.updates.append(update)
        update.graph.root.add_to_collection(GraphKeys.UPDATE_OPS, update)

    # Calls

    def __call__(self, inputs: Any = None, *more: Any, training: bool | None = None, **arguments: Any) -> Any:
        """Add the operations of the layer to the graph of the inputs.

        Args:
            inputs: a tensor, a value that can be converted to one, or a structure of these. It may be given by the
                name that it has in `call`.
            more: the next arguments of `call`.
            training: whether the call is one for training; that of the surrounding phase by default, which is not.
            arguments: the other arguments of `call`.

        Raises:
            ValueError, TypeError: the inputs do not fit; the graph is unchanged then.
        """
        inputs = first_of(type(self).call, inputs, arguments)
        graph = same_graph(*nest.flatten(inputs))
        arguments.update(self._arguments(more))
        try:
            with graph.as_default(), graph.transaction(), undone_on_failure():
                self._remember()
                arguments = nest.map_structure(self._array_as_tensor, arguments)
                tensors = nest.map_structure(self._tensor, inputs)
                masks = masks_of(tensors) if arguments.get("mask") is None else arguments["mask"]
                phase = calls.is_training() if training is None else training
                given = nest.map_structure(self._as_float, tensors) if self.casts_integers else tensors
                outputs = _apart(self._called(given, arguments, masks, phase), tensors)
        except BaseException as error:
            if isinstance(error, (TypeError, ValueError, RecursionError)):
                raise add_user_line(error, self.name, inputs) from error
            raise
        if _inside.get() is None:
            given = arguments if training is None else {**arguments, "training": training}
            calls.record(calls.Call(self, tensors, given, outputs), nest.flatten(outputs))
            self._called_in = graph
        return outputs

    def _remember(self) -> None:
        """Remember what it has built so far, for the surrounding block that may undo more."""
        before = list(self._own), list(self._penalties), self.built, self._name

        def restore() -> None:
            self._own, self._penalties, self.built, self._name = before

        _restoring.get().append(restore)

    def _arguments(self, values: Sequence[Any]) -> dict[str, Any]:
        """The values by the names of the next parameters of `call`. TypeError if there are fewer parameters."""
        names = parameters(type(self).call)[2:]
        if len(values) > len(names):
            raise TypeError(
                f"{self.name!r} takes {1 + len(names)} positional arguments, and {1 + len(values)} were given"
            )
        return dict(zip(names, values, strict=False))

    def _called(self, inputs: Any, arguments: Mapping[str, Any], masks: Any, training: bool) -> Any:
        if nest.is_nested(inputs) and takes_one_tensor(type(self).call):
            raise ValueError(
                f"one tensor is wanted, not {len(nest.flatten(inputs))}: join several, as layers.Concatenate does, or "
                "make one of numbers by af.constant"
            )
        self.build_once(inputs)
        known = dict(arguments)
        if "training" in parameters(type(self).call):
            known["training"] = training
        if masks is not None and "mask" in parameters(type(self).call):
            known["mask"] = masks
        token = _inside.set(self)
        try:
            with name_scope(f"{self.name}/", values=nest.flatten(inputs)), calls.phase(training):
                with self._mended(inputs):
                    outputs = self.call(inputs, **known)
                if self._made is None:
                    self._made = [each.shape for each in nest.flatten(outputs) if isinstance(each, Tensor)]
                if self.supports_masking:
                    outputs = _apart(outputs, inputs)
                    give_masks(outputs, self.compute_mask(inputs, masks))
                return outputs
        finally:
            _inside.reset(token)

    @contextlib.contextmanager
    def _mended(self, inputs: Any) -> Iterator[None]:
        """If the block fails for floats of another precision than that of the weights, the error says so."""
        try:
            yield
        except TypeError as error:
            dtypes = [tensor.dtype for tensor in nest.flatten(inputs) if isinstance(tensor, Tensor)]
            other = next((dtype for dtype in dtypes if dtype.is_floating and dtype is not self.dtype), None)
            if other is None or not self.casts_integers:
                raise
            raise TypeError(
                f"{self.name}: the input is {other.name}, and the layer computes in {self.dtype.name}: cast the input "
                f'by af.cast(x, "{self.dtype.name}"), or make the layer with dtype="{other.name}"'
            ) from error

    def build_once(self, inputs: Any) -> None:
        """Make the weights for inputs like these, unless they are made. ValueError if they are in another graph."""
        graph = same_graph(*nest.flatten(inputs)).root
        if not self.built:
            with graph.as_default(), graph.name_scope(f"{self._named(graph)}/"):  # outside of a loop with the call
                self.build(nest.map_structure(lambda tensor: tensor.shape, inputs))
            self.built = True
        for weight in self._own:
            if weight.graph is not graph:
                raise ValueError("the weights of the layer are in another graph than its inputs")

    def _tensor(self, value: Any) -> Tensor:
        """The value as a tensor; an array in double precision in that of the weights, as `fit` takes arrays."""
        if isinstance(value, Tensor):
            return value
        double = isinstance(value, np.ndarray) and value.dtype == np.float64
        return convert_to_tensor(value, self.dtype if double and not self._takes_double() else None)

    def _array_as_tensor(self, value: Any) -> Any:
        return self._tensor(value) if isinstance(value, np.ndarray) else value

    def _takes_double(self) -> bool:
        """Whether arrays in double precision stay so: a layer is of that dtype, or none computes in another one."""
        every = list(_within(self))
        return any(layer.dtype is float64 for layer in every) or not any(layer.casts_integers for layer in every)

    def _as_float(self, tensor: Tensor) -> Tensor:
        return cast(tensor, self.dtype) if tensor.dtype.is_integer or tensor.dtype.is_bool else tensor

    def _named(self, graph: Graph) -> str:
        if self._name is None:
            outer = _inside.get()
            wanted = self._given_name or snake_case(type(self).__name__)
            with graph.name_scope(None if outer is None else f"{outer.name}/"):
                self._name = graph.unique_name(wanted)
        return self._name

    def like_this(self, **changes: Any) -> Self:
        """A new layer with weights of its own, made with the same arguments but for these; so are layers in these."""
        args, options = self._made_with
        again = {name: _like(value) for name, value in options.items()}
        return type(self)(*[_like(each) for each in args], **{**again, "name": None, **changes})

    # Parts

    @property
    def name(self) -> str:
        """Its name; before the first call that it will have if no other layer takes it."""
        return self._name or self._given_name or snake_case(type(self).__name__)

    @property
    def trainable(self) -> bool:
        """Whether optimizers change its weights. Setting it sets that of its parts, too."""
        return self._trainable

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        self._trainable = trainable
        for layer in self.layers:
            layer.trainable = trainable

    @property
    def layers(self) -> list["Layer"]:
        """The layers that are attributes of it, or in lists and dicts that are, each once, in order."""
        found: dict[Layer, None] = {}
        for value in vars(self).values():
            for part in _parts(value):
                found.setdefault(part)
        return list(found)

    @property
    def weights(self) -> list[Variable]:
        """Its own weights, those made to be trained first, and then those of its parts, one part after the other."""
        own = sorted(self._own, key=lambda weight: not weight.trainable)
        return _distinct([*own, *[weight for layer in self.layers for weight in layer.weights]])

    @property
    def trainable_weights(self) -> list[Variable]:
        """The weights that optimizers change."""
        if not self.trainable:
            return []
        own = [weight for weight in self._own if weight.trainable]
        return _distinct([*own, *[weight for layer in self.layers for weight in layer.trainable_weights]])

    @property
    def non_trainable_weights(self) -> list[Variable]:
        """The weights that optimizers do not change."""
        trained = set(self.trainable_weights)
        return [weight for weight in self.weights if weight not in trained]

    variables = weights
    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights

    @property
    def losses(self) -> list[Tensor]:
        """The penalties of its weights and of those of its parts, each once."""
        found = [*self._penalties, *[loss for layer in self.layers for loss in layer.losses]]
        return list({(loss.op, loss.index): loss for loss in found}.values())

    @property
    def output_shapes(self) -> list[TensorShape]:
        """The shapes of the results of its first call; none before it."""
        return list(self._made or [])

    def count_params(self) -> int:
        """The number of numbers in its weights. ValueError before they are made."""
        if not self.built:
            raise ValueError(f"{self.name!r} has no weights yet: it makes them for the inputs of its first call")
        return sum([weight.shape.num_elements() or 0 for weight in self.weights])


def _apart(outputs: Any, inputs: Any) -> Any:
    """The outputs as tensors that are not among the inputs: each tells which call made it. TypeError for no tensors."""
    given = {(tensor.op, tensor.index) for tensor in nest.flatten(inputs)}

    def apart(output: Any) -> Tensor:
        if not isinstance(output, Tensor):
            raise TypeError(f"`call` returns a tensor, or a structure of tensors, not {safe_repr(output)}")
        return identity(output) if (output.op, output.index) in given else output

    return nest.map_structure(apart, outputs)


_inside: ContextVar[Layer | None] = ContextVar("aioflow_layers_inside", default=None)
"""The innermost layer that is being called."""


_restoring: ContextVar[list[Callable[[], None]]] = ContextVar("aioflow_layers_restoring")
"""What undoes the changes of layers in the innermost block of `undone_on_failure`."""


@contextlib.contextmanager
def undone_on_failure() -> Iterator[None]:
    """If the block fails, all layers that were called in it have only what they had built before."""
    outer = _restoring.get(None)
    own: list[Callable[[], None]] = []
    token = _restoring.set(own)
    try:
        yield
    except BaseException:
        for restore in reversed(own):
            restore()
        raise
    finally:
        _restoring.reset(token)
    if outer is not None:
        outer += own


def one_shape(given: Any, rank: int | None = None) -> TensorShape:
    """The shape of a single input. ValueError for several inputs, or for another rank."""
    if not isinstance(given, TensorShape):
        raise ValueError(f"one tensor is wanted, not {len(nest.flatten(given))}")
    if rank is not None and given.ndims not in (None, rank):
        raise ValueError(f"an input of rank {rank} is wanted, its shape is {given}")
    return given


def known_size(given: TensorShape, axis: int) -> int:
    """The size of an axis on which the shapes of weights depend. ValueError if it is unknown."""
    sizes = given.dims
    size = None if sizes is None or not -len(sizes) <= axis < len(sizes) else given.as_list()[axis]
    if size is None:
        raise ValueError(f"the size of axis {axis} must be known, the shape of the input is {given}")
    return size


def _within(layer: Layer) -> Iterator[Layer]:
    """The layer and those in it, at any depth."""
    yield layer
    for part in layer.layers:
        yield from _within(part)


def _parts(value: Any) -> Iterable[Layer]:
    if isinstance(value, Layer):
        return [value]
    if isinstance(value, Mapping):
        return [part for item in value.values() for part in _parts(item)]
    return [part for item in value for part in _parts(item)] if isinstance(value, (list, tuple)) else []


def _like(argument: Any) -> Any:
    """The argument of a layer, with new layers instead of its own."""
    if isinstance(argument, Layer):
        return argument.like_this()
    return type(argument)([_like(each) for each in argument]) if type(argument) in (list, tuple) else argument


def _distinct(weights: Sequence[Variable]) -> list[Variable]:
    return list(dict.fromkeys(weights))
