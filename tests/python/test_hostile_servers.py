"""What the program asks over the network, where the other side means it no good: exporters for `top --remote`, receivers of webhooks.

Whatever the answer, the command ends in time with one line about it, holds little memory, and writes nothing that a terminal obeys.
"""
import contextlib
import os
import re
import resource
import socket
import subprocess
import sys
import threading
import time

import pytest

from conftest import program
from test_monitor import Monitor, STUB

CONTROL = re.compile('[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]')
MEMORY_BYTES = 400 << 20
OK = b'HTTP/1.1 200 OK\r\n'


class Server:
    """Answers each connection by `play(socket)`, which may take its time."""

    def __init__(self, play):
        self.play, self.asked, self.requests = play, 0, []
        self.socket = socket.create_server(('127.0.0.1', 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                s, _ = self.socket.accept()
            except OSError:
                return
            self.asked += 1
            threading.Thread(target=self.answer, args=(s,), daemon=True).start()

    def answer(self, s):
        with s, contextlib.suppress(OSError):
            s.settimeout(60)
            self.requests.append(s.recv(65536))
            self.play(s)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass

    def close(self):
        self.socket.close()


@pytest.fixture
def server():
    """server(play or bytes) -> a Server"""
    running = []

    def run(play):
        running.append(Server((lambda s: s.sendall(play)) if isinstance(play, bytes) else play))
        return running[-1]

    yield run
    for one in running:
        one.close()


def measured(*words, seconds=60, **more):
    """(exit code, standard output, standard error, seconds, bytes that it held at most)"""
    code = ('import os,resource,subprocess,sys;r=subprocess.run(sys.argv[1:]);'
            'os.write(9,str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss).encode());sys.exit(r.returncode if r.returncode>=0 else 99)')
    read, write = os.pipe()
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, '-c', code, program('PROFGPU', 'profgpu'), *map(str, words)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: os.dup2(write, 9), pass_fds=[9],
                               env=dict(os.environ, LC_ALL='C.UTF-8', COLUMNS='160', **more))
    os.close(write)
    out, error = process.communicate(timeout=seconds)
    took = time.monotonic() - begun
    held = int(os.read(read, 100)) * 1024
    os.close(read)
    return process.returncode, out.decode(), error.decode(), took, held


def endless(head, part):
    def play(s):
        s.sendall(head)
        while True:
            s.sendall(part)
    return play


def dripping(s):
    s.sendall(OK)
    while True:
        s.sendall(b'X: y\r\n')
        time.sleep(0.2)


def page(body, head=b'Content-Type: text/plain\r\n'):
    return OK + head + b'Content-Length: %d\r\n\r\n' % len(body) + body


def packed_bomb():
    import gzip
    return page(gzip.compress(b'\0' * (200 << 20)), b'Content-Encoding: gzip\r\n')


# (answer, whether a GPU is shown)
ANSWERS = {
    'nothing': b'', 'silence': lambda s: time.sleep(30), 'dripping header': dripping, 'garbage': os.urandom(5000), 'tls': b'\x15\x03\x03\0\2\2\x28',
    'endless header': endless(OK, b'X: ' + b'y' * 60_000), 'endless headers': endless(OK, b'X: y\r\n' * 1000), 'endless line': endless(b'HTTP/1.1 200 ', b'O' * 65536),
    'endless body': endless(OK + b'\r\n', b'profgpu_power_watts{gpu="0"} 1\n' * 2000),
    'endless chunks': endless(OK + b'Transfer-Encoding: chunked\r\n\r\n', b'10000\r\n' + b'#' * 65535 + b'\n\r\n'),
    'chunk extensions': endless(OK + b'Transfer-Encoding: chunked\r\n\r\n', b'1;' + b'x' * 60_000 + b'\r\na\r\n'),
    'endless trailer': endless(OK + b'Transfer-Encoding: chunked\r\n\r\n0\r\n', b'X: y\r\n' * 1000),
    'endless 100': endless(b'', b'HTTP/1.1 100 Continue\r\n\r\n' * 100),
    'a chunk of 2^64': OK + b'Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx', 'a length beyond 64 bits': OK + b'Content-Length: 99999999999999999999\r\n\r\n',
    'a length that is not kept': OK + b'Content-Length: 1000\r\n\r\nx', 'a huge length': OK + b'Content-Length: 17179869184\r\n\r\n', 'a negative length': OK + b'Content-Length: -1\r\n\r\nx',
    'to itself': b'HTTP/1.1 302 Found\r\nLocation: /metrics\r\n\r\n', 'to a file': b'HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n',
    'an escape as reason': b'HTTP/1.1 500 \x1b[2J\x1b]0;x\x07\r\nContent-Length: 0\r\n\r\n', 'status 999': b'HTTP/1.1 999 x\r\n\r\n', 'status 0': b'HTTP/1.1 000 x\r\n\r\n',
    'nothing on the page': page(b''), 'other programs': page(b'<html>' * 1000), 'packed unasked': packed_bomb, 'zeros': page(b'\0' * 1_000_000),
    'no value': page(b'profgpu_power_watts{gpu="0"}\n' * 1000), 'open quote': page(b'profgpu_power_watts{gpu="0\n' * 1000), 'one long line': page(b'profgpu_power_watts{gpu="' + b'0' * 8_000_000),
    'many labels': page(b'profgpu_power_watts{' + b','.join(b'a%d="b"' % i for i in range(200_000)) + b'} 1\n'),
}


@pytest.mark.parametrize('name', ANSWERS)
def test_an_exporter_that_is_none(server, name):
    answer = ANSWERS[name]
    s = server(answer() if callable(answer) and answer.__name__ == 'packed_bomb' else answer)
    code, out, error, took, held = measured('top', '--once', '--remote', f'127.0.0.1:{s.port}', seconds=120)
    assert code == 1 and 'no host reported a GPU; 127.0.0.1: ' in error, (code, error)
    assert took < 30 and held < MEMORY_BYTES, (took, held)
    assert not CONTROL.search(out + error) and 'root:' not in out + error
    assert s.asked < 50


def test_a_page_with_hostile_names(server):
    bad = r'\x1b[2J\x1b]0;owned\x07' + '\x1b[31m\x9b2J‮\udcff' + '\r' + '<script>' + 'a' * 5000
    bad = bad.encode(errors='surrogateescape').replace(b'\r', b'')
    lines = b''.join(b'%s{gpu="%d",uuid="%s",model="%s",host="%s",pci_bus_id="%s",hpc_job="%s",driver_version="%s",vendor="%s"} %s\n'
                     % (name, i, bad, bad, bad, bad, bad, bad, bad, value)
                     for i in range(3) for name, value in ((b'profgpu_power_watts', b'NaN'), (b'profgpu_device_job_info', b'1'), (b'profgpu_utilization_ratio', b'-Inf'),
                                                           (b'profgpu_memory_used_bytes', b'1e308'), (b'profgpu_memory_total_bytes', b'-1'),
                                                           (b'profgpu_device_last_success_timestamp_seconds', b'1e300'), (b'profgpu_temperature_celsius', b'1e300')))
    s = server(page(lines))
    code, out, error, took, held = measured('top', '--once', '--remote', f'127.0.0.1:{s.port}')
    assert code == 0, error
    assert not CONTROL.search(out + error), CONTROL.search(out + error)
    assert len(out) < 100_000 and held < MEMORY_BYTES


def test_a_page_with_a_million_devices(server):
    s = server(page(b''.join(b'profgpu_power_watts{gpu="%d",uuid="GPU-%d"} 1\n' % (i, i) for i in range(300_000))))
    code, out, error, took, held = measured('top', '--once', '--remote', f'127.0.0.1:{s.port}')
    assert code == 0 and took < 30 and held < MEMORY_BYTES, (took, held)


def test_devices_that_are_new_each_time(server, tmp_path):
    """A screen that stays open does not grow without end."""
    from terminal_session import TerminalSession
    count = [0]

    def play(s):
        count[0] += 1
        s.sendall(page(b''.join(b'profgpu_power_watts{gpu="%d",uuid="GPU-%d-%d",host="node"} 1\n' % (i, i, count[0]) for i in range(4000))))

    s = server(play)
    t = TerminalSession(tmp_path, 120, 30, '--remote', f'127.0.0.1:{s.port}', '-i', '0.1')
    try:
        t.wait('node')

        def held():
            with open(f'/proc/{t.pid()}/statm') as f:
                return int(f.read().split()[1]) * 4096

        def until(n):
            end = time.monotonic() + 150
            while count[0] < n:
                assert time.monotonic() < end, f'it asked {count[0]} times: showing takes too long'
                time.sleep(0.05)

        until(20)   # the first pages are asked for faster than they are shown
        before = held()
        until(35)
        assert held() < before + (20 << 20)
        t.keys('q')
        assert t.exit_code() == 0
    finally:
        t.close()


WEBHOOKS = {name: ANSWERS[name] for name in ('nothing', 'silence', 'dripping header', 'garbage', 'endless headers', 'endless body', 'endless chunks', 'endless 100',
                                            'a huge length', 'to itself', 'an escape as reason', 'status 999')}
WEBHOOKS['never reads'] = lambda s: time.sleep(30)


@pytest.mark.parametrize('name', WEBHOOKS)
def test_a_receiver_that_is_none(server, name):
    s = server(WEBHOOKS[name])
    code, out, error, took, held = measured('monitor', '--test-alert', '--action-limit', '1', '--webhook', f'http://me:PLANTED1@127.0.0.1:{s.port}/services/T0/PLANTED2?token=PLANTED3',
                                            PROFGPU_NVML_LIBRARY=STUB)
    assert code in (0, 1) and took < 20 and held < MEMORY_BYTES, (code, took, held, error)
    assert not CONTROL.search(out + error) and 'PLANTED' not in out + error, error
    assert f'127.0.0.1:{s.port}' in error


def test_alerts_and_the_log_go_on_whatever_the_receiver_does(server, tmp_path):
    """Alerts rise and clear while every post hangs; nothing that was asked for is in the log or on the screen but where it was sent to."""
    s = server(lambda c: time.sleep(5))
    scenario = tmp_path / 'scenario.txt'
    scenario.write_text('device 0\nutilization square 0 100 0.5\n')
    log = tmp_path / 'gpu.jsonl'
    m = Monitor('--backend', 'nvml', '-i', '0.05', '-o', log, '--only-own-alerts', '--alert', 'busy: utilization_pct > 50 clear after 0s', '--action-limit', '1',
                '--webhook', f'http://me:PLANTED1@127.0.0.1:{s.port}/PLANTED2?x=PLANTED3', env=dict(PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=str(scenario)))
    try:
        m.wait_for(lambda: m.said.count('raised busy') >= 4)
        begun = time.monotonic()
        assert m.end() == 0 and time.monotonic() - begun < 15
        assert 'PLANTED' not in m.said and 'PLANTED' not in log.read_text()
        assert 'PLANTED2' in s.requests[0].decode() and m.said.count('retrying') == 1
    finally:
        m.kill()
