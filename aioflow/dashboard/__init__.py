"""The live page: what a session, a task, a cluster or served models do, in a browser.

`page.serve` opens a page. It has a `monitor.Monitor`, which runs sources while somebody looks: `session_source` for the
steps of a session, by way of `sampling` and `step_trace`. Sources post `messages` on a `board`, which keeps bounded
`history`. `app` sends the messages to pages; `access` decides who may read them. `static/` has the page itself:
modules of JavaScript that run as they are. The watched program never waits for a page.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.dashboard.page": "Page aiohttp_app serve",
})  # fmt: skip
