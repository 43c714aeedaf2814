"""scripts/gpu-check with stand-ins for NVML and nvidia-smi that agree, or do not, and without any GPU."""
import json
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ.get('PROFGPU') or os.path.join(ROOT, 'build', 'release', 'profgpu'))
STUB = os.environ.get('NVML_STUB') or os.path.join(os.path.dirname(PROGRAM), 'tests', 'stubs', 'libnvidia-ml.so.1')
SMI = os.path.join(ROOT, 'tests', 'stubs', 'nvidia-smi', 'nvidia-smi')
sys.path.insert(0, os.path.join(ROOT, 'scripts'))
from gpu_check import devices, fields, page  # noqa: E402

SCENARIO = '''driver 590.48.01
device 0
name NVIDIA H100 80GB HBM3
utilization 90
memory_utilization 40
memory_used 8589934592
power 600
temperature 60
sm_clock 1700
pstate 0
gpm 1
gpm_sm 80
gpm_tensor 50
process 4242 C memory=2300575744
'''


def clean_environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(('CUDA_', 'NVIDIA_', 'PROFGPU_'))}
    return {**kept, 'PROFGPU': PROGRAM, **{k: str(v) for k, v in more.items()}}


def gpu_check(*words, env):
    return subprocess.run([sys.executable, os.path.join(ROOT, 'scripts', 'gpu-check'), *map(str, words)], env=env,
                          capture_output=True, text=True, timeout=120, cwd=ROOT)


@pytest.fixture
def stage(tmp_path):
    """stage(metric=value...) -> an environment where both stand-ins say the same, those metrics of nvidia-smi's aside."""
    if not os.path.exists(STUB):
        pytest.skip(f'the stand-in library is not built: {STUB}')

    def environment(**otherwise):
        scenario, capture = tmp_path / 'scenario.txt', tmp_path / 'capture.txt'
        scenario.write_text(SCENARIO)
        env = clean_environment(PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=scenario)
        stat = json.loads(subprocess.run([PROGRAM, 'stat', '--json'], env=env, capture_output=True, check=True).stdout)
        said, cells = stat['devices'][0], {}
        for f in fields.FIELDS:
            value = otherwise.get(f.metric, said[f.metric])
            text = '[N/A]' if value is None else f'{value / f.scale:.2f}'
            cells[f.smi[-1]] = f'P{value}' if f.metric == 'performance_state' else text
        cells |= {'timestamp': '', 'index': '0', 'uuid': said['uuid'], 'pci.bus_id': said['pci_bus_id'].upper(),
                  'name': said['name'], 'driver_version': '590.48.01'}
        capture.write_text(f'# $ nvidia-smi --query-gpu={",".join(cells)} --format=csv\n####\nheader\n'
                           + ', '.join(cells.values()) + '\n')
        return env | {'PROFGPU_NVIDIA_SMI': SMI, 'PROFGPU_SMI_CAPTURE': str(capture)}

    return environment


def test_all_is_well(stage, tmp_path):
    result = gpu_check('--seconds', 4, '--out', tmp_path / 'out', 'devices', env=stage())
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((tmp_path / 'out' / 'gpu-devices.json').read_text())
    checks = {c['name']: c for c in document['checks']}
    assert document['simulated'] is True and all(c['ok'] is not False for c in checks.values())
    assert set(checks) == {'fields', 'energy', 'chip counters', 'processes', 'sampler', 'devices', 'stat', 'pick', 'doctor'}
    assert abs(checks['energy']['off_pct']) < 5 and checks['energy']['counter_j'] > 100
    assert checks['sampler']['ticks'] >= 30 and checks['processes']['nvidia_smi'] == 1
    compared = [f for f in document['fields'] if f['ok']]
    assert len(compared) > 35 and all(f['rows'] >= 4 for f in compared)
    assert 'energy_j' in document['not_said_by_nvidia_smi']
    text = (tmp_path / 'out' / 'gpu-devices.md').read_text()
    assert '**Simulated' in text and '| power_w |' in text and ROOT not in text


def test_the_package(stage, tmp_path):
    library = os.environ['PROFGPU_LIBRARY']
    if not os.path.exists(library):
        pytest.skip('libprofgpu.so is not built: ' + library)
    for more, code in (({}, 0), (dict(power_w=400), 1)):
        result = gpu_check('--seconds', 4, '--out', tmp_path / 'out', 'package', env=stage(**more) | {'PROFGPU_LIBRARY': library})
        checks = {c['name']: c for c in json.loads((tmp_path / 'out' / 'gpu-package.json').read_text())['checks']}
        assert checks['GpuMonitor']['samples'] >= 20 and checks['GpuMonitor']['nvidia_smi'] >= 1
        assert checks['quick_benchmark']['ok'] is None and checks['ranges']['said']
        if checks['ranges']['ok']:   # a bound on time, on a machine that may be busy
            assert result.returncode == code, result.stdout + result.stderr
        assert checks['GpuMonitor']['ok'] is (code == 0), checks
    assert 'power_mean_w is 600.0, nvidia-smi says 400.0' in checks['GpuMonitor']['said']


def test_fields_that_are_off(stage, tmp_path):
    off = {'temperature_c': 85, 'memory_used_bytes': 9589934592, 'power_limit_w': 650}
    result = gpu_check('--seconds', 2, '--out', tmp_path / 'out', 'devices', env=stage(**off, fan_speed_pct=40))
    assert result.returncode == 1
    said, = [line for line in result.stdout.splitlines() if line.startswith('FAILED devices: fields: ')]
    assert all(f'{metric} of device 0: 0.0 % of' in said for metric in off)
    assert 'fan_speed_pct of device 0: only nvidia-smi says it' in said and said.count(' of device 0') == 4


def test_a_load_that_fails(stage, tmp_path):
    broken = tmp_path / 'profgpu'
    broken.write_text(f'#!/bin/sh\n[ "$1" = run ] && exit 3\nexec {PROGRAM} "$@"\n')
    broken.chmod(0o755)
    result = gpu_check('--seconds', 2, '--out', tmp_path / 'out', env=stage() | {'PROFGPU': str(broken)})
    assert result.returncode == 1 and 'load: profgpu run ended with 3' in result.stdout


def test_results_of_stand_ins_stay_out_of_docs(stage):
    result = gpu_check('--out', 'docs/results', env=stage())
    assert result.returncode == 2 and 'stand-ins' in result.stderr


def test_without_a_gpu(tmp_path):
    env = clean_environment(PATH=tmp_path)
    result = gpu_check('--out', tmp_path / 'out', env=env)
    assert result.returncode == 77 and result.stdout == '' and 'nvidia-smi' in result.stderr
    for mode, words in (('nodriver', 'NVIDIA driver'), ('nodevice', 'No devices')):
        (tmp_path / 'nvidia-smi').unlink(missing_ok=True)
        (tmp_path / 'nvidia-smi').write_text(f'#!/bin/sh\nPROFGPU_SMI_MODE={mode} exec {sys.executable} {SMI} "$@"\n')
        (tmp_path / 'nvidia-smi').chmod(0o755)
        result = gpu_check('--out', tmp_path / 'out', env=env)
        assert result.returncode == 77 and words in result.stderr
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize('words', [('--seconds', '1'), ('--seconds', 'nan'), ('nothing',), ('--unknown',)])
def test_usage(words):
    assert gpu_check(*words, env=clean_environment()).returncode == 2


def test_numbers_of_nvidia_smi():
    cells = {'45': 45, '45 %': 45, '1024 MiB': 1024, '-2': -2, 'P8': 8, '0x0000000000000004': 4, 'Not Active': 0, '76.50 W': 76.5,
             '[N/A]': None, 'N/A': None, '': None, '[Not Supported]': None, 'ERR!': None}
    assert {text: fields.number(text) for text in cells} == cells


def test_distance_looks_at_the_neighbours():
    series = [(0, 10), (10**9, 20), (2 * 10**9, 40)]
    assert fields.distance(15, series, 5 * 10**8, 0.1) == 0
    assert fields.distance(35, series, 5 * 10**8, 0.1) == 15
    assert fields.distance(50, series, 9 * 10**9, 0.1) == 10
    assert fields.distance(5, [(10**9, 7)], 0, 0.1) == 2


def test_energy_against_power():
    ours = {('0', 'energy_j'): [(t * 10**9, 100 * t) for t in range(10)], ('0', 'power_w'): [(t * 10**9, 100) for t in range(10)]}
    assert devices.energy_check('0', ours, 0, 10**11)['ok'] is True
    ours[('0', 'power_w')] = [(t * 10**9, 110) for t in range(10)]
    assert devices.energy_check('0', ours, 0, 10**11)['ok'] is False
    assert devices.energy_check('0', {('0', 'energy_j'): [(0, 5), (10**9, 5)], ('0', 'power_w'): [(0, 5), (10**9, 5)]}, 0,
                                10**11)['ok'] is False
    assert devices.energy_check('0', {}, 0, 1)['ok'] is None
    beside = {('0', 'energy_j'): [(0, 0), (10**9, 100)], ('0', 'power_w'): [(10**9, 100), (2 * 10**9, 100)]}
    assert devices.energy_check('0', beside, 0, 10**11)['ok'] is None


def test_chip_counters():
    spans = [('rest', 0, 10), ('work', 20, 30)]
    good = {('0', 'sm_active_pct'): [(5, 1), (25, 90)], ('0', 'tensor_active_pct'): [(5, 0), (25, 60)]}
    assert devices.gpm_check('0', good, spans, False)['ok'] is True
    idle = {**good, ('0', 'sm_active_pct'): [(5, 1), (25, 2)]}
    assert devices.gpm_check('0', idle, spans, False)['ok'] is False
    over = {**good, ('0', 'dram_active_pct'): [(5, 101)]}
    assert devices.gpm_check('0', over, spans, True)['ok'] is False
    assert devices.gpm_check('0', {}, spans, False)['ok'] is None


def test_a_page_keeps_its_table():
    row = {'name': 'a|b', 'ok': None, 'said': 'one\ntwo'}
    text = page.text('x', 'Title.', {'simulated': False, 'devices': [], 'machine': {'kernel': '6', 'glibc': '2', 'processors': 1},
                                     'profgpu': 'profgpu 0.1.0', 'seconds': 60, 'checks': [row]})
    assert '| a\\|b | · | one two |' in text and 'Simulated' not in text
