"""Finds the task that this process is, from the variables that its engine has set."""

import os
from collections.abc import Callable, Mapping
from typing import Final

from aioflow import errors
from aioflow.launch import explicit, kubernetes, openmpi, slurm, tf_config, torchrun
from aioflow.net.cluster import Member

Resolver = Callable[[Mapping[str, str]], Member]

RESOLVERS: Final[Mapping[str, Resolver]] = {
    explicit.VARIABLE: explicit.explicit,
    tf_config.VARIABLE: tf_config.tf_config,
    torchrun.VARIABLE: torchrun.torchrun,
    openmpi.VARIABLE: openmpi.openmpi,
    kubernetes.JOBSET: kubernetes.job_set,
    kubernetes.INDEX: kubernetes.indexed_job,
    slurm.VARIABLE: slurm.slurm,
}
"""{variable: resolver}, in order. An engine that runs inside another one comes first, like mpirun inside SLURM."""


def resolve(variables: Mapping[str, str] = os.environ) -> Member:
    """Return the task that this process is, and its cluster.

        member = af.launch.resolve()
        async with af.train.Server(member.cluster, member.job, member.index) as server:
            await server.join()

    Raises:
        InvalidArgumentError: no engine has set its variables, or the named variable is missing or invalid.
    """
    for variable, resolver in RESOLVERS.items():
        if variables.get(variable):
            return resolver(variables)
    raise errors.InvalidArgumentError(f"the environment describes no cluster: none of {', '.join(RESOLVERS)} is set")
