"""profgpu export: each format read by a reader that is not ours."""
import csv
import collections
import glob
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from conftest import ROOT, program

TRACES = sorted(glob.glob(os.path.join(ROOT, '..', 'shared', 'traces', '*.json*')))
DEMO = os.path.join(ROOT, 'examples', 'resnet-demo.json.gz')
REPLAY = os.path.join(ROOT, 'examples', 'replay.jsonl')
ANY = [*TRACES, DEMO]
# Reading a format in Python takes longer than writing it: of the long traces one has to do.
FEW = [t for t in ANY if os.path.getsize(t) < 500_000 or 'python-stacks' in t]
SIMULATED = [('--steps', '3', '--layers', '2'), ('--ranks', '3', '--steps', '3', '--layers', '2'),
             ('--windows', '2', '--steps', '3', '--layers', '2'), ('--graph', '--steps', '3'), ('--cpu-only', '--steps', '3'),
             ('--python-stacks', '--sync-rows', '--steps', '3', '--layers', '2'), ('--drop-kernels', '20', '--steps', '3')]
csv.field_size_limit(1 << 30)


@pytest.fixture
def export(profgpu, tmp_path):
    """export(path, format, *options) -> where it was written."""

    def run(path, form, *options):
        out = tmp_path / f'out.{form}'
        result = profgpu('export', str(path), '--to', form, '-o', out, '--quiet', *options, text=True)
        assert (result.returncode, result.stderr) == (0, '')
        assert [p.name for p in tmp_path.iterdir() if 'partial' in p.name] == []
        return out

    return run


def query(profgpu, path, sql):
    result = profgpu('query', str(path), sql, '--json', '--quiet', text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


TIMES = ('start_ns', 'end_ns', 'time_ns', 'peak_ns')


def from_start(value, start_ns):
    """The same with its times of the trace counted from there."""
    if isinstance(value, list):
        return [from_start(v, start_ns) for v in value]
    if not isinstance(value, dict):
        return value
    return {k: v - start_ns if k in TIMES and v is not None else from_start(v, start_ns) for k, v in value.items()}


def figures(document):
    """What analyze says, without what names the file, and with times from the first step on: an export begins its own at its first event."""
    for key in ('inputs', 'next'):
        del document[key]
    begin = document['ranks'][0]['steps'][0]['start_ns']
    document['ranks'] = [from_start(rank, rank['steps'][0]['start_ns']) for rank in document['ranks']]
    for rank in document['ranks']:
        rank['rank'] = 0
    for finding in document['findings']:
        finding['ranks'] = finding['seen']['rank'] = 0
        finding['seen'] = from_start(finding['seen'], begin)
    return document


COLUMNS = "select m.name as t, c.name from sqlite_schema m, pragma_table_info(m.name) c where m.type in ('table', 'view')"


# Chrome

@pytest.mark.parametrize('trace', ANY, ids=os.path.basename)
def test_chrome_comes_back_as_it_was(export, analyze, trace):
    out = export(trace, 'chrome')
    with open(out) as f:
        json.load(f)
    assert figures(analyze(out)) == figures(analyze(trace))


@pytest.mark.parametrize('options', [s for s in SIMULATED if '--ranks' not in s and '--windows' not in s], ids=' '.join)
def test_chrome_of_simulated_jobs(export, analyze, simulate, options):
    path = simulate(*options)
    out = export(path, 'chrome')
    assert figures(analyze(out)) == figures(analyze(path))


def test_chrome_of_several_windows_keeps_their_launches(export, simulate, profgpu):
    """Each window numbers its launches from one on."""
    path = simulate('--windows', '3', '--steps', '3', '--layers', '2')
    sql = 'select count(*) n, sum(latency_ns) t, count(distinct name) k from launches'
    assert query(profgpu, export(path, 'chrome'), sql) == query(profgpu, path, sql)


def test_chrome_of_several_ranks_keeps_them_apart(export, simulate, profgpu):
    path = simulate('--ranks', '3', '--steps', '3', '--layers', '2')
    with open(export(path, 'chrome')) as f:
        events = json.load(f)['traceEvents']
    assert all('args' in e for e in events if e['ph'] == 'M')
    kernels = [e for e in events if e.get('cat') == 'kernel']
    assert len(kernels) == query(profgpu, path, 'select count(*) n from kernels')[0]['n']
    assert len({e['pid'] for e in kernels}) == 3
    names = {e['args']['name'] for e in events if e['name'] == 'process_name'}
    assert all(any(name.startswith(f'rank {r} · ') for name in names) for r in range(3))
    flows = collections.Counter((e['id'], e['ph']) for e in events if e.get('cat') == 'ac2g' and e['ph'] == 's')
    places = {e['id']: e['pid'] for e in events if e.get('cat') == 'ac2g' and e['ph'] == 's'}
    assert flows and len({pid for pid in places.values()}) == 3


# SQLite

@pytest.mark.parametrize('trace', ANY, ids=os.path.basename)
def test_sqlite_has_the_rows_of_query(export, profgpu, trace):
    with sqlite3.connect(export(trace, 'sqlite')) as db:
        assert db.execute('pragma integrity_check').fetchall() == [('ok',)]
        columns = query(profgpu, trace, COLUMNS)
        assert len(columns) > 200
        there = set(db.execute(COLUMNS))
        assert {(c['t'], c['name']) for c in columns} <= there
        assert {t for t, _ in there} >= {c['t'] for c in columns}
        assert not {(t, n) for t, n in there if t in {c['t'] for c in columns}} - {(c['t'], c['name']) for c in columns}
        sql = ' union all '.join(f'select * from (select {numbers} from {table})' for table, numbers in (
            ('activity', 'count(*), sum(duration_ns), min(start_ns), sum(op_id), sum(launch_id), count(distinct name)'),
            ('host', 'count(*), sum(duration_ns), min(start_ns), sum(parent_id), sum(flops), count(distinct shapes)'),
            ('gaps', 'count(*), sum(duration_ns), count(distinct cause), count(distinct after), sum(host_id), min(start_ns)'),
            ('ops_by_name', 'count(*), sum(cpu_self_ns), sum(device_total_ns), min(name), max(name), sum(calls)'),
            ('memory_events', 'count(*), sum(bytes), min(time_ns), max(time_ns), max(allocated_bytes), max(reserved_bytes)')))
        assert db.execute(sql).fetchall() == [tuple(r.values()) for r in query(profgpu, trace, sql)]


@pytest.mark.parametrize('trace', FEW, ids=os.path.basename)
def test_queries_for_nsight_run(export, analyze, trace):
    """Queries of the shape that scripts for Nsight Systems' exports have."""
    document = analyze(trace)['ranks'][0]
    kernels, copies = ([k for k in document['kernels'] if (k['name'].startswith('Mem')) == memory] for memory in (False, True))
    with sqlite3.connect(export(trace, 'sqlite')) as db:
        tables = {n for n, in db.execute("select name from sqlite_schema where type = 'table'")}
        assert ('CUPTI_ACTIVITY_KIND_KERNEL' in tables) == bool(kernels)
        if not kernels:
            return
        rows = db.execute('''SELECT k.deviceId, s.value, COUNT(*), SUM(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
                             JOIN StringIds AS s ON s.id = k.demangledName GROUP BY 1, 2''').fetchall()
        assert {(d, n): (c, t) for d, n, c, t in rows} == {(k['device'], k['name']): (k['count'], k['total_ns']) for k in kernels}
        moved = 0
        for table in ('CUPTI_ACTIVITY_KIND_MEMCPY', 'CUPTI_ACTIVITY_KIND_MEMSET'):
            if table in tables:
                moved += db.execute(f'SELECT SUM(end - start) FROM {table}').fetchone()[0]
        assert moved == sum(k['total_ns'] for k in copies)
        if 'CUPTI_ACTIVITY_KIND_RUNTIME' not in tables:
            return
        # Each process has its own numbers of launches.
        linked = db.execute('''SELECT COUNT(DISTINCT r.correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r
                               JOIN CUPTI_ACTIVITY_KIND_KERNEL AS k ON k.correlationId = r.correlationId AND k.correlationId <> 0
                               AND r.globalTid / 0x1000000 = k.globalPid / 0x1000000''').fetchone()[0]
        launching = db.execute("SELECT COUNT(DISTINCT correlation) FROM launches AS l JOIN activity AS a ON a.rank = l.rank AND "
                               "a.id = l.activity_id WHERE l.kind = 'kernel'").fetchone()[0]
        assert linked == launching
        if 'NVTX_EVENTS' in tables:
            nvtx = db.execute('SELECT COUNT(*) FROM NVTX_EVENTS WHERE eventType = 59 AND end >= start').fetchone()[0]
            assert nvtx == db.execute("SELECT COUNT(*) FROM host WHERE kind IN ('op', 'annotation')").fetchone()[0]


def test_copies_have_their_kinds(export):
    with sqlite3.connect(export(DEMO, 'sqlite')) as db:
        rows = db.execute('''SELECT o.label, a.label, b.label, SUM(m.bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY AS m
                             JOIN ENUM_CUDA_MEMCPY_OPER AS o ON o.id = m.copyKind
                             JOIN ENUM_CUDA_MEM_KIND AS a ON a.id = m.srcKind
                             JOIN ENUM_CUDA_MEM_KIND AS b ON b.id = m.dstKind GROUP BY 1, 2, 3''').fetchall()
        assert ('Host-to-Device', 'Pageable', 'Device') in [r[:3] for r in rows]
        assert sum(r[3] for r in rows) == db.execute('SELECT SUM(bytes) FROM copies WHERE kind = \'memcpy\'').fetchone()[0]
        tid = db.execute('''SELECT DISTINCT globalTid / 0x1000000 % 0x1000000, globalTid % 0x1000000
                            FROM CUPTI_ACTIVITY_KIND_RUNTIME''').fetchall()
        threads = db.execute('SELECT process, thread FROM threads').fetchall()
        assert {tuple(map(str, t)) for t in tid} <= set(threads)


def test_sqlite_of_several_ranks(export, simulate, profgpu):
    path = simulate('--ranks', '3', '--steps', '3', '--layers', '2')
    with sqlite3.connect(export(path, 'sqlite')) as db:
        assert db.execute('SELECT rank, count(*) FROM kernels GROUP BY rank').fetchall() == \
            [(r['rank'], r['n']) for r in query(profgpu, path, 'select rank, count(*) n from kernels group by rank')]
        assert db.execute('SELECT COUNT(DISTINCT globalPid) FROM CUPTI_ACTIVITY_KIND_KERNEL').fetchone()[0] == 3


# CSV

@pytest.mark.parametrize('trace', [DEMO, *FEW[:4]], ids=os.path.basename)
def test_csv_has_every_row(export, profgpu, trace):
    folder = export(trace, 'csv')
    tables = sorted(path.stem for path in folder.iterdir())
    counts = query(profgpu, trace, ' union all '.join(f"select '{t}' as t, count(*) as n from {t}" for t in tables))
    for row in counts:
        with open(folder / f'{row["t"]}.csv', newline='') as f:
            rows = list(csv.reader(f))
        assert all(len(r) == len(rows[0]) for r in rows)
        assert len(rows) - 1 == row['n'] > 0, row
    with open(folder / 'host.csv', newline='') as f:
        total = sum(int(r['duration_ns']) for r in csv.DictReader(f))
    assert total == query(profgpu, trace, 'select sum(duration_ns) n from host')[0]['n']


def test_one_table_goes_to_a_stream(profgpu):
    result = profgpu('export', DEMO, '--to', 'csv', '--table', 'steps', '-o', '-', text=True)
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert result.stderr == '' and [r['name'] for r in rows] == [f'ProfilerStep#{n}' for n in range(5, 12)]


# Flame graphs

def check_speedscope(path):
    """The rules of its published schema: kinds of profiles, frames in range, events in order and balanced."""
    with open(path) as f:
        document = json.load(f)
    assert document['$schema'] == 'https://www.speedscope.app/file-format-schema.json'
    frames = document['shared']['frames']
    assert all(isinstance(f['name'], str) for f in frames)
    for profile in document['profiles']:
        assert profile['unit'] == 'nanoseconds' and profile['name'] and profile['startValue'] <= profile['endValue']
        if profile['type'] == 'evented':
            stack, last = [], profile['startValue']
            for e in profile['events']:
                assert last <= e['at'] <= profile['endValue']
                last = e['at']
                if e['type'] == 'O':
                    stack.append(e['frame'])
                else:
                    assert e['type'] == 'C' and stack.pop() == e['frame']
            assert stack == []
        else:
            assert profile['type'] == 'sampled' and len(profile['samples']) == len(profile['weights'])
            assert all(0 <= f < len(frames) for s in profile['samples'] for f in s)
            assert sum(profile['weights']) == profile['endValue'] - profile['startValue']
    return document


@pytest.mark.parametrize('trace', FEW, ids=os.path.basename)
def test_speedscope(export, profgpu, trace):
    document = check_speedscope(export(trace, 'speedscope'))
    assert len(document['profiles']) == query(profgpu, trace, 'select count(*) n from threads where ranges > 0')[0]['n']
    document = check_speedscope(export(trace, 'speedscope', '--weight', 'device'))
    totals = query(profgpu, trace, 'select device, sum(duration_ns) t from activity group by 1 order by 1')
    assert [p['endValue'] for p in document['profiles']] == [r['t'] for r in totals]


def folded(path):
    lines = []
    with open(path, encoding='utf-8') as f:
        for line in f.read().split('\n')[:-1]:
            stack, _, weight = line.rpartition(' ')
            lines.append((stack.split(';'), int(weight)))
    return lines


@pytest.mark.parametrize('trace', FEW, ids=os.path.basename)
def test_folded_stacks_add_up(export, profgpu, trace):
    device = folded(export(trace, 'folded', '--weight', 'device'))
    totals = {r['name']: r['t'] for r in query(profgpu, trace, 'select name, sum(duration_ns) t from activity group by 1')}
    by_leaf = collections.Counter()
    for stack, weight in device:
        by_leaf[stack[-1]] += weight
    assert {n.replace(';', ':'): t for n, t in totals.items() if t} == dict(by_leaf)
    host = folded(export(trace, 'folded'))
    assert len({tuple(s) for s, _ in host}) == len(host)
    ops = {r['name']: r for r in query(profgpu, trace, 'select name, cpu_total_ns from ops_by_name')}
    recursive, total = set(), collections.Counter()
    for stack, weight in host:
        for name in set(stack):
            total[name] += weight
            if stack.count(name) > 1:
                recursive.add(name)
    several = {r['name'] for r in query(profgpu, trace, 'select name from host group by name having count(distinct kind) > 1')}
    # Calls that overlap on one thread without one holding the other take more than the call around them has.
    overfull = {r['name'] for r in query(profgpu, trace, '''
        with recursive around(id) as (
            select p.id from host p join host c on c.parent_id = p.id group by p.id having sum(c.duration_ns) > p.duration_ns
            union select h.parent_id from host h join around using (id) where h.parent_id is not null)
        select distinct name from host join around using (id)''')}
    checked = 0
    for name, row in ops.items():
        if name.replace(';', ':') != name or name in recursive or name in several or name in overfull or name.endswith('*'):
            continue
        assert total[name] == row['cpu_total_ns'], name
        checked += 1
    assert checked > 0 or not ops


def test_folded_of_several_ranks_says_whose(export, simulate):
    lines = folded(export(simulate('--ranks', '3', '--steps', '3', '--layers', '2'), 'folded'))
    assert {stack[0] for stack, _ in lines} == {'rank 0', 'rank 1', 'rank 2'}


# Perfetto

@pytest.fixture(scope='session')
def perfetto_trace():
    """The published format, as the package of Perfetto's own Python bindings has it."""
    return pytest.importorskip('perfetto.protos.perfetto.trace.perfetto_trace_pb2').Trace


class Perfetto:
    """What a trace says, by the rules of the format: interned names, a stack of slices on each track."""

    def __init__(self, trace_class, path):
        trace = trace_class()
        trace.ParseFromString(path.read_bytes())
        self.tracks, self.slices, self.values = {}, [], []
        names = collections.defaultdict(dict)
        open_slices = collections.defaultdict(list)
        first = True
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            if first:
                assert packet.sequence_flags == 1
            first = False
            for kind in ('event_categories', 'event_names', 'debug_annotation_names', 'debug_annotation_string_values'):
                for row in getattr(packet.interned_data, kind):
                    assert row.iid not in names[kind]
                    names[kind][row.iid] = row.str if kind.endswith('values') else row.name
            if packet.HasField('track_descriptor'):
                d = packet.track_descriptor
                assert d.uuid not in self.tracks and (not d.parent_uuid or d.parent_uuid in self.tracks)
                self.tracks[d.uuid] = d
            if not packet.HasField('track_event'):
                continue
            assert packet.sequence_flags == 2 and packet.timestamp > 0
            e = packet.track_event
            assert e.track_uuid in self.tracks
            if e.type == 1:
                arguments = {}
                for a in e.debug_annotations:
                    key = names['debug_annotation_names'][a.name_iid]
                    arguments[key] = names['debug_annotation_string_values'][a.string_value_iid].decode() \
                        if a.string_value_iid else a.int_value
                stack = open_slices[e.track_uuid]
                assert not stack or stack[-1]['start'] <= packet.timestamp
                s = {'start': packet.timestamp, 'name': names['event_names'][e.name_iid], 'args': arguments,
                     'category': names['event_categories'][e.category_iids[0]], 'flows': list(e.flow_ids), 'track': e.track_uuid}
                stack.append(s)
                self.slices.append(s)
            elif e.type == 2:
                s = open_slices[e.track_uuid].pop()
                s['duration'] = packet.timestamp - s['start']
                assert s['duration'] >= 0
            else:
                assert e.type == 4
                self.values.append((e.track_uuid, packet.timestamp, e.double_counter_value))
        assert not any(open_slices.values())


@pytest.mark.parametrize('trace', FEW, ids=os.path.basename)
def test_perfetto(export, profgpu, perfetto_trace, trace):
    read = Perfetto(perfetto_trace, export(trace, 'perfetto'))
    rows = query(profgpu, trace, 'select name, kind, duration_ns, correlation from activity')
    device = [s for s in read.slices if s['category'] in ('kernel', 'memcpy', 'memset')]
    key = lambda *v: tuple(map(str, v))
    assert sorted(key(s['name'], s['category'], s['duration'], s['args'].get('correlation')) for s in device) == \
        sorted(key(r['name'], r['kind'], r['duration_ns'], r['correlation']) for r in rows)
    host = query(profgpu, trace, 'select name, kind, duration_ns, start_ns, shapes from host')
    ours = [s for s in read.slices if s['category'] in ('op', 'annotation', 'python', 'runtime', 'driver', 'overhead')]
    assert sorted(key(s['name'], s['category'], s['duration'], s['args'].get('shapes')) for s in ours) == \
        sorted(key(r['name'], r['kind'], r['duration_ns'], r['shapes']) for r in host)
    if host:
        first = min(s['start'] for s in ours)
        low = min(r['start_ns'] for r in host)
        assert sorted(s['start'] - first for s in ours) == sorted(r['start_ns'] - low for r in host)
    # Every launch and what it launched have a flow in common, and nobody else has it.
    calls = {f for s in read.slices if s['category'] in ('runtime', 'driver') for f in s['flows']}
    launched = collections.Counter(f for s in device for f in s['flows'])
    assert calls == set(launched)
    assert sum(launched.values()) == query(profgpu, trace, 'select count(*) n from launches')[0]['n']
    gaps = [s for s in read.slices if s['category'] == 'idle']
    assert sum(s['duration'] for s in gaps) == (query(profgpu, trace, 'select sum(duration_ns) n from gaps')[0]['n'] or 0)
    steps = [s['name'] for s in read.slices if s['category'] == 'step']
    assert steps == [r['name'] for r in query(profgpu, trace, 'select name from steps')]


def test_perfetto_decodes_without_a_schema(export):
    if shutil.which('protoc') is None:
        pytest.skip('protoc is not installed')
    with open(export(DEMO, 'perfetto'), 'rb') as f:
        text = subprocess.run(['protoc', '--decode_raw'], stdin=f, capture_output=True, check=True).stdout
    assert text.startswith(b'1 {')


def test_perfetto_of_several_ranks_and_of_samples(export, simulate, perfetto_trace):
    read = Perfetto(perfetto_trace, export(simulate('--ranks', '3', '--steps', '3', '--layers', '2'), 'perfetto'))
    names = {t.name or t.process.process_name for t in read.tracks.values()}
    assert all(any(n.startswith(f'rank {r} · ') for n in names) for r in range(3))
    assert len({t.process.pid for t in read.tracks.values() if t.HasField('process')}) >= 3
    read = Perfetto(perfetto_trace, export(REPLAY, 'perfetto'))
    assert read.values and not read.slices


# What can go wrong

@pytest.mark.parametrize('form', ['perfetto', 'chrome', 'sqlite', 'csv', 'speedscope', 'folded'])
@pytest.mark.parametrize('options', SIMULATED, ids=' '.join)
def test_every_format_takes_every_job(export, simulate, form, options):
    out = export(simulate(*options), form)
    assert out.is_dir() or out.stat().st_size > 0


@pytest.mark.parametrize('form', ['perfetto', 'chrome', 'sqlite', 'csv', 'speedscope', 'folded'])
def test_hostile_names(export, profgpu, perfetto_trace, tmp_path, form):
    name = 'a"b\',;\n\t\x1b[31m\u202e</script>%s\\\ud83d\ude00'.encode('utf-16', 'surrogatepass').decode('utf-16')
    path = tmp_path / 'hostile.json'
    path.write_text(json.dumps({'schemaVersion': 1, 'note': name, 'traceEvents': [
        {'ph': 'M', 'name': 'thread_name', 'pid': 'x"y', 'tid': 'main, "1"', 'args': {'name': name}},
        {'ph': 'X', 'cat': 'cpu_op', 'name': name, 'pid': 'x"y', 'tid': 'main, "1"', 'ts': 1, 'dur': 5,
         'args': {'Input Dims': 'not [json', 'External id': 3}},
        {'ph': 'X', 'cat': 'cpu_op', 'name': '', 'pid': 'x"y', 'tid': 'main, "1"', 'ts': 1, 'dur': 5},
        {'ph': 'X', 'cat': 'kernel', 'name': name, 'pid': 0, 'tid': 7, 'ts': -2, 'dur': 3, 'args': {'device': 0, 'stream': 7}}]}))
    out = export(path, form)
    if form == 'chrome':
        with open(out) as f:
            assert sum(e['name'] == name for e in json.load(f)['traceEvents']) == 2
        assert query(profgpu, out, 'select name from kernels') == [{'name': name}]
    elif form == 'sqlite':
        with sqlite3.connect(out) as db:
            assert db.execute('select name from kernels').fetchall() == [(name,)]
    elif form == 'csv':
        with open(out / 'activity.csv', newline='') as f:
            assert [r['name'] for r in csv.DictReader(f)] == [name]
    elif form == 'speedscope':
        assert name in [f['name'] for f in check_speedscope(out)['shared']['frames']]
    elif form == 'folded':
        assert all(len(s) <= 3 for s, _ in folded(out))
    else:
        assert name in [s['name'] for s in Perfetto(perfetto_trace, out).slices]


@pytest.mark.parametrize('form', ['chrome', 'speedscope', 'folded'])
def test_samples_alone_are_no_timeline(profgpu, tmp_path, form):
    result = profgpu('export', REPLAY, '--to', form, '-o', tmp_path / 'out', text=True)
    assert result.returncode == 1 and 'only samples' in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_csv_of_samples(export):
    with open(export(REPLAY, 'csv') / 'samples.csv', newline='') as f:
        assert {'utilization_pct', 'power_w'} <= {r['metric'] for r in csv.DictReader(f)}


@pytest.mark.parametrize('form', ['perfetto', 'chrome', 'sqlite', 'csv', 'speedscope', 'folded'])
def test_targets_that_cannot_be_written(profgpu, tmp_path, form):
    blocked = tmp_path / 'file'
    blocked.write_text('')
    result = profgpu('export', DEMO, '--to', form, '-o', blocked / 'below', text=True)
    assert result.returncode == 1 and str(blocked) in result.stderr and 'cannot be written' in result.stderr
    assert blocked.read_text() == ''
    if form == 'csv':
        return
    full = profgpu('export', DEMO, '--to', form, '-o', '/dev/full', text=True)
    assert full.returncode == 1 and '/dev/full' in full.stderr
    assert [p.name for p in tmp_path.iterdir()] == ['file']


def test_a_full_disk(profgpu, tmp_path):
    """A limit on file sizes stands for the disk."""
    for form in ('sqlite', 'perfetto'):
        result = subprocess.run(['bash', '-c', 'trap "" XFSZ; ulimit -f 100; exec "$0" "$@"', program('PROFGPU', 'profgpu'), 'export', DEMO, '--to',
                                 form, '-o', str(tmp_path / 'out')], capture_output=True, text=True)
        assert result.returncode == 1 and 'cannot be written' in result.stderr, form
        assert list(tmp_path.iterdir()) == []


def test_a_name_of_our_own_replaces_nothing(profgpu, tmp_path):
    trace = tmp_path / 'trace.json.gz'
    shutil.copy(DEMO, trace)
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        assert profgpu('export', trace, '--to', 'folded', '--quiet').returncode == 0
        assert (tmp_path / 'trace.folded').exists()
        again = profgpu('export', trace, '--to', 'folded', text=True)
        assert again.returncode == 2 and 'exists' in again.stderr
        assert profgpu('export', trace, '--to', 'folded', '-o', 'trace.folded').returncode == 0
        assert profgpu('export', trace, '--to', 'csv', '--quiet').returncode == 0
        assert (tmp_path / 'trace-csv' / 'steps.csv').exists()
    finally:
        os.chdir(here)
    assert profgpu('export', trace, '--to', 'csv', '-o', tmp_path).returncode == 2
    onto_itself = profgpu('export', trace, '--to', 'chrome', '-o', trace, text=True)
    assert onto_itself.returncode == 2 and 'is an input file' in onto_itself.stderr


@pytest.mark.parametrize('words, says', [
    ((), '--to FORMAT is missing'),
    (('--to', 'perfeto'), 'perfetto'),
    (('--to', 'sqlite', '-o', '-'), 'cannot be written to standard output'),
    (('--to', 'csv', '-o', '-'), '--table'),
    (('--to', 'csv', '--table', 'kernel_by_name'), 'kernels_by_name'),
    (('--to', 'folded', '--table', 'host'), '--table needs --to csv'),
    (('--to', 'perfetto', '--weight', 'device'), '--weight needs --to folded'),
])
def test_usage(profgpu, words, says):
    result = profgpu('export', DEMO, *words, text=True)
    assert result.returncode == 2 and says in result.stderr


def test_a_cut_trace_is_exported_as_far_as_it_goes(profgpu, simulate, tmp_path):
    cut = tmp_path / 'cut.json'
    text = simulate('--steps', '3', '--layers', '2').read_bytes()
    cut.write_bytes(text[:len(text) * 2 // 3])
    result = profgpu('export', cut, '--to', 'chrome', '-o', tmp_path / 'out', text=True)
    assert result.returncode == 0 and 'cut.json ends in the middle' in result.stderr
    count = 'select count(*) n from host'
    assert query(profgpu, tmp_path / 'out', count) == query(profgpu, cut, count) != [{'n': 0}]
    assert 'cut.json ends in the middle' in profgpu('query', cut, count, text=True).stderr


def test_a_trace_without_events(profgpu, tmp_path):
    path = tmp_path / 'empty.json'
    path.write_text('{"schemaVersion": 1, "traceEvents": []}')
    for form in ('perfetto', 'chrome', 'sqlite', 'csv', 'speedscope', 'folded'):
        result = profgpu('export', path, '--to', form, '-o', tmp_path / f'out.{form}', text=True)
        assert result.returncode in (0, 1) and 'Traceback' not in result.stderr
        assert result.returncode == 0 or 'empty.json' in result.stderr


def test_an_interrupted_export_leaves_nothing(profgpu, simulate, tmp_path):
    path = simulate('--steps', '10')
    for words in (('export', str(path), '--to', 'sqlite', '-o', str(tmp_path / 'out')),
                  ('query', str(path), 'select count(*) from host a, host b, host c', '-o', str(tmp_path / 'out'))):
        child = subprocess.Popen([program('PROFGPU', 'profgpu'), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while not list(tmp_path.iterdir()) and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=60) == 130
        assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves_is_no_error(simulate):
    child = subprocess.Popen([program('PROFGPU', 'profgpu'), 'export', str(simulate('--steps', '10')), '--to', 'chrome', '-o', '-'],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.read(1000)
    child.stdout.close()
    assert child.wait(timeout=60) == 0
    assert child.stderr.read() == b''
