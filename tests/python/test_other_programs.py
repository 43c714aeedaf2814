"""Files of other tools, of programs that are not PyTorch: MPI with GPUs, tf.data, TPUs, unified memory, samples by
identity; what is judged of them, and what is advised."""
import json
import sqlite3

import pytest

import xla_writer
from nsight_export import MAIN, Export, pid_of, step_loop, tid_of

STEP = 10_000_000
EPOCH = 1_760_000_000_000_000_000
IDLE_UUID, BUSY_UUID = 'GPU-aaaaaaaa-0000-4000-8000-000000000000', 'GPU-bbbbbbbb-0000-4000-8000-000000000003'


def issues_of(report):
    return ' | '.join(i['text'] for f in report['inputs'] for i in f['issues'])


def finding(report, rule):
    return next((f for f in report['findings'] if f['rule'] == rule), None)


def advice_of(report):
    return ' '.join(x for f in report['findings'] for x in f['fix'])


def loop(e, steps=10, kernel_ms=3, name='void lbm_collide<3>(float*)', mark='step {}', wait=None, start=1_000_000_000):
    """A kernel in each step; `wait(export, from, to)` fills the time from its end to the next launch."""
    for i in range(steps):
        t = start + i * STEP
        e.launch(name, t + 10_000, t + 30_000, t + 30_000 + kernel_ms * 1_000_000)
        e.call('cudaStreamSynchronize_v3020', t + 20_000, t + 40_000 + kernel_ms * 1_000_000)
        if mark:
            e.range(mark.format(i), t, t + STEP - 1000)
        if wait:
            wait(e, t + 100_000 + kernel_ms * 1_000_000, t + STEP - 10_000)


def mpi_table(e, calls):
    e.table('MPI_COLLECTIVES_EVENTS', 'start int, end int, globalTid int, textId int, size int',
            [(a, b, tid_of(1), e.text('MPI_Allreduce'), 1 << 20) for a, b in calls])


def mpi_rank(path, kernel_ms, rank):
    e, calls = Export(path), []
    loop(e, kernel_ms=kernel_ms, wait=lambda _, a, b: calls.append((a, b)))
    mpi_table(e, calls)
    e.table('MPI_RANKS', 'globalTid int, rank int', [(tid_of(1), rank)])
    e.table('TARGET_INFO_SESSION_START_TIME', 'utcEpochNs int', [(EPOCH,)])
    return e.done()


def gpu_of(e, index, uuid, number=0):
    e.table('TARGET_INFO_GPU', 'id int, name text, uuid text, cuDevice int', [(index, 'NVIDIA H100', uuid, index)])
    e.table('TARGET_INFO_CUDA_DEVICE', 'gpuId int, cudaId int, pid int', [(index, number, MAIN)])
    e.table('TARGET_INFO_SESSION_START_TIME', 'utcEpochNs int', [(EPOCH,)])


def samples(path, by='uuid'):
    names = {0: IDLE_UUID, 3: BUSY_UUID}
    rows = ['time_ns,device,power_w,utilization_pct' + (',uuid' if by == 'uuid' else '')]
    for t in range(0, 3_000_000_000, 10_000_000):
        for index, watts in ((0, 70), (3, 700)):
            rows.append(f'{EPOCH + t},{index},{watts},{100 if index else 0}' + (f',{names[index]}' if by == 'uuid' else ''))
    path.write_text('\n'.join(rows) + '\n')
    return path


@pytest.mark.parametrize('by', ('uuid', 'index'))
def test_samples_are_of_the_device_with_the_processs_identity(analyze, tmp_path, by):
    e = Export(tmp_path / 'r.sqlite')
    gpu_of(e, 3, BUSY_UUID)
    loop(e)
    report = analyze(e.done(), '--samples', str(samples(tmp_path / 's.csv', by)))
    energy = report['ranks'][0]['energy']
    per_step = energy['total']['energy_per_step_j']
    assert per_step == pytest.approx(7.0, rel=0.05), 'GPU 3 of the host draws 700 W, and a step takes 10 ms'


def test_two_processes_with_a_gpu_0_of_their_own(analyze, tmp_path):
    for r, uuid in enumerate((IDLE_UUID, BUSY_UUID)):
        e = Export(tmp_path / f'rank{r}.sqlite')
        gpu_of(e, 3 * r, uuid)
        loop(e)
        e.done()
    report = analyze(str(tmp_path), '--samples', str(samples(tmp_path / 's.csv')))
    assert "can't be assigned" not in json.dumps(report)


@pytest.mark.parametrize('column', ('utilization.gpu [%]', None))
def test_samples_without_utilization_are_not_of_an_unused_device(analyze, profgpu, tmp_path, column):
    head = 'timestamp, index, memory.used [MiB]' + (f', {column}' if column else '')
    lines = [f'2026/11/20 10:00:0{s}.123, 0, 40000 MiB' + (', [N/A]' if column else '') for s in range(8)]
    path = tmp_path / 'q.csv'
    path.write_text('\n'.join([head, *lines]) + '\n')
    text = profgpu('analyze', path, text=True).stdout
    assert 'do not tell how busy' in text and 'No device was used' not in text
    assert 'memory' in text and '39.1 GiB' in text


def test_a_table_of_processes_is_no_table_of_devices(profgpu, tmp_path):
    path = tmp_path / 'pmon.txt'
    path.write_text('#Date       Time        gpu         pid   type     sm    mem    command\n'
                    '#YYYYMMDD   HH:MM:SS    Idx           #    C/G      %      %    name\n'
                    ' 20261120   10:00:00      0        4711     C     60     12    python\n'
                    ' 20261120   10:00:00      0        4712     C     30     12    python\n')
    result = profgpu('analyze', path, text=True)
    assert result.returncode != 0 and 'nvidia-smi pmon' in result.stderr and 'dmon' in result.stderr


def test_a_gpu_program_that_sits_in_mpi(analyze, tmp_path):
    report = analyze(mpi_rank(tmp_path / 'r.sqlite', 3, 0))
    assert report['findings'][0]['rule'] == 'mpi-wait', report['verdict']
    assert 'MPI_Allreduce' in report['verdict'] and '.item()' not in advice_of(report)
    function = report['ranks'][0]['mpi']['functions'][0]
    assert function['bytes'] == 10 << 20 and function['where'] is None, 'steps are no places'


def test_the_late_rank_of_a_gpu_program_with_mpi(analyze, tmp_path):
    for r, ms in enumerate((3, 9)):
        mpi_rank(tmp_path / f'rank{r}.sqlite', ms, r)
    report = analyze(str(tmp_path))
    assert report['findings'][0]['rule'] == 'mpi-imbalance' and 'Rank 1' in report['verdict'], report['verdict']
    assert finding(report, 'mpi-wait') is None, 'the late rank hardly waits'


def test_ranks_that_all_wait_in_mpi_exchange_too_much(analyze, tmp_path):
    for r in range(2):
        mpi_rank(tmp_path / f'rank{r}.sqlite', 3, r)
    report = analyze(str(tmp_path))
    assert finding(report, 'mpi-wait') and finding(report, 'mpi-imbalance') is None


@pytest.mark.parametrize('call, rule, words', (('read', 'data-loading-bound', 'data'),
                                               ('pthread_cond_timedwait', None, 'another thread'),
                                               ('poll', None, 'another process')))
def test_system_calls_are_where_the_host_waits(analyze, tmp_path, call, rule, words):
    e = Export(tmp_path / 'r.sqlite')
    loop(e, wait=lambda e, a, b: e.system(call, a, b))
    report = analyze(e.done())
    first = report['findings'][0]
    assert rule in (None, first['rule'])
    assert words in first['what'] + report['verdict'] + ' '.join(first['fix'])
    assert call in report['verdict'] + json.dumps(first['where'])
    assert '.item()' not in advice_of(report) and 'DataLoader' not in advice_of(report)


def test_advice_for_a_program_without_a_framework(analyze, profgpu, tmp_path):
    e = Export(tmp_path / 'r.sqlite')
    e.table('META_DATA_CAPTURE', 'name text, value text', [('PROCESS_0:COMMAND', './lbm3d'), ('PROCESS_0:ARGUMENT_0', '--token=hf_abcdefghijklmnopqrstuvwxyz012345')])
    t = 1_000_000_000
    for i in range(2000):
        e.launch('void lbm_collide<3>(float*)', t + i * 20_000, t + 1000 + i * 20_000, t + 9_000 + i * 20_000)
    path = e.done()
    report = analyze(path)
    assert report['findings'], report['verdict']
    advice = advice_of(report)
    for word in ('torch', 'DataLoader', '.item()', 'ython'):
        assert word not in advice
    assert 'cudaGraphLaunch' in advice
    command = profgpu('ncu-command', path, text=True).stdout
    assert './lbm3d' in command and 'hf_abcdef' not in command and 'python' not in command


@pytest.mark.parametrize('mark', ('step {}', 'Batch {}: train', 'infer {}'))
def test_the_usual_names_of_steps(analyze, tmp_path, mark):
    e = Export(tmp_path / 'r.sqlite')
    loop(e, mark=mark)
    steps = analyze(e.done())['ranks'][0]['steps']
    assert [s['index'] for s in steps] == list(range(10))


def test_steps_in_a_domain(analyze, tmp_path):
    e = Export(tmp_path / 'r.sqlite')
    e.row('NVTX_EVENTS', start=1, eventType=75, text='training', globalTid=tid_of(1), domainId=1)
    loop(e, mark=None)
    for i in range(10):
        e.range(f'step {i}', 1_000_000_000 + i * STEP, 1_000_000_000 + (i + 1) * STEP - 1000, domain=1)
    steps = analyze(e.done())['ranks'][0]['steps']
    assert [s['index'] for s in steps] == list(range(10))


def test_the_batches_of_lightning(analyze, tmp_path):
    e = Export(tmp_path / 'r.sqlite')
    loop(e, mark='[pl][profile]run_training_batch')
    for i in range(10):
        t = 1_000_000_000 + i * STEP
        e.range('[pl][profile][LightningModule]Net.optimizer_step', t + 4_000_000, t + 8_000_000)
    rank = analyze(e.done())['ranks'][0]
    assert len(rank['steps']) == 10
    assert {p['name']: p['wall_ns'] for p in rank['phases']}['optimizer'] == 40_000_000


def test_migrations_of_unified_memory(analyze, tmp_path):
    e = Export(tmp_path / 'r.sqlite')
    loop(e, kernel_ms=8)
    for i in range(10):
        t = 1_000_000_000 + i * STEP
        for k in range(10):
            e.row('CUPTI_ACTIVITY_KIND_MEMCPY', start=t + 100_000 + k * 700_000, end=t + 600_000 + k * 700_000, deviceId=0, contextId=1,
                  streamId=8, correlationId=0, globalPid=pid_of(MAIN), bytes=1 << 16, copyKind=11)
    report = analyze(e.done())
    found = finding(report, 'unified-memory')
    assert found and 'cudaMemPrefetchAsync' in ' '.join(found['fix'])
    assert 'without a launching call' not in issues_of(report), 'the driver launches them itself'


RENAMED = (('CUPTI_ACTIVITY_KIND_RUNTIME', 'globalTid'), ('CUPTI_ACTIVITY_KIND_RUNTIME', 'nameId'), ('NVTX_EVENTS', 'globalTid'),
           ('NVTX_EVENTS', 'start'), ('CUPTI_ACTIVITY_KIND_KERNEL', 'streamId'), ('CUPTI_ACTIVITY_KIND_MEMCPY', 'copyKind'),
           ('CUPTI_ACTIVITY_KIND_SYNCHRONIZATION', 'start'), ('OSRT_API', 'nameId'))


@pytest.mark.parametrize('table, column', RENAMED)
def test_any_column_with_another_name_is_named(analyze, tmp_path, table, column):
    e = Export(tmp_path / 'r.sqlite')
    step_loop(e)
    e.row('CUPTI_ACTIVITY_KIND_SYNCHRONIZATION', start=1, end=2, deviceId=0, contextId=1, streamId=7, correlationId=1,
          globalPid=pid_of(MAIN), syncType=3)
    path = e.done()
    db = sqlite3.connect(path)
    db.execute(f'ALTER TABLE {table} RENAME COLUMN "{column}" TO "{column}New"')
    db.commit(), db.close()
    said = issues_of(analyze(path))
    assert f'table {table} has no column {column}' in said and '% of the file' in said
    assert 'dropped' not in said, 'no kernel is missing'


def test_texts_beside_numbers_that_are_0(ask_names, tmp_path):
    e = Export(tmp_path / 'r.sqlite')
    e.db.execute("INSERT INTO StringIds VALUES (0, '[Unknown]')")
    loop(e, mark=None)
    for i in range(10):
        e.range(f'step {i}', 1_000_000_000 + i * STEP, 1_000_000_000 + (i + 1) * STEP - 1000, textId=0)
    assert ask_names(e.done()) == {f'step {i}' for i in range(10)}


@pytest.fixture
def ask_names(profgpu):
    def run(path):
        rows = json.loads(profgpu('query', path, "select distinct name from host where kind = 'annotation'", '--json', '--quiet', text=True).stdout)
        return {r['name'] for r in rows}
    return run


def test_an_export_to_sqlite_reads_as_the_file_that_it_was_made_of(analyze, profgpu, tmp_path):
    e, calls = Export(tmp_path / 'r.sqlite'), []
    e.table('TARGET_INFO_SYSTEM_ENV', 'name text, value text', [('Hostname', 'node7')])
    gpu_of(e, 3, BUSY_UUID)
    loop(e, wait=lambda e, a, b: (calls.append((a, a + 2_000_000)), e.system('poll', a + 2_000_000, b)))
    mpi_table(e, calls)
    e.range('aten::mm, seq = 3, sizes = [[2, 3]]', 1_000_000_000, 1_000_050_000)
    e.row('CUPTI_ACTIVITY_KIND_MEMCPY', start=1_000_100_000, end=1_000_200_000, deviceId=0, contextId=1, streamId=8,
          correlationId=0, globalPid=pid_of(MAIN), bytes=1 << 16, copyKind=11)
    path, again = e.done(), tmp_path / 'again.sqlite'
    assert profgpu('export', path, '--to', 'sqlite', '-o', again).returncode == 0

    def told(path):
        out = {}
        for table in ('host', 'activity'):
            rows = json.loads(profgpu('query', path, f'select kind, name, count(*) n, sum(duration_ns) t from {table} group by 1, 2 order by 1, 2',
                                      '--json', '--quiet', text=True).stdout)
            out[table] = [(r['kind'], r['name'], r['n'], r['t']) for r in rows]
        return out

    assert told(path) == told(again)
    before, after = analyze(path), analyze(str(again))
    assert [f['rule'] for f in before['findings']] == [f['rule'] for f in after['findings']]
    assert before['ranks'][0]['host'] == after['ranks'][0]['host'] == 'node7' if 'host' in before['ranks'][0] else True


TPU_OPS = ('/device:TPU:0', 2, 'XLA Ops')


def tpu(operations, steps=6):
    rows, t = [], 1_000_000_000_000
    for step in range(steps):
        rows.append((('/device:TPU:0', 3, 'Steps'), str(step), t, 9_900_000_000, {}))
        at = t
        for name, ms, category in operations:
            rows.append((TPU_OPS, name, at, int(ms * 1e9), {'hlo_category': category}))
            at += int(ms * 1e9)
        t += 10_000_000_000
    return rows


def xplane_of(tmp_path, rows):
    path = tmp_path / 't.xplane.pb'
    path.write_bytes(xla_writer.xplane(rows, plane_stats=False))
    return str(path)


def test_a_tpu_that_waits_in_infeed(analyze, tmp_path):
    report = analyze(xplane_of(tmp_path, tpu((('fusion.1', 3, 'convolution fusion'), ('infeed.1', 6, 'infeed')))))
    assert report['findings'][0]['rule'] == 'data-loading-bound', report['verdict']
    device, = report['ranks'][0]['devices']
    assert device['busy_ns'] == 6 * 3_000_000
    assert 'DataLoader' not in advice_of(report)


def test_categories_of_a_tpu(profgpu, analyze, tmp_path):
    path = xplane_of(tmp_path, tpu((('fusion.1', 3, 'convolution fusion'), ('fusion.2', 2, 'data formatting'),
                                    ('copy-start.1', 1, 'copy-start'), ('outfeed.1', 1, 'outfeed'))))
    rank, = analyze(path)['ranks']
    assert rank['devices'][0]['memory_ns'] == 6 * 4_000_000
    kernels = {k['name']: k['category'] for k in rank['kernels'] if k['category'] != 'copy'}
    assert kernels == {'convolution: fusion.1': 'gemm'}


@pytest.mark.parametrize('name', ('Iterator::Model::Prefetch', 'IteratorGetNextOp::DoCompute'))
def test_waits_for_tf_data_are_waits_for_data(analyze, tmp_path, name):
    host, stream = ('/host:CPU', 77, 'python'), ('/device:GPU:0', 7, 'Stream #7(Kernel)')
    rows, t = [], 1_000_000_000_000
    for step in range(8):
        rows.append((host, 'train', t, 19_900_000_000, {'step_num': step}))
        rows.append((host, name, t + 1_000_000, 9_000_000_000, {}))
        rows.append((host, 'cuLaunchKernel', t + 9_100_000_000, 5_000_000, {'correlation_id': step + 1}))
        rows.append((stream, 'loop_fusion', t + 9_200_000_000, 10_000_000_000, {'correlation_id': step + 1}))
        t += 20_000_000_000
    report = analyze(xplane_of(tmp_path, rows))
    assert report['findings'][0]['rule'] == 'data-loading-bound', report['verdict']


def chrome(tmp_path, events, **fields):
    path = tmp_path / 't.json'
    path.write_text(json.dumps({**fields, 'traceEvents': events}) if fields else json.dumps(events))
    return str(path)


def test_a_chrome_trace_of_another_tool_is_called_that(analyze, profgpu, tmp_path):
    events = []
    for i in range(10):
        t = 1000 + i * 1000
        events += [{'cat': 'Session', 'pid': 9, 'tid': 9, 'dur': 950, 'ts': t, 'ph': 'X', 'name': 'model_run', 'args': {}},
                   {'cat': 'Node', 'pid': 9, 'tid': 9, 'dur': 800, 'ts': t + 10, 'ph': 'X', 'name': 'MatMul_kernel_time', 'args': {}},
                   {'cat': 'Kernel', 'pid': 9, 'tid': 9, 'dur': 80, 'ts': t + 20, 'ph': 'X', 'name': 'ampere_sgemm', 'args': {}}]
    path = chrome(tmp_path, events)
    text = profgpu('analyze', path, text=True).stdout
    assert 'PyTorch trace' not in text and 'ProfilerActivity' not in text and 'Node' in text and 'Session' in text
    assert 'Node' in issues_of(analyze(path))


def test_rows_that_are_not_known_may_be_gpu_activity(profgpu, tmp_path):
    events = [{'ph': 'X', 'name': 'aten::mm', 'pid': 1, 'tid': 1, 'ts': 100 + i * 100, 'dur': 80, 'cat': 'cpu_op'} for i in range(10)]
    events += [{'ph': 'X', 'name': 'MatMulV2', 'pid': 3, 'tid': 2, 'ts': 110 + i * 100, 'dur': 90} for i in range(10)]
    text = ' '.join(profgpu('analyze', chrome(tmp_path, events), text=True).stdout.split())
    assert 'GPU activity may be among them' in text and 'This trace has no GPU activity' not in text


def test_operations_of_habana_are_kernels(analyze, tmp_path):
    events = []
    for i in range(10):
        t = 1000 + i * 1000
        events += [{'ph': 'X', 'cat': 'hpu_runtime', 'name': 'runtimeLaunch', 'pid': 1, 'tid': 1, 'ts': t, 'dur': 50, 'args': {'correlation': i + 1}},
                   {'ph': 'X', 'cat': 'hpu_op', 'name': 'gemm_kernel', 'pid': 0, 'tid': 7, 'ts': t + 100, 'dur': 800,
                    'args': {'correlation': i + 1, 'device': 0, 'stream': 7}}]
    report = analyze(chrome(tmp_path, events, schemaVersion=1))
    assert report['ranks'][0]['devices'][0]['busy_ns'] == 8_000_000


def test_files_that_are_not_read_say_what_to_give(profgpu, tmp_path):
    def hint(name, text):
        path = tmp_path / name
        path.write_text(text)
        result = profgpu('analyze', path, text=True)
        assert result.returncode != 0
        return result.stderr
    assert 'ncu --import' in hint('x.ncu-rep', 'NVR')
    assert '--format speedscope' in hint('raw.txt', 'main (a.py:1);train (a.py:2) 120\nmain (a.py:1);load (a.py:3) 20\n')
    assert 'speedscope' not in hint('x.json', '[{"name": "conv1", "timeMs": 1.2}]')


def test_rocprofs_folders_are_hosts(analyze, tmp_path):
    folder = tmp_path / 'out' / 'node01'
    folder.mkdir(parents=True)
    for pid in (5000, 5001):
        rows = ['"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"']
        rows += [f'"KERNEL_DISPATCH","Agent {pid - 4999}",1,{pid},{i},1,"Cijk_Ailk",{i},{10**9 + i * 10**6},{10**9 + i * 10**6 + 800_000}' for i in range(20)]
        (folder / f'{pid}_kernel_trace.csv').write_text('\n'.join(rows) + '\n')
    report = analyze(str(tmp_path / 'out'))
    assert 'aligned only' not in json.dumps(report)
    assert 'node01' in json.dumps(report)
