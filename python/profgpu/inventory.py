"""devices(): the GPUs of this machine with all facts and readings; GPUtil's names for the same; what a context takes."""
from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any, Dict, List, Optional, Tuple

from . import _library, _program
from .monitor import NAN, GpuBackendError

_MIB = float(1 << 20)


@dataclasses.dataclass(frozen=True)
class Device:
    """A GPU, or an instance of one, as it is now.

    Each reading is an attribute, too, by the names of ``profgpu log --help-query``, which have the unit at their end:
    ``device.utilization_pct``, ``device.memory_used_bytes``. A reading that the device does not report is None, and
    ``absent`` has the reason.
    """

    index: int  #: as nvidia-smi counts
    label: str  #: "0", or "0:7" for an instance
    name: str
    vendor: str
    uuid: str
    pci_bus_id: str
    state: str  #: "ok", "error", "not_answering"
    message: Optional[str]  #: what the driver said, unless the state is "ok"
    readings: Dict[str, float]  #: by name
    absent: Dict[str, str]  #: readings that are unknown, and why
    limits: Dict[str, float]  #: what does not change: memory_total_bytes, power_limit_max_w, sm_clock_max_mhz ...
    peaks: Dict[str, Any]  #: the vendor's figures: memory_gbps, tflops by precision; empty: an unknown model
    facts: Dict[str, Optional[str]]  #: serial, vbios_version, ecc_mode, driver_version ...
    links: Dict[str, str]  #: to the other devices by label, as ``nvidia-smi topo -m`` has them: "NV18", "PIX"
    processes: List[Dict[str, Any]]  #: pid, name, user, memory_bytes, utilization_pct ...

    def __getattr__(self, name: str) -> Optional[float]:
        readings = self.__dict__.get("readings", {})
        if name in readings:
            value: float = readings[name]
            return value
        if name in self.__dict__.get("absent", {}):
            return None
        raise AttributeError("a Device has no %r; it has %s" % (name, ", ".join(sorted(readings))))

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(), *self.readings, *self.absent})

    def metrics(self, prefix: str = "gpu/") -> Dict[str, float]:
        """The readings by name, for trackers."""
        return {prefix + name: float(value) for name, value in self.readings.items()}


_KNOWN = ("index", "label", "name", "vendor", "uuid", "pci_bus_id", "state", "message", "processes")
_NO_READING = {*_KNOWN, "mig_profile", "since_ns", "time_ns", "absent"}


def _device(stat: Dict[str, Any], inventory: Dict[str, Any], links: Dict[str, str], driver: Optional[str]) -> Device:
    facts: Dict[str, Optional[str]] = dict(inventory.get("facts") or {})
    facts["driver_version"] = inventory.get("driver_version") or driver
    for name in ("numa_node", "cpu_affinity", "mig_profile"):
        if inventory.get(name) is not None:
            facts[name] = str(inventory[name])
    return Device(
        **{name: stat[name] for name in _KNOWN},
        readings={k: v for k, v in stat.items() if k not in _NO_READING and isinstance(v, (int, float))},
        absent={row["metric"]: row["reason"] for row in stat.get("absent", [])},
        limits=dict(inventory.get("limits") or {}),
        peaks=dict(inventory.get("peaks") or {}),
        facts=facts,
        links=links,
    )


def _key(row: Dict[str, Any]) -> Tuple[Any, ...]:
    """GPUs of two vendors have the same labels."""
    return row["label"], row.get("uuid"), row.get("pci_bus_id")


def devices(backend: str = "auto", strict: bool = False) -> List[Device]:
    """Every GPU of this machine with all facts and present readings, in the order of nvidia-smi.

    It takes about a quarter of a second, since rates need two looks. The list is empty where no GPU can be read;
    ``strict`` raises GpuBackendError with the reason instead. ``backend``: auto, nvml, smi, amdgpu, intel, replay:FILE.
    """
    code, out, said = _program.run("stat", "--json", "--backend", backend)
    if code == _program.NOTHING_FOUND:
        if strict:
            raise GpuBackendError(str(_program.error_of(said)))
        return []
    if code != 0:
        raise _program.error_of(said)
    now = _program.parsed(out)
    known = _program.document("devices", "--backend", backend)
    by_key = {_key(row): row for row in known["devices"]}
    labels = [row["label"] for row in known["devices"]]
    links: Dict[Any, Dict[str, str]] = {
        _key(device): {to: word for to, word in zip(labels, row) if to != device["label"] and word}
        for device, row in zip(known["devices"], known.get("topology") or [])
    }
    return [_device(row, by_key.get(_key(row), {}), links.get(_key(row), {}), now.get("driver")) for row in now["devices"]]


@dataclasses.dataclass(frozen=True)
class GPU:
    """A GPU by the names and units of the package GPUtil. What the device does not report is NaN."""

    id: int
    uuid: str
    load: float  #: utilization from 0 to 1
    memoryUtil: float  #: used memory of the total, from 0 to 1
    memoryTotal: float  #: MiB
    memoryUsed: float  #: MiB
    memoryFree: float  #: MiB
    driver: str
    name: str
    serial: str
    temperature: float  #: °C


def _gpu(device: Device) -> GPU:
    def reading(name: str, scale: float = 1.0) -> float:
        return device.readings[name] / scale if name in device.readings else NAN

    total, used = reading("memory_total_bytes", _MIB), reading("memory_used_bytes", _MIB)
    free = reading("memory_free_bytes", _MIB) if "memory_free_bytes" in device.readings else total - used
    return GPU(
        device.index,
        device.uuid,
        reading("utilization_pct", 100.0),
        used / total if total > 0 else NAN,
        total,
        used,
        free,
        device.facts.get("driver_version") or "",
        device.name,
        device.facts.get("serial") or "",
        reading("temperature_c"),
    )


def getGPUs() -> List[GPU]:
    """The GPUs of this machine as GPUtil.getGPUs() gives them; empty where none can be read. devices() has more."""
    return [_gpu(device) for device in devices()]


def showUtilization(all: bool = False) -> None:
    """Prints load and memory of each GPU as GPUtil.showUtilization() does; with ``all`` also name, size and temperature."""
    try:
        gpus = [_gpu(device) for device in devices(strict=True)]
    except GpuBackendError as error:
        print(str(error).split("\n")[0])
        return

    def pct(share: float) -> str:
        return "n/a" if share != share else "%.0f%%" % (100 * share)

    def whole(x: float, unit: str) -> str:
        return "n/a" if x != x else "%.0f%s" % (x, unit)

    rows = [["ID", "GPU", "MEM"] + (["name", "used", "total", "temperature"] if all else [])]
    for gpu in gpus:
        more = [gpu.name, whole(gpu.memoryUsed, "MB"), whole(gpu.memoryTotal, "MB"), whole(gpu.temperature, " °C")]
        rows.append([str(gpu.id), pct(gpu.load), pct(gpu.memoryUtil)] + (more if all else []))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    print("\n".join([lines[0], "-" * len(lines[0]), *lines[1:]]))


# What the child does: makes a context, or what PyTorch makes for its first tensor, says so, and waits for its end.
_CONTEXT = """
import ctypes, os, sys
cuda = ctypes.CDLL(os.environ.get("PROFGPU_CUDA_LIBRARY") or "libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
def check(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code: sys.exit("%s returned %d" % (name, code))
check("cuInit", 0)
check("cuDeviceGet", ctypes.byref(device), int(sys.argv[1]))
check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
uuid = (ctypes.c_ubyte * 16)()
of = getattr(cuda, "cuDeviceGetUuid_v2", None) or getattr(cuda, "cuDeviceGetUuid", None)
known = of is not None and of(uuid, device) == 0
print("ready", bytes(uuid).hex() if known else "", flush=True)
sys.stdin.read()
"""
_TENSOR = """
import sys, torch
tensor = torch.ones((1, 1), device="cuda:" + sys.argv[1])
torch.cuda.synchronize()
print("ready", getattr(torch.cuda.get_device_properties(int(sys.argv[1])), "uuid", ""), flush=True)
sys.stdin.read()
"""


@dataclasses.dataclass(frozen=True)
class ContextOverhead:
    """What a process takes of a GPU's memory before it has allocated anything of use."""

    context_bytes: int  #: a CUDA context alone
    torch_bytes: Optional[int]  #: a process in which PyTorch has made one tensor; None: PyTorch was not asked for
    method: str  #: "process": the driver's figure for it; "device": what the whole device had more of meanwhile

    def __str__(self) -> str:
        text = "a CUDA context takes %.0f MiB" % (self.context_bytes / _MIB)
        if self.torch_bytes is not None:
            text += ", a process with one PyTorch tensor %.0f MiB" % (self.torch_bytes / _MIB)
        return text + (" (by the device's memory: other processes count)" if self.method == "device" else "")


def _taken(script: str, ordinal: int) -> Tuple[int, str]:
    """Bytes that a process running the script takes of the device, and how that was found."""
    before = devices(strict=True)
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(ordinal)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None
    try:
        ready, _, uuid = child.stdout.readline().decode("ascii", "replace").strip().partition(" ")
        if ready != "ready":
            said = child.stderr.read().decode("utf-8", "replace").strip().split("\n")[-1]
            raise _library.ProfgpuError("no CUDA context could be made: " + said, "`profgpu doctor` looks for the reason")
        after = devices(strict=True)
    finally:
        child.stdin.close()
        child.wait()
        child.stdout.close()
        child.stderr.close()
    now = _chosen(after, uuid, ordinal)
    for process in now.processes:
        if child.pid in (process.get("visible_pid"), process.get("pid")) and process.get("memory_bytes"):
            return int(process["memory_bytes"]), "process"
    used = now.readings.get("memory_used_bytes")
    used_before = _chosen(before, now.uuid, ordinal).readings.get("memory_used_bytes")
    if used is None or used_before is None:
        raise _library.ProfgpuError("the driver reports neither the device's used memory nor that of its processes")
    return max(0, int(used - used_before)), "device"


def _chosen(found: List[Device], uuid: str, ordinal: int) -> Device:
    """CUDA's device: by its UUID, since CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER number devices anew; without, by number."""

    def digits(text: str) -> str:
        return text[text.find("-") + 1 if text.startswith(("GPU-", "MIG-")) else 0 :].replace("-", "").lower()

    for device in found:
        if uuid and digits(device.uuid) == digits(uuid):
            return device
    if ordinal >= len(found):
        raise _library.ProfgpuError("there is no GPU %d" % ordinal, "profgpu.devices() lists the GPUs of this machine")
    return found[ordinal]


def context_overhead(device: int = 0, torch: Optional[bool] = None) -> ContextOverhead:
    """Measures what a CUDA context alone takes of GPU ``device`` (CUDA's number), in a process of its own.

    That memory is lost for every process that uses the GPU. ``torch``: also a process with one tensor of PyTorch; None: where
    this process has imported it. Takes some seconds. GpuBackendError where no GPU can be read, ProfgpuError where no
    context can be made.
    """
    context, method = _taken(_CONTEXT, device)
    with_torch = "torch" in sys.modules if torch is None else torch
    tensor = _taken(_TENSOR, device)[0] if with_torch else None
    return ContextOverhead(context, tensor, method)
