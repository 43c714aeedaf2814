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


def test_each_suspect_has_its_own_group(profgpu, tmp_path):
    """In two groups of the same description one device each is behind; most ranks wait in other calls."""
    groups = {'0': ('default_pg', list(range(8))), '1': ('TENSOR', [0, 1]), '2': ('TENSOR', [2, 3]),
              **{str(3 + i): ('PAIR', [i // 2 * 2, 4 + i]) for i in range(4)}}
    job = Job(groups, only_open=False)
    job.done('0', 3)
    for group, (behind, ahead) in (('1', (0, 1)), ('2', (2, 3))):
        job.call(behind, group, state='scheduled')
        job.call(ahead, group, state='completed')
    for i in range(4):
        job.call(4 + i, str(3 + i))
    dumps = job.write(tmp_path / 'dumps')
    report, hang = hang_of(profgpu, dumps)
    assert hang['ranks'] == [0, 2]
    assert hang['what'] == 'rank 0 does not finish all_reduce #1 of TENSOR (1); rank 2 does not finish all_reduce #1 of TENSOR (2)'
    rows = [line.split()[:4] for line in profgpu('analyze', dumps, '--top', '2', text=True).stdout.split('\n')]
    assert ['all_reduce', '#1,', 'group', '1'] in rows and ['all_reduce', '#1,', 'group', '2'] in rows
    assert '… and 4 more: --section hang' in profgpu('analyze', dumps, '--top', '2', text=True).stdout


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
    assert "don't show which one holds up the others" in hang['why']
    assert any('py-spy dump' in f for f in hang['fix']) and any('TORCH_NCCL_TRACE_CPP_STACK=1' in f for f in hang['fix'])
    assert report['flight_recorder']['suspects'] == []


def test_all_groups_stuck_are_nobodys_fault(profgpu, tmp_path):
    """The fault of no pair: all four are in their own call."""
    job = Job(GRID)
    job.done('0', 3)
    for tp in '1234':
        job.collective(tp, state='started')
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert "don't show which rank, link or GPU is the cause" in report['verdict']
    assert hang['ranks'] == [] and hang['what'] == ('ranks 0–7 are in 4 calls that all their ranks have made, such as '
                                                    'all_reduce #1 of TP (1), and none ends')


def test_members_of_a_stuck_call_are_equals(profgpu, tmp_path):
    """All four of a group are in its call; others wait for one of these each. Eight such ranks are too many to name."""
    for many in (4, 8):
        pairs = {str(2 + i): ('PAIR', [i, many + i]) for i in range(many)}
        job = Job({'0': ('default_pg', list(range(2 * many))), '1': ('EXPERT', list(range(many))), **pairs})
        job.done('0', 3)
        job.collective('1')
        for i in range(many):
            job.call(many + i, str(2 + i))
        report, hang = hang_of(profgpu, job.write(tmp_path / f'dumps{many}'))
        assert hang['ranks'] == ([0, 1, 2, 3] if many == 4 else [])
        assert hang['what'] == f'ranks 0–{many - 1} are in all_reduce #1 of EXPERT (1), and it does not end'
        assert {s['kind'] for s in report['flight_recorder']['suspects']} <= {'stuck_in'}


def test_of_two_stuck_calls_one_is_named_whole(profgpu, tmp_path):
    """Two groups of four are stuck, each with the same number of ranks that wait for it."""
    groups = {'0': ('default_pg', list(range(16))), '1': ('EXPERT', [0, 1, 2, 3]), '2': ('EXPERT', [4, 5, 6, 7]),
              **{str(3 + i): ('PAIR', [i, 8 + i]) for i in range(8)}}
    job = Job(groups)
    job.done('0', 3)
    for group in '12':
        job.collective(group)
    for i in range(8):
        job.call(8 + i, str(3 + i))
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [0, 1, 2, 3] and hang['what'] == 'ranks 0–3 are in all_reduce #1 of EXPERT (1), and it does not end'


def test_an_open_call_that_has_left_the_buffer(profgpu, tmp_path):
    """Ranks 2 and 3 called all_reduce #5 and then so much in their pair that their buffers have dropped it."""
    groups = {'0': ('default_pg', [0, 1, 2, 3]), '1': ('TP', [0, 1]), '2': ('TP', [2, 3])}
    job = Job(groups)
    job.done('0', 4)
    for rank in (1, 2, 3):
        job.call(rank, '0')
    for _ in range(20):
        job.collective('2')
    folder = job.write(tmp_path / 'dumps')
    for rank in (2, 3):
        dump = job.dump(rank)
        dump['entries'] = dump['entries'][-10:]
        (folder / f'nccl_trace_rank_{rank}').write_bytes(pickle.dumps(dump, protocol=2))
    report, hang = hang_of(profgpu, folder)
    assert hang['what'] == 'rank 0 never calls all_reduce #5 of default_pg (0)'
    wait, = report['flight_recorder']['waits']
    assert (wait['waiting'], wait['missing'], wait['completed']) == ([1, 2, 3], [0], [])


@pytest.mark.parametrize('given', [[5], [1, 5, 6]])
def test_a_few_dumps_accuse_no_absent_rank(profgpu, tmp_path, given):
    job = Job(WORLD)
    job.done('0', 3)
    for rank in range(1, 8):
        job.call(rank, '0')
    job.write(tmp_path / 'dumps')
    report, hang = hang_of(profgpu, *[tmp_path / 'dumps' / f'nccl_trace_rank_{r}' for r in given])
    assert hang['ranks'] == [] and report['flight_recorder']['suspects'] == []
    assert hang['what'].endswith('in all_reduce #4 of default_pg (0)') and hang['what'].startswith('rank')
    assert f'{8 - len(given)} of 8 ranks have no dump here' in hang['why'] and 'dumps of all ranks' in report['verdict']


def test_a_circle_without_a_minority(profgpu, tmp_path):
    """Rank 3 leaves out one call of its pair and goes on to the next of all: 2 waits for it, and so do 0 and 1 behind 2."""
    groups = {'0': ('default_pg', [0, 1, 2, 3]), '1': ('TP', [2, 3]), '2': ('PP', [0, 2]), '3': ('PP', [1, 0])}
    job = Job(groups)
    job.done('0', 2)
    job.call(2, '1')
    job.call(0, '2')
    job.call(1, '3')
    job.call(3, '0')
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [3] and hang['what'] == 'rank 3 never calls all_reduce #1 of TP (1)'
    assert 'rank 3 is in all_reduce #3 of default_pg (0)' in hang['evidence']


def test_two_that_send_to_each_other(profgpu, tmp_path):
    """Each first sends, then receives; neither is more to blame."""
    job = Job({'0': ('default_pg', [0, 1, 2, 3])})
    for rank, peer in ((1, 2), (2, 1)):
        job.call(rank, '0', f'send {rank}->{peer}', p2p=True)
        job.call(rank, '0', f'recv {rank}<-{peer}', p2p=True)
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [1, 2] and 'another order' in hang['what']


@pytest.mark.parametrize('odd, says', [({'sizes': ((512, 16),)}, 'size '), ({'name': '_all_gather_base'}, '')])
def test_two_that_disagree(profgpu, tmp_path, odd, says):
    """In a group of two nobody is the odd one out; of eight, four to four, nobody is named."""
    for size in (2, 8):
        job = Job({'0': ('default_pg', list(range(8))), '1': ('TP', list(range(size)))})
        job.done('0', 3)
        for rank in range(size):
            job.call(rank, '1', **(odd if rank >= size // 2 else {}))
        report, hang = hang_of(profgpu, job.write(tmp_path / f'dumps{size}'))
        assert hang['ranks'] == ([0, 1] if size == 2 else [])
        assert f'disagree under #1 of TP (1): {says}' in hang['what'] and 'the others' not in hang['what']
        assert report['flight_recorder']['mismatches'][0]['ranks'] == list(range(size))


@pytest.mark.parametrize('version', ['1.1', '1.5'])
def test_an_empty_dump_of_an_old_version(profgpu, tmp_path, version):
    """Before version 2 a dump had only its version and its entries; the rank at fault has none of these."""
    job = Job({'0': ('default_pg', [0, 1, 2, 3])})
    job.done('0', 3)
    for rank in (0, 1, 3):
        job.call(rank, '0')
    folder = job.write(tmp_path / 'dumps')
    for rank in range(4):
        entries = [dict(e) for e in job.dump(rank)['entries']]
        if version == '1.1':
            for e in entries:
                e['seq_id'] = e.pop('collective_seq_id')
                for key in ('p2p_seq_id', 'process_group', 'is_p2p'):
                    del e[key]
        (folder / f'nccl_trace_rank_{rank}').write_bytes(pickle.dumps({'version': version, 'entries': entries}, protocol=2))
    report, hang = hang_of(profgpu, folder)
    assert hang['ranks'] == [2] and report['flight_recorder']['dumps'] == 4


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
    assert 'all have completed their last call, all_reduce #3 of default_pg (0). If the job hung then' in report['verdict']
    assert report['flight_recorder']['last_calls'] == ['all_reduce #3 of default_pg (0)']


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
