"""record(): a trace of a block of code, and its report; and %%profgpu for notebooks."""
from __future__ import annotations

import os
import shlex
import sys
import tempfile
from typing import Any, Dict, Optional

from . import _library
from .monitor import GpuMonitor, GpuSummary
from .report import Report, analyze


class Recording:
    """Records what PyTorch does in a ``with`` block, by PyTorch's profiler, with steps and phases as the block names them.

    ``report`` is the report of it, made when it is first asked for; ``path`` the trace. Without ``path`` the trace lies in a
    temporary folder that goes with the recording and its report.
    """

    def __init__(self, path: Optional[_library.Path] = None, **profile: Any) -> None:
        self._options = profile
        self._folder = tempfile.TemporaryDirectory(prefix="profgpu-") if path is None else None
        self.path = os.path.join(self._folder.name, "trace.json.gz") if self._folder else os.fspath(path or "")
        self._profile: Any = None
        self._report: Optional[Report] = None
        self._done = False

    def __enter__(self) -> Recording:
        try:
            import torch
        except ImportError:
            raise _library.ProfgpuError(
                "record() needs PyTorch, whose profiler it uses", "`profgpu run --trace -- COMMAND` records any program"
            ) from None
        self._profile = torch.profiler.profile(**{"record_shapes": True, **self._options})
        self._profile.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._profile.__exit__(kind, error, traceback)
        self._profile.export_chrome_trace(self.path)
        self._profile, self._done = None, True

    @property
    def report(self) -> Report:
        if not self._done:
            raise _library.ProfgpuError("there is no report before the block has ended")
        if self._report is None:
            self._report = analyze(self.path, _keep=self._folder)
        return self._report

    def _repr_html_(self) -> str:
        return self.report._repr_html_() if self._done else "<p>recording</p>"


def record(path: Optional[_library.Path] = None, **profile: Any) -> Recording:
    """``with record() as rec:`` and then ``rec.report``. Further arguments are torch.profiler.profile's."""
    return Recording(path, **profile)


class CellResult:
    """What %%profgpu shows below a cell: what the GPU did, and where PyTorch's time went."""

    def __init__(self, gpu: Optional[GpuSummary], report: Optional[Report]) -> None:
        self.gpu = gpu
        self.report = report

    def __str__(self) -> str:
        parts = [self.gpu.format() if self.gpu else "", str(self.report) if self.report else ""]
        return "\n\n".join(p for p in parts if p)

    def _repr_html_(self) -> str:
        parts = [self.report._repr_html_() if self.report else "", self.gpu._repr_html_() if self.gpu else ""]
        return "".join(parts)


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


def cell_magic(shell: Any, line: str, cell: str) -> Optional[CellResult]:
    """Runs a cell under a monitor and, where PyTorch has been imported, under its profiler."""
    flags = _flags(line)
    trace = record() if "torch" in sys.modules and "--no-trace" not in flags else None
    with GpuMonitor(interval_s=float(flags.get("--interval", "0.1")), backend=flags.get("--backend", "auto")) as monitor:
        if trace is not None:
            with trace:
                outcome = shell.run_cell(cell)
        else:
            outcome = shell.run_cell(cell)
    if not outcome.success:  # the shell has shown the error
        return None
    if trace is not None and "--html" in flags:
        trace.report.to_html(flags["--html"])
    watched = monitor.summary if monitor.summary is not None and monitor.summary.n_samples else None
    return CellResult(watched, trace.report if trace is not None else None)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext profgpu`` brings %%profgpu."""
    shell.register_magic_function(lambda line, cell: cell_magic(shell, line, cell), "cell", "profgpu")
