#!/usr/bin/env python3
"""Jobs of many ranks: bench/job.py BUILD [--part NAME] [--seeds N] [--ranks 8,64,512] [--rank-bytes 10M] [--traces FOLDER]

What `profgpu analyze FOLDER` says of simulated jobs beside what was planted in them, and what it takes:
  clocks      offsets and drift found against those planted, and whether the stated error holds them
  stragglers  hits, wrong reasons and false alarms by reason, size of the fault and number of ranks; healthy jobs too
  scale       wall time an event and peak memory as ranks grow, of a merged timeline too; two MPI processes beside one where the build has them
  pair        two recorded ranks of a real job, where FOLDER has them
Parts that are not run keep what results/job.json has of them.
"""
import argparse
import glob
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
from end_to_end import measured, peak_bytes, summary  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLASSES = {'straggler-rank': 'slow_compute', 'straggler-clocks': 'low_clocks', 'straggler-loading': 'slow_input', 'straggler-work': 'uneven_work',
           'straggler-host': 'slow_host', 'straggler-link': 'slow_link'}
EXCESS_PCT = (3, 5, 10, 20, 40)
RANKS = (2, 4, 8, 16)


class Bench:
    def __init__(self, build):
        self.build = build
        self.profgpu = os.path.join(build, 'profgpu')

    def simulate(self, out, *options):
        command = [os.path.join(self.build, 'kineto-sim'), '--out', out, *map(str, options)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(out + '.truth.json') as f:
            return json.load(f)

    def cluster(self, *paths):
        result = subprocess.run([self.profgpu, 'analyze', '--json', '--no-progress', *paths], capture_output=True, check=True)
        return json.loads(result.stdout)['cluster']


def in_new_folder(work):
    folder = tempfile.mkdtemp(prefix='profgpu-job-')
    try:
        return work(os.path.join(folder, 'job'))
    finally:
        shutil.rmtree(folder)


# --- clocks

def true_offset_ns(truth, rank):
    """What is to be added to the rank's times at the middle of what it recorded."""
    first, own = truth['clocks'][0], truth['clocks'][rank]
    since_start = own['middle_ns'] - truth['job_start_ns']
    return first['ahead_ns'] - own['ahead_ns'] + since_start * (first['drift_ppb'] - own['drift_ppb']) / 1e9


def clock_errors(bench, ranks, hosts, seed, options):
    def work(folder):
        truth = bench.simulate(folder, '--ranks', ranks, '--hosts', hosts, '--seed', seed, *options)
        rows = []
        for clock in bench.cluster(folder)['clocks']:
            if truth['clocks'][clock['rank']]['host'] == truth['clocks'][0]['host']:
                continue
            # Aligned by the number of the step is good enough for a picture and claims no more.
            known = clock['error_ns'] is not None and clock['method'] != 'steps'
            planted = truth['clocks'][clock['rank']]['drift_ppb'] - truth['clocks'][0]['drift_ppb']
            rows.append({'known': known, 'error_ns': abs(clock['offset_ns'] - true_offset_ns(truth, clock['rank'])) if known else None,
                         'stated_ns': clock['error_ns'], 'drift_error_ppm': abs(clock.get('drift_ppm', 0) + planted / 1e3)})
        return rows
    return in_new_folder(work)


def clocks(bench, seeds):
    jobs = []
    base = ['--clock-error-ns', 50_000_000, '--drift-error-ppm', 50, '--end-jitter', 3000, '--layers', 4]
    for name, ranks, hosts, more in (
            ('2 hosts', 2, 2, ['--steps', 5]), ('2 hosts of 4', 8, 2, ['--steps', 5]), ('8 hosts of 2', 16, 8, ['--steps', 5]),
            ('2 hosts of 4, 40 steps', 8, 2, ['--steps', 40]), ('a late rank', 8, 4, ['--steps', 5, '--fault', 'straggler-rank', '--excess', 20, '--slow-rank', 3]),
            ('tensor parallel in hosts', 8, 4, ['--steps', 5, '--strategy', 'tp', '--group', 2]), ('pipeline', 4, 4, ['--steps', 5, '--strategy', 'pp', '--micro-batches', 8]),
            ('kernels without arguments', 8, 2, ['--steps', 5, '--no-collective-args'])):
        rows = [row for seed in range(1, seeds + 1) for row in clock_errors(bench, ranks, hosts, seed, base + more)]
        known = [r for r in rows if r['known']]
        job = {'name': name, 'clocks': len(rows), 'known': len(known)}
        if known:
            job |= {'error_ns': summary(r['error_ns'] for r in known), 'stated_ns': summary(r['stated_ns'] for r in known),
                    'drift_error_ppm': summary(r['drift_error_ppm'] for r in known),
                    'within': sum(r['error_ns'] <= r['stated_ns'] for r in known)}
        jobs.append(job)
        print('clocks', job)
    return {'seeds': seeds, 'jobs': jobs}


# --- stragglers

def straggler_run(bench, fault, excess, ranks, seed, folder):
    options = ['--ranks', ranks, '--seed', seed, '--steps', 6, '--layers', 4, '--end-jitter', 2000, '--step-noise', 10]
    late = seed % ranks
    if fault == 'straggler-host' and ranks >= 8:
        options += ['--hosts', ranks // 2, '--clock-error-ns', 5_000_000]
    elif ranks > 8:
        options += ['--hosts', ranks // 8]   # a host has eight devices
    if fault == 'straggler-link':
        # Where all ranks share one group, all wait alike: a link is slow only beside others.
        options += ['--strategy', 'tp', '--group', 2]
    truth = bench.simulate(folder, *options, '--fault', fault, '--excess', excess, '--slow-rank', late)
    samples = glob.glob(folder + '.samples*.jsonl')
    planted = {s['rank'] for s in truth['stragglers']}
    # A link has two ends, and which of them is the slow one shows only where one is in several slow groups.
    affected = planted | {late ^ 1} if fault == 'straggler-link' else planted
    found = {s['rank']: s['kind'] for s in bench.cluster(folder, *samples)['stragglers']}
    right = [found.get(rank) == CLASSES[fault] for rank in planted]
    return {'hit': all(right), 'wrong': not all(right) and any(rank in found for rank in planted), 'missed': not any(rank in found for rank in planted),
            'false': any(rank not in affected for rank in found), 'kinds': sorted(set(found.values()))}


def healthy_alarm(bench, strategy, ranks, seed, folder):
    group = ['--group', 2] if strategy in ('tp', 'pp', 'ep') else []
    bench.simulate(folder, '--ranks', ranks, '--seed', seed, '--steps', 6, '--layers', 4, '--end-jitter', 2000, '--step-noise', 10,
                   '--micro-batches', 4 if strategy == 'pp' else 1, '--strategy', strategy, *group)
    return len(bench.cluster(folder)['stragglers']) > 0


def stragglers(bench, seeds):
    rows = []
    for fault in CLASSES:
        for ranks in RANKS:
            if fault == 'straggler-link' and ranks < 4:
                continue
            for excess in EXCESS_PCT:
                runs = [in_new_folder(lambda folder: straggler_run(bench, fault, excess, ranks, seed, folder)) for seed in range(1, seeds + 1)]
                row = {'kind': CLASSES[fault], 'ranks': ranks, 'excess_pct': excess, 'runs': seeds,
                       **{key: sum(r[key] for r in runs) for key in ('hit', 'wrong', 'missed', 'false')}}
                rows.append(row)
                print('stragglers', row, {kind for r in runs for kind in r['kinds']})
    healthy = []
    for strategy in ('ddp', 'fsdp', 'zero1', 'zero2', 'tp', 'pp', 'ep'):
        for ranks in RANKS:
            alarms = sum(in_new_folder(lambda folder: healthy_alarm(bench, strategy, ranks, seed, folder)) for seed in range(1, seeds + 1))
            healthy.append({'strategy': strategy, 'ranks': ranks, 'runs': seeds, 'alarms': alarms})
            print('healthy', healthy[-1])
    return {'seeds': seeds, 'rows': rows, 'healthy': healthy}


# --- scale

def mpi_command(bench, folder):
    """None where the build or the machine cannot."""
    if shutil.which('mpirun') is None:
        return None
    command = ['mpirun', '--allow-run-as-root', '--oversubscribe', '-n', '2', bench.profgpu, 'analyze', '--mpi', '--json', '--no-progress', folder]
    return command if subprocess.run(command, capture_output=True).returncode == 0 else None


def scale_row(bench, ranks, rank_bytes, runs):
    folder = os.path.join(bench.build, 'traces', f'job-{ranks}-{rank_bytes}')
    if not os.path.exists(folder + '.truth.json'):
        bench.simulate(folder, '--ranks', ranks, '--hosts', max(ranks // 8, 1), '--layers', 12, '--target-bytes', rank_bytes)
    with open(folder + '.truth.json') as f:
        events = sum(d['events'] for d in json.load(f)['devices'])
    text = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    command = [bench.profgpu, 'analyze', '--json', '--no-progress', folder]
    mpi = mpi_command(bench, folder)
    alone, together, same = [], [], True
    for i in range(runs + 1):
        one, output = measured(command)
        two = measured(mpi) if mpi else None
        if i == 0:
            continue   # brings the files into memory
        alone.append(one['wall_s'])
        if two:
            together.append(two[0]['wall_s'])
            same = same and two[1] == output
    row = {'ranks': ranks, 'events': events, 'text_bytes': text, 'wall_s': summary(alone), 'ns_an_event': statistics.median(alone) * 1e9 / events,
           'peak_bytes': peak_bytes(command, 1)}
    if ranks <= 64:
        row['merge_peak_bytes'] = peak_bytes([bench.profgpu, 'merge', '--quiet', '--to', 'perfetto', '-o', '/dev/null', folder], 1)
    if together:
        # Two processes of one core each beside one that uses both.
        row['mpi'] = {'wall_s': summary(together), 'ratio': statistics.median(alone) / statistics.median(together), 'same_bytes': same}
    print('scale', row)
    return row


def one_core(bench, row_ranks, rank_bytes, runs):
    """One process on one core, what two MPI processes on two cores are measured against."""
    folder = os.path.join(bench.build, 'traces', f'job-{row_ranks}-{rank_bytes}')
    command = ['taskset', '-c', '0', bench.profgpu, 'analyze', '--json', '--no-progress', folder]
    return summary(measured(command)[0]['wall_s'] for _ in range(runs))


def halves(bench, row_ranks, rank_bytes, runs):
    """Two processes that know nothing of each other, a core and every second rank each: what the machine gives two at once."""
    folder = os.path.join(bench.build, 'traces', f'job-{row_ranks}-{rank_bytes}')
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    walls = []
    for _ in range(runs):
        start = time.monotonic()
        both = [subprocess.Popen(['taskset', '-c', str(core), bench.profgpu, 'analyze', '--json', '--no-progress', *files[core::2]],
                                 stdout=subprocess.DEVNULL) for core in (0, 1)]
        if any(process.wait() for process in both):
            raise RuntimeError('profgpu failed')
        walls.append(time.monotonic() - start)
    return summary(walls)


def scale(bench, ranks, rank_bytes, runs):
    rows = []
    for n in ranks:
        row = scale_row(bench, n, rank_bytes, runs)
        if 'mpi' in row:
            row['mpi']['one_core_s'] = one_core(bench, n, rank_bytes, runs)
            row['mpi']['halves_s'] = halves(bench, n, rank_bytes, runs)
            row['mpi']['efficiency'] = row['mpi']['one_core_s']['median'] / (2 * row['mpi']['wall_s']['median'])
            row['mpi']['limit'] = row['mpi']['one_core_s']['median'] / (2 * row['mpi']['halves_s']['median'])
        rows.append(row)
    return {'rank_bytes': rank_bytes, 'rows': rows}


# --- two recorded ranks

def pair(bench, traces):
    files = [os.path.join(traces, f'pair128-rank{rank}.json.gz') for rank in (0, 1)]
    if not all(map(os.path.exists, files)):
        return None
    result = subprocess.run([bench.profgpu, 'analyze', '--json', '--no-progress', *files], capture_output=True, check=True)
    document = json.loads(result.stdout)
    found = {'clocks': document['cluster']['clocks'], 'stragglers': document['cluster']['stragglers'],
             'collectives': [{key: row[key] for key in ('name', 'calls', 'total_ns', 'wait_ns')} for row in document['ranks'][0]['collectives']]}
    print('pair', found)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build')
    parser.add_argument('--part', action='append', choices=('clocks', 'stragglers', 'scale', 'pair'))
    parser.add_argument('--seeds', type=int, default=5)
    parser.add_argument('--ranks', default='8,64,512')
    parser.add_argument('--rank-bytes', default='10M')
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--traces', default=os.path.join(ROOT, '..', 'shared', 'traces'))
    options = parser.parse_args()
    bench = Bench(os.path.abspath(options.build))
    parts = options.part or ('clocks', 'stragglers', 'scale', 'pair')
    path = machine.result_path(bench.build, 'job')
    result = {}
    if options.part and os.path.exists(path):
        with open(path) as f:
            result = json.load(f)
    result['machine'] = machine.description(bench.build)
    if 'clocks' in parts:
        result['clocks'] = clocks(bench, options.seeds)
    if 'stragglers' in parts:
        result['stragglers'] = stragglers(bench, options.seeds)
    if 'scale' in parts:
        result['scale'] = scale(bench, [int(n) for n in options.ranks.split(',')], options.rank_bytes, options.runs)
    if 'pair' in parts:
        result['pair'] = pair(bench, options.traces)
    machine.write_result(bench.build, 'job', result)


if __name__ == '__main__':
    main()
