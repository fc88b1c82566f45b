"""`aioflow report`: a recorded run as one HTML file."""

import argparse
from collections.abc import Callable
from pathlib import Path

Run = Callable[[argparse.Namespace], int]


def report(parser: argparse.ArgumentParser) -> Run:
    """Write a recorded run as one HTML file, which a browser opens without a server."""
    parser.add_argument("recording", metavar="RECORDING", help="the file that af.dashboard.record has written")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: RECORDING with the suffix .html")
    return _run


def _run(options: argparse.Namespace) -> int:
    from aioflow.dashboard.report_file import report as write

    output = Path(options.output or Path(options.recording).with_suffix(".html"))
    write(options.recording, output)
    print(f"{output}: {output.stat().st_size / 1024:.0f} KiB, for any browser")
    return 0
