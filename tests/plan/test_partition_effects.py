"""What has an effect in a branch or loop that spans devices happens, whatever is used of the results."""

import pytest

import aioflow as af

ONE, OTHER, THIRD = (f"/device:CPU:{index}" for index in range(3))
CONFIGS = [
    af.Config(device_count={"CPU": count}, allow_soft_placement=True, executor=executor, optimize=optimize)
    for count in (1, 3)
    for executor in ("tokens", "regions")
    for optimize in (False, True)
]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=CONFIGS, ids=lambda config: f"{config.device_count['CPU']} {config.executor} {config.optimize}")
async def session(graph, request):
    async with af.Session(graph=graph, config=request.param) as session:
        yield session


def subtracting(v, amount, then):
    """`then`, on another device, after v was decreased."""
    with af.control_dependencies([v.assign_sub(amount)]), af.device(THIRD):
        return af.identity(then) + 1.0


def variable():
    with af.device(OTHER):
        return af.Variable(1.0)


@pytest.mark.parametrize("used", range(3))
async def test_in_each_iteration_though_another_loop_variable_is_used(session, used):
    v = variable()

    def body(i, a, c):
        c = subtracting(v, a, c)
        with af.device(ONE):
            return i + 1, a * 0.5, c

    ends = af.while_loop(lambda i, a, c: i < 3, body, [af.constant(0), af.constant(1.0), af.constant(0.0)])
    await session.run(v.initializer)
    assert await session.run(ends[used]) == (3, 0.125, 3.0)[used]
    assert await session.run(v) == -0.75


@pytest.mark.parametrize("used", range(2))
@pytest.mark.parametrize("taken", [True, False])
async def test_in_the_branch_that_is_taken_though_another_result_is_used(session, used, taken):
    v, x = variable(), af.placeholder(af.float32, [])

    def then():
        c = subtracting(v, x, x)
        with af.device(ONE):
            return x * 0.5, c

    results = af.cond(x > 0.0, then, lambda: (x, x))
    await session.run(v.initializer)
    value = 2.0 if taken else -2.0
    assert await session.run(results[used], {x: value}) == ((1.0, 3.0)[used] if taken else value)
    assert await session.run(v) == (-1.0 if taken else 1.0)


async def test_in_a_branch_inside_of_a_loop_none_of_whose_results_is_used(session):
    v = variable()

    def body(i, a):
        af.cond(af.equal(i % 2, 0), lambda: subtracting(v, 1.0, a), lambda: a)
        unused = af.cond(af.equal(i % 2, 0), lambda: subtracting(v, 10.0, a), lambda: a)
        with af.device(ONE):
            return i + 1, unused

    end, _ = af.while_loop(lambda i, a: i < 3, body, [af.constant(0), af.constant(0.0)])
    await session.run(v.initializer)
    alone = await session.run(end), await session.run(v)
    assert alone == (3, 1.0 - 20.0)


async def test_in_a_loop_inside_of_a_branch_and_with_gradients(session):
    v, x = variable(), af.placeholder(af.float32, [])

    def inner(i, a, c):
        c = subtracting(v, 1.0, c)
        with af.device(ONE):
            return i + 1, a * x, c

    def then():
        return af.while_loop(lambda i, a, c: i < 3, inner, [af.constant(0), x, x])[1]

    y = af.cond(x > 0.0, then, lambda: x)
    (slope,) = af.gradients(y, [x])
    await session.run(v.initializer)
    assert await session.run([y, slope], {x: 2.0}) == [16.0, 32.0]
    assert await session.run(v) == -2.0
    assert await session.run(slope, {x: 2.0}) == 32.0
    assert await session.run(v) == -5.0
