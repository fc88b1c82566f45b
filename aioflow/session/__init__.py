"""The session: what users run graphs with.

`session.Session` prepares a call of its graph once, keeps it, and runs it by its engine, which is local or a cluster's.
`request_batcher.RequestBatcher` gathers the calls of many tasks into few runs: `batch_rows` puts rows of calls together
and divides results again, `waiting_calls` holds the calls that wait. `reset` empties containers that sessions share.
"""

from aioflow.session.session import Session as Session
from aioflow.session.session import get_default_session as get_default_session
