"""The order of the nodes of loops, and the sections in which loops over devices send values."""

import numpy as np
import pytest

import aioflow as af
from aioflow.plan.frame_levels import Levels, is_known, role_of
from aioflow.plan.passes.flow import Value, sources_before
from aioflow.plan.passes.loop_sections import LoopSections, by_frames
from aioflow.plan.passes.lower import lower
from aioflow.plan.passes.prune import prune
from aioflow.plan.passes.relink import in_place


def lowered(work):
    """The nodes of a loop in a loop, after `work` in the inner one, and their levels."""
    with af.Graph().as_default():

        def inner(j, y, z):
            return j + 1, work(y), z + 1.0

        def body(i, y, z):
            before = y * 2.0
            _, y, z = af.while_loop(lambda j, y, z: j < i, inner, [0, y, z], name="inner")
            return i + 1, y + before, z * 3.0

        results = af.while_loop(lambda i, y, z: i < 9, body, [0, 1.0, 2.0], name="outer")[1:]
        flow = lower(prune((), tuple(results), ()), lambda node: True)
    levels = Levels(flow.nodes, {Value(node, 0) for node in flow.nodes if is_known(node)})
    return flow.nodes, levels


def frame_of(node, levels):
    return levels.beyond[node] if role_of(node) == "enter" else levels.inside[node]


def test_the_nodes_of_a_frame_follow_one_another_after_their_sources():
    nodes, levels = lowered(lambda y: y + 1.0)
    mixed = in_place(reversed(nodes))
    found = by_frames(mixed, levels)
    assert sorted(map(id, found)) == sorted(map(id, nodes))
    places = {node: place for place, node in enumerate(found)}
    assert all(places[source] < places[node] for node in found for source in sources_before(node))
    deepest = len(levels.names) - 1
    assert not _is_unbroken([frame_of(node, levels) == deepest for node in mixed])
    assert _is_unbroken([frame_of(node, levels) == deepest for node in found])
    roles = [role_of(node) for node in found if frame_of(node, levels) == deepest]
    assert "enter" not in roles[roles.index("merge") :]


def _is_unbroken(inside):
    """Whether all that are inside follow one another."""
    return all(inside[inside.index(True) :][: sum(inside)])


def sections(work):
    nodes, levels = lowered(work)
    found = LoopSections(nodes, levels)
    return {node.name: found.of(node) for node in nodes}


def test_values_are_made_in_the_sections_of_all_loops_around():
    found = sections(lambda y: y + 1.0)
    inner = {name: section for name, section in found.items() if "inner/" in name}
    assert {"body/condition", "body/body"} <= set(inner.values())
    assert found["outer/loop_cond"] == "condition"
    assert all(section.startswith("body") for section in inner.values() if section)  # constants are of no loop


def test_a_nest_with_a_node_that_waits_has_no_sections():
    def waiting(y):
        made = af.py_func(lambda value: value, [y], af.float32)
        made.set_shape([])
        return made

    assert set(sections(waiting).values()) == {""}


@pytest.mark.parametrize("executor", ["regions", "tokens"])
async def test_frames_that_need_each_other_in_part_run_node_by_node(executor):
    """A loop counts, a second one uses the count, and the first one adds up the result of the second."""
    with af.Graph().as_default() as graph, af.device("/cpu:0"):
        x = af.placeholder(af.float32, [])
        starts = [af.enter(af.constant(0), "A"), af.enter(x, "A")]
        count, total = [af.merge([start, start])[0] for start in starts]
        goes_on = af.loop_cond(count < 3)
        (counted, count_again), (added, total_again) = [af.switch(value, goes_on) for value in (count, total)]
        count.op.update_input(1, af.next_iteration(count_again + 1))
        with af.device("/cpu:1"):
            step = af.while_loop(lambda v: v < 10.0, lambda v: v + 2.0, [af.cast(af.exit(counted), af.float32)])
        total.op.update_input(1, af.next_iteration(total_again + af.enter(step, "A", is_constant=True)))
        result = af.exit(added)
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2}, executor=executor)) as session:
        assert await session.run(result, {x: np.float32(1.0)}) == 1.0 + 3 * 11.0
