"""record_memory(): what PyTorch's CUDA allocator did in a block; and what cells allocate, keep and free."""
from __future__ import annotations

import dataclasses
import errno
import gc
import html
import json
import os
import re
import sys
from typing import Any, List, Optional

from . import _allocator, _library
from .report import Report, analyze


def _check_folder_of(path: str) -> None:
    """Before the block runs: its folder is there and can be written to, or can be made."""
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)


class _NothingRecorded(Report):
    """The report of a block in which there was nothing to record: why, and nothing else."""

    def __init__(self, note: str) -> None:
        self._note = note
        self._keep = None
        self._document = {"verdict": "Nothing was recorded: %s." % note, "findings": [], "checklist": [], "ranks": []}

    def _write(self, form: str, **options: Any) -> str:
        return json.dumps(self._document, indent=2) + "\n" if form == "json" else self.verdict + "\n"

    def to_html(self, path: Optional[_library.Path] = None, *, steps: str = "") -> str:
        raise _library.ProfgpuError("there is no page: " + self._note)

    def _opened(self) -> int:
        raise _library.ProfgpuError("there are no tables: " + self._note)


class MemoryRecording:
    """Records what PyTorch allocates on GPUs in a ``with`` block, with stacks, and writes it as a snapshot.

    ``report`` is the report of it; ``path`` the file. Where an allocation fails, a snapshot is written then and there,
    to ``oom_path``, and an error that leaves the block has its diagnosis on standard error before its traceback. Where
    there is nothing to record, ``note`` says why, and so does ``report``.
    """

    def __init__(
        self, path: Optional[_library.Path], max_entries: int, on_oom: bool, at_end: bool, stacks: str
    ) -> None:
        rank = os.environ.get("RANK", "")
        own = "memory-rank%s.pickle" % rank if rank.isdigit() else "memory.pickle"
        self.path = own if path is None else os.fsdecode(path)
        if max_entries < 1:
            raise ValueError("max_entries must be positive, not %d" % max_entries)
        if stacks not in ("all", "python"):
            raise ValueError('stacks must be "all" or "python", not %r' % stacks)
        self._max_entries, self._stacks = max_entries, stacks
        self._on_oom, self._at_end = on_oom, at_end
        self.note = ""
        self._torch: Any = None  # while the block is recorded
        self._began = False
        self._failures: Optional[_allocator.OutOfMemory] = None
        self._written = ""
        self._report: Optional[Report] = None

    @property
    def oom_path(self) -> str:
        """Where the snapshot of a failed allocation is; empty: none failed."""
        return self._failures.path if self._failures is not None else ""

    def _path_of_failure(self) -> str:
        stem, _, rest = os.path.basename(self.path).partition(".")
        return os.path.join(os.path.dirname(self.path), stem + "-oom" + ("." + rest if rest else ""))

    def __enter__(self) -> MemoryRecording:
        try:
            import torch
        except ImportError:
            raise _library.ProfgpuError("record_memory() needs PyTorch, whose allocator it asks") from None
        self._written, self._report, self._failures = "", None, None
        self.note = _allocator.why_not(torch)
        if self.note:
            print("profgpu: record_memory() records nothing: %s." % self.note, file=sys.stderr)
            return self
        _check_folder_of(self.path)
        torch.cuda.init()
        self._began = _allocator.begin(torch, self._max_entries, self._stacks)
        if self._on_oom:
            self._failures = _allocator.OutOfMemory(torch, self._path_of_failure)
        self._torch = torch
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        torch, self._torch = self._torch, None
        if torch is None:
            return
        try:
            if self._failures is not None:
                self._failures.closed = True
            if self._failures is not None and _allocator.is_out_of_memory(torch, kind):
                self._failures.write_last()
                self._explain()
            elif self._at_end:
                self._write_end(torch, kind is not None)
        finally:
            if self._began:
                _allocator.end(torch)
            if self._failures is not None:
                self._failures.forget()

    def _write_end(self, torch: Any, fails: bool) -> None:
        try:
            _allocator.write(torch, self.path)
            self._written = self.path
        except Exception as problem:
            if not fails:
                raise
            print("profgpu: %s: %s" % (self.path, problem), file=sys.stderr)  # The program's own error goes on.

    def _explain(self) -> None:
        """On standard error, and in one piece: ranks may fail together."""
        assert self._failures is not None
        self._written = self.oom_path
        if not self._written:
            text = "profgpu: out of memory, and no snapshot of it could be written: %s\n" % self._failures.problem
        else:
            text = "profgpu: out of memory; what the allocator held is in %s\n" % self._written
            try:
                text += "\n%s\n\n" % self.report
            except Exception as problem:
                text += "profgpu: %s\n" % problem
        sys.stderr.write(text)
        sys.stderr.flush()

    @property
    def report(self) -> Report:
        if self.note:
            return _NothingRecorded(self.note)
        if self._torch is not None:
            raise _library.ProfgpuError("there is no report before the block has ended")
        if not (self._written or self.oom_path):
            raise _library.ProfgpuError("there is no report: no snapshot was written")
        if self._report is None:
            self._report = analyze(self._written or self.oom_path)
        return self._report


def record_memory(
    path: Optional[_library.Path] = None,
    max_entries: int = _allocator.MAX_ENTRIES,
    on_oom: bool = True,
    at_end: bool = True,
    stacks: str = "all",
) -> MemoryRecording:
    """``with record_memory("memory.pickle") as memory:`` and then ``memory.report``.

    Of the last ``max_entries`` events of the allocator, with ``stacks`` of ``"all"`` code or of ``"python"`` alone,
    which takes less time. ``path`` is memory.pickle, or memory-rankN.pickle in a job of several ranks. ``on_oom``: a
    failed allocation writes a snapshot of its own beside it, with -oom in its name.
    """
    return MemoryRecording(path, max_entries, on_oom, at_end, stacks)


def _status_bytes(name: str) -> Optional[int]:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        found = re.search(r"^%s:\s*(\d+) kB" % name, file.read(), re.M)
    return int(found[1]) * 1024 if found else None


def _restart_host_peak() -> bool:
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        return True
    except OSError:
        return False


def _bytes(count: Optional[int], sign: str = "") -> str:
    if count is None:
        return "–"
    size, unit = float(abs(count)), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return "%s%.*f %s" % ("-" if count < 0 else sign, 0 if unit == "B" else 1, size, unit)


@dataclasses.dataclass(frozen=True)
class MemoryUse:
    """Bytes of one memory over a piece of code."""

    where: str  #: "host" or "cuda:0"
    before: int
    after: int  #: when Python's garbage has been collected
    peak: Optional[int]
    collected: int  #: held only by reference cycles until then
    cached: Optional[int]  #: of a GPU: what torch.cuda.empty_cache() can give back

    @property
    def kept(self) -> int:
        return self.after - self.before

    @property
    def freed(self) -> Optional[int]:
        """Allocated, and free again at the end."""
        return None if self.peak is None else max(0, self.peak - max(self.before, self.after))

    def _cells(self) -> List[str]:
        return [self.where, _bytes(self.before), _bytes(self.kept, "+"), _bytes(self.peak), _bytes(self.freed),
                _bytes(self.collected), _bytes(self.cached)]  # fmt: skip


_HEADS = ["memory", "before", "kept", "peak", "freed", "by gc", "cached"]


class MemoryMeter:
    """Measures between start() and stop(): the host's memory, and that of each GPU which PyTorch uses here.

    PyTorch's and the kernel's own highest values of this process begin anew at start().
    """

    def __init__(self) -> None:
        self.uses: List[MemoryUse] = []

    def _cuda(self) -> Any:
        torch = sys.modules.get("torch")
        return torch.cuda if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized() else None

    def start(self) -> None:
        gc.collect()
        cuda = self._cuda()
        self._devices = []
        for device in range(cuda.device_count() if cuda is not None else 0):
            cuda.reset_peak_memory_stats(device)
            self._devices.append(cuda.memory_allocated(device))
        self._has_peak = _restart_host_peak()
        self._host = _status_bytes("VmRSS") or 0

    def stop(self) -> List[MemoryUse]:
        cuda = self._cuda()
        devices = range(cuda.device_count() if cuda is not None else 0)
        peaks = [cuda.max_memory_allocated(device) for device in devices]
        held = [cuda.memory_allocated(device) for device in devices]
        host, peak = _status_bytes("VmRSS") or 0, _status_bytes("VmHWM") if self._has_peak else None
        gc.collect()
        after = _status_bytes("VmRSS") or 0
        self.uses = [MemoryUse("host", self._host, after, peak, max(0, host - after), None)]
        for device in devices:
            before = self._devices[device] if device < len(self._devices) else 0
            now = cuda.memory_allocated(device)
            cached = cuda.memory_reserved(device) - now
            if before or now or peaks[device]:
                self.uses.append(MemoryUse("cuda:%d" % device, before, now, peaks[device], held[device] - now, cached))
        return self.uses

    def format(self) -> str:
        rows = [_HEADS] + [use._cells() for use in self.uses]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADS))]

        def line(row: List[str]) -> str:
            return "  ".join([row[0].ljust(widths[0])] + [cell.rjust(w) for cell, w in zip(row[1:], widths[1:])])

        return "\n".join(map(line, rows))

    def _repr_html_(self) -> str:
        def row(cells: List[str], tag: str) -> str:
            return "<tr>%s</tr>" % "".join("<%s>%s</%s>" % (tag, html.escape(cell), tag) for cell in cells)

        return "<table>%s%s</table>" % (row(_HEADS, "th"), "".join(row(use._cells(), "td") for use in self.uses))

    def __repr__(self) -> str:
        return self.format()


class _CellTracker:
    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._meter: Optional[MemoryMeter] = None

    def pre_run_cell(self, *_: Any) -> None:
        self._meter = MemoryMeter()
        self._meter.start()

    def post_run_cell(self, *_: Any) -> None:
        meter, self._meter = self._meter, None
        if meter is not None:  # The cell that turned this on began without.
            meter.stop()
            from IPython.display import display

            display(meter)


_tracker: Optional[_CellTracker] = None


def track_cells(on: bool = True) -> None:
    """In a notebook or IPython: below each cell from the next one on, what it allocated, kept, peaked and freed."""
    global _tracker
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        raise _library.ProfgpuError("track_cells() needs IPython or a notebook", "elsewhere: profgpu.record_memory()")
    for event in ("pre_run_cell", "post_run_cell"):
        if _tracker is not None:
            shell.events.unregister(event, getattr(_tracker, event))
    _tracker = _CellTracker(shell) if on else None
    for event in ("pre_run_cell", "post_run_cell"):
        if _tracker is not None:
            shell.events.register(event, getattr(_tracker, event))
