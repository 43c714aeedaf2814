"""profgpu run --trace: the folder, the environment, what is said at the end; with real processes and simulated CUDA."""
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'inject'))
from recorded import BUILD, LIBRARY, Recording, need  # noqa: E402

PROGRAM = os.path.join(BUILD, 'profgpu')
SIM = os.path.join(BUILD, 'cuda-sim')
STUBS = os.path.join(BUILD, 'tests', 'stubs', 'cuda')
OURS = ('CUDA_INJECTION64_PATH', 'NVTX_INJECTION64_PATH', 'NCCL_PROFILER_PLUGIN')


def environment(**more):
    need(PROGRAM, LIBRARY, SIM, os.path.join(BUILD, 'pgt-dump'))
    env = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU_', 'PYTHON', 'SLURM', 'OMPI', 'PMI'))
           and k not in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LD_PRELOAD', 'KINETO_USE_DAEMON', *OURS)}
    env.update(LD_LIBRARY_PATH=f'{STUBS}:{STUBS}/12', PROFGPU_CUPTI=f'{STUBS}/12/libcupti.so.12', **more)
    return {k: v for k, v in env.items() if v is not None}


def record(*words, code=0, cwd=None, env=None, command=(SIM, '--kernels', '100'), preexec_fn=None):
    r = subprocess.run([PROGRAM, 'run', '--backend', 'none', '--trace', *map(str, words), '--', *map(str, command)], cwd=cwd,
                       env=env or environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, preexec_fn=preexec_fn)
    assert r.returncode == code, r.stderr
    return r


def document(folder, name='summary.json'):
    with open(os.path.join(folder, name)) as f:
        return json.load(f)


def files(folder, ending='.pgt'):
    return sorted(name for name in os.listdir(folder) if name.endswith(ending))


def processes(folder):
    return {name: Recording(os.path.join(folder, name)) for name in files(folder) if not name.endswith('host.pgt')}


def test_one_process(tmp_path):
    folder = tmp_path / 'one'
    r = record('-o', folder, command=(SIM, '--kernels', '250', '--steps', '5', '--step-kernels', '10'))
    recorded = document(folder)['recording']
    assert json.loads(r.stdout)['kernels'] == recorded['kernels'] == 300
    assert recorded['steps'] == 5 and recorded['problems'] == []
    (process,) = recorded['processes']
    assert process['ended'] and process['bytes'] == os.path.getsize(folder / process['file'])
    session = document(folder, 'session.json')
    assert session['command'][0] == SIM and session['exit_code'] == 0
    assert session['ended_unix_ns'] > session['begun_unix_ns']
    assert session['environment']['PROFGPU_RECORD'] == str(folder)
    assert 'Recorded 1 process, 300 kernels' in r.stderr
    assert r.stderr.rstrip().endswith(f'profgpu analyze {folder}')
    analysis = subprocess.run([PROGRAM, 'analyze', '--json', folder], env=environment(), capture_output=True, timeout=60)
    assert analysis.returncode == 0, analysis.stderr
    assert sum(k['count'] for k in json.loads(analysis.stdout)['ranks'][0]['kernels']
               if k['kind'] == 'compute') == 300


def test_energy_of_a_recorded_step(tmp_path):
    """All energy of the run over its steps; in the recording's analysis, of the steps alone."""
    replay = 'replay:' + os.path.join(ROOT, 'examples', 'replay.jsonl') + ',loop,speed=50'
    r = subprocess.run([PROGRAM, 'run', '--backend', replay, '--interval', '20ms', '--trace', '-o', tmp_path / 'x', '--', SIM,
                        '--kernels', '0', '--steps', '40', '--step-kernels', '5', '--step-us', '20000'],
                       env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    summary = document(tmp_path / 'x')
    energies = [d['energy_j'] for d in summary['devices'] if d['used'] and d['energy_j'] is not None]
    assert energies and summary['energy_per_step_j'] == pytest.approx(sum(energies) / 40)
    assert 'a step, start and end included' in ' '.join(r.stderr.split())
    record('-o', tmp_path / 'y')
    assert document(tmp_path / 'y')['energy_per_step_j'] is None


def test_default_folder_has_the_script_s_name(tmp_path):
    (tmp_path / 'train.sh').write_text(f'exec {SIM} --kernels 10\n')
    record(cwd=tmp_path, command=('sh', 'train.sh'))
    (name,) = [n for n in os.listdir(tmp_path) if n != 'train.sh']
    assert name.startswith('profgpu-train-') and 'session.json' in os.listdir(tmp_path / name)


def test_four_ranks(tmp_path):
    script = 'for r in 0 1 2 3; do RANK=$r WORLD_SIZE=4 "$@" >/dev/null & done; wait'
    record('-o', tmp_path / 'four', command=('sh', '-c', script, 'sh', SIM, '--kernels', '70'))
    recorded = document(tmp_path / 'four')['recording']
    assert sorted(p['rank'] for p in recorded['processes']) == [0, 1, 2, 3]
    assert [p['kernels'] for p in recorded['processes']] == [70] * 4
    assert len(files(tmp_path / 'four')) == 5


def test_what_the_thread_that_launches_is_blocked_in(tmp_path):
    record('-o', tmp_path / 'x', command=(SIM, '--kernels', '0', '--steps', '60', '--step-kernels', '5', '--step-us', '20000'))
    r = subprocess.run([PROGRAM, 'analyze', '--json', tmp_path / 'x'], env=environment(), capture_output=True, timeout=60)
    (finding,) = [f for f in json.loads(r.stdout)['findings'] if f['rule'] == 'excessive-synchronization']
    assert re.fullmatch(r'meanwhile the launching thread is blocked [0-9]+ % of the time, (mostly )?in clock_nanosleep \(sleep\)',
                        finding['evidence'][0])
    assert 'instead of sleeping' in finding['fix'][0]


def test_a_trace_that_another_profiler_wrote_meanwhile(tmp_path):
    """What --torch-on-demand is for, with a stand-in for PyTorch's profiler: the recorder makes room for it."""
    folder = tmp_path / 'x'
    record('-o', folder, '--torch-on-demand', command=(SIM, '--kernels', '0', '--steps', '20', '--step-kernels', '8', '--step-us', '150000',
                                                       '--rival-steps', '3:5'))
    (recording,) = processes(folder).values()
    opened, closed, again = [w['time_ns'] for w in recording['window']]
    ends = {r['payload']: r['time_ns'] for r in recording['range_event'] if r['op'] == 6}
    step = 4
    assert opened < closed < ends[step - 1] < ends[step] < again
    unix_ns = recording['clock_sync'][0]['unix_ns'] - recording['clock_sync'][0]['host_ns']
    thread = next(t['tid'] for t in recording['thread'] if t['tid'])
    pid = next(int(p['value']) for p in recording['property'] if p['key'] == 'pid')

    def event(category, name, start_ns, duration_ns, tid=thread, of=pid, **arguments):
        return {'ph': 'X', 'cat': category, 'name': name, 'pid': of, 'tid': tid, 'ts': start_ns / 1e3, 'dur': duration_ns / 1e3,
                'args': arguments}
    at, length = ends[step - 1], ends[step] - ends[step - 1]
    events = [event('user_annotation', f'ProfilerStep#{step}', at, length),
              event('cpu_op', 'aten::mm', at + 1000, 50_000),
              event('cuda_runtime', 'cudaLaunchKernel', at + 2000, 5000, correlation=7),
              event('kernel', 'traced', at + 10_000, 30_000, tid=7, of=0, device=0, context=1, stream=7, correlation=7)]
    (folder / f'trace_{pid}.json').write_text(json.dumps({'baseTimeNanoseconds': unix_ns, 'traceEvents': events}))
    r = subprocess.run([PROGRAM, 'analyze', '--json', folder], env=environment(), capture_output=True, timeout=60)
    (rank,) = json.loads(r.stdout)['ranks']
    kernels = {k['name']: k['count'] for k in rank['kernels']}
    assert kernels.pop('traced') == 1 and sum(n for name, n in kernels.items() if name.startswith('sim_')) == len(recording['kernel'])
    assert {o['name']: o['calls'] for o in rank['ops']}['aten::mm'] == 1
    steps = [s['index'] for s in rank['steps']]
    assert steps == sorted(steps) and set(steps) > {0, 1, 2, step, 18} and not {3, 5} & set(steps)
    # But for the one in which the recorder went on: it counts if little of it is missing.
    whole = [s for s in rank['steps'] if not ends.get(s['index'] - 1, 0) < again < ends[s['index']]]
    assert len(whole) >= len(steps) - 1 and all(s['device_busy_ns'] > 0 for s in whole)


def test_several_runs_at_once_into_one_folder(tmp_path):
    folder = tmp_path / 'shared'
    ranks = [subprocess.Popen([PROGRAM, 'run', '--backend', 'none', '--trace', '-o', folder, '--', SIM, '--kernels', '40'],
                              env=environment(RANK=str(rank), WORLD_SIZE='6'), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) for rank in range(6)]
    for rank in ranks:
        assert rank.communicate(timeout=60)[1].count('Next: profgpu analyze') == 1 and rank.returncode == 0
    sessions = [n for n in files(folder, '.json') if n.startswith('session')]
    assert len(sessions) == 6 and 'session.json' in sessions
    assert len({document(folder, n)['pid'] for n in sessions}) == 6
    assert len([n for n in files(folder) if n.endswith('host.pgt')]) == 6
    assert all(len(p['kernel']) == 40 and p.ended for p in processes(folder).values())
    assert len(processes(folder)) == 6


def test_a_file_server_whose_clock_is_behind(tmp_path):
    folder = tmp_path / 'x'
    r = record('-o', folder, command=('sh', '-c', f'{SIM} --kernels 30; touch -d "1 hour ago" {folder}/*.pgt'))
    assert 'Recorded 1 process, 30 kernels' in r.stderr


def test_exit_codes_and_kill(tmp_path):
    for i, (script, code) in enumerate([('exit 7', 7), ('kill -TERM $$', 143), ('kill -KILL $$', 137)]):
        record('-o', tmp_path / str(i), code=code, command=('sh', '-c', script))
        assert document(tmp_path / str(i), 'session.json')['exit_code'] == code
    r = record('-o', tmp_path / 'killed', code=137, command=('sh', '-c', f'{SIM} --kernels 10 --steps 100 --step-us 100000 &'
                                                             ' sleep 1.5; kill -KILL $!; wait $!; exit 137'))
    (process,) = document(tmp_path / 'killed')['recording']['processes']
    assert not process['ended'] and process['kernels'] >= 10
    assert '1 process did not end cleanly' in r.stderr


def test_ctrl_c_reaches_the_command_and_the_rest_is_written(tmp_path):
    p = subprocess.Popen([PROGRAM, 'run', '--backend', 'none', '--trace', '-o', tmp_path / 'x', '--', 'sh', '-c',
                          "trap 'exit 9' INT TERM; echo ready; while :; do sleep 0.1; done"], env=environment(), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    assert p.stdout.readline() == b'ready\n'
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=60)
    assert p.returncode == 9
    assert document(tmp_path / 'x', 'session.json')['exit_code'] == 9


def test_nothing_stays_where_the_command_cannot_start(tmp_path):
    record('-o', tmp_path / 'x', code=127, command=('no-such-program',))
    assert not (tmp_path / 'x').exists()
    (tmp_path / 'y').mkdir()
    (tmp_path / 'y' / 'mine').write_text('kept')
    record('-o', tmp_path / 'y', code=127, command=('no-such-program',))
    assert os.listdir(tmp_path / 'y') == ['mine']


def test_folder_that_cannot_be_had(tmp_path):
    (tmp_path / 'file').write_text('')
    for folder in (tmp_path / 'file', tmp_path / 'file' / 'below', '/proc/none', '/dev/null/x'):
        r = record('-o', folder, code=1, command=('touch', tmp_path / 'ran'))
        assert r.stderr.startswith('profgpu: run: ') and not (tmp_path / 'ran').exists()
    if os.getuid() == 0 and shutil.which('setpriv'):
        (tmp_path / 'locked').mkdir(mode=0o755)
        tmp_path.chmod(0o755)
        r = subprocess.run(['setpriv', '--reuid=65534', '--clear-groups', PROGRAM, 'run', '--trace', '-o', tmp_path / 'locked',
                            '--', 'true'], env=environment(), capture_output=True, text=True, timeout=60, cwd='/')
        assert r.returncode != 0 and 'ermission denied' in r.stderr


def test_an_earlier_recording_is_kept(tmp_path):
    record('-o', tmp_path / 'x')
    before = files(tmp_path / 'x')
    r = record('-o', tmp_path / 'x', code=1)
    assert 'earlier recording' in r.stderr and files(tmp_path / 'x') == before
    # A node that shares the folder may have ended before this one began: a session of another host is no obstacle.
    session = document(tmp_path / 'x', 'session.json')
    session['host'] = 'another'
    (tmp_path / 'x' / 'session.json').write_text(json.dumps(session))
    record('-o', tmp_path / 'x')
    assert len(processes(tmp_path / 'x')) == 2
    for i, text in enumerate(('', '{', '[]', '{"host": 3}', '\x00\xff')):
        (tmp_path / str(i)).mkdir()
        for name in ('session.json', f'session-{os.uname().nodename}.json'):
            (tmp_path / str(i) / name).write_text(text)
        record('-o', tmp_path / str(i))
        assert len(files(tmp_path / str(i), '.json')) == 4


def test_a_launcher_needs_one_folder(tmp_path):
    r = record(code=1, cwd=tmp_path, env=environment(RANK='1', WORLD_SIZE='4'))
    assert '-o' in r.stderr and os.listdir(tmp_path) == []


@pytest.mark.parametrize('name,lost', [('CUDA_INJECTION64_PATH', 'kernels'), ('NVTX_INJECTION64_PATH', 'NVTX ranges'),
                                       ('NCCL_PROFILER_PLUGIN', 'collectives')])
def test_another_tool_s_variable_is_kept(tmp_path, name, lost):
    r = record('-o', tmp_path / 'x', env=environment(**{name: '/opt/other/tool.so'}), command=('sh', '-c', f'echo ${name}'))
    assert r.stdout == '/opt/other/tool.so\n'
    (line,) = [p for p in document(tmp_path / 'x')['recording']['problems'] if name in p]
    assert lost in line and '/opt/other/tool.so' in line
    # Ours, from a run around this one, is no other tool's.
    record('-o', tmp_path / 'y', env=environment(**{name: LIBRARY}), command=('true',))
    assert not [p for p in document(tmp_path / 'y')['recording']['problems'] if name in p]


def test_environment_of_the_command(tmp_path):
    show = ('env', '-0')

    def variables(*words, **more):
        folder = tmp_path / str(len(os.listdir(tmp_path)))
        return dict(v.split('=', 1) for v in record('-o', folder, *words, env=environment(**more), command=show)
                    .stdout.split('\0') if v)
    env = variables(PYTHONPATH='/mine', LD_PRELOAD=None, PROFGPU_RECORD_OPTIONS='nvtx=0')
    assert all(env[name] == LIBRARY for name in (*OURS, 'PROFGPU_INJECT'))
    assert env['PYTHONPATH'].endswith('python-hook:/mine') and 'LD_PRELOAD' not in env and 'KINETO_USE_DAEMON' not in env
    assert env['PROFGPU_RECORD_OPTIONS'] == 'window=all,nvtx=0'
    env = variables('--preload', '--no-python-hook', '--torch-on-demand', '--flush', '1s', '--graphs', 'graph')
    preloaded = LIBRARY.replace('inject', 'preload')   # which stands in for functions of other libraries, too
    assert {env[name] for name in ('LD_PRELOAD', 'PROFGPU_INJECT', *OURS)} == {preloaded} and 'PYTHONPATH' not in env and env['PROFGPU_PYTHON_HOOK'] == '0'
    assert env['KINETO_USE_DAEMON'] == '1' and env['PROFGPU_RECORD_OPTIONS'] == 'window=all,graphs=graph,flush_ms=1000'
    for words, window in ((('--steps', '3:7'), 'steps:3:7'), (('--steps', ':7'), 'steps::7'),
                          (('--range', 'a,b:c'), 'range:a%2Cb:c::'), (('--range', 'x', '--steps', '2:'), 'range:x:2:'),
                          (('--delay', '2', '--duration', '500ms'), 'time:2000:500'), (('--delay', '1'), 'time:1000:'),
                          (('--capture-range', 'attach'), 'manual'), (('--capture-range', 'cudaProfilerApi'), 'cudaProfilerApi')):
        assert variables(*words)['PROFGPU_RECORD_OPTIONS'] == 'window=' + window


def test_without_trace_the_environment_is_as_it_was():
    env = environment()
    r = subprocess.run([PROGRAM, 'run', '--backend', 'none', '-q', '--', 'env', '-0'], env=env, capture_output=True, text=True)
    assert dict(v.split('=', 1) for v in r.stdout.split('\0') if v) == env


@pytest.mark.parametrize('words', [
    ('--trace', '--repeats', '2'), ('--trace', '--warmup-runs', '1'), ('--steps', '1:2'), ('--preload',), ('--range', 'x'),
    ('--trace', '--steps', '2:1'), ('--trace', '--steps', 'x'), ('--trace', '--steps', ':'), ('--trace', '--steps', '3'),
    ('--trace', '--steps', '1:2', '--delay', '1'), ('--trace', '--capture-range', 'attach', '--range', 'x'),
    ('--trace', '--capture-range', 'attach', '--duration', '1'), ('--trace', '--capture-range', 'nobody'),
    ('--trace', '--range', ''), ('--trace', '--duration', '0'), ('--trace', '--delay', 'x'), ('--trace', '--flush', '1ms'),
    ('--trace', '--graphs', 'all'), ('--gpus', '2'), ('--mode', 'single', '--gpus', '2'), ('--mode', 'multi-gpu'),
    ('--mode', 'multi-node', '--gpus', '2'), ('--mode', 'multi-gpu', '--nodes', '2'), ('--mode', 'all'),
    ('--mode', 'multi-node', '--gpus', '2', '--nodes', '2', '--node-rank', '2', '--master-addr', 'a'),
    ('--mode', 'multi-gpu', '--gpus', '0'), ('--mode', 'multi-gpu', '--gpus', '2', '--master-port', '99999')])
def test_usage_errors(tmp_path, words):
    r = subprocess.run([PROGRAM, 'run', '--backend', 'none', *words, '--', 'true'], env=environment(), cwd=tmp_path,
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 2 and r.stderr.startswith('profgpu: run: '), r.stderr
    assert os.listdir(tmp_path) == []


def test_only_some_steps(tmp_path):
    record('-o', tmp_path / 'x', '--steps', '4:6', command=(SIM, '--kernels', '0', '--steps', '10', '--step-kernels', '3',
                                                           '--step-us', '20000'))
    assert document(tmp_path / 'x')['recording']['kernels'] == 6
    record('-o', tmp_path / 'y', '--steps', '50:60', command=(SIM, '--kernels', '5', '--steps', '10'))
    (problem,) = document(tmp_path / 'y')['recording']['problems']
    assert 'never recorded' in problem and '10 steps were seen' in problem and '--steps 50:60 never applied' in problem


def test_one_line_says_that_there_is_no_gpu(tmp_path):
    cards = os.listdir('/sys/class/drm') if os.path.isdir('/sys/class/drm') else []
    if any(name.startswith('card') for name in cards):
        pytest.skip('a device of another vendor may be here')
    need(os.path.join(BUILD, 'nvtx-c'))
    env = environment(PROFGPU_NVML_LIBRARY='/nonexistent', PATH='/bin')
    words = [PROGRAM, 'run', '--trace', '-o', tmp_path / 'x', '--', os.path.join(BUILD, 'nvtx-c')]
    r = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    said = [line for line in r.stderr.splitlines() if line[0] in '!· ']
    assert (r.returncode, said) == (0, ['! no kernel was recorded: no GPU was found here (run `profgpu doctor` for details)']), r.stderr
    # Where kernels were recorded all the same, it is told why nothing was sampled.
    words[4:] = [tmp_path / 'y', '--', SIM, '--kernels', '10']
    r = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    assert '10 kernels' in r.stderr and '· no GPU found' in r.stderr and '!' not in r.stderr


def test_threads_of_all_processes_are_sampled(tmp_path):
    busy = ('import threading, time, os, subprocess\n'
            'child = subprocess.Popen(["sleep", "2"])\n'
            'threading.Thread(target=lambda: time.sleep(2)).start()\n'
            'end = time.monotonic() + 2\n'
            'while time.monotonic() < end: pass\n'
            'print(os.getpid(), child.pid)\n')
    r = record('-o', tmp_path / 'x', '--no-python-hook', command=(sys.executable, '-c', busy))
    parent, child = map(int, r.stdout.split())
    host = Recording(os.path.join(tmp_path / 'x', f'{os.uname().nodename}-host.pgt'))
    assert host.ended
    by_thread = {}
    for row in host['thread_sample']:
        by_thread.setdefault((row['pid'], row['tid']), []).append(row)
    main = by_thread[(parent, parent)]
    assert len([k for k in by_thread if k[0] == parent]) == 2 and (child, child) in by_thread
    run = [r['user_ns'] + r['system_ns'] for r in main]
    assert run == sorted(run) and [r['waited_ns'] for r in main] == sorted(r['waited_ns'] for r in main)
    # Both may wait for a processor; run and wait together are the time that passed.
    passed = main[-1]['time_ns'] - main[0]['time_ns']
    assert 0.7 * passed < run[-1] - run[0] + main[-1]['waited_ns'] - main[0]['waited_ns'] < 1.2 * passed
    sleeper = by_thread[(child, child)][-1]
    assert sleeper['state'] == ord('S') and sleeper['system_call'] in (35, 230, -1)
    cost = document(tmp_path / 'x')['recording']['host_samples']
    assert cost['samples'] == len(host['thread_sample']) and cost['cpu_ns'] < 0.05 * 2e9

    # Nothing was recorded from within, but how the threads ran can be told.
    said = ' '.join(r.stderr.split())
    assert 'no process was recorded' in said and 'Next: profgpu doctor' in said and said.endswith(f'profgpu analyze {tmp_path}/x')
    text = subprocess.run([PROGRAM, 'analyze', tmp_path / 'x'], capture_output=True, text=True, timeout=60, check=True).stdout
    assert 'only the activity of threads is known' in ' '.join(text.split()) and '--section threads' in text
    report = json.loads(subprocess.run([PROGRAM, 'analyze', tmp_path / 'x', '--json'], capture_output=True, timeout=60,
                                       check=True).stdout)
    (rank,) = report['ranks']
    threads = {(int(t['process']), int(t['thread'])): t for t in rank['threads']}
    assert threads[(parent, parent)]['cpu_ns'] == run[-1] - run[0]
    assert rank['steps'][0]['duration_ns'] == max(t['time_ns'] for t in host['thread_sample']) - min(
        t['time_ns'] for t in host['thread_sample'])
    assert report['findings'] == []

    # Beside a rank it is none.
    record('-o', tmp_path / 'y')
    report = json.loads(subprocess.run([PROGRAM, 'analyze', tmp_path / 'x', tmp_path / 'y', '--json'], capture_output=True, timeout=60,
                                       check=True).stdout)
    (rank,) = report['ranks']
    assert sum(k['count'] for k in rank['kernels'] if k['kind'] == 'compute') == 100


def test_a_command_that_fails_at_once_is_what_to_fix(tmp_path):
    r = record('-o', tmp_path / 'x', command=('python3', tmp_path / 'nosuch.py'), code=2)
    said = ' '.join(r.stderr.split())
    assert 'python3 ended with exit 2 before anything was recorded: fix that first' in said
    assert 'Next:' not in said and 'no process was recorded' not in said, said


def test_what_is_suggested_of_a_short_command_works(tmp_path):
    """Nearly always it is over before it is looked at twice."""
    r = record('-o', tmp_path / 'x', command=('true',))
    suggested = 'profgpu analyze' in r.stderr
    assert 'Next: profgpu doctor' in r.stderr
    r = subprocess.run([PROGRAM, 'analyze', tmp_path / 'x'], capture_output=True, text=True, timeout=60)
    assert (r.returncode == 0) == suggested and 'no process was recorded' in ' '.join((r.stdout + r.stderr).split())


def test_what_is_suggested_where_cuda_could_not_be_recorded_works(tmp_path):
    r = record('-o', tmp_path / 'x', env=environment(CUDA_SIM='error_all=999'), command=(SIM, '--kernels', '5'))
    assert len(processes(tmp_path / 'x')) == 1 and 'Next: profgpu doctor' in r.stderr
    if 'profgpu analyze' in r.stderr:  # threads were seen twice
        subprocess.run([PROGRAM, 'analyze', tmp_path / 'x'], capture_output=True, timeout=60, check=True)


def test_mode_builds_the_launcher_s_command(tmp_path):
    (tmp_path / 'torchrun').write_text('#!/bin/sh\necho torchrun "$@"\n')
    (tmp_path / 'torchrun').chmod(0o755)
    (tmp_path / 'python').write_text('#!/bin/sh\necho python "$@"\n')
    (tmp_path / 'python').chmod(0o755)

    def built(*words, **more):
        r = subprocess.run([PROGRAM, 'run', '--backend', 'none', *words, 'train.py', '--lr', '1'], capture_output=True, text=True,
                           env=environment(PATH=f'{tmp_path}:{os.environ["PATH"]}', **more), timeout=60)
        assert r.returncode == 0, r.stderr
        assert f'profgpu: run: {r.stdout}' in r.stderr
        return r.stdout.strip()
    assert built('--mode', 'auto') == 'python train.py --lr 1'
    assert built('--mode', 'auto', '--gpus', '2') == 'torchrun --standalone --nproc-per-node 2 train.py --lr 1'
    many = 'torchrun --nnodes 3 --nproc-per-node 8 --node-rank 1 --master-addr n0 --master-port 29500 train.py --lr 1'
    assert built('--mode', 'multi-node', '--gpus', '8', '--nodes', '3', '--node-rank', '1', '--master-addr', 'n0') == many
    assert built('--mode', 'auto', '--gpus', '8', SLURM_NNODES='3', SLURM_NODEID='1', MASTER_ADDR='n0') == many


def mpirun(*words, count=3):
    if shutil.which('mpirun') is None:
        pytest.skip('mpirun is not installed')
    return ['mpirun', '--allow-run-as-root', '--oversubscribe', '--bind-to', 'none', '-n', str(count), *map(str, words)]


def ranks_of(folder):
    return sorted((int(p.properties['rank']), int(p.properties['world_size'])) for p in processes(folder).values())


def test_the_program_starts_open_mpi(tmp_path):
    folder = tmp_path / 'mpi'
    record('-o', folder, command=mpirun('-x', 'LD_LIBRARY_PATH', SIM, '--kernels', '100', '--steps', '4'))
    assert ranks_of(folder) == [(0, 3), (1, 3), (2, 3)]
    assert document(folder)['recording']['problems'] == []


def test_open_mpi_starts_the_program(tmp_path):
    folder = tmp_path / 'mpi'
    r = subprocess.run(mpirun(PROGRAM, 'run', '--backend', 'none', '--trace', '-o', folder, '--', SIM, '--kernels', '100',
                              '--steps', '4'),
                       env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    assert ranks_of(folder) == [(0, 3), (1, 3), (2, 3)]
    # Each tells of the process that it started, though all share the folder.
    assert r.stderr.count('Recorded 1 process, ') == 3, r.stderr
    assert 'did not end' not in r.stderr
    analysed = subprocess.run([PROGRAM, 'analyze', '--json', str(folder)], capture_output=True, text=True, timeout=60)
    assert analysed.returncode == 0, analysed.stderr
    report = json.loads(analysed.stdout)
    assert [rank['rank'] for rank in report['ranks']] == [0, 1, 2]
    assert 'left out' not in analysed.stderr


def test_torchrun_with_real_ranks(tmp_path):
    pytest.importorskip('torch')
    script = tmp_path / 'train.py'
    script.write_text('import torch\nmodel = torch.nn.Linear(4, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n'
                      'for i in range(3):\n    model(torch.randn(2, 4)).sum().backward()\n    optimizer.step()\n')
    env = environment(PATH=f'{os.path.dirname(sys.executable)}:{os.environ["PATH"]}', OMP_NUM_THREADS='1')
    r = subprocess.run([PROGRAM, 'run', '--backend', 'none', '--trace', '-o', tmp_path / 'x', '--mode', 'multi-gpu', '--gpus', '2',
                        script], env=env, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stderr
    ranks = {p['rank']: p for p in document(tmp_path / 'x')['recording']['processes'] if p['steps']}
    assert sorted(ranks) == [0, 1] and [p['steps'] for p in ranks.values()] == [3, 3]


@pytest.mark.parametrize('module, words', [
    ('accelerate', ['accelerate.commands.launch', '--multi_gpu', '--num_processes', '2', '--num_machines', '1',
                    '--mixed_precision', 'no', '--dynamo_backend', 'no']),
    ('deepspeed', ['deepspeed.launcher.runner', '--num_gpus', '2'])])
def test_other_launchers_with_real_ranks(tmp_path, module, words):
    pytest.importorskip('torch')
    if importlib.util.find_spec(module) is None:
        pytest.skip(f'{module} is not installed')
    script = tmp_path / 'train.py'
    script.write_text('import torch\nmodel = torch.nn.Linear(4, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n'
                      'for i in range(3):\n    model(torch.randn(2, 4)).sum().backward()\n    optimizer.step()\n')
    env = environment(PATH=f'{os.path.dirname(sys.executable)}:{os.environ["PATH"]}', OMP_NUM_THREADS='1')
    r = subprocess.run([PROGRAM, 'run', '--backend', 'none', '--trace', '-o', tmp_path / 'x', '--', sys.executable, '-m', *words,
                        script], env=env, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stderr
    ranks = {p['rank']: p for p in document(tmp_path / 'x')['recording']['processes'] if p['steps']}
    assert sorted(ranks) == [0, 1] and [p['steps'] for p in ranks.values()] == [3, 3]
