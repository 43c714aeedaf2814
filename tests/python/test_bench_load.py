"""profgpu bench: overlap, burn, crossover, a job's products, and what becomes of results."""
import csv
import ctypes
import ctypes.util
import html.parser
import io
import json
import os
import re
import signal
import subprocess
import time

import pytest

from test_bench import PROGRAM, STUBS, bench, environment, figure   # noqa: F401: a fixture

GIB = 1 << 30


@pytest.mark.parametrize('product, collective', [(1, 1), (1.25, 1.5), (2, 1.1)])
def test_overlap(bench, product, collective):   # noqa: F811
    """The model: what was begun first goes on, the other is slowed while both are there."""
    code, document, _ = bench(f'devices=4,bf16=800,nccl=400,nccl_ns=0,product_beside={product},'
                              f'collective_beside={collective}', 'overlap')
    assert code == 0 and not document['not_measured']

    def value(name):
        return figure(document, name, None)['value']
    assert value('product') == pytest.approx(800, rel=0.03)
    assert value('collective') == pytest.approx(400, rel=0.03)
    assert value('product_beside') == pytest.approx(800 / product, rel=0.03)
    assert value('collective_beside') == pytest.approx(400 / collective, rel=0.03)
    # All-reduces go first and products are slowed meanwhile: the share 1 / slowdown of them is hidden.
    assert value('hidden') == pytest.approx(100 / product, abs=4)


def test_the_spread_of_what_is_hidden(bench):   # noqa: F811
    """In the unit of what is hidden it is the time's, as a share of the shorter of both."""
    _, document, _ = bench('devices=2,bf16=800,nccl=400,nccl_ns=0,slow_every=3', 'overlap')
    both, hidden = figure(document, 'both', None), figure(document, 'hidden', None)
    products, collectives = map(int, re.findall(r'[0-9]+', both['label']))
    product_ns = 2 * 8192 ** 3 / figure(document, 'product', None)['value'] / 1e3
    collective_ns = (64 << 20) / figure(document, 'collective', None)['value']   # the factor of two devices is 1
    shorter = min(products * product_ns, collectives * collective_ns)
    assert both['spread_pct'] > 1
    assert hidden['spread_pct'] * hidden['value'] == pytest.approx(
        100 * both['spread_pct'] * both['value'] / shorter, rel=1e-3)


def test_overlap_needs_devices_and_libraries(bench):   # noqa: F811
    code, document, _ = bench('devices=1', 'overlap')
    assert code == 1 and document['not_measured'][0]['why'] == 'overlap needs two GPUs'
    for library in ('NCCL', 'CUBLASLT'):
        code, document, _ = bench('devices=2', 'overlap', **{f'PROFGPU_{library}_LIBRARY': '/nowhere/lib.so'})
        assert code == 1 and '/nowhere/lib.so' in document['not_measured'][0]['why']
    # The first call fails of what is called once; else the second.
    for function, failure in (('ncclCommInitAll', '2'), ('ncclAllReduce', '2:1'), ('cublasLtMatmul', '2:1'), ('cuStreamCreate', '2:1'),
                              ('cuMemAlloc_v2', '2:1')):
        code, document, _ = bench(f'devices=2,fail={function}:{failure}', 'overlap')
        assert function in ' '.join(n['why'] for n in document['not_measured'])


def test_burn_names_the_weak_card(bench, profgpu, tmp_path):   # noqa: F811
    saved = tmp_path / 'burn.json'
    code, document, _ = bench('devices=4,bf16=800,2.bf16=640', 'burn', '--duration', '20', '-o', str(saved))
    assert code == 0
    for device in range(4):
        f = figure(document, 'sustained', device)
        assert f['value'] == pytest.approx(640 if device == 2 else 800, rel=0.03)
        # All stretches of a quarter of a second count, in the one or in the other.
        first = figure(document, 'first', device)
        assert first['runs'] == 8 and first['value'] == pytest.approx(f['value'], rel=0.01)
        assert f['runs'] + first['runs'] == pytest.approx(80, abs=4)
    text = profgpu('bench', '--saved', saved, '--width', '160').stdout.decode()
    assert re.search(r'GPU 2: bf16 GEMMs, all devices at once 640(\.0)? TFLOP/s, the others 800', text), text


def test_burn_sees_a_card_that_gets_slower(bench):   # noqa: F811
    _, document, _ = bench('devices=2,bf16=800,1.throttle_after=3000,1.throttle=1.25', 'burn', '--duration', '20')
    assert len(document['notes']) == 1
    assert re.match(r'GPU 1: its rate fell by 20 % under load, from 800 to 640 TFLOP/s', document['notes'][0])


def test_burn_sees_wrong_numbers(bench):   # noqa: F811
    _, document, _ = bench('devices=2,1.flip_after=500', 'burn', '--duration', '20')
    found = [(n['device'], n['why']) for n in document['not_measured']]
    assert found == [(1, 'its result changed: the device computes wrong numbers')]


def test_burn_of_a_card_that_vanishes(bench):   # noqa: F811
    _, document, _ = bench('devices=2,0.lost_after=400', 'burn', '--duration', '20')
    assert figure(document, 'sustained', 1)['runs'] > 50
    assert [n['device'] for n in document['not_measured']] == [0]


@pytest.mark.parametrize('function', ['cublasLtCreate', 'cublasLtMatmul', 'cuEventRecord', 'cuMemcpyDtoHAsync_v2'])
def test_burn_that_fails_ends(bench, function):   # noqa: F811
    code, document, _ = bench(f'devices=2,fail={function}:2', 'burn', '--duration', '5')
    assert function in ' '.join(n['why'] for n in document['not_measured'])


def test_crossover(bench, profgpu, tmp_path):   # noqa: F811
    """A device without latency always wins, one that takes a minute for a launch never does. The CPU's side is real."""
    saved = tmp_path / 'fast.json'
    fast = 'copy_ns=0,kernel_ns=20,launch_ns=20,sync_ns=0,local=1e6,h2d=1e-6,d2h=1e-6,fp32=0.5'
    code, document, _ = bench(fast, 'crossover', '-o', str(saved))
    assert code == 0 and not document['not_measured'], document['not_measured']
    found = {c['name']: c for c in document['crossover']}
    assert set(found) == {'product', 'elementwise', 'reduction', 'sort', 'fft_passes'}
    for c in found.values():
        assert c['size'] == (8 if c['name'] == 'product' else 1024) and c['size_with_copies'] is None
    text = profgpu('bench', '--saved', saved, '--width', '120').stdout.decode()
    assert 'the GPU wins from 1024 on, data in its memory' in text
    assert 'the GPU does not win, with both copies' in text and '█' in text
    is_pythons(document)
    _, document, _ = bench('sync_ns=1e12', 'crossover')
    assert all(c['size'] is None and c['size_with_copies'] is None for c in document['crossover'])
    is_pythons(document)


def is_pythons(document):
    """Both count the crossing in the same way."""
    package = pytest.importorskip('profgpu.timing')
    for c in document['crossover']:
        rows = {}
        for f in document['figures']:
            how = re.fullmatch(f"{c['name']}_(cpu|gpu|gpu_with_copies)_{f['size']}", f['name'])
            if how:
                rows.setdefault(f['size'], {})[how[1]] = package.Timing((f['value'] * 1e-9,), 0, 'wall clock')
        made = package.Crossover(tuple(package.CrossoverRow(size, r['cpu'], r['gpu'], r['gpu_with_copies'])
                                       for size, r in sorted(rows.items())))
        assert (made.size, made.size_with_copies) == (c['size'], c['size_with_copies']), c


def shapes_trace(path, products):
    """A step of `products`: (operator, shapes, type, kernel's name, microseconds)."""
    events = [{'ph': 'X', 'cat': 'user_annotation', 'name': 'ProfilerStep#1', 'pid': 1, 'tid': 1, 'ts': 0, 'dur': 1e5}]
    at = 10
    for i, (name, dims, kind, kernel, us) in enumerate(products):
        events += [
            {'ph': 'X', 'cat': 'cpu_op', 'name': name, 'pid': 1, 'tid': 1, 'ts': at, 'dur': 20,
             'args': {'Input Dims': dims, 'Input type': [kind] * len(dims), 'External id': i}},
            {'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaLaunchKernel', 'pid': 1, 'tid': 1, 'ts': at + 5, 'dur': 5,
             'args': {'correlation': i + 1, 'External id': i}},
            {'ph': 'X', 'cat': 'kernel', 'name': kernel, 'pid': 0, 'tid': 7, 'ts': at + 30, 'dur': us,
             'args': {'device': 0, 'stream': 7, 'correlation': i + 1, 'External id': i}}]
        at += us + 50
    device = {'id': 0, 'name': 'Simulated GPU', 'totalGlobalMem': 80_000_000_000}
    path.write_text(json.dumps({'schemaVersion': 1, 'deviceProperties': [device], 'traceEvents': events}))


def test_products_of_a_job(bench, tmp_path):   # noqa: F811
    trace = tmp_path / 'trace.json'
    big, batch = [[4096, 1024], [1024, 2048]], [[8, 256, 64], [8, 64, 512]]
    shapes_trace(trace, [('aten::mm', big, 'c10::BFloat16', 'sm90_gemm_bf16', 40),
                         ('aten::mm', big, 'c10::BFloat16', 'sm90_gemm_bf16', 40),
                         ('aten::bmm', batch, 'float', 'sgemm', 100)])
    code, document, error = bench('bf16=800,fp32=50', 'matmul', '--from', str(trace))
    assert code == 0, error
    assert [f['label'] for f in document['figures']] == ['fp32 8×(256×64) by (64×512)', 'bf16 (4096×1024) by (1024×2048)']
    batched, plain = document['figures']
    assert plain['value'] == pytest.approx(800, rel=0.03) and batched['value'] == pytest.approx(50, rel=0.03)
    assert plain['in_trace'] == pytest.approx(2 * 4096 * 1024 * 2048 / 40e-6 / 1e12, rel=0.001)
    assert batched['in_trace'] == pytest.approx(2 * 8 * 256 * 64 * 512 / 100e-6 / 1e12, rel=0.001)
    assert 'tflops' not in document['devices'][0]   # of such sizes they are no peaks


def test_products_of_what_has_none(bench, profgpu, tmp_path):   # noqa: F811
    trace = tmp_path / 'trace.json'
    shapes_trace(trace, [('aten::relu', [[4, 4]], 'float', 'relu', 40)])
    result = profgpu('bench', 'matmul', '--from', trace, env=environment())
    assert result.returncode == 1 and b'no GEMM with known sizes' in result.stderr
    assert profgpu('bench', 'matmul', '--from', tmp_path / 'none', env=environment()).returncode == 1
    result = profgpu('bench', 'launch', '--from', trace, env=environment())
    assert result.returncode == 2 and b'--from is for the benchmark matmul' in result.stderr


def test_csv_and_page(profgpu, tmp_path):
    env = environment('devices=2')
    for name in ('a.csv', 'a.html'):
        assert profgpu('bench', 'collectives', 'launch', '-o', tmp_path / name, env=env).returncode == 0
    assert profgpu('bench', 'collectives', 'launch', '-o', tmp_path / 'a.json', env=env).returncode == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / 'a.csv').read_text())))
    figures = json.loads((tmp_path / 'a.json').read_text())['figures']
    assert [r['name'] for r in rows] == [f['name'] for f in figures] and set(rows[0]) == set(figures[0])
    assert all(float(r['value']) > 0 for r in rows)
    page = (tmp_path / 'a.html').read_text()
    assert page.count('<polyline') >= 12 and 'Simulated' not in page.split('<body>')[0]
    assert not re.search(r'<script|src=|href=', page)

    class Balanced(html.parser.HTMLParser):
        open_tags = []

        def handle_starttag(self, tag, attrs):
            if tag not in ('meta', 'br'):
                self.open_tags.append(tag)

        def handle_endtag(self, tag):
            assert self.open_tags.pop() == tag

        def handle_startendtag(self, tag, attrs):
            pass
    parser = Balanced()
    parser.feed(page)
    assert not parser.open_tags


def test_baselines_and_gates(profgpu, tmp_path):
    history = tmp_path / 'history.sqlite'
    for name, model in (('before', 'h2d=55'), ('after', 'h2d=44')):
        assert profgpu('bench', 'bandwidth', '-o', tmp_path / f'{name}.json', env=environment(model)).returncode == 0
    before, after = tmp_path / 'before.json', tmp_path / 'after.json'
    assert profgpu('baseline', 'save', 'machine', before, '--file', history).returncode == 0
    assert b'machine' in profgpu('history', '--file', history).stdout
    for words in (('--baseline', 'machine', '--file', history, after), (before, after)):
        result = profgpu('diff', *words, '--fail-on', 'figure:host_to_device_memcpy < -5%')
        assert result.returncode == 3 and b'-20.0 %' in result.stderr, result.stderr
        assert profgpu('diff', *words, '--fail-on', 'figure:device_to_host_memcpy < -5%').returncode == 0
    changed = {f['name']: f for f in json.loads(profgpu('diff', '--json', before, after).stdout)['figures']}
    assert changed['host_to_device_memcpy_ce']['verdict'] == 'worse'
    assert changed['device_memory_read']['verdict'] == 'no_difference'
    result = profgpu('diff', before, after, '--fail-on', 'figure:nothing < -5%')
    assert result.returncode == 3 and b'do not both have such a figure' in result.stderr
    assert profgpu('diff', before, after, '--fail-on', 'figure:nothing < -5%', '--allow-inconclusive').returncode == 0
    gates = ('--fail-on', 'figure:host_to_device_memcpy < -5%', '--fail-on', 'figure:device_to_host_memcpy < -5%')
    for form, says in (('junit', '<failure message="host to device, pinned GPU 0 -20.0 %"/>'),
                       ('github', '::error title=profgpu%3A figure%3Ahost_to_device_memcpy < -5%25::'),
                       ('markdown', '| host to device, pinned | GPU 0 | 55.0 GB/s | 44.0 GB/s | -20.0 % | worse |')):
        result = profgpu('diff', before, after, '--format', form, *gates, text=True)
        assert result.returncode == 3 and says in result.stdout, (form, result.stdout)
    assert profgpu('diff', before, after, '--format', 'junit').returncode == 2
    assert profgpu('baseline', 'save', 'machine', after, '--file', history).returncode == 0
    rows = json.loads(profgpu('history', 'machine', '--json', '--file', history).stdout)['bench']
    assert [r['worse'] for r in rows] == [None, 2] and rows[1]['figures'] == len(changed)   # both ways at once as well
    assert rows[0]['memory_gbps'] and re.search(r'worse +better +lost', profgpu('history', '--file', history, text=True).stdout)
    assert profgpu('diff', before, after, '--fail-on', 'step_time > +3%').returncode == 2
    assert profgpu('diff', '--baseline', 'other', '--file', history, after).returncode == 1
    for words in ((before, after, after), ('--baseline', 'machine', '--file', history, before, after)):
        result = profgpu('diff', *words)
        assert result.returncode == 2 and b'two results of profgpu bench are compared' in result.stderr


def test_the_slow_machine_of_a_folder(profgpu, tmp_path):
    for i, rate in enumerate((55, 54, 20, 55)):
        path = tmp_path / f'node{i}.json'
        assert profgpu('bench', 'bandwidth', '-o', path, env=environment(f'h2d={rate}')).returncode == 0
        document = json.loads(path.read_text())
        document['machine']['host'] = f'node{i}'
        path.write_text(json.dumps(document, indent=1))
    (tmp_path / 'other.json').write_text('{}')
    result = profgpu('bench', '--compare', tmp_path, '--fail-on', 'worse', '--width', '200')
    text = result.stdout.decode()
    assert result.returncode == 3 and 'node2: host to device, pinned 20.0 GB/s, the other machines 55.0 GB/s' in text
    assert 'node1:' not in text
    for words in (('--json',), ('-o', tmp_path / 'out.json'), ('--save',), ('--saved', tmp_path / 'node0.json'),
                  ('bandwidth',)):
        result = profgpu('bench', '--compare', tmp_path, *words, env=environment(XDG_DATA_HOME=str(tmp_path)))
        assert result.returncode == 2 and not result.stdout, words
        assert b'--compare FOLDER measures nothing and only prints' in result.stderr
    assert not (tmp_path / 'out.json').exists() and not (tmp_path / 'profgpu').exists()
    empty = tmp_path / 'empty'
    empty.mkdir()
    result = profgpu('bench', '--compare', empty)
    assert result.returncode == 1 and b'no result of profgpu bench is in it' in result.stderr
    # One machine's results, and machines without a figure in common, tell nothing.
    one = tmp_path / 'one'
    one.mkdir()
    for name in ('a.json', 'b.json'):
        (one / name).write_text((tmp_path / 'node2.json').read_text())
    result = profgpu('bench', '--compare', one, text=True)
    assert result.returncode == 1 and 'results of one machine only (node2)' in result.stderr and not result.stdout
    other = json.loads((tmp_path / 'node1.json').read_text())
    other['figures'] = [f | {'name': 'another'} for f in other['figures']]
    (one / 'b.json').write_text(json.dumps(other))
    result = profgpu('bench', '--compare', one, text=True)
    assert result.returncode == 1 and 'node1, node2 have no figure in common' in result.stderr and not result.stdout


def test_the_machines_own_file(profgpu, tmp_path):
    env = environment('bf16=800', XDG_DATA_HOME=str(tmp_path))
    assert profgpu('bench', 'matmul', '--save', env=env).returncode == 0
    file = tmp_path / 'profgpu' / 'machine.json'
    assert json.loads(file.read_text())['devices'][0]['tflops']['bf16'] == pytest.approx(800, rel=0.01)
    saved = profgpu('bench', 'launch', '--save', env=env, text=True)
    assert saved.returncode == 0 and f'Saved: {file}' in saved.stdout
    # Where no GPU is found, as in a container, the figures stay.
    none = environment(PROFGPU_CUDA_LIBRARY='/nowhere/libcuda.so.1', XDG_DATA_HOME=str(tmp_path))
    before = file.read_text()
    result = profgpu('bench', 'host', '--save', env=none, text=True)
    assert result.returncode == 1 and 'not saved: no GPU was measured' in result.stderr and file.read_text() == before
    kept = json.loads(file.read_text())
    assert {f['benchmark'] for f in kept['figures']} == {'matmul', 'launch'}
    assert kept['devices'][0]['tflops']['bf16'] == pytest.approx(800, rel=0.01)


def test_the_machines_own_file_keeps_devices_apart(profgpu, tmp_path):
    """What CUDA counts as 0 may be another GPU the next time."""
    file = tmp_path / 'profgpu' / 'machine.json'

    def saved(model, *names):
        env = environment(model, XDG_DATA_HOME=str(tmp_path))
        assert profgpu('bench', *names, '--save', env=env).returncode == 0
        document = json.loads(file.read_text())
        return document, {(f['benchmark'], f['device']) for f in document['figures']}

    saved('devices=3', 'matmul', 'bandwidth')
    # One device less is visible: it and its figures stay.
    document, found = saved('devices=2', 'launch')
    assert [d['index'] for d in document['devices']] == [0, 1, 2]
    assert {('matmul', d) for d in range(3)} <= found and ('launch', 2) not in found
    assert figure(document, 'device_to_device_memcpy_write_ce', 1, 2)
    # Another GPU has the first one's number.
    document['devices'][0]['uuid'] = 'GPU-another'
    file.write_text(json.dumps(document))
    document, found = saved('devices=2', 'launch')
    assert {b for b, d in found if d == 0} == {'launch'} and ('matmul', 1) in found and ('matmul', 2) in found
    assert 'tflops' not in document['devices'][0] and document['devices'][1]['tflops']
    assert not [f for f in document['figures'] if 0 in (f['device'], f['peer']) and f['benchmark'] != 'launch']
    # The first one's number changed.
    for d in document['devices']:
        d['index'] += 1
    for f in document['figures']:
        f['device'] = f['device'] if f['device'] is None else f['device'] + 1
        f['peer'] = f['peer'] if f['peer'] is None else f['peer'] + 1
    file.write_text(json.dumps(document))
    document, found = saved('devices=2', 'bandwidth')
    assert [d['index'] for d in document['devices']] == [0, 1, 3, 4]
    # What another benchmark measured of them went with them to their numbers.
    assert {d for b, d in found if b == 'matmul'} >= {3, 4}


def test_saving_some_keeps_the_rest(profgpu, tmp_path):
    """Of one device, of a job's products, and of what was interrupted."""
    file = tmp_path / 'profgpu' / 'machine.json'
    trace = tmp_path / 'trace.json'
    shapes_trace(trace, [('aten::mm', [[256, 512], [512, 128]], 'float', 'gemm', 40)])

    def saved(*words, model='devices=2', code=0):
        result = profgpu('bench', *words, '--save', env=environment(model, XDG_DATA_HOME=str(tmp_path)), text=True)
        assert result.returncode == code, result.stderr
        return json.loads(file.read_text())

    def peaks(document):
        return [(set(d['tflops']), d['memory_gbps'] > 0) for d in document['devices']]

    all_of_them = peaks(saved('matmul', 'bandwidth'))
    assert len(all_of_them) == 2 and all_of_them[0][0] >= {'bf16', 'fp64'}
    assert peaks(saved('matmul', 'bandwidth', '--device', '0')) == all_of_them
    document = saved('matmul', '--from', str(trace))
    assert peaks(document) == all_of_them
    assert [f for f in document['figures'] if f['name'].startswith('from_')]
    assert peaks(saved('matmul', model='devices=2,0.lost_after=20', code=1)) == all_of_them
    # Collectives of fewer devices stand beside those of more.
    saved('collectives', model='devices=4,nccl=400')
    document = saved('collectives', model='devices=2,nccl=100')
    rates = {f['ranks']: f['value'] for f in document['figures'] if f['name'] == 'all_reduce_268435456'}
    assert rates[4] == pytest.approx(400, rel=0.1) and rates[2] == pytest.approx(100, rel=0.1)


def test_the_slow_device_of_a_folders_machine(profgpu, tmp_path):
    """Results in folders of each node, one with other key order, one cut."""
    for i in range(3):
        path = tmp_path / f'n{i}' / 'bench.json'
        path.parent.mkdir()
        model = 'devices=4,3.bf16=30,bf16=100' if i == 1 else 'devices=4,bf16=100'
        assert profgpu('bench', 'matmul', '-o', path, env=environment(model)).returncode == 0
        document = json.loads(path.read_text())
        document['machine']['host'] = f'n{i}'
        path.write_text(json.dumps(document, indent=1, sort_keys=i == 1))
    result = profgpu('bench', '--compare', tmp_path, '--fail-on', 'worse', '--width', '200', text=True)
    assert result.returncode == 3, result.stderr
    assert 'n1: GPU 3: bf16 8192³ 30.0 TFLOP/s, the other machines 100 TFLOP/s (70 % worse)' in result.stdout
    assert result.stdout.count('worse)') == 3   # of two sizes, and of one with a cold cache
    (tmp_path / 'n1' / 'bench.json').write_text((tmp_path / 'n0' / 'bench.json').read_text()[:3000])
    result = profgpu('bench', '--compare', tmp_path, '--fail-on', 'worse', '--width', '200', text=True)
    assert result.returncode == 3 and 'No machine is slower' in result.stdout and 'n1/bench.json: not a result' in result.stdout


def test_devices_whose_numbers_changed_are_the_same(profgpu, tmp_path):
    before, after = tmp_path / 'before.json', tmp_path / 'after.json'
    assert profgpu('bench', 'bandwidth', '-o', before, env=environment('devices=2,1.h2d=20,h2d=50')).returncode == 0
    document = json.loads(before.read_text())
    for d in document['devices']:
        d['index'] = 1 - d['index']
    for f in document['figures']:
        for key in ('device', 'peer'):
            f[key] = f[key] if f[key] is None else 1 - f[key]
    after.write_text(json.dumps(document))
    result = profgpu('bench', '--saved', after, '--compare', before, '--fail-on', 'worse', text=True)
    assert result.returncode == 0, result.stdout


def test_the_worst_change_stands_in_the_table(profgpu, tmp_path):
    before, after = tmp_path / 'before.json', tmp_path / 'after.json'
    for path, model in ((before, 'devices=4,h2d=50'), (after, 'devices=4,h2d=50,2.h2d=20')):
        assert profgpu('bench', 'bandwidth', '-o', path, env=environment(model)).returncode == 0
    text = profgpu('bench', '--saved', after, '--compare', before, '--width', '160', text=True).stdout
    assert re.search(r'host to device, pinned +50\.0 GB/s +-60\.0 % worse on GPU 2', text), text


def test_collectives_over_sizes(bench, profgpu, tmp_path):   # noqa: F811
    saved = tmp_path / 'saved.json'
    _, document, _ = bench('devices=4,nccl=400,nccl_ns=12000', 'collectives', '--full', '-o', str(saved))
    curve = next(c for c in document['collectives'] if c['name'] == 'all_reduce')
    assert curve['latency_ns'] == pytest.approx(12_000, rel=0.02) and curve['busbw_gbps'] == pytest.approx(400, rel=0.03)
    # Half is reached where the bytes take as long as the latency.
    assert curve['half_size_bytes'] * 1.5 / 400 == pytest.approx(12_000, rel=0.1)
    rate = figure(document, 'all_reduce_268435456', None)
    assert rate['algbw_gbps'] * 1.5 == pytest.approx(rate['value']) and rate['ranks'] == 4
    text = profgpu('bench', '--saved', saved, '--width', '140', text=True).stdout
    assert re.search(r'all-reduce: latency 12\.\d+ µs, up to 39\d GB/s, half of that from', text), text


def cpu_seconds(pid):
    with open(f'/proc/{pid}/stat') as f:
        fields = f.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def test_burn_interrupted_keeps_what_it_noted(tmp_path):
    stub = os.path.join(STUBS, 'libnvidia-ml.so.1')
    if not os.path.exists(stub):
        pytest.skip('the stand-in for NVML is not built')
    scenario, saved = tmp_path / 'scenario.txt', tmp_path / 'burn.json'
    scenario.write_text('driver 580.65.06\ndevice 0\nname Simulated GPU\npci 0000:10:00.0\n')
    env = environment('bf16=800,throttle_after=2000,throttle=1.5', PROFGPU_NVML_LIBRARY=stub,
                      PROFGPU_NVML_SCENARIO=str(scenario))
    # On the model's clock its hours pass in seconds; a terminal's end is Ctrl-C.
    process = subprocess.Popen([PROGRAM, 'bench', 'burn', '--duration', '80000', '-o', saved], env=env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while cpu_seconds(process.pid) < 2:   # thousands of stretches of load
        time.sleep(0.05)
    process.send_signal(signal.SIGHUP)
    text = process.communicate(timeout=60)[0].decode()
    document = json.loads(saved.read_text())
    assert process.returncode == 130 and document['interrupted'] is True and 'Interrupted' in text
    assert [n for n in document['notes'] if 'its rate fell by 33 % under load' in n], document['notes']


def test_links_are_told_apart(bench, tmp_path):   # noqa: F811
    stub = os.path.join(STUBS, 'libnvidia-ml.so.1')
    if not os.path.exists(stub):
        pytest.skip('the stand-in for NVML is not built')
    scenario = tmp_path / 'scenario.txt'
    scenario.write_text('''driver 580.65.06
device 0..2
name Simulated GPU
device 0
pci 0000:10:00.0
links 18 1
device 1
pci 0000:11:00.0
links 18 0
device 2
pci 0000:12:00.0
''')
    _, document, _ = bench('devices=3,peer=300', 'bandwidth', PROFGPU_NVML_LIBRARY=stub,
                           PROFGPU_NVML_SCENARIO=str(scenario))
    f = figure(document, 'device_to_device_memcpy_write_ce', 0, 1)
    assert (f['link'], f['label']) == ('NV18', 'device to device, NVLink')
    assert f['link_gbps'] is None   # the stand-in tells no speed of links
    other = figure(document, 'device_to_device_memcpy_write_ce', 0, 2)
    assert other['link'] != 'NV18' and 'NVLink' not in other['label']


def test_both_ways_at_once(bench):   # noqa: F811
    _, document, _ = bench('h2d=55,d2h=52', 'bandwidth')
    assert figure(document, 'host_to_device_bidirectional_memcpy_ce')['value'] == pytest.approx(55, rel=0.03)
    assert figure(document, 'device_to_host_bidirectional_memcpy_ce')['value'] == pytest.approx(52, rel=0.03)


def webp_image(width, height):
    path = ctypes.util.find_library('webp')
    if path is None:
        pytest.skip('libwebp is not installed')
    library = ctypes.CDLL(path)
    library.WebPEncodeLosslessRGB.restype = ctypes.c_size_t
    out = ctypes.c_void_p()
    pixels = os.urandom(width * height * 3)
    size = library.WebPEncodeLosslessRGB(pixels, width, height, width * 3, ctypes.byref(out))
    image = ctypes.string_at(out, size)
    library.WebPFree(out)
    return image


def test_decoding(profgpu, tmp_path):
    for i in range(4):
        (tmp_path / f'{i}.webp').write_bytes(webp_image(64, 48))
        (tmp_path / f'{i}.jpg').write_text('JPEG 64 48')
    (tmp_path / 'broken.webp').write_bytes(b'RIFF....WEBP')
    (tmp_path / 'broken.jpg').write_text('nothing')
    stub = os.path.join(STUBS, 'measure', 'libturbojpeg_model.so')
    env = environment(PROFGPU_TURBOJPEG_LIBRARY=stub)
    document = json.loads(profgpu('bench', '--json', 'storage', '--path', tmp_path, env=env).stdout)
    found = {f['name']: f for f in document['figures']}
    for name in ('decode_jpeg_one', 'decode_jpeg_all', 'decode_webp_one', 'decode_webp_all'):
        assert found[name]['unit'] == 'samples/s' and found[name]['value'] > 0
    env = environment(PROFGPU_TURBOJPEG_LIBRARY='/nowhere/libturbojpeg.so.0')
    document = json.loads(profgpu('bench', '--json', 'storage', '--path', tmp_path, env=env).stdout)
    missing = [n for n in document['not_measured'] if 'JPEG' in n['label']]
    assert len(missing) == 1 and 'libturbojpeg0' in missing[0]['hint']


def test_many_files_are_read(profgpu, tmp_path):
    for i in range(20):
        (tmp_path / f'{i}.txt').write_text('sample')
    document = json.loads(profgpu('bench', '--json', 'storage', '--path', tmp_path, env=environment()).stdout)
    found = {f['name'] for f in document['figures']}
    assert 'read_files' in found and 'read_random' not in found


def test_bad_input(bench, profgpu, tmp_path):   # noqa: F811
    for words, code in ((('burn', '--duration', '0'), 2), (('matmul', '--from'), 2),
                        (('collectives', '--rendezvous'), 2)):
        assert profgpu('bench', *words, env=environment()).returncode == code
    # A folder that cannot be written.
    result = profgpu('bench', 'launch', '--save', env=environment(XDG_DATA_HOME='/proc/nowhere'))
    assert result.returncode == 1 and b'/proc/nowhere/profgpu/machine.json' in result.stderr
    # An empty list hides all devices, and the driver says no more than that there is none.
    for name, value in (('CUDA_VISIBLE_DEVICES', ''), ('HIP_VISIBLE_DEVICES', '-1')):
        _, document, _ = bench('no_device=1', 'launch', **{name: value})
        assert f"{name} is {value or 'empty'}, which hides all devices" in document['not_measured'][0]['hint']
    # A device that tells of no memory, and one whose buffers would be copied in no time.
    for memory, says in (('0', 'does not say how much memory'), ('1e6', 'too small to measure rates')):
        code, document, _ = bench(f'memory={memory},devices=2', 'bandwidth')
        assert code == 1 and not document['figures']
        assert len(document['not_measured']) == 3 and all(says in n['why'] for n in document['not_measured'])
    # No device is visible.
    code, document, _ = bench('devices=0', *('overlap', 'burn', 'crossover', 'collectives'))
    assert code == 1 and {n['benchmark'] for n in document['not_measured']} == {'overlap', 'burn', 'crossover',
                                                                                'collectives'}


def test_copies_of_memory_of_each_node(bench, tmp_path):   # noqa: F811
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip('one processor alone')
    nodes = tmp_path / 'sys' / 'devices' / 'system' / 'node'
    for number, text in ((0, str(cpus[0])), (1, str(cpus[1])), (2, ''), (10, '9000-9001')):   # the last two: no processor of ours
        (nodes / f'node{number}').mkdir(parents=True)
        (nodes / f'node{number}' / 'cpulist').write_text(text + '\n')
    model, more = f'h2d=50,d2h=48,far_cpu={cpus[1]},far_share=0.6', {'PROFGPU_SYSFS_ROOT': str(tmp_path / 'sys')}
    _, document, _ = bench(model, 'bandwidth', '--full', **more)
    by_node = {(f['name'], f['node']): f['value'] for f in document['figures'] if f['name'].endswith('_memcpy_ce') and f['peer'] is None}
    for name, rate in (('host_to_device_memcpy_ce', 50), ('device_to_host_memcpy_ce', 48)):
        assert by_node[name, 0] == pytest.approx(rate, rel=0.01) and by_node[name, 1] == pytest.approx(0.6 * rate, rel=0.01)
        assert by_node[name, None] == pytest.approx(rate, rel=0.01)   # wherever the process runs
    assert {node for _, node in by_node} == {None, 0, 1}
    _, document, _ = bench(model, 'bandwidth', **more)
    assert {f['node'] for f in document['figures']} == {None}
