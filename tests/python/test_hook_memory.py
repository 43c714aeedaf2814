"""`profgpu run --trace --memory`, with real PyTorch on the CPU and a stand-in for its CUDA allocator."""
import json
import os
import re
import signal
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'python'))
pytest.importorskip('torch')
from test_attach import PROGRAM, attach, children, environment, until  # noqa: E402
from test_hook import recordings, run  # noqa: E402

HEAD = f"""
import os, sys, threading, time
sys.path.insert(0, {os.path.join(ROOT, 'tests', 'python')!r})
import torch
from cuda_memory import CudaMemory
cuda = CudaMemory(torch)
def step():
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
"""


def hooked(folder, text, **more):
    folder.mkdir(exist_ok=True)
    script = folder.parent / 'script.py'
    script.write_text(HEAD + text)
    return run(folder, script, **{'PROFGPU_MEMORY': PROGRAM, **more})


def pickles(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith('.pickle'))


def test_the_end_of_the_program_is_written_beside_the_recording(tmp_path, analyze):
    said = hooked(tmp_path / 'x', "cuda.init(); assert cuda.settings['max_entries'] == 200_000; step()")
    (recording,) = recordings(tmp_path / 'x')
    stem = os.path.basename(recording.path)[:-len('.pgt')]
    assert pickles(tmp_path / 'x') == [stem + '-memory.pickle'] and said.stderr == ''
    assert recording.properties['memory'] == 'on' and recording.properties['python_hook'].startswith('on')
    document = analyze(tmp_path / 'x')
    (rank,) = document['ranks']
    assert rank['snapshot']['events'] > 400 and len(rank['steps']) == 3
    assert not any(i for i in document['inputs'][0]['issues'] if 'rank' in i.get('text', ''))


def test_each_process_of_a_job_without_ranks_has_its_own(tmp_path, analyze):
    for _ in range(2):
        hooked(tmp_path / 'x', 'cuda.init(); step()')
    document = analyze(tmp_path / 'x')
    assert len(pickles(tmp_path / 'x')) == 2
    assert [(rank['rank'], rank['snapshot']['events'] > 400, len(rank['steps'])) for rank in document['ranks']] == [
        (0, True, 3), (1, True, 3)]


def test_a_program_that_uses_no_cuda_writes_no_snapshot(tmp_path):
    hooked(tmp_path / 'x', 'step(); assert cuda.settings is None and not cuda.observers')
    assert pickles(tmp_path / 'x') == [] and len(recordings(tmp_path / 'x')) == 1


def test_without_the_option_nothing_is_recorded(tmp_path):
    hooked(tmp_path / 'x', 'cuda.init(); step(); assert cuda.settings is None', PROFGPU_MEMORY='')
    assert pickles(tmp_path / 'x') == []


def test_out_of_memory_is_explained_before_the_traceback(tmp_path, analyze):
    said = hooked(tmp_path / 'x', 'cuda.init(); step(); cuda.fail(3 << 30)', code=1).stderr
    (name,) = pickles(tmp_path / 'x')
    assert name.endswith('-oom.pickle')
    explained, _, traceback = said.partition('Traceback (most recent call last):')
    assert explained.startswith(f'profgpu: out of memory; what the allocator held is in {tmp_path / "x" / name}\n')
    for part in ('Out of memory: 3.00 GiB', 'attend (job/model.py:30)', 'Memory at the peak'):
        assert part in explained
    assert traceback.rstrip().endswith('CUDA out of memory. Tried to allocate 3221225472 bytes')
    document = analyze(tmp_path / 'x')
    assert document['ranks'][0]['snapshot']['oom']['requested_bytes'] == 3 << 30 and len(document['ranks']) == 1
    assert 'oom' in [finding['rule'] for finding in document['findings']]


def test_an_error_that_is_caught_leaves_a_snapshot_and_the_end_another(tmp_path, analyze):
    text = """
cuda.init()
for _ in range(5):
    try:
        cuda.fail()
    except torch.OutOfMemoryError:
        step()
assert len(cuda.dumped) == 3
"""
    assert hooked(tmp_path / 'x', text).stderr == ''
    assert [name.rsplit('-', 1)[1] for name in pickles(tmp_path / 'x')] == ['memory.pickle', 'oom.pickle']
    assert analyze(tmp_path / 'x')['ranks'][0]['snapshot']['events'] > 0


def test_another_error_shows_its_traceback_alone(tmp_path):
    said = hooked(tmp_path / 'x', 'cuda.init(); step(); 1 / 0', code=1).stderr
    assert said.startswith('Traceback') and len(pickles(tmp_path / 'x')) == 1


def test_the_programs_own_excepthook_is_called(tmp_path):
    text = "sys.excepthook = lambda kind, value, trace: print('theirs', kind.__name__)\ncuda.init(); step(); cuda.fail()"
    done = hooked(tmp_path / 'x', text, code=1)
    assert done.stdout == 'theirs OutOfMemoryError\n' and 'Out of memory: 1.00 GiB' in done.stderr


def test_os_exit_writes_it_and_a_forked_child_does_not(tmp_path):
    text = """
cuda.init(); step()
if os.fork() == 0:
    step()
    os._exit(0)
os.wait()
os._exit(0)
"""
    hooked(tmp_path / 'x', text)
    assert len(recordings(tmp_path / 'x')) == 2 and len(pickles(tmp_path / 'x')) == 1


def test_an_error_of_ours_changes_nothing(tmp_path):
    text = "def broken(**_): raise OSError('no')\ntorch.cuda.memory._record_memory_history = broken\ncuda.init(); step()"
    assert hooked(tmp_path / 'x', text).stderr == ''
    (recording,) = recordings(tmp_path / 'x')
    assert recording.properties['memory'] == 'off after an error: OSError: no'
    assert recording.properties['python_hook'].startswith('on') and pickles(tmp_path / 'x') == []


def test_what_cannot_be_written_is_reported(tmp_path):
    text = "cuda.init(); step()\ndef full(path): raise OSError('No space left')\ntorch.cuda.memory._dump_snapshot = full"
    assert re.fullmatch(r'profgpu: .*-memory\.pickle: No space left\n', hooked(tmp_path / 'x', text).stderr)


RUNS = HEAD + """
cuda.init()
step()
open(sys.argv[1], 'w').close()
while not os.path.exists(sys.argv[1] + '-end'):
    time.sleep(0.01)
"""


@pytest.fixture
def job(tmp_path):
    """(process number, folder) of a job under `profgpu run --trace --memory`, and the process of profgpu."""
    (tmp_path / 'job.py').write_text(RUNS)
    command = [PROGRAM, 'run', '--backend', 'none', '-q', '--trace', '--memory', '-o', tmp_path / 'x', '--',
               sys.executable, tmp_path / 'job.py', tmp_path / 'ready']
    job = subprocess.Popen(command, env=environment(), start_new_session=True)
    try:
        until(lambda: (tmp_path / 'ready').exists())
        (pid,) = children(job.pid)
        yield pid, tmp_path / 'x', job
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def test_attach_takes_snapshots_of_a_running_program(job, tmp_path, analyze):
    pid, folder, process = job
    first = attach(pid, 'memory').stdout
    path, following = first.splitlines()
    assert re.fullmatch(rf'{folder}/.*-{pid}-memory-1\.pickle', path) and following == f'Next: profgpu analyze {path}'
    assert analyze(path)['ranks'][0]['snapshot']['events'] > 400
    second = json.loads(attach(pid, 'memory', '--json').stdout)
    assert second['snapshot'].endswith('-memory-2.pickle') and second['pid'] == pid and os.path.exists(second['snapshot'])
    (tmp_path / 'ready-end').touch()
    assert process.wait(timeout=60) == 0
    # The last one stands for the rank.
    document = analyze(folder)
    assert len(pickles(folder)) == 3 and len(document['ranks']) == 1 and document['ranks'][0]['snapshot']['events'] > 400


def test_who_records_no_memory_gives_no_snapshot(tmp_path):
    command = [PROGRAM, 'run', '--backend', 'none', '-q', '--trace', '-o', tmp_path / 'x', '--', sys.executable, '-c',
               RUNS, tmp_path / 'ready']
    job = subprocess.Popen(command, env=environment(), start_new_session=True)
    try:
        until(lambda: (tmp_path / 'ready').exists())
        (pid,) = children(job.pid)
        said = attach(pid, 'memory', code=1).stderr
        assert f'process {pid} does not record memory' in said and '--memory' in said
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def test_the_hook_is_needed():
    done = subprocess.run([PROGRAM, 'run', '--trace', '--memory', '--no-python-hook', '--', 'true'], capture_output=True, text=True)
    assert done.returncode == 2 and '--memory and --no-python-hook cannot be combined' in done.stderr
    done = subprocess.run([PROGRAM, 'run', '--memory', '--', 'true'], capture_output=True, text=True)
    assert done.returncode == 2 and '--memory needs --trace' in done.stderr


def test_a_run_that_uses_no_gpu_says_that_there_is_no_snapshot(tmp_path):
    command = [PROGRAM, 'run', '--backend', 'none', '--trace', '--memory', '-o', tmp_path / 'x', '--', sys.executable, '-c',
               'import torch; torch.ones(2) + 1']
    said = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert said.returncode == 0 and pickles(tmp_path / 'x') == []
    problems = json.loads((tmp_path / 'x' / 'session.json').read_text())['problems']
    assert any('no memory snapshot was written' in problem for problem in problems), problems
    assert 'no memory snapshot was written' in ' '.join(said.stderr.split())
