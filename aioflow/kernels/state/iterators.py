"""Ops on iterators: handles, the dataset of one, its next element.

A dataset exists in one process alone, so a graph with one cannot leave it; there a dataset feeds a queue.
"""

import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels.context import Context
from aioflow.kernels.state.lookup_tables import StaticSpec
from aioflow.kernels.state.readers import text_of
from aioflow.kernels.state.resource_handles import LiveSpec, again, components, opened
from aioflow.resources.iteration import Item, Iteration, Source
from aioflow.resources.tables import Table
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, STRING, Array, DeviceKind, DType, Spec, TensorShape
from aioflow.tensors.object_arrays import full_array
from aioflow.waiting.element_spec import Elements

CPU = DeviceKind.CPU
_SEPARATOR: Final = "\0"
"""Between the name of a container and that of an iterator in it."""


class IteratorSpec(LiveSpec):
    """A handle to an iterator, whose elements have the components `items`."""

    __slots__ = ()
    kind = "an iterator"


@op(stateful=True, observes=True, handle=True)
def iterator(
    output_types: Sequence[DType], output_shapes: Sequence[TensorShape], container: str = "", shared_name: str = ""
) -> Spec:
    """A handle to an iterator that gives no elements until it has a dataset."""
    return IteratorSpec(components(output_types, output_shapes))


@op(stateful=True, observes=True, handle=True)
def one_shot_iterator(
    dataset: Any, output_types: Sequence[DType], output_shapes: Sequence[TensorShape], container: str = ""
) -> Spec:
    """A handle to an iterator of a dataset, from its first element on."""
    return IteratorSpec(components(output_types, output_shapes))


@iterator.kernel(CPU)
def _(ctx: Context, *, node: NodeView) -> Iteration:
    items = IteratorSpec.check(node.output_specs[0]).items
    return opened(ctx, node, Iteration, lambda name: Iteration(name, items, node.attrs))


@one_shot_iterator.kernel(CPU)
def _(ctx: Context, *, node: NodeView) -> Iteration:
    items, attrs = IteratorSpec.check(node.output_specs[0]).items, node.attrs
    container = ctx.resources.container(attrs["container"])
    return container.lookup_or_create(
        Iteration, node.name, lambda: Iteration(node.name, items, attrs, attrs["dataset"])
    )


@op(stateful=True, observes=True)
def iterator_to_string_handle(iterator: Spec) -> Spec:
    """A string by which `iterator_from_string_handle` finds the iterator, in the same session."""
    IteratorSpec.check(iterator)
    return Spec(dtypes.string, SCALAR)


@iterator_to_string_handle.kernel(CPU)
def _(ctx: Context, live: Iteration) -> Array:
    return _text(f"{live.signature['container']}{_SEPARATOR}{live.name}".encode())


@op(stateful=True, observes=True)
def iterator_from_string_handle(
    string_handle: Spec, output_types: Sequence[DType], output_shapes: Sequence[TensorShape]
) -> Spec:
    """A handle to the iterator that a string of `iterator_to_string_handle` names."""
    string_handle.only(STRING).with_rank(0)
    return IteratorSpec(components(output_types, output_shapes))


@iterator_from_string_handle.kernel(CPU)
def _(ctx: Context, string_handle: Array, *, node: NodeView) -> Iteration:
    container, found, name = text_of(string_handle).decode(errors="replace").partition(_SEPARATOR)
    if not found:
        raise errors.InvalidArgumentError("this is no handle of an iterator: feed what string_handle() gives in a run")
    live = ctx.resources.container(container).lookup(Iteration, name)
    wanted = [spec.dtype for spec in IteratorSpec.check(node.output_specs[0]).items]
    if [spec.dtype for spec in live.specs] != wanted:
        names = [", ".join(dtype.name for dtype in each) for each in ([spec.dtype for spec in live.specs], wanted)]
        raise errors.InvalidArgumentError(f"{live!r} gives elements of {names[0]}, and is to give {names[1]}")
    return live


@op(stateful=True, waits=True)
def make_iterator(iterator: Spec, dataset: Any) -> None:
    """The iterator gives the elements of a dataset, from the first one on."""
    IteratorSpec.check(iterator)


@make_iterator.kernel(CPU)
async def _(ctx: Context, live: Iteration, *, dataset: Source, node: NodeView) -> None:
    ctx.step.check()
    await live.begin(dataset, node)


@op(stateful=True, waits=True)
def iterator_get_next(iterator: Spec) -> tuple[Spec, ...]:
    """The components of the next element, as soon as it is made.

    OutOfRangeError if there is none, FailedPreconditionError if the iterator has no dataset.
    """
    return tuple([again(item) for item in IteratorSpec.check(iterator).items])


@iterator_get_next.kernel(CPU)
async def _(ctx: Context, live: Iteration, *, node: NodeView) -> Any:
    item = await _taken(ctx, live, node)
    return item[0] if len(item) == 1 else item


@op(stateful=True, waits=True)
def iterator_get_next_as_optional(iterator: Spec) -> tuple[Spec, ...]:
    """Whether there is a next element, and its components; zeros or empty text if there is none."""
    return Spec(dtypes.bool_, SCALAR), *[again(item) for item in IteratorSpec.check(iterator).items]


@iterator_get_next_as_optional.kernel(CPU)
async def _(ctx: Context, live: Iteration, *, node: NodeView) -> tuple[Array, ...]:
    try:
        return np.bool_(True), *await _taken(ctx, live, node)
    except errors.OutOfRangeError:
        return np.bool_(False), *[_nothing(spec) for spec in live.specs]


@op(stateful=True, waits=True)
def initialize_table_from_dataset(table_handle: Spec, dataset: Any) -> None:
    """The table holds the keys and values of a dataset of pairs, all of which are taken.

    FailedPreconditionError if a key has two values, or the table has another content already.
    """
    StaticSpec.check(table_handle)


@initialize_table_from_dataset.kernel(CPU, fresh=True)
async def _(ctx: Context, live: Table, *, dataset: Source, node: NodeView) -> None:
    form = Elements(StaticSpec.check(node.input_specs[0]).items)
    pairs = dataset.components()
    try:
        items = [form.item(pair) async for pair in pairs]
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgumentError(f"the dataset has no pairs of a key and a value: {error}") from error
    finally:
        await pairs.aclose()
    keys, values = form.batch(items)
    ctx.step.check()
    live.initialize(keys, values, ctx.step.journal)


async def _taken(ctx: Context, live: Iteration, node: NodeView) -> Item:
    taken = await live.take(node)
    ctx.took(functools.partial(live.put_back, taken))
    return taken[1]


def _nothing(spec: Spec) -> Array:
    shape = [size or 0 for size in spec.sizes or ()]
    return full_array(shape, b"") if spec.dtype is dtypes.string else np.zeros(shape, spec.dtype.np)


def _text(text: bytes) -> Array:
    value = np.empty((), object)
    value[()] = text
    return value


for _op in (iterator, one_shot_iterator, iterator_from_string_handle, iterator_to_string_handle):
    _op.no_gradient("a handle has no history")
for _getting in (iterator_get_next, iterator_get_next_as_optional):
    _getting.no_gradient("the history of a value ends where it entered the graph")
for _changing in (make_iterator, initialize_table_from_dataset):
    _changing.no_gradient("it changes state")
