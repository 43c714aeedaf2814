"""Every command in a ```bash block of README.md and docs/ runs, in a folder with the files that it names, and ends as the page says:
with 0, or with N where its comment says `exits N`. A block that cannot run here says why in its first line: ```bash no-run: REASON.
So does every ```python block. Blocks of ```console, with what a command prints, are compared by scripts/check-docs."""
import fcntl
import glob
import os
import pickle
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

import pytest

from conftest import ROOT, program
from exporter_page import STUB
from flight_writer import Job
from log_writer import titan
from memory_snapshots import snapshot
from nsight_export import Export, step_loop
from test_nvbandwidth import as_text, copies

PAGES = ['README.md', *sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, 'docs', '*.md')))]
BLOCK = re.compile(r'^```bash([^\n]*)\n(.*?)^```$', re.M | re.S)
PYTHON_BLOCK = re.compile(BLOCK.pattern.replace('bash', 'python'), re.M | re.S)
# What a page's example takes for granted.
PRELUDE = '''
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [torch.ones(8, 4)] * 14
def train_step(batch):
    model(batch).sum().backward()
    optimizer.step()
'''
# These run until Ctrl-C, which is their normal end.
ENDLESS = re.compile(r'^profgpu (?:exporter|monitor(?! --help-alerts| .*--test-alert))\b')
# What launches a training script elsewhere: here it only runs the rest of the line with Python.
LAUNCHERS = {'accelerate': 2, 'deepspeed': 1}
NCCL_TESTS = '''#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    60.10   17.45   30.53      0    59.80   17.53   30.69      0
    16777216       4194304     float     sum      -1   210.40   79.74  139.54      0   209.90   79.93  139.88      0
# Out of bounds values : 0 OK
'''
NCCL_DEBUG = '''node1:11:11 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
node1:11:11 [0] NCCL INFO Using network Socket
'''
SETTINGS = 'basic_auth_users: {}\n'


def blocks(page, pattern=BLOCK):
    """(reason or None, text) of each."""
    with open(os.path.join(ROOT, page), encoding='utf-8') as file:
        for info, text in pattern.findall(file.read()):
            reason = re.fullmatch(r' no-run: (.+)', info)
            assert reason or not info.strip(), f'{page}: {info} is neither empty nor a reason'
            yield reason and reason[1], text


def commands(text):
    """(command, exit status that its comment gives) for each line; lines that end in a backslash go on."""
    for line in re.sub(r'\\\n\s*', '', text).split('\n'):
        command, _, comment = line.partition(' #')
        if command.strip() and not command.startswith('#'):
            status = re.search(r'\bexits? (\d+)', comment)
            yield command.strip(), int(status[1]) if status else 0


def written(text):
    return lambda path: path.write_text(text)


def copied(*parts):
    source = os.path.join(ROOT, *parts)
    return lambda path: (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, path)


def export_of_nsight(path):
    export = Export(path)
    step_loop(export)
    export.done()


def dumps(path):
    job = Job({'0': ('default_pg', [0, 1, 2, 3])})
    job.done('0', 3)
    for rank in (0, 1, 3):
        job.call(rank, '0')
    job.write(path)


TRACE, RANKS, LOG = copied('examples', 'resnet-demo.json.gz'), copied('examples', 'four-ranks'), copied('tests', 'golden', 'logs', 'train.log')
SAMPLES = copied('examples', 'replay.jsonl')


def snapshot_file(path):
    path.write_bytes(pickle.dumps(snapshot('2.9', seed=2), 4))


# What a page calls a file of the reader's.
FILES = {
    'trace.json.gz': TRACE, 'before.json.gz': TRACE, 'after.json.gz': TRACE, 'good-run.json.gz': TRACE, 'new-run.json.gz': TRACE,
    'rec': RANKS, 'rec2': RANKS, 'run7': RANKS, 'traces': lambda path: (path.mkdir(), TRACE(path / 'rank0.json.gz')),
    'train.log': LOG, 'before.log': LOG, 'after.log': LOG,
    'samples.jsonl': SAMPLES, 'node1.jsonl': SAMPLES, 'gpu.jsonl': SAMPLES,
    'snapshot.pickle': snapshot_file, 'before.pickle': snapshot_file, 'after.pickle': snapshot_file,
    'nvbandwidth.log': written(as_text(copies())),
    'report1.sqlite': export_of_nsight, 'dumps': dumps, 'nccl-tests.log': written(NCCL_TESTS), 'NCCL_DEBUG.log': written(NCCL_DEBUG),
    'web.yml': written(SETTINGS), 'titan.log': lambda path: path.write_text(''.join(titan(20))),
    'train.py': written('import time\ntime.sleep(0.2)\n'),
}


def place(folder, command):
    """Makes the files that the command names. A recording's folder begins anew: recipes do not build on each other."""
    for name in re.findall(r'--trace\b.* -o (\S+)', command):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name, make in FILES.items():
        named = re.search(rf'(?<![\w/.-]){re.escape(name)}(?![\w.-])', command)
        if named and not (folder / name).exists() and not command[:named.start()].endswith('-o '):
            make(folder / name)


def executable(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def desk(tmp_path):
    """A folder to run commands in, and their environment: profgpu, two GPUs of the stand-in for NVML, launchers."""
    if not os.path.exists(STUB):
        pytest.skip(f'the stand-in for NVML is not built: {STUB}')
    folder, tools = tmp_path / 'desk', tmp_path / 'bin'
    folder.mkdir()
    tools.mkdir()
    (folder / 'examples').symlink_to(os.path.join(ROOT, 'examples'))
    (tools / 'profgpu').symlink_to(program('PROFGPU', 'profgpu'))
    for name, words in LAUNCHERS.items():
        executable(tools / name, f'#!/bin/sh\nshift {words - 1}\nexec python "$@"\n')
    executable(folder / 'solver', '#!/bin/sh\nsleep 0.1\n')
    env = dict(os.environ, PATH=f'{tools}:{os.path.dirname(sys.executable)}:{os.environ["PATH"]}', LC_ALL='C.UTF-8', TERM='dumb',
               PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=os.path.join(ROOT, 'tests/stubs/nvml/scenarios/two_h100.txt'),
               PROFGPU_HISTORY=str(folder / 'history.sqlite'), OMP_NUM_THREADS='1', STEPS='4',
               OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', OMPI_MCA_rmaps_base_oversubscribe='1')
    return folder, env


def ended(command, folder, env):
    """Exit status and what was printed. What never ends gets Ctrl-C once it has begun; one at a time, since they share a port."""
    if not ENDLESS.match(command):
        done = subprocess.run(['bash', '-c', command], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120)
        return done.returncode, done.stdout + done.stderr
    with open(os.path.join(tempfile.gettempdir(), 'profgpu-doc-commands.lock'), 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(['bash', '-c', 'exec ' + command], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=60)
    return process.returncode, text


@pytest.mark.parametrize('page', [p for p in PAGES if any(not reason for reason, _ in blocks(p))])
def test_commands_of(page, desk):
    folder, env = desk
    wrong = []
    for reason, text in blocks(page):
        for command, status in commands(text) if not reason else ():
            place(folder, command)
            got, printed = ended(command, folder, env)
            if got != status:
                wrong.append(f'{command}\n  exits {got}, not {status}: {printed[-600:]}')
    assert not wrong, '\n'.join(wrong)


# test_package_docs.py runs those of docs/python.md.
@pytest.mark.parametrize('page', [p for p in PAGES if p != 'docs/python.md' and any(not reason for reason, _ in blocks(p, PYTHON_BLOCK))])
@pytest.mark.usefixtures('package')
def test_python_of(page, tmp_path):
    pytest.importorskip('torch')
    for reason, text in blocks(page, PYTHON_BLOCK):
        if not reason:
            done = subprocess.run([sys.executable, '-c', PRELUDE + text], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                                  env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, 'python')))
            assert done.returncode == 0, text + done.stderr


def test_every_command_is_in_a_block_that_runs_or_says_why():
    """No page hides commands in an indented block, which is not run."""
    hidden = []
    for page in PAGES:
        with open(os.path.join(ROOT, page), encoding='utf-8') as file:
            prose = re.sub(r'^```.*?^```$', '', file.read(), flags=re.M | re.S)
        hidden += [f'{page}: {line.strip()}' for line in re.findall(r'^ {4}\$? ?(?:profgpu|make|mpirun|srun|pip) .*', prose, re.M)]
    assert not hidden, '\n'.join(hidden)
