"""Kubernetes: Indexed Jobs, and JobSets of them. `examples/launch/` has a manifest.

A pod knows by itself its number and its name; the manifest tells it how many there are, which a Job does not say.
"""

from collections.abc import Mapping
from typing import Final

from aioflow.launch.environment import Environment
from aioflow.launch.explicit import cluster_of
from aioflow.net.cluster import Member

INDEX: Final = "JOB_COMPLETION_INDEX"
JOBSET: Final = "JOBSET_NAME"
_DIGITS: Final = 6
"""Of the number of pods of a job."""


def indexed_job(variables: Mapping[str, str]) -> Member:
    """The pod of number JOB_COMPLETION_INDEX of an Indexed Job, whose pods have the host names `JOB-INDEX`.

    The manifest sets AIOFLOW_TASKS to its completions, and AIOFLOW_SERVICE to the headless service that is their
    subdomain. InvalidArgumentError names the variable that is missing or wrong.
    """
    environment = Environment(variables, "a Kubernetes Indexed Job")
    index = environment.number(INDEX)
    tasks = environment.number("AIOFLOW_TASKS", below=10**_DIGITS)
    if index >= tasks:
        raise environment.error(INDEX, f"it is {index}, and AIOFLOW_TASKS says that there are {tasks}")
    host = environment.text("HOSTNAME").partition(".")[0]
    job, separator, number = host.rpartition("-")
    if not separator or number != str(index):
        raise environment.error("HOSTNAME", f"{host!r} does not end in -{index}, as those of an Indexed Job's pods do")
    service, port = environment.text("AIOFLOW_SERVICE"), environment.ports()
    return environment.member([f"{job}-{each}.{service}:{port}" for each in range(tasks)], index)


def job_set(variables: Mapping[str, str]) -> Member:
    """The pod of number JOB_COMPLETION_INDEX of a JobSet's Job, which is the job of the cluster.

    The manifest sets JOBSET_NAME and REPLICATED_JOB_NAME from the pod's labels, and AIOFLOW_ROLES to the completions of
    each replicated job, as `ps=1,worker=4`; each of those has one replica. AIOFLOW_SERVICE is the subdomain of the
    pods, by default the name of the JobSet. InvalidArgumentError names the variable that is missing or wrong.
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
            raise environment.error("AIOFLOW_ROLES", f"it is a list as ps=1,worker=4; {part[:50]!r} is no part of one")
        roles[job] = int(count)
    return roles
