#!/usr/bin/env python3
"""End to end: how fast and in how little memory `profgpu analyze` reads traces of 5, 50 and 500 MB, plain and gzipped.

  bench/end_to_end.py BUILD [--sizes 5,50,500] [--runs N]

BUILD holds profgpu, kineto-sim and bench/bare_walk, bench/stages. Traces are made once, below BUILD. Runs of the programs that are
compared alternate, so that what else the machine does hits all of them. Writes build/bench/results/end_to_end.json (and prints it
as a table); bench/report.py makes docs/performance.md of it.
"""
import argparse
import gzip
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402


def measured(command):
    """Wall and CPU time of one run; what it printed."""
    read, write = os.pipe()
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    chunks = []
    while chunk := os.read(read, 1 << 20):
        chunks.append(chunk)
    os.close(read)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f'{command}: exit code {process.returncode}: {errors.decode()}')
    return {'wall_s': wall, 'cpu_s': usage.ru_utime + usage.ru_stime}, b''.join(chunks)


def peak_bytes(command, runs=3):
    """Peak resident memory. By time(1): a child of this process would be counted with the interpreter that it was forked from."""
    peaks = []
    for _ in range(runs):
        errors = subprocess.run(['/usr/bin/time', '-f', '%M', *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                check=True, text=True).stderr
        peaks.append(int(errors.strip().split('\n')[-1]) * 1024)
    return max(peaks)


def summary(values):
    values = sorted(values)
    return {'median': statistics.median(values), 'least': values[0], 'most': values[-1]}


def plain_trace(build, name, size):
    """`size` as kineto-sim's --target-bytes takes it."""
    folder = os.path.join(build, 'traces')
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name + '.json')
    if not os.path.exists(path):
        subprocess.run([f'{build}/kineto-sim', '--no-truth', '--fault', 'data-loading-bound', '--target-bytes', str(size),
                        '--out', path + '.part'], check=True, stdout=subprocess.DEVNULL)
        os.rename(path + '.part', path)
    return path


def make_trace(build, megabytes):
    path = plain_trace(build, f'{megabytes}MB', f'{megabytes}M')
    zipped = path + '.gz'
    if not os.path.exists(zipped):
        with open(path, 'rb') as source, gzip.open(zipped + '.part', 'wb', 6) as out:
            shutil.copyfileobj(source, out, 1 << 20)
        os.rename(zipped + '.part', zipped)
    return path, zipped


def measure_size(build, megabytes, runs):
    plain, zipped = make_trace(build, megabytes)
    text_bytes = os.path.getsize(plain)
    walks, plain_runs, zipped_runs, stages = [], [], [], []
    for i in range(runs + 1):
        walk = subprocess.run([f'{build}/bench/bare_walk', plain], capture_output=True, check=True, text=True).stdout.split()
        on_plain, _ = measured([f'{build}/profgpu', 'analyze', '--no-progress', plain])
        on_zipped, _ = measured([f'{build}/profgpu', 'analyze', '--no-progress', zipped])
        stage = json.loads(measured([f'{build}/bench/stages', plain])[1])
        if i == 0:
            continue   # brings the files into memory
        walks.append(float(walk[1]))
        plain_runs.append(on_plain)
        zipped_runs.append(on_zipped)
        stages.append(stage)

    def figures(all_runs, path):
        peak = peak_bytes([f'{build}/profgpu', 'analyze', '--no-progress', path])
        rates = [text_bytes / 1e6 / r['wall_s'] for r in all_runs]
        ratios = [walk / r['wall_s'] for walk, r in zip(walks, all_runs)]
        return {'wall_s': summary(r['wall_s'] for r in all_runs), 'cpu_s': summary(r['cpu_s'] for r in all_runs),
                'peak_bytes': peak, 'rate_mb_s': summary(rates), 'ratio_to_walk': summary(ratios),
                'ratio_of_best': min(walks) / min(r['wall_s'] for r in all_runs),
                'peak_over_text': peak / text_bytes}

    share = {}
    total = [sum(v for k, v in s.items() if k.endswith('_s')) for s in stages]
    for key in stages[0]:
        if key.endswith('_s'):
            share[key[:-2]] = statistics.median(100 * s[key] / t for s, t in zip(stages, total))
    return {'megabytes': megabytes, 'text_bytes': text_bytes, 'gzip_bytes': os.path.getsize(zipped), 'events': stages[0]['events'],
            'runs': runs, 'walk_mb_s': summary(text_bytes / 1e6 / w for w in walks), 'plain': figures(plain_runs, plain),
            'gzip': figures(zipped_runs, zipped), 'stage_pct': share, 'bytes_per_event': stages[0]['trace_bytes'] / stages[0]['events']}


def start_up(build, runs=100):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([f'{build}/profgpu', '--help'], stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - start) * 1e3)
    return summary(times)


def show(result):
    print(f'{"text":>8} {"events":>10} {"":>6} {"wall":>9} {"cpu":>9} {"rate":>10} {"of the walk":>12} {"(best)":>7} {"peak":>9} {"of text":>8}')
    for s in result['sizes']:
        for form in ('plain', 'gzip'):
            f = s[form]
            print(f'{s["text_bytes"] / 1e6:6.1f}MB {s["events"]:10,} {form:>6} {f["wall_s"]["median"]:8.3f}s {f["cpu_s"]["median"]:8.3f}s '
                  f'{f["rate_mb_s"]["median"]:6.0f}MB/s {f["ratio_to_walk"]["median"]:12.2f} {f["ratio_of_best"]:7.2f} '
                  f'{f["peak_bytes"] / 1e6:7.1f}MB {f["peak_over_text"]:8.3f}')
        print(f'{"":8} walk {s["walk_mb_s"]["median"]:.0f} MB/s, {s["bytes_per_event"]:.1f} bytes per event, stages '
              + ', '.join(f'{k} {v:.0f} %' for k, v in s['stage_pct'].items()))
    print(f'profgpu --help: median {result["start_up_ms"]["median"]:.1f} ms, least {result["start_up_ms"]["least"]:.1f}, '
          f'most {result["start_up_ms"]["most"]:.1f}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build')
    parser.add_argument('--sizes', default='5,50,500')
    parser.add_argument('--runs', type=int, default=7)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    result = {'machine': machine.description(build), 'start_up_ms': start_up(build), 'sizes': []}
    for size in options.sizes.split(','):
        result['sizes'].append(measure_size(build, int(size), options.runs))
    result['load_after'] = os.getloadavg()[0]
    machine.write_result(build, 'end_to_end', result)
    show(result)


if __name__ == '__main__':
    main()
