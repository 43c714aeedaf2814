"""The Python package on this machine: GpuMonitor against nvidia-smi, quick_benchmark against torch.utils.benchmark.

Takes as long as the load. The library is beside the program, or where PROFGPU_LIBRARY says.
"""
import contextlib
import io
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from gpu_check.fields import number
from gpu_check.machine import ROOT

# GpuSummary's field, nvidia-smi's, how nvidia-smi's values become one, and what the two may differ by.
COMPARED = (
    ('util_gpu_mean', 'utilization.gpu', statistics.fmean, 10.0, 0.0),
    ('power_mean_w', 'power.draw', statistics.fmean, 5.0, 0.05),
    ('mem_used_max_mb', 'memory.used', max, 64.0, 0.02),
    ('temp_max_c', 'temperature.gpu', max, 3.0, 0.0),
)
SMI_S = 1.0
MOST_NS = 1000


def check(name, ok, said, **more):
    return {'name': name, 'ok': ok, 'said': said, **more}


class Smi(threading.Thread):
    """Asks nvidia-smi of one device every second, until stopped."""

    def __init__(self, machine, device):
        super().__init__(daemon=True)
        fields = ','.join(row[1] for row in COMPARED)
        self.words = [machine.smi, '-i', device, '--query-gpu=' + fields, '--format=csv,noheader']
        self.rows, self.ends = [], threading.Event()

    def run(self):
        while not self.ends.is_set():
            asked = subprocess.run(self.words, capture_output=True, text=True, timeout=60, check=False)
            cells = [number(cell.strip()) for cell in asked.stdout.strip().split(',')]
            if asked.returncode == 0 and len(cells) == len(COMPARED):
                self.rows.append(cells)
            self.ends.wait(SMI_S)

    def stop(self):
        self.ends.set()
        self.join()


def monitor_check(machine, profgpu):
    device = machine.devices[0]
    smi = Smi(machine, device['index'])
    with tempfile.TemporaryDirectory() as folder, profgpu.GpuMonitor(device['uuid'], interval_s=0.1) as mon:
        smi.start()
        load = subprocess.run(machine.load(os.path.join(folder, 'phases')), capture_output=True, text=True, check=False)
        smi.stop()
    if load.returncode:
        return check('GpuMonitor', False, f'the load failed: {load.stderr.strip()[-300:]}')
    off = []
    for place, (field, name, together, absolute, relative) in enumerate(COMPARED):
        theirs = [row[place] for row in smi.rows if row[place] is not None]
        ours = getattr(mon.summary, field)
        if not theirs:
            continue
        want = together(theirs)
        if not abs(ours - want) <= absolute + relative * abs(want):   # NaN is off, too
            off.append(f'{field} is {ours:.1f}, nvidia-smi says {want:.1f}')
    said = '; '.join(off) or f'{mon.summary.n_samples} samples and {len(smi.rows)} answers of nvidia-smi agree'
    return check('GpuMonitor', not off and bool(smi.rows), said, samples=mon.summary.n_samples, nvidia_smi=len(smi.rows))


def benchmark_check(machine, profgpu):
    if machine.simulated:
        return check('quick_benchmark', None, 'stand-ins compute nothing')
    import torch
    from gpu_check.training import resnet50
    from torch.utils.benchmark import Timer
    model = resnet50()
    with contextlib.redirect_stdout(io.StringIO()):
        ours_ms, _ = profgpu.guide.quick_benchmark(model, (32, 3, 224, 224), num_iterations=50)
    model = model.cuda().eval()
    with torch.inference_mode():
        timer = Timer('model(x)', globals={'model': model, 'x': torch.randn(32, 3, 224, 224, device='cuda')})
        theirs_ms = timer.blocked_autorange(min_run_time=3).median * 1e3
    off = abs(profgpu.guide.quick_benchmark.timing.median_s * 1e3 / theirs_ms - 1)
    return check('quick_benchmark', off < 0.05, f'ResNet-50, 32 images: {ours_ms:.3f} ms, torch.utils.benchmark {theirs_ms:.3f} ms')


def ranges_check(profgpu):
    def each(make, calls=20_000):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            with make():
                pass
        return (time.perf_counter_ns() - begin) / calls

    step, phase = (min(each(make) for _ in range(10)) for make in (profgpu.step, lambda: profgpu.phase('forward')))
    return check('ranges', max(step, phase) < MOST_NS, f'where nothing listens: step() {step:.0f} ns, phase() {phase:.0f} ns')


def run(machine):
    library = os.environ.get('PROFGPU_LIBRARY') or os.path.join(os.path.dirname(machine.program), 'libprofgpu.so')
    if not os.path.exists(library):
        return {'checks': [check('package', None, 'libprofgpu.so is not beside the program: not checked')]}
    os.environ['PROFGPU_LIBRARY'] = library
    sys.path.insert(0, os.path.join(ROOT, 'python'))
    import profgpu
    return {'checks': [monitor_check(machine, profgpu), benchmark_check(machine, profgpu), ranges_check(profgpu)]}
