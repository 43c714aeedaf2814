"""benchmark, compare and crossover: how long functions take, and how sure that is."""
from __future__ import annotations

import dataclasses
import gc
import inspect
import math
import statistics
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _library

NAN = float("nan")
_LEAST_BATCH_S = 50e-6  # shorter calls are timed several at once, so that reading the clock does not count
_MOST_RUNS = 100_000
_HOST_CACHE_BYTES = 64 << 20

Sync = Union[str, bool, Callable[[], Any], None]


def _quantile(ordered: Sequence[float], q: float) -> float:
    place = (len(ordered) - 1) * q
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Tuple[float, float]:
    """Bounds of the median by order statistics: no distribution is assumed but that values are independent.

    Below six values, no pair of them has 95 %: the least and the greatest are given.
    """
    ordered, n = sorted(values), len(values)
    if not n:
        return NAN, NAN
    below, tail = 0, 0.5**n  # P(fewer than below + 1 values lie under the median)
    probability = tail
    while below + 1 < (n - 1) / 2:
        probability *= (n - below) / (below + 1)
        if 2 * (tail + probability) > 1 - confidence:
            break
        tail += probability
        below += 1
    return ordered[below], ordered[n - 1 - below]


@dataclasses.dataclass(frozen=True)
class Timing:
    """How long a call takes, in seconds. ``str()`` is one line for a person."""

    times_s: Tuple[float, ...]  #: one a run, in order
    first_call_s: float  #: with everything that happens once: compiling, allocating, loading
    method: str  #: "CUDA events", "wall clock, synchronized", "wall clock"
    calls_per_run: int = 1

    @property
    def median_s(self) -> float:
        return statistics.median(self.times_s)

    @property
    def mean_s(self) -> float:
        return statistics.fmean(self.times_s)

    @property
    def min_s(self) -> float:
        return min(self.times_s)

    @property
    def max_s(self) -> float:
        return max(self.times_s)

    @property
    def std_s(self) -> float:
        """The sample's; NaN for one run."""
        return statistics.stdev(self.times_s) if len(self.times_s) > 1 else NAN

    @property
    def interval_s(self) -> Tuple[float, float]:
        """95 % confidence interval of the median."""
        return median_interval(self.times_s)

    def percentile_s(self, p: float) -> float:
        return _quantile(sorted(self.times_s), p / 100)

    def metrics(self, prefix: str = "time/") -> Dict[str, float]:
        low, high = self.interval_s
        return {
            prefix + "median_s": self.median_s,
            prefix + "low_s": low,
            prefix + "high_s": high,
            prefix + "p5_s": self.percentile_s(5),
            prefix + "p95_s": self.percentile_s(95),
            prefix + "first_call_s": self.first_call_s,
            prefix + "runs": float(len(self.times_s)),
        }

    def __str__(self) -> str:
        low, high = self.interval_s
        median, p5, p95 = seconds(self.median_s), seconds(self.percentile_s(5)), seconds(self.percentile_s(95))
        said = "%s (95 %%: %s to %s; p5 %s, p95 %s; " % (median, seconds(low), seconds(high), p5, p95)
        return said + "%d runs; first call %s; %s)" % (len(self.times_s), seconds(self.first_call_s), self.method)


def seconds(x: float) -> str:
    """"1.23 ms"."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(x) >= scale:
            return "%.3g %s" % (x / scale, unit)
    return "n/a" if math.isnan(x) else "%.3g ns" % (x / 1e-9)


def cuda_in_use() -> Any:
    """torch, where it is imported and has a CUDA context; else None. Makes none itself."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_available() and cuda.is_initialized():
        return torch
    return None


class Clock:
    """Times calls by CUDA events if a GPU is at work, otherwise by the wall clock."""

    def __init__(self, sync: Sync = "auto") -> None:
        if not (sync in ("auto", None, True, False) or callable(sync)):
            raise ValueError('sync must be "auto", None, or a function')
        self._torch: Any = cuda_in_use() if sync in ("auto", True) else None
        self._sync: Optional[Callable[[], Any]] = sync if callable(sync) else None

    @property
    def method(self) -> str:
        return "CUDA events" if self._torch else "wall clock, synchronized" if self._sync else "wall clock"

    def time(self, call: Callable[[], Any]) -> float:
        if self._torch is not None:
            start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
            self._torch.cuda.synchronize()
            start.record()
            call()
            end.record()
            self._torch.cuda.synchronize()
            return float(start.elapsed_time(end)) / 1e3
        if self._sync is not None:
            self._sync()
        begin = time.perf_counter()
        call()
        if self._sync is not None:
            self._sync()
        return time.perf_counter() - begin


def synchronize(sync: Sync = "auto") -> None:
    """Waits for the GPU if one is at work, or calls the given function to do so."""
    if callable(sync):
        sync()
    elif sync in ("auto", True):
        torch = cuda_in_use()
        if torch is not None:
            torch.cuda.synchronize()


def _cache_flusher() -> Callable[[], None]:
    torch = cuda_in_use()
    if torch is not None:
        l2 = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0) or 64 << 20
        buffer = torch.empty(4 * l2, dtype=torch.uint8, device="cuda")
        return lambda: buffer.zero_()
    host = bytearray(_HOST_CACHE_BYTES)
    zeros = bytes(_HOST_CACHE_BYTES)

    def flush() -> None:
        host[:] = zeros

    return flush


class _Subject:
    """A function with what is needed to time it again and again."""

    def __init__(self, call: Callable[[], Any], sync: Sync, warmup: int, flush: bool) -> None:
        begin = time.perf_counter()
        result = call()
        if inspect.iscoroutine(result):
            result.close()
            raise ValueError("a coroutine does nothing until it is awaited: time lambda: asyncio.run(fn())")
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            raise ValueError("a generator does nothing until it is iterated: time lambda: list(fn())")
        synchronize(sync)
        self.first_call_s = time.perf_counter() - begin
        for _ in range(warmup):
            call()
        synchronize(sync)
        self.clock = Clock(sync)  # only now: the first call may have made the CUDA context
        self._call = call
        self._flush = _cache_flusher() if flush else None
        once = min(self.clock.time(call) for _ in range(2))
        # A flushed cache is warm again after one call.
        self.calls = 1 if flush else max(1, math.ceil(_LEAST_BATCH_S / max(once, 1e-9)))

    def run(self) -> float:
        if self._flush is not None:
            self._flush()
        calls, call = self.calls, self._call
        if calls == 1:
            return self.clock.time(call)

        def several() -> None:
            for _ in range(calls):
                call()

        return self.clock.time(several) / calls

    def timing(self, times: Sequence[float]) -> Timing:
        return Timing(tuple(times), self.first_call_s, self.clock.method, self.calls)


class _NoCollection:
    """Turns Python's garbage collector off, so that its pauses are not measured."""

    def __enter__(self) -> None:
        self._was = gc.isenabled()
        gc.disable()

    def __exit__(self, *error: Any) -> None:
        if self._was:
            gc.enable()


def _check(warmup: int, repeats: int) -> None:
    if warmup < 0 or repeats < 1:
        raise ValueError("warmup must be at least 0, repeats at least 1")


def benchmark(
    fn: Callable[..., Any],
    *args: Any,
    warmup: int = 3,
    repeats: int = 20,
    min_time: float = 0.2,
    sync: Sync = "auto",
    flush_cache: bool = False,
    kwargs: Optional[Dict[str, Any]] = None,
) -> Timing:
    """Times ``fn(*args, **kwargs)``: one call apart, ``warmup`` calls, then at least ``repeats`` runs and ``min_time`` s.

    ``sync``: "auto" uses CUDA events where PyTorch has a context, and the wall clock elsewhere; a function is called
    before and after each run; None: the wall clock and nothing else. ``flush_cache`` overwrites the cache before each
    run. Runs of calls shorter than 50 µs are several calls, and their time is the mean.
    """
    _check(warmup, repeats)
    given = kwargs or {}
    subject = _Subject(lambda: fn(*args, **given), sync, warmup, flush_cache)
    times: List[float] = []
    spent = 0.0
    with _NoCollection():
        while len(times) < repeats or (spent < min_time and len(times) < _MOST_RUNS):
            times.append(subject.run())
            spent += times[-1] * subject.calls
    return subject.timing(times)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two functions side by side. ``ratio`` is b's time over a's: below 1, b is faster."""

    a: Timing
    b: Timing
    ratio: float  #: median of the ratios of neighbouring runs
    interval: Tuple[float, float]  #: 95 % confidence interval of it
    threshold: float

    @property
    def is_real(self) -> bool:
        """Whether the interval leaves out 1, and the ratio differs from it by more than the threshold."""
        low, high = self.interval
        return (low > 1 or high < 1) and abs(self.ratio - 1) > self.threshold

    def __bool__(self) -> bool:
        return self.is_real

    def __str__(self) -> str:
        low, high = self.interval
        bounds = "95 %%: %.3f to %.3f" % (low, high)
        if not self.is_real:
            return "no real difference: b takes %.3f times a's time (%s)" % (self.ratio, bounds)
        how = "faster" if self.ratio < 1 else "slower"
        factor = 1 / self.ratio if self.ratio < 1 else self.ratio
        return "b is %.3g times as %s (%s; a %s, b %s)" % (
            factor, "fast" if how == "faster" else "slow", bounds, seconds(self.a.median_s), seconds(self.b.median_s)
        )


def compare(
    a: Callable[[], Any],
    b: Callable[[], Any],
    *,
    warmup: int = 3,
    repeats: int = 30,
    min_time: float = 0.2,
    sync: Sync = "auto",
    flush_cache: bool = False,
    threshold: float = 0.01,
) -> Comparison:
    """Times two functions in turns, a b b a, so that what drifts (clocks, temperature, neighbours) meets both alike.

    The difference is real where the 95 % interval of the ratio leaves out 1 and the ratio is off by more than ``threshold``.
    """
    _check(warmup, repeats)
    subjects = [_Subject(fn, sync, warmup, flush_cache) for fn in (a, b)]
    times: Tuple[List[float], List[float]] = ([], [])
    with _NoCollection():
        begin = time.perf_counter()
        while len(times[0]) < repeats or (time.perf_counter() - begin < 2 * min_time and len(times[0]) < _MOST_RUNS):
            order = (0, 1) if len(times[0]) % 2 == 0 else (1, 0)
            for which in order:
                times[which].append(subjects[which].run())
    logs = [math.log(max(tb, 1e-12) / max(ta, 1e-12)) for ta, tb in zip(*times)]
    low, high = median_interval(logs)
    return Comparison(
        subjects[0].timing(times[0]),
        subjects[1].timing(times[1]),
        math.exp(statistics.median(logs)),
        (math.exp(low), math.exp(high)),
        threshold,
    )


@dataclasses.dataclass(frozen=True)
class CrossoverRow:
    """One size: the CPU, the GPU on data that it has already, and the GPU with both copies."""

    size: Any
    cpu: Timing
    gpu: Timing
    gpu_with_copies: Timing


def _wins_from(rows: Sequence[CrossoverRow], time_of: Callable[[CrossoverRow], Timing]) -> Any:
    """The size from which on the GPU is always faster; None: it is not at the largest one."""
    first: Any = None
    for row in reversed(rows):
        if time_of(row).median_s >= row.cpu.median_s:
            break
        first = row.size
    return first


@dataclasses.dataclass(frozen=True)
class Crossover:
    """From which size on the GPU wins. ``print()`` draws it."""

    rows: Tuple[CrossoverRow, ...]

    @property
    def size(self) -> Any:
        """The first of the sizes from which on the GPU is faster, its data being there; None: never."""
        return _wins_from(self.rows, lambda row: row.gpu)

    @property
    def size_with_copies(self) -> Any:
        """The same, with the copies there and back."""
        return _wins_from(self.rows, lambda row: row.gpu_with_copies)

    def draw(self, width: int = 40) -> str:
        """A bar a size and way, on a logarithmic axis of time."""
        every = [t.median_s for row in self.rows for t in (row.cpu, row.gpu, row.gpu_with_copies)]
        low, high = math.log(min(every)), math.log(max(every))
        label = max(len(str(row.size)) for row in self.rows)
        lines = []
        for row in self.rows:
            for name, timing in (("cpu", row.cpu), ("gpu", row.gpu), ("gpu+copies", row.gpu_with_copies)):
                share = 1.0 if high <= low else (math.log(timing.median_s) - low) / (high - low)
                head = str(row.size) if name == "cpu" else ""
                bar = "█" * (1 + round(share * (width - 1)))
                lines.append("%*s  %-10s  %-*s  %s" % (label, head, name, width, bar, seconds(timing.median_s)))
        return "\n".join(lines)

    def __str__(self) -> str:
        def says(size: Any, how: str) -> str:
            return "the GPU wins from %s on, %s" % (size, how) if size is not None else "the GPU does not win, " + how

        return "\n".join(
            [self.draw(), says(self.size, "data in its memory"), says(self.size_with_copies, "with both copies")]
        )

    def _repr_html_(self) -> str:
        import html

        return "<pre>%s</pre>" % html.escape(str(self))


def _moved(value: Any, place: str) -> Any:
    if hasattr(value, "to"):
        return value.to(place)
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(item, place) for item in value)
    return value


def _check_cuda() -> None:
    """Raises where data cannot be copied to a GPU by PyTorch."""
    try:
        import torch
    except ImportError:
        why = "PyTorch is not installed"
    else:
        if torch.cuda.is_available():
            return
        why = "this PyTorch is built without CUDA" if torch.version.cuda is None else "PyTorch finds no GPU"
    raise _library.ProfgpuError(
        "crossover() has no GPU to compare the CPU with: %s" % why,
        "pass to_gpu and from_gpu to copy data in another way; `profgpu doctor` looks for what keeps a GPU from working",
    )


def _torch_input(size: Any) -> Any:
    import torch

    return torch.rand(size)


def crossover(
    cpu_fn: Callable[[Any], Any],
    gpu_fn: Callable[[Any], Any],
    sizes: Sequence[Any],
    *,
    make: Optional[Callable[[Any], Any]] = None,
    to_gpu: Optional[Callable[[Any], Any]] = None,
    from_gpu: Optional[Callable[[Any], Any]] = None,
    warmup: int = 3,
    repeats: int = 10,
    min_time: float = 0.05,
    sync: Sync = "auto",
) -> Crossover:
    """Times ``cpu_fn(data)`` and ``gpu_fn(data)`` over ``sizes``, and finds from which on the GPU wins.

    ``make(size)`` makes the data on the host (default: ``torch.rand(size)``). ``to_gpu`` and ``from_gpu`` copy data and
    result (default: tensors, also in lists and tuples, by ``.to("cuda")`` and ``.to("cpu")``; ProfgpuError where PyTorch
    has no GPU).
    """
    if not sizes:
        raise ValueError("sizes is empty")
    if to_gpu is None:
        _check_cuda()
    there = to_gpu or (lambda value: _moved(value, "cuda"))
    back = from_gpu or (lambda value: _moved(value, "cpu"))
    rows: List[CrossoverRow] = []
    for size in sizes:
        data = (make or _torch_input)(size)
        resident = there(data)
        options: Dict[str, Any] = {"warmup": warmup, "repeats": repeats, "min_time": min_time}
        rows.append(
            CrossoverRow(
                size,
                benchmark(cpu_fn, data, sync=None, **options),
                benchmark(gpu_fn, resident, sync=sync, **options),
                # By the wall clock: events on the GPU do not see the host's part of a copy.
                benchmark(lambda d=data: back(gpu_fn(there(d))), sync=lambda: synchronize(sync), **options),
            )
        )
    return Crossover(tuple(rows))

