"""The results of a model that is being written: tensors, and lists of tensors, which ONNX calls sequences."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aioflow.graph.operation import Tensor
from aioflow.library.tensor_array import TensorArray
from aioflow.onnx.exporters.lists import rows_of
from aioflow.onnx.exporting import Export, declaration
from aioflow.onnx.protobuf import package
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import ListSpec, Spec, resource

Output = Tensor | TensorArray | Sequence[Tensor]
"""What users name as a result."""


class Result(NamedTuple):
    """A result.

    Attributes:
        name: its name.
        value: what it is.
    """

    name: str
    value: Output

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that it consists of."""
        if isinstance(self.value, TensorArray):
            return [self.value.flow]
        return [self.value] if isinstance(self.value, Tensor) else list(self.value)

    def write(self, export: Export) -> None:
        """Add the node that gives it, after the nodes of its tensors."""
        if isinstance(self.value, TensorArray):
            rows = rows_of(export, self.value.flow)
            made = export.node("SplitToSequence", [rows], [self.name], axis=0, keepdims=0)
        else:
            type = "Identity" if isinstance(self.value, Tensor) else "SequenceConstruct"
            made = export.node(type, [export.name(tensor) for tensor in self.tensors], [self.name])
        export.nodes.append(made)

    def declared(self) -> Any:
        """Its declaration; an open size is named after its axis."""
        if isinstance(self.value, Tensor):
            return declaration(self.name, self.value.spec, f"{self.name}_")
        spec = self._element()
        shape = None if spec.sizes is None else list(spec.sizes)
        return package().helper.make_tensor_sequence_value_info(self.name, NUMBERS[spec.dtype], shape)

    def _element(self) -> Spec:
        """The dtype of the elements of a list, and what is known of their shapes."""
        if isinstance(self.value, TensorArray):
            return ListSpec.check(self.value.flow.spec).element
        first, *others = [tensor.spec for tensor in self.tensors]
        shape = first.same_dtype(*others).shape
        for other in others:
            shape = shape.most_specific_compatible_shape(other.shape)
        return Spec(first.dtype, shape)


def results_of(outputs: Mapping[str, Output]) -> list[Result]:
    """The results of these names. TypeError for what is no tensor and no list of tensors of one dtype."""
    for name, value in outputs.items():
        items: list[Any] = list(value) if isinstance(value, (list, tuple)) else [value]
        whole = isinstance(value, TensorArray) or (items and all(_is_written(item) for item in items))
        if not whole or len({item.dtype for item in items}) > 1:
            raise TypeError(
                f"{name!r} of a saved model is a tensor, or a list of tensors of one dtype, not {value!r}; save what "
                "is read from it"
            )
    return [Result(name, value) for name, value in outputs.items()]


def _is_written(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype is not resource
