#!/usr/bin/env python3
"""What the Python hook costs: at the start of a Python process, for each call of PyTorch that it wraps, and to sample
the loop's Python stack.

  bench/python_hook.py BUILD [--rounds N] [--python PATH]

All is CPU time. Start-up: `python -c pass` with the hook and without, alternating; the median of the
differences of the pairs is printed, with the first and third quartile. Calls: empty functions with PyTorch (in --python,
by default build/venv) loaded and a recording running, the median of 9 runs, less the same call unwrapped. Stacks: the
share of a processor that sampling every 20 ms takes, of a loop that keeps Python busy and of one that waits, 30 calls
deep; Python's lock is held for no longer. Writes BUILD/results/python_hook.json.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

import machine

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CALLS = '''
import json, statistics, sys, time
import torch
phases = sys.modules['profgpu_phases']
def empty(*args, **kwargs): pass
marked = phases.wrapped(empty, phases.FORWARD)
def measure(call, count=20000):
    runs = []
    for _ in range(9):
        start = time.thread_time_ns()
        for _ in range(count): call()
        runs.append((time.thread_time_ns() - start) / count)
        time.sleep(0.3)  # the recorder's ring is emptied meanwhile
    return statistics.median(runs)
bare = measure(empty)
class Optimizer: pass
optimizer = Optimizer()
def step():
    phases.before_optimizer(optimizer, (optimizer,), {})
    phases.after_optimizer(optimizer, (optimizer,), {})
out = {'marked_ns': measure(marked) - bare}
depth = phases.enter(phases.FORWARD)
out['nested_ns'] = measure(marked) - bare
phases.leave(depth)
out['optimizer_ns'] = measure(step)
out['torch'] = torch.__version__
print(json.dumps(out))
'''
LOOPS = '''
import json, os, sys, threading, time
import torch
phases = sys.modules['profgpu_phases']
phases.leave(phases.enter(phases.FORWARD))
def used_ns():
    for task in os.listdir('/proc/self/task'):
        with open('/proc/self/task/%s/comm' % task) as comm, open('/proc/self/task/%s/schedstat' % task) as times:
            if comm.read().strip() == 'profgpu stacks': return int(times.read().split()[0])
while used_ns() is None: time.sleep(0.01)
def works(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until: pass
def deep(depth, f, *args): return f(*args) if depth == 0 else deep(depth - 1, f, *args)
def cost_pct(f, seconds=2):
    used, begun = used_ns(), time.perf_counter_ns()
    deep(30, f, seconds)
    return 100 * (used_ns() - used) / (time.perf_counter_ns() - begun)
print(json.dumps({'works_pct': cost_pct(works), 'waits_pct': cost_pct(time.sleep)}))
'''


def environment(build, folder):
    build = os.path.abspath(build)
    hook = shutil.copytree(os.path.join(build, 'share', 'profgpu', 'python-hook'), os.path.join(folder, 'hook'),
                           ignore=shutil.ignore_patterns('__pycache__'))
    return dict(os.environ, PYTHONPATH=hook, PROFGPU_RECORD=folder,
                PROFGPU_INJECT=os.path.join(build, 'libprofgpu-inject.so'))


def start_seconds(python, env):
    """CPU time, which other programs disturb less than they do the clock on the wall."""
    process = subprocess.Popen([python, '-c', 'pass'], env=env)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    process.returncode = 0
    return used.ru_utime + used.ru_stime


def start_up(python, env, rounds):
    bare = {k: v for k, v in env.items() if k != 'PYTHONPATH'}
    pairs = [(start_seconds(python, bare), start_seconds(python, env)) for _ in range(rounds)]
    low, middle, high = statistics.quantiles([1e3 * (b - a) for a, b in pairs], n=4)
    return {'rounds': rounds, 'without_ms': 1e3 * statistics.median(a for a, _ in pairs), 'added_ms': middle,
            'added_quartiles_ms': [low, high]}


def sampled(python, env, rounds):
    """The median of the rounds."""
    def costs():
        out = subprocess.run([python, '-c', LOOPS], env=dict(env, PROFGPU_PYTHON_STACKS_NS='20000000'), check=True,
                             stdout=subprocess.PIPE).stdout
        return json.loads(out)
    runs = [costs() for _ in range(rounds)]
    return {'rounds': rounds, 'interval_ms': 20, **{key: statistics.median(run[key] for run in runs) for key in runs[0]}}


def main():
    options = argparse.ArgumentParser()
    options.add_argument('build')
    options.add_argument('--rounds', type=int, default=50)
    options.add_argument('--python', default=os.path.join(ROOT, 'build', 'venv', 'bin', 'python'))
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        env = environment(options.build, folder)
        # Without a place for compiled files, as where the program is installed by root: read and compiled each time.
        results = {'machine': machine.description(options.build), 'start_up': start_up(options.python, dict(env, PYTHONDONTWRITEBYTECODE='1'), options.rounds)}
        calls = subprocess.run([options.python, '-c', CALLS], env=env, check=True, stdout=subprocess.PIPE).stdout
        results['calls'] = json.loads(calls)
        results['stacks'] = sampled(options.python, env, max(3, options.rounds // 10))
    machine.write_result(options.build, 'python_hook', results)
    print(json.dumps(results, indent=1))


if __name__ == '__main__':
    main()
