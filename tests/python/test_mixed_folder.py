"""A folder with files of different kinds of one run is one report."""
import json
import shutil

import log_writer
import pytest
import test_host_profiles as host
from flight_writer import Job
from test_links import TABLE


@pytest.fixture
def folder(simulate, tmp_path):
    folder = tmp_path / 'run'
    shutil.copytree(simulate('--ranks', '2', '--steps', '6'), folder)
    (folder / 'train.log').write_text(log_writer.megatron([500.0] * 12))
    return folder


def report_of(profgpu, *paths):
    run = profgpu('analyze', *map(str, paths), '--json')
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_traces_and_a_log(profgpu, folder):
    report = report_of(profgpu, folder)
    assert [r['rank'] for r in report['ranks']] == [0, 1] and all(r['devices'] for r in report['ranks'])
    assert report['logs'][0]['throughput']['lines'] == 12
    formats = {i['path'].rsplit('/', 1)[1]: (i['format'], i['rank']) for i in report['inputs']}
    assert formats['train.log'] == ('training-log', None)
    alone = report_of(profgpu, *sorted(p for p in folder.iterdir() if p.name != 'train.log'))
    assert [f['rule'] for f in report['findings']] == [f['rule'] for f in alone['findings']]


def test_a_failure_in_the_log_is_a_finding_beside_traces(profgpu, folder):
    with open(folder / 'train.log', 'a') as f:
        f.write('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB\n')
    assert 'run-failure' in [f['rule'] for f in report_of(profgpu, folder)['findings']]


def test_dumps_beside_traces_say_who_hangs(profgpu, folder):
    job = Job({'0': ('default_pg', [0, 1, 2, 3])})
    job.done('0', 3)
    for rank in (0, 1, 3):
        job.call(rank, '0')
    job.write(folder)
    report = report_of(profgpu, folder)
    hang, = (f for f in report['findings'] if f['rule'] == 'collective-hang')
    assert hang['ranks'] == [2] and report['verdict_kind'] == 'hang' and len(report['ranks']) == 2
    assert report['flight_recorder']['dumps'] == 4


def test_a_log_beside_dumps_says_how_a_rank_ended(profgpu, tmp_path):
    """Rank 2 raised an exception and left no dump; the others timed out, as their lines say."""
    job = Job({'0': ('default_pg', [0, 1, 2, 3, 4, 5, 6, 7])})
    job.done('0', 3)
    for rank in (0, 1, 3, 4, 5, 6, 7):
        job.call(rank, '0')
    folder = job.write(tmp_path / 'dumps', without=[2])
    timeout = ('[rank0]:[E203 04:05:06.1 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: '
               'WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=4096) ran for 600020 milliseconds before timing out.\n')
    (folder / 'train.log').write_text(log_writer.megatron([500.0] * 12) + "[rank2]: Traceback (most recent call last):\n[rank2]: KeyError: 'labels'\n" + timeout)
    report = report_of(profgpu, folder)
    hang, = (f for f in report['findings'] if f['rule'] == 'collective-hang')
    said = 'ank 2 ended before all_reduce #4 of default_pg (0) was complete: the program raised an exception (train.log line 14)'
    assert said in report['verdict'] and said in hang['what'] and hang['ranks'] == [2]
    assert [i['rank'] for i in report['inputs'] if 'nccl_trace' in i['path']] == [0, 1, 3, 4, 5, 6, 7]
    assert "rank 2: train.log line 14: KeyError: 'labels'" in hang['evidence'] and hang['fix'] == ['see the traceback above that line']
    # A timeout alone is no cause, and the dumps that it asks for are there.
    (folder / 'train.log').write_text(log_writer.megatron([500.0] * 12) + timeout)
    report = report_of(profgpu, folder)
    failure, = (f for f in report['findings'] if f['rule'] == 'run-failure')
    assert 'left no dump' in report['verdict'] and not any('TORCH_NCCL_TRACE_BUFFER_SIZE' in f for f in failure['fix'])


def test_rates_beside_traces(profgpu, folder):
    (folder / 'nccl-tests.txt').write_text('all_reduce_perf -g 8\n' + TABLE.format(wrong=0))
    logs = {log['path'].rsplit('/', 1)[1]: log for log in report_of(profgpu, folder)['logs']}
    assert set(logs) == {'train.log', 'nccl-tests.txt'} and logs['nccl-tests.txt']['links'][0]['peak_busbw_gbps'] == 470.94


def test_other_files_are_left_out(profgpu, folder):
    (folder / 'notes.md').write_text('# Notes\nNothing of interest.\n')
    (folder / 'train.py').write_text('raise RuntimeError("2024-05-01 12:00:00,123 - root - ERROR - CUDA out of memory")\n'
                                     '2024-05-01 12:00:00,123 - root - ERROR - CUDA out of memory\n')
    (folder / 'weights.bin').write_bytes(bytes(range(256)) * 64)
    report = report_of(profgpu, folder)
    issues = [i['text'] for f in report['inputs'] for i in f['issues']]
    assert any('notes.md' in i and 'weights.bin' in i and 'train.py' in i for i in issues)
    assert 'run-failure' not in [f['rule'] for f in report['findings']]


def test_the_header_says_what_came_from_where(profgpu, simulate, folder):
    def head(path):
        return ' '.join(profgpu('analyze', path, '--width', '300', text=True).stdout.splitlines()[:3])
    assert '2 × PyTorch trace, log (train.log)' in head(folder)
    assert '× PyTorch' not in head(simulate('--ranks', '4', '--steps', '6')), 'of one kind'


def ranks_with_stacks(profgpu, *paths):
    report = report_of(profgpu, *paths)
    assert 'joined by' in ' '.join(i['text'] for f in report['inputs'] for i in f['issues'])
    return [r['rank'] for r in report['ranks']], {i['path'].rsplit('/', 1)[1]: i['rank'] for i in report['inputs']}


@pytest.mark.parametrize(('traces', 'profile', 'ranks', 'joined'), (
    (('trace.json',), 'py-spy-rank0.json', [0], 0), (('trace.json',), 'py-spy.json', [0], 0), (('trace-rank2.json',), 'py-spy-rank2.json', [2], 2),
    (('trace-rank0.json', 'trace-rank1.json'), 'py-spy-rank1.json', [0, 1], 1)))
def test_a_profile_belongs_to_the_trace_of_its_rank(profgpu, tmp_path, traces, profile, ranks, joined):
    start = host.BASE + 5_000_000
    written = [host.write(tmp_path / name, host.kineto()) for name in traces]
    written.append(host.write(tmp_path / profile, host.speedscope(unit='nanoseconds', weight=10_000_000, start=start)))
    for paths in (written, written[::-1]):
        found, inputs = ranks_with_stacks(profgpu, *paths)
        assert found == ranks and inputs[profile] == joined


@pytest.mark.parametrize('profiles', (('py-spy-rank3.json',), ('py-spy-rank1.json', 'py-spy-rank3.json')))
def test_a_profile_of_another_rank_is_not_joined(profgpu, tmp_path, profiles):
    trace = host.write(tmp_path / 'trace-rank1.json', host.kineto())
    paths = [host.write(tmp_path / name, host.speedscope(unit='nanoseconds', weight=10_000_000, start=host.BASE + 5_000_000)) for name in profiles]
    inputs = {i['path'].rsplit('/', 1)[1]: i['rank'] for i in report_of(profgpu, trace, *paths)['inputs']}
    assert inputs['py-spy-rank3.json'] == 3 and inputs['trace-rank1.json'] == 1
