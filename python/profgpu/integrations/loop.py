"""What the callbacks share: steps and phases that a library announces one by one, a monitor, and metrics of both."""
from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Tuple

from .. import ranges
from ..monitor import GpuMonitor, own_device


class Loop:
    """Steps and phases by their begin and end. ``monitor``: True watches the GPU that the process uses when it starts,
    None or False none."""

    def __init__(self, monitor: Any) -> None:
        self._own, self._starts = monitor is True, False
        self.monitor: Optional[GpuMonitor] = None if self._own else monitor or None
        self._open: List[Tuple[str, float, Any]] = []
        self._steps: List[float] = []
        self._spent: Dict[str, float] = {}

    def start(self) -> None:
        if self._own:
            self.monitor, self._own = GpuMonitor(own_device()), False
        # One that runs already is someone else's to stop.
        self._starts = self.monitor is not None and not self.monitor.running
        if self.monitor is not None and self._starts:
            self.monitor.start()

    def stop(self) -> None:
        while self._open:
            self.end(self._open[-1][0])
        if self.monitor is not None and self._starts:
            self.monitor.stop()

    def begin(self, name: str, number: Optional[int] = None) -> None:
        if any(opened == name for opened, _, _ in self._open):
            self.end(name)  # its end was not announced: an exception, a skipped batch
        opened = ranges.step(number) if name == "step" else ranges.phase(name)
        opened.__enter__()
        self._open.append((name, time.perf_counter(), opened))

    def end(self, name: str) -> None:
        if not any(opened == name for opened, _, _ in self._open):
            return
        while True:
            ended, start, opened = self._open.pop()
            opened.__exit__(None, None, None)
            took = time.perf_counter() - start
            if ended == "step":
                self._steps.append(took)
            else:
                self._spent[ended] = self._spent.get(ended, 0.0) + took
            if ended == name:
                return

    def metrics(self, prefix: str = "profgpu/") -> Dict[str, float]:
        """For the steps since the last call: step_s, seconds per step of each phase (on the host), and what the GPU did so far."""
        flat: Dict[str, float] = {}
        if self._steps:
            flat[prefix + "step_s"] = sum(self._steps) / len(self._steps)
            flat.update({prefix + name + "_s": spent / len(self._steps) for name, spent in self._spent.items()})
        self._steps, self._spent = [], {}
        if self.monitor is not None:
            summary = self.monitor.snapshot()
            if summary.n_samples:
                flat.update(summary.metrics(prefix + "gpu/"))
        return flat
