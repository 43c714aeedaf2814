#!/usr/bin/env python3
"""What it costs a program that the kernel records its context switches: bare, with samples of threads alone, with switches.

  bench/switches.py BUILD [--rounds N]

Two processes hand a byte to and fro, which does nothing but switch; threads are begun and end. Rounds go in turns. More processors
than there are are simulated by as many more events in each thread. Writes BUILD/results/switches.json; bench/report.py makes
docs/performance.md of it.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
import machine  # noqa: E402
from end_to_end import summary  # noqa: E402

WORK = {'pipe_one': ('pipe', 200_000, 'one'), 'pipe_two': ('pipe', 200_000, 'two'), 'threads': ('threads', 20_000)}
MODES = {'bare': None, 'sampled': ('--no-perf-events',), 'switches': ()}
PROCESSORS = (0, 62, 126, 254)   # more than the two that are worked on


def run(build, words, options):
    """ns of one, and what profgpu said of its own part."""
    command = [os.path.join(build, 'bench', 'switches'), *map(str, words)]
    if options is None:
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)['ns'], None
    with tempfile.TemporaryDirectory() as folder:
        profgpu = [os.path.join(build, 'profgpu'), 'run', '--trace', '--backend', 'none', '--no-python-hook', '--quiet', *options]
        done = subprocess.run([*profgpu, '-o', folder, '--', *command], capture_output=True, check=True)
        with open(os.path.join(folder, 'summary.json')) as f:
            said = json.load(f)['recording']['host_samples']
        said['file_bytes'] = sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder) if n.endswith('host.pgt'))
        return json.loads(done.stdout)['ns'], said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=7)
    o = parser.parse_args()
    build = os.path.abspath(o.build)
    result = {'machine': machine.description(build), 'rounds': o.rounds, 'work': {}, 'processors': {}}
    for name, words in WORK.items():
        ns, said = {mode: [] for mode in MODES}, {}
        for _ in range(o.rounds):
            for mode, options in MODES.items():
                one, said[mode] = run(build, words, options)
                ns[mode].append(one)
        result['work'][name] = {'count': words[1], 'ns': {mode: summary(ns[mode]) for mode in MODES}, 'said': said['switches'],
                                'sampled': said['sampled']}
    for more in PROCESSORS:
        result['processors'][more + 2] = {
            name: summary([run(build, ('processors', more, *WORK[name]), None)[0] for _ in range(o.rounds)])
            for name in ('pipe_one', 'threads')}
    machine.write_result(build, 'switches', result)
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == '__main__':
    main()
