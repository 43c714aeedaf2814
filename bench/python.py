#!/usr/bin/env python3
"""What the Python package costs, beside what one would write without it.

  bench/python.py BUILD [--rounds N] [--window S]

Over the stand-in for NVML (tests/stubs/nvml), each in a process of its own, alternating:
  monitor   GpuMonitor against a loop in a Python thread with nvidia-ml-py (eight calls a sample, as the package that GpuMonitor
            replaces makes) at 10, 100 and 1000 Hz: CPU time a sample, peak of the resident memory, and how far the
            times between samples are from the interval.
And without it:
  ranges    step() and phase() where nothing listens, with a monitor, and with PyTorch's profiler where PyTorch is: ns each.
  analyze   profgpu.analyze() against `profgpu analyze --json` of the same trace, from start to document.
The monitor's loop needs nvidia-ml-py in build/venv-bench. Writes BUILD/results/python.json.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
from end_to_end import summary  # noqa: E402
from sampler import DEVICES, ROOT, bench_python  # noqa: E402

RATES = (10, 100, 1000)
TRACE = os.path.join(ROOT, 'examples', 'resnet-demo.json.gz')

# Both print JSON: processor seconds of the window, samples, peak memory, distances between samples in s.
TAIL = '''
import json, resource
gaps = [b - a for a, b in zip(times, times[1:])]
print(json.dumps({"cpu_s": cpu, "samples": len(times), "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "gaps_s": gaps}))
'''
OURS = '''
import sys, time, profgpu
interval, window = 1 / float(sys.argv[1]), float(sys.argv[2])
mon = profgpu.GpuMonitor(interval_s=interval, backend="nvml", strict=True, store_samples=True, max_samples=1000000)
with mon:
    time.sleep(0.2)
    begin = time.process_time()
    time.sleep(window)
    cpu = time.process_time() - begin
times = [t for t in mon.table().to_list("t_s") if 0.2 <= t <= 0.2 + window]
''' + TAIL
THEIRS = '''
import sys, threading, time, pynvml as p
interval, window = 1 / float(sys.argv[1]), float(sys.argv[2])
p.nvmlInit()
h = p.nvmlDeviceGetHandleByIndex(0)
stop, samples = threading.Event(), []
def read():
    u, m = p.nvmlDeviceGetUtilizationRates(h), p.nvmlDeviceGetMemoryInfo(h)
    return {"util_gpu": float(u.gpu), "util_mem": float(u.memory), "mem_used_mb": m.used / 2**20, "mem_total_mb": m.total / 2**20,
            "power_w": p.nvmlDeviceGetPowerUsage(h) / 1000, "temp_c": float(p.nvmlDeviceGetTemperature(h, 0)),
            "sm_clock_mhz": float(p.nvmlDeviceGetClockInfo(h, 1)), "mem_clock_mhz": float(p.nvmlDeviceGetClockInfo(h, 2))}
def loop():
    while not stop.is_set():
        samples.append((time.perf_counter() - start, read()))
        stop.wait(interval)
start = time.perf_counter()
thread = threading.Thread(target=loop, daemon=True)
thread.start()
time.sleep(0.2)
begin = time.process_time()
time.sleep(window)
cpu = time.process_time() - begin
stop.set()
thread.join()
times = [t for t, _ in samples if 0.2 <= t <= 0.2 + window]
''' + TAIL
RANGES = '''
import json, sys, time, profgpu
def ns(make, n=1000):
    best = []
    for _ in range(200):
        begin = time.perf_counter_ns()
        for _ in range(n):
            with make(): pass
        best.append((time.perf_counter_ns() - begin) / n)
    return min(best)
phase = lambda: profgpu.phase("forward")
out = {"off": {"step_ns": ns(profgpu.step), "phase_ns": ns(phase)}}
with profgpu.GpuMonitor(backend="replay:%s,loop" % sys.argv[1]):
    out["monitor"] = {"step_ns": ns(profgpu.step, 200), "phase_ns": ns(phase, 200)}
try:
    import torch
    out["torch imported"] = {"step_ns": ns(profgpu.step), "phase_ns": ns(phase)}
    with torch.profiler.profile():
        out["torch.profiler"] = {"step_ns": ns(profgpu.step, 50), "phase_ns": ns(phase, 50)}
except ImportError:
    pass
print(json.dumps(out))
'''
ANALYZE = '''
import json, sys, time
begin = time.perf_counter()
import profgpu
imported = time.perf_counter()
report = profgpu.analyze(sys.argv[1])
print(json.dumps({"import_s": imported - begin, "analyze_s": time.perf_counter() - imported}))
'''


def run(words, environment):
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode:
        sys.exit(f'{words[0]}: {done.stderr}')
    return done.stdout


def environment_of(build, folder):
    scenario = os.path.join(folder, 'scenario.txt')
    with open(scenario, 'w', encoding='utf-8') as file:
        file.write(f'driver 550.54.15\ndevice 0\n{DEVICES}')
    stubs = os.path.join(build, 'tests', 'stubs')
    plain = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU', 'CUDA_', 'NVIDIA_'))}
    return dict(plain, PYTHONPATH=os.path.join(ROOT, 'python'), PROFGPU_LIBRARY=os.path.join(build, 'libprofgpu.so'),
                PROFGPU_NVML_LIBRARY=os.path.join(stubs, 'libnvidia-ml.so.1'), PROFGPU_NVML_SCENARIO=scenario, LD_LIBRARY_PATH=stubs)


def monitor_round(rate, window, environment):
    """Both once, at one rate."""
    found = {}
    for name, script in (('profgpu', OURS), ('python loop', THEIRS)):
        r = json.loads(run([bench_python(), '-c', script, str(rate), str(window)], environment))
        late = [abs(gap - 1 / rate) for gap in r['gaps_s']]
        found[name] = {'cpu_us_per_sample': r['cpu_s'] / max(1, r['samples']) * 1e6, 'samples_per_s': r['samples'] / window,
                       'peak_bytes': r['peak_bytes'], 'jitter_median_us': statistics.median(late) * 1e6,
                       'jitter_p95_us': sorted(late)[int(0.95 * (len(late) - 1))] * 1e6}
    return found


def ratios(found):
    """How many times ours the Python loop takes, in one round."""
    ours, theirs = found['profgpu'], found['python loop']
    return {key: theirs[key] / max(ours[key], 1e-9) for key in ('cpu_us_per_sample', 'peak_bytes', 'jitter_median_us', 'jitter_p95_us')}


def analyze_round(build, python, environment):
    import time
    begin = time.perf_counter()
    run([os.path.join(build, 'profgpu'), 'analyze', '--json', TRACE], environment)
    command = time.perf_counter() - begin
    begin = time.perf_counter()
    inside = json.loads(run([python, '-c', ANALYZE, TRACE], environment))
    return {'command_s': command, 'process_s': time.perf_counter() - begin, **inside, 'ratio_to_command': inside['analyze_s'] / command}


def summaries(rounds):
    return {key: summary([r[key] for r in rounds]) for key in rounds[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--window', type=float, default=5.0, help='seconds of sampling a round')
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    torch_python = os.path.join(ROOT, 'build', 'venv', 'bin', 'python')
    python = torch_python if os.access(torch_python, os.X_OK) else sys.executable
    result = {'machine': machine.description(build), 'rounds': options.rounds, 'window_s': options.window, 'monitor': {}, 'ratios': {}}
    with tempfile.TemporaryDirectory() as folder:
        environment = environment_of(build, folder)
        for rate in RATES:
            rounds = [monitor_round(rate, options.window, environment) for _ in range(options.rounds)]
            result['monitor'][str(rate)] = {name: summaries([r[name] for r in rounds]) for name in rounds[0]}
            for name, figures in result['monitor'][str(rate)].items():
                r = {key: value['median'] for key, value in figures.items()}
                print(f'{rate:5d} Hz  {name:12}  {r["cpu_us_per_sample"]:7.0f} us/sample  {r["peak_bytes"] / 1e6:5.1f} MB  '
                      f'jitter {r["jitter_median_us"]:6.0f} us, p95 {r["jitter_p95_us"]:6.0f} us  {r["samples_per_s"]:6.1f} samples/s')
            result['ratios'][str(rate)] = r = summaries([ratios(found) for found in rounds])
            print(f'{rate:5d} Hz  the loop takes {r["cpu_us_per_sample"]["median"]:.2f} times the CPU time, {r["peak_bytes"]["median"]:.2f} times '
                  f'the memory, {r["jitter_median_us"]["median"]:.2f} times the jitter (p95 {r["jitter_p95_us"]["median"]:.2f})')
        replay = os.path.join(ROOT, 'examples', 'replay.jsonl')
        result['ranges'] = json.loads(run([python, '-c', RANGES, replay], environment))
        for name, r in result['ranges'].items():
            print(f'{name:15}  step {r["step_ns"]:7.0f} ns   phase {r["phase_ns"]:7.0f} ns')
        result['analyze'] = summaries([analyze_round(build, python, environment) for _ in range(options.rounds)])
        print('  '.join(f'{key} {value["median"] * 1e3:.1f} ms' for key, value in result['analyze'].items() if key.endswith('_s'))
              + f'  analyze / command {result["analyze"]["ratio_to_command"]["median"]:.2f}')
    machine.write_result(build, 'python', result)


if __name__ == '__main__':
    main()
