import platform
import subprocess
import sys

import pytest

FAULTS_OF_SECOND_USE = """
import resource

import numpy as np

from aioflow.config import Config
from aioflow.devices.device import local_devices

devices = local_devices(Config())
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(2 << 20, np.uint8)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps memory by other rules")
def test_a_process_with_devices_keeps_the_memory_of_freed_arrays():
    run = subprocess.run([sys.executable, "-c", FAULTS_OF_SECOND_USE], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 100  # of the 512 pages of the array
