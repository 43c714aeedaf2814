"""The JSON contract on simulated traces of many kinds, against an independent, slow implementation of its definitions."""
import glob
import gzip
import json
import os
import random
import re
import shutil
import subprocess

import pytest

import slow_reference
from conftest import ROOT

SMALL = ('--steps', '4', '--layers', '3')
KINDS = {
    'plain': (),
    'seed': ('--seed', '7'),
    'a100': ('--gpu', 'a100'),
    'amd': ('--vendor', 'amd'),
    'amd-graph': ('--vendor', 'amd', '--graph'),
    'graph': ('--graph',),
    'compiled': ('--compiled',),
    'cpu-only': ('--cpu-only',),
    '1.8': ('--style', 'kineto-1.8'),
    '1.8-array': ('--style', 'kineto-1.8', '--array'),
    'array': ('--array',),
    'no-steps': ('--no-steps',),
    'python-stacks': ('--python-stacks',),
    'sync-rows': ('--sync-rows',),
    'bare': ('--no-getters', '--no-shapes', '--no-memory', '--no-flows'),
    'dropped': ('--drop-kernels', '20'),
    'all-dropped': ('--drop-kernels', '100'),
    'micro-batches': ('--micro-batches', '3'),
    'shuffled': ('--shuffle-events', '3'),
    'one-of-four': ('--ranks', '4', '--only-rank', '2'),
    'one-of-four-fsdp': ('--ranks', '4', '--only-rank', '1', '--strategy', 'fsdp'),
    'skewed': ('--ranks', '2', '--only-rank', '1', '--clock-skew', '123456789'),
}
FAULTS = ['data-loading-bound', 'host-bound-launches', 'device-waits', 'excessive-synchronization', 'exposed-communication',
          'step-time-variance', 'short-kernels', 'pageable-copies', 'full-precision-gemm', 'unfused-optimizer',
          'allocator-churn', 'memory-growth', 'checkpoint-stall', 'profiler-overhead', 'warm-up', 'decoy-ranges',
          'straggler-rank']
for fault in FAULTS:
    KINDS[fault] = ('--fault', fault, '--only-rank', '0')
KINDS['pair'] = ('--fault', 'data-loading-bound', '--fault', 'excessive-synchronization:2')
KINDS['many'] = ('--fault', 'checkpoint-stall', '--fault', 'allocator-churn:3', '--fault', 'pageable-copies', '--sync-rows')


@pytest.mark.parametrize('kind', KINDS)
def test_figures_equal_the_slow_reference(kind, simulate, analyze, check):
    path = simulate(*SMALL, *KINDS[kind])
    document = analyze(path)
    check(document)
    windows = [slow_reference.Window(slow_reference.load(path))]
    assert document['inputs'][0]['file_bytes'] == os.path.getsize(path)
    assert slow_reference.differences(document['ranks'][0], windows) == []


@pytest.mark.parametrize('options', [
    ('--ranks', '2'), ('--ranks', '4', '--fault', 'straggler-rank'), ('--ranks', '2', '--windows', '3'), ('--windows', '2'),
    ('--windows', '3', '--fault', 'warm-up'), ('--ranks', '3', '--clock-skew', '5000000', '--strategy', 'fsdp')],
    ids=' '.join)
def test_ranks_and_windows(options, simulate, analyze, check):
    folder = simulate('--steps', '3', '--layers', '2', *options)
    document = analyze(folder)
    check(document)
    ranks = int(options[options.index('--ranks') + 1]) if '--ranks' in options else 1
    assert [r['rank'] for r in document['ranks']] == list(range(ranks))
    for rank in document['ranks']:
        files = [i['path'] for i in document['inputs'] if i['rank'] == rank['rank']]
        windows = sorted((slow_reference.Window(slow_reference.load(f)) for f in files), key=lambda w: w.base + w.start)
        assert slow_reference.differences(rank, windows) == []
    if ranks > 1:
        means = document['cluster']['step_mean_ns_by_rank']
        assert list(means) == [str(r) for r in range(ranks)]
        for rank in document['ranks']:
            steady = [s['duration_ns'] for s in rank['steps'] if not s['warmup']]
            assert abs(means[str(rank['rank'])] - sum(steady) / len(steady)) <= 1


@pytest.mark.parametrize('steps', ['6:8', '5:6', '0:100', '7:'])
def test_steps_option_takes_the_index_up_to_the_last_but_one(steps, simulate, profgpu):
    path = simulate('--steps', '5', '--layers', '2')
    every = json.loads(profgpu('analyze', '--json', path).stdout)['ranks'][0]['steps']
    result = profgpu('analyze', '--json', '--steps', steps, path)
    first, _, end = steps.partition(':')
    want = [s['name'] for s in every if int(first) <= s['index'] < (int(end) if end else 1 << 60)]
    if result.returncode == 2:
        pytest.skip('an open end is not taken')
    assert [s['name'] for s in json.loads(result.stdout)['ranks'][0]['steps']] == want


def without_input(document):
    document = json.loads(json.dumps(document))
    for source in document['inputs']:
        source.pop('path')
        source.pop('file_bytes')
    document.pop('next', None)
    return document


@pytest.mark.parametrize('options', [
    (), ('--fault', 'excessive-synchronization'), ('--ranks', '4', '--only-rank', '1'), ('--vendor', 'amd', '--graph'),
    ('--python-stacks',), ('--style', 'kineto-1.8'), ('--sync-rows', '--drop-kernels', '10')], ids=' '.join)
def test_order_of_events_changes_nothing(options, simulate, analyze):
    plain = without_input(analyze(simulate(*SMALL, *options)))
    for seed in ('1', '99'):
        assert without_input(analyze(simulate(*SMALL, *options, '--shuffle-events', seed))) == plain


def moved(value, by, key=''):
    """The document with every point in time moved."""
    if isinstance(value, dict):
        return {k: moved(v, by, k) for k, v in value.items()}
    if isinstance(value, list):
        return [moved(v, by, key) for v in value]
    return value + by if key in ('start_ns', 'time_ns') and value is not None else value


@pytest.mark.parametrize('options', [(), ('--fault', 'host-bound-launches'), ('--graph',)], ids=' '.join)
@pytest.mark.parametrize('shift', [1, 999, 123_456_789_012])
def test_shifting_time_shifts_only_starts(options, shift, simulate, analyze):
    plain = without_input(analyze(simulate(*SMALL, *options)))
    shifted = without_input(analyze(simulate(*SMALL, *options, '--time-shift', str(shift))))
    assert shifted == moved(plain, shift)


@pytest.mark.parametrize('kind', ['plain', 'cpu-only', 'graph', '1.8'])
def test_compression_changes_nothing(kind, simulate, analyze, tmp_path):
    path = simulate(*SMALL, *KINDS[kind])
    plain = without_input(analyze(path))
    text = path.read_bytes()
    zipped = tmp_path / 'trace.json.gz'
    zipped.write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))   # two members, as `cat` makes them
    assert without_input(analyze(zipped)) == plain
    if shutil.which('zstd'):
        subprocess.run(['zstd', '-q', str(path), '-o', str(tmp_path / 'trace.json.zst')], check=True)
        assert without_input(analyze(tmp_path / 'trace.json.zst')) == plain


def test_json_does_not_depend_on_options_of_the_screen(simulate, analyze):
    path = simulate(*SMALL)
    plain = analyze(path)
    assert analyze(path, '--top', '1') == plain
    assert analyze(path, '--width', '40') == plain
    assert analyze(path, '--color', 'always') == plain


HOST_NAMES = {
    'cpu_op': ['aten::mm', 'aten::add', 'aten::is_leaf', 'enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__',
               'autograd::engine::evaluate_function: MmBackward0', 'MmBackward0', 'aten::item'],
    'user_annotation': ['ProfilerStep#3', 'ProfilerStep#4', 'ProfilerStep#5', 'save_checkpoint', 'load_batch', 'forward',
                        'Optimizer.step#SGD.step', 'aten::add'],
    'cuda_runtime': ['cudaLaunchKernel', 'cudaMemcpyAsync', 'cudaStreamSynchronize', 'cudaMalloc', 'cudaEventRecord',
                     'cudaGraphLaunch', 'cudaMemcpy', 'cudaDeviceSynchronize'],
    'cuda_driver': ['cuLaunchKernel', 'cuMemMap'],
    'python_function': ['train.py(1): step'],
    'overhead': ['Activity Buffer Request'],
}
DEVICE_NAMES = {'kernel': ['sgemm', 'ncclDevKernel_AllReduce', 'relu', 'nvshmem_put', 'two_shotAllReduce'],
                'gpu_memcpy': ['Memcpy HtoD (Pageable -> Device)'], 'gpu_memset': ['Memset (Device)'],
                'cuda_sync': ['Stream Sync']}


def random_event(rng, tick):
    """An event at a multiple of `tick` nanoseconds, so that ends meet starts and starts meet starts."""
    on_device = rng.random() < 0.4
    category = rng.choices(list(DEVICE_NAMES), (8, 2, 1, 1))[0] if on_device else rng.choices(
        list(HOST_NAMES), (6, 3, 8, 1, 1, 1))[0]
    name = rng.choice((DEVICE_NAMES if on_device else HOST_NAMES)[category])
    start, duration = rng.randrange(400) * tick, rng.choice((0, 1, 2, 3, 5, 20, 100)) * tick
    if rng.random() < 0.02:
        duration = -duration
    long_text = rng.random() < 0.1   # digits beyond the third

    def decimal(ns):
        text = f'{abs(ns) // 1000}.{abs(ns) % 1000:03d}'
        return ('-' if ns < 0 else '') + text + (rng.choice(('4', '49', '499', '0000')) if long_text else '')

    args = {}
    if on_device or category.startswith('cuda_'):
        args['correlation'] = rng.randrange(60)
    if on_device:
        args |= {'device': rng.choice((0, 0, 0, 1)), 'stream': rng.choice((7, 20))}
    elif rng.random() < 0.2:
        args |= {'External id': rng.randrange(100)}
    if on_device:
        pid, tid = args['device'], args['stream']
    else:
        pid, tid = 500, rng.choice((500, 501, 502))
    # Written by hand: a JSON library would round the times.
    return (f'{{"ph": "X", "cat": "{category}", "name": {json.dumps(name)}, "pid": {pid}, "tid": {tid}, '
            f'"ts": {decimal(start + 1_700_000_000_000_000_000)}, "dur": {decimal(duration)}, "args": {json.dumps(args)}}}')


@pytest.mark.parametrize('seed', range(120))
def test_random_traces_equal_the_slow_reference(seed, analyze, check, tmp_path):
    rng = random.Random(seed)
    tick = rng.choice((1, 37, 1000, 5000, 20_000))
    events = [random_event(rng, tick) for _ in range(rng.choice((3, 20, 100, 400)))]
    path = tmp_path / 'trace.json'
    path.write_text('{"traceEvents": [\n' + ',\n'.join(events) + '\n]}')
    windows = [slow_reference.Window(slow_reference.load(path))]
    document = analyze(path)
    check(document)
    assert slow_reference.differences(document['ranks'][0], windows) == []


RECORDED = sorted(glob.glob(os.path.join(ROOT, '..', 'shared', 'traces', '*.json*')), key=os.path.getsize)
LARGEST_TEXT = 50_000_000   # bytes; the slow reference takes a second for ten megabytes


@pytest.mark.parametrize('path', RECORDED or [None], ids=lambda p: os.path.basename(p) if p else 'none')
def test_recorded_traces_equal_the_slow_reference(path, analyze, check):
    if path is None:
        pytest.skip('no recorded traces beside the checkout')
    with open(path, 'rb') as f:
        f.seek(-4, os.SEEK_END)
        size = int.from_bytes(f.read(), 'little') if path.endswith('.gz') else os.path.getsize(path)
    if size > LARGEST_TEXT:
        pytest.skip(f'{size / 1e6:.0f} MB of text are left to the acceptance checks')
    document = analyze(path)
    check(document)
    windows = [slow_reference.Window(slow_reference.load(path))]
    assert slow_reference.differences(document['ranks'][0], windows) == []


@pytest.mark.parametrize('path', RECORDED or [None], ids=lambda p: os.path.basename(p) if p else 'none')
def test_every_section_of_recorded_traces_can_be_shown(path, profgpu):
    if path is None:
        pytest.skip('no recorded traces beside the checkout')
    hint = profgpu('analyze', path, '--section', 'none').stderr.decode().replace('\n', ' ')
    for name in re.search(r'choose one of: (.*)', hint).group(1).split(','):
        shown = profgpu('analyze', path, '--section', name.strip(), '--width', 100)
        assert shown.returncode == 0 and shown.stdout.strip(), name


def keys_of(value):
    """Of all objects within."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*map(keys_of, value.values()))


@pytest.mark.parametrize('words', [('--strategy', 'ddp', '--fault', 'straggler-rank'), ('--strategy', 'fsdp'), ('--strategy', 'ep'),
                                   ('--strategy', 'pp', '--missing', '1')], ids=lambda words: words[1])
def test_every_key_of_a_job_is_documented(words, simulate, analyze):
    cluster = analyze(simulate('--ranks', '4', '--steps', '4', '--layers', '4', *words))['cluster']
    by_rank = cluster.pop('step_mean_ns_by_rank')
    assert by_rank
    with open(os.path.join(ROOT, 'docs', 'jobs.md')) as f:
        text = f.read()
    assert sorted(key for key in keys_of(cluster) if not re.search(rf'(`|## )[^`\n]*\b{key}\b', text)) == []


@pytest.fixture(scope='module')
def report_keys():
    """(what the first table of docs/report-json.md names, what the second says of each section of a rank)."""
    with open(os.path.join(ROOT, 'docs', 'report-json.md')) as f:
        _, document, ranks = f.read().split('\n## ')
    cells = [[re.findall(r'`([a-z0-9_]+)`', cell) for cell in line.split(' | ')] for line in ranks.split('\n') if line.startswith('| ')][2:]
    sections = {}
    for section, *named in cells:
        name = section[0] if section else name if sections else ''
        sections.setdefault(name, set()).update(*named)
    return set(re.findall(r'`([a-z0-9_]+)`', document)), sections


@pytest.mark.parametrize('words', [('--ranks', '2', '--strategy', 'fsdp'), ('--fault', 'data-loading-bound')], ids=('a job', 'one rank'))
def test_every_key_of_a_report_is_documented(words, simulate, analyze, report_keys):
    named, sections = report_keys
    document = analyze(simulate(*SMALL, *words))
    ranks = document.pop('ranks')
    document.pop('cluster')   # in docs/jobs.md
    assert ranks and keys_of(document) - named == set()
    for rank in ranks:
        sections_of_rank = {key: value for key, value in rank.items() if isinstance(value, (dict, list)) and key != 'frameworks'}   # texts
        assert set(rank) - set(sections_of_rank) <= sections[''] | {'serving', 'snapshot', 'counters', 'energy', 'model', 'mpi'}   # null: nothing of the kind in the input
        for section, value in sections_of_rank.items():
            assert keys_of(value) - sections[section] == set(), section
    assert {'ranks', 'cluster'} <= named


def test_every_key_of_a_server_is_documented(tmp_path, analyze, report_keys):
    trace = tmp_path / 'decode.json'
    events = [event for step in range(3) for event in (
        dict(ph='X', cat='user_annotation', name='step[DECODE bs=2]', pid=1, tid=1, ts=step * 100, dur=60),
        dict(ph='X', cat='cuda_runtime', name='cudaGraphLaunch', pid=1, tid=1, ts=step * 100 + 5, dur=10,
             args={'correlation': step + 1}),
        dict(ph='X', cat='python_function', name='engine.py(12): schedule', pid=1, tid=1, ts=step * 100 + 61, dur=30),
        dict(ph='X', cat='kernel', name='attention', pid=0, tid=7, ts=step * 100 + 20, dur=50,
             args={'correlation': step + 1, 'device': 0, 'stream': 7}))]
    trace.write_text(json.dumps({'traceEvents': events}))
    (rank,) = analyze(trace)['ranks']
    assert keys_of(rank['serving']) - report_keys[1]['serving'] == set()
    (kind,) = rank['serving']['kinds']
    assert (kind['kind'], kind['count'], kind['sequences'], kind['graph_pct']) == ('decode', 3, 2, 100)
    assert rank['serving']['between'][0]['name'] == 'schedule'


def test_documented_sections_are_there(simulate, analyze, report_keys):
    (rank,) = analyze(simulate(*SMALL))['ranks']
    assert set(report_keys[1]) - {''} - set(rank) == set()
