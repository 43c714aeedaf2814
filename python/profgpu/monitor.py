"""GpuMonitor: watches a GPU while a block of code runs. Samples are taken by threads of the library, not of Python."""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import json
import math
import os
import sys
import time
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Type, Union

from . import _library, ranges
from .tables import Table

NAN = float("nan")
_MIB = float(1 << 20)
_BACKENDS = ("auto", "nvml", "smi", "none", "amdgpu", "intel")
_LEAST_INTERVAL_S, _MOST_INTERVAL_S = 0.001, 86400.0
_BLOCKS = "▁▂▃▄▅▆▇█"


class GpuBackendError(RuntimeError):
    """With ``strict=True``: no device could be watched, or one stopped answering."""


@dataclasses.dataclass(frozen=True)
class GpuSample:
    """What the device reported at one time; None if it did not."""

    t_s: float  #: seconds since the start
    util_gpu: Optional[float]  #: percent
    util_mem: Optional[float]  #: percent
    mem_used_mb: Optional[float]  #: MiB
    mem_total_mb: Optional[float]  #: MiB
    power_w: Optional[float]
    temp_c: Optional[float]
    sm_clock_mhz: Optional[float]
    mem_clock_mhz: Optional[float]
    age_s: Optional[float] = None  #: how long ``util_gpu`` had held by then: a driver's own period, at most two


@dataclasses.dataclass(frozen=True)
class GpuSummary:
    """Statistics over the watched time, weighted by time. What was never observed is NaN.

    The fields up to ``notes`` are the Python package's that this one replaces. ``energy_j`` and ``busy_time_est_s`` are
    estimates there, the mean times the time; what follows ``notes`` has the measured ones beside them, which are what
    ``profgpu run --json`` has under the names of the estimates.
    """

    device: Union[int, str]
    name: str
    duration_s: float
    interval_s: float
    n_samples: int
    util_gpu_mean: float
    util_gpu_std: float
    util_gpu_min: float
    util_gpu_max: float
    util_gpu_p5: float
    util_gpu_p50: float
    util_gpu_p95: float
    util_gpu_p99: float
    idle_pct: float  #: share of the time under 5 %
    active_pct: float  #: share of the time from 50 %
    util_mem_mean: float
    mem_used_mean_mb: float
    mem_used_max_mb: float
    mem_total_mb: float
    mem_util_pct: float  #: most memory used, of all there is
    power_mean_w: float
    power_max_w: float
    energy_j: float  #: estimate: mean power times the time after the warm-up
    temp_mean_c: float
    temp_max_c: float
    sm_clock_mean_mhz: float
    sm_clock_max_mhz: float
    busy_time_est_s: float  #: estimate: mean utilization times the time after the warm-up
    sparkline: str  #: utilization in 40 equal parts of the time, from 0 to 100 %
    notes: str
    energy_measured_j: float = NAN  #: by the board's counter, else integrated from the driver's power samples
    energy_method: str = ""  #: "counter", "integrated"; empty: not known
    busy_time_s: float = NAN  #: integrated from the driver's samples, over the time that was watched
    throttle_pct: Dict[str, float] = dataclasses.field(default_factory=dict)  #: share of the time, by reason
    phases: Dict[str, Dict[str, float]] = dataclasses.field(default_factory=dict)  #: by name of a range
    details: Dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)  #: all that the library says
    steps: int = 0  #: how many ``profgpu.step()`` or ``profgpu.watch()`` have begun
    step_s: float = NAN  #: mean time of a step, in seconds
    energy_per_step_j: float = NAN  #: of this GPU, by the board's counter if it has one; time between steps is left out

    def format(self) -> str:
        """A block of text for a person."""
        lines = [
            "[GPU %s] %s" % (self.device, self.name),
            "  duration: %s | samples: %d @ %s" % (_text(self.duration_s, "s", 3), self.n_samples, _text(self.interval_s, "s", 3)),
            _line("  util.gpu: ", "%", 1, mean=self.util_gpu_mean, std=self.util_gpu_std, min=self.util_gpu_min, max=self.util_gpu_max),
            _line(" " * 12, "%", 1, p5=self.util_gpu_p5, p50=self.util_gpu_p50, p95=self.util_gpu_p95, p99=self.util_gpu_p99),
            "            idle (<5%%) %s | active (≥50%%) %s" % (_text(self.idle_pct, "%", 1), _text(self.active_pct, "%", 1)),
            _line("  util.mem: ", "%", 1, mean=self.util_mem_mean),
        ]
        lines += self._memory_line()
        energy = {} if math.isnan(self.energy_j) else {"energy": _text(self.energy_j, " J", 1)}
        power = {"mean": _text(self.power_mean_w, " W", 1), "max": _text(self.power_max_w, " W", 1), **energy}
        lines.append("  power: " + " | ".join("%s %s" % item for item in power.items()))
        if not math.isnan(self.sm_clock_mean_mhz):
            most = "" if math.isnan(self.sm_clock_max_mhz) else " (max %s)" % _text(self.sm_clock_max_mhz, " MHz", 0)
            lines.append("  clocks: SM mean %s%s" % (_text(self.sm_clock_mean_mhz, " MHz", 0), most))
        lines.append(_line("  temp: ", " °C", 0, mean=self.temp_mean_c, max=self.temp_max_c))
        lines.append("  busy time (est): " + _text(self.busy_time_est_s, "s", 3))
        if self.steps:
            a_step = {"mean": _text(self.step_s, "s", 4), "energy": _text(self.energy_per_step_j, " J", 2)}
            lines.append("  steps: %d | " % self.steps + " | ".join("%s %s" % item for item in a_step.items()))
        if self.sparkline:
            lines.append("  util trace: " + self.sparkline)
        if self.notes:
            lines.append("  notes: " + self.notes)
        return "\n".join(lines)

    def _memory_line(self) -> List[str]:
        if all(math.isnan(x) for x in (self.mem_used_mean_mb, self.mem_used_max_mb, self.mem_total_mb)):
            return []
        line = _line("  memory: ", " MB", 0, mean=self.mem_used_mean_mb, max=self.mem_used_max_mb)
        if not math.isnan(self.mem_total_mb):
            line += " / total " + _text(self.mem_total_mb, " MB", 0)
            if not math.isnan(self.mem_util_pct):
                line += " (%s peak)" % _text(self.mem_util_pct, "%", 1)
        return [line]

    def metrics(self, prefix: str = "gpu/") -> Dict[str, float]:
        """Numbers by name, for trackers: those that are known, phases as ``gpu/phase/NAME/...``."""
        flat = {
            prefix + f.name: float(getattr(self, f.name))
            for f in dataclasses.fields(self)
            if f.name != "device" and (f.name != "steps" or self.steps) and isinstance(getattr(self, f.name), (int, float))
        }
        flat.update({"%sthrottle_pct/%s" % (prefix, reason): pct for reason, pct in self.throttle_pct.items()})
        for phase, numbers in self.phases.items():
            flat.update({"%sphase/%s/%s" % (prefix, phase, name): float(x) for name, x in numbers.items()})
        return {name: value for name, value in flat.items() if not math.isnan(value)}

    def _repr_html_(self) -> str:
        import html

        return "<pre>%s</pre>" % html.escape(self.format())


def _text(x: float, unit: str, digits: int) -> str:
    return "n/a" if math.isnan(x) else "%.*f%s" % (digits, x, unit)


def _line(head: str, unit: str, digits: int, **numbers: float) -> str:
    return head + " | ".join("%s %s" % (name, _text(x, unit, digits)) for name, x in numbers.items())


def _sparkline(trace: List[Optional[float]]) -> str:
    known = [x for x in trace if x is not None]
    if not known:
        return ""
    top = len(_BLOCKS) - 1
    return "".join(" " if x is None else _BLOCKS[min(top, max(0, round(x / 100 * top)))] for x in trace)


class Owned:
    """A profgpu_monitor, and whether it runs. Freed when its owner goes. ``make`` opens it, in a forked child again."""

    def __init__(self, owner: object, make: Callable[[], int]) -> None:
        self._make = make
        self._open()
        weakref.finalize(owner, self._free)

    def _open(self) -> None:
        self.handle, self.pid, self._running = self._make(), os.getpid(), False

    @property
    def here(self) -> bool:
        """A forked child has the memory, but not the threads: the monitor is its parent's."""
        return os.getpid() == self.pid

    def start(self) -> None:
        if not self.here:
            self._open()
        if not self._running:
            self._running = True
            _library.library().profgpu_monitor_start(self.handle)
            ranges.monitor_started(self.handle)

    def stop(self) -> None:
        if self.here and self._running:
            self._running = False
            ranges.monitor_stopped(self.handle)
            _library.library().profgpu_monitor_stop(self.handle)

    def problem(self) -> str:
        text: str = _library.library().profgpu_monitor_problem(self.handle).text()
        return text

    def devices(self) -> List[Dict[str, Any]]:
        """The results for each device so far."""
        if not self.here:
            return []
        devices: List[Dict[str, Any]] = json.loads(_library.take_text(_library.library().profgpu_monitor_summary(self.handle)))
        return devices

    def text(self) -> str:
        """The same as lines for a person."""
        return _library.take_text(_library.library().profgpu_monitor_summary_text(self.handle)) if self.here else ""

    def samples(self) -> Table:
        if not self.here:
            raise _library.ProfgpuError("the monitor's samples are with the process that started it")
        return Table(_library.library().profgpu_monitor_samples(self.handle))

    def _free(self) -> None:
        if self.here:
            self.stop()
            _library.library().profgpu_monitor_free(self.handle)


def open_monitor(
    devices: List[str], interval_s: float, backend: str, warmup_s: float = 0.0, keep_samples: int = 0
) -> int:
    """A profgpu_monitor for the caller to free. With no devices it watches those that the process can see."""
    names = [_library.given(device) for device in devices]
    options = _library.MonitorOptions()
    options.struct_size = ctypes.sizeof(options)
    options.devices = (_library.Given * len(names))(*names)
    options.device_count = len(names)
    options.interval_s = min(max(interval_s, _LEAST_INTERVAL_S), _MOST_INTERVAL_S)
    options.backend = _library.given(backend)
    options.warmup_s = warmup_s
    options.keep_samples = keep_samples
    handle: int = _library.library().profgpu_monitor_open(ctypes.byref(options))
    return handle


def own_device() -> str:
    """The GPU that this process uses: "cuda:N", counted as CUDA_VISIBLE_DEVICES leaves them.

    PyTorch's current device where it has a CUDA context, else that of LOCAL_RANK, or the only one that is visible.
    """
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_available() and cuda.is_initialized():
        return "cuda:%d" % cuda.current_device()
    rank = os.environ.get("LOCAL_RANK", "0")
    visible = os.environ.get("HIP_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    fits = rank.isdigit() and (visible is None or int(rank) < len(visible.split(",")))
    return "cuda:" + (rank if fits else "0")


def check_backend(backend: str) -> str:
    """As the library takes it; a ValueError where there is none of that name."""
    if backend.lower() in _BACKENDS:
        return backend.lower()
    if backend.lower().startswith("replay:"):
        return "replay" + backend[len("replay") :]
    raise ValueError("backend must be one of: %s, replay:FILE" % ", ".join(_BACKENDS))


class GpuMonitor:
    """Samples one GPU in the background while a block runs.

    >>> with GpuMonitor(backend="none") as mon:
    ...     pass
    >>> mon.summary.name
    'N/A'

    Args:
        device: index as nvidia-smi numbers it; or a UUID, PCI id or "cuda:N".
        interval_s: between two samples, 0.001 at least.
        backend: auto, nvml, smi, amdgpu, intel, replay:FILE, none.
        strict: raise GpuBackendError where no device can be watched, or where one stops answering.
        sync_fn: called at the start and the end, so that queued work counts to where it belongs: torch.cuda.synchronize.
        warmup_s: what comes before is left out of the summary.
        store_samples: keep the newest ``max_samples`` for ``samples``.
        reservoir_size, trace_len: accepted and not needed; percentiles are of all samples.

    It may be entered again, and then begins anew.
    """

    def __init__(
        self,
        device: Union[int, str] = 0,
        interval_s: float = 0.2,
        backend: str = "auto",
        strict: bool = False,
        sync_fn: Optional[Callable[[], Any]] = None,
        warmup_s: float = 0.0,
        store_samples: bool = False,
        max_samples: int = 50_000,
        reservoir_size: int = 4096,
        trace_len: int = 200,
    ) -> None:
        if not interval_s > 0:
            raise ValueError("interval_s must be > 0")
        if store_samples and max_samples < 100:
            raise ValueError("max_samples must be >= 100 with store_samples")
        self.device = device
        self.interval_s = float(interval_s)
        self.backend = check_backend(backend)
        self.strict = bool(strict)
        self.sync_fn = sync_fn
        self.warmup_s = max(0.0, float(warmup_s))
        self.store_samples = bool(store_samples)
        self.max_samples = int(max_samples)
        #: None until the monitor has stopped
        self.summary: Optional[GpuSummary] = None
        kept = self.max_samples if store_samples else 0
        make = functools.partial(open_monitor, [str(device)], self.interval_s, self.backend, self.warmup_s, kept)
        self._owned = Owned(self, make)
        self._running = False
        self._started = self._stopped = 0.0
        problem = self._owned.problem()
        if problem and self.strict and self.backend != "none":
            raise GpuBackendError("no GPU can be watched: " + problem)

    @property
    def running(self) -> bool:
        """Whether it samples now, in this process."""
        return self._running and self._owned.here

    def __enter__(self) -> GpuMonitor:
        if self.running:
            raise RuntimeError("this monitor is running already: use another for a part of the block")
        self._sync()
        self._started = time.perf_counter()
        self.summary = None
        self._running = True
        self._owned.start()
        return self

    start = __enter__

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        try:
            self._sync()
        finally:
            try:
                self.stop()
            except GpuBackendError:
                if kind is None:  # else the block's own error is what went wrong
                    raise

    def _sync(self) -> None:
        if self.sync_fn is not None:
            with contextlib.suppress(Exception):
                self.sync_fn()

    def mark(self, name: str) -> None:
        """From now on is phase ``name``, until the next mark, the next range, or the end."""
        if self._owned.here:
            _library.library().profgpu_monitor_mark(self._owned.handle, _library.given(name))

    def stop(self) -> GpuSummary:
        """Stops and returns the summary; again, the same summary."""
        if not self._running and self.summary is not None:
            return self.summary
        if self._running:
            self._stopped = time.perf_counter()
        self._running = False
        self._owned.stop()
        self.summary = self._summarize(self._stopped)
        troubles = self.summary.details.get("troubles")
        if self.strict and troubles:
            raise GpuBackendError("sampling failed: " + "; ".join(troubles))
        return self.summary

    def snapshot(self) -> GpuSummary:
        """The summary so far, while it runs."""
        return self._summarize(time.perf_counter() if self._running else self._stopped)

    @property
    def samples(self) -> List[GpuSample]:
        """With ``store_samples``: the newest ``max_samples``, the oldest first.

        What changes slowly (memory, temperature, clocks) is not asked in every sample: it is the value before. So is
        ``util_gpu`` where the interval is shorter than the driver's own period.
        """
        if not self.store_samples:
            return []
        table = self.table()
        total = self._details().get("constants", {}).get("memory_total_bytes")
        columns = [table.to_list("t_s")]
        for metric, scale in _SAMPLED:
            columns.append(_filled(table.to_list(metric), scale) if metric in table else [None] * len(table))
        columns.insert(4, [total / _MIB if total is not None else None] * len(table))
        columns.append([None if age != age else age for age in table.to_list("utilization_age_s")])
        return [GpuSample(*row) for row in zip(*columns)]

    def table(self) -> Table:
        """The stored samples with every metric that the device has, as columns. See ``Table``."""
        return self._owned.samples()

    def _details(self) -> Dict[str, Any]:
        devices = self._owned.devices()
        return devices[0] if devices else {}

    def _notes(self, details: Dict[str, Any]) -> str:
        problem = self._owned.problem()
        notes = [problem] if problem else []
        if self.warmup_s > 0:
            notes.append("warmup ignored: first %.2fs" % self.warmup_s)
        if self.interval_s < _LEAST_INTERVAL_S:
            notes.append("sampled every %g s, the least there is" % _LEAST_INTERVAL_S)
        return " | ".join(notes + details.get("notes", []))

    def _summarize(self, until: float) -> GpuSummary:
        d = self._details()
        duration_s = max(0.0, until - self._started)
        watched_s = max(0.0, duration_s - self.warmup_s)

        def of(metric: str, what: str, scale: float = 1.0) -> float:
            value = d.get("metrics", {}).get(metric, {}).get(what)
            return NAN if value is None else value / scale

        util, power = of("utilization_pct", "mean"), of("power_w", "mean")
        memory_total = d.get("constants", {}).get("memory_total_bytes", NAN) / _MIB
        memory_max = of("memory_used_bytes", "max", _MIB)
        steps = d.get("steps", {})
        count = steps.get("count", 0)
        device = self.device
        if str(device).startswith("cuda:") and d.get("device"):  # as nvidia-smi numbers it
            device = int(d["device"]) if d["device"].isdigit() else d["device"]
        return GpuSummary(
            device=device,
            name=d.get("name") or "N/A",
            duration_s=duration_s,
            interval_s=self.interval_s,
            n_samples=d.get("readings", 0),
            util_gpu_mean=util,
            util_gpu_std=of("utilization_pct", "stddev"),
            util_gpu_min=of("utilization_pct", "min"),
            util_gpu_max=of("utilization_pct", "max"),
            util_gpu_p5=d.get("utilization_p5", NAN),
            util_gpu_p50=d.get("utilization_p50", NAN),
            util_gpu_p95=d.get("utilization_p95", NAN),
            util_gpu_p99=d.get("utilization_p99", NAN),
            idle_pct=d.get("idle_pct", NAN),
            active_pct=d.get("active_pct", NAN),
            util_mem_mean=of("memory_utilization_pct", "mean"),
            mem_used_mean_mb=of("memory_used_bytes", "mean", _MIB),
            mem_used_max_mb=memory_max,
            mem_total_mb=memory_total,
            mem_util_pct=100 * memory_max / memory_total if memory_total > 0 else NAN,
            power_mean_w=power,
            power_max_w=of("power_w", "max"),
            energy_j=power * watched_s,
            temp_mean_c=of("temperature_c", "mean"),
            temp_max_c=of("temperature_c", "max"),
            sm_clock_mean_mhz=of("sm_clock_mhz", "mean"),
            sm_clock_max_mhz=of("sm_clock_mhz", "max"),
            busy_time_est_s=watched_s * util / 100,
            sparkline=_sparkline(d.get("trace", [])),
            notes=self._notes(d),
            energy_measured_j=d.get("energy_j", NAN),
            energy_method=d.get("energy_method", ""),
            busy_time_s=d.get("busy_s", NAN),
            throttle_pct=d.get("throttle_pct", {}),
            phases={p["name"]: {k: v for k, v in p.items() if k != "name"} for p in d.get("phases", [])},
            details=d,
            steps=count,
            step_s=steps["duration_s"] / count if count else NAN,
            energy_per_step_j=steps.get("energy_j", NAN) / count if count else NAN,
        )


# GpuSample's metrics in order, memory_total aside.
_SAMPLED = (
    ("utilization_pct", 1.0),
    ("memory_utilization_pct", 1.0),
    ("memory_used_bytes", _MIB),
    ("power_w", 1.0),
    ("temperature_c", 1.0),
    ("sm_clock_mhz", 1.0),
    ("memory_clock_mhz", 1.0),
)


def _filled(values: List[float], scale: float) -> List[Optional[float]]:
    filled: List[Optional[float]] = []
    last: Optional[float] = None
    for value in values:
        if value == value:
            last = value / scale
        filled.append(last)
    return filled


def __getattr__(name: str) -> Any:
    """The package that this one replaces has these here, too."""
    if name in ("MultiRunResult", "ProfiledResult", "RunStats", "gpu_profile", "profile_repeats"):
        from . import repeats

        return getattr(repeats, name)
    raise AttributeError("module 'profgpu.monitor' has no attribute %r" % name)
