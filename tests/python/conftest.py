"""Runs the built program and the simulator. PROFGPU and KINETO_SIM name them; else the release build's are taken."""
import json
import os
import signal
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# The Python package, from its folder; PROFGPU_LIBRARY names the library under it.
os.environ.setdefault('PROFGPU_LIBRARY', os.path.join(ROOT, 'build', 'release', 'libprofgpu.so'))
sys.path.insert(0, os.path.join(ROOT, 'python'))
for name in ('LINES', 'COLUMNS'):   # side by side, pytest's processes have the size of its terminal in them
    os.environ.pop(name, None)
# A shell's background job ignores these, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def program(variable, name):
    path = os.environ.get(variable) or os.path.join(ROOT, 'build', 'release', name)
    if not os.access(path, os.X_OK):
        pytest.skip(f'{name} is not built: {path}')
    return os.path.abspath(path)


@pytest.fixture(scope='session')
def package():
    """The Python package has its library."""
    if not os.path.exists(os.environ['PROFGPU_LIBRARY']):
        pytest.skip('libprofgpu.so is not built: ' + os.environ['PROFGPU_LIBRARY'])


@pytest.fixture(scope='session')
def profgpu():
    """profgpu(*words) -> CompletedProcess with bytes. A crash or a run of over a minute fails the test."""
    path = program('PROFGPU', 'profgpu')

    def run(*words, **more):
        more.setdefault('stdin', subprocess.DEVNULL)
        if 'stdout' not in more:
            more.setdefault('capture_output', True)
        result = subprocess.run([path, *map(str, words)], timeout=60, **more)
        assert 0 <= result.returncode <= 3, f'exit code {result.returncode} of {words}: {result.stderr}'
        return result

    return run


@pytest.fixture(scope='session')
def analyze(profgpu):
    """analyze(*paths and options) -> the JSON document."""

    def run(*words):
        result = profgpu('analyze', '--json', *words)
        assert result.returncode == 0, result.stderr.decode(errors='replace')
        return json.loads(result.stdout)

    return run


@pytest.fixture(scope='session')
def simulate(tmp_path_factory):
    """simulate(*options) -> path of a simulated trace, or of a folder of them; made once for the same options."""
    path = program('KINETO_SIM', 'kineto-sim')
    folder = tmp_path_factory.mktemp('simulated')
    made = {}

    def run(*options):
        if options not in made:
            several = {'--ranks', '--windows'} & set(options) and '--only-rank' not in options
            out = folder / (f'job{len(made)}' if several else f'trace{len(made)}.json')
            subprocess.run([path, '--no-truth', '--out', str(out), *options], check=True, capture_output=True, timeout=120)
            made[options] = out
        return made[options]

    return run


def check_document(document):
    """What holds for every analysis document: its keys, their types, and parts that add up to totals."""
    assert document['schema'] == 'profgpu.analysis.v1'
    for key, kind in (('inputs', list), ('ranks', list), ('findings', list), ('checklist', list)):
        assert isinstance(document[key], kind), key
    assert 'cluster' in document and (document['cluster'] is None) == (len(document['ranks']) == 1)
    for source in document['inputs']:
        assert {'path', 'format', 'file_bytes', 'events', 'rank', 'issues'} <= source.keys()
        for issue in source['issues']:
            assert {'kind', 'count', 'severity', 'text'} <= issue.keys()
            assert issue['count'] >= 1 and issue['text']
    for rank in document['ranks']:
        check_rank(rank)
    for finding in document['findings']:
        assert {'rule', 'severity', 'ranks', 'value', 'threshold', 'unit', 'what', 'why', 'fix', 'cost_ns', 'cost_pct',
                'evidence'} <= finding.keys()
        assert finding['severity'] in ('info', 'warning', 'critical')
        assert isinstance(finding['fix'], list) and finding['fix'] and finding['what'] and finding['why']
        assert finding['cost_ns'] is None or finding['cost_ns'] >= 0
    order = [f['cost_ns'] for f in document['findings']]
    assert order == sorted(order, key=lambda c: -1 if c is None else c, reverse=True), 'findings are not dearest first'
    assert {c['id'] for c in document['checklist']} == {
        'gpu-utilization', 'data-loading', 'memory-headroom', 'communication', 'mixed-precision', 'compiled',
        'fused-optimizer', 'gradient-accumulation'}
    for entry in document['checklist']:
        assert entry['verdict'] in ('pass', 'fail', 'unknown')


PHASES = {'data_loading', 'forward', 'backward', 'optimizer', 'communication', 'checkpoint', 'other'}
CAUSES = {'unknown', 'launch_latency', 'dependency', 'checkpoint', 'data_loading', 'memory_allocation', 'synchronization',
          'host_bound', 'first_use', 'untraced_work', 'no_requests'}
CATEGORIES = {'gemm', 'convolution', 'attention', 'normalization', 'elementwise', 'reduction', 'embedding', 'optimizer',
              'copy', 'communication', 'other'}


def check_rank(rank):
    assert {'rank', 'world_size', 'host', 'devices', 'steps', 'phases', 'idle', 'kernels', 'ops', 'launch', 'collectives',
            'memory'} <= rank.keys()
    for d in rank['devices']:
        assert d['busy_ns'] + d['idle_ns'] == d['span_ns']
        assert 0 <= d['busy_ns'] <= d['span_ns']
        assert d['busy_ns'] <= d['compute_ns'] + d['communication_ns'] + d['memory_ns']
        assert (d['overlap_pct'] is None) == (d['communication_ns'] == 0)
        idle = [i for i in rank['idle'] if i['device'] == d['id']]
        assert sum(i['total_ns'] for i in idle) == d['idle_ns'], 'causes do not add up to the idle time'
        assert d['window_ns'] >= d['span_ns'] and d['window_ns'] - d['busy_ns'] == d['window_idle_ns']
        assert sum(i['total_ns'] + i['edge_ns'] for i in idle) == d['window_idle_ns']
    for i in rank['idle']:
        assert i['cause'] in CAUSES
        assert len(i['longest']) <= i['count']
        assert sum(gap['duration_ns'] for gap in i['edges']) <= i['edge_ns']
        assert all(gap['duration_ns'] > 0 for gap in i['longest'] + i['edges'])
    for k in rank['kernels']:
        assert k['category'] in CATEGORIES and k['kind'] in ('compute', 'communication', 'memory')
        assert k['min_ns'] <= k['median_ns'] <= k['p95_ns'] <= k['max_ns'] <= k['total_ns'] or k['total_ns'] == 0
    for s in rank['steps']:
        if rank['devices']:
            assert s['device_busy_ns'] + s['device_idle_ns'] == s['duration_ns']
        else:
            assert s['device_busy_ns'] is None and s['device_idle_ns'] is None
    assert {p['name'] for p in rank['phases']} <= PHASES
    assert sum(p['wall_ns'] for p in rank['phases']) == sum(s['duration_ns'] for s in rank['steps'])
    for o in rank['ops']:
        assert {'name', 'calls', 'cpu_total_ns', 'cpu_self_ns', 'device_total_ns', 'device_self_ns', 'flops'} <= o.keys()
        assert o['calls'] >= 1 and o['device_self_ns'] <= o['device_total_ns']


@pytest.fixture(scope='session')
def check():
    return check_document


@pytest.fixture
def stage(tmp_path):
    """stage(text) -> path of a scenario for the stand-in library"""
    def write(text):
        path = tmp_path / 'scenario.txt'
        path.write_text(text)
        return path
    return write
