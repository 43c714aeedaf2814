"""profgpu top in a real terminal: what it shows, its keys, devices that fail, processes that are ended, how it leaves."""
import json
import os
import pwd
import re
import signal
import subprocess
import time

import pytest

from conftest import ROOT
from exporter_page import REPLAY, STUB
from terminal_session import TerminalSession

EIGHT = '''driver 550.54.15
device 0..7
name NVIDIA H100 80GB HBM3
utilization sine 20 95 13
memory_used 60e9
power 500
temperature 61
sm_clock 1830
'''


@pytest.fixture
def terminal(tmp_path):
    """terminal(width, height, *options, scenario=text) -> a TerminalSession"""
    running = []

    def run(width, height, *words, **more):
        folder = tmp_path / str(len(running))
        folder.mkdir()
        running.append(TerminalSession(folder, width, height, *words, **more))
        return running[-1]

    yield run
    for one in running:
        one.close()


@pytest.fixture
def child():
    """A process of this test that sleeps, of a job."""
    job = {'SLURM_JOB_ID': '815', 'SLURM_STEP_ID': '2', 'RANK': '3', 'WORLD_SIZE': '8'}
    process = subprocess.Popen(['sleep', '90'], env={**os.environ, **job})
    yield process
    process.kill()
    process.wait()


def restored(session):
    """The terminal echoes, and shows what it showed before."""
    text = session.wait('LEFT')
    assert 'memory' not in text, text
    modes = (session.folder / 'stty').read_text()
    return ' -echo ' not in modes and ' -icanon' not in modes


@pytest.mark.parametrize('width,height', [(80, 24), (120, 40), (200, 60)])
def test_sizes(terminal, width, height):
    t = terminal(width, height, scenario=EIGHT)
    text = t.wait(lambda s: s.count('/79.6 GiB') == 8 and 'h help' in s)
    lines = text.split('\n')
    assert len(lines[0]) <= width and '8 × NVIDIA H100 80GB HBM3' in lines[0] and 'driver 550.54.15' in lines[0]
    assert re.match(r'CPU +\S* +(\d+|–)( %)? .*memory .*/[\d.]+ GiB', lines[1]), lines[1]
    assert lines[2].startswith('GPU utilization')
    assert 'now' in text or height == 24, 'a time axis where there is room for charts'
    for i in range(8):
        assert any(re.match(rf'{i}  ?[ >] .* 55\.9/79\.6 GiB .*500/700 W .*61 °C .*1830 MHz', line) for line in lines), text
    assert 'no process is on a device' in text
    assert lines[height - 1].startswith('h help  q quit')
    t.keys('q')
    assert t.exit_code() == 0 and restored(t)


def test_resize(terminal):
    t = terminal(80, 24, scenario=EIGHT)
    t.wait('/79.6 GiB')
    for width, height in ((200, 60), (40, 10), (20, 4), (100, 30)):
        t.tmux('resize-window', '-x', str(width), '-y', str(height))
        if (width, height) == (20, 4):
            t.wait('too small')
        else:
            t.wait(lambda s, height=height: s.rstrip('\n').split('\n')[-1].startswith('h help') and len(s.rstrip('\n').split('\n')) == height)


def test_keys(terminal, child):
    t = terminal(100, 30, scenario=EIGHT + f'device 1\nprocess {child.pid} C memory=2000000000 sm=20\n'
                 f'device 2\nprocess {os.getpid()} C memory=9000000000 sm=40\n')
    t.wait('sleep 90')
    t.keys('/')
    t.keys('sleep')
    assert str(os.getpid()) not in t.wait('filter: sleep').split('COMMAND')[1]
    t.keys('Enter')
    t.wait(lambda s: 'filter: sleep' in s and 'h help' in s)
    t.keys('Escape')
    t.wait(lambda s: 'filter: ' not in s)
    t.keys('t')
    t.wait(r'└ sleep 90')
    t.keys('d')
    assert t.wait('clocks       SM 1830').split('\n')[2].startswith('GPU 0')
    t.keys('Right')
    t.wait(lambda s: s.split('\n')[2].startswith('GPU 1'))
    t.keys('Escape', 'u')
    assert re.search(r'\n\S+ +2 +10\.2 GiB +60 %', t.wait('host memory'))
    t.keys('l')
    t.wait('NV#: that many')
    t.keys('h')
    t.wait('select a process')
    t.keys('h', '>')
    t.wait(lambda s: 'SM▼' in s)
    assert ', every 1 s' in t.screen().split('\n')[0]
    t.keys('+')
    t.wait(', every 2 s')
    t.keys('s')
    t.wait('interval, in seconds or as 100ms:')
    t.keys('50ms', 'Enter')
    t.wait(', every 0.05 s')
    # A click on a heading, as this terminal reports it.
    heading = next(i for i, line in enumerate(t.screen().split('\n')) if 'COMMAND' in line) + 1
    t.tmux('send-keys', '-l', '\x1b[M ' + chr(32 + 9) + chr(32 + heading))
    t.wait(lambda s: 'PID▲' in s)
    t.keys('q')
    assert t.exit_code() == 0


def test_a_process_is_ended_after_yes(terminal, child):
    t = terminal(100, 24, scenario=f'device 0\nprocess {child.pid} C memory=2000000000 sm=20\n')
    t.wait('sleep 90')
    t.keys('Down', 'k')
    t.wait('signal: t TERM')
    t.keys('t')
    t.wait(f'SIGTERM to {child.pid} sleep 90')
    t.keys('n')
    t.wait('nothing was done')
    assert child.poll() is None
    t.keys('n')
    t.keys('7', 'Enter')
    t.wait('nice value 7 for')
    t.keys('y')
    t.wait(': done')
    assert os.getpriority(os.PRIO_PROCESS, child.pid) == 7
    t.keys('k', 'i', 'y')
    assert child.wait(timeout=60) == -signal.SIGINT


def test_a_device_is_lost_and_another_hangs(terminal):
    t = terminal(120, 30, '-i', '0.2', scenario=EIGHT + 'device 3\nlost 1\ndevice 6\nhang any 1\n')
    t.wait('GPU is lost')
    text = t.wait('does not answer, since')
    assert text.count('/79.6 GiB') == 6
    # Keys answer at once, and the others go on.
    t.keys('h')
    t.wait('select a process')
    t.keys('h')
    first = t.wait('/79.6 GiB')
    t.wait(lambda s: '/79.6 GiB' in s and s.split('\n')[3] != first.split('\n')[3])
    t.keys('q')
    assert t.exit_code(3) == 0 and restored(t)


@pytest.mark.parametrize('name,code', [('SIGINT', 0), ('SIGTERM', 143), ('SIGHUP', 129)])
def test_signals_leave_the_terminal_as_it_was(terminal, name, code):
    t = terminal(80, 24, scenario=EIGHT)
    t.wait('/79.6 GiB')
    os.kill(t.pid(), getattr(signal, name))
    assert t.exit_code() == code and restored(t)


def test_stop_and_continue(terminal):
    t = terminal(80, 24, scenario=EIGHT, shell='set -m')
    t.wait('/79.6 GiB')
    pid = t.pid()
    t.keys('C-z')
    t.wait(lambda s: 'LEFT' in s)
    with open(f'/proc/{pid}/stat') as f:
        assert f.read().rsplit(')', 1)[1].split()[0] == 'T'
    assert ' -echo ' not in (t.folder / 'stty').read_text()
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGCONT)


def test_a_recording_is_played_back(terminal, tmp_path, child):
    log = tmp_path / 'seen.jsonl'
    where = f'{pwd.getpwuid(os.getuid()).pw_name[:8]} .* job 815\\.2, rank 3/8 +sleep 90'
    t = terminal(160, 24, '-i', '0.1', '--record', log, scenario=EIGHT + f'device 1\nprocess {child.pid} C memory=2000000000 sm=20\n')
    t.wait(lambda s: re.search(where, s))
    time.sleep(2.5)
    t.keys('q')
    assert t.exit_code() == 0
    assert re.search(r'\d+ rows were written to', t.error.read_text())
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert {row['device'] for row in rows} == {str(i) for i in range(8)} or {row['device'] for row in rows} == set(range(8))
    child.kill()
    child.wait()
    again = terminal(160, 24, '--backend', f'replay:{log}')
    text = again.wait(lambda s: s.count('/79.6 GiB') == 8 and re.search(where, s))
    assert str(child.pid) in text
    again.keys('/')
    again.keys('job 815')
    again.wait(lambda s: 'filter: job 815' in s and 'sleep 90' in s)
    again.keys('Enter', 'Escape')
    again.keys('Down', 'k')
    again.wait('not on this machine')
    again.wait('the recording has ended')


def test_a_full_disk_is_said_on_the_screen(terminal):
    if not os.path.exists('/dev/full'):
        pytest.skip('no /dev/full here')
    t = terminal(100, 24, '-i', '0.1', '--record', '/dev/full', scenario=EIGHT)
    t.wait('recording stopped')
    t.keys('q')
    assert t.exit_code() == 1


def test_plain_terminals(terminal):
    t = terminal(100, 24, scenario=EIGHT, env={'LC_ALL': 'C', 'NO_COLOR': '1'})
    t.wait('/79.6 GiB')
    text = t.screen(colours=True)
    assert '###' in text and text.isascii()
    t.keys('d')
    text = t.wait('clocks       SM 1830')
    assert text.isascii() and '?' not in text, text
    text = t.screen(colours=True)
    assert not re.search(r'\x1b\[[0-9;]*3[0-7]', text), 'colours in spite of NO_COLOR'
    console = terminal(100, 24, scenario=EIGHT, env={'TERM': 'linux'})
    console.wait('/79.6 GiB')
    assert console.screen().isascii()   # of Linux: it has no braille
    dumb = terminal(100, 24, scenario=EIGHT, env={'TERM': 'dumb'})
    assert dumb.exit_code() == 0
    assert 'showing one frame' in dumb.error.read_text() and '/79.6 GiB' in dumb.screen()
    unknown = terminal(100, 24, scenario=EIGHT, env={'TERM': 'no-such-terminal'})
    assert unknown.exit_code() == 1
    assert 'no-such-terminal' in unknown.error.read_text()


def test_once(profgpu, tmp_path):
    result = profgpu('top', '--once', '--backend', REPLAY)
    text = result.stdout.decode()
    assert result.returncode == 0 and text.count('GiB') >= 2 and 'python train.py' in text and '\x1b' not in text
    assert profgpu('top', '--backend', REPLAY).stdout.decode().count('GiB') >= 2   # no terminal
    scenario = tmp_path / 's.txt'
    scenario.write_text(EIGHT + 'device 2\nhang nvmlDeviceGetComputeRunningProcesses_v3 0\n')
    env = dict(os.environ, PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=str(scenario))
    begun = time.monotonic()
    text = profgpu('top', '--once', '--backend', 'nvml', env=env).stdout.decode()
    assert time.monotonic() - begun < 50, 'what hangs, hangs for ever'
    assert text.count('/79.6 GiB') == 7 and 'does not answer' in text


def test_errors(profgpu, tmp_path):
    missing = profgpu('top', '--backend', 'replay:/nowhere.jsonl')
    assert missing.returncode == 1 and b'nowhere' in missing.stderr
    none = profgpu('top', '--backend', 'none')
    assert none.returncode == 1 and b'hint' in none.stderr
    assert profgpu('top', '--interval', '0').returncode == 2
    assert profgpu('top', '--sort', 'beauty').returncode == 2
    assert profgpu('top', '--once', '--record', tmp_path / 'x.jsonl', '--backend', REPLAY).returncode == 2
    hidden = profgpu('top', '--device', '7', '--backend', REPLAY)
    assert hidden.returncode == 1 and b'hint' in hidden.stderr
