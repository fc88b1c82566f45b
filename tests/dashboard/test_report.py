"""A recorded run as one file: a browser opens it from the disk, shows every page, and asks nothing for anything."""

import json
import logging

import pytest

import aioflow as af
from aioflow import cli, errors
from aioflow.dashboard.board import Board
from aioflow.dashboard.bundle import bundle
from aioflow.dashboard.chrome_trace import chrome_trace
from aioflow.dashboard.messages import Cluster, Event, Step, Subject, Training, to_json
from aioflow.dashboard.recording import read_recording, replay
from tests.support.browser import DESKTOP, PHONE, browser_tab, find_browser
from tests.support.live_pages import HOSTILE, PAGES, SHOWN, fits, hostile_messages, picture, show
from tests.support.recorded_run import record_training

IN_A_BROWSER = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="no browser was found: `make test-browser` installs Chromium"),
]


def in_a_browser(test):
    for mark in IN_A_BROWSER:
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    return record_training(tmp_path_factory.mktemp("recorded") / "run.json")


KEEP_BLOBS = """saved = new Map(); (() => {
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => { const url = make(blob); saved.set(url, blob); return url };
})()"""


@in_a_browser
async def test_a_report_shows_every_page_from_one_file(recording, tmp_path, capsys):
    path = tmp_path / "report.html"
    assert cli.main(["report", str(recording), "-o", str(path)]) == 0
    assert f"{path}: " in capsys.readouterr().out
    board = replay(recording).board
    async with browser_tab(find_browser()) as tab:
        await tab.size(*DESKTOP)
        await tab.open(path.as_uri())
        await tab.run(KEEP_BLOBS)
        for name in PAGES:
            await show(tab, name)
            await tab.until(SHOWN[name])
            assert await fits(tab), name
            await picture(tab, f"report-{name}")
        await check_numbers(tab, board)
        await tab.size(*PHONE, dark=True)
        for name in PAGES:
            await show(tab, name)
            await tab.until(SHOWN[name])
            assert await fits(tab), name
            await picture(tab, f"report-{name}-phone")
        assert tab.console == []
        assert {url.partition(":")[0] for url in tab.requests} <= {"file", "data"}
        assert [url for url in tab.requests if url.startswith("file:")] == [path.as_uri()]


async def check_numbers(tab, board):
    """The pages have the numbers of the recorded messages, and a step is saved as it was traced."""
    training, cluster = board.newest(Training), board.newest(Cluster)
    await show(tab, "training")
    assert f"{training.step} / {training.steps}" in await tab.run("document.querySelector('.tiles').innerText")
    await show(tab, "cluster")
    text = await tab.run("document.querySelector('.tasks').innerText")
    assert all(str(task.steps) in text and task.incarnation[:8] in text for task in cluster.tasks)
    listed = await tab.run("document.querySelector('ul.events').innerText")
    assert all(each.text in listed for each in board.since(0) if isinstance(each, Event))
    await show(tab, "timeline")
    step = board.steps[max(board.steps)]
    assert f"Step {step.number} at" in await tab.until("document.querySelector('.muted').innerText")
    assert json.loads(await tab.run("saved.get(document.querySelector('a.button').href).text()")) == chrome_trace(step)
    assert await tab.run("document.querySelector('a.button').download") == f"step-{step.number}.json"
    assert "recorded" in await tab.run("document.querySelector('#link').innerText")


@in_a_browser
async def test_hostile_names_change_nothing_in_a_report(tmp_path):
    recording, path = tmp_path / "run.json", tmp_path / "report.html"
    title = f"</script></title>{HOSTILE[:300]}"
    messages = [Subject(title, "session", "1", 1.0, (*PAGES, "serving")), *hostile_messages()]
    recording.write_text("".join([f"{to_json(message)}\n" for message in messages]))
    af.dashboard.report(recording, path)
    async with browser_tab(find_browser()) as tab:
        await tab.open(path.as_uri())
        for name in (*PAGES, "serving"):
            await show(tab, name)
            assert await fits(tab), name
            assert await tab.run("document.title") != "hit"
            assert await tab.run("document.querySelectorAll('main script, main img, title ~ title').length") == 0
        assert await tab.run("document.querySelector('#subject').title") == title
        assert tab.console == []


@in_a_browser
async def test_a_frame_that_may_keep_nothing_shows_a_report_in_both_themes(recording, tmp_path):
    path = tmp_path / "report.html"
    af.dashboard.report(recording, path)
    refusing = "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('not here'); } })"
    async with browser_tab(find_browser()) as tab:
        await tab.send("Page.addScriptToEvaluateOnNewDocument", source=refusing)
        await tab.open(path.as_uri())
        await tab.until(SHOWN["run"])
        for theme in ("dark", "light"):
            await tab.key("d")
            assert await tab.run("document.documentElement.dataset.theme") == theme
        assert tab.console == []


def test_a_report_is_written_of_what_was_recorded_before_a_crash(recording, tmp_path, caplog):
    cut, path = tmp_path / "cut.json", tmp_path / "report.html"
    cut.write_text(recording.read_text()[:-20])
    with caplog.at_level(logging.WARNING, "aioflow.dashboard"):
        af.dashboard.report(cut, path)
    assert "ends within line" in caplog.text
    assert path.stat().st_size < 1_000_000
    assert "default-src 'none'" in path.read_text()


STEP = json.loads(to_json(Step(5, 1.0, 1.0, 1.0, 0.0, 0.0, (), (), (), (), (), ())))
BAR = {"name": "a", "op_type": "b", "lane": 3, "ready": 0, "start": 0, "end": 1, "bytes": 0, "waits": False}
NODE = {"name": "a", "op_type": "b", "inputs": [7], "controls": [], "outputs": [], "device": "", "line": ""}
FORGED = {
    "lane 3 is named, and there are 0": STEP | {"bars": [BAR]},
    "operation 7 is named, and there are 1": {"kind": "Graph", "version": 1, "nodes": [NODE]},
    "401 scopes": {"kind": "Graph", "version": 1, "nodes": [NODE | {"inputs": [], "name": "a/" * 401}]},
    "columns of 1 and 2": {"kind": "History", "series": {"rate:steps": {"times": [1], "values": [1, 2]}}},
    "a cycle of waits": {
        "kind": "Waits", "time": 1, "stuck": True, "waiters": [], "callers": [], "cycles": [{"edges": []}], "notes": [],
    },
    "int too large": {"kind": "Event", "time": 10**400, "level": "info", "text": "x"},
    "Event has no colour": {"kind": "Event", "time": 1, "level": "info", "text": "x", "colour": "red"},
}  # fmt: skip


@pytest.mark.parametrize("wrong", FORGED)
def test_a_forged_recording_is_refused_with_its_line(wrong, recording, tmp_path):
    forged = tmp_path / "forged.json"
    forged.write_text(f"{recording.read_text().partition(chr(10))[0]}\n{json.dumps(FORGED[wrong])}\n")
    with pytest.raises(errors.DataLossError, match=f"line 2: .*{wrong}"):
        list(read_recording(forged))


def test_other_files_and_places_are_refused(recording, tmp_path, capsys):
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents": []}')
    assert cli.main(["report", str(trace)]) == 1
    assert cli.main(["report", str(tmp_path / "none.json")]) == 1
    found = capsys.readouterr().err
    assert f"{trace} is no recording of a run" in found
    assert "none.json cannot be read" in found
    before = recording.read_text()
    with pytest.raises(errors.InvalidArgumentError, match="would replace the recording"):
        af.dashboard.report(recording, recording)
    assert recording.read_text() == before


def test_lone_surrogates_are_sent_and_recorded():
    board = Board()
    board.post(Event(1.0, "info", "\ud800"))
    assert to_json(*[each for each in board.since(0) if isinstance(each, Event)]).encode()


def test_a_form_of_import_that_is_not_known_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("aioflow.dashboard.bundle.STATIC", tmp_path)
    (tmp_path / "a.js").write_text("export const one = 1;\nexport let two = 2;\n")
    with pytest.raises(ValueError, match="'export let two = 2;' is an import or export"):
        bundle("a.js", {})
