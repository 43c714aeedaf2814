"""Commands that write a file are killed (-9) at many moments: under its name is the old file or the whole new one, and
what was saved before stays readable."""
import csv
import json
import random
import sqlite3
import subprocess
import time

import pytest
from conftest import program

MOMENTS = 25


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


COMMANDS = {
    'page': (('analyze', '--html', 'OUT', 'TRACE'), parse_page),
    'document': (('analyze', '--json', '-o', 'OUT', 'TRACE'), parse_json),
    'chrome': (('export', 'TRACE', '--to', 'chrome', '-o', 'OUT'), parse_json),
    'sqlite': (('export', 'TRACE', '--to', 'sqlite', '-o', 'OUT'), parse_sqlite),
    'csv': (('export', 'TRACE', '--to', 'csv', '--table', 'activity', '-o', 'OUT'), parse_csv),
}


@pytest.fixture(scope='module')
def trace(simulate):
    return simulate('--steps', '40')


def killed(words, seconds):
    """Whether the command was still at work."""
    process = subprocess.Popen([program('PROFGPU', 'profgpu'), *map(str, words)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.kill()
    return process.wait() == -9


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
    source, hits = random.Random(name), 0
    for _ in range(MOMENTS):
        path.write_text('the old file')
        hits += killed(words, source.random() * length)
        if path.read_bytes() != b'the old file':
            parse(path)
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
