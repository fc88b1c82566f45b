"""A report: a recorded run as one file with all pages, which a browser opens without a server.

The file is `index.html` with everything that it names inside: the modules as one script, the styles, the picture, and
the messages of the run, compressed. A Content-Security-Policy names the hashes of the script and of the styles, so a
browser runs nothing else and loads nothing from anywhere.
"""

import base64
import gzip
import hashlib
import html
import json
import os
from pathlib import Path
from typing import Final

from aioflow import errors
from aioflow.dashboard.app import STATIC
from aioflow.dashboard.board import Board
from aioflow.dashboard.bundle import bundle
from aioflow.dashboard.chrome_trace import chrome_trace
from aioflow.dashboard.messages import Subject, to_json
from aioflow.dashboard.recording import replay

_REPLACED: Final = {"connection.js": "recorded.js"}
_STYLES: Final = '<link rel="stylesheet" href="vendor/uplot.css">\n<link rel="stylesheet" href="style.css">'
_SCRIPT: Final = '<script type="module" src="main.js"></script>'
_HEAD: Final = '<meta charset="utf-8">\n'


def report(recording: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write a recorded run as one HTML file with all pages of the live page. Blocks while it reads and writes.

    A browser opens the file without a server and without a network.

    Args:
        recording: the file that `record` has written.
        path: the file to write; one that exists is replaced.

    Raises:
        NotFoundError: there is no such recording.
        DataLossError: the file is no recording, or parts of it contradict each other.
        InvalidArgumentError: the recording itself would be replaced.

    Examples:
        >>> async with af.dashboard.record(session, "run.json"):
        ...     total = await session.run(af.constant(1) + 2)
        >>> af.dashboard.report("run.json", "report.html")
    """
    board = replay(recording).board
    target = Path(path)
    if target.exists() and target.samefile(recording):
        raise errors.InvalidArgumentError(f"the report would replace the recording {target}: write it elsewhere")
    target.write_bytes(_page(board).encode(errors="replace"))


def _page(board: Board) -> str:
    """The text of the file."""
    styles = "".join([(STATIC / name).read_text(encoding="utf-8") for name in ("vendor/uplot.css", "style.css")])
    script = bundle("main.js", _REPLACED)
    icon = f"data:image/svg+xml;base64,{_base64((STATIC / 'icon.svg').read_bytes())}"
    subject = board.newest(Subject)
    title = subject.title if isinstance(subject, Subject) else ""
    run = f'<script type="application/gzip" id="recording">{_base64(_run(board))}</script>'
    parts = {
        _HEAD: f'{_HEAD}<meta http-equiv="Content-Security-Policy" content="{_policy(script, styles)}">\n',
        "<title>aioflow</title>": f"<title>{html.escape(title)}: aioflow</title>",
        _STYLES: f"<style>{styles}</style>",
        _SCRIPT: f'{run}\n<script type="module">{script}</script>',
        'href="icon.svg"': f'href="{icon}"',
        'src="icon.svg"': f'src="{icon}"',
    }
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    for part in parts:
        assert page.count(part) == 1, f"index.html has no single {part}"
    for part, made in parts.items():
        page = page.replace(part, made, 1)
    return page


def _policy(script: str, styles: str) -> str:
    """The sources that a browser may use: the script and the styles of this file, and pictures inside it."""
    hashes = [_base64(hashlib.sha256(text.encode()).digest()) for text in (script, styles)]
    return (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; img-src data:; "
        "form-action 'none'; base-uri 'none'"
    )


def _run(board: Board) -> bytes:
    """What `recorded.js` reads: the messages for the pages, and the documents that they ask for, by path."""
    steps = board.steps.values()
    documents = {f"steps/{step.number}.json": to_json(step) for step in steps}
    documents |= {f"steps/{step.number}/trace.json": json.dumps(chrome_trace(step)) for step in steps}
    if board.graph is not None:
        documents["graph.json"] = to_json(board.graph)
    messages = [to_json(message) for message in board.since(0)]
    return gzip.compress(json.dumps({"messages": messages, "documents": documents}).encode(), mtime=0)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
