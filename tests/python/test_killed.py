"""Commands that write a file are killed (-9) at many moments: under its name is the old file or the whole new one, and
what was saved before stays readable.

KILL_MOMENTS (25) is how many moments; `make hostile` takes 200.
"""
import csv
import json
import os
import random
import signal
import sqlite3
import subprocess
import time

import pytest
from conftest import program
from exporter_page import REPLAY
from test_record import SIM, Recording, environment

MOMENTS = int(os.environ.get('KILL_MOMENTS', '25'))
kills = 0   # of processes that were at work, by the test that runs


def parse_json(path):
    json.loads(path.read_text())


def parse_page(path):
    assert path.read_text().rstrip().endswith('</html>')


def parse_sqlite(path):
    with sqlite3.connect(f'file:{path}?mode=ro', uri=True) as db:
        assert db.execute('pragma integrity_check').fetchone() == ('ok',)


def parse_csv(path):
    with open(path, newline='') as file:
        assert len({len(row) for row in csv.reader(file, strict=True)}) == 1


def parse_bytes(path):
    assert path.stat().st_size > 1000


COMMANDS = {
    'page': (('analyze', '--html', 'OUT', 'TRACE'), parse_page),
    'document': (('analyze', '--json', '-o', 'OUT', 'TRACE'), parse_json),
    'chrome': (('export', 'TRACE', '--to', 'chrome', '-o', 'OUT'), parse_json),
    'sqlite': (('export', 'TRACE', '--to', 'sqlite', '-o', 'OUT'), parse_sqlite),
    'csv': (('export', 'TRACE', '--to', 'csv', '--table', 'activity', '-o', 'OUT'), parse_csv),
    'perfetto': (('export', 'TRACE', '--to', 'perfetto', '-o', 'OUT'), parse_bytes),
    'merge': (('merge', 'TRACE', '--to', 'perfetto', '-o', 'OUT'), parse_bytes),
}


@pytest.fixture(scope='module')
def trace(simulate):
    return simulate('--steps', '15')


@pytest.fixture(autouse=True)
def counted(record_property):
    global kills
    kills = 0
    yield
    record_property('kills', kills)


def kill(process, group=False):
    """Whether it was still at work."""
    global kills
    if group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    kills += process.wait() == -signal.SIGKILL
    return process.returncode == -signal.SIGKILL


def killed(words, seconds):
    """Whether the command was still at work."""
    process = subprocess.Popen([program('PROFGPU', 'profgpu'), *map(str, words)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    return kill(process)


def time_of(words):
    begin = time.monotonic()
    assert subprocess.run([program('PROFGPU', 'profgpu'), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    return time.monotonic() - begin


@pytest.mark.parametrize('name', COMMANDS)
def test_the_old_file_or_the_whole_new_one(name, trace, tmp_path):
    words, parse = COMMANDS[name]
    path = tmp_path / 'out'
    words = [{'OUT': path, 'TRACE': trace}.get(word, word) for word in words]
    length = time_of(words)
    parse(path)
    whole = path.read_bytes()
    source, hits = random.Random(name), 0
    for _ in range(MOMENTS):
        path.write_text('the old file')
        hits += killed(words, source.random() * length)
        assert path.read_bytes() in (b'the old file', whole)
    assert hits > 0, 'some moments are while the command works'


def test_a_history_keeps_what_was_saved(trace, tmp_path, profgpu):
    history = tmp_path / 'history.sqlite'

    def save():
        return ('baseline', '--file', history, 'save', 'main', trace)

    def runs():
        return json.loads(profgpu('history', '--file', history, '--json', 'main').stdout)['runs']

    length = time_of(save())
    source = random.Random(7)
    before = len(runs())
    for _ in range(MOMENTS):
        killed(save(), source.random() * length * 1.1)
        now = runs()
        assert before <= len(now) <= before + 1
        before = len(now)
    time_of(save())
    assert len(runs()) == before + 1


def rows_of(path):
    """Whole rows, and whether a torn one follows."""
    lines = path.read_bytes().split(b'\n')
    return [json.loads(line) for line in lines[:-1]], lines[-1] != b''


@pytest.mark.parametrize('name', ['log', 'monitor'])
def test_a_log_keeps_its_rows_and_goes_on(name, tmp_path):
    """Each is started anew on what the one before left; no row of it is lost, and at most the last is torn."""
    path, source, before = tmp_path / 'gpu.jsonl', random.Random(name), 0
    backend = REPLAY + (',loop' if name == 'monitor' else ',loop,speed=100')
    words = (name, '--backend', backend, '-i', '0.001', '-o', path)
    for _ in range(MOMENTS):
        assert killed(words, 0.02 + source.random() * 0.1)
        if path.exists():
            rows, _ = rows_of(path)
            assert len(rows) >= before
            before = len(rows)
    assert before > MOMENTS
    assert subprocess.run([program('PROFGPU', 'profgpu'), 'analyze', path], capture_output=True).returncode == 0


def test_a_log_that_rotates_keeps_its_files(tmp_path):
    path, source = tmp_path / 'gpu.jsonl', random.Random(3)
    words = ('log', '--backend', REPLAY + ',loop,speed=100', '-i', '0.001', '-o', path, '--rotate', '4KiB', '--keep', '3')
    for _ in range(MOMENTS):
        assert killed(words, 0.02 + source.random() * 0.1)
    names = set(os.listdir(tmp_path))
    assert {'gpu.jsonl.1'} <= names <= {'gpu.jsonl', *(f'gpu.jsonl.{i}' for i in (1, 2, 3))}
    for name in names:
        rows_of(tmp_path / name)


def test_a_recording_is_readable_whenever_all_is_killed(tmp_path):
    """The command, and what records it, together: as a scheduler or a lack of memory ends a job."""
    source = random.Random(5)
    for i in range(MOMENTS):
        folder = tmp_path / str(i)
        process = subprocess.Popen([program('PROFGPU', 'profgpu'), 'run', '-q', '--backend', 'none', '--trace', '-o', folder, '--', SIM, '--kernels', '2000000', '--rate', '50000'],
                                   env=environment(PROFGPU_RECORD_OPTIONS='flush_ms=50'), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        time.sleep(source.random() * 0.6)
        kill(process, group=True)
        names = os.listdir(folder) if folder.exists() else []
        for name in names:
            path = folder / name
            if name.endswith('.pgt') and path.stat().st_size:
                Recording(path)
            elif name.endswith('.json') and path.stat().st_size:   # an empty one takes the name for this run
                json.loads(path.read_text())
        r = subprocess.run([program('PROFGPU', 'profgpu'), 'analyze', folder], capture_output=True)
        assert r.returncode in (0, 1) and (r.returncode == 0 or r.stderr), r.stderr


def test_the_command_outlives_what_records_it(tmp_path):
    """profgpu itself is killed: the command ends as it would, and its recording is whole."""
    source = random.Random(6)
    for i in range(max(MOMENTS // 5, 3)):
        folder, done = tmp_path / str(i), tmp_path / f'done{i}'
        process = subprocess.Popen([program('PROFGPU', 'profgpu'), 'run', '-q', '--backend', 'none', '--trace', '-o', folder, '--',
                                    'sh', '-c', f'{SIM} --kernels 20000 --rate 50000 > /dev/null; echo $? > {done}'],
                                   env=environment(PROFGPU_RECORD_OPTIONS='flush_ms=50'), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not (folder.exists() and any(name.endswith('.pgt') and 'host' not in name for name in os.listdir(folder))):
            assert time.monotonic() < end
            time.sleep(0.005)
        time.sleep(source.random() * 0.2)
        kill(process)
        while not done.exists() or not done.read_text():
            assert time.monotonic() < end
            time.sleep(0.01)
        assert done.read_text() == '0\n'
        (recorded,) = [Recording(folder / name) for name in os.listdir(folder) if name.endswith('.pgt') and not name.endswith('host.pgt')]
        assert recorded.ended and len(recorded['kernel']) == 20_000
