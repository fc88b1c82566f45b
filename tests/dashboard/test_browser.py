"""The pages in a browser: a running program appears, a recorded one fills every page, and nothing has an error.

With AIOFLOW_PICTURES=DIR the pages are also written there as pictures: `make pictures`.
"""

import asyncio
import contextlib
import tempfile
from pathlib import Path

import numpy as np
import pytest

import aioflow as af
from aioflow.dashboard.messages import Cluster, Event, Points, ServedModel, ServedVersion, Serving, Training
from aioflow.dashboard.monitor import Monitor
from tests.support.browser import DESKTOP, PHONE, browser_tab, find_browser
from tests.support.live_pages import HOSTILE, PAGES, SHOWN, fits, hostile_messages, open_page, picture, show
from tests.support.recorded_run import record_training

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="no browser was found: `make test-browser` installs Chromium"),
]


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
            await show(tab, "graph")
            await tab.until("document.querySelectorAll('.graph .box.filled').length")
            search = "document.querySelector('input[type=search]')"
            await tab.run(f"{search}.value = 'loss'; {search}.dispatchEvent(new Event('input'))")
            await tab.run("document.querySelector('.hits button').click()")
            await tab.until("document.querySelector('.panel').innerText.includes('last values')")
        running.cancel()
        await asyncio.wait([running])


async def test_a_recorded_cluster_training_fills_every_page():
    with tempfile.TemporaryDirectory() as folder:
        path = await asyncio.to_thread(record_training, Path(folder) / "run.json")
        monitor = af.dashboard.replay(path)
    async with open_page(monitor) as (_, tab):
        for name in PAGES:
            await show(tab, name)
            await tab.until(SHOWN[name])
            assert await fits(tab), name
            await picture(tab, name)
        await tab.size(*PHONE, dark=True)
        for name in PAGES:
            await show(tab, name)
            await tab.until(SHOWN[name])
            assert await fits(tab), name
            await picture(tab, f"{name}-phone")
        await tab.size(*DESKTOP)
        await _check_numbers(tab, monitor)
        await _check_memory(tab)
        await _check_steps(tab)
        await _check_graph(tab)


async def _check_numbers(tab, monitor):
    """The pages have the numbers of the messages."""
    training, cluster = monitor.board.newest(Training), monitor.board.newest(Cluster)
    await show(tab, "training")
    assert f"{training.step} / {training.steps}" in await tab.run("document.querySelector('.tiles').innerText")
    await show(tab, "cluster")
    text = await tab.run("document.querySelector('.tasks').innerText")
    assert all(str(task.steps) in text and task.incarnation[:8] in text for task in cluster.tasks)
    events = [each.text for each in monitor.board.since(0) if isinstance(each, Event)]
    listed = await tab.run("document.querySelector('ul.events').innerText")
    assert all(text in listed for text in events)
    await show(tab, "timeline")
    step = monitor.board.steps[max(monitor.board.steps)]
    assert f"Step {step.number} at" in await tab.until("document.querySelector('.muted').innerText")
    await tab.run("document.querySelector('canvas.timeline').focus()")
    first, second = sorted(step.bars, key=lambda bar: bar.start)[:2]
    await tab.key("ArrowDown")
    assert first.name in await tab.run("document.querySelector('.detail').innerText")
    await tab.key("ArrowDown")
    assert second.name in await tab.run("document.querySelector('.detail').innerText")
    await tab.key("Escape")
    assert await tab.run("document.querySelector('.detail').hidden")
    assert await tab.run("document.querySelector('#pages [aria-current=page]').innerText") == "Timeline"


async def _check_steps(tab):
    """Points that a recovery has gone back behind leave a chart by steps."""
    shown = await tab.run("""import(new URL("chart.js", document.baseURI).href).then(({ rising }) =>
        rising([[1, 2, 2, 5, 6, 3, 4], [10, 20, 21, 50, 60, 30, 40]]))""")
    assert shown == [[1, 2, 2, 3, 4], [10, 20, 21, 30, 40]]


async def _check_memory(tab):
    """Hours of numbers, steps and events are kept in bounds."""
    kept = await tab.run("""import(new URL("store.js", document.baseURI).href).then(({ Store }) => {
        const store = new Store();
        for (let second = 0; second < 40000; second += 1) {
            const messages = [{ kind: "Points", time: second, values: { "rate:steps": second } }];
            messages.push({ kind: "StepSummary", number: second }, { kind: "Event", time: second });
            for (const message of messages) store.applyOne(message);
        }
        const { times, values } = store.series.get("rate:steps");
        return [times.length, store.steps.length, store.events.length, times[0], values.at(-1)];
    })""")
    assert kept[0] <= 2400
    assert kept[1:3] == [16, 200]
    assert kept[3] < 4000  # the begin is kept, as means
    assert kept[4] == 39999


IS_WHOLE = """(() => {
    const window = document.querySelector("svg.graph").getBoundingClientRect();
    return [...document.querySelectorAll(".graph .box")].every((box) => {
        const { left, right, top, bottom } = box.getBoundingClientRect();
        return left >= window.left && right <= window.right && top >= window.top && bottom <= window.bottom;
    });
})()"""
"""Whether each box of the graph is in its window."""
IS_LEGIBLE = """[...document.querySelectorAll(".graph .box")].every((box) => {
    const names = [...box.querySelectorAll("text:not(.count)")].map((text) => text.getBoundingClientRect());
    const shown = names.filter(({ height }) => height > 0);
    const width = box.querySelector("rect").getBoundingClientRect().width;
    return shown.length === 1 && shown[0].height >= 8 && shown[0].width <= width;
})"""
"""Whether each box of the graph has one name, in letters that can be read, and within the box."""


async def _check_graph(tab):
    """The graph is shown whole. A scope opens by Enter and closes again, an operation is found by its name, and the
    keys go from page to page.
    """
    await tab.key("3")
    await tab.until(
        "document.querySelector('main').dataset.page === 'graph' && document.querySelector('.graph .scope')"
    )
    await tab.until(IS_WHOLE)
    assert await tab.run(IS_LEGIBLE)
    before = await tab.run("document.querySelectorAll('.graph .box').length")
    await tab.run("document.querySelector('.graph .scope').focus()")
    await tab.key("Enter")
    await tab.until(f"document.querySelectorAll('.graph .box').length > {before}")
    assert await tab.run("document.activeElement.matches('.graph .frame')")  # so Enter closes it again
    await tab.key("Enter")
    await tab.until(f"document.querySelectorAll('.graph .box').length === {before}")
    assert await tab.run("document.activeElement.matches('.graph .scope')")
    await tab.key("Escape")
    assert "Nothing is selected" in await tab.run("document.querySelector('.panel').innerText")
    await tab.run("document.querySelector('.graph .scope').dispatchEvent(new MouseEvent('dblclick'))")
    await tab.until(f"document.querySelectorAll('.graph .box').length > {before}")
    await tab.run("document.querySelector('.graph .frame').dispatchEvent(new MouseEvent('dblclick'))")
    await tab.until(f"document.querySelectorAll('.graph .box').length === {before}")
    search = "document.querySelector('input[type=search]')"
    await tab.run(f"{search}.value = 'replica1/loss'; {search}.dispatchEvent(new Event('input')); {search}.focus()")
    await tab.key("Enter")
    assert await tab.run("document.activeElement.matches('.graph .box.selected')")
    text = await tab.until("document.querySelector('.panel').innerText")
    assert "replica1/loss" in text
    assert "recorded_run.py" in text
    assert "worker 1" in text


async def test_models_have_a_page():
    versions = (ServedVersion(3, "available", ("stable",)), ServedVersion(2, "failed", (), "the file is damaged"))
    times = (0.001, 0.002, 0.009)
    model = ServedModel(
        "digits", versions, {"200": 812, "429": 3}, 815, 2400, 7, 3, {"idle": 300, "full": 100, "delay": 11},
        (10, 20, 100, 200, 81), times, times, times,
    )  # fmt: skip
    monitor = Monitor("models: digits", "models", [], ["serving"])
    for second in range(60):
        numbers = {"calls:digits": 50.0 + second % 7, "latency:p50 digits": 0.001, "latency:p99 digits": 0.009}
        monitor.board.post(Points(1_767_225_600.0 + second, numbers | {"batch:digits": 3.0, "lag:loop": 0.001}))
    monitor.board.post(Serving(1_767_225_660.0, (model,)))
    async with open_page(monitor) as (_, tab):
        text = await tab.until("document.querySelector('.model').innerText")
        for part in ("digits", "3 available · stable", "2 failed", "200: 812, 429: 3", "7 wait now", "9 ms", "full"):
            assert part in text
        await tab.until("document.querySelectorAll('.chart:not([hidden]) canvas').length === 4")
        await picture(tab, "serving")
        await tab.size(*PHONE, dark=True)
        assert await fits(tab)
        await picture(tab, "serving-phone")


async def test_hostile_names_change_nothing():
    monitor = Monitor(HOSTILE, "session", [], [*PAGES, "serving"])
    for message in hostile_messages():
        monitor.board.post(message)
    async with open_page(monitor) as (_, tab):
        for name in (*PAGES, "serving"):
            await show(tab, name)
            if name == "graph":
                await tab.until("document.querySelectorAll('.graph .box').length")
            if name == "cluster":
                assert "Staleness of gradients" in await tab.run("document.querySelector('main').innerText")
            assert await fits(tab), name
            assert await tab.run("document.title") != "hit"
            assert await tab.run("document.querySelectorAll('main script, main img').length") == 0
            await tab.size(*PHONE)
            assert await fits(tab), f"{name} on a phone"
            await tab.size(*DESKTOP)


@pytest.mark.parametrize("style", ["scopes", "flat"])
async def test_ten_thousand_operations_are_shown_collapsed(style):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2], name="x")
        for layer in range(100):
            with af.name_scope(f"layer{layer}") if style == "scopes" else contextlib.nullcontext():
                for _ in range(100):
                    x = af.tanh(x)
    async with af.Session(graph=graph) as session, open_page(session) as (_, tab):
        await show(tab, "graph")
        await tab.until("document.querySelectorAll('.graph .box').length")
        assert await tab.run("document.querySelectorAll('.graph .box').length") <= 200
        assert "10001" in (await tab.run("document.querySelector('.bar').innerText")).replace(",", "")


async def test_a_page_comes_back_after_its_server_was_restarted():
    first, second = (Monitor(name, "session", [], ["run"]) for name in ("first", "second"))
    async with browser_tab(find_browser()) as tab:
        async with af.dashboard.serve(first) as page:
            await tab.open(page.url)
            await tab.until("document.querySelector('#subject').innerText === 'first'")
        await tab.until("document.querySelector('#link').dataset.state === 'lost'")
        port = int(page.url.rsplit(":")[-1].strip("/"))
        async with af.dashboard.serve(second, port=port):
            await tab.until("document.querySelector('#subject').innerText === 'second'")
            await tab.until("document.querySelector('#link').dataset.state === 'live'")
