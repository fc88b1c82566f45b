"""The methods of datasets that give their elements to graphs, and to plain loops."""

from typing import Any

from aioflow.data.dataset_base import DatasetBase
from aioflow.data.graph_iterator import Iterator, make_initializable_iterator, make_one_shot_iterator
from aioflow.data.iterator import Components, DatasetIterator
from aioflow.data.structures import (
    DatasetSpec,
    get_output_classes,
    get_output_shapes,
    get_output_types,
    get_structure,
)
from aioflow.library.queues import QueueBase
from aioflow.session import Session
from aioflow.waiting.producer import Feed


class NumpyIterator(DatasetIterator):
    """One iteration of a dataset, as `Dataset.iterate()` begins it.

    Args:
        dataset: the dataset.

    Examples:
        >>> iterator = af.data.NumpyIterator(af.data.Dataset.range(2))
        >>> [int(number) async for number in iterator]
        [0, 1]
    """

    def __init__(self, dataset: "Feeding") -> None:
        super().__init__(dataset.stage)


class Feeding(DatasetBase):
    """Methods of `Dataset`."""

    def feed_into(self, session: Session, queue: QueueBase, close: bool = True) -> Feed:
        """Return a block in which a task puts the elements into a queue of the graph, as soon as there is room.

            async with dataset.feed_into(session, queue):
                async for loss in session.stream(train):
                    ...

        The leaves of an element are the components of the queue. See `aioflow.waiting.producer.Feed`.

        Args:
            session: the session of the queue.
            queue: a queue of the graph, such as an `af.FIFOQueue`.
            close: whether to close the queue at the end of the dataset.
        """
        return session.queue(queue).feed(Components(DatasetIterator(self.stage)), close=close)

    def make_one_shot_iterator(self) -> Iterator:
        """Return an iterator in the graph, which needs no initializer: see `af.data.make_one_shot_iterator`."""
        return make_one_shot_iterator(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """Return an iterator in the graph with an initializer: see `af.data.make_initializable_iterator`."""
        return make_initializable_iterator(self, shared_name)

    def as_numpy_iterator(self) -> NumpyIterator:
        """Return a new iteration for `async for`."""
        return NumpyIterator(self)

    @property
    def type_spec(self) -> DatasetSpec:
        """The description of this dataset, for `af.type_spec_from_value`."""
        return DatasetSpec(get_structure(self))

    @property
    def output_types(self) -> Any:
        """The structure of the dtypes of elements. ValueError if a function decides one."""
        return get_output_types(self)

    @property
    def output_shapes(self) -> Any:
        """The structure of the shapes of elements. ValueError if a function decides one."""
        return get_output_shapes(self)

    @property
    def output_classes(self) -> Any:
        """The structure of the classes of elements in a graph. ValueError if a function decides one."""
        return get_output_classes(self)
