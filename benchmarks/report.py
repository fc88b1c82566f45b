"""The output of a benchmark: a header with machine and versions, and for each row the sides, ratios and targets."""

import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Timing

TUNING = (
    "OPENBLAS_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "DNNL_",
    "ONEDNN_",
    "TF_ENABLE_ONEDNN",
    "BLIS_",
    "NPY_DISABLE_CPU",
)
"""Prefixes of variables that choose threads or kernels for some libraries and not for others."""


@dataclass(frozen=True)
class Claim:
    """A figure and its bound; `value` is None if a side was missing."""

    what: str
    value: float | None
    limit: float
    at_least: bool = False
    unit: str = "x"

    @property
    def verdict(self) -> str:
        """Return met, missed, or not measured."""
        if self.value is None:
            return "not measured"
        return "met" if (self.value >= self.limit if self.at_least else self.value <= self.limit) else "MISSED"

    def __str__(self) -> str:
        value = "-" if self.value is None else f"{self.value:.3g}{self.unit}"
        bound = f"{'>=' if self.at_least else '<='} {self.limit:g}{self.unit}"
        return f"{self.what:<48} {value:>10}   target {bound:<12} {self.verdict}"


@dataclass(frozen=True)
class Row:
    """One row of the table: each side's figure in words, the claims, and notes."""

    title: str
    figures: Mapping[str, str]
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        figures = [f"  {side:<22} {figure}" for side, figure in self.figures.items()]
        claims = [f"  -> {claim}" for claim in self.claims]
        return "\n".join([self.title, *figures, *claims, *(f"  note: {note}" for note in self.notes)])


def timed_row(title: str, timing: Timing, claims: Sequence[Claim], notes: Sequence[str] = ()) -> Row:
    """Return a row with the median times of `timing` and each side's ratio to aioflow."""
    figures = {side: f"{span(timing.seconds(side)):>10}{beside(timing, side)}" for side in timing.rounds}
    return Row(title, figures | timing.missing, claims, notes)


def beside(timing: Timing, side: str) -> str:
    """Return the ratio of a side's time to aioflow's."""
    ratio = timing.ratio(side, "aioflow") if side != "aioflow" else None
    return "" if ratio is None else f"   {ratio:.2f}x aioflow"


def span(seconds: float | None) -> str:
    """Return a duration in the unit that is easiest to read."""
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def size(count: float) -> str:
    """Return bytes in MiB."""
    return f"{count / 2**20:.1f} MiB"


def header(loop: str) -> str:
    """Return the machine and the versions of the figures."""
    packages = ("aioflow-engine", "numpy", "tensorflow-cpu", "torch", "jax")
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{cpu()}, {cores} cores, {platform.system()} {platform.machine()}, load {load()}\n"
        f"{platform.python_implementation()} {platform.python_version()} on {loop}, {versions}\n"
        f"environment: {', '.join(f'{name}={value}' for name, value in tuning().items()) or 'nothing tuned'}\n"
        "Times are medians per step; ratios are medians over alternating rounds."
    )


def tuning() -> dict[str, str]:
    """Return the set variables that tune some libraries and not others: they may decide a row."""
    return {name: value for name, value in os.environ.items() if name.startswith(TUNING)}


def version(package: str) -> str:
    """Return the installed version, or a word for none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def cpu() -> str:
    """Return the processor's name, if the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown CPU"


def load() -> str:
    """Return the system's load average of the last minute: above zero, other processes compute too."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
