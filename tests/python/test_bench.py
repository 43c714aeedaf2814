"""profgpu bench: against stand-ins for CUDA's driver and cuBLASLt with known rates on a clock of their own, and on the
host."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ.get('PROFGPU') or os.path.join(ROOT, 'build', 'release', 'profgpu'))
STUBS = os.path.join(os.path.dirname(PROGRAM), 'tests', 'stubs')
CUDA = os.path.join(STUBS, 'measure', 'libcuda_model.so')
DEVICE = ('launch', 'bandwidth', 'matmul')

# Two devices at the addresses that the model gives them.
WATCHED = '''driver 580.65.06
device 0..1
name Simulated GPU
power 640
sm_clock 1755
temperature 71
reasons 4
pcie_gen 5
pcie_width 16
device 0
pci 0000:10:00.0
process {pid} C memory=1000000000
device 1
pci 0000:11:00.0
'''


def environment(model='', **more):
    if not os.path.exists(CUDA):
        pytest.skip(f'the stand-in library is not built: {CUDA}')
    kept = {k: v for k, v in os.environ.items() if not k.startswith(('CUDA_', 'NVIDIA_', 'PROFGPU_'))}
    return {**kept, 'PROFGPU_CUDA_LIBRARY': CUDA, 'CUDA_MODEL': model,
            'PROFGPU_CUBLASLT_LIBRARY': os.path.join(STUBS, 'measure', 'libcublaslt_model.so'),
            'PROFGPU_NCCL_LIBRARY': os.path.join(STUBS, 'measure', 'libnccl_model.so'),
            'PROFGPU_NVML_LIBRARY': '/nowhere/libnvidia-ml.so.1', **more}


@pytest.fixture
def bench(profgpu):
    """bench(model, words) -> (exit code, document, standard error)."""
    def run(model='', *words, **more):
        result = profgpu('bench', '--json', *(words or DEVICE), env=environment(model, **more))
        return result.returncode, json.loads(result.stdout or b'null'), result.stderr.decode()
    return run


def figure(document, name, device=0, peer=None):
    found = [f for f in document['figures'] if (f['name'], f['device'], f['peer']) == (name, device, peer)]
    assert len(found) == 1, (name, device, peer, [f['name'] for f in document['figures']])
    return found[0]


def test_rates_are_the_models(bench):
    code, document, _ = bench('h2d=55.2,d2h=52.7,pageable=11.3,local=3350,fp64=60,fp32=55,tf32=410,bf16=800,'
                              'fp16=790,fp8=1500,int8=1550,launch_ns=2100,kernel_ns=900,sync_ns=1500,event_ns=400,'
                              'alloc_ns=70000,copy_ns=1200')
    assert code == 0 and document['schema'] == 'profgpu.bench.v1' and document['simulated'] is True
    # Without NVML nothing says what is in use before there is a context.
    assert [(n['label'], n['kind']) for n in document['not_measured']] == [
        ('device memory that the context takes', 'skipped')]

    def near(name, value, part=0.003):   # a copy has its latency
        assert figure(document, name)['value'] == pytest.approx(value, rel=part), name

    near('host_to_device_memcpy_ce', 55.2)
    near('device_to_host_memcpy_ce', 52.7)
    near('host_to_device_pageable', 11.3)
    near('device_to_host_pageable', 11.3)
    for name in ('device_memory_read', 'device_memory_write', 'device_memory_copy', 'device_memory_triad'):
        near(name, 3350, 0.01)
    near('device_local_copy', 3350 / 2, 0.01)   # as nvbandwidth: copied bytes, which are read and written
    assert document['devices'][0]['memory_gbps'] == pytest.approx(3350, rel=0.01)
    near('launch_call', 2100)
    near('launch_throughput', 2100, 0.01)    # the host is slower than the kernels
    near('launch_and_wait', 2100 + 900 + 1500)
    near('graph_kernel', 900, 0.03)
    near('synchronize', 1500)
    near('event_record', 400)
    near('stream_wait_event', 400)
    near('small_host_to_device', 1200 + 1500)
    near('allocate', 70000)
    near('context', 150e6)
    for kind, rate in (('fp64', 60), ('fp32', 55), ('tf32', 410), ('bf16', 800), ('fp16', 790), ('fp8', 1500),
                       ('int8', 1550)):
        near(f'{kind}_8192', rate)
        assert figure(document, f'{kind}_8192')['precision'] == kind
    for f in document['figures']:
        assert f['runs'] >= 10 or f['name'] == 'context'
        assert f['spread_pct'] < 1 and f['outliers'] == 0
        assert f['sm_clock_mhz'] is None   # no readings: unknown, not 0


def test_the_file_is_one_of_peaks(bench):
    """As docs/roofline.md has them: positive numbers, known names, nothing null."""
    _, document, _ = bench('devices=2,bf16=800,local=3350,fp8=0')
    assert [d['name'] for d in document['devices']] == ['Simulated GPU'] * 2
    for d in document['devices']:
        assert set(d['tflops']) == {'fp64', 'fp32', 'tf32', 'bf16', 'fp16', 'int8'}
        assert d['tflops']['bf16'] == pytest.approx(800, rel=0.01)
        assert d['memory_gbps'] == pytest.approx(3350, rel=0.01)
    _, document, _ = bench('', 'launch')
    assert 'tflops' not in document['devices'][0] and 'memory_gbps' not in document['devices'][0]


def test_warm_up_and_outliers(bench):
    _, cold, _ = bench('cold=15,fp64=60', 'matmul')   # filling the matrices is twelve copies
    f = figure(cold, 'fp64_2048')
    assert f['value'] == pytest.approx(60, rel=0.01) and f['spread_pct'] == pytest.approx(0, abs=0.1)
    _, jumpy, _ = bench('slow_every=5,fp64=1', 'matmul')
    f = figure(jumpy, 'fp64_8192')   # over a second a call: each run is one
    assert f['value'] == pytest.approx(1, rel=0.01) and f['best'] >= f['value']
    assert (f['outliers'], f['runs']) == (2, 10)


def test_a_slow_device_and_a_slow_pair_are_named(bench, profgpu):
    words = ('bench', 'bandwidth', '--width', '120')
    out = profgpu(*words, env=environment('devices=3,1.h2d=20,h2d=55,peer=300')).stdout.decode()
    assert 'GPU 1: host to device, pinned 20.0 GB/s, the others 55.0 GB/s (64 % worse)' in out
    assert 'GPU 1: host to device, both ways 20.0 GB/s' in out and out.count('worse)') == 2
    out = profgpu(*words, env=environment('devices=3,2.peer=120,peer=300')).stdout.decode()
    # Each way alone, and beside the other; sums of both are not judged.
    assert 'GPU 2→0: device to device' in out and 'GPU 2→1' in out and out.count('worse)') == 4


def test_pairs_without_a_way_of_their_own(bench):
    _, document, _ = bench('devices=2,no_peer=1,peer=11', 'bandwidth')
    f = figure(document, 'device_to_device_memcpy_write_ce', 0, 1)
    assert f['label'] == 'device to device, through the host' and f['value'] == pytest.approx(11, rel=0.01)


@pytest.mark.parametrize('ranks', [2, 4, 8])
def test_collectives(bench, ranks):
    """Bus bandwidths as nccl-tests define them: the model's factors are its own."""
    code, document, _ = bench(f'devices={ranks},nccl=400,nccl_ns=12000', 'collectives')
    assert code == 0 and not document['not_measured']
    names = {f['name'].rpartition('_')[0] for f in document['figures']}
    in_place = {f'{n}_in_place' for n in ('all_reduce', 'all_gather', 'reduce_scatter', 'broadcast', 'reduce')}
    assert names == {'all_reduce', 'all_gather', 'reduce_scatter', 'broadcast', 'reduce', 'all_to_all', 'send_recv',
                     'pair', '', *in_place}
    for name in names - {'pair', ''}:
        found = {f['name']: f for f in document['figures']}
        latency, rate = found[f'{name}_1024'], found[f'{name}_{256 << 20}']
        assert latency['unit'] == 'ns' and latency['value'] == pytest.approx(12000, rel=0.02), name
        assert rate['unit'] == 'GB/s' and rate['value'] == pytest.approx(400, rel=0.06), name
        assert rate['value'] < 400


def test_collectives_are_as_fast_as_the_slowest(bench):
    _, document, _ = bench('devices=4,nccl=400,2.nccl=100,nccl_ns=0', 'collectives')
    rates = [f['value'] for f in document['figures'] if f['name'].endswith(str(256 << 20))]
    assert rates == pytest.approx([100] * 12, rel=0.02)
    assert figure(document, 'barrier', None)['value'] == pytest.approx(2000 + 4 * 1500, rel=0.05)


def test_wrong_results_are_no_figures(bench):
    code, document, error = bench('devices=4,wrong=1', 'collectives')
    wrong = {n['label'].split(' ')[0]: n['why'] for n in document['not_measured']}
    assert set(wrong) == {'all-reduce', 'all-gather', 'reduce-scatter', 'broadcast'}
    assert set(wrong.values()) == {'1 values of the results are wrong'}


def test_collectives_without_devices_or_library(bench):
    code, document, error = bench('devices=1', 'collectives')
    assert code == 1 and 'collectives need two GPUs' in document['not_measured'][0]['why']
    code, document, error = bench('devices=2', 'collectives', PROFGPU_NCCL_LIBRARY='/nowhere/libnccl.so.2')
    assert code == 1 and 'no NCCL' in document['not_measured'][0]['why']


@pytest.mark.parametrize('function', ['ncclCommInitAll', 'ncclGroupEnd', 'ncclAllReduce', 'ncclAllGather',
                                      'ncclReduceScatter', 'ncclBroadcast', 'ncclReduce', 'ncclSend',
                                      'ncclRecv'])
def test_failures_and_hangs_of_collectives(bench, profgpu, function):
    code, document, _ = bench(f'devices=2,fail={function}:1', 'collectives')
    assert f'{function}: simulated error (1)' in ' '.join(n['why'] for n in document['not_measured'])
    result = profgpu('bench', '--json', '--timeout', '1', 'collectives', env=environment(f'devices=2,hang={function}'))
    assert json.loads(result.stdout)['not_measured'][-1]['why'] == 'did not return within 1 s'


def test_readings_stand_beside_figures(bench, tmp_path):
    stub = os.path.join(STUBS, 'libnvidia-ml.so.1')
    if not os.path.exists(stub):
        pytest.skip('the stand-in for NVML is not built')
    scenario = tmp_path / 'scenario.txt'
    scenario.write_text(WATCHED.format(pid=os.getpid()))
    more = dict(PROFGPU_NVML_LIBRARY=stub, PROFGPU_NVML_SCENARIO=str(scenario))
    _, document, _ = bench('devices=2', 'bandwidth', **more)
    f = figure(document, 'host_to_device_memcpy_ce')
    assert (f['sm_clock_mhz'], f['temperature_c']) == (1755, 71)
    assert f['power_w'] in (640, None)   # it is read twice a second: a quick figure may have none beside it
    assert f['held_back_by'] == 'the power limit'
    assert f['pcie_link_gbps'] == pytest.approx(63.0, abs=0.1)
    assert len(document['notes']) == 1
    assert f'(pid {os.getpid()})' in document['notes'][0] and 'GPU 0' in document['notes'][0]
    assert document['machine']['driver'] == '580.65.06'
    _, document, _ = bench('devices=2', 'launch', '--device', '1', **more)
    assert {f['device'] for f in document['figures']} == {1}


FUNCTIONS = ['cuDeviceGet', 'cuDevicePrimaryCtxRetain', 'cuCtxSetCurrent', 'cuStreamCreate', 'cuEventCreate',
             'cuEventRecord', 'cuEventElapsedTime', 'cuStreamSynchronize', 'cuMemAlloc_v2', 'cuMemHostAlloc',
             'cuMemsetD8Async', 'cuMemcpyHtoDAsync_v2', 'cuMemcpyDtoHAsync_v2', 'cuMemcpyDtoDAsync_v2',
             'cuMemcpyPeerAsync', 'cuModuleLoadData', 'cuModuleGetFunction', 'cuLaunchKernel',
             'cuStreamBeginCapture_v2', 'cuStreamEndCapture', 'cuGraphInstantiateWithFlags', 'cuGraphLaunch',
             'cuStreamWaitEvent', 'cuMemFree_v2', 'cublasLtCreate', 'cublasLtMatmulAlgoGetHeuristic', 'cublasLtMatmul',
             'cuInit']


@pytest.mark.parametrize('function', FUNCTIONS)
def test_every_failure_is_reported(bench, function):
    code, document, error = bench(f'devices=2,fail={function}:2')
    whys = ' '.join(n['why'] for n in document['not_measured'])
    if function == 'cuModuleGetFunction':
        assert 'does not find the kernel' in whys
    else:
        assert function in whys
    assert code in (0, 1) and 'NaN' not in json.dumps(document)
    if code == 1:
        assert 'could not be measured' in error


def test_a_failure_later_leaves_the_other_figures(bench):
    _, document, _ = bench('fail=cuMemAlloc_v2:2:3', 'launch', 'matmul')
    assert 'out of memory (CUDA_ERROR_OUT_OF_MEMORY)' in ' '.join(n['why'] for n in document['not_measured'])
    assert figure(document, 'launch_call')


def test_a_device_without_memory(bench):
    code, document, error = bench('memory=1e6', 'matmul')
    assert code == 1 and 'matmul could not be measured' in error
    assert all('CUDA_ERROR_OUT_OF_MEMORY' in n['why'] for n in document['not_measured'] if n['kind'] == 'failed')


def test_a_device_that_vanishes(bench):
    code, document, _ = bench('devices=2,0.lost_after=3000', 'launch', 'bandwidth', 'matmul')
    assert code == 1   # a fault is no success
    assert figure(document, 'bf16_8192', 1)
    assert not [f for f in document['figures'] if (f['name'], f['device']) == ('bf16_8192', 0)]
    lost = [n for n in document['not_measured'] if n['device'] == 0]
    assert len(lost) == 1 and 'the device does not work any more' in lost[0]['why']


@pytest.mark.parametrize('function', ['cuInit', 'cuDevicePrimaryCtxRetain', 'cuLaunchKernel', 'cuMemcpyPeerAsync',
                                      'cublasLtMatmul'])
def test_a_hang_ends(profgpu, function):
    begin = time.monotonic()
    result = profgpu('bench', '--json', '--timeout', '2', *DEVICE, env=environment(f'devices=2,hang={function}'))
    assert time.monotonic() - begin < 30
    last = json.loads(result.stdout)['not_measured'][-1]
    assert last['why'] == 'did not return within 2 s' and result.returncode == 1
    assert ('a driver that hangs' in last['hint']) == (last['device'] is not None)
    if function == 'cuMemcpyPeerAsync':
        assert last['benchmark'] == 'bandwidth' and last['label'] == 'device to device'


def test_interrupted_it_shows_what_there_is(tmp_path):
    out = tmp_path / 'result.json'
    process = subprocess.Popen([PROGRAM, 'bench', 'launch', 'bandwidth', '-o', out], stdout=subprocess.PIPE,
                               env=environment('devices=2,hang=cuMemcpyPeerAsync'))
    deadline = time.monotonic() + 60
    # It is in the copy that hangs when it rests.
    while time.monotonic() < deadline:
        with open(f'/proc/{process.pid}/task/{process.pid}/stat') as f:
            resting = f.read().rpartition(')')[2].split()[0] == 'S'
        threads = os.listdir(f'/proc/{process.pid}/task')
        paused = [t for t in threads if wchan(process.pid, t)]
        if resting and paused:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 130
    assert 'host to device, pinned' in text
    assert figure(json.loads(out.read_text()), 'launch_call')


def wchan(pid, thread):
    """Whether the thread is in pause(2)."""
    try:
        with open(f'/proc/{pid}/task/{thread}/syscall') as f:
            return f.read().split()[0] == '34'
    except OSError:
        return False


def test_without_a_driver_the_host_is_measured(profgpu):
    env = environment(PROFGPU_CUDA_LIBRARY='/nowhere/libcuda.so.1')
    result = profgpu('bench', '--json', env=env)
    document = json.loads(result.stdout)
    assert result.returncode == 0 and not document['devices'] and document['simulated'] is False
    assert {f['benchmark'] for f in document['figures']} == {'host'}
    missing = {n['benchmark']: n for n in document['not_measured']}
    assert missing.pop('storage')['hint'] == 'name one with --path'
    assert set(missing) == {*DEVICE, 'collectives', 'overlap'}
    assert all('no NVIDIA driver' in n['why'] and n['hint'] for n in missing.values())
    result = profgpu('bench', 'launch', 'matmul', env=env, text=True)
    assert result.returncode == 1 and 'launch, matmul could not be measured' in result.stderr
    assert 'Next: profgpu doctor' in result.stdout


def test_no_device(bench):
    code, document, _ = bench('no_device=1', 'launch')
    why = document['not_measured'][0]['why']
    assert code == 1 and 'no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)' in why
    code, document, _ = bench('devices=0', 'launch')
    assert code == 1 and 'CUDA has no device here' in document['not_measured'][0]['why']


def test_without_cublas(bench):
    code, document, _ = bench('', 'launch', 'matmul', PROFGPU_CUBLASLT_LIBRARY='/nowhere/libcublasLt.so')
    missing = [n for n in document['not_measured'] if n['benchmark'] == 'matmul']
    assert code == 1 and len(missing) == 1 and 'no cuBLASLt' in missing[0]['why'] and 'PyTorch' in missing[0]['hint']
    assert figure(document, 'launch_call')


def test_the_host_is_measured(profgpu):
    document = json.loads(profgpu('bench', '--json', 'host', env=environment()).stdout)
    by_name = {f['name']: f for f in document['figures']}
    assert set(by_name) == {'memory_copy_one', 'memory_copy_all', 'core_chain', 'clock_read', 'wake_up', 'wake_up_p99',
                            'wake_up_latest', 'start_program'}
    # A step is a multiplication, an addition, a shift and an exclusive or, which wait for each other.
    assert 500 < by_name['core_chain']['value'] < 1e5
    assert by_name['wake_up']['value'] / 2 < by_name['wake_up_p99']['value'] <= by_name['wake_up_latest']['value']
    assert 0.001 < by_name['memory_copy_one']['value'] < 1000 and by_name['memory_copy_one']['unit'] == 'GB/s'
    assert 0 < by_name['clock_read']['value'] < 1e5 and 1e3 < by_name['start_program']['value'] < 1e9
    assert document['machine']['cores'] == os.cpu_count() and document['machine']['host'] == os.uname().nodename


def test_the_governor_is_in_the_result(profgpu, tmp_path):
    folder = tmp_path / 'devices' / 'system' / 'cpu' / 'cpu0' / 'cpufreq'
    folder.mkdir(parents=True)
    (folder / 'scaling_governor').write_text('powersave\n')
    env = environment(PROFGPU_SYSFS_ROOT=str(tmp_path))
    assert json.loads(profgpu('bench', '--json', 'host', env=env).stdout)['machine']['governor'] == 'powersave'


def test_storage_follows_links_and_leaves_out_what_it_may_not_read():
    with tempfile.TemporaryDirectory() as folder:   # of another place than tmp_path: other users may enter it
        os.chmod(folder, 0o755)
        storage_with_links_and_closed_folders(pathlib.Path(folder))


def storage_with_links_and_closed_folders(tmp_path):
    data, elsewhere = tmp_path / 'data', tmp_path / 'elsewhere'
    (data / 'a').mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / 'shard.bin').write_bytes(os.urandom(4 << 20))
    (data / 'b').symlink_to(elsewhere)
    (data / 'a' / 'back').symlink_to(data)       # a circle
    (data / 'dangling').symlink_to(tmp_path / 'nothing')
    for name in ('closed', 'zz'):
        (data / name).mkdir()
        (data / name).chmod(0)
    as_user = {'user': 65534, 'group': 65534} if os.geteuid() == 0 else {}
    command = [PROGRAM, 'bench', '--json', 'storage', '--path', data]
    result = subprocess.run(command, env=environment(HOME='/'), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd='/', **as_user)
    for name in ('closed', 'zz'):
        (data / name).chmod(0o755)
    document = json.loads(result.stdout or b'null')
    if document is None:
        pytest.skip('the other user may not run the program')
    assert 'read_cached' in {f['name'] for f in document['figures']}, document['not_measured']
    assert any('left out, as it cannot be read: 2 files and folders' in n for n in document['notes']), document['notes']


def test_memory_is_no_disk(profgpu, tmp_path):
    folder = '/dev/shm'
    if not os.access(folder, os.W_OK) or '/dev/shm tmpfs' not in open('/proc/mounts').read():
        pytest.skip('no tmpfs that can be written')
    file = os.path.join(folder, f'profgpu-test-{os.getpid()}.bin')
    try:
        with open(file, 'wb') as out:
            out.write(os.urandom(4 << 20))
        document = json.loads(profgpu('bench', '--json', 'storage', '--path', file, env=environment()).stdout)
    finally:
        os.remove(file)
    assert not {'read_disk', 'read_random'} & {f['name'] for f in document['figures']}
    assert 'read_cached' in {f['name'] for f in document['figures']}
    missing = [n for n in document['not_measured'] if 'lies in memory' in n['why']]
    assert len(missing) == 2 and {n['kind'] for n in missing} == {'skipped'}


def test_storage(profgpu, tmp_path):
    for i in range(3):
        (tmp_path / f'shard{i}.bin').write_bytes(os.urandom(4 << 20))
    (tmp_path / 'empty').touch()
    document = json.loads(profgpu('bench', '--json', 'storage', '--path', tmp_path, env=environment()).stdout)
    assert [f['name'] for f in document['figures']] == ['read_disk', 'read_cached', 'read_random', 'token_sequences']
    assert all(0.001 < f['value'] < 1000 for f in document['figures'] if f['unit'] == 'GB/s')
    (tmp_path / 'small').write_text('a name\n')
    for path, why in ((tmp_path / 'absent', 'No such file'), (tmp_path / 'empty', 'no files with content'),
                      (tmp_path / 'small', 'holds 7 bytes: too little to measure a rate')):
        result = profgpu('bench', '--json', 'storage', '--path', path, env=environment())
        assert result.returncode == 1 and why in json.loads(result.stdout)['not_measured'][0]['why']
    result = profgpu('bench', 'storage', env=environment())
    assert result.returncode == 1 and 'name one with --path' in result.stdout.decode()


def test_saved_results_are_compared(profgpu, tmp_path):
    before, after = tmp_path / 'before.json', tmp_path / 'after.json'
    assert profgpu('bench', 'bandwidth', '-o', before, env=environment('h2d=55')).returncode == 0
    assert profgpu('bench', 'bandwidth', '-o', after, env=environment('h2d=44,d2h=60')).returncode == 0
    result = profgpu('bench', '--saved', after, '--compare', before, '--fail-on', 'worse', '--width', '140')
    text = result.stdout.decode()
    assert result.returncode == 3
    assert re.search(r'host to device, pinned +44\.0 GB/s +-20\.0 % worse', text), text
    assert re.search(r'device to host, pinned +60\.0 GB/s +\+20\.0 % better', text)
    assert re.search(r'device memory, read +[\d,.]+ GB/s +\+0\.0 % ', text)
    assert profgpu('bench', '--saved', before, '--compare', before, '--fail-on', 'worse').returncode == 0
    assert json.loads(profgpu('bench', '--saved', before, '--json').stdout) == json.loads(before.read_text())
    for words in (('--saved', tmp_path / 'none.json'), ('--compare', __file__)):
        result = profgpu('bench', *words, env=environment())
        assert result.returncode == 1 and str(words[1]) in result.stderr.decode()
    assert profgpu('bench', '--saved', before, '-o', before).returncode == 2


def test_links_without_a_name_or_a_rate(profgpu, tmp_path):
    """A saved result that other programs wrote."""
    saved = tmp_path / 'links.json'
    pair = {'benchmark': 'bandwidth', 'name': 'a', 'label': 'a', 'device': 0, 'peer': 1, 'unit': 'GB/s', 'value': 90,
            'runs': 10}
    for link, share in (({'link_gbps': 100}, ''), ({'link_gbps': 0, 'link': 'NV4'}, ''),
                        ({'link_gbps': 100, 'link': 'NV4'}, '90 % of 4 NVLinks')):
        saved.write_text(json.dumps({'schema': 'profgpu.bench.v1', 'figures': [{**pair, **link}]}))
        result = profgpu('bench', '--saved', saved, '--width', '120')
        text = result.stdout.decode()
        assert result.returncode == 0 and '90 GB/s' in text, text
        assert share in text if share else 'NVLinks' not in text, text


def test_doctor_says_which_device_is_slow(profgpu, tmp_path):
    saved = tmp_path / 'bench.json'
    for model, verdict in (('devices=3,1.h2d=20,h2d=55', 'warning'), ('devices=3', 'ok')):
        assert profgpu('bench', 'bandwidth', '-o', saved, env=environment(model)).returncode == 0
        result = profgpu('doctor', '--json', '--bench', saved, env=environment())
        checks = [c for c in json.loads(result.stdout)['checks'] if c['id'] == 'bench']
        stand_in = [c for c in checks if 'a stand-in for the driver gave these figures' in c['detail']]
        checks = [c for c in checks if c not in stand_in]
        assert len(stand_in) == 1 and {c['verdict'] for c in checks} == {verdict}
        assert ('GPU 1: host to device, pinned 20.0 GB/s' in checks[0]['detail']) == (verdict == 'warning')
    result = profgpu('doctor', '--bench', tmp_path / 'none.json', env=environment())
    assert result.returncode == 1 and 'none.json: cannot be read' in result.stderr.decode()


def test_what_cannot_be_written_is_known_before_measuring(profgpu, tmp_path):
    begin = time.monotonic()
    for words in (('-o', tmp_path / 'none' / 'x.json'), ('-o', tmp_path)):
        result = profgpu('bench', 'burn', '--duration', '3600', *words, env=environment('hang=cuInit'), text=True)
        assert result.returncode == 1 and f'{words[1]} cannot be written' in result.stderr
    assert time.monotonic() - begin < 20


def test_faults_fail(bench, profgpu, tmp_path):
    """A wrong result, a dead device and a call that does not return, with and without something to compare with."""
    good = tmp_path / 'good.json'
    words = ('collectives', 'matmul')
    assert profgpu('bench', *words, '-o', good, env=environment('devices=2')).returncode == 0
    for model, kind, more in (('devices=2,wrong=1', 'wrong', ()), ('devices=2,1.lost_after=60', 'lost', ()),
                              ('devices=2,hang=ncclAllGather', 'hang', ('--timeout', '1'))):
        bad = tmp_path / 'bad.json'
        env = environment(model)
        result = profgpu('bench', *words, '-o', bad, *more, env=env, text=True)
        assert result.returncode == 1, result.stdout
        document = json.loads(bad.read_text())
        assert kind in {n['kind'] for n in document['not_measured']}
        assert document['figures']
        result = profgpu('bench', '--saved', bad, '--compare', good, '--fail-on', 'worse', '--width', '160', text=True)
        assert result.returncode == 3 and 'Lost' in result.stdout, (kind, result.stdout, result.stderr)
    result = profgpu('diff', good, bad, '--fail-on', 'figure:all_gather < -5%', text=True)
    assert result.returncode == 3 and 'is lost' in result.stderr


def test_devices_by_name_where_only_cuda_finds_them(bench):
    for words, found in ((('--device', '1'), {1}), (('--device', 'cuda:0,2'), {0, 2}),
                         (('--device', '0', '--backend', 'none'), {0})):
        code, document, _ = bench('devices=3', 'launch', *words)
        assert code == 0 and {f['device'] for f in document['figures']} == found, words
        assert document['selected'] is True
    for words in (('--device', '7'), ('--device', 'cuda:7')):
        code, document, error = bench('devices=2', 'launch', *words)
        assert code == 1 and not document['figures']
        assert f'no device "{words[1]}" among the 2 that CUDA shows' in document['not_measured'][0]['why']


def test_another_process_is_not_judged(bench, profgpu, tmp_path):
    stub = os.path.join(STUBS, 'libnvidia-ml.so.1')
    if not os.path.exists(stub):
        pytest.skip('the stand-in for NVML is not built')
    scenario = tmp_path / 'scenario.txt'
    more = dict(PROFGPU_NVML_LIBRARY=stub, PROFGPU_NVML_SCENARIO=str(scenario))
    busy, clean = tmp_path / 'busy.json', tmp_path / 'clean.json'
    scenario.write_text(WATCHED.format(pid=os.getpid()))
    assert bench('devices=2,h2d=50,0.h2d=20', 'bandwidth', '-o', str(busy), **more)[0] == 0
    scenario.write_text(''.join(line for line in WATCHED.splitlines(True) if 'process' not in line))
    assert bench('devices=2,h2d=50', 'bandwidth', '-o', str(clean), **more)[0] == 0
    assert {f['device'] for f in json.loads(busy.read_text())['figures'] if f['used_by'] and f['peer'] is None} == {0}
    assert not [f for f in json.loads(clean.read_text())['figures'] if f['used_by']]
    result = profgpu('bench', '--saved', busy, '--compare', clean, '--fail-on', 'worse', '--width', '160', text=True)
    assert result.returncode == 0 and 'not judged: GPU 0 is used by' in result.stdout, result.stdout
    assert 'worse' not in result.stdout
    checks = json.loads(profgpu('doctor', '--json', '--bench', busy, env=environment()).stdout)['checks']
    assert not [c for c in checks if c['id'] == 'bench' and 'worse' in c['detail']]
    assert [c for c in checks if c['id'] == 'bench' and 'not judged: GPU 0' in c['detail']]


def test_a_link_with_lanes_out_of_use(bench, profgpu, tmp_path):
    stub = os.path.join(STUBS, 'libnvidia-ml.so.1')
    if not os.path.exists(stub):
        pytest.skip('the stand-in for NVML is not built')
    scenario = tmp_path / 'scenario.txt'
    scenario.write_text('driver 580.65.06\ndevice 0\nname Simulated GPU\npci 0000:10:00.0\npcie_gen 5\npcie_width 4\n'
                        'pcie_width_max 16\n')
    saved = tmp_path / 'saved.json'
    _, document, _ = bench('h2d=14', 'bandwidth', '-o', str(saved), PROFGPU_NVML_LIBRARY=stub,
                           PROFGPU_NVML_SCENARIO=str(scenario))
    assert figure(document, 'host_to_device_memcpy_ce')['pcie_link'] == 'Gen5 ×4 of ×16'
    assert [n for n in document['notes'] if 'its PCIe link is Gen5 ×4 of ×16' in n]
    text = profgpu('bench', '--saved', saved, '--width', '200', text=True).stdout
    assert '% of the PCIe link, Gen5 ×4 of ×16' in text


def test_jitter(bench):
    """Noise of 10 % both ways: medians stay within 3 %, and the spread is that of the noise."""
    _, document, _ = bench('fp64=0.2,bf16=800,h2d=50,jitter=10', 'matmul', 'bandwidth')
    for name, value in (('fp64_8192', 0.2), ('bf16_8192', 800), ('host_to_device_memcpy_ce', 50)):
        assert figure(document, name)['value'] == pytest.approx(value, rel=0.03), name
    assert 2 < figure(document, 'bf16_8192')['spread_pct'] < 20


def test_one_of_a_launchers_processes_measures(profgpu):
    ranks = {'RANK': '1', 'WORLD_SIZE': '2', 'LOCAL_RANK': '1'}
    result = profgpu('bench', 'launch', env=environment(**ranks), text=True)
    assert result.returncode == 0 and not result.stdout and 'local rank 0 measures this machine' in result.stderr
    result = profgpu('bench', 'launch', env=environment(**{**ranks, 'LOCAL_RANK': '0', 'RANK': '0'}), text=True)
    assert result.returncode == 0 and 'launch and wait' in result.stdout and not result.stderr
    del ranks['LOCAL_RANK']
    result = profgpu('bench', 'launch', env=environment(**ranks), text=True)
    assert result.returncode == 0 and 'rank 1 of 2' in result.stderr and 'launch and wait' in result.stdout


def test_usage(profgpu):
    for words, says in ((('nothing',), 'there is no benchmark "nothing"'), (('--fail-on', 'worse'), '--compare'),
                        (('--timeout', '0'), '--timeout')):
        result = profgpu('bench', *words, env=environment())
        assert result.returncode == 2 and says in result.stderr.decode()


@pytest.mark.parametrize('architecture', ['sm_75', 'sm_80', 'sm_86', 'sm_89', 'sm_90', 'sm_100', 'sm_120'])
def test_our_kernels_are_assembled(tmp_path, architecture):
    """The text that the driver gets, by the toolkit's own assembler."""
    ptxas = shutil.which('ptxas') or shutil.which('ptxas', path='/usr/local/cuda/bin')
    if ptxas is None:
        pytest.skip('ptxas is not installed')
    kernels = tmp_path / 'kernels.ptx'
    env = environment(f'dump={kernels}')
    assert subprocess.run([PROGRAM, 'bench', 'launch'], env=env, capture_output=True).returncode == 0
    result = subprocess.run([ptxas, f'-arch={architecture}', kernels, '-o', tmp_path / 'kernels.cubin'],
                            capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
