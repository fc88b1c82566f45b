"""Finds the task that this process is, from the variables that its engine or the user has set.

`torchrun` tells a process only the first host and `mpirun` none: if there are several, the user lists them in
AIOFLOW_HOSTS. Kubernetes tells a pod its number and its name. The manifest adds the number of pods, see
`examples/launch/`.

The variables of SLURM's `srun`, and its lists of hosts, such as `node[01-03,7]`.
"""

import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from aioflow import errors
from aioflow.launch.environment import DIGITS, Environment, addresses_by_host
from aioflow.net.cluster import ClusterSpec, Member, unique_keys
from aioflow.tensors.plain_data import summarise

VARIABLE: Final = "SLURM_JOB_ID"
_FIRST_PORT: Final = 10000
_APART: Final = 16
_JOBS: Final = 1400
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_COUNT: Final = re.compile(r"(\d+)(?:\(x(\d+)\))?", re.ASCII)
_DIGITS: Final = 5
_MOST: Final = 10**_DIGITS


def slurm(variables: Mapping[str, str]) -> Member:
    """Return the task of process SLURM_PROCID in its step.

    Processes on one host have the ports from AIOFLOW_PORT on, by default from a port that depends on the job's number,
    so that jobs on one host have different ports. InvalidArgumentError names the missing or invalid variable, and
    explains if `srun` did not start the process.
    """
    environment = Environment(variables, "SLURM")
    if not environment.has("SLURM_STEP_ID"):
        text = "it is not set, so srun did not start this process; in the batch script write: srun COMMAND"
        raise environment.error("SLURM_STEP_ID", text)
    hosts = _hosts(environment)
    counts = _counts(environment)
    if len(hosts) != len(counts):
        text = f"it describes {len(counts)} hosts, but the list of hosts has {len(hosts)}"
        raise environment.error("SLURM_STEP_TASKS_PER_NODE", text)
    rank = environment.number("SLURM_PROCID", below=sum(counts))
    node, local = environment.number("SLURM_NODEID", below=len(hosts)), environment.number("SLURM_LOCALID")
    if sum(counts[:node]) + local != rank:
        text = f"{rank} is not number {local} of host {node}, counted host by host: use srun --distribution=block"
        raise environment.error("SLURM_PROCID", text)
    job = environment.number("SLURM_JOB_ID")
    port = environment.ports(max(counts), _FIRST_PORT + _APART * (job % _JOBS))
    return environment.member(addresses_by_host(hosts, counts, port), rank)


def _hosts(environment: Environment) -> list[str]:
    names = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    try:
        return expand(environment.text(*names))
    except ValueError as error:
        raise environment.error(next(filter(environment.has, names)), str(error)) from None


def _counts(environment: Environment) -> list[int]:
    """Return the number of processes on each host: `2(x3),1` is 2, 2, 2, 1."""
    name = "SLURM_STEP_TASKS_PER_NODE"
    counts: list[int] = []
    for part in environment.text(name).split(","):
        match = _COUNT.fullmatch(part.strip())
        if match is None or not max(len(match[1]), len(match[2] or "")) <= _DIGITS:
            raise environment.error(name, f"{part[:50]!r} is not a count such as 2 or 2(x3)")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def expand(text: str) -> list[str]:
    """Return the hosts of a list: `a,b[1-2]-x` is a, b1-x, b2-x. Keeps leading zeros. ValueError if it is no list."""
    found: list[str] = []
    for part in _split(text):
        pieces = list(_pieces(part))
        if len(found) + math.prod(map(len, pieces)) > _MOST:
            raise ValueError(f"there are more than {_MOST} hosts")
        found += map("".join, itertools.product(*pieces))
    return found


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if not parts or ",".join(parts) != text:
        raise ValueError(f"{text[:200]!r} is not a list of hosts such as node[01-03,7]")
    return parts


def _pieces(part: str) -> Iterator[list[str]]:
    """Yield the choices for each part of a name: one text, or several numbers."""
    for plain, choice in re.findall(r"([^\[\]]+)|\[([^\[\]]*)\]", part):
        yield [plain] if plain else _expand_choice(choice)


def _expand_choice(choice: str) -> list[str]:
    found: list[str] = []
    for each in choice.split(","):
        found += _range(each)
        if len(found) > _MOST:
            raise ValueError(f"there are more than {_MOST} hosts")
    return found


def _range(text: str) -> list[str]:
    match = _RANGE.fullmatch(text.strip())
    if match is None or max(len(match[1]), len(match[2] or "")) > DIGITS:
        raise ValueError(f"{text[:50]!r} is not a range of numbers")
    first, last = match[1], match[2] or match[1]
    if not 0 <= int(last) - int(first) < _MOST:
        raise ValueError(f"{text[:50]!r} is not a range of fewer than {_MOST} numbers")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]


_CLUSTER: Final = "AIOFLOW_CLUSTER"
_TF_CONFIG: Final = "TF_CONFIG"
_MPI_RANK: Final = "OMPI_COMM_WORLD_RANK"
_POD_INDEX: Final = "JOB_COMPLETION_INDEX"
_JOBSET: Final = "JOBSET_NAME"
_POD_DIGITS: Final = 6
"""The most digits of a number of pods."""


def explicit(variables: Mapping[str, str]) -> Member:
    """Return the task AIOFLOW_JOB, AIOFLOW_TASK of the cluster AIOFLOW_CLUSTER, such as `{"worker": ["host:port"]}`.

    AIOFLOW_TASK may be missing if the job has one task. InvalidArgumentError names the invalid variable.
    """
    environment = Environment(variables, "an explicit cluster")
    cluster = parse_cluster(environment, _CLUSTER, parse_json(environment, _CLUSTER))
    job = environment.text("AIOFLOW_JOB")
    if job not in cluster.jobs:
        raise environment.error("AIOFLOW_JOB", f"there is no job {job!r}; there are {', '.join(cluster.jobs)}")
    tasks = cluster.task_indices(job)
    index = tasks[0] if len(tasks) == 1 and not environment.has("AIOFLOW_TASK") else environment.number("AIOFLOW_TASK")
    if index not in tasks:
        raise environment.error("AIOFLOW_TASK", f"job {job!r} has no task {index}; it has {', '.join(map(str, tasks))}")
    return Member(cluster, job, index)


def parse_json(environment: Environment, name: str) -> Any:
    """Return the variable's JSON. InvalidArgumentError names the variable, and a key that appears twice."""
    try:
        return json.loads(environment.text(name), object_pairs_hook=unique_keys)
    except (json.JSONDecodeError, RecursionError) as error:
        raise environment.error(name, f"it is not JSON: {error}") from None
    except ValueError as error:
        raise environment.error(name, str(error)) from None


def parse_cluster(environment: Environment, name: str, data: object) -> ClusterSpec:
    """Return the cluster in plain data; sparse jobs have tasks by number. InvalidArgumentError names the variable."""
    if not isinstance(data, dict):
        raise environment.error(name, "a cluster must be an object of jobs, such as {'worker': ['host:port']}")
    try:
        return ClusterSpec.from_plain(data)
    except (TypeError, ValueError) as error:
        raise environment.error(name, str(error)) from None


def tf_config(variables: Mapping[str, str]) -> Member:
    """Return the task in TF_CONFIG: `{"cluster": {job: [address]}, "task": {"type": job, "index": 0}}`.

    InvalidArgumentError for other contents, or if the cluster does not have the task, such as an evaluator.
    """
    environment = Environment(variables, "TensorFlow")
    data = parse_json(environment, _TF_CONFIG)
    if not isinstance(data, dict):
        raise environment.error(_TF_CONFIG, "it is not an object")
    cluster = parse_cluster(environment, _TF_CONFIG, data.get("cluster"))
    task = data.get("task")
    if not isinstance(task, dict):
        raise environment.error(_TF_CONFIG, "it has no object 'task'")
    job, index = task.get("type"), task.get("index")
    if isinstance(index, str) and index.isdecimal() and len(index) <= DIGITS:
        index = int(index)
    if not isinstance(job, str) or job not in cluster.jobs:
        has = ", ".join(cluster.jobs)
        raise environment.error(_TF_CONFIG, f"its task has type {summarise(job)}; the cluster has {has}")
    if type(index) is not int or index not in cluster.task_indices(job):
        raise environment.error(_TF_CONFIG, f"its task has index {summarise(index)}; job {job!r} has no such task")
    return Member(cluster, job, index)


def torchrun(variables: Mapping[str, str]) -> Member:
    """Return the task of process RANK. Processes on one host have the ports from AIOFLOW_PORT on, or after MASTER_PORT.

    torchrun itself uses MASTER_PORT. InvalidArgumentError names the missing or invalid variable.
    """
    environment = Environment(variables, "torchrun")
    world = environment.number("WORLD_SIZE")
    rank = environment.number("RANK", below=world)
    local_world = environment.number("LOCAL_WORLD_SIZE")
    local = environment.number("LOCAL_RANK", below=local_world)
    if world % local_world or rank % local_world != local:
        text = f"rank {rank} of {world} is not number {local} of {local_world} on its host: all hosts need as many"
        raise environment.error("LOCAL_RANK", text)
    count = world // local_world
    hosts = environment.hosts(count, environment.text("MASTER_ADDR"))
    port = environment.ports(local_world, environment.number("MASTER_PORT", below=65535) + 1)
    return environment.member(addresses_by_host(hosts, [local_world] * count, port), rank)


def openmpi(variables: Mapping[str, str]) -> Member:
    """Return the task of process OMPI_COMM_WORLD_RANK. Processes on one host have the ports from AIOFLOW_PORT on.

    InvalidArgumentError names the missing or invalid variable, or says that ranks must be laid out by slot.
    """
    environment = Environment(variables, "Open MPI")
    world = environment.number("OMPI_COMM_WORLD_SIZE")
    rank = environment.number(_MPI_RANK, below=world)
    local_world = environment.number("OMPI_COMM_WORLD_LOCAL_SIZE")
    local = environment.number("OMPI_COMM_WORLD_LOCAL_RANK", below=local_world)
    if world % local_world or rank % local_world != local:
        text = f"rank {rank} of {world} is number {local} of {local_world} on its host: use --map-by ppr:N:node"
        raise environment.error("OMPI_COMM_WORLD_LOCAL_RANK", text)
    count = world // local_world
    hosts = environment.hosts(count, "127.0.0.1")
    return environment.member(addresses_by_host(hosts, [local_world] * count, environment.ports(local_world)), rank)


def indexed_job(variables: Mapping[str, str]) -> Member:
    """Return the task of pod JOB_COMPLETION_INDEX of an Indexed Job, whose pods have the host names `JOB-_POD_INDEX`.

    The manifest sets AIOFLOW_TASKS to the Job's completions, and AIOFLOW_SERVICE to the headless service that is the
    subdomain of the pods. InvalidArgumentError names the missing or invalid variable.
    """
    environment = Environment(variables, "a Kubernetes Indexed Job")
    index = environment.number(_POD_INDEX)
    tasks = environment.number("AIOFLOW_TASKS", below=10**_POD_DIGITS)
    if index >= tasks:
        raise environment.error(_POD_INDEX, f"it is {index}, but AIOFLOW_TASKS is {tasks}")
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
    name, role = environment.text(_JOBSET), environment.text("REPLICATED_JOB_NAME")
    service = environment.text("AIOFLOW_SERVICE", _JOBSET)
    port = environment.ports()
    roles = _roles(environment)
    if role not in roles:
        raise environment.error("REPLICATED_JOB_NAME", f"AIOFLOW_ROLES has no {role!r}; it has {', '.join(roles)}")
    jobs = {job: [f"{name}-{job}-0-{index}.{service}:{port}" for index in range(roles[job])] for job in roles}
    cluster = parse_cluster(environment, "AIOFLOW_ROLES", jobs)
    return Member(cluster, role, environment.number(_POD_INDEX, below=roles[role]))


def _roles(environment: Environment) -> dict[str, int]:
    roles: dict[str, int] = {}
    for part in environment.text("AIOFLOW_ROLES").split(","):
        job, _, count = (piece.strip() for piece in part.partition("="))
        if not job or job in roles or not (count.isascii() and count.isdecimal() and len(count) <= _POD_DIGITS):
            raise environment.error("AIOFLOW_ROLES", f"{part[:50]!r} is invalid; write ps=1,worker=4")
        roles[job] = int(count)
    return roles


Resolver = Callable[[Mapping[str, str]], Member]

RESOLVERS: Final[Mapping[str, Resolver]] = {
    _CLUSTER: explicit,
    _TF_CONFIG: tf_config,
    "TORCHELASTIC_RUN_ID": torchrun,
    _MPI_RANK: openmpi,
    _JOBSET: job_set,
    _POD_INDEX: indexed_job,
    VARIABLE: slurm,
}
"""{variable: resolver}, in order. An engine that runs inside another one comes first, like mpirun inside SLURM."""


def resolve(variables: Mapping[str, str] = os.environ) -> Member:
    """Return the task that this process is, and its cluster.

        member = af.launch.resolve()
        async with af.train.Server(member.cluster, member.job, member.index) as server:
            await server.join()

    Raises:
        InvalidArgumentError: no engine has set its variables, or the named variable is missing or invalid.

    Examples:
        >>> cluster = '{"worker": ["red:2222", "blue:2222"]}'
        >>> variables = {"AIOFLOW_CLUSTER": cluster, "AIOFLOW_JOB": "worker", "AIOFLOW_TASK": "1"}
        >>> member = af.launch.resolve(variables)
        >>> member.job, member.index, member.address
        ('worker', 1, 'blue:2222')
    """
    for variable, resolver in RESOLVERS.items():
        if variables.get(variable):
            return resolver(variables)
    raise errors.InvalidArgumentError(f"the environment describes no cluster: none of {', '.join(RESOLVERS)} is set")
