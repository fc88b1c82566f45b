"""Kubernetes: Indexed Jobs, and JobSets of them. `examples/launch/` has a manifest.

Kubernetes tells a pod its number and its name. The manifest adds the number of pods, which a Job does not tell.
"""

from collections.abc import Mapping
from typing import Final

from aioflow.launch.environment import Environment
from aioflow.launch.explicit import cluster_of
from aioflow.net.cluster import Member

INDEX: Final = "JOB_COMPLETION_INDEX"
JOBSET: Final = "JOBSET_NAME"
_DIGITS: Final = 6
"""The most digits of a number of pods."""


def indexed_job(variables: Mapping[str, str]) -> Member:
    """Return the task of pod JOB_COMPLETION_INDEX of an Indexed Job, whose pods have the host names `JOB-INDEX`.

    The manifest sets AIOFLOW_TASKS to the Job's completions, and AIOFLOW_SERVICE to the headless service that is the
    subdomain of the pods. InvalidArgumentError names the missing or invalid variable.
    """
    environment = Environment(variables, "a Kubernetes Indexed Job")
    index = environment.number(INDEX)
    tasks = environment.number("AIOFLOW_TASKS", below=10**_DIGITS)
    if index >= tasks:
        raise environment.error(INDEX, f"it is {index}, but AIOFLOW_TASKS is {tasks}")
    host = environment.text("HOSTNAME").partition(".")[0]
    job, separator, number = host.rpartition("-")
    if not separator or number != str(index):
        raise environment.error("HOSTNAME", f"{host!r} must end in -{index}, like the names of an Indexed Job's pods")
    service, port = environment.text("AIOFLOW_SERVICE"), environment.ports()
    return environment.member([f"{job}-{each}.{service}:{port}" for each in range(tasks)], index)


def job_set(variables: Mapping[str, str]) -> Member:
    """Return the task of pod JOB_COMPLETION_INDEX of a JobSet's replicated job, which is a job of the cluster.

    The manifest sets JOBSET_NAME and REPLICATED_JOB_NAME from the pod's labels, and AIOFLOW_ROLES to the completions of
    each replicated job, such as `ps=1,worker=4`; each of them has one replica. AIOFLOW_SERVICE is the subdomain of the
    pods, by default the name of the JobSet. InvalidArgumentError names the missing or invalid variable.
    """
    environment = Environment(variables, "a Kubernetes JobSet")
    name, role = environment.text(JOBSET), environment.text("REPLICATED_JOB_NAME")
    service = environment.text("AIOFLOW_SERVICE", JOBSET)
    port = environment.ports()
    roles = _roles(environment)
    if role not in roles:
        raise environment.error("REPLICATED_JOB_NAME", f"AIOFLOW_ROLES has no {role!r}; it has {', '.join(roles)}")
    jobs = {job: [f"{name}-{job}-0-{index}.{service}:{port}" for index in range(roles[job])] for job in roles}
    cluster = cluster_of(environment, "AIOFLOW_ROLES", jobs)
    return Member(cluster, role, environment.number(INDEX, below=roles[role]))


def _roles(environment: Environment) -> dict[str, int]:
    roles: dict[str, int] = {}
    for part in environment.text("AIOFLOW_ROLES").split(","):
        job, _, count = (piece.strip() for piece in part.partition("="))
        if not job or job in roles or not (count.isascii() and count.isdecimal() and len(count) <= _DIGITS):
            raise environment.error("AIOFLOW_ROLES", f"{part[:50]!r} is invalid; write ps=1,worker=4")
        roles[job] = int(count)
    return roles
