"""Clusters on engines that exist already: what they have told a process, and tasks started on their workers."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.launch.here": "local",
    "aioflow.launch.launcher": "Cluster Launch",
    "aioflow.launch.on_dask": "dask",
    "aioflow.launch.on_ray": "ray",
    "aioflow.launch.resolving": "resolve",
})  # fmt: skip
