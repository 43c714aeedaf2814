"""Dumps of NCCL's flight recorder: real ones with injected faults, and made ones of each kind of fault."""
import glob
import json
import os
import pickle

import pytest

from conftest import ROOT
from flight_writer import Job

SHARED = os.path.join(ROOT, '..', 'shared', 'flight-recorder')
WORLD = {'0': ('default_pg', list(range(8)))}
GRID = {'0': ('default_pg', list(range(8))), '1': ('TP', [0, 1]), '2': ('TP', [2, 3]), '3': ('TP', [4, 5]), '4': ('TP', [6, 7]),
        '5': ('DP', [0, 2, 4, 6]), '6': ('DP', [1, 3, 5, 7])}


def hang_of(profgpu, *paths):
    run = profgpu('analyze', *map(str, paths), '--json')
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    found = [f for f in report['findings'] if f['rule'] == 'collective-hang']
    return report, found[0] if found else None


@pytest.mark.skipif(not glob.glob(os.path.join(SHARED, '*')), reason='the real dumps are not here')
@pytest.mark.parametrize('name, hit', [('gpu_error_1st', {12, 14}), ('lock_gil_1st', {9, 14})])
def test_real_dumps_name_who_was_hit(profgpu, name, hit):
    folder = os.path.join(SHARED, name)
    report, hang = hang_of(profgpu, folder)
    assert set(hang['ranks']) == hit and report['verdict_kind'] == 'hang'
    flight = report['flight_recorder']
    calls = [c for p in glob.glob(folder + '/*') for c in pickle.load(open(p, 'rb'))['entries']]
    assert (flight['dumps'], flight['calls'], flight['open_calls']) == (16, len(calls), sum(c['state'] != 'completed' for c in calls))
    # Whoever has open calls waits in exactly one, its first.
    waiting = sorted(r for w in flight['waits'] for r in w['waiting'])
    assert waiting == sorted(int(p.rsplit('_', 1)[1]) for p in glob.glob(folder + '/*') if pickle.load(open(p, 'rb'))['entries'])


@pytest.mark.parametrize('only_open', [True, False])
@pytest.mark.parametrize('as_json', [True, False])
def test_a_rank_that_never_comes(profgpu, tmp_path, only_open, as_json):
    job = Job(WORLD, only_open)
    job.done('0', 5)
    for rank in (0, 1, 2, 4, 5, 6, 7):
        job.call(rank, '0')
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps', as_json=as_json))
    assert hang['ranks'] == [3] and hang['value'] == 7
    wait, = report['flight_recorder']['waits']
    assert (wait['sequence'], wait['missing'], wait['waiting']) == (6, [3], [0, 1, 2, 4, 5, 6, 7])
    assert wait['frames'] == ['train_step (train.py:100)']


def test_a_victim_is_no_suspect(profgpu, tmp_path):
    """Rank 5 never comes to its TP group; 4 waits for it and so never comes to its DP group, where others wait for 4."""
    job = Job(GRID)
    for g in GRID:
        job.done(g, 3)
    for tp in '124':
        job.done(tp)
    job.call(4, '3')
    for rank in (0, 2, 6):
        job.call(rank, '5')
    for rank in (1, 3, 7):
        job.call(rank, '6')
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [5]


def test_a_device_that_is_behind(profgpu, tmp_path):
    """All called everything, but rank 2's device does not finish what others are done with."""
    job = Job(WORLD, only_open=False)
    job.done('0', 3)
    for rank in range(8):
        job.call(rank, '0', state='scheduled' if rank == 2 else 'completed')
    job.collective('0')
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [2]
    assert report['flight_recorder']['suspects'][0]['kind'] == 'device_behind'


def test_started_everywhere_but_on_one(profgpu, tmp_path):
    job = Job(WORLD, only_open=False)
    job.done('0', 3)
    for rank in range(8):
        job.call(rank, '0', state='scheduled' if rank == 6 else 'started')
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [6]


def test_all_in_one_call_is_nobodys_fault(profgpu, tmp_path):
    job = Job(WORLD)
    job.done('0', 3)
    job.collective('0', state='started')
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [] and hang['value'] == 8 and 'network' in hang['why']
    assert report['flight_recorder']['suspects'] == []


def test_a_rank_without_a_dump(profgpu, tmp_path):
    job = Job(WORLD)
    job.done('0', 3)
    for rank in (0, 1, 2, 3, 4, 6, 7):
        job.call(rank, '0')
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps', without=[5]))
    assert hang['ranks'] == [5] and report['flight_recorder']['without_dump'] == [5]


@pytest.mark.parametrize('odd', [{'sizes': ((512, 16),)}, {'dtype': 'Half'}, {'name': '_all_gather_base'}])
def test_a_rank_that_calls_something_else(profgpu, tmp_path, odd):
    job = Job(WORLD)
    job.done('0', 3)
    for rank in range(8):
        job.call(rank, '0', **(odd if rank == 7 else {}))
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [7]
    assert report['flight_recorder']['mismatches'][0]['ranks'] == [7]
    assert hang['what'].startswith('rank 7 calls ') and ', the others ' in hang['what'], hang['what']


def test_sizes_that_may_differ(profgpu, tmp_path):
    job = Job(WORLD)
    for rank in range(8):
        job.call(rank, '0', name='all_to_all', sizes=((100 + rank, 16),))
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert report['flight_recorder']['mismatches'] == [] and hang['ranks'] == []


def test_groups_in_another_order(profgpu, tmp_path):
    groups = {'0': ('default_pg', [0, 1, 2, 3]), '1': ('other', [0, 1, 2, 3])}
    job = Job(groups)
    for rank in range(4):
        for group in ('10' if rank == 3 else '01'):
            job.call(rank, group)
            break
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [3]


def test_one_rank_calls_alone(profgpu, tmp_path):
    job = Job(WORLD)
    job.done('0', 3)
    job.call(0, '0')
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [0]


def test_a_pipeline_stage_that_stops(profgpu, tmp_path):
    groups = {'0': ('default_pg', [0, 1, 2, 3]), '1': ('PP', [0, 1, 2, 3])}
    job = Job(groups)
    job.done('0', 2)
    job.call(1, '1', 'recv 1<-2', p2p=True, number=78)
    job.call(3, '1', 'recv 3<-2', p2p=True, number=41)
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [2], report['flight_recorder']


def test_damaged_dumps(profgpu, tmp_path):
    job = Job(WORLD, only_open=False)
    job.done('0', 30)
    for rank in (0, 1, 2, 4, 5, 6, 7):
        job.call(rank, '0')
    folder = job.write(tmp_path / 'dumps')
    whole = (folder / 'nccl_trace_rank_0').read_bytes()
    for size in range(0, len(whole), 997):
        (folder / 'nccl_trace_rank_0').write_bytes(whole[:size])
        assert profgpu('analyze', folder).returncode == 0
    (folder / 'nccl_trace_rank_0').write_bytes(b'\x80\x02cos\nsystem\n(X\x04\x00\x00\x00truetR.pg_status')
    run = profgpu('analyze', folder, '--json')
    assert run.returncode == 0 and b'os system' in run.stdout
    assert profgpu('analyze', folder / 'nccl_trace_rank_0').returncode == 1
    assert len(os.listdir(folder)) == 8


def test_no_rank_waits(profgpu, tmp_path):
    job = Job(WORLD, only_open=False)
    job.done('0', 3)
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang is None and report['verdict_kind'] == 'inconclusive'


def test_every_format_shows_it(profgpu, tmp_path):
    job = Job(WORLD)
    for rank in range(7):
        job.call(rank, '0')
    folder = job.write(tmp_path / 'dumps')
    for words in ([], ['--format', 'markdown'], ['--format', 'html'], ['--section', 'hang'], ['--section', 'findings']):
        out = profgpu('analyze', folder, *words).stdout.decode()
        assert 'ank 7' in out or (words == ['--section', 'hang'] and 'never called' in out), words
    for timeline in ('perfetto', 'chrome', 'speedscope'):
        written = profgpu('export', folder, '--to', timeline, '-o', tmp_path / 'out', text=True)
        assert written.returncode == 1 and 'hint: ' in written.stderr and not (tmp_path / 'out').exists()
