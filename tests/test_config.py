"""What sessions and runs are told is checked when it is told."""

import pytest

import aioflow as af


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: af.Config(plan_cache_size=1.5), TypeError, "plan_cache_size must be int, not 1.5"),
        (lambda: af.Config(plan_cache_size=0), ValueError, "plan_cache_size must be at least 1"),
        (lambda: af.Config(compute_threads=True), TypeError, "compute_threads must be int"),
        (lambda: af.Config(operation_timeout=True), TypeError, "operation_timeout is a number of seconds"),
        (lambda: af.Config(operation_timeout="a"), TypeError, "operation_timeout is a number of seconds, not 'a'"),
        (lambda: af.Config(close_timeout=-1), ValueError, "close_timeout is in seconds and cannot be -1"),
        (lambda: af.Config(executor="fast"), ValueError, "'regions' or 'tokens'"),
        (lambda: af.RunOptions(timeout=float("nan")), ValueError, "timeout is in seconds and cannot be nan"),
        (lambda: af.Session(config=3), TypeError, "config must be Config, not 3"),
        (lambda: af.Session(graph=3), TypeError, "graph must be Graph, not 3"),
        (lambda: af.Session(None), ValueError, "only the local session"),
        (lambda: af.Session("ws://localhost:1"), ValueError, "only the local session"),
    ],
)
def test_what_cannot_be_is_refused(make, error, said):
    with pytest.raises(error, match=said):
        make()


@pytest.mark.parametrize("told", [{"options": 3}, {"options": {"timeout": 1}}, {"metadata": 3}])
async def test_a_run_refuses_options_that_are_none_before_anything_runs(told):
    with af.Graph().as_default() as graph:
        variable = af.Variable(0.0)
        update = variable.assign_add(1.0)
    async with af.Session(graph=graph) as session:
        await session.run(variable.initializer)
        step = session.make_callable(update)
        with pytest.raises(TypeError, match="must be Run"):
            await session.run(update, None, **told)
        with pytest.raises(TypeError, match="must be Run"):
            await step(**told)
        assert await session.run(variable) == 0.0
