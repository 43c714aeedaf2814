"""NCCL's profiler interface in three versions, driven by a program that plays NCCL."""
import collections

import pytest
from recorded import run

EVERY = pytest.mark.parametrize('version', [4, 5, 6])
FUNCTIONS = ['AllReduce', 'AllGather', 'ReduceScatter', 'Broadcast']


def drive(tmp_path, *words, **settings):
    return run(tmp_path, *words, program='nccl-sim', cupti=None, **settings)


def check_calls(rows, calls, communicators, kernels=True, channels=2):
    rows = [r for r in rows if r['function'] not in ('Send', 'Recv') and r['algorithm'] == 'RING']
    assert len(rows) == calls * communicators
    for row in rows:
        i = row['sequence']
        c = row['communicator'] - 0xabcdef0000000000
        assert row['function'] == FUNCTIONS[i % 4] and row['count'] == 1024 + i and row['communicator_name'] == f'tp{c}'
        assert (row['rank'], row['ranks'], row['data_type'], row['protocol']) == (3, 8, 'ncclFloat16', 'SIMPLE')
        assert row['root_or_peer'] == (2 if i % 4 == 3 else 0) and row['channels'] == channels
        assert row['duration_ns'] >= 0 and row['start_ns'] > 0 and row['tid'] > 0
        number = c * 1000000 + i
        assert row['device_start_ns'] == (1000000000000 + number * 1000000 if kernels else 0)
        assert row['device_duration_ns'] == (250000 if kernels else 0)
    assert collections.Counter((r['communicator'], r['sequence']) for r in rows).most_common(1)[0][1] == 1


@EVERY
@pytest.mark.parametrize('order', [[], ['--late'], ['--backwards']])
def test_calls(tmp_path, version, order):
    result = drive(tmp_path, '--version', version, '--calls', 20, '--communicators', 3, *order)
    assert result.returncode == 0 and result.recording.ended
    check_calls(result.recording['collective'], 20, 3)
    assert 'nccl' in result.recording.properties['recorded_by']


@EVERY
def test_sends(tmp_path, version):
    rows = drive(tmp_path, '--version', version, '--calls', 0, '--sends', 6, '--channels', 1).recording['collective']
    assert collections.Counter(r['function'] for r in rows) == {'Send': 3, 'Recv': 3}
    assert all(r['root_or_peer'] == 5 and r['count'] == 4096 and r['device_duration_ns'] == 250000 for r in rows)


@EVERY
def test_threads_and_communicators(tmp_path, version):
    result = drive(tmp_path, '--version', version, '--calls', 100, '--communicators', 16, '--threads', 8)
    check_calls(result.recording['collective'], 100, 16)


@EVERY
@pytest.mark.parametrize('end', ['return', '_exit'])
def test_kernels_that_are_never_told(tmp_path, version, end):
    result = drive(tmp_path, '--version', version, '--calls', 20, '--no-kernels', '--end', end, options='flush_ms=20')
    if end == 'return':
        check_calls(result.recording['collective'], 20, 1, kernels=False)


def test_exit_without_finalize(tmp_path):
    result = drive(tmp_path, '--calls', 20, '--no-kernels', '--no-finalize')
    check_calls(result.recording['collective'], 20, 1, kernels=False)


def test_more_in_flight_than_there_is_room_for(tmp_path):
    # 5000 calls are enqueued before the first kernel is told of: the first 904 are written without.
    rows = drive(tmp_path, '--calls', 5000, '--late', '--channels', 1, options='flush_ms=20').recording
    assert len(rows['collective']) + rows.dropped() == 5000
    assert sum(1 for r in rows['collective'] if r['device_duration_ns']) >= 4096 - rows.dropped()


@EVERY
def test_handles_that_are_long_over(tmp_path, version):
    result = drive(tmp_path, '--version', version, '--calls', 20, '--stale')
    assert result.returncode == 0
    assert len(result.recording['collective']) == 21


def test_copy_engines(tmp_path):
    rows = drive(tmp_path, '--version', 6, '--calls', 0, '--copy-engine', 4).recording['collective']
    assert [(r['function'], r['algorithm'], r['count'], r['data_type']) for r in rows] == [('AllGather', 'CE', 77, 'ncclFloat32')] * 4
    assert not drive(tmp_path / 'v5', '--version', 5, '--calls', 1, '--copy-engine', 0).recording['drop']


def test_killed(tmp_path):
    result = drive(tmp_path, '--calls', 50, '--end', 'kill')
    assert result.returncode == -9
    assert not result.paths or not result.recording.ended


def test_left_out(tmp_path):
    result = drive(tmp_path, '--calls', 5, options='nccl=0')
    assert 'does not want collectives' in result.stderr and result.returncode == 0
    assert not result.recording['collective']


def test_nothing_without_being_asked(tmp_path):
    result = drive(tmp_path, '--calls', 5, PROFGPU_RECORD='')
    assert result.returncode == 0 and not result.paths
