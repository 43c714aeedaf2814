"""What profgpu records of a training loop, beside what torch.profiler records, and what both cost a step.

A transformer and a ResNet are trained bare, with our recorder and with torch.profiler in turns, and the kernels that both
saw are compared. A minute of training is recorded whole: each of its launches has to have its kernel.
"""
import collections
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from gpu_check import recording_file
from gpu_check.record import HERE, ROUNDS, check, dropped, environment, recorded, recorder, run_json

KERNELS_PCT = 0          # by which two recorders' counts may differ: each sees every kernel
DURATION_PCT = 5         # of all kernels' time, between two runs
STEP_PCT = 2             # that recording may add to a step
MODELS = ('transformer', 'resnet')
OURS = 'profgpu'
MINUTE_S = 60


def plain(names):
    """Mangled names in clear, as torch.profiler has them; as they are where there is no c++filt."""
    if not shutil.which('c++filt'):
        return names
    done = subprocess.run(['c++filt'], input='\n'.join(names), capture_output=True, text=True, check=True)
    return done.stdout.split('\n')


def compare_kernels(model, theirs, rows):
    """Kernels of the measured steps: ours against torch.profiler's of another run of the same steps."""
    ours = collections.Counter(plain([k['name'] for k in rows['kernel']]))
    counts = {name: count for name, (count, _) in theirs.items()}
    total = sum(counts.values())
    our_ns, their_ns = sum(k['duration_ns'] for k in rows['kernel']), sum(ns for _, ns in theirs.values())
    differing = sorted(n for n in set(ours) | set(counts) if ours[n] != counts.get(n, 0))
    apart = 100 * abs(sum(ours.values()) - total) / max(1, total)
    slower = 100 * (our_ns - their_ns) / max(1, their_ns)
    return [
        check(f'{model}: as many kernels as torch.profiler', apart <= KERNELS_PCT, f'{sum(ours.values())} and {total}'),
        check(f'{model}: names with other counts', None, f'{len(differing)} of {len(counts)}: {differing[:3]}'),
        check(f'{model}: their time', abs(slower) <= DURATION_PCT, f'{our_ns / 1e6:.3f} ms and {their_ns / 1e6:.3f} ms'),
        check(f'{model}: nothing dropped', dropped(rows) == 0, f'{dropped(rows)} records'),
    ]


def ratios(rates, way):
    """How much longer a step takes than bare, percent, round by round."""
    return [100 * (bare / other - 1) for bare, other in zip(rates['bare'], rates[way])]


def train(model, library, more=()):
    words = [sys.executable, os.path.join(HERE, 'training.py'), model, *more]
    rates = collections.defaultdict(list)
    theirs, rows = None, None
    for _ in range(ROUNDS):   # in turns, so that a device that warms up favours none
        for way in ('bare', OURS, 'torch.profiler'):
            if way == OURS:
                said, rows, _, wrong = recorded(words, library, 'window=cudaProfilerApi')
            else:
                said, wrong = run_json(words + (['--profiler', 'torch'] if way == 'torch.profiler' else []))
            if said is None or (way == OURS and rows is None):
                return [check(f'{model}: training {way}', False, wrong)], {}
            rates[way].append(said['steps_per_s'])
            theirs = said.get('kernels', theirs)
    checks = compare_kernels(model, theirs, rows)
    for way in (OURS, 'torch.profiler'):
        cost = ratios(rates, way)
        ok = statistics.median(cost) < STEP_PCT if way == OURS else None
        checks.append(check(f'{model}: a step with {way} takes longer by', ok,
                            f'{statistics.median(cost):+.2f} % (median of {ROUNDS}; {min(cost):+.2f} to {max(cost):+.2f})'))
    return checks, {model: dict(rates)}


def minute(library, steps_per_s, seconds=MINUTE_S, more=()):
    """A minute of training, recorded from its first launch on."""
    steps = max(1, round(steps_per_s * seconds))
    words = [sys.executable, os.path.join(HERE, 'training.py'), MODELS[0], '--steps', str(steps), *more]
    with tempfile.TemporaryDirectory() as folder:
        said, wrong = run_json(words, environment(library, folder))
        files = [os.path.join(folder, f) for f in os.listdir(folder) if f.endswith('.pgt')]
        if said is None or len(files) != 1:
            return [check('a minute of training', False, wrong or f'{len(files)} recordings were written')]
        return compare_minute(steps, recording_file.counts(files[0]), recording_file.launches_without_kernel(files[0]),
                              os.path.getsize(files[0]))


def compare_minute(steps, counted, launched, size):
    (rows, lost), (launches, without) = counted, launched
    records = rows['kernel'] + rows['call']
    return [
        check('a minute of training: nothing dropped', lost == 0 and rows['kernel'] > 0,
              f'{rows["kernel"]} kernels in {steps} steps, {lost} records dropped'),
        check('a minute of training: each launch has its kernel', without == 0 and launches > 0,
              f'{without} of {launches} launches have none'),
        check('a minute of training: size', None, f'{size} bytes, {size / max(1, records):.1f} a kernel or call'),
    ]


def run(machine):
    library = recorder(machine)
    if library is None:
        return {'checks': [check('the recorder', None if machine.simulated else False, 'it is not built')], 'steps_per_s': {}}
    if machine.simulated:
        return {'checks': [check('training', None, 'there is no device that PyTorch could use')], 'steps_per_s': {}}
    checks, rates = [], {}
    for model in MODELS:
        more, seen = train(model, library)
        checks += more
        rates.update(seen)
    if MODELS[0] in rates:
        checks += minute(library, statistics.median(rates[MODELS[0]]['bare']))
    return {'checks': checks, 'steps_per_s': rates}
