"""What the engines are given, `examples/launch/`: it is valid, and starts a cluster."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from aioflow.launch import resolve

ROOT = Path(__file__).parents[2]
FILES = ROOT / "examples" / "launch"
LABEL = re.compile(r"metadata\.labels\['jobset\.sigs\.k8s\.io/(.+)'\]")

# Starts what it is told as srun does for four processes on one host, and prints how.
SRUN = """#!/usr/bin/env bash
echo "srun $*"
while [[ $1 == --* ]]; do shift; done
export SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost SLURM_STEP_TASKS_PER_NODE=4 SLURM_NODEID=0
for rank in 0 1 2 3; do SLURM_PROCID=$rank SLURM_LOCALID=$rank "$@" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid"; done
"""


@pytest.fixture(scope="module")
def jobset():
    return yaml.safe_load((FILES / "jobset.yaml").read_text())


def variables(job, pod, labels):
    """What Kubernetes sets for a pod of an Indexed Job, and what the manifest says."""
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    found = {"JOB_COMPLETION_INDEX": str(pod), "HOSTNAME": f"{labels['jobset-name']}-{job['name']}-0-{pod}"}
    for entry in container["env"]:
        match entry:
            case {"value": str(value)}:
                found[entry["name"]] = value
            case {"valueFrom": {"fieldRef": {"fieldPath": path}}}:
                found[entry["name"]] = labels[LABEL.fullmatch(path)[1]]
            case {"valueFrom": {"secretKeyRef": {"name": _, "key": _}}}:
                found[entry["name"]] = "secret"
    return found


def test_the_pods_of_the_job_set_are_the_tasks_of_one_cluster(jobset):
    assert (jobset["apiVersion"], jobset["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert jobset["spec"]["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    name = jobset["metadata"]["name"]
    members = []
    for job in jobset["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]
        assert (job["replicas"], spec["completionMode"]) == (1, "Indexed")
        assert spec["parallelism"] == spec["completions"], "all pods have to run at a time"
        for pod in range(spec["completions"]):
            found = variables(job, pod, {"jobset-name": name, "replicatedjob-name": job["name"]})
            assert found["AIOFLOW_TOKEN"] == "secret"
            members.append(resolve(found))
            assert members[-1].address.startswith(f"{found['HOSTNAME']}.{name}:")
    assert len({member.cluster.digest for member in members}) == 1
    assert {(member.name, member.address) for member in members} == set(members[0].cluster)


def test_what_the_job_set_runs_is_there_and_listens_where_it_says(jobset):
    for job in jobset["spec"]["replicatedJobs"]:
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        assert (ROOT / container["command"][1]).exists()
        assert container["ports"] == [{"containerPort": 2222}]
    assert jobset["spec"]["successPolicy"]["targetReplicatedJobs"] == ["chief"]


def test_the_script_for_slurm_is_valid_bash():
    done = subprocess.run(["bash", "-n", FILES / "slurm.sh"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_script_for_slurm_trains_and_shows_no_token(tmp_path):
    (tmp_path / "srun").write_text(SRUN)
    (tmp_path / "srun").chmod(0o755)
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "AIOFLOW_PORT": str(free_ports(4))}
    done = subprocess.run(
        ["bash", FILES / "slurm.sh"], capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr
    started, *lines = done.stdout.splitlines()
    assert started.startswith("srun --distribution=block --kill-on-bad-exit=1 python ")
    tasks = ["ps/replica:0/task:0", *[f"worker/replica:0/task:{index}" for index in range(3)]]
    assert sorted(line for line in lines if "listens" in line) == [f"/job:{task} listens" for task in tasks]
    (accuracy,) = [line for line in lines if line.startswith("test accuracy of 3 workers ")]
    assert float(accuracy.split()[-1]) >= 0.9
    assert not re.search(r"[0-9a-f]{32}", done.stdout + done.stderr)


def free_ports(count):
    """The first of so many ports in a row that nobody uses."""
    for port in range(23000, 30000, count):
        try:
            for each in range(port, port + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", each))
        except OSError:
            continue
        return port
    raise OSError("there are no free ports")
