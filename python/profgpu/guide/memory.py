"""Memory over the phases of a step. On a GPU it is PyTorch's allocator's; without one, the process's resident memory."""
from __future__ import annotations

import gc
import itertools
import os
import resource
import statistics
from typing import Any, Callable, Dict, Iterable, List, Optional

from .. import _allocator, _library, ranges
from ..timing import synchronize
from .clocks import PhaseTimes, batch_loss, device_of, loss_of, moved, outputs_of

_GB = 1e9


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _cuda() -> Any:
    import torch

    return torch.cuda if torch.cuda.is_available() else None


def _memory_gb() -> Dict[str, float]:
    cuda = _cuda()
    if cuda is None:
        return {"allocated_gb": _resident_bytes() / _GB}
    return {
        "allocated_gb": cuda.memory_allocated() / _GB,
        "reserved_gb": cuda.memory_reserved() / _GB,
        "peak_gb": cuda.max_memory_allocated() / _GB,
    }


def _reset_peak() -> None:
    cuda = _cuda()
    if cuda is not None:
        cuda.reset_peak_memory_stats()


class Memory(Dict[str, Any]):
    """A dict that prints as one line."""

    def __str__(self) -> str:
        return ", ".join("%s %.3f" % item if isinstance(item[1], float) else "%s %s" % item for item in self.items())


def memory_summary(device: Any = None) -> Memory:
    """Gigabytes that are allocated, reserved (the allocator's cache with it), the peak, free and there in all."""
    cuda = _cuda()
    if cuda is None:
        return Memory(of="host process", allocated_gb=_resident_bytes() / _GB)
    free, total = cuda.mem_get_info(device)
    return Memory(
        of=cuda.get_device_name(device),
        allocated_gb=cuda.memory_allocated(device) / _GB,
        reserved_gb=cuda.memory_reserved(device) / _GB,
        peak_gb=cuda.max_memory_allocated(device) / _GB,
        free_gb=free / _GB,
        total_gb=total / _GB,
    )


def memory_timeline(
    model: Any,
    dataloader: Iterable[Any],
    num_steps: int = 10,
    *,
    criterion: Optional[Callable[[Any, Any], Any]] = None,
    optimizer: Any = None,
) -> List[Dict[str, Any]]:
    """Trains ``num_steps`` steps, and returns a row after each phase: step, phase, allocated_gb, on a GPU reserved_gb and
    peak_gb (the most within that phase).

    A batch is a pair (inputs, labels), a dict, a named tuple or a dataclass, as PipelineProfiler takes it. Without
    ``criterion`` the loss is the output's own, or the sum of the output.
    """
    rows: List[Dict[str, Any]] = []
    device = device_of(model)

    def note(step: int, phase: str) -> None:
        rows.append({"step": step, "phase": phase, **_memory_gb()})
        _reset_peak()

    for step, batch in enumerate(itertools.islice(dataloader, num_steps)):
        note(step, "start")
        batch = moved(batch, device)
        note(step, "after_transfer")
        with ranges.phase("forward"):
            loss = batch_loss(model, batch, criterion)
        note(step, "after_forward")
        with ranges.phase("backward"):
            (loss if loss.dim() == 0 else loss.sum()).backward()
        note(step, "after_backward")
        if optimizer is not None:
            with ranges.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
        del loss
        note(step, "after_step")
    return rows


def find_memory_leaks(
    model: Any,
    dataloader: Iterable[Any],
    num_steps: int = 100,
    *,
    step_fn: Optional[Callable[[Any], Any]] = None,
    optimizer: Any = None,
    warmup: int = 5,
    report: bool = True,
) -> Dict[str, Any]:
    """Runs steps and says whether memory grows with them, beyond the warm-up: leak, growth_mb, growth_mb_per_step, steps.

    Growth per step is the median of the slopes between the first and the second half's steps, so that a single allocation
    is none. It is a leak where it would come to more than 1 MB in 100 steps (10 MB of a host process, whose memory is
    coarser), and the last third uses more than the middle one. ``leak`` is None where there are no three steps beyond the
    warm-up. ``step_fn(batch)`` replaces the step of its own.
    """
    device, used = device_of(model), []
    for batch in itertools.islice(dataloader, warmup + num_steps):
        if step_fn is not None:
            step_fn(batch)
        else:
            loss_of(outputs_of(model, moved(batch, device))).sum().backward()
            if optimizer is not None:
                optimizer.step()
            model.zero_grad()
        gc.collect()
        synchronize()
        used.append(_memory_gb()["allocated_gb"] * 1e3)
    used = used[warmup:]
    half, third = len(used) // 2, len(used) // 3
    slopes = [(b - a) / half for a, b in zip(used[:half], used[len(used) - half :])] if half else [0.0]
    per_step = statistics.median(slopes) * half / max(1, len(used) - half)
    limit = 0.01 if _cuda() is not None else 0.1
    grows = third > 0 and min(used[-third:]) > max(used[third : 2 * third]) - limit
    found: Dict[str, Any] = {
        "leak": (per_step > limit and grows) if third else None,
        "growth_mb": used[-1] - used[0] if used else 0.0,
        "growth_mb_per_step": per_step,
        "steps": len(used),
    }
    if report:
        print("%s (%d steps, %.2f MB from the first to the last)" % (_verdict(found), len(used), found["growth_mb"]))
    return found


def _verdict(found: Dict[str, Any]) -> str:
    if found["leak"] is None:
        return "too few steps after the warm-up to say whether memory grows"
    return "memory grows by %.3f MB a step" % found["growth_mb_per_step"] if found["leak"] else "memory does not grow with the steps"


class MemorySnapshot:
    """A written snapshot; as a context manager, one of what the block allocates."""

    def __init__(self, path: str, max_entries: int) -> None:
        self.path, self._max_entries, self._began = path, max_entries, False

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __enter__(self) -> str:
        import torch

        self._began = _allocator.begin(torch, self._max_entries, "all")
        return self.path

    def __exit__(self, *error: Any) -> None:
        import torch

        try:
            _allocator.write(torch, self.path)
        finally:
            if self._began:
                _allocator.end(torch)


def capture_memory_snapshot(
    output_path: str = "memory_snapshot.pickle", max_entries: int = 100_000
) -> MemorySnapshot:
    """Writes what PyTorch's allocator holds on GPUs now, for ``profgpu analyze`` or pytorch.org/memory_viz.

    ``with capture_memory_snapshot("x.pickle"):`` also records what the block allocates, with stacks, at most the newest
    ``max_entries`` events, and writes the file again when the block ends, also where it raises. ProfgpuError without a GPU.
    """
    if _cuda() is None:
        raise _library.ProfgpuError("a memory snapshot is of a GPU's allocator, and there is no GPU")
    import torch

    torch.cuda.init()
    _allocator.write(torch, output_path)
    return MemorySnapshot(output_path, max_entries)


def _phased(phases: Dict[str, Callable[[], Any]]) -> Dict[str, Dict[str, float]]:
    """Runs phases one after the other: ms, and on a GPU what the phase changed and its peak, in GB."""
    times, memory = PhaseTimes(), {}
    for name, run in phases.items():
        _reset_peak()
        before = _memory_gb()
        with times.phase(name):
            run()
        synchronize()
        after = _memory_gb()
        memory[name] = {"change_gb": after["allocated_gb"] - before["allocated_gb"], **after}
    return {name: {"ms": took[-1] * 1e3, **memory[name]} for name, took in times.seconds().items()}


def profile_fsdp_memory(
    model: Any, inputs: Any, loss_fn: Optional[Callable[[Any], Any]] = None
) -> Dict[str, Dict[str, float]]:
    """Time and memory of a forward and a backward, by phase. Where parameters are gathered shows in peak_gb, not in what is
    left after the phase. ``inputs``: a tensor, or a batch as PipelineProfiler takes it."""
    kept: Dict[str, Any] = {}

    def forward() -> None:
        outputs = outputs_of(model, moved(inputs, device_of(model)))
        kept["loss"] = loss_fn(outputs) if loss_fn is not None else loss_of(outputs)

    def backward() -> None:
        loss = kept.pop("loss")
        (loss if loss.dim() == 0 else loss.sum()).backward()

    return _phased({"forward": forward, "backward": backward})


def profile_zero_stage(model_engine: Any, batch: Any, stage: int) -> Dict[str, Dict[str, float]]:
    """Time and memory of a DeepSpeed engine's forward, backward and step, as ranges ``ZeRO-STAGE_forward`` and so on.
    ``batch``: a tensor, or a batch as PipelineProfiler takes it."""
    kept: Dict[str, Any] = {}
    name = "ZeRO-%d_" % stage

    def forward() -> None:
        kept["loss"] = loss_of(outputs_of(model_engine, batch))

    return _phased(
        {
            name + "forward": forward,
            name + "backward": lambda: model_engine.backward(kept.pop("loss")),
            name + "step": lambda: model_engine.step(),
        }
    )
