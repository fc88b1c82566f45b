"""What a session of a cluster tells its master of its configuration."""

import dataclasses
from typing import Any, Final

from aioflow.config import Config
from aioflow.net.master import SETTINGS

_OWN: Final = frozenset({"close_timeout", "heartbeat_timeout", "ssl", "token_file"})
"""Settings of a session that its master is not told."""


def session_settings(config: Config) -> dict[str, Any]:
    """What the master is told of how the session works: what is not as it is by default.

    ValueError if that is something which only a task decides.
    """
    default, names = Config(), [field.name for field in dataclasses.fields(Config)]
    changed = {name: getattr(config, name) for name in names if getattr(config, name) != getattr(default, name)}
    if strange := changed.keys() - _OWN - set(SETTINGS):
        listed = ", ".join(f"{name}=" for name in sorted(strange))
        raise ValueError(f"Config({listed}) is no matter of a cluster's session: give it to the Server of each task")
    told = {name: value for name, value in changed.items() if name in SETTINGS}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}


__all__ = ["session_settings"]
