"""Traces of JAX' and TensorFlow's profiler, Chrome JSON and XPlane: both say the same of one run, and what a plain sum says; cut and hostile ones."""
import collections
import gzip
import json
import random

import pytest
import xla_writer


def summed(rows):
    out = collections.defaultdict(lambda: [0, 0])
    for name, duration in rows:
        out[name][0] += 1
        out[name][1] += duration
    return {k: tuple(v) for k, v in out.items()}


def ns(ps):
    return (ps + 500) // 1000


@pytest.fixture(scope='session')
def ask(profgpu):
    def run_query(path, sql):
        result = profgpu('query', path, sql, '--json', '--quiet', text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run_query


@pytest.fixture(params=('json', 'xplane', 'xplane.gz'))
def output(request, tmp_path):
    return xla_writer.write(tmp_path, request.param)


def of_lines(*names):
    return [r for r in xla_writer.run() if r[0][2].split('(')[0] in names]


def test_counts_and_totals(ask, output):
    def of(table, where):
        return {r['name']: (r['n'], r['t']) for r in ask(output, f'select name, count(*) n, sum(duration_ns) t from {table} where {where} group by 1')}
    stream, host = of_lines('Stream #7'), of_lines('python')
    assert of('activity', "kind = 'kernel'") == summed((r[1], ns(r[3])) for r in stream if r[1] != 'MemcpyH2D')
    assert of('activity', "kind = 'memcpy'") == {'Memcpy HtoD (Pinned -> Device)': summed(('c', ns(r[3])) for r in stream if r[1] == 'MemcpyH2D')['c']}
    assert of('host', "kind = 'driver'") == summed((r[1], ns(r[3])) for r in host if r[1].startswith('cu'))
    assert of('host', "kind = 'python'") == {'train.py(12): loss': (4, 4 * 90_000), '<built-in function len>': (4, 4000)}
    assert of('host', "kind = 'annotation' and name like 'step %'") == summed((f'step {r[4]["step_num"]}', ns(r[3])) for r in host if r[1] == 'train')
    assert ask(output, 'select sum(bytes) b from activity') == [{'b': xla_writer.STEPS * 4096}]
    assert ask(output, "select distinct grid_x, grid_y, block_x, registers, shared_bytes from activity where kind = 'kernel'") == \
        [{'grid_x': 128, 'grid_y': 2, 'block_x': 256, 'registers': 32, 'shared_bytes': 1536}]
    launched = "select count(*) n from activity a join host h on a.launch_id = h.id and h.kind = 'driver'"
    assert ask(output, launched) == [{'n': len(stream)}], 'each has the call that launched it'


def test_the_report_has_steps_and_a_device(analyze, output):
    report = analyze(output)
    rank, = report['ranks']
    assert [s['name'] for s in rank['steps']] == [f'step {i}' for i in range(xla_writer.STEPS)]
    device, = rank['devices']
    busy = sum(ns(r[3]) for r in of_lines('Stream #7'))
    assert device['busy_ns'] == busy
    assert device['name'] == ('' if output.name.endswith('json.gz') else 'NVIDIA H100 80GB HBM3') or device['name'] is None
    source, = report['inputs']
    assert source['format'] == ('xla-json' if output.name.endswith('json.gz') else 'xplane')
    views = [i for i in source['issues'] if i['count'] == 3 * xla_writer.STEPS]
    assert views and 'XLA Modules' in views[0]['text']


def test_a_tpu_has_its_operations_as_work(ask, tmp_path):
    tpu = lambda line, number: ('/device:TPU:1', number, line)   # noqa: E731
    rows = [(tpu('XLA Ops', 3), 'fusion.7', 1_000_000, 5_000_000, {}), (tpu('XLA Ops', 3), 'copy.1', 7_000_000, 2_000_000, {}),
            (tpu('Steps', 1), '17', 0, 10_000_000, {}), (tpu('XLA Modules', 2), 'jit_f', 0, 10_000_000, {})]
    (tmp_path / 'a.xplane.pb').write_bytes(xla_writer.xplane(rows))
    (tmp_path / 'b.trace.json').write_bytes(xla_writer.chrome(rows))
    for name in ('a.xplane.pb', 'b.trace.json'):
        assert ask(tmp_path / name, 'select device, name, duration_ns from activity order by start_ns') == \
            [{'device': 1, 'name': 'fusion.7', 'duration_ns': 5000}, {'device': 1, 'name': 'copy.1', 'duration_ns': 2000}]
        assert ask(tmp_path / name, 'select name, duration_ns from host') == [{'name': 'step 17', 'duration_ns': 10_000}]


def test_what_contains_operations_and_what_communicates(analyze, ask, tmp_path):
    tpu = ('/device:TPU:0', 3, 'XLA Ops')
    rows = [(tpu, 'fusion.1', 0, 6_000_000, {'hlo_category': 'convolution fusion'}), (tpu, 'all-reduce.7', 6_000_000, 2_000_000, {'hlo_category': 'all-reduce'}),
            (tpu, 'while.5', 8_000_000, 1_500_000, {'hlo_category': 'while'}), (tpu, 'multiply.9', 8_100_000, 1_200_000, {}),
            (tpu, 'fusion.8', 10_000_000, 500_000, {'hlo_category': 'all-gather fusion'})]
    (tmp_path / 'a.xplane.pb').write_bytes(xla_writer.xplane(rows, plane_stats=False))
    (tmp_path / 'b.trace.json').write_bytes(xla_writer.chrome(rows))
    for name in ('a.xplane.pb', 'b.trace.json'):
        assert [r['name'] for r in ask(tmp_path / name, 'select name from activity order by start_ns')] == \
            ['convolution: fusion.1', 'all-reduce.7', 'multiply.9', 'all-gather: fusion.8']
        report = analyze(tmp_path / name)
        assert report['ranks'][0]['devices'][0]['communication_ns'] == 2500 and report['ranks'][0]['devices'][0]['name'] == 'TPU'
        text = json.dumps(report)
        assert 'operations that contain others' in text and 'ncu --set' not in text and 'torch.compile' not in json.dumps(report['findings'])


def test_what_the_profiler_says_of_itself(analyze, tmp_path):
    space = xla_writer.xplane() + xla_writer.text(2, 'CUPTI_ERROR_INSUFFICIENT_PRIVILEGES') + xla_writer.text(3, 'Dropped 7 events') + xla_writer.text(4, 'node3')
    (tmp_path / 'a.xplane.pb').write_bytes(space)
    report = analyze(tmp_path / 'a.xplane.pb')
    issues = ' | '.join(i['text'] for i in report['inputs'][0]['issues'])
    assert 'reports an error: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES' in issues and 'warns: Dropped 7 events' in issues
    assert report['ranks'][0]['host'] == 'node3' and 'with_stack' not in json.dumps(report)


def test_two_texts_of_a_profile_are_one(analyze, tmp_path):
    for name in ('node0.trace.json.gz', 'perfetto_trace.json.gz'):
        (tmp_path / name).write_bytes(gzip.compress(xla_writer.chrome(), mtime=0))
    report = analyze(tmp_path)
    assert len(report['ranks']) == 1 and 'the .trace.json.gz beside it is read' in json.dumps(report)


def test_a_folder_of_the_profiler_is_read_once(analyze, tmp_path):
    for kind in ('json', 'xplane'):
        xla_writer.write(tmp_path, kind)
    report = analyze(tmp_path)
    assert [i['format'] for i in report['inputs']] == ['xplane'] and len(report['ranks']) == 1
    assert any('trace.json.gz' in i['text'] for i in report['inputs'][0]['issues'])


def test_the_third_copy_of_a_profile_is_left_out(analyze, tmp_path):
    xla_writer.write(tmp_path, 'xplane')
    xla_writer.write(tmp_path, 'json').rename(tmp_path / 'perfetto_trace.json.gz')
    report = analyze(tmp_path)
    assert [i['format'] for i in report['inputs']] == ['xplane'] and len(report['ranks']) == 1
    (tmp_path / 'host.xplane.pb').unlink()
    assert [i['format'] for i in analyze(tmp_path)['inputs']] == ['xla-json']


def test_statistics_of_all_events_of_a_kind(ask, tmp_path):
    """An event's own statistic comes first; that of its kind is for those without. Kinds of two planes have the same numbers."""
    number, text = xla_writer.number, xla_writer.text

    def plane(name, value):
        own = text(4, number(1, 1) + number(4, 7))
        events = b''.join(text(4, number(1, 1) + number(2, i * 10_000_000) + number(3, 5_000_000) + (own if i == 0 else b'')) for i in range(3))
        kind = number(1, 1) + text(2, 'train') + text(5, number(1, 2) + text(5, 'x' * 100)) + text(5, number(4, value) + number(1, 1))   # value before name
        stats = b''.join(text(5, number(1, i) + text(2, number(1, i) + text(2, n))) for i, n in ((1, 'step_num'), (2, 'other')))
        return text(1, number(1, 1) + text(2, name) + text(3, number(1, 7) + text(2, name) + number(3, 0) + events) + text(4, number(1, 1) + text(2, kind)) + stats)

    (tmp_path / 'a.xplane.pb').write_bytes(plane('/host:CPU', 30) + plane('/host:other', 40))
    rows = ask(tmp_path / 'a.xplane.pb', 'select h.name, count(*) n from host h group by 1 order by 1')
    assert rows == [{'name': 'step 30', 'n': 2}, {'name': 'step 40', 'n': 2}, {'name': 'step 7', 'n': 2}]


@pytest.mark.parametrize('kind', ('json', 'xplane'))
def test_cut_and_damaged_files(profgpu, tmp_path, kind):
    whole = xla_writer.chrome() if kind == 'json' else xla_writer.xplane()
    path = tmp_path / 'cut'
    chance = random.Random(kind)
    for _ in range(25):
        data = bytearray(whole[:chance.randrange(len(whole))])
        for _ in range(chance.randrange(4)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        result = profgpu('analyze', path, '--json', text=True)
        assert result.returncode == 0 or result.stderr.startswith('profgpu: ')
    path.write_bytes(whole[:len(whole) * 2 // 3])
    result = profgpu('analyze', path, '--json')
    assert result.returncode == 0 and any(i['kind'] == 'truncated' for i in json.loads(result.stdout)['inputs'][0]['issues'])


def test_hostile_numbers(profgpu, tmp_path):
    host = ('/host:CPU', 1, 'python')
    rows = [(host, 'good', 0, 1_000_000, {}), (host, 'late', (1 << 63) - 1, 5, {}), (host, 'negative', 5, -5_000_000, {}), (host, 'long', 0, (1 << 62), {}),
            (('/device:GPU:99999999999', 3, 'Stream #99999999999999999999'), 'k', 5, 5_000, {'kernel_details': 'grid:-1,9999999999999999999 regs:x block:'})]
    path = tmp_path / 'hostile.xplane.pb'
    path.write_bytes(xla_writer.xplane(rows))
    result = profgpu('analyze', path, '--json')
    assert result.returncode == 0
    issues = {i['kind']: i['count'] for i in json.loads(result.stdout)['inputs'][0]['issues']}
    assert issues['negative_duration'] == 1 and issues['out_of_range'] >= 1


@pytest.mark.parametrize('text', (
    '{"traceEvents": [{"ph":"M","pid":1,"name":"process_name","args":{"name":"/host:CPU"}}, {"ph":"X","pid":{},"tid":[],"ts":"x","dur":null,"name":7}]}',
    '{"traceEvents": [{"ph":"M","pid":1,"name":"process_name","args":{"name":"/host:CPU"}}, 5, "x", {"ph":"X","pid":1,"tid":1,"ts":1e300,"dur":1,"name":"a"}]}',
    '{"traceEvents": {"ph":"M","pid":1,"name":"process_name","args":{"name":"/host:CPU"}}}'))
def test_wrong_types_are_an_error_with_a_message(profgpu, tmp_path, text):
    path = tmp_path / 'wrong.trace.json.gz'
    path.write_bytes(gzip.compress(text.encode()))
    result = profgpu('analyze', path, text=True)
    assert result.returncode == 1 and 'wrong.trace.json.gz' in result.stderr
