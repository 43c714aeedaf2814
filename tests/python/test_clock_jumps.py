"""Unix time jumps by hours while a command runs, as where a machine gets its time late or a person sets it: what lasts a while lasts as long as it
does, nothing is raised or ended by the jump, counters go on, and what was written is read."""
import contextlib
import itertools
import json
import os
import shutil
import struct
import subprocess
import threading
import time

import pytest

from conftest import ROOT, program
from exporter_page import STUB, Exporter
from test_monitor import Monitor
from test_record import SIM, environment

HOUR = 3600
# Ahead, far back behind the start, to 1970, and right again.
JUMPS = (HOUR, -2 * HOUR, -int(time.time()) + 5, 40 * 365 * 24 * HOUR, 0)
STEADY = 'device 0..1\nutilization 40\npower 200\n'


class Clock:
    def __init__(self, library, folder):
        self.path = folder / 'offset'
        self.env = dict(LD_PRELOAD=str(library), CLOCK_OFFSET=str(self.path))
        self.path.write_bytes(bytes(8))

    def jump(self, seconds):
        with open(self.path, 'r+b') as file:
            file.write(struct.pack('<q', seconds * 1_000_000_000))

    @contextlib.contextmanager
    def jumping(self, every):
        """Jumps all the while."""
        over = threading.Event()

        def work():
            for seconds in itertools.cycle(JUMPS):
                if over.wait(every):
                    return
                self.jump(seconds)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@pytest.fixture(scope='module')
def library(tmp_path_factory):
    compiler = shutil.which('cc') or shutil.which('gcc')
    if not compiler:
        pytest.skip('there is no C compiler')
    out = tmp_path_factory.mktemp('clock') / 'clock.so'
    subprocess.run([compiler, '-O1', '-Wall', '-Werror', '-shared', '-fPIC', os.path.join(ROOT, 'tests', 'support', 'clock_jump.c'), '-o', out], check=True)
    return out


@pytest.fixture
def clock(library, tmp_path):
    return Clock(library, tmp_path)


@pytest.fixture
def devices(clock, stage):
    """devices(scenario) -> the environment of a machine with them, whose clock jumps"""
    return lambda text=STEADY: dict(os.environ, PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=str(stage(text)), **clock.env)


def test_a_log_lasts_as_long_as_it_was_to(clock, devices, tmp_path, profgpu):
    path = tmp_path / 'gpu.jsonl'
    begun = time.monotonic()
    with clock.jumping(0.4):
        r = profgpu('log', '--backend', 'nvml', '-i', '0.05', '--duration', '3', '-o', path, env=devices())
    assert r.returncode == 0 and 2.5 < time.monotonic() - begun < 20, r.stderr
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) > 60   # 120 of two devices, on a machine that has time
    r = profgpu('analyze', path, '--json')
    assert r.returncode == 0, r.stderr
    json.loads(r.stdout, parse_constant=lambda name: pytest.fail(name))
    r = profgpu('analyze', path)
    assert r.returncode == 0 and r.stdout
    assert profgpu('stat', '--backend', f'replay:{path},speed=max').returncode == 0


def test_alerts_last_as_they_say(clock, devices, tmp_path):
    """No jump makes two seconds of an hour, and none holds an alert up that is due."""
    scenario = 'device 0\nutilization square 0 100 1\npower 200\ntemperature 90\n'
    m = Monitor('--backend', 'nvml', '-i', '0.05', '--only-own-alerts', '-o', tmp_path / 'gpu.jsonl', '--alert', 'long: temperature_c > 85 for 10m',
                '--alert', 'mean: mean(power_w, 10m) > 100', '--alert', 'grown: increase(energy_j, 1h) > 1e6', '--alert', 'due: temperature_c > 85 for 1s',
                '--alert', 'busy: utilization_pct > 50 clear after 0s', env=devices(scenario))
    try:
        with clock.jumping(0.3):
            m.wait_until_it_says('raised due')
            seen = m.said.count('raised busy')
            m.wait_for(lambda: m.said.count('raised busy') >= seen + 3)
        assert m.end() == 0
        assert not any(f'raised {name}' in m.said for name in ('long', 'mean', 'grown')), m.said
        assert m.said.count('raised due') == 1 and 'cleared due' not in m.said
        for line in (tmp_path / 'gpu.jsonl').read_text().splitlines():
            json.loads(line)
    finally:
        m.kill()


def test_the_exporter_s_counters_go_on(clock, devices):
    begun = time.monotonic()
    e = Exporter('--backend', 'nvml', '-i', '0.05', env=devices()).wait_ready()
    try:
        last = [0, 0]
        with clock.jumping(0.3):
            for _ in range(30):
                watched = e.values('profgpu_watched_seconds_total')
                assert watched >= last and max(watched) < time.monotonic() - begun + 2, watched
                last = watched
                status, _, text = e.get('/health')
                assert status == 200, text
                assert e.values('profgpu_device_up') == [1, 1]
                time.sleep(0.1)
        assert min(last) > 1
        assert e.end()[0] == 0
    finally:
        e.kill()


def test_a_run_takes_the_time_that_it_takes(clock, devices):
    with clock.jumping(0.3):
        r = subprocess.run([program('PROFGPU', 'profgpu'), 'run', '--json', '--backend', 'nvml', '-i', '0.05', '--', 'sleep', '2'], env=devices(), capture_output=True,
                           stdin=subprocess.DEVNULL, timeout=60)
    assert r.returncode == 0, r.stderr
    document = json.loads(r.stdout.splitlines()[-1])
    assert 2 <= document['wall_ns'] / 1e9 < 10, document
    for device in document['devices']:
        assert 1 < device['watched_ns'] / 1e9 < 10 and 0 <= device['energy_j'] < 200 * 10, device


@pytest.mark.parametrize('seconds', [HOUR, -2 * HOUR, JUMPS[2]], ids=['ahead', 'back', 'to 1970'])
def test_a_recording_is_read(clock, tmp_path, profgpu, seconds):
    """CUPTI's own times jump with the clock, ahead or back: that is said, and each part is where it was."""
    r = subprocess.run([program('PROFGPU', 'profgpu'), 'run', '-q', '--backend', 'none', '--trace', '-o', tmp_path / 'x', '--', SIM, '--kernels', '1000', '--steps', '8',
                        '--step-us', '100000', '--clock-set-ns', str(seconds * 1_000_000_000)],
                       env=environment(**clock.env, PROFGPU_RECORD_OPTIONS='flush_ms=50'), capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    assert r.returncode == 0, r.stderr
    r = profgpu('analyze', tmp_path / 'x', '--json')
    assert r.returncode == 0, r.stderr
    report = json.loads(r.stdout, parse_constant=lambda name: pytest.fail(name))
    rank = report['ranks'][0]
    assert any('clock' in issue['text'] for source in report['inputs'] for issue in source['issues'])
    assert sum(k['count'] for k in rank['kernels'] if k['kind'] == 'compute') == 1000 + 8 * 40
    assert not any('another profiler in the process' in issue['text'] for source in report['inputs'] for issue in source['issues'])
    assert len(rank['steps']) == 8 and all(0 < d['window_ns'] < 60e9 for d in rank['devices'])


def test_a_name_for_a_folder_in_the_year_1970(clock, tmp_path):
    clock.jump(-int(time.time()) - 10)   # before it, even
    r = subprocess.run([program('PROFGPU', 'profgpu'), 'run', '-q', '--backend', 'none', '--trace', '--', 'true'], env=environment(**clock.env), cwd=tmp_path,
                       capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    assert r.returncode == 0, r.stderr
    (name,) = [n for n in os.listdir(tmp_path) if n.startswith('profgpu-')]
    assert name.isprintable() and ' ' not in name
