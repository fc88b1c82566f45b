"""What the elements of datasets and iterators are like: structures of `TypeSpec`s, of dtypes, shapes and classes."""

import dataclasses
from typing import Any

from aioflow.data.elements import is_dataset, leaves_of, map_leaves, shapes_of, with_leaves
from aioflow.graph.operation import Tensor
from aioflow.library.ragged.spec import RaggedTensorSpec
from aioflow.library.type_specs import (
    NoneTensorSpec,
    SparseTensorSpec,
    TensorArraySpec,
    TensorSpec,
    TypeSpec,
)
from aioflow.tensors.dtypes import DType, DTypeLike, ShapeLike, Spec, TensorShape, as_dtype, as_shape
from aioflow.tensors.recursion import short_repr


@dataclasses.dataclass(frozen=True)
class DatasetSpec(TypeSpec):
    """A dataset of elements like a structure of `TypeSpec`s.

    Examples:
        >>> af.type_spec_from_value(af.data.Dataset.range(3)).element_spec
        TensorSpec(shape=TensorShape([]), dtype=af.int64, name=None)
    """

    element_spec: Any
    dataset_shape: TensorShape = TensorShape(())  # noqa: RUF009

    def __init__(self, element_spec: Any, dataset_shape: ShapeLike = ()) -> None:
        self._convert(element_spec=element_spec, dataset_shape=as_shape(dataset_shape))

    @property
    def value_type(self) -> type:
        """The class of the values."""
        from aioflow.data.dataset import Dataset

        return Dataset


def get_structure(dataset_or_iterator: Any) -> Any:
    """Return the structure of the elements of a dataset or an iterator, with a `TypeSpec` for each component.

    A dtype that a function of the user decides is unknown: its place has `None`.

    Raises:
        TypeError: it is neither a dataset nor an iterator.

    Examples:
        >>> af.data.experimental.get_structure(af.data.Dataset.range(3))
        TensorSpec(shape=TensorShape([]), dtype=af.int64, name=None)
    """
    if is_dataset(dataset_or_iterator):
        return map_leaves(_as_type_spec, dataset_or_iterator.stage.spec)
    found: Any = getattr(dataset_or_iterator, "element_spec", None)
    if found is None:
        raise TypeError(f"a dataset or an iterator is needed, not {short_repr(dataset_or_iterator)}")
    return found


def _as_type_spec(spec: Any) -> Any:
    return TensorSpec(spec.shape, spec.dtype) if isinstance(spec, Spec) else spec


def get_output_types(dataset_or_iterator: Any) -> Any:
    """Return the structure of the dtypes of elements.

    Examples:
        >>> af.data.get_output_types(af.data.Dataset.range(3))
        af.int64
    """
    return map_leaves(lambda spec: _known(spec).dtype, get_structure(dataset_or_iterator))


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """Return the structure of the shapes of elements.

    Examples:
        >>> af.data.get_output_shapes(af.data.Dataset.range(4).batch(2, drop_remainder=True))
        TensorShape([2])
    """
    return map_leaves(lambda spec: _known(spec).shape, get_structure(dataset_or_iterator))


def get_output_classes(dataset_or_iterator: Any) -> Any:
    """Return the structure of the classes of elements in a graph.

    Examples:
        >>> af.data.get_output_classes(af.data.Dataset.range(3)) is af.Tensor
        True
    """
    return map_leaves(lambda spec: _known(spec).value_type, get_structure(dataset_or_iterator))


def _known(spec: Any) -> Any:
    if spec is None:
        raise ValueError(
            "a function of the dataset decides the dtypes of its elements, so they are not known before it is called: "
            "declare them by Dataset.with_element_spec"
        )
    return spec


def structure_from(types: Any, shapes: Any = None, classes: Any = None) -> Any:
    """Return a structure of `TensorSpec`s from structures of dtypes and shapes. ValueError if these do not fit."""
    kinds = [as_dtype(dtype) for dtype in leaves_of(types)]
    sizes = [None] * len(kinds) if shapes is None else shapes_of(shapes)
    if len(sizes) != len(kinds):
        raise ValueError(f"output_types has {len(kinds)} dtypes, output_shapes has {len(sizes)} shapes")
    unfit = [each for each in leaves_of(classes) if each not in (None, Tensor)]
    if unfit:
        raise TypeError(f"components of elements are tensors, not {short_repr(unfit[0])}")
    return with_leaves(types, [TensorSpec(size, kind) for size, kind in zip(sizes, kinds, strict=True)])


def components_of(structure: Any) -> tuple[list[DType], list[TensorShape]]:
    """Return the dtypes and the shapes of the components of elements like a structure of `TensorSpec`s.

    ValueError if a dtype is unknown, TypeError if a component is no tensor.
    """
    specs = [_known(spec) for spec in leaves_of(structure)]
    for spec in specs:
        if not isinstance(spec, TensorSpec):
            unfit = "None" if isinstance(spec, NoneTensorSpec) else short_repr(spec)
            raise TypeError(f"element_spec has a TensorSpec for each component, not {unfit}")
    return [spec.dtype for spec in specs], [spec.shape for spec in specs]


def specs_of(structure: Any) -> Any:
    """Return a structure of dtypes and shapes for one of `TensorSpec`s. TypeError for other components."""
    pairs = zip(*components_of(structure), strict=True)
    return with_leaves(structure, [Spec(dtype, shape) for dtype, shape in pairs])


# The names of TensorFlow before it had TypeSpecs


def TensorStructure(dtype: DTypeLike, shape: ShapeLike) -> TensorSpec:
    """Return the description of a tensor: `TensorSpec(shape, dtype)`.

    Examples:
        >>> af.data.experimental.TensorStructure(af.int32, [2]) == af.TensorSpec([2], af.int32)
        True
    """
    return TensorSpec(shape, dtype)


def SparseTensorStructure(dtype: DTypeLike, shape: ShapeLike) -> SparseTensorSpec:
    """Return the description of a SparseTensor: `SparseTensorSpec(shape, dtype)`.

    Examples:
        >>> af.data.experimental.SparseTensorStructure(af.int32, [2]) == af.SparseTensorSpec([2], af.int32)
        True
    """
    return SparseTensorSpec(shape, dtype)


def RaggedTensorStructure(dtype: DTypeLike, shape: ShapeLike, ragged_rank: int) -> RaggedTensorSpec:
    """Return the description of a RaggedTensor: `RaggedTensorSpec(shape, dtype, ragged_rank)`.

    Examples:
        >>> af.data.experimental.RaggedTensorStructure(af.int32, [2, None], 1).shape.as_list()
        [2, None]
    """
    return RaggedTensorSpec(shape, dtype, ragged_rank)


def TensorArrayStructure(
    dtype: DTypeLike, element_shape: ShapeLike, dynamic_size: bool, infer_shape: bool
) -> TensorArraySpec:
    """Return the description of a TensorArray: `TensorArraySpec(element_shape, dtype, dynamic_size, infer_shape)`.

    Examples:
        >>> af.data.experimental.TensorArrayStructure(af.int32, [2], False, True).dtype
        af.int32
    """
    return TensorArraySpec(element_shape, dtype, dynamic_size, infer_shape)
