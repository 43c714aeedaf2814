"""What this machine can do, measured: the benchmarks of ``profgpu bench``.

    from profgpu import bench

    found = bench.launch()
    print(found)
    found.value("launch_call")       # ns

The program measures; nothing of CUDA needs to be installed but the driver. Figures are medians of at least ten runs.
"""
from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _group_bench, _library, _program


@dataclasses.dataclass(frozen=True)
class BenchResult:
    """Figures of one measurement. ``print()`` shows the table that the command shows."""

    document: Dict[str, Any]  #: profgpu.bench.v1

    @property
    def figures(self) -> List[Dict[str, Any]]:
        """A dict per figure: benchmark, name, label, device, peer, value, best, unit ("GB/s", "TFLOP/s", "ns", "B"), spread_pct,
        runs, and what the device did meanwhile. Unknown values are None."""
        return list(self.document["figures"])

    @property
    def not_measured(self) -> List[Dict[str, Any]]:
        """What was asked for and has no figure: benchmark, label, device, why, hint."""
        return list(self.document["not_measured"])

    def value(self, name: str, device: Optional[int] = None, **where: Any) -> float:
        """The value of the figure of that name, in its ``unit``; of several, that of ``device`` and other members
        (``peer=1``, ``precision="bf16"``), else the first. KeyError where there is none."""
        wanted = {"name": name, **({"device": device} if device is not None else {}), **where}
        for figure in self.document["figures"]:
            if all(figure.get(key) == value for key, value in wanted.items()):
                return float(figure["value"])
        raise KeyError("no figure %s; there are %s" % (wanted, ", ".join(sorted({f["name"] for f in self.figures}))))

    def metrics(self, prefix: str = "bench/") -> Dict[str, float]:
        """Values by name for trackers, with the device where there is one: ``bench/h2d/0``."""
        flat: Dict[str, float] = {}
        for figure in self.document["figures"]:
            parts = [figure["name"], *(str(figure[k]) for k in ("device", "peer") if figure.get(k) is not None)]
            flat.setdefault(prefix + "/".join(parts), float(figure["value"]))
        return flat

    def save(self, path: _library.Path) -> None:
        """Writes it for ``profgpu bench --compare``, ``doctor --bench`` and ``analyze --peaks``."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.document, file, indent=1)

    def compare(self, before: Union[BenchResult, _library.Path]) -> str:
        """The table that ``profgpu bench --compare`` shows: how the figures changed since ``before``, a result or the path of
        a saved one."""
        return self._shown(before if isinstance(before, BenchResult) else load(before))

    def _shown(self, before: Optional[BenchResult] = None) -> str:
        with tempfile.TemporaryDirectory(prefix="profgpu-") as folder:
            words = ["--saved", os.path.join(folder, "now.json")]
            self.save(words[1])
            if before is not None:
                words += ["--compare", os.path.join(folder, "before.json")]
                before.save(words[3])
            _, out, said = _program.run("bench", "--color", "never", *words)
        if not out:
            raise _program.error_of(said)
        return out.rstrip("\n")

    def __str__(self) -> str:
        return self._shown()


def run(
    *names: str,
    device: Union[int, str, None] = None,
    path: Optional[_library.Path] = None,
    full: bool = False,
    timeout_s: float = 60.0,
) -> BenchResult:
    """Measures the named benchmarks (host, storage, launch, bandwidth, matmul, collectives, overlap, crossover, burn; none:
    all but the last two).

    ``device``: index, UUID, PCI id, "cuda:N" or "all"; None: those that the process can see. ``path``: for storage, a
    file or folder as of a data set. ``full``: more sizes, and two seconds for each figure. ``timeout_s``: for one call of
    the driver. What cannot run here is in ``not_measured``; ProfgpuError where nothing could be measured at all.
    """
    words = ["bench", *names, "--timeout", "%g" % timeout_s]
    words += ["--full"] if full else []
    words += ["--device", str(device)] if device is not None else []
    words += ["--path", os.fspath(path)] if path is not None else []
    result = BenchResult(_program.document(*words))
    if not result.figures and result.not_measured:
        first = result.not_measured[0]
        raise _library.ProfgpuError("%s could not be measured: %s" % (first["benchmark"], first["why"]), first["hint"] or "")
    return result


def load(path: _library.Path) -> BenchResult:
    """A result that ``save`` or ``profgpu bench -o`` wrote."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        raise _library.ProfgpuError("%s: %s" % (os.fspath(path), error)) from None
    if not isinstance(document, dict) or document.get("schema") != "profgpu.bench.v1":
        raise _library.ProfgpuError("%s: not a result of profgpu bench" % os.fspath(path), "BenchResult.save() writes one")
    return BenchResult(document)


def host() -> BenchResult:
    """Memory copies (GB/s), clock, timers and program starts of the host (ns)."""
    return run("host")


def storage(path: _library.Path) -> BenchResult:
    """How fast the file, or the files of the folder, can be read: MB/s and reads a second, from disk and from memory."""
    return run("storage", path=path)


def launch(device: Union[int, str, None] = None, full: bool = False) -> BenchResult:
    """What calls take (ns): launches, events, synchronization, allocation, the context."""
    return run("launch", device=device, full=full)


def bandwidth(device: Union[int, str, None] = None, full: bool = False) -> BenchResult:
    """Copies between host and device and between devices, and the device's own memory (GB/s)."""
    return run("bandwidth", device=device, full=full)


def matmul(device: Union[int, str, None] = None, full: bool = False) -> BenchResult:
    """GEMMs by precision (TFLOP/s); needs cuBLASLt, which comes with PyTorch."""
    return run("matmul", device=device, full=full)


def collectives(device: Union[int, str, None] = None, full: bool = False) -> BenchResult:
    """NCCL's collectives over the devices of this machine: bus bandwidth (GB/s) and latency (ns)."""
    return run("collectives", device=device, full=full)


def process_group(sizes: Sequence[int] = (1 << 10, 1 << 20, 64 << 20), budget_s: float = 0.5) -> BenchResult:
    """Collectives of the hosts over torch.distributed's process group, by gloo, MPI or another backend that needs no GPU:
    all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send and receive, barrier, and each pair alone.

    Every rank calls it, and all get the same figures: up to 1 KiB the time (ns), beyond that the bus bandwidth as nccl-tests
    defines it (GB/s), of the rank that takes longest. ``sizes``: bytes of a message, of all ranks' parts together.
    ``budget_s``: for one figure, of at least ten runs. Results are checked; what the backend cannot do, or computes wrongly,
    is in ``not_measured``. ProfgpuError without a process group of two ranks.
    """
    if not sizes or any(size < 1 for size in sizes):
        raise _library.ProfgpuError("sizes are bytes, from 1 on", "process_group(sizes=(1 << 20,))")
    return BenchResult(_group_bench.GroupBench(budget_s).document(list(sizes)))


__all__ = ["BenchResult", "bandwidth", "collectives", "host", "launch", "load", "matmul", "process_group", "run", "storage"]


def __dir__() -> List[str]:
    return sorted(__all__)
