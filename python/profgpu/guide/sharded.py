"""DeepSpeed: its configuration for profiling, a run with the time of each phase, the communication of a step."""
from __future__ import annotations

import copy
import itertools
import json
import os
import statistics
import time
from typing import Any, Dict, Iterable, List, Tuple

from .. import ranges
from ..recording import record
from ..report import Report
from ..timing import Clock, synchronize
from .clocks import PhaseTimes, loss_of, moved, outputs_of


def create_profiling_config(base_config: Dict[str, Any], profile_step: int = 10) -> Dict[str, Any]:
    """A copy of a DeepSpeed configuration in which the FLOPs profiler runs in step ``profile_step`` and each step prints the
    times of its phases. ``base_config`` stays as it is; other settings of its ``flops_profiler`` are kept.

    What DeepSpeed prints then, ``profgpu analyze train.log`` reads.
    """
    config = copy.deepcopy(base_config)
    config["flops_profiler"] = {
        "module_depth": -1,
        "top_modules": 5,
        "detailed": True,
        **config.get("flops_profiler", {}),
        "enabled": True,
        "profile_step": profile_step,
    }
    config["wall_clock_breakdown"] = True
    return config


class DeepSpeedCommProfiler:
    """Steps of a DeepSpeed engine, or of anything with ``backward(loss)`` and ``step()``, with the times of their collectives.

    PyTorch's profiler records each step; ``comm_times`` has the milliseconds of every collective by kind: ``all_gather``,
    ``reduce_scatter``, ``all_reduce``, and others that occur. All ranks have to call ``profile_step``.
    """

    def __init__(self, model_engine: Any) -> None:
        self.model_engine = model_engine
        self.comm_times: Dict[str, List[float]] = {"all_gather": [], "reduce_scatter": [], "all_reduce": []}

    def profile_step(self, batch: Any) -> float:
        """Forward, backward and step; returns the milliseconds that they took, under the profiler."""
        engine = self.model_engine
        if hasattr(engine, "device"):
            batch = moved(batch, engine.device)

        def step() -> None:
            engine.backward(loss_of(outputs_of(engine, batch)))
            engine.step()

        synchronize()
        with record() as recording:
            clock = Clock()
            with ranges.step():
                took = clock.time(step)
        for name, duration_ns in _collectives(recording.report):
            self.comm_times.setdefault(name, []).append(duration_ns / 1e6)
        return took * 1e3

    def get_summary(self) -> Dict[str, float]:
        """Of all steps so far: ``KIND_ms``, the sum, and ``KIND_calls``; kinds without a call are left out."""
        flat: Dict[str, float] = {}
        for kind, times in self.comm_times.items():
            if times:
                flat[kind + "_ms"], flat[kind + "_calls"] = sum(times), float(len(times))
        return flat


def _collectives(report: Report) -> List[Tuple[str, int]]:
    """Name and nanoseconds of every collective; on the CPU, the ranges that gloo's and MPI's threads open."""
    calls = list(report.query("select name, duration_ns from collective_calls order by start_ns"))
    if not calls:
        calls = list(report.query(
            "select substr(name, instr(name, ':') + 1) as name, duration_ns from host "
            "where name glob 'gloo:*' or name glob 'mpi:*' or name glob 'ucc:*' order by start_ns"
        ))  # fmt: skip
    return [(call["name"], call["duration_ns"]) for call in calls]


def profile_deepspeed_training(
    model: Any,
    train_dataloader: Iterable[Any],
    ds_config: Dict[str, Any],
    num_steps: int = 50,
    output_dir: str = "./ds_profile",
    report: bool = True,
) -> Dict[str, List[float]]:
    """Trains ``num_steps`` steps with deepspeed.initialize(model, ds_config); seconds of each step and phase.

    Keys: forward, backward, step, total, throughput (samples/s of all ranks). Rank 0 writes the means without the warm-up to
    ``output_dir/deepspeed_profile_report.json``.
    """
    import deepspeed

    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=ds_config)
    engine.train()
    times, totals = PhaseTimes(), []
    for number, batch in enumerate(itertools.islice(train_dataloader, num_steps)):
        synchronize()
        begin = time.perf_counter()
        with ranges.step(number):
            with times.phase("forward"):
                loss = loss_of(outputs_of(engine, moved(batch, engine.device)))
            with times.phase("backward"):
                engine.backward(loss)
            with times.phase("step"):
                engine.step()
            synchronize()
        totals.append(time.perf_counter() - begin)
    samples = engine.train_micro_batch_size_per_gpu() * _world_size()  # the engine knows what the config leaves out
    timings = {name: list(values) for name, values in times.seconds().items()}
    timings["total"], timings["throughput"] = totals, [samples / t for t in totals]
    if _rank() == 0 and totals:
        _write(_report(timings, ds_config, samples // _world_size()), output_dir, report)
    return timings


def _distributed() -> Any:
    import torch.distributed as dist

    return dist if dist.is_available() and dist.is_initialized() else None


def _rank() -> int:
    dist = _distributed()
    return dist.get_rank() if dist else 0


def _world_size() -> int:
    dist = _distributed()
    return dist.get_world_size() if dist else 1


def _report(timings: Dict[str, List[float]], config: Dict[str, Any], batch_size: int) -> Dict[str, Any]:
    steps = len(timings["total"])
    warmup = min(5, steps // 4)

    def stats(values: List[float], scale: float) -> Dict[str, float]:
        kept = [v * scale for v in values[warmup:]]
        std = statistics.stdev(kept) if len(kept) > 1 else 0.0
        return {"mean": statistics.fmean(kept), "std": std, "min": min(kept), "max": max(kept)}

    phases = [name for name in ("forward", "backward", "step") if name in timings]
    whole = statistics.fmean(timings["total"][warmup:])
    return {
        "config": {
            "zero_stage": config.get("zero_optimization", {}).get("stage", 0),
            "fp16": config.get("fp16", {}).get("enabled", False),
            "bf16": config.get("bf16", {}).get("enabled", False),
            "batch_size": batch_size,
        },
        "timing_ms": {name: stats(timings[name], 1e3) for name in (*phases, "total")},
        "throughput": stats(timings["throughput"], 1.0),
        "breakdown_pct": {name: statistics.fmean(timings[name][warmup:]) / whole * 100 for name in phases},
        "num_steps": steps,
        "warmup_steps": warmup,
    }


def _write(report: Dict[str, Any], folder: str, say: bool) -> None:
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "deepspeed_profile_report.json"), "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2)
    if say:
        for name, stats in report["timing_ms"].items():
            print("%-10s %8.2f ms ± %.2f" % (name, stats["mean"], stats["std"]))
        print("throughput %8.1f samples/s" % report["throughput"]["mean"])
