"""profgpu top of other machines, by their exporters, and of a job that is being recorded."""
import os
import re
import socket
import subprocess
import time

import pytest

from conftest import program
from exporter_page import REPLAY, STUB, Exporter
from terminal_session import TerminalSession
from test_attach import recorded, until


@pytest.fixture
def exporter():
    running = []

    def run(*words, **more):
        running.append(Exporter('--backend', REPLAY, *words, **more).wait_ready())
        return running[-1]

    yield run
    for one in running:
        one.kill()


def top(profgpu, *words, **more):
    return profgpu('top', '--once', *words, text=True, env=dict(os.environ, LC_ALL='C.UTF-8', COLUMNS='160', **more))


def test_hosts_side_by_side(exporter, profgpu):
    one, two = exporter(env={'NODE_NAME': 'node-one'}), exporter('--dcgm-names', 'classic', env={'NODE_NAME': 'node-two'})
    with socket.socket() as gone:
        gone.bind(('127.0.0.1', 0))
        port = gone.getsockname()[1]
    r = top(profgpu, '--remote', f'127.0.0.1:{one.port},127.0.0.1:{port}', '--remote', two.url)
    assert r.returncode == 0, r.stderr
    assert '3 hosts  4 × NVIDIA H100' in r.stdout
    for device in ('node-one 0', 'node-one 1', 'node-two 0', 'node-two 1'):
        assert re.search(rf'^{device} .* %  .*/79\.6 GiB .* °C ', r.stdout, re.M), r.stdout
    assert '127.0.0.1: cannot connect: Connection refused' in r.stdout


def test_no_host_at_all(profgpu):
    r = top(profgpu, '--remote', '127.0.0.1:1')
    assert r.returncode == 1 and 'no host reported a GPU; 127.0.0.1: cannot connect' in r.stderr
    for words, says in ((['--remote', 'a b'], 'is not HOST'), (['--remote', 'a', '--device', '0'], 'and --remote cannot be combined')):
        r = top(profgpu, *words)
        assert r.returncode == 2 and says in r.stderr


def test_passwords(exporter, profgpu, tmp_path):
    settings = tmp_path / 'web.yml'
    settings.write_text("basic_auth_users: {me: '$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a'}\n")   # of "secret"
    e = Exporter('--backend', REPLAY, '--web.config.file', settings)
    try:
        until(lambda: top(profgpu, '--remote', f'me:secret@127.0.0.1:{e.port}').returncode == 0)
        r = top(profgpu, '--remote', f'127.0.0.1:{e.port}')
        assert r.returncode == 1 and 'wants a password: write USER:PASSWORD@' in r.stderr
        r = top(profgpu, '--remote', f'me:wrong@127.0.0.1:{e.port}')
        assert r.returncode == 1 and 'rejects that password' in r.stderr and 'wrong@' not in r.stderr
        r = top(profgpu, '--remote', f'me:secret@127.0.0.1:{e.port}')
        assert r.returncode == 0 and '2 × NVIDIA H100' in r.stdout
    finally:
        e.kill()


def test_a_host_that_dies_while_it_is_watched(exporter, tmp_path):
    e = exporter(env={'NODE_NAME': 'node-one'})
    t = TerminalSession(tmp_path, 120, 30, '--remote', f'127.0.0.1:{e.port}', '-i', '0.2')
    try:
        assert 'node-one' in t.wait('H100')
        e.kill()
        text = t.wait('no news since')
        assert 'Connection refused' in text
        t.keys('q')
        assert t.exit_code() == 0
    finally:
        t.close()


def test_a_job_that_is_being_recorded(tmp_path, profgpu):
    with recorded(tmp_path / 'x') as pid:
        scenario = tmp_path / 'scenario.txt'
        scenario.write_text(f'device 0\nutilization 60\nprocess {pid} C memory=1e9\n')
        stub = dict(PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=str(scenario))

        def seen():
            r = top(profgpu, '--backend', 'nvml', **stub)
            assert r.returncode == 0, r.stderr
            return re.search(rf'pid {pid}: (\d+(\.\d+)? steps/s, )?step \d+; .*GPU idle \d+ %', r.stdout)

        until(seen)
        t = TerminalSession(tmp_path, 140, 30, '-i', '0.2', scenario=scenario.read_text())
        try:
            # A step takes 20 ms of sleep and a little.
            line = next(x for x in t.wait('steps/s').splitlines() if 'steps/s' in x)
            assert 0 < float(re.search(r'([\d.]+) steps/s', line)[1]) < 51, line
        finally:
            t.close()
