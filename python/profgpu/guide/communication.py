"""Communication of data-parallel training: how long a step waits for it, and how fast collectives are."""
from __future__ import annotations

import contextlib
import os
import socket
import statistics
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from .. import _library, ranges
from ..timing import Clock, cuda_in_use, synchronize
from .clocks import device_of, loss_of

_BUCKET_BYTES = 25 << 20  # of DistributedDataParallel


@contextlib.contextmanager
def _as_before(model: Any) -> Iterator[None]:
    """Restores what a pass changes besides its outputs: gradients, buffers, random numbers."""
    import torch

    parameters = list(model.parameters())
    gradients = [p.grad for p in parameters]
    buffers = [b.clone() for b in model.buffers()]
    torch_now = cuda_in_use()
    devices = [torch_now.cuda.current_device()] if torch_now is not None else []
    for p in parameters:
        p.grad = None
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        with torch.no_grad():
            for buffer, kept in zip(model.buffers(), buffers):
                buffer.copy_(kept)
        for p, gradient in zip(parameters, gradients):
            p.grad = gradient


def _is_sharded(model: Any) -> bool:
    """Whether it is an FSDP module, of the first or the second kind."""
    fsdp = sys.modules.get("torch.distributed.fsdp")  # else nobody has made one
    is_first = fsdp is not None and isinstance(model, fsdp.FullyShardedDataParallel)
    return is_first or hasattr(model, "set_requires_gradient_sync")


def _can_be_silent(model: Any) -> bool:
    return hasattr(model, "no_sync") or hasattr(model, "set_requires_gradient_sync")


@contextlib.contextmanager
def _silent(model: Any) -> Iterator[None]:
    """Passes leave gradients as each rank has them."""
    if hasattr(model, "no_sync"):
        with model.no_sync():
            yield
    elif hasattr(model, "set_requires_gradient_sync"):  # FSDP2
        model.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            model.set_requires_gradient_sync(True)
    else:
        yield


def _pass(model: Any, batch: Any) -> Any:
    loss = loss_of(model(batch))
    loss = loss if loss.dim() == 0 else loss.sum()
    loss.backward()
    return loss


class CommTimer:
    """What the communication of gradients adds to the steps of a DistributedDataParallel or FSDP model.

    profile_step() makes each pass twice: once without communication, whose effects are undone, and then the real one. The
    difference is the communication that the backward does not hide. All ranks have to call it. FSDP gathers parameters in
    both passes: that counts as computation here.
    """

    def __init__(self) -> None:
        self.comm_time = 0.0  #: seconds of all steps so far
        self.compute_time = 0.0
        self.steps = 0

    def profile_step(self, model: Any, batch: Any) -> Any:
        """Forward and backward of the batch; returns the loss. Its first call is a warm-up, and not counted."""
        clock, loss = Clock(), []
        alone = 0.0
        if _can_be_silent(model):
            with _as_before(model):
                with _silent(model):
                    synchronize()
                    alone = clock.time(lambda: _pass(model, batch))
                _settle(model, batch)
        synchronize()
        whole = clock.time(lambda: loss.append(_pass(model, batch)))
        self.steps += 1
        if self.steps > 1:
            self.compute_time += alone if alone else whole
            self.comm_time += max(0.0, whole - alone) if alone else 0.0
        return loss[0]

    def get_summary(self) -> Dict[str, float]:
        steps = max(1, self.steps - 1)
        whole = self.compute_time + self.comm_time
        return {
            "compute_ms": self.compute_time / steps * 1e3,
            "comm_ms": self.comm_time / steps * 1e3,
            "comm_pct": self.comm_time / whole * 100 if whole else 0.0,
        }


def _settle(model: Any, batch: Any) -> None:
    """FSDP keeps gradients of silent passes apart, until the next pass that communicates takes them in: this one."""
    if _is_sharded(model):
        _pass(model, batch)


def _reduction_s(model: Any, iterations: int) -> float:
    """Seconds that reducing gradients of the model's size takes by itself, in buckets as DistributedDataParallel makes: to all
    ranks, or of an FSDP model to a shard each."""
    import torch
    import torch.distributed as dist

    ranks, sharded = dist.get_world_size(), _is_sharded(model)
    own = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters() if p.requires_grad]
    size = sum(p.numel() * p.element_size() for p in own) * (ranks if sharded else 1)
    numbers = [max(1, min(_BUCKET_BYTES, size - at) // 4 // ranks) * ranks for at in range(0, size, _BUCKET_BYTES)]
    buckets = [torch.zeros(n, device=device_of(model)) for n in numbers]
    shards = [bucket[: bucket.numel() // ranks].clone() for bucket in buckets]

    def reduce() -> None:
        for bucket, shard in zip(buckets, shards):
            if sharded:
                dist.reduce_scatter_tensor(shard, bucket)
            else:
                dist.all_reduce(bucket)

    reduce()
    clock = Clock()
    return statistics.median(clock.time(reduce) for _ in range(iterations))


class OverlapProfiler:
    """How much of the communication of gradients the backward hides, of a DistributedDataParallel or FSDP model. All ranks have
    to call profile()."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.compute_only_time = 0.0  #: seconds a pass, as profile() found last
        self.with_comm_time = 0.0

    def profile(self, batch: Any, num_iterations: int = 10, warmup: int = 3) -> Dict[str, Optional[float]]:
        """Medians in ms. ``comm_overhead_ms`` is what steps take longer for communication; ``comm_total_ms`` what it takes by
        itself; ``overlap_efficiency_pct`` the share that is hidden, None where there is none to hide."""
        times: Dict[str, List[float]] = {"alone": [], "whole": []}
        clock: Optional[Clock] = None
        with _as_before(self.model):
            for number in range(warmup + num_iterations):
                clock = clock or (Clock() if number else None)  # the first pass may make the CUDA context
                for name in ("alone", "whole") if number % 2 else ("whole", "alone"):
                    with _silent(self.model) if name == "alone" else contextlib.nullcontext():
                        took = (clock or Clock()).time(lambda: _pass(self.model, batch))
                    if number >= warmup:
                        times[name].append(took)
            _settle(self.model, batch)
        alone, whole = (statistics.median(times[name]) for name in ("alone", "whole"))
        self.compute_only_time, self.with_comm_time = alone, whole
        exposed = max(0.0, whole - alone)
        total = _reduction_s(self.model, num_iterations) if _can_be_silent(self.model) else 0.0
        return {
            "compute_only_ms": alone * 1e3,
            "with_comm_ms": whole * 1e3,
            "comm_overhead_ms": exposed * 1e3,
            "comm_total_ms": total * 1e3,
            "overlap_efficiency_pct": max(0.0, 1 - exposed / total) * 100 if total else None,
        }


def _distributed() -> Any:
    """torch.distributed, which has to be initialized."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        raise _library.ProfgpuError("torch.distributed is not initialized", "dist.init_process_group(...), under torchrun")
    return dist


def profile_collective_ops(
    sizes: Sequence[int] = (1 << 10, 1 << 20, 100 << 20), iterations: int = 10, warmup: int = 5, device: Any = None
) -> Dict[str, float]:
    """Times all_reduce and all_gather of tensors of ``sizes`` bytes on all ranks of torch.distributed.

    By name, as ``all_reduce_1024KB``: the median in ms; with ``_busbw_gbps`` the bus bandwidth, as nccl-tests defines it.
    """
    import torch

    dist = _distributed()
    ranks = dist.get_world_size()
    device = device or ("cuda" if dist.get_backend() == "nccl" else "cpu")
    results: Dict[str, float] = {}
    for size in sizes:
        tensor = torch.zeros(max(1, size // 4), device=device)
        gathered = [torch.empty_like(tensor) for _ in range(ranks)]
        operations: Dict[str, Callable[[], Any]] = {
            "all_reduce": lambda t=tensor: dist.all_reduce(t),  # type: ignore[misc]
            "all_gather": lambda t=tensor, g=gathered: dist.all_gather(g, t),  # type: ignore[misc]
        }
        for name, run in operations.items():
            for _ in range(warmup):
                run()
            clock = Clock()
            took = statistics.median(clock.time(run) for _ in range(iterations))
            key = "%s_%dKB" % (name, size // 1024)
            moved_bytes = 2 * (ranks - 1) / ranks * size if name == "all_reduce" else (ranks - 1) * size
            results[key] = took * 1e3
            results[key + "_busbw_gbps"] = moved_bytes / max(took, 1e-12) / 1e9
    return results


def _node() -> str:
    """What ranks of one node have in common: its name, and its number where a launcher has given it one."""
    number = os.environ.get("GROUP_RANK") or os.environ.get("SLURM_NODEID") or ""
    return "%s/%s" % (socket.gethostname(), number)


def measure_inter_node_bandwidth(
    sizes: Sequence[int] = (1 << 10, 1 << 20, 100 << 20), iterations: int = 10, warmup: int = 3, device: Any = None
) -> Dict[int, float]:
    """Bus bandwidth in GB/s of an all_reduce over the network, by size in bytes: of one rank a node, so that no link within a
    node is measured. Every rank of torch.distributed calls it; rank 0 prints the figures.

    All ranks get the same dict. It is empty where all ranks are on one node. ProfgpuError where torch.distributed is not
    initialized.
    """
    import torch

    dist = _distributed()
    names: List[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(names, _node())
    leaders = sorted({name: rank for rank, name in reversed(list(enumerate(names)))}.values())
    rank = dist.get_rank()
    if len(leaders) < 2:
        if rank == 0:
            print("All ranks are on one node: there is no network between them to measure")
        return {}
    group = dist.new_group(leaders)  # by all ranks, also those that are not in it
    found: List[Any] = [{}]
    if rank in leaders:
        place = device or ("cuda" if dist.get_backend() == "nccl" else "cpu")
        for size in sizes:
            tensor = torch.zeros(max(1, size // 4), device=place)
            for _ in range(warmup):
                dist.all_reduce(tensor, group=group)
            clock = Clock()
            run: Callable[[], Any] = lambda t=tensor: dist.all_reduce(t, group=group)  # type: ignore[misc]  # noqa: E731
            took = statistics.median(clock.time(run) for _ in range(iterations))
            found[0][size] = 2 * (len(leaders) - 1) / len(leaders) * size / max(took, 1e-12) / 1e9
    dist.broadcast_object_list(found, src=leaders[0])
    if rank in leaders:
        dist.destroy_process_group(group)
    bandwidths: Dict[int, float] = found[0]
    if rank == 0:
        for size, gbps in bandwidths.items():
            print("Size: %g MB, bandwidth between %d nodes: %.2f GB/s" % (size / 1e6, len(leaders), gbps))
    return bandwidths


def add_sync_markers(step: int) -> Callable[[], None]:
    """Waits for all ranks of torch.distributed, opens the range of step ``step``, and returns the function that ends it.

        end = add_sync_markers(step)
        train_step(batch)
        end()

    The range is what ``profgpu.step(step)`` opens: recordings of several nodes are then compared step by step. Without
    torch.distributed nothing is waited for. A barrier a step costs time: leave it out of runs that are not profiled.
    """
    dist: Any = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        dist.barrier()
    opened = [ranges.step(step)]
    opened[0].__enter__()

    def end() -> None:
        if opened:
            opened.pop().__exit__(None, None, None)

    return end
