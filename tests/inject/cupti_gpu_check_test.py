"""scripts/gpu-check's parts `record` and `recorded_training`: dry, with the simulated device, and that their comparisons see
what is wrong."""
import copy
import json
import os
import subprocess
import sys
import types

import pytest
from recorded import BUILD, LIBRARY, STUBS, need, run, torch_orders
from gpu_check import record, recorded_training, recording_file

SAID = {'by_name': {'known_add': 2, 'known_spin': 1, 'known_node': 1}, 'spin_ns': 50000, 'copies': {'1': 1}, 'copy_bytes': 1234568,
        'sets': 1, 'set_bytes': 1234568, 'graph_launches': 1, 'allocations': 1, 'ranges': 1, 'streams': 2}
ROWS = {'kernel': [{'name': n, 'duration_ns': d, 'queue': q} for n, d, q in (
            ('known_add', 900, 1), ('known_add', 950, 2), ('known_spin', 51000, 1), ('known_node', 700, 1))],
        'copy': [{'copy_kind': 1, 'bytes': 1234568}], 'set': [{'bytes': 1234568}], 'call': [{'name': 'cudaGraphLaunch'}],
        'allocation': [{'is_free': 0, 'bytes': 1 << 20}], 'range_event': [{'op': 1, 'name': 'known range'}], 'drop': [], 'note': []}


def failed(checks):
    return [c['name'] for c in checks if c['ok'] is False]


def test_dry_run():
    need(LIBRARY, os.path.join(BUILD, 'cuda-sim'))
    machine = types.SimpleNamespace(simulated=True, program=os.path.join(BUILD, 'profgpu'))
    document = record.run(machine)
    assert len(document['checks']) >= 4 and not failed(document['checks']), document
    assert all('simulated' in c['name'] for c in document['checks'])


def test_all_is_well():
    assert not failed(record.compare_known(SAID, ROWS))


@pytest.mark.parametrize('kind, row, name', [
    ('kernel', {'name': 'known_add', 'duration_ns': 900, 'queue': 1}, 'kernels by name'),
    ('kernel', {'name': 'known_add', 'duration_ns': 900, 'queue': 3}, 'kernels by stream'),
    ('kernel', {'name': 'known_spin', 'duration_ns': 45000, 'queue': 1}, 'durations of kernels of known length'),
    ('copy', {'copy_kind': 1, 'bytes': 1234568}, 'copies by direction'),
    ('copy', {'copy_kind': 10, 'bytes': 1}, 'bytes of copies'),
    ('set', {'bytes': 1234568}, 'memory sets'),
    ('call', {'name': 'cudaGraphLaunch'}, 'graph launches'),
    ('allocation', {'is_free': 0, 'bytes': 1 << 20}, 'allocations'),
    ('range_event', {'op': 1, 'name': 'known range'}, 'NVTX ranges'),
    ('drop', {'count': 3}, 'nothing dropped'),
])
def test_one_too_many_is_seen(kind, row, name):
    rows = copy.deepcopy(ROWS)
    rows[kind].append(row)
    assert name in failed(record.compare_known(SAID, rows))


def test_kernels_of_two_recorders():
    rows = {'kernel': [{'name': 'a', 'duration_ns': 100}, {'name': 'b', 'duration_ns': 100}], 'drop': []}
    assert not failed(recorded_training.compare_kernels('m', {'a': [1, 98], 'b': [1, 101]}, rows))
    assert failed(recorded_training.compare_kernels('m', {'a': [2, 200]}, {**rows, 'kernel': rows['kernel'][:1]})) == [
        'm: as many kernels as torch.profiler', 'm: their time']


def test_overhead_is_a_ratio_round_by_round():
    rates = {'bare': [10, 20], 'profgpu': [8, 20]}
    assert recorded_training.ratios(rates, 'profgpu') == pytest.approx([25, 0])


def test_launches_of_which_no_kernel_is(tmp_path):
    result = run(tmp_path, '--kernels', 500, '--graphs', 2, '--copies', 3)
    assert recording_file.launches_without_kernel(result.paths[0]) == (500, 0)
    counted = recording_file.counts(result.paths[0])
    assert not failed(recorded_training.compare_minute(10, counted, (500, 0), 10_000))
    assert failed(recorded_training.compare_minute(10, (counted[0], 4), (500, 1), 10_000)) == [
        'a minute of training: nothing dropped', 'a minute of training: each launch has its kernel']
    # Kernels that CUPTI lost, and did not count.
    result = run(tmp_path / 'less', '--kernels', 500, sim='drop_every=7')
    launches, without = recording_file.launches_without_kernel(result.paths[0])
    assert 400 < launches <= 500 and 20 < without < 150


def test_training_turn_by_turn(tmp_path, monkeypatch):
    """The loop over rounds, with a script in place of the training."""
    said = {'steps_per_s': 5.0, 'kernels': {'a': [2, 200]}}
    monkeypatch.setattr(recorded_training, 'run_json', lambda words: (dict(said), ''))
    rows = {'kernel': [{'name': 'a', 'duration_ns': 100}] * 2, 'drop': []}
    monkeypatch.setattr(recorded_training, 'recorded', lambda *_: ({'steps_per_s': 4.95}, rows, 1, ''))
    checks, rates = recorded_training.train('m', 'library')
    assert not failed(checks) and len(rates['m']['profgpu']) == len(rates['m']['bare']) == record.ROUNDS
    monkeypatch.setattr(recorded_training, 'recorded', lambda *_: ({'steps_per_s': 4.0}, rows, 1, ''))
    assert failed(recorded_training.train('m', 'library')[0]) == ['m: a step with profgpu takes longer by']
    monkeypatch.setattr(recorded_training, 'recorded', lambda *_: (None, None, 0, 'it fell over'))
    assert failed(recorded_training.train('m', 'library')[0]) == ['m: training profgpu']


def test_one_command_each():
    need(LIBRARY, os.path.join(BUILD, 'cuda-sim'))
    env = {**os.environ, 'LD_LIBRARY_PATH': f'{STUBS}:{STUBS}/12', 'CUDA_SIM': 'driver=12050'}

    def profgpu(*words, timeout=60):
        return subprocess.run([os.path.join(BUILD, 'profgpu'), *words], env=env, capture_output=True, text=True, timeout=timeout)
    machine = types.SimpleNamespace(profgpu=profgpu, profgpu_json=lambda *words: (json.loads(profgpu(*words).stdout), ''))
    words = [os.path.join(BUILD, 'cuda-sim'), '--kernels', '50', '--steps', '10', '--step-kernels', '5']
    assert record.one_command_each(machine, words, 10)['ok'] is True
    assert record.one_command_each(machine, words, 11)['ok'] is False
    assert record.one_command_each(machine, ['false'], 1)['ok'] is False


def test_a_trace_on_demand():
    pytest.importorskip('torch')
    need(LIBRARY)
    program = os.path.join(BUILD, 'profgpu')

    def profgpu(*words, timeout=120):
        return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=timeout)
    machine = types.SimpleNamespace(program=program, profgpu=profgpu, profgpu_json=lambda *words: (json.loads(profgpu(*words).stdout), ''))
    words = [sys.executable, os.path.join(record.HERE, 'training.py'), 'transformer', '--device', 'cpu', '--small', '--steps', '1000000']
    with torch_orders():
        found = record.on_demand(machine, words, steps=3, on_device=False)
    assert found['ok'] is True, found

    def rank(*steps, operators=2, busy=1):
        return {'steps': [{'index': i, 'device_busy_ns': busy} for i in steps], 'ops': [{'name': 'aten::mm', 'calls': operators}]}
    whole, part = rank(*range(20)), rank(7, 8, 9)
    for ranks, traced, ok in (([whole], part, True), ([whole, whole], part, False), ([rank(*range(20), busy=0)], part, False),
                              ([rank(*range(20), operators=3)], part, False), ([rank(7, 8, 9)], part, False), ([whole], rank(7), False)):
        assert record.compare_on_demand('', ranks, traced, 3, True)['ok'] is ok


def test_launch_cost(tmp_path):
    program = tmp_path / 'known_work'
    program.write_text('#!/bin/sh\n[ -n "$PROFGPU_RECORD" ] && echo \'{"ns_a_launch": 4500}\' || echo \'{"ns_a_launch": 3000}\'\n')
    program.chmod(0o755)
    cost = record.launch_cost(str(program), 'library')
    assert cost['ok'] is True and '1500 ns' in cost['said']
    program.write_text('#!/bin/sh\nexit 3\n')
    assert record.launch_cost(str(program), 'library')['ok'] is False
    assert record.built_program(str(tmp_path), '/nonexistent') == (str(program), None)


def test_the_training_runs(tmp_path):
    pytest.importorskip('torch')
    words = [sys.executable, os.path.join(record.HERE, 'training.py'), '--device', 'cpu', '--small', '--steps', '2', '--warmup', '1']
    for model in recorded_training.MODELS:
        said, wrong = record.run_json([*words, model])
        assert said and said['steps_per_s'] > 0, wrong
    said, wrong = record.run_json([*words, 'transformer', '--profiler', 'torch'])
    assert said and said['kernels'] == {}, wrong
