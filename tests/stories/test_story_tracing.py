"""What a step has done on all of its workers, on one page."""

from collections import Counter

import aioflow as af
from tests.stories.witness import FIRST, PS, SECOND, marked, settled

SIZE = 1000
DEVICE = "/device:CPU:0"


def over_three_tasks():
    with af.device(FIRST):
        x = marked(af.random_uniform([SIZE]), name="made")
    with af.device(SECOND):
        y = marked(x, name="handed_on")
    with af.device(PS):
        return af.reduce_sum(marked(y, name="used"))


async def test_a_trace_tells_what_ran_on_which_worker_and_what_went_between_them(session):
    """[P15 section 9.2] EEG: what each device did in a step, in time, and how long was spent on communication."""
    total = over_three_tasks()
    await session.run(total)
    metadata = af.RunMetadata()
    await session.run(total, options=af.RunOptions(trace=True), metadata=metadata)
    devices = {stats.name: stats.device for stats in metadata.step_stats if stats.op_type == "py_func"}
    first, second, third = (f"/job:{task}{DEVICE}" for task in (
        "worker/replica:0/task:0", "worker/replica:0/task:1", "ps/replica:0/task:0",
    ))  # fmt: skip
    assert devices == {"made": first, "handed_on": second, "used": third}
    sent = Counter((transfer.source, transfer.target, transfer.bytes) for transfer in metadata.transfers)
    assert sent == {(first, second, SIZE * 4): 1, (second, third, SIZE * 4): 1}
    for stats in metadata.step_stats:
        assert stats.scheduled <= stats.start <= stats.end


async def test_a_trace_of_several_workers_is_in_the_order_of_cause_and_effect(exact_offsets, session):
    """[P15 section 9.2] EEG: the traces of several machines are put together into one, on one time line."""
    total = over_three_tasks()
    await session.run(total)
    metadata = af.RunMetadata()
    await session.run(total, options=af.RunOptions(trace=True), metadata=metadata)
    stats = {stats.name: stats for stats in metadata.step_stats}
    ends = [stats[name].end for name in ("made", "handed_on", "used")]
    assert ends == sorted(ends)
    transfers = sorted(metadata.transfers, key=lambda transfer: transfer.arrived)
    for transfer, source, target in zip(transfers, ("made", "handed_on"), ("handed_on", "used"), strict=True):
        assert stats[source].end <= transfer.arrived <= stats[target].start


async def test_who_is_not_traced_pays_nothing_for_it(session, world):
    """[P15 section 9.2] EEG: tracing is asked for; steps without it send what they always did."""
    total = over_three_tasks()
    await session.run(total)
    sizes = []
    for trace in (False, True, False):
        await settled()
        world.witness.forget()
        metadata = af.RunMetadata()
        await session.run(total, options=af.RunOptions(trace=trace), metadata=metadata)
        assert bool(metadata.step_stats) is trace
        sizes.append({sent.source: sent.size for sent in world.witness.heard("GraphRan")})
    before, traced, after = sizes
    assert before == after
    assert all(traced[host] > before[host] + 100 for host in ("ps0", "worker0", "worker1"))
