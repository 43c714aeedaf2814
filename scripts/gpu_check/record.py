"""What profgpu records of a device, beside what is known of the work, and what recording costs a launch.

A CUDA program of known counts is recorded and compared count by count. What a launch takes is measured bare and recorded,
in turns. One command records a training, one more analyses it; of another PyTorch traces a few steps meanwhile.
"""
import collections
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from gpu_check import recording_file

HERE = os.path.dirname(os.path.abspath(__file__))
SPIN_LATE_NS = 20_000    # a kernel that spins for a known time begins and ends around it
SPIN_EARLY_NS = 2_000    # by the device's timer, which may go on in steps of a microsecond
ROUNDS = 5
LAUNCHES, LAUNCH_NS = 200_000, 2000   # what recording may add to each


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
    streams = collections.Counter(k['queue'] for k in rows['kernel'] if k['name'] == 'known_add')
    copies = collections.Counter(str(c['copy_kind']) for c in rows['copy'])
    spins = [k['duration_ns'] for k in rows['kernel'] if k['name'] == 'known_spin']
    known = {name: names[name] for name in said['by_name']}
    pushed = sum(1 for r in rows['range_event'] if r['op'] == 1 and r['name'] == 'known range')
    taken = sum(1 for a in rows['allocation'] if not a['is_free'] and a['bytes'] in (1 << 20, 4096 * 4, 2 * said['copy_bytes']))
    out = [
        check('kernels by name', known == said['by_name'], f'{known}, in truth {said["by_name"]}'),
        check('kernels by stream', len(streams) == said['streams'] and max(streams.values()) - min(streams.values()) <= 1,
              f'{sorted(streams.values())} on {said["streams"]} streams in truth'),
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
        out.append(check('durations of kernels of known length', -SPIN_EARLY_NS <= min(late) and statistics.median(late) < SPIN_LATE_NS,
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
    with tempfile.TemporaryDirectory() as folder:
        program, wrong = built_program(os.path.dirname(machine.program), folder)
        if not program:
            return [wrong]
        said, rows, size, wrong = recorded([program], library)
        if not rows:
            return [check('work of known counts', False, wrong)]
        count = sum(len(r) for r in rows.values())
        return compare_known(said, rows) + [check('size', None, f'{size} bytes, {size / max(1, count):.1f} a row'),
                                            launch_cost(program, library)]


def built_program(build, folder):
    """(path of known_work, None), or (None, a check that says why not). One that was built elsewhere lies in `build`."""
    brought = os.path.join(build, 'known_work')
    if os.access(brought, os.X_OK):
        return brought, None
    compiler = shutil.which('nvcc') or '/usr/local/cuda/bin/nvcc'
    if not os.path.exists(compiler):
        return None, check('work of known counts', None, f'there is no nvcc to build the program with, nor {brought}')
    program = os.path.join(folder, 'known_work')
    built = subprocess.run([compiler, '-O2', '-arch=native', '-o', program, os.path.join(HERE, 'known_work.cu')],
                           capture_output=True, text=True, check=False)
    if built.returncode:
        return None, check('work of known counts', False, 'nvcc: ' + built.stderr.strip()[-300:])
    return program, None


def launch_cost(program, library):
    added = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            bare, wrong = run_json([program, str(LAUNCHES)])
            ours, also = run_json([program, str(LAUNCHES)], environment(library, folder))
        if not bare or not ours:
            return check('a launch takes longer by', False, wrong or also)
        added.append(ours['ns_a_launch'] - bare['ns_a_launch'])
    return check('a launch takes longer by', statistics.median(added) < LAUNCH_NS,
                 f'{statistics.median(added):.0f} ns (median of {ROUNDS}; {min(added):.0f} to {max(added):.0f}; at most {LAUNCH_NS})')


# --- As a user would --------------------------------------------------------------------------------------------------

def one_command_each(machine, words, steps):
    """profgpu run --trace, then profgpu analyze, as a user would."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'recording')
        ran = machine.profgpu('run', '--trace', '-o', path, '--', *words, timeout=600)
        if ran.returncode:
            return check('run --trace, then analyze', False, f'exit {ran.returncode}: {ran.stderr.strip()[-300:]}')
        report, wrong = machine.profgpu_json('analyze', '--json', path)
        if report is None:
            return check('run --trace, then analyze', False, wrong)
        rank = report['ranks'][0]
        kernels = sum(k['count'] for k in rank['kernels'])
        return check('run --trace, then analyze', kernels > 0 and len(rank['steps']) >= steps,
                     f'{kernels} kernels, {len(rank["steps"])} steps of {steps}, {len(report["findings"])} findings')


def started_by(pid):
    """The process that `profgpu run` has started; None: none so far."""
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as f:
        return next(iter(f.read().split()), None)


def wait_for_steps(machine, training, pid, count):
    """Until it has taken so many more; while it gets ready it has taken none. Five minutes at most."""
    def taken():
        said = machine.profgpu('attach', pid, '--json')
        return json.loads(said.stdout)['steps'] if said.returncode == 0 else 0
    enough, end = taken() + count, time.monotonic() + 300
    while training.poll() is None and time.monotonic() < end and taken() < enough:
        time.sleep(0.2)


def on_demand(machine, words, steps=5, on_device=True):
    """PyTorch traces some steps of a training that is recorded: both are one report, with the device busy throughout."""
    name = 'a trace of PyTorch within the recording'
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'recording')
        training = subprocess.Popen([machine.program, 'run', '--trace', '--torch-on-demand', '-q', '-o', path, '--', *words],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            while (pid := started_by(training.pid)) is None and training.poll() is None:
                time.sleep(0.1)
            wait_for_steps(machine, training, pid, 5)   # before the trace
            attached = machine.profgpu('attach', pid, 'torch', '--steps', steps)
            wait_for_steps(machine, training, pid, 5)   # and after it
        finally:
            training.terminate()
            training.wait(timeout=60)
        if attached.returncode:
            return check(name, False, f'attach ended with {attached.returncode}: {attached.stderr.strip()[-300:]}')
        traces = [os.path.join(path, n) for n in os.listdir(path) if n.startswith('trace_')]
        if len(traces) != 1:
            return check(name, False, f'{len(traces)} traces lie in the recording')
        whole, wrong = machine.profgpu_json('analyze', '--json', path)
        part, wrong_part = machine.profgpu_json('analyze', '--json', traces[0])
        if whole is None or part is None:
            return check(name, False, wrong or wrong_part)
        return compare_on_demand(name, whole['ranks'], part['ranks'][0], steps, on_device)


def compare_on_demand(name, ranks, part, steps, on_device):
    traced = [s['index'] for s in part['steps']]
    before = [s for s in ranks[0]['steps'] if s['index'] < traced[0]]
    after = [s for s in ranks[0]['steps'] if s['index'] > traced[-1]]
    idle = sum(not s['device_busy_ns'] for s in ranks[0]['steps']) if on_device else 0

    def operators(rank):
        return {o['name']: o['calls'] for o in rank['ops'] if o['name'].startswith('aten::')}
    ok = (len(ranks) == 1 and steps - 1 <= len(traced) <= steps + 1 and before and after and idle == 0 and
          operators(part) and operators(ranks[0]) == operators(part))
    return check(name, bool(ok), f'{len(before)} steps before, {len(traced)} with {len(operators(part))} operators, {len(after)} after; '
                                 f'{idle} without device activity')


def run(machine):
    library = recorder(machine)
    if library is None:
        return {'checks': [check('the recorder', None if machine.simulated else False, 'it is not built')]}
    checks = known_work(machine, library)
    if not machine.simulated:
        words = [sys.executable, os.path.join(HERE, 'training.py'), 'transformer', '--steps', '10', '--warmup', '2']
        checks.append(one_command_each(machine, words, 12))
        checks.append(on_demand(machine, [sys.executable, os.path.join(HERE, 'training.py'), 'transformer', '--steps', '1000000']))
    return {'checks': checks}
