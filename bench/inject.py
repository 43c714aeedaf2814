#!/usr/bin/env python3
"""What the recorder costs a process where no GPU is: a range event, a flood of them, the start of a process.

  bench/inject.py BUILD [--rounds N]

Writes BUILD/results/inject.json; bench/report.py makes docs/performance.md of it.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, 'scripts')]
import machine  # noqa: E402
from end_to_end import summary  # noqa: E402
from gpu_check import recording_file  # noqa: E402

RANGE_EVENT = 25


def run(build, *words, options='flush_ms=10'):
    """What the program said, with the rows and drops of its recording and the bytes that a range event takes in it."""
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU_', 'CUDA_INJ', 'NVTX_INJ', 'LD_PRELOAD'))}
        if words[0] != 'spawn':
            env |= {'PROFGPU_RECORD': folder, 'PROFGPU_RECORD_OPTIONS': options}
        program = os.path.join(build, 'bench', 'range_events')
        library = os.path.abspath(os.path.join(build, 'libprofgpu-inject.so'))
        said = json.loads(subprocess.run([program, library, *map(str, words)], env=env, capture_output=True, check=True).stdout)
        for path in glob.glob(os.path.join(folder, '*.pgt')):
            chunks = [(rows, len(body)) for kind, rows, body in recording_file.chunks(path) if kind == RANGE_EVENT]
            said['recorded'] = sum(rows for rows, _ in chunks)
            said['bytes_an_event'] = sum(size for _, size in chunks) / said['recorded']
        return said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=5)
    arguments = parser.parse_args()
    result = {'machine': machine.description(arguments.build), 'event_ns': {}, 'rounds': arguments.rounds}
    every = range(arguments.rounds)
    for threads in (1, 2, 8):
        result['event_ns'][threads] = summary([run(arguments.build, 'events', threads, 500_000)['ns'] for _ in every])
    payloads = [run(arguments.build, 'payloads', 500_000)['ns'] for _ in every]
    result['payload_event_ns'] = summary(payloads)
    floods = [run(arguments.build, 'flood', 2, 20_000_000, options='flush_ms=250,memory_mb=256') for _ in every]
    result['flood'] = {'made_per_s': summary([f['made'] / f['seconds'] for f in floods]),
                       'recorded_per_s': summary([f['recorded'] / f['seconds'] for f in floods]),
                       'resident_bytes': max(f['resident_bytes'] for f in floods),
                       'bytes_an_event': summary([f['bytes_an_event'] for f in floods]),
                       'start_us': summary([f['start_us'] for f in floods])}
    spawns = [run(arguments.build, 'spawn', 400) for _ in every]
    for key in ('set', 'preloaded'):
        result[f'{key}_us'] = summary([s[f'{key}_us'] - s['bare_us'] for s in spawns])
    machine.write_result(arguments.build, 'inject', result)
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == '__main__':
    main()
