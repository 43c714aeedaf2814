"""`analyze --html` as a user calls it: where the page goes, what its data say, what bad input does to it."""
import json
import os
import re
import resource
import signal
import stat

import pytest

from conftest import ROOT
from page_data import DATA, PageData


@pytest.fixture(scope='module')
def has_page(profgpu, simulate, tmp_path_factory):
    path = tmp_path_factory.mktemp('page') / 'page.html'
    assert profgpu('analyze', simulate('--steps', '3'), '--html', path).returncode == 0
    return bool(DATA.search(path.read_bytes()))


@pytest.fixture
def page(profgpu, tmp_path, has_page):
    """page(*words) -> its data."""
    if not has_page:
        pytest.skip('the program was built without the page')

    def make(*words):
        path = tmp_path / 'page.html'
        result = profgpu('analyze', *words, '--html', path)
        assert result.returncode == 0, result.stderr
        return PageData(path.read_bytes())

    return make


def test_the_page_stands_beside_the_report(profgpu, simulate, tmp_path):
    trace, path = simulate('--steps', '3'), tmp_path / 'page.html'
    result = profgpu('analyze', trace, '--html', path, '--width', '300')
    assert result.stderr == b''
    plain = profgpu('analyze', trace, '--width', '300').stdout
    assert f'xdg-open {path}'.encode() in result.stdout
    assert b'--html report.html' in plain
    assert result.stdout.split(b'Next:')[0] == plain.split(b'Next:')[0]
    assert path.read_bytes().startswith(b'<!doctype html>')
    assert os.listdir(tmp_path) == ['page.html']


def test_format_html_writes_the_page_where_the_report_goes(profgpu, simulate, tmp_path):
    trace, path = simulate('--steps', '3'), tmp_path / 'page.html'
    assert profgpu('analyze', trace, '--format', 'html', '-o', path).stdout == b''
    assert profgpu('analyze', trace, '--format', 'html').stdout == path.read_bytes()


def test_findings_are_text_and_nothing_is_fetched(profgpu, simulate, tmp_path):
    trace, path = simulate('--steps', '6', '--fault', 'data-loading-bound'), tmp_path / 'page.html'
    profgpu('analyze', trace, '--html', path)
    html = path.read_text()
    assert 'data-loading-bound' in html and 'num_workers' in html
    assert 'Content-Security-Policy' in html
    assert not re.search(r'(src|href)="?https?://', html)


@pytest.mark.parametrize('words, said', [
    (('--html-steps', '3'), b'needs --html'),
    (('--html', 'x.html', '--html-steps', '7:3'), b'--html-steps takes'),
    (('--html', 'x.html', '--html-steps', '1,,2'), b'--html-steps takes'),
    (('--html', 'x.html', '--html-steps', '-1'), b'--html-steps takes'),
    (('--html-ranks', '3'), b'needs --html'),
    (('--html', 'x.html', '--html-ranks', '3,x'), b'--html-ranks takes'),
    (('--format', 'html', '--section', 'ops'), b'cannot be combined'),
])
def test_usage(profgpu, simulate, tmp_path, words, said):
    result = profgpu('analyze', simulate('--steps', '3'), *words, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, b'')
    assert said in result.stderr
    assert os.listdir(tmp_path) == []


def test_steps_that_are_not_there(profgpu, simulate, tmp_path):
    result = profgpu('analyze', simulate('--steps', '3'), '--html', tmp_path / 'page.html', '--html-steps', '100:200')
    assert result.returncode == 1
    assert b'--html-steps leaves no step' in result.stderr
    assert os.listdir(tmp_path) == []


def test_a_page_that_cannot_be_written_does_not_take_the_report_with_it(profgpu, simulate, tmp_path):
    trace = simulate('--steps', '3')
    for path in (tmp_path, tmp_path / 'no' / 'such' / 'page.html'):
        result = profgpu('analyze', trace, '--html', path)
        assert result.returncode == 1
        assert b'Findings' in result.stdout or b'No findings' in result.stdout
        assert b'cannot be written' in result.stderr and str(path).encode() in result.stderr


def test_a_full_disk_leaves_the_old_page(profgpu, simulate, tmp_path):
    trace, path = simulate('--steps', '3'), tmp_path / 'page.html'
    path.write_text('old')

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))   # a write beyond it fails

    result = profgpu('analyze', trace, '--html', path, preexec_fn=small_disk)
    assert result.returncode == 1
    assert b'cannot be written' in result.stderr
    assert path.read_text() == 'old'
    assert os.listdir(tmp_path) == ['page.html']


def test_a_page_into_a_pipe_or_an_existing_file(profgpu, simulate, tmp_path):
    path = tmp_path / 'page.html'
    path.write_text('old')
    path.chmod(0o640)
    profgpu('analyze', simulate('--steps', '3'), '--html', path)
    assert path.read_bytes().startswith(b'<!doctype html>')
    assert stat.S_ISREG(path.stat().st_mode)
    assert profgpu('analyze', simulate('--steps', '3'), '--html', '/dev/null').returncode == 0


def test_data_agree_with_the_report(page, simulate, analyze):
    trace = simulate('--steps', '8')
    data, report = page(trace), analyze(trace)
    header, rank = data.header, report['ranks'][0]
    assert header['report']['findings'] == report['findings']
    origin = int(header['origin_ns'])

    step, = data.tracks('step')
    assert data.column(step['duration']) == [s['duration_ns'] for s in rank['steps']]
    assert [origin + t for t in data.column(step['start'], delta=True)] == [s['start_ns'] for s in rank['steps']]

    phase, = data.tracks('phase')
    names = [header['strings'][n] for n in data.column(phase['name'])]
    for p in rank['phases']:
        shown = sum(d for n, d in zip(names, data.column(phase['duration'])) if n == p['name'].replace('_', ' '))
        assert shown == p['wall_ns']

    idle, = data.tracks('idle')
    assert sum(data.column(idle['duration'])) == rank['devices'][0]['window_idle_ns']
    causes = [header['categories'][c] for c in data.column(idle['category'])]
    for row in rank['idle']:
        shown = sum(d for c, d in zip(causes, data.column(idle['duration'])) if c == 'idle:' + row['cause'])
        assert shown == row['total_ns'] + row['edge_ns']

    streams = data.tracks('stream')
    copies = sum(sum(c == header['categories'].index('memcpy') for c in data.column(s['category'])) for s in streams)
    kernels = sum(s['events'] for s in streams)
    assert kernels == sum(k['count'] for k in rank['kernels'])
    assert copies == sum(k['count'] for k in rank['kernels'] if k['name'].startswith('Memcpy'))


def test_density_is_the_devices_busy_time(page, simulate, analyze):
    trace = simulate('--steps', '8')
    data, report = page(trace), analyze(trace)
    idle, = data.tracks('idle')
    density = idle['density']
    covered = sum(data.column(density['busy'])) / 255 * density['bin_ns']
    bins = data.header['columns'][density['busy']][2]
    assert abs(covered - report['ranks'][0]['devices'][0]['window_idle_ns']) <= bins * density['bin_ns'] / 255
    assert bins <= 4096 and bins * density['bin_ns'] >= data.header['span_ns']


def test_flames_add_up(page, simulate, analyze):
    data = page(simulate('--steps', '8', '--python-stacks'))
    rank = data.header['ranks'][0]
    by_name = {}
    for tree in rank['flame']:
        parent, total, own = (data.column(tree[k]) for k in ('parent', 'total_ns', 'self_ns'))
        assert sum(t for p, t in zip(parent, total) if p == 0) == sum(own)
        assert all(p <= i for i, p in enumerate(parent))
        for name, calls in zip(data.column(tree['name']), data.column(tree['calls'])):
            by_name[data.header['strings'][name]] = by_name.get(data.header['strings'][name], 0) + calls
    launched = sum(sum(d for p, d in zip(data.column(t['parent']), data.column(t['device_ns'])) if p == 0) for t in rank['flame'])
    streams = data.tracks('stream')
    linked = sum(sum(d for d, l in zip(data.column(s['duration']), data.column(s['link'])) if l) for s in streams)
    assert launched == linked
    ops = {o['name']: o['calls'] for o in data.header['report']['ranks'][0]['ops']}
    assert by_name['cudaLaunchKernel'] == ops['cudaLaunchKernel']


def test_links_lead_to_launching_calls(page, simulate):
    data = page(simulate('--steps', '3'))
    events = {}
    for track in data.tracks('thread'):
        for i, name in enumerate(data.column(track['name'])):
            events[track['first'] + i] = data.header['strings'][name]
    links = [l for s in data.tracks('stream') for l in data.column(s['link']) if l]
    assert links
    assert {events[l - 1] for l in links} <= {'cudaLaunchKernel', 'cudaMemcpyAsync', 'cudaMemsetAsync', 'cudaLaunchKernelExC'}


def test_chosen_steps_are_kept_and_the_rest_has_density(page, simulate):
    trace = simulate('--steps', '8')
    whole, part = page(trace), page(trace, '--html-steps', '7,9:10')
    assert part.header['events'] == whole.header['events'] == whole.header['events_kept']
    assert part.header['events_kept'] < 0.5 * part.header['events']
    step, = whole.tracks('step')
    names = [whole.header['strings'][n] for n in whole.column(step['name'])]
    spans = dict(zip(names, zip(whole.column(step['start'], delta=True), whole.column(step['duration']))))
    wanted = [[spans[n][0], sum(spans[n])] for n in ('ProfilerStep#7', 'ProfilerStep#9')]
    assert part.header['kept'] == wanted
    for track in part.tracks('stream'):
        starts, lengths = part.column(track['start'], delta=True), part.column(track['duration'])
        assert all(any(s <= b and s + d >= a for a, b in wanted) for s, d in zip(starts, lengths))
    for a, b in zip(whole.header['tracks'], part.header['tracks']):
        if 'density' in a:
            assert whole.column(a['density']['busy']) == part.column(b['density']['busy'])
    assert page(trace, '--html-steps', 'all').header['kept'] == whole.header['kept']


def test_ranks_stand_on_one_clock(page, simulate):
    data = page(simulate('--ranks', '2', '--steps', '4', '--clock-skew', '3000000'))
    assert [r['rank'] for r in data.header['ranks']] == [0, 1]
    ends = []
    for rank in (0, 1):
        track, = data.tracks('collective', rank)
        starts, lengths = data.column(track['start'], delta=True), data.column(track['duration'])
        outer = [i for i, d in enumerate(data.column(track['depth']) if 'depth' in track else [0] * len(starts)) if d == 0]
        ends.append([starts[i] + lengths[i] for i in outer])
    assert len(ends[0]) == len(ends[1]) > 0
    assert max(abs(a - b) for a, b in zip(*ends)) < 100_000   # the clocks are 3 ms apart


def test_a_page_of_many_ranks_has_the_events_of_some(page, simulate, profgpu, tmp_path):
    trace = simulate('--ranks', '10', '--steps', '3', '--layers', '1')
    result = profgpu('analyze', trace, '--html', tmp_path / 'some.html')
    data = PageData((tmp_path / 'some.html').read_bytes())
    lacking = data.header['without_events']
    assert len(lacking) == 2 and b'--html-ranks' in result.stderr
    assert [r['rank'] for r in data.header['ranks']] == [r['rank'] for r in data.header['report']['ranks']] == list(range(10))
    assert {t['rank'] for t in data.header['tracks']} == set(range(10)) - set(lacking)
    assert all((r['flame'] == []) == (r['rank'] in lacking) for r in data.header['ranks'])
    chosen = page(trace, '--html-ranks', f'{lacking[0]},{lacking[1]}')
    assert {t['rank'] for t in chosen.header['tracks']} == set(lacking)
    everything = page(trace, '--html-ranks', 'all')
    assert 'without_events' not in everything.header and {t['rank'] for t in everything.header['tracks']} == set(range(10))
    # A rank that was read again is as one that was kept.
    for rank in lacking:
        ours, theirs = ([t for t in p.header['tracks'] if t['rank'] == rank and 'start' in t] for p in (chosen, everything))
        assert [(t['title'], t['events']) for t in ours] == [(t['title'], t['events']) for t in theirs]
    none = profgpu('analyze', trace, '--html', tmp_path / 'none.html', '--html-ranks', '77')
    assert none.returncode == 1 and b'there is no rank 77' in none.stderr and not (tmp_path / 'none.html').exists()


def samples_beside(trace, tmp_path, clocks):
    """Samples of device 0 each millisecond of the trace; clocks(i) -> (MHz, reasons)."""
    doc = json.loads(trace.read_bytes())
    base = int(doc.get('baseTimeNanoseconds', 0))
    times = [base + int(float(e['ts']) * 1000) for e in doc['traceEvents'] if 'dur' in e]
    path = tmp_path / 'samples.jsonl'
    with open(path, 'w') as f:
        for i, t in enumerate(range(min(times) - 2_000_000, max(times) + 2_000_000, 1_000_000)):
            clock, reasons = clocks(i)
            f.write(json.dumps({'time_ns': t, 'device': 0, 'sm_clock_mhz': clock, 'sm_clock_max_mhz': 1980,
                                'clock_event_reasons': reasons, 'power_w': 400.5}) + '\n')
    return path


def test_samples_are_on_the_pages_time_and_mark_slow_kernels(page, simulate, tmp_path):
    trace = simulate('--steps', '3')
    data = page(trace, '--samples', samples_beside(trace, tmp_path, lambda i: (990, 4)))
    series = {s['metric']: s for s in data.header['samples']}
    assert {'sm_clock_mhz', 'power_w', 'clock_event_reasons'} <= set(series)
    power = series['power_w']
    times = data.column(power['time'], delta=True)
    assert times[0] == 0 and data.header['span_ns'] - times[-1] < 2_000_000
    assert {v * power['scale'] for v in data.column(power['value'], zigzag=True)} == {400.5}
    assert power['rank'] == 0
    assert {r['bit']: r['words'] for r in data.header['reasons']}[4] == 'the power limit'
    slow = [v for s in data.tracks('stream') for v in data.column(s['slow'])]
    assert set(slow) == {0, 500}   # 1 − 990/1980 of compute kernels; copies and collectives are not judged


def test_clocks_that_nothing_held_back_mark_nothing(page, simulate, tmp_path):
    trace = simulate('--steps', '3')
    data = page(trace, '--samples', samples_beside(trace, tmp_path, lambda i: (990, 0)))
    assert {v for s in data.tracks('stream') for v in data.column(s['slow'])} == {0}


def test_samples_alone(page):
    data = page(os.path.join(ROOT, 'examples', 'replay.jsonl'))
    assert data.header['tracks'] == [] and data.header['ranks'] == []
    assert len(data.header['samples']) > 3
    assert data.header['origin_ns'] == data.header['unix_origin_ns']


HOSTILE = ['</script><img src=x onerror=document.title="owned">', '<!--', ']]>', '\u2028\u202e', '"\'`${x}', '\x00\x1b[31m', '\ud800', 'é' * 5000]


def test_hostile_names_stay_names(profgpu, tmp_path, has_page):
    events = [{'ph': 'X', 'cat': cat, 'name': name, 'pid': name, 'tid': name, 'ts': 10 * i + j, 'dur': 5,
               'args': {'device': 0, 'stream': 7, 'Input Dims': name, name: name}}
              for i, name in enumerate(HOSTILE) for j, cat in enumerate(('kernel', 'cpu_op', 'user_annotation', 'python_function'))]
    trace, path = tmp_path / '<img src=x>.json', tmp_path / 'page.html'
    trace.write_text(json.dumps({'traceEvents': events}))
    assert profgpu('analyze', trace, '--html', path).returncode == 0
    html = path.read_text(encoding='utf-8')
    assert '<img' not in html
    without_data = DATA.sub(b'', path.read_bytes()).decode()
    ours = tmp_path / 'ours.json'
    ours.write_text('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}]}')
    profgpu('analyze', ours, '--html', tmp_path / 'ours.html')
    clean = DATA.sub(b'', (tmp_path / 'ours.html').read_bytes()).decode()
    for markup in ('<script', '</script', '<!--', '<title', '<iframe'):
        assert without_data.count(markup) == clean.count(markup), markup
    if has_page:
        assert any('onerror' in s for s in PageData(path.read_bytes()).header['strings'])


@pytest.mark.parametrize('text', ['{"traceEvents": []}', '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 0}]}',
                                  '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "k", "ts": 1, "dur": 5, "pid": 1, "tid": 1}'])
def test_little_input_gives_a_page(profgpu, tmp_path, text):
    trace, path = tmp_path / 'trace.json', tmp_path / 'page.html'
    trace.write_text(text)
    result = profgpu('analyze', trace, '--html', path)
    assert path.exists() == (result.returncode == 0)
    if path.exists():
        assert b'</html>' in path.read_bytes()
