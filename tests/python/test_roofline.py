"""The distance of a step from its device's limits: it adds up on every trace, and says nothing that is not known."""
import glob
import gzip
import json
import math
import os
import re

import pytest

from conftest import ROOT

TRACES = [os.path.join(ROOT, 'examples', 'resnet-demo.json.gz')] + sorted(
    glob.glob(os.path.join(ROOT, '..', 'shared', 'traces', '*.json*')))


@pytest.mark.parametrize('path', TRACES, ids=os.path.basename)
def test_the_distance_adds_up(analyze, path):
    for rank in analyze(path)['ranks']:
        distance, roofline = rank['distance'], rank['roofline']
        unknown = sum(s['total_ns'] for s in rank['measured']['states'] if s['name'] in ('idle: untraced_work', 'idle: no_requests'))
        assert sum(p['total_ns'] for p in distance['parts']) == distance['wall_ns'] == rank['measured']['wall_ns'] - unknown
        assert distance['left_out_ns'] == unknown
        assert all(p['total_ns'] > 0 for p in distance['parts'])
        parts = {p['part']: p['total_ns'] for p in distance['parts']}
        compute = sum(s['total_ns'] for s in rank['measured']['states'] if s['name'] == 'compute')
        assert compute == sum(parts.get(p, 0) for p in ('necessary_work', 'products', 'memory_bound', 'small_kernels',
                                                        'recomputation', 'unknown_work'))
        if rank['limits']['device'] is None:
            assert rank['limits']['reason']
            assert distance['times_limit'] is None and roofline['mfu_pct'] is None
        if distance['times_limit'] is not None:
            assert distance['limit_ns'] == parts['necessary_work'] + parts.get('unknown_work', 0)
            assert distance['times_limit'] >= 1
            unknown = parts.get('unknown_work', 0)
            assert distance['times_limit_is_lower_bound'] == (unknown > 0.01 * distance['limit_ns'])
        assert (distance['times_limit'] is None) == (distance['times_limit_is_lower_bound'] is None)
        assert (roofline['mfu_pct'] is None) == (roofline['mfu_is_lower_bound'] is None)
        if roofline['mfu_pct'] is not None:
            assert 0 < roofline['mfu_pct'] <= roofline['hfu_pct'] <= 100
        known = sum(r['total_ns'] for r in roofline['kernels'] if r['limit_ns'] is not None)
        total = sum(r['total_ns'] for r in roofline['kernels'])
        assert total == 0 or known <= total
        for row in roofline['ops'] + roofline['kernels']:
            assert (row['bound'] == 'unknown') == (row['limit_ns'] is None), row


@pytest.mark.parametrize('path', TRACES, ids=os.path.basename)
def test_no_product_is_faster_than_the_device(analyze, path):
    """FLOPs that are counted too high, and peaks that are too low, show here. Clocks above the data sheet's give a little
    more."""
    for rank in analyze(path)['ranks']:
        peaks = {p['precision']: p['tflops'] for p in rank['limits']['peaks']}
        for row in rank['roofline']['ops']:
            if row['tflops'] is not None and row['precision'] in peaks and row['total_ns'] > 50_000:
                assert row['tflops'] <= 1.1 * peaks[row['precision']], row


# Where the arguments are: first and second factor; the first list of a convolution, which is its padding.
PRODUCTS = {'aten::mm': (0, 1), 'aten::bmm': (0, 1), 'aten::addmm': (1, 2), 'aten::baddbmm': (1, 2)}
CONVOLUTIONS = {'aten::cudnn_convolution': 2, 'aten::miopen_convolution': 3}


def flops_by_hand(event):
    dims, given = event['args']['Input Dims'], event['args'].get('Concrete Inputs')
    if event['name'] in PRODUCTS:
        left, right = (dims[i] for i in PRODUCTS[event['name']])
        assert left[-1] == right[-2]
        return 2 * math.prod(left) * right[-1]
    at = CONVOLUTIONS[event['name']]
    padding, stride, dilation = (json.loads(given[i]) for i in range(at, at + 3))
    (batch, _, *size), (channels, *kernel) = dims[:2]
    out = [(n + 2 * padding[i] - dilation[i] * (kernel[1 + i] - 1) - 1) // stride[i] + 1 for i, n in enumerate(size)]
    return 2 * batch * channels * math.prod(out) * math.prod(kernel)


@pytest.mark.parametrize('path', TRACES, ids=os.path.basename)
def test_flops_are_those_of_the_shapes_in_the_file(analyze, path):
    with (gzip.open if path.endswith('.gz') else open)(path, 'rb') as f:
        document = json.load(f)
    calls, flops = {}, {}
    for event in document['traceEvents'] if isinstance(document, dict) else document:
        name = event.get('name')
        if event.get('ph') != 'X' or name not in PRODUCTS | CONVOLUTIONS or not event['args'].get('Input Dims'):
            continue
        if name in CONVOLUTIONS and not event['args'].get('Concrete Inputs'):
            continue
        calls[name] = calls.get(name, 0) + 1
        flops[name] = flops.get(name, 0) + flops_by_hand(event)
    ranks = analyze(path)['ranks']
    if len(ranks) == 1:
        ops = {op['name']: op for op in ranks[0]['ops']}
        assert {name: (ops[name]['calls'], ops[name]['flops']) for name in calls} == {
            name: (calls[name], flops[name]) for name in calls}


def test_a_trace_without_shapes_says_how_to_get_them(profgpu, simulate):
    trace = simulate('--steps', '4', '--layers', '3', '--no-shapes')
    text = profgpu('analyze', trace, '--section', 'roofline').stdout.decode()
    assert 'record_shapes=True' in text
    assert 'The hardware could run' not in profgpu('analyze', trace).stdout.decode()


def test_the_first_screen_is_no_surer_than_what_is_known(profgpu):
    """A fifth of this trace's kernel time is of products without a recorded operator."""
    trace = next((t for t in TRACES if t.endswith('h100-qwen.json.gz')), None)
    if trace is None:
        pytest.skip('no real traces here')
    text = ' '.join(profgpu('analyze', trace).stdout.decode().split())
    assert 'at least 1.7x as fast (MFU at least 12 %, limit known for 74 % of kernel time)' in text


def test_the_first_screen_says_how_far_it_is(profgpu, simulate):
    trace = simulate('--steps', '4', '--layers', '12')
    for options in ((), ('--format', 'markdown'), ('--section', 'roofline')):
        assert 'x as fast (MFU ' in profgpu('analyze', trace, *options).stdout.decode(), options


def test_a_far_limit_is_said_in_times(analyze, profgpu, simulate, tmp_path):
    """A ratio of a hundred would be read as a speedup that somebody can get."""
    trace = simulate('--steps', '4', '--layers', '12')
    limits = analyze(trace)['ranks'][0]['limits']
    peaks = tmp_path / 'peaks.json'
    rates = {p['precision']: p['tflops'] * 100 for p in limits['peaks']}
    peaks.write_text(json.dumps({'devices': [{'tflops': rates, 'memory_gbps': limits['memory_gbps'] * 100}]}))
    assert analyze(trace, '--peaks', peaks)['ranks'][0]['distance']['times_limit'] > 10
    for options in ((), ('--format', 'markdown'), ('--section', 'roofline')):
        text = ' '.join(profgpu('analyze', trace, '--peaks', peaks, *options).stdout.decode().split())
        assert "At the hardware's limit this step would take " in text and 'x as fast (MFU' not in text, options
        assert re.search(r'would take (?:at most )?[0-9.]+ \S+ instead of [0-9.]+ \S+ \(MFU ', text), options
    saved = tmp_path / 'far.json'
    saved.write_bytes(profgpu('analyze', trace, '--peaks', peaks, '--json').stdout)
    text = profgpu('diff', saved, saved).stdout.decode()
    assert re.search(r"A step takes (?:at least )?\d+\.\d times as long as at the hardware's limit", text)


def test_measured_peaks_replace_the_table(analyze, profgpu, simulate, tmp_path):
    trace = simulate('--steps', '4', '--layers', '12')
    table = analyze(trace)['ranks'][0]
    peaks = tmp_path / 'peaks.json'
    rates = {p['precision']: p['tflops'] * 0.8 for p in table['limits']['peaks']}
    peaks.write_text(json.dumps({'devices': [{'tflops': rates, 'memory_gbps': table['limits']['memory_gbps'] * 0.8}]}))
    measured = analyze(trace, '--peaks', peaks)['ranks'][0]
    assert measured['limits']['source'].startswith(f'{peaks}; what it lacks: ')
    assert measured['roofline']['mfu_pct'] == pytest.approx(table['roofline']['mfu_pct'] / 0.8)
    peaks.write_text('{}')
    refused = profgpu('analyze', trace, '--peaks', peaks)
    assert refused.returncode == 2 and b'not a file of peak rates' in refused.stderr


@pytest.mark.parametrize('fault', ['slow-products', 'memory-bound'])
def test_slow_kernels_are_named_with_their_operators(analyze, simulate, fault):
    found = {f['rule']: f for f in analyze(simulate('--fault', fault, '--steps', '6'))['findings']}
    finding = found[fault]
    assert 'aten::' in finding['evidence'][0] and 'of its limit' in finding['evidence'][0]
    assert 0 < finding['cost_pct'] <= finding['value']
    assert not {'slow-products', 'memory-bound'} & {
        f['rule'] for f in analyze(simulate('--steps', '6'))['findings']}


def one_operator(path, name, dims, kernel, kernel_us, blocks, concrete=None, host_us=25):
    """Ten calls without marked steps, and a wait for them: as a benchmark of one operator is recorded."""
    events, at, free = [], 1000, 1000 + host_us
    for call in range(1, 11):
        args = {'External id': call, 'Input Dims': dims, 'Input type': ['c10::BFloat16' if d else '' for d in dims]}
        if concrete:
            args['Concrete Inputs'] = concrete
        events.append({'ph': 'X', 'cat': 'cpu_op', 'name': name, 'pid': 1, 'tid': 1, 'ts': at, 'dur': host_us - 1, 'args': args})
        events.append({'ph': 'X', 'cat': 'cuda_runtime', 'name': 'hipLaunchKernel', 'pid': 1, 'tid': 1, 'ts': at + 1, 'dur': 1,
                       'args': {'External id': call, 'correlation': call}})
        events.append({'ph': 'X', 'cat': 'kernel', 'name': kernel, 'pid': 0, 'tid': 0, 'ts': free, 'dur': kernel_us,
                       'args': {'External id': call, 'device': 0, 'stream': 0, 'correlation': call, 'grid': [blocks, 1, 1],
                                'block': [256, 1, 1]}})
        at, free = at + host_us, free + kernel_us
    events.append({'ph': 'X', 'cat': 'cuda_runtime', 'name': 'hipDeviceSynchronize', 'pid': 1, 'tid': 1, 'ts': at,
                   'dur': max(free - at, 1), 'args': {'correlation': 99}})
    device = {'id': 0, 'name': 'AMD Instinct MI300X', 'totalGlobalMem': 206141652992, 'computeMajor': 9, 'computeMinor': 4,
              'warpSize': 64, 'numSms': 304}
    path.write_text(json.dumps({'schemaVersion': 1, 'deviceProperties': [device], 'traceEvents': events}))
    return path


def test_a_benchmark_of_one_product_says_what_a_good_kernel_saves(analyze, tmp_path):
    path = one_operator(tmp_path / 'mm.json', 'aten::mm', [[4096, 4096], [4096, 4096]],
                        'Cijk_Ailk_Bljk_BBS_BH_MT256x256x64_MI16x16x1', 400, 65536)
    document = analyze(path)
    finding = next(f for f in document['findings'] if f['rule'] == 'slow-products')
    least_us = 2 * 4096**3 / 708e6   # at the rate that AMD measures at most
    assert finding['severity'] == 'warning'
    assert finding['cost_ns'] == pytest.approx(10 * (400 - least_us / 0.9) * 1000, rel=0.02)
    assert document['verdict'].startswith('GEMMs at less than half')


def test_a_long_kernel_of_few_blocks_is_slow_and_not_small(analyze, tmp_path):
    path = one_operator(tmp_path / 'conv.json', 'aten::miopen_convolution', [[32, 512, 7, 7], [512, 512, 3, 3], [], [], [], []],
                        'igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1', 300, 98, ['', '', '', '[1, 1]', '[1, 1]', '[1, 1]'])
    document = analyze(path)
    finding = next(f for f in document['findings'] if f['rule'] == 'slow-products')
    assert '98 workgroups for 304 compute units' in finding['evidence'][0]
    assert document['verdict'].startswith('Convolutions at less than half')


def test_a_run_of_tiny_kernels_is_not_healthy(analyze, tmp_path):
    path = one_operator(tmp_path / 'add.json', 'aten::relu', [[64, 64]], 'relu_kernel', 4, 1024, host_us=3)
    document = analyze(path)
    assert 'times as long as its work needs' in document['verdict'], document['verdict']
    assert document['verdict_kind'] == 'bottleneck'
