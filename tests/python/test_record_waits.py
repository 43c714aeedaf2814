"""profgpu run --trace: how long threads were blocked, by the kernel's context switches where it tells of them, else by /proc.
Lower bounds only: what sleeps for a time is blocked for at least as long, however busy the machine is."""
import ctypes
import json
import os
import resource
import struct
import subprocess
import sys

import pytest
from test_record import PROGRAM, document, environment, record

from recorded import Recording

SLEEPS = (23, 35, 230, 270)   # system calls that time.sleep() makes
# Each process says that it is to be analysed, as one that uses CUDA would. A file of all of rank 0 is one trace.
START = ('import ctypes, os\nrecorder = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])\n'
         'recorder.profgpu_start(b"test")\nrecorder.profgpu_mark(b"begin")\n')
SOME = START + '''
import subprocess, sys, threading, time
START = ''' + repr(START) + '''
def start(text, **more):
    return subprocess.Popen([sys.executable, '-S', '-c', START + text], **more)
sleeper = start('import time; time.sleep(1.5)')
reader = start('os.read(0, 1)', stdin=subprocess.PIPE)
spinner = start('import time\\nwhile time.process_time() < 1: pass')
pool = os.fork()
if pool == 0:
    def work():
        for _ in range(3):
            time.sleep(.4)
    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    os._exit(0)
print(sleeper.pid, reader.pid, spinner.pid, pool)
time.sleep(2)
reader.stdin.close()
for p in sleeper, reader, spinner:
    p.wait()
os.waitpid(pool, 0)
'''


class Recorded:
    def __init__(self, folder, *words, **more):
        r = record('-o', folder, '--no-python-hook', *words, command=(sys.executable, '-c', SOME), env=environment(RANK='0'), **more)
        self.sleeper, self.reader, self.spinner, self.pool = map(int, r.stdout.split())
        self.folder = folder
        self.said = document(folder)['recording']['host_samples']
        self.rows = Recording(os.path.join(folder, f'{os.uname().nodename}-host.pgt'))
        # It holds on machines where the kernel refuses; then these tests are of what is done without.
        self.by_switches = self.said['switches'] == 'recorded'
        analysis = subprocess.run([PROGRAM, 'analyze', '--json', folder], capture_output=True, timeout=60, env=environment())
        assert analysis.returncode == 0, analysis.stderr
        (rank,) = json.loads(analysis.stdout)['ranks']
        self.threads = {(int(t['process']), int(t['thread'])): t for t in rank['threads']}

    def waits(self, pid):
        return [w for w in self.rows['thread_wait'] if w['pid'] == pid]


def forbid_perf_events():
    """A filter as containers have it: perf_event_open() gives EPERM."""
    word = struct.Struct('HBBI')
    allow, refuse = 0x7fff0000, 0x00050001
    program = b''.join(word.pack(*w) for w in ((0x20, 0, 0, 0), (0x15, 0, 1, 298), (0x06, 0, 0, refuse), (0x06, 0, 0, allow)))
    text = ctypes.create_string_buffer(program)
    filter_ = struct.pack('HxxxxxxP', 4, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter_, 0, 0) == 0, os.strerror(ctypes.get_errno())


@pytest.fixture(scope='module')
def recorded(tmp_path_factory):
    return Recorded(tmp_path_factory.mktemp('waits') / 'x')


def test_a_sleeper_and_a_reader_are_blocked_and_a_spinner_is_not(recorded):
    source = 'switches' if recorded.by_switches else 'proc'
    sleeper, reader, spinner = (recorded.threads[(pid, pid)] for pid in (recorded.sleeper, recorded.reader, recorded.spinner))
    assert sleeper['blocked_source'] == reader['blocked_source'] == spinner['blocked_source'] == source
    for thread, calls in (sleeper, ('clock_nanosleep', 'pselect6', 'select')), (reader, ('read',)):
        assert thread['blocked_ns'] > 5e8 and thread['blocked_ns'] > 10 * thread['cpu_ns']
        first = thread['blocked_in'][0]
        assert first['call'] in calls and first['samples_pct'] > 50
        if recorded.by_switches:
            assert first['long_waits'] >= 1 and first['in_long_waits_ns'] >= 1.1e9 and thread['longest_wait_ns'] >= 1.1e9
    assert spinner['cpu_ns'] > 2e8 and spinner['blocked_ns'] < spinner['cpu_ns'] / 4
    for t in recorded.threads.values():
        assert 0 <= t['blocked_ns'] <= t['observed_ns'] - t['cpu_ns'] and 0 <= t['blocked_pct'] <= 100
        assert (t['waits'] is not None) == (t['blocked_source'] == 'switches')


def test_each_long_wait(recorded):
    if not recorded.by_switches:
        assert recorded.rows['thread_wait'] == [] and len(recorded.said['switches']) > 10
        pytest.skip('the fall-back was tested: ' + recorded.said['switches'])
    assert max(w['duration_ns'] for w in recorded.waits(recorded.sleeper)) >= 1.49e9
    assert max(w['duration_ns'] for w in recorded.waits(recorded.reader)) >= 1.19e9
    # Four threads of a forked child.
    sleeps = [w for w in recorded.waits(recorded.pool) if w['duration_ns'] >= 3.9e8 and w['tid'] != recorded.pool]
    assert len({w['tid'] for w in sleeps}) == 4 and len(sleeps) == 12
    for w in sleeps:
        samples = [s['time_ns'] for s in recorded.rows['thread_sample'] if s['tid'] == w['tid']]
        assert w['start_ns'] < samples[-1] and w['start_ns'] + w['duration_ns'] > samples[0]
    least = int(recorded.rows.properties['shortest_wait_ns'])
    assert recorded.rows.properties['switches'] == 'recorded' and least >= 1_000_000
    assert min(w['duration_ns'] for w in recorded.rows['thread_wait']) >= 1_000_000
    assert recorded.said['waits'] == len(recorded.rows['thread_wait']) and recorded.said['lost_switches'] == 0
    # Their sums only grow.
    for key in ('blocked_ns', 'preempted_ns', 'waits'):
        for tid in {s['tid'] for s in recorded.rows['thread_sample']}:
            values = [s[key] for s in recorded.rows['thread_sample'] if s['tid'] == tid]
            assert values == sorted(values)


def test_waits_in_tables_and_on_the_timeline(recorded, tmp_path):
    query = ("select t.thread, w.duration_ns, w.system_call from thread_waits w join threads t on t.id = w.thread_id "
             f"where t.process = '{recorded.sleeper}' order by w.duration_ns desc")
    r = subprocess.run([PROGRAM, 'query', '--json', recorded.folder, query], capture_output=True, timeout=60, env=environment())
    assert r.returncode == 0, r.stderr
    out = tmp_path / 'x.pftrace'
    export = subprocess.run([PROGRAM, 'export', recorded.folder, '--to', 'perfetto', '-o', out], capture_output=True, timeout=60,
                            env=environment())
    assert export.returncode == 0, export.stderr
    if recorded.by_switches:
        first = json.loads(r.stdout)[0]
        assert first['duration_ns'] >= 1.49e9 and first['system_call'] in SLEEPS
        assert b'blocked' in out.read_bytes() and any(name in out.read_bytes() for name in (b'nanosleep', b'select'))


@pytest.mark.parametrize('words,more,why', [
    (('--no-perf-events',), {}, 'not requested'), ((), {'preexec_fn': forbid_perf_events}, 'not allowed')])
def test_without_perf_events(tmp_path, words, more, why):
    without = Recorded(tmp_path / 'x', *words, **more)
    assert why in without.said['switches'] and without.rows.properties['switches'] == without.said['switches']
    assert without.rows['thread_wait'] == [] and {s['blocked_ns'] for s in without.rows['thread_sample']} == {-1}
    sleeper = without.threads[(without.sleeper, without.sleeper)]
    assert sleeper['blocked_source'] == 'proc' and sleeper['blocked_ns'] > 5e8 and sleeper['waits'] is None
    assert without.threads[(without.spinner, without.spinner)]['blocked_pct'] < 50


def test_the_command_is_as_it_was(tmp_path):
    for i, (script, code) in enumerate([('exit 7', 7), ('kill -TERM $$', 143), ('exec sh -c "exit 9"', 9), ('sleep 0.1 & exit 3', 3)]):
        record('-o', tmp_path / str(i), code=code, command=('sh', '-c', script))
    # No descriptor of ours is the command's.
    r = record('-o', tmp_path / 'fds', command=('sh', '-c', 'ls /proc/self/fd | wc -l'))
    assert int(r.stdout) <= 4
    r = record('-o', tmp_path / 'few', command=('true',), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))
    assert r.returncode == 0
