"""What profgpu records of a device, beside what is known of the work, what torch.profiler records, and what recording costs.

A CUDA program of known counts is recorded and compared count by count; a transformer and a ResNet are trained bare, with
our recorder and with torch.profiler in turns, and the kernels that both saw are compared.
"""
import collections
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from gpu_check import recording_file

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS_PCT = 0          # by which two recorders' counts may differ: each sees every kernel
DURATION_PCT = 5         # of all kernels' time, between two runs
SPIN_LATE_NS = 20_000    # a kernel that spins for a known time begins and ends around it
ROUNDS = 5
MODELS = ('transformer', 'resnet')
OURS = 'profgpu'


def check(name, ok, said):
    return {'name': name, 'ok': ok, 'said': said}


def recorder(machine):
    """The library beside the program, built if it is not there; None: it cannot be built here."""
    build = os.path.dirname(machine.program)
    for path in (os.path.join(build, 'libprofgpu-inject.so'), os.path.join(build, '..', 'lib', 'profgpu', 'libprofgpu-inject.so')):
        if os.path.exists(path):
            return os.path.abspath(path)
    if not machine.simulated:
        subprocess.run(['cmake', '--build', build, '--target', 'profgpu_inject'], check=False)
    path = os.path.join(build, 'libprofgpu-inject.so')
    return path if os.path.exists(path) else None


def environment(library, folder, options=''):
    return {**os.environ, 'PROFGPU_RECORD': folder, 'PROFGPU_RECORD_OPTIONS': options, 'PROFGPU_INJECT': library,
            'CUDA_INJECTION64_PATH': library, 'NVTX_INJECTION64_PATH': library, 'NCCL_PROFILER_PLUGIN': library}


def run_json(words, env=None):
    """(the last line that is JSON, what went wrong)."""
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=900, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{')]
    if done.returncode or not lines:
        return None, f'exit {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}'
    return json.loads(lines[-1]), ''


def recorded(words, library, options='', **more):
    """(what the program said, rows of its recording, file's bytes, what went wrong)."""
    with tempfile.TemporaryDirectory() as folder:
        said, wrong = run_json(words, {**environment(library, folder, options), **more})
        files = [os.path.join(folder, f) for f in os.listdir(folder) if f.endswith('.pgt')]
        if said is None or len(files) != 1:
            return said, None, 0, wrong or f'{len(files)} recordings were written'
        kinds = [name for name, wanted in recording_file.KINDS.values() if wanted]
        return said, recording_file.rows(files[0], *kinds), os.path.getsize(files[0]), ''


def dropped(rows):
    return sum(r['count'] for r in rows['drop'])


# --- Work of known counts ---------------------------------------------------------------------------------------------

def compare_known(said, rows):
    """Checks of a recording of known_work."""
    names = collections.Counter(k['name'] for k in rows['kernel'])
    copies = collections.Counter(str(c['copy_kind']) for c in rows['copy'])
    spins = [k['duration_ns'] for k in rows['kernel'] if k['name'] == 'known_spin']
    known = {name: names[name] for name in said['by_name']}
    pushed = sum(1 for r in rows['range_event'] if r['op'] == 1 and r['name'] == 'known range')
    taken = sum(1 for a in rows['allocation'] if not a['is_free'] and a['bytes'] in (1 << 20, 4096 * 4, 2 * said['copy_bytes']))
    out = [
        check('kernels by name', known == said['by_name'], f'{known}, in truth {said["by_name"]}'),
        check('copies by direction', {k: copies[k] for k in said['copies']} == said['copies'], f'{dict(copies)}'),
        check('bytes of copies', {c['bytes'] for c in rows['copy']} == {said['copy_bytes']}, f'{said["copy_bytes"]} each'),
        check('memory sets', len(rows['set']) == said['sets'] and {s['bytes'] for s in rows['set']} == {said['set_bytes']},
              f'{len(rows["set"])} of {said["sets"]}'),
        check('graph launches', sum(c['name'] == 'cudaGraphLaunch' for c in rows['call']) == said['graph_launches'],
              f'{said["graph_launches"]} in truth'),
        check('allocations', taken == said['allocations'], f'{taken} of {said["allocations"]}'),
        check('NVTX ranges', pushed == said['ranges'], f'{pushed} of {said["ranges"]}'),
        check('nothing dropped', dropped(rows) == 0, f'{dropped(rows)} records'),
    ]
    if spins:
        late = [d - said['spin_ns'] for d in spins]
        out.append(check('durations of kernels of known length', 0 <= min(late) and statistics.median(late) < SPIN_LATE_NS,
                         f'{said["spin_ns"]} ns in truth; recorded {min(spins)} to {max(spins)}'))
    out += [check('a note', None, n['text']) for n in rows['note']]
    return out


def compare_simulated(said, rows):
    """The same of what cuda-sim says, for a dry run without a GPU."""
    names = collections.Counter(k['name'] for k in rows['kernel'])
    return [
        check('kernels by name (simulated)', sum(names.values()) == said['kernels'] + said['graph_kernels'], f'{dict(names)}'),
        check('bytes of copies (simulated)', sum(c['bytes'] for c in rows['copy']) == said['copy_bytes'], f'{said["copy_bytes"]}'),
        check('memory sets (simulated)', len(rows['set']) == said['sets'], f'{len(rows["set"])}'),
        check('nothing dropped (simulated)', dropped(rows) == 0, f'{dropped(rows)} records'),
    ]


def known_work(machine, library):
    if machine.simulated:
        build = os.path.dirname(library)
        stubs = os.path.join(build, 'tests', 'stubs', 'cuda')
        words = [os.path.join(build, 'cuda-sim'), '--kernels', '2000', '--copies', '30', '--sets', '5', '--graphs', '3']
        if not os.path.exists(words[0]):
            return [check('work of known counts', None, 'cuda-sim is not built: nothing was run')]
        said, rows, _, wrong = recorded(words, library, LD_LIBRARY_PATH=f'{stubs}:{stubs}/12', CUDA_SIM='driver=12050')
        return compare_simulated(said, rows) if rows else [check('work of known counts (simulated)', False, wrong)]
    compiler = shutil.which('nvcc') or '/usr/local/cuda/bin/nvcc'
    if not os.path.exists(compiler):
        return [check('work of known counts', None, 'there is no nvcc: the program cannot be built')]
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, 'known_work')
        built = subprocess.run([compiler, '-O2', '-arch=native', '-o', program, os.path.join(HERE, 'known_work.cu')],
                               capture_output=True, text=True, check=False)
        if built.returncode:
            return [check('work of known counts', False, 'nvcc: ' + built.stderr.strip()[-300:])]
        said, rows, size, wrong = recorded([program], library)
        if not rows:
            return [check('work of known counts', False, wrong)]
        count = sum(len(r) for r in rows.values())
        return compare_known(said, rows) + [check('size', None, f'{size} bytes, {size / max(1, count):.1f} a row')]


# --- Training ---------------------------------------------------------------------------------------------------------

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
        checks.append(check(f'{model}: a step with {way} takes longer by', None,
                            f'{statistics.median(cost):+.2f} % (median of {ROUNDS}; {min(cost):+.2f} to {max(cost):+.2f})'))
    return checks, {model: dict(rates)}


def run(machine):
    library = recorder(machine)
    if library is None:
        return {'checks': [check('the recorder', None if machine.simulated else False, 'it is not built')], 'steps_per_s': {}}
    checks, rates = known_work(machine, library), {}
    for model in () if machine.simulated else MODELS:
        more, seen = train(model, library)
        checks += more
        rates.update(seen)
    return {'checks': checks, 'steps_per_s': rates}
