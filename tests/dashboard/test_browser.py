"""The page in a browser: a running program appears on it, and no page has an error."""

import asyncio
import contextlib

import numpy as np
import pytest

import aioflow as af
from tests.support.browser import DESKTOP, browser_tab, find_browser

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="no browser was found: `make test-browser` installs Chromium"),
]
HOSTILE = "<script>document.title='hit'</script><img src=x onerror=alert(1)>\u202e\"'" + "w" * 10_000


@contextlib.asynccontextmanager
async def open_page(watched, **options):
    async with af.dashboard.serve(watched, **options) as page, browser_tab(find_browser()) as tab:
        await tab.size(*DESKTOP)
        await tab.open(page.url)
        yield page, tab
        assert tab.console == []


async def test_a_running_training_appears():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 8], name="x")
        weights = af.Variable(af.ones([8, 4]), name="weights")
        loss = af.reduce_mean(af.square(af.matmul(x, weights)), name="loss")
        train = af.train.GradientDescentOptimizer(0.01).minimize(loss)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)

        async def training():
            while True:
                await session.run([loss, train], {x: np.ones((4, 8), np.float32)})
                await asyncio.sleep(0.002)

        running = asyncio.create_task(training())
        async with open_page(session) as (page, tab):
            await tab.until("document.querySelectorAll('.chart:not([hidden]) canvas').length >= 4")
            assert "loss" in await tab.run("document.body.innerText")
            assert await tab.until("document.querySelector('.tile b').innerText > '0'")
            await tab.key("d")
            assert await tab.run("document.documentElement.dataset.theme") == "dark"
            assert page.monitor.is_watching
        running.cancel()
        await asyncio.wait([running])
