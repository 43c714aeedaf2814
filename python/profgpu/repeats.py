"""gpu_profile and profile_repeats: a function under GpuMonitor, once or several times."""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from .monitor import NAN, GpuMonitor, GpuSummary

Report = Union[bool, Callable[[Any], Any]]


@dataclasses.dataclass(frozen=True)
class ProfiledResult:
    """What a function returned, and what the GPU did meanwhile."""

    value: Any
    gpu: GpuSummary


@dataclasses.dataclass(frozen=True)
class RunStats:
    """One number over several runs: those in which it is known. ``std`` is the sample's, NaN for fewer than two."""

    mean: float
    std: float
    min: float
    max: float
    values: Tuple[float, ...]

    @staticmethod
    def of(values: Sequence[float]) -> RunStats:
        known = [x for x in values if not math.isnan(x)]
        if not known:
            return RunStats(NAN, NAN, NAN, NAN, tuple(values))
        mean, std = math.fsum(known) / len(known), NAN
        if len(known) > 1:
            std = math.sqrt(math.fsum((x - mean) ** 2 for x in known) / (len(known) - 1))
        return RunStats(mean, std, min(known), max(known), tuple(values))

    def format(self, unit: str = "", digits: int = 1) -> str:
        """``87.3% ± 1.2%  (range 85.6%-89.1%)``"""

        def text(x: float) -> str:
            return "n/a" if math.isnan(x) else "%.*f%s" % (digits, x, unit)

        return "%s ± %s  (range %s-%s)" % (text(self.mean), text(self.std), text(self.min), text(self.max))


@dataclasses.dataclass(frozen=True)
class MultiRunResult:
    """Several runs: what the last one returned, each run's summary, and the most used numbers."""

    value: Any
    runs: Tuple[GpuSummary, ...]
    duration: RunStats
    util_gpu: RunStats
    power: RunStats
    energy: RunStats
    peak_memory: RunStats
    peak_temp: RunStats

    @staticmethod
    def from_runs(runs: Sequence[GpuSummary], value: Any) -> MultiRunResult:
        def of(field: str) -> RunStats:
            return RunStats.of([getattr(run, field) for run in runs])

        return MultiRunResult(
            value=value,
            runs=tuple(runs),
            duration=of("duration_s"),
            util_gpu=of("util_gpu_mean"),
            power=of("power_mean_w"),
            energy=of("energy_j"),
            peak_memory=of("mem_used_max_mb"),
            peak_temp=of("temp_max_c"),
        )

    def stats_for(self, field: str) -> RunStats:
        """Of any number that GpuSummary has."""
        return RunStats.of([getattr(run, field) for run in self.runs])

    def format(self) -> str:
        if not self.runs:
            return "(no runs)"
        lines = [
            "=== Multi-Run GPU Profile (%d runs) ===" % len(self.runs),
            "[GPU %s] %s" % (self.runs[0].device, self.runs[0].name),
            "  duration:  " + self.duration.format("s", 3),
            "  util.gpu:  " + self.util_gpu.format("%", 1),
            "  power:     " + self.power.format(" W", 1),
            "  energy:    " + self.energy.format(" J", 1),
            "  peak mem:  " + self.peak_memory.format(" MB", 0),
            "  peak temp: " + self.peak_temp.format(" °C", 0),
            "",
            "--- Per-Run util.gpu mean ---",
        ]
        for number, run in enumerate(self.runs, 1):
            busy = "n/a" if math.isnan(run.util_gpu_mean) else "%.1f%%" % run.util_gpu_mean
            lines.append("  run %d: %s  (%.3fs)" % (number, busy, run.duration_s))
        return "\n".join(lines)


def _check(repeats: int, warmup_runs: int) -> None:
    if repeats < 1:
        raise ValueError("repeats must be >= 1")
    if warmup_runs < 0:
        raise ValueError("warmup_runs must be >= 0")


def _say(report: Report, result: Any) -> None:
    if report is True:
        print(result.format())
    elif callable(report):
        report(result)


def _run(monitor: Callable[[], GpuMonitor], fn: Callable[[], Any], repeats: int, warmup_runs: int) -> MultiRunResult:
    summaries: List[GpuSummary] = []
    value: Any = None
    for _ in range(warmup_runs + repeats):
        with monitor() as mon:
            value = fn()
            if inspect.iscoroutine(value):
                value.close()
                raise ValueError("a coroutine does nothing until it is awaited: decorate an async function, or use asyncio.run(fn())")
        summaries.append(mon.stop())
    return MultiRunResult.from_runs(summaries[warmup_runs:], value)


async def _wait(monitor: Callable[[], GpuMonitor], fn: Callable[[], Any], repeats: int, warmup_runs: int) -> MultiRunResult:
    summaries: List[GpuSummary] = []
    value: Any = None
    for _ in range(warmup_runs + repeats):
        with monitor() as mon:
            value = await fn()
        summaries.append(mon.stop())
    return MultiRunResult.from_runs(summaries[warmup_runs:], value)


def gpu_profile(
    function: Optional[Callable[..., Any]] = None,
    *,
    device: Union[int, str] = 0,
    interval_s: float = 0.2,
    backend: str = "auto",
    strict: bool = False,
    sync_fn: Optional[Callable[[], Any]] = None,
    warmup_s: float = 0.0,
    store_samples: bool = False,
    report: Report = True,
    return_profile: bool = False,
    repeats: int = 1,
    warmup_runs: int = 0,
) -> Any:
    """Decorator: every call of the function is watched until it has returned, and reported.

    ``@gpu_profile`` and ``@gpu_profile()`` are the same.

    A coroutine is watched until it is done, a generator from its first item until it ends or is closed. Generators run once:
    ``repeats`` is not for them, and ``return_profile`` replaces the value of a ``yield from``, which asynchronous ones have not.

    ``report``: True prints, False says nothing, a function is called with the summary. With ``return_profile`` a call
    returns a ProfiledResult. With ``repeats`` above 1 a call runs the function ``warmup_runs + repeats`` times, and the
    result is a MultiRunResult. What the first seven arguments mean, GpuMonitor says.
    """
    _check(repeats, warmup_runs)

    def monitor() -> GpuMonitor:
        return GpuMonitor(device, interval_s, backend, strict, sync_fn, warmup_s, store_samples)

    warmup_runs = warmup_runs if repeats > 1 else 0

    def finish(result: MultiRunResult) -> Any:
        shown: Any = result if repeats > 1 else result.runs[0]
        _say(report, shown)
        if not return_profile:
            return result.value
        return result if repeats > 1 else ProfiledResult(result.value, result.runs[0])

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            if repeats > 1:
                raise ValueError("a generator runs once: repeats must be 1")
            if return_profile and inspect.isasyncgenfunction(fn):
                raise ValueError("an asynchronous generator returns nothing: pass a function as report")
            return _watched_generator(fn, monitor, finish)

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            return finish(_run(monitor, lambda: fn(*args, **kwargs), repeats, warmup_runs))

        @functools.wraps(fn)
        async def wait(*args: Any, **kwargs: Any) -> Any:
            return finish(await _wait(monitor, lambda: fn(*args, **kwargs), repeats, warmup_runs))

        waits = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(type(fn), "__call__", None))
        return wait if waits else call

    if function is None:
        return decorate
    if not callable(function):
        raise TypeError("gpu_profile takes its options by name, as gpu_profile(device=%r)" % (function,))
    return decorate(function)


def _watched_generator(
    fn: Callable[..., Any], monitor: Callable[[], GpuMonitor], finish: Callable[[MultiRunResult], Any]
) -> Callable[..., Any]:
    @functools.wraps(fn)
    def generate(*args: Any, **kwargs: Any) -> Any:
        mon, value = monitor(), None
        try:
            with mon:
                value = yield from fn(*args, **kwargs)
        except GeneratorExit:  # whoever asks has had enough
            finish(MultiRunResult.from_runs([mon.stop()], None))
            raise
        return finish(MultiRunResult.from_runs([mon.stop()], value))

    @functools.wraps(fn)
    async def generate_async(*args: Any, **kwargs: Any) -> Any:
        mon, items = monitor(), fn(*args, **kwargs)
        resume, value = items.asend, None
        try:
            with mon, contextlib.suppress(StopAsyncIteration):
                try:
                    while True:
                        item = await resume(value)
                        try:
                            resume, value = items.asend, (yield item)
                        except GeneratorExit:
                            raise
                        except BaseException as error:
                            resume, value = items.athrow, error
                finally:
                    await items.aclose()
        except GeneratorExit:
            finish(MultiRunResult.from_runs([mon.stop()], None))
            raise
        finish(MultiRunResult.from_runs([mon.stop()], None))

    return generate_async if inspect.isasyncgenfunction(fn) else generate


def profile_repeats(
    fn: Callable[[], Any],
    *,
    repeats: int = 5,
    warmup_runs: int = 0,
    device: Union[int, str] = 0,
    interval_s: float = 0.2,
    backend: str = "auto",
    strict: bool = False,
    sync_fn: Optional[Callable[[], Any]] = None,
    warmup_s: float = 0.0,
    store_samples: bool = False,
    report: Report = True,
) -> MultiRunResult:
    """Runs ``fn`` ``warmup_runs + repeats`` times, each under a GpuMonitor, and compares the last ``repeats``."""
    _check(repeats, warmup_runs)
    if inspect.iscoroutinefunction(fn):
        raise ValueError("nothing here awaits a coroutine: decorate it with gpu_profile(repeats=%d)" % max(2, repeats))

    def monitor() -> GpuMonitor:
        return GpuMonitor(device, interval_s, backend, strict, sync_fn, warmup_s, store_samples)

    result = _run(monitor, fn, repeats, warmup_runs)
    _say(report, result)
    return result
