"""The variables of Open MPI's `mpirun`, which tells no hosts: if there are several, AIOFLOW_HOSTS lists them."""

from collections.abc import Mapping
from typing import Final

from aioflow.launch.environment import Environment, by_host
from aioflow.net.cluster import Member

VARIABLE: Final = "OMPI_COMM_WORLD_RANK"


def openmpi(variables: Mapping[str, str]) -> Member:
    """Return the task of process OMPI_COMM_WORLD_RANK. Processes on one host have the ports from AIOFLOW_PORT on.

    InvalidArgumentError names the missing or invalid variable, or says that ranks must be laid out by slot.
    """
    environment = Environment(variables, "Open MPI")
    world = environment.number("OMPI_COMM_WORLD_SIZE")
    rank = environment.number(VARIABLE, below=world)
    local_world = environment.number("OMPI_COMM_WORLD_LOCAL_SIZE")
    local = environment.number("OMPI_COMM_WORLD_LOCAL_RANK", below=local_world)
    if world % local_world or rank % local_world != local:
        text = f"rank {rank} of {world} is number {local} of {local_world} on its host: use --map-by ppr:N:node"
        raise environment.error("OMPI_COMM_WORLD_LOCAL_RANK", text)
    count = world // local_world
    hosts = environment.hosts(count, "127.0.0.1")
    return environment.member(by_host(hosts, [local_world] * count, environment.ports(local_world)), rank)
