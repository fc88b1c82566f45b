"""Compares aioflow with its peers in one run: `python -m benchmarks [name ...]`."""
