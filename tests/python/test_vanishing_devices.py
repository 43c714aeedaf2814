"""Devices that go, come back, hang and lie at random moments, cards whose files vanish, and an nvidia-smi that is killed: whoever watches goes on or
ends with a word, and what is written is whole."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import ROOT, program
from exporter_page import STUB, Exporter

SMI = os.path.join(ROOT, 'tests', 'stubs', 'nvidia-smi', 'nvidia-smi')
CALLS = ('any', 'nvmlDeviceGetUtilizationRates', 'nvmlDeviceGetMemoryInfo_v2', 'nvmlDeviceGetPowerUsage', 'nvmlDeviceGetSamples', 'nvmlDeviceGetTemperature',
         'nvmlDeviceGetComputeRunningProcesses_v3')
CODES = (2, 3, 4, 6, 7, 13, 15, 16, 17, 19, 20, 24, 25, 999)


def storm(source):
    """A scenario: each of four devices fails in its own ways, at times of its own."""
    lines = ['device 0..3', 'utilization square 0 100 0.4', 'power 300', 'memory_used 8e9', 'process 4711 C memory=1e9']
    for d in range(4):
        lines.append(f'device {d}')
        for _ in range(source.randrange(1, 5)):
            begin = source.random() * 2
            end = begin + source.random()
            lines.append(source.choice([f'lost {begin:.3f} {end:.3f}', f'reset_required {begin:.3f} {end:.3f}',
                                        f'error {source.choice(CALLS)} {source.choice(CODES)} {begin:.3f} {end:.3f}',
                                        f'hang {source.choice(CALLS)} {begin:.3f} {source.random() * 0.5:.3f}',
                                        f'xid {source.choice((13, 31, 48, 79, 94, 119, 99999))} {begin:.3f}']))
    return '\n'.join(lines) + '\n'


@pytest.mark.parametrize('seed', range(6))
def test_a_storm(seed, stage, tmp_path):
    environment = dict(os.environ, PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=str(stage(storm(random.Random(seed)))))
    log, rows = tmp_path / 'log.jsonl', tmp_path / 'monitor.jsonl'
    commands = {
        'log': ['log', '-i', '0.02', '--duration', '2', '-o', log], 'monitor': ['monitor', '-i', '0.02', '--duration', '2', '-o', rows],
        'run': ['run', '--json', '-i', '0.02', '--', 'sleep', '2'], 'stat': ['stat'], 'top': ['top', '--once'], 'devices': ['devices'], 'pick': ['pick'],
    }
    begun = time.monotonic()
    running = {name: subprocess.Popen([program('PROFGPU', 'profgpu'), words[0], '--backend', 'nvml', *map(str, words[1:])], env=environment,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for name, words in commands.items()}
    for name, process in running.items():
        out, error = process.communicate(timeout=60)
        assert process.returncode in (0, 1), (name, process.returncode, error)
        assert out or error or name in ('log', 'monitor'), name
        if name == 'run':
            assert process.returncode == 0
            json.loads(out.splitlines()[-1], parse_constant=lambda word: pytest.fail(word))
    assert time.monotonic() - begun < 50
    for path in (log, rows):
        for line in path.read_text().splitlines():
            json.loads(line)
    r = subprocess.run([program('PROFGPU', 'profgpu'), 'analyze', log], capture_output=True)
    assert r.returncode in (0, 1) and (r.stdout or r.stderr), r.stderr


def test_a_storm_on_the_exporter(stage):
    e = Exporter('--backend', 'nvml', '-i', '0.02', env=dict(PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=str(stage(storm(random.Random(99))))))
    try:
        end = time.monotonic() + 3.5
        while time.monotonic() < end:
            e.page()   # which a parser of its own reads
            assert e.get('/health')[0] in (200, 503)
        e.wait_for(lambda: e.values('profgpu_device_up') == [1] * 4)   # the storm is over
        assert e.end()[0] == 0
    finally:
        e.kill()


def card(root, name, pci):
    """An AMD card as the kernel shows it."""
    device = root / 'sys' / 'class' / 'drm' / name / 'device'
    (device / 'hwmon' / 'hwmon4').mkdir(parents=True)
    for file, text in (('vendor', '0x1002'), ('device', '0x740c'), ('uevent', f'DRIVER=amdgpu\nPCI_ID=1002:740C\nPCI_SLOT_NAME={pci}'), ('numa_node', '1'),
                       ('gpu_busy_percent', '40'), ('mem_info_vram_total', '68702699520'), ('mem_info_vram_used', '1000000'), ('hwmon/hwmon4/name', 'amdgpu'),
                       ('hwmon/hwmon4/power1_average', '100000000'), ('hwmon/hwmon4/temp1_input', '50000'), ('hwmon/hwmon4/temp1_label', 'edge')):
        (device / file).write_text(text + '\n')
    return root / 'sys' / 'class' / 'drm' / name


def test_cards_whose_files_vanish(tmp_path):
    root = tmp_path / 'machine'
    cards = [card(root, f'card{i}', f'0000:0{i}:00.0') for i in range(3)]
    (root / 'proc').mkdir()
    environment = dict(os.environ, PROFGPU_SYSFS_ROOT=str(root / 'sys'), PROFGPU_PROC_ROOT=str(root / 'proc'))
    log = tmp_path / 'log.jsonl'
    process = subprocess.Popen([program('PROFGPU', 'profgpu'), 'log', '--backend', 'amdgpu', '-i', '0.02', '--duration', '2', '-o', log], env=environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while not log.exists() or log.stat().st_size < 2000:
        assert process.poll() is None and time.monotonic() < end, process.stderr.read()
        time.sleep(0.01)
    source = random.Random(4)
    aside = tmp_path / 'aside'
    while process.poll() is None:
        victim = source.choice(cards)
        kind = source.randrange(4)
        if kind == 0:
            os.rename(victim, aside)
            time.sleep(0.05)
            os.rename(aside, victim)
        elif kind == 1:
            file = victim / 'device' / 'gpu_busy_percent'
            text = file.read_text()
            file.write_text(source.choice(['', '\n', '-1\n', '99999999999999999999\n', 'x' * 100_000, '\0\0']))
            time.sleep(0.03)
            file.write_text(text)
        elif kind == 2:
            shutil.move(victim / 'device' / 'hwmon', aside)
            time.sleep(0.03)
            shutil.move(aside, victim / 'device' / 'hwmon')
        else:
            file = victim / 'device' / 'mem_info_vram_used'
            file.unlink()
            file.mkdir()
            time.sleep(0.03)
            file.rmdir()
            file.write_text('1000000\n')
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert {row['device'] for row in rows} == {0, 1, 2}
    assert all(0 <= row.get('utilization_pct', 0) <= 100 for row in rows)


def test_an_nvidia_smi_that_is_killed(tmp_path):
    """Again and again: it is started anew, and rows go on."""
    starts = tmp_path / 'starts'
    environment = dict(os.environ, PROFGPU_NVIDIA_SMI=SMI, PROFGPU_SMI_LOG=str(starts), PATH=os.path.dirname(sys.executable) + ':' + os.environ['PATH'])
    log = tmp_path / 'log.jsonl'
    process = subprocess.Popen([program('PROFGPU', 'profgpu'), 'log', '--backend', 'smi', '-i', '0.1', '-o', log], env=environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def wait_for(is_so):
        end = time.monotonic() + 60
        while not is_so():
            assert process.poll() is None and time.monotonic() < end, process.poll()
            time.sleep(0.02)

    def rows():
        return log.read_text().count('\n') if log.exists() else 0

    try:
        for how in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
            before = rows()
            wait_for(lambda: rows() > before + 4)
            children = subprocess.run(['pgrep', '-P', str(process.pid)], capture_output=True, text=True).stdout.split()
            assert children
            for child in children:
                os.kill(int(child), how)
            before = rows()
            wait_for(lambda: rows() > before + 4)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0
        for line in log.read_text().splitlines():
            json.loads(line)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
