import asyncio
import gc
import importlib.util
import itertools
import os
import zlib
from types import SimpleNamespace

import pytest
from hypothesis import Phase, settings
from pytest_asyncio import is_async_test

from aioflow.graph.op import REGISTRY
from aioflow.testing import VirtualTimeLoop, no_leaks, no_pending_tasks
from tests.support.scale import LONG, amount, short

pytest_plugins = ["tests.support.shares"]
REGISTRY.complete()  # tests are collected for every op

settings.register_profile("aioflow", deadline=None, max_examples=amount(5, 50), derandomize="CI" in os.environ)
settings.register_profile("unshrunk", settings.get_profile("aioflow"), phases=set(Phase) - {Phase.shrink})
settings.load_profile("aioflow")

_TESTS = itertools.count(1)
gc.set_threshold(20_000)  # which spares a sixth of the time that the runs of a simulated cluster take


def pytest_asyncio_loop_factories(config, item):
    real, sockets, slow = [item.get_closest_marker(name) for name in ("real", "sockets", "slow")]
    both = {"asyncio": asyncio.SelectorEventLoop, "uvloop": _uvloop}
    if sockets and slow and not LONG:  # the name of the test chooses one: each loop has about half of the tests
        chosen = list(both)[zlib.crc32(item.name.encode()) % 2]
        return {chosen: both[chosen]}
    if sockets or (real and LONG):
        return both
    return {"asyncio": asyncio.SelectorEventLoop} if real else {"virtual": VirtualTimeLoop}


def _uvloop():
    return pytest.importorskip("uvloop", reason="uvloop is not installed").new_event_loop()


def pytest_itemcollected(item):
    if is_async_test(item):  # inside the check of the process, outside all that the test asks for
        item.fixturenames.insert(item.fixturenames.index("process_is_left_clean") + 1, "loop_is_left_clean")


@pytest.hookimpl(trylast=True)  # of what -k and -m have left
def pytest_collection_modifyitems(config, items):
    if not LONG:
        chosen = short(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]


def pytest_collection_finish(session):
    _freeze_what_lives()


def pytest_runtest_logfinish(nodeid, location):
    if next(_TESTS) % 100 == 0:
        _freeze_what_lives()


def _freeze_what_lives():
    """A full collection in a test need not look at what pytest keeps of all tests: it takes up to 1 s."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and not importlib.util.find_spec("cupy"):
        pytest.skip("CuPy is not installed")


@pytest.fixture(autouse=True)
def process_is_left_clean():
    with no_leaks():
        yield


@pytest.fixture
def exact_offsets(monkeypatch):
    """The tasks of a simulated cluster know that they share a clock: on a slow machine they estimate an offset."""
    monkeypatch.setattr("aioflow.net.peer.clock_comparison.time", SimpleNamespace(perf_counter=lambda: 0.0))


@pytest.fixture
async def loop_is_left_clean():
    with no_pending_tasks():
        yield
