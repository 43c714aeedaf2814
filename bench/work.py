#!/usr/bin/env python3
"""What the work of operators and the limits of devices add to a report: bench/work.py BUILD [--megabytes N] [--runs N].

One trace with shapes, read and reported by bench/stages, in turns with all analyses and as if no operator had work and no device a limit: by all
threads, and by one. Writes results/work.json.
"""
import argparse
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from end_to_end import measured, plain_trace, summary  # noqa: E402
from machine import description, write_result  # noqa: E402

TARGET_PCT = 10


def report(build, path, threads, *more):
    stages = json.loads(measured([f'{build}/bench/stages', path, threads, *more])[1])
    return sum(v for k, v in stages.items() if k.endswith('_s'))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build')
    parser.add_argument('--megabytes', type=int, default=500)
    parser.add_argument('--runs', type=int, default=7)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    path = plain_trace(build, f'{options.megabytes}MB', f'{options.megabytes}M')
    result = {'machine': description(build), 'text_bytes': os.path.getsize(path), 'runs': options.runs, 'target_pct': TARGET_PCT, 'rows': []}
    for name, threads in (('all', '0'), ('one', '1')):
        pairs = [(report(build, path, threads), report(build, path, threads, 'without-work')) for _ in range(options.runs + 1)][1:]
        row = {'threads': name, 'with_s': summary(a for a, _ in pairs), 'without_s': summary(b for _, b in pairs)}
        row['added_pct'] = 100 * (row['with_s']['median'] / row['without_s']['median'] - 1)
        row['added_pct_of_pairs'] = statistics.median(100 * (a / b - 1) for a, b in pairs)
        result['rows'].append(row)
        print(f'{name} threads: {row["with_s"]["median"]:.3f} s with work and limits, {row["without_s"]["median"]:.3f} s without: '
              f'{row["added_pct"]:.1f} % more')
    write_result(build, 'work', result)


if __name__ == '__main__':
    main()
