"""Cancellation storms: producers and consumers are cancelled at random, and every element is counted.

A producer that returned has put its element exactly once; a cancelled one at most once. A storm runs `Traffic` until a
given number of calls were cut short: by cancelling the task after some turns of the loop, by `asyncio.timeout`, or by
the time limit of the run. Then it takes the remaining elements, and compares.
"""

import asyncio
import collections
import contextlib
import dataclasses
import random

import aioflow as af
from aioflow import errors
from aioflow.waiting.tasks import Slice

PRODUCERS = 3
EACH = 1_000_000
"""The values of a producer begin at its number times this."""
SOON = 0.002
"""The most seconds after which a call is cut short."""
CUT = (asyncio.CancelledError, TimeoutError, errors.DeadlineExceededError)


class RandomSlice(Slice):
    """A slice of time that ends at random, so that the run pauses."""

    def __init__(self, rng):
        super().__init__()
        self.random = rng.random

    def used_up(self):
        return self.random() < 0.5


@dataclasses.dataclass
class Account:
    """The account of the elements: put, in doubt, and delivered."""

    certain: list = dataclasses.field(default_factory=list)
    doubtful: set = dataclasses.field(default_factory=set)
    delivered: list = dataclasses.field(default_factory=list)
    cut: int = 0

    def check(self, ordered=False, labelled=True):
        """Check that no element is lost or doubled; with `ordered`, also the order of each producer's elements."""
        if not labelled:
            assert len(self.certain) <= len(self.delivered) <= len(self.certain) + len(self.doubtful), self.text()
            return
        times = collections.Counter(self.delivered)
        lost = [value for value in self.certain if not times[value]]
        doubled = [value for value, count in times.items() if count > 1]
        strange = times.keys() - set(self.certain) - self.doubtful
        wrong = {"lost": lost, "doubled": doubled, "strange": strange}
        assert not any(wrong.values()), f"{wrong}: {self.text()}"
        if ordered:
            for producer in range(PRODUCERS):
                mine = [value for value in self.delivered if value // EACH == producer]
                assert mine == sorted(mine), f"producer {producer} came out of order: {self.text()}"

    def text(self):
        return (
            f"{len(self.certain)} put, {len(self.doubtful)} in doubt, {len(self.delivered)} delivered, {self.cut} cut"
        )


class Traffic:
    """A way to put and take elements.

    Attributes:
        width: how many elements a put has.
        labelled: whether elements can be told apart.
        exact: whether a put that was cut short puts nothing.
    """

    width = 1
    labelled = True
    exact = False

    async def put(self, values, options):
        """Put these elements. A subclass defines how."""
        raise NotImplementedError

    async def take(self, options):
        """Take elements, and return a list of them. A subclass defines how."""
        raise NotImplementedError

    async def rest(self):
        """The remaining elements. A subclass defines how they are taken."""
        raise NotImplementedError


async def storm(traffic, seed, cuts, consumers=3):
    """Run the traffic until enough calls were cut short, and check the account of the elements."""
    rng, account = random.Random(seed), Account()
    workers = [_produce(traffic, rng, account, number, cuts) for number in range(PRODUCERS)]
    workers += [_consume(traffic, rng, account, cuts) for _ in range(consumers)]
    await asyncio.gather(*workers)
    account.delivered += await traffic.rest()
    account.check(ordered=consumers == 1 and traffic.ordered, labelled=traffic.labelled)
    if traffic.exact:
        assert account.doubtful.isdisjoint(account.delivered), "a put that was cut short has put something"
    return account


async def single_puts(traffic, seed, cuts):
    """Put elements, one call after the other, until enough calls were cut short: only the others have put some."""
    rng, account = random.Random(seed), Account()
    value = 0
    while account.cut < cuts:
        values, value = list(range(value, value + traffic.width)), value + traffic.width
        done, _ = await _cut(rng, account, lambda options, values=values: traffic.put(values, options))
        assert sorted(await traffic.rest()) == (values if done else [])


async def _produce(traffic, rng, account, number, cuts):
    value = number * EACH
    while account.cut < cuts:
        values, value = list(range(value, value + traffic.width)), value + traffic.width
        done, _ = await _cut(rng, account, lambda options, values=values: traffic.put(values, options))
        if done:
            account.certain += values
        else:
            account.doubtful.update(values)


async def _consume(traffic, rng, account, cuts):
    while account.cut < cuts:
        done, values = await _cut(rng, account, traffic.take)
        if done:
            account.delivered += values


async def _cut(rng, account, begin):
    """Whether the call has returned, and its result. A call that has not returned by then is cut short."""
    how = rng.choice(("cancel", "cancel", "timeout", "limit"))
    options = af.RunOptions(timeout=rng.uniform(1e-6, SOON)) if how == "limit" else None
    try:
        if how == "cancel":
            return True, await _cancelled_after(begin(options), rng.randrange(24))
        async with asyncio.timeout(rng.uniform(0, SOON) if how == "timeout" else 10 * SOON):
            return True, await begin(options)
    except CUT:
        account.cut += 1
        return False, None


async def _cancelled_after(call, turns):
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        if task.done():
            break
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    return task.result()


# By the operations of a graph


class Graph(Traffic):
    """Runs of a session: `put` is an operation, `fed` gives its feeds, `taken` is a fetch.

    Attributes:
        values: from fetched values to elements.
        drain: takes the remaining elements.
    """

    def __init__(self, session, put, fed, taken, values, drain, *, width=1, ordered=False, labelled=True, exact=False):
        self.session, self.op, self.fed, self.taken = session, put, fed, taken
        self.values, self.drain, self.width, self.ordered = values, drain, width, ordered
        self.labelled, self.exact = labelled, exact

    async def put(self, values, options):
        await self.session.run(self.op, self.fed(values), options)

    async def take(self, options):
        return self.values(await self.session.run(self.taken, options=options))

    async def rest(self):
        return await self.drain(self.session)


class Live(Traffic):
    """The live object itself."""

    def __init__(self, queue, graph, count, exact=True):
        self.queue, self.width, self.count, self.ordered = queue, graph.width, count, graph.ordered
        self.exact = exact and graph.width == 1
        self.before = [0] * (len(queue.elements.specs) - 1)

    async def put(self, values, options):
        async with asyncio.timeout(options and options.timeout):
            if self.width == 1:
                await self.queue.put(*self.before, values[0])
            else:
                await self.queue.put_many([[*self.before, value] for value in values])

    async def take(self, options):
        async with asyncio.timeout(options and options.timeout):
            if self.count == 1:
                return [int((await self.queue.take())[-1])]
            return [int(item[-1]) for item in await self.queue.take_many(self.count)]

    async def rest(self):
        return await drained(self.queue)


class Streams(Traffic):
    """Elements taken by streams that are left early. The steps of one stream overlap, and take in any order."""

    ordered = False

    def __init__(self, graph):
        self.graph, self.exact, self.width = graph, graph.exact, graph.width
        self.put, self.seen = graph.put, []

    async def take(self, options):
        """One element of the stream; the caller keeps it even if closing is cut short. All others go back."""
        stream = self.graph.session.stream(self.graph.taken, read_ahead=2, options=options)
        async with contextlib.aclosing(stream) as values:
            async for value in values:
                self.seen += self.graph.values(value)
                break
        return []

    async def rest(self):
        return self.seen + await self.graph.rest()


async def drained(queue):
    """The remaining elements of a live queue, as numbers."""
    found = queue.statistics()
    found = await found if asyncio.iscoroutine(found) else found
    return [int((await queue.take())[-1]) for _ in range(found.size)]
