"""Collectives of a torch.distributed process group, whatever its backend: what ``profgpu.bench.process_group`` does."""
from __future__ import annotations

import os
import platform
import statistics
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._library import ProfgpuError

# Up to here a message is given by its time, a larger one by its rate, as `profgpu bench collectives` does.
LATENCY_BYTES = 1 << 10
ELEMENT_BYTES = 4  # int32
LEAST_RUNS = 10
MOST_ALL_PAIRS = 8  # ranks of which every pair is measured


class _Collective:
    """Its calls on buffers of one size. ``expected`` is what a rank's result consists of, None for no result."""

    def __init__(self, name: str, label: str, factor: Callable[[int], float],
                 make: Callable[[Any, Any, int, int, int], Tuple[Callable[[], Any], Callable[[], Any], Any]]) -> None:
        self.name, self.label, self.factor, self.make = name, label, factor, make


def _all_reduce(dist: Any, torch: Any, rank: int, ranks: int, count: int) -> Any:
    buffer = torch.empty(count, dtype=torch.int32)

    def reset() -> None:
        buffer.fill_(rank + 1)

    return reset, lambda: dist.all_reduce(buffer), lambda: (buffer == ranks * (ranks + 1) // 2)


def _all_gather(dist: Any, torch: Any, rank: int, ranks: int, count: int) -> Any:
    own, parts = torch.empty(count // ranks, dtype=torch.int32), torch.empty(count, dtype=torch.int32)
    lists = list(parts.chunk(ranks))
    wanted = torch.arange(1, ranks + 1, dtype=torch.int32).repeat_interleave(count // ranks)

    def reset() -> None:
        own.fill_(rank + 1), parts.fill_(0)

    return reset, lambda: dist.all_gather(lists, own), lambda: (parts == wanted)


def _reduce_scatter(dist: Any, torch: Any, rank: int, ranks: int, count: int) -> Any:
    own, parts = torch.empty(count // ranks, dtype=torch.int32), torch.empty(count, dtype=torch.int32)
    lists = list(parts.chunk(ranks))

    def reset() -> None:
        parts.fill_(rank + 1), own.fill_(0)

    return reset, lambda: dist.reduce_scatter(own, lists), lambda: (own == ranks * (ranks + 1) // 2)


def _broadcast(dist: Any, torch: Any, rank: int, ranks: int, count: int) -> Any:
    buffer = torch.empty(count, dtype=torch.int32)

    def reset() -> None:
        buffer.fill_(rank + 1)

    return reset, lambda: dist.broadcast(buffer, 0), lambda: (buffer == 1)


def _reduce(dist: Any, torch: Any, rank: int, ranks: int, count: int) -> Any:
    buffer = torch.empty(count, dtype=torch.int32)

    def reset() -> None:
        buffer.fill_(rank + 1)

    return reset, lambda: dist.reduce(buffer, 0), lambda: (buffer[:0 if rank else count] == ranks * (ranks + 1) // 2)


def _all_to_all(dist: Any, torch: Any, rank: int, ranks: int, count: int) -> Any:
    sent, received = torch.empty(count, dtype=torch.int32), torch.empty(count, dtype=torch.int32)
    wanted = torch.arange(1, ranks + 1, dtype=torch.int32).repeat_interleave(count // ranks)

    def reset() -> None:
        sent.fill_(rank + 1), received.fill_(0)

    return reset, lambda: dist.all_to_all_single(received, sent), lambda: (received == wanted)


def _send_recv(dist: Any, torch: Any, rank: int, ranks: int, count: int) -> Any:
    sent, received = torch.empty(count, dtype=torch.int32), torch.empty(count, dtype=torch.int32)

    def reset() -> None:
        sent.fill_(rank + 1), received.fill_(0)

    def call() -> None:
        requests = [dist.isend(sent, (rank + 1) % ranks), dist.irecv(received, (rank - 1) % ranks)]
        for request in requests:
            request.wait()

    return reset, call, lambda: (received == (rank - 1) % ranks + 1)


def _part(ranks: int) -> float:
    return (ranks - 1) / ranks


# Factors of the bus bandwidth: nccl-tests, doc/PERFORMANCE.md.
COLLECTIVES = (
    _Collective("all_reduce", "all-reduce", lambda n: 2 * _part(n), _all_reduce),
    _Collective("all_gather", "all-gather", _part, _all_gather),
    _Collective("reduce_scatter", "reduce-scatter", _part, _reduce_scatter),
    _Collective("broadcast", "broadcast", lambda n: 1.0, _broadcast),
    _Collective("reduce", "reduce", lambda n: 1.0, _reduce),
    _Collective("all_to_all", "all-to-all", _part, _all_to_all),
    _Collective("send_recv", "send and receive", lambda n: 1.0, _send_recv),
)


def _size_text(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return "%d %s" % (size // unit, name)
    return "%d B" % size


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


class GroupBench:
    """Measures one figure after another, by all ranks together."""

    def __init__(self, budget_s: float) -> None:
        import torch
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized():
            raise ProfgpuError("torch.distributed is not initialized", "call torch.distributed.init_process_group() first")
        self.torch, self.dist, self.budget_s = torch, dist, budget_s
        self.rank, self.ranks, self.backend = dist.get_rank(), dist.get_world_size(), dist.get_backend()
        if self.ranks < 2:
            raise ProfgpuError("collectives need two ranks", "torchrun --nproc-per-node 2 starts two on this machine")
        if self.backend == "nccl":
            raise ProfgpuError("this measures backends of the host, such as gloo and mpi",
                               "profgpu.bench.collectives() measures NCCL")
        self.figures: List[Dict[str, Any]] = []
        self.not_measured: List[Dict[str, Any]] = []

    def _largest(self, value: float) -> float:
        tensor = self.torch.tensor([value], dtype=self.torch.float64)
        self.dist.all_reduce(tensor, op=self.dist.ReduceOp.MAX)
        return float(tensor)

    def _together_s(self, call: Callable[[], Any], calls: int) -> float:
        """Seconds of one call, of the rank that takes longest; all begin together."""
        self.dist.barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return self._largest(time.perf_counter() - begin) / calls

    def _times_s(self, call: Callable[[], Any]) -> List[float]:
        first = self._together_s(call, 1)
        calls = int(min(1000, max(1, 1e-3 / max(min(first, self._together_s(call, 1)), 1e-7))))
        runs: List[float] = []
        while len(runs) < LEAST_RUNS or (sum(runs) * calls < self.budget_s and len(runs) < 1000):
            runs.append(self._together_s(call, calls))  # the same on every rank, and so is the number of runs
        return runs

    def add(self, name: str, label: str, runs_s: Sequence[float], amount: float, **more: Any) -> None:
        """A figure: a rate of ``amount`` bytes in GB/s, with 0 the time in ns."""
        ordered = sorted(runs_s)
        median = statistics.median(ordered)
        quarters = statistics.quantiles(ordered, n=4, method="inclusive")

        def value(s: float) -> float:
            return amount / s / 1e9 if amount else s * 1e9

        figure = {"benchmark": self.backend, "name": name, "label": label, "unit": "GB/s" if amount else "ns",
                  "value": value(median), "best": value(ordered[0]), "spread_pct": 100 * (quarters[2] - quarters[0]) / median,
                  "runs": len(ordered), "outliers": sum(s > 1.5 * median for s in ordered)}
        self.figures.append({**figure, **more})

    def miss(self, label: str, why: str, hint: Optional[str] = None) -> None:
        self.not_measured.append({"benchmark": self.backend, "label": label, "device": None, "why": why, "hint": hint})

    def collective(self, which: _Collective, size: int) -> None:
        each = max(1, size // ELEMENT_BYTES // self.ranks)
        count = each * self.ranks
        rate = size > LATENCY_BYTES
        label = "%s %s%s" % (which.label, _size_text(size), ", busbw" if rate else "")
        reset, call, right = which.make(self.dist, self.torch, self.rank, self.ranks, count)
        reset()
        try:
            call()
        except (RuntimeError, NotImplementedError, AttributeError, ValueError) as error:
            self.miss(label, "%s cannot do it: %s" % (self.backend, str(error).splitlines()[0][:200]))
            return
        wrong = int(right().logical_not().sum())
        counts = self.torch.zeros(self.ranks, dtype=self.torch.int64)
        counts[self.rank] = wrong
        self.dist.all_reduce(counts)
        if int(counts.sum()):
            who = ", ".join("rank %d" % r for r in range(self.ranks) if int(counts[r]))
            all_wrong = int(counts.sum())
            what = "value of the results is" if all_wrong == 1 else "values of the results are"
            self.miss(label, "%d %s wrong, on %s" % (all_wrong, what, who))
            return
        amount = count * ELEMENT_BYTES * which.factor(self.ranks) if rate else 0.0
        self.add("%s_%d" % (which.name, size), label, self._times_s(call), amount, size=size)

    def pairs(self, size: int, hosts: Sequence[str]) -> None:
        buffer = self.torch.zeros(max(1, size // ELEMENT_BYTES), dtype=self.torch.int32)
        amount = buffer.numel() * ELEMENT_BYTES
        few = self.ranks <= MOST_ALL_PAIRS
        for a in range(self.ranks):
            for b in range(self.ranks) if few else [(a + 1) % self.ranks]:
                if a == b:
                    continue

                def call(a: int = a, b: int = b) -> None:
                    if self.rank == a:
                        self.dist.send(buffer, b)
                    elif self.rank == b:
                        self.dist.recv(buffer, a)

                link = "within a host" if hosts[a] == hosts[b] else "between hosts"
                self.add("pair_%d" % size, "send, one pair alone, " + link, self._times_s(call), amount,
                         rank=a, peer_rank=b, link=link)

    def document(self, sizes: Sequence[int]) -> Dict[str, Any]:
        hosts: List[Any] = [None] * self.ranks
        self.dist.all_gather_object(hosts, platform.node())
        self.add("barrier", "barrier", self._times_s(self.dist.barrier), 0.0)
        for which in COLLECTIVES:
            for size in sizes:
                self.collective(which, size)
        self.pairs(max(sizes), hosts)
        found: List[Any] = [None]
        if self.rank == 0:
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            found[0] = {
                "schema": "profgpu.bench.v1", "unix_ns": time.time_ns(), "simulated": False, "full": False,
                "machine": {"host": platform.node(), "kernel": platform.release(), "processor": _processor(),
                            "cores": os.cpu_count() or 0, "memory_bytes": memory, "cuda": None, "driver": None},
                "devices": [],
                "ranks": [{"rank": r, "host": h, "device": -1, "name": self.backend, "uuid": None}
                          for r, h in enumerate(hosts)],
                "figures": [dict({"device": None, "peer": None, "rank": None, "peer_rank": None, "size": None}, **f)
                            for f in self.figures],
                "crossover": [], "not_measured": self.not_measured, "notes": [],
            }
        self.dist.broadcast_object_list(found, 0)  # the same on every rank
        return dict(found[0])
