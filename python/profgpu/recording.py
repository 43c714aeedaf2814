"""record(): a trace of a block of code, and its report; and %%profgpu for notebooks."""
from __future__ import annotations

import html
import os
import shlex
import sys
import tempfile
from typing import Any, Dict, Optional

from . import _library
from .memory import MemoryMeter
from .monitor import GpuMonitor, GpuSummary, own_device
from .report import Report, analyze


class Recording:
    """Records what PyTorch does in a ``with`` block, by PyTorch's profiler, with steps and phases as the block names them.

    ``report`` is the report of it, made when it is first asked for; ``path`` the trace. Without ``path`` the trace lies in a
    temporary folder that goes with the recording and its report.
    """

    def __init__(self, path: Optional[_library.Path] = None, **profile: Any) -> None:
        if "schedule" in profile:
            raise ValueError("record() records its whole block; guide.ProfilerWrapper records some of its steps")
        self._options = profile
        self._folder = tempfile.TemporaryDirectory(prefix="profgpu-") if path is None else None
        self.path = os.path.join(self._folder.name, "trace.json.gz") if self._folder else os.fspath(path or "")
        self._profile: Any = None
        self._report: Optional[Report] = None
        self._done = False
        self._interrupted = False

    def __enter__(self) -> Recording:
        try:
            import torch
        except ImportError:
            raise _library.ProfgpuError(
                "record() needs PyTorch, whose profiler it uses", "`profgpu run --trace -- COMMAND` records any program"
            ) from None
        if torch.autograd._profiler_enabled():
            raise _library.ProfgpuError(
                "PyTorch's profiler runs already, and only one can", "end it first, or watch without a trace: profgpu.GpuMonitor"
            )
        self._profile = torch.profiler.profile(**{"record_shapes": True, **self._options})
        self._profile.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        import torch

        # One that was started in the block and has ended has taken the trace with it: to export it would end the process.
        recording = self._profile.current_action.name.startswith("RECORD")
        self._interrupted = recording and not torch.autograd._profiler_enabled()
        self._profile.__exit__(kind, error, traceback)
        if not self._interrupted:
            self._profile.export_chrome_trace(self.path)
        self._profile, self._done = None, True

    @property
    def report(self) -> Report:
        if not self._done:
            raise _library.ProfgpuError("there is no report before the block has ended")
        if self._interrupted:
            raise _library.ProfgpuError(
                "there is no trace: another of PyTorch's profilers ran within the block, and only one can", "leave one of them out"
            )
        if self._report is None:
            try:
                self._report = analyze(self.path, _keep=self._folder)
            except _library.ProfgpuError as error:
                if "none of its events" not in error.message:
                    raise
                raise _library.ProfgpuError("there is nothing to report: the block called no operation of PyTorch") from None
        return self._report

    def _repr_html_(self) -> str:
        if not self._done:
            return "<p>recording</p>"
        try:
            return self.report._repr_html_()
        except _library.ProfgpuError as error:
            return "<p>%s</p>" % html.escape(error.message)


def record(path: Optional[_library.Path] = None, **profile: Any) -> Recording:
    """``with record() as rec:`` and then ``rec.report``. Further arguments are torch.profiler.profile's, but for
    ``schedule``."""
    return Recording(path, **profile)


class CellResult:
    """What %%profgpu shows below a cell: where PyTorch's time went, what the GPU did, and what became of memory."""

    def __init__(
        self, gpu: Optional[GpuSummary], report: Optional[Report], memory: MemoryMeter, note: str = ""
    ) -> None:
        self.gpu = gpu
        self.report = report
        self.memory = memory
        self.note = note  # why there is no report

    def __repr__(self) -> str:
        report = str(self.report) if self.report else self.note
        parts = [self.gpu.format() if self.gpu else "", report, self.memory.format()]
        return "\n\n".join(p for p in parts if p)

    def _repr_html_(self) -> str:
        note = "<p>%s</p>" % html.escape(self.note) if self.note else ""
        gpu = self.gpu._repr_html_() if self.gpu else ""
        return (self.report._repr_html_() if self.report else note) + gpu + self.memory._repr_html_()


_FLAGS: Dict[str, bool] = {"--no-trace": False, "--interval": True, "--backend": True, "--html": True}


def _flags(line: str) -> Dict[str, str]:
    given: Dict[str, str] = {}
    words = shlex.split(line)
    while words:
        name = words.pop(0)
        if name not in _FLAGS or (_FLAGS[name] and not words):
            raise _library.ProfgpuError("%%%%profgpu does not understand %s" % name, "[--no-trace] [--interval S] [--backend NAME] [--html FILE]")
        given[name] = words.pop(0) if _FLAGS[name] else "1"
    return given


def _run(shell: Any, cell: str) -> None:
    """Raises the cell's error, so that the cell fails as it would without us; the shell shows it when it gets it."""
    show = shell._showtraceback
    shell._showtraceback = lambda *_: None
    try:
        outcome = shell.run_cell(cell)
    finally:
        shell._showtraceback = show
    outcome.raise_error()


def cell_magic(shell: Any, line: str, cell: str) -> CellResult:
    """Runs a cell under a monitor and, where PyTorch has been imported, under its profiler."""
    flags = _flags(line)
    trace = record() if "torch" in sys.modules and "--no-trace" not in flags else None
    memory = MemoryMeter()
    with GpuMonitor(own_device(), interval_s=float(flags.get("--interval", "0.1")), backend=flags.get("--backend", "auto")) as monitor:
        memory.start()
        if trace is not None:
            with trace:
                _run(shell, cell)
        else:
            _run(shell, cell)
    memory.stop()
    report, note = None, ""
    try:
        report = trace.report if trace is not None else None
    except _library.ProfgpuError as error:
        note = error.message
    if report is not None and "--html" in flags:
        report.to_html(flags["--html"])
    watched = monitor.summary if monitor.summary is not None and monitor.summary.n_samples else None
    return CellResult(watched, report, memory, note)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext profgpu`` brings %%profgpu."""
    shell.register_magic_function(lambda line, cell: cell_magic(shell, line, cell), "cell", "profgpu")
