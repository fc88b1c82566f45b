"""Which version of aioflow this is; the package is built from it, too."""

__version__ = "0.1.0"

__all__ = ["__version__"]
