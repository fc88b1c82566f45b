"""Handles of staging areas, in which elements wait between steps."""

from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state import staging as ops
from aioflow.library.resource_handle import Handle, dtypes_of, names_of, outside, shapes_of
from aioflow.tensors import dtypes as types
from aioflow.tensors.dtypes import DType, TensorShape

Values = Tensor | Sequence[TensorLike] | dict[str, TensorLike]
Taken = list[Tensor] | dict[str, Tensor]


class BaseStagingArea(Handle):
    """The common part of both kinds of staging areas. Not created directly."""

    def __init__(
        self,
        ref: Tensor,
        dtypes: list[DType],
        shapes: list[TensorShape],
        names: list[str] | None,
        room: tuple[int, int],
    ) -> None:
        super().__init__(ref)
        self._dtypes: Final = dtypes
        self._shapes: Final = shapes
        self._names: Final = names
        self._room: Final = room

    @property
    def dtypes(self) -> list[DType]:
        """The dtype of each component."""
        return list(self._dtypes)

    @property
    def shapes(self) -> list[TensorShape]:
        """The known part of each component's shape."""
        return list(self._shapes)

    @property
    def names(self) -> list[str] | None:
        """The names of the components, if any."""
        return None if self._names is None else list(self._names)

    @property
    def capacity(self) -> int:
        """The most elements; 0 for any number."""
        return self._room[0]

    @property
    def memory_limit(self) -> int:
        """The most bytes; 0 for any number."""
        return self._room[1]

    def _parts(self, values: Any, indices: Sequence[Any] | None) -> tuple[list[int], list[Tensor]]:
        """Return the numbers of the given components, and their values, in the order of the components."""
        if isinstance(values, dict):
            if self._names is None:
                raise ValueError("the components of this staging area have no names: give a list, not a dict")
            strays = values.keys() - set(self._names)
            if strays:
                raise ValueError(
                    f"the components are {', '.join(self._names)}; there is no {', '.join(map(str, strays))}"
                )
            given = {self._names.index(name): value for name, value in values.items()}
        else:
            if self._names is not None:
                raise ValueError(f"the components have names: give a dict of {', '.join(self._names)}")
            listed = list(values) if isinstance(values, (list, tuple)) else [values]
            places = range(len(listed)) if indices is None else self._places(indices)
            if len(places) != len(listed):
                raise ValueError(f"{len(listed)} values were given for {len(places)} components")
            given = dict(zip(places, listed, strict=True))
        if any(not 0 <= place < len(self._dtypes) for place in given):
            raise ValueError(f"an element has {len(self._dtypes)} components; numbers {sorted(given)} were given")
        chosen = sorted(given)
        tensors = [convert_to_tensor(given[at], self._dtypes[at], name=f"component_{at}") for at in chosen]
        return chosen, tensors

    def _places(self, indices: Sequence[Any] | None) -> list[int]:
        """Return the numbers of components, given as such or by name; all for None."""
        if indices is None:
            return list(range(len(self._dtypes)))
        if not isinstance(indices, (list, tuple)):
            raise TypeError(f"indices are a list of numbers or names of components, not {indices!r}")
        names = self._names or []
        strays = [index for index in indices if isinstance(index, str) and index not in names]
        if strays:
            raise ValueError(f"no component is named {strays[0]!r}")
        return [names.index(index) if isinstance(index, str) else index for index in indices]

    def _arrange_outputs(self, tensors: Sequence[Tensor], places: Sequence[int]) -> Any:
        """Return the tensors of these components in a list; by name if they have names."""
        if self._names is None:
            return list(tensors)
        return {self._names[place]: tensor for place, tensor in zip(places, tensors, strict=True)}


class StagingArea(BaseStagingArea):
    """Keeps elements between steps; the oldest leaves first.

        area = af.StagingArea([af.float32], shapes=[[32, 784]], capacity=2)
        put = area.put([batch])
        (x,) = area.get()

    A put waits for room and a take for an element. Waiting uses no thread, and cancelling it leaves nothing behind.

    Args:
        dtypes: the dtype of each component of an element.
        shapes: the shape of each; without shapes any is allowed.
        names: names of the components: then elements are dicts.
        shared_name: areas of this name are one area, in sessions that share their container.
        capacity: the most elements; 0 for any number.
        memory_limit: the most bytes; 0 for any number.

    Raises:
        TypeError, ValueError: the arguments contradict each other.

    Examples:
        >>> area = af.StagingArea([af.int32], shapes=[[]])
        >>> await session.run(area.put([7]))
        >>> await session.run(area.get())
        [np.int32(7)]
    """

    @transactional
    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        kinds, name = dtypes_of(dtypes), _shared_name(shared_name)
        known, named = shapes_of(shapes, len(kinds)), names_of(names, len(kinds))
        with outside() as container:
            ref = ops.staging_area(kinds, known, capacity, memory_limit, container, name, name=name or "StagingArea")
        super().__init__(ref, kinds, known, named, (capacity, memory_limit))

    def put(self, values: Values, name: str | None = None) -> Operation:
        """Return an operation that puts one element, as soon as there is room.

        It fails with ResourceExhaustedError if the element has more bytes than the area ever holds.

        Args:
            values: the components in a list or tuple; the tensor itself if there is one; a dict if they have names.
            name: the name of the operation.

        Raises:
            TypeError, ValueError: there are more or fewer components, or one cannot have its dtype or shape.
        """

        def build(name: str) -> Operation:
            places, tensors = self._parts(values, None)
            if len(places) != len(self._dtypes):
                raise ValueError(f"{len(places)} components were given, an element has {len(self._dtypes)}")
            return ops.stage(self._ref, tensors, name)

        return self._build("put", name, build)

    def get(self, name: str | None = None) -> Any:
        """Take the oldest element, as soon as there is one, and return its components: a list, or a dict by name."""
        tensors = self._build("get", name, lambda name: ops.unstage(self._ref, name))
        return self._arrange_outputs(tensors, range(len(tensors)))

    def peek(self, index: NumberLike, name: str | None = None) -> Any:
        """Return the components of element number `index`, from the oldest, as soon as it exists; it stays."""
        tensors = self._build("peek", name, lambda name: ops.stage_peek(self._ref, index, name))
        return self._arrange_outputs(tensors, range(len(tensors)))

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements."""
        made: Tensor = self._build("size", name, lambda name: ops.stage_size(self._ref, name=name))
        return made

    def clear(self, name: str | None = None) -> Operation:
        """Return an operation that removes all elements."""
        made: Operation = self._build("clear", name, lambda name: ops.stage_clear(self._ref, name=name))
        return made


class MapStagingArea(BaseStagingArea):
    """Keeps elements by key, an int64, until they are taken: by key, or any, or the lowest key if `ordered`.

    The components of an element may be put one by one; the element is complete when it has all. They may be taken one
    by one too; the element is removed with the last one. Waiting uses no thread, and cancelling it leaves nothing
    behind.

    Args:
        dtypes: the dtype of each component of an element.
        shapes: the shape of each; without shapes any is allowed.
        names: names of the components: then elements are dicts.
        shared_name: areas of this name are one area, in sessions that share their container.
        ordered: whether `get` without a key takes the lowest one.
        capacity: the most complete elements; 0 for any number.
        memory_limit: the most bytes; 0 for any number.

    Examples:
        >>> area = af.MapStagingArea([af.int32], shapes=[[]])
        >>> await session.run(area.put(af.constant(5, af.int64), [7]))
        >>> await session.run(area.get(af.constant(5, af.int64)))
        (np.int64(5), [np.int32(7)])
    """

    @transactional
    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        ordered: bool = False,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        kinds, name = dtypes_of(dtypes), _shared_name(shared_name)
        known, named = shapes_of(shapes, len(kinds)), names_of(names, len(kinds))
        with outside() as container:
            ref = ops.map_staging_area(
                kinds, known, ordered, capacity, memory_limit, container, name, name=name or "MapStagingArea"
            )
        super().__init__(ref, kinds, known, named, (capacity, memory_limit))

    def put(
        self, key: TensorLike, vals: Values, indices: Sequence[Any] | None = None, name: str | None = None
    ) -> Operation:
        """Return an operation that puts components of the element under `key`.

        A complete element waits for room, a part of one only for memory. It fails with InvalidArgumentError if the key
        exists already, or has one of these components.

        Args:
            key: the key.
            vals: the components in a list or tuple; a tensor if there is one; a dict if they have names.
            indices: the numbers of the given components; by default all, or those named.
            name: the name of the operation.
        """

        def build(name: str) -> Operation:
            places, tensors = self._parts(vals, indices)
            whole = len(places) == len(self._dtypes)
            if indices is None and not whole and not isinstance(vals, dict):
                raise ValueError(f"{len(places)} components of {len(self._dtypes)} were given: set indices=")
            return ops.map_stage(self._ref, _key(key), tensors, None if whole else places, name)

        return self._build("put", name, build)

    def get(
        self, key: TensorLike | None = None, indices: Sequence[Any] | None = None, name: str | None = None
    ) -> tuple[Any, Any]:
        """Take components of an element as soon as it is complete. Returns the key and a list, or a dict by name.

        It fails with InvalidArgumentError if one of the components was taken before.

        Args:
            key: the key; without a key the lowest one if the area is ordered, else any.
            indices: the numbers, or names, of the components to take; all by default.
            name: the name of the operation.
        """

        def build(name: str) -> tuple[Any, Any]:
            places = self._places(indices)
            chosen = None if indices is None else places
            if key is None:
                found, *tensors = ops.map_unstage_no_key(self._ref, chosen, name)
                return found, self._arrange_outputs(tensors, places)
            return key, self._arrange_outputs(ops.map_unstage(self._ref, _key(key), chosen, name), places)

        return self._build("get", name, build)

    def peek(self, key: TensorLike, indices: Sequence[Any] | None = None, name: str | None = None) -> Any:
        """Return components of the element under `key`, as soon as it is complete; they stay."""

        def build(name: str) -> Any:
            places = self._places(indices)
            return self._arrange_outputs(
                ops.map_peek(self._ref, _key(key), None if indices is None else places, name), places
            )

        return self._build("peek", name, build)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of complete elements."""
        made: Tensor = self._build("size", name, lambda name: ops.map_size(self._ref, name=name))
        return made

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Return the number of keys with missing components."""
        made: Tensor = self._build("incomplete_size", name, lambda name: ops.map_incomplete_size(self._ref, name=name))
        return made

    def clear(self, name: str | None = None) -> Operation:
        """Return an operation that removes all elements and parts of elements."""
        made: Operation = self._build("clear", name, lambda name: ops.map_clear(self._ref, name=name))
        return made


def _key(key: TensorLike) -> Tensor:
    return convert_to_tensor(key, preferred_dtype=types.int64)


def _shared_name(given: str | None) -> str:
    if given is not None and not isinstance(given, str):
        raise ValueError(f"shared_name must be text, not {given!r}")
    return given or ""
