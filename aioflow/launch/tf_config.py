"""TensorFlow's TF_CONFIG, which its users and Kubeflow set."""

import json
from collections.abc import Mapping
from typing import Any, Final

from aioflow.launch.environment import Environment
from aioflow.launch.explicit import cluster_of
from aioflow.net.cluster import Member

VARIABLE: Final = "TF_CONFIG"


def tf_config(variables: Mapping[str, str]) -> Member:
    """The task that TF_CONFIG, `{"cluster": {job: [address]}, "task": {"type": job, "index": 0}}`, is about.

    InvalidArgumentError if it is something else, or the task is none of the cluster's, as an evaluator is not.
    """
    environment = Environment(variables, "TensorFlow")
    data = _object(environment)
    cluster = cluster_of(environment, VARIABLE, data.get("cluster"))
    task = data.get("task")
    if not isinstance(task, dict):
        raise environment.error(VARIABLE, "it has no object 'task'")
    job, index = task.get("type"), task.get("index")
    if isinstance(index, str) and index.isdecimal():
        index = int(index)
    if not isinstance(job, str) or job not in cluster.jobs:
        raise environment.error(VARIABLE, f"its task is of type {job!r}; the cluster has {', '.join(cluster.jobs)}")
    if type(index) is not int or index not in cluster.task_indices(job):
        raise environment.error(VARIABLE, f"its task has index {index!r}; job {job!r} has no such task")
    return Member(cluster, job, index)


def _object(environment: Environment) -> dict[str, Any]:
    try:
        data = json.loads(environment.text(VARIABLE))
    except (ValueError, RecursionError) as error:
        raise environment.error(VARIABLE, f"it is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise environment.error(VARIABLE, "it is not an object")
    return data


__all__ = ["VARIABLE", "tf_config"]
