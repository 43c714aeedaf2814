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

    A step ends where the loop next waits for data, or begins a forward, after the optimizer has stepped. ``metrics()``
    has the mean times of the last steps: on the host, so that a GPU that lags behind shows up where the loop waits for it.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, loader: Any = None, window: int = 100) -> None:
        self._thread = threading.get_ident()
        self._undo: List[Callable[[], Any]] = []
        self._open: List[Tuple[str, float, Any]] = []  # phase, its start, its range
        self._step: Any = None
        self._step_start: Optional[float] = None
        self._stepped = False
        self._spent: Dict[str, float] = {}
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
        """Takes every hook out. What is open ends."""
        self._closed = True  # a hook that lies under one that was set later stays, and is deaf
        while self._undo:
            self._undo.pop()()
        while self._open:
            self._leave(self._open[-1][0])
        self._end_step()

    def metrics(self, prefix: str = "profgpu/") -> Dict[str, float]:
        """Seconds a step and phase, the mean of the last steps; ``steps_per_s``; ``data_loading_pct`` of the step."""
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
    def _begin(self, phase: str) -> None:
        if self._closed or ranges.is_compiling() or threading.get_ident() != self._thread:
            return
        if phase in ("data_loading", "optimizer"):
            self._leave("optimizer")  # its last step raised
        if any(name == phase for name, _, _ in self._open):
            return
        if phase in ("data_loading", "forward") and not self._open:
            if self._stepped:
                self._end_step()
            if self._step_start is None:
                self._begin_step()
        opened = ranges.NOTHING if _hook_is_on() else ranges.phase(phase)
        opened.__enter__()
        self._open.append((phase, time.perf_counter(), opened))

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
                self._spent[name] = self._spent.get(name, 0.0) + time.perf_counter() - start
            if name == phase:
                break
        return True

    def _begin_step(self) -> None:
        self._step = ranges.NOTHING if _hook_is_on() else ranges.step(self.steps)
        self._step.__enter__()
        self._step_start = time.perf_counter()

    def _end_step(self) -> None:
        if self._step_start is None:
            return
        if self._stepped:
            self._past = [*self._past, {**self._spent, "step": time.perf_counter() - self._step_start}][-self._window :]
            self.steps += 1
        self._step.__exit__(None, None, None)
        self._step_start, self._stepped, self._spent = None, False, {}

    def _hook_model(self, model: Any) -> None:
        torch: Any = sys.modules.get("torch")
        if torch is None or not isinstance(model, torch.nn.Module):
            raise TypeError("model: a torch.nn.Module, not %s" % type(model).__name__)
        self._undo.append(_Replaced.of(type(model), "__call__", _watched_call).add(self, model))
        self._undo.append(_Replaced.of(torch.autograd, "backward", _watched_backward).add(self))  # Tensor.backward's, too

    def _hook_optimizer(self, optimizer: Any) -> None:
        if hasattr(optimizer, "register_step_pre_hook"):
            self._undo.append(optimizer.register_step_pre_hook(lambda *_: self._begin("optimizer")).remove)
            self._undo.append(optimizer.register_step_post_hook(lambda *_: self._end("optimizer")).remove)
            return
        original = getattr(optimizer, "step", None)  # torch 1
        if not callable(original):
            raise TypeError("optimizer: a torch.optim.Optimizer, not %s" % type(optimizer).__name__)

        def step(*args: Any, **kwargs: Any) -> Any:
            with self._phase("optimizer"):
                return original(*args, **kwargs)

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

    @contextlib.contextmanager
    def _phase(self, phase: str) -> Iterator[None]:
        self._begin(phase)
        try:
            yield
        finally:
            self._end(phase)


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
            if not self._watched and vars(self.owner).get(self.name) is self._function:
                if self.own is None:
                    delattr(self.owner, self.name)
                else:
                    setattr(self.owner, self.name, self.own)

        return remove

    def watches(self, watched: Any = None) -> List[Watch]:
        return [watch for watch, refer in self._watched if refer() is watched]

    def original(self, this: Any) -> Any:
        """Looked up anew, as others may have replaced what is inherited."""
        if self.own is not None:
            return self.own.__get__(this)
        return getattr(super(self.owner, this), self.name)


def _phases(watches: List[Watch], phase: str) -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    for watch in watches:
        stack.enter_context(watch._phase(phase))
    return stack


def _watched_call(place: _Replaced) -> Callable[..., Any]:
    def call(this: Any, *args: Any, **kwargs: Any) -> Any:
        if ranges.is_compiling():
            return place.original(this)(*args, **kwargs)
        watches = place.watches(this)
        if not watches:
            return place.original(this)(*args, **kwargs)
        with _phases(watches, "forward"):
            return place.original(this)(*args, **kwargs)

    return call


def _watched_backward(place: _Replaced) -> Callable[..., Any]:
    def backward(*args: Any, **kwargs: Any) -> Any:
        if ranges.is_compiling():
            return place.own(*args, **kwargs)
        with _phases(place.watches(), "backward"):
            return place.own(*args, **kwargs)

    return backward


def _watched_iteration(place: _Replaced) -> Callable[..., Any]:
    def iterate(this: Any) -> Any:
        watches = place.watches(this)
        return _batches(watches, place.original(this)) if watches else place.original(this)()

    return iterate


def _batches(watches: List[Watch], begin: Callable[[], Any]) -> Iterator[Any]:
    with _phases(watches, "data_loading"):
        batches = begin()
    while True:
        with _phases(watches, "data_loading"):
            try:
                batch = next(batches)
            except StopIteration:
                return
        yield batch


def _leave_to_interpreter(function: Any) -> None:
    """torch.compile shall not compile its frame where it is called from code that is not traced."""
    native: Any = getattr(sys.modules.get("torch"), "_C", None)
    frames: Any = getattr(getattr(native, "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "skip_code"):
        frames.skip_code(function.__code__)
    elif hasattr(frames, "set_code_exec_strategy"):
        strategy = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
        frames.set_code_exec_strategy(function.__code__, strategy)


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
