"""PyTorch's execution traces: alone, and beside the profiler's trace of the same run, to whose operators they give shapes and types."""
import collections
import copy
import json
import subprocess
import sys

import pytest

pytest.importorskip('torch')


TRAINING = """
import torch
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile
model = torch.nn.Sequential(torch.nn.Unflatten(1, (2, 2, 2)), torch.nn.Conv2d(2, 3, 2, padding=1), torch.nn.Flatten(),
                            torch.nn.Linear(27, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters())
observer = ExecutionTraceObserver()
observer.register_callback('et.json')
with profile(activities=[ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer) as profiler:
    for i in range(3):
        with torch.profiler.record_function(f'step {i}'):
            optimizer.zero_grad()
            torch.cat([model(torch.randn(5, 8)), torch.ones(2, 4)]).sum().backward()
            optimizer.step()
profiler.export_chrome_trace('kineto.json')
observer.unregister_callback()
"""


@pytest.fixture(scope='session')
def recorded(tmp_path_factory):
    """(execution trace, profiler's trace with shapes) of one run, as documents. In a process of its own: what a process
    has profiled before changes how PyTorch numbers its operators."""
    folder = tmp_path_factory.mktemp('et')
    subprocess.run([sys.executable, '-c', TRAINING], cwd=folder, check=True, capture_output=True, timeout=240)
    return [json.loads((folder / name).read_text()) for name in ('et.json', 'kineto.json')]


def without_shapes(kineto):
    kineto = copy.deepcopy(kineto)
    for event in kineto['traceEvents']:
        for key in ('Input Dims', 'Input type', 'Input Strides', 'Concrete Inputs'):
            event.get('args', {}).pop(key, None)
    return kineto


def flat(execution, numbers=True):
    """The same in schema 1.0.2."""
    nodes = []
    for node in execution['nodes']:
        values = {a['name']: a['value'] for a in node['attrs']}
        nodes.append({'name': node['name'], 'id': node['id'], 'rf_id': values['rf_id'] if numbers else 0, 'parent': node['ctrl_deps'],
                      'fw_parent': values['fw_parent'], 'seq_id': values['seq_id'], 'scope': values['scope'], 'tid': values['tid'],
                      'fw_tid': values['fw_tid'], 'op_schema': values['op_schema'], 'inputs': node['inputs']['values'],
                      'input_shapes': node['inputs']['shapes'], 'input_types': node['inputs']['types'],
                      'outputs': node['outputs']['values'], 'output_shapes': node['outputs']['shapes'], 'output_types': node['outputs']['types']})
    return {'schema': '1.0.2', 'pid': execution['pid'], 'time': execution['time'], 'start_ts': execution['start_ts'], 'nodes': nodes,
            'finish_ts': execution['finish_ts']}


@pytest.fixture(scope='session')
def ask(profgpu):
    def run(*words):
        result = profgpu('query', *map(str, words), '--json', '--quiet', text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def write(folder, **documents):
    paths = []
    for name, document in documents.items():
        paths.append(folder / f'{name}.json')
        paths[-1].write_text(json.dumps(document))
    return paths


SHAPES = "select name, shapes, count(*) n from host where kind = 'op' group by 1, 2 order by 1, 2"


def texts(report):
    return ' | '.join(i['text'] for f in report['inputs'] for i in f['issues'])


@pytest.mark.parametrize('schema', ('1.1.1', '1.0.2', 'by order'))
def test_operators_get_their_shapes(analyze, ask, recorded, tmp_path, schema):
    execution, kineto = recorded
    if schema != '1.1.1':
        execution = flat(execution, numbers=schema == '1.0.2')
    truth, = write(tmp_path, truth=kineto)
    folder = tmp_path / 'run'
    folder.mkdir()
    write(folder, et=execution, trace=without_shapes(kineto))

    def shapes(path):
        # A list of tensors has no shape of its own that the profiler would print; and some operators are in one of the two alone.
        return {(r['name'], r['shapes']): r['n'] for r in ask(path, SHAPES) if r['name'].startswith('aten::') and '[[[' not in (r['shapes'] or '')}

    want, got = shapes(truth), shapes(folder)
    assert sum(got.values()) == sum(want.values())
    same = sum((collections.Counter(want) & collections.Counter(got)).values())
    assert same >= 0.95 * sum(want.values()), {k: (want.get(k), got.get(k)) for k in want if want.get(k) != got.get(k)}
    report = analyze(folder)
    # Values too, such as a convolution's padding.
    flops = lambda path: {o['name']: o['flops'] for o in analyze(path)['ranks'][0]['ops'] if o['flops']}   # noqa: E731
    assert flops(folder) == flops(truth) and {'aten::convolution_backward', 'aten::addmm'} <= flops(truth).keys()
    assert len(report['ranks']) == 1 and sorted(f['format'] for f in report['inputs']) == ['execution-trace', 'kineto']
    assert ('by thread, order and name' if schema == 'by order' else 'by their numbers') in texts(report)
    plain = analyze(folder / 'trace.json')
    assert report['ranks'][0]['steps'] == plain['ranks'][0]['steps'] and report['ranks'][0]['phases'] == plain['ranks'][0]['phases']


def test_expanded_inputs_are_those_of_the_profiler(profgpu, recorded, tmp_path):
    """The gradient of a sum is one number in many places."""
    execution, kineto = recorded
    truth, = write(tmp_path, truth=kineto)
    folder = tmp_path / 'run'
    folder.mkdir()
    write(folder, et=execution, trace=without_shapes(kineto))

    def strides(path):
        result = profgpu('export', path, '--to', 'chrome', '-o', '-', '--quiet')
        assert result.returncode == 0, result.stderr
        events = [e for e in json.loads(result.stdout)['traceEvents'] if 'Input Strides' in e.get('args', {})]
        return collections.Counter((e['name'], str(e['args']['Input Strides'])) for e in events)

    want = strides(truth)
    assert want and strides(folder) == want


def test_one_iteration_is_joined_by_the_numbers_that_the_profiler_wrote(analyze, ask, recorded, tmp_path):
    execution, kineto = copy.deepcopy(recorded[0]), without_shapes(recorded[1])
    number = {n['id']: next(a['value'] for a in n['attrs'] if a['name'] == 'rf_id') for n in execution['nodes']}
    step = next(n for n in execution['nodes'] if n['name'] == 'step 1')
    within = {step['id']}
    for node in sorted(execution['nodes'], key=lambda n: n['id']):
        if node['ctrl_deps'] in within:
            within.add(node['id'])
    execution['nodes'] = [n for n in execution['nodes'] if n['id'] in within]
    assert any(e.get('args', {}).get('Record function id') == number[step['id']] for e in kineto['traceEvents'])
    folder = tmp_path / 'run'
    folder.mkdir()
    write(folder, et=execution, kineto=kineto)
    assert 'by their numbers' in texts(analyze(folder))
    joined = ask(folder, "select count(*) n from host where name = 'aten::addmm' and shapes is not null")
    assert joined == [{'n': sum(n['name'] == 'aten::addmm' for n in execution['nodes'])}] and joined[0]['n'] > 0


def test_files_that_people_can_read_have_the_same_shapes(ask, recorded, tmp_path):
    path, indented = write(tmp_path, et=recorded[0], indented=recorded[0])
    indented.write_text(json.dumps(recorded[0], indent=2))
    shapes = 'select distinct shapes from host order by 1'
    assert ask(path, shapes) == ask(indented, shapes)


def test_alone_it_counts_operators_by_shape(analyze, ask, profgpu, recorded, tmp_path):
    path, = write(tmp_path, et=recorded[0])
    want = collections.Counter()
    for node in recorded[0]['nodes']:
        if node['name'] == 'aten::addmm':
            want[json.dumps([s if t.startswith('Tensor') else [] for s, t in zip(node['inputs']['shapes'], node['inputs']['types'])])] += 1
    got = {r['shapes']: r['n'] for r in ask(path, "select shapes, count(*) n from host where name = 'aten::addmm' group by 1")}
    assert got == want and want
    report = analyze(path)
    assert 'an execution trace has no times' in texts(report) and report['verdict'].startswith('This trace has no times')
    for words in (('analyze',), ('analyze', '--format', 'markdown'), ('export', '--to', 'csv', '-o', str(tmp_path / 'csv'))):
        assert profgpu(words[0], path, *words[1:]).returncode == 0


def test_nodes_of_the_process_are_no_operators(ask, recorded, tmp_path):
    """Until 2023 they had another name."""
    execution = json.loads(json.dumps(flat(recorded[0])).replace('|execution_trace|', '|execution_graph|'))
    assert '|execution_graph|' in json.dumps(execution)
    path, = write(tmp_path, et=execution)
    assert not [r for r in ask(path, 'select name from host') if 'pytorch|profiler' in r['name']]


def test_another_run_gives_nothing(analyze, ask, recorded, tmp_path):
    execution, kineto = copy.deepcopy(recorded[0]), without_shapes(recorded[1])
    for node in execution['nodes']:
        node['name'] = 'x' + node['name']
    folder = tmp_path / 'run'
    folder.mkdir()
    write(folder, et=execution, trace=kineto)
    assert 'it was not used' in texts(analyze(folder))
    assert ask(folder, "select count(*) n from host where shapes <> ''") == [{'n': 0}]


def test_cut_and_odd_ones(profgpu, recorded, tmp_path):
    text = json.dumps(recorded[0])
    events = []
    for percent in (1, 10, 50, 99):
        path = tmp_path / f'{percent}.json'
        path.write_text(text[:len(text) * percent // 100])
        result = profgpu('analyze', path, '--json')
        if result.returncode == 0:
            report = json.loads(result.stdout)
            assert 'ends early' in texts(report)
            events.append(report['inputs'][0]['events'])
        else:
            assert result.returncode == 1 and result.stderr.startswith(b'profgpu: ')
    assert events == sorted(events) and len(events) >= 2
    odd = {'schema': '1.1.1-chakra.0.0.4', 'pid': 'x', 'nodes': [
        {'id': -1, 'name': 'a\x1b[31m', 'inputs': {'shapes': 'no', 'types': 7}, 'attrs': [{'name': 'tid', 'value': 1e99}, 5]},
        {'id': 1 << 70, 'name': 'b', 'inputs': [[]], 'input_shapes': [[[1]], {}], 'input_types': ['Tensor(', 'Tensor(float)'], 'attrs': []}, 'x', None]}
    path, = write(tmp_path, odd=odd)
    result = profgpu('analyze', path)
    assert result.returncode in (0, 1) and b'\x1b[31m' not in result.stdout
    (tmp_path / 'empty.json').write_text('{"schema": "1.0.2", "nodes": []}')
    assert profgpu('analyze', tmp_path / 'empty.json').returncode == 1


def test_alone_ops_are_listed_by_their_work(analyze, recorded, tmp_path):
    path = tmp_path / 'et.json'
    path.write_text(json.dumps(recorded[0]))
    ops = analyze(path)['ranks'][0]['ops']
    known = [o['flops'] for o in ops if o['flops'] is not None]
    assert known == sorted(known, reverse=True) and known and [o['flops'] for o in ops[:len(known)]] == known
    rest = [o['calls'] for o in ops[len(known):]]
    assert rest == sorted(rest, reverse=True)
    # Two linear layers of 5 rows, three times: 2 * 5 * (27 * 16 + 16 * 4).
    assert {o['name']: o['flops'] for o in ops}['aten::addmm'] == 3 * 2 * 5 * (27 * 16 + 16 * 4)
