"""Outputs of AMD's rocprofv3: JSON and rocpd databases say the same of one made-up run, and what a plain sum says; cut and hostile ones."""
import collections
import csv
import json
import os
import sqlite3

import pytest

LAUNCHES, STEPS = 10, 5
GPU, CPU = 7001, 7000
KERNELS = ('void gemm<float>(float*, int)', 'softmax_kernel', 'Cijk_Ailk_Bljk')


def run():
    """(kernels, copies, calls, markers) of a loop: kernels (name, start, end, correlation, queue), copies (direction, start, end, correlation,
    bytes), calls (name, start, end, correlation, thread), markers (text, start, end)."""
    kernels, copies, calls, markers = [], [], [], []
    t, number = 1_000_000_000, 0
    for step in range(STEPS):
        begin = t
        number += 1
        calls.append(('hipMemcpyAsync', t + 1000, t + 6000, number, 1))
        copies.append(('MEMORY_COPY_HOST_TO_DEVICE', t + 8000, t + 60_000, number, 1 << 20))
        for k in range(LAUNCHES):
            number += 1
            calls.append(('hipLaunchKernel', t + 10_000 + k * 7000, t + 14_000 + k * 7000, number, 1))
            kernels.append((KERNELS[k % 3], t + 70_000 + k * 90_000, t + 150_000 + k * 90_000, number, 3))
        number += 1
        calls.append(('hipStreamSynchronize', t + 90_000, t + 970_000, number, 1))
        markers.append((f'step {step}', begin, t + 980_000))
        markers.append(('forward', begin + 9000, t + 85_000))
        t += 1_000_000
    return kernels, copies, calls, markers


def rocprof_json():
    kernels, copies, calls, markers = run()
    names = sorted({c[0] for c in calls})
    times = lambda start, end, number: {'start_timestamp': start, 'end_timestamp': end, 'correlation_id': {'internal': number, 'external': 0}}  # noqa: E731
    return {'rocprofiler-sdk-tool': [{
        'metadata': {'pid': 4711, 'init_time': 1, 'fini_time': 2, 'environment': {'SECRET_TOKEN': 'do-not-show'}},
        'agents': [{'size': 1, 'id': {'handle': CPU}, 'type': 1, 'name': 'AMD EPYC', 'product_name': ''},
                   {'size': 1, 'id': {'handle': GPU}, 'type': 2, 'name': 'gfx942', 'product_name': 'AMD Instinct MI300X', 'cu_count': 304}],
        'strings': {'buffer_records': [{'kind': 'NONE', 'operations': []}, {'kind': 'HIP_RUNTIME_API', 'operations': names},
                                       {'kind': 'MEMORY_COPY', 'operations': ['MEMORY_COPY_NONE', 'MEMORY_COPY_HOST_TO_DEVICE']},
                                       {'kind': 'MARKER_CORE_API', 'operations': ['roctxRangePushA']}],
                    'marker_api': [{'key': 100_000 + i, 'value': m[0]} for i, m in enumerate(markers)]},
        'code_objects': [],
        'kernel_symbols': [{'kernel_id': i, 'kernel_name': f'k{i}.kd', 'formatted_kernel_name': name, 'arch_vgpr_count': 64} for i, name in enumerate(KERNELS)],
        'callback_records': {},
        'buffer_records': {
            'kernel_dispatch': [{'kind': 11, 'operation': 2, 'thread_id': 1, **times(s, e, n), 'stream_id': {'handle': q},
                                 'dispatch_info': {'agent_id': {'handle': GPU}, 'queue_id': {'handle': 18446744073709551600}, 'kernel_id': KERNELS.index(name),
                                                   'dispatch_id': n, 'workgroup_size': {'x': 256, 'y': 1, 'z': 1}, 'grid_size': {'x': 65536, 'y': 2, 'z': 1},
                                                   'group_segment_size': 4096}} for name, s, e, n, q in kernels],
            'hip_api': [{'kind': 1, 'operation': names.index(name), 'thread_id': thread, **times(s, e, n)} for name, s, e, n, thread in calls],
            'memory_copy': [{'kind': 2, 'operation': 1, 'bytes': b, 'src_agent_id': {'handle': CPU}, 'dst_agent_id': {'handle': GPU}, **times(s, e, n)}
                            for _, s, e, n, b in copies],
            'marker_api': [{'kind': 3, 'operation': 0, 'thread_id': 1, **times(s, e, 100_000 + i)} for i, (_, s, e) in enumerate(markers)],
            'scratch_memory': [{'kind': 9}] * 3,
        }}]}


def rocpd(path, sets=('_0000a1b2_guid',), tracks=False, pid=4711, categories=False):
    """A database; with `tracks` in the schema in which rows refer to tracks and timestamps, with `categories` in the one that has a table of them."""
    db = sqlite3.connect(path)
    kernels, copies, calls, markers = run()
    for suffix in sets:
        counters = collections.Counter()

        def table(name, columns):
            db.execute(f'create table "rocpd_{name}{suffix}" ({columns})')

        def add(name, /, **values):
            db.execute(f'insert into "rocpd_{name}{suffix}" ({",".join(chr(34) + v + chr(34) for v in values)}) values ({",".join("?" * len(values))})', list(values.values()))
            counters[name] += 1

        times = '"start_id" INTEGER, "end_id" INTEGER, track_id INTEGER' if tracks else '"start" INTEGER, "end" INTEGER'
        own = '' if tracks else ', pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER'
        table('string', 'id INTEGER PRIMARY KEY, string TEXT')
        table('info_node', 'id INTEGER PRIMARY KEY, hostname TEXT')
        table('info_process', 'id INTEGER PRIMARY KEY, pid INTEGER, environment TEXT')
        table('info_thread', 'id INTEGER PRIMARY KEY, tid INTEGER')
        table('info_agent', 'id INTEGER PRIMARY KEY, type TEXT, product_name TEXT, name TEXT')
        table('info_kernel_symbol', 'id INTEGER PRIMARY KEY, display_name TEXT, kernel_name TEXT, arch_vgpr_count INTEGER')
        table('event', 'id INTEGER PRIMARY KEY, category_id INTEGER, stack_id INTEGER, correlation_id INTEGER, extdata TEXT')
        table('timestamp', 'id INTEGER PRIMARY KEY, value INTEGER')
        table('track', 'id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER')
        table('kernel_dispatch', f'id INTEGER PRIMARY KEY, kernel_id INTEGER, {times}{own}, event_id INTEGER, group_segment_size INTEGER, grid_size_x INTEGER, '
              'grid_size_y INTEGER, grid_size_z INTEGER, workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER')
        table('memory_copy', f'id INTEGER PRIMARY KEY, name_id INTEGER, {times}{own}, event_id INTEGER, src_agent_id INTEGER, dst_agent_id INTEGER, size INTEGER')
        table('region', f'id INTEGER PRIMARY KEY, name_id INTEGER, {times}{own}, event_id INTEGER')
        texts, named = {}, {}
        if categories:
            table('info_category', 'id INTEGER PRIMARY KEY, name TEXT')

        def category(name):
            if not categories:
                return text(name)
            if name not in named:
                named[name] = len(named) + 1
                add('info_category', id=named[name], name=name)
            return named[name]

        def text(value):
            if value not in texts:
                texts[value] = len(texts) + 1
                add('string', id=texts[value], string=value)
            return texts[value]

        def event(kind, number, extdata='{}'):
            add('event', category_id=category(kind), stack_id=number, correlation_id=0, extdata=extdata)
            return counters['event']

        def when(start, end, **on):
            if not tracks:
                return {'start': start, 'end': end, **on}
            add('timestamp', value=start), add('timestamp', value=end), add('track', **on)
            return {'start_id': counters['timestamp'] - 1, 'end_id': counters['timestamp'], 'track_id': counters['track']}

        add('info_node', hostname='node1'), add('info_process', id=1, pid=pid, environment='SECRET_TOKEN=do-not-show'), add('info_thread', id=1, tid=1)
        add('info_agent', id=1, type='CPU', product_name='', name='AMD EPYC'), add('info_agent', id=2, type='GPU', product_name='AMD Instinct MI300X', name='gfx942')
        for i, name in enumerate(KERNELS):
            add('info_kernel_symbol', id=i + 1, display_name=name, kernel_name=f'k{i}.kd', arch_vgpr_count=64)
        for name, s, e, n, q in kernels:
            add('kernel_dispatch', kernel_id=KERNELS.index(name) + 1, event_id=event('KERNEL_DISPATCH', n), group_segment_size=4096, grid_size_x=65536, grid_size_y=2,
                grid_size_z=1, workgroup_size_x=256, workgroup_size_y=1, workgroup_size_z=1, **when(s, e, pid=1, tid=1, agent_id=2, queue_id=9, stream_id=q))
        for name, s, e, n, b in copies:
            add('memory_copy', name_id=text(name), event_id=event('MEMORY_COPY', n), src_agent_id=1, dst_agent_id=2, size=b,
                **when(s, e, pid=1, tid=1, agent_id=None, queue_id=None, stream_id=0))
        for name, s, e, n, thread in calls:
            add('region', name_id=text(name), event_id=event('HIP_RUNTIME_API', n), **when(s, e, pid=1, tid=thread, agent_id=None, queue_id=None, stream_id=None))
        for i, (name, s, e) in enumerate(markers):
            add('region', name_id=text('roctxRangePushA'), event_id=event('MARKER_CORE_RANGE_API', 100_000 + i, json.dumps({'message': name})),
                **when(s, e, pid=1, tid=1, agent_id=None, queue_id=None, stream_id=None))
        db.execute(f'create view if not exists kernels{suffix} as select * from "rocpd_kernel_dispatch{suffix}"')
    db.commit()
    db.close()
    return path


def csv_files(folder):
    """The path of the file with kernels; the others of the process lie beside it."""
    kernels, copies, calls, markers = run()

    def write(name, header, rows):
        with open(folder / f'4711_{name}.csv', 'w', newline='') as file:
            out = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator='\n')
            out.writerow(header.split())
            out.writerows(rows)

    write('agent_info', 'Node_Id Logical_Node_Id Agent_Type Cu_Count Name Product_Name', [(0, 0, 'CPU', 0, 'AMD EPYC', ''), (8, 2, 'GPU', 304, 'gfx942', 'AMD Instinct MI300X')])
    write('kernel_trace', 'Kind Agent_Id Queue_Id Stream_Id Thread_Id Dispatch_Id Kernel_Id Kernel_Name Correlation_Id Start_Timestamp End_Timestamp LDS_Block_Size '
          'Scratch_Size VGPR_Count Workgroup_Size_X Workgroup_Size_Y Workgroup_Size_Z Grid_Size_X Grid_Size_Y Grid_Size_Z',
          [('KERNEL_DISPATCH', 'Agent 2', 1, q, 1, n, 1, name, n, s, e, 4096, 0, 64, 256, 1, 1, 65536, 2, 1) for name, s, e, n, q in kernels])
    write('memory_copy_trace', 'Kind Direction Stream_Id Source_Agent_Id Destination_Agent_Id Correlation_Id Start_Timestamp End_Timestamp',
          [('MEMORY_COPY', d, 1, 'Agent 0', 'Agent 2', n, s, e) for d, s, e, n, _ in copies])
    write('hip_api_trace', 'Domain Function Process_Id Thread_Id Correlation_Id Start_Timestamp End_Timestamp',
          [('HIP_RUNTIME_API', name, 4711, thread, n, s, e) for name, s, e, n, thread in calls])
    write('marker_api_trace', 'Domain Function Process_Id Thread_Id Correlation_Id Start_Timestamp End_Timestamp',
          [('MARKER_CORE_API', name, 4711, 1, 100_000 + i, s, e) for i, (name, s, e) in enumerate(markers)])
    return folder / '4711_kernel_trace.csv'


@pytest.fixture(scope='session')
def ask(profgpu):
    def run_query(*words):
        result = profgpu('query', *map(str, words), '--json', '--quiet', text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run_query


@pytest.fixture(params=('json', 'rocpd', 'rocpd with tracks', 'rocpd with tracks and categories', 'csv'))
def output(request, tmp_path):
    if request.param == 'csv':
        (tmp_path / 'run').mkdir()
        return csv_files(tmp_path / 'run')
    if request.param == 'json':
        path = tmp_path / '4711_results.json'
        path.write_text(json.dumps(rocprof_json()))
        return path
    return rocpd(tmp_path / '4711_results.db', tracks='tracks' in request.param, categories='categories' in request.param)


def summed(rows):
    out = collections.defaultdict(lambda: [0, 0])
    for name, duration in rows:
        out[name][0] += 1
        out[name][1] += duration
    return {k: tuple(v) for k, v in out.items()}


def test_counts_and_totals(ask, output):
    kernels, copies, calls, markers = run()
    def of(table, where):
        return {r['name']: (r['n'], r['t']) for r in ask(output, f'select name, count(*) n, sum(duration_ns) t from {table} where {where} group by 1')}
    assert of('activity', "kind = 'kernel'") == summed((k[0], k[2] - k[1]) for k in kernels)
    assert list(of('activity', "kind = 'memcpy'").values()) == list(summed((c[0], c[2] - c[1]) for c in copies).values())
    assert of('host', "kind = 'runtime'") == summed((c[0], c[2] - c[1]) for c in calls)
    assert of('host', "kind = 'annotation'") == summed((m[0], m[2] - m[1]) for m in markers)
    assert ask(output, "select distinct name from activity where kind = 'memcpy'") == [{'name': 'Memcpy HtoD (Host -> Device)'}]
    if output.suffix != '.csv':   # which do not tell
        assert ask(output, 'select sum(bytes) b from activity') == [{'b': STEPS << 20}]
    assert ask(output, "select distinct grid_x, grid_y, block_x, registers, shared_bytes from activity where kind = 'kernel'") == \
        [{'grid_x': 256, 'grid_y': 2, 'block_x': 256, 'registers': 64, 'shared_bytes': 4096}]


def test_the_report(profgpu, analyze, output, tmp_path):
    rank = analyze(output)['ranks'][0]
    assert [s['name'] for s in rank['steps']] == [f'step {i}' for i in range(STEPS)]
    assert rank['launch']['launches'] == STEPS * (LAUNCHES + 1)
    device, = rank['devices']
    assert device['name'] == 'AMD Instinct MI300X' and device['busy_ns'] + device['idle_ns'] == device['span_ns']
    assert {p['name']: p['wall_ns'] for p in rank['phases']}['forward'] > 0
    for words in (('--html', tmp_path / 'x.html'), ('--format', 'markdown')):
        result = profgpu('analyze', output, *words)
        assert result.returncode == 0 and b'SECRET_TOKEN' not in result.stdout
    assert b'do-not-show' not in (tmp_path / 'x.html').read_bytes()
    for form in ('chrome', 'sqlite'):
        assert profgpu('export', output, '--to', form, '-o', tmp_path / form).returncode == 0


def test_csv_files_of_a_process_are_one_rank(analyze, tmp_path):
    first = csv_files(tmp_path)
    alone, folder = analyze(first), analyze(tmp_path)
    assert len(folder['ranks']) == 1 and folder['ranks'] == alone['ranks'] == analyze(*sorted(map(str, tmp_path.iterdir())))['ranks']
    assert '4711_hip_api_trace.csv' in ' '.join(i['text'] for i in folder['inputs'][0]['issues'])


def test_the_older_rocprofs_kernels(analyze, ask, tmp_path):
    path = tmp_path / 'results.csv'
    path.write_text('"Index","KernelName","gpu-id","queue-id","pid","tid","grd","wgr","lds","scr","arch_vgpr","DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"\n'
                    + ''.join(f'{i},"void add<{i % 2}>(float*, int) [clone .kd]",{i % 2},0,7,7,65536,256,512,0,8,{i * 1000},{i * 1000 + 100},{i * 1000 + 600},{i * 1000 + 700},500\n'
                              for i in range(20)))
    rows = ask(path, 'select device, name, count(*) n, sum(duration_ns) t from activity group by 1, 2 order by 1')
    assert rows == [{'device': i, 'name': f'void add<{i}>(float*, int)', 'n': 10, 't': 5000} for i in range(2)]
    path.write_text(path.read_text()[:-30])
    assert 'ends early' in ' '.join(i['text'] for i in analyze(path)['inputs'][0]['issues'])


def test_counters_do_not_multiply_kernels(analyze, ask, tmp_path):
    path = tmp_path / '77_counter_collection.csv'
    path.write_text('"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name","Workgroup_Size","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
                    + ''.join(f'{i},{i},"Agent 4",1,77,77,65536,10,"void gemm<float>(float*, int)",256,"{counter}",1024.0,{i * 10000},{i * 10000 + 6000}\n'
                              for i in range(1, 7) for counter in ('SQ_WAVES', 'FETCH_SIZE')))
    assert ask(path, 'select count(*) n, sum(duration_ns) t from activity') == [{'n': 6, 't': 36000}]
    assert ask(path, 'select a.name, c.name counter, c.device, count(*) n, sum(c.value) v from counters c join activity a on a.start_ns = c.time_ns '
                     'group by 1, 2 order by 2') == [{'name': 'void gemm<float>(float*, int)', 'counter': counter, 'device': 0, 'n': 6, 'v': 6144.0}
                                                     for counter in ('FETCH_SIZE', 'SQ_WAVES')]
    assert 'too little to evaluate' in analyze(path)['verdict']


COUNTED = "select count(*) n, sum(value) v from counters c where name = 'SQ_WAVES' and exists (select 1 from activity a where a.start_ns = c.time_ns and kind = 'kernel')"


def test_counters_beside_kernels_are_of_them(analyze, ask, tmp_path):
    path = csv_files(tmp_path)
    alone, calls = analyze(tmp_path), len(run()[0])
    with open(tmp_path / '4711_counter_collection.csv', 'w', newline='') as file:
        out = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator='\n')
        out.writerow('Correlation_Id Dispatch_Id Agent_Id Queue_Id Process_Id Thread_Id Grid_Size Kernel_Id Kernel_Name Workgroup_Size Counter_Name '
                     'Counter_Value Start_Timestamp End_Timestamp'.split())
        out.writerows((n, n, 'Agent 2', 1, 4711, 1, 65536, 1, name, 256, 'SQ_WAVES', 4.0, s + 7, e + 7) for name, s, e, n, _ in run()[0])
    (tmp_path / '4711_memory_allocation_trace.csv').write_text(
        '"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 2",1048576,"0x7f",1,1000000000,1000001000\n')
    report = analyze(tmp_path)
    assert len(report['ranks']) == 1 and report['ranks'][0]['kernels'] == alone['ranks'][0]['kernels']
    assert ask(path, COUNTED) == [{'n': calls, 'v': 4.0 * calls}]
    assert 'memory_allocation (1)' in ' '.join(i['text'] for f in report['inputs'] for i in f['issues'])


def test_counters_of_databases_and_json(analyze, ask, tmp_path):
    path, calls = rocpd(tmp_path / 'x_results.db'), len(run()[0])
    db = sqlite3.connect(path)
    db.execute('create table rocpd_info_pmc_0000a1b2_guid (id INTEGER PRIMARY KEY, name TEXT, symbol TEXT)')
    db.execute('create table rocpd_pmc_event_0000a1b2_guid (id INTEGER PRIMARY KEY, event_id INTEGER, pmc_id INTEGER, value REAL)')
    db.execute('create table rocpd_memory_allocate_0000a1b2_guid (id INTEGER PRIMARY KEY, "start" INTEGER, "end" INTEGER)')
    db.execute("insert into rocpd_info_pmc_0000a1b2_guid values (1, 'SQ_WAVES', '')")
    for event, in db.execute('select event_id from rocpd_kernel_dispatch_0000a1b2_guid').fetchall():
        db.executemany('insert into rocpd_pmc_event_0000a1b2_guid (event_id, pmc_id, value) values (?, 1, 2.0)', [(event,)] * 2)
    db.execute('insert into rocpd_memory_allocate_0000a1b2_guid ("start", "end") values (1, 2)')
    db.commit(), db.close()
    assert ask(path, COUNTED) == [{'n': calls, 'v': 4.0 * calls}]
    assert 'memory allocate (1)' in ' '.join(i['text'] for i in analyze(path)['inputs'][0]['issues'])
    document = rocprof_json()
    process, = document['rocprofiler-sdk-tool']
    process['metadata']['node'] = {'hostname': 'node7'}
    process['counters'] = [{'id': {'handle': 9}, 'name': 'SQ_WAVES'}]
    process['callback_records'] = {'counter_collection': [
        {'dispatch_data': {k: d[k] for k in ('dispatch_info', 'start_timestamp', 'end_timestamp', 'correlation_id')},
         'records': [{'counter_id': {'handle': 9}, 'value': 2.0}] * 2} for d in process['buffer_records']['kernel_dispatch']]}
    path = tmp_path / 'y_results.json'
    path.write_text(json.dumps(document))
    assert ask(path, COUNTED) == [{'n': calls, 'v': 4.0 * calls}]
    assert ask(path, "select count(*) n from activity where kind = 'kernel'") == [{'n': calls}]
    assert analyze(path)['ranks'][0]['host'] == 'node7'


def test_processes_in_one_json_number_their_calls_for_themselves(analyze, ask, tmp_path):
    document = rocprof_json()
    document['rocprofiler-sdk-tool'] *= 2
    path = tmp_path / 'x_results.json'
    path.write_text(json.dumps(document))
    assert ask(path, 'select count(*) n from activity where launch_id is null') == [{'n': 0}]
    assert 'without a kernel' not in ' '.join(i['text'] for f in analyze(path)['inputs'] for i in f['issues'])


def test_streams_and_queues_are_numbered_each_by_itself(analyze, ask, tmp_path):
    """Where records have streams, stream 0 is one of them, whatever its queue is called."""
    document = rocprof_json()
    dispatches = document['rocprofiler-sdk-tool'][0]['buffer_records']['kernel_dispatch']
    for i, dispatch in enumerate(dispatches):
        dispatch['stream_id'], dispatch['dispatch_info']['queue_id'] = {'handle': i % 2}, {'handle': 1}
    path = tmp_path / 'x_results.json'
    path.write_text(json.dumps(document))
    of_stream = "select stream, count(*) n from activity where kind = 'kernel' group by 1 order by 1"
    assert [r['n'] for r in ask(path, of_stream)] == [len(dispatches) - len(dispatches) // 2, len(dispatches) // 2]
    for dispatch in dispatches:
        dispatch['stream_id'] = {'handle': 0}
    path.write_text(json.dumps(document))
    assert ask(path, of_stream) == [{'stream': 1, 'n': len(dispatches)}]


STATS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'


def test_totals_by_name(analyze, ask, tmp_path):
    kernels = tmp_path / '38816_kernel_stats.csv'
    kernels.write_text(STATS + '"void gemm<float>(float*, int)",70,1000003,14285.757143,80.00,601,10656,1241.386133\n"softmax_kernel",30,250000,8333.333,20.00,6009,51117,6.7e+03\n')
    (tmp_path / '38816_memory_copy_stats.csv').write_text(STATS + '"MEMORY_COPY_HOST_TO_DEVICE",4,8002,2000.5,100.00,1,2,1.0\n')
    (tmp_path / '38816_hip_api_stats.csv').write_text(STATS + '"hipLaunchKernel",100,900000,9000.0,90.0,1,2,1.0\n"hipMemcpy",4,100000,25000,10.0,1,2,1.0\n')
    (tmp_path / '38816_domain_stats.csv').write_text(STATS + '"KERNEL_DISPATCH",100,1250003,12500.03,100.0,1,2,1.0\n')
    report = analyze(tmp_path)
    assert len(report['ranks']) == 1 and {i['path'] for i in report['inputs']} == {str(kernels)}
    assert 'have no timeline' in ' '.join(i['text'] for i in report['inputs'][0]['issues'])
    assert 'no timeline' in report['verdict'] and 'busy 100' not in json.dumps(report)
    assert all(f['severity'] == 'info' for f in report['findings'])
    assert {k['name']: (k['count'], k['total_ns']) for k in report['ranks'][0]['kernels'] if 'Memcpy' not in k['name']} == \
        {'void gemm<float>(float*, int)': (70, 1000003), 'softmax_kernel': (30, 250000)}
    assert ask(kernels, "select count(*) n, sum(duration_ns) t from activity where kind = 'memcpy'") == [{'n': 4, 't': 8002}]
    # Calls of an API alone; and records, beside which totals say nothing new.
    (tmp_path / 'api').mkdir()
    (tmp_path / '38816_hip_api_stats.csv').rename(tmp_path / 'api' / '38816_hip_api_stats.csv')
    assert ask(tmp_path / 'api', 'select name, count(*) n, sum(duration_ns) t from host group by 1 order by 1') == \
        [{'name': 'hipLaunchKernel', 'n': 100, 't': 900000}, {'name': 'hipMemcpy', 'n': 4, 't': 100000}]
    folder = tmp_path / 'both'
    folder.mkdir()
    alone = analyze(csv_files(folder))
    (folder / '4711_kernel_stats.csv').write_text(kernels.read_text())
    assert analyze(folder)['ranks'] == alone['ranks'] == analyze(folder / '4711_kernel_stats.csv')['ranks']


def test_no_tool_of_another_vendor(analyze, tmp_path):
    """Also where no file names the device."""
    path = tmp_path / '1_kernel_trace.csv'
    head = '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    path.write_text(head + ''.join(f'"KERNEL_DISPATCH","Agent 5",1,0,10,{i},9,"hot_kernel",{i},{i * 20000},{i * 20000 + 9000}\n' for i in range(1, 200)))
    text = json.dumps(analyze(path))
    assert 'rocprof' in text and 'ncu ' not in text and 'nsys profile' not in text.replace('nsys profile --trace=cuda, rocprofv3', '')


def test_streams_are_told_apart(ask, tmp_path):
    """Queues are shared by streams; stream 0 is one as well. Without streams, queues are what there is."""
    head = '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    for streams, expected in (((0, 1, 26), [0, 1, 26]), ((0, 0, 0), [1, 2])):
        path = tmp_path / f'{streams[1]}_kernel_trace.csv'
        path.write_text(head + ''.join(f'"KERNEL_DISPATCH","Agent 7",{1 + i % 2},{streams[i % 3]},10,{i},9,"k",{i},{i * 20000},{i * 20000 + 9000}\n' for i in range(1, 31)))
        assert [r['stream'] for r in ask(path, 'select distinct stream from activity order by 1')] == expected


def test_the_older_rocprofs_json(analyze, ask, tmp_path):
    def span(name, pid, begin, end, **args):
        return {'ph': 'X', 'name': name, 'pid': pid, 'tid': 123, 'ts': str(begin // 1000), 'dur': str((end - begin) // 1000),
                'args': {'BeginNs': str(begin), 'EndNs': str(end), 'pid': '123', 'tid': '123', **args}}
    rows = {2: '0 CPU HIP API', 6: '7 GPU0', 1: '1 COPY', 0: '1 Markers and Ranges'}
    events = [{'ph': 'M', 'name': 'process_name', 'pid': pid, 'args': {'name': name}} for pid, name in rows.items()]
    for at in range(1_000_000, 1_040_000, 10_000):
        events += [span('hipLaunchKernel', 2, at, at + 3000), span('void gemm<float>(float*, int)', 6, at + 4000, at + 9000, **{'dev-id': '0', 'queue-id': '0', 'stream-id': '1'})]
    events += [span('CopyHostToDevice', 1, 1_050_000, 1_060_000, **{'dev-id': '0'}), span('train', 0, 1_000_000, 1_070_000)]
    path = tmp_path / 'results.json'
    path.write_text(json.dumps({'traceEvents': events}))
    rows = ask(path, 'select name, count(*) n, sum(duration_ns) t from activity group by 1 order by 1')
    assert [(r['name'], r['n'], r['t']) for r in rows if 'gemm' in r['name']] == [('void gemm<float>(float*, int)', 4, 20000)]
    assert sum(r['n'] for r in rows) == 5
    assert ask(path, "select count(*) n, sum(duration_ns) t from host where name = 'hipLaunchKernel'") == [{'n': 4, 't': 12000}]
    path.write_text(path.read_text()[:-200])
    assert analyze(path)['inputs'][0]['issues']


def test_what_is_not_read_is_said(analyze, tmp_path):
    path = tmp_path / 'x_results.json'
    path.write_text(json.dumps(rocprof_json()))
    text = ' '.join(i['text'] for i in analyze(path)['inputs'][0]['issues'])
    assert 'scratch_memory (3)' in text and '% of all' in text


def test_processes_in_one_database_are_ranks(analyze, tmp_path):
    report = analyze(rocpd(tmp_path / 'merged.db', sets=('_a', '_b')))
    assert [r['rank'] for r in report['ranks']] == [0, 1]
    assert 'it does not say which rank each is' in ' '.join(i['text'] for f in report['inputs'] for i in f['issues'])


def test_cut_and_odd_ones(profgpu, tmp_path):
    whole = {'json': json.dumps(rocprof_json()).encode(), 'db': open(rocpd(tmp_path / 'whole.db'), 'rb').read()}
    for kind, data in whole.items():
        events = []
        for percent in (0, 5, 40, 70, 95, 99):
            folder = tmp_path / f'{kind}{percent}'
            folder.mkdir()
            (folder / f'x_results.{kind}').write_bytes(data[:len(data) * percent // 100])
            result = profgpu('analyze', folder / f'x_results.{kind}', '--json')
            assert os.listdir(folder) == [f'x_results.{kind}']
            if result.returncode == 0:
                report = json.loads(result.stdout)
                assert any(i['kind'] in ('truncated', 'damaged') for i in report['inputs'][0]['issues'])
                events.append(report['inputs'][0]['events'])
            else:
                assert result.returncode == 1 and result.stderr.startswith(b'profgpu: ')
        assert events == sorted(events) and events, kind
    odd = rocprof_json()
    records = odd['rocprofiler-sdk-tool'][0]['buffer_records']
    records['kernel_dispatch'][0].update(start_timestamp='soon')
    records['kernel_dispatch'][1].update(end_timestamp=-5)
    records['kernel_dispatch'][2].update(dispatch_info=[1, 2])
    records['hip_api'][0].update(kind=1 << 40, operation=-1)
    records['hip_api'].append('x')
    odd['rocprofiler-sdk-tool'][0]['kernel_symbols'][1]['formatted_kernel_name'] = '\x1b[31mred'
    path = tmp_path / 'odd_results.json'
    path.write_text(json.dumps(odd))
    result = profgpu('analyze', path)
    assert result.returncode == 0 and b'\x1b[31mred' not in result.stdout
    path.write_text('{"rocprofiler-sdk-tool": []}')
    assert profgpu('analyze', path).returncode == 1
    db = sqlite3.connect(tmp_path / 'hostile.db')
    db.executescript('create view rocpd_kernel_dispatch as with recursive n(i) as (select 1 union all select i + 1 from n) select i as start from n; '
                     'create table "rocpd_region""; drop table x; --" (start, "end"); create table rocpd_string (id, string)')
    db.close()
    assert profgpu('analyze', tmp_path / 'hostile.db').returncode == 1
