"""Loops, steps and their phases: the guide's decorators, wrappers and profilers."""
from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import json
import os
import statistics
import time
from typing import Any, Callable, ContextManager, Dict, Iterable, Iterator, List, Optional, Tuple, Union

from .. import _library, ranges
from ..report import Report, analyze
from ..timing import Clock, Timing, benchmark, seconds, synchronize
from .clocks import PhaseTimes, batch_loss, device_of, moved


def auto_profile(warmup: Union[int, Callable[..., Any]] = 3, iterations: int = 10, report: bool = True) -> Any:
    """Decorator: times calls ``warmup`` up to ``warmup + iterations``, prints how long they took, and leaves later calls alone.

    Every call runs the function once, as without it. The function has ``timing`` then, a Timing; before, it is None.
    ``@auto_profile`` and ``@auto_profile()`` are the same.
    """
    if callable(warmup):
        return auto_profile(iterations=iterations, report=report)(warmup)
    skipped = warmup

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise ValueError("a call of a coroutine or generator function does none of its work: decorate what it calls")
        times: List[float] = []
        calls = [0]
        first = [0.0]

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(times) >= iterations:
                return fn(*args, **kwargs)
            clock, result = Clock(), []
            took = clock.time(lambda: result.append(fn(*args, **kwargs)))
            first[0] = first[0] if calls[0] else took
            calls[0] += 1
            if calls[0] > skipped:
                times.append(took)
            if len(times) == iterations:
                timing = Timing(tuple(times), first[0], clock.method)
                call.timing = timing  # type: ignore[attr-defined]
                if report:
                    print("%s: %s" % (getattr(fn, "__name__", "function"), timing))
            return result[0]

        call.timing = None  # type: ignore[attr-defined]
        return call

    return decorate


def quick_benchmark(
    model: Any, input_shape: Tuple[int, ...], num_iterations: int = 100, warmup: int = 10
) -> Tuple[float, float]:
    """Prints and returns the mean time of a forward in ms and samples per second, on the GPU if there is one.

    The model is put back to the device and mode that it was in. Further numbers are in ``quick_benchmark.timing``.
    """
    import torch

    was_on, was_training = device_of(model), model.training
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = model.to(device).eval()
    x = torch.randn(input_shape, device=device)
    try:
        with torch.inference_mode():
            timing = benchmark(model, x, warmup=warmup, repeats=num_iterations, min_time=0.0)
    finally:
        model.train(was_training).to(was_on)
    quick_benchmark.timing = timing  # type: ignore[attr-defined]
    avg_ms, throughput = timing.mean_s * 1e3, input_shape[0] / timing.mean_s
    print("Average time: %.2f ms (median %s)" % (avg_ms, seconds(timing.median_s)))
    print("Throughput: %.1f samples/sec" % throughput)
    return avg_ms, throughput


class NVTXAnnotator:
    """Ranges by name: ``with annotator.range("forward"):``, or ``push`` and ``pop``."""

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self._pushed: List[Any] = []

    def range(self, name: str) -> ContextManager[Any]:
        return ranges.phase(name) if self.enabled else contextlib.nullcontext()

    def push(self, name: str) -> None:
        opened = self.range(name)
        opened.__enter__()
        self._pushed.append(opened)

    def pop(self) -> None:
        if self._pushed:
            self._pushed.pop().__exit__(None, None, None)

    def mark(self, name: str) -> None:
        if self.enabled:
            ranges.mark(name)


class ProfilerWrapper:
    """PyTorch's profiler around some steps of a loop: ``wait`` steps pass, ``warmup`` are thrown away, ``active`` are recorded.

        profiler = ProfilerWrapper()
        for step, batch in enumerate(dataloader):
            with profiler.profile_step(step):
                ...
        profiler.finish().findings
    """

    def __init__(
        self, output_dir: str = "./profiling_results", wait: int = 1, warmup: int = 3, active: int = 10, **profile: Any
    ) -> None:
        import torch

        self.output_dir = output_dir
        self.path: Optional[str] = None
        self.report: Optional[Report] = None
        self._schedule = torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1)
        self._profile: Any = torch.profiler.profile(
            **{"record_shapes": True, "schedule": self._schedule, "on_trace_ready": self._export, **profile}
        )
        self._profile.start()

    def _export(self, profile: Any) -> None:
        os.makedirs(self.output_dir, exist_ok=True)
        self.path = os.path.join(self.output_dir, "rank%s.pt.trace.json.gz" % os.environ.get("RANK", "0"))
        profile.export_chrome_trace(self.path)

    @contextlib.contextmanager
    def profile_step(self, step: Optional[int] = None) -> Iterator[None]:
        del step  # PyTorch's profiler counts them itself, and names the steps in the trace
        yield
        if self._profile is not None:
            self._profile.step()

    def finish(self) -> Optional[Report]:
        """The report of the steps that were recorded; None: there were none."""
        if self._profile is not None:
            self._profile.stop()
            self._profile = None
        if self.path is not None and self.report is None:
            self.report = analyze(self.path)
        return self.report


def get_profiler_context(enabled: bool = True, output_dir: str = "./profiling_results", **profile: Any) -> ContextManager[Any]:
    """torch.profiler.profile over the whole block, with a trace in ``output_dir`` after it, or one a cycle of a ``schedule``;
    a context that does nothing where ``enabled`` is false. What it yields has ``step()`` either way."""

    class Nothing:
        def step(self) -> None:
            pass

    if not enabled:
        return contextlib.nullcontext(Nothing())
    import torch

    numbers = itertools.count()  # a schedule may record more than once

    def export(done: Any) -> None:
        os.makedirs(output_dir, exist_ok=True)
        number = next(numbers)
        name = "rank%s%s.pt.trace.json.gz" % (os.environ.get("RANK", "0"), ".%d" % number if number else "")
        done.export_chrome_trace(os.path.join(output_dir, name))

    profiler: ContextManager[Any] = torch.profiler.profile(**{"record_shapes": True, "on_trace_ready": export, **profile})
    return profiler


class ProfiledDataLoader:
    """A loader whose waits and copies are timed: the wait is what ``next()`` takes, the copy is the one to ``device``.

    ``device`` None takes the GPU where there is one; without one, batches stay where they are.
    """

    def __init__(self, dataloader: Iterable[Any], device: Any = None) -> None:
        self.dataloader = dataloader
        self.device = device
        self._times = PhaseTimes()
        self._epochs: List[int] = []  # where each begins in load_times

    @property
    def load_times(self) -> List[float]:
        return self._times.seconds().get("data_loading", [])

    @property
    def transfer_times(self) -> List[float]:
        return self._times.seconds().get("transfer", [])

    def __iter__(self) -> Iterator[Any]:
        import torch

        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._epochs.append(len(self.load_times))
        batches: Optional[Iterator[Any]] = None
        while True:
            begin = time.perf_counter()
            with ranges.phase("data_loading"):
                try:
                    if batches is None:
                        batches = iter(self.dataloader)
                    batch = next(batches)
                except StopIteration:
                    return
            self._times.add("data_loading", time.perf_counter() - begin)
            with self._times.phase("transfer"):
                batch = moved(batch, device)
            yield batch

    def __len__(self) -> int:
        return len(self.dataloader)  # type: ignore[arg-type]

    def get_stats(self) -> Dict[str, float]:
        """Means in ms; 0 before the first batch. An epoch's first wait starts the workers: those are ``first_load_ms``."""

        def mean_ms(values: List[float]) -> float:
            return statistics.fmean(values) * 1e3 if values else 0.0

        loads, first = self.load_times, set(self._epochs)
        return {
            "avg_load_ms": mean_ms([load for number, load in enumerate(loads) if number not in first] or loads),
            "first_load_ms": mean_ms([load for number, load in enumerate(loads) if number in first]),
            "avg_transfer_ms": mean_ms(self.transfer_times),
        }


_PIPELINE = ("data_loading", "preprocessing", "forward", "backward", "optimizer", "checkpoint", "total_step")


class PipelineProfiler:
    """Phases of an epoch: data_loading, preprocessing, forward, backward, optimizer, checkpoint, and total_step."""

    def __init__(self, output_dir: Optional[str] = "./pipeline_profile") -> None:
        self.output_dir = output_dir
        self._times = PhaseTimes()

    @property
    def timings(self) -> Dict[str, List[float]]:
        """Seconds of each phase, in order."""
        return {**{name: [] for name in _PIPELINE}, **self._times.seconds()}

    def phase(self, name: str) -> ContextManager[Any]:
        """``with profiler.phase("checkpoint"):`` for what profile_epoch() does not do itself."""
        return self._times.phase(name, on_host=name in ("data_loading", "checkpoint"))

    def profile_epoch(
        self,
        model: Any,
        dataloader: Iterable[Any],
        optimizer: Any,
        criterion: Optional[Callable[[Any, Any], Any]] = None,
        checkpoint_fn: Optional[Callable[[], Any]] = None,
    ) -> Dict[str, Dict[str, float]]:
        """Trains for an epoch, and returns generate_report(). ``checkpoint_fn`` is called, and timed, after it.

        A batch is a pair (inputs, labels), or a dict, named tuple or dataclass: its members go to the model by name where
        the model takes them, and those named labels, label, targets, target or y to ``criterion``. Without ``criterion``
        the loss is the output's own ``loss``.
        """
        device, batches = device_of(model), iter(dataloader)
        begin = time.perf_counter()
        while True:
            try:
                with self.phase("data_loading"):
                    batch = next(batches)
            except StopIteration:
                # The wait that found no more data is no batch's.
                self._times.seconds()["data_loading"].pop()
                break
            with self.phase("preprocessing"):
                batch = moved(batch, device)
            with self.phase("forward"):
                loss = batch_loss(model, batch, criterion)
            with self.phase("backward"):
                (loss if loss.dim() == 0 else loss.sum()).backward()
            with self.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            begin = self._end_step(begin)
        if checkpoint_fn is not None:
            with self.phase("checkpoint"):
                checkpoint_fn()
        return self.generate_report()

    def _end_step(self, begin: float) -> float:
        # One wait a step: total_step is of this step's work, and not of what was left in the queue.
        synchronize()
        end = time.perf_counter()
        self._times.add("total_step", end - begin)
        return end

    def generate_report(self) -> Dict[str, Dict[str, float]]:
        """By phase: mean in ms and share of all time, in which total_step is not a phase. "other" is the steps' rest."""
        timings = self.timings
        steps = sum(timings["total_step"])
        phases = {name: sum(times) for name, times in timings.items() if times and name != "total_step"}
        within = sum(time for name, time in phases.items() if name != "checkpoint")
        whole = max(steps, within) + phases.get("checkpoint", 0.0)
        if steps > within:
            phases["other"] = steps - within
        report = {
            name: {
                "avg_ms": total / max(1, len(timings.get(name, timings["total_step"]))) * 1e3,
                "percentage": total / whole * 100 if whole else 0.0,
            }
            for name, total in phases.items()
        }
        if timings["total_step"]:
            report["total_step"] = {"avg_ms": steps / len(timings["total_step"]) * 1e3, "percentage": steps / whole * 100}
        return report

    def save(self) -> str:
        """Writes the report to output_dir/pipeline_report.json, and returns its path."""
        if self.output_dir is None:
            raise _library.ProfgpuError("no output_dir was given")
        os.makedirs(self.output_dir, exist_ok=True)
        path = os.path.join(self.output_dir, "pipeline_report.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.generate_report(), file, indent=2)
        return path


class TrainingProfiler:
    """Times the steps of a loop of any shape, and their phases.

        profiler = TrainingProfiler()
        for batch in loader:
            with profiler.step(batch_size=len(batch)):
                with profiler.phase("forward"):
                    ...
        print(profiler.get_summary())
    """

    def __init__(self, warmup: int = 3) -> None:
        self.warmup = warmup
        self._times = PhaseTimes()
        self._steps: List[float] = []
        self._samples: List[int] = []
        self._warm: Dict[str, int] = {}  # how many times of each phase the warm-up has

    @contextlib.contextmanager
    def step(self, batch_size: int = 0) -> Iterator[None]:
        synchronize()
        before, begin = self._counts(), time.perf_counter()
        try:
            with ranges.step():
                yield
                synchronize()
        except BaseException:  # no step: its phases are none's either
            for name, times in self._times.seconds().items():
                del times[before.get(name, 0) :]
            raise
        self._add_step(time.perf_counter() - begin, batch_size)

    def _counts(self) -> Dict[str, int]:
        return {name: len(times) for name, times in self._times.seconds().items()}

    def _add_step(self, took: float, batch_size: int = 0) -> None:
        self._steps.append(took)
        self._samples.append(batch_size)
        if len(self._steps) == self.warmup:
            self._warm = self._counts()

    def phase(self, name: str) -> ContextManager[Any]:
        return self._times.phase(name, on_host=name in ("data_loading", "checkpoint"))

    @property
    def summary(self) -> Dict[str, float]:
        """Means after the warm-up, as flat names: step_ms, step_p95_ms, steps_per_s, samples_per_s, and NAME_ms a phase."""
        skip = self.warmup if len(self._steps) > self.warmup else 0
        steps = self._steps[skip:]
        if not steps:
            return {}
        flat = {
            "steps": float(len(steps)),
            "step_ms": statistics.fmean(steps) * 1e3,
            "step_p95_ms": Timing(tuple(steps), 0.0, "").percentile_s(95) * 1e3,
            "steps_per_s": len(steps) / sum(steps),
        }
        if any(self._samples[skip:]):
            flat["samples_per_s"] = sum(self._samples[skip:]) / sum(steps)
        for name, times in self._times.seconds().items():
            flat[name + "_ms"] = sum(times[self._warm.get(name, 0) if skip else 0 :]) / len(steps) * 1e3
        return flat

    def get_summary(self) -> Dict[str, float]:
        return self.summary


def profile_training(
    train_step: Callable[[Any], Any],
    dataloader: Iterable[Any],
    num_steps: int = 50,
    warmup: int = 5,
    device: Any = None,
) -> Dict[str, float]:
    """Runs ``train_step(batch)`` for ``warmup + num_steps`` batches; TrainingProfiler's summary of the last ``num_steps``.

    Waiting for data is timed as data_loading. Where ``device`` is given, batches are moved there, within the step. A step's
    time has the wait for its own batch. What listens hears of a step when that batch has come, since there may be no more:
    as a range, a step has the wait for the next one's.
    """
    profiler, batches, most = TrainingProfiler(warmup), iter(dataloader), warmup + num_steps
    synchronize()
    wait, batch = _next_batch(batches) if most > 0 else (0.0, _NO_MORE)
    while batch is not _NO_MORE:
        profiler._times.add("data_loading", wait)
        with ranges.step():
            begin = time.perf_counter()
            train_step(batch if device is None else moved(batch, device))
            synchronize()
            profiler._add_step(wait + time.perf_counter() - begin)
            if len(profiler._steps) == most:
                break
            wait, batch = _next_batch(batches)
    return profiler.summary


_NO_MORE = object()


def _next_batch(batches: Iterator[Any]) -> Tuple[float, Any]:
    """The wait in seconds, and the batch."""
    begin = time.perf_counter()
    with ranges.phase("data_loading"):
        batch = next(batches, _NO_MORE)
    return time.perf_counter() - begin, batch
