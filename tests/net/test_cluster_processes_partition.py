"""Hosts, each a network namespace with a task in it, between which the network is really parted.

The test runs this file once more, as root of a user namespace: that process has the switch that all hosts are plugged
into, and is the first worker, the master, and the client.
"""

import asyncio
import contextlib
import functools
import os
import re
import secrets
import shutil
import subprocess
import sys
import time

import pytest

import aioflow as af
from aioflow import errors
from aioflow.cli.worker import loop_factory
from aioflow.net.transport.credentials import VARIABLE
from tests.support.cluster_processes import FIRST, PS, ROOT, SECOND, Processes

pytestmark = [pytest.mark.sockets, pytest.mark.slow]
THIRD = "/job:worker/replica:0/task:2"
HERE = "10.77.0.1"
ADDRESSES = {PS: "10.77.0.2", SECOND: "10.77.0.3", THIRD: "10.77.0.4"}
NAMESPACE = ("unshare", "--user", "--map-root-user", "--net")
SWITCH = (
    f"ip link set lo up && ip link add switch type bridge && ip link set switch up && ip addr add {HERE}/24 dev switch"
)
HOST = "ip link set lo up && ip link set wire{n} up && ip addr add {address}/24 dev wire{n}"
CABLE = (
    "ip link add port{n} type veth peer name wire{n} && ip link set wire{n} netns {pid} && ip link set port{n} {on} up"
)
ON = "master switch"
LONGEST = 240.0


def sh(command, *inside):
    subprocess.run([*inside, "sh", "-c", command], check=True)


class Hosts:
    """A namespace for each task, and what is to be done to its cable."""

    def __init__(self, stack):
        sh(SWITCH)
        self._ports, self._namespaces = {}, {}
        for n, (task, address) in enumerate(ADDRESSES.items()):
            holder = stack.enter_context(subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE))
            inside = self._namespaces[task] = ("nsenter", "--target", str(holder.pid), "--net")
            while os.readlink(f"/proc/{holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
                time.sleep(0.001)
            sh(CABLE.format(n=n, pid=holder.pid, on=ON))
            sh(HOST.format(n=n, address=address), *inside)
            self._ports[task] = f"port{n}"

    def inside(self, task):
        return self._namespaces[task]

    def unplug(self, task):
        sh(f"ip link set {self._ports[task]} nomaster")

    def plug(self, task):
        sh(f"ip link set {self._ports[task]} {ON}")

    def isolate(self, *tasks, on=True):
        """These hear the others, but not one another."""
        for task in tasks:
            sh(f"ip link set {self._ports[task]} type bridge_slave isolated {'on' if on else 'off'}")


def between(task):
    """A graph with a step that waits on the parameter server and on the task, and one that goes there and back."""
    with af.Graph().as_default() as graph:
        with af.device(PS):
            element = af.FIFOQueue(1, af.float32, shapes=[[]], shared_name=task).dequeue()
            here = af.placeholder(af.float32, [], name="here") + 0.0
        with af.device(task):
            never, twice = element * 2.0, here * 2.0
        with af.device(PS):
            af.add(never, 1.0, name="never")
            af.add(twice, 1.0, name="there")
    return graph


async def outcome(awaitable):
    return (await asyncio.gather(awaitable, return_exceptions=True))[0]


def check_silent(found, *names):
    assert isinstance(found, errors.UnavailableError), found
    assert re.search(rf"({'|'.join(names)}).* silent", str(found)), found


async def check_works(session):
    """Whatever has to be found out anew is found out in one run."""
    found = await outcome(session.run("there:0", {"here:0": 1.0}))
    if isinstance(found, Exception):
        assert isinstance(found, (errors.UnavailableError, errors.AbortedError)), found
        found = await session.run("there:0", {"here:0": 1.0})
    assert found == 3


async def scenario():
    """The second worker is heard by nobody; the third and the parameter server hear all but each other."""
    async with asyncio.timeout(LONGEST), contextlib.AsyncExitStack() as stack:
        hosts = Hosts(stack)
        ps, *others = [f"{address}:2222" for address in ADDRESSES.values()]
        spec = {"ps": [ps], "worker": [f"{HERE}:2222", *others]}
        cluster = stack.enter_context(Processes(spec, without=[FIRST], before=hosts.inside))
        server = await stack.enter_async_context(af.train.Server(spec, "worker", 0))
        sessions = [
            await stack.enter_async_context(af.Session(server.target, graph=between(task))) for task in (SECOND, THIRD)
        ]
        steps = [asyncio.ensure_future(session.run("never:0")) for session in sessions]
        await cluster.running(SECOND, THIRD)
        hosts.unplug(SECOND)
        hosts.isolate(PS, THIRD)
        second, third = [await outcome(step) for step in steps]
        check_silent(second, SECOND)
        check_silent(third, PS, THIRD)
        hosts.plug(SECOND)
        hosts.isolate(PS, THIRD, on=False)
        await cluster.nothing_runs()
        for session in sessions:
            await check_works(session)


@functools.cache
def unable():
    """Why there can be no such hosts; empty if there can."""
    missing = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if missing:
        return f"there is no {missing[0]} on this machine"
    tried = subprocess.run([*NAMESPACE, "unshare", "--net", "sh", "-c", SWITCH], capture_output=True, text=True)
    return f"this machine makes no network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


@pytest.mark.long
def test_hosts_that_are_parted_count_as_silent_and_are_used_again_when_they_are_not():
    if unable():
        pytest.skip(unable())
    environment = os.environ | {"PYTHONPATH": str(ROOT), VARIABLE: secrets.token_urlsafe(32)}
    ended = subprocess.run(
        [*NAMESPACE, sys.executable, "-W", "error", __file__], env=environment, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory("uvloop")) as runner:
        runner.run(scenario())
