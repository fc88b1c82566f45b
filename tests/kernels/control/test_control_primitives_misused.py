"""Hand-made conditionals and loops that are not put together right, and what cannot be differentiated."""

import numpy as np
import pytest

import aioflow as af
from tests.support.handmade import loop


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["tokens", "regions"])
def config(request):
    return af.Config(executor=request.param)


@pytest.fixture
async def session(graph, config):
    async with af.Session(graph=graph, config=config) as session:
        yield session


def entered_from_two_places():
    inner = loop(lambda i: i < 3, lambda i: (i + af.exit(af.enter(i, "inner")),), 0)[0]
    return inner + af.exit(af.enter(1, "inner"))


def without_condition():
    first = af.enter(0, "loop")
    i = af.merge([first, first])[0]
    i.op.update_input(1, af.next_iteration(i + 1))
    return af.exit(i)


def fetched_inside():
    return af.enter(1, "loop") + 1


def across():
    return af.exit(af.enter(1, "a") + af.py_func(lambda: 1, [], af.int32))


def standstill():
    first = af.enter(0, "a")
    i = af.merge([first, first])[0]
    done, going = af.switch(i, af.loop_cond(i < 3))
    once = af.enter(1, "a")
    inner = af.exit(af.enter(going, "b") + af.enter(once, "b"))
    i.op.update_input(1, af.next_iteration(inner))
    return af.exit(done)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (entered_from_two_places, "'inner' is entered from different places: in the loop 'loop', and outside"),
        (without_condition, "has no af.loop_cond"),
        (fetched_inside, "inside of the loop 'loop'.*af.exit"),
        (across, "different frames: 'enter' in the loop 'a' and 'py_func' outside of every loop.*af.enter"),
        (lambda: af.exit(af.constant(1)), "no frame to leave"),
        (lambda: af.next_iteration(af.constant(1)), "has no frame"),
        (lambda: af.loop_cond(af.constant(True)), "has no frame"),
        (standstill, "standstill in iteration 0 of 'b', in iteration 1 of 'a'.*is_constant"),
    ],
)
async def test_a_loop_that_is_not_put_together_right_is_refused(session, build, said):
    with pytest.raises(af.errors.InvalidArgumentError, match=said):
        await session.run(build())


@pytest.mark.parametrize(
    ("build", "kind", "said"),
    [
        (lambda: af.switch(1.0, 1), TypeError, "of dtype bool, not int32"),
        (lambda: af.switch(1.0, [True]), ValueError, "rank 0"),
        (lambda: af.merge([]), ValueError, "at least one"),
        (lambda: af.merge([1.0, af.constant(1)]), TypeError, "float32 and int32 differ|int32"),
        (lambda: af.enter(1.0, ""), ValueError, "not empty"),
        (lambda: af.enter(1.0, "a", parallel_iterations=0), ValueError, "positive"),
        (lambda: af.loop_cond(1.0), TypeError, "bool"),
    ],
)
def test_primitives_are_checked_when_they_are_built(build, kind, said):
    with pytest.raises(kind, match=said):
        build()


def test_only_a_merge_takes_what_a_next_iteration_makes_and_a_failure_changes_nothing(graph):
    first = af.enter(np.zeros(3, np.float32), "loop")
    merged = af.merge([first, first])[0]
    again = af.next_iteration(merged * 2.0)
    for operation, index, tensor, kind in [
        (again.op, 0, again, ValueError),
        (merged.op, 0, merged, ValueError),
        (merged.op, 2, again, ValueError),
        (merged.op, 1, af.next_iteration(af.constant(1)), TypeError),
        (merged.op, 1, af.next_iteration(merged[:2]), ValueError),
    ]:
        with pytest.raises(kind):
            operation.update_input(index, tensor)

    def undone():
        with graph.transaction():
            merged.op.update_input(1, again)
            assert merged.op.inputs == (first, again)
            raise KeyError

    with pytest.raises(KeyError):
        undone()
    assert merged.op.inputs == (first, first)
    assert again.consumers() == []
    merged.op.update_input(1, again)
    assert first.consumers() == [merged.op]
    assert again.consumers() == [merged.op]
    merged.op.update_input(0, again)
    assert first.consumers() == []
    graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        merged.op.update_input(0, again)


def test_merge_knows_what_its_inputs_have_in_common():
    a, b = af.placeholder(af.float32, [2, 3]), af.placeholder(af.float32, [2, 4])
    vector = af.placeholder(af.float32, [None])
    assert af.merge([a, a])[0].shape.as_list() == [2, 3]
    assert af.merge([a, b])[0].shape.as_list() == [2, None]
    assert af.merge([a, vector])[0].shape.ndims is None
    merged, index = af.merge([vector, vector])
    assert merged.shape.as_list() == [None]
    assert merged.shape is not vector.shape
    assert (index.dtype, index.shape.ndims) == (af.int32, 0)


@pytest.mark.parametrize("of", ["exit", "merge", "switch"])
def test_a_gradient_through_primitives_is_refused_when_it_is_built(graph, of):
    x = af.placeholder(af.float32, [])
    if of == "exit":
        y = loop(lambda i: i < 3.0, lambda i: (i * 2.0,), x)[0]
    else:
        no, yes = af.switch(x, True)
        y = af.merge([no, yes * 2.0])[0] if of == "merge" else yes
    y = y * 2.0
    before = graph.version
    with pytest.raises(LookupError, match=r"af\.cond or af\.while_loop"):
        af.gradients(y, x)
    assert graph.version == before
