"""How the guide's helpers take times, move data and call models: by the device that the work runs on."""
from __future__ import annotations

import dataclasses
import inspect
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
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        given = [field.name for field in dataclasses.fields(batch) if field.init]
        return dataclasses.replace(batch, **{name: moved(getattr(batch, name), device) for name in given})
    return batch


_LABELS = ("labels", "label", "targets", "target", "y")


def labels_of(batch: Any) -> Any:
    """What a batch is compared with: the second of a pair, or a member named labels, label, targets, target or y. None:
    there is none."""
    if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields"):
        return batch[1] if len(batch) == 2 else None
    for name in _LABELS:
        value = batch.get(name) if hasattr(batch, "keys") else getattr(batch, name, None)
        if value is not None:
            return value
    return None


def _members(batch: Any) -> Dict[str, Any]:
    if hasattr(batch, "keys"):
        return {str(key): batch[key] for key in batch.keys()}
    if hasattr(batch, "_fields"):
        return dict(zip(batch._fields, batch))
    return {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}


def _parameters_of(model: Any) -> List[inspect.Parameter]:
    """Of forward. DDP, FSDP and DeepSpeed's engine take anything, and pass it on to their module."""
    taken = list(inspect.signature(getattr(model, "forward", model)).parameters.values())
    inner = getattr(model, "module", None)
    if inner is not None and any(p.kind == p.VAR_KEYWORD for p in taken):
        return _parameters_of(inner)
    return taken


def outputs_of(model: Any, batch: Any) -> Any:
    """Calls a model with a batch: with the first of a pair; with the members of a dict or dataclass by name where the model
    takes them, its labels only if it takes these, too; with a member that is the only one beside the labels; otherwise
    with the batch as it is."""
    if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields"):
        return model(batch[0])
    if not (hasattr(batch, "keys") or hasattr(batch, "_fields") or dataclasses.is_dataclass(batch)):
        return model(batch)
    members = _members(batch)
    others = {name: value for name, value in members.items() if name not in _LABELS}
    inputs = {name: value for name, value in others.items() if hasattr(value, "to")} or others  # no notes, no ids
    taken = _parameters_of(model)
    names = {p.name for p in taken if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_any = any(p.kind == p.VAR_KEYWORD for p in taken)
    if takes_any or names.issuperset(inputs):
        return model(**{name: value for name, value in members.items() if takes_any or name in names})
    return model(next(iter(inputs.values()))) if len(inputs) == 1 else model(batch)


def batch_loss(model: Any, batch: Any, criterion: Any = None) -> Any:
    """The loss of a batch: ``criterion(outputs, labels)``; without a criterion or without labels, the model's own."""
    outputs, labels = outputs_of(model, batch), labels_of(batch)
    if criterion is None or (labels is None and loss_of(outputs) is not outputs):
        return loss_of(outputs)
    if labels is None:
        raise ValueError("a batch of %s has no labels for criterion; expected a pair, or a member named %s"
                         % (type(batch).__name__, ", ".join(_LABELS)))  # fmt: skip
    return criterion(outputs, labels)


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
