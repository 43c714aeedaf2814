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

from typing import TYPE_CHECKING, Any, Dict, List

from ._library import ProfgpuError
from .monitor import GpuBackendError, GpuMonitor, GpuSample, GpuSummary
from .ranges import annotate, is_recorded, mark, phase, step
from .repeats import MultiRunResult, ProfiledResult, RunStats, gpu_profile, profile_repeats
from .report import Finding, Report, analyze
from .tables import Table

if TYPE_CHECKING:
    from . import bench, guide
    from .inventory import GPU, ContextOverhead, Device, context_overhead, devices, getGPUs, showUtilization
    from .memory import MemoryRecording, record_memory, track_cells
    from .recording import Recording, load_ipython_extension, record
    from .timing import Comparison, Crossover, Timing, benchmark, compare, crossover
    from .watching import Watch, watch

__version__ = "0.1.0"

# Loaded when they are first used, so that a script which only watches a GPU pays for no more than that.
_LATER: Dict[str, str] = {
    "Comparison": "timing",
    "ContextOverhead": "inventory",
    "Crossover": "timing",
    "Device": "inventory",
    "GPU": "inventory",
    "MemoryRecording": "memory",
    "Recording": "recording",
    "Timing": "timing",
    "Watch": "watching",
    "bench": "bench",
    "benchmark": "timing",
    "compare": "timing",
    "context_overhead": "inventory",
    "crossover": "timing",
    "devices": "inventory",
    "getGPUs": "inventory",
    "guide": "guide",
    "load_ipython_extension": "recording",
    "record": "recording",
    "record_memory": "memory",
    "showUtilization": "inventory",
    "track_cells": "memory",
    "watch": "watching",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _LATER:
        text = "module 'profgpu' has no attribute %r" % name
        if not name.startswith("_") and name in importlib.import_module(".guide", __name__).__all__:
            text += ": it is in profgpu.guide"
        raise AttributeError(text)

    module = importlib.import_module("." + _LATER[name], __name__)
    value = module if name == _LATER[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted([*__all__, "__doc__", "__version__"])


__all__ = [
    "Comparison",
    "ContextOverhead",
    "Crossover",
    "Device",
    "Finding",
    "GPU",
    "GpuBackendError",
    "GpuMonitor",
    "GpuSample",
    "GpuSummary",
    "MemoryRecording",
    "MultiRunResult",
    "ProfgpuError",
    "ProfiledResult",
    "Recording",
    "Report",
    "RunStats",
    "Table",
    "Timing",
    "Watch",
    "analyze",
    "annotate",
    "bench",
    "benchmark",
    "compare",
    "context_overhead",
    "crossover",
    "devices",
    "getGPUs",
    "gpu_profile",
    "guide",
    "is_recorded",
    "load_ipython_extension",
    "mark",
    "phase",
    "profile_repeats",
    "record",
    "record_memory",
    "showUtilization",
    "step",
    "track_cells",
    "watch",
]
