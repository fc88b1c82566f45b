"""The notebook of examples runs from its first cell to its last, and shows pictures."""

import asyncio
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.browser import browser_tab, find_browser
from tests.support.live_pages import PICTURES, picture

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "examples" / "tour.ipynb"
SHOWN = (
    ">Graph", ">Session", "loss/mean:0", "450/450", "of the held-out digits", ">Trace of step", ">Placement",
    "waits to take an element of", "epoch 5 of 5", "worker 1 CPU:0", " KiB",
)  # fmt: skip


def test_the_notebook_is_stored_without_outputs():
    cells = json.loads(TOUR.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 10
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert TOUR.stat().st_size < 20_000


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(find_spec("nbconvert") is None, reason="nbconvert is not installed")
def test_the_notebook_runs_and_shows_pictures(tmp_path):
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "--output-dir", str(tmp_path), str(TOUR)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JUPYTER_PLATFORM_DIRS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "tour.html"
    text = re.sub(r"<style.*?</style>|<script.*?</script>", "", path.read_text(), flags=re.DOTALL)
    assert [part for part in SHOWN if part not in text] == []
    assert "Traceback" not in text
    if PICTURES:
        asyncio.run(_picture(path))


async def _picture(path):
    async with browser_tab(find_browser()) as tab:
        await tab.size(1280, 5200)
        await tab.open(path.as_uri())
        await picture(tab, "notebook")
