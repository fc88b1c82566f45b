"""The test files divided among the workers of pytest-xdist, a plugin for `pytest -n 3 --dist each`.

Each worker imports and collects its own files only: for all files that takes as long as a tenth of the tests.
"""

import itertools

import pytest
from xdist.scheduler import EachScheduling


class Shares(EachScheduling):
    """Each worker runs all that it has collected. Progress is told in parts of all that they have."""

    def schedule(self):
        found = sum(map(len, self.node2collection.values()))
        self.config.pluginmanager.get_plugin("session").testscollected = found
        super().schedule()


class Elsewhere(pytest.Module):
    """A file of which another worker runs the tests."""

    def collect(self):
        return []


class Divider:
    """In a worker: of the files, in the order of collection, each `count`th from `number` on is its own.

    So the files of a folder, which take about as long as each other, are spread over all workers.
    """

    def __init__(self, number, count):
        self._number = number
        self._count = count
        self._files = itertools.count()

    def pytest_pycollect_makemodule(self, module_path, parent):
        if next(self._files) % self._count != self._number:
            return Elsewhere.from_parent(parent, path=module_path)
        return None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Shares(config, log) if config.getoption("dist") == "each" else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["divided"] = node.config.getoption("dist") == "each"


def pytest_configure(config):
    worker = getattr(config, "workerinput", {})
    if worker.get("divided"):
        config.pluginmanager.register(Divider(int(worker["workerid"].removeprefix("gw")), worker["workercount"]))
