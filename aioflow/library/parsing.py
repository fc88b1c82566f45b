"""Parses serialized examples: a dict describes the features, and a dict of tensors is the result."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.data import parse_example as ops
from aioflow.library.control import name_scope
from aioflow.library.ragged.feature import RaggedFeature, ragged_result
from aioflow.library.sparse_reduction import sparse_merge
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, TensorShape, as_dtype, as_shape


class FixedLenFeature(NamedTuple):
    """A feature with as many values as `shape` has, in every example: a dense tensor.

    Without a `default_value` it is required.

    Examples:
        >>> example = af.io.make_example({"age": [7]})
        >>> await session.run(af.parse_single_example(example, {"age": af.FixedLenFeature([], af.int64)}))
        {'age': np.int64(7)}
    """

    shape: Any
    dtype: Any
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature with any number of values: a SparseTensor.

    Examples:
        >>> example = af.io.make_example({"ages": [7, 9]})
        >>> await session.run(af.parse_single_example(example, {"ages": af.VarLenFeature(af.int64)})["ages"].values)
        array([7, 9])
    """

    dtype: Any


class SparseFeature(NamedTuple):
    """A feature with the values of a SparseTensor, and one or several other features with their positions.

    Attributes:
        index_key: the feature that holds the positions, or a list of them, one for each axis.
        value_key: the feature that holds the values.
        dtype: the dtype of the values.
        size: the size of the axis, or a list of sizes.
        already_sorted: whether the positions ascend.

    Examples:
        >>> feature = af.SparseFeature("at", "value", af.float32, size=4)
        >>> data = af.io.make_example({"at": [1, 3], "value": [0.5, 2.5]})
        >>> parsed = af.parse_single_example(data, {"row": feature})
        >>> await session.run(af.sparse_tensor_to_dense(parsed["row"]))
        array([0. , 0.5, 0. , 2.5], dtype=float32)
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of values of that shape, in order: a dense tensor of one rank more.

    Shorter ones are padded with `default_value`, or with zeros or empty strings. `allow_missing` permits none at all,
    and must be true except for the steps of sequences.

    Examples:
        >>> data = [af.io.make_sequence_example({}, {"words": [[1], [2]]})]
        >>> words = {"words": af.FixedLenSequenceFeature([1], af.int64)}
        >>> _, lists, _ = af.io.parse_sequence_example(data, sequence_features=words)
        >>> await session.run(lists["words"])
        array([[[1],
                [2]]])
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


Feature = FixedLenFeature | VarLenFeature | SparseFeature | FixedLenSequenceFeature | RaggedFeature


class ParsingArguments:
    """The arguments of a parsing op."""

    def __init__(self, features: Mapping[str, Feature]) -> None:
        self.features: Final = features
        self.sparse: Final[dict[str, DType]] = {}
        self.shapes: Final[dict[str, TensorShape]] = {}
        self.defaults: Final[dict[str, Tensor]] = {}
        self.paired: Final[list[str]] = []
        for key in sorted(features):
            self._add(key, features[key])

    def _add(self, key: str, feature: Feature) -> None:
        match feature:
            case VarLenFeature(dtype=dtype):
                self._add_sparse(key, as_dtype(dtype))
            case SparseFeature():
                for index in _index_keys(feature):
                    self._add_sparse(index, dtypes.int64)
                    self.paired.extend((index, feature.value_key))
                self._add_sparse(feature.value_key, as_dtype(feature.dtype))
            case RaggedFeature():
                for name, kind in feature.keys(key):
                    self._add_sparse(name, as_dtype(kind))
            case FixedLenFeature(shape=shape, dtype=dtype, default_value=default):
                if not as_shape(shape).is_fully_defined():
                    raise ValueError(
                        f"feature {key!r}: the shape {as_shape(shape)} of a FixedLenFeature must be known; for any "
                        "number of values use FixedLenSequenceFeature(allow_missing=True) or VarLenFeature"
                    )
                self.shapes[key] = as_shape(shape)
                self.defaults[key] = _default(key, default, as_dtype(dtype), as_shape(shape))
            case FixedLenSequenceFeature(shape=shape, dtype=dtype, allow_missing=missing, default_value=default):
                if not missing:
                    raise ValueError(f"feature {key!r}: a FixedLenSequenceFeature needs allow_missing=True here")
                self.shapes[key] = TensorShape.vector(None).concatenate(as_shape(shape))
                self.defaults[key] = _default(key, default, as_dtype(dtype), TensorShape(()))
            case _:
                raise TypeError(
                    f"feature {key!r} must be of a class such as FixedLenFeature or VarLenFeature, not {feature!r}"
                )

    def _add_sparse(self, key: str, dtype: DType) -> None:
        if self.sparse.setdefault(key, dtype) is not dtype:
            raise ValueError(f"feature {key!r} is asked for as {self.sparse[key].name} and as {dtype.name}")

    def result(self, made: list[Tensor]) -> dict[str, Any]:
        """Return the tensors of each feature from the results of the op."""
        count = len(self.sparse)
        sparse = {
            key: SparseTensor(made[place], made[count + place], made[2 * count + place])
            for place, key in enumerate(self.sparse)
        }
        dense = dict(zip(self.shapes, made[3 * count :], strict=True))
        return {key: self._feature_result(key, feature, sparse, dense) for key, feature in self.features.items()}

    def _feature_result(
        self, key: str, feature: Feature, sparse: dict[str, SparseTensor], dense: dict[str, Tensor]
    ) -> Any:
        if isinstance(feature, RaggedFeature):
            return ragged_result(key, feature, sparse)
        if not isinstance(feature, SparseFeature):
            return sparse[key] if key in sparse and isinstance(feature, VarLenFeature) else dense[key]
        several = isinstance(feature.index_key, (list, tuple))
        ids = [sparse[index] for index in _index_keys(feature)]
        sorted_ = feature.already_sorted
        return sparse_merge(ids if several else ids[0], sparse[feature.value_key], feature.size, key, sorted_)


def _index_keys(feature: SparseFeature) -> list[str]:
    keys = feature.index_key
    return list(keys) if isinstance(keys, (list, tuple)) else [keys]


def _default(key: str, value: Any, dtype: DType, shape: TensorShape) -> Tensor:
    """Return the default as a tensor; an empty one if there is none."""
    if value is None:
        return convert_to_tensor(np.empty(0, dtype.np), dtype)
    tensor = convert_to_tensor(value, dtype)
    if tensor.shape.num_elements() == 1 and shape.is_fully_defined():
        known = tensor.op.attrs.get("value")
        if known is not None:
            return convert_to_tensor(np.full(shape.as_list(), np.asarray(known, dtype.np).ravel()[0], dtype.np), dtype)
    return tensor


def _labels(names: TensorLike | None) -> Tensor:
    """Return the names of examples in errors; an empty vector to number them."""
    return convert_to_tensor(np.empty(0, object) if names is None else names, dtypes.string)


def _parse(serialized: Tensor, names: TensorLike | None, features: Mapping[str, Feature], name: str) -> dict[str, Any]:
    if not features:
        raise ValueError("features are missing: give a dict from names to feature descriptions such as FixedLenFeature")
    wanted = ParsingArguments(features)
    made = ops.parse_example(
        serialized, _labels(names), list(wanted.defaults.values()), tuple(wanted.sparse), tuple(wanted.sparse.values()),
        tuple(wanted.shapes), tuple(wanted.shapes.values()), tuple(wanted.paired),
        name=name,
    )  # fmt: skip
    return wanted.result(list(made))


@transactional
def parse_example(
    serialized: TensorLike,
    features: Mapping[str, Feature],
    name: str | None = None,
    example_names: TensorLike | None = None,
) -> dict[str, Any]:
    """Return the features of a vector of serialized examples, by name.

    A `FixedLenFeature` gives a tensor [examples, *shape], a `VarLenFeature` a SparseTensor [examples, most values], a
    `SparseFeature` a SparseTensor [examples, *size], a `FixedLenSequenceFeature` a tensor [examples, most, *shape],
    an `af.io.RaggedFeature` a RaggedTensor with a row, or rows, for each example.

    Args:
        serialized: a vector of strings, such as those of `make_example`.
        features: the description of each feature.
        name: the name scope.
        example_names: names of the examples in errors.

    Raises:
        InvalidArgumentError: in the run: a string is no example, or a feature is missing or of another type or size.

    Examples:
        >>> examples = [af.io.make_example({"age": [age]}) for age in (7, 9)]
        >>> await session.run(af.parse_example(examples, {"age": af.FixedLenFeature([], af.int64)}))
        {'age': array([7, 9])}
    """
    with name_scope(name, "parse_example") as scope:
        tensor = convert_to_tensor(serialized, dtypes.string)
        if tensor.shape.ndims != 1:
            raise ValueError(f"serialized is a vector, its shape is {tensor.shape}: for one use parse_single_example")
        return _parse(tensor, example_names, features, scope)


@transactional
def parse_single_example(
    serialized: TensorLike,
    features: Mapping[str, Feature],
    name: str | None = None,
    example_names: TensorLike | None = None,
) -> dict[str, Any]:
    """Return the features of one serialized example, by name: see `parse_example`, without the first axis.

    Examples:
        >>> example = af.io.make_example({"age": [7], "name": ["Ada"]})
        >>> features = {"age": af.FixedLenFeature([], af.int64), "name": af.FixedLenFeature([], af.string)}
        >>> await session.run(af.parse_single_example(example, features))
        {'age': np.int64(7), 'name': b'Ada'}
    """
    with name_scope(name, "parse_single_example") as scope:
        tensor = convert_to_tensor(serialized, dtypes.string)
        tensor.shape.assert_has_rank(0)
        return _parse(tensor, example_names, features, scope)


@transactional
def parse_single_sequence_example(
    serialized: TensorLike,
    context_features: Mapping[str, Feature] | None = None,
    sequence_features: Mapping[str, Feature] | None = None,
    example_name: TensorLike | None = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the features of one serialized sequence: those of its context, and those of its steps, by name.

    For the steps, a `FixedLenSequenceFeature` gives a tensor [steps, *shape], a `VarLenFeature` a SparseTensor
    [steps, most values].

    Args:
        serialized: a string, such as that of `make_sequence_example`.
        context_features: the description of each feature of the context.
        sequence_features: the description of each feature of the steps.
        example_name: the name of the sequence in errors.
        name: the name scope.

    Examples:
        >>> data = af.io.make_sequence_example({"label": [3]}, {"words": [[1], [2, 4]]})
        >>> label = {"label": af.FixedLenFeature([], af.int64)}
        >>> words = {"words": af.VarLenFeature(af.int64)}
        >>> context, lists = af.parse_single_sequence_example(data, label, words)
        >>> await session.run([context["label"], af.sparse_tensor_to_dense(lists["words"])])
        [np.int64(3), array([[1, 0],
               [2, 4]])]
    """
    with name_scope(name, "parse_single_sequence_example") as scope:
        tensor = convert_to_tensor(serialized, dtypes.string)
        tensor.shape.assert_has_rank(0)
        names = None if example_name is None else expand_dims(convert_to_tensor(example_name, dtypes.string), 0)
        context, steps, _ = _parsed_sequences(tensor, names, context_features or {}, sequence_features or {}, scope)
        return context, steps


@transactional
def parse_sequence_example(
    serialized: TensorLike,
    context_features: Mapping[str, Feature] | None = None,
    sequence_features: Mapping[str, Feature] | None = None,
    example_names: TensorLike | None = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    """Return the features of a vector of serialized sequences: of contexts and of steps, and the numbers of steps.

    The context is as in `parse_example`. For the steps, a `FixedLenSequenceFeature` gives a tensor
    [sequences, most steps, *shape], with shorter sequences padded with zeros or empty strings, and in the last dict the
    number of steps of each sequence; a `VarLenFeature` gives a SparseTensor [sequences, most steps, most values].

    Args:
        serialized: a vector of strings, such as those of `make_sequence_example`.
        context_features: the description of each feature of the contexts.
        sequence_features: the description of each feature of the steps.
        example_names: names of the sequences in errors.
        name: the name scope.

    Examples:
        >>> data = [af.io.make_sequence_example({}, {"words": words}) for words in ([[1], [2]], [[3]])]
        >>> words = {"words": af.FixedLenSequenceFeature([], af.int64)}
        >>> _, lists, lengths = af.io.parse_sequence_example(data, sequence_features=words)
        >>> await session.run([lists["words"], lengths["words"]])
        [array([[1, 2],
               [3, 0]]), array([2, 1])]
    """
    with name_scope(name, "parse_sequence_example") as scope:
        tensor = convert_to_tensor(serialized, dtypes.string)
        tensor.shape.assert_has_rank(1)
        return _parsed_sequences(tensor, example_names, context_features or {}, sequence_features or {}, scope)


def _parsed_sequences(
    serialized: Tensor,
    names: TensorLike | None,
    context_features: Mapping[str, Feature],
    sequence_features: Mapping[str, Feature],
    name: str,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    """Return contexts and steps, and for a vector of sequences the numbers of steps."""
    context = ParsingArguments(context_features)
    sparse, dense, missing = _step_arguments(sequence_features)
    if not context_features and not sequence_features:
        raise ValueError("features are missing: give context_features, sequence_features, or both")
    made = ops.parse_sequence_example(
        serialized, _labels(names), list(context.defaults.values()),
        tuple(context.sparse), tuple(context.sparse.values()), tuple(context.shapes),
        tuple(context.shapes.values()), tuple(sparse), tuple(sparse.values()), tuple(dense),
        tuple([dtype for dtype, _ in dense.values()]), tuple([shape for _, shape in dense.values()]),
        tuple(missing), tuple(context.paired), name=name,
    )  # fmt: skip
    count = 3 * len(context.sparse) + len(context.shapes)
    rest = list(made[count:])
    begin, end = 3 * len(sparse), 3 * len(sparse) + len(dense)
    found: dict[str, Any] = {key: SparseTensor(*rest[place : begin : len(sparse)]) for place, key in enumerate(sparse)}
    found.update(zip(dense, rest[begin:end], strict=True))
    steps = {key: found[key] for key in sequence_features}
    return context.result(list(made[:count])), steps, dict(zip(dense, rest[end:], strict=False))


def _step_arguments(
    features: Mapping[str, Feature],
) -> tuple[dict[str, DType], dict[str, tuple[DType, TensorShape]], list[str]]:
    sparse: dict[str, DType] = {}
    dense: dict[str, tuple[DType, TensorShape]] = {}
    missing: list[str] = []
    for key in sorted(features):
        match features[key]:
            case VarLenFeature(dtype=dtype):
                sparse[key] = as_dtype(dtype)
            case FixedLenSequenceFeature(shape=shape, dtype=dtype, allow_missing=allowed, default_value=default):
                if default is not None:
                    raise ValueError(f"the steps of {key!r} are filled up with zeros: their default_value must be None")
                dense[key] = as_dtype(dtype), as_shape(shape)
                missing += [key] * bool(allowed)
            case feature:
                raise TypeError(f"the steps of {key!r} are a FixedLenSequenceFeature or VarLenFeature, not {feature!r}")
    return sparse, dense, missing
