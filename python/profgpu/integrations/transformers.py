"""A callback for Transformers: ``ProfgpuCallback().attach(trainer)`` before ``trainer.train()``."""
from __future__ import annotations

from typing import Any, Dict, Optional

from transformers import TrainerCallback

from .loop import Loop


class ProfgpuCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Marks steps and optimizers, and adds ``profgpu/...`` to what the Trainer logs.

    Given as ``Trainer(callbacks=[...])`` it comes after the trackers' callbacks, whose logs then lack these numbers:
    attach() puts it in front of them. ``trainer.state.log_history`` has them either way.
    """

    def __init__(self, monitor: Any = True) -> None:
        self.loop = Loop(monitor)

    def attach(self, trainer: Any) -> ProfgpuCallback:
        """Adds it to a Trainer, before its present callbacks."""
        trainer.callback_handler.callbacks.insert(0, self)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.loop.start()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.loop.begin("step", state.global_step)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.loop.begin("optimizer")

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.loop.end("optimizer")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.loop.end("step")

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **kwargs: Any) -> None:
        metrics = self.loop.metrics()
        if logs is not None:
            logs.update(metrics)
        if state.log_history:  # the entry was made just before
            state.log_history[-1].update(metrics)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.loop.stop()
