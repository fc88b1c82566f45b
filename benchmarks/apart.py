"""A measurement in a process of its own, whose environment is chosen before any library is loaded."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Coroutine, Mapping
from typing import Any, Final

ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Products of matrices keep to one core."""


async def apart(module: str, *arguments: str, environment: Mapping[str, str] = ONE_THREAD) -> Any:
    """What that module prints when it is run: plain data, by `tell`. RuntimeError if it fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, env=os.environ | environment, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the process that measures ended with {process.returncode}")
    return json.loads(output)


def tell(measuring: Coroutine[Any, Any, Any]) -> None:
    """Run the measurement, and print what it found; nothing else reaches standard output."""
    with contextlib.redirect_stdout(sys.stderr):
        found = asyncio.run(measuring)
    print(json.dumps(found))
