"""The settings that a session of a cluster sends to its master."""

import dataclasses
from typing import Any, Final

from aioflow.config import Config
from aioflow.net.master.master import SETTINGS

_OWN: Final = frozenset({"busy_poll", "close_timeout", "heartbeat_timeout", "shared_memory", "ssl", "token_file"})
"""Settings that a session does not send to its master."""


def session_settings(config: Config) -> dict[str, Any]:
    """The settings for the master: those that differ from the defaults.

    Raises ValueError for a setting that only tasks have.
    """
    default, names = Config(), [field.name for field in dataclasses.fields(Config)]
    changed = {name: getattr(config, name) for name in names if getattr(config, name) != getattr(default, name)}
    if strange := changed.keys() - _OWN - set(SETTINGS):
        listed = ", ".join(f"{name}=" for name in sorted(strange))
        raise ValueError(
            f"Config({listed}) has no effect in a session of a cluster: give it to the Server of each task"
        )
    settings = {name: value for name, value in changed.items() if name in SETTINGS}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
