"""profgpu: why GPU work is slow, from within the script that does it.

    import profgpu

    with profgpu.GpuMonitor() as mon:            # what the GPU did meanwhile
        train()
    print(mon.summary.format())

    report = profgpu.analyze("trace.json.gz")    # where the time of a trace goes
    print(report)

docs/python.md has all of it. Importing this imports nothing but the standard library; the native library is opened by
the first call that needs it, and torch only by functions that work on its objects.
"""
from __future__ import annotations

from ._library import ProfgpuError
from .monitor import GpuBackendError, GpuMonitor, GpuSample, GpuSummary
from .ranges import annotate, is_recorded, mark, phase, step
from .repeats import MultiRunResult, ProfiledResult, RunStats, gpu_profile, profile_repeats
from .report import Finding, Report, analyze
from .tables import Table

__version__ = "0.1.0"

__all__ = [
    "Finding",
    "GpuBackendError",
    "GpuMonitor",
    "GpuSample",
    "GpuSummary",
    "MultiRunResult",
    "ProfgpuError",
    "ProfiledResult",
    "Report",
    "RunStats",
    "Table",
    "analyze",
    "annotate",
    "gpu_profile",
    "is_recorded",
    "mark",
    "phase",
    "profile_repeats",
    "step",
]
