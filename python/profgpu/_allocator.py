"""The history that PyTorch's CUDA allocator keeps: on, off, and snapshots of it in files.

One file for two: record_memory() of the package, and, as profgpu_allocator.py, the hook of `profgpu run --trace
--memory`, which must not import the package. So nothing but the standard library is imported here, and torch comes as
an argument.
"""
from __future__ import annotations

import inspect
import os
import threading
from typing import Any, Callable, Optional

MAX_ENTRIES = 200_000  # A training step of a large model has tens of thousands; PyTorch needs a few KB for each.


def why_not(torch: Any) -> str:
    """Why there is no allocator whose memory could be recorded; empty where there is one."""
    if not hasattr(torch.cuda.memory, "_record_memory_history"):
        return "this PyTorch is older than 2.0"
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU"
    return ""


def begin(torch: Any, max_entries: int, stacks: str) -> bool:
    """False: the history was on already, with the caller's own settings."""
    is_on = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    if is_on is not None and is_on():
        return False
    record = torch.cuda.memory._record_memory_history
    pinned = "record_pinned_host_memory"  # from PyTorch 2.14 on
    more = {pinned: True} if pinned in inspect.signature(record).parameters else {}
    try:
        record(max_entries=max_entries, stacks=stacks, **more)
    except TypeError:  # PyTorch 2.0
        record(True, trace_alloc_max_entries=max_entries, trace_alloc_record_context=True)
    return True


def end(torch: Any) -> None:
    try:
        torch.cuda.memory._record_memory_history(enabled=None)
    except TypeError:  # PyTorch 2.0
        torch.cuda.memory._record_memory_history(False)


def write(torch: Any, path: str) -> None:
    """A file is whole once it has its name."""
    folder, name = os.path.split(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    # Allocations may fail in several threads.
    partial = os.path.join(folder, ".%s.%d.%d" % (name, os.getpid(), threading.get_ident()))
    try:
        torch.cuda.memory._dump_snapshot(partial)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def is_out_of_memory(torch: Any, kind: Optional[type]) -> bool:
    error = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
    return kind is not None and issubclass(kind, error)


class OutOfMemory:
    """Writes a snapshot when an allocation fails, with all that was held then.

    PyTorch knows no way to take an observer away again: one that is `closed` does nothing. Programs that try sizes
    until one fits fail often: only the first few are written, and the one that ends the program by `write_last`.
    """

    MOST = 3

    def __init__(self, torch: Any, path: Callable[[], str]) -> None:
        self._torch, self._path = torch, path
        self._seen = self._written = 0
        self.path = ""  # of the last one written
        self.problem = ""
        self.closed = False
        attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None:
            attach(self._observe)

    def _observe(self, *_: Any) -> None:
        self._seen += 1
        if not self.closed and self._seen <= self.MOST:
            self._write()

    def _write(self) -> None:
        path = self._path()
        try:
            write(self._torch, path)
            self.path, self._written, self.problem = path, self._seen, ""
        except Exception as error:  # It must not come in the place of the program's own error.
            self.problem = "%s: %s" % (path, error)

    def forget(self) -> None:
        """PyTorch keeps this object for good: what it was made for can go."""
        self.closed, self._path = True, str

    def write_last(self) -> None:
        """The allocation that failed last has ended the program; if that was not written when it failed, it is now."""
        if not self.path or self._written < self._seen:
            self._write()
