"""A folder with files of different kinds of one run is one report."""
import json
import shutil

import log_writer
import pytest
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


def test_rates_beside_traces(profgpu, folder):
    (folder / 'nccl-tests.txt').write_text('all_reduce_perf -g 8\n' + TABLE.format(wrong=0))
    logs = {log['path'].rsplit('/', 1)[1]: log for log in report_of(profgpu, folder)['logs']}
    assert set(logs) == {'train.log', 'nccl-tests.txt'} and logs['nccl-tests.txt']['links'][0]['peak_busbw_gbps'] == 470.94


def test_other_files_are_left_out(profgpu, folder):
    (folder / 'notes.md').write_text('# Notes\nNothing of interest.\n')
    (folder / 'weights.bin').write_bytes(bytes(range(256)) * 64)
    issues = [i['text'] for f in report_of(profgpu, folder)['inputs'] for i in f['issues']]
    assert any('notes.md' in i and 'weights.bin' in i for i in issues)


def test_the_header_says_what_came_from_where(profgpu, simulate, folder):
    def head(path):
        return ' '.join(profgpu('analyze', path, '--width', '300', text=True).stdout.splitlines()[:3])
    assert '2 × PyTorch trace, training log (train.log)' in head(folder)
    assert '× PyTorch' not in head(simulate('--ranks', '4', '--steps', '6')), 'of one kind'
