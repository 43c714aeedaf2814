"""Logs of several processes: one file of all, one of each in a folder, and servers."""
import json

import pytest


def analyzed(profgpu, *paths):
    run = profgpu('analyze', *map(str, paths), '--json')
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def clock(second):
    return f'2024-05-01 12:{second // 60:02d}:{second % 60:02d}'


def steps(count, label='', ms=1000, begin=1):
    return ''.join(f'{label}{clock(i)} step {i} | loss: 2.3 | dt: {ms}.0ms\n' for i in range(begin, begin + count))


def by_turns(count, ranks, ms=lambda rank, step: 1000):
    return ''.join(f'[rank{r}]: {clock(i)} step {i} | loss: 2.3 | dt: {ms(r, i)}.0ms\n'
                   for i in range(1, count + 1) for r in range(ranks))


def failure(report):
    found = [f for f in report['findings'] if f['rule'] == 'run-failure']
    return found[0] if found else None


def folder(tmp_path, logs):
    for name, text in logs.items():
        (tmp_path / name).write_text(text)
    return tmp_path


TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n'
PEER = TRACEBACK + 'RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:123\n'


def test_of_a_log_per_rank_the_cause_is_told_whoever_it_is_of(profgpu, tmp_path):
    ecc = TRACEBACK + 'RuntimeError: CUDA error: uncorrectable ECC error encountered\n'
    report = analyzed(profgpu, folder(tmp_path, {f'rank_{r}.log': steps(100) + (ecc if r == 2 else PEER) for r in range(4)}))
    found = failure(report)
    assert found['ranks'] == [2] and 'has an uncorrectable error' in found['what']
    assert found['evidence'][0].startswith('line 103 of rank_2.log: RuntimeError: CUDA error')
    assert '(line 103 of rank_2.log)' in report['verdict']
    assert [log['end']['kind'] for log in report['logs']] == ['exception', 'exception', 'device_error', 'exception']


def test_of_a_log_per_rank_one_that_fails_beside_others_that_finish(profgpu, tmp_path):
    logs = {f'rank_{r}.log': steps(20) + 'Training completed.\n' for r in range(3)}
    assert failure(analyzed(profgpu, folder(tmp_path, logs))) is None
    logs['rank_1.log'] = steps(20) + TRACEBACK + 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n'
    found = failure(analyzed(profgpu, folder(tmp_path, logs)))
    assert found['ranks'] == [1] and 'ran out of memory' in found['what']


LIMIT = 'slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-05-01T12:20:00 DUE TO TIME LIMIT ***\n'


def resumed(begin, end, first, ms=1000, label='', before='', hours=9):
    """Lines dated `hours` after steps(), of steps from `begin` on."""
    return before + ''.join(f'{label}2024-05-01 {12 + hours}:{i // 60:02d}:{i % 60:02d} step {begin + i} | loss: 2.3 | dt: {ms}.0ms\n'
                            for i in range(end - begin)) + first


@pytest.mark.parametrize('label', ['', '[rank0]: '])
def test_jobs_that_were_started_again_are_one(profgpu, tmp_path, label):
    first, second = steps(500, label) + LIMIT, resumed(401, 901, 'Training completed.\n', 2000, label, 'Resuming from step 400\n')
    report = analyzed(profgpu, folder(tmp_path, {'slurm-1.out': first, 'slurm-2.out': second}))
    assert [r['rank'] for r in report['ranks']] == [0]
    assert failure(report) is None and report['verdict'].startswith('A step takes 2.00 s')
    earlier, later = report['logs']
    assert earlier['end']['kind'] == 'time_limit' and later['end']['kind'] == 'finished' and not earlier['restarts']
    restart, = later['restarts']
    assert (restart['step'], restart['after_step'], restart['cause'], restart['file']) == (401, 500, 'time_limit', 'slurm-1.out')
    # The last one's end is that of the folder.
    (tmp_path / 'slurm-2.out').write_text(resumed(401, 901, LIMIT, 2000, label))
    found = failure(analyzed(profgpu, tmp_path))
    assert found['evidence'][0].startswith('line 501 of slurm-2.out')


def test_the_third_job_goes_on_from_the_same_checkpoint_as_the_second(profgpu, tmp_path):
    report = analyzed(profgpu, folder(tmp_path, {
        'slurm-9.out': steps(500) + LIMIT, 'slurm-10.out': resumed(401, 451, LIMIT, hours=4), 'slurm-11.out': resumed(401, 601, '', hours=9)}))
    by_name = {log['path'].split('/')[-1]: log for log in report['logs']}
    assert [r['file'] for r in by_name['slurm-11.out']['restarts']] == ['slurm-10.out']
    assert [r['after_step'] for r in by_name['slurm-10.out']['restarts']] == [500]
    assert len(report['ranks']) == 1 and failure(report) is None


def test_logs_of_nodes_whose_clocks_differ_are_of_ranks(profgpu, tmp_path):
    report = analyzed(profgpu, folder(tmp_path, {'node0.log': steps(200), 'node1.log': resumed(1, 201, '', hours=2)}))
    assert len(report['ranks']) == 2 and not report['logs'][1]['restarts']


def test_the_rank_that_slows_in_a_folder_of_logs(profgpu, tmp_path):
    def text(rank):
        return ''.join(f'{clock(i)} step {i} | loss: 2.3 | dt: {1500 if rank == 5 and i > 50 else 1000}.0ms\n' for i in range(1, 101))
    report = analyzed(profgpu, folder(tmp_path, {f'rank_{r}.log': text(r) for r in range(8)}))
    found, = (f for f in report['findings'] if f['rule'] == 'slow-rank')
    assert found['ranks'] == [5]
    assert found['what'] == 'rank 5 takes 1.25 s per step, where 1.00 s is usual; it is slower from step 51 on'
    for rank in range(2, 8):
        (tmp_path / f'rank_{rank}.log').unlink()
    assert not [f for f in analyzed(profgpu, tmp_path)['findings'] if f['rule'] == 'slow-rank']


def test_old_watchdogs_tell_who_waited_in_what(profgpu, tmp_path):
    def watchdog(rank, number, op, elements):
        return (f'[E ProcessGroupNCCL.cpp:475] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, '
                f'OpType={op}, NumelIn={elements}, NumelOut={elements}, Timeout(ms)=1800000) ran for 1800115 milliseconds before timing out.\n')
    path = tmp_path / 'train.log'
    path.write_text(steps(50) + ''.join(watchdog(r, *((807, 'BROADCAST', 1) if r == 2 else (808, 'ALLREDUCE', 4096))) for r in range(4)))
    found = failure(analyzed(profgpu, path))
    waits = 'rank 2 waited in collective 807 (BROADCAST of 1 element), ranks 0\u20131, 3 waited in collective 808 (ALLREDUCE of 4,096 elements)'
    assert found['what'].endswith(waits) and waits in found['why'] and found['ranks'] == []
    path.write_text(steps(50) + ''.join(watchdog(r, 808, 'ALLREDUCE', 4096) for r in range(4)))
    assert 'which one it waited for, the log does not say' in failure(analyzed(profgpu, path))['why']


def test_what_ncclras_says_of_a_process_that_is_missing(profgpu, tmp_path):
    path = tmp_path / 'ras.txt'
    path.write_text('NCCL version 2.24.3 compiled with CUDA 12.8\n\nErrors\n======\n\nINCOMPLETE\n  Missing communicator data from 1 job process\n'
                    '  Process 3487 on node 10.0.0.7 managing GPU 5\n')
    report = analyzed(profgpu, path)
    remark, = report['logs'][0]['nccl']['remarks']
    assert remark['text'] == 'Missing communicator data from 1 job process: Process 3487 on node 10.0.0.7 managing GPU 5'
    assert [f['rule'] for f in report['findings']] == ['nccl-warnings']


def test_watchdogs_of_several_logs_tell_who_was_behind(profgpu, tmp_path):
    def watchdog(rank, enqueued, timed_out):
        head = f'[rank{rank}]:[E203 04:05:06.1 ProcessGroupNCCL.cpp:629] '
        if timed_out is None:
            return (f'{head}[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective timeout from rank 0 and '
                    f'we will try our best. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {enqueued}.\n')
        return (f'{head}[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={timed_out}, OpType=ALLREDUCE, NumelIn=4096) '
                f'ran for 600020 milliseconds before timing out.\n'
                f'{head}[PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: {timed_out} '
                f'PG status: last enqueued work: {enqueued}, last completed work: {timed_out - 1}\n')
    logs = {f'rank_{r}.log': steps(20, f'[rank{r}]: ') + watchdog(r, 51 if r == 1 else 55, None if r == 1 else 52) for r in range(3)}
    found = failure(analyzed(profgpu, folder(tmp_path, logs)))
    assert found['ranks'] == [1] and 'rank 1 had not called it' in found['what']


def test_a_cause_stands_although_other_ranks_print_another_step(profgpu, tmp_path):
    text = by_turns(100, 4)
    text += f'[rank2]: {TRACEBACK}[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n'
    text += ''.join(f'[rank{r}]: {clock(101)} step 101 | loss: 2.3 | dt: 1000.0ms\n' for r in (0, 1))
    text += ('[rank0]:[E501 12:10:00.1 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: '
             'WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=4096) ran for 600030 milliseconds before timing out.\n')
    for end in (text, text.replace('[rank2]: torch', 'torch')):   # also where the line does not say whose it is
        path = tmp_path / 'train.log'
        path.write_text(end)
        found = failure(analyzed(profgpu, path))
        assert 'ran out of memory' in found['what'], found['what']
    # An exception that all ranks go on after is none.
    path.write_text(by_turns(50, 4) + TRACEBACK + 'ValueError: seven\n' + by_turns(60, 4).split('step 50 |')[-1])
    assert failure(analyzed(profgpu, path)) is None


@pytest.mark.parametrize('end', [
    'Exception ignored in: <function Pool.__del__ at 0x7f>\n' + TRACEBACK + 'ValueError: pool is closed\n',
    'slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-05-01T12:20:00 DUE TO TIME LIMIT ***\n'])
def test_what_follows_a_finished_training_did_not_end_it(profgpu, tmp_path, end):
    path = tmp_path / 'train.log'
    path.write_text(steps(100) + 'Training completed.\n' + end)
    report = analyzed(profgpu, path)
    assert failure(report) is None and report['logs'][0]['end']['kind'] == 'finished'


def test_the_rank_that_slows_is_named_with_the_step(profgpu, tmp_path):
    path = tmp_path / 'train.log'
    path.write_text(by_turns(100, 8, lambda rank, step: 1500 if rank == 5 and step > 50 else 1000))
    report = analyzed(profgpu, path)
    found, = (f for f in report['findings'] if f['rule'] == 'slow-rank')
    assert found['ranks'] == [5] and found['value'] == pytest.approx(25)
    assert found['what'] == 'rank 5 takes 1.25 s per step, where 1.00 s is usual; it is slower from step 51 on'
    assert 'rank 5 takes 1.25 s per step' in report['verdict']
    path.write_text(by_turns(100, 8, lambda rank, step: 1000 + 10 * rank))
    assert not [f for f in analyzed(profgpu, path)['findings'] if f['rule'] == 'slow-rank']


def test_ranks_that_launchers_count_on_each_node(profgpu, tmp_path):
    path = tmp_path / 'train.log'
    path.write_text(''.join(f'node{n}: [default{r}]: {clock(i)} step {i} | loss: 2.3 | dt: 1000.0ms\n'
                            for i in range(1, 21) for n in (1, 2) for r in (0, 1)))
    report = analyzed(profgpu, path)
    assert [p['rank'] for p in sorted(report['logs'][0]['processes'], key=lambda p: p['rank'])] == [0, 1, 2, 3]
    assert len(report['ranks']) == 4


def vllm(second, engine='Engine 000: ', rate=500.0, running=8):
    return (f'INFO 05-01 12:{second // 60:02d}:{second % 60:02d} [loggers.py:116] {engine}Avg prompt throughput: 100.0 tokens/s, Avg generation '
            f'throughput: {rate} tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 45.6%, Prefix cache hit rate: 12.3%\n')


def test_a_request_that_fails_ends_no_server(profgpu, tmp_path):
    path = tmp_path / 'server.log'
    lines = ''.join(vllm(10 * i) for i in range(20))
    answer = 'INFO:     127.0.0.1:5 - "GET /health HTTP/1.1" 200 OK\n'
    for text in (lines + 'ERROR:    Exception in ASGI application\n' + TRACEBACK + 'ValueError: seven\n',
                 lines + TRACEBACK + 'ValueError: seven\n' + answer):
        path.write_text(text)
        assert failure(analyzed(profgpu, path)) is None
    path.write_text(lines + answer + TRACEBACK + 'ValueError: seven\n')
    assert failure(analyzed(profgpu, path))


def test_engines_that_are_silent_do_no_work(profgpu, tmp_path):
    path = tmp_path / 'server.log'
    line = '[{} DP{} TP0] Decode batch, #running-req: 4, #token: 3456, token usage: 0.45, cuda graph: True, gen throughput (token/s): 500.00, #queue-req: 0\n'
    path.write_text(''.join(line.format(clock(i), d) for i in range(200) for d in (0, 1) if d == 0 or i < 20))
    serving = analyzed(profgpu, path)['logs'][0]['serving']
    assert serving['engines'] == 2 and serving['generated_tokens_per_s'] == pytest.approx(550, rel=0.03)
    drafts = ('INFO 05-01 12:00:00 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 1.50, Accepted: 20 tokens, Drafted: 40 tokens, '
              'Avg Draft acceptance rate: 50.0%\n')
    path.write_text(drafts + ''.join(vllm(10 * i) for i in range(1, 20)))
    report = analyzed(profgpu, path)
    assert report['logs'][0]['serving']['engines'] == 1 and report['verdict'].startswith('The server generates 500 tokens')


def test_a_log_with_decimal_commas(profgpu, tmp_path):
    path = tmp_path / 'train.log'
    path.write_text(''.join(f'step {i} | loss: 2,317 | step_time: 0,251s\n' for i in range(1, 51)))
    log, = analyzed(profgpu, path)['logs']
    assert log['throughput']['mean_ns'] == 251_000_000 and log['loss']['last'] == 2.317


def test_a_log_that_powershell_wrote(profgpu, tmp_path):
    path = tmp_path / 'train.log'
    path.write_bytes(steps(50).encode('utf-16'))
    assert analyzed(profgpu, path)['logs'][0]['throughput']['lines'] == 50


def test_a_process_that_falls_back_to_sockets(profgpu, tmp_path):
    path = tmp_path / 'nccl.log'
    path.write_text('node0:100:200 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n' + ''.join(
        f'node{r // 4}:{100 + r}:{200 + r} [{r % 4}] NCCL INFO Using network {"Socket" if r == 3 else "IB"}\n' for r in range(8)))
    found, = (f for f in analyzed(profgpu, path)['findings'] if f['rule'] == 'slow-transport')
    assert 'TCP sockets' in found['what'] and '1 of 8 processes use network Socket' in found['evidence'][0]


def test_half_of_the_gpus_are_far_by_design(profgpu, tmp_path):
    def table(rates):
        return ('nvbandwidth Version: v0.8\nRunning host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           ' +
                ' '.join(f'{i:9d}' for i in range(len(rates))) + '\n 0 ' + ' '.join(f'{r:9.2f}' for r in rates) +
                f'\n\nSUM host_to_device_memcpy_ce {sum(rates):.2f}\n')
    path = tmp_path / 'nvb.log'
    path.write_text(table([55.0] * 4 + [36.0] * 4))
    assert not [f for f in analyzed(profgpu, path)['findings'] if f['rule'] == 'slow-pairs']
    path.write_text(table([55.0] * 7 + [36.0]))
    assert [f for f in analyzed(profgpu, path)['findings'] if f['rule'] == 'slow-pairs']
