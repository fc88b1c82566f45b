"""Clusters on existing engines, and on this machine.

Input: the variables that an engine sets for a process, or the workers of Dask or Ray. Output: the task that this
process is (`resolve`), or a cluster of started tasks for the time of a block (`local`, `dask`, `ray`). Each task is a
process beside an agent, and ends with it. `launcher` restarts a task that dies. This folder may use `net`. It never
builds a graph.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.launch.local_processes": "local",
    "aioflow.launch.launcher": "Cluster Launch",
    "aioflow.launch.on_dask": "dask",
    "aioflow.launch.on_ray": "ray",
    "aioflow.launch.resolvers": "resolve",
})  # fmt: skip
