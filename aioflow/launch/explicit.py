"""The task that the user states in AIOFLOW_CLUSTER, AIOFLOW_JOB and AIOFLOW_TASK."""

import json
from collections.abc import Mapping
from typing import Any, Final

from aioflow.launch.environment import Environment
from aioflow.net.cluster import ClusterSpec, Member, once

VARIABLE: Final = "AIOFLOW_CLUSTER"


def explicit(variables: Mapping[str, str]) -> Member:
    """Return the task AIOFLOW_JOB, AIOFLOW_TASK of the cluster AIOFLOW_CLUSTER, such as `{"worker": ["host:port"]}`.

    AIOFLOW_TASK may be missing if the job has one task. InvalidArgumentError names the invalid variable.
    """
    environment = Environment(variables, "an explicit cluster")
    cluster = cluster_of(environment, VARIABLE, parsed(environment, VARIABLE))
    job = environment.text("AIOFLOW_JOB")
    if job not in cluster.jobs:
        raise environment.error("AIOFLOW_JOB", f"there is no job {job!r}; there are {', '.join(cluster.jobs)}")
    tasks = cluster.task_indices(job)
    index = tasks[0] if len(tasks) == 1 and not environment.has("AIOFLOW_TASK") else environment.number("AIOFLOW_TASK")
    if index not in tasks:
        raise environment.error("AIOFLOW_TASK", f"job {job!r} has no task {index}; it has {_listed(tasks)}")
    return Member(cluster, job, index)


def parsed(environment: Environment, name: str) -> Any:
    """Return the variable's JSON. InvalidArgumentError names the variable, and a key that appears twice."""
    try:
        return json.loads(environment.text(name), object_pairs_hook=once)
    except (json.JSONDecodeError, RecursionError) as error:
        raise environment.error(name, f"it is not JSON: {error}") from None
    except ValueError as error:
        raise environment.error(name, str(error)) from None


def cluster_of(environment: Environment, name: str, data: object) -> ClusterSpec:
    """Return the cluster in plain data; sparse jobs have tasks by number. InvalidArgumentError names the variable."""
    if not isinstance(data, dict):
        raise environment.error(name, "a cluster must be an object of jobs, such as {'worker': ['host:port']}")
    try:
        return ClusterSpec.from_plain(data)
    except (TypeError, ValueError) as error:
        raise environment.error(name, str(error)) from None


def _listed(tasks: list[int]) -> str:
    return ", ".join(map(str, tasks))
