#!/usr/bin/env python3
"""How fast a log is read: a file of which most lines are of no family, and one of nothing but steps.

  bench/logs.py BUILD [--megabytes N]

MB per second of CPU time of `profgpu analyze`, the whole report included, best of three: on a busy machine the clock says nothing. The files
lie in memory where /dev/shm is. Writes results/logs.json.
"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from machine import description, write_result  # noqa: E402

TARGET_MB_S = 500
NOISE = ('INFO 05-01 12:00:00 worker.py:123] rank 3 fetched shard 00017-of-01024 from cache, 8192 samples in 0.12 s, queue depth 4\n'
         'WARNING: tokenizers parallelism was already used before the fork; disabling it to avoid deadlocks\n')
STEP = (' [2024-05-01 12:{:02d}:{:02d}] iteration {:8d}/10000000 | consumed samples: {:12d} | elapsed time per iteration (ms): 512.3 | '
        'throughput per GPU (TFLOP/s/GPU): 50.7 | learning rate: 1.0E-04 | global batch size: 64 | lm loss: 9.1E+00 | loss scale: 1.0 | '
        'grad norm: 1.2 | number of skipped iterations: 0 | number of nan iterations: 0 |\n')


def write(path, size, noise_lines):
    with open(path, 'w') as f:
        step, block = 0, NOISE * (noise_lines // 2)
        while f.tell() < size:
            for _ in range(1000 if not noise_lines else 10):
                step += 1
                f.write(STEP.format(step // 120 % 60, step // 2 % 60, step, step * 64))
                f.write(block)


def best(program, path):
    took = []
    for _ in range(3):
        before = os.times()
        subprocess.run([program, 'analyze', path, '--json', '-o', '/dev/null', '--quiet'], check=True)
        after = os.times()
        took.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(took)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('build')
    parser.add_argument('--megabytes', type=int, default=500)
    options = parser.parse_args()
    folder = '/dev/shm' if os.path.isdir('/dev/shm') else None
    result = {'machine': description(options.build), 'target_mb_s': TARGET_MB_S, 'rows': []}
    with tempfile.TemporaryDirectory(dir=folder) as room:
        for name, noise in (('mostly noise', 2000), ('steps alone', 0)):
            path = os.path.join(room, 'train.log')
            write(path, options.megabytes * 10**6, noise)
            seconds, size = best(os.path.join(options.build, 'profgpu'), path), os.path.getsize(path)
            result['rows'].append({'lines': name, 'bytes': size, 'cpu_s': seconds, 'mb_s': size / seconds / 1e6})
            print(f'{name}: {size / seconds / 1e6:.0f} MB/s ({seconds:.2f} s)')
    write_result(options.build, 'logs', result)


if __name__ == '__main__':
    sys.exit(main())
