"""Runs a simulated program with the recorder in it and reads back what it wrote. PROFGPU names the built program; the
recorder, the stand-ins and pgt-dump lie beside it."""
import collections
import contextlib
import fcntl
import json
import os
import subprocess
import sys
import tempfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'scripts'))
from gpu_check.recording_file import counts  # noqa: E402, F401  for recordings of millions of rows

BUILD = os.path.dirname(os.path.abspath(os.environ.get('PROFGPU') or os.path.join(ROOT, 'build', 'release', 'profgpu')))
LIBRARY = os.path.join(BUILD, 'libprofgpu-inject.so')
STUBS = os.path.join(BUILD, 'tests', 'stubs', 'cuda')
CUPTI = {11: 'libcupti.so.11.8', 12: 'libcupti.so.12', 13: 'libcupti.so.13'}
RECORDER_FULL, CUPTI_DROPPED = 1, 3  # DropReason


def need(*paths):
    for path in paths:
        if not os.path.exists(path):
            pytest.skip(f'{os.path.basename(path)} is not built: {path}')


class Recording:
    """One file. rows[kind]: list of dicts, as pgt-dump has them."""

    def __init__(self, path):
        self.path = path
        lines = subprocess.run([os.path.join(BUILD, 'pgt-dump'), path], capture_output=True, check=True).stdout
        self.rows = collections.defaultdict(list)
        for line in lines.splitlines():
            row = json.loads(line)
            self.rows[row['kind']].append(row)
        assert not self.rows['damaged'] and self.rows['read'][0]['bad_chunks'] == 0

    def __getitem__(self, kind):
        return self.rows[kind]

    @property
    def ended(self):
        return bool(self.rows['end'])

    @property
    def properties(self):
        return {row['key']: row['value'] for row in self.rows['property']}

    @property
    def notes(self):
        return [row['text'] for row in self.rows['note']]

    def dropped(self, reason=None):
        return sum(row['count'] for row in self.rows['drop'] if reason in (None, row['reason']))

    def calls(self):
        return collections.Counter(row['name'] for row in self.rows['call'])


class Result:
    def __init__(self, folder, process, stdout, stderr):
        self.folder = folder
        self.returncode = process.returncode
        self.stderr = stderr
        self.truths = [json.loads(line) for line in stdout.splitlines() if line.startswith('{')]
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith('.pgt')) \
            if os.path.isdir(folder) else []

    @property
    def truth(self):
        assert len(self.truths) == 1, (self.truths, self.stderr)
        return self.truths[0]

    @property
    def recording(self):
        assert len(self.paths) == 1, (self.paths, self.stderr)
        return Recording(self.paths[0])

    def recordings(self):
        return [Recording(path) for path in self.paths]


def environment(folder, cupti=12, sim='', options='', preload=False, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU_', 'CUDA_', 'RANK', 'LOCAL_RANK', 'WORLD_SIZE'))}
    where = [STUBS] + ([os.path.join(STUBS, str(cupti))] if cupti else [])
    # A library of that major may be installed: the simulated driver is one that has no newer CUDA than the test means.
    if 'driver=' not in sim:
        sim = f'driver={cupti or 11}000,{sim}'
    env.update(LD_LIBRARY_PATH=':'.join(where), PROFGPU_RECORD=str(folder), CUDA_INJECTION64_PATH=LIBRARY,
               NCCL_PROFILER_PLUGIN=LIBRARY, PROFGPU_INJECT=LIBRARY, CUDA_SIM=sim, PROFGPU_RECORD_OPTIONS=options)
    if preload:
        env['LD_PRELOAD'] = LIBRARY
    env.update(more)
    return env


@contextlib.contextmanager
def torch_orders():
    """One at a time, of all test runs on this machine: PyTorch asks for orders on one socket for all of it."""
    with open(os.path.join(tempfile.gettempdir(), 'profgpu-tests-torch-orders'), 'a') as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def run(folder, *words, program='cuda-sim', timeout=60, **settings):
    """Runs the program; a run of over `timeout` seconds fails the test."""
    path = os.path.join(BUILD, program)
    need(path, LIBRARY, os.path.join(BUILD, 'pgt-dump'))
    folder = str(folder)
    os.makedirs(folder, exist_ok=True)
    process = subprocess.Popen([path, *map(str, words)], env=environment(folder, **settings), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError(f'{program} {words} hangs')
    return Result(folder, process, stdout.decode(), stderr.decode())
