"""A structure of tensors, or nothing: which of both, a run decides."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from aioflow.data.elements import leaves_of, map_leaves, with_leaves
from aioflow.data.structures import components_of
from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, identity, zeros
from aioflow.kernels.control.assertions import Assert
from aioflow.library.control import name_scope
from aioflow.library.type_specs import TensorSpec, TypeSpec
from aioflow.tensors.recursion import short_repr


@dataclasses.dataclass(frozen=True)
class OptionalSpec(TypeSpec):
    """An optional whose value, if it has one, is like a structure of `TypeSpec`s.

    Examples:
        >>> af.type_spec_from_value(af.data.experimental.Optional.from_value(3))
        OptionalSpec(element_spec=TensorSpec(shape=TensorShape([]), dtype=af.int32, name=None))
    """

    element_spec: Any

    @property
    def value_type(self) -> type:
        """The class of the values."""
        return Optional

    @classmethod
    def from_value(cls, value: Any) -> "OptionalSpec":
        """Return the description of an optional. TypeError for other values."""
        if not isinstance(value, Optional):
            raise TypeError(f"from_value describes an optional, not {short_repr(value)}")
        return cls(value.element_spec)


class Optional:
    """A structure of tensors, or nothing.

    Args:
        has_value: a bool, whether there is a value.
        components: the tensors of the value; of no meaning if there is none.
        element_spec: the structure of the value, with a `TensorSpec` for each component.

    Examples:
        >>> found = af.data.experimental.Optional.from_value({"tea": 3})
        >>> await session.run(found.has_value()), await session.run(found.get_value())
        (np.True_, {'tea': np.int32(3)})
    """

    def __init__(self, has_value: Tensor, components: Sequence[Tensor], element_spec: Any) -> None:
        self._has_value: Final = has_value
        self._components: Final = list(components)
        self._structure: Final = element_spec

    @staticmethod
    def from_value(value: Any) -> "Optional":
        """Return an optional with a structure of tensors, or of values that become tensors."""
        tensors = map_leaves(convert_to_tensor, value)
        spec = map_leaves(lambda tensor: TensorSpec(tensor.shape, tensor.dtype), tensors)
        return Optional(constant(True), leaves_of(tensors), spec)

    @staticmethod
    def empty(element_spec: Any) -> "Optional":
        """Return an optional without a value, whose value would be like a structure of `TensorSpec`s."""
        pairs = zip(*components_of(element_spec), strict=True)
        nothing = [zeros([size or 0 for size in shape.sizes or ()], dtype) for dtype, shape in pairs]
        return Optional(constant(False), nothing, element_spec)

    @property
    def element_spec(self) -> Any:
        """The structure of the value, with a `TensorSpec` for each component."""
        return self._structure

    @property
    def type_spec(self) -> OptionalSpec:
        """The description of this optional."""
        return OptionalSpec(self._structure)

    def has_value(self, name: str | None = None) -> Tensor:
        """Return whether there is a value, as a tensor of bool."""
        return self._has_value if name is None else identity(self._has_value, name=name)

    @transactional
    def get_value(self, name: str | None = None) -> Any:
        """Return the value, a structure of tensors. InvalidArgumentError, in the run, if there is none."""
        with name_scope(name, "optional_get_value"):
            check = Assert(self._has_value, ["the optional has no value: ask has_value() before"])
            with get_default_graph().control_dependencies([check]):
                return with_leaves(self._structure, [identity(tensor) for tensor in self._components])

    def __repr__(self) -> str:
        return f"<af.data.experimental.{type(self).__name__} {self._structure}>"
