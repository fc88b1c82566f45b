"""Which task of which cluster a process is, as the variables say that its engine has set."""

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
"""By the variable that tells of it, in order: whoever was started within the other comes first, as mpirun in SLURM."""


def resolve(variables: Mapping[str, str] = os.environ) -> Member:
    """The task that this process is to be, and the cluster it belongs to.

        member = af.launch.resolve()
        async with af.train.Server(member.cluster, member.job, member.index) as server:
            await server.join()

    Raises:
        InvalidArgumentError: no engine has set its variables, or one of them is missing or wrong; it is named.
    """
    for variable, resolver in RESOLVERS.items():
        if variables.get(variable):
            return resolver(variables)
    raise errors.InvalidArgumentError(
        f"no cluster is described by the environment: none of {', '.join(RESOLVERS)} is set"
    )
