"""The live page: what a session, a task, a cluster or served models do, in a browser.

`page.serve` opens a page. It has a `monitor.Monitor`, which runs sources while somebody looks; `watched` chooses them:
`session_source` for the steps of a session, by way of `sampling` and `step_trace`, `graph_source`, `wait_source`,
`training_source` with `summaries`, `cluster_source`, `serving_source`. Sources post `messages` on a `board`, which
keeps bounded `history`. `app` sends the messages to pages; `access` decides who may read them. `recording` writes the
messages of a run to a file, and fills a page from it; `report_file` writes them with the pages as one file, by way of
`bundle`. `static/` has the page itself: modules of JavaScript that run as they are. The watched program never waits for
a page. This folder may use everything below it, and `serving`.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.dashboard.page import Page as Page
from aioflow.dashboard.page import aiohttp_app as aiohttp_app
from aioflow.dashboard.page import serve as serve
from aioflow.dashboard.recording import record as record
from aioflow.dashboard.recording import replay as replay
from aioflow.dashboard.report_file import report as report

__all__ = ["Page", "aiohttp_app", "record", "replay", "report", "serve"]
