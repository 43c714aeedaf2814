"""How the guide's helpers take times and move data: by the device that the work runs on."""
from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Tuple

from .. import ranges
from ..timing import cuda_in_use


def device_of(model: Any) -> Any:
    """Where a module's parameters are; without any, the GPU if there is one."""
    import torch

    for tensor in model.parameters() if hasattr(model, "parameters") else ():
        return tensor.device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def moved(batch: Any, device: Any) -> Any:
    """The same batch with its tensors on the device; copies from pinned memory do not wait."""
    if hasattr(batch, "to"):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: moved(value, device) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        items = [moved(value, device) for value in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    return batch


def loss_of(outputs: Any) -> Any:
    """The loss among what a model returns: its attribute or key `loss`, else the output itself."""
    if isinstance(outputs, dict) and "loss" in outputs:
        return outputs["loss"]
    return getattr(outputs, "loss", outputs)


class PhaseTimes:
    """Times of phases, in order. On a GPU a phase lasts from when its first work may start on the current stream to when its
    last is done, by events; nothing waits for the GPU meanwhile. Phases of the host alone are timed by the wall clock."""

    def __init__(self) -> None:
        self._done: Dict[str, List[float]] = {}
        self._pending: List[Tuple[str, Any, Any]] = []

    def phase(self, name: str, on_host: bool = False) -> TimedPhase:
        return TimedPhase(self, name, on_host)

    def add(self, name: str, seconds: float) -> None:
        self._done.setdefault(name, []).append(seconds)

    def add_events(self, name: str, start: Any, end: Any) -> None:
        self._pending.append((name, start, end))

    def seconds(self) -> Dict[str, List[float]]:
        """All so far. Waits for the GPU where events are pending."""
        if self._pending:
            self._pending[-1][2].synchronize()
        for name, start, end in self._pending:
            end.synchronize()
            self.add(name, start.elapsed_time(end) / 1e3)
        self._pending.clear()
        return self._done


class TimedPhase:
    def __init__(self, times: PhaseTimes, name: str, on_host: bool) -> None:
        self._times, self._name, self._on_host = times, name, on_host
        self._start: Optional[Any] = None
        self._begin = 0.0

    def __enter__(self) -> TimedPhase:
        self._range = ranges.phase(self._name)
        self._range.__enter__()
        torch = None if self._on_host else cuda_in_use()
        if torch is not None:
            self._start = torch.cuda.Event(enable_timing=True)
            self._start.record()
        self._begin = time.perf_counter()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._start is not None:
            torch = cuda_in_use()
            end = torch.cuda.Event(enable_timing=True)
            end.record()
            self._times.add_events(self._name, self._start, end)
        else:
            self._times.add(self._name, time.perf_counter() - self._begin)
        self._range.__exit__(None, None, None)
