"""Iterators in graphs: the elements of a dataset as tensors, a new element in each step."""

import operator
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from aioflow.data.checks import stage_of
from aioflow.data.elements import leaves_of, map_leaves, with_leaves
from aioflow.data.iterator import Components as ElementComponents
from aioflow.data.optional import Optional
from aioflow.data.structures import components_of, get_structure, structure_from
from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state import iterators as ops
from aioflow.library.resource_handle import Handle, outside
from aioflow.resources.iteration import Components, Source


class Iterator(Handle):
    """The elements of a dataset as tensors: each run of `get_next` gives the next one.

        iterator = af.data.make_one_shot_iterator(dataset)
        images, labels = iterator.get_next()

    Each session has its own place in the dataset. Steps get their elements in the order of their calls; a step that
    fails or is cancelled has taken none. The end of the dataset raises OutOfRangeError. When the session is closed, all
    tasks, calls and files of the dataset have ended. A graph with a dataset runs in the process that built it; for a
    cluster, `Dataset.feed_into` feeds a queue. Made by `make_one_shot_iterator` and the like.

    Args:
        iterator_resource: the handle, a tensor.
        initializer: the operation that gives it its dataset; None if it has one.
        output_types: the structure of the dtypes of elements.
        output_shapes: the structure of their shapes.
        output_classes: the structure of their classes, which are all `af.Tensor`.

    Examples:
        >>> element = af.data.make_one_shot_iterator(af.data.Dataset.range(2)).get_next()
        >>> await session.run(element), await session.run(element)
        (np.int64(0), np.int64(1))
    """

    def __init__(
        self,
        iterator_resource: Tensor,
        initializer: Operation | None,
        output_types: Any,
        output_shapes: Any = None,
        output_classes: Any = None,
    ) -> None:
        ops.IteratorSpec.check(iterator_resource.spec)
        super().__init__(iterator_resource)
        self._initializer: Final = initializer
        self._structure: Final = structure_from(output_types, output_shapes, output_classes)

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: str | None = None, output_classes: Any = None
    ) -> "Iterator":
        """Return an iterator without a dataset: the operations of `make_initializer` give it one."""
        structure = structure_from(output_types, output_shapes, output_classes)
        return _iterator(structure, None, shared_name)

    @staticmethod
    def from_string_handle(
        string_handle: TensorLike, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> "Iterator":
        """Return the iterator that a string names, a value of its `string_handle()` in the same session."""
        types, shapes = components_of(structure_from(output_types, output_shapes, output_classes))
        ref = ops.iterator_from_string_handle(string_handle, types, shapes, name="iterator_from_string_handle")
        return Iterator(ref, None, output_types, output_shapes, output_classes)

    @property
    def initializer(self) -> Operation:
        """The operation that begins with the first element of its dataset. ValueError if it has no such operation."""
        if self._initializer is None:
            raise ValueError(f"iterator {self.name!r} has no initializer: make_initializable_iterator makes one")
        return self._initializer

    def make_initializer(self, dataset: Any, name: str | None = None) -> Operation:
        """Return an operation after which it gives the elements of a dataset, from the first one on.

        TypeError or ValueError if the elements are known to have other dtypes or shapes.
        """
        source = DatasetSource(dataset)
        found = leaves_of(get_structure(dataset))
        wanted = leaves_of(self._structure)
        if None not in found and (
            len(found) != len(wanted)
            or not all(ours.is_compatible_with(theirs) for ours, theirs in zip(wanted, found, strict=True))
        ):
            raise TypeError(f"the iterator gives elements like {self._structure}, and {dataset!r} has {found}")
        return self._build("make_initializer", name, lambda name: ops.make_iterator(self._ref, source, name=name))

    def get_next(self, name: str | None = None) -> Any:
        """Return the next element: a structure of tensors. Each tensor of one call is of the same element."""
        made = self._build("get_next", name, lambda name: ops.iterator_get_next(self._ref, name=name))
        return with_leaves(self._structure, [made] if isinstance(made, Tensor) else made)

    def get_next_as_optional(self) -> Optional:
        """Return the next element, or nothing at the end of the dataset, which raises no error then."""
        has_value, *components = self._build(
            "get_next_as_optional", None, lambda name: ops.iterator_get_next_as_optional(self._ref, name=name)
        )
        return Optional(has_value, components, self._structure)

    def string_handle(self, name: str | None = None) -> Tensor:
        """Return a string that names it, for `from_string_handle`."""
        return self._build("string_handle", name, lambda name: ops.iterator_to_string_handle(self._ref, name=name))

    @property
    def element_spec(self) -> Any:
        """The structure of its elements, with a `TensorSpec` for each component."""
        return self._structure

    @property
    def output_types(self) -> Any:
        """The structure of the dtypes of its elements."""
        return map_leaves(lambda spec: spec.dtype, self._structure)

    @property
    def output_shapes(self) -> Any:
        """The structure of the shapes of its elements."""
        return map_leaves(lambda spec: spec.shape, self._structure)

    @property
    def output_classes(self) -> Any:
        """The structure of the classes of its elements."""
        return map_leaves(lambda spec: spec.value_type, self._structure)


def make_one_shot_iterator(dataset: Any) -> Iterator:
    """Return an iterator of a dataset, which needs no initializer.

    Raises:
        ValueError: the dtypes of the elements are not known, as after `map`: `Dataset.with_element_spec` declares them.

    Examples:
        >>> squares = af.data.Dataset.range(5).map(lambda number: number**2)
        >>> squares = squares.with_element_spec(af.TensorSpec([], af.int64))
        >>> square = af.data.make_one_shot_iterator(squares).get_next()
        >>> [int(await session.run(square)) for _ in range(3)]
        [0, 1, 4]
    """
    source = DatasetSource(dataset)
    return _iterator(get_structure(dataset), source)


def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> Iterator:
    """Return an iterator of a dataset, whose `initializer` must run before, and begins anew each time.

    Args:
        dataset: the dataset.
        shared_name: iterators of this name are one iterator, in sessions that share their container.

    Raises:
        ValueError: the dtypes of the elements are not known: see `make_one_shot_iterator`.

    Examples:
        >>> iterator = af.data.make_initializable_iterator(af.data.Dataset.range(3))
        >>> element = iterator.get_next()
        >>> await session.run(iterator.initializer)
        >>> await session.run(element)
        np.int64(0)
    """
    source = DatasetSource(dataset)
    structure = get_structure(dataset)
    made = _iterator(structure, None, shared_name)
    with outside():
        initializer = ops.make_iterator(made._ref, source, name="make_iterator")
    return _made(made._ref, initializer, structure)


def get_next_as_optional(iterator: Iterator) -> Optional:
    """Return the next element of an iterator, or nothing at the end of its dataset.

    Examples:
        >>> iterator = af.data.make_one_shot_iterator(af.data.Dataset.range(1))
        >>> found = af.data.experimental.get_next_as_optional(iterator)
        >>> await session.run(found.has_value()), await session.run(found.has_value())
        (np.True_, np.False_)
    """
    return iterator.get_next_as_optional()


@transactional
def _iterator(structure: Any, source: "DatasetSource | None", shared_name: str | None = None) -> Iterator:
    types, shapes = components_of(structure)
    with outside() as container:
        if source is None:
            ref = ops.iterator(types, shapes, container, shared_name or "", name="iterator")
        else:
            ref = ops.one_shot_iterator(source, types, shapes, container, name="one_shot_iterator")
    return _made(ref, None, structure)


def _made(ref: Tensor, initializer: Operation | None, structure: Any) -> Iterator:
    types, shapes = (map_leaves(operator.attrgetter(name), structure) for name in ("dtype", "shape"))
    return Iterator(ref, initializer, types, shapes)


class DatasetSource(Source):
    """A dataset as the source of an iterator in a graph.

    Attributes:
        instead: what to do if the graph shall leave the process.
    """

    instead: ClassVar = ": let Dataset.feed_into feed a queue of the graph"

    def __init__(self, dataset: Any) -> None:
        stage_of(dataset)
        self._dataset: Final = dataset

    def components(self, state: Mapping[str, Any] | None = None) -> Components:
        """Return a new iteration."""
        return ElementComponents(self._dataset.iterate(state))

    def __repr__(self) -> str:
        return repr(self._dataset)
