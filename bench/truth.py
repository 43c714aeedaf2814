#!/usr/bin/env python3
"""How far samples are from the truth, beside a naive loop.

  bench/truth.py BUILD [--waves N]

The driver is our stand-in (tests/stubs/nvml): one device, busy and idle in turns, 0.73 s each, at 600 W and 100 W; its buffer has an entry
each 0.1 s, and at rest either none or a zero; nvmlDeviceGetUtilizationRates says the mean of the last period, as NVML's documentation
has it. GpuMonitor and a loop in Python, which makes two calls at each interval and takes each answer for the time until the next, watch
in turns, each in a process of its own, at 0.05, 0.1, 0.2 and 1 s. Each names a phase at each edge of the wave. Printed is how far the mean
utilization is off (percentage points), the energy (percent) and what the phases say (the largest error of the utilization of the two).
Writes BUILD/results/truth.json; ends with 1 where GpuMonitor is further off than the loop.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INTERVALS_S = (0.05, 0.1, 0.2, 1.0)
HALF_S, BUSY_W, IDLE_W = 0.73, 600, 100
# Within what no measurement can tell apart: what the machine's timers add.
GRAIN = 0.5
BUFFERS = {'silent': 'idle_samples none', 'zeros': 'idle_samples zero'}
SCENARIO = f'''start %f
rates mean
%s
device 0
utilization square 0 100 {2 * HALF_S}
power square {IDLE_W} {BUSY_W} {2 * HALF_S}
'''
# The clock of the stand-in begins with nvmlInit, half a wave before an edge.
PHASES = '''
import json, sys, time
interval, waves, half = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
def phases(begin, mark):
    edge = begin
    for i in range(2 * waves):
        time.sleep(max(edge - time.monotonic(), 0))
        mark("idle" if i % 2 else "busy")
        edge += half
    time.sleep(max(edge - time.monotonic(), 0))
'''
OURS = PHASES + '''
import ctypes, os, profgpu
nvml = ctypes.CDLL(os.environ["PROFGPU_NVML_LIBRARY"])
nvml.nvmlInit_v2()
opened = time.monotonic()
mon = profgpu.GpuMonitor(interval_s=interval, backend="nvml", strict=True)
time.sleep(max(opened + half - time.monotonic(), 0))
with mon:
    phases(opened + half, mon.mark)
s = mon.summary
print(json.dumps({"mean": s.util_gpu_mean, "energy": s.energy_measured_j,
                  "busy": s.phases["busy"]["utilization_mean_pct"], "idle": s.phases["idle"]["utilization_mean_pct"],
                  "busy_j": s.phases["busy"]["energy_j"], "idle_j": s.phases["idle"]["energy_j"]}))
'''
NAIVE = PHASES + '''
import ctypes, os, threading
nvml = ctypes.CDLL(os.environ["PROFGPU_NVML_LIBRARY"])
nvml.nvmlInit_v2()
opened = time.monotonic()
device, rates, power = ctypes.c_void_p(), (ctypes.c_uint * 2)(), ctypes.c_uint()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
rows, name, stop = [], "", threading.Event()
def mark(to):
    global name
    name = to
def loop():
    due = time.monotonic()
    while not stop.is_set():
        nvml.nvmlDeviceGetUtilizationRates(device, rates)
        nvml.nvmlDeviceGetPowerUsage(device, ctypes.byref(power))
        rows.append((time.monotonic(), name, rates[0], power.value / 1000))
        due += interval
        stop.wait(max(due - time.monotonic(), 0))
time.sleep(max(opened + half - time.monotonic(), 0))
thread = threading.Thread(target=loop)
mark("busy")
thread.start()
phases(opened + half, mark)
stop.set()
thread.join()
end = opened + half + 2 * waves * half
held = [(min(b, end) - a, n, u, w) for (a, n, u, w), b in zip(rows, [r[0] for r in rows[1:]] + [end]) if a < end]
def mean(which):
    some = [(t, u) for t, n, u, w in held if n in which]
    return sum(t * u for t, u in some) / sum(t for t, u in some)
def joules(which):
    return sum(t * w for t, n, u, w in held if n in which)
print(json.dumps({"mean": mean(("busy", "idle")), "energy": joules(("busy", "idle")), "busy": mean(("busy",)), "idle": mean(("idle",)),
                  "busy_j": joules(("busy",)), "idle_j": joules(("idle",))}))
'''


def watched(build, program, buffer, interval_s, waves, folder):
    path = os.path.join(folder, 'scenario.txt')
    with open(path, 'w') as f:
        # An edge to busy lies half a wave after the start.
        f.write(SCENARIO % (20 * HALF_S + HALF_S, buffer))
    plain = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU', 'CUDA_', 'NVIDIA_'))}
    env = dict(plain, PROFGPU_NVML_LIBRARY=os.path.join(build, 'tests', 'stubs', 'libnvidia-ml.so.1'), PROFGPU_NVML_SCENARIO=path,
               PROFGPU_LIBRARY=os.path.join(build, 'libprofgpu.so'), PYTHONPATH=os.path.join(ROOT, 'python'))
    words = [sys.executable, '-c', program, repr(interval_s), str(waves), repr(HALF_S)]
    return json.loads(subprocess.run(words, env=env, check=True, capture_output=True, text=True).stdout)


def errors(said, waves):
    busy_j, idle_j = waves * HALF_S * BUSY_W, waves * HALF_S * IDLE_W
    return {'mean': abs(said['mean'] - 50), 'energy': 100 * abs(said['energy'] / (busy_j + idle_j) - 1),
            'phases': max(abs(said['busy'] - 100), said['idle']),
            'phase energy': 100 * max(abs(said['busy_j'] - busy_j), abs(said['idle_j'] - idle_j)) / (busy_j + idle_j)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build')
    parser.add_argument('--waves', type=int, default=6)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    result = {'machine': machine.description(build), 'waves': options.waves, 'rows': []}
    worse = 0
    with tempfile.TemporaryDirectory(prefix='profgpu-bench-') as folder:
        for buffer, setting in BUFFERS.items():
            for interval_s in INTERVALS_S:
                ours, naive = (errors(watched(build, p, setting, interval_s, options.waves, folder), options.waves)
                               for p in (OURS, NAIVE))
                result['rows'].append({'buffer': buffer, 'interval_s': interval_s, 'profgpu': ours, 'naive': naive})
                print(f'{buffer:6} {interval_s:4} s  ' + '   '.join(f'{k} {ours[k]:.2f} (loop {naive[k]:.2f})' for k in ours), flush=True)
                worse += sum(ours[k] > naive[k] + GRAIN for k in ours)
    machine.write_result(build, 'truth', result)
    return 1 if worse else 0


if __name__ == '__main__':
    sys.exit(main())
