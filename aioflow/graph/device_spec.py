"""Device names like `/job:worker/replica:0/task:1/device:GPU:0`, complete or partial, and how nested scopes merge."""

import dataclasses
import functools
import re
from typing import Any, Final

_PART: Final = re.compile(
    r"job:(?P<job>[A-Za-z][\w.-]*|\*)|replica:(?P<replica>\d{1,9}|\*)|task:(?P<task>\d{1,9}|\*)"
    r"|device:(?P<type>[A-Za-z]\w*|\*)(?::(?P<index>\d{1,9}|\*))?"
    r"|(?P<short_type>(?i:cpu|gpu))(?::(?P<short_index>\d{1,9}|\*))?",
    re.ASCII,
)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceSpec:
    """The parts of a device name; None for a part that the name does not state.

    Examples:
        >>> af.DeviceSpec.from_string("/job:worker/task:1/device:GPU:0").job
        'worker'
    """

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    @classmethod
    def from_string(cls, name: str) -> "DeviceSpec":
        """Parse a complete or partial name; its parts may come in any order. `CPU:1` is short for `/device:CPU:1`.

        ValueError naming the part that is malformed.
        """
        return _parse(name)

    def replace(self, **parts: Any) -> "DeviceSpec":
        """Return this spec with these parts replaced, None for a part that is no longer stated."""
        return dataclasses.replace(self, **parts)

    def make_merged_spec(self, dev: "DeviceSpec") -> "DeviceSpec":
        """Return this spec with the parts that `dev` states replaced, as nested `device()` scopes do."""
        stated = {field.name: getattr(dev, field.name) for field in dataclasses.fields(dev)}
        return dataclasses.replace(self, **{key: value for key, value in stated.items() if value is not None})

    def to_string(self) -> str:
        """Return the canonical name, in the order job, replica, task, device."""
        parts = [("job", self.job), ("replica", self.replica), ("task", self.task)]
        text = "".join(f"/{key}:{value}" for key, value in parts if value is not None)
        if self.device_type is None and self.device_index is None:
            return text
        index = "*" if self.device_index is None else self.device_index
        return f"{text}/device:{self.device_type or '*'}:{index}"

    def __str__(self) -> str:
        return self.to_string()


def _number(text: str | None) -> int | None:
    return None if text is None or text == "*" else int(text)


@functools.lru_cache(maxsize=1024)
def _parse(name: str) -> DeviceSpec:
    found: dict[str, str] = {}
    for part in filter(None, name.split("/")):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(
                f"malformed device name {name!r} at {part!r}; write /job:J/replica:R/task:T/device:TYPE:ID or some of "
                "its parts, as /device:GPU:0 or CPU:1"
            )
        stated = {key.removeprefix("short_"): value for key, value in match.groupdict().items() if value is not None}
        if not found.keys().isdisjoint(stated):
            twice = ", ".join(sorted(found.keys() & stated))
            raise ValueError(f"device name {name!r} states {twice} twice; leave one of them out")
        found |= stated
    kind = found.get("type", "*")
    return DeviceSpec(
        job=None if found.get("job", "*") == "*" else found["job"],
        replica=_number(found.get("replica")),
        task=_number(found.get("task")),
        device_type=None if kind == "*" else kind.upper(),
        device_index=_number(found.get("index")),
    )


def check_device(device: object) -> None:
    """Raise TypeError or ValueError unless it is the name of a device, a function that returns one, or None."""
    if isinstance(device, str):
        DeviceSpec.from_string(device)
    elif device is not None and not callable(device):
        raise TypeError(f"a device must be a name, as '/cpu:0', or a function of an operation, not {device!r}")


@functools.lru_cache(4096)
def task_of(device: str) -> str:
    """The task that a device belongs to, as `/job:worker/replica:0/task:1`."""
    spec = DeviceSpec.from_string(device)
    return f"/job:{spec.job}/replica:{spec.replica or 0}/task:{spec.task or 0}"
