"""nvbandwidth's text and JSON: the same figures, and the pairs that are far behind the others."""
import json
import statistics

import pytest

GPUS = 8


def copies(slow=(), slow_host=None):
    """A test's name, description and matrix; rates that differ a little, and slow ones."""
    def peer(r, c):
        if r == c:
            return None
        return 150.25 if (r, c) in slow else 390.5 + (3 * r + c) % 5
    host = [[12.5 if c == slow_host else 55.25 + c / 100 for c in range(GPUS)]]
    return [('host_to_device_memcpy_ce', 'memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)', host),
            ('device_to_device_memcpy_read_ce', 'memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)',
             [[peer(r, c) for c in range(GPUS)] for r in range(GPUS)]),
            ('device_to_device_latency_sm', 'Device to Device Latency SM GPU(row) <-> GPU(column) (ns)',
             [[None if r == c else 820. + c for c in range(GPUS)] for r in range(GPUS)])]


def total(rows):
    return sum(x for row in rows for x in row if x is not None)


def as_text(tests):
    text = 'nvbandwidth Version: v0.8\nBuilt from Git version: v0.8\n\nDriver Version: 570.1\n\n'
    for name, description, rows in tests:
        text += f'Running {name}.\n{description}\n ' + ''.join(f'{c:>10}' for c in range(len(rows[0]))) + '\n'
        for r, row in enumerate(rows):
            text += f' {r}' + ''.join(f'{"N/A" if x is None else format(x, ".2f"):>10}' for x in row) + '\n'
        text += f'\nSUM {name} {total(rows):.2f}\n\n'
    return text


def as_json(tests):
    return json.dumps({'nvbandwidth': {'CUDA Runtime Version': 12080, 'version': 'v0.8', 'testcases': [
        {'name': name, 'status': 'Passed', 'bandwidth_description': description, 'sum': total(rows),
         'bandwidth_matrix': [['N/A' if x is None else str(x) for x in row] for row in rows]}
        for name, description, rows in tests] + [{'name': 'all_to_host_memcpy_sm', 'status': 'Waived'}]}}, indent=3)


FORMATS = {'nvbw.log': as_text, 'nvbw.json': as_json}


def report_of(profgpu, tmp_path, name, tests):
    path = tmp_path / name
    path.write_text(FORMATS[name](tests))
    run = profgpu('analyze', str(path), '--json')
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize('name', FORMATS)
def test_figures(profgpu, tmp_path, name):
    tests = copies()
    report = report_of(profgpu, tmp_path, name, tests)
    log, = report['logs']
    assert [c['test'] for c in log['copies']] == [t[0] for t in tests]
    for row, (_, description, rows) in zip(log['copies'], tests):
        values = [x for r in rows for x in r if x is not None]
        assert (row['rows'], row['columns'], row['pairs']) == (len(rows), GPUS, len(values))
        assert row['median'] == pytest.approx(statistics.median(values))
        assert (row['min'], row['max']) == (min(values), max(values))
        assert row['sum'] == pytest.approx(sum(values), abs=0.01)
        assert row['unit'] == ('ns' if '(ns)' in description else 'GB/s')
    assert len(log['copy_rates']) == GPUS + 2 * GPUS * (GPUS - 1)
    assert log['slow_pairs'] == [] and report['findings'] == []
    assert report['verdict_kind'] == 'healthy' and 'GPUs copy' in report['verdict']


@pytest.mark.parametrize('name', FORMATS)
def test_slow_pairs_are_named(profgpu, tmp_path, name):
    report = report_of(profgpu, tmp_path, name, copies(slow={(2, 5), (5, 2)}, slow_host=3))
    finding, = report['findings']
    assert finding['rule'] == 'slow-pairs' and finding['value'] == 3
    assert [(p['from'], p['to']) for p in report['logs'][0]['slow_pairs']] == \
        [('CPU', 'GPU 3'), ('GPU 2', 'GPU 5'), ('GPU 5', 'GPU 2')]
    assert 'CPU and GPU 3' in finding['what'] and '12.5' in finding['what']


def test_what_all_slow_pairs_have_is_named(profgpu, tmp_path):
    slow = {(r, c) for r in range(GPUS) for c in range(GPUS) if 6 in (r, c)}
    report = report_of(profgpu, tmp_path, 'nvbw.log', copies(slow=slow))
    assert report['findings'][0]['what'].startswith('GPU 6 copies at')


def test_a_slow_pair_of_one_of_two_outputs_says_where_it_is(profgpu, tmp_path):
    def output(slow):
        return ('nvbandwidth Version: v0.5\n\nRunning host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n'
                f'           0         1         2         3\n 0      55.10     55.20     {slow:.2f}     55.10\n\nSUM host_to_device_memcpy_ce 177.40\n')
    path = tmp_path / 'nvbw.log'
    path.write_text(output(55.0) + output(12.0))
    report = json.loads(profgpu('analyze', str(path), '--json').stdout)
    assert report['findings'][0]['what'].startswith('CPU and GPU 2 in the table at line 14 copy at 12 GB/s')
    path.write_text(output(12.0))
    report = json.loads(profgpu('analyze', str(path), '--json').stdout)
    assert report['findings'][0]['what'].startswith('CPU and GPU 2 copy at 12 GB/s')
    labeled = ''.join(f'{node}: {line}\n' for node, slow in (('node1', 55.0), ('node2', 12.0)) for line in output(slow).splitlines())
    path.write_text(labeled)
    report = json.loads(profgpu('analyze', str(path), '--json').stdout)
    assert report['findings'][0]['what'].startswith('CPU and GPU 2 on node2 copy at 12 GB/s')


def test_pairs_of_other_links_are_no_fault(profgpu, tmp_path):
    bridged = {(r, c) for r in range(GPUS) for c in range(GPUS) if r // 2 != c // 2}
    report = report_of(profgpu, tmp_path, 'nvbw.log', copies(slow=bridged))
    assert report['findings'] == []


def test_both_ways_at_once_in_json(profgpu, tmp_path):
    one, two = [[None, 200.], [210., None]], [[None, 400.], [410., None]]
    tests = [('device_to_device_bidirectional_memcpy_read_ce', 'memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)',
              one + one + two)]
    report = report_of(profgpu, tmp_path, 'nvbw.json', tests)
    assert [(c['test'].rsplit('_', 1)[1], c['median']) for c in report['logs'][0]['copies']] == \
        [('1', 205), ('2', 205), ('total', 405)]
    assert report['findings'] == []


@pytest.mark.parametrize('size', [40, 300, 700, 2000])
def test_cut_files(profgpu, tmp_path, size):
    for name, make in FORMATS.items():
        path = tmp_path / name
        path.write_text(make(copies())[:size])
        run = profgpu('analyze', str(path), '--json')
        assert run.returncode in (0, 1), run.stderr
