"""Why an allocation found no memory, and what to change: by what the request could have had."""
import pickle

import pytest

from memory_snapshots import START_US

MIB = 1 << 20
ATTEND = [{'name': 'attend', 'filename': '/me/job/model.py', 'line': 30}, {'name': 'main', 'filename': '/me/job/train.py', 'line': 9}]


def failed_snapshot(reserved, held, asked, device_free, expandable=False):
    """MiB: one segment in which a block is held at its beginning, and a request that finds no memory."""
    base, events = 1 << 40, []

    def add(action, addr, size, **more):
        events.append({'action': action, 'addr': addr, 'size': size * MIB, 'stream': 0, 'frames': ATTEND,
                       'time_us': START_US + 10 * len(events)} | more)
    add('segment_alloc', base, reserved)
    add('alloc', base, held)
    add('oom', 0, asked, device_free=device_free * MIB)
    blocks = [{'address': base, 'size': held * MIB, 'requested_size': held * MIB, 'state': 'active_allocated', 'frames': ATTEND},
              {'address': base + held * MIB, 'size': (reserved - held) * MIB, 'requested_size': 0, 'state': 'inactive', 'frames': []}]
    segment = {'device': 0, 'address': base, 'total_size': reserved * MIB, 'allocated_size': held * MIB, 'active_size': held * MIB,
               'requested_size': held * MIB, 'stream': 0, 'segment_type': 'large', 'segment_pool_id': (0, 0),
               'is_expandable': False, 'frames': ATTEND, 'blocks': blocks}
    settings = {'PYTORCH_CUDA_ALLOC_CONF': 'expandable_segments:True' if expandable else '', 'max_split_size': -1,
                'garbage_collection_threshold': 0.0, 'expandable_segments': expandable, 'roundup_power2_divisions': {}}
    return {'segments': [segment], 'device_traces': [events], 'allocator_settings': settings}


def found_oom(path, analyze, *before, **how):
    (path / 'oom.pickle').write_bytes(pickle.dumps(failed_snapshot(**how), 4))
    document = analyze(*before, path / 'oom.pickle')
    return document, next(f for f in document['findings'] if f['rule'] == 'oom'), document['ranks'][0]['snapshot']['oom']


def test_little_that_is_unused_is_no_fragmentation(tmp_path, analyze):
    document, finding, oom = found_oom(tmp_path, analyze, reserved=2000, held=1950, asked=40, device_free=1)
    assert oom['cause'] == 'need' and 'only 2.5 % of the 1.95 GiB reserved' in finding['why']
    assert 'checkpoint' in finding['fix'][0] and any('expandable_segments' in fix for fix in finding['fix'])
    assert any('1.95 GiB in all; nvidia-smi' in fact for fact in finding['evidence'])


@pytest.mark.parametrize('expandable', [False, True])
def test_settings_that_are_on_are_no_advice(expandable, tmp_path, analyze):
    document, finding, oom = found_oom(tmp_path, analyze, reserved=2000, held=1000, asked=900, device_free=1, expandable=expandable)
    assert oom['cause'] == 'fragmentation'
    for finding in document['findings']:
        assert ('expandable_segments' in ' '.join(finding['fix'])) == (not expandable), finding


def test_a_request_larger_than_the_device_is_a_wrong_size(tmp_path, analyze):
    document, finding, oom = found_oom(tmp_path, analyze, reserved=1000, held=900, asked=64 << 10, device_free=7000)
    assert oom['cause'] == 'request' and finding['fix'] == ['check shape and type of what attend (job/model.py:30) allocates']
    assert document['ranks'][0]['snapshot']['batch'] is None and 'largest' not in document['verdict']


def test_a_device_that_others_hold(tmp_path, simulate, analyze):
    trace = simulate('--steps', '3', '--no-memory')
    document, finding, oom = found_oom(tmp_path, analyze, trace, reserved=422, held=414, asked=16, device_free=8)
    capacity = document['ranks'][0]['memory']['capacity_bytes']
    assert oom['cause'] == 'outside' and oom['outside_bytes'] == capacity - 430 * MIB
    assert "held outside this process's PyTorch" in finding['why'] and 'nvidia-smi' in finding['fix'][0]
    (headroom,) = (row for row in document['checklist'] if row['id'] == 'memory-headroom')
    assert headroom['verdict'] == 'fail' and headroom['value'] < 1
