"""devices(), GPUtil's names, context_overhead() and profgpu.bench, against the stand-ins for NVML and CUDA."""
import dataclasses
import json
import os
import subprocess
import sys

import pytest
from package_script import ROOT, run_script
from test_bench import environment as bench_environment
from test_devices import SCENARIOS, STUB

import profgpu
from profgpu import inventory

pytestmark = pytest.mark.usefixtures('package')
MIB = 1 << 20


@pytest.fixture
def two_h100(monkeypatch):
    if not os.path.exists(STUB):
        pytest.skip(f'the stand-in library is not built: {STUB}')
    monkeypatch.setenv('PROFGPU_NVML_LIBRARY', STUB)
    monkeypatch.setenv('PROFGPU_NVML_SCENARIO', os.path.join(SCENARIOS, 'two_h100.txt'))
    monkeypatch.setenv('PROFGPU', os.environ.get('PROFGPU') or os.path.join(ROOT, 'build', 'release', 'profgpu'))


@pytest.fixture
def no_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv('PROFGPU', os.environ.get('PROFGPU') or os.path.join(ROOT, 'build', 'release', 'profgpu'))
    for name, path in (('NVML_LIBRARY', 'none.so'), ('NVIDIA_SMI', 'none'), ('SYSFS_ROOT', '')):
        monkeypatch.setenv('PROFGPU_' + name, str(tmp_path / path))


def test_devices_have_all_facts_and_readings(two_h100):
    first, second = profgpu.devices()
    assert (first.index, first.label, first.state, first.message) == (0, '0', 'ok', None)
    assert first.utilization_pct == first.readings['utilization_pct'] == 96 and second.utilization_pct == 0
    assert first.fan_speed_pct is None and first.absent['fan_speed_pct'] == 'not supported by this device'
    assert first.limits['power_limit_max_w'] == 700 and first.peaks['tflops']['bf16'] > 900
    assert first.facts['ecc_mode'] == 'enabled' and first.facts['driver_version'] == '550.54.15'
    assert first.links == {'1': 'NV18'} and second.links == {'0': 'NV18'}
    assert {p['pid'] for p in first.processes} == {4711, 4802} and second.processes == []
    assert first.metrics()['gpu/power_w'] == 690.0 and 'sm_active_pct' in dir(first)
    with pytest.raises(AttributeError, match='utilization_pct'):
        first.utilisation


def test_gpus_of_two_vendors_keep_their_own_facts(two_h100, monkeypatch):
    document, parsed = inventory._program.document, inventory._program.parsed
    other = {'label': '0', 'uuid': 'GPU-00000000000000aa', 'pci_bus_id': '0000:c1:00.0', 'vendor': 'AMD', 'index': 0}

    def with_other(found, **more):
        row = {**found['devices'][0], **other, **more}
        return {**found, 'devices': [*found['devices'], row], 'topology': []}

    monkeypatch.setattr(inventory._program, 'document', lambda *words: with_other(document(*words), limits={'memory_total_bytes': 1}))
    monkeypatch.setattr(inventory._program, 'parsed', lambda text: with_other(parsed(text)))
    first, second, third = profgpu.devices()
    assert first.limits['power_limit_max_w'] == 700 and third.limits == {'memory_total_bytes': 1}


def test_devices_by_the_names_of_gputil(two_h100, capsys):
    gpu = profgpu.getGPUs()[0]
    # As the guide prints it.
    line = 'GPU RAM Free: {0:.0f}MB | Used: {1:.0f}MB | Util {2:3.0f}% | Total {3:.0f}MB'.format(
        gpu.memoryFree, gpu.memoryUsed, gpu.memoryUtil * 100, gpu.memoryTotal)
    assert line.endswith('Total 81559MB') and gpu.load == 0.96 and gpu.temperature == 41 and gpu.serial
    assert gpu.memoryUtil == gpu.memoryUsed / gpu.memoryTotal
    profgpu.showUtilization()
    head, rule, first, second = capsys.readouterr().out.splitlines()
    assert head == '| ID | GPU | MEM |' and set(rule) == {'-'} and first.startswith('|  0 | 96% |')
    assert second == '|  1 |  0% |  0% |'
    profgpu.showUtilization(all=True)
    assert 'NVIDIA H100 80GB HBM3' in capsys.readouterr().out


def test_without_a_gpu(no_gpu, capsys):
    assert profgpu.devices() == profgpu.getGPUs() == []
    with pytest.raises(profgpu.GpuBackendError, match='no GPU found'):
        profgpu.devices(strict=True)
    profgpu.showUtilization()
    assert capsys.readouterr().out.startswith('no GPU found') and capsys.readouterr().out == ''
    with pytest.raises(profgpu.GpuBackendError):
        profgpu.context_overhead()
    with pytest.raises(profgpu.ProfgpuError, match='backend'):
        profgpu.devices(backend='cuda')


def _machine(monkeypatch, used, rows):
    """devices() gives these amounts of used memory, one a call, and `rows(pid)` as the processes of the last one."""
    made, children = iter(used), []
    template = inventory.Device(0, '0', 'GPU', 'NVIDIA', 'GPU-0', '', 'ok', None, {}, {}, {}, {}, {}, {}, [])
    popen = subprocess.Popen

    def start(*words, **more):
        children.append(popen(*words, **more))
        return children[-1]

    def devices(strict=False):
        taken = {'memory_used_bytes': next(made)}
        processes = rows(children[-1].pid) if children and children[-1].poll() is None else []
        return [dataclasses.replace(template, readings=taken, processes=processes)]

    monkeypatch.setattr(subprocess, 'Popen', start)
    monkeypatch.setattr(inventory, 'devices', devices)
    monkeypatch.setenv('PROFGPU_CUDA_LIBRARY', bench_environment()['PROFGPU_CUDA_LIBRARY'])
    monkeypatch.setenv('CUDA_MODEL', 'devices=1')
    return children


def test_what_a_context_takes(monkeypatch):
    children = _machine(monkeypatch, [100 * MIB, 590 * MIB], lambda pid: [{'pid': pid, 'memory_bytes': 480 * MIB}])
    found = profgpu.context_overhead(torch=False)
    assert (found.context_bytes, found.torch_bytes, found.method) == (480 * MIB, None, 'process')
    assert str(found) == 'a CUDA context takes 480 MiB' and children[0].returncode == 0


def test_what_a_context_takes_where_no_process_is_listed(monkeypatch):
    _machine(monkeypatch, [100 * MIB, 590 * MIB], lambda pid: [{'pid': pid + 1, 'memory_bytes': 7}])
    found = profgpu.context_overhead(torch=False)
    assert found.context_bytes == 490 * MIB and found.method == 'device' and 'other processes' in str(found)


def test_no_context_can_be_made(monkeypatch):
    _machine(monkeypatch, [0, 0], lambda pid: [])
    monkeypatch.setenv('CUDA_MODEL', 'no_device=1')
    with pytest.raises(profgpu.ProfgpuError, match='cuInit returned 100'):
        profgpu.context_overhead(torch=False)


def test_bench(monkeypatch, tmp_path):
    for name, value in bench_environment('devices=1,h2d=50').items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv('PROFGPU', os.environ.get('PROFGPU') or os.path.join(ROOT, 'build', 'release', 'profgpu'))
    before = profgpu.bench.launch()
    assert before.value('launch_call', device=0) > 0 and before.metrics()['bench/launch_call/0'] > 0
    assert {f['benchmark'] for f in before.figures} == {'launch'} and 'launch, time of the call' in str(before)
    with pytest.raises(KeyError, match='launch_call'):
        before.value('h2d')
    monkeypatch.setenv('CUDA_MODEL', 'devices=1,launch_ns=4000')
    after = profgpu.bench.run('launch')
    assert '+100.0 %' in after.compare(before)
    after.save(tmp_path / 'after.json')
    assert json.loads((tmp_path / 'after.json').read_text()) == after.document
    assert profgpu.bench.load(tmp_path / 'after.json') == after and '+100.0 %' not in before.compare(before)
    assert before.compare(str(tmp_path / 'after.json')) == before.compare(after)
    for path in (tmp_path / 'none.json', __file__):
        with pytest.raises(profgpu.ProfgpuError, match=path.name if path != __file__ else 'test_package_inventory'):
            before.compare(path)
    monkeypatch.setenv('PROFGPU_CUDA_LIBRARY', '/nowhere/libcuda.so.1')
    with pytest.raises(profgpu.ProfgpuError, match='launch could not be measured'):
        profgpu.bench.launch()
    with pytest.raises(profgpu.ProfgpuError, match='nonsense'):
        profgpu.bench.run('nonsense')


def test_dir_has_public_names_only():
    out = run_script('import profgpu; profgpu.devices; print(*dir(profgpu))').split()
    assert not [name for name in out if name.startswith('_') and name not in ('__doc__', '__version__')]
    assert {'devices', 'getGPUs', 'showUtilization', 'bench', 'context_overhead'} <= set(out)
    assert not {'Any', 'Dict', 'List', 'TYPE_CHECKING', 'annotations'} & set(out)
    for name in out:
        assert getattr(profgpu, name) is not None
    assert set(dir(profgpu.bench)) == set(profgpu.bench.__all__)


def test_a_name_of_the_guide_says_where_it_is():
    for name in ('quick_benchmark', 'GPUMonitor', 'measure_inter_node_bandwidth'):
        with pytest.raises(AttributeError, match='it is in profgpu.guide'):
            getattr(profgpu, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'$"):
        profgpu.nonsense


def test_importing_it_runs_nothing():
    code = 'import sys, profgpu; profgpu.devices; assert "torch" not in sys.modules; print("fine")'
    assert run_script(code, PROFGPU='/nowhere/profgpu') == 'fine\n' and sys.version_info >= (3, 8)
