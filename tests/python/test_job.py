"""profgpu analyze of a job's folder: by one process and by several that mpirun starts, with the same bytes; and folders
that are not as they should be."""
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import program
from test_record import SIM, record

SMALL = ('--steps', '3', '--layers', '2')
HOUR_NS = 3_600_000_000_000
FORMATS = ('json', 'markdown', 'terminal')
MPIRUN = ('mpirun', '--oversubscribe', '--bind-to', 'none')


def without_launcher(**more):
    """The environment, as if no launcher had started the tests. mpirun refuses root unless told twice."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU_', 'OMPI', 'PMI', 'SLURM'))}
    return {**env, 'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', **more}


@pytest.fixture(scope='session')
def path():
    return program('PROFGPU', 'profgpu')


@pytest.fixture(scope='session')
def component(path):
    if shutil.which('mpirun') is None:
        pytest.skip('not installed: mpirun')
    # Beside the program, or where it is installed.
    places = [os.path.join(os.path.dirname(path), folder, 'libprofgpu-mpi.so') for folder in ('', '../lib/profgpu')]
    found = next(filter(os.path.exists, places), None)
    if found is None:
        pytest.skip(f'{places[0]} is not built')
    return found


@pytest.fixture(scope='session')
def alone(path):
    """alone(*words) -> what one process makes of `analyze` and these words."""

    def run(*words, **more):
        return subprocess.run([path, 'analyze', *map(str, words)], env=without_launcher(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, **more)

    return run


@pytest.fixture(scope='session')
def together(path, component):
    """together(count, *words) -> what so many processes make of it. A run of over a minute fails the test."""

    def run(count, *words, wrapper=(), **more):
        return subprocess.run([*MPIRUN, '-n', str(count), *wrapper, path, 'analyze', '--mpi', *map(str, words)],
                              env=without_launcher(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              **more)

    return run


def said(result):
    """What profgpu itself wrote: mpirun has remarks of its own."""
    return [line for line in result.stderr.splitlines() if line.startswith(('profgpu: ', '  hint: '))]


@pytest.fixture(scope='session')
def same(alone, together):
    """same(*words) -> the document; one process, two and three give it, and say the same beside."""

    def run(*words, counts=(2, 3), code=0):
        one = alone('--json', *words)
        assert one.returncode == code, one.stderr
        for count in counts:
            several = together(count, '--json', *words)
            assert (several.returncode, several.stdout, said(several)) == (code, one.stdout, said(one)), several.stderr
        return json.loads(one.stdout) if code == 0 else said(one)

    return run


@pytest.fixture
def job(simulate, tmp_path):
    """job(*options) -> a folder of traces of one's own, to be spoiled."""

    def make(*options):
        return shutil.copytree(simulate(*SMALL, *options), tmp_path / 'job')

    return make


def ranks(document):
    return [rank['rank'] for rank in document['ranks']]


def issues(document, name):
    """Of the inputs whose path ends so."""
    return [issue for source in document['inputs'] if source['path'].endswith(name) for issue in source['issues']]


@pytest.mark.parametrize('form', FORMATS)
def test_any_number_of_processes_gives_the_same_bytes(simulate, alone, together, form):
    folder = simulate(*SMALL, '--ranks', '4')
    one = alone('--all', '--format', form, folder)   # mpirun's output may be a terminal
    assert one.returncode == 0 and len(one.stdout) > 1000
    for count in (1, 2, 3, 8):   # the last: more processes than files
        several = together(count, '--all', '--format', form, folder)
        assert several.returncode == 0, several.stderr
        assert several.stdout == one.stdout, f'{count} processes'
        assert said(several) == said(one)


def test_a_report_into_a_file_is_written_once(simulate, alone, together, tmp_path):
    folder = simulate(*SMALL, '--ranks', '4')
    assert together(3, '--json', '-o', tmp_path / 'several.json', folder).stdout == ''
    alone('--json', '-o', tmp_path / 'one.json', folder)
    assert (tmp_path / 'several.json').read_bytes() == (tmp_path / 'one.json').read_bytes()


def test_fail_on_is_the_exit_code_of_all(simulate, alone, together):
    folder = simulate(*SMALL, '--ranks', '2', '--fault', 'data-loading-bound')
    words = ('--json', '--fail-on', 'info', folder)
    assert alone(*words).returncode == 3 and together(2, *words).returncode == 3


def test_one_file_for_many_processes(simulate, same):
    assert ranks(same(simulate(*SMALL), counts=(4,))) == [0]


def test_windows_of_a_rank_in_several_files(simulate, same):
    document = same(simulate(*SMALL, '--ranks', '2', '--windows', '3'))
    assert ranks(document) == [0, 1] and len(document['inputs']) == 6
    assert [len(rank['steps']) for rank in document['ranks']] == [9, 9]


def test_damaged_empty_and_foreign_files(job, same):
    folder = job('--ranks', '4')
    whole = (folder / 'rank-1.json').read_bytes()
    (folder / 'rank-1.json').write_bytes(whole[:len(whole) * 2 // 3])
    (folder / 'rank-2.json').write_bytes(b'')
    (folder / 'rank-3.json').write_bytes(os.urandom(5000))
    (folder / 'notes.txt').write_text('nothing\n')
    (folder / 'config.json').write_text('{"learning_rate": 0.1}')
    (folder / 'broken.json.gz').write_bytes(gzip.compress(os.urandom(5000))[:1000])
    document = same(folder)
    assert ranks(document) == [0, 1]
    assert any('ends' in i['text'] or 'cut' in i['text'] or 'truncated' in i['kind'] for i in issues(document, 'rank-1.json'))
    (left_out,) = [i for i in issues(document, 'rank-0.json') if i['kind'] == 'other']
    assert left_out['severity'] == 'warning' and left_out['text'].startswith('files left out: 5; ')
    assert all(name in left_out['text'] for name in ('rank-2.json', 'rank-3.json', 'notes.txt', 'config.json', 'broken.json.gz'))


def test_a_folder_of_nothing_readable(tmp_path, same):
    (tmp_path / 'a.json').write_bytes(b'')
    (tmp_path / 'b.json').write_bytes(os.urandom(100))
    (message, *_) = same(tmp_path, counts=(2,), code=1)
    assert str(tmp_path) in message
    empty = tmp_path / 'empty'
    empty.mkdir()
    assert str(empty) in same(empty, counts=(2,), code=1)[0]


def test_a_missing_folder_is_said_once(tmp_path, same):
    (message, *hints) = same(tmp_path / 'none', code=1, counts=(1, 4))
    assert message.startswith('profgpu: ') and 'none' in message and len(hints) <= 1


def test_a_pipe_in_the_folder_is_not_waited_for(job, same):
    folder = job('--ranks', '2')
    os.mkfifo(folder / 'rank-2.json')
    assert ranks(same(folder)) == [0, 1]


def test_names_that_lie_about_the_rank(job, same):
    folder = job('--ranks', '2')
    truth = same(folder)
    (folder / 'rank-0.json').rename(folder / 'rank-7.json')
    (folder / 'rank-1.json').rename(folder / 'rank-0.json')
    document = same(folder)
    assert document['ranks'] == truth['ranks'] and document['cluster'] == truth['cluster']
    assert [source['rank'] for source in document['inputs']] == [1, 0]


def test_ranks_told_by_names_alone(job, same):
    assert ranks(same(job('--ranks', '3', '--no-distributed-info'))) == [0, 1, 2]


def test_a_folder_with_a_folder_for_each_rank(job, same, alone, tmp_path):
    folder = job('--ranks', '3', '--no-distributed-info')
    for rank in range(3):
        of_rank = tmp_path / 'logs' / f'worker{2 - rank}' / 'run'
        of_rank.mkdir(parents=True)
        (folder / f'rank-{rank}.json').rename(of_rank.parent / 'trace.json' if rank < 2 else of_rank / 'rank-0.json')
    document = same(tmp_path / 'logs')
    assert [(s['path'].split('logs/')[1], s['rank']) for s in document['inputs']] == [
        ('worker0/run/rank-0.json', 0), ('worker1/trace.json', 1), ('worker2/trace.json', 2)]
    (tmp_path / 'logs' / 'rank-5.json').write_text((tmp_path / 'logs' / 'worker1' / 'trace.json').read_text())
    assert ranks(json.loads(alone('--json', tmp_path / 'logs').stdout)) == [5], 'a folder of files stands for those'


def test_ranks_told_by_folders_further_up(job, alone, tmp_path):
    """worker0/log/trace.json, worker3/log/trace.json: no file states its rank, and the folders that hold them are alike."""
    folder = job('--ranks', '4', '--no-distributed-info')
    for rank in (0, 3):
        (tmp_path / f'run7/worker{rank}/log').mkdir(parents=True)
        (folder / f'rank-{rank}.json').rename(tmp_path / f'run7/worker{rank}/log/trace.json')
    document = json.loads(alone('--json', tmp_path / 'run7').stdout)
    assert [(os.path.relpath(i['path'], tmp_path), i['rank']) for i in document['inputs']] == [
        ('run7/worker0/log/trace.json', 0), ('run7/worker3/log/trace.json', 3)]
    assert not [i for source in document['inputs'] for i in source['issues'] if 'assumed rank' in i['text']]


def test_a_rank_that_is_there_twice(job, same):
    folder = job('--ranks', '3')
    shutil.copy(folder / 'rank-1.json', folder / 'again.json')
    (message, hint, *_) = same(folder, counts=(2,), code=1)
    assert 'again.json' in message and 'rank-1.json' in message and 'rank 1' in message and 'copy' in hint


def test_missing_ranks(job, same):
    folder = job('--ranks', '4')
    (folder / 'rank-1.json').unlink()
    document = same(folder)
    assert ranks(document) == [0, 2, 3]
    assert {rank['world_size'] for rank in document['ranks']} == {4}
    assert document['cluster']['world_size'] == 4 and document['cluster']['missing_ranks'] == [1]
    for rank in document['ranks']:
        assert all(row['busbw_gbps'] is None for row in rank['collectives'] if row['group_size'] == 4)


def test_a_kernel_for_anything_is_called_what_the_program_called(simulate, same):
    """NCCL's kernel for an all-to-all is named SendRecv."""
    document = same(simulate('--ranks', '4', '--strategy', 'ep', '--group', '2', '--layers', '2', '--steps', '3', '--no-collective-args'))
    assert {row['name'] for row in document['cluster']['collectives']} == {'all_reduce', 'all_to_all'}
    for rank in document['ranks']:
        assert {row['name'] for row in rank['collectives']} == {'all_reduce', 'all_to_all'}


@pytest.mark.parametrize('writer', [(), ('--gpu', 'mi300x', '--style', 'kineto-1.8')])
@pytest.mark.parametrize('count', [2, 4])
def test_stages_whose_kernels_carry_no_arguments(simulate, same, count, writer):
    """Sends and receives are no collectives: an end of one may go before others come, and stages do different work."""
    document = same(simulate('--ranks', str(count), '--strategy', 'pp', '--layers', '4', '--micro-batches', '4', '--steps', '6',
                             '--clock-skew', '7000000', '--no-collective-args', *writer))
    for clock in document['cluster']['clocks']:
        assert abs(clock['offset_ns'] + clock['rank'] * 7_000_000) <= clock['error_ns'] < 1_000_000
    assert document['cluster']['stragglers'] == []
    assert len(document['cluster']['pairs']) == 2 * (count - 1)


PIPELINE = ('--ranks', '4', '--strategy', 'pp', '--layers', '4', '--micro-batches', '4', '--steps', '6')


@pytest.fixture
def nameless(simulate, tmp_path):
    """nameless(*options) -> a job whose kernels and ranges do not say what collectives they are."""

    def make(*options):
        job = shutil.copytree(simulate('--ranks', '4', '--layers', '4', '--steps', '6', '--gpu', 'mi300x', '--no-collective-args', *options),
                              tmp_path / 'job')
        for path in job.glob('*.json'):
            trace = json.loads(path.read_text())
            trace['traceEvents'] = [e for e in trace['traceEvents'] if not e['name'].startswith(('nccl:', 'c10d::'))]
            path.write_text(json.dumps(trace))
        return job

    return make


def test_nobody_is_named_for_less_than_clocks_are_known_to(nameless, alone):
    """Sends and receives that do not say so look like collectives, and tell little of clocks."""
    cluster = json.loads(alone('--json', nameless('--strategy', 'pp', '--micro-batches', '4')).stdout)['cluster']
    assert max(clock['error_ns'] for clock in cluster['clocks']) > 5_000_000
    assert cluster['stragglers'] == [] and cluster['late_by_turns'] is None
    assert any('but by less than the error of the clocks' in note for note in cluster['notes']), cluster['notes']


@pytest.mark.parametrize('strategy', ('ddp', 'fsdp'))
def test_a_straggler_of_collectives_without_names(nameless, alone, strategy):
    cluster = json.loads(alone('--json', nameless('--strategy', strategy, '--fault', 'straggler-rank:3')).stdout)['cluster']
    assert [(s['rank'], s['kind']) for s in cluster['stragglers']] == [(3, 'slow_compute')]
    assert [way['kind'] for way in cluster['parallelism']] == [strategy]


def exposed(document):
    (finding,) = [f for f in document['findings'] if f['rule'] == 'exposed-communication']
    return finding


def test_a_bubble_is_no_transfer(simulate, alone):
    job = simulate(*PIPELINE)
    document = json.loads(alone('--json', job).stdout)
    (free,) = [w for w in document['cluster']['what_if'] if w['change'] == 'communication_free']
    finding = exposed(document)
    assert finding['severity'] == 'warning' and finding['value'] > 40
    assert abs(finding['cost_pct'] - free['saved_pct']) < 0.1 and finding['cost_pct'] < 5
    # The last stage has the head as well.
    assert {f['rule'] for f in document['findings'] if f['severity'] == 'critical'} == {'pipeline-bubble', 'straggler-rank'}
    (way,) = document['cluster']['parallelism']
    assert way['detail']['ideal_bubble_pct'] <= way['detail']['bubble_pct']


@pytest.mark.parametrize('words', [
    (*PIPELINE, '--drop-kernels', '1', '--seed', '5'), (*PIPELINE, '--missing', '1'),
    ('--strategy', 'tp', '--ranks', '4', '--layers', '2', '--steps', '6', '--fault', 'straggler-rank', '--excess', '40',
     '--slow-rank', '1', '--missing', '1')])
def test_waiting_for_what_is_not_here_is_no_transfer(simulate, alone, words):
    document = json.loads(alone('--json', simulate(*words)).stdout)
    finding = exposed(document)
    assert finding['severity'] == 'warning'
    if '--missing' in words:
        assert finding['cost_ns'] is None
    else:   # few records lack: the job's replay bounds it
        assert finding['cost_pct'] is None or finding['cost_pct'] < 5
    # What more micro-batches would gain is no transfer.
    assert 'as fast' not in document['verdict'] or document['verdict'].startswith('Pipeline stages wait for each other')
    assert ('rank 1, missing here' in finding['fix'][0]) == ('--missing' in words)


def test_one_micro_batch(simulate, alone):
    text = alone(simulate('--ranks', '4', '--strategy', 'pp', '--layers', '4', '--micro-batches', '1', '--steps', '8'), '--section', 'cluster').stdout
    text = ' '.join(text.split())
    assert '1 micro-batch ' in text and 'times of the mean call' in text
    document = json.loads(alone('--json', simulate('--ranks', '4', '--strategy', 'pp', '--layers', '4', '--micro-batches', '1', '--steps', '8')).stdout)
    detail = document['cluster']['parallelism'][0]['detail']
    assert 50 < detail['ideal_bubble_pct'] <= detail['bubble_pct']


def test_ranks_of_different_steps(simulate, same, tmp_path):
    for rank, first in ((0, '5'), (1, '6'), (2, '100')):
        shutil.copy(simulate('--steps', '4', '--layers', '2', '--ranks', '3', '--only-rank', str(rank), '--first-step', first),
                    tmp_path / f'{rank}.json')
    document = same(tmp_path)
    assert ranks(document) == [0, 1, 2] and [len(rank['steps']) for rank in document['ranks']] == [4, 4, 4]


def test_a_hang_is_a_finding(simulate, alone):
    job = simulate('--ranks', '4', '--steps', '8', '--layers', '2', '--hang-rank', '2')
    document = json.loads(alone('--json', job).stdout)
    assert document['verdict'].startswith('Rank 2 never arrives')
    assert 'step-time-variance' not in {f['rule'] for f in document['findings']}
    (finding,) = [f for f in document['findings'] if f['rule'] == 'collective-hang']
    assert 'with the one that hangs, rank' in alone(job).stdout
    assert finding['severity'] == 'critical' and finding['ranks'] == [2] and finding['value'] == 3 and finding['cost_ns'] is None
    assert alone('--json', '--fail-on', 'critical', job).returncode == 3
    assert alone('--json', '--fail-on', 'critical', simulate('--ranks', '4', '--steps', '6', '--layers', '2')).returncode == 0


WAITING = ('straggler-rank', 'data-loading-bound', 'host-bound-launches', 'excessive-synchronization', 'exposed-communication', 'checkpoint-stall')


def causes(document):
    """Of waiting: rule to finding, dearest first."""
    return {f['rule']: f for f in document['findings'] if f['rule'] in WAITING}


SHARDED = ('--layers', '2', '--steps', '6', '--ranks', '8', '--hosts', '2', '--group', '4', '--strategy', 'tp')


def test_a_slow_link_costs_what_its_transfers_take_longer(simulate, same):
    document = same(simulate(*SHARDED, '--fault', 'straggler-link:2', '--slow-rank', '5'), counts=(2,))
    assert [(s['rank'], s['kind']) for s in document['cluster']['stragglers']] == [(5, 'slow_link')]
    straggler, found = document['cluster']['stragglers'][0], causes(document)
    assert next(iter(found)) == 'straggler-rank' and 'link' in found['straggler-rank']['fix'][0]
    assert found['straggler-rank']['cost_ns'] == pytest.approx(6 * straggler['excess_ns_per_step'], rel=0.1)
    (like_others,) = [w for w in document['cluster']['what_if'] if w['change'] == 'straggler_median']
    assert like_others['saved_ns_per_step'] == pytest.approx(straggler['excess_ns_per_step'], rel=0.1)
    assert 'exposed-communication' not in found
    assert document['verdict'].startswith('Transfers with rank 5 are slow')


def test_a_slow_host_is_named_where_groups_share_its_ranks(simulate, same):
    for options in (('--strategy', 'tp'), ('--strategy', 'tp', '--micro-batches', '4'), ('--strategy', 'ep', '--micro-batches', '4')):
        document = same(simulate(*SHARDED, *options, '--fault', 'straggler-host:2', '--slow-rank', '5'), counts=(2,))
        late = document['cluster']['stragglers']
        assert sorted((s['rank'], s['kind'], s['host']) for s in late) == [(r, 'slow_host', 'node-1') for r in (4, 5, 6, 7)], options
        assert all(s['together'] == [4, 5, 6, 7] for s in late)
        found = causes(document)
        assert next(iter(found)) == 'straggler-rank' and found['straggler-rank']['cost_pct'] > 15
        # Most of the time of the ranks' hosts is what the straggler costs already.
        assert sum(f['cost_pct'] for f in found.values()) < found['straggler-rank']['cost_pct'] + 2


def test_clocks_an_hour_apart(job, same):
    document = same(job('--ranks', '3', '--clock-skew', str(HOUR_NS)))
    for clock in document['cluster']['clocks']:
        assert abs(clock['offset_ns'] + clock['rank'] * HOUR_NS) <= clock['error_ns']
    assert {clock['method'] for clock in document['cluster']['clocks']} <= {'reference', 'collectives', 'same host'}
    assert [note.partition(';')[0] for note in document['cluster']['notes']] == [
        "rank 0: the clock is 60 min 00 s behind rank 1's", "rank 2: the clock is 60 min 00 s ahead of rank 1's"]
    assert document['cluster']['other_runs'] == []


OTHER_RUN = ('--steps', '8', '--step-noise', '10', '--ranks', '4')


@pytest.mark.parametrize('stranger', (0, 2))
def test_a_rank_of_another_run_is_left_out(simulate, same, alone, stranger):
    folder = simulate(*SMALL, *OTHER_RUN, '--other-run', str(stranger))
    document = same(folder)
    assert ranks(document) == [rank for rank in range(4) if rank != stranger]
    cluster = document['cluster']
    assert [other['rank'] for other in cluster['other_runs']] == [stranger] and cluster['missing_ranks'] == [stranger]
    assert cluster['notes'][0] == f"rank {stranger} is left out, since its file is of another run: {cluster['other_runs'][0]['why']}"
    assert not cluster['missing'] and {clock['rank'] for clock in cluster['clocks']} == set(ranks(document))
    (issue,) = issues(document, f'rank-{stranger}.json')
    assert (issue['kind'], issue['severity'], issue['text']) == ('other_run', 'warning', cluster['notes'][0])
    (source,) = [source for source in document['inputs'] if source['path'].endswith(f'rank-{stranger}.json')]
    assert source['rank'] is None
    assert f'rank {stranger} is left out, since its file is of another run' in ' '.join(alone(folder).stdout.split())


def test_two_ranks_of_two_runs(simulate, same, alone):
    folder = simulate(*SMALL, *OTHER_RUN[:4], '--ranks', '2', '--other-run', '1')
    document = same(folder)
    assert ranks(document) == [0] and document['cluster'] is None
    assert [issue['kind'] for issue in issues(document, 'rank-1.json')] == ['other_run']
    assert 'rank 1 is left out, since its file is of another run' in ' '.join(alone(folder).stdout.split())


def test_a_world_of_another_size(job, same):
    folder = job('--ranks', '4')
    text = (folder / 'rank-1.json').read_text()
    (folder / 'rank-1.json').write_text(text.replace('"world_size": 4', '"world_size": 16').replace('"world_size":4', '"world_size":16'))
    document = same(folder)
    assert ranks(document) == [0, 2, 3] and document['cluster']['world_size'] == 4
    assert document['cluster']['other_runs'] == [{'rank': 1, 'why': 'its world size is 16 ranks, most others\' is 4'}]


def test_samples_beside(job, same):
    folder = job('--ranks', '2')
    (trace, *_) = [e for e in json.loads((folder / 'rank-0.json').read_text())['traceEvents'] if e.get('cat') == 'kernel']
    base = json.loads((folder / 'rank-0.json').read_text()).get('baseTimeNanoseconds', 0)
    start_ns = base + int(float(trace['ts']) * 1000)
    rows = [f'{start_ns + i * 1_000_000},0,{50 + i}' for i in range(20)]
    (folder / 'samples.csv').write_text('\n'.join(['time_ns,device,utilization_pct', *rows]) + '\n')
    document = same(folder)
    assert ranks(document) == [0, 1]
    assert [source['format'] for source in document['inputs'] if source['rank'] is None]
    for times, why in (((-HOUR_NS, HOUR_NS), 'shorter than the time between two samples'), ((-HOUR_NS, 1 - HOUR_NS), 'another run')):
        rows = [f'{start_ns + time},0,50' for time in times]
        (folder / 'samples.csv').write_text('\n'.join(['time_ns,device,utilization_pct', *rows]) + '\n')
        (issue,) = [i for source in same(folder)['inputs'] for i in source['issues'] if i['kind'] == 'samples_elsewhere']
        assert why in issue['text']


def test_samples_of_two_hosts(simulate, same, tmp_path):
    """Whose devices have the same numbers, and whose clocks are an hour apart."""
    folder = simulate('--steps', '6', '--layers', '4', '--ranks', '8', '--hosts', '2', '--clock-offset', f'1:{HOUR_NS}',
                      '--fault', 'straggler-clocks', '--excess', '20', '--slow-rank', '5')
    logs = [f'{folder}.samples-node-{host}.jsonl' for host in (0, 1)]
    document = same(folder, '--samples', logs[0], '--samples', logs[1])
    assert [(s['rank'], s['kind']) for s in document['cluster']['stragglers']] == [(5, 'low_clocks')]
    assert [t['label'] for t in document['telemetry']] == [f'{device} of node-{host}' for host in (0, 1) for device in range(4)]
    sampled = [t[end] for t in document['telemetry'] for end in ('first_ns', 'last_ns')]
    assert max(sampled) - min(sampled) < HOUR_NS / 2, 'samples are on the first rank\'s clock'
    # With one host's, nothing is known of the other's.
    document = same(folder, '--samples', logs[0])
    assert [(s['rank'], s['kind']) for s in document['cluster']['stragglers']] == [(5, 'slow_compute')]
    assert {t['host'] for t in document['telemetry']} == {'node-0'}
    # Nor with those of a host that no rank ran on.
    with open(logs[1]) as rows:
        (tmp_path / 'samples.jsonl').write_text(rows.read().replace('"node-1"', '"elsewhere"'))
    document = same(folder, '--samples', logs[0], '--samples', tmp_path / 'samples.jsonl')
    assert [(s['rank'], s['kind']) for s in document['cluster']['stragglers']] == [(5, 'slow_compute')]
    assert {t['host'] for t in document['telemetry']} == {'node-0'}
    (issue,) = [i for source in document['inputs'] for i in source['issues'] if i['kind'] == 'samples_elsewhere']
    assert issue['text'] == 'samples of elsewhere are left out: no rank ran on it'


def test_recordings(tmp_path, same):
    folder = tmp_path / 'rec'
    script = 'for r in 0 1 2; do RANK=$r WORLD_SIZE=3 "$@" >/dev/null & done; wait'
    record('-o', folder, command=('sh', '-c', script, 'sh', SIM, '--kernels', '50'))
    assert ranks(same(folder)) == [0, 1, 2]


def test_several_paths(simulate, same, tmp_path):
    folder = simulate(*SMALL, '--ranks', '4')
    assert ranks(same(*(folder / f'rank-{rank}.json' for rank in (2, 0, 3)))) == [0, 2, 3]
    # A file that the user named is one that must be read.
    (tmp_path / 'bad.json').write_text('not a trace')
    assert 'bad.json' in same(folder / 'rank-0.json', tmp_path / 'bad.json', counts=(2,), code=1)[0]


def script(folder, text):
    path = folder / 'wrapper'
    path.write_text('#!/bin/sh\n' + text + '\nexec "$@"\n')
    path.chmod(0o755)
    return (path,)


@pytest.mark.parametrize('elsewhere', ['less', 'none'])
def test_processes_that_see_different_files(job, together, tmp_path, elsewhere):
    job('--ranks', '4')
    other = tmp_path / 'other'
    other.mkdir()
    if elsewhere == 'less':
        shutil.copytree(tmp_path / 'job', other / 'job')
        (other / 'job' / 'rank-3.json').unlink()
    r = together(3, '--json', 'job', cwd=tmp_path,
                 wrapper=script(tmp_path, f'[ "$OMPI_COMM_WORLD_RANK" != 2 ] || cd {other}'))
    assert r.returncode == 1 and r.stdout == ''
    assert said(r)[0] == 'profgpu: analyze: job: process 2 sees other files there' and len(said(r)) == 2


def wait_for(condition, seconds=20):
    until = time.time() + seconds
    while not condition():
        assert time.time() < until
        time.sleep(0.05)


def test_a_process_killed_while_it_reads_ends_the_others(path, component, tmp_path):
    # Gigabytes of white space, which are read for seconds: one file for each process.
    space = gzip.compress(b'{"traceEvents": [') + gzip.compress(b' ' * (1 << 26), 1) * 100
    folder = tmp_path / 'job'
    folder.mkdir()
    for rank in range(3):
        (folder / f'rank-{rank}.json.gz').write_bytes(space)
    wrapper = script(tmp_path, f'echo $$ > {tmp_path}/pid.$OMPI_COMM_WORLD_RANK.new && mv {tmp_path}/pid.$OMPI_COMM_WORLD_RANK.new {tmp_path}/pid.$OMPI_COMM_WORLD_RANK')
    p = subprocess.Popen([*MPIRUN, '-n', '3', *wrapper, path, 'analyze', '--mpi', '--json', folder], env=without_launcher(),
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for((tmp_path / 'pid.1').exists)
        pid = int((tmp_path / 'pid.1').read_text())

        def reads():
            table = f'/proc/{pid}/fd'
            opened = [os.readlink(f'{table}/{name}') for name in os.listdir(table) if os.path.islink(f'{table}/{name}')]
            with open(f'/proc/{pid}/maps') as maps:
                return any(name.startswith(str(folder)) for name in opened) or str(folder) in maps.read()
        wait_for(reads)
        os.kill(pid, signal.SIGKILL)
        stdout, stderr = p.communicate(timeout=20)
        assert p.returncode != 0 and stdout == b'' and b'signal' in stderr
    finally:
        p.kill()
        p.wait()


def test_without_the_component(path, simulate, tmp_path):
    copy = shutil.copy(path, tmp_path / 'profgpu')
    folder = simulate(*SMALL, '--ranks', '2')
    (tmp_path / 'text.so').write_text('no library')
    for named, word in (({}, 'libprofgpu-mpi.so'), ({'PROFGPU_MPI': '/none/x.so'}, '/none/x.so'),
                        ({'PROFGPU_MPI': str(tmp_path / 'text.so')}, 'text.so')):
        r = subprocess.run([copy, 'analyze', '--mpi', '--json', folder], env=without_launcher(**named), capture_output=True,
                           text=True, timeout=60)
        assert r.returncode == 1 and r.stdout == ''
        (message, hint) = r.stderr.splitlines()
        assert message.startswith('profgpu: ') and '--mpi' in message and word in message
        assert hint.startswith('  hint: ') and 'PROFGPU_MPI' in hint
    # The plain program needs none of it.
    r = subprocess.run([copy, 'analyze', '--json', folder], env=without_launcher(), capture_output=True, timeout=60)
    assert r.returncode == 0


def test_the_component_without_mpirun(alone, component, simulate):
    folder = simulate(*SMALL, '--ranks', '2')
    assert alone('--mpi', '--json', folder).stdout == alone('--json', folder).stdout


@pytest.mark.parametrize('asked', ((), ('-x', 'OMPI_MCA_pml=^v')))
def test_processes_of_one_host_look_for_no_network(simulate, together, asked):
    done = together(2, simulate(*SMALL), wrapper=('-x', 'OMPI_MCA_pml_base_verbose=10', *asked))
    if 'pml' not in done.stderr:
        pytest.skip('not Open MPI, or one that says nothing of what it looks at')
    found = {line.split()[-1] for line in done.stderr.splitlines() if 'found loaded component' in line}
    assert done.returncode == 0 and (found == {'ob1'}) == (not asked), found


def test_a_library_that_is_another(path, simulate, component):
    r = subprocess.run([path, 'analyze', '--mpi', simulate(*SMALL)], capture_output=True, text=True, timeout=60,
                       env=without_launcher(PROFGPU_MPI='libm.so.6'))
    assert r.returncode == 1 and 'does not start MPI' in r.stderr


@pytest.mark.parametrize('words', [('--html', 'x.html'), ('--format', 'html')])
def test_a_page_needs_all_events(alone, simulate, words, tmp_path):
    r = alone('--mpi', *words, simulate(*SMALL), cwd=tmp_path)
    assert r.returncode == 2 and '--mpi' in r.stderr and os.listdir(tmp_path) == []


def test_ten_thousand_files(job, path, same, tmp_path):
    folder = job('--ranks', '3')
    for i in range(10_000):
        name, text = ((f'checkpoint-{i}.bin', '\0\1\2'), (f'metrics-{i}.json', '{"loss": 1.5}'), (f'log-{i}.txt', 'step 1\n'),
                      (f'empty-{i}.json', ''))[i % 4]
        (folder / name).write_text(text)
    begin = time.time()
    limited = subprocess.run([path, 'analyze', '--json', folder], env=without_launcher(), capture_output=True, timeout=60,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    took = time.time() - begin
    assert limited.returncode == 0, limited.stderr[-2000:]
    document = json.loads(limited.stdout)
    assert ranks(document) == [0, 1, 2]
    assert len(limited.stderr) < 20_000, 'thousands of files are no thousand messages'
    assert took < 20, f'{took:.1f} s'
    print(f'10,003 files: {took:.2f} s', file=sys.stderr)
    assert same(folder, counts=(3,)) == document
