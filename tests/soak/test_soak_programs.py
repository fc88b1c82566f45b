"""More random programs with every partition in another process."""

import os

import pytest
from hypothesis import given, settings

from tests.net.test_cluster_processes_programs import check_program
from tests.net.test_cluster_programs import CHOICES, travelling
from tests.support.programs import blocks

pytest_plugins = ["tests.support.three_processes"]
pytestmark = [pytest.mark.sockets, pytest.mark.slow, pytest.mark.timeout(3600)]
EXAMPLES = int(os.environ.get("EXAMPLES", "1000"))


@settings(max_examples=EXAMPLES)
@given(block=blocks().map(travelling), choices=CHOICES)
def test_branches_loops_and_state_are_the_same_over_processes(processes, block, choices):
    check_program(processes, block, 0, choices)


@settings(max_examples=EXAMPLES // 2)
@given(block=blocks(depth=2).map(travelling), choices=CHOICES)
def test_gradients_are_the_same_over_processes(processes, block, choices):
    check_program(processes, block, 1, choices)
