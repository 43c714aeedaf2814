"""The package profgpu: reports and tables, with and without NumPy and pandas; the command line; its types."""
import doctest
import json
import math
import subprocess
import sys

import pytest
from package_script import REPLAY, ROOT, TRACE, run_script

import profgpu


pytestmark = pytest.mark.usefixtures('package')


@pytest.fixture(scope='module')
def report(package):
    return profgpu.analyze(TRACE)


def test_a_report_is_the_commands(report, profgpu):
    printed = profgpu('analyze', '--json', TRACE)
    assert json.loads(report.to_json()) == json.loads(printed.stdout) == report.to_dict()
    assert report.to_text() == profgpu('analyze', '--width', '100', '--color', 'never', TRACE).stdout.decode()
    assert report.to_markdown() == profgpu('analyze', '--format', 'markdown', TRACE).stdout.decode()


@pytest.mark.parametrize('form', ['json', 'text', 'markdown', 'html'])
def test_a_report_writes_itself_where_it_is_told(report, form, tmp_path):
    write, path = getattr(report, 'to_' + form), tmp_path / 'report'
    said = write(path)
    assert path.read_text(encoding='utf-8') == said == write()


def test_findings_and_sections(report):
    first = report.findings[0]
    assert first.rule == 'data-loading-bound' and first.severity in ('info', 'warning', 'critical')
    assert isinstance(first.fix, tuple) and first.cost_ns > 0 and 'data-loading-bound' in str(first)
    costs = [f.cost_ns for f in report.findings if f.cost_ns is not None]
    assert costs == sorted(costs, reverse=True)
    rows = {row['rank'] for row in records(report.steps)}
    assert all(report.section(name) is not None for name in report.sections)
    assert rows == {0} and 'kernels' in dir(report) and len(records(report.kernels)) > 5
    with pytest.raises(AttributeError):
        report.no_such_section
    with pytest.raises(KeyError, match='kernels'):
        report.section('kernel')
    metrics = report.metrics()
    shares = sum(v for k, v in metrics.items() if k.endswith('_pct') and k.count('/') == 1)
    assert metrics['profgpu/forward_s'] > 0 and metrics['profgpu/data_loading_pct'] > 0 and abs(shares - 100) < 0.1
    assert metrics['profgpu/step_s'] > 0 and all(isinstance(x, float) and x == x for x in metrics.values())


def records(frame):
    return frame.to_dict('records') if hasattr(frame, 'to_dict') else list(frame)


def test_html_and_notebook(report, tmp_path):
    shown = report._repr_html_()
    assert '<table>' in shown and report.verdict.split('.')[0].replace('%', '%') in shown
    path = tmp_path / 'report.html'
    page = report.to_html(path)
    assert path.read_text() == page and page.startswith('<!doctype html>')
    first = records(report.steps)[0]['index']
    assert len(report.to_html(steps=str(first))) > 1000
    with pytest.raises(profgpu.ProfgpuError, match='html-steps'):
        report.to_html(steps='no')


def test_options(report):
    first = records(report.steps)[0]['index']
    part = profgpu.analyze(TRACE, steps=(first, first + 2))
    assert len(records(part.steps)) == 2 < len(records(report.steps))
    assert not [f for f in profgpu.analyze(TRACE, thresholds={'data-loading-bound': 100}).findings
                if f.rule == 'data-loading-bound']
    with pytest.raises(profgpu.ProfgpuError) as error:
        profgpu.analyze(TRACE, thresholds={'data-loading-bund': 1})
    assert 'data-loading-bound' in error.value.hint


@pytest.mark.parametrize('content', [b'', b'not json', b'{"traceEvents": [', b'\x1f\x8b\x08junk', b'\x00' * 100])
def test_bad_input_is_an_error(content, tmp_path):
    path = tmp_path / 'bad.json'
    path.write_bytes(content)
    with pytest.raises(profgpu.ProfgpuError, match='bad.json'):
        profgpu.analyze(path)
    with pytest.raises(profgpu.ProfgpuError, match='nothere'):
        profgpu.analyze([tmp_path / 'nothere.json'])
    with pytest.raises(profgpu.ProfgpuError):
        profgpu.analyze([])
    for wrong in (5, [TRACE, 5]):
        with pytest.raises(TypeError, match='a path or several'):
            profgpu.analyze(wrong)


def test_paths_that_can_be_gone_through_once():
    assert len(profgpu.analyze(path for path in [TRACE]).table('host'))


def test_tables_share_memory(report):
    numpy = pytest.importorskip('numpy')
    table = report.table('activity')
    durations = table['duration_ns']
    assert durations.dtype == numpy.int64 and numpy.shares_memory(durations, table['duration_ns'])
    with pytest.raises(ValueError):
        durations[0] = 1
    total = report.query('select sum(duration_ns) as total_ns, count(*) as n from activity')
    assert total['total_ns'][0] == durations.sum() and total['n'][0] == len(table) == len(durations)
    missing = table['bytes']
    assert missing.mask.any() and not missing.mask.all()
    del table
    assert durations.sum() == total['total_ns'][0], 'an array keeps its table'
    with pytest.raises(profgpu.ProfgpuError, match='activty'):
        report.table('activty')
    with pytest.raises(profgpu.ProfgpuError, match='no such column'):
        report.query('select nonsense from activity')


def test_every_table_reads_the_same_by_cell_and_by_query(report):
    for name in ('activity', 'host', 'streams', 'steps', 'kernels_by_name', 'gaps', 'metadata', 'counters'):
        table, answer = report.table(name), report.query('select * from ' + name)
        assert len(table) == len(answer), name
        for column in table.columns:
            if len(table):
                same = zip(table.to_list(column.name), answer.to_list(column.name))
                assert all(a == b or (a is None or a != a) and (b is None or b != b) for a, b in same), (name, column)


WITHOUT = f'''
import profgpu
r = profgpu.analyze({TRACE!r})
t = r.table("activity")
assert type(t["duration_ns"]) is list and sum(t["duration_ns"]) == r.query("select sum(duration_ns) as n from activity")["n"][0]
assert None in t["bytes"] and type(r.kernels).__name__ == "Rows" and len(r.kernels.column("name")) == len(r.kernels)
assert next(iter(t))["device"] == 0
try:
    t.to_pandas()
except profgpu.ProfgpuError as e:
    assert "pandas" in str(e)
else:
    raise AssertionError
with profgpu.GpuMonitor(backend={REPLAY!r}, interval_s=0.01, store_samples=True) as m:
    import time; time.sleep(0.2)
assert m.summary.n_samples > 5 and len(m.samples) > 5
print("fine")
'''


def test_without_numpy_and_pandas():
    assert run_script(WITHOUT, hidden=('numpy', 'pandas')) == 'fine\n'


def test_pandas_frames_share_memory(report):
    pandas, numpy = pytest.importorskip('pandas'), pytest.importorskip('numpy')
    table = report.table('activity')
    frame = table.to_pandas()
    assert numpy.shares_memory(frame['duration_ns'].to_numpy(), table['duration_ns'])
    assert str(frame['bytes'].dtype) == 'Int64' and frame['bytes'].isna().any()
    assert isinstance(frame['name'].dtype, pandas.CategoricalDtype)
    assert list(frame['name'].astype(object)) == table.to_list('name')
    assert frame.attrs['units']['duration_ns'] == 'ns'
    assert isinstance(report.kernels, pandas.DataFrame)


def test_importing_is_light():
    script = ('import sys, profgpu\nfrom profgpu import _library\nassert _library._loaded is None\n'
              'print([m for m in ("numpy", "pandas", "torch", "IPython", "profgpu.timing") if m in sys.modules])')
    assert run_script(script, hidden=('numpy',)) == "['numpy']\n"   # hidden, and so a key


def test_the_command_line():
    done = run_script('import runpy, sys\nsys.argv[1:] = ["--version"]\nrunpy.run_module("profgpu", run_name="__main__")')
    assert done == 'profgpu ' + profgpu.__version__ + '\n'


def test_what_is_not_installed_says_so():
    script = ('import profgpu\ntry:\n    profgpu.analyze("x")\nexcept profgpu.ProfgpuError as e:\n    print(e)')
    said = run_script(script, PROFGPU_LIBRARY='/nonexistent.so')
    assert '/nonexistent.so' in said and 'pip install' in said


def test_doctests():
    import profgpu.monitor
    import profgpu.ranges
    for module in (profgpu.monitor, profgpu.ranges):
        assert doctest.testmod(module).failed == 0


def test_types():
    pytest.importorskip('mypy')
    done = subprocess.run([sys.executable, '-m', 'mypy', '--cache-dir', '/dev/null'], cwd=ROOT, capture_output=True,
                          text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nan_is_nothing_in_metrics():
    with profgpu.GpuMonitor(backend='none') as mon:
        pass
    assert math.isnan(mon.summary.util_gpu_mean) and set(mon.summary.metrics()) == {
        'gpu/duration_s', 'gpu/interval_s', 'gpu/n_samples'}
