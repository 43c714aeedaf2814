"""scripts/gpu-check's part `record`: dry, with the simulated device, and that its comparisons see what is wrong."""
import copy
import os
import types

import pytest
from recorded import BUILD, LIBRARY, need
from gpu_check import record

SAID = {'by_name': {'known_add': 2, 'known_spin': 1, 'known_node': 1}, 'spin_ns': 50000, 'copies': {'1': 1}, 'copy_bytes': 1234568,
        'sets': 1, 'set_bytes': 1234568, 'graph_launches': 1, 'allocations': 1, 'ranges': 1}
ROWS = {'kernel': [{'name': n, 'duration_ns': d} for n, d in (('known_add', 900), ('known_add', 950), ('known_spin', 51000),
                                                              ('known_node', 700))],
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
    ('kernel', {'name': 'known_add', 'duration_ns': 900}, 'kernels by name'),
    ('kernel', {'name': 'known_spin', 'duration_ns': 49000}, 'durations of kernels of known length'),
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
    assert not failed(record.compare_kernels('m', {'a': [1, 98], 'b': [1, 101]}, rows))
    assert failed(record.compare_kernels('m', {'a': [2, 200]}, {**rows, 'kernel': rows['kernel'][:1]})) == [
        'm: as many kernels as torch.profiler', 'm: their time']


def test_overhead_is_a_ratio_round_by_round():
    rates = {'bare': [10, 20], 'profgpu': [8, 20]}
    assert record.ratios(rates, 'profgpu') == pytest.approx([25, 0])
