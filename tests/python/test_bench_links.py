"""profgpu bench: links between devices and what is reached of them, caches, contexts, locked clocks, and devices that
others use, against stand-ins for CUDA's driver and NVML."""
import json
import os
import signal
import subprocess
import time

import pytest

from test_bench import PROGRAM, STUBS, bench, environment, figure   # noqa: F401: a fixture
from test_bench_ranks import ranks, torchrun   # noqa: F401: a fixture

NVML = os.path.join(STUBS, 'libnvidia-ml.so.1')
HEAD = 'driver 580.65.06\ndevice 0..{last}\nname Simulated GPU\n{common}\n'
LINK_GBPS = 18 * 26.562
NVLINKS = 'links 18 switch\nnvlink_speed 26562'


@pytest.fixture
def watched(tmp_path):
    """watched(devices, common lines, lines of one device={1: ...}) -> variables."""
    if not os.path.exists(NVML):
        pytest.skip('the stand-in for NVML is not built')

    def make(devices, common='', own=None, system=''):
        text = system + HEAD.format(last=devices - 1, common=common)
        for i in range(devices):
            text += f'device {i}\npci 0000:{0x10 + i:02x}:00.0\nuuid GPU-00000000-0000-0000-0000-{i:012x}\n'
            text += (own or {}).get(i, '')
        scenario = tmp_path / 'scenario.txt'
        scenario.write_text(text)
        return dict(PROFGPU_NVML_LIBRARY=NVML, PROFGPU_NVML_SCENARIO=str(scenario),
                    PROFGPU_NVML_LOG=str(tmp_path / 'calls.txt'))
    return make


def pair(document, name, a, b):
    return figure(document, name, a, b)


def test_the_memory_of_a_context(bench, watched):   # noqa: F811
    more = watched(2, 'memory_used 2000000000')
    code, document, _ = bench('devices=2,context_memory=412e6,1.context_memory=800e6', 'launch', **more)
    assert code == 0 and not document['not_measured']
    for device, taken in ((0, 412e6), (1, 800e6)):
        f = figure(document, 'context_memory', device)
        assert f['unit'] == 'B' and f['value'] == pytest.approx(taken, rel=0.03)


def test_a_context_whose_memory_nobody_tells(bench, watched):   # noqa: F811
    code, document, _ = bench('', 'launch', **watched(1, 'memory_used unsupported'))
    missing = [n for n in document['not_measured'] if n['label'] == 'device memory that the context takes']
    assert code == 0 and len(missing) == 1 and 'before its context is there' in missing[0]['why']


@pytest.mark.parametrize('kinds', [('write',), ('write', 'read')])
def test_both_ways_between_devices(bench, kinds):   # noqa: F811
    full = ['--full'] if len(kinds) > 1 else []
    code, document, _ = bench('devices=3,peer=300,peer_beside=1.25,copy_ns=0', 'bandwidth', *full)
    assert code == 0 and not document['not_measured']
    assert {f['name'] for f in document['figures'] if f['peer'] is not None and f['name'].endswith('_total')} == {
        f'device_to_device_bidirectional_memcpy_{k}_ce_total' for k in kinds}
    for kind in kinds:
        for a in range(3):
            for b in range(3):
                if a == b:
                    continue
                alone = pair(document, f'device_to_device_memcpy_{kind}_ce', a, b)
                beside = pair(document, f'device_to_device_bidirectional_memcpy_{kind}_ce', a, b)
                assert alone['value'] == pytest.approx(300, rel=0.03)
                assert beside['value'] == pytest.approx(240, rel=0.03)
                if a < b:
                    total = pair(document, f'device_to_device_bidirectional_memcpy_{kind}_ce_total', a, b)
                    assert total['value'] == pytest.approx(480, rel=0.03)


def test_one_slow_direction_is_named(bench, profgpu, tmp_path):   # noqa: F811
    saved = tmp_path / 'result.json'
    _, document, _ = bench('devices=3,peer=300,way.0.1=60,copy_ns=0', 'bandwidth', '-o', str(saved))
    name = 'device_to_device_memcpy_write_ce'
    assert pair(document, name, 0, 1)['value'] == pytest.approx(60, rel=0.03)
    assert pair(document, name, 1, 0)['value'] == pytest.approx(300, rel=0.03)
    # The slow way lasts all of the fast one's time, and is itself timed beside it.
    both = 'device_to_device_bidirectional_memcpy_write_ce'
    assert [pair(document, both, a, 1 - a)['value'] for a in (0, 1)] == pytest.approx([60, 300], rel=0.03)
    text = profgpu('bench', '--saved', saved, '--width', '160').stdout.decode()
    assert 'GPU 0→1: device to device 60' in text and 'GPU 0→1: device to device, both ways 60' in text
    assert 'GPU 1→0' not in text.partition('Slower than the others')[2] and text.count('worse)') == 2


def test_a_device_that_vanishes_among_pairs(bench):   # noqa: F811
    """Whichever of both is timed, the one that does not work is named."""
    code, document, _ = bench('devices=3,1.lost_after=5100', 'launch', 'bandwidth')
    lost = [n for n in document['not_measured'] if n['kind'] == 'lost']
    assert code == 1 and [n['device'] for n in lost] == [1], lost
    assert pair(document, 'device_to_device_memcpy_write_ce', 0, 2)


def test_nvlink_and_its_rate(bench, watched, profgpu, tmp_path):   # noqa: F811
    saved = tmp_path / 'result.json'
    _, document, _ = bench('devices=2,peer=400,copy_ns=0', 'bandwidth', '-o', str(saved), **watched(2, NVLINKS))
    f = pair(document, 'device_to_device_memcpy_write_ce', 0, 1)
    assert (f['link'], f['label']) == ('NV18', 'device to device, NVLink')
    assert f['link_gbps'] == pytest.approx(LINK_GBPS)
    assert f['link_share_pct'] == pytest.approx(100 * 400 / LINK_GBPS, rel=0.03)
    total = pair(document, 'device_to_device_bidirectional_memcpy_write_ce_total', 0, 1)
    assert total['link_gbps'] == pytest.approx(2 * LINK_GBPS)
    assert total['link_share_pct'] == pytest.approx(83.7, rel=0.03)
    text = profgpu('bench', '--saved', saved, '--width', '200').stdout.decode()
    assert 'of the link' in text and '84 % of 18 NVLinks' in text


def test_pcie_pairs_and_the_slower_link(bench, watched, profgpu, tmp_path):   # noqa: F811
    saved = tmp_path / 'result.json'
    more = watched(3, 'pcie_gen 5\npcie_width 16\npcie_width_max 16', {1: 'pcie_gen 4\npcie_width 8\n'})
    _, document, _ = bench('devices=3,peer=50,way.0.1=14,way.1.0=14,way.1.2=14,way.2.1=14', 'bandwidth', '-o',
                           str(saved), **more)
    for a, b, most in ((0, 2, 63.0), (0, 1, 15.75), (1, 0, 15.75), (2, 1, 15.75)):
        f = pair(document, 'device_to_device_memcpy_write_ce', a, b)
        assert f['label'] == 'device to device, PCIe' and f['link_gbps'] == pytest.approx(most, rel=0.01)
        assert f['link_share_pct'] == pytest.approx(100 * (14 if 1 in (a, b) else 50) / most, rel=0.03)
    assert pair(document, 'device_to_device_memcpy_write_ce', 0, 1)['pcie_link'] == 'Gen4 ×8 of ×16'
    assert '% of the PCIe link' in profgpu('bench', '--saved', saved, '--width', '200').stdout.decode()


def test_cold_and_warm_cache(bench, profgpu, tmp_path):   # noqa: F811
    saved = tmp_path / 'result.json'
    code, document, _ = bench(f'l2={32 << 20},cache=6000,local=3000,copy_ns=0,cold_product=1.25,bf16=800', 'bandwidth',
                              'matmul', '-o', str(saved))
    assert code == 0 and not document['not_measured']
    for name, cache, value in (('device_cache_read_warm', 'warm', 6000), ('device_cache_read_cold', 'cold', 3000),
                               ('bf16_2048', 'warm', 800), ('bf16_cold_2048', 'cold', 640), ('bf16_8192', 'warm', 800)):
        f = figure(document, name)
        assert f['cache'] == cache and f['value'] == pytest.approx(value, rel=0.03), name
    assert figure(document, 'device_cache_read_warm')['size'] == 16 << 20
    assert figure(document, 'bf16_cold_2048')['precision'] is None
    device = document['devices'][0]
    assert device['memory_gbps'] == pytest.approx(3000, rel=0.01)   # the cache's rate is no peak of the memory
    text = profgpu('bench', '--saved', saved, '--width', '200').stdout.decode()
    assert 'bf16 2048³, cold cache' in text and ' cold ' in text and ' warm ' in text


def test_cold_products_of_all_sizes_in_full(bench):   # noqa: F811
    _, document, _ = bench('bf16=800', 'matmul', '--full')
    cold = [f['size'] for f in document['figures'] if f['name'].startswith('bf16_cold_')]
    assert cold == [512, 1024, 2048, 4096, 8192, 16384]


def test_a_device_too_small_for_a_cold_cache(bench):   # noqa: F811
    code, document, _ = bench('memory=3e9,local=500', 'bandwidth', 'matmul')
    whys = {n['why'] for n in document['not_measured']}
    assert any('too small beside its cache' in w for w in whys) and any('too little memory' in w for w in whys)
    assert figure(document, 'bf16_2048')


def calls_of(more, function):
    with open(more['PROFGPU_NVML_LOG']) as log:
        return sum(int(line.split()[1]) for line in log if line.split()[0] == function)


SET, RESET = 'nvmlDeviceSetGpuLockedClocks', 'nvmlDeviceResetGpuLockedClocks'


def test_clocks_are_locked_only_if_asked(bench, watched):   # noqa: F811
    more = watched(2, 'sm_clock 1755\nbase_clock 1200')
    _, document, _ = bench('devices=2', 'launch', **more)
    assert document['clocks_locked'] == [] and calls_of(more, SET) == 0
    assert figure(document, 'launch_call')['sm_clock_mhz'] == 1755
    code, document, _ = bench('devices=2', 'launch', 'matmul', '--lock-clocks', **more)
    assert code == 0 and document['clocks_locked'] == [0, 1]
    assert figure(document, 'bf16_8192')['sm_clock_mhz'] == pytest.approx(1200, rel=0.03)
    assert (calls_of(more, SET), calls_of(more, RESET)) == (2, 2)
    assert [n for n in document['notes'] if 'the clocks of GPU 0, GPU 1 were locked' in n]


def test_without_the_right_to_lock_clocks(bench, watched):   # noqa: F811
    more = watched(2, f'error {SET} 4')
    code, document, _ = bench('devices=2', 'launch', '--lock-clocks', **more)
    assert code == 0 and document['clocks_locked'] == [] and figure(document, 'launch_call')
    why = 'the clocks of GPU 0, GPU 1 are not locked: this user has no right to lock clocks; root has it'
    assert [n for n in document['notes'] if n.startswith(why)]
    # Without NVML it goes on as well.
    code, document, _ = bench('', 'launch', '--lock-clocks')
    assert code == 0 and 'the clocks of GPU 0 are not locked: NVML cannot be opened' in document['notes'][0]


def test_clocks_that_cannot_be_released_are_named(bench, watched):   # noqa: F811
    _, document, _ = bench('', 'launch', '--lock-clocks', **watched(1, f'error {RESET} 999'))
    assert [n for n in document['notes'] if 'may still be locked' in n and 'nvidia-smi -rgc' in n], document['notes']


def test_interrupted_or_stuck_it_releases_clocks(watched, profgpu, tmp_path):
    more = watched(2)
    out = tmp_path / 'result.json'
    env = environment('devices=2,hang=cuMemcpyPeerAsync', **more)
    process = subprocess.Popen([PROGRAM, 'bench', 'bandwidth', '--lock-clocks', '-o', out], env=env,
                               stdout=subprocess.PIPE)
    wait_until_it_hangs(process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130 and (calls_of(more, SET), calls_of(more, RESET)) == (2, 2)
    assert json.loads(out.read_text())['clocks_locked'] == [0, 1]
    os.remove(more['PROFGPU_NVML_LOG'])
    profgpu('bench', 'bandwidth', '--lock-clocks', '--timeout', '2', env=env)
    assert (calls_of(more, SET), calls_of(more, RESET)) == (2, 2)


def wait_until_it_hangs(process):
    from test_bench import wchan
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        if any(wchan(process.pid, t) for t in os.listdir(f'/proc/{process.pid}/task')):
            return
        time.sleep(0.05)
    raise AssertionError('it does not hang')


def test_locked_and_free_clocks_are_not_compared(watched, profgpu, tmp_path):
    more, locked, free = watched(1), tmp_path / 'locked.json', tmp_path / 'free.json'
    words = ('bench', 'matmul', '-o')
    assert profgpu(*words, locked, '--lock-clocks', env=environment('bf16=500', **more)).returncode == 0
    assert profgpu(*words, free, env=environment('bf16=800', **more)).returncode == 0
    result = profgpu('bench', '--saved', locked, '--compare', free, '--fail-on', 'worse', '--width', '200', text=True)
    assert result.returncode == 0 and 'GPU 0: its clocks were locked in the newer result only' in result.stdout
    result = profgpu('bench', 'matmul', '--lock-clocks', '--save', env=environment(''), text=True)
    assert result.returncode == 2 and '--save' in result.stderr


@pytest.mark.parametrize('lines, link, most', [(NVLINKS, 'NV18', LINK_GBPS),
                                               ('pcie_gen 5\npcie_width 16', 'PCIe', 63.0)])
def test_collectives_as_a_share_of_their_link(bench, watched, profgpu, tmp_path, lines, link, most):   # noqa: F811
    saved = tmp_path / 'result.json'
    rate = 0.8 * most
    _, document, _ = bench(f'devices=4,nccl={rate},nccl_ns=0', 'collectives', '-o', str(saved), **watched(4, lines))
    for name in ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'send_recv', 'all_reduce_in_place'):
        f = figure(document, f'{name}_{256 << 20}', None)
        assert f['link'] == link and f['link_gbps'] == pytest.approx(most, rel=0.01), name
        assert f['link_share_pct'] == pytest.approx(80, rel=0.03), name
    assert figure(document, 'all_reduce_1024', None)['link_share_pct'] is None   # a time is no share
    text = profgpu('bench', '--saved', saved, '--width', '200').stdout.decode()
    assert 'of the link' in text and f'80 % of {"18 NVLinks" if link == "NV18" else "the PCIe link"}' in text


def test_links_of_different_kinds_give_no_share(bench, watched):   # noqa: F811
    own = {0: 'links 4 1\nnvlink_speed 25000\n', 1: 'links 4 0\nnvlink_speed 25000\n'}
    _, document, _ = bench('devices=3,nccl=80', 'collectives', **watched(3, '', own))
    f = figure(document, f'all_reduce_{256 << 20}', None)
    assert f['link'] is None and f['link_share_pct'] is None


def test_ranks_have_a_link_and_name_who_else_computes(ranks, watched):   # noqa: F811
    busy = {1: f'process {os.getpid()} C memory=1000000000\n'}
    more = watched(2, NVLINKS, busy)
    each = [{**torchrun(r, 2, 40_021), **more} for r in range(2)]
    codes, document, errors = ranks('devices=2,nccl=400,nccl_ns=0', each)
    assert codes == [0, 0], errors
    f = figure(document, f'all_reduce_{256 << 20}', None)
    assert f['link'] == 'NV18' and f['link_share_pct'] == pytest.approx(100 * 400 / LINK_GBPS, rel=0.03)
    assert f'(pid {os.getpid()}) of rank 1' in f['used_by']
    assert all(f['used_by'] for f in document['figures'])


@pytest.mark.parametrize('names', [('launch', 'bandwidth', 'matmul'), ('collectives', 'overlap'), ('burn',),
                                   ('crossover',)])
def test_no_figure_of_a_used_device_is_judged(bench, watched, names):   # noqa: F811
    busy = {1: f'process {os.getpid()} C memory=1000000000\n'}
    words = ('--duration', '3') if names == ('burn',) else ()
    _, document, _ = bench('devices=2', *names, *words, **watched(2, '', busy))
    on_it = [f for f in document['figures'] if 1 in (f['device'], f['peer']) or f['ranks']]
    free = [f for f in document['figures'] if f['device'] == 0 and f['peer'] is None]
    assert all(f'(pid {os.getpid()})' in (f['used_by'] or '') for f in on_it), [f['name'] for f in on_it]
    assert not [f for f in free if f['used_by']] and (on_it or names == ('crossover',))
