"""Exports of Nsight Systems: `nsys stats` and profgpu say the same of a file to the nanosecond, whichever version wrote
it; ranks, graphs, ranges, metrics; and files that are cut, odd or hostile."""
import collections
import glob
import json
import os
import shutil
import sqlite3
import stat
import struct
import subprocess

import pytest

from conftest import ROOT
from nsight_export import MAIN, VERSIONS, Export, nsys_stats, pid_of, step_loop, summed, tid_of

SHARED = sorted(glob.glob(os.path.join(ROOT, '..', 'shared', 'nsight', '*.sqlite')))


@pytest.fixture(scope='session')
def ask(profgpu):
    """ask(path, sql) -> rows as dictionaries."""

    def run(*words):
        result = profgpu('query', *map(str, words), '--json', '--quiet', text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def issues_of(report):
    return {i['kind']: i['text'] for f in report['inputs'] for i in f['issues']}


def all_issues(report):
    return ' | '.join(i['text'] for f in report['inputs'] for i in f['issues'])


def ours(ask, path):
    """What nsys_stats() gives, from profgpu's own tables."""
    def of(rows):
        return {r['name']: (r['n'], r['t'], r['a'], r['b']) for r in rows}

    def durations(table, where):
        return of(ask(path, f'select name, count(*) n, sum(duration_ns) t, min(duration_ns) a, max(duration_ns) b '
                            f'from {table} where {where} group by 1'))

    memory = ask(path, "select case when kind = 'memset' then 'memset' when name like '%Unified memory%' then substr(name, 8, 13) "
                       "else substr(name, 8, 4) end as name, duration_ns, bytes from activity where kind <> 'kernel'")
    return {
        'cuda_gpu_kern_sum': durations('activity', "kind = 'kernel' and name not like 'CUDA graph %'"),
        'cuda_gpu_mem_time_sum': summed((m['name'], m['duration_ns']) for m in memory),
        'cuda_gpu_mem_size_sum': summed((m['name'], m['bytes']) for m in memory),
        'cuda_api_sum': durations('host', "kind in ('runtime', 'driver')"),
        'osrt_sum': durations('host', "kind = 'system' and name not like 'dlopen(%' and name <> 'dlclose'"),
        'nvtx_sum': durations('host', "kind in ('annotation', 'op') and (duration_ns > 0 or name not like 'mark %')"),
    }


@pytest.mark.parametrize('path', SHARED, ids=os.path.basename)
def test_real_exports_say_what_nsys_stats_says(ask, path):
    theirs, mine = nsys_stats(path), ours(ask, path)
    if 'nvtx_sum' in theirs:   # marks are no ranges
        db = sqlite3.connect(f'file:{path}?mode=ro&immutable=1', uri=True)
        if db.execute("select 1 from sqlite_master where name = 'NVTX_EVENTS'").fetchone():
            marks = db.execute('select count(*) from NVTX_EVENTS where eventType = 34').fetchone()[0]
            assert sum(r[0] for r in mine['nvtx_sum'].values()) == sum(r[0] for r in theirs['nvtx_sum'].values()) + marks
            for name in theirs['nvtx_sum']:
                n, total, least, most = mine['nvtx_sum'][name]
                assert (total, most) == (theirs['nvtx_sum'][name][1], theirs['nvtx_sum'][name][3]), name
        del theirs['nvtx_sum'], mine['nvtx_sum']
    assert mine == theirs


@pytest.mark.parametrize('path', SHARED, ids=os.path.basename)
def test_real_exports_give_a_report_in_every_form(profgpu, analyze, path, tmp_path):
    report = analyze(path)
    db = sqlite3.connect(f'file:{path}?mode=ro&immutable=1', uri=True)
    tables = {r[0] for r in db.execute("select name from sqlite_master where type = 'table'")}
    kernels = db.execute('select count(*) from CUPTI_ACTIVITY_KIND_KERNEL').fetchone()[0] if 'CUPTI_ACTIVITY_KIND_KERNEL' in tables else 0
    assert sum(k['count'] for r in report['ranks'] for k in r['kernels'] if not k['name'].startswith('Mem')) == kernels
    for rank in report['ranks']:
        for device in rank['devices']:
            assert device['busy_ns'] + device['idle_ns'] == device['span_ns']
    for words in (('--format', 'markdown'), ('--html', tmp_path / 'x.html'), ('--section', 'steps')):
        assert profgpu('analyze', path, *words).returncode == 0
    for form in ('perfetto', 'chrome', 'sqlite', 'csv', 'speedscope', 'folded'):
        assert profgpu('export', path, '--to', form, '-o', tmp_path / form).returncode == 0, form
    assert profgpu('diff', path, path).returncode == 0


@pytest.mark.parametrize('version', VERSIONS)
def test_every_version_of_the_schema(ask, analyze, tmp_path, version):
    e = Export(tmp_path / f'{version}.sqlite', version)
    e.table('TARGET_INFO_SESSION_START_TIME', 'utcEpochNs INTEGER, utcTime TEXT, localTime TEXT', [(1_700_000_000_000_000_000, '', '')])
    e.table('TARGET_INFO_GPU', 'id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, computeMajor INTEGER, computeMinor INTEGER',
            [(0, 'NVIDIA A100', 40 << 30, 108, 8, 0)])
    e.table('ThreadNames', 'nameId INTEGER, priority INTEGER, globalTid INTEGER', [(e.text('trainer'), 0, tid_of(1))])
    step_loop(e)
    path = e.done()
    assert ours(ask, path) == nsys_stats(path)
    report = analyze(path)
    rank = report['ranks'][0]
    assert [s['name'] for s in rank['steps']] == [f'step {i}' for i in range(6)]
    assert all(s['duration_ns'] == 1_210_000 for s in rank['steps'])
    assert rank['devices'][0]['name'] == 'NVIDIA A100'
    assert rank['launch']['launches'] == 6 * 12
    phases = {p['name']: p['wall_ns'] for p in rank['phases']}
    assert sum(phases.values()) == 6 * 1_210_000 and phases['forward'] > 6 * 1_000_000   # with the wait for its kernels
    assert ask(path, 'select base_time_ns from ranks') == [{'base_time_ns': 1_700_000_000_000_000_000}]
    assert ask(path, "select name from threads where thread = '1'") == [{'name': 'trainer'}]
    copy = 'Memcpy HtoD (Unknown -> Unknown)' if version == '2019' else 'Memcpy HtoD (Pageable -> Device)'
    assert {k['name'] for k in rank['kernels']} >= {copy, 'void gemm<0>(float*)'}


def test_ranges_have_domains_categories_payloads_and_pytorchs_operators(ask, tmp_path):
    e = Export(tmp_path / 'x.sqlite', '2026')
    e.range('library', 0, None, kind=75, domain=3)
    e.range('io', 0, None, kind=33, domain=3, category=9)
    e.range('load', 1000, 2000, domain=3, category=9, int64Value=42)
    e.range('trained', 500, None, kind=34)
    e.range('text by number', 2000, 2500, registered=True, kind=60)
    e.range('json', 2500, 2600, jsonText='{"a": [1]}')
    e.range('aten::addmm, seq = 17, op_id = 5, sizes = [[4], [2, 3], [3, 4], [], []], input_op_ids = [(4, 0)]', 3000, 8900)
    e.range('AddmmBackward0, seq = 17, op_id = 9', 5000, 6000, tid=2)
    e.range('my::own range', 9000, 9100)
    e.range('open', 9500, None)
    e.launch('k', 3100, 4100, 4200)
    path = e.done()
    rows = {r['name']: r for r in ask(path, 'select name, kind, start_ns, duration_ns, arguments, shapes, sequence from host')}
    assert json.loads(rows['library: load']['arguments']) == {'payload': 42, 'category': 'io'}
    assert rows['trained']['duration_ns'] == 0
    assert rows['text by number']['duration_ns'] == 500
    assert json.loads(rows['json']['arguments']) == {'payload': {'a': [1]}}
    op = rows['aten::addmm']
    assert (op['kind'], op['shapes'], op['sequence']) == ('op', '[[4], [2, 3], [3, 4], [], []]', 17)
    assert json.loads(op['arguments']) == {'op_id': 5}
    assert rows['AddmmBackward0']['kind'] == 'op' and rows['my::own range']['kind'] == 'annotation'
    assert rows['open']['duration_ns'] == 0   # it began with the last NVTX event
    assert ask(path, "select name from host where id = (select op_id from activity)") == [{'name': 'aten::addmm'}]


def test_ranges_of_pyprof_are_calls_and_places(ask, tmp_path):
    e = Export(tmp_path / 'x.sqlite', '2019')
    e.range("{'traceMarker': ['train.py:34', 'net.py:7'], 'funcStack': '/<module>/Net::forward/linear'}", 1000, 9000)
    e.range("{'mod': 'torch.nn.functional', 'op': 'linear', 'args': [{'name': '', 'type': 'tensor', 'shape': (6, 3), 'dtype': 'float32'}, "
            "{'name': '', 'type': 'tensor', 'shape': (5,), 'dtype': 'float32'}]}", 1500, 8500)
    e.range("{'mod': 'cut", 2000, 2100)
    e.launch('k', 3000, 4000, 4100)
    path = e.done()
    rows = {r['name']: r for r in ask(path, 'select name, kind, shapes, arguments from host')}
    place, call = rows['Net::forward/linear'], rows['torch.nn.functional.linear']
    assert json.loads(place['arguments']) == {'lines': ['train.py:34', 'net.py:7']} and place['kind'] == 'annotation'
    assert (call['kind'], call['shapes']) == ('annotation', '[[6, 3], [5]]')   # what the program called, with operators within
    assert "{'mod': 'cut" in rows
    assert ours(ask, path) == nsys_stats(path)


def test_work_of_a_program_around_its_steps_is_in_no_average(analyze, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    t = 1_000_000
    for i in range(40):   # thirty iterations before the marked ones
        for k in range(10):
            e.launch('void gemm<float>(float*)', t + k * 9_000, t + k * 100_000 + 20_000, t + k * 100_000 + 110_000)
        if i >= 30:
            e.range(f'iteration {i}', t - 1000, t + 999_000)
        t += 1_000_000
    rank = analyze(e.done())['ranks'][0]
    assert len(rank['steps']) == 10
    findings = analyze(str(tmp_path / 'x.sqlite'))['findings']
    assert not [f for f in findings if f['rule'] in ('low-gpu-utilization', 'host-bound-launches')], findings


def test_a_program_without_gpu_work_is_asked_for_nsys_options(profgpu, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    e.call('cuInit', 1000, 5_000_000)
    e.range('load', 2000, 9_000_000)
    shown = ' '.join(profgpu('analyze', e.done(), text=True).stdout.split())
    assert '--trace=cuda' in shown and 'was ProfilerActivity.CUDA on?' not in shown


def test_nothing_is_host_bound_after_the_last_launch(ask, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    for k in range(20):
        e.launch('k', 1_000_000 + k * 10_000, 1_006_000 + k * 10_000, 1_014_000 + k * 10_000)
    e.range('writes results', 1_300_000, 90_000_000)
    path = e.done()
    idle = {r['cause']: r['total_ns'] for r in ask(path, 'select cause, total_ns from idle where total_ns > 0')}
    assert idle.get('host_bound', 0) < 1_000_000, idle


def test_copies_of_offloaded_parameters_are_no_batches(analyze, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    t = 1_000_000
    for i in range(12):
        e.range(f'FSDP::pre_forward (layers.{i})', t, t + 50_000)
        e.copy(t + 1000, t + 10_000, t + 600_000, 64 << 20, kind=1, src=1, dst=2)
        e.launch('gemm', t + 60_000, t + 610_000, t + 700_000)
        t += 720_000
    said = {f['rule']: f for f in analyze(e.done())['findings']}
    copies = said.get('exposed-copies') or said['late-copy']
    assert any('CPUOffloadPolicy' in fix for fix in copies['fix']), copies


def test_steps_whose_ranges_are_never_closed(analyze, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    for i in range(5):
        e.range(f'iteration{i}', 1_000_000 * i, 9_000_000)
        e.range('forward', 1_000_000 * i + 10, 1_000_000 * i + 900_000)
        e.launch('k', 1_000_000 * i + 20, 1_000_000 * i + 6000, 1_000_000 * i + 500_000)
    e.table('ANALYSIS_DETAILS', 'globalVid INTEGER, duration INTEGER', [(1, 9_000_000)])
    report = analyze(e.done())
    steps = report['ranks'][0]['steps']
    assert [(s['name'], s['start_ns'], s['duration_ns']) for s in steps] == \
        [(f'iteration{i}', 1_000_000 * i, 1_000_000 if i < 4 else 900_000) for i in range(5)]
    assert 'never closed: 5 ("iteration0")' in all_issues(report)


def graph_tables(e, mode):
    e.range('step 0', 0, 100_000)
    e.range('attention', 1_000, 9_000)
    e.call('cudaStreamBeginCapture_v10000', 500, 900)
    e.call('cudaLaunchKernel_v7000', 2_000, 3_000)
    e.call('cudaStreamEndCapture_v10000', 9_500, 9_900)
    for launch in range(3):
        at = 20_000 + launch * 20_000
        e.call('cudaGraphLaunch_v10000', at, at + 5_000)
        if mode == 'whole':
            e.db.execute('insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (?,?,?,?,?,?,?,?,?)',
                         (at + 6_000, at + 16_000, 0, 1, 7, e.correlation, pid_of(MAIN), 4, 5))
        else:
            e.row('CUPTI_ACTIVITY_KIND_KERNEL', start=at + 6_000, end=at + 16_000, deviceId=0, contextId=1, streamId=7,
                  correlationId=e.correlation, globalPid=pid_of(MAIN), demangledName=e.text('captured'),
                  shortName=e.text('captured'), graphNodeId=5 << 32 | 2)


def test_graphs_that_were_recorded_whole_count_as_busy(analyze, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    e.table('CUPTI_ACTIVITY_KIND_GRAPH_TRACE', 'start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,'
            ' correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER',
            [(0, 0, 0, 1, 7, 999, pid_of(MAIN), 4, 5)])
    graph_tables(e, 'whole')
    report = analyze(e.done())
    assert report['ranks'][0]['devices'][0]['busy_ns'] == 30_000
    assert [k['name'] for k in report['ranks'][0]['kernels']] == ['CUDA graph 5']
    text = all_issues(report)
    assert 'recorded whole: 3 (100.0 %' in text and '--cuda-graph-trace=node' in text and 'without times: 1' in text


def test_nodes_of_graphs_belong_to_what_was_captured(ask, analyze, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    e.table('CUDA_GRAPH_NODE_EVENTS', 'start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, nameId INTEGER,'
            ' graphNodeId INTEGER, originalGraphNodeId INTEGER',
            [(2_500, 2_500, 0, tid_of(1), e.text('node'), 3 << 32 | 1, None), (9_950, 9_950, 0, tid_of(1), e.text('clone'), 5 << 32 | 2, 3 << 32 | 1)])
    graph_tables(e, 'node')
    path = e.done()
    assert ask(path, 'select count(*) n, min(graph_node) node from activity') == [{'n': 3, 'node': 2}]
    rows = ask(path, 'select h.name from activity a join host h on h.id = a.op_id group by 1')
    assert rows == [{'name': 'attention'}]
    assert '3 of the 3 kernels and copies of replayed graphs carry the operators' in all_issues(analyze(path))


def test_processes_are_ranks(ask, analyze, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    for pid, device in ((300, 1), (200, 0)):
        step_loop(e, pid=pid, device=device)
    e.system('read', 10, 20, pid=999)
    e.table('MPI_OTHER_EVENTS', 'start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER',
            [(100, 200, tid_of(1, 200), e.text('MPI_Init'))])
    path = e.done()
    report = analyze(path)
    assert [r['rank'] for r in report['ranks']] == [0, 1]
    assert [f['path'].split()[-1] for f in report['inputs']] == ['200]', '300]']
    assert [r['devices'][0]['id'] for r in report['ranks']] == [0, 1]
    assert ours(ask, path) == nsys_stats(path)   # with rows of processes that are no rank
    assert ask(path, "select rank, kind from host where name = 'MPI_Init'") == [{'rank': 0, 'kind': 'library'}]
    assert 'it does not say which rank each is' in all_issues(report)
    # MPI says it, against the order of devices.
    db = sqlite3.connect(path)
    db.execute('create table MPI_RANKS (globalTid INTEGER, rank INTEGER)')
    db.executemany('insert into MPI_RANKS values (?, ?)', [(tid_of(1, 300), 4), (tid_of(1, 200), 5)])
    db.commit()
    db.close()
    report = analyze(path)
    assert [(r['rank'], r['devices'][0]['id']) for r in report['ranks']] == [(4, 1), (5, 0)]
    assert 'it does not say' not in all_issues(report)


def test_mpi_numbers_the_only_process_of_an_export(analyze, tmp_path):
    for place, rank in enumerate((3, 1)):
        e = Export(tmp_path / f'{"ab"[place]}.sqlite')
        step_loop(e, pid=100 + place)
        e.table('MPI_RANKS', 'globalTid INTEGER, rank INTEGER', [(tid_of(1, 100 + place), rank)])
        e.done()
    report = analyze(tmp_path)
    assert {os.path.basename(f['path']): f['rank'] for f in report['inputs']} == {'a.sqlite': 3, 'b.sqlite': 1}
    assert 'assumed rank' not in json.dumps(report)


def test_a_process_that_only_copies_is_no_rank(ask, analyze, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    for i in range(5):
        e.copy(i * 1000, i * 1000 + 100, i * 1000 + 200, 64, pid=50)
    step_loop(e, pid=300)
    path = e.done()
    report = analyze(path)
    assert len(report['ranks']) == 1 and 'their copies are left out' in all_issues(report)
    assert ask(path, "select count(*) n from activity where kind = 'memcpy'") == [{'n': 6}]


def test_a_folder_of_exports_is_a_job_on_one_clock(ask, analyze, tmp_path):
    for node in range(2):
        e = Export(tmp_path / f'node{node}.sqlite')
        e.table('TARGET_INFO_SESSION_START_TIME', 'utcEpochNs INTEGER, utcTime TEXT, localTime TEXT',
                [(1_700_000_000_000_000_000 + node * 500_000, '', '')])
        for pid, device in ((10, 0), (11, 1)):
            step_loop(e, pid=pid, device=device)
        e.done()
    (tmp_path / 'node0.nsys-rep').write_bytes(b'a report whose export lies beside it')
    report = analyze(tmp_path)
    assert [r['rank'] for r in report['ranks']] == [0, 1, 2, 3]
    assert 'its export beside it is read' in all_issues(report)
    bases = ask(tmp_path, 'select rank, base_time_ns from ranks order by rank')
    assert [b['base_time_ns'] % 1_000_000 for b in bases] == [0, 0, 500_000, 500_000]


def test_sync_rows_have_the_device_of_their_context(ask, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    e.launch('k', 100, 6000, 9000, device=1)
    e.row('CUPTI_ACTIVITY_KIND_SYNCHRONIZATION', start=6_000, end=9_100, deviceId=0, contextId=1, streamId=7, correlationId=5,
          globalPid=pid_of(MAIN), syncType=3, eventId=0)
    assert ask(e.done(), 'select device, name from syncs') == [{'device': 1, 'name': 'Stream Sync'}]


def test_metrics_memory_faults_and_scheduling(ask, analyze, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    step_loop(e)
    kind = 0x1000100000002
    e.table('TARGET_INFO_SESSION_START_TIME', 'utcEpochNs INTEGER, utcTime TEXT, localTime TEXT', [(1_700_000_000_000_000_000, '', '')])
    e.table('TARGET_INFO_GPU', 'id INTEGER, name TEXT, uuid TEXT, busLocation TEXT, pwGpuId INTEGER, cuDevice INTEGER, totalMemory INTEGER',
            [(0, 'NVIDIA L4', 'aa-bb', '0000:01:00.0', 2, 0, 24 << 30)])
    e.table('TARGET_INFO_GPU_METRICS', 'typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, metricName TEXT',
            [(kind, 0, '', 1, 'SMs Active [Throughput %]'), (kind, 0, '', 2, 'DRAM Read Bandwidth [Throughput %]'),
             (kind, 0, '', 3, 'DRAM Write Bandwidth [Throughput %]'), (kind, 0, '', 4, 'GPC Clock Frequency [MHz]'),
             (kind, 0, '', 5, 'PCIe RX Throughput [Throughput %]')])
    e.table('GPU_METRICS', 'timestamp INTEGER, typeId INTEGER, metricId INTEGER, value REAL',
            [row for i in range(50) for row in ((1_000_000 + i * 100_000, kind, 1, 80), (1_000_000 + i * 100_000, kind, 2, 30),
                                                (1_000_000 + i * 100_000, kind, 3, 12), (1_000_000 + i * 100_000, kind, 4, 1.41e9),
                                                (1_000_000 + i * 100_000, kind, 5, 7))])
    e.table('CUDA_GPU_MEMORY_USAGE_EVENTS', 'start INTEGER, globalPid INTEGER, deviceId INTEGER, contextId INTEGER, address INTEGER,'
            ' bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER',
            [(1000, pid_of(MAIN), 0, 1, 64, 1 << 30, 2, 0), (2000, pid_of(MAIN), 0, 1, 128, 1 << 20, 2, 0),
             (3000, pid_of(MAIN), 0, 1, 64, 1 << 30, 2, 1), (3500, pid_of(MAIN), 0, 1, 256, 4096, 1, 0)])
    e.table('CUDA_UM_GPU_PAGE_FAULT_EVENTS', 'start INTEGER, end INTEGER, globalPid INTEGER, deviceId INTEGER, numberOfPageFaults INTEGER',
            [(1_000_100, 1_000_200, pid_of(MAIN), 0, 17)])
    e.table('CUDA_UM_CPU_PAGE_FAULT_EVENTS', 'start INTEGER, globalPid INTEGER', [(1_000_300, pid_of(MAIN))])
    e.table('SCHED_EVENTS', 'start INTEGER, cpu INTEGER, isSchedIn INTEGER, globalTid INTEGER',
            [(1_000_000, 0, 1, tid_of(1)), (2_000_000, 0, 0, tid_of(1)), (5_000_000, 1, 1, tid_of(1)), (6_000_000, 1, 0, tid_of(1))])
    path = e.done()
    samples = {r['metric']: (r['n'], r['v']) for r in ask(path, 'select metric, count(*) n, max(value) v from samples group by 1')}
    assert samples == {'sm_active_pct': (50, 80), 'dram_active_pct': (50, 42), 'sm_clock_mhz': (50, 1410)}
    assert ask(path, 'select min(time_ns) t from samples')[0]['t'] == 1_700_000_000_001_000_000
    counters = {r['name']: (r['n'], r['v']) for r in ask(path, 'select name, count(*) n, sum(value) v from counters group by 1')}
    assert counters['PCIe RX Throughput [Throughput %]'] == (50, 350)
    assert counters['unified memory: page faults of the GPU'] == (1, 17)
    memory = analyze(path)['ranks'][0]['memory']
    assert memory['peak_allocated_bytes'] == (1 << 30) + (1 << 20)
    thread = [t for t in analyze(path)['ranks'][0]['threads'] if t['thread'] == '1'][0]
    assert (thread['cpu_ns'], thread['blocked_ns'], thread['longest_wait_ns']) == (2_000_000, 3_000_000, 3_000_000)


def test_collectives_of_nccls_payloads(ask, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    e.table('NVTX_PAYLOAD_SCHEMA_ENTRIES', 'domainId INTEGER, schemaId INTEGER, idx INTEGER, flags INTEGER, type INTEGER, name TEXT,'
            ' description TEXT, arrayOrUnionDetail INTEGER, offset INTEGER',
            [(1, 16777218, 0, None, 18, 'NCCL communicator ID', None, None, None), (1, 16777218, 1, None, 5, 'No. of ranks', None, None, 8),
             (1, 16777218, 2, None, 5, 'Rank', None, None, 12), (1, 16777220, 0, None, 18, 'NCCL communicator ID', None, None, None),
             (1, 16777220, 1, None, 22, 'Message size [bytes]', None, None, 8)])

    def payload(schema, data):
        return struct.pack('<IIIIQQ', 1, 0, schema, 0, len(data), len(data)) + data

    e.range('NCCL', 0, None, kind=75, domain=1)
    e.range('ncclCommInitRank', 10, 20, domain=1, binaryData=payload(16777218, struct.pack('<QIII', 0xabc, 2, 1, 0)))
    e.range('ncclAllReduce', 1000, 9000, domain=1, binaryData=payload(16777220, struct.pack('<QQ', 0xabc, 4096)))
    e.range('ncclAllReduce', 11000, 12000, domain=1, binaryData=payload(16777220, b'cut'))
    e.launch('ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)', 2000, 20_000, 30_000)
    rows = ask(e.done(), 'select name, process_group, group_size, message_bytes from collective_calls')
    assert rows == [{'name': 'AllReduce', 'process_group': 'abc', 'group_size': 2, 'message_bytes': 4096}]


# What is not as it should be.

def damaged(analyze, profgpu, path, *words):
    """The report, or what was said instead; nothing is left beside the file."""
    before = sorted(os.listdir(os.path.dirname(path)))
    result = profgpu('analyze', path, '--json', *words)
    assert sorted(os.listdir(os.path.dirname(path))) == before
    if result.returncode == 0:
        return json.loads(result.stdout)
    assert result.returncode == 1 and result.stderr.decode().startswith('profgpu: ')
    return result.stderr.decode()


def test_cut_files_give_what_is_there(analyze, profgpu, tmp_path):
    e = Export(tmp_path / 'whole.sqlite')
    step_loop(e, steps=200)
    whole = open(e.done(), 'rb').read()
    found = []
    for percent in (0, 1, 5, 30, 60, 90, 99):
        path = tmp_path / f'{percent}' / 'cut.sqlite'
        path.parent.mkdir()
        path.write_bytes(whole[:len(whole) * percent // 100])
        report = damaged(analyze, profgpu, str(path))
        if isinstance(report, str):
            assert percent < 30, report
            continue
        assert 'cut off' in all_issues(report)
        found.append(report['inputs'][0]['events'])
    assert found == sorted(found) and len(found) >= 3 and found[0] > 0


@pytest.mark.parametrize('page', range(1, 40, 3))
def test_a_damaged_page_costs_no_more_than_a_table(analyze, profgpu, tmp_path, page):
    e = Export(tmp_path / 'x.sqlite')
    step_loop(e, steps=60)
    path = e.done()
    data = bytearray(open(path, 'rb').read())
    data[page * 4096:page * 4096 + 4096] = os.urandom(16) * 256
    open(path, 'wb').write(data)
    report = damaged(analyze, profgpu, path)
    if not isinstance(report, str):
        assert report['inputs'][0]['events'] > 0


def test_odd_cells(analyze, profgpu, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    step_loop(e)
    columns = [r[1] for r in e.db.execute('pragma table_info(CUPTI_ACTIVITY_KIND_KERNEL)')]

    def kernel(**values):
        usual = {'start': 9_000_000, 'end': 9_001_000, 'deviceId': 0, 'demangledName': 1, 'globalPid': pid_of(MAIN)}
        e.db.execute(f'insert into CUPTI_ACTIVITY_KIND_KERNEL ({",".join(chr(34) + c + chr(34) for c in columns)}) values '
                     f'({",".join("?" * len(columns))})', [{**usual, **values}.get(c) for c in columns])

    kernel(start='soon')                        # text in INTEGER
    kernel(start=None)
    kernel(end=b'\0\1\2')
    kernel(start=2.5)
    kernel(start=9_002_000.0)                   # a whole number all the same, but later than its end
    kernel(start=-(1 << 63), end=(1 << 63) - 1)
    kernel(deviceId=1 << 40)
    kernel(demangledName=-5), kernel(demangledName=1 << 60), kernel(demangledName='a name', correlationId=-3)
    kernel(gridX=1 << 40, registersPerThread=-1)
    e.db.execute("insert into StringIds values (99999, cast(x'fffe4100' as text))")
    kernel(demangledName=99999)
    report = damaged(analyze, profgpu, e.done())
    counts = {i['kind']: i['count'] for i in report['inputs'][0]['issues']}
    assert counts['damaged'] == 4 and counts['negative_duration'] == 1 and counts['out_of_range'] == 2
    assert counts['invalid_text'] >= 1
    assert sum(k['count'] for k in report['ranks'][0]['kernels'] if 'gemm' in k['name']) == 60
    assert {'a name', '(no name)'} <= {k['name'] for k in report['ranks'][0]['kernels']}


HOSTILE = {
    'a view that never ends': "create view CUPTI_ACTIVITY_KIND_KERNEL as with recursive n(i) as (select 1 union all select i + 1 from n) "
                              "select i as start, i + 1 as end, 0 as deviceId from n",
    'a virtual table': 'create virtual table CUPTI_ACTIVITY_KIND_KERNEL using fts5(start, end)',
    'a trigger': 'create table log (x); create trigger t after insert on StringIds begin insert into log values (1); end',
    'a generated column': "create table CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
                          "x as (randomblob(1000000000)))",
    'SQL in names': "create table \"OSRT_API\"(start, end, globalTid, nameId); create table \"x\"\"; drop table StringIds; --\" (start, \"end\"\"; --\"); "
                    "insert into \"x\"\"; drop table StringIds; --\" values (1, 2)",
    'no row numbers': 'create table OSRT_API (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, primary key (start, end)) '
                      'without rowid; insert into OSRT_API values (1, 2, 3, 1)',
    'row numbers from end to end': 'create table OSRT_API (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER); insert into '
                                   'OSRT_API(_rowid_, start, end) values (-9223372036854775808, 1, 2), (9223372036854775807, 1, 2)',
    'a text of 100 MB': "insert into StringIds values (77, cast(zeroblob(100000000) as text))",
}


@pytest.mark.parametrize('what', HOSTILE)
def test_hostile_schemas(analyze, profgpu, tmp_path, what):
    e = Export(tmp_path / 'x.sqlite')
    e.call('cudaMalloc_v3020', 100, 5000)
    e.range('\x1b[31mred\x07 \u202e" onmouseover="alert(1)', 0, 1000)
    try:
        e.db.executescript(HOSTILE[what])
    except sqlite3.OperationalError as error:
        pytest.skip(f'{what}: {error}')
    report = damaged(analyze, profgpu, e.done())
    assert report['inputs'][0]['events'] >= 2, report
    if 'view' in what or 'virtual' in what:
        assert 'not read: CUPTI_ACTIVITY_KIND_KERNEL' in all_issues(report)
    shown = profgpu('analyze', tmp_path / 'x.sqlite').stdout
    assert b'\x1b[31mred' not in shown and b'\x07' not in shown


def test_other_databases_and_empty_ones(profgpu, tmp_path):
    path = tmp_path / 'x.sqlite'
    db = sqlite3.connect(path)
    db.executescript('create table users (id, name); create table posts (id)')
    db.close()
    result = profgpu('analyze', path)
    assert result.returncode == 1
    assert b'an SQLite database, but none that profgpu knows (tables: posts, users)' in result.stderr
    Export(tmp_path / 'empty.sqlite').done()
    result = profgpu('analyze', tmp_path / 'empty.sqlite')
    assert result.returncode == 1 and b'without any events' in result.stderr
    (tmp_path / 'header.sqlite').write_bytes(b'SQLite format 3\0')
    assert profgpu('analyze', tmp_path / 'header.sqlite').returncode == 1


def test_newer_schemas_say_what_was_not_understood(analyze, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    step_loop(e)
    e.db.execute("update META_DATA_EXPORT set value = '4' where name = 'EXPORT_SCHEMA_VERSION_MAJOR'")
    e.table('CUDA_TENSOR_EVENTS', 'start INTEGER, end INTEGER', [(i, i + 1) for i in range(50)])
    text = all_issues(analyze(e.done()))
    assert 'schema version 4' in text and 'CUDA_TENSOR_EVENTS (50 rows); ' in text and '% of the file' in text


def test_a_column_with_another_name_is_named(ask, analyze, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    step_loop(e)
    e.db.execute('alter table CUPTI_ACTIVITY_KIND_KERNEL rename column deviceId to devId')
    path = e.done()
    text = all_issues(analyze(path))
    assert 'CUPTI_ACTIVITY_KIND_KERNEL has no column deviceId' in text and 'its 60 rows (' in text and '% of the file' in text
    assert ask(path, "select device, count(*) n from activity where kind = 'kernel' group by 1") == [{'device': 0, 'n': 60}]


def test_a_page_that_is_there_in_part_gives_no_rows(ask, analyze, profgpu, tmp_path):
    e = Export(tmp_path / 'whole.sqlite')
    for pid in (300, 200):
        step_loop(e, pid=pid, steps=20)
    whole = open(e.done(), 'rb').read()
    kernels = ask(tmp_path / 'whole.sqlite', "select distinct rank, start_ns, name from activity where kind = 'kernel'")
    for size in range(4096 * 3 + 1500, len(whole), 4096 * 5 + 700):
        path = tmp_path / 'cut.sqlite'
        path.write_bytes(whole[:size])
        report = damaged(analyze, profgpu, str(path))
        if isinstance(report, str):
            assert 'is cut off' in report
            continue
        assert not any('[process 0]' in f['path'] for f in report['inputs'])
        for row in ask(path, "select rank, start_ns, name from activity where kind = 'kernel'"):
            assert (row['start_ns'], row['name']) in {(k['start_ns'], k['name']) for k in kernels} or row['name'] == '(no name)'


def test_metrics_alone_say_how_busy_a_device_is(analyze, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    kind = 0x1000100000000
    e.table('TARGET_INFO_SESSION_START_TIME', 'utcEpochNs INTEGER, utcTime TEXT, localTime TEXT', [(1_700_000_000_000_000_000, '', '')])
    e.table('TARGET_INFO_GPU', 'id INTEGER, name TEXT, pwGpuId INTEGER', [(0, 'NVIDIA A100', 0)])
    e.table('TARGET_INFO_GPU_METRICS', 'typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, metricName TEXT', [(kind, 0, 'GPU', 1, 'GR Active [Throughput %]')])
    e.table('GPU_METRICS', 'timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER', [(i * 100_000_000, kind, 1, 40) for i in range(1, 101)])
    report = analyze(e.done())
    assert 'No device was used' not in report['verdict'] and '40 %' in report['verdict']


def test_changes_in_a_log_beside_the_file_are_named(analyze, profgpu, tmp_path):
    source, folder = tmp_path / 'source', tmp_path / 'copy'
    source.mkdir(), folder.mkdir()
    e = Export(source / 'x.sqlite')
    e.db.commit()
    assert e.db.execute('pragma journal_mode = wal').fetchone() == ('wal',)
    step_loop(e)
    e.db.commit()
    e.db.execute('pragma wal_checkpoint(full)')
    e.range('later', 0, 1000)
    e.db.commit()
    for name in os.listdir(source):   # as it lies there while somebody has it open
        shutil.copy(source / name, folder / name)
    report = damaged(analyze, profgpu, str(folder / 'x.sqlite'))
    assert 'x.sqlite-wal has changes that are not in the file yet' in all_issues(report)


def test_a_folder_that_cannot_be_written_and_compressed_files(analyze, profgpu, tmp_path):
    e = Export(tmp_path / 'x.sqlite')
    step_loop(e)
    path = e.done()
    plain = analyze(path)
    os.chmod(tmp_path, stat.S_IRUSR | stat.S_IXUSR)
    assert analyze(path)['ranks'] == plain['ranks']
    os.chmod(tmp_path, 0o700)
    subprocess.run(['gzip', '-k', path], check=True)
    assert analyze(path + '.gz')['ranks'] == plain['ranks']
    with open(path, 'rb') as file:
        piped = profgpu('analyze', '-', '--json', stdin=file)
    assert json.loads(piped.stdout)['ranks'] == plain['ranks']


# Reports that only Nsight Systems can unpack.

FAKE_NSYS = """#!/bin/sh
case "$*" in *include-blobs*) {blobs};; esac
while [ $# -gt 1 ]; do [ "$1" = --output ] && out=$2; shift; done
{act}
"""


def with_nsys(tmp_path, act, blobs=':'):
    tools = tmp_path / 'tools'
    tools.mkdir(exist_ok=True)
    nsys = tools / 'nsys'
    nsys.write_text(FAKE_NSYS.format(act=act, blobs=blobs))
    nsys.chmod(0o755)
    scratch = tmp_path / 'tmp'
    scratch.mkdir(exist_ok=True)
    return {**os.environ, 'PATH': f'{tools}:{os.environ["PATH"]}', 'TMPDIR': str(scratch)}, scratch


def test_reports_are_exported_by_nsys(profgpu, analyze, tmp_path):
    e = Export(tmp_path / 'made.sqlite')
    for pid, device in ((10, 0), (11, 1)):
        step_loop(e, pid=pid, device=device)
    made = e.done()
    report = tmp_path / 'run.nsys-rep'
    report.write_bytes(b'\x01\x02QD')
    for blobs in (':', 'echo "unrecognised option --include-blobs" >&2; exit 1'):
        environment, scratch = with_nsys(tmp_path, f'cp {made} "$out"', blobs)
        result = profgpu('analyze', report, '--json', env=environment)
        assert result.returncode == 0, result.stderr
        document = json.loads(result.stdout)
        assert document['inputs'][0]['format'] == 'nsight-report'
        assert [r['kernels'] for r in document['ranks']] == [r['kernels'] for r in analyze(made)['ranks']]
        assert list(scratch.iterdir()) == []


def test_reports_without_nsys_say_the_one_command(profgpu, tmp_path):
    report = tmp_path / 'a run.nsys-rep'
    report.write_bytes(b'\x01\x02QD')
    result = profgpu('analyze', report, env={**os.environ, 'PATH': '/nowhere'})
    assert result.returncode == 1
    assert b'nsys export --type sqlite --include-blobs true --output' in result.stderr and b"a run.sqlite'" in result.stderr
    environment, scratch = with_nsys(tmp_path, 'echo "Error: the report is too new" >&2; exit 3')
    result = profgpu('analyze', report, env=environment)
    assert result.returncode == 1 and b'(exit code 3): Error: the report is too new' in result.stderr
    assert list(scratch.iterdir()) == []
    for name, words in (('x.qdstrm', b'QdstrmImporter'), ('x.ncu-rep', b'Nsight Compute')):
        (tmp_path / name).write_bytes(b'\x01')
        assert words in profgpu('analyze', tmp_path / name).stderr
