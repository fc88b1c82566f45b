"""Values between the steps of a routine share scratch memory, unless they are in use at the same time."""

from hypothesis import given
from hypothesis import strategies as st

from aioflow.devices.onednn_scratch import LINE, ScratchPlan

USES = st.lists(st.tuples(st.integers(1, 5 * LINE), st.sets(st.integers(0, 9), max_size=4)), max_size=12)


@given(USES)
def test_values_in_use_at_the_same_time_do_not_overlap(values):
    plan = ScratchPlan()
    for size, steps in values:
        number = plan.add(size)
        for step in sorted(steps):
            plan.use(number, step)
    offsets, end = plan.place()
    taken = [(offset, size, steps) for offset, (size, steps) in zip(offsets, values, strict=True) if steps]
    for place, (offset, size, steps) in enumerate(taken):
        assert offset % LINE == 0
        assert offset + size <= end
        for other, other_size, other_steps in taken[:place]:
            apart = offset + size <= other or other + other_size <= offset
            assert apart or max(steps) < min(other_steps) or max(other_steps) < min(steps)


def test_a_chain_of_values_needs_the_memory_of_two():
    plan = ScratchPlan()
    for step in range(10):
        number = plan.add(LINE)
        plan.use(number, step)
        plan.use(number, step + 1)
    assert plan.place()[1] == 2 * LINE
