"""watch(): the steps and phases of a training loop, without a change to the loop."""
from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import ranges

_PHASES = ("data_loading", "forward", "backward", "optimizer")


class Watch:
    """Marks what a loop does with a model, an optimizer and a loader, until ``close()`` or the end of a ``with``.

    A step ends where the loop next waits for data, or begins a forward, after the optimizer has stepped; with neither, where
    the optimizer steps again. A forward without gradients begins none: validation between steps is in no step. ``metrics()``
    has the mean times of the last steps: on the host, so that a GPU that lags behind shows up where the loop waits for it.

    Whether there is another batch is known when it has come. So what listens hears of a step then: as a range, a step has
    the wait for the next step's batch, and not for its own.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, loader: Any = None, window: int = 100) -> None:
        self._thread = threading.get_ident()
        self._undo: List[Callable[[], Any]] = []
        self._open: List[Tuple[str, float, Any]] = []  # phase, its start, its range
        self._step: Any = None
        self._step_start: Optional[float] = None
        self._stepped = False
        self._spent: Dict[str, float] = {}
        self._wait: Optional[Tuple[float, float]] = None  # for a batch that has not come: its start, its time so far
        self._window = window
        self._past: List[Dict[str, float]] = []
        self._closed = False
        #: steps that have ended
        self.steps = 0
        try:
            if model is not None:
                self._hook_model(model)
            if optimizer is not None:
                self._hook_optimizer(optimizer)
            if loader is not None:
                self._hook_loader(loader)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Removes every hook. Open ranges end."""
        self._closed = True  # a hook that lies under one that was set later stays, and is deaf
        while self._undo:
            self._undo.pop()()
        while self._open:
            self._leave(self._open[-1][0])
        self._end_step()

    def metrics(self, prefix: str = "profgpu/") -> Dict[str, float]:
        """Seconds per step and phase, the mean of the last steps; ``steps_per_s``; ``data_loading_pct`` of the step."""
        if not self._past:
            return {}
        names = sorted({name for step in self._past for name in step})
        flat = {prefix + name + "_s": sum(step.get(name, 0.0) for step in self._past) / len(self._past) for name in names}
        flat[prefix + "steps_per_s"] = 1 / max(flat[prefix + "step_s"], 1e-12)
        for name in _PHASES:
            if prefix + name + "_s" in flat:
                flat["%s%s_pct" % (prefix, name)] = 100 * flat[prefix + name + "_s"] * flat[prefix + "steps_per_s"]
        return flat

    # A loop runs on one thread; what others do (a prefetcher, a validation) is not a part of its steps.
    def _is_deaf(self) -> bool:
        return self._closed or ranges.is_compiling() or threading.get_ident() != self._thread

    def _begin(self, phase: str) -> bool:
        """Whether it has begun: one within its like does not, and does not end it."""
        if self._is_deaf():
            return False
        if phase in ("data_loading", "optimizer"):
            self._leave("optimizer")  # its last step raised
        if any(name == phase for name, _, _ in self._open):
            return False
        if not self._open and phase != "data_loading" and (self._stepped or self._step_start is None):
            self._begin_without_data(phase)
        opened = ranges.NOTHING if _hook_is_on() else ranges.phase(phase)
        opened.__enter__()
        self._open.append((phase, time.perf_counter(), opened))
        return True

    def _begin_without_data(self, phase: str) -> None:
        # An optimizer may call its forward itself, or one that nobody sees. With data, it may step more than once in a step.
        if self._stepped and (phase == "forward" or (phase == "optimizer" and "data_loading" not in self._spent)):
            self._end_step()
        if self._step_start is None and (phase != "forward" or sys.modules["torch"].is_grad_enabled()):
            self._begin_step(time.perf_counter())

    def _before_optimizer(self, *_: Any) -> None:
        self._begin("optimizer")  # what a hook returns would be the step's arguments

    def _end(self, phase: str) -> None:
        if ranges.is_compiling() or threading.get_ident() != self._thread:
            return
        if self._leave(phase) and phase == "optimizer":
            self._stepped = True

    def _leave(self, phase: str) -> bool:
        if not any(name == phase for name, _, _ in self._open):
            return False
        while self._open:  # what an exception left open within it ends with it
            name, start, opened = self._open.pop()
            opened.__exit__(None, None, None)
            if not self._open:  # a phase within another is the other's time
                self._spend(name, start, time.perf_counter() - start)
            if name == phase:
                break
        return True

    def _spend(self, phase: str, start: float, took: float) -> None:
        if phase == "data_loading":
            self._wait = (start, took)
        elif self._step_start is not None:
            self._spent[phase] = self._spent.get(phase, 0.0) + took

    def _batch_came(self) -> None:
        if self._is_deaf() or self._open or self._wait is None:
            return
        (start, took), self._wait = self._wait, None
        if self._stepped:
            self._end_step(start)
        if self._step_start is None:
            self._begin_step(start)
        self._spent["data_loading"] = self._spent.get("data_loading", 0.0) + took

    def _data_ended(self) -> None:
        """There is no more, or the loop wants no more."""
        if self._is_deaf() or self._open:
            return
        start = self._wait[0] if self._wait is not None else None  # the wait that found nothing is no step's
        self._wait = None
        if self._stepped:
            self._end_step(start)

    def _begin_step(self, start: float) -> None:
        self._step = ranges.NOTHING if _hook_is_on() else ranges.step(self.steps)
        self._step.__enter__()
        self._step_start = start

    def _end_step(self, end: Optional[float] = None) -> None:
        if self._step_start is None:
            return
        if self._stepped:
            took = (time.perf_counter() if end is None else end) - self._step_start
            self._past = [*self._past, {**self._spent, "step": took}][-self._window :]
            self.steps += 1
        self._step.__exit__(None, None, None)
        self._step_start, self._stepped, self._spent = None, False, {}

    def _hook_model(self, model: Any) -> None:
        torch: Any = sys.modules.get("torch")
        if torch is None or not isinstance(model, torch.nn.Module):
            raise TypeError("model: a torch.nn.Module, not %s" % type(model).__name__)
        self._undo.append(_Replaced.of(torch.autograd, "backward", _watched_backward).add(self))  # Tensor.backward's, too
        if not isinstance(model, _class_of_compiled() or ()):
            self._undo.append(_Replaced.of(type(model), "__call__", _watched_call).add(self, model))
        self._hook_compiled(model)

    def _hook_compiled(self, model: Any) -> None:
        """What torch.compile makes of the model calls it, or the code that it has compiled of it."""
        torch, compiled = sys.modules["torch"], _class_of_compiled()
        if compiled is not None:
            self._undo.append(_Replaced.of(compiled, "__call__", _watched_compiled_call).add(self, model))
        elif hasattr(torch, "compile"):  # which imports that class
            self._undo.append(_Replaced.of(torch, "compile", _watched_compile).add(self, model))

    def _hook_optimizer(self, optimizer: Any) -> None:
        if hasattr(optimizer, "register_step_pre_hook"):
            self._undo.append(optimizer.register_step_pre_hook(self._before_optimizer).remove)
            self._undo.append(optimizer.register_step_post_hook(lambda *_: self._end("optimizer")).remove)
            return
        original = getattr(optimizer, "step", None)  # torch 1
        if not callable(original):
            raise TypeError("optimizer: a torch.optim.Optimizer, not %s" % type(optimizer).__name__)

        def step(*args: Any, **kwargs: Any) -> Any:
            self._begin("optimizer")
            try:
                return original(*args, **kwargs)
            finally:
                self._end("optimizer")

        optimizer.step = step
        self._undo.append(lambda: optimizer.__dict__.pop("step", None))

    def _hook_loader(self, loader: Any) -> None:
        kind = type(loader)
        try:
            self._undo.append(_Replaced.of(kind, "__iter__", _watched_iteration).add(self, loader))
        except (AttributeError, TypeError):
            raise TypeError(
                "loader: a torch.utils.data.DataLoader or an object of a class of your own that can be iterated, not %s; "
                'or mark the waits with profgpu.phase("data_loading")' % kind.__name__
            ) from None


class _Replaced:
    """A method of a class in the place of its own, while any object is watched, for those objects.

    An object's own hooks or class would go with it where it is copied, saved, scripted or compiled.
    """

    def __init__(self, owner: Any, name: str, make: Callable[[_Replaced], Callable[..., Any]]) -> None:
        self.owner, self.name = owner, name
        self.own: Any = vars(owner).get(name)  # None: inherited
        self._watched: List[Tuple[Watch, Callable[[], Any]]] = []
        self._function: Any = functools.wraps(getattr(owner, name))(make(self))
        setattr(self._function, "__watched__", self)
        _leave_to_interpreter(self._function)
        for ours in (ranges.is_compiling, _begin_all, _end_all, _Replaced.original):
            _leave_to_interpreter(ours, all_below=True)
        setattr(owner, name, self._function)

    @staticmethod
    def of(owner: Any, name: str, make: Callable[[_Replaced], Callable[..., Any]]) -> _Replaced:
        return getattr(getattr(owner, name), "__watched__", None) or _Replaced(owner, name, make)

    def add(self, watch: Watch, watched: Any = None) -> Callable[[], None]:
        """Returns what takes it out."""
        refer: Callable[[], Any] = lambda: watched
        with contextlib.suppress(TypeError):
            refer = weakref.ref(watched)  # it need not outlive its owner
        entry = (watch, refer)
        self._watched = [other for other in self._watched if watched is None or other[1]() is not None] + [entry]

        def remove() -> None:
            self._watched = [other for other in self._watched if other is not entry]
            self._restore()

        return remove

    def _restore(self) -> None:
        if not self._watched and vars(self.owner).get(self.name) is self._function:
            if self.own is None:
                delattr(self.owner, self.name)
            else:
                setattr(self.owner, self.name, self.own)

    def take(self) -> List[Tuple[Watch, Any]]:
        """All that are watched; from now on none is."""
        taken, self._watched = self._watched, []
        self._restore()
        return [(watch, refer()) for watch, refer in taken]

    def watches(self, watched: Any, within: Any = None) -> List[Watch]:
        """Of the one or of the other."""
        return [watch for watch, refer in self._watched if refer() is watched or (within is not None and refer() is within)]

    def original(self, this: Any) -> Any:
        """Looked up anew, as others may have replaced what is inherited."""
        if self.own is not None:
            return self.own.__get__(this)
        return getattr(super(self.owner, this), self.name)


def _begin_all(watches: List[Watch], phase: str) -> List[Watch]:
    return [watch for watch in watches if watch._begin(phase)]


def _end_all(begun: List[Watch], phase: str) -> None:
    for watch in reversed(begun):
        watch._end(phase)


def _watched_call(place: _Replaced) -> Callable[..., Any]:
    def begin(this: Any) -> List[Watch]:
        return _begin_all(place.watches(this), "forward")

    return _marked_forward(place, begin)


def _watched_compiled_call(place: _Replaced) -> Callable[..., Any]:
    def begin(this: Any) -> List[Watch]:
        return _begin_all(place.watches(this, this._orig_mod), "forward")

    return _marked_forward(place, begin)


def _marked_forward(place: _Replaced, begin: Callable[[Any], List[Watch]]) -> Callable[..., Any]:
    def call(this: Any, *args: Any, **kwargs: Any) -> Any:
        if ranges.is_compiling():
            return place.original(this)(*args, **kwargs)
        begun = begin(this)
        if not begun:
            return place.original(this)(*args, **kwargs)
        try:
            return place.original(this)(*args, **kwargs)
        finally:
            _end_all(begun, "forward")

    _leave_to_interpreter(begin, all_below=True)
    return call


def _watched_compile(place: _Replaced) -> Callable[..., Any]:
    def compile(*args: Any, **kwargs: Any) -> Any:
        made = place.own(*args, **kwargs)
        for watch, model in place.take():
            if model is not None:
                watch._hook_compiled(model)
        return made

    return compile


def _watched_backward(place: _Replaced) -> Callable[..., Any]:
    def backward(*args: Any, **kwargs: Any) -> Any:
        if ranges.is_compiling():
            return place.own(*args, **kwargs)
        begun = _begin_all(place.watches(None), "backward")
        try:
            return place.own(*args, **kwargs)
        finally:
            _end_all(begun, "backward")

    return backward


def _watched_iteration(place: _Replaced) -> Callable[..., Any]:
    def iterate(this: Any) -> Any:
        watches = place.watches(this)
        return _batches(watches, place.original(this)) if watches else place.original(this)()

    return iterate


def _batches(watches: List[Watch], begin: Callable[[], Any]) -> Iterator[Any]:
    batches = None
    try:
        while True:
            begun = _begin_all(watches, "data_loading")
            try:
                batches = begin() if batches is None else batches
                batch = next(batches)
            except StopIteration:
                return
            finally:
                _end_all(begun, "data_loading")
            for watch in begun:
                watch._batch_came()
            yield batch
    finally:
        for watch in watches:
            watch._data_ended()


def _class_of_compiled() -> Any:
    """Of what torch.compile makes of a module; None: nothing has been compiled yet."""
    return getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)


def _leave_to_interpreter(function: Any, all_below: bool = False) -> None:
    """torch.compile shall not compile its frame where it is called from code that is not traced, nor those of what it calls."""
    native: Any = getattr(sys.modules.get("torch"), "_C", None)
    frames: Any = getattr(getattr(native, "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "skip_code"):
        frames.skip_code(function.__code__)
    elif hasattr(frames, "set_code_exec_strategy"):
        below = frames._FrameAction.SKIP if all_below else frames._FrameAction.DEFAULT
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(frames._FrameAction.SKIP, below))


def _hook_is_on() -> bool:
    """Under `profgpu run --trace` the hook marks the same calls already."""
    hook: Any = sys.modules.get("profgpu_phases")
    return hook is not None and hook.library is not None


def watch(model: Any = None, optimizer: Any = None, loader: Any = None, *, window: int = 100) -> Watch:
    """Marks steps and phases of a loop in one line: ``watch(model, optimizer, loader)``.

    Any of the three may be left out. ``model`` is a torch.nn.Module, ``optimizer`` a torch.optim.Optimizer, ``loader``
    a DataLoader or an object of a class of your own that can be iterated.
    """
    return Watch(model, optimizer, loader, window)
