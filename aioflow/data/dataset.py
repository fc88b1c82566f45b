"""Datasets: pipelines of elements as values, with the names and arguments of `tf.data`."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioflow import errors
from aioflow.data.batch import Unbatch
from aioflow.data.calls import UserFunction
from aioflow.data.checks import (
    AUTOTUNE,
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    finite,
    integer,
    natural,
    parallel,
    paths,
    positive,
    stage_of,
    stages_of,
)
from aioflow.data.choice import Chance, Choose, RandomNumbers, checked_weights
from aioflow.data.combine import Concatenate, Repeat, Zip
from aioflow.data.declared import Declared
from aioflow.data.elements import as_element, leaves_of, map_leaves
from aioflow.data.feeding import Feeding
from aioflow.data.generators import Generator
from aioflow.data.grouping import Grouping
from aioflow.data.interleave import FlatMap, Interleave
from aioflow.data.iterator import DatasetIterator
from aioflow.data.keeping import Keeping, kept_in
from aioflow.data.options import Options, WithOptions, options_of
from aioflow.data.padded_batch import PaddedBatch
from aioflow.data.parallel_map import ParallelMap
from aioflow.data.prefetch import Prefetch
from aioflow.data.ragged_slices import RaggedSlices, has_rows
from aioflow.data.record_files import Matching
from aioflow.data.row_batch import batched
from aioflow.data.selection import Enumerate, IgnoreErrors, Shard, Skip, Take
from aioflow.data.shuffle import Shuffle
from aioflow.data.sources import Counter, Range, Slices, Values
from aioflow.data.sparse_batch import SparseBatch
from aioflow.data.stage import Stage
from aioflow.data.structures import specs_of
from aioflow.data.transform import Filter, Map, Reduce, TakeWhile
from aioflow.data.window import Window
from aioflow.files.filesystem import Path
from aioflow.tensors.dtypes import DTypeLike, ShapeLike, as_dtype, int64
from aioflow.tensors.recursion import safe_repr


class Dataset(Grouping, Keeping, Feeding):
    """A pipeline of elements, as an immutable value: nothing runs until it is iterated.

        dataset = af.data.Dataset.from_tensor_slices((images, labels)).shuffle(1000, seed=1).batch(32).prefetch(2)
        async for images, labels in dataset:
            ...

    Elements are NumPy arrays, NumPy scalars and bytes, alone or in nested tuples, named tuples and dicts; lists become
    arrays. Each `async for` is an iteration of its own. Functions of the user get the items of a tuple as arguments,
    and any other element as the only one. Async functions are awaited; others run on threads of the loop's executor,
    so that they never block the loop. What `session.make_callable` returns is an async function.

    Buffers are bounded: a stage works at most as far ahead as its arguments say. An error of a function or generator
    is raised as an OpError that names the stage, the user's line that made it, and the number of the element.

    Examples:
        >>> dataset = af.data.Dataset.range(6).map(lambda number: number * number).batch(4)
        >>> [batch.tolist() async for batch in dataset]
        [[0, 1, 4, 9], [16, 25]]
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)

    def _followed_by(self, stage: Stage) -> "Dataset":
        return Dataset(stage)

    # Sources

    @staticmethod
    def from_tensors(tensors: Any) -> "Dataset":
        """Return a dataset of one element."""
        return Dataset(Values([as_element(tensors)]))

    @staticmethod
    def from_tensor_slices(tensors: Any) -> "Dataset":
        """Return a dataset of the rows of arrays, which it does not copy, and of those of RaggedTensorValues.

        ValueError if the arrays have no first axis of the same length.
        """
        return Dataset(RaggedSlices(tensors) if has_rows(tensors) else Slices(tensors))

    @staticmethod
    def from_generator(
        generator: Callable[..., Any],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Sequence[Any] = (),
    ) -> "Dataset":
        """Return a dataset of what a generator yields.

        A position in it is the number of elements: to go on from a state, the generator is called anew, and the
        elements before that are dropped.

        Args:
            generator: a function that returns an iterable, such as a generator function, or an async iterable. It is
                called for each iteration. An iterable runs on threads, one step at a time.
            output_types: a structure of dtypes, to which values are converted. By default values keep their dtypes.
            output_shapes: a structure of shapes, which values must have.
            args: the arguments of the function.
        """
        if not callable(generator):
            raise TypeError(f"generator is a function that returns an iterable, not {safe_repr(generator)}")
        return Dataset(Generator(UserFunction(generator, "generator"), output_types, output_shapes, args))

    @staticmethod
    def range(*args: int) -> "Dataset":
        """Return a dataset of the integers of `range(*args)`, as int64."""
        return Dataset(Range(*args))

    @staticmethod
    def counter(start: int = 0, step: int = 1, dtype: DTypeLike = int64) -> "Dataset":
        """Return a dataset of integers without an end, by default as int64."""
        return Dataset(Counter(integer(start, "start"), integer(step, "step"), as_dtype(dtype)))

    @staticmethod
    def random(seed: int | None = None, rerandomize_each_iteration: bool | None = None) -> "Dataset":
        """Return a dataset of random integers from 0 to 2³² - 1 without an end, as int64.

        Args:
            seed: decides the integers; None for others in each iteration.
            rerandomize_each_iteration: whether each epoch has other ones; by default all epochs have the same.
        """
        return Dataset(RandomNumbers(seed, bool(rerandomize_each_iteration)))

    @staticmethod
    def list_files(
        file_pattern: Path | Sequence[Path], shuffle: bool | None = None, seed: int | None = None
    ) -> "Dataset":
        """Return a dataset of the names of the files that match a pattern, or several; as bytes.

        The iteration finds the files. It raises InvalidArgumentError if none matches.

        Args:
            file_pattern: names with `*`, `?` and `[...]`.
            shuffle: whether the names come in a random order, which is the default, or sorted.
            seed: decides the order.
        """
        names = Matching(paths(file_pattern))
        return Dataset(names if shuffle is False else Shuffle(names, None, seed, True))

    @staticmethod
    def load(path: Path, element_spec: Any = None) -> "Dataset":
        """Return a dataset of the elements that `save` or `snapshot` wrote to a folder.

        Args:
            path: the folder.
            element_spec: the structure of the elements, with a `TensorSpec` for each component; unknown by default.
        """
        return Dataset(kept_in(path, element_spec))

    @staticmethod
    def zip(*datasets: Any) -> "Dataset":
        """Return a dataset of tuples with an element of each dataset, until one of them ends.

        Args:
            *datasets: datasets, or one nested structure of datasets, whose elements have that structure.
        """
        structure = datasets[0] if len(datasets) == 1 else datasets
        stages = [stage_of(dataset) for dataset in leaves_of(structure)]
        if not stages:
            raise ValueError("zip needs at least one dataset")
        numbers = iter(range(len(stages)))
        return Dataset(Zip(map_leaves(lambda _: next(numbers), structure), stages))

    @staticmethod
    def choose_from_datasets(
        datasets: "Sequence[Dataset]", choice_dataset: "Dataset", stop_on_empty_dataset: bool = True
    ) -> "Dataset":
        """Return a dataset of elements of several, of which another one has the number of each: integers from 0 on.

        Args:
            datasets: the datasets.
            choice_dataset: the numbers.
            stop_on_empty_dataset: whether it ends when a chosen dataset has ended; else the next choice counts.
        """
        stages = stages_of(datasets)
        return Dataset(Choose("choose_from_datasets", stage_of(choice_dataset), stages, stop_on_empty_dataset))

    @staticmethod
    def sample_from_datasets(
        datasets: "Sequence[Dataset]",
        weights: Sequence[float] | None = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
    ) -> "Dataset":
        """Return a dataset of elements of several, of which chance chooses one for each element.

        Args:
            datasets: the datasets.
            weights: the relative frequency of each; the same by default.
            seed: decides the order; None for another order in each iteration.
            stop_on_empty_dataset: whether it ends when a chosen dataset has ended; else when all have.
        """
        stages = stages_of(datasets)
        pairs = [pair for pair in zip(stages, checked_weights(weights, len(stages)), strict=True) if pair[1]]
        choices = Chance([weight for _, weight in pairs], seed)
        return Dataset(Choose("sample_from_datasets", choices, [each for each, _ in pairs], stop_on_empty_dataset))

    # Functions

    def map(self, map_func: Callable[..., Any], num_parallel_calls: int | None = None) -> "Dataset":
        """Return a dataset of a function of each element, in their order.

        Args:
            map_func: an ordinary function, which runs on threads, or an async function. A list that it returns has the
                components of the element, as a tuple does.
            num_parallel_calls: the most calls at a time, and the most results that wait for the consumer; None for one
                call when its result is asked for. An ordinary function that has proved brief is called for several
                elements that are at hand, up to 1 ms ahead.
        """
        function = UserFunction(map_func, "map_func")
        if num_parallel_calls is None:
            return Dataset(Map(self.stage, function))
        return Dataset(ParallelMap(self.stage, function, parallel(num_parallel_calls, "num_parallel_calls")))

    def filter(self, predicate: Callable[..., Any]) -> "Dataset":
        """Return a dataset of the elements for which an ordinary or async function returns True."""
        return Dataset(Filter(self.stage, UserFunction(predicate, "predicate"), self.stage.spec))

    def take_while(self, predicate: Callable[..., Any]) -> "Dataset":
        """Return a dataset of the elements before the first one for which a function returns False."""
        return Dataset(TakeWhile(self.stage, UserFunction(predicate, "predicate"), self.stage.spec))

    def ignore_errors(self, log_warning: bool = False) -> "Dataset":
        """Return a dataset without the elements for which a function of a `map` or `filter` before fails.

        A batch after such a `map` has the next elements in their place. Other errors, such as those of generators and
        files, are raised; a `cache` keeps whole iterations, so errors before it are raised, too.

        Args:
            log_warning: whether the log warns of each.
        """
        return Dataset(IgnoreErrors(self.stage, log_warning))

    def flat_map(self, map_func: Callable[..., Any]) -> "Dataset":
        """Return a dataset of the elements of the datasets that a function returns, one dataset after the other."""
        return Dataset(FlatMap(self.stage, UserFunction(map_func, "map_func")))

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: int = AUTOTUNE,
        block_length: int = 1,
        num_parallel_calls: int | None = None,
    ) -> "Dataset":
        """Return a dataset of the elements of the datasets that a function returns, some of each in turn.

        Args:
            map_func: returns a dataset for an element.
            cycle_length: the number of datasets that are open at a time.
            block_length: the number of elements from one dataset before the next one has its turn.
            num_parallel_calls: the number of open datasets that make elements ahead at a time, up to `block_length` of
                them each. By default only the dataset in turn makes elements. The order is the same.
        """
        function = UserFunction(map_func, "map_func")
        length, block = parallel(cycle_length, "cycle_length"), positive(block_length, "block_length")
        ahead = 0 if num_parallel_calls is None else parallel(num_parallel_calls, "num_parallel_calls")
        return Dataset(Interleave(self.stage, function, length, block, ahead))

    def apply(self, transformation_func: "Callable[[Dataset], Dataset]") -> "Dataset":
        """Return the dataset that a function makes of this one. TypeError if it makes none."""
        made = transformation_func(self)
        stage_of(made)
        return made

    async def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        """Return the last state of a function that makes the next state of a state and an element.

        Args:
            initial_state: the first state, with the structure of an element.
            reduce_func: an ordinary or async function of a state and an element.

        Raises:
            ValueError: the dataset never ends.
        """
        stage = Reduce(
            finite(self.stage, "reduce"), UserFunction(reduce_func, "reduce_func"), as_element(initial_state)
        )
        async with DatasetIterator(stage) as states:
            return await anext(states)

    # Batches

    def batch(self, batch_size: int, drop_remainder: bool = False) -> "Dataset":
        """Return a dataset of elements stacked along a new first axis.

        Args:
            batch_size: the number of elements of a batch.
            drop_remainder: whether a last batch of fewer elements is left out.

        Raises:
            InvalidArgumentError: in the iteration: dtypes, shapes or structures of the elements differ.
        """
        return Dataset(batched(self.stage, positive(batch_size, "batch_size"), drop_remainder))

    def padded_batch(
        self, batch_size: int, padded_shapes: Any = None, padding_values: Any = None, drop_remainder: bool = False
    ) -> "Dataset":
        """Return a dataset of elements of different sizes, filled up and stacked.

        Args:
            batch_size: the number of elements of a batch.
            padded_shapes: a structure of shapes; an unknown size, None or -1, becomes the largest of the batch. By
                default all sizes are unknown.
            padding_values: a structure of values, or one for all components; 0, False or empty text by default.
            drop_remainder: whether a last batch of fewer elements is left out.

        Raises:
            InvalidArgumentError: in the iteration: an element is larger than its padded shape, or dtypes or ranks
                differ.
        """
        size = positive(batch_size, "batch_size")
        return Dataset(PaddedBatch(self.stage, size, padded_shapes, padding_values, drop_remainder))

    def sparse_batch(self, batch_size: int, row_shape: ShapeLike) -> "Dataset":
        """Return a dataset of arrays of different sizes put together as `SparseTensorValue`s with all their elements.

        Args:
            batch_size: the number of arrays of a batch.
            row_shape: the shape of an array; an unknown size becomes the largest of the batch.

        Raises:
            InvalidArgumentError: in the iteration: an array is larger than a row, or dtypes or ranks differ.
        """
        return Dataset(SparseBatch(self.stage, positive(batch_size, "batch_size"), row_shape))

    def unbatch(self) -> "Dataset":
        """Return a dataset of the rows of each element."""
        return Dataset(Unbatch(self.stage))

    def rebatch(self, batch_size: int, drop_remainder: bool = False) -> "Dataset":
        """Return a dataset of batches of another size."""
        return self.unbatch().batch(batch_size, drop_remainder)

    def window(self, size: int, shift: int | None = None, stride: int = 1, drop_remainder: bool = False) -> "Dataset":
        """Return a dataset of windows: structures like an element, with datasets of its components.

            series.window(3, shift=1, drop_remainder=True).flat_map(lambda window: window.batch(3))

        Args:
            size: the number of elements of a window.
            shift: the number of elements between the beginnings of two windows; `size` by default.
            stride: the distance between two elements of a window.
            drop_remainder: whether windows of fewer elements, at the end, are left out.
        """
        size, stride = positive(size, "size"), positive(stride, "stride")
        shift = size if shift is None else positive(shift, "shift")
        return Dataset(Window(self.stage, size, shift, stride, drop_remainder, Dataset))

    # Orders and selections

    def shuffle(
        self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool | None = None
    ) -> "Dataset":
        """Return a dataset of the elements in a random order: each is drawn of a buffer with the next `buffer_size`.

        To go on from a state, the elements before are made anew and dropped. So shuffle before expensive functions.

        Args:
            buffer_size: the most elements in the buffer.
            seed: decides the order: every iteration of the same epoch has the same. None for another order in each.
            reshuffle_each_iteration: whether each epoch of a `repeat`, and each `epoch` of `iterate`, has another
                order, which is the default.
        """
        size = positive(buffer_size, "buffer_size")
        return Dataset(Shuffle(self.stage, size, seed, reshuffle_each_iteration is not False))

    def repeat(self, count: int | None = None) -> "Dataset":
        """Return a dataset of the elements `count` times; for ever for None or -1.

        A dataset without elements ends at once.
        """
        return Dataset(Repeat(self.stage, -1 if count is None else integer(count, "count")))

    def concatenate(self, dataset: "Dataset") -> "Dataset":
        """Return a dataset of these elements, followed by those of another dataset."""
        first, second = self.stage, stage_of(dataset)
        return Dataset(Concatenate(first.spec if str(first.spec) == str(second.spec) else None, first, second))

    def take(self, count: int) -> "Dataset":
        """Return a dataset of the first elements; of all for -1."""
        return Dataset(Take(self.stage, integer(count, "count")))

    def skip(self, count: int) -> "Dataset":
        """Return a dataset of all but the first elements; of none for -1."""
        return Dataset(Skip(self.stage, integer(count, "count")))

    def shard(self, num_shards: int, index: int) -> "Dataset":
        """Return a dataset of every `num_shards`th element from number `index` on, such as those for one worker."""
        if natural(index, "index") >= positive(num_shards, "num_shards"):
            raise ValueError(f"index must be from 0 to {num_shards - 1}, not {index}")
        return Dataset(Shard(self.stage, num_shards, index))

    def enumerate(self, start: int = 0) -> "Dataset":
        """Return a dataset of pairs of a number, as int64, and an element."""
        return Dataset(Enumerate(self.stage, integer(start, "start")))

    # Buffers

    def prefetch(self, buffer_size: int) -> "Dataset":
        """Return a dataset of the same elements, of which a task takes up to `buffer_size` before they are asked for.

        It begins when the first element is asked for.
        """
        size = integer(buffer_size, "buffer_size")
        return self if size == 0 else Dataset(Prefetch(self.stage, parallel(size, "buffer_size")))

    # Running

    def with_options(self, options: Options) -> "Dataset":
        """Return a dataset of the same elements, with options. TypeError if they are none."""
        if not isinstance(options, Options):
            raise TypeError(f"with_options needs af.data.Options, not {safe_repr(options)}")
        return Dataset(WithOptions(self.stage, options))

    def options(self) -> Options:
        """Return the options of this dataset and those before it."""
        return options_of(self.stage)

    @property
    def element_spec(self) -> Any:
        """A structure with the dtype and shape of each component; None for what a function decides."""
        return self.stage.spec

    def cardinality(self) -> int:
        """Return the number of elements, as far as it is known without an iteration.

        It is `af.data.INFINITE_CARDINALITY` for a dataset that never ends, and `af.data.UNKNOWN_CARDINALITY` if a
        function, a generator or a file decides.
        """
        size = self.stage.cardinality()
        return UNKNOWN_CARDINALITY if size is None else INFINITE_CARDINALITY if size == math.inf else int(size)

    def with_element_spec(self, element_spec: Any) -> "Dataset":
        """Return a dataset of the same elements, whose dtypes and shapes are declared, as graphs and tables need them.

            dataset.map(decode).with_element_spec((af.TensorSpec([28, 28], af.uint8), af.TensorSpec([], af.int64)))

        Args:
            element_spec: the structure of the elements, with a `TensorSpec` for each component.

        Raises:
            InvalidArgumentError: in the iteration: an element is not like that.
        """
        return Dataset(Declared(self.stage, specs_of(element_spec)))

    def iterate(self, state: Mapping[str, Any] | None = None, epoch: int = 0) -> DatasetIterator:
        """Return a new iteration.

        Args:
            state: what `state()` of another iteration returned: this one goes on after the last element of that.
            epoch: a number for shuffles, which have another order in each epoch.

        Raises:
            ValueError: the state is not one of this dataset, or the epoch is negative.
        """
        return DatasetIterator(self.stage, state, natural(epoch, "epoch"))

    async def get_single_element(self) -> Any:
        """Return the only element. InvalidArgumentError if there is none, or more."""
        async with self.take(2).iterate() as elements:
            found = [element async for element in elements]
        if len(found) != 1:
            raise errors.InvalidArgumentError(f"{self.stage} has {'more than one' if found else 'no'} element")
        return found[0]

    def __aiter__(self) -> DatasetIterator:
        return self.iterate()

    def __repr__(self) -> str:
        return f"<af.data.{type(self).__name__} {self.stage}>"

    def _repr_html_(self) -> str:
        from aioflow.notebook.pipeline import dataset_html

        return dataset_html(self.stage)
