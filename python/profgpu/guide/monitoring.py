"""GPUMonitor: every GPU of the process, as the guide's two classes of that name have it."""
from __future__ import annotations

import functools
import json
import threading
import time
from typing import Any, Dict, List, Optional, Union

from ..monitor import Owned, check_backend, open_monitor

_KEPT = 1024  # samples of all devices: enough for the last one of each
_STALE_S = 3.0  # a device that has said nothing for so long, and for five intervals, says nothing

# The guide's names: metric, name in get_metrics(), what is divided by.
_METRICS = (
    ("utilization_pct", "gpu_util_pct", 1.0),
    ("memory_utilization_pct", "memory_util_pct", 1.0),
    ("memory_used_bytes", "memory_used_gb", 1e9),
    ("power_w", "power_w", 1.0),
    ("temperature_c", "temperature_c", 1.0),
)


def _gpu_id(device: Dict[str, Any]) -> Union[int, str]:
    name: str = device["device"]
    return int(name) if name.isdigit() else name


class Summary(Dict[str, Any]):
    """A dict that prints as a few lines a GPU."""

    text = ""

    def __str__(self) -> str:
        return self.text


class GPUMonitor:
    """Watches all GPUs that the process can see: as a context manager, or for a log.

        with GPUMonitor() as monitor:
            train()
        print(monitor.get_summary())
    """

    def __init__(self, interval_s: float = 0.2, backend: str = "auto") -> None:
        self._owned = Owned(self, functools.partial(open_monitor, [], interval_s, check_backend(backend), 0.0, _KEPT))
        self._interval_s = interval_s
        self._known: List[Dict[str, Any]] = []  # devices with names and constants
        self._running = False
        self._log: Optional[threading.Thread] = None
        self._log_ends = threading.Event()
        #: why no GPU is watched; empty: some are
        self.problem = self._owned.problem()

    def __enter__(self) -> GPUMonitor:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def start(self) -> None:
        self._running = True
        self._owned.start()

    def stop(self) -> None:
        self._running = False
        self._owned.stop()

    @property
    def summary(self) -> Summary:
        """So far: ``duration_s`` and, for each GPU, means, peaks and energy; unknown values are left out."""
        gpus = []
        for d in self._owned.devices():
            metrics = d["metrics"]
            gpu: Dict[str, Any] = {"gpu_id": _gpu_id(d), "name": d["name"]}
            for metric, name, scale in _METRICS:
                for what in ("mean", "max"):
                    if what in metrics.get(metric, {}):
                        gpu["%s_%s" % (name, what)] = metrics[metric][what] / scale
            for name in ("energy_j", "energy_method", "busy_s", "idle_pct"):
                if d.get(name, "") != "":
                    gpu[name] = d[name]
            gpus.append(gpu)
        summary = Summary(duration_s=max((d["duration_s"] for d in self._owned.devices()), default=0.0), gpus=gpus)
        summary.text = self._owned.text() or "no GPU is watched: " + (self.problem or "the monitor has not started")
        return summary

    def get_summary(self) -> Summary:
        return self.summary

    def get_metrics(self) -> List[Dict[str, Any]]:
        """The present readings of each GPU, by the guide's names. What a GPU does not report is None."""
        was_running = self._running
        self.start()
        try:
            devices, latest = self._devices(), self._latest()
            until = time.monotonic() + 2
            while not self.problem and (not devices or len(latest) < len(devices)) and time.monotonic() < until:
                time.sleep(0.005)
                devices, latest = self._devices(), self._latest()
        finally:
            if not was_running:
                self.stop()
        return [self._now(d, latest.get(place, {})) for place, d in enumerate(devices)]

    def _devices(self) -> List[Dict[str, Any]]:
        """A summary takes milliseconds; who they are stays."""
        if not self._known:
            devices = self._owned.devices()
            if not self._latest().keys() >= set(range(len(devices))):
                return devices
            self._known = devices
        return self._known

    @staticmethod
    def _now(device: Dict[str, Any], latest: Dict[str, float]) -> Dict[str, Any]:
        total = device["constants"].get("memory_total_bytes")
        now: Dict[str, Any] = {"gpu_id": _gpu_id(device)}
        for metric, name, scale in _METRICS:
            now[name] = latest[metric] / scale if metric in latest else None
        now["memory_total_gb"] = total / 1e9 if total is not None else None
        return now

    def _latest(self) -> Dict[int, Dict[str, float]]:
        """By place of the device: the last value of each metric; none of a device that answers no more."""
        table = self._owned.samples()
        latest: Dict[int, Dict[str, float]] = {}
        times: Dict[int, int] = {}
        names = [metric for metric, _, _ in _METRICS if metric in table]
        for row in zip(table.to_list("device"), table.to_list("time_ns"), *[table.to_list(name) for name in names]):
            device = latest.setdefault(row[0], {})
            device.update({name: value for name, value in zip(names, row[2:]) if value == value})
            times[row[0]] = row[1]
        since_ns = time.time_ns() - int(max(_STALE_S, 5 * self._interval_s) * 1e9)
        return {device: values if times[device] >= since_ns else {} for device, values in latest.items()}

    def start_logging(self, interval_sec: float = 1.0, output_file: str = "gpu_metrics.jsonl") -> None:
        """A line of JSON a GPU every ``interval_sec``, until stop_logging()."""
        if self._log is not None:
            raise RuntimeError("a log is being written already")
        self.start()
        file = open(output_file, "w", encoding="utf-8")
        self._log_ends.clear()

        def write() -> None:
            due = time.monotonic()
            with file:
                while True:
                    now = time.time()
                    file.writelines(json.dumps({**metrics, "timestamp": now}) + "\n" for metrics in self.get_metrics())
                    file.flush()
                    due = max(due + interval_sec, time.monotonic())
                    if self._log_ends.wait(due - time.monotonic()):
                        return

        self._log = threading.Thread(target=write, name="profgpu log", daemon=True)
        self._log.start()

    def stop_logging(self) -> None:
        if self._log is not None:
            self._log_ends.set()
            self._log.join()
            self._log = None
            self.stop()
