"""Clusters and servers as messages with the fields and bytes of TensorFlow's: `ClusterSpec` reads and makes them."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from aioflow.kernels.data.message import Entries, Field, Items, Message


class JobDef(Message):
    """A job of a cluster.

    Attributes:
        name: its name.
        tasks: the address of each task, by its number.

    Examples:
        >>> af.train.JobDef(name="ps", tasks={0: "red:2222"}).tasks[0]
        'red:2222'
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {"name": Field(1, "string"), "tasks": Field(2, "string", key="int32")}
    name: str
    tasks: Entries

    def __init__(self, name: str | None = None, tasks: Mapping[int, str] | None = None) -> None:
        super().__init__(name=name, tasks=tasks)


class ClusterDef(Message):
    """The jobs of a cluster, from which `ClusterSpec` makes a cluster.

    Attributes:
        job: its jobs.

    Examples:
        >>> cluster = af.train.ClusterDef()
        >>> cluster.job.add(name="ps").tasks[0] = "red:2222"
        >>> af.train.ClusterSpec(cluster).as_dict()
        {'ps': ['red:2222']}
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {"job": Field(1, JobDef, repeated=True)}
    job: Items

    def __init__(self, job: Iterable[JobDef] | None = None) -> None:
        super().__init__(job=job)

    def by_job(self) -> dict[str, dict[int, str]]:
        """Return the addresses by job and number. ValueError if a job occurs twice."""
        found: dict[str, dict[int, str]] = {}
        for each in self.job:
            if each.name in found:
                raise ValueError(f"the cluster has two jobs {each.name!r}")
            found[each.name] = dict(each.tasks)
        return found


class ServerDef(Message):
    """A task of a cluster. Fields of TensorFlow's own runtime are skipped when the message is read.

    Attributes:
        cluster: its cluster.
        job_name: the job of the task.
        task_index: its number in the job.
        protocol: how tasks reach each other, such as `grpc`.
        port: the port that the task listens on; 0 for that of its address.
        replica: the number of the replica.

    Examples:
        >>> cluster = af.train.ClusterSpec({"ps": ["red:2222"]})
        >>> server = af.train.ServerDef(cluster=cluster.as_cluster_def(), job_name="ps", protocol="grpc")
        >>> af.train.ServerDef.FromString(server.SerializeToString()).job_name
        'ps'
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {
        "cluster": Field(1, ClusterDef),
        "job_name": Field(2, "string"),
        "task_index": Field(3, "int32"),
        "protocol": Field(5, "string"),
        "port": Field(6, "int32"),
        "replica": Field(8, "int32"),
    }
    cluster: ClusterDef
    job_name: str
    task_index: int
    protocol: str
    port: int
    replica: int

    def __init__(
        self,
        cluster: ClusterDef | None = None,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        port: int | None = None,
        replica: int | None = None,
    ) -> None:
        super().__init__(
            cluster=cluster, job_name=job_name, task_index=task_index, protocol=protocol, port=port, replica=replica
        )
