"""The variables of PyTorch's `torchrun`.

It tells a process only the first host. If there are several, the user lists them in AIOFLOW_HOSTS.
"""

from collections.abc import Mapping
from typing import Final

from aioflow.launch.environment import Environment, by_host
from aioflow.net.cluster import Member

VARIABLE: Final = "TORCHELASTIC_RUN_ID"


def torchrun(variables: Mapping[str, str]) -> Member:
    """The process of number RANK. Those of a host have the ports that follow AIOFLOW_PORT, or else MASTER_PORT.

    MASTER_PORT itself is torchrun's own. InvalidArgumentError names the variable that is missing or wrong.
    """
    environment = Environment(variables, "torchrun")
    world = environment.number("WORLD_SIZE")
    rank = environment.number("RANK", below=world)
    local_world = environment.number("LOCAL_WORLD_SIZE")
    local = environment.number("LOCAL_RANK", below=local_world)
    if world % local_world or rank % local_world != local:
        text = f"rank {rank} of {world} is not number {local} of the {local_world} on its host: hosts must have as many"
        raise environment.error("LOCAL_RANK", text)
    count = world // local_world
    hosts = environment.hosts(count, environment.text("MASTER_ADDR"))
    port = environment.ports(local_world, environment.number("MASTER_PORT", below=65535) + 1)
    return environment.member(by_host(hosts, [local_world] * count, port), rank)
