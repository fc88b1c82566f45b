"""The pace of sources and pages: they rest for a multiple of the processor time that they take."""

import asyncio
from unittest.mock import patch

import numpy as np
import pytest

from aioflow.dashboard import app, monitor
from aioflow.dashboard.board import Board
from aioflow.dashboard.messages import Points
from aioflow.dashboard.monitor import Monitor, Pace


async def test_a_source_rests_in_proportion_to_its_work():
    now, loop = [0.0], asyncio.get_running_loop()
    with patch.object(monitor, "_SHARE", 100.0), patch.object(monitor.time, "thread_time", lambda: now[0]):
        pace = Pace(0.5)
        begin = loop.time()
        assert await pace.rest() < 1e-3
        assert abs(loop.time() - begin - 0.5) < 1e-3
        with pace.look():
            now[0] += 0.03
        begin = loop.time()
        await pace.rest()
        assert abs(loop.time() - begin - 3.0) < 1e-3


async def test_sources_run_as_long_as_there_is_a_viewer():
    running = []

    class Source:
        async def watch(self, board):
            running.append(self)
            try:
                await asyncio.sleep(1e6)
            finally:
                running.remove(self)

    watched = Monitor("x", "session", [Source(), Source()], ["run"])
    with watched.viewer():
        with watched.viewer():
            await asyncio.sleep(1)
            assert len(running) == 2
        await asyncio.sleep(1)
        assert len(running) == 2
    await asyncio.sleep(1)
    assert running == []
    with watched.viewer():
        await asyncio.sleep(1)
        assert len(running) == 2
        await watched.close()
        assert running == []


async def test_a_page_that_is_loaded_again_has_the_sources_to_itself():
    log = []

    class Source:
        async def watch(self, board):
            log.append("begins")
            try:
                await asyncio.sleep(1e6)
            finally:
                await asyncio.sleep(1)
                log.append("ends")

    watched = Monitor("x", "session", [Source()], ["run"])
    with watched.viewer():
        await asyncio.sleep(1)
    with watched.viewer():
        await asyncio.sleep(5)
        assert log == ["begins", "ends", "begins"]
    await watched.close()
    assert log == ["begins", "ends", "begins", "ends"]


async def test_a_page_rests_in_proportion_to_the_time_of_writing_its_update(monkeypatch):
    loop, board, sent = asyncio.get_running_loop(), Board(), []

    class Socket:
        async def send_str(self, text):
            sent.append(loop.time())
            if len(sent) == 4:
                raise ConnectionResetError

    async def written(messages):
        return "", 0.02 * len(sent)

    async def post():
        while True:
            board.post(Points(loop.time(), {"rate:steps": 1.0}))
            await asyncio.sleep(0.01)

    monkeypatch.setattr(app, "_written", written)
    posting = asyncio.create_task(post())
    await app._send(board, Socket())
    posting.cancel()
    await asyncio.wait([posting])
    assert np.diff(sent) == pytest.approx([app.SHORTEST, 1.0, 2.0], abs=0.011)
