"""Steps and phases of a training loop, as the program names them.

    with profgpu.step():
        with profgpu.phase("forward"):
            ...

They reach whatever listens: the recorder of ``profgpu run --trace``, monitors that this thread started, PyTorch's
profiler, and NVTX where Nsight Systems has set it up. Where nothing listens a range is one shared object that does nothing.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import os
import sys
import threading
import types
from types import TracebackType
from typing import Any, Callable, ContextManager, Generator, List, Optional, Set, Type, TypeVar

from . import _library

_F = TypeVar("_F", bound=Callable[..., Any])

_recorded = bool(os.environ.get("PROFGPU_RECORD") and os.environ.get("PROFGPU_INJECT"))
# Our recorder takes NVTX ranges, too; they would be there twice.
_nvtx_wanted = bool(os.environ.get("NVTX_INJECTION64_PATH")) and not _recorded
_RECORDER = 0
# Whom the library has to tell: the recorder, and the monitors that run in this process, by id. A set, because threads and the
# garbage collector change it, at any moment.
_native: Set[int] = {_RECORDER} if _recorded else set()
_steps = itertools.count()
_torch_profiles: Optional[Callable[[], bool]] = None  # whether PyTorch's profiler runs; None: no PyTorch yet
_is_compiling: Optional[Callable[[], bool]] = None  # torch.compile traces it as a constant, and so finds no range


def monitor_started(monitor: int) -> None:
    _native.add(monitor)


def monitor_stopped(monitor: int) -> None:
    _native.discard(monitor)


def _after_fork() -> None:
    _native.intersection_update({_RECORDER})


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _find_torch() -> None:
    """How to ask PyTorch, once it is imported."""
    global _torch_profiles, _is_compiling
    torch = sys.modules.get("torch")
    enabled = getattr(getattr(torch, "autograd", None), "_profiler_enabled", None)
    if enabled is None:
        return
    _is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    _torch_profiles = enabled


def is_compiling() -> bool:
    """Whether torch.compile traces the caller."""
    if _torch_profiles is None and "torch" in sys.modules:
        _find_torch()
    return _is_compiling is not None and _is_compiling()


def _listened() -> bool:
    """Whether a range has somebody to tell."""
    if is_compiling():
        return False
    return bool(_native) or _nvtx_wanted or (_torch_profiles is not None and _torch_profiles())


_find_torch()  # where it is imported already


# What a range is where nothing listens: torch.compile knows what it is.
NOTHING: ContextManager[None] = contextlib.nullcontext()


class Range:
    """A named part of the program, from ``with`` to its end."""

    __slots__ = ("_name", "_step", "_opened")

    def __init__(self, name: Any, step: Any = None) -> None:
        # No matter what a program names it by: it must not fail just where something listens.
        self._name = str(name)
        self._step = None if step is None else _number(step)
        self._opened: List[Callable[[], None]] = []

    def __enter__(self) -> Range:
        name = self._name if self._step is None else "ProfilerStep#%d" % self._step
        if _native:
            lib = _library.library()
            if self._step is None:
                lib.profgpu_range_push(_library.given(name))
            else:
                _take_over_steps()
                lib.profgpu_step_push(self._step)
            self._opened.append(lib.profgpu_range_pop)
        if _nvtx_wanted:
            _open_nvtx(name, self._opened)
        if _torch_profiles is not None and _torch_profiles():
            record = sys.modules["torch"].autograd.profiler.record_function(name)
            record.__enter__()
            self._opened.append(lambda: record.__exit__(None, None, None))
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        while self._opened:
            self._opened.pop()()


def _number(step: Any) -> int:
    try:
        return int(step)
    except (TypeError, ValueError):
        return next(_steps)


def _take_over_steps() -> None:
    """Under `profgpu run --trace` the hook counts steps, too; the program knows better."""
    hook: Any = sys.modules.get("profgpu_phases")
    if hook is not None:
        hook.program_marks_steps = True


def _open_nvtx(name: str, opened: List[Callable[[], None]]) -> None:
    nvtx: Any = sys.modules.get("nvtx")
    torch: Any = sys.modules.get("torch")
    if nvtx is not None:
        nvtx.push_range(name)
        opened.append(nvtx.pop_range)
    elif torch is not None and torch.cuda.is_available():
        torch.cuda.nvtx.range_push(name)
        opened.append(torch.cuda.nvtx.range_pop)


def phase(name: str) -> ContextManager[Any]:
    """``with phase("forward"):``. Reports know data_loading, forward, backward, optimizer and checkpoint; others are shown
    by their name."""
    if _listened():
        return Range(name)
    return NOTHING


def step(number: Optional[int] = None) -> ContextManager[Any]:
    """``with step():`` around one step of the training loop. Without a number, steps are counted from 0."""
    if _listened():
        return Range("step", next(_steps) if number is None else number)
    return NOTHING


class annotate:
    """A range as context manager or decorator.

    Of a coroutine or a generator the range is open while it runs, and not while it waits for others.

    >>> @annotate("tokenize")
    ... def tokenize(text):
    ...     return text.split()
    >>> tokenize("a b")
    ['a', 'b']
    """

    def __init__(self, name: str) -> None:
        if callable(name):
            raise TypeError('annotate("name") takes a name, and decorates then')
        self.name = name
        self._open = _Open()

    def __enter__(self) -> annotate:
        opened = phase(self.name)
        opened.__enter__()
        self._open.ranges.append(opened)
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self._open.ranges.pop().__exit__(kind, error, traceback)

    def __call__(self, function: _F) -> _F:
        if isinstance(function, type) or not callable(function):
            raise TypeError("annotate: a function, not %r; of a class, its methods, below @classmethod" % (function,))
        return _annotated(function, self.name)  # type: ignore[no-any-return]


class _Open(threading.local):
    """A thread's own: several may be within the same annotate."""

    def __init__(self) -> None:
        self.ranges: List[ContextManager[Any]] = []


def _annotated(function: Callable[..., Any], name: str) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with phase(name):
            return function(*args, **kwargs)

    @functools.wraps(function)
    async def wait(*args: Any, **kwargs: Any) -> Any:
        return await _awaited(function(*args, **kwargs), name)

    @functools.wraps(function)
    def generate(*args: Any, **kwargs: Any) -> Any:
        return (yield from _resumed(function(*args, **kwargs), name))

    @functools.wraps(function)
    async def generate_async(*args: Any, **kwargs: Any) -> Any:
        items = function(*args, **kwargs)
        resume, value = items.asend, None
        try:
            while True:
                item = await _awaited(resume(value), name)
                try:
                    resume, value = items.asend, (yield item)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    resume, value = items.athrow, error
        except StopAsyncIteration:
            pass
        finally:
            await items.aclose()

    if inspect.iscoroutinefunction(function):
        return wait
    if inspect.isasyncgenfunction(function):
        return generate_async
    return generate if inspect.isgeneratorfunction(function) else call


def _resumed(running: Any, name: str) -> Generator[Any, Any, Any]:
    """Runs a generator, or what an await waits for, to its end."""
    resume, value = running.send, None
    while True:
        try:
            with phase(name):
                item = resume(value)
        except StopIteration as end:
            return end.value
        try:
            resume, value = running.send, (yield item)
        except GeneratorExit:
            running.close()
            raise
        except BaseException as error:
            resume, value = running.throw, error


_awaited = types.coroutine(_resumed)


def mark(name: str) -> None:
    """An instant in the recording."""
    if _recorded:
        _library.library().profgpu_range_mark(_library.given(str(name)))


def is_recorded() -> bool:
    """Whether ``profgpu run --trace`` records this process."""
    return _recorded and bool(_library.library().profgpu_is_recorded())
