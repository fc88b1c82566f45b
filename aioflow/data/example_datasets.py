"""Datasets of the features of serialized examples."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.data.calls import UserFunction
from aioflow.data.checks import parallel, positive
from aioflow.data.dataset import Dataset
from aioflow.data.file_datasets import TFRecordDataset
from aioflow.data.parallel_map import ParallelMap
from aioflow.data.transform import Map
from aioflow.data.transformations import Transformation
from aioflow.graph.convert import constant_value
from aioflow.graph.graph import Graph
from aioflow.graph.sparse_tensor import SparseTensorValue
from aioflow.kernels.data.parse_example import parsed_examples
from aioflow.library.parsing import Feature, ParsingArguments, SparseFeature
from aioflow.library.ragged.feature import RaggedFeature
from aioflow.tensors.dtypes import DType, Spec, TensorShape, int64
from aioflow.tensors.recursion import safe_repr, short_repr


class _Parser:
    """Makes a dict of features of a vector of serialized examples.

    ValueError or TypeError if the descriptions of the features are wrong.

    Attributes:
        spec: the structure of the dicts.
    """

    def __init__(self, features: Mapping[str, Feature]) -> None:
        if not features:
            raise ValueError("features are missing: give a dict from names to descriptions such as FixedLenFeature")
        unfit = [key for key, feature in features.items() if isinstance(feature, (SparseFeature, RaggedFeature))]
        if unfit:
            raise ValueError(
                f"feature {unfit[0]!r}: a dataset has no {type(features[unfit[0]]).__name__}; read its parts by "
                "VarLenFeature"
            )
        with Graph().as_default():
            wanted = ParsingArguments(features)
            defaults = {key: constant_value(tensor) for key, tensor in wanted.defaults.items()}
        unknown = [key for key, value in defaults.items() if value is None]
        if unknown:
            raise ValueError(f"feature {unknown[0]!r}: the default value is a known value, no tensor of a step")
        self._sparse: Final = list(wanted.sparse.items())
        kinds = {key: tensor.dtype for key, tensor in wanted.defaults.items()}
        self._dense: Final = [(key, shape, defaults[key], kinds[key]) for key, shape in wanted.shapes.items()]
        self.spec: Final = {
            **{key: _sparse_spec(dtype) for key, dtype in self._sparse},
            **{key: Spec(dtype, TensorShape([None]).concatenate(shape)) for key, shape, _, dtype in self._dense},
        }

    def parse(self, serialized: Any) -> dict[str, Any]:
        """Return the features. InvalidArgumentError if this is no vector of examples that have them."""
        if not isinstance(serialized, np.ndarray) or serialized.dtype != object or serialized.ndim != 1:
            raise errors.InvalidArgumentError(
                f"a vector of serialized examples is needed, as batch makes it, not {short_repr(serialized)}"
            )
        made, count = parsed_examples(serialized.tolist(), [], self._sparse, self._dense), len(self._sparse)
        parts = zip(made[:count], made[count : 2 * count], made[2 * count : 3 * count], strict=True)
        sparse = {key: SparseTensorValue(*each) for (key, _), each in zip(self._sparse, parts, strict=True)}
        return {**sparse, **{key: array for (key, *_), array in zip(self._dense, made[3 * count :], strict=True)}}


def _sparse_spec(dtype: DType) -> SparseTensorValue:
    indices, values, shape = [None, 2], [None], [2]
    parts = [Spec(kind, TensorShape(sizes)) for kind, sizes in ((int64, indices), (dtype, values), (int64, shape))]
    return SparseTensorValue(*parts)


def parse_example_dataset(
    features: Mapping[str, Feature], num_parallel_calls: int = 1, deterministic: bool | None = None
) -> Transformation:
    """A dataset of dicts of features of a dataset of vectors of serialized examples.

    A `FixedLenFeature` gives an array [examples, *shape], a `VarLenFeature` a `SparseTensorValue`, a
    `FixedLenSequenceFeature` an array [examples, most, *shape].

    Args:
        features: the description of each feature.
        num_parallel_calls: the most vectors that are parsed at a time, on threads.
        deterministic: for compatibility: the order always stays.

    Raises:
        InvalidArgumentError: in the iteration: a text is no example, or a feature is missing or of another type.

    Examples:
        >>> examples = af.data.Dataset.from_tensor_slices([af.io.make_example({"age": [age]}) for age in (7, 9)])
        >>> parse = af.data.experimental.parse_example_dataset({"age": af.FixedLenFeature([], af.int64)})
        >>> [batch["age"].tolist() async for batch in examples.batch(2).apply(parse)]
        [[7, 9]]
    """
    parser, calls = _Parser(features), parallel(num_parallel_calls, "num_parallel_calls")
    function = UserFunction(parser.parse, "parse")
    return lambda dataset: Dataset(ParallelMap(dataset.stage, function, calls, parser.spec))


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: int,
    features: Mapping[str, Feature],
    reader: Callable[..., Dataset] | None = None,
    label_key: str | None = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    reader_num_threads: int | None = None,
    parser_num_threads: int | None = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Return a dataset of batches of the features of examples in files; of pairs with the labels for a `label_key`.

    Args:
        file_pattern: names of files with `*`, `?` and `[...]`.
        batch_size: the number of examples of a batch.
        features: the description of each feature, as for `parse_example_dataset`.
        reader: returns the dataset of the serialized examples of a file; `TFRecordDataset` by default.
        label_key: the feature that is the label.
        reader_args: further arguments of `reader`.
        num_epochs: how many times all examples are given; for ever by default.
        shuffle: whether files and examples come in a random order.
        shuffle_buffer_size: the most examples in the buffer from which the next one is drawn.
        shuffle_seed: decides the order.
        prefetch_buffer_size: the most batches that are made ahead; 1 by default.
        reader_num_threads: the number of files that are read at a time; 1 by default.
        parser_num_threads: the most batches that are parsed at a time; 2 by default.
        sloppy_ordering: permits another order, which is never taken.
        drop_final_batch: whether a last batch of fewer examples is left out, as it always is without `num_epochs`.

    Raises:
        ValueError: `label_key` is none of the features.

    Examples:
        >>> with af.io.TFRecordWriter("ages.tfrecord") as writer:
        ...     for age in (7, 9):
        ...         writer.write(af.io.make_example({"age": [age]}))
        >>> batches = af.data.experimental.make_batched_features_dataset(
        ...     "ages.*", 2, {"age": af.FixedLenFeature([], af.int64)}, num_epochs=1, shuffle=False
        ... )
        >>> [batch["age"].tolist() async for batch in batches]
        [[7, 9]]
    """
    if label_key is not None and label_key not in features:
        raise ValueError(f"label_key {label_key!r} is none of the features {sorted(features)}")
    size, cycle = positive(batch_size, "batch_size"), reader_num_threads or 1
    open_file, further = reader or TFRecordDataset, tuple(reader_args or ())
    if not callable(open_file):
        raise TypeError(f"reader is a function of the name of a file, not {safe_repr(reader)}")
    files = Dataset.list_files(file_pattern, shuffle, shuffle_seed)
    records = files.interleave(lambda name: open_file(name, *further), cycle, 1, None if cycle == 1 else cycle)
    if shuffle:
        records = records.shuffle(shuffle_buffer_size, shuffle_seed)
    batches = records.repeat(num_epochs).batch(size, drop_final_batch or num_epochs is None)
    parsed = batches.apply(parse_example_dataset(features, parser_num_threads or 2))
    return _labelled(parsed, label_key).prefetch(1 if prefetch_buffer_size is None else prefetch_buffer_size)


def _labelled(dataset: Dataset, label_key: str | None) -> Dataset:
    """Return a dataset of pairs of the other features and the label; the same dataset without a label."""
    if label_key is None:
        return dataset
    spec = dataset.element_spec
    rest = {key: each for key, each in spec.items() if key != label_key}

    async def split(element: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        return {key: element[key] for key in rest}, element[label_key]

    return Dataset(Map(dataset.stage, UserFunction(split, "split"), (rest, spec[label_key])))
