#!/usr/bin/env python3
"""How fast `profgpu export` and `profgpu query` are, as megabytes of the trace's text a second.

  bench/export.py BUILD [--sizes 5,50] [--runs N]

BUILD holds profgpu and kineto-sim. Each run reads the trace anew, so that `analyze --section launch` beside it says what reading costs. Writes
BUILD/results/export.json and prints it as a table.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
from end_to_end import make_trace  # noqa: E402

FORMATS = ('perfetto', 'chrome', 'sqlite', 'csv', 'speedscope', 'folded')
QUERIES = {
    'query: count': 'select count(*) from activity',
    'query: kernels by name': 'select name, count(*), sum(duration_ns) from kernels group by name',
    'query: launches': 'select call, avg(latency_ns), count(*) from launches group by call',
    'query: a millisecond': 'select count(*) from activity where start_ns between (select min(start_ns) + 1000000 from activity) '
                            'and (select min(start_ns) + 2000000 from activity)',
    'query: gaps': 'select cause, count(*), sum(duration_ns) from gaps group by cause',
}


def tree_bytes(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, n)) for folder, _, names in os.walk(path) for n in names)


def measured(command, runs):
    """Seconds and peak memory of the runs, by time(1)."""
    walls, peaks = [], []
    for _ in range(runs):
        start = time.perf_counter()
        errors = subprocess.run(['/usr/bin/time', '-f', '%M', *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True,
                                text=True).stderr
        walls.append(time.perf_counter() - start)
        peaks.append(int(errors.strip().split('\n')[-1]) * 1024)
    return walls, max(peaks)


def measure_size(build, megabytes, runs):
    trace, _ = make_trace(build, megabytes)
    text_bytes = os.path.getsize(trace)
    profgpu = os.path.join(build, 'profgpu')
    rows = []
    with tempfile.TemporaryDirectory(dir=build) as folder:
        out = os.path.join(folder, 'out')
        commands = {'analyze --section launch': [profgpu, 'analyze', trace, '--no-progress', '--section', 'launch']}
        for form in FORMATS:
            commands[f'export: {form}'] = [profgpu, 'export', trace, '--to', form, '-o', f'{out}.{form}', '--quiet']
        for name, sql in QUERIES.items():
            commands[name] = [profgpu, 'query', trace, sql, '--no-progress']
        for name, command in commands.items():
            walls, peak = measured(command, runs)
            form = name.removeprefix('export: ')
            rows.append({'name': name, 'wall_s': {'median': statistics.median(walls), 'least': min(walls), 'most': max(walls)},
                         'rate_mb_s': text_bytes / 1e6 / statistics.median(walls), 'peak_bytes': peak,
                         'output_bytes': tree_bytes(f'{out}.{form}') if name.startswith('export') else None})
    return {'megabytes': megabytes, 'text_bytes': text_bytes, 'runs': runs, 'rows': rows}


def show(result):
    for size in result['sizes']:
        text = size['text_bytes']
        print(f'{text / 1e6:.1f} MB of text\n  {"":26} {"wall":>9} {"rate":>11} {"peak":>9} {"output":>9} {"of text":>8}')
        for r in size['rows']:
            output = f'{r["output_bytes"] / 1e6:7.1f}MB {r["output_bytes"] / text:8.2f}' if r['output_bytes'] is not None else ''
            print(f'  {r["name"]:26} {r["wall_s"]["median"]:8.3f}s {r["rate_mb_s"]:7.0f}MB/s {r["peak_bytes"] / 1e6:7.1f}MB {output}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build')
    parser.add_argument('--sizes', default='5,50')
    parser.add_argument('--runs', type=int, default=5)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    result = {'machine': machine.description(build), 'sizes': [measure_size(build, int(s), options.runs) for s in options.sizes.split(',')]}
    result['load_after'] = os.getloadavg()[0]
    machine.write_result(build, 'export', result)
    show(result)


if __name__ == '__main__':
    main()
