"""Triton's Proton: trees of scopes with sums, and traces; what a plain walk says of the same file."""
import collections
import json
import random

import pytest


def leaf(name, ns, count, device=0):
    return {'children': [], 'frame': {'name': name, 'type': 'function'}, 'metrics': {'count': count, 'device_id': str(device), 'device_type': 'CUDA', 'time (ns)': ns}}


def scope(name, *children, **metrics):
    return {'children': list(children), 'frame': {'name': name, 'type': 'function'}, 'metrics': metrics}


DEVICES = {'CUDA': {'0': {'arch': '90', 'bus_width': 5120, 'clock_rate': 1_980_000, 'memory_clock_rate': 2_619_000, 'num_sms': 132}}}


def tree():
    return [scope('ROOT', scope('step', scope('forward', leaf('gemm', 4001, 3), leaf('softmax', 1_000_000, 7), **{'flops16': 1e9}), scope('backward', leaf('gemm', 10_007, 4))),
                  leaf('copy', 5, 1, 1), scope('empty', leaf('never', 0, 0)), **{'count': 0, 'time (ns)': 0}), DEVICES]


def sums(node, out=None):
    """(launches, time) of each kernel."""
    out = collections.defaultdict(lambda: [0, 0]) if out is None else out
    m = {k.lower(): v for k, v in node['metrics'].items()}
    if m.get('time (ns)', 0):
        out[node['frame']['name']][0] += max(m['count'], 1)
        out[node['frame']['name']][1] += m['time (ns)']
    for child in node['children']:
        sums(child, out)
    return out


def total(node):
    return {k.lower(): v for k, v in node['metrics'].items()}.get('time (ns)', 0) + sum(map(total, node['children']))


@pytest.fixture(scope='session')
def ask(profgpu):
    def run_query(*words):
        result = profgpu('query', *map(str, words), '--json', '--quiet', text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run_query


def kernels_of(ask, path):
    return {r['name']: [r['n'], r['t']] for r in ask(path, 'select name, count(*) n, sum(duration_ns) t from activity group by 1')}


def write(path, *documents):
    path.write_text('\n'.join(d if isinstance(d, str) else json.dumps(d) for d in documents))
    return path


@pytest.mark.parametrize('older', (True, False))
def test_a_tree(ask, analyze, tmp_path, older):
    text = json.dumps(tree())
    if older:
        text = text.replace('"count"', '"Count"').replace('"time (ns)"', '"Time (ns)"').replace('"device_id"', '"DeviceId"')
    path = write(tmp_path / 'proton.hatchet', text)
    root = json.loads(text)[0]
    assert kernels_of(ask, path) == {k: list(v) for k, v in sums(root).items()}
    scopes = {r['name']: r['t'] for r in ask(path, 'select name, sum(duration_ns) t from host group by 1')}
    assert scopes == {c['frame']['name']: total(c) for s in (root,) for c in (s['children'][0], *s['children'][0]['children'])}
    assert ask(path, "select name, device from activity where name = 'copy'") == [{'name': 'copy', 'device': 1}]
    report = analyze(path)
    assert report['inputs'][0]['format'] == 'proton' and any('no times' in i['text'] for i in report['inputs'][0]['issues'])


def test_random_trees_add_up(ask, tmp_path):
    chance = random.Random(3)

    def grown(depth):
        if depth == 0 or chance.random() < 0.4:
            return leaf(f'k{chance.randrange(5)}', chance.randrange(100_000), chance.randrange(1, 50))
        return scope(f's{depth}', *(grown(depth - 1) for _ in range(chance.randrange(1, 4))))
    for i in range(5):
        root = scope('ROOT', *(grown(5) for _ in range(4)))
        assert kernels_of(ask, write(tmp_path / f'{i}.hatchet', [root, {}])) == {k: list(v) for k, v in sums(root).items()}


def test_huge_counts_are_one_record_each(ask, analyze, tmp_path):
    path = write(tmp_path / 'proton.hatchet', [scope('ROOT', leaf('a', 10**12, 10**15 - 1), leaf('b', 5, 10**14)), {}])
    assert kernels_of(ask, path) == {'a': [1, 10**12], 'b': [1, 5]}
    assert any('too many' in i['text'] for i in analyze(path)['inputs'][0]['issues'])


def test_a_trace(ask, analyze, tmp_path):
    stack = lambda *names: {'call_stack': ['ROOT', *names]}   # noqa: E731
    event = lambda name, tid, ts, dur, *scopes: {'name': name, 'cat': 'kernel', 'ph': 'X', 'ts': ts, 'dur': dur, 'tid': tid, 'args': stack(*scopes, name)}   # noqa: E731
    # A line for each stream, as it writes them.
    first = {'displayTimeUnit': 'us', 'traceEvents': [event('gemm', 7, 0.0, 2.5, 'step 0', 'forward'), event('gemm', 7, 3.0, 2.0, 'step 0', 'forward'),
                                                      event('add', 7, 6.0, 1.25, 'step 0'), event('gemm', 7, 10.0, 2.0, 'step 1', 'forward')]}
    second = {'displayTimeUnit': 'us', 'traceEvents': [event('copy', 9, 1.0, 4.0)]}
    path = write(tmp_path / 'proton.chrome_trace', first, second)
    assert kernels_of(ask, path) == {'gemm': [3, 6500], 'add': [1, 1250], 'copy': [1, 4000]}
    assert ask(path, 'select distinct stream from activity order by 1') == [{"stream": 7}, {"stream": 9}]
    assert ask(path, 'select name, start_ns s, duration_ns d from host order by 2, 3 desc, 1 desc') == [
        {'name': 'step 0', 's': 0, 'd': 7250}, {'name': 'forward', 's': 0, 'd': 5000}, {'name': 'step 1', 's': 10_000, 'd': 2000}, {'name': 'forward', 's': 10_000, 'd': 2000}]
    report = analyze(path)
    assert [s['name'] for s in report['ranks'][0]['steps']] == ['step 0', 'step 1'] and report['ranks'][0]['devices'][0]['busy_ns'] == 5000 + 1250 + 2000


def test_what_happens_within_kernels_is_refused(profgpu, tmp_path):
    path = write(tmp_path / 'x.chrome_trace', {'traceEvents': [{'cname': 'good', 'name': 'load', 'cat': 'gemm', 'ph': 'X', 'pid': 'gemm Core0 CTA1', 'tid': 'warp 0 (line 0)',
                                                                'ts': 0.5, 'dur': 1.0, 'args': {'call_stack': ['ROOT']}}]})
    result = profgpu('analyze', path, text=True)
    assert result.returncode == 1 and 'within kernels' in result.stderr


def nested(depth):
    return json.dumps([leaf('k', 5, 1)]).replace('"children": []', '"children": ' + '[{"children": ' * depth + '[]' + '}]' * depth)


@pytest.mark.parametrize('text', (
    json.dumps(tree())[:250], nested(150), nested(5000), json.dumps(tree()).replace('4001', '-5'), json.dumps(tree()).replace('4001', '"1e400"'), json.dumps(tree()).replace('4001', '{}'),
    json.dumps(tree()).replace('[]', '7'), json.dumps([scope('ROOT', leaf('a', 1, 1)), 5, 'x', None]), json.dumps([scope('ROOT', leaf('a', 1, 10**19))]),
    json.dumps([scope('ROOT', leaf('a\ud800', 1, 1))]), json.dumps([scope('ROOT')])))
def test_damaged_files(profgpu, tmp_path, text):
    path = tmp_path / 'bad.hatchet'
    path.write_text(text, errors='surrogatepass')
    result = profgpu('analyze', path, '--json', text=True)
    assert result.returncode == 0 or result.stderr.startswith('profgpu: ')
