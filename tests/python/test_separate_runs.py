"""A folder of files that do not say which ranks they are: ranks of one job, or runs that have nothing to do with each other."""
import datetime
import json

import pytest


def keras(steps=4):
    return ''.join(f'Epoch {e}/{steps}\n1563/1563 [==============================] - 59s 38ms/step - loss: {2 - e / 10}\n' for e in range(1, steps + 1))


def nano(first=0, steps=6):
    return ''.join(f'iter {i}: loss {4 - i / 1000:.4f}, time {500 + i % 7:.2f}ms, mfu 30.00%\n' for i in range(first, first + steps))


def titan(begin, first=1, steps=6):
    """torchtitan's lines, ten seconds apart."""
    start = datetime.datetime.fromisoformat(begin)
    return ''.join(f'[titan] {start + datetime.timedelta(seconds=10 * i)},000 - root - INFO - step: {first + i:2}  loss: 5.1234  memory: 10.00GiB(12.50%)  '
                   f'tps: 1,000  tflops: 100.00  mfu: 10.00%\n' for i in range(steps))


def folder(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return str(tmp_path)


def separate(profgpu, path, *words):
    run = profgpu('analyze', path, text=True)
    assert run.returncode == 1 and 'of separate runs' in run.stderr, run.stdout + run.stderr
    assert 'profgpu diff' in run.stderr
    for word in words:
        assert word in run.stderr, run.stderr


def one_job(profgpu, path, ranks):
    run = profgpu('analyze', path, '--json')
    assert run.returncode == 0, run.stderr
    assert len(json.loads(run.stdout)['ranks']) == ranks


def test_logs_of_different_programs(profgpu, tmp_path):
    separate(profgpu, folder(tmp_path, {'a.log': keras(), 'b.log': nano()}), 'keras', 'a.log', 'b.log')


def test_the_same_named_by_ranks_is_believed(profgpu, tmp_path):
    one_job(profgpu, folder(tmp_path, {'rank0.log': keras(), 'rank1.log': nano()}), 2)


@pytest.mark.parametrize('names', [('node0.log', 'node1.log'), ('left.log', 'right.log')])
def test_logs_of_one_job(profgpu, tmp_path, names):
    one_job(profgpu, folder(tmp_path, dict(zip(names, (nano(), nano())))), 2)


def test_logs_of_different_days(profgpu, tmp_path):
    separate(profgpu, folder(tmp_path, {'run-1.log': titan('2025-05-01 12:00:00'), 'run-2.log': titan('2025-05-03 12:00:00')}))


def test_a_log_that_goes_on_where_another_ended(profgpu, tmp_path):
    one_job(profgpu, folder(tmp_path, {'run-1.log': titan('2025-05-01 12:00:00'), 'run-2.log': titan('2025-05-01 13:00:00', first=7)}), 1)


def test_a_log_of_much_later_steps(profgpu, tmp_path):
    separate(profgpu, folder(tmp_path, {'run-1.log': titan('2025-05-01 12:00:00'), 'run-2.log': titan('2025-05-01 13:00:00', first=40)}))


def test_clocks_of_hosts_in_other_time_zones(profgpu, tmp_path):
    one_job(profgpu, folder(tmp_path, {'node0.log': titan('2025-05-01 12:00:00'), 'node1.log': titan('2025-05-01 19:00:00')}), 2)


def test_logs_of_the_same_time(profgpu, tmp_path):
    one_job(profgpu, folder(tmp_path, {'left.log': titan('2025-05-01 12:00:00'), 'right.log': titan('2025-05-01 12:00:05')}), 2)


def trace(base_s, device='NVIDIA H100 80GB HBM3', pid=7, **more):
    events = [{'ph': 'X', 'cat': 'user_annotation', 'name': f'ProfilerStep#{i}', 'pid': pid, 'tid': 1, 'ts': 1000 * i, 'dur': 1000} for i in range(4)]
    events += [{'ph': 'X', 'cat': 'kernel', 'name': 'k', 'pid': 0, 'tid': 7, 'ts': 1000 * i + 100, 'dur': 500, 'args': {'device': 0, 'stream': 7}} for i in range(4)]
    return json.dumps({'schemaVersion': 1, 'baseTimeNanoseconds': int(base_s * 1e9), 'deviceProperties': [{'id': 0, 'name': device}], 'traceEvents': events, **more})


def test_traces_of_different_times(profgpu, tmp_path):
    separate(profgpu, folder(tmp_path, {'before.json': trace(1.7e9), 'after.json': trace(1.7e9 + 600, pid=9)}))


def test_traces_of_different_devices(profgpu, tmp_path):
    separate(profgpu, folder(tmp_path, {'a.json': trace(1.7e9), 'b.json': trace(1.7e9, 'AMD Instinct MI300X', pid=9)}), 'H100', 'MI300X')


def test_traces_of_one_time(profgpu, tmp_path):
    one_job(profgpu, folder(tmp_path, {'a.json': trace(1.7e9), 'b.json': trace(1.7e9 + 2, pid=9)}), 2)


def test_diff_of_two_runs_is_as_before(profgpu, tmp_path):
    path = folder(tmp_path, {'a.log': keras(), 'b.log': nano()})
    assert profgpu('diff', path + '/a.log', path + '/b.log').returncode == 0
