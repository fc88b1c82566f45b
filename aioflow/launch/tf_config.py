"""TensorFlow's variable TF_CONFIG, which users and Kubeflow set."""

from collections.abc import Mapping
from typing import Final

from aioflow.launch.environment import DIGITS, Environment
from aioflow.launch.explicit import cluster_of, parsed
from aioflow.net.cluster import Member
from aioflow.tensors.plain_data import summarise

VARIABLE: Final = "TF_CONFIG"


def tf_config(variables: Mapping[str, str]) -> Member:
    """Return the task in TF_CONFIG: `{"cluster": {job: [address]}, "task": {"type": job, "index": 0}}`.

    InvalidArgumentError for other contents, or if the cluster does not have the task, such as an evaluator.
    """
    environment = Environment(variables, "TensorFlow")
    data = parsed(environment, VARIABLE)
    if not isinstance(data, dict):
        raise environment.error(VARIABLE, "it is not an object")
    cluster = cluster_of(environment, VARIABLE, data.get("cluster"))
    task = data.get("task")
    if not isinstance(task, dict):
        raise environment.error(VARIABLE, "it has no object 'task'")
    job, index = task.get("type"), task.get("index")
    if isinstance(index, str) and index.isdecimal() and len(index) <= DIGITS:
        index = int(index)
    if not isinstance(job, str) or job not in cluster.jobs:
        has = ", ".join(cluster.jobs)
        raise environment.error(VARIABLE, f"its task has type {summarise(job)}; the cluster has {has}")
    if type(index) is not int or index not in cluster.task_indices(job):
        raise environment.error(VARIABLE, f"its task has index {summarise(index)}; job {job!r} has no such task")
    return Member(cluster, job, index)
