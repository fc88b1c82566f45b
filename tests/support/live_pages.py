"""The live page in a browser: which pages there are, what each shows of the recorded run, and pictures of them."""

import asyncio
import contextlib
import os
from pathlib import Path

import aioflow as af
from aioflow.dashboard.messages import (
    Cluster,
    Event,
    Graph,
    GraphNode,
    Points,
    ServedModel,
    Serving,
    Task,
    TaskLink,
    Training,
    WaitCycle,
    WaitEdge,
    Waiter,
    WaitingCaller,
    Waits,
)
from tests.support.browser import DESKTOP, browser_tab, find_browser

PICTURES = os.environ.get("AIOFLOW_PICTURES")
HOSTILE = "<script>document.title='hit'</script><img src=x onerror=document.title='hit'>\u202e\"'\\" + "w" * 10_000
PAGES = ("run", "timeline", "graph", "waiting", "cluster", "training")
SHOWN = {
    "run": "document.querySelectorAll('.chart:not([hidden]) canvas').length >= 5",
    "timeline": "!document.querySelector('.timeline-host').hidden && document.querySelectorAll('.steps button').length",
    "graph": "document.querySelectorAll('.graph .box.filled').length && document.querySelector('.graph .critical')",
    "waiting": "document.querySelector('.wait .box').innerText.includes('take')",
    "cluster": "document.querySelectorAll('.task').length === 3 && document.querySelector('svg.events circle')",
    "training": "document.querySelector('.histogram rect') && document.querySelector('figure img').naturalWidth",
}
"""What each page has when it shows the recorded run."""


@contextlib.asynccontextmanager
async def open_page(watched):
    async with af.dashboard.serve(watched) as page, browser_tab(find_browser()) as tab:
        await tab.size(*DESKTOP)
        await tab.open(page.url)
        yield page, tab
        assert tab.console == []


async def show(tab, name):
    """Go to a page, and wait until it is there."""
    await tab.run(f"location.hash = {name!r}")
    await tab.until(f"document.querySelector('main').dataset.page === {name!r}")


async def fits(tab):
    """Whether nothing is wider than the screen."""
    return await tab.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


async def picture(tab, name):
    """Write a picture of the page, if pictures are wanted."""
    if PICTURES:
        await asyncio.to_thread(Path(PICTURES).mkdir, parents=True, exist_ok=True)
        await tab.until("document.getAnimations().length === 0")
        await tab.screenshot(f"{PICTURES}/{name}.png")


def hostile_messages():
    """A message for each page, with names that are markup, long, empty, or from right to left."""
    names = [HOSTILE, HOSTILE + "2", "\u202egnirts", "a/b/c", "", " "]
    for second in range(3):
        values = {
            f"{group}:{name}": 1.0 for group in ("value", "queue", "memory", "task", "train", "calls") for name in names
        }
        yield Points(float(second), values | {"train:staleness": float(second)})
    yield Graph(1, tuple([GraphNode(name, name, (), (), (name,), name, name) for name in names]))
    waiter = Waiter(1, HOSTILE, HOSTILE, HOSTILE, 1.0, HOSTILE, HOSTILE, HOSTILE, False, HOSTILE)
    edge = WaitEdge(1, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, 2)
    callers = (WaitingCaller(HOSTILE, 1.0, HOSTILE, HOSTILE),)
    yield Waits(1.0, True, (waiter,), callers, (WaitCycle((edge,) * 5), WaitCycle((edge,))), (HOSTILE,))
    task = Task(HOSTILE, HOSTILE, "up", HOSTILE, 1.0, links=(TaskLink(HOSTILE, 1, 1, None, False),), why=HOSTILE)
    yield Cluster(1.0, (task,))
    yield Event(1.0, "bad", HOSTILE, HOSTILE)
    yield Training(1.0, 1, None, None, None, None, {HOSTILE: 1.0})
    yield Serving(1.0, (ServedModel(HOSTILE, (), {HOSTILE: 1}, 1, 1, 1, 1, {HOSTILE: 1}, (1,), (), (), ()),))
