"""For Accelerate: watch() takes what ``accelerator.prepare`` returned, and logs with the accelerator's trackers."""
from __future__ import annotations

from typing import Any, Optional

from ..watching import Watch


class AcceleratorWatch(Watch):
    """A Watch with ``log(step)``."""

    def __init__(self, accelerator: Any, model: Any, optimizer: Any, loader: Any) -> None:
        # A prepared optimizer wraps the one whose step does the work, and may skip it while gradients accumulate.
        super().__init__(model, getattr(optimizer, "optimizer", optimizer), loader)
        self._accelerator = accelerator

    def log(self, step: Optional[int] = None) -> None:
        """The metrics of the last steps, to the accelerator's trackers."""
        self._accelerator.log(self.metrics(), step=step)


def watch(accelerator: Any, model: Any = None, optimizer: Any = None, loader: Any = None) -> AcceleratorWatch:
    """``model, optimizer, loader = accelerator.prepare(...)`` and then ``watch(accelerator, model, optimizer, loader)``."""
    return AcceleratorWatch(accelerator, model, optimizer, loader)
