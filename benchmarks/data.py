"""Datasets: small arrays mapped, shuffled, batched and prefetched, and the records of a file, an epoch as one step.

TensorFlow maps by a graph on threads without Python; PyTorch's loader, without workers, and aioflow call a function of
NumPy for each element.
"""

import importlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Step, alternate
from benchmarks.report import Row, timed_row

COUNT, WIDTH, BATCH, BUFFER = 1024, 32, 64, 256
ROWS = np.random.default_rng(1).standard_normal((COUNT, WIDTH)).astype(np.float32)
RECORDS, BYTES = 5_000, 100


async def rows() -> AsyncIterator[Row]:
    """Measure both."""
    sides = {peers.AIOFLOW: aioflow_arrays(), peers.TENSORFLOW: tensorflow_arrays(), peers.TORCH: torch_arrays()}
    timing = await alternate(sides, rounds=5, block=0.3)
    yield timed_row(f"{COUNT} arrays of {WIDTH} floats: map, shuffle, batch({BATCH}), prefetch", timing, [])
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "records"))
        write(file)
        sides = {peers.AIOFLOW: aioflow_records(file), peers.TENSORFLOW: tensorflow_records(file)}
        timing = await alternate(sides, rounds=5, block=0.3)
    yield timed_row(f"{RECORDS} TFRecords of {BYTES} bytes, batch({BATCH})", timing, [])


def write(file: str) -> None:
    """Write records."""
    with importlib.import_module("aioflow.files.tfrecord").TFRecordWriter(file) as writer:
        for number in range(RECORDS):
            writer.write(number.to_bytes(BYTES, "big"))


@asynccontextmanager
async def aioflow_arrays() -> AsyncIterator[Step]:
    """One epoch of arrays."""
    af = peers.aioflow()
    source = af.data.Dataset.from_tensor_slices(ROWS).map(lambda row: row * 2 + 1)
    yield epoch(source.shuffle(BUFFER, seed=1).batch(BATCH).prefetch(2))


@asynccontextmanager
async def aioflow_records(file: str) -> AsyncIterator[Step]:
    """One epoch of records."""
    yield epoch(peers.aioflow().data.TFRecordDataset(file).batch(BATCH))


def epoch(dataset: Any) -> Step:
    """Return a step that takes all batches of a dataset of aioflow."""

    async def step() -> int:
        count = 0
        async for _ in dataset:
            count += 1
        return count

    return step


@asynccontextmanager
async def tensorflow_arrays() -> AsyncIterator[Step]:
    """One epoch of arrays in TensorFlow."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        source = tf.data.Dataset.from_tensor_slices(ROWS).map(lambda row: row * 2 + 1)
        yield tensorflow_epoch(session, source.shuffle(BUFFER, seed=1).batch(BATCH).prefetch(2))


@asynccontextmanager
async def tensorflow_records(file: str) -> AsyncIterator[Step]:
    """One epoch of records in TensorFlow."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        yield tensorflow_epoch(session, tf.data.TFRecordDataset(file).batch(BATCH))


def tensorflow_epoch(session: Any, dataset: Any) -> Step:
    """Return a step that takes all batches of a dataset of TensorFlow."""
    tf = peers.tensorflow()
    iterator = tf.data.make_initializable_iterator(dataset)
    following = iterator.get_next()

    def step() -> int:
        session.run(iterator.initializer)
        count = 0
        while True:
            try:
                session.run(following)
            except tf.errors.OutOfRangeError:
                return count
            count += 1

    return step


@asynccontextmanager
async def torch_arrays() -> AsyncIterator[Step]:
    """One epoch of arrays by PyTorch's loader."""
    data = peers.torch().utils.data

    class Arrays(data.Dataset):  # type: ignore[misc, name-defined]
        """The same arrays, mapped."""

        def __len__(self) -> int:
            return COUNT

        def __getitem__(self, number: int) -> Any:
            return ROWS[number] * 2 + 1

    loader = data.DataLoader(Arrays(), batch_size=BATCH, shuffle=True, num_workers=0)
    yield lambda: sum(1 for _ in loader)
