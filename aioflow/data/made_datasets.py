"""`af.data.experimental`: functions that make, ask and write datasets."""

import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.data.calls import Calls
from aioflow.data.checks import finite, stage_of
from aioflow.data.dataset import Dataset
from aioflow.data.elements import as_element, leaves_of, map_leaves, spec_of_leaf, structure_of, with_leaves
from aioflow.data.sources import Values
from aioflow.files import tfrecord
from aioflow.files.filesystem import Path, as_name
from aioflow.files.tfrecord_options import TFRecordOptions
from aioflow.tensors.dtypes import DTypeLike, Spec, int64
from aioflow.tensors.recursion import safe_repr, short_repr

_TOGETHER: Final = 256
"""The number of records that are written in one go on a thread."""


def Counter(start: int = 0, step: int = 1, dtype: DTypeLike = int64) -> Dataset:
    """Return a dataset of integers without an end: see `Dataset.counter`.

    Examples:
        >>> [int(number) async for number in af.data.experimental.Counter(5, 2).take(3)]
        [5, 7, 9]
    """
    return Dataset.counter(start, step, dtype)


def RandomDataset(
    seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None
) -> Dataset:
    """Return a dataset of random integers without an end: see `Dataset.random`.

    Examples:
        >>> numbers = af.data.experimental.RandomDataset(seed=1).take(3)
        >>> [int(number) async for number in numbers] == [int(number) async for number in numbers]
        True
    """
    return Dataset.random(seed, rerandomize_each_iteration)


def from_list(elements: Sequence[Any], name: str | None = None) -> Dataset:
    """Return a dataset of the elements of a list, whose structures and dtypes are the same.

    Args:
        elements: the elements.
        name: for compatibility.

    Raises:
        ValueError: there are no elements, or their structures differ.
        TypeError: it is no list, or the dtypes differ.

    Examples:
        >>> pairs = af.data.experimental.from_list([(1, "a"), (2, "b")])
        >>> [(int(number), word) async for number, word in pairs]
        [(1, b'a'), (2, b'b')]
    """
    if not isinstance(elements, (list, tuple)):
        raise TypeError(f"elements is a list of elements, not {safe_repr(elements)}")
    if not elements:
        raise ValueError("a dataset of a list needs at least one element; Dataset.range(0) has none")
    made = [as_element(element) for element in elements]
    for element in made:
        if structure_of(element) != structure_of(made[0]):
            raise ValueError(f"the elements {short_repr(made[0])} and {short_repr(element)} have different structures")
    columns = zip(*[leaves_of(map_leaves(spec_of_leaf, element)) for element in made], strict=True)
    spec = with_leaves(made[0], [_common(number, column) for number, column in enumerate(columns)])
    return Dataset(Values(made, spec=spec))


def _common(number: int, specs: Sequence[Spec]) -> Spec:
    """Return the dtype and shape of a component of all elements. TypeError if the dtypes differ."""
    shape = specs[0].shape
    for spec in specs:
        if spec.dtype is not specs[0].dtype:
            names = f"{specs[0].dtype.name} and {spec.dtype.name}"
            raise TypeError(f"component {number} of the elements has different dtypes, {names}")
        shape = shape.most_specific_compatible_shape(spec.shape)
    return Spec(specs[0].dtype, shape)


def choose_from_datasets(
    datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Return a dataset of elements of several, of which another one has the numbers: `Dataset.choose_from_datasets`.

    Examples:
        >>> words = [af.data.Dataset.from_tensors(word).repeat() for word in ("a", "b")]
        >>> chosen = af.data.experimental.choose_from_datasets(words, af.data.Dataset.range(2))
        >>> [word async for word in chosen]
        [b'a', b'b']
    """
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: Sequence[Dataset],
    weights: Sequence[float] | None = None,
    seed: int | None = None,
    stop_on_empty_dataset: bool = False,
) -> Dataset:
    """Return a dataset of elements of several, chosen by chance: see `Dataset.sample_from_datasets`.

    Examples:
        >>> numbers = [af.data.Dataset.range(3), af.data.Dataset.range(3, 5)]
        >>> sorted([int(number) async for number in af.data.experimental.sample_from_datasets(numbers)])
        [0, 1, 2, 3, 4]
    """
    return Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def cardinality(dataset: Dataset) -> int:
    """Return the number of elements of a dataset, as far as it is known: see `Dataset.cardinality`.

    Examples:
        >>> af.data.experimental.cardinality(af.data.Dataset.range(4))
        4
    """
    stage_of(dataset)
    return dataset.cardinality()


async def get_single_element(dataset: Dataset) -> Any:
    """Return the only element of a dataset: see `Dataset.get_single_element`.

    Examples:
        >>> await af.data.experimental.get_single_element(af.data.Dataset.range(4).batch(4))
        array([0, 1, 2, 3])
    """
    stage_of(dataset)
    return await dataset.get_single_element()


class TFRecordWriter:
    """Writes the elements of datasets, which are bytes, to a file of TFRecords.

    Args:
        filename: the name of the file.
        compression_type: None, "ZLIB" or "GZIP".

    Examples:
        >>> writer = af.data.experimental.TFRecordWriter("teas")
        >>> await writer.write(af.data.Dataset.from_tensor_slices(["Assam", "Sencha"]))
        >>> [record async for record in af.data.TFRecordDataset("teas")]
        [b'Assam', b'Sencha']
    """

    def __init__(self, filename: Path, compression_type: str | None = None) -> None:
        self._filename: Final = as_name(filename)
        self._options: Final = TFRecordOptions(compression_type)

    async def write(self, dataset: Dataset) -> None:
        """Write a file of the elements. A call that fails or is cancelled leaves a file with some of them.

        Raises:
            ValueError: the dataset never ends.
            InvalidArgumentError: an element is not one text or bytes.
        """
        finite(stage_of(dataset), "write")
        calls = Calls(dataset.stage)
        opening = calls.on_thread(functools.partial(tfrecord.TFRecordWriter, self._filename, self._options))
        writer = await calls.result(0, opening, lambda opened: opened)
        try:
            async with dataset.batch(_TOGETHER).iterate() as batches:
                async for batch in batches:
                    await calls.on_thread(_write_all, writer, batch)
        finally:
            await calls.settle()
            await calls.on_thread(writer.close)


def _write_all(writer: tfrecord.TFRecordWriter, batch: Any) -> None:
    if not isinstance(batch, np.ndarray) or batch.dtype != object or batch.ndim != 1:
        raise errors.InvalidArgumentError(
            f"the elements of a TFRecord file are bytes, unlike those in {short_repr(batch)}"
        )
    for record in batch.tolist():
        writer.write(record)
