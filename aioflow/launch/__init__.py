"""Clusters on engines that exist already: what they have told a process, and tasks started on their workers."""

from aioflow.launch.here import local
from aioflow.launch.launcher import Cluster, Launch
from aioflow.launch.on_dask import dask
from aioflow.launch.on_ray import ray
from aioflow.launch.resolving import resolve

__all__ = ["Cluster", "Launch", "dask", "local", "ray", "resolve"]
