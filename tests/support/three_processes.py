"""A pytest plugin: three processes, for all modules that ask for it by `pytest_plugins`; starting them takes long."""

from collections.abc import Iterator

import pytest

from tests.support.cluster_processes import THREE, Processes, addresses


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """A parameter server and two workers, for all tests that ask for them."""
    with Processes(addresses(THREE)) as started:
        yield started


@pytest.fixture
def cluster(processes: Processes) -> Processes:
    """The same, all of which listen, whatever was done to them."""
    processes.revive()
    return processes
