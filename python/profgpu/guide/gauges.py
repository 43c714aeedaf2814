"""update_metrics(): gauges of the package prometheus_client, set from within a training loop."""
from __future__ import annotations

import contextlib
from typing import Any, Dict, List, Optional

from .. import _library
from .monitoring import GPUMonitor

# The guide's gauges: name, text, the reading in get_metrics(), what it is multiplied by.
_GAUGES = (
    ("gpu_utilization_percent", "GPU utilization", "gpu_util_pct", 1.0),
    ("gpu_memory_used_bytes", "GPU memory used", "memory_used_gb", 1e9),
    ("gpu_power_watts", "GPU power usage", "power_w", 1.0),
)


class PrometheusGauges:
    """Gauges of every GPU that the process can see, labelled with ``gpu_id``.

        gauges = PrometheusGauges()
        start_http_server(8000)            # of prometheus_client
        while training:
            train_step()
            gauges.update(loss=loss.item())

    ``update()`` takes the newest reading of a monitor that runs in the background, and takes a few milliseconds. A reading that is
    unknown takes its gauge away until it is known again. Arguments by name become gauges without labels.
    ``registry``: prometheus_client's own where it is None. ProfgpuError where prometheus_client is not installed.
    """

    def __init__(self, registry: Any = None, interval_s: float = 1.0, backend: str = "auto") -> None:
        try:
            import prometheus_client
        except ImportError:
            raise _library.ProfgpuError(
                "the package prometheus_client is not installed",
                "pip install prometheus_client; or run `profgpu exporter` beside the job, which needs no package",
            ) from None
        self._gauge = prometheus_client.Gauge
        self._registry = prometheus_client.REGISTRY if registry is None else registry
        self._monitor = GPUMonitor(interval_s, backend)
        self._monitor.start()
        #: why no GPU is watched; empty: some are
        self.problem = self._monitor.problem
        self._of_devices = {
            reading: self._gauge(name, text, ["gpu_id"], registry=self._registry) for name, text, reading, _ in _GAUGES
        }
        self._own: Dict[str, Any] = {}

    def update(self, **values: float) -> List[Dict[str, Any]]:
        """Sets the gauges; returns the readings, as GPUMonitor.get_metrics() does."""
        metrics = self._monitor.get_metrics()
        for gpu in metrics:
            for _, _, reading, scale in _GAUGES:
                gauge, label = self._of_devices[reading], str(gpu["gpu_id"])
                if gpu[reading] is not None:
                    gauge.labels(gpu_id=label).set(gpu[reading] * scale)
                else:
                    with contextlib.suppress(KeyError):  # it was not known before either
                        gauge.remove(label)
        for name, value in values.items():
            if name not in self._own:
                self._own[name] = self._gauge(name, name.replace("_", " "), registry=self._registry)
            self._own[name].set(value)
        return metrics

    def close(self) -> None:
        """Stops the monitor, and takes the gauges out of the registry."""
        self._monitor.stop()
        for gauge in [*self._of_devices.values(), *self._own.values()]:
            self._registry.unregister(gauge)
        self._of_devices, self._own = {}, {}


_shared: Optional[PrometheusGauges] = None


def update_metrics(**values: float) -> List[Dict[str, Any]]:
    """Sets the gauges of prometheus_client's own registry, which the first call makes; see PrometheusGauges."""
    global _shared
    if _shared is None:
        _shared = PrometheusGauges()
    return _shared.update(**values)
