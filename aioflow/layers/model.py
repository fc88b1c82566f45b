"""Models: layers composed to one, in a line, by their calls, or by a subclass."""

from collections.abc import Callable, Iterable
from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import placeholder
from aioflow.layers.functional import Composition
from aioflow.layers.layer import Layer
from aioflow.layers.numbers import sizes, whole
from aioflow.layers.part_names import name_input
from aioflow.layers.summary import HEAD, describe, layer_rows, total
from aioflow.layers.trainable import Trainable
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.tensors.dtypes import DTypeLike, float32
from aioflow.tensors.recursion import safe_repr
from aioflow.tensors.shape import ShapeLike


def Input(
    shape: ShapeLike = None, batch_size: int | None = None, dtype: DTypeLike = float32, name: str | None = None
) -> Tensor:
    """A placeholder for a batch: [batch_size, *shape], to begin the composition of a model with.

    Dicts of arrays give its values by its name.

    TypeError for anything but sizes, ValueError for ones below 0, or a batch below 1.

    Examples:
        >>> af.Input([4])
        <af.Tensor 'input:0' float32[?, 4]>
    """
    batch = None if batch_size is None else whole("batch_size", batch_size, 1)
    whole_shape = None if shape is None else [batch, *sizes("shape", shape).as_list()]
    made = placeholder(dtype, whole_shape, name=name or "input")
    return made if name is None else name_input(made, name)


def _check_tensors(what: str, given: Any) -> None:
    """Raise TypeError for anything but one tensor or several."""
    if not nest.flatten(given):
        raise TypeError(f"{what} of a model are one tensor or several, not {safe_repr(given)}")
    for each in nest.flatten(given):
        if isinstance(each, Layer):
            raise TypeError(f"{what} of a model are tensors, not layers: call {each.name!r} with a tensor")
        if not isinstance(each, Tensor):
            raise TypeError(f"{what} of a model are tensors, such as those of af.layers.Input, not {safe_repr(each)}")


class Model(Trainable):
    """Layers composed to one.

        x = af.layers.Input([784])
        y = af.layers.Dense(10)(af.layers.Dense(128, activation="relu")(x))
        model = af.Model(inputs=x, outputs=y)

    With `inputs` and `outputs` the model is all that leads from the ones to the others: calls of layers, and the
    operations between them. Called with other inputs it repeats these. Its weights are those of the layers, and all
    variables that the operations use, such as those of a model that `af.onnx.load` has built. Without inputs and
    outputs, a subclass defines `call`.

    Attributes:
        inputs: the inputs of the composition; None for a subclass.
        outputs: its outputs; None for a subclass.

    Examples:
        >>> x = af.layers.Input([4])
        >>> model = af.Model(inputs=x, outputs=af.layers.Dense(2)(x))
        >>> model.count_params()
        10
    """

    def __init__(self, inputs: Any = None, outputs: Any = None, name: str | None = None, **options: Any) -> None:
        """ValueError if only one of `inputs` and `outputs` is given, or outputs depend on other placeholders.

        TypeError for anything but tensors.
        """
        super().__init__(name=name, **options)
        if (inputs is None) is not (outputs is None):
            raise ValueError("a model has inputs and outputs, or a subclass defines its call")
        self.inputs, self.outputs = inputs, outputs
        self._composition: Composition | None = None
        self._read: dict[Variable, Variable] = {}  # on other devices, replicas put copies in place of the values
        if inputs is not None:
            for what, given in (("inputs", inputs), ("outputs", outputs)):
                _check_tensors(what, given)
            self._composition = Composition(nest.flatten(inputs), nest.flatten(outputs))
            inside = {weight for layer in self.layers for weight in layer.weights}
            self._read = {variable: variable for variable in self._composition.variables()}
            self._own += [variable for variable in self._read if variable not in inside]
            self.built = True

    @property
    def layers(self) -> list[Layer]:
        """Its layers, sources first."""
        return super().layers if self._composition is None else self._composition.layers

    @property
    def input(self) -> Any:
        """Its inputs. AttributeError before they are known."""
        return self._known("input", self.inputs)

    @property
    def output(self) -> Any:
        """Its outputs. AttributeError before they are known."""
        return self._known("output", self.outputs)

    def _known(self, what: str, given: Any) -> Any:
        if given is None:
            raise AttributeError(f"{self.name!r} has no {what} yet: a model has one once it was called, or trained")
        return given

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The outputs for these inputs. ValueError if they have another structure than those of the model."""
        if self._composition is None:
            raise NotImplementedError(f"{type(self).__name__} defines no call, and has no inputs and outputs")
        given = nest.flatten_up_to(self.inputs, inputs)
        copies = {weight: copy for weight, copy in self._read.items() if copy is not weight}
        made = self._composition.with_variables(copies, given) if copies else self._composition.repeated(given)
        return nest.pack_sequence_as(self.outputs, made)

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """The layer of that name or number. ValueError if there is none, or both are given."""
        if (name is None) is (index is None):
            raise ValueError("a layer is found by its name or by its index")
        found = self.layers[index : index + 1] if index is not None else [x for x in self.layers if x.name == name]
        if not found:
            raise ValueError(f"there is no layer {name or index!r}; there are {[x.name for x in self.layers]}")
        return found[0]

    def summary(self, print_fn: Callable[[str], object] = print) -> None:
        """Print a table of the layers: names, shapes of outputs, numbers of weights. ValueError before it is built."""
        for line in describe(self):
            print_fn(line)

    def _repr_html_(self) -> str:
        from aioflow.notebook.trained import model_html

        rows, text = (layer_rows(self), total(self)) if self.built else ([], "not built yet: it is by its first call")
        return model_html(self.name, type(self).__name__, HEAD, rows, text)


class Sequential(Model):
    """Layers in a line: the output of one is the input of the next.

    Args:
        layers: the layers. If the first one has an `input_shape`, or is an `Input`, the model is built at once, in the
            default graph; else for the inputs of its first call.
        name: its name.

    Examples:
        >>> model = af.Sequential([af.layers.Input([4]), af.layers.Dense(3)])
        >>> model.compile("sgd", "mse")
        >>> history = await model.fit(np.ones([8, 4]), np.zeros([8, 3]), epochs=2, verbose=0)
        >>> (await model.predict(np.ones([2, 4]))).shape
        (2, 3)
    """

    def __init__(self, layers: Iterable[Layer | Tensor] = (), name: str | None = None) -> None:
        """TypeError for anything but a list of layers."""
        super().__init__(name=name)
        self._line: list[Layer] = []
        if isinstance(layers, (Layer, Tensor)) or not isinstance(layers, Iterable):
            raise TypeError(f"layers is a list of layers, as af.Sequential([layer]), not {safe_repr(layers)}")
        for layer in layers:
            self.add(layer)

    def add(self, layer: Layer | Tensor) -> None:
        """Append a layer. TypeError for anything else."""
        if isinstance(layer, Tensor) and not self._line and self.outputs is None:
            self.inputs = self.outputs = layer
            return
        if not isinstance(layer, Layer):
            raise TypeError(f"a sequential model has layers, and an Input at the beginning, not {safe_repr(layer)}")
        if self.outputs is None and not self._line and layer.input_shape is not None:
            self.inputs = self.outputs = Input(layer.input_shape, dtype=layer.dtype)
        if self.outputs is not None:
            self.outputs = layer(self.outputs)
            self.built = True
        self._line.append(layer)
        self._forget_uses()

    @property
    def layers(self) -> list[Layer]:
        """Its layers in order."""
        return list(self._line)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The output of the last layer."""
        for layer in self._line:
            inputs = layer(inputs, training=training)
        return inputs
