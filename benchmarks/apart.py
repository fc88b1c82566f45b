"""Runs a measurement in its own process, whose environment is chosen before any library is loaded."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Coroutine, Mapping
from typing import Any, Final

ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Variables that limit matrix products to one core."""


async def apart(module: str, *arguments: str, environment: Mapping[str, str] = ONE_THREAD) -> Any:
    """Run that module and return the plain data that it prints by `tell`. RuntimeError if it fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, env=os.environ | environment, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the measuring process ended with status {process.returncode}")
    return json.loads(output)


def tell(measuring: Coroutine[Any, Any, Any]) -> None:
    """Run the measurement and print its result; nothing else reaches standard output."""
    with contextlib.redirect_stdout(sys.stderr):
        found = asyncio.run(measuring)
    print(json.dumps(found))
