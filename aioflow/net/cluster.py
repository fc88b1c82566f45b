"""Which tasks there are, and where: `af.train.ClusterSpec`."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aioflow import errors
from aioflow.graph.device_spec import DeviceSpec
from aioflow.net.cluster_messages import ClusterDef, JobDef
from aioflow.net.transport.addresses import split_address
from aioflow.tensors.plain_data import summarise
from aioflow.tensors.recursion import safe_repr

_JOB: Final = re.compile(r"[A-Za-z][\w.-]*", re.ASCII)
_MOST: Final = 1 << 20
"""Tasks of a job: their numbers are below that."""

Tasks = Sequence[str] | Mapping[int, str]


class ClusterSpec:
    """The jobs of a cluster, and the addresses of their tasks.

        af.train.ClusterSpec({"ps": ["a:2222"], "worker": ["b:2222", "c:2222"]})
        af.train.ClusterSpec({"worker": {1: "c:2222"}})

    Args:
        cluster: by the names of jobs, the addresses of their tasks: a list, or by their numbers, of which some may be
            missing. Or another ClusterSpec, or a ClusterDef.

    Raises:
        TypeError, ValueError: it is something else, or two tasks have one address.

    Examples:
        >>> cluster = af.train.ClusterSpec({"ps": ["red:2222"], "worker": ["green:2222", "blue:2222"]})
        >>> cluster.num_tasks("worker"), cluster.task_address("worker", 1)
        (2, 'blue:2222')
    """

    def __init__(self, cluster: "Mapping[str, Tasks] | ClusterSpec | ClusterDef") -> None:
        jobs = cluster.by_job() if isinstance(cluster, ClusterDef) else cluster
        jobs = jobs._jobs if isinstance(jobs, ClusterSpec) else jobs
        if not isinstance(jobs, Mapping):
            raise TypeError(f"a cluster is a dict of jobs, as {{'worker': ['host:port']}}, not {safe_repr(cluster)}")
        self._jobs: Final[dict[str, dict[int, str]]] = {job: _tasks(job, tasks) for job, tasks in sorted(jobs.items())}
        known: dict[str, str] = {}
        for name, address in self:
            if address in known:
                raise ValueError(f"{known[address]} and {name} have one address, {address}")
            known[address] = name

    @classmethod
    def from_json(cls, path: str | Path) -> "ClusterSpec":
        """Read a cluster from a JSON file, such as `{"ps": ["host:port"], "worker": {"1": "host:port"}}`.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file does not describe a cluster, or describes a job or task twice.
        """
        try:
            data = json.loads(Path(path).read_text("utf-8"), object_pairs_hook=unique_keys)
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{path} is not JSON: {error}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if not isinstance(data, dict):
            raise ValueError(f"{path}: a cluster is an object of jobs, as {{'worker': ['host:port']}}")
        try:
            return cls.from_plain(data)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> "ClusterSpec":
        """Make a cluster from plain data, as JSON has them: numbers of tasks are text, and may be sparse.

        TypeError, ValueError: the data do not describe a cluster, a task occurs twice, or an address is not
        `host:port`.
        """
        spec = cls({job: _by_number(tasks) for job, tasks in data.items()})
        spec.check_addresses()
        return spec

    def check_addresses(self) -> None:
        """Raise ValueError for a task whose address is not `host:port`. Simulated tasks have other addresses."""
        for name, address in self:
            try:
                split_address(address)
            except errors.InvalidArgumentError as error:
                raise ValueError(f"{name}: {error}") from None

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """How many tasks a job has."""
        return len(self._of(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The numbers of a job's tasks."""
        return list(self._of(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Return the address of a task. ValueError if the cluster has no such task."""
        tasks = self._of(job_name)
        if type(task_index) is not int or task_index not in tasks:
            raise ValueError(f"job {job_name!r} has no task {task_index!r}; it has {', '.join(map(str, tasks))}")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """The addresses of a job's tasks; None for numbers that are missing."""
        tasks = self._of(job_name)
        return [tasks.get(index) for index in range(max(tasks, default=-1) + 1)]

    def as_dict(self) -> dict[str, Tasks]:
        """Return the cluster as a dict, from which `ClusterSpec` makes an equal one."""
        dense = {job: list(tasks) == list(range(len(tasks))) for job, tasks in self._jobs.items()}
        return {job: list(tasks.values()) if dense[job] else dict(tasks) for job, tasks in self._jobs.items()}

    def as_cluster_def(self) -> ClusterDef:
        """Return the cluster as a message, from which `ClusterSpec` makes an equal one."""
        return ClusterDef([JobDef(job, tasks) for job, tasks in self._jobs.items()])

    @property
    def digest(self) -> str:
        """A digest of the jobs and tasks without their addresses, because a restart may move a task."""
        text = json.dumps([[job, list(tasks)] for job, tasks in self._jobs.items()])
        return hashlib.sha256(text.encode()).hexdigest()

    def with_address(self, name: str, address: str) -> "ClusterSpec":
        """The cluster with the task of that name at another address."""
        return ClusterSpec(
            {
                job: {n: address if task_name(job, n) == name else old for n, old in tasks.items()}
                for job, tasks in self._jobs.items()
            }
        )

    def _of(self, job: str) -> dict[int, str]:
        if job not in self._jobs:
            raise ValueError(f"there is no job {job!r}; there are {', '.join(self._jobs) or 'none'}")
        return self._jobs[job]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Its tasks, by name, with their addresses."""
        for job, tasks in self._jobs.items():
            for index, address in tasks.items():
                yield task_name(job, index), address

    def __eq__(self, other: object) -> bool:
        return self._jobs == other._jobs if isinstance(other, ClusterSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One task of a cluster.

    Attributes:
        cluster: all of it.
        job: the name of its job.
        index: its number.
    """

    cluster: ClusterSpec
    job: str
    index: int

    @property
    def name(self) -> str:
        """Its name."""
        return task_name(self.job, self.index)

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.cluster.task_address(self.job, self.index)


def task_name(job: str, index: int) -> str:
    """`/job:worker/replica:0/task:1`."""
    return f"/job:{job}/replica:0/task:{index}"


def filtered(tasks: Iterable[str], filters: Sequence[str]) -> list[str]:
    """Return the tasks that match one of the filters, such as "/job:ps"; all tasks if there are no filters.

    InvalidArgumentError if a filter is malformed, or no task matches.
    """
    if not isinstance(filters, (list, tuple)) or not all(isinstance(text, str) for text in filters):
        raise errors.InvalidArgumentError(
            f"device_filters are names of tasks, as ['/job:ps'], not {summarise(filters)}"
        )
    try:
        specs = [DeviceSpec.from_string(text) for text in filters]
    except ValueError as error:
        raise errors.InvalidArgumentError(f"device_filters: {error}") from None
    found = [
        task for task in tasks if not specs or any(_is_named(DeviceSpec.from_string(task), spec) for spec in specs)
    ]
    if not found:
        raise errors.InvalidArgumentError(f"device_filters {list(filters)} match no task of the cluster")
    return found


def _is_named(task: DeviceSpec, spec: DeviceSpec) -> bool:
    return task.make_merged_spec(DeviceSpec(spec.job, spec.replica, spec.task)) == task


def _tasks(job: Any, tasks: Any) -> dict[int, str]:
    if not isinstance(job, str) or not _JOB.fullmatch(job):
        raise ValueError(f"{job!r} is not the name of a job: a letter, then letters, digits, '_', '.', '-'")
    items = tasks.items() if isinstance(tasks, Mapping) else enumerate(tasks) if _is_list(tasks) else None
    if items is None:
        raise TypeError(f"job {job!r} has a list of addresses, or a dict of them by number, not {summarise(tasks)}")
    found = dict(items)
    for index, address in found.items():
        if type(index) is not int or not 0 <= index < _MOST:
            raise ValueError(f"job {job!r}: {index!r} is not the number of a task")
        if not isinstance(address, str) or not address:
            raise TypeError(
                f"job {job!r}: the address of task {index} is text, as 'host:port', not {summarise(address)}"
            )
    return dict(sorted(found.items()))


def _is_list(tasks: Any) -> bool:
    return isinstance(tasks, (list, tuple))


def _by_number(tasks: Any) -> Any:
    if not isinstance(tasks, dict):
        return tasks
    return unique_keys([(int(index) if index.isdecimal() else index, address) for index, address in tasks.items()])


def unique_keys(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    """The pairs as a dict, for `json.loads(object_pairs_hook=)`. ValueError if a key occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, _ in pairs if [other for other, _ in pairs].count(key) > 1)
        raise ValueError(f"{twice!r} occurs twice")
    return found
