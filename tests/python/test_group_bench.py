"""profgpu.bench.process_group: collectives of the hosts over gloo, started as people start them, with torchrun."""
import json
import os
import subprocess
import sys

import profgpu
import pytest
from conftest import ROOT, program

RANKS = """
import json, sys
import torch
import torch.distributed as dist
import profgpu
from profgpu import bench

dist.init_process_group('gloo')
plain = dist.all_reduce
def wrong(tensor, *rest, **more):
    plain(tensor, *rest, **more)
    if tensor.dtype == torch.int32 and dist.get_rank() == 1:
        tensor[0] += 1
def unable(*rest, **more):
    raise RuntimeError('no such operation\\nand more')
if 'wrong' in sys.argv:
    dist.all_reduce, dist.all_to_all_single = wrong, unable
result = bench.process_group(sizes=(6, 1024, 1 << 16), budget_s=0.01)
every = [None, None]
dist.all_gather_object(every, result.document)
assert every[0] == every[1]
if dist.get_rank() == 0:
    result.save(sys.argv[1])
    print(result)
dist.destroy_process_group()
try:
    bench.process_group()
except profgpu.ProfgpuError as error:
    assert 'init_process_group' in str(error)
else:
    sys.exit('a group that is gone')
"""


@pytest.fixture
def measured(package, tmp_path):
    pytest.importorskip('torch')

    def run(*words):
        script, saved = tmp_path / 'ranks.py', tmp_path / 'group.json'
        script.write_text(RANKS)
        env = {**os.environ, 'PYTHONPATH': os.path.join(ROOT, 'python'), 'PROFGPU': program('PROFGPU', 'profgpu'),
               'OMP_NUM_THREADS': '1'}
        done = subprocess.run([sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2',
                               script, saved, *words], env=env, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr.decode()
        return saved, json.loads(saved.read_text()), done.stdout.decode()

    return run


def test_collectives_over_gloo(profgpu, measured, tmp_path):
    saved, document, shown = measured()
    figures = {f['name']: f for f in document['figures']}
    assert not document['not_measured'] and figures['barrier']['unit'] == 'ns'
    for name in ('all_reduce', 'all_gather', 'reduce_scatter', 'broadcast', 'reduce', 'all_to_all', 'send_recv'):
        for size, unit in ((6, 'ns'), (1024, 'ns'), (65536, 'GB/s')):
            f = figures['%s_%d' % (name, size)]
            assert f['unit'] == unit and f['value'] > 0 and f['runs'] >= 10 and f['size'] == size and f['benchmark'] == 'gloo'
            assert f['best'] >= f['value'] if unit == 'GB/s' else f['best'] <= f['value']
    pairs = [f for f in document['figures'] if f['name'] == 'pair_65536']
    assert {(f['rank'], f['peer_rank'], f['link']) for f in pairs} == {(0, 1, 'within a host'), (1, 0, 'within a host')}
    assert [r['rank'] for r in document['ranks']] == [0, 1] and document['machine']['cores'] > 0
    assert 'all-reduce 64 KiB, busbw' in shown and '2 ranks on 1 host' in shown
    # What becomes of other results works with these.
    text = profgpu('bench', '--saved', saved).stdout.decode()
    assert 'all-reduce 64 KiB, busbw' in text
    assert profgpu('bench', '--saved', saved, '--compare', saved).returncode == 0
    history = tmp_path / 'history.sqlite'
    assert profgpu('baseline', 'save', 'hosts', saved, '--file', history).returncode == 0
    assert profgpu('diff', saved, saved, '--fail-on', 'figure:all_reduce_65536 < -10%').returncode == 0


def test_wrong_results_and_missing_operations_are_named(measured):
    _, document, _ = measured('wrong')
    whys = {n['label']: n['why'] for n in document['not_measured']}
    assert whys['all-reduce 64 KiB, busbw'] == '1 value of the results is wrong, on rank 1'
    assert whys['all-to-all 1 KiB'] == 'gloo cannot do it: no such operation'
    names = {f['name'] for f in document['figures']}
    assert 'all_reduce_65536' not in names and 'all_to_all_1024' not in names and 'broadcast_65536' in names


def test_what_cannot_be_measured_says_so(package):
    pytest.importorskip('torch')
    with pytest.raises(profgpu.ProfgpuError, match='init_process_group'):
        profgpu.bench.process_group()
    with pytest.raises(profgpu.ProfgpuError, match='bytes'):
        profgpu.bench.process_group(sizes=(0,))
