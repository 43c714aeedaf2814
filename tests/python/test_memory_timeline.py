"""Memory timelines of PyTorch's profiler: exported by a real run, and compared with what the file's own rows add up to."""
import gzip
import itertools
import json
import warnings

import pytest

# In the order of torch.profiler._memory_profiler.
CATEGORIES = ('parameter', 'optimizer_state', 'input', 'temporary', 'activation', 'gradient', 'autograd', 'unknown')
# Of three times: what was there before, a batch, and a backward pass.
ROWS = [[-1, 1, 4000, 0], [-1, 1, 500, 7], [1_000_000_000_000, 2, 300, 2], [1_000_000_000_000, 2, 100, 4],
        [1_000_000_005_000, 4, -100, 4], [1_000_000_005_000, 2, 4000, 5]]


@pytest.fixture(scope='module')
def exported(tmp_path_factory):
    torch = pytest.importorskip('torch')
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    optimizer = torch.optim.Adam(model.parameters())
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True) as profile:
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.randn(32, 64)).sum().backward()
                optimizer.step()
        folder = tmp_path_factory.mktemp('exported')
        if not hasattr(profile, 'export_memory_timeline'):
            pytest.skip('this PyTorch exports none')
        for name in ('timeline.json', 'timeline.raw.json.gz'):
            profile.export_memory_timeline(str(folder / name), device='cpu')
    sizes = {'parameter': sum(p.numel() * 4 for p in model.parameters())}
    sizes['gradient'] = sizes['parameter']
    return folder, sizes


def levels(events):
    """Of raw events: [(time, bytes by category)] after each time."""
    out, now = [], dict.fromkeys(CATEGORIES, 0)
    for time, group in itertools.groupby(events, lambda event: event[0]):
        for _, _, size, category in group:
            now[CATEGORIES[category]] += size
        out.append((time, dict(now)))
    return out


def held(section):
    return {row['category']: row['held_bytes'] for row in section['peak']['categories']}


def check(section, points):
    totals = [sum(by_category.values()) for _, by_category in points]
    peak = max(totals)
    assert section['peak_allocated_bytes'] == peak and section['allocated_bytes'] == totals[-1]
    assert section['peak_event'] == totals.index(peak) and section['events'] == len(points)
    assert held(section) == {k: v for k, v in points[totals.index(peak)][1].items() if v}
    assert [point['allocated_bytes'] for point in section['timeline']] == totals


def test_a_raw_timeline_of_a_real_run(exported, analyze):
    folder, sizes = exported
    document = analyze(folder / 'timeline.raw.json.gz')
    with gzip.open(folder / 'timeline.raw.json.gz', 'rt') as file:
        points = levels(json.load(file))
    assert 10 < len(points) <= 500
    section = document['ranks'][0]['snapshot']
    check(section, points)
    # PyTorch may count more as parameters than the model has.
    assert held(section)['parameter'] >= sizes['parameter'] and held(section)['gradient'] >= sizes['gradient']
    assert document['inputs'][0]['format'] == 'memory-timeline' and document['findings'] == []


def test_the_timeline_of_a_real_run_is_the_same_on_a_clock_of_microseconds(exported, analyze):
    section = analyze(exported[0] / 'timeline.json')['ranks'][0]['snapshot']
    with open(exported[0] / 'timeline.json') as file:
        times, rows = json.load(file)
    points = [(time, dict(zip(CATEGORIES, row[1:]))) for time, row in zip(times, rows)]
    points = [list(group)[-1] for _, group in itertools.groupby(points, lambda point: point[0])]
    check(section, points)
    assert section['timeline'][-1]['time_ns'] == 1000 * times[-1]


def write(path, value):
    path.write_text(json.dumps(value))
    return path


def test_what_such_a_file_cannot_tell_is_null(tmp_path, analyze, profgpu):
    path = write(tmp_path / 'a.json', ROWS)
    section = analyze(path)['ranks'][0]['snapshot']
    check(section, levels(ROWS))
    for key in ('segments', 'blocks', 'reserved_bytes', 'active_bytes', 'requested_bytes', 'oom', 'spike', 'replay'):
        assert section[key] is None, key
    assert section['peak']['device'] is section['peak']['reserved_bytes'] is None
    assert section['devices'] == section['states'] == section['peak']['holders'] == []
    assert section['peak']['time_ns'] == section['timeline'][-1]['time_ns'] == 1_000_000_005_000
    assert section['timeline'][0]['time_ns'] == 1_000_000_000_000   # there before: so at the first known time
    assert all(row['blocks'] is None for row in section['peak']['categories'])
    text = profgpu('analyze', path).stdout.decode()
    assert 'Peak 8.59 KiB: parameters 3.91 KiB, gradients 3.91 KiB, unattributed 500 B, inputs 300 B.' in text
    assert 'Memory at the peak' in text and 'PyTorch memory timeline' in text and 'nan' not in text.lower().split()


def test_a_picture_is_an_error_that_says_what_to_export(tmp_path, profgpu):
    path = tmp_path / 'timeline.html'
    path.write_text('<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>\n<body></body></html>')
    result = profgpu('analyze', path)
    assert result.returncode == 1 and b'timeline.html: a web page, not a trace' in result.stderr
    assert b'.raw.json.gz' in result.stderr


@pytest.mark.parametrize('part', [0.2, 0.5, 0.9, 0.99])
def test_a_cut_file_gives_what_it_holds(part, tmp_path, profgpu):
    events = ROWS + [[1_000_000_010_000 + 1000 * i, 2, 10 + i, i % 8] for i in range(200)]
    whole = json.dumps(events)
    path = tmp_path / 'cut.json'
    path.write_text(whole[:int(part * len(whole))])
    result = profgpu('analyze', '--json', path)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert [issue['kind'] for issue in document['inputs'][0]['issues']] == ['truncated']
    section = document['ranks'][0]['snapshot']
    assert 0 < section['events'] < len(levels(events))
    assert section['peak_allocated_bytes'] == max(sum(v.values()) for _, v in levels(events)[:section['events']])


@pytest.mark.parametrize('value', [
    [[], []], [[1, 2, 3, 4], [5, 6]], [[1, 2, 3, 9], [1, 2, 3, 4]], [[1000, 2000, 3000], [[0, 1, 2]]],
    [[1, 2, 3, 4], {'a': 1}], [[1, 2, 3], [4, 5, 6]],
])
def test_other_lists_of_numbers_are_errors_that_name_the_file(value, tmp_path, profgpu):
    result = profgpu('analyze', write(tmp_path / 'other.json', value))
    assert result.returncode == 1 and b'other.json' in result.stderr and not result.stdout


@pytest.mark.parametrize('rows', [
    [[0, 2, 1 << 62, 0]] * 4, [[0, 2, -(1 << 62), 0]] * 4, [[1 << 62, 2, 5, 0], [2, 2, 5, 1]], [[-7, 2, 5, 0], [2, 2, 5, 1]],
    [[5, 3, -8, 0], [6, 2, 3, 1]],
], ids=['large', 'negative', 'late', 'early', 'freed-before'])
def test_numbers_that_no_device_has_are_counted(rows, tmp_path, analyze):
    document = analyze(write(tmp_path / 'a.json', rows))
    assert [issue['kind'] for issue in document['inputs'][0]['issues']] == ['out_of_range']
    section = document['ranks'][0]['snapshot']
    assert 0 <= section['peak_allocated_bytes'] <= 10 and all(p['time_ns'] >= 0 for p in section['timeline'])


def test_timelines_are_compared(tmp_path, profgpu):
    before = write(tmp_path / 'a.json', ROWS)
    after = write(tmp_path / 'b.json', [[time, action, 2 * size, category] for time, action, size, category in ROWS])
    result = profgpu('diff', '--json', before, after)
    assert result.returncode == 0, result.stderr
    (peak,) = [m for m in json.loads(result.stdout)['memory'] if m['name'] == 'peak_allocated_bytes']
    assert peak['after'] == 2 * peak['before'] == 17600
    assert profgpu('diff', before, after, '--fail-on', 'peak_memory > +2%').returncode == 3
