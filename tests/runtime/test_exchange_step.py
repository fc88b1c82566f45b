"""A step of one unit that callbacks of the loop run: it is aborted as one that an asyncio task runs."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

import aioflow as af
from aioflow import errors
from aioflow.rendezvous import LocalRendezvous
from aioflow.runtime.exchange_step import ExchangeStep
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.step import Step, StepShare

ABORTED = errors.UnavailableError("the other task is lost")


async def cleans_up(log, abort):
    try:
        await asyncio.sleep(10)
    finally:
        log("cleans up")
        await asyncio.sleep(0)
        await asyncio.sleep(1)
        log("is clean")


async def goes_on_once(log, abort):
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(10)
    log("goes on")
    await asyncio.sleep(1)
    raise asyncio.CancelledError


async def aborts_itself(log, abort):
    abort()
    log("computes")
    try:
        await asyncio.sleep(10)
    finally:
        log("ends")


async def aborts_itself_and_pauses(log, abort):
    abort()
    try:
        await asyncio.sleep(0)
    finally:
        await asyncio.sleep(1)
        log("ends")


async def waits_for_what_is_there_when_it_is_aborted(log, abort):
    arrived = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(4.0, lambda: (arrived.set_result(1), abort()))
    try:
        log(await arrived)
    finally:
        await asyncio.sleep(1)
        log("ends")


async def aborts_itself_while_it_cleans_up(log, abort):
    try:
        await asyncio.sleep(10)
    finally:
        abort()
        await asyncio.sleep(1)
        log("is clean")


UNITS = [
    cleans_up, goes_on_once, aborts_itself, aborts_itself_and_pauses, waits_for_what_is_there_when_it_is_aborted,
    aborts_itself_while_it_cleans_up,
]  # fmt: skip


async def in_a_task(step, unit):
    with step:
        await unit.begin(step.context)


async def at_once(step, unit):
    ended = asyncio.get_running_loop().create_future()
    step.start(unit, (), ended.set_result)
    outcome = await ended
    if isinstance(outcome, BaseException):
        raise outcome


async def observed(state, step, run, body):
    """What a unit of a step did that is aborted after 5 s, unless it was before, and when; and how the step ended."""
    loop, seen = asyncio.get_running_loop(), []
    began = loop.time()

    def log(event):
        seen.append((event, loop.time() - began))

    def abort():
        step.abort(ABORTED)

    unit = SimpleNamespace(begin=lambda ctx: body(log, abort), find=None, nodes=[None])
    running = asyncio.create_task(run(step, unit))
    aborting = loop.call_later(5.0, abort)
    (outcome,) = await asyncio.gather(running, return_exceptions=True)
    aborting.cancel()
    log((type(outcome), str(outcome)))
    assert step.ended
    assert not state.steps
    return seen


@pytest.mark.parametrize("body", UNITS, ids=lambda body: body.__name__)
async def test_a_unit_is_cancelled_once_where_it_waits(body):
    state = SessionState(af.Config())
    share = StepShare(1, "session", LocalRendezvous())
    seen = await observed(state, ExchangeStep(state, (), share, None), at_once, body)
    assert seen == await observed(state, Step(state, (), share=share), in_a_task, body)
    assert seen[-1][0] == (errors.UnavailableError, str(ABORTED))
    await state.close()
