"""The access log: an object of JSON a line for each request, in the log `aioflow.serving.access`."""

import json
import logging
import time
from typing import Final

from aioflow.serving.record import Record

_log: Final = logging.getLogger("aioflow.serving.access")


def log_request(record: Record) -> None:
    """Write a request that has ended to the log, if its level is INFO or lower."""
    if not _log.isEnabledFor(logging.INFO):
        return
    facts = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **record._asdict()}
    facts["ms"] = round(facts.pop("seconds") * 1000, 3)
    _log.info("%s", json.dumps({name: value for name, value in facts.items() if value is not None}))
