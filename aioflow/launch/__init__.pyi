"""Clusters on existing engines, and on this machine.

Input: the variables that an engine sets for a process, or the workers of Dask or Ray. Output: the task that this
process is (`resolve`), or a cluster of started tasks for the time of a block (`local`, `dask`, `ray`). Each task is a
process beside an agent, and ends with it. `launcher` restarts a task that dies. This folder may use `net`. It never
builds a graph.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.launch.launcher import Cluster as Cluster
from aioflow.launch.launcher import Launch as Launch
from aioflow.launch.local_processes import local as local
from aioflow.launch.on_dask import dask as dask
from aioflow.launch.on_ray import ray as ray
from aioflow.launch.resolvers import resolve as resolve

__all__ = ["Cluster", "Launch", "dask", "local", "ray", "resolve"]
