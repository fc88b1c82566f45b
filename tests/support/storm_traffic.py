"""The traffic of cancellation storms: every kind of waiting operation, in several forms of runs."""

import dataclasses
from typing import Any

import numpy as np

import aioflow as af
from tests.support.storms import Graph, Live, Streams, drained

FORMS = ("alone", "beside", "after", "twice", "elsewhere")
"""A fetch alone; with another; with more to compute from it; two copies of it; used on another device."""
QUEUES = {
    "fifo": af.FIFOQueue,
    "shuffle": lambda capacity, *args, **more: af.RandomShuffleQueue(capacity, 0, *args, seed=3, **more),
    "padding": af.PaddingFIFOQueue,
    "priority": af.PriorityQueue,
}


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a storm: the session, its graph, the devices that hold the elements and those that use them."""

    session: Any
    graph: Any
    here: str | None = None
    elsewhere: str | None = None
    remote: bool = False

    def formed(self, put, take, form):
        """The fetches of a put and of a take, and a function from the fetched values to the elements."""
        with self.graph.as_default(), self.graph.device(self.elsewhere):
            other = af.constant(1.0) * 2.0
            first = take[0] if isinstance(take, (list, tuple)) else take
            match form:
                case "alone":
                    return put, take, lambda found: found
                case "beside":
                    return [put, other], [other, take], lambda found: found[1]
                case "twice":
                    return put, [take, first], lambda found: found[0]
                case "after":
                    with self.graph.device(None):
                        later = af.group(first)
                    return put, [take, later], lambda found: found[0]
            return [put, other], [take, af.identity(first)], lambda found: found[0]


def queue(place, kind, put="one", take="one", form="alone"):
    """Elements through a queue of that kind, by runs, by the live queue, or by streams."""
    with place.graph.as_default(), place.graph.device(place.here):
        made = QUEUES[kind](4, [af.int64], shapes=[[]])
        width = 3 if put == "many" else 1
        x = af.placeholder(af.int64, [3] if width > 1 else [])
        components = [np.zeros(x.shape.as_list(), np.int64), x] if kind == "priority" else [x]
        inserted = (made.enqueue_many if width > 1 else made.enqueue)(components)
        ways = {"one": made.dequeue, "many": lambda: made.dequeue_many(2), "up_to": lambda: made.dequeue_up_to(2)}
        out = ways[take]()
        out = out[-1] if isinstance(out, (list, tuple)) else out
    plain = form in ("live", "stream")
    inserted, fetch, find = place.formed(inserted, out, "alone" if plain else form)
    graph = Graph(
        place.session,
        inserted,
        lambda values: {x: np.array(values if width > 1 else values[0])},
        fetch,
        lambda found: [int(value) for value in np.ravel(find(found))],
        lambda session: drained(session.queue(made)),
        width=width,
        ordered=kind in ("fifo", "padding"),
        exact=not place.remote and width == 1 and (plain or form == "alone"),
    )
    if form == "live":
        return Live(place.session.queue(made), graph, 1 if take == "one" else 2, not place.remote)
    return Streams(graph) if form == "stream" else graph


def staging(place, form="alone"):
    """Elements through a staging area."""
    with place.graph.as_default(), place.graph.device(place.here):
        area = af.StagingArea([af.int64], shapes=[[]], capacity=3)
        x = af.placeholder(af.int64, [])
        put, take, size = area.put([x]), area.get()[0], area.size()
    return _scalars(place, form, x, put, take, take, size, ordered=True)


def map_staging(place, form="alone"):
    """Elements through a map staging area: the keys are the elements, and a take takes any key."""
    with place.graph.as_default(), place.graph.device(place.here):
        area = af.MapStagingArea([af.int64], shapes=[[]], capacity=3)
        x = af.placeholder(af.int64, [])
        put, (key, _), size = area.put(x, [x]), area.get(), area.size()
    return _scalars(place, form, x, put, key, key, size)


def barrier(place, form="alone"):
    """Tuples through a barrier: the key is the element, and both components are inserted by one run."""
    with place.graph.as_default(), place.graph.device(place.here):
        made = af.Barrier([af.int64, af.int64], shapes=[[], []])
        x = af.placeholder(af.int64, [])
        key, row = af.reshape(af.as_string(x), [1]), af.reshape(x, [1])
        put = af.group(made.insert_many(0, key, row), made.insert_many(1, key, row))
        take, size = made.take_many(1).values[1], made.ready_size()
    return _scalars(place, form, x, put, take, take, size, exact=False)


def dense(place, form="alone"):
    """Gradients through an accumulator, which are only counted."""
    with place.graph.as_default(), place.graph.device(place.here):
        made = af.ConditionalAccumulator(af.float64, shape=[], reduction_type="SUM")
        x = af.placeholder(af.int64, [])
        put = made.apply_grad(af.cast(x, af.float64) * 0.0 + 1.0, local_step=1 << 40)
        take, rest, size = made.take_grad(2), made.take_grad(1), made.num_accumulated()

    def counted(found):
        return [0] * round(float(found))

    return _scalars(place, form, x, put, take, rest, size, counted, exact=False, labelled=False)


def sparse(place, form="alone"):
    """Gradients of one row each through an accumulator: the number of the row is the element."""
    with place.graph.as_default(), place.graph.device(place.here):
        made = af.SparseConditionalAccumulator(af.float64, shape=[None, 1], reduction_type="SUM")
        x = af.placeholder(af.int64, [])
        put = made.apply_grad(af.reshape(x, [1]), af.ones([1, 1], af.float64), local_step=1 << 40)
        take, rest, size = made.take_grad(2)[0], made.take_grad(1)[0], made.num_accumulated()

    def rows(found):
        return [int(value) for value in found]

    return _scalars(place, form, x, put, take, rest, size, rows, exact=False)


def reader(place, form="alone"):
    """Work items through a queue and an IdentityReader."""
    with place.graph.as_default(), place.graph.device(place.here):
        made, names = af.IdentityReader(), af.FIFOQueue(4, [af.string], shapes=[[]])
        x = af.placeholder(af.int64, [])
        put, take = names.enqueue(af.as_string(x)), made.read(names)[1]
        size, produced = names.size(), made.num_records_produced()

    async def rest(session):
        """The work items that went back to the reader, and those in the queue."""
        await session.run(close)
        found = []
        while True:
            try:
                found.append(int(await session.run(take)))
            except af.errors.OutOfRangeError:
                return found

    with place.graph.as_default(), place.graph.device(place.here):
        close = names.close()
    assert size is not produced
    return _scalars(place, form, x, put, take, take, size, rest=rest, ordered=True, exact=form == "alone")


def _scalars(
    place, form, x, put, take, rest_take, size, values=None, rest=None, ordered=False, exact=True, labelled=True
):
    """Traffic of elements that are numbers."""
    values = values or (lambda found: [int(value) for value in np.ravel(found)])
    inserted, fetch, find = place.formed(put, take, form)

    async def drain(session):
        found = []
        while await session.run(size):
            found += values(await session.run(rest_take))
        return found

    return Graph(
        place.session,
        inserted,
        lambda given: {x: given[0]},
        fetch,
        lambda found: values(find(found)),
        rest or drain,
        ordered=ordered,
        labelled=labelled,
        exact=exact and form == "alone" and not place.remote,
    )


OTHERS = {
    "staging": staging, "map staging": map_staging, "barrier": barrier, "dense": dense, "sparse": sparse,
    "reader": reader,
}  # fmt: skip
"""All waiting operations but those of queues."""
