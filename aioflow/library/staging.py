"""Staging areas as users hold them: elements put by some steps, taken by others."""

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
    """What staging areas of both kinds have. Not made directly."""

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
        """The shape of each component, as far as it is fixed."""
        return list(self._shapes)

    @property
    def names(self) -> list[str] | None:
        """The names of the components, if they have some."""
        return None if self._names is None else list(self._names)

    @property
    def capacity(self) -> int:
        """How many elements it holds, 0 for any number."""
        return self._room[0]

    @property
    def memory_limit(self) -> int:
        """How many bytes it holds, 0 for any number."""
        return self._room[1]

    def _parts(self, values: Any, indices: Sequence[Any] | None) -> tuple[list[int], list[Tensor]]:
        """Which components the values are, and the values, in the order of the components."""
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
        """Numbers of components, given as such or by name; all for None."""
        if indices is None:
            return list(range(len(self._dtypes)))
        if not isinstance(indices, (list, tuple)):
            raise TypeError(f"indices are a list of numbers or names of components, not {indices!r}")
        names = self._names or []
        strays = [index for index in indices if isinstance(index, str) and index not in names]
        if strays:
            raise ValueError(f"no component is named {strays[0]!r}")
        return [names.index(index) if isinstance(index, str) else index for index in indices]

    def _given(self, tensors: Sequence[Tensor], places: Sequence[int]) -> Any:
        """The tensors of these components in a list; by name if they have names."""
        if self._names is None:
            return list(tensors)
        return {self._names[place]: tensor for place, tensor in zip(places, tensors, strict=True)}


class StagingArea(BaseStagingArea):
    """Keeps elements, put by some steps, until others take them: those that came first leave first.

        area = af.StagingArea([af.float32], shapes=[[32, 784]], capacity=2)
        put = area.put([batch])
        (x,) = area.get()

    Putting waits for room and taking for an element; waiting holds no thread, and cancelling it leaves nothing behind.

    Args:
        dtypes: the dtype of each component of an element.
        shapes: the shape of each; without them they may have any.
        names: names of the components: then elements are put and given as dicts.
        shared_name: areas of that name are one, in sessions that share their container.
        capacity: how many elements it holds, 0 for any number.
        memory_limit: how many bytes it holds, 0 for any number.

    Raises:
        TypeError, ValueError: these do not fit together.
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
        """An operation that puts one element, as soon as there is room.

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
        """The components of the oldest element, which leaves as soon as there is one: a list, or a dict by name."""
        tensors = self._build("get", name, lambda name: ops.unstage(self._ref, name))
        return self._given(tensors, range(len(tensors)))

    def peek(self, index: NumberLike, name: str | None = None) -> Any:
        """The components of the element before which there are `index` others, as soon as it is there; it stays."""
        tensors = self._build("peek", name, lambda name: ops.stage_peek(self._ref, index, name))
        return self._given(tensors, range(len(tensors)))

    def size(self, name: str | None = None) -> Tensor:
        """How many elements are in it."""
        made: Tensor = self._build("size", name, lambda name: ops.stage_size(self._ref, name=name))
        return made

    def clear(self, name: str | None = None) -> Operation:
        """An operation after which nothing is in it."""
        made: Operation = self._build("clear", name, lambda name: ops.stage_clear(self._ref, name=name))
        return made


class MapStagingArea(BaseStagingArea):
    """Keeps elements by key, an int64, until they are taken: by key, or any, or the least key if `ordered`.

    The components of an element may be put one by one: it is there when it has all. They may be taken one by one too,
    and the element is gone when all are. Waiting holds no thread, and cancelling it leaves nothing behind.

    Args:
        dtypes: the dtype of each component of an element.
        shapes: the shape of each; without them they may have any.
        names: names of the components: then elements are put and given as dicts.
        shared_name: areas of that name are one, in sessions that share their container.
        ordered: whether `get` without a key takes the least one.
        capacity: how many whole elements it holds, 0 for any number.
        memory_limit: how many bytes it holds, 0 for any number.
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
        """An operation that puts components of the element under `key`.

        A whole element waits for room, parts of one only for memory. It fails with InvalidArgumentError if the key is
        there already, or has one of these components.

        Args:
            key: the key.
            vals: the components in a list or tuple; a tensor if there is one; a dict if they have names.
            indices: the numbers of the components that are given; by default all, or those named.
            name: the name of the operation.
        """

        def build(name: str) -> Operation:
            places, tensors = self._parts(vals, indices)
            whole = len(places) == len(self._dtypes)
            if indices is None and not whole and not isinstance(vals, dict):
                raise ValueError(f"{len(places)} components of {len(self._dtypes)} were given: indices= tells which")
            return ops.map_stage(self._ref, _key(key), tensors, None if whole else places, name)

        return self._build("put", name, build)

    def get(
        self, key: TensorLike | None = None, indices: Sequence[Any] | None = None, name: str | None = None
    ) -> tuple[Any, Any]:
        """A key and components of its element, which leave as soon as it is whole: in a list, or a dict by name.

        It fails with InvalidArgumentError if one of the components was taken before.

        Args:
            key: the key; without it the least one if the area is ordered, else any.
            indices: the numbers, or names, of the components to take; all by default.
            name: the name of the operation.
        """

        def build(name: str) -> tuple[Any, Any]:
            places = self._places(indices)
            chosen = None if indices is None else places
            if key is None:
                found, *tensors = ops.map_unstage_no_key(self._ref, chosen, name)
                return found, self._given(tensors, places)
            return key, self._given(ops.map_unstage(self._ref, _key(key), chosen, name), places)

        return self._build("get", name, build)

    def peek(self, key: TensorLike, indices: Sequence[Any] | None = None, name: str | None = None) -> Any:
        """Components of the element under `key`, as soon as it is whole; they stay."""

        def build(name: str) -> Any:
            places = self._places(indices)
            return self._given(ops.map_peek(self._ref, _key(key), None if indices is None else places, name), places)

        return self._build("peek", name, build)

    def size(self, name: str | None = None) -> Tensor:
        """How many whole elements are in it."""
        made: Tensor = self._build("size", name, lambda name: ops.map_size(self._ref, name=name))
        return made

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """How many keys lack components."""
        made: Tensor = self._build("incomplete_size", name, lambda name: ops.map_incomplete_size(self._ref, name=name))
        return made

    def clear(self, name: str | None = None) -> Operation:
        """An operation after which nothing is in it, whole or in parts."""
        made: Operation = self._build("clear", name, lambda name: ops.map_clear(self._ref, name=name))
        return made


def _key(key: TensorLike) -> Tensor:
    return convert_to_tensor(key, preferred_dtype=types.int64)


def _shared_name(given: str | None) -> str:
    if given is not None and not isinstance(given, str):
        raise ValueError(f"shared_name is text, not {given!r}")
    return given or ""
