#!/usr/bin/env python3
"""What sampling devices costs, beside a bare loop of the same driver calls and beside a loop in Python.

  bench/sampler.py BUILD [--rounds N] [--window S] [--soak S]

The driver is our stand-in (tests/stubs/nvml), for all three alike: `profgpu run`, bench/bare_sampler, and a loop of three calls a
device a tick with nvidia-ml-py (from PyPI, in build/venv-bench). Each round runs one after the other; the CPU time is that of
all threads of the process over a window that begins a second after its start. The bare loop makes the calls that `run` makes, as
often: they are counted first. Writes BUILD/results/sampler.json; bench/report.py makes docs/performance.md of it.
"""
import argparse
import contextlib
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
from end_to_end import summary  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RATES = (10, 100, 1000)
COUNTS = (1, 8)
DELAYS = {'instant': '', '50 us': 'delay_us 50 spin'}
SETTLE_S = 1.0
PYTHON_LOOP = '''
import sys, time
import pynvml
count, interval, seconds = int(sys.argv[1]), 1 / float(sys.argv[2]), float(sys.argv[3])
pynvml.nvmlInit()
devices = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
start, ticks = time.monotonic(), 0
due = start
while due < start + seconds:
    time.sleep(max(due - time.monotonic(), 0))
    for device in devices:
        pynvml.nvmlDeviceGetUtilizationRates(device).gpu
        pynvml.nvmlDeviceGetMemoryInfo(device).used
        pynvml.nvmlDeviceGetPowerUsage(device)
    ticks += 1
    due = start + ((time.monotonic() - start) // interval + 1) * interval
print('{"ticks": %d, "seconds": %f}' % (ticks, max(time.monotonic() - start, seconds)))
'''
DEVICES = '''utilization saw 20 95 3
memory_utilization saw 5 40 3
memory_used saw 10e9 60e9 7
power saw 200 680 3
temperature 61
sm_clock 1830
process 4711 C memory=40000000000 sm=80 mem=30
'''


class Stage:
    """Programs with our stand-in for NVML."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.stub = os.path.join(build, 'tests', 'stubs')
        self.library = os.path.join(self.stub, 'libnvidia-ml.so.1')
        self.profgpu = os.path.join(build, 'profgpu')

    @functools.cached_property
    def python(self):
        return bench_python()

    def environment(self, count, delay='', **more):
        path = os.path.join(self.folder, 'scenario.txt')
        with open(path, 'w') as f:
            f.write(f'driver 550.54.15\n{delay}\ndevice 0..{count - 1}\n{DEVICES}')
        plain = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU', 'CUDA_', 'NVIDIA_'))}
        return dict(plain, PROFGPU_NVML_LIBRARY=self.library, PROFGPU_NVML_SCENARIO=path, LD_LIBRARY_PATH=self.stub, **more)

    def run_command(self, rate, seconds):
        return [self.profgpu, 'run', '--json', '--quiet', '--backend', 'nvml', '-i', repr(1 / rate), '--', 'sleep', str(seconds)]

    def bare_command(self, count, rate, seconds, calls):
        words = [word for name, often in calls.items() for word in (name, f'{often:.6f}')]
        return [os.path.join(self.build, 'bench', 'bare_sampler'), self.library, str(count), str(rate), str(seconds), *words]

    def python_command(self, count, rate, seconds):
        return [self.python, '-c', PYTHON_LOOP, str(count), str(rate), str(seconds)]


def bench_python():
    folder = os.path.join(ROOT, 'build', 'venv-bench')
    python = os.path.join(folder, 'bin', 'python')
    if not os.path.exists(python) or subprocess.run([python, '-c', 'import pynvml'], capture_output=True).returncode:
        print('installing nvidia-ml-py into build/venv-bench')
        subprocess.run(['/usr/bin/python3', '-m', 'venv', folder], check=True)
        subprocess.run([python, '-m', 'pip', 'install', '--quiet', '--quiet', '--disable-pip-version-check', 'nvidia-ml-py'], check=True)
    return python


def processor_ns(pid):
    """Of all threads that the process has now."""
    total = 0
    for thread in os.listdir(f'/proc/{pid}/task'):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f'/proc/{pid}/task/{thread}/schedstat') as f:
            total += int(f.read().split()[0])
    return total


def resident_bytes(pid):
    """All that is in memory, and without the stand-in and the C++ library that it alone brings."""
    whole = stand_in = 0
    mapped = ''
    with open(f'/proc/{pid}/smaps') as f:
        for line in f:
            words = line.split()
            if not words[0].endswith(':'):
                mapped = words[5] if len(words) > 5 else ''
            elif words[0] == 'Rss:':
                whole += int(words[1]) * 1024
                if os.path.basename(mapped).startswith(('libnvidia-ml.so', 'libstdc++.so')):
                    stand_in += int(words[1]) * 1024
    return whole, whole - stand_in


def finish(process):
    out, errors = process.communicate(timeout=120)
    if process.returncode != 0:
        raise SystemExit(f'{process.args}: exit code {process.returncode}: {errors.decode()}')
    return json.loads(out.decode().strip().split('\n')[-1])


def watched(command, environment, window_s):
    """One program in the middle of its work: CPU time over the window, memory at its end, and what it printed."""
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(SETTLE_S)
    before, begin = processor_ns(process.pid), time.monotonic()
    time.sleep(window_s)
    cpu, window = processor_ns(process.pid) - before, time.monotonic() - begin
    whole, own = resident_bytes(process.pid)
    said = finish(process)
    if 'sampler' in said:
        s = said['sampler']
        # The last reading comes off the schedule.
        said = {'ticks': s['ticks'] / len(said['devices']) - 1, 'seconds': said['wall_ns'] / 1e9, 'missed_ticks': s['missed_ticks'],
                **{k: s[k] for k in ('late_ticks', 'jitter_p50_ns', 'jitter_p99_ns', 'jitter_max_ns')}}
    per_tick = cpu / window / (said['ticks'] / said['seconds'])
    return {**said, 'cpu_us': per_tick / 1e3, 'resident_bytes': whole, 'own_bytes': own}


def counted_calls(stage, count, rate, delay):
    """Calls a tick of `run` in its steady state: of a long run, less those of a short one."""
    logs = []
    for seconds in (2, 5):
        log = os.path.join(stage.folder, 'calls.txt')
        said = finish(subprocess.Popen(stage.run_command(rate, seconds), env=stage.environment(count, delay, PROFGPU_NVML_LOG=log),
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        with open(log) as f:
            calls = {name: int(n) for name, n in (line.split() for line in f)}
        logs.append((said['sampler']['ticks'] / count, calls))
    ticks = logs[1][0] - logs[0][0]
    more = {name: n - logs[0][1].get(name, 0) for name, n in logs[1][1].items()}
    return {name: n / ticks for name, n in more.items() if n > 0}


def costs(stage, rounds, window_s):
    rows = []
    for delay_name, delay in DELAYS.items():
        for count in COUNTS:
            for rate in RATES:
                calls = counted_calls(stage, count, rate, delay)
                seconds = SETTLE_S + window_s + 1
                commands = {'run': stage.run_command(rate, seconds), 'bare': stage.bare_command(count, rate, seconds, calls),
                            'python': stage.python_command(count, rate, seconds)}
                environment = stage.environment(count, delay)
                seen = {name: [] for name in commands}
                for _ in range(rounds):
                    for name, command in commands.items():
                        seen[name].append(watched(command, environment, window_s))
                row = {'delay': delay_name, 'devices': count, 'hz': rate, 'calls_per_device_tick': sum(calls.values()) / count}
                for name, runs in seen.items():
                    row[name] = {key: summary(r[key] for r in runs) for key in runs[0]}
                row['ratio_to_bare'] = summary(a['cpu_us'] / b['cpu_us'] for a, b in zip(seen['run'], seen['bare']))
                row['ratio_of_python'] = summary(a['cpu_us'] / b['cpu_us'] for a, b in zip(seen['python'], seen['run']))
                rows.append(row)
                print(f'{delay_name:>8} {count} devices {rate:5} Hz: run {row["run"]["cpu_us"]["median"]:7.1f} us a tick, bare '
                      f'{row["bare"]["cpu_us"]["median"]:7.1f}, python {row["python"]["cpu_us"]["median"]:7.1f}; '
                      f'ratio {row["ratio_to_bare"]["median"]:.2f}, {row["calls_per_device_tick"]:.2f} calls per device, '
                      f'{row["run"]["own_bytes"]["median"] / 1e6:.1f} MB', flush=True)
    return rows


def memory_of_log(stage, count):
    with open(os.path.join(stage.folder, 'log.csv'), 'w') as out:
        process = subprocess.Popen([stage.profgpu, 'log', '--backend', 'nvml', '-i', '0.1', '--format', 'csv'],
                                   env=stage.environment(count), stdin=subprocess.DEVNULL, stdout=out)
        time.sleep(SETTLE_S + 1)
        whole, own = resident_bytes(process.pid)
        process.terminate()
        process.wait()
    return {'devices': count, 'resident_bytes': whole, 'own_bytes': own}


def first_sample(stage, count, delay, runs):
    """From the start of the process to the first row on its standard output."""
    times = []
    for _ in range(runs):
        environment = stage.environment(count, DELAYS[delay])
        begin = time.perf_counter()
        process = subprocess.Popen([stage.profgpu, 'log', '--backend', 'nvml', '--format', 'json', '--count', '1'], env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        while b'"time_ns"' not in process.stdout.readline():
            pass
        times.append((time.perf_counter() - begin) * 1e3)
        process.communicate()
    return {'devices': count, 'delay': delay, 'ms': summary(times)}


def added(stage, count, delay, runs):
    """What `profgpu -- true` takes longer than `true`, in turns."""
    backend = 'nvml' if count else 'none'
    environment = stage.environment(max(count, 1), DELAYS[delay])
    with_us = [stage.profgpu, 'run', '--backend', backend, '--', 'true']
    differences = []
    for _ in range(runs):
        took = []
        for command in (['true'], with_us):
            begin = time.perf_counter()
            subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=True)
            took.append((time.perf_counter() - begin) * 1e3)
        differences.append(took[1] - took[0])
    return {'devices': count, 'delay': delay, 'ms': summary(differences)}


def soak(stage, seconds):
    """A fast sampler and, beside it, a slow one that must still get all that the driver keeps (a value each 0.1 s)."""
    environment = stage.environment(8)
    fast = subprocess.Popen(stage.run_command(100, seconds), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
    path = os.path.join(stage.folder, 'slow.jsonl')
    slow = subprocess.Popen([stage.profgpu, 'run', '--json', '--quiet', '--backend', 'nvml', '--device', '0', '-i', '2', '--samples', path,
                             '--', 'sleep', str(seconds)], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
    time.sleep(min(SETTLE_S, seconds / 4))
    early = resident_bytes(fast.pid)[1]
    time.sleep(seconds * 0.9 - min(SETTLE_S, seconds / 4))
    late = resident_bytes(fast.pid)[1]
    said, told = finish(fast), finish(slow)
    [utilization] = [m for m in told['devices'][0]['metrics'] if m['metric'] == 'utilization_pct']
    s = said['sampler']
    return {'seconds': seconds, 'ticks': s['ticks'] // 8, 'missed_ticks': s['missed_ticks'], 'late_ticks': s['late_ticks'],
            'jitter_p50_ns': s['jitter_p50_ns'], 'jitter_p99_ns': s['jitter_p99_ns'], 'jitter_max_ns': s['jitter_max_ns'],
            'resident_early_bytes': early, 'resident_late_bytes': late, 'driver_values': utilization['samples'],
            'driver_values_due': int(told['devices'][0]['watched_ns'] / 1e8)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--window', type=float, default=3.0, help='seconds of each measurement')
    parser.add_argument('--soak', type=float, default=600.0, help='seconds')
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    folder = tempfile.mkdtemp(prefix='profgpu-bench-')
    try:
        stage = Stage(build, folder)
        result = {'machine': machine.description(build), 'rounds': options.rounds, 'window_s': options.window}
        result['added'] = [added(stage, count, delay, 10 * options.rounds)
                           for count, delay in ((0, 'instant'), *((c, d) for c in (*COUNTS, 16) for d in DELAYS))]
        for a in result['added']:
            print(f'profgpu -- true adds {a["ms"]["median"]:.1f} ms with {a["devices"]} devices ({a["delay"]})', flush=True)
        result['first_sample'] = [first_sample(stage, count, delay, 4 * options.rounds) for count in COUNTS for delay in DELAYS]
        for f in result['first_sample']:
            print(f'first sample after {f["ms"]["median"]:.1f} ms with {f["devices"]} devices ({f["delay"]})', flush=True)
        result['log_memory'] = [memory_of_log(stage, count) for count in COUNTS]
        result['costs'] = costs(stage, options.rounds, options.window)
        result['soak'] = soak(stage, options.soak)
        print(json.dumps(result['soak']))
    finally:
        shutil.rmtree(folder)
    machine.write_result(build, 'sampler', result)


if __name__ == '__main__':
    main()
