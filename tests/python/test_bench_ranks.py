"""profgpu bench collectives over ranks: several processes against the stand-in for NCCL, which find each other as those of
torchrun, Slurm and MPI do."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from test_bench import PROGRAM, STUBS, environment, figure

LIMIT_S = 300   # ranks poll side by side: of a busy machine that is long


def torchrun(rank, ranks, port):
    return {'RANK': str(rank), 'WORLD_SIZE': str(ranks), 'LOCAL_RANK': str(rank), 'LOCAL_WORLD_SIZE': str(ranks),
            'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(port), 'TORCHELASTIC_RUN_ID': str(os.getpid())}


def slurm(rank, ranks, job, nodes=1):
    return {'SLURM_PROCID': str(rank), 'SLURM_NTASKS': str(ranks), 'SLURM_STEP_NUM_TASKS': str(ranks),
            'SLURM_LOCALID': str(rank), 'SLURM_JOB_ID': str(job), 'SLURM_STEP_ID': str(os.getpid()),
            'SLURM_STEP_NUM_NODES': str(nodes), 'SLURM_STEP_NODELIST': 'localhost'}


@pytest.fixture
def ranks(tmp_path):
    """ranks(model, variables of each) -> (exit codes, document of rank 0, standard errors)."""
    started = []

    def run(model, each, *words, timeout=LIMIT_S):
        for i, variables in enumerate(each):
            env = environment(model if isinstance(model, str) else model[i], TMPDIR=str(tmp_path), **variables)
            command = [PROGRAM, 'bench', 'collectives', '--json', *map(str, words)]
            started.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        ends = [p.communicate(timeout=timeout) for p in started]
        assert all(not out for out, _ in ends[1:]), ends   # rank 0 alone reports
        return [p.returncode for p in started], json.loads(ends[0][0] or b'null'), [e.decode() for _, e in ends]

    yield run
    for p in started:
        if p.poll() is None:
            p.kill()
            p.communicate()


def clean(tmp_path):
    return [n for n in os.listdir(tmp_path) if 'nccl' in n]


@pytest.mark.parametrize('launcher', [torchrun, slurm])
@pytest.mark.parametrize('count', [2, 4])
def test_ranks_measure_together(ranks, tmp_path, launcher, count):
    codes, document, errors = ranks(f'devices={count},nccl=400,nccl_ns=12000',
                                    [launcher(r, count, 40_000 + count) for r in range(count)])
    assert codes == [0] * count and not document['not_measured'], (errors, document['not_measured'])
    assert [(r['rank'], r['device']) for r in document['ranks']] == [(r, r) for r in range(count)]
    for name in ('all_reduce', 'all_gather', 'reduce_scatter', 'broadcast', 'reduce', 'all_to_all', 'send_recv',
                 'all_reduce_in_place', 'all_gather_in_place', 'reduce_scatter_in_place', 'broadcast_in_place',
                 'reduce_in_place'):
        assert figure(document, f'{name}_1024', None)['value'] == pytest.approx(12_000, rel=0.03), name
        assert figure(document, f'{name}_{256 << 20}', None)['value'] == pytest.approx(400, rel=0.06), name
    pairs = {(f['rank'], f['peer_rank']): f['value'] for f in document['figures'] if f['peer_rank'] is not None}
    assert set(pairs) == {(a, b) for a in range(count) for b in range(count) if a != b}
    assert list(pairs.values()) == pytest.approx([400] * len(pairs), rel=0.1)
    assert not clean(tmp_path)


def test_the_slow_rank_and_the_slow_pair_are_named(ranks, profgpu, tmp_path):
    saved = tmp_path / 'result.json'
    each = [torchrun(r, 4, 40_010) for r in range(4)]
    ranks('devices=4,nccl=400,2.nccl=100,nccl_ns=1000', each, '-o', saved)
    text = profgpu('bench', '--saved', saved, '--width', '200').stdout.decode()
    assert 'rank 2 (' in text and 'its 6 pairs reach' in text and text.count('worse)') == 1, text
    checks = json.loads(profgpu('doctor', '--json', '--bench', saved, env=environment()).stdout)['checks']
    found = [c for c in checks if c['id'] == 'bench' and 'a stand-in for the driver' not in c['detail']]
    assert [c['verdict'] for c in found] == ['warning']


def test_a_slow_pair_is_not_a_slow_rank(ranks, profgpu, tmp_path):
    saved = tmp_path / 'result.json'
    each = [torchrun(r, 4, 40_011) for r in range(4)]
    ranks('devices=4,nccl=400,pair.0.2=40,nccl_ns=1000', each, '-o', saved)
    text = profgpu('bench', '--saved', saved, '--width', '200').stdout.decode()
    assert 'rank 0→2: send, one pair alone' in text and 'rank 2→0: send' in text and text.count('worse)') == 2, text


def test_wrong_results_name_the_rank(ranks):
    codes, document, _ = ranks(['devices=2', 'devices=2,wrong=1'], [torchrun(r, 2, 40_012) for r in range(2)])
    assert codes == [1, 0]   # rank 0 reports
    why = {n['why'] for n in document['not_measured']}
    assert len(why) == 1 and '1 values of the results are wrong, on rank 1 (' in why.pop()


def test_a_rank_that_does_not_come_is_named(ranks):
    codes, document, _ = ranks('devices=3', [torchrun(r, 3, 40_013) for r in range(2)], '--timeout', '20')
    assert codes == [1, 1] and document['not_measured'][-1]['why'] == 'rank 2 did not come within 20 s'


def test_a_rank_without_memory_is_named(ranks):
    codes, document, _ = ranks(['devices=2', 'devices=2,memory=1e5'], [torchrun(r, 2, 40_014) for r in range(2)])
    assert codes == [1, 1]
    assert 'rank 1 (' in document['not_measured'][0]['why'] and 'out of memory' in document['not_measured'][0]['why']


def test_a_rank_without_a_driver_is_named(ranks):
    each = [torchrun(r, 2, 40_015) for r in range(2)]
    each[1]['PROFGPU_CUDA_LIBRARY'] = '/nowhere/libcuda.so.1'
    codes, document, errors = ranks('devices=2', each)
    assert codes == [1, 1] and 'rank 1' in document['not_measured'][0]['why']
    assert 'no NVIDIA driver' in errors[1]


def test_a_hang_of_one_rank_ends_all(ranks):
    codes, document, _ = ranks(['devices=2', 'devices=2,hang=ncclAllGather'],
                               [torchrun(r, 2, 40_016) for r in range(2)], '--timeout', '20')
    assert document['not_measured'][-1]['why'] == 'did not return within 20 s'
    assert document['not_measured'][-1]['label'].startswith('all-gather')
    assert figure(document, 'all_reduce_1024', None)   # what was measured before


def test_a_rank_that_dies_is_named(ranks):
    each = [torchrun(r, 2, 40_017) for r in range(2)]
    # A failure ends the rank's part; the others hear of it.
    codes, document, _ = ranks(['devices=2', 'devices=2,fail=cuMemcpyDtoHAsync_v2:2:3'], each, '--timeout', '20')
    whys = ' '.join(n['why'] for n in document['not_measured'])
    assert 'rank 1 (' in whys and 'cuMemcpyDtoHAsync_v2: out of memory' in whys


def test_by_a_file(ranks, tmp_path):
    """Ranks on several hosts whose launcher says nothing of addresses."""
    each = [slurm(r, 2, 7, nodes=2) for r in range(2)]
    for variables in each:
        variables['SLURM_STEP_NODELIST'] = ''
    meeting = tmp_path / 'meeting'
    codes, document, errors = ranks('devices=2,nccl_ns=9000', each, '--rendezvous', meeting)
    assert codes == [0, 0], errors
    assert figure(document, 'all_reduce_1024', None)['value'] == pytest.approx(9000, rel=0.03)
    assert not meeting.exists()


def test_without_an_address(ranks):
    each = [slurm(r, 2, 8, nodes=2) for r in range(2)]
    for variables in each:
        variables['SLURM_STEP_NODELIST'] = ''
    codes, document, errors = ranks('devices=2', each)
    assert codes == [1, 1] and '--rendezvous FILE' in document['not_measured'][0]['hint']


def test_a_batch_script_is_one_process(bench_once):
    """Slurm's variables without srun: the tasks that they count were not started."""
    document = bench_once('devices=2', SLURM_PROCID='0', SLURM_NTASKS='8', SLURM_JOB_ID='9')
    assert not document['ranks'] and figure(document, 'all_reduce_1024', None)


@pytest.fixture
def bench_once(profgpu):
    def run(model, **more):
        result = profgpu('bench', '--json', 'collectives', env=environment(model, **more))
        return json.loads(result.stdout)
    return run


@pytest.mark.parametrize('fault', ['', 'fail=ncclAllReduce:1', 'fail=cuMemAlloc_v2:2:2', 'wrong=1'])
def test_communicators_are_closed(profgpu, tmp_path, fault):
    count = tmp_path / 'communicators'
    profgpu('bench', 'collectives', env=environment(f'devices=4,communicators={count},{fault}'))
    assert count.read_text() == '0\n'


def test_real_mpirun(tmp_path):
    mpirun = shutil.which('mpirun')
    if mpirun is None:
        pytest.skip('mpirun is not installed')
    saved = tmp_path / 'result.json'
    env = environment('devices=2,nccl_ns=9000', TMPDIR=str(tmp_path))
    for name in [n for n in env if n.startswith(('SLURM_', 'RANK', 'WORLD_SIZE', 'LOCAL_', 'MASTER_'))]:
        del env[name]
    command = [mpirun, '--allow-run-as-root', '--oversubscribe', '-n', '2', PROGRAM, 'bench', 'collectives', '-o', saved]
    result = subprocess.run(command, env=env, capture_output=True, timeout=LIMIT_S)
    assert result.returncode == 0, result.stderr.decode()
    document = json.loads(saved.read_text())
    assert len(document['ranks']) == 2
    assert figure(document, 'all_reduce_1024', None)['value'] == pytest.approx(9000, rel=0.03)


def test_real_torchrun(tmp_path):
    if subprocess.run([sys.executable, '-c', 'import torch.distributed.run'], capture_output=True).returncode:
        pytest.skip('PyTorch is not installed')
    saved = tmp_path / 'result.json'
    command = [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2', '--no-python',
               PROGRAM, 'bench', 'collectives', '-o', saved]
    result = subprocess.run(command, env=environment('devices=2,nccl_ns=9000', TMPDIR=str(tmp_path)),
                            capture_output=True, timeout=LIMIT_S)
    assert result.returncode == 0, result.stderr.decode()
    document = json.loads(saved.read_text())
    assert len(document['ranks']) == 2
    assert figure(document, 'all_reduce_1024', None)['value'] == pytest.approx(9000, rel=0.03)


def test_interrupted_rank_0_keeps_what_there_is(tmp_path):
    """A launcher that ends its ranks sends SIGTERM."""
    out = tmp_path / 'result.json'
    each = [environment(m, TMPDIR=str(tmp_path), **torchrun(r, 2, 40_018))
            for r, m in enumerate(('devices=2', 'devices=2,hang=ncclAllGather'))]
    processes = [subprocess.Popen([PROGRAM, 'bench', 'collectives', '-o', out], env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) for env in each]
    try:
        wait_for_pause(processes[1])
        processes[0].send_signal(signal.SIGTERM)
        text = processes[0].communicate(timeout=LIMIT_S)[0].decode()
        assert processes[0].returncode == 130 and 'all-reduce' in text
        assert figure(json.loads(out.read_text()), 'all_reduce_1024', None)
    finally:
        processes[1].kill()
        processes[1].communicate()


def test_ranks_that_rank_0_leaves_fail(tmp_path):
    """Rank 2 has answered and waits for the others' answers. Rank 1 never answers, and rank 0 is ended."""
    models = ('devices=3', 'devices=3,hang=cuMemcpyDtoHAsync_v2', 'devices=3')
    processes = [subprocess.Popen([PROGRAM, 'bench', 'collectives'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=environment(m, TMPDIR=str(tmp_path), **torchrun(r, 3, 40_019)))
                 for r, m in enumerate(models)]
    try:
        wait_for_pause(processes[1])
        processes[0].send_signal(signal.SIGTERM)
        assert processes[0].communicate(timeout=LIMIT_S) and processes[0].returncode == 130
        out, error = processes[2].communicate(timeout=LIMIT_S)
        assert processes[2].returncode == 1 and not out and b'rank 2: rank 0 ended' in error, error
    finally:
        for p in processes[1:]:
            p.kill()
            p.communicate()


def wait_for_pause(process):
    """Until one of its threads is in pause(2), which the stand-in hangs in."""
    from test_bench import wchan
    while process.poll() is None:
        threads = os.listdir(f'/proc/{process.pid}/task')
        if any(wchan(process.pid, t) for t in threads):
            return
        time.sleep(0.05)
    raise AssertionError(process.communicate()[1].decode())


assert STUBS
