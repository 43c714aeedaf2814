"""The helpers of the profiling guide, by its names, measuring what they say they measure.

docs/python.md says where that differs from the guide's own code. They need PyTorch, which is imported when one of them is
called; GPUMonitor needs none.
"""
from __future__ import annotations

from .communication import (
    CommTimer,
    OverlapProfiler,
    add_sync_markers,
    measure_inter_node_bandwidth,
    profile_collective_ops,
)
from .gauges import PrometheusGauges, update_metrics
from .loops import (
    NVTXAnnotator,
    PipelineProfiler,
    ProfiledDataLoader,
    ProfilerWrapper,
    TrainingProfiler,
    auto_profile,
    get_profiler_context,
    profile_training,
    quick_benchmark,
)
from .memory import (
    capture_memory_snapshot,
    find_memory_leaks,
    memory_summary,
    memory_timeline,
    profile_fsdp_memory,
    profile_zero_stage,
)
from .monitoring import GPUMonitor
from .sharded import DeepSpeedCommProfiler, create_profiling_config, profile_deepspeed_training

__all__ = [
    "CommTimer",
    "DeepSpeedCommProfiler",
    "GPUMonitor",
    "NVTXAnnotator",
    "OverlapProfiler",
    "PipelineProfiler",
    "ProfiledDataLoader",
    "ProfilerWrapper",
    "PrometheusGauges",
    "TrainingProfiler",
    "add_sync_markers",
    "auto_profile",
    "capture_memory_snapshot",
    "create_profiling_config",
    "find_memory_leaks",
    "get_profiler_context",
    "measure_inter_node_bandwidth",
    "memory_summary",
    "memory_timeline",
    "profile_collective_ops",
    "profile_deepspeed_training",
    "profile_fsdp_memory",
    "profile_training",
    "profile_zero_stage",
    "quick_benchmark",
    "update_metrics",
]
