"""profgpu query: SQL over the tables of a run, and the same numbers as analyze --json."""
import csv
import glob
import io
import json
import os
import sqlite3
import subprocess

import pytest

from conftest import ROOT, program

TRACES = sorted(glob.glob(os.path.join(ROOT, '..', 'shared', 'traces', '*.json*')))
DEMO = os.path.join(ROOT, 'examples', 'resnet-demo.json.gz')
REPLAY = os.path.join(ROOT, 'examples', 'replay.jsonl')
ANY = [*TRACES, DEMO]


@pytest.fixture(scope='session')
def ask(profgpu):
    """ask(path..., sql) -> rows as dictionaries."""

    def run(*words):
        result = profgpu('query', *map(str, words), '--json', '--quiet', text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def flat(rows, *without):
    return [{k: v for k, v in row.items() if k not in without} for row in rows]


@pytest.mark.parametrize('trace', ANY, ids=os.path.basename)
def test_the_same_numbers_as_analyze(ask, analyze, trace):
    rank = analyze(trace)['ranks'][0]
    for table, section in (('devices', 'devices'), ('phases', 'phases'), ('ops_by_name', 'ops'), ('collectives', 'collectives')):
        assert flat(ask(trace, f'select * from {table}'), 'rank') == \
            [{k: int(v) if isinstance(v, bool) else v for k, v in row.items()} for row in rank[section]], table
    idle = {(i['device'], i['cause']): (i['total_ns'], i['count']) for i in rank['idle'] if i['count']}
    gaps = ask(trace, 'select device, cause, sum(duration_ns) as total, count(*) as n from gaps group by 1, 2')
    assert {(g['device'], g['cause']): (g['total'], g['n']) for g in gaps} == idle
    kernels = {(k['device'], k['name']): (k['count'], k['total_ns'], k['min_ns'], k['max_ns']) for k in rank['kernels']}
    rows = ask(trace, 'select device, name, count(*) n, sum(duration_ns) t, min(duration_ns) a, max(duration_ns) b '
                      'from activity group by 1, 2')
    assert {(r['device'], r['name']): (r['n'], r['t'], r['a'], r['b']) for r in rows} == kernels
    steps = ask(trace, 'select name, number, start_ns, duration_ns from steps')
    assert [(s['name'], s['number'], s['start_ns'], s['duration_ns']) for s in steps] == \
        [(s['name'], s['index'], s['start_ns'], s['duration_ns']) for s in rank['steps']]
    launches = ask(trace, 'select count(distinct launch_id) as n from launches')[0]['n']
    assert launches == rank['launch']['launches']


@pytest.mark.parametrize('options', [('--steps', '3', '--layers', '2'), ('--ranks', '3', '--steps', '3', '--layers', '2'),
                                     ('--windows', '3', '--steps', '3', '--layers', '2')])
@pytest.mark.parametrize('table, column, key', [('activity', 'start_ns', 'device'), ('host', 'start_ns', 'thread_id'),
                                                ('gaps', 'start_ns', 'device'), ('memory_events', 'time_ns', 'device')])
def test_ranges_find_what_a_full_search_finds(ask, simulate, options, table, column, key):
    path = simulate(*options)
    low, high = (ask(path, f'select {column} as t from {table} order by 1 limit 1 offset (select count(*) * {part} / 7 from {table})')
                 [0]['t'] for part in (2, 5))
    for condition in (f'{{c}} between {low} and {high}', f'{{c}} > {low} and {{c}} < {high}.5', f'{{c}} = {low}',
                      f'{{c}} >= {high} and {{k}} = 0', f'{{c}} <= {low} and {{r}} = 0', '{c} > null',
                      f'{{c}} > -9e18 and {{c}} < 9e18 and {{k}} = 1.0', f'{{c}} > 1e300', '{k} = 99'):
        # With a sign before a column SQLite does not tell the table what is asked of it.
        fast, slow = (ask(path, f'select count(*) as n, total({column}) as t from {table} where ' +
                          condition.format(c=sign + column, k=sign + key, r=sign + 'rank')) for sign in ('', '+'))
        assert fast == slow, condition


def test_rows_are_found_by_number(ask, simulate):
    path = simulate('--ranks', '3', '--steps', '3', '--layers', '2')
    for row in ask(path, 'select rank, id, name from host where id = 5'):
        assert ask(path, f'select name from host where rank = {row["rank"]} and id = 5') == [{'name': row['name']}]
    assert len(ask(path, 'select * from host where id = 5')) == 3
    assert ask(path, 'select count(*) n from host where id = 4000000000') == [{'n': 0}]
    assert ask(path, 'select count(*) n from host where id = -1') == [{'n': 0}]
    plan = ask(path, 'explain query plan select * from launches')
    assert not any('AUTOMATIC' in row['detail'] for row in plan), 'a join must not search all rows'


def test_formats_agree(profgpu, ask, tmp_path):
    sql = 'select name, duration_ns, shapes from host order by duration_ns desc, id limit 50'
    rows = ask(DEMO, sql)
    text = profgpu('query', DEMO, sql, '--format', 'csv', text=True).stdout
    assert [[r['name'], str(r['duration_ns']), r['shapes'] or ''] for r in rows] == list(csv.reader(io.StringIO(text)))[1:]
    table = profgpu('query', DEMO, sql, '--verbose', text=True).stdout.splitlines()
    assert len(table) == 51 and table[0].split() == ['name', 'duration_ns', 'shapes']
    out = tmp_path / 'rows.json'
    assert profgpu('query', DEMO, sql, '--json', '-o', out).stdout == b''
    assert json.loads(out.read_text()) == rows
    query = tmp_path / 'query.sql'
    query.write_text('-- the longest\n' + sql + ';\n/* end */ ;\n')
    assert json.loads(profgpu('query', DEMO, '--file', query, '--json', text=True).stdout) == rows


def test_columns_of_one_name_stay_apart(ask):
    row = ask(DEMO, 'select a.name, b.name from host a, host b where a.id = 0 and b.id = 1')[0]
    assert list(row) == ['name', 'name_2']


def test_samples(ask, analyze):
    rows = ask(REPLAY, "select device, count(*) n from samples where metric = 'utilization_pct' group by device")
    assert len(rows) == len(analyze(REPLAY)['telemetry'])
    assert ask(REPLAY, 'select count(*) n from kernels') == [{'n': 0}]


def test_tables_are_listed_without_a_trace(profgpu, ask):
    listed = profgpu('query', '--tables', text=True).stdout
    for row in ask(DEMO, "select m.type, m.name as t, c.name as c from sqlite_schema m, pragma_table_info(m.name) c "
                         "where m.type in ('table', 'view')"):
        assert f'{row["t"]}: ' in listed or f'  {row["t"]} ' in listed
        assert row['type'] == 'view' or f'  {row["c"]} ' in listed


@pytest.mark.parametrize('sql, says, hint', [
    ('select dur from kernels', 'no such column: dur', 'did you mean duration_ns?'),
    ('select naem from host', 'no such column: naem', 'did you mean name?'),
    ('select * from kernel', 'no such table: kernel', 'did you mean kernels?'),
    ('select * from ranges', 'no such table: ranges', 'did you mean host?'),
    ('selec 1', 'syntax error', '--tables'),
    ('select 1; select 2', 'one query at a time', ''),
    ('', 'empty', ''),
    ('-- nothing', 'empty', ''),
    ('select * from host where', 'incomplete input', ''),
])
def test_what_is_wrong_with_a_query_is_said(profgpu, sql, says, hint):
    result = profgpu('query', DEMO, sql, text=True)
    assert (result.returncode, result.stdout) == (2, '')
    assert says in result.stderr and hint in result.stderr


def test_a_query_makes_no_huge_cells(profgpu):
    result = profgpu('query', DEMO, 'select hex(zeroblob(400000000))', text=True)
    assert result.returncode == 1 and 'too big' in result.stderr
    assert json.loads(profgpu('query', '--json', DEMO, "select printf('%.1000000000c', 'x') as cell").stdout) == [{'cell': None}]


def test_the_place_is_marked(profgpu):
    lines = profgpu('query', DEMO, 'select 1,\n  dur from kernels', text=True).stderr.splitlines()
    assert lines[1:3] == ['    dur from kernels', '    ^']


@pytest.mark.parametrize('sql', [
    "attach database '{new}' as other", 'create table t(a)', 'create temp table t(a)', 'drop table host', 'delete from host',
    'insert into host(id) values(1)', 'update host set id = 1', "vacuum into '{new}'", 'pragma journal_mode = wal',
    "select load_extension('{new}')", "select writefile('{new}', 'x')", 'begin', 'pragma writable_schema = on',
    "create virtual table t using fts5(a)"])
def test_nothing_can_be_written(profgpu, tmp_path, sql):
    new = tmp_path / 'new'
    result = profgpu('query', DEMO, sql.format(new=new), text=True)
    assert result.returncode in (1, 2) and result.stderr
    assert not new.exists()


def test_usage(profgpu, tmp_path):
    assert 'the query comes last' in profgpu('query', 'select 1', DEMO, text=True).stderr
    assert profgpu('query', DEMO).returncode == 2
    assert profgpu('query', DEMO, '--file', tmp_path / 'missing.sql').returncode == 2
    assert profgpu('query', tmp_path / 'missing.json', 'select 1').returncode == 1


def test_hostile_names(ask, profgpu, tmp_path):
    name = 'a"b\',;\n\t\x1b[31m\u202e</script>%s\\'
    path = tmp_path / 'hostile.json'
    path.write_text(json.dumps({'schemaVersion': 1, 'traceEvents': [
        {'ph': 'X', 'cat': 'cpu_op', 'name': name, 'pid': 1, 'tid': 1, 'ts': 1, 'dur': 5},
        {'ph': 'X', 'cat': 'kernel', 'name': name, 'pid': 0, 'tid': 7, 'ts': 2, 'dur': 3, 'args': {'device': 0, 'stream': 7}}]}))
    assert ask(path, 'select name from kernels') == [{'name': name}]
    text = profgpu('query', path, 'select name from kernels', '--format', 'csv', text=True).stdout
    assert list(csv.reader(io.StringIO(text))) == [['name'], [name]]
    table = profgpu('query', path, 'select name from kernels', text=True).stdout
    assert '\x1b' not in table and '\u202e' not in table and len(table.splitlines()) == 2


def test_a_reader_that_leaves_is_no_error(profgpu, simulate):
    path = simulate('--steps', '3', '--layers', '2')
    child = subprocess.Popen([program('PROFGPU', 'profgpu'), 'query', str(path), 'select * from host h, host g', '--format', 'csv'],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.readline()
    child.stdout.close()
    assert child.wait(timeout=60) == 0
    assert child.stderr.read() == b''
    assert profgpu('query', path, 'select * from host', '-o', '/dev/full').returncode == 1
