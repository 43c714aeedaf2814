#!/usr/bin/env python3
"""What `profgpu top` costs, beside nvitop and gpustat: time to the first frame, CPU time, memory.

  bench/top.py BUILD [--rounds N] [--window S]

The driver is our stand-in (tests/stubs/nvml) with eight devices, for all alike. Each program runs in a terminal of 120 × 40 cells that this script keeps (a pty,
which answers where its cursor is and no other question). The first frame is there when the screen has the last device's memory on it; CPU time and memory are those of the process, over a
window that begins two seconds after its start. nvitop and gpustat come from PyPI into build/venv-bench, where they are installed; nvitop's shortest interval is
0.25 s, gpustat's 0.1 s. A program that cannot show the stand-in's devices is named and left out. Writes BUILD/results/top.json; bench/report.py makes docs/performance.md of it.
"""
import argparse
import fcntl
import os
import pty
import re
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
from sampler import DEVICES, processor_ns, resident_bytes  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, 'build', 'venv-bench')
COUNT = 8
ROWS, COLUMNS = 40, 120
ESCAPE = re.compile(rb'\x1b(\[[0-?]*[ -/]*[@-~]|[()][A-Z0-9]|[=>78])')


# What every terminal answers; gpustat's library waits for it.
WHERE_IS_CURSOR, CURSOR_IS = b'\x1b[6n', b'\x1b[1;1R'


class NoFrame(Exception):
    """A program that cannot show the stand-in's devices."""


class OnTerminal:
    """A program on a pty. What it writes is kept, so that it never waits for a reader."""

    def __init__(self, words, env):
        self.begun = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(words[0], words, env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', ROWS, COLUMNS, 0, 0))
        self.text = b''

    def read(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                try:
                    text = os.read(self.fd, 1 << 16)
                except OSError:
                    return
                self.text += text
                os.write(self.fd, CURSOR_IS * text.count(WHERE_IS_CURSOR))
                yield

    def first_frame_ms(self, is_there):
        for _ in self.read(20):
            if is_there(ESCAPE.sub(b' ', self.text)):
                return (time.monotonic() - self.begun) * 1e3
        raise NoFrame(ESCAPE.sub(b' ', self.text)[-300:])

    def run(self, seconds):
        for _ in self.read(seconds):
            self.text = b''

    def end(self):
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            self.run(0.05)
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                break
        else:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def programs(build):
    """{name: (words for an interval, intervals)}"""
    ours = os.path.join(build, 'profgpu')
    out = {'profgpu top': (lambda s: [ours, 'top', '--backend', 'nvml', '-i', str(s)], (1, 0.1))}
    for name, words, intervals in (('nvitop', lambda s: ['-m', 'full', '--interval', str(s)], (1, 0.25)),
                                   ('gpustat', lambda s: ['-i', str(s), '--force-color'], (1, 0.1))):
        path = os.path.join(VENV, 'bin', name)
        if os.access(path, os.X_OK):
            out[name] = (lambda s, path=path, words=words: [path, *words(s)], intervals)
        else:
            print(f'{name} is not in {VENV}: left out ({VENV}/bin/pip install {name})', file=sys.stderr)
    return out


def devices_there(text):
    """Each of them has shown its memory, whatever it is called."""
    return len(re.findall(rb'[0-9.]+ *(?:MiB|GiB)? */ *[0-9.]+ *(?:GiB|MiB|MB|GB)', text)) >= COUNT


def measure(words, env, window):
    program = OnTerminal(words, env)
    try:
        result = {'first_frame_ms': program.first_frame_ms(devices_there)}
        program.run(2)
        before, begun = processor_ns(program.pid), time.monotonic()
        program.run(window)
        result['cpu_pct'] = (processor_ns(program.pid) - before) / (time.monotonic() - begun) / 1e7
        result['resident_bytes'], result['own_bytes'] = resident_bytes(program.pid)
        return result
    finally:
        program.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--window', type=float, default=10)
    a = parser.parse_args()
    out = {'machine': machine.description(a.build), 'devices': COUNT, 'rows': ROWS, 'columns': COLUMNS, 'programs': {}}
    with tempfile.TemporaryDirectory() as folder:
        scenario = os.path.join(folder, 'scenario.txt')
        with open(scenario, 'w') as f:
            f.write(f'driver 550.54.15\ndevice 0..{COUNT - 1}\n{DEVICES}')
        stub = os.path.join(a.build, 'tests', 'stubs')
        env = dict(os.environ, PROFGPU_NVML_LIBRARY=os.path.join(stub, 'libnvidia-ml.so.1'), PROFGPU_NVML_SCENARIO=scenario, LD_LIBRARY_PATH=stub,
                   TERM='xterm-256color', LC_ALL='C.UTF-8')
        runs = {}
        for _ in range(a.rounds):   # one after the other, so that what the machine does meanwhile meets all of them
            for name, (words, intervals) in programs(a.build).items():
                for interval in intervals:
                    try:
                        runs.setdefault(name, {}).setdefault(str(interval), []).append(measure(words(interval), env, a.window))
                    except NoFrame as e:
                        print(f'{name}: shows no devices here: {e}', file=sys.stderr)
    for name, intervals in runs.items():
        out['programs'][name] = {i: {key: statistics.median(r[key] for r in rows) for key in rows[0]} for i, rows in intervals.items() if rows}
        for i, row in out['programs'][name].items():
            print(f'{name:12} every {i:>4} s: first frame {row["first_frame_ms"]:7.1f} ms, processor {row["cpu_pct"]:5.2f} %, '
                  f'memory {row["resident_bytes"] / 1e6:5.1f} MB ({row["own_bytes"] / 1e6:.1f} its own)')
    machine.write_result(a.build, 'top', out)


if __name__ == '__main__':
    main()
