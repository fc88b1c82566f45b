"""`python -m benchmarks [name ...]` prints the figures, ratios and targets of each row.

Variables that choose threads or kernels for one library and not for another (`OPENBLAS_CORETYPE`, `MKL_NUM_THREADS`
...) stay in force and are shown in the header. `--as-installed` removes them: each library chooses for itself.
"""

import argparse
import asyncio
import importlib
import os
import subprocess
import sys
import traceback

from benchmarks import report

ROWS = (
    "training",
    "fit",
    "mlp_large",
    "convnet",
    "resnet_training",
    "lstm",
    "transformer",
    "generation",
    "onnx_networks",
    "loops",
    "elementwise",
    "null_step",
    "chain",
    "building",
    "nesting",
    "importing",
    "lag",
    "dashboard",
    "gil",
    "queues",
    "input",
    "data",
    "inference",
    "batching",
    "batching_networks",
    "serving",
    "serving_swap",
    "memory",
    "devices",
    "placement",
    "receives",
    "cluster",
    "cluster_transfer",
    "cluster_loop",
    "cluster_training",
    "cluster_control",
    "cluster_growth",
    "all_reduce",
    "gradient_compression",
    "saving",
    "restoring",
    "onnx_load",
    "replica_lost",
    "stragglers",
    "gpu",
)


def main() -> int:
    """Run the named rows, or all rows without names. Returns 1 if one of them raised."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of: {', '.join(ROWS)}")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--as-installed", action="store_true", help="let each library choose its threads and kernels")
    options = parser.parse_args()
    if unknown := set(options.names) - set(ROWS):
        parser.error(f"no row named {', '.join(sorted(unknown))}; there are: {', '.join(ROWS)}")
    if options.as_installed and report.tuning():
        return again()
    factory = importlib.import_module("uvloop").new_event_loop if options.loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(run(options.names or ROWS, options.loop))


def again() -> int:
    """Run the same command without the variables that tune single libraries, which read them when they are loaded."""
    environment = {name: value for name, value in os.environ.items() if name not in report.tuning()}
    return subprocess.run([sys.executable, "-m", "benchmarks", *sys.argv[1:]], env=environment, check=False).returncode


async def run(names: tuple[str, ...] | list[str], loop: str) -> int:
    """Print the header and every row. A row that raises is reported, and the next one follows."""
    print(report.header(loop), flush=True)
    failed = 0
    for name in names:
        try:
            async for row in importlib.import_module(f"benchmarks.{name}").rows():
                print(f"\n{row}", flush=True)
        except Exception:
            failed = 1
            print(f"\n{name} failed", flush=True)
            traceback.print_exc(file=sys.stdout)
    return failed


if __name__ == "__main__":
    sys.exit(main())
