"""A callback for Lightning: ``Trainer(callbacks=[ProfgpuCallback()])``."""
from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from .loop import Loop


class ProfgpuCallback(Callback):  # type: ignore[misc,unused-ignore]
    """Marks steps, backwards and optimizers, and logs ``profgpu/...`` with the trainer's loggers every log_every_n_steps."""

    def __init__(self, monitor: Any = True) -> None:
        super().__init__()
        self.loop = Loop(monitor)
        self._count = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.loop.start()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.loop.begin("step", self._count)  # over all epochs
        self._count += 1

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        self.loop.begin("backward")

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        self.loop.end("backward")

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self.loop.begin("optimizer")

    def on_before_zero_grad(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self.loop.end("optimizer")

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.loop.end("step")
        every = trainer.log_every_n_steps
        if every and (batch_idx + 1) % every == 0:
            metrics = self.loop.metrics()
            for logger in trainer.loggers:
                logger.log_metrics(metrics, step=trainer.global_step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.loop.stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.loop.stop()
