"""watch(): the steps and phases of a training loop, without a change to the loop."""
from __future__ import annotations

import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

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
        if model is not None:
            self._hook_model(model)
        if optimizer is not None:
            self._hook_optimizer(optimizer)
        if loader is not None:
            self._hook_loader(loader)

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
            self._end(self._open[-1][0])
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
        if self._closed or threading.get_ident() != self._thread or any(name == phase for name, _, _ in self._open):
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
        if threading.get_ident() != self._thread or not any(name == phase for name, _, _ in self._open):
            return
        while self._open:  # what an exception left open within it ends with it
            name, start, opened = self._open.pop()
            opened.__exit__(None, None, None)
            if not self._open:  # a phase within another is the other's time
                self._spent[name] = self._spent.get(name, 0.0) + time.perf_counter() - start
            if name == phase:
                break
        if phase == "optimizer":
            self._stepped = True

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
        self._undo.append(model.register_forward_pre_hook(lambda *_: self._begin("forward")).remove)
        self._undo.append(model.register_forward_hook(lambda *_: self._end("forward")).remove)
        autograd = sys.modules["torch"].autograd
        original = autograd.backward  # Tensor.backward calls it by this name

        def backward(*args: Any, **kwargs: Any) -> Any:
            self._begin("backward")
            try:
                return original(*args, **kwargs)
            finally:
                self._end("backward")

        autograd.backward = backward

        def restore() -> None:
            if autograd.backward is backward:
                autograd.backward = original

        self._undo.append(restore)

    def _hook_optimizer(self, optimizer: Any) -> None:
        if hasattr(optimizer, "register_step_pre_hook"):
            self._undo.append(optimizer.register_step_pre_hook(lambda *_: self._begin("optimizer")).remove)
            self._undo.append(optimizer.register_step_post_hook(lambda *_: self._end("optimizer")).remove)
            return
        original = optimizer.step  # torch 1

        def step(*args: Any, **kwargs: Any) -> Any:
            self._begin("optimizer")
            try:
                return original(*args, **kwargs)
            finally:
                self._end("optimizer")

        optimizer.step = step
        self._undo.append(lambda: optimizer.__dict__.pop("step", None))

    def _hook_loader(self, loader: Any) -> None:
        # `for` looks up __iter__ on the class: this one loader gets a class of its own.
        watch, kind = self, type(loader)

        def iterate(this: Any) -> Any:
            watch._begin("data_loading")
            try:
                batches = kind.__iter__(this)
            finally:
                watch._end("data_loading")
            while True:
                watch._begin("data_loading")
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                finally:
                    watch._end("data_loading")
                yield batch

        set_class = object.__dict__["__class__"].__set__  # a class may show another one than it is, as Accelerate's does
        set_class(loader, type(kind.__name__, (kind,), {"__iter__": iterate, "__module__": kind.__module__}))
        self._undo.append(lambda: set_class(loader, kind))


def _hook_is_on() -> bool:
    """Under `profgpu run --trace` the hook marks the same calls already."""
    hook: Any = sys.modules.get("profgpu_phases")
    return hook is not None and hook.library is not None


def watch(model: Any = None, optimizer: Any = None, loader: Any = None, *, window: int = 100) -> Watch:
    """Marks steps and phases of a loop in one line: ``watch(model, optimizer, loader)``.

    Any of the three may be left out. ``model`` is a torch.nn.Module, ``optimizer`` a torch.optim.Optimizer, ``loader``
    anything that can be iterated and whose class can be derived from, as a DataLoader.
    """
    return Watch(model, optimizer, loader, window)
