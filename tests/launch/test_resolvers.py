"""Which task a process is, from the variables of each engine."""

import json

import pytest

from aioflow import errors
from aioflow.launch import resolve
from aioflow.launch.resolvers import expand

CLUSTER = {"ps": ["a:2222"], "worker": ["b:2222", "c:2223"]}
EXPLICIT = {"AIOFLOW_CLUSTER": json.dumps(CLUSTER), "AIOFLOW_JOB": "worker", "AIOFLOW_TASK": "1"}
TF = {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}})}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "a", "MASTER_PORT": "29500", "AIOFLOW_HOSTS": "a, b",
}  # fmt: skip
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "AIOFLOW_HOSTS": "a,b",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "1402", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "node[08-10],gpu",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1(x2)", "SLURM_PROCID": "3", "SLURM_NODEID": "1", "SLURM_LOCALID": "1",
}  # fmt: skip
JOB = {"JOB_COMPLETION_INDEX": "2", "HOSTNAME": "train-x-2", "AIOFLOW_TASKS": "3", "AIOFLOW_SERVICE": "train"}
JOBSET = {
    "JOB_COMPLETION_INDEX": "1", "HOSTNAME": "train-worker-0-1", "JOBSET_NAME": "train",
    "REPLICATED_JOB_NAME": "worker", "AIOFLOW_ROLES": "chief=1,ps=1,worker=2",
}  # fmt: skip


def ports(*hosts, port=2222):
    return [f"{host}:{port}" for host in hosts]


FOUND = {
    "explicit": (EXPLICIT, CLUSTER, "worker", 1),
    "explicit, the only task": (
        EXPLICIT | {"AIOFLOW_JOB": "ps", "AIOFLOW_TASK": ""}, CLUSTER, "ps", 0),
    "explicit, sparse": (
        EXPLICIT | {"AIOFLOW_CLUSTER": '{"worker": {"1": "b:1", "7": "c:1"}}'},
        {"worker": {1: "b:1", 7: "c:1"}}, "worker", 1),
    "TF_CONFIG": (TF, CLUSTER, "worker", 1),
    "TF_CONFIG, its index as text": (
        {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "ps", "index": "0"}})}, CLUSTER, "ps", 0),
    "torchrun": (TORCHRUN, {"worker": ["a:29501", "a:29502", "b:29501", "b:29502"]}, "worker", 3),
    "torchrun on one host": (
        TORCHRUN | {"WORLD_SIZE": "2", "RANK": "1", "AIOFLOW_HOSTS": ""}, {"worker": ["a:29501", "a:29502"]},
        "worker", 1),
    "torchrun with parameter servers, and a port": (
        TORCHRUN | {"RANK": "0", "LOCAL_RANK": "0", "AIOFLOW_PS": "1", "AIOFLOW_PORT": "7000"},
        {"ps": ["a:7000"], "worker": ["a:7001", "b:7000", "b:7001"]}, "ps", 0),
    "torchrun on hosts of which addresses are known": (
        TORCHRUN | {"AIOFLOW_HOSTS": "fe80::1,[fe80::2]", "MASTER_ADDR": "fe80::1"},
        {"worker": ["[fe80::1]:29501", "[fe80::1]:29502", "[fe80::2]:29501", "[fe80::2]:29502"]}, "worker", 3),
    "Open MPI": (OPENMPI, {"worker": ["a:2222", "a:2223", "b:2222", "b:2223"]}, "worker", 2),
    "Open MPI on one host": (
        {**OPENMPI, "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
         "AIOFLOW_HOSTS": ""}, {"worker": ["127.0.0.1:2222"]}, "worker", 0),
    "SLURM": (
        SLURM,
        {"worker": ["node08:10032", "node08:10033", "node09:10032", "node09:10033", "node10:10032", "gpu:10032"]},
        "worker", 3),
    "SLURM with parameter servers": (
        SLURM | {"AIOFLOW_PS": "2", "AIOFLOW_PORT": "5"},
        {"ps": ["node08:5", "node08:6"], "worker": ["node09:5", "node09:6", "node10:5", "gpu:5"]}, "worker", 1),
    "an Indexed Job": (JOB, {"worker": ports("train-x-0.train", "train-x-1.train", "train-x-2.train")}, "worker", 2),
    "a JobSet": (
        JOBSET,
        {"chief": ports("train-chief-0-0.train"), "ps": ports("train-ps-0-0.train"),
         "worker": ports("train-worker-0-0.train", "train-worker-0-1.train")}, "worker", 1),
    "a JobSet with a subdomain": (
        JOBSET | {"AIOFLOW_SERVICE": "s", "AIOFLOW_ROLES": "worker=2"},
        {"worker": ports("train-worker-0-0.s", "train-worker-0-1.s")}, "worker", 1),
    "torchrun within SLURM": (SLURM | TORCHRUN, {"worker": ["a:29501", "a:29502", "b:29501", "b:29502"]}, "worker", 3),
    "what the user says, within SLURM": (SLURM | EXPLICIT, CLUSTER, "worker", 1),
}  # fmt: skip


@pytest.mark.parametrize(("variables", "cluster", "job", "index"), FOUND.values(), ids=FOUND)
def test_a_process_finds_which_task_it_is(variables, cluster, job, index):
    member = resolve(variables)
    assert (member.cluster.as_dict(), member.job, member.index) == (cluster, job, index)
    assert member.address == member.cluster.task_address(job, index)


WRONG = {
    "nothing": ({}, r"none of AIOFLOW_CLUSTER, TF_CONFIG, .*SLURM_JOB_ID is set"),
    "no JSON": (EXPLICIT | {"AIOFLOW_CLUSTER": "{"}, "AIOFLOW_CLUSTER: it is not JSON"),
    "no cluster": (EXPLICIT | {"AIOFLOW_CLUSTER": "[]"}, "AIOFLOW_CLUSTER: a cluster must be an object"),
    "one address twice": (EXPLICIT | {"AIOFLOW_CLUSTER": '{"a": ["x:1", "x:1"]}'}, "AIOFLOW_CLUSTER: .*one address"),
    "no port in an address": (EXPLICIT | {"AIOFLOW_CLUSTER": '{"a": ["x"]}'}, "AIOFLOW_CLUSTER: .*'x' is not an addr"),
    "a job twice": (
        EXPLICIT | {"AIOFLOW_CLUSTER": '{"a": ["x:1"], "a": ["y:1"]}'}, "AIOFLOW_CLUSTER: 'a' occurs twice"),
    "a task twice": (
        EXPLICIT | {"AIOFLOW_CLUSTER": '{"a": {"1": "x:1", "1": "y:1"}}'}, "AIOFLOW_CLUSTER: '1' occurs twice"),
    "a task twice, spelled differently": (
        EXPLICIT | {"AIOFLOW_CLUSTER": '{"a": {"1": "x:1", "01": "y:1"}}'}, "AIOFLOW_CLUSTER: 1 occurs twice"),
    "no job": (EXPLICIT | {"AIOFLOW_JOB": ""}, "AIOFLOW_JOB is not set"),
    "another job": (EXPLICIT | {"AIOFLOW_JOB": "x"}, "AIOFLOW_JOB: there is no job 'x'; there are ps, worker"),
    "no task": (EXPLICIT | {"AIOFLOW_TASK": ""}, "AIOFLOW_TASK is not set"),
    "no number": (EXPLICIT | {"AIOFLOW_TASK": "-1"}, "AIOFLOW_TASK: it must be a whole number, not '-1'"),
    "another task": (EXPLICIT | {"AIOFLOW_TASK": "2"}, "AIOFLOW_TASK: job 'worker' has no task 2; it has 0, 1"),
    "a number of many digits": (
        EXPLICIT | {"AIOFLOW_TASK": "9" * 5000}, r"AIOFLOW_TASK: it must be a whole number, not '9{50,60}\.\.\."),
    "TF_CONFIG with two tasks": (
        {"TF_CONFIG": '{"cluster": {"a": ["x:1"]}, "task": {"type": "a", "index": 0}, "task": {}}'},
        "TF_CONFIG: 'task' occurs twice"),
    "TF_CONFIG with an index of many digits": (
        {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "ps", "index": "9" * 5000}})},
        r"TF_CONFIG: its task has index '9{50,60}\.\.\.; job 'ps' has no such task"),
    "TF_CONFIG with a number of many digits": (
        {"TF_CONFIG": '{"cluster": {"a": ["x:1"]}, "task": {"type": "a", "index": ' + "9" * 5000 + "}}"},
        "TF_CONFIG: .*digits"),
    "TF_CONFIG is no object": ({"TF_CONFIG": "1"}, "TF_CONFIG: it is not an object"),
    "TF_CONFIG without a task": ({"TF_CONFIG": json.dumps({"cluster": CLUSTER})}, "TF_CONFIG: it has no object 'task'"),
    "TF_CONFIG of an evaluator": (
        {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "evaluator", "index": 0}})},
        "TF_CONFIG: its task has type 'evaluator'; the cluster has ps, worker"),
    "TF_CONFIG of a type that is not a text": (
        {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": [], "index": 0}})}, "its task has type"),
    "TF_CONFIG of another index": (
        {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "ps", "index": True}})}, "has index True"),
    "torchrun without its hosts": (TORCHRUN | {"AIOFLOW_HOSTS": ""}, "AIOFLOW_HOSTS: it is not set; .* the 2 hosts"),
    "torchrun with too few hosts": (TORCHRUN | {"AIOFLOW_HOSTS": "a"}, "it lists 1 hosts instead of 2"),
    "torchrun with one host twice": (TORCHRUN | {"AIOFLOW_HOSTS": "a,a"}, "torchrun: .* have one address, a:29501"),
    "torchrun with a host that is missing": (TORCHRUN | {"AIOFLOW_HOSTS": "a,"}, "AIOFLOW_HOSTS: '' is not a host"),
    "torchrun with a host that is none": (TORCHRUN | {"AIOFLOW_HOSTS": "a b,c"}, "AIOFLOW_HOSTS: 'a b' is not a host"),
    "torchrun with a first host that is none": (
        TORCHRUN | {"AIOFLOW_HOSTS": "", "LOCAL_WORLD_SIZE": "4", "LOCAL_RANK": "3", "MASTER_ADDR": "a b"},
        "torchrun: .*'a b:29501' is not an address"),
    "torchrun, rank too high": (TORCHRUN | {"RANK": "4"}, "RANK: it must be a whole number below 4, not '4'"),
    "torchrun, hosts that differ": (TORCHRUN | {"WORLD_SIZE": "5"}, "LOCAL_RANK: .*all hosts need as many"),
    "torchrun, no processes": (TORCHRUN | {"LOCAL_WORLD_SIZE": "0"}, "LOCAL_RANK: .*not '1'"),
    "torchrun, half set": ({"TORCHELASTIC_RUN_ID": "x"}, "torchrun: the variable WORLD_SIZE is not set"),
    "Open MPI, round robin": (OPENMPI | {"OMPI_COMM_WORLD_LOCAL_RANK": "1"}, "LOCAL_RANK: .*--map-by ppr:N:node"),
    "only parameter servers": (OPENMPI | {"AIOFLOW_PS": "4"}, "AIOFLOW_PS: it must be a whole number below 4"),
    "no port": (OPENMPI | {"AIOFLOW_PORT": "65536"}, "AIOFLOW_PORT: it must be a whole number below 65536"),
    "a port that nobody can know": (OPENMPI | {"AIOFLOW_PORT": "0"}, "AIOFLOW_PORT: it must be 1 or more"),
    "ports that end": (OPENMPI | {"AIOFLOW_PORT": "65535"}, "AIOFLOW_PORT: 65535 .* 2 processes"),
    "not by srun": (SLURM | {"SLURM_STEP_ID": ""}, "SLURM_STEP_ID: .*srun did not start"),
    "SLURM, no hosts": (SLURM | {"SLURM_STEP_NODELIST": ""}, "SLURM_STEP_NODELIST or SLURM_JOB_NODELIST .*not set"),
    "SLURM, bad hosts": (SLURM | {"SLURM_STEP_NODELIST": "a[1-"}, "SLURM_STEP_NODELIST: .*not a list of hosts"),
    "SLURM, other counts": (SLURM | {"SLURM_STEP_NODELIST": "a"}, "SLURM_STEP_TASKS_PER_NODE: it describes 4 hosts"),
    "SLURM, bad counts": (SLURM | {"SLURM_STEP_TASKS_PER_NODE": "2(x"}, "SLURM_STEP_TASKS_PER_NODE: '2.x' is no"),
    "SLURM, counts that nobody has": (
        SLURM | {"SLURM_STEP_TASKS_PER_NODE": "9" * 5000 + "(x1)"}, "SLURM_STEP_TASKS_PER_NODE: '9+' is not a count"),
    "SLURM, a step of many hosts": (
        SLURM | {"SLURM_STEP_NODELIST": "a[1-99999][1-99999][1-99999]"}, "SLURM_STEP_NODELIST: .*more than 100000"),
    "SLURM, numbers of many digits": (
        SLURM | {"SLURM_STEP_NODELIST": "a[" + "9" * 5000 + "]"}, "NODELIST: '9+' is not a range of numbers$"),
    "SLURM, cyclic": (SLURM | {"SLURM_PROCID": "1"}, "SLURM_PROCID: .*--distribution=block"),
    "a Job without its size": (JOB | {"AIOFLOW_TASKS": ""}, "Indexed Job: the variable AIOFLOW_TASKS is not set"),
    "a Job with too few": (JOB | {"AIOFLOW_TASKS": "2"}, "JOB_COMPLETION_INDEX: it is 2, but AIOFLOW_TASKS is"),
    "a Job with more than there can be": (JOB | {"AIOFLOW_TASKS": "9" * 12}, "AIOFLOW_TASKS: .*below 1000000"),
    "a JobSet with more than there can be": (JOBSET | {"AIOFLOW_ROLES": "ps=" + "9" * 5000}, "AIOFLOW_ROLES: .*'ps=9"),
    "a Job with another name": (JOB | {"HOSTNAME": "pod-abc"}, "HOSTNAME: 'pod-abc' must end in -2"),
    "a JobSet without roles": (JOBSET | {"AIOFLOW_ROLES": ""}, "JobSet: the variable AIOFLOW_ROLES is not set"),
    "a JobSet with bad roles": (JOBSET | {"AIOFLOW_ROLES": "ps=1,ps=2"}, "AIOFLOW_ROLES: .*'ps=2' is invalid"),
    "a JobSet with another role": (JOBSET | {"REPLICATED_JOB_NAME": "x"}, "REPLICATED_JOB_NAME: .*no 'x'"),
    "a JobSet, index too high": (JOBSET | {"JOB_COMPLETION_INDEX": "2"}, "JOB_COMPLETION_INDEX: .*below 2"),
    "a JobSet, no role for a job": (JOBSET | {"AIOFLOW_ROLES": "1x=1,worker=2"}, "AIOFLOW_ROLES: '1x' is not the name"),
}  # fmt: skip


@pytest.mark.parametrize(("variables", "text"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_of_the_variable_by_name(variables, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        resolve(variables)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", ["a"]),
        ("a,b-1.x", ["a", "b-1.x"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-11,3]", ["n08", "n09", "n10", "n11", "n3"]),
        ("r[1-2]n[1-2]-ib,login", ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib", "login"]),
    ],
)
def test_a_list_of_hosts_is_written_out(text, hosts):
    assert expand(text) == hosts


def test_a_list_of_too_many_hosts_is_refused_before_it_is_written_out():
    for text in ("a[1-99999],b[1-2]", "a[1-999][1-999]", "a[" + ",".join(["1-99999"] * 20_000) + "]"):
        with pytest.raises(ValueError, match="more than 100000 hosts"):
            expand(text)


@pytest.mark.parametrize("text", ["", ",", "a,", "a,,b", "a[", "a]", "a[]", "a[x]", "a[2-1]", "a[1-9999999]", "a[[1]]"])
def test_what_is_no_list_of_hosts_is_refused(text):
    with pytest.raises(ValueError, match=r"not a list of hosts|not a range of"):
        expand(text)
