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
    """Each first sends, then receives: neither is more to blame than the other."""
    job = Job({'0': ('default_pg', [0, 1, 2, 3])})
    for rank, peer in ((1, 2), (2, 1)):
        job.call(rank, '0', f'send {rank}->{peer}', p2p=True)
        job.call(rank, '0', f'recv {rank}<-{peer}', p2p=True)
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [1, 2] and hang['what'].startswith('ranks 1–2 send to each other, and neither receives')
    assert 'batch_isend_irecv' in hang['fix'][0]


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


def around(rank, size):
    return f'send {rank}->{(rank + 1) % size}', f'recv {rank}<-{(rank - 1) % size}'


@pytest.mark.parametrize('only_open', [True, False])
def test_a_batch_of_sends_and_receives_is_one_call(profgpu, tmp_path, only_open):
    job = Job({'0': ('default_pg', [0, 1, 2, 3]), '1': ('CP', [0, 1, 2, 3])}, only_open)
    job.done('0', 2)
    for _ in range(3):
        for rank in range(4):
            job.coalesced(rank, '1', *around(rank, 4), state='completed')
    if not only_open:
        report, hang = hang_of(profgpu, job.write(tmp_path / 'healthy'))
        assert hang is None and report['flight_recorder']['open_calls'] == 0
    for rank in (0, 1, 3):
        job.coalesced(rank, '1', *around(rank, 4))
    report, hang = hang_of(profgpu, job.write(tmp_path / 'hangs'))
    assert hang['ranks'] == [2] and report['flight_recorder']['open_calls'] == 3
    assert 'rank 2 never calls' in hang['what'] and hang['value'] == 3


def test_a_batch_waits_for_all_its_peers(profgpu, tmp_path):
    """Rank 1 is done with its batch of 0 and 1; the batch of 1 and 2 waits for 2 although 1 is in it."""
    job = Job({'0': ('default_pg', [0, 1, 2])}, only_open=False)
    job.done('0')
    job.coalesced(0, '0', 'send 0->1')
    job.coalesced(1, '0', 'recv 1<-0', 'send 1->2')
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [2]


def test_parts_of_a_coalesced_collective_are_one_call(profgpu, tmp_path):
    """A list of tensors of different sizes: one broadcast for each rank, under one number."""
    for hangs in (False, True):
        job = Job(WORLD, only_open=False)
        job.done('0', 3)
        for rank in range(8):
            if not hangs or rank != 3:
                job.coalesced(rank, '0', *['_broadcast_oop'] * 8, p2p=False, state='scheduled' if hangs else 'completed')
        report, hang = hang_of(profgpu, job.write(tmp_path / f'dumps{hangs}'))
        assert report['flight_recorder']['mismatches'] == []
        assert (hang['ranks'] if hang else None) == ([3] if hangs else None)
        assert hang is None or hang['what'] == 'rank 3 never calls coalesced _broadcast_oop #4 of default_pg (0)'


def without_members(job, folder, names):
    """As dumps are that have no pg_config, and before version 2 no names of groups either."""
    job.write(folder)
    for rank in range(job.world):
        dump = job.dump(rank)
        del dump['pg_config']
        for entry in dump['entries']:
            if not names:
                del entry['process_group']
        (folder / f'nccl_trace_rank_{rank}').write_bytes(pickle.dumps(dump, protocol=2))
    return folder


@pytest.mark.parametrize('names', [True, False])
def test_groups_of_unknown_members_accuse_nobody(profgpu, tmp_path, names):
    """Each process numbers its groups for itself: two groups of one number, which call different things, do not disagree."""
    job = Job(GRID)
    job.done('0', 3)
    job.collective('1', name='_all_gather_base')
    job.call(2, '2', name='_reduce_scatter_base')
    job.call(4, '3', 'send 0->1', p2p=True)
    report, hang = hang_of(profgpu, without_members(job, tmp_path / 'dumps', names))
    flight = report['flight_recorder']
    assert flight['mismatches'] == [] and hang['ranks'] == [] and flight['members_unknown']
    assert 'who is in which group' in hang['why'] and 'who is in which group' in report['verdict']
    assert 'from rank 0 to rank 1' not in json.dumps(report)


def test_who_waits_in_nothing_is_named_where_groups_are_unknown(profgpu, tmp_path):
    job = Job(GRID)
    job.done('0', 3)
    for rank in (0, 1, 2, 4, 5, 6, 7):
        job.call(rank, '1234'[rank // 2])
    _, hang = hang_of(profgpu, without_members(job, tmp_path / 'dumps', names=False))
    assert hang['ranks'] == [3] and hang['what'] == 'rank 3 waits in no call while the others do'
    assert 'who is in which group' in hang['why'] and 'py-spy' in hang['fix'][0]


def test_the_call_that_a_rank_should_make_next(profgpu, tmp_path):
    """Rank 4 stops in a layer, where 5 waits for it; others do so at the end of the step, and did so before for its data."""
    job = Job({**GRID, '7': ('PP', [0, 4])})
    job.done('0', 3)
    job.done('3', 6)
    job.call(0, '7', 'recv 0<-1', p2p=True)
    job.call(5, '3', name='_all_gather_base')
    for rank in (2, 6):
        job.call(rank, '5')
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [4] and hang['what'] == 'rank 4 never calls _all_gather_base #7 of TP (3)'


def test_a_mismatch_that_nobody_has_come_to(profgpu, tmp_path):
    """Rank 3 does not come to 2. Ranks 6 and 7 wait for 2 and 3, and have queued behind that what would not match."""
    job = Job(GRID)
    job.done('0', 3)
    job.call(2, '2')
    for rank in (0, 4, 6):
        job.call(rank, '5')
    for rank in (1, 5, 7):
        job.call(rank, '6')
    job.call(6, '4', sizes=((8, 8),))
    job.call(7, '4', sizes=((9, 9),))
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [3] and 'never calls' in hang['what']
    assert report['flight_recorder']['mismatches'][0]['ranks'] == [6, 7]


def test_the_first_mismatch_of_a_group_and_the_one_that_isolates(profgpu, tmp_path):
    """Rank 1 calls in DP what it should have called in TP, so that both its groups disagree; only in DP is there a majority."""
    job = Job(GRID)
    job.done('0', 3)
    job.call(0, '1', name='_all_gather_base')
    job.call(1, '6', name='_all_gather_base')
    job.call(1, '1', name='_reduce_scatter_base')
    job.call(0, '1', name='_reduce_scatter_base')
    job.call(1, '1', name='_all_gather_base')
    for rank in (3, 5, 7):
        job.call(rank, '6', name='_reduce_scatter_base')
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [1] and '#1 of DP (6)' in hang['what'], hang['what']
    assert [m['sequence'] for m in report['flight_recorder']['mismatches'] if m['process_group'] == '1'] == [1, 2]


def test_each_of_three_variants_has_its_ranks(profgpu, tmp_path):
    job = Job({'0': ('default_pg', [0, 1, 2, 3])})
    job.done('0', 3)
    for rank, name in enumerate(('all_reduce', 'broadcast', '_all_gather_base', 'all_reduce')):
        job.call(rank, '0', name=name)
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [1, 2]
    for said in ('all_reduce (ranks 0, 3)', 'broadcast (rank 1)', '_all_gather_base (rank 2)'):
        assert said in hang['what'], hang['what']
    variants = report['flight_recorder']['mismatches'][0]['variants']
    assert variants[0] == {'value': 'all_reduce', 'ranks': [0, 3]}
    assert sorted(v['value'] for v in variants[1:]) == ['_all_gather_base', 'broadcast']


@pytest.mark.parametrize('dumps', [True, False])
def test_more_suspects_than_are_named_are_counted(profgpu, tmp_path, dumps):
    """A node of eight is lost; of the 32 ranks of the job the others wait."""
    lost = list(range(8, 16))
    job = Job({'0': ('default_pg', list(range(32)))})
    job.done('0', 3)
    for rank in range(32):
        if rank not in lost:
            job.call(rank, '0')
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps', without=[] if dumps else lost))
    assert len(hang['ranks']) == 4 and report['flight_recorder']['suspects_left_out'] == lost[4:]
    assert 'anks 8–15 ' in hang['what'] and any('ranks 8–15' in fix for fix in hang['fix'])
    assert hang['value'] == 24


def test_a_lacking_dump_is_no_evidence(profgpu, tmp_path):
    """Rank 3 has a dump, and never called what the others wait in; rank 5 has none."""
    job = Job(WORLD)
    job.done('0', 3)
    for rank in (0, 1, 2, 4, 6, 7):
        job.call(rank, '0')
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps', without=[5]))
    assert hang['what'] == 'rank 3 never calls all_reduce #4 of default_pg (0)'


def test_no_rank_waits_in_the_few_dumps(profgpu, tmp_path):
    job = Job(WORLD)
    job.done('0', 3)
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps', without=range(2, 8)))
    assert hang is None and '6 of 8 ranks have no dump here: give analyze the folder' in report['verdict']


@pytest.mark.parametrize('as_json', [True, False])
def test_a_dump_that_is_not_whole_accuses_nobody(profgpu, tmp_path, as_json):
    """Rank 3 never comes. Of rank 5's dump only the first half is left, without what the others are in and its status."""
    job = Job(WORLD, only_open=False)
    job.done('0', 30)
    for rank in (0, 1, 2, 4, 5, 6, 7):
        job.call(rank, '0')
    folder = job.write(tmp_path / 'dumps')
    dump = job.dump(5)
    dump['entries'] = dump.pop('entries')
    del dump['pg_status']
    data = json.dumps(dump).encode() if as_json else pickle.dumps(dump, protocol=2)
    (folder / 'nccl_trace_rank_5').write_bytes(data[:len(data) // 2])
    _, hang = hang_of(profgpu, folder)
    assert hang['ranks'] == [3]
    job = Job(WORLD, only_open=False)
    job.done('0', 30)
    for rank in (0, 1, 2, 3, 4, 6, 7):
        job.call(rank, '0')
    folder = job.write(tmp_path / 'alone')
    (folder / 'nccl_trace_rank_5').write_bytes(data[:len(data) // 2])
    _, hang = hang_of(profgpu, folder)
    assert 'never calls' not in hang['what'] and 'the dump of rank 5 is not whole' in hang['what']


@pytest.mark.parametrize('odd, says', [({'sizes': ((2048, 1),)}, 'size [[4096, 1]] is sent, [[2048, 1]] received'),
                                       ({'dtype': 'Half'}, 'type Float is sent, Half received')])
def test_the_two_ends_of_a_send_that_disagree(profgpu, tmp_path, odd, says):
    job = Job({'0': ('default_pg', [0, 1, 2, 3])})
    job.done('0', 3)
    job.call(1, '0', 'send 1->2', p2p=True, sizes=((4096, 1),))
    job.call(2, '0', 'recv 2<-1', p2p=True, **{'sizes': ((4096, 1),), **odd})
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [1, 2] and says in hang['what'], hang['what']


def test_a_collective_in_a_branch_of_one_rank(profgpu, tmp_path):
    """if rank == 0: all_reduce(group=tp); the others never call it, and are in the next call of all."""
    job = Job({'0': ('default_pg', list(range(8))), '1': ('TP', [0, 1, 2, 3])})
    job.done('0', 3)
    job.call(0, '1')
    for rank in range(8):
        job.call(rank, '0')
    report, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [0] and report['flight_recorder']['suspects'][0]['kind'] == 'called_alone'
    assert not any('order' in fix for fix in hang['fix'])


def test_the_last_of_two_attempts(profgpu, tmp_path):
    for attempt, missing in enumerate((3, 6)):
        job = Job(WORLD)
        job.now = attempt * 10**9
        job.done('0', 3)
        for rank in range(8):
            if rank != missing:
                job.call(rank, '0')
        (tmp_path / 'job').mkdir(exist_ok=True)
        job.write(tmp_path / 'job' / f'attempt{attempt}')
    report, hang = hang_of(profgpu, tmp_path / 'job')
    assert hang['ranks'] == [6] and report['flight_recorder']['dumps_left_out'] == 8
    assert '8 dumps left out' in profgpu('analyze', tmp_path / 'job', text=True).stdout


def test_names_that_are_no_ranks(profgpu, tmp_path):
    """Numbers of processes, and letters: groups and peers tell the rank, or else the file is named."""
    job = Job({'0': ('default_pg', [0, 1, 2, 3]), '1': ('TP', [0, 1]), '2': ('TP', [2, 3]), '3': ('DP', [0, 2]), '4': ('DP', [1, 3])})
    job.done('0', 3)
    for rank in (0, 1, 2):
        job.call(rank, '0')
    folder = job.write(tmp_path / 'dumps', name='nccl_trace_4826{}')
    report, hang = hang_of(profgpu, folder)
    assert hang['ranks'] == [3] and report['flight_recorder']['world_size'] == 4
    job = Job({'0': ('default_pg', [0, 1, 2, 3])})
    job.done('0', 3)
    for rank in (0, 1, 2):
        job.call(rank, '0')
    job.write(tmp_path / 'letters')
    for rank in range(4):
        (tmp_path / 'letters' / f'nccl_trace_rank_{rank}').rename(tmp_path / 'letters' / f'{"dcba"[rank]}_dump.pickle')
    report, hang = hang_of(profgpu, tmp_path / 'letters')
    assert 'a_dump.pickle' in hang['what'] and report['flight_recorder']['world_size'] == 4


def test_a_device_that_has_not_started(profgpu, tmp_path):
    job = Job(WORLD, only_open=False)
    job.done('0', 3)
    for rank in range(8):
        job.call(rank, '0', state='scheduled' if rank == 5 else 'started')
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['what'] == 'the GPU of rank 5 has not started all_reduce #4 of default_pg (0), others have'
    assert 'check the GPU of rank 5' in hang['fix'][0]


def test_an_open_call_that_no_buffer_has(profgpu, tmp_path):
    """Both of a pair have called so much since that no dump has the call in which they are: only their status counts it."""
    job = Job({'0': ('default_pg', [0, 1, 2, 3]), '1': ('TP', [0, 1]), '2': ('TP', [2, 3])}, only_open=False)
    job.done('0', 3)
    job.done('2', 3)
    for _ in range(20):
        job.collective('2')
    job.collective('0')
    folder = job.write(tmp_path / 'dumps')
    for rank in (2, 3):
        dump = job.dump(rank)
        dump['entries'] = dump['entries'][-10:]
        (folder / f'nccl_trace_rank_{rank}').write_bytes(pickle.dumps(dump, protocol=2))
    _, hang = hang_of(profgpu, folder)
    assert hang['what'] == 'ranks 2–3 are in collective #4 of TP (2), and it does not end'


def test_a_receive_that_is_never_called(profgpu, tmp_path):
    job = Job({'0': ('default_pg', [0, 1, 2, 3])})
    job.done('0', 3)
    job.call(3, '0', 'send 3->2', p2p=True)
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['what'] == 'rank 2 never calls recv from rank 3 of default_pg (0)'


def test_names_of_other_backends(profgpu, tmp_path):
    job = Job({'0': ('default_pg', [0, 1, 2, 3])})
    job.done('0', 3)
    job.call(3, '0', 'send 3->2', p2p=True)
    job.calls[3][-1]['profiling_name'] = 'hccl:send 3->2'
    _, hang = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert hang['ranks'] == [2]


def test_a_program_in_a_folder_named_torch(profgpu, tmp_path):
    job = Job(WORLD)
    job.done('0', 3)
    for rank in range(7):
        job.call(rank, '0')
        job.calls[rank][-1]['frames'][-1]['filename'] = '/home/user/torch/train.py'
    report, _ = hang_of(profgpu, job.write(tmp_path / 'dumps'))
    assert report['flight_recorder']['waits'][0]['frames'] == ['train_step (train.py:100)']


def test_dumps_have_nothing_to_compare(profgpu, tmp_path):
    job = Job(WORLD)
    job.call(0, '0')
    folder = job.write(tmp_path / 'dumps')
    run = profgpu('diff', folder, folder, text=True)
    assert run.returncode == 1 and 'have no steps' in run.stderr and 'analyze --json' not in run.stderr
