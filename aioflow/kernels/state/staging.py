"""Ops on staging areas: some steps put elements, others take them, in order or by key. Waiting holds no thread."""

import functools
from collections.abc import Sequence
from typing import Annotated, Any, Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, op
from aioflow.graph.params import Prefer
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.state.resource_handles import LiveSpec, again, check_component, components, opened
from aioflow.queues import LARGE
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, Array, DeviceKind, DType, Spec, TensorShape
from aioflow.waiting.element_spec import Elements
from aioflow.waiting.map_staging import MapStagingArea
from aioflow.waiting.staging import Area, StagingArea, nbytes

CPU = DeviceKind.CPU
Key = Annotated[Spec, Prefer(dtypes.int64)]
"""Data that is the key of an element."""


class AreaSpec(LiveSpec):
    """A handle to a staging area of elements with the components `items`."""

    __slots__ = ()
    kind = "a StagingArea"


class MapSpec(LiveSpec):
    """A handle to a staging area of elements by key."""

    __slots__ = ()
    kind = "a MapStagingArea"


def _check_room(capacity: int, memory_limit: int) -> None:
    for name, limit in (("capacity", capacity), ("memory_limit", memory_limit)):
        if not isinstance(limit, int) or limit < 0:
            raise ValueError(f"{name} is a number, 0 for no limit, not {limit!r}")


@op(stateful=True, observes=True, handle=True)
def staging_area(
    dtypes: Sequence[DType],
    shapes: Sequence[TensorShape] = (),
    capacity: int = 0,
    memory_limit: int = 0,
    container: str = "",
    shared_name: str = "",
) -> Spec:
    """A handle to a staging area: the same one for every operation with that container and name."""
    _check_room(capacity, memory_limit)
    return AreaSpec(components(dtypes, shapes))


@staging_area.kernel(CPU)
def _(ctx: Context, *, node: NodeView) -> StagingArea:
    attrs = node.attrs
    return opened(
        ctx, node, StagingArea, lambda name: StagingArea(name, attrs["capacity"], attrs["memory_limit"], attrs)
    )


@op(stateful=True, observes=True, handle=True)
def map_staging_area(
    dtypes: Sequence[DType],
    shapes: Sequence[TensorShape] = (),
    ordered: bool = False,
    capacity: int = 0,
    memory_limit: int = 0,
    container: str = "",
    shared_name: str = "",
) -> Spec:
    """A handle to a staging area of elements by key; if it is ordered the least key comes out first."""
    _check_room(capacity, memory_limit)
    return MapSpec(components(dtypes, shapes))


@map_staging_area.kernel(CPU)
def _(ctx: Context, *, node: NodeView) -> MapStagingArea:
    attrs = node.attrs
    room = attrs["ordered"], attrs["capacity"], attrs["memory_limit"]
    return opened(ctx, node, MapStagingArea, lambda name: MapStagingArea(name, len(attrs["dtypes"]), *room, attrs))


# Components


def _chosen(items: Sequence[Spec], indices: Sequence[int] | None) -> Sequence[int]:
    """The numbers of components; all for None. ValueError if one is out of range, or they do not increase."""
    if indices is None:
        return range(len(items))
    if not indices:
        raise ValueError("indices names no component")
    if list(indices) != sorted(set(indices)) or indices[0] < 0 or indices[-1] >= len(items):
        raise ValueError(f"indices are ascending numbers of the {len(items)} components, not {list(indices)}")
    return indices


def _check_values(items: Sequence[Spec], values: Sequence[Spec], indices: Sequence[int] | None) -> None:
    chosen = _chosen(items, indices)
    if len(values) != len(chosen):
        raise ValueError(f"{len(values)} values were given for {len(chosen)} components")
    for index, value in zip(chosen, values, strict=True):
        check_component(value, items[index], f"component {index}")


async def _item(ctx: Context, node: NodeView, values: Sequence[Array]) -> tuple[Any, ...]:
    """The values as they are kept: checked and copied."""
    items = LiveSpec.check(node.input_specs[0]).items
    elements = Elements([items[index] for index in _chosen(items, node.attrs.get("indices"))])
    made: tuple[Any, ...] = (
        await ctx.step.in_thread(elements.item, values) if nbytes(values) > LARGE else elements.item(values)
    )
    return made


async def _copied(ctx: Context, item: Sequence[Any]) -> list[Any]:
    """Copies of values that stay in the area: the step that takes them later may write to them."""
    return await ctx.step.in_thread(_copies, item) if nbytes(item) > LARGE else _copies(item)


def _copies(item: Sequence[Any]) -> list[Any]:
    return [value.copy() if isinstance(value, np.ndarray) else value for value in item]


def _key(key: Spec) -> None:
    known.scalar(key, "key")


def _alone(item: Sequence[Any]) -> Any:
    """The return value of a kernel with `len(item)` outputs: the value itself for one."""
    return item[0] if len(item) == 1 else item


# In order


@op(waits=True)
def stage(handle: Spec, values: Sequence[Spec]) -> None:
    """Adds one element to the staging area, as soon as it has room. ResourceExhaustedError if it can never fit."""
    _check_values(AreaSpec.check(handle).items, values, None)


@stage.kernel(CPU, fresh=True)
async def _(ctx: Context, live: StagingArea, values: Sequence[Array], *, node: NodeView) -> None:
    item = await _item(ctx, node, values)
    await live.put_item(item, node)
    ctx.put(functools.partial(live.take_out, item))


@op(waits=True)
def unstage(handle: Spec) -> tuple[Spec, ...]:
    """Removes the oldest element of the staging area, as soon as it has one."""
    return tuple([again(item) for item in AreaSpec.check(handle).items])


@unstage.kernel(CPU, fresh=True)
async def _(ctx: Context, live: StagingArea, *, node: NodeView) -> Any:
    taken = await live.get_marked(node)
    ctx.took(functools.partial(live.put_back, taken))
    return _alone(taken[-1])


@op(waits=True)
def stage_peek(handle: Spec, index: Ints) -> tuple[Spec, ...]:
    """The element of the staging area before which there are `index` others, as soon as it is there; it stays."""
    known.scalar(index, "index")
    return tuple([again(item) for item in AreaSpec.check(handle).items])


@stage_peek.kernel(CPU, fresh=True)
async def _(ctx: Context, live: StagingArea, index: Array, *, node: NodeView) -> Any:
    return _alone(await _copied(ctx, await live.peek(int(index), node)))


# By key


@op(waits=True)
def map_stage(handle: Spec, key: Key, values: Sequence[Spec], indices: Sequence[int] | None = None) -> None:
    """Components of the element under `key`, all by default, are in the staging area. It is there when it has all.

    A whole element waits for room, parts of one only for memory. InvalidArgumentError if the key is there already, or
    has one of these components.
    """
    _key(key)
    _check_values(MapSpec.check(handle).items, values, indices)


@map_stage.kernel(CPU, fresh=True)
async def _(
    ctx: Context,
    live: MapStagingArea,
    key: Array,
    values: Sequence[Array],
    *,
    indices: Sequence[int] | None,
    node: NodeView,
) -> None:
    item = await _item(ctx, node, values)
    components = dict(zip(range(len(item)) if indices is None else indices, item, strict=True))
    await live.put(int(key), components, node)
    ctx.put(functools.partial(live.take_out, int(key), components))


@op(waits=True)
def map_unstage(handle: Spec, key: Key, indices: Sequence[int] | None = None) -> tuple[Spec, ...]:
    """Components of the element under `key`, all by default, taken out as soon as it is whole.

    InvalidArgumentError if one of them was taken before.
    """
    _key(key)
    items = MapSpec.check(handle).items
    return tuple([again(items[index]) for index in _chosen(items, indices)])


@map_unstage.kernel(CPU, fresh=True)
async def _(ctx: Context, live: MapStagingArea, key: Array, *, indices: Sequence[int] | None, node: NodeView) -> Any:
    taken = await live.get_marked(int(key), indices, node)
    ctx.took(functools.partial(live.put_back, taken))
    return _alone(tuple(taken[-1].values()))


@op(waits=True)
def map_unstage_no_key(handle: Spec, indices: Sequence[int] | None = None) -> tuple[Spec, ...]:
    """A key, the least one if the staging area is ordered, and components of its element, taken out of it."""
    items = MapSpec.check(handle).items
    return Spec(dtypes.int64, SCALAR), *[again(items[index]) for index in _chosen(items, indices)]


@map_unstage_no_key.kernel(CPU, fresh=True)
async def _(ctx: Context, live: MapStagingArea, *, indices: Sequence[int] | None, node: NodeView) -> Any:
    taken = await live.popitem_marked(indices, node)
    ctx.took(functools.partial(live.put_back, taken))
    return np.int64(taken[0]), *taken[-1].values()


@op(waits=True)
def map_peek(handle: Spec, key: Key, indices: Sequence[int] | None = None) -> tuple[Spec, ...]:
    """Components of the element under `key`, all by default, as soon as it is whole; they stay."""
    _key(key)
    items = MapSpec.check(handle).items
    return tuple([again(items[index]) for index in _chosen(items, indices)])


@map_peek.kernel(CPU, fresh=True)
async def _(ctx: Context, live: MapStagingArea, key: Array, *, indices: Sequence[int] | None, node: NodeView) -> Any:
    return _alone(await _copied(ctx, await live.peek(int(key), indices, node)))


# Clearing, asking


def _clearing(name: str, spec: type[LiveSpec]) -> Op[Any]:
    """An op that empties a staging area."""

    def rule(handle: Spec) -> None:
        spec.check(handle)

    rule.__doc__ = "Removes all elements of the staging area; pending puts complete."
    made: Op[Any] = op(name=name, stateful=True)(rule)
    made.no_gradient("it changes state")

    @made.kernel(CPU, fresh=True)
    def _(ctx: Context, live: Area) -> None:
        ctx.step.check()
        live.clear()

    return made


def _asking(name: str, spec: type[LiveSpec], attribute: str, doc: str) -> Op[Any]:
    """Declare an op that reads a number from the staging area."""

    def rule(handle: Spec) -> Spec:
        spec.check(handle)
        return Spec(dtypes.int32, SCALAR)

    rule.__doc__ = doc
    made: Op[Any] = op(name=name, stateful=True)(rule)
    made.no_gradient("it reads the state of a staging area")
    made.kernel(CPU, fresh=True, binds=True)(lambda xp, node: lambda live: np.int32(getattr(live, attribute)))
    return made


stage_clear: Final = _clearing("stage_clear", AreaSpec)
map_clear: Final = _clearing("map_clear", MapSpec)
stage_size: Final = _asking("stage_size", AreaSpec, "size", "How many elements are in the staging area.")
map_size: Final = _asking("map_size", MapSpec, "size", "How many whole elements are in the staging area.")
map_incomplete_size: Final = _asking(
    "map_incomplete_size", MapSpec, "incomplete_size", "How many keys of the staging area lack components."
)

_op: Op[Any]
for _op in (staging_area, map_staging_area):
    _op.no_gradient("a handle has no history")
for _op in (stage, map_stage):
    _op.no_gradient("it changes state")
for _op in (unstage, stage_peek, map_unstage, map_unstage_no_key, map_peek):
    _op.no_gradient("an element's history ends where it entered the staging area")
