"""The variables of PyTorch's `torchrun`.

It tells a process only the first host. If there are several, the user lists them in AIOFLOW_HOSTS.
"""

from collections.abc import Mapping
from typing import Final

from aioflow.launch.environment import Environment, by_host
from aioflow.net.cluster import Member

VARIABLE: Final = "TORCHELASTIC_RUN_ID"


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
    return environment.member(by_host(hosts, [local_world] * count, port), rank)
