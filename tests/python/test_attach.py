"""profgpu attach: a recorded process is looked at, started and stopped; PyTorch is asked for a trace of its own."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'python'))
from test_record import PROGRAM, SIM, environment, processes  # noqa: E402
from recorded import torch_orders  # noqa: E402

LONG = (SIM, '--kernels', '1', '--steps', '3000', '--step-kernels', '2', '--step-us', '20000')


@pytest.fixture(autouse=True)
def alone(request):
    with torch_orders() if 'torch' in request.node.name else contextlib.nullcontext():
        yield


def attach(*words, code=0, **more):
    r = subprocess.run([PROGRAM, 'attach', *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=120, env=environment(), **more)
    assert r.returncode == code, r.stderr + r.stdout
    return r


def status(pid, order='status'):
    return json.loads(attach(pid, order, '--json').stdout)


def children(pid):
    with open(f'/proc/{pid}/task/{pid}/children') as f:
        return [int(word) for word in f.read().split()]


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'it did not come'
        time.sleep(0.02)


@contextlib.contextmanager
def recorded(folder, *words, command=LONG):
    """Process number of the command, which runs until the block ends."""
    run = subprocess.Popen([PROGRAM, 'run', '--backend', 'none', '-q', '--trace', '-o', folder, *words, '--', *command],
                           env=environment(), stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: children(run.pid))
        (pid,) = children(run.pid)
        until(lambda: os.readlink(f'/proc/{pid}/exe') != os.path.realpath(PROGRAM))   # it is the command by now
        if command is LONG:
            until(lambda: subprocess.run([PROGRAM, 'attach', str(pid)], capture_output=True).returncode == 0)
        yield pid
    finally:
        os.killpg(run.pid, signal.SIGCONT)
        run.send_signal(signal.SIGTERM)
        run.wait(timeout=60)


def test_start_and_stop(tmp_path):
    with recorded(tmp_path / 'x', '--capture-range', 'attach') as pid:
        until(lambda: status(pid)['state'] == 'waiting')  # the device comes a moment after the first range
        begun = status(pid, 'start')
        assert begun['state'] == 'recording' and begun['folder'] == str(tmp_path / 'x')
        until(lambda: status(pid)['steps'] > begun['steps'] + 10)
        ended = status(pid, 'stop')
        assert ended['state'] == 'waiting' and ended['rows'] > begun['rows']
        assert ended['dropped'] == 0
        text = attach(pid).stdout
        assert f'Process {pid}: waiting' in text and f'profgpu analyze {tmp_path / "x"}' in text
        until(lambda: status(pid)['steps'] > ended['steps'] + 10)
    (recording,) = processes(tmp_path / 'x').values()
    opened, closed = [w['time_ns'] for w in recording['window']]
    assert recording['kernel'] and {w['reason'] for w in recording['window']} == {'attach'}
    steps = [r['time_ns'] for r in recording['range_event'] if r['op'] == 6]
    assert steps[0] < opened < closed < steps[-1], 'steps are counted outside of the window too'
    # Of two kernels a step; the window's edges may cut one step each.
    within = sum(opened < t < closed for t in steps)
    assert abs(len(recording['kernel']) - 2 * within) <= 4


def test_orders_at_the_same_time(tmp_path):
    with recorded(tmp_path / 'x', '--capture-range', 'attach') as pid:
        orders = [subprocess.Popen([PROGRAM, 'attach', str(pid), order], env=environment(), stdout=subprocess.DEVNULL)
                  for order in ('start', 'stop') * 4]
        assert [o.wait(timeout=60) for o in orders] == [0] * 8


def test_a_stopped_process_does_not_answer(tmp_path):
    with recorded(tmp_path / 'x') as pid:
        os.kill(pid, signal.SIGSTOP)
        r = attach(pid, 'stop', '--timeout', '1', code=1)
        assert 'did not answer within 1 s: it is stopped' in r.stderr
        os.kill(pid, signal.SIGCONT)


def test_who_cannot_be_attached_to(tmp_path):
    assert 'there is no process' in attach(2**22 + 5, code=1).stderr
    with recorded(tmp_path / 'x') as pid:
        run = int(open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[1])
        r = attach(run, 'start', code=1)
        assert 'not recorded, but processes that it started are' in r.stderr and str(pid) in r.stderr
        if os.getuid() == 0 and shutil.which('setpriv'):
            r = subprocess.run(['setpriv', '--reuid=65534', '--clear-groups', PROGRAM, 'attach', str(pid)], cwd='/',
                               env=environment(), capture_output=True, text=True, timeout=60)
            assert r.returncode == 1 and 'belongs to another user (uid 0)' in r.stderr
        shutil.rmtree(tmp_path / 'x' / '.control')
        assert 'was removed' in attach(pid, code=1).stderr
    with recorded(tmp_path / 'y', '--no-python-hook', command=('sleep', '60')) as pid:
        assert 'has not used CUDA' in attach(pid, code=1).stderr
    plain = subprocess.Popen(['sleep', '60'], env=environment())
    r = attach(plain.pid, code=1)
    assert 'is not recorded' in r.stderr and 'profgpu run --trace' in r.stderr
    plain.kill()
    until(lambda: open(f'/proc/{plain.pid}/stat').read().rsplit(')', 1)[1].split()[0] == 'Z')
    assert 'has ended' in attach(plain.pid, code=1).stderr
    plain.wait()


@pytest.mark.parametrize('words', [(), ('x',), ('-1',), ('0',), ('1', 'go'), ('1', 'start', 'stop'), ('1', '--timeout', 'x'),
                                   ('1', 'start', '--steps', '3'), ('1', '-o', 'x'), ('1', 'torch', '--steps', '0'),
                                   ('1', 'torch', '--steps', '1', '--duration', '2'), ('1', 'torch', '--with', 'all'),
                                   ('1', 'torch', '-o', '')])
def test_usage_errors(words):
    assert attach(*words, code=2).stderr.startswith('profgpu: attach: ')


# PyTorch's own traces. The program in place of PyTorch speaks the protocol as PyTorch 2.13 was seen to.

CLIENT = r'''
import json, os, socket, struct, sys, time, uuid
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind('\0dynoconfigclient' + str(uuid.uuid4()) + '\0')
s.settimeout(0.2)
pids = [os.getpid(), os.getppid()]
body = struct.pack('iiq', 3, len(pids), 0) + struct.pack(f'{len(pids)}i', *pids)
end = time.monotonic() + 90
while time.monotonic() < end:
    for wrong in (b'', b'x' * 39, struct.pack('Q', 4) + b'req'.ljust(32, b'\0') + b'abcd',
                  struct.pack('Q', 16) + b'req'.ljust(32, b'\0') + struct.pack('iiq', 3, 2**31 - 1, 0)):
        try:
            s.sendto(wrong, '\0dynolog\0')
        except OSError:
            pass
    try:
        s.sendto(struct.pack('Q', len(body)) + b'req'.ljust(32, b'\0') + body, '\0dynolog\0')
        answer = s.recv(65536)
    except OSError:
        time.sleep(0.1)
        continue
    size, kind, text = struct.unpack('Q', answer[:8])[0], answer[8:40].rstrip(b'\0'), answer[40:].decode()
    assert size == len(text) and kind in (b'req', b'ctxt'), answer
    if kind == b'req' and text:
        config = dict(line.split('=', 1) for line in text.splitlines())
        start = int(config.get('PROFILE_START_TIME', 0)) / 1000
        time.sleep(max(start - time.time(), 0))
        path = config['ACTIVITIES_LOG_FILE'].replace('.json', f'_{os.getpid()}.json')
        with open(path, 'w') as f:
            json.dump({'traceEvents': [], 'config': config}, f)
        time.sleep(2)
        break
'''


@contextlib.contextmanager
def started(*command, **more):
    p = subprocess.Popen(command, env=environment(KINETO_USE_DAEMON='1', **more), stdout=subprocess.DEVNULL)
    try:
        yield p
    finally:
        p.kill()
        p.wait()


def test_torch_protocol(tmp_path):
    with started(sys.executable, '-c', CLIENT) as p:
        r = attach(p.pid, 'torch', '--duration', '2', '--with', 'stacks', '-o', tmp_path / 'x')
    trace = tmp_path / 'x' / f'trace_{p.pid}.json'
    assert f'Next: profgpu analyze {trace}' in r.stdout
    config = json.loads(trace.read_text())['config']
    assert config['PROFILE_START_TIME'] == '0' and config['ACTIVITIES_DURATION_MSECS'] == '2000'
    assert config['PROFILE_WITH_STACK'] == 'true' and 'PROFILE_WITH_MODULES' not in config
    assert config['ACTIVITIES_LOG_FILE'].startswith('/tmp/') and not os.path.exists(os.path.dirname(config['ACTIVITIES_LOG_FILE']))


def test_torch_again_leaves_the_trace_before(tmp_path):
    (tmp_path / 'x').mkdir()
    with started(sys.executable, '-c', CLIENT) as p:
        (tmp_path / 'x' / f'trace_{p.pid}.json').write_text('before')
        r = attach(p.pid, 'torch', '-o', tmp_path / 'x')
    assert f'Next: profgpu analyze {tmp_path / "x" / f"trace_{p.pid}-2.json"}' in r.stdout
    assert (tmp_path / 'x' / f'trace_{p.pid}.json').read_text() == 'before'


def test_torch_into_a_folder_that_is_full(tmp_path):
    if os.getuid() != 0 or subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', tmp_path]).returncode:
        pytest.skip('a file system of its own cannot be had')
    try:
        (tmp_path / 'other').write_bytes(b'x' * 60_000)
        with started(sys.executable, '-c', CLIENT.replace("'traceEvents': []", "'traceEvents': [], 'long': 'x' * 100_000")) as p:
            r = attach(p.pid, 'torch', '-o', tmp_path, code=1)
        (trace,) = [word for word in r.stderr.split() if word.startswith('/tmp/') and word.endswith('.json')]
        assert 'cannot be written' in r.stderr and len(json.loads(open(trace).read())['long']) == 100_000
        assert os.listdir(tmp_path) == ['other']
        shutil.rmtree(os.path.dirname(trace))
    finally:
        subprocess.run(['umount', tmp_path])


def test_torch_all_that_a_launcher_started_begin_together(tmp_path):
    (tmp_path / 'client.py').write_text(CLIENT)
    with started('sh', '-c', f'{sys.executable} {tmp_path}/client.py & {sys.executable} {tmp_path}/client.py & wait') as p:
        out = json.loads(attach(p.pid, 'torch', '--json', '-o', tmp_path / 'x').stdout)
    assert len(out['traces']) == 2 and out['missing'] == 0 and out['next'] == [f'profgpu analyze {tmp_path / "x"}']
    first, second = (json.loads(open(t).read())['config']['PROFILE_START_TIME'] for t in out['traces'])
    assert first == second != '0'


def test_torch_that_does_not_ask(tmp_path):
    with started('sleep', '30') as p:
        r = attach(p.pid, 'torch', '--timeout', '1', code=1)
        assert 'did not accept the request' in r.stderr
    assert not [n for n in os.listdir('/tmp') if n.startswith('profgpu-torch-') and not os.listdir(f'/tmp/{n}')
                and os.stat(f'/tmp/{n}').st_mtime > time.time() - 5]
    assert 'there is no process' in attach(2**22 + 5, 'torch', code=1).stderr


def test_torch_hears_its_own_user_only(tmp_path):
    """Any user may send to the socket, in the name of any process."""
    if os.getuid() != 0 or not shutil.which('setpriv'):
        pytest.skip('one other user is needed')
    other, up = ['setpriv', '--reuid=65534', '--clear-groups'], tmp_path / 'up'
    with started(*other, 'sleep', '60') as victim:
        until(lambda: os.stat(f'/proc/{victim.pid}').st_uid == 65534)
        client = CLIENT.replace('[os.getpid(), os.getppid()]', f'[{victim.pid}]')
        client = client.replace('\nend = ', f'\nopen({str(up)!r}, "w").close()\nend = ')
        with started(sys.executable, '-c', client):
            until(up.exists)   # from now on it sends, five times a second
            words = [PROGRAM, 'attach', str(victim.pid), 'torch', '--timeout']
            theirs, ours = [subprocess.run([*who, *words, seconds], env=environment(), cwd='/', capture_output=True, text=True, timeout=60)
                            for who, seconds in ((other, '2'), ([], '50'))]
    assert theirs.returncode == 1 and 'did not accept the request' in theirs.stderr, theirs
    assert '1 program accepted the request' in ours.stderr, ours


def folders_of_traces():
    return {n for n in os.listdir('/tmp') if n.startswith('profgpu-torch-')}


def test_torch_of_a_program_that_ends_first():
    before = folders_of_traces()
    with started(sys.executable, '-c', CLIENT.replace("with open(path, 'w')", 'sys.exit()\n        with open(path)')) as p:
        assert 'ended before its trace was written' in attach(p.pid, 'torch', code=1).stderr
    with started('sleep', '2') as p:
        assert 'ended before it accepted the request' in attach(p.pid, 'torch', code=1).stderr
    assert folders_of_traces() <= before


def test_torch_of_a_program_that_was_not_started_for_it(tmp_path):
    run = subprocess.Popen([PROGRAM, 'run', '--backend', 'none', '-q', '--trace', '-o', tmp_path / 'x', '--', 'sleep', '30'], env=environment())
    # Between fork and exec the child still has the environment of its parent.
    until(lambda: any(pathlib.Path(f'/proc/{child}/comm').read_text() == 'sleep\n' for child in children(run.pid)))
    try:
        r = attach(children(run.pid)[0], 'torch', code=1)
    finally:
        run.terminate()
        run.wait()
    assert 'started without --torch-on-demand' in r.stderr


def test_torch_through_a_dynolog_daemon(tmp_path):
    """One that has the socket already: asked on its port, as its own command line tool does."""
    taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    taken.bind(b'\0dynolog\0')
    with taken, started('sleep', '60') as p:
        r = attach(p.pid, 'torch', code=1)
        assert 'another program has the socket dynolog' in r.stderr
        server = socket.create_server(('127.0.0.1', 1778))
        asked = {}

        def serve(answer):
            client, _ = server.accept()
            with client:
                size = struct.unpack('i', client.recv(4, socket.MSG_WAITALL))[0]
                asked.update(json.loads(client.recv(size, socket.MSG_WAITALL)))
                path = dict(v.split('=', 1) for v in asked['config'].splitlines())['ACTIVITIES_LOG_FILE']
                with open(path.replace('.json', f'_{p.pid}.json'), 'w') as f:
                    f.write('{"traceEvents": []}')
                client.sendall(answer)
        for answer, code in (({'activityProfilersTriggered': [p.pid], 'processesMatched': [p.pid]}, 0),
                             ({'activityProfilersTriggered': []}, 1), ({}, 1), ('no', 1)):
            text = json.dumps(answer).encode()
            thread = threading.Thread(target=serve, args=(struct.pack('i', len(text)) + text,))
            thread.start()
            r = attach(p.pid, 'torch', '--steps', '4', '-o', tmp_path / 'x', code=code)
            thread.join()
        assert asked['fn'] == 'setKinetOnDemandRequest' and asked['pids'] == [p.pid]
        assert 'ACTIVITIES_ITERATIONS=4' in asked['config']
        assert (tmp_path / 'x' / f'trace_{p.pid}.json').exists()
        server.close()


TRAINING = ('import time, torch\nmodel = torch.nn.Linear(8, 8)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n'
            'open("ready", "w").close()\nend = time.monotonic() + 90\nwhile time.monotonic() < end:\n'
            '    model(torch.randn(4, 8)).sum().backward()\n    optimizer.step()\n    time.sleep(0.01)\n')


def test_a_trace_of_real_pytorch_joins_the_recording(tmp_path):
    pytest.importorskip('torch')
    run = subprocess.Popen([PROGRAM, 'run', '--backend', 'none', '-q', '--trace', '-o', tmp_path / 'rec', '--torch-on-demand', '--',
                            sys.executable, '-c', TRAINING], env=environment(), cwd=tmp_path)
    try:
        until((tmp_path / 'ready').exists, 90)
        (pid,) = children(run.pid)
        assert f'Next: profgpu analyze {tmp_path / "rec"}\n' in attach(pid, 'torch', '--steps', '5').stdout
        time.sleep(1)
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(timeout=60)
    report = analyzed(tmp_path / 'rec')
    (rank,) = report['ranks']
    (recording,) = processes(tmp_path / 'rec').values()
    ends = {r['payload']: r['time_ns'] for r in recording['range_event'] if r['op'] == 6}
    # Before, during and after the trace; but for the steps in which it begins and ends all are there.
    numbers = [s['index'] for s in rank['steps']]
    assert numbers == sorted(set(numbers)) and set(ends) - set(numbers) <= set(range(min(ends) + 1, max(ends)))
    assert len(ends) - 3 <= len(numbers) <= len(ends) + 1
    steps = {s['index']: s for s in rank['steps']}
    (trace,) = analyzed(tmp_path / 'rec' / f'trace_{pid}.json')['ranks']
    traced = {s['index'] for s in trace['steps']}
    assert len(traced) in (4, 5, 6) and traced < set(numbers) and min(numbers) < min(traced) and max(traced) < max(numbers)
    for number, step in steps.items():   # where the trace begins a step may have begun before it, where it ends it is cut
        if number - 1 in ends and number in ends and number not in (min(traced), max(traced)):
            assert abs(step['duration_ns'] - (ends[number] - ends[number - 1])) < 5e6, number
    operators = {o['name']: o['calls'] for o in rank['ops']}
    assert operators['aten::linear'] == {o['name']: o['calls'] for o in trace['ops']}['aten::linear']
    assert operators['backward'] > operators['aten::linear'], "the recording's own ranges are there for the rest of the run"
    assert rank['threads']
    texts = [issue['text'] for source in report['inputs'] for issue in source['issues']]
    assert sum('joined with the recording' in text for text in texts) == 1, texts


DDP = ('import os, time, torch\ntorch.distributed.init_process_group("gloo")\ntorch.set_num_threads(1)\n'
       'model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n'
       'open("ready" + os.environ["RANK"], "w").close()\nend = time.monotonic() + 90\nwhile time.monotonic() < end:\n'
       '    model(torch.randn(4, 8)).sum().backward()\n    optimizer.step()\n    time.sleep(0.01)\n')


def test_torchrun_has_all_ranks_traced(tmp_path):
    """It imports PyTorch itself, and asks for orders like its ranks; a scheduler may have given it a rank too."""
    pytest.importorskip('torch')
    (tmp_path / 'ddp.py').write_text(DDP)
    run = subprocess.Popen([PROGRAM, 'run', '--backend', 'none', '-q', '--trace', '-o', tmp_path / 'rec', '--torch-on-demand', '--',
                            sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2', 'ddp.py'],
                           env=environment(OMP_NUM_THREADS='1', RANK='0'), cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        until(lambda: (tmp_path / 'ready0').exists() and (tmp_path / 'ready1').exists(), 90)
        (launcher,) = children(run.pid)
        out = json.loads(attach(launcher, 'torch', '--steps', '3', '--json').stdout)
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(timeout=60)
    assert len(out['traces']) == 2 and out['missing'] == 0 and out['next'] == [f'profgpu analyze {tmp_path / "rec"}']
    report = analyzed(tmp_path / 'rec')
    assert [rank['rank'] for rank in report['ranks']] == [0, 1]
    for rank in report['ranks']:
        calls = {o['name']: o['calls'] for o in rank['ops']}
        assert calls['aten::linear'] >= 2 and len(rank['steps']) > 20
    left_out = [i['text'] for source in report['inputs'] for i in source['issues'] if 'left out' in i['text']]
    assert not left_out


def analyzed(path):
    words = [PROGRAM, 'analyze', '--json', path]
    return json.loads(subprocess.run(words, env=environment(), capture_output=True, timeout=60, check=True).stdout)


def test_real_pytorch(tmp_path):
    pytest.importorskip('torch')
    run = subprocess.Popen([PROGRAM, 'run', '--backend', 'none', '-q', '--torch-on-demand', '--', sys.executable, '-c', TRAINING],
                           env=environment(), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        until((tmp_path / 'ready').exists, 90)
        (pid,) = children(run.pid)
        attach(pid, 'torch', '--duration', '500ms', '-o', tmp_path / 'time')
        attach(pid, 'torch', '--steps', '3', '-o', tmp_path / 'steps')
    finally:
        run.send_signal(signal.SIGTERM)
        said = run.communicate(timeout=60)[1]
    assert 'ERROR' not in said and 'dyno' not in said
    counts = {}
    for name in ('time', 'steps'):
        events = json.loads((tmp_path / name / f'trace_{pid}.json').read_text())['traceEvents']
        counts[name] = sum(e.get('name', '').startswith('Optimizer.step#') for e in events)
    assert counts['time'] >= 2 and counts['steps'] == 3
    r = subprocess.run([PROGRAM, 'analyze', tmp_path / 'time' / f'trace_{pid}.json'], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
