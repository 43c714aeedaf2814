"""Logs of trainings: real ones against regular expressions, and made ones of each family."""
import glob
import gzip
import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest

import log_reference
import log_writer
from conftest import ROOT

SHARED = os.path.join(ROOT, '..', 'shared', 'logs')


def analyzed(profgpu, *paths):
    run = profgpu('analyze', *map(str, paths), '--json')
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def shared_logs():
    return [p for p in sorted(glob.glob(os.path.join(SHARED, '*'))) if 'megatron' in p]


@pytest.mark.skipif(not shared_logs(), reason='the real logs are not here')
@pytest.mark.parametrize('path', shared_logs(), ids=os.path.basename)
def test_real_logs_equal_regular_expressions(profgpu, path):
    with open(path, encoding='utf-8', errors='replace') as f:
        text = f.read()
    report = analyzed(profgpu, path)
    expected = log_reference.steps(text)
    rank, = report['ranks']
    assert [(s['index'], s['duration_ns']) for s in rank['steps']] == expected
    numbers = [n for n, _ in expected]
    assert [s['iterations'] for s in rank['steps'][1:]] == [b - a for a, b in zip(numbers, numbers[1:])]
    times = log_reference.measured([t for _, t in expected])
    throughput = report['logs'][0]['throughput']
    assert throughput['mean_ns'] == pytest.approx(sum(times) / len(times), abs=1)
    assert throughput['p95_ns'] == pytest.approx(log_reference.percentile(times, 95), abs=1)
    assert rank['average_step']['duration_ns'] == pytest.approx(throughput['mean_ns'], abs=1)
    rates = log_reference.tflops(text)
    assert [s['tflops'] for s in rank['steps'] if s['tflops'] is not None] == pytest.approx(rates)
    allocated, reserved = log_reference.memory(text)
    assert rank['memory']['peak_allocated_bytes'] == allocated
    assert rank['memory']['peak_reserved_bytes'] == reserved


@pytest.mark.skipif(not shared_logs(), reason='the real logs are not here')
@pytest.mark.parametrize('path', sorted(glob.glob(os.path.join(SHARED, '*'))), ids=os.path.basename)
def test_a_page_of_a_real_log(profgpu, tmp_path, path):
    page = tmp_path / 'report.html'
    assert profgpu('analyze', path, '--html', page).returncode == 0 and page.stat().st_size > 1000
    assert profgpu('export', path, '--to', 'chrome', '-o', tmp_path / 'steps.json').returncode in (0, 1)


def written(tmp_path, text, name='train.log'):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rules(report):
    return [f['rule'] for f in report['findings']]


def test_a_stall_and_its_step_are_told(profgpu, tmp_path):
    times = [2000.0] + [500.0] * 30
    times[20] = 1500.0
    text = log_writer.megatron(times)
    report = analyzed(profgpu, written(tmp_path, text))
    expected = log_reference.measured([t for _, t in log_reference.steps(text)])
    log, = report['logs']
    assert log['throughput']['warmup_lines'] == 1 and log['throughput']['iterations'] == 310
    assert log['throughput']['mean_ns'] == pytest.approx(sum(expected) / len(expected), abs=1)
    assert [(s['kind'], s['step']) for s in log['stalls']] == [('slow_step', 210)]
    assert report['warmup_steps'] == 1 and report['measured_steps'] == 30
    assert all(s['iterations'] == 10 for s in report['ranks'][0]['steps'][1:])


def test_a_healthy_log_has_no_finding(profgpu, tmp_path):
    report = analyzed(profgpu, written(tmp_path, log_writer.megatron([500.0] * 20)))
    assert [f for f in report['findings'] if f['severity'] != 'info'] == []
    assert report['verdict'].startswith('A step takes 500')


def test_interleaved_stages_wait_less(profgpu, tmp_path):
    sizes = dict(data_parallel_size=4, pipeline_model_parallel_size=8, micro_batch_size=1, world_size=32)

    def bubble(**more):
        arguments = ''.join(f'  {name} ......... {value}\n' for name, value in (sizes | more).items())
        text = f'------------ arguments ------------\n{arguments}-------- end of arguments ---------\n'
        report = analyzed(profgpu, written(tmp_path, text + log_writer.megatron([500.0] * 20)))
        return next((f for f in report['findings'] if f['rule'] == 'pipeline-bubble'), None)

    assert bubble(virtual_pipeline_model_parallel_size='None')['value'] == pytest.approx(100 * 7 / (16 + 7))
    assert bubble(virtual_pipeline_model_parallel_size=4) is None
    few = bubble(virtual_pipeline_model_parallel_size=2, pipeline_model_parallel_size=16, world_size=64)
    assert few['value'] == pytest.approx(100 * 15 / (2 * 16 + 15))
    assert not any('virtual' in fix for fix in few['fix'])


def test_deepspeed_says_what_to_set(profgpu, tmp_path):
    config = log_writer.configuration(stage=2, overlap_comm='false', reduce_bucket_size=5000000)
    report = analyzed(profgpu, written(tmp_path, log_writer.deepspeed(20, bwd=160.0, reduce=100.0, config=config)))
    finding = next(f for f in report['findings'] if f['rule'] == 'exposed-communication')
    assert finding['value'] == pytest.approx(100 * 100 / 230)
    assert 'overlap_comm' in finding['fix'][0] and 'reduce_bucket_size' in finding['fix'][1]
    quiet = analyzed(profgpu, written(tmp_path, log_writer.deepspeed(20, reduce=5.0, config=config)))
    assert 'exposed-communication' not in rules(quiet)
    phases = {p['name']: p['mean_ns'] for p in quiet['logs'][0]['breakdown']}
    assert phases == {'forward': 40_000_000, 'backward': 75_000_000, 'communication': 5_000_000, 'optimizer': 30_000_000}


def test_an_update_on_the_cpu_is_named(profgpu, tmp_path):
    config = log_writer.configuration(stage=2, offload_optimizer='{\n            "device": "cpu"\n        }')
    report = analyzed(profgpu, written(tmp_path, log_writer.deepspeed(20, step=150.0, config=config)))
    assert 'optimizer-offload' in rules(report)


@pytest.mark.parametrize('before, share', [(500, None), (60, 50)])
def test_updates_skipped_before_a_restart_do_not_count(profgpu, tmp_path, before, share):
    """DeepSpeed counts over the whole job; of this log only what it counts from line to line."""
    text = ''.join(f'[2024-05-01 10:0{i // 12}:{5 * i % 60:02},123] [INFO] [logging.py:96:log_dist] [Rank 0] step={100010 + 10 * i}, '
                   f'skipped={before + 5 * i if share else before}, lr=[1e-05], mom=[(0.9, 0.999)]\n'
                   f'[2024-05-01 10:0{i // 12}:{5 * i % 60:02},125] [INFO] [timer.py:260:stop] epoch=0/micro_step={100010 + 10 * i}/global_step='
                   f'{100010 + 10 * i}, RunningAvgSamplesPerSec=64.0, CurrSamplesPerSec=64.0, MemAllocated=10.0GB, MaxMemAllocated=20.0GB\n'
                   for i in range(20))
    found = {f['rule']: f for f in analyzed(profgpu, written(tmp_path, text))['findings']}
    assert 'skipped-updates' not in found if share is None else found['skipped-updates']['value'] == pytest.approx(share)


def test_saves_between_steps_cost_their_share_of_the_whole(profgpu, tmp_path):
    text, second = '', 0

    def stamp(at):
        return f'2024-05-01 10:{at // 60:02}:{at % 60:02}'

    for i in range(10, 301, 10):
        second += 10
        text += (f' [{stamp(second)}] iteration {i:8}/     300 | consumed samples: {64 * i:12} | elapsed time per iteration (ms): 1000.0 | '
                 'learning rate: 1.000000E-04 | global batch size:    64 | lm loss: 5.000000E+00 | loss scale: 1.0 | grad norm: 1.000 | '
                 'number of skipped iterations:   0 | number of nan iterations:   0 |\n')
        if i % 100 == 50:
            second += 300
            text += (f'saving checkpoint at iteration {i:7} to /ckpt in torch_dist format\n'
                     f'  successfully saved checkpoint from iteration {i:7} to /ckpt [ t 1/1, p 1/1 ]\n'
                     '(min, max) time across ranks (ms):\n    save-checkpoint ................................: (300000.00, 300000.00)\n')
    found = {f['rule']: f for f in analyzed(profgpu, written(tmp_path, text))['findings']}
    stall = found['checkpoint-stall']
    assert stall['cost_pct'] == pytest.approx(stall['value'], abs=.5) and 70 < stall['value'] < 80


def test_samples_beside_a_log_leave_it_its_verdict(profgpu, tmp_path):
    written(tmp_path, ''.join(f'2024-05-01 12:{i // 60:02}:{i % 60:02},000 - train - INFO - iter {i}: loss 2.3170, time 1000.00ms\n' for i in range(1, 101)))
    (tmp_path / 'smi.csv').write_text('timestamp, index, utilization.gpu [%]\n' + ''.join(
        f'2024/05/01 12:{i // 60:02}:{i % 60:02}.000, 0, 95 %\n' for i in range(1, 101)))
    verdict = analyzed(profgpu, tmp_path)['verdict']
    assert verdict.startswith('A step takes 1.00 s') and verdict.endswith('GPU 0 is busy 95 % of the time.')


def test_a_line_may_time_one_of_many_steps(profgpu, tmp_path):
    """3,000 steps of 0.4 s, of which each hundredth is printed: nothing lies between the lines but steps."""
    text = ''
    for i in range(100, 3001, 100):
        at = 4 * i // 10
        text += f'2024-05-01 12:{at // 60:02}:{at % 60:02},000 - train - INFO - iter {i}: loss 2.3170, time 400.00ms\n'
        if i % 1000 == 0:
            text += f'2024-05-01 12:{at // 60:02}:{at % 60:02},100 - train - INFO - Saving checkpoint to /ckpt/{i}\n'
    report = analyzed(profgpu, written(tmp_path, text))
    log, = report['logs']
    assert not rules(report) and log['wall']['outside_ns'] == 0
    assert [s for s in log['stalls'] if s['kind'] == 'gap'] == []


@pytest.mark.parametrize('line, kind', [
    ('[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which '
     '1.06 GiB is free.', 'out_of_memory'),
    ('[rank1]:[E512 12:00:00.1 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, '
     'OpType=ALLREDUCE)', 'collective_timeout'),
    ('slurmstepd: error: *** JOB 12 ON node1 CANCELLED AT 2021-05-23T08:45:57 DUE TO TIME LIMIT ***', 'time_limit'),
    ('RuntimeError: CUDA error: an illegal memory access was encountered', 'device_error')])
def test_how_a_run_ended(profgpu, tmp_path, line, kind):
    text = log_writer.megatron([500.0] * 20) + line + '\nTerminated\n'
    report = analyzed(profgpu, written(tmp_path, text))
    end = report['logs'][0]['end']
    assert (end['kind'], end['line'], end['after_step']) == (kind, 21, 200)
    failure, = (f for f in report['findings'] if f['rule'] == 'run-failure')
    assert failure['seen']['step'] == 200
    assert report['verdict_kind'] == 'failure' and '(line 21)' in report['verdict']


def test_ranks_of_one_log_are_told_apart(profgpu, tmp_path):
    lines = [log_writer.titan(12, rank).splitlines(True) for rank in range(4)]
    text = ''.join(line for group in zip(*lines) for line in group)
    report = analyzed(profgpu, written(tmp_path, text))
    assert [r['rank'] for r in report['ranks']] == [0, 1, 2, 3]
    assert all(s['duration_ns'] == 5_000_000_000 for r in report['ranks'] for s in r['steps'][1:])
    assert len(report['logs']) == 1 and len(report['logs'][0]['processes']) == 4


def test_secrets_stay_in_the_log(profgpu, tmp_path):
    secret = 'hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345'
    text = log_writer.megatron([500.0] * 12) + \
        f'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. token={secret} WANDB_API_KEY: {"0123456789" * 4}\n'
    path = written(tmp_path, text)
    for words in (['--json'], [], ['--format', 'markdown'], ['--section', 'log'], ['--format', 'html']):
        out = profgpu('analyze', path, *words).stdout.decode()
        assert secret not in out and '0123456789' * 4 not in out, words


def test_damaged_logs_still_tell(profgpu, tmp_path):
    text = log_writer.megatron([500.0] * 20).encode()
    for damaged in (text[:-100], b'\x00' * 500 + text, text.replace(b'\n', b'\r\n'), text + b'x' * (3 << 20), b'\xff\xfe\n' + text + b'\x1b[2K\r'):
        report = analyzed(profgpu, written(tmp_path, damaged))
        assert len(report['ranks'][0]['steps']) >= 19
    for nothing in (b'', b'\x00' * 4096, b'hello\nworld\n', os.urandom(4096)):
        assert profgpu('analyze', written(tmp_path, nothing)).returncode == 1
    packed = tmp_path / 'train.log.gz'
    packed.write_bytes(gzip.compress(text))
    assert len(analyzed(profgpu, packed)['ranks'][0]['steps']) == 20
    packed.write_bytes(gzip.compress(os.urandom(100) + text)[:-40])
    assert profgpu('analyze', packed).returncode in (0, 1)
    assert sorted(os.listdir(tmp_path)) == ['train.log', 'train.log.gz']


def test_logs_compare_as_traces_do(profgpu, tmp_path):
    slow, fast = (written(tmp_path, log_writer.megatron([t + i % 3 for i in range(40)]), f'{t}.log') for t in (500.0, 400.0))
    run = profgpu('diff', slow, fast, '--json')
    assert run.returncode == 0 and json.loads(run.stdout)['verdict'] == 'faster'
    assert profgpu('diff', fast, slow, '--fail-on', 'step_time > +3%').returncode == 3
    history = tmp_path / 'history.sqlite'
    assert profgpu('baseline', 'save', 'a', slow, '--file', history).returncode == 0
    assert b'501 ms' in profgpu('history', '--file', history).stdout


def test_a_trainer_state_is_a_log(profgpu, tmp_path):
    history = [{'step': n, 'loss': 3 - n / 100, 'epoch': n / 40, 'learning_rate': 1e-5} for n in range(10, 50, 10)]
    history.append({'step': 40, 'epoch': 1.0, 'train_runtime': 80.0, 'train_steps_per_second': 0.5})
    report = analyzed(profgpu, written(tmp_path, json.dumps({'global_step': 40, 'log_history': history, 'max_steps': 40}, indent=2), 'trainer_state.json'))
    steps = report['ranks'][0]['steps']
    assert [s['index'] for s in steps] == [10, 20, 30, 40] and all(s['duration_ns'] == 2_000_000_000 for s in steps)
    assert [s['loss'] for s in steps] == [2.9, 2.8, 2.7, 2.6]


def test_a_step_of_another_batch_is_no_slower_step(profgpu, tmp_path):
    """A third more time for twice the samples: 64 in 500 ms, then 128 in 660 ms."""
    times = [500 + i % 5 for i in range(40)]
    before = written(tmp_path, log_writer.megatron(times, every=1), 'before.log')
    larger = log_writer.megatron([t * 1.32 for t in times], every=1).replace('global batch size:    64', 'global batch size:   128')
    after = written(tmp_path, larger, 'after.log')
    run = profgpu('diff', before, after, '--json', '--fail-on', 'samples_per_s < -3%')
    diff = json.loads(run.stdout)
    assert run.returncode == 0 and diff['verdict'] == 'slower'
    assert any('128 samples instead of 64' in note for note in diff['notes'])
    rows = {r['name']: r for r in diff['throughput']}
    assert (rows['samples_per_step']['before'], rows['samples_per_step']['after']) == (64, 128)
    assert rows['samples_per_s']['after'] / rows['samples_per_s']['before'] == pytest.approx(2 / 1.32, rel=1e-3)
    assert profgpu('diff', after, before, '--fail-on', 'samples_per_s < -3%').returncode == 3
    assert profgpu('diff', after, before, '--fail-on', 'samples_per_s < 100').returncode == 0


def test_a_restart_and_what_it_is_for(profgpu, tmp_path):
    """Twenty lines, a crash, and again from the eleventh on without a pause."""
    lines = log_writer.megatron([500.0] * 30, every=1).splitlines(keepends=True)
    crash = 'Traceback (most recent call last):\n  File "train.py", line 10, in <module>\nRuntimeError: aborted on rank 3.\n'
    path = written(tmp_path, ''.join(lines[:20]) + crash + ''.join(lines[10:]))
    report = analyzed(profgpu, path)
    assert len(report['ranks'][0]['steps']) == 40 and report['logs'][0]['end']['kind'] == 'unknown'
    restart, = report['logs'][0]['restarts']
    assert (restart['step'], restart['after_step'], restart['line'], restart['cause'], restart['cause_line']) == (11, 20, 24, 'exception', 23)
    screen = profgpu('analyze', path, text=True).stdout
    assert 'restarted at step 11 (line 24) after step 20: exception, line 23: RuntimeError: aborted on rank 3.' in ' '.join(screen.split())


def megatron_lines(first, last, second, each=10):
    text = ''
    for i in range(first, last + 1, 10):
        second += each
        day, clock = divmod(second, 86400)
        text += (f' [2024-05-0{1 + day} {clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}] iteration {i:8}/    1000 | '
                 f'elapsed time per iteration (ms): {each * 100}.0 | global batch size:    64 | lm loss: 5.000000E+00 |\n')
    return text


def test_a_job_that_goes_on_the_next_day(profgpu, tmp_path):
    """Not a checkpoint that takes a day."""
    between = ('saving checkpoint at iteration     500 to /ckpt\n  successfully saved checkpoint from iteration     500 to /ckpt\n'
               '[exiting program after 55.0 minutes] datetime: 2024-05-01 00:08:30\nusing world size: 8, data-parallel size: 8\n')
    report = analyzed(profgpu, written(tmp_path, megatron_lines(10, 500, 0) + between + megatron_lines(510, 1000, 86400, 20)))
    log, = report['logs']
    assert 'checkpoint-stall' not in rules(report) and 'step-time-variance' not in rules(report)
    assert log['wall']['wall_ns'] == 1000e9 and log['wall']['outside_ns'] == 0
    assert log['throughput']['mean_ns'] == 2e9 and log['throughput']['lines'] == 50
    restart, = log['restarts']
    assert (restart['step'], restart['after_step'], restart['cause']) == (510, 500, 'finished')
    assert [(r['first_step'], r['last_step'], r['median_ns'], r['told'], r['end']) for r in log['runs']] == [
        (10, 500, 1e9, False, 'finished'), (510, 1000, 2e9, True, 'unknown')]
    assert report['verdict'].startswith('A step takes 2.00 s in the last of 2 runs')


def test_stops_that_share_a_pause(profgpu, tmp_path):
    """What one states is not the other's; what two do not state is neither's."""
    text, second = '', 0
    for i in range(100, 501, 100):
        text += megatron_lines(i - 90, i, second)
        second += 100 + 130
        text += f' validation loss at iteration {i} | lm loss value: 7.48E+00 |\nsaving checkpoint at iteration     {i} to /ckpt\n'
        text += 'time (ms) | save-checkpoint: 100000.00\n' if i != 300 else ''
    text += megatron_lines(510, 600, second)
    stalls = analyzed(profgpu, written(tmp_path, text))['logs'][0]['stalls']
    taken = [(s['kind'], s['step'], s['duration_ns']) for s in stalls]
    assert [t for t in taken if t[1] == 300] == [('evaluation', 300, None), ('checkpoint', 300, None)]
    assert [t[2] for t in taken if t[1] != 300] == [30e9, 100e9] * 4


def test_an_error_above_buffered_steps(profgpu, tmp_path):
    steps = [f'step {i} | loss: 2.3 | dt: 1000.0ms\n' for i in range(1, 501)]
    crash = ('Traceback (most recent call last):\n  File "train.py", line 100, in <module>\ntorch.OutOfMemoryError: CUDA out of memory. '
             'Tried to allocate 2.00 GiB.\n')
    report = analyzed(profgpu, written(tmp_path, ''.join(steps[:300]) + crash + ''.join(steps[300:])))
    end = report['logs'][0]['end']
    assert (end['kind'], end['earlier_error'], end['earlier_error_line']) == ('unknown', 'out_of_memory', 303)
    assert 'Line 303 has an error above the last steps (out of memory)' in report['verdict']
    assert 'run-failure' not in rules(report)
    dated = ''.join(f'2024-05-01 12:0{i // 60}:{i % 60:02} ' + line for i, line in enumerate(steps[:400]))
    cut = dated.index('2024-05-01 12:05:00')
    report = analyzed(profgpu, written(tmp_path, dated[:cut] + crash + dated[cut:]))
    assert report['logs'][0]['end']['earlier_error'] is None


def test_a_trainer_state_of_an_unfinished_run(profgpu, tmp_path):
    history = [{'epoch': i / 10, 'learning_rate': 1e-5, 'loss': 2 - i / 20, 'step': 10 * i} for i in range(1, 11)]
    report = analyzed(profgpu, written(tmp_path, json.dumps({'epoch': 1.0, 'global_step': 100, 'log_history': history}), 'trainer_state.json'))
    assert report['verdict'].startswith('The file has 10 lines of steps up to step 100 and no time of any.')
    assert (report['logs'][0]['loss']['first'], report['logs'][0]['loss']['last']) == (1.95, 1.5)


def test_a_profile_of_modules_alone(profgpu, tmp_path):
    rule = '-' * 78
    path = written(tmp_path, f""" {'-' * 26} DeepSpeed Flops Profiler {'-' * 26}
params per GPU:                                                         336.23 M
fwd latency:                                                            76.67 ms
bwd latency:                                                            108.02 ms
iter latency:                                                           184.73 ms
samples/second:                                                         433.07
------------------------------ Detailed Profile per GPU ------------------------------
Bert(
  336.23 M = 100% Params, 3139.93 GMACs = 100% MACs, 76.39 ms = 100% latency, 82.21 TFLOPS
  (bert): BertModel(
    335.15 M = 99.68% Params, 3092.96 GMACs = 98.5% MACs, 34.29 ms = 44.89% latency, 180.4 TFLOPS
  )
)
{rule}
""")
    report = analyzed(profgpu, path)
    assert report['verdict'] == 'A profiled iteration takes 185 ms: forward 76.7 ms, backward 108 ms; 433 samples per second.'
    screen = profgpu('analyze', path, text=True).stdout
    assert '(bert) BertModel' in screen and '34.3 ms' in screen


def test_json_lines_are_a_log_and_other_json_is_not(profgpu, tmp_path):
    rows = ''.join(json.dumps({'step': i, 'loss': 2.3, 'step_time': 0.25 + i / 1000, 'tflops': 120.5}) + '\n' for i in range(1, 21))
    report = analyzed(profgpu, written(tmp_path, rows, 'metrics.jsonl'))
    assert [s['duration_ns'] for s in report['ranks'][0]['steps']] == [250_000_000 + i * 1_000_000 for i in range(1, 21)]
    assert report['logs'][0]['throughput']['tflops'] == 120.5
    one = written(tmp_path, json.dumps({'step': 1, 'loss': 2.3, 'step_time': 1}), 'one.json')
    assert profgpu('analyze', one).returncode == 1


def vllm(lines):
    """(running, waiting, percent of the cache) each, ten seconds apart."""
    return ''.join(f'INFO 05-01 12:{i // 6:02}:{i % 6}0 [loggers.py:116] Engine 000: Avg prompt throughput: {1200 if r + w else 0}.0 tokens/s, '
                   f'Avg generation throughput: {500 + i if r + w else 0}.0 tokens/s, '
                   f'Running: {r} reqs, Waiting: {w} reqs, GPU KV cache usage: {c:.1f}%, Prefix cache hit rate: 12.5%\n' for i, (r, w, c) in enumerate(lines))


def test_a_server_with_room_has_no_finding(profgpu, tmp_path):
    """Neither one whose requests wait for something else, nor one whose full cache keeps nobody waiting."""
    for lines in ([(8, 0, 40)] * 20, [(8, 30, 40)] * 20, [(8, 0, 99)] * 20, [(8, 30, 99)] + [(8, 0, 40)] * 19, [(8, 30, 99)] * 2):
        assert rules(analyzed(profgpu, written(tmp_path, vllm(lines)))) == []


def test_a_full_cache_is_told(profgpu, tmp_path):
    report = analyzed(profgpu, written(tmp_path, vllm([(8, 0, 40)] * 10 + [(12, 30, 98)] * 10 + [(0, 0, 0)] * 5)))
    assert rules(report) == ['kv-cache-full'] and report['findings'][0]['value'] == 50
    assert '--gpu-memory-utilization' in ' '.join(report['findings'][0]['fix'])
    serving, rows = report['logs'][0]['serving'], report['logs'][0]['serving_lines']
    assert (serving['lines'], serving['busy_lines'], serving['waiting_lines'], serving['full_lines']) == (25, 20, 10, 10)
    assert serving['generated_tokens_per_s'] == 509.5 and serving['running'] == 10 and serving['most_waiting'] == 30
    assert [r['start_ns'] for r in rows[:3]] == [0, 10_000_000_000, 20_000_000_000] and len(rows) == 25
    assert report['ranks'] == [] or report['ranks'][0]['steps'] == []
    assert 'generates 510 tokens per second' in report['verdict'] or 'generates 509' in report['verdict']


def drafts(accepted, drafted, positions):
    """vLLM's line on speculative decoding, behind the engine's."""
    rates = ', '.join(f'{p:.3f}' for p in positions)
    return (f'INFO 05-01 12:00:00 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: {1 + sum(positions):.2f}, Accepted throughput: 1.00 tokens/s, '
            f'Drafted throughput: 5.00 tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, '
            f'Per-position acceptance rate: {rates}, Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%\n')


def test_drafts_that_are_mostly_rejected_are_told(profgpu, tmp_path):
    engine = vllm([(8, 0, 40)] * 4)
    text = engine + drafts(60, 400, (.35, .25, .1, .05)) + engine + drafts(60, 600, (.2, .15, .1, .05))
    report = analyzed(profgpu, written(tmp_path, text))
    finding, = report['findings']
    assert finding['rule'] == 'rejected-drafts' and finding['value'] == pytest.approx(88)
    assert 'num_speculative_tokens 1 ' in finding['fix'][0], 'the second position is accepted 19 % of the time'
    speculation = report['logs'][0]['serving']['speculation']
    assert (speculation['drafted_tokens'], speculation['accepted_tokens'], speculation['accepted_pct']) == (1000, 120, 12)
    assert speculation['length'] == pytest.approx(.4 * 1.75 + .6 * 1.5)
    assert speculation['position_pct'] == pytest.approx([26, 19, 10, 5])
    assert 'drafted tokens' in report['verdict']


@pytest.mark.parametrize('line', [drafts(300, 1000, (.6, .3, .2, .1)), drafts(2, 20, (.1, .1)), drafts(240, 1000, (.9, .5, .3, .1, .1, .05, .02, .01))])
def test_drafts_that_are_worth_it(profgpu, tmp_path, line):
    """Enough of them accepted; too few to tell; many rejected, but a step gives more than two tokens."""
    assert rules(analyzed(profgpu, written(tmp_path, vllm([(8, 0, 40)] * 4) + line))) == []


def test_a_rate_without_a_time_is_told(profgpu, tmp_path):
    text = ''.join(f'Step {i} | loss:{3 - i / 10} lr:2e-05 tokens_per_second_per_gpu:{400 + i} peak_memory_alloc:10.5\n' for i in range(1, 6))
    report = analyzed(profgpu, written(tmp_path, text))
    log, = report['logs']
    assert log['untimed'] == {'lines': 5, 'last_step': 5, 'samples_per_s': None, 'tokens_per_s': None,
                              'device_tokens_per_s': 403, 'tflops': None, 'mfu_pct': None}
    assert log['throughput'] is None and report['verdict'].startswith('Each GPU processes 403 tokens per second. ')
    assert '403 tokens/s per GPU' in profgpu('analyze', written(tmp_path, text), text=True).stdout


def test_engines_that_share_the_work_add_up(profgpu, tmp_path):
    """Three of 40 tokens/s each; then one of them says nothing at first."""
    line = '[2025-02-03 04:05:{:02} DP{} TP{}] Decode batch, #running-req: {}, #token: 90, token usage: 0.10, cuda graph: True, gen throughput (token/s): {:.2f}, #queue-req: 1\n'
    text = ''.join(line.format(5 * i, dp, dp, 4, 40.0) for i in range(6) for dp in range(3))
    serving = analyzed(profgpu, written(tmp_path, text))['logs'][0]['serving']
    assert (serving['engines'], serving['generated_tokens_per_s'], serving['running'], serving['waiting']) == (3, 120, 12, 3)
    assert serving['most_generated_tokens_per_s'] == 120 and serving['cache_pct'] == pytest.approx(10)
    lines = text.splitlines(True)
    report = analyzed(profgpu, written(tmp_path, ''.join(lines[:2] + lines[3:])))
    assert report['verdict'].startswith("The server's 3 engines together generate 113 tokens per second, with 11.3 requests at once")


def test_requests_that_came_and_ended_between_lines(profgpu, tmp_path):
    report = analyzed(profgpu, written(tmp_path, vllm([(8, 0, 0)] * 4).replace('Running: 8', 'Running: 0')))
    assert report['verdict'].startswith('The server generates 502 tokens per second;') and report['logs'][0]['serving']['busy_lines'] == 4
    alone = analyzed(profgpu, written(tmp_path, vllm([(1, 0, 0)])))
    assert ', with one request at a time;' in alone['verdict']


def test_timers_leave_the_warm_up_out(profgpu, tmp_path):
    times = [900.0] + [300.0] * 5
    lines = log_writer.megatron(times).splitlines(True)
    text = ''.join(line + f'time (ms) | forward-compute: {time * 2 / 3:.2f}\n' for line, time in zip(lines, times))
    timer, = analyzed(profgpu, written(tmp_path, text))['logs'][0]['timers']
    assert (timer['count'], timer['mean_ns'], timer['max_ns']) == (5, 200_000_000, 200_000_000)
    assert timer['step_pct'] == pytest.approx(200 / 3, rel=1e-3)


ELASTIC = """E0203 04:05:06.000000 777 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {code}) local_rank: 3 (pid: 991) of binary: /usr/bin/python
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Failures:
[1]:
  host      : c3-13
  rank      : 27 (local_rank: 3)
  exitcode  : {code} (pid: 992)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  host      : c3-12
  rank      : 19 (local_rank: 3)
  exitcode  : {code} (pid: 991)
"""
REMOTE = '[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:7, remote process exited or there was a network error\n'
TIMEOUT = '[rank0]:[E203 04:05:06.1 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=52, OpType=ALLREDUCE)\n'


@pytest.mark.parametrize('text, kind, rank, node', [
    (REMOTE + ELASTIC.format(code=-9), 'killed', 19, 'c3-12'),
    (TIMEOUT + ELASTIC.format(code=-11), 'killed', 19, 'c3-12'),
    (TIMEOUT + ELASTIC.format(code=-6), 'collective_timeout', 0, None),
    (ELASTIC.format(code=1), 'exit_code', 19, 'c3-12'),
    ('[rank7]: Traceback (most recent call last):\n[rank7]: ValueError: seven\n[rank19]: Traceback (most recent call last):\n'
     '[rank19]: ValueError: nineteen\n' + ELASTIC.format(code=1), 'exception', 19, None),
    ('srun: error: c3-12: task 21: Killed\n' + REMOTE + TIMEOUT, 'killed', 21, 'c3-12'),
    (TIMEOUT + 'srun: error: c3-12: task 21: Killed\n', 'collective_timeout', 0, None),
    (REMOTE + TIMEOUT, 'nccl_error', 0, None),
    ('Traceback (most recent call last):\nRuntimeError: Engine core initialization failed. See root cause above.\n'
     'ERROR 02-03 04:05:06 [core.py:7] ValueError: No available memory for the cache blocks.\n', 'out_of_memory', None, None),
    ('slurmstepd: error: *** STEP 7.0 ON c3-1 CANCELLED AT 2025-02-03T04:05:06 DUE TO NODE FAILURE ***\nsrun: error: Node failure on c3-12\n',
     'node_failure', None, 'c3-12')])
def test_the_first_cause_of_an_end(profgpu, tmp_path, text, kind, rank, node):
    end = analyzed(profgpu, written(tmp_path, log_writer.megatron([500.0] * 12) + text))['logs'][0]['end']
    assert (end['kind'], end['rank'], end['node']) == (kind, rank, node)


def watchdog(rank, enqueued, timed_out=None):
    if timed_out is None:
        return (f'[rank{rank}]:[E203 04:05:06.2 ProcessGroupNCCL.cpp:1960] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a '
                f'collective timeout from rank 0 and we will try our best. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {enqueued}.\n')
    return (f'[rank{rank}]:[E203 04:05:06.1 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout: '
            f'WorkNCCL(SeqNum={timed_out}, OpType=ALLGATHER, NumelIn=4096) ran for 600020 milliseconds before timing out.\n'
            f'[rank{rank}]:[E203 04:05:06.2 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work '
            f'sequence id: {timed_out} PG status: last enqueued work: {enqueued}, last completed work: {timed_out - 1}\n')


def test_a_timeout_names_who_had_not_called(profgpu, tmp_path):
    text = log_writer.megatron([500.0] * 12) + watchdog(0, 55, 52) + watchdog(1, 51) + watchdog(2, 53, 52)
    report = analyzed(profgpu, written(tmp_path, text))
    end = report['logs'][0]['end']
    assert end['behind'] == [1] and end['collective'] == 'collective 52 (ALLGATHER of 4,096 elements) of group default_pg'
    finding, = (f for f in report['findings'] if f['rule'] == 'run-failure')
    assert '(line 13)' in report['verdict'] and 'a collective timed out; rank 1 had not called it' in report['verdict']
    assert finding['ranks'] == [1] and finding['why'].startswith('Rank 1 had not called collective 52')
    # All have called it, however far each ran ahead; or none says how far it got.
    for equal in (watchdog(0, 55, 52) + watchdog(1, 52, 52), TIMEOUT):
        finding, = (f for f in analyzed(profgpu, written(tmp_path, log_writer.megatron([500.0] * 12) + equal))['findings'] if f['rule'] == 'run-failure')
        assert finding['ranks'] == [] and 'the log does not say' in finding['why']


def of_group(label, group, own_number, rank, text):
    return f'{label}[E203 04:05:06.2 ProcessGroupNCCL.cpp:2168] [PG ID {own_number} PG GUID {group} Rank {rank}] {text}\n'


FAILED = ' failure detected by watchdog at work sequence id: 45 PG status: last enqueued work: 46, last completed work: 44'
DUMPED = ('Received a dump signal due to a collective timeout from  rank 12 and we will try our best. '
          'Last enqueued NCCL work: 44, last completed NCCL work: 44.')
TIMED_OUT = ('{}[E203 04:05:06.1 ProcessGroupNCCL.cpp:629] [Rank {}] Watchdog caught collective operation timeout: '
             'WorkNCCL(SeqNum={}, OpType={}, NumelIn={}) ran for 600020 milliseconds before timing out.\n')


@pytest.mark.parametrize('labels', [True, False])
def test_a_group_has_another_number_in_each_process(profgpu, tmp_path, labels):
    """Rank 13, the second of its group, had not called. Without labels the log does not say which rank of the job that is."""
    mark = '[rank{}]:' if labels else ''
    text = (TIMED_OUT.format(mark.format(12), 0, 45, '_ALLGATHER_BASE', 4096) + of_group(mark.format(12), '15(TENSOR)', 1, 0, FAILED) +
            of_group(mark.format(13), '15(TENSOR)', 3, 1, DUMPED))
    report = analyzed(profgpu, written(tmp_path, log_writer.megatron([500.0] * 12) + text))
    end = report['logs'][0]['end']
    finding, = (f for f in report['findings'] if f['rule'] == 'run-failure')
    assert (end['behind'], end['behind_in'], finding['ranks']) == (([13], None, [13]) if labels else ([1], 'TENSOR', []))
    assert ('rank 13 had not called it' if labels else 'rank 1 of TENSOR had not called it') in report['verdict']


@pytest.mark.parametrize('odd, says', [(('BROADCAST', 1), 'rank 2 called BROADCAST of 1 element'),
                                       (('ALLREDUCE', 16), 'rank 2 called ALLREDUCE of 16 elements'), (('ALLREDUCE', 4096), None)])
def test_ranks_that_time_out_in_different_collectives(profgpu, tmp_path, odd, says):
    text = ''
    for rank in range(4):
        op = odd if rank == 2 else ('ALLREDUCE', 4096)
        text += TIMED_OUT.format(f'[rank{rank}]:', rank, 45, *op) + of_group(f'[rank{rank}]:', '0(default_pg)', 0, rank, FAILED)
    report = analyzed(profgpu, written(tmp_path, log_writer.megatron([500.0] * 12) + text))
    end = report['logs'][0]['end']
    finding, = (f for f in report['findings'] if f['rule'] == 'run-failure')
    assert end['mismatched'] == finding['ranks'] == ([2] if says else [])
    assert (end['mismatch'] or '').count('called') == (2 if says else 0)
    if says:
        assert says in report['verdict'] and 'ranks 0–1, 3 called ALLREDUCE of 4,096 elements' in report['verdict']
        assert 'the same collectives' in finding['fix'][0]


def test_calls_of_two_groups_are_not_compared(profgpu, tmp_path):
    """Each rank waits under one number in two groups, and says of only one of these calls which group's it is."""
    text = ''
    for rank in range(4):
        label = f'[rank{rank}]:'
        text += TIMED_OUT.format(label, rank, 45, 'BROADCAST' if rank == 2 else 'ALLREDUCE', 4096)
        text += of_group(label, '0(default_pg)', 0, rank, FAILED) + of_group(label, '1(other)', 1, rank, FAILED)
    end = analyzed(profgpu, written(tmp_path, log_writer.megatron([500.0] * 12) + text))['logs'][0]['end']
    assert end['mismatch'] is None and end['mismatched'] == []


def setup_line(rank, what, ranks=16):
    return (f'node1:{1000 + rank}:9 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank {rank} nranks {ranks} cudaDev 0 nvmlDev 0 busId 1000 '
            f'commId 0x6b8c - Init {what}\n')


def test_a_communicator_that_is_never_set_up(profgpu, tmp_path):
    begun = ''.join(setup_line(rank, 'START') for rank in range(16) if rank != 11)
    report = analyzed(profgpu, written(tmp_path, begun))
    finding, = report['findings']
    assert report['verdict_kind'] == 'hang' and finding['rule'] == 'nccl-warnings'
    said = '15 of 16 ranks began to set up communicator 0x6b8c, and none completed it; the log has no such line of rank 11'
    assert said in report['verdict'] and finding['what'] == said
    # A rank that has it set up, and a log of one rank, tell of no hang.
    for text in (begun + setup_line(3, 'COMPLETE'), setup_line(0, 'START')):
        assert analyzed(profgpu, written(tmp_path, text))['findings'] == []


def test_ranks_that_ncclras_finds_behind(profgpu, tmp_path):
    text = ('NCCL version 2.24.3 compiled with CUDA 12.8\n\nWarnings\n========\n\n#0-0 (27a079b828ff1a75) MISMATCH\n'
            '  Communicator ranks have different collective operation counts\n  31 ranks have launched up to operation 6650\n'
            '  1 rank has launched up to operation 6649\n  Rank 13 -- GPU 5 managed by process 3487984 on node 172.16.64.213\n')
    finding, = analyzed(profgpu, written(tmp_path, text))['findings']
    assert finding['evidence'] == ['line 10: 1 rank has launched up to operation 6649: '
                                   'Rank 13 -- GPU 5 managed by process 3487984 on node 172.16.64.213']


@pytest.mark.parametrize('line, what, fix', [
    ('[12.5] NVRM: Xid (PCI:0000:10:00): 79, pid=1, GPU has fallen off the bus.', 'Xid 79', 'power cycle'),
    ('RuntimeError: CUDA error: uncorrectable ECC error encountered', 'uncorrectable error', 'drain the node'),
    ('RuntimeError: CUDA error: an illegal memory access was encountered', 'a device reported an error', 'CUDA_LAUNCH_BLOCKING'),
    ('srun: error: c3-12: task 21: Segmentation fault', 'a process crashed', 'core dump'),
    ('c3-12:7:9 [4] NCCL WARN NET/IB : Got completion from peer 10.1.2.3<5486> with status=12 opcode=0 len=0 vendor err 129',
     'the other end of a network connection did not answer', 'cables'),
    ('c3-12:7:9 [4] NCCL WARN socketProgress: Connection closed by remote peer c3-13<46522>', 'another process closed', 'the other end')])
def test_what_to_do_follows_from_the_line(profgpu, tmp_path, line, what, fix):
    report = analyzed(profgpu, written(tmp_path, log_writer.megatron([500.0] * 12) + line + '\n'))
    finding, = (f for f in report['findings'] if f['rule'] == 'run-failure')
    assert what in finding['what'] and fix in finding['fix'][0]


def test_steps_without_times_stand_before_an_end(profgpu, tmp_path):
    text = ''.join(f'Step {i} | loss:{3 - i / 10} lr:2e-05 tokens_per_second_per_gpu:{500 + i}.5\n' for i in range(1, 6))
    text += 'Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n'
    report = analyzed(profgpu, written(tmp_path, text))
    assert report['logs'][0]['end']['after_step'] == 5 and report['verdict'].startswith('The run ended after step 5: a device ran out of memory')
    alone = analyzed(profgpu, written(tmp_path, 'RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.\n'))
    assert alone['verdict'].startswith('The run ended: a device ran out of memory')


def test_a_server_without_memory(profgpu, tmp_path):
    text = vllm([(8, 0, 40)] * 3) + 'Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n'
    report = analyzed(profgpu, written(tmp_path, text))
    assert report['verdict'].startswith('The server ended: a device ran out of memory')
    assert '--gpu-memory-utilization' in report['findings'][0]['fix'][0]


def wait_for(condition):
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError('it does not come')


@pytest.mark.parametrize('ends', ['by itself', 'by Ctrl-C'])
def test_a_growing_log_is_followed(profgpu, tmp_path, ends):
    lines = log_writer.megatron([500.0] * 20).splitlines(True)
    path = written(tmp_path, ''.join(lines[:5]))
    master, screen = pty.openpty()
    program = os.environ.get('PROFGPU') or os.path.join(ROOT, 'build', 'release', 'profgpu')
    run = subprocess.Popen([program, 'analyze', path, '--follow', '--json'], stdout=subprocess.PIPE, stderr=screen, stdin=subprocess.DEVNULL)
    os.close(screen)
    shown = b''

    def sees(words):
        nonlocal shown
        while select.select([master], [], [], 0)[0]:
            shown += os.read(master, 65536)
        return words in shown
    wait_for(lambda: sees(b'step 50'))
    with open(path, 'a') as f:
        f.writelines(lines[5:])
        f.flush()
        wait_for(lambda: sees(b'step 200'))
        if ends == 'by itself':
            f.write('[exiting program at iteration 200] datetime: 2024-05-01 12:03:00\n')
        else:
            run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 0 and len(json.loads(out)['ranks'][0]['steps']) == 20
    os.close(master)


def test_following_what_is_no_file(profgpu, tmp_path):
    assert profgpu('analyze', '--follow', tmp_path / 'none.log').returncode == 1
    assert profgpu('analyze', '--follow', tmp_path).returncode == 1
    assert profgpu('analyze', '--follow', '-').returncode == 2
