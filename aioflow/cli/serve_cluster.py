"""The options of `aioflow serve` for models on the tasks of a cluster."""

import argparse
from typing import TYPE_CHECKING

from aioflow import errors

if TYPE_CHECKING:
    from aioflow.config import Config
    from aioflow.serving.replica import Replica


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add(
        "--cluster", metavar="FILE",
        help="the JSON file of a cluster, whose tasks run the models; or a master, as ws://host:2222",
    )  # fmt: skip
    add("--job", default="worker", help="the job whose tasks run them (default: %(default)s)")
    add("--replicas", type=int, metavar="N", help="a replica of each model on its first N tasks (default: on all)")
    add("--cluster-token-file", metavar="FILE", help="the token of the cluster; else AIOFLOW_TOKEN, if set")
    add("--cluster-tls", metavar="DIR", help="the certificates of the cluster, if its tasks use TLS")


def cluster_config(options: argparse.Namespace) -> "Config":
    """Return the configuration of sessions."""
    from aioflow.config import Config

    return Config(token_file=options.cluster_token_file, ssl=options.cluster_tls)


def replicas_of(options: argparse.Namespace) -> "list[Replica] | None":
    """Return the replicas of each model; None if this process runs the models.

    InvalidArgumentError if the options contradict each other, or the file describes no cluster or too few tasks.
    """
    from aioflow.net.cluster import ClusterSpec
    from aioflow.serving.replica import Replica

    if options.cluster is None:
        if options.replicas is not None:
            raise errors.InvalidArgumentError("--replicas needs --cluster, which says where they are")
        return None
    if "://" in options.cluster:
        if options.replicas is None or options.replicas < 1:
            raise errors.InvalidArgumentError(
                "--cluster names a master, so that --replicas must say how many there are"
            )
        tasks = [f"/job:{options.job}/task:{index}" for index in range(options.replicas)]
        return [Replica(options.cluster, [task]) for task in tasks]
    try:
        cluster = ClusterSpec.from_json(options.cluster)
        scheme = "ws" if options.cluster_tls is None else "wss"
        return Replica.on_each(cluster, options.job, options.replicas, scheme)
    except (OSError, ValueError) as error:
        raise errors.InvalidArgumentError(f"--cluster: {error}") from None
