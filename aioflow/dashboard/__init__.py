"""The live page: what a session, a task, a cluster or served models do, in a browser.

`page.serve` opens a page. It has a `monitor.Monitor`, which runs sources while somebody looks; `watched` chooses them:
`session_source` for the steps of a session, by way of `sampling` and `step_trace`, `graph_source`, `wait_source`,
`training_source` with `summaries`, `cluster_source`, `serving_source`. Sources post `messages` on a `board`, which
keeps bounded `history`. `app` sends the messages to pages; `access` decides who may read them. `recording` writes the
messages of a run to a file, and fills a page from it; `report_file` writes them with the pages as one file, by way of
`bundle`. `static/` has the page itself: modules of JavaScript that run as they are. The watched program never waits for
a page. This folder may use everything below it, and `serving`.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.dashboard.page": "Page aiohttp_app serve",
    "aioflow.dashboard.recording": "record replay",
    "aioflow.dashboard.report_file": "report",
})  # fmt: skip
