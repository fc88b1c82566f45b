"""Elements: NumPy values in nested tuples, named tuples and mappings. Lists become arrays."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import DType, Spec, spec_of, string
from aioflow.tensors.nest import sorted_keys
from aioflow.tensors.shape import SCALAR, Dimension, TensorShape, as_shape

_NUMPY: Final = (np.ndarray, np.generic)
_NUMBERS: Final = "biufcV"
_SIZES: Final = (int, np.integer, Dimension, type(None))


def as_element(value: Any) -> Any:
    """Return the element for a user's value: Python numbers, text and lists become NumPy values and bytes.

    TypeError or ValueError for a value that is no array.
    """
    return map_leaves(as_leaf, value)


def as_leaf(value: Any, dtype: DType | None = None) -> Any:
    """Return the array, NumPy scalar or bytes for a value. TypeError or ValueError if there is none."""
    if dtype is None and (isinstance(value, bytes) or (isinstance(value, _NUMPY) and value.dtype.kind in _NUMBERS)):
        return value
    if isinstance(value, Mapping):
        return as_element(dict(value))
    if is_dataset(value):
        return value
    array = as_array(value, dtype)
    return array if array.ndim else array[()]


def is_dataset(leaf: Any) -> bool:
    """Whether a leaf is a dataset, as in windows."""
    return hasattr(leaf, "stage")


def frozen(leaf: Any) -> Any:
    """Return an array that cannot be written to, for those that several iterations share; other leaves as they are."""
    if isinstance(leaf, np.ndarray):
        leaf = leaf.view()
        leaf.flags.writeable = False
    return leaf


def map_leaves(function: Callable[[Any], Any], element: Any) -> Any:
    """Return a structure like `element`, with the function of each leaf."""
    if isinstance(element, tuple):
        leaves = [map_leaves(function, item) for item in element]
        return type(element)._make(leaves) if hasattr(element, "_make") else tuple(leaves)
    if isinstance(element, dict):
        return {key: map_leaves(function, element[key]) for key in sorted_keys(element)}
    return function(element)


def leaves_of(element: Any) -> list[Any]:
    """Return the leaves of an element in their order; those of a dict in the order of its sorted keys."""
    if isinstance(element, dict):
        element = tuple([element[key] for key in sorted_keys(element)])
    if isinstance(element, tuple):
        return [leaf for item in element for leaf in leaves_of(item)]
    return [element]


def with_leaves(element: Any, leaves: Sequence[Any]) -> Any:
    """Return a structure like `element` with these leaves."""
    rest = iter(leaves)
    return map_leaves(lambda _: next(rest), element)


def structure_of(element: Any) -> Any:
    """Return an object that is equal for elements of the same structure."""
    if isinstance(element, tuple):
        return tuple([structure_of(item) for item in element])
    if isinstance(element, dict):
        return tuple([(key, structure_of(element[key])) for key in sorted_keys(element)])
    return None


def arguments(element: Any) -> tuple[Any, ...]:
    """Return the arguments of a user's function: the items of a tuple, otherwise the element."""
    return tuple(element) if isinstance(element, tuple) else (element,)


def spec_of_leaf(leaf: Any) -> Spec | None:
    """Return the dtype and shape of a leaf; None for a dataset."""
    if is_dataset(leaf):
        return None
    return Spec(string, SCALAR) if isinstance(leaf, bytes) else spec_of(leaf)


def size_of(element: Any) -> int:
    """Return the bytes of an element."""
    return sum([len(leaf) if isinstance(leaf, bytes) else getattr(leaf, "nbytes", 0) for leaf in leaves_of(element)])


def spec_of_row(spec: Spec) -> Spec:
    """Return the dtype and shape of the rows of an array."""
    return spec if spec.sizes is None else Spec(spec.dtype, TensorShape(spec.sizes[1:]))


def spec_of_batch(spec: Spec, rows: int | None) -> Spec:
    """Return the dtype and shape of a batch of `rows` elements."""
    return spec if spec.sizes is None else Spec(spec.dtype, TensorShape((rows, *spec.sizes)))


def shapes_of(shapes: Any) -> list[Any]:
    """Return the shapes of a structure of shapes, of which each may be a list."""
    if isinstance(shapes, dict):
        return [shape for key in sorted_keys(shapes) for shape in shapes_of(shapes[key])]
    if isinstance(shapes, tuple) and not all(isinstance(size, _SIZES) for size in shapes):
        return [shape for each in shapes for shape in shapes_of(each)]
    return [shapes]


def open_shape(shape: Any) -> TensorShape:
    """Return a given shape, of which -1, as well as None, is an unknown size."""
    if not isinstance(shape, (list, tuple, np.ndarray)):
        return as_shape(shape)
    return as_shape([None if isinstance(size, (int, np.integer)) and size == -1 else size for size in shape])
