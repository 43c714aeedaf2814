"""Findings on small traces that are made here, where the simulator's faults do not reach."""
import json
import struct
import subprocess

import pytest

GEMM = 'sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x32'
A100 = {'id': 0, 'name': 'NVIDIA A100-SXM4-80GB', 'totalGlobalMem': 80 << 30, 'computeMajor': 8}


class Loop:
    """Steps of a training loop, in microseconds; each ends with a wait for the device."""

    def __init__(self):
        self.events, self.at, self.correlation = [], 1000.0, 0
        self.free = {}

    def event(self, cat, name, start, duration, tid=101, pid=100, **args):
        self.events.append({'ph': 'X', 'cat': cat, 'name': name, 'pid': pid, 'tid': tid, 'ts': round(start, 3),
                            'dur': round(duration, 3), 'args': args})

    def kernel(self, name, duration, device=0, call='cudaLaunchKernel'):
        self.correlation += 1
        start = max(self.at + 6, self.free.get(device, 0) + 1)
        self.event('cuda_runtime', call, self.at, 4, correlation=self.correlation)
        self.event('kernel', name, start, duration, 7, device, device=device, stream=7, correlation=self.correlation)
        self.free[device] = start + duration
        self.at += 6

    def wait(self, call='cudaDeviceSynchronize'):
        end = max([self.at, *self.free.values()]) + 2
        self.event('cuda_runtime', call, self.at, end - self.at)
        self.at = end + 2

    def step(self, number, work):
        begin = self.at
        work(self)
        self.wait()
        self.event('user_annotation', f'ProfilerStep#{number}', begin, self.at - begin)
        self.at += 1

    def document(self, *devices):
        return {'schemaVersion': 1, 'deviceProperties': list(devices) or [A100], 'traceEvents': self.events}


@pytest.fixture
def diagnosed(analyze, tmp_path):
    def run(document):
        path = tmp_path / 'trace.json'
        path.write_text(json.dumps(document))
        return analyze(path)
    return run


def rules(report):
    return {f['rule']: f for f in report['findings']}


def test_with_several_devices_the_worst_is_taken_and_named(diagnosed):
    def work(loop):
        for _ in range(10):
            loop.kernel(GEMM, 200)
        for _ in range(4):
            loop.kernel(GEMM, 100, device=1)
    loop = Loop()
    for n in range(5):
        loop.step(n, work)
    report = diagnosed(loop.document(A100, {**A100, 'id': 1}))
    low = rules(report)['low-gpu-utilization']
    assert low['value'] < 30 and 'GPU 1' in low['what'], low
    [check] = [c for c in report['checklist'] if c['id'] == 'gpu-utilization']
    assert check['verdict'] == 'fail' and check['value'] == low['value'], check


def test_a_device_that_is_hardly_used_is_not_judged(diagnosed):
    loop = Loop()
    for n in range(5):
        loop.step(n, lambda loop: [loop.kernel(GEMM, 500) for _ in range(10)])
        loop.kernel('void touch()', 2, device=1)
    assert 'low-gpu-utilization' not in rules(diagnosed(loop.document(A100, {**A100, 'id': 1})))


def test_the_fullest_device_is_the_one_whose_memory_is_told(diagnosed):
    loop = Loop()
    for n in range(5):
        loop.step(n, lambda loop: loop.kernel(GEMM, 500))
        for device, reserved in ((0, 40 << 30), (1, 15 << 30)):
            loop.events.append({'ph': 'i', 'name': '[memory]', 'pid': 100, 'tid': 101, 'ts': loop.at, 's': 't', 'args': {
                'Device Type': 1, 'Device Id': device, 'Bytes': 512, 'Addr': 1, 'Total Allocated': reserved >> 1, 'Total Reserved': reserved}})
    report = diagnosed(loop.document(A100, {'id': 1, 'name': 'Tesla T4', 'totalGlobalMem': 16 << 30, 'computeMajor': 7}))
    assert rules(report)['memory-near-capacity']['value'] == pytest.approx(100 * 15 / 16)


def test_memory_of_the_host_is_no_allocator_churn(diagnosed):
    def steps(call):
        loop = Loop()
        for n in range(6):
            loop.step(n, lambda loop: [loop.kernel(GEMM, 500) for _ in range(4)])
            loop.event('cuda_runtime', call, loop.at - 900, 20, tid=999)
        return rules(diagnosed(loop.document()))
    assert 'allocator-churn' not in steps('cudaHostAlloc')
    assert 'allocator-churn' not in steps('cudaMallocAsync')
    assert 'allocator-churn' in steps('cudaMalloc')


def test_warm_up_steps_do_not_decide(diagnosed):
    loop = Loop()
    loop.step(0, lambda loop: [loop.kernel('ampere_sgemm_128x128_nn', 3000) for _ in range(10)])
    for n in range(1, 6):
        loop.step(n, lambda loop: [loop.kernel(f'{GEMM}_{i}', 300) for i in range(4)])
    found = rules(diagnosed(loop.document()))
    assert 'full-precision-gemm' not in found and 'dominant-kernel' not in found, found


@pytest.mark.parametrize('name, fires', [('NVIDIA GeForce GTX 1660', False), ('NVIDIA GeForce RTX 2060', True)])
def test_tensor_cores_are_missed_only_where_they_are(diagnosed, name, fires):
    loop = Loop()
    for n in range(4):
        loop.step(n, lambda loop: [loop.kernel('turing_sgemm_128x128_nn', 300) for _ in range(4)])
    found = rules(diagnosed(loop.document({'id': 0, 'name': name, 'totalGlobalMem': 6 << 30, 'computeMajor': 7, 'computeMinor': 5})))
    assert ('full-precision-gemm' in found) == fires


@pytest.mark.parametrize('call', ['cudaStreamSynchronize_ptsz_v7000', 'hipStreamSynchronize_spt', 'urQueueFinish', 'zeEventHostSynchronize'])
def test_waits_of_all_makers_are_waits(diagnosed, call):
    def work(loop):
        for _ in range(5):
            loop.kernel(GEMM, 200)
            loop.wait(call)
            loop.at += 100
    loop = Loop()
    for n in range(5):
        loop.step(n, work)
    assert 'excessive-synchronization' in rules(diagnosed(loop.document()))


@pytest.mark.parametrize('names, indices', [
    (['[step 3/10]', '[step 4/10]'], [3, 4]), (['global_step 5', 'global_step 6'], [5, 6]), (['iter=3', 'iter=4'], [3, 4]),
    (['epoch 1 step 7', 'epoch 1 step 8'], [7, 8]), (['## step 1 ##', '## step 2 ##'], [1, 2])])
def test_ranges_that_look_like_steps(diagnosed, names, indices):
    loop = Loop()
    for name in names:
        begin = loop.at
        loop.kernel(GEMM, 500)
        loop.wait()
        loop.event('user_annotation', name, begin, loop.at - begin)
    assert [s['index'] for s in diagnosed(loop.document())['ranks'][0]['steps']] == indices


def test_steps_that_overlap_by_rounding_are_all_there(diagnosed):
    loop = Loop()
    for n in range(4):
        loop.event('user_annotation', f'ProfilerStep#{n}', 0, 0)
        loop.events[-1].update(ts=1000 * n + 0.0005 * (n % 2), dur=1000.0005)
        loop.at = 1000 * n + 100
        loop.kernel(GEMM, 500)
    report = diagnosed(loop.document())
    assert len(report['ranks'][0]['steps']) == 4
    assert sum(p['wall_ns'] for p in report['ranks'][0]['phases']) == sum(s['duration_ns'] for s in report['ranks'][0]['steps'])


def test_a_trace_behind_a_frame_to_be_skipped_is_read(analyze, tmp_path):
    loop = Loop()
    loop.step(0, lambda loop: loop.kernel(GEMM, 500))
    path = tmp_path / 'trace.json.zst'
    packed = subprocess.run(['zstd', '-qc'], input=json.dumps(loop.document()).encode(), capture_output=True, check=True).stdout
    path.write_bytes(struct.pack('<II', 0x184D2A50, 4) + b'\0\0\0\0' + packed)
    assert len(analyze(path)['ranks'][0]['steps']) == 1
