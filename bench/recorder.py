#!/usr/bin/env python3
"""What recording a simulated device costs the process that is recorded. It says nothing of CUPTI's own cost.

  bench/recorder.py BUILD [--rounds N] [--kernels N]

The device, its driver and CUPTI are our stand-ins (tests/stubs/cuda) for all. In each round the same program runs bare, then
recorded: the difference of CPU time, over the records, holds what the stand-in for CUPTI takes to make a record as well as
what we take to read and write it. Writes BUILD/results/recorder.json; bench/report.py makes docs/performance.md of it.
"""
import argparse
import glob
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, 'scripts')]
import machine  # noqa: E402
from end_to_end import summary  # noqa: E402
from gpu_check import recording_file  # noqa: E402

MAJORS = {11: '11.8', 12: '12.5', 13: '13.0'}
RATES = (0, 1_000_000)   # 0: as fast as the program can; a paced one waits busily, so that its CPU time says nothing
KERNEL, CALL = 16, 19


def run(build, major, folder, *words):
    """(what the program said, its CPU time in s, its wall time in s); bare where folder is None."""
    stubs = os.path.join(build, 'tests', 'stubs', 'cuda')
    env = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU_', 'CUDA_'))}
    env |= {'LD_LIBRARY_PATH': f'{stubs}:{stubs}/{major}', 'CUDA_SIM': f'driver={major}000'}
    if folder:
        env |= {'PROFGPU_RECORD': folder, 'CUDA_INJECTION64_PATH': os.path.join(build, 'libprofgpu-inject.so')}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([os.path.join(build, 'cuda-sim'), *map(str, words)], env=env, capture_output=True, check=True)
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def bytes_a_row(path):
    size, rows = {}, {}
    for kind, count, body in recording_file.chunks(path):
        size[kind] = size.get(kind, 0) + len(body) + recording_file.CHUNK_HEADER.size + recording_file.BODY_HEADER.size
        rows[kind] = rows.get(kind, 0) + count
    return {'kernel': size[KERNEL] / rows[KERNEL], 'call': size[CALL] / rows[CALL]}


def measure(build, major, rate, kernels, rounds):
    words = ('--kernels', kernels, '--rate', rate, '--names', 100, '--streams', 4)
    costs, rates, last = [], [], None
    for _ in range(rounds):
        _, bare, _ = run(build, major, None, *words)
        with tempfile.TemporaryDirectory() as folder:
            said, recorded, wall = run(build, major, folder, *words)
            path = glob.glob(os.path.join(folder, '*.pgt'))[0]
            rows, dropped = recording_file.counts(path)
            records = rows['kernel'] + rows['call']
            costs.append((recorded - bare) / records * 1e9)
            rates.append(kernels / wall)
            last = {'records': records, 'dropped': dropped, 'peak_mb': said['peak_kb'] / 1024, 'bytes': bytes_a_row(path)}
    return {'cupti': MAJORS[major], 'asked_per_s': rate, 'kernels_per_s': summary(rates),
            'ns_a_record': None if rate else summary(costs), **last}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--kernels', type=int, default=2_000_000)
    o = parser.parse_args()
    build = os.path.abspath(o.build)
    if not os.path.exists(os.path.join(build, 'cuda-sim')):
        sys.exit(f'{build}/cuda-sim is not built: ninja cuda_stubs profgpu_inject')
    result = {'simulated': True, 'machine': machine.description(build), 'rounds': o.rounds, 'runs': []}
    for major in MAJORS:
        for rate in RATES:
            result['runs'].append(measure(build, major, rate, o.kernels, o.rounds))
            print(json.dumps(result['runs'][-1]), flush=True)
    machine.write_result(build, 'recorder', result)


if __name__ == '__main__':
    main()
