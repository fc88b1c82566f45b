"""The version of aioflow, which the build of the package reads, too."""

__version__ = "0.1.0"
