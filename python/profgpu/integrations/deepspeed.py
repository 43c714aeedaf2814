"""For DeepSpeed: watch_engine() marks what a loop asks of an engine."""
from __future__ import annotations

import sys
from typing import Any, Callable

from .loop import Loop


class EngineWatch(Loop):
    """Marks an engine's forward, backward and step, and the steps that they make, until ``close()``. While gradients
    accumulate, the engine's ``step()`` ends none."""

    def __init__(self, engine: Any) -> None:
        super().__init__(None)
        self._engine = engine
        self._count = 0
        for method, phase in (("forward", "forward"), ("backward", "backward"), ("step", "optimizer")):
            self._wrap(method, phase)

    def _wrap(self, method: str, phase: str) -> None:
        original: Callable[..., Any] = getattr(self._engine, method)

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._trains():
                return original(*args, **kwargs)
            if phase == "forward" and not any(name == "step" for name, _, _ in self._open):
                self.begin("step", self._count)
            ends_step = phase == "optimizer" and self._engine.is_gradient_accumulation_boundary()
            self.begin(phase)
            try:
                return original(*args, **kwargs)
            finally:
                self.end(phase)
                if ends_step:
                    self.end("step")
                    self._count += 1

        setattr(self._engine, method, call)

    def _trains(self) -> bool:
        """Not while it evaluates."""
        torch = sys.modules.get("torch")
        return getattr(self._engine, "training", True) and (torch is None or torch.is_grad_enabled())

    def close(self) -> None:
        """Takes the marks out."""
        for method in ("forward", "backward", "step"):
            self._engine.__dict__.pop(method, None)
        self.stop()


def watch_engine(engine: Any) -> EngineWatch:
    """``engine, *_ = deepspeed.initialize(...)`` and then ``watch_engine(engine)``. ``metrics()`` has the mean times."""
    return EngineWatch(engine)
