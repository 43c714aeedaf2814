"""analyze(): where the time of a trace goes, and what to change. The same as `profgpu analyze` by the same code."""
from __future__ import annotations

import dataclasses
import json
import os
import re
import threading
import weakref
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _library
from .tables import Table, frame_of

Paths = Union[_library.Path, Iterable[_library.Path]]


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that costs time: what happens, why it costs time, and what to change."""

    rule: str
    severity: str  #: "info", "warning", "critical"
    ranks: Tuple[int, ...]
    what: str
    why: str
    fix: Tuple[str, ...]  #: best first
    paste: Tuple[Optional[str], ...]  #: of each fix, what can be pasted as it stands
    cost_ns: Optional[int]  #: of the measured steps' wall time; None: not estimated
    cost_pct: Optional[float]
    value: Optional[float]  #: measured, in ``unit``
    threshold: Optional[float]
    unit: str
    evidence: Tuple[str, ...]

    def __str__(self) -> str:
        cost = "" if self.cost_pct is None else " (%.1f %%)" % self.cost_pct
        return "%s%s: %s" % (self.rule, cost, self.what)


def _finding(d: Mapping[str, Any]) -> Finding:
    values: Dict[str, Any] = {f.name: d[f.name] for f in dataclasses.fields(Finding)}
    for name in ("ranks", "fix", "paste", "evidence"):
        values[name] = tuple(values[name])
    return Finding(**values)


class Report:
    """What was found. Sections are frames: DataFrames where pandas is installed, else lists of dicts.

    ``findings``, ``verdict``, ``checklist``; ``kernels``, ``ops``, ``steps``, ``phases``, ``idle``, ``devices``,
    ``collectives`` and other sections by name (with a column ``rank``); ``table(name)`` and ``query(sql)`` for every
    event. ``print(report)`` is what the command shows.
    """

    def __init__(self, handle: int, paths: Sequence[str], options: List[Tuple[str, str]], keep: Any = None) -> None:
        lib = _library.library()
        self._handle = handle
        self._free = weakref.finalize(self, lib.profgpu_report_free, handle)
        self._paths, self._options = paths, options
        self._keep = keep  # what must not go before the report does, as a folder
        self._run: Optional[int] = None
        self._lock = threading.Lock()
        self._document: Dict[str, Any] = json.loads(self._write("json"))

    def _write(self, form: str, **options: Any) -> str:
        return _written(self._handle, form, options)

    @property
    def verdict(self) -> str:
        """One or two sentences: where the time goes and what that costs."""
        text: str = self._document["verdict"]
        return text

    @property
    def findings(self) -> List[Finding]:
        """Most expensive first."""
        return [_finding(d) for d in self._document["findings"]]

    @property
    def checklist(self) -> Any:
        return frame_of(self._document["checklist"])

    @property
    def sections(self) -> List[str]:
        """The names that ``section()`` takes."""
        names: Dict[str, None] = {}
        for rank in self._document["ranks"]:
            names.update({k: None for k, v in rank.items() if isinstance(v, (list, dict))})
        return list(names)

    def section(self, name: str) -> Any:
        """A section of all ranks as a frame, by its key in the JSON document."""
        if name not in self.sections:
            raise KeyError("%s; there is %s" % (name, ", ".join(self.sections)))
        rows: List[Dict[str, Any]] = []
        for rank in self._document["ranks"]:
            part = rank.get(name) or []
            rows += [
                {"rank": rank["rank"], **(row if isinstance(row, dict) else {name: row})}
                for row in ([part] if isinstance(part, dict) else part)
            ]
        return frame_of(rows)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self.sections:
            return self.section(name)
        raise AttributeError(name)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self.sections]

    def to_dict(self) -> Dict[str, Any]:
        """The document that ``profgpu analyze --json`` prints."""
        copy: Dict[str, Any] = json.loads(self._write("json"))
        if self._keep is not None:
            copy["next"] = []  # commands about files that go with this report
        return copy

    def to_json(self, path: Optional[_library.Path] = None) -> str:
        text = self._write("json") if self._keep is None else json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
        return _saved(text, path)

    def to_text(
        self, path: Optional[_library.Path] = None, *, section: str = "", top: int = 10, width: int = 100, color: bool = False
    ) -> str:
        """What the command shows in a terminal."""
        text = self._write("terminal", section=section, top=top, width=width, color="always" if color else "never")
        if self._keep is not None:  # what to type next would name files that go with this report
            last = re.search("\n(\x1b\\[[0-9;]*m)?Next: ", text)
            text = text[: last.start()] if last else text
        return _saved(text, path)

    def to_markdown(self, path: Optional[_library.Path] = None) -> str:
        return _saved(self._write("markdown"), path)

    def to_html(self, path: Optional[_library.Path] = None, *, steps: str = "") -> str:
        """The page with timeline, flame graph and tables; written to ``path``, if there is one. Reads the trace again.

        ``steps``: those whose events the page keeps one by one ("10:12", "all"), as --html-steps takes them.
        """
        kept = [("html-steps", steps)] if steps else []
        handle = _analyzed(self._paths, [*self._options, ("format", "html"), *kept])
        try:
            page = _written(handle, "html", {})
        finally:
            _library.library().profgpu_report_free(handle)
        return _saved(page, path)

    def _opened(self) -> int:
        with self._lock:
            if self._run is None:
                lib = _library.library()
                options = [o for o in self._options if o[0] == "step-pattern"]
                self._run = _library.checked(lib.profgpu_open, *_library.input_arguments(self._paths, options))
                weakref.finalize(self, lib.profgpu_run_free, self._run)
            return self._run

    def table(self, name: str) -> Table:
        """A table of events ("activity", "host" ...). The first one reads the trace again, and keeps all of it."""
        lib = _library.library()
        return Table(_library.checked(lib.profgpu_run_table, self._opened(), _library.given(name)))

    def query(self, sql: str) -> Table:
        """What a query in SQLite's SQL over these tables gives; as ``profgpu query``."""
        lib = _library.library()
        return Table(_library.checked(lib.profgpu_run_query, self._opened(), _library.given(sql)))

    def metrics(self, prefix: str = "profgpu/") -> Dict[str, float]:
        """Numbers by name, for trackers: mean step time and its phases, what devices did, and each finding's cost."""
        flat: Dict[str, float] = {}
        for rank in self._document["ranks"]:
            at = prefix if len(self._document["ranks"]) == 1 else "%srank%d/" % (prefix, rank["rank"])
            steps = [s["duration_ns"] for s in rank["steps"] if not s.get("warmup")]
            if steps:
                flat[at + "step_s"] = sum(steps) / len(steps) / 1e9
            for phase in (rank.get("average_step") or {}).get("phases", ()):
                if phase["wall_ns"]:
                    flat["%s%s_s" % (at, phase["name"])] = phase["wall_ns"] / 1e9
                    flat["%s%s_pct" % (at, phase["name"])] = phase["wall_pct"]
            for device in rank["devices"]:
                if device["span_ns"]:
                    flat["%sdevice%d/busy_pct" % (at, device["id"])] = 100 * device["busy_ns"] / device["span_ns"]
        for finding in self.findings:
            if finding.cost_pct is not None:
                flat["%sfinding/%s/cost_pct" % (prefix, finding.rule)] = finding.cost_pct
        return flat

    def __str__(self) -> str:
        return self.to_text().rstrip("\n")

    def __repr__(self) -> str:
        return "<Report: %s>" % self.verdict

    def _repr_html_(self) -> str:
        import html

        rows = "".join(
            "<tr><td>%s</td><td style='text-align:left'>%s</td><td style='text-align:left'>%s</td><td style='white-space:nowrap'>%s</td></tr>"
            % tuple(
                html.escape(text)
                for text in (f.severity, f.what, f.fix[0] if f.fix else "", "" if f.cost_pct is None else "%.1f %%" % f.cost_pct)
            )
            for f in self.findings
        )
        left = "<th style='text-align:left'>%s</th>"
        head = "<tr><th></th>%s%s<th>cost</th></tr>" % (left % "what", left % "what to change")
        table = "<table>%s%s</table>" % (head, rows) if rows else "<p>Nothing was found that costs time.</p>"
        return "<p><b>%s</b></p>%s" % (html.escape(self.verdict), table)


def _saved(text: str, path: Optional[_library.Path]) -> str:
    """The text, which is in the file too if there is a path."""
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


def _written(handle: int, form: str, options: Dict[str, Any]) -> str:
    given = [(name, str(value)) for name, value in options.items() if value != ""]
    lib = _library.library()
    array = _library.option_array(given)
    return _library.take_text(_library.checked(lib.profgpu_report_write, handle, _library.given(form), array, len(given)))


def _analyzed(paths: Sequence[str], options: List[Tuple[str, str]]) -> int:
    return _library.checked(_library.library().profgpu_analyze, *_library.input_arguments(paths, options))


def analyze(
    paths: Paths,
    *,
    steps: Optional[Tuple[Optional[int], Optional[int]]] = None,
    step_pattern: str = "",
    samples: Sequence[_library.Path] = (),
    thresholds: Optional[Mapping[str, float]] = None,
    gpu: str = "",
    peaks: Optional[_library.Path] = None,
    model_config: Optional[_library.Path] = None,
    tokens_per_step: Union[None, float, str] = None,
    samples_per_step: Optional[float] = None,
    price_kwh: Optional[float] = None,
    gco2_kwh: Optional[float] = None,
    _keep: Any = None,
) -> Report:
    """Reads traces, recordings or samples (files or folders) and says where the time goes.

    Args:
        steps: (first, one past the last) of the steps to look at.
        step_pattern: ranges whose name matches are steps (POSIX extended regular expression).
        samples: samples of the devices of the same time.
        thresholds: what rules tolerate, by rule.
        gpu: what the devices are, where the traces do not name them: "MI300X", "H100 SXM".
        peaks: a file of the devices' peak rates as measured, instead of their vendors'.
        model_config: a language model's config.json (Hugging Face), for the model's FLOPs and MFU without shapes.
        tokens_per_step: tokens of a step for each GPU, or "SEQUENCESxLENGTH".
        samples_per_step: samples of a step for each GPU.
        price_kwh: what a kilowatt hour costs.
        gco2_kwh: grams of CO2 of a kilowatt hour.
    """
    options: List[Tuple[str, str]] = []
    if steps is not None:
        options.append(("steps", ":".join("" if end is None else str(end) for end in steps)))
    if step_pattern:
        options.append(("step-pattern", step_pattern))
    if gpu:
        options.append(("gpu", gpu))
    if peaks is not None:
        options.append(("peaks", os.fspath(peaks)))
    if model_config is not None:
        options.append(("model-config", os.fspath(model_config)))
    amounts = (("tokens-per-step", tokens_per_step), ("samples-per-step", samples_per_step), ("price-kwh", price_kwh),
               ("gco2-kwh", gco2_kwh))
    options += [(name, str(value)) for name, value in amounts if value is not None]
    options += [("samples", os.fspath(path)) for path in samples]
    options += [("threshold", "%s=%r" % (rule, float(value))) for rule, value in (thresholds or {}).items()]
    several = _library.path_list(paths)
    return Report(_analyzed(several, options), several, options, _keep)
