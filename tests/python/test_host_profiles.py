"""Profiles of the host by other tools: speedscope (py-spy) and VizTracer, alone and joined by time to the trace beside them."""
import collections
import json
import os
import random
import shutil
import subprocess
import sys

import log_writer
import pytest

BASE = 1_750_000_000_000_000_000   # Unix time at which the trace's clock is 0
PID, TID = 4711, 4712
FRAMES = [('main', 'train.py', 40), ('step', 'train.py', 20), ('load', 'data.py', 7), ('sleep', '', 0)]
STACKS = [(0, 1), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 1), (0,)]


def named(frame):
    name, file, line = FRAMES[frame]
    return f'{file}({line}): {name}' if file else name


def speedscope(stacks=STACKS, unit='seconds', weight=0.01, start=0.0, name=f'Thread {TID} "MainThread"'):
    return {'$schema': 'https://www.speedscope.app/file-format-schema.json',
            'profiles': [{'type': 'sampled', 'name': name, 'unit': unit, 'startValue': start, 'endValue': start + weight * len(stacks),
                          'samples': [list(s) for s in stacks], 'weights': [weight] * len(stacks)}],
            'shared': {'frames': [{'name': n, 'file': f or None, 'line': i or None, 'col': None} for n, f, i in FRAMES]},
            'activeProfileIndex': None, 'exporter': 'py-spy@0.4.3', 'name': 'py-spy profile'}


def kineto(ops=(), seconds=0.1, base=BASE):
    """A trace of the loop's thread, with operators (name, start in us)."""
    events = [{'ph': 'X', 'cat': 'user_annotation', 'name': f'step {i}', 'pid': PID, 'tid': TID, 'ts': i * seconds * 1e6 / 4, 'dur': seconds * 1e6 / 4 - 1} for i in range(4)]
    events += [{'ph': 'X', 'cat': 'cpu_op', 'name': name, 'pid': PID, 'tid': TID, 'ts': start, 'dur': 3} for name, start in ops]
    return {'schemaVersion': 1, 'baseTimeNanoseconds': base, 'traceEvents': events}


def write(path, document):
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.fixture(scope='session')
def ask(profgpu):
    def run_query(*words):
        result = profgpu('query', *map(str, words), '--json', '--quiet', text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run_query


ROWS = 'select h.name, sum(h.duration_ns) t, min(h.start_ns) s, max(h.end_ns) e from host h join threads t on h.thread_id = t.id where t.thread = \'{}\' group by 1'


def inclusive(stacks, weight):
    """Time of each frame in samples that have it."""
    out = collections.Counter()
    for stack in stacks:
        for frame in set(stack):
            out[named(frame)] += weight
    return dict(out)


@pytest.mark.parametrize(('unit', 'weight', 'ns'), (('seconds', 0.01, 10_000_000), ('milliseconds', 2.5, 2_500_000), ('microseconds', 7, 7000), ('nanoseconds', 123, 123)))
def test_speedscope_alone(ask, tmp_path, unit, weight, ns):
    path = write(tmp_path / 'profile.json', speedscope(unit=unit, weight=weight))
    rows = ask(path, ROWS.format(TID))
    assert {r['name']: r['t'] for r in rows} == inclusive(STACKS, ns)
    # By samples: the innermost frame has a row for each.
    assert ask(path, f"select count(*) n from host h where name = '{named(1)}'") == [{'n': 3}]


@pytest.mark.parametrize(('name', 'thread'), (('Thread 0x7F01 "MainThread"', '0x7F01'), ('Thread 4712 "Loader Thread 3"', '4712'), ('Thread pool', '0'), ('"Thread 5"', '0')))
def test_threads_have_the_number_before_their_name(ask, tmp_path, name, thread):
    rows = ask(write(tmp_path / 'profile.json', speedscope(name=name)), 'select distinct t.thread from host h join threads t on h.thread_id = t.id')
    assert rows == [{'thread': thread}]


def test_random_stacks_keep_their_time(ask, tmp_path):
    chance = random.Random(5)
    stacks = [tuple(chance.sample(range(4), chance.randrange(5))) for _ in range(300)]
    rows = ask(write(tmp_path / 'profile.json', speedscope(stacks, 'nanoseconds', 100)), ROWS.format(TID))
    assert {r['name']: r['t'] for r in rows} == inclusive(stacks, 100)


def test_events_that_open_and_close(ask, tmp_path):
    profile = speedscope()
    profile['profiles'] = [{'type': 'evented', 'name': 'loop', 'unit': 'milliseconds', 'startValue': 0, 'endValue': 9, 'events': [
        {'type': 'O', 'frame': 0, 'at': 1}, {'type': 'O', 'frame': 1, 'at': 2}, {'type': 'C', 'frame': 1, 'at': 4}, {'type': 'O', 'frame': 2, 'at': 5},
        {'type': 'C', 'frame': 0, 'at': 8}]}]
    rows = ask(write(tmp_path / 'profile.json', profile), 'select name, start_ns s, duration_ns d from host order by 2')
    assert rows == [{'name': named(0), 's': 1_000_000, 'd': 7_000_000}, {'name': named(1), 's': 2_000_000, 'd': 2_000_000}, {'name': named(2), 's': 5_000_000, 'd': 3_000_000}]


def test_speedscope_beside_a_trace_is_its_threads_stack(analyze, ask, tmp_path):
    trace, profile = write(tmp_path / 'trace.json', kineto()), write(tmp_path / 'profile.json', speedscope())
    end = BASE + 80_000_000   # written when 80 ms of the trace had passed
    os.utime(profile, ns=(end, end))
    report = analyze(trace, profile)
    assert len(report['ranks']) == 1 and [i['format'] for i in report['inputs']] == ['kineto', 'speedscope']
    assert '1 threads, 1 of them in the trace beside it' in report['inputs'][1]['issues'][0]['text']
    rows = {r['name']: r for r in ask(trace, profile, ROWS.format(f'{TID} (Python stack)'))}
    assert rows[named(0)] == {'name': named(0), 't': 60_000_000, 's': 20_000_000, 'e': 80_000_000}
    assert rows[named(2)]['s'] == 40_000_000 and rows[named(2)]['t'] == 20_000_000
    assert ask(trace, profile, f"select process, thread from threads where thread like '%stack%'") == [{'process': str(PID), 'thread': f'{TID} (Python stack)'}]
    # What the trace itself tells is as without it.
    assert report['ranks'][0]['steps'] == analyze(trace)['ranks'][0]['steps']


@pytest.mark.parametrize(('at', 'base', 'why'), ((BASE + 60 * 10**9, BASE, 'another time'), (BASE, 0, 'no time of day')))
def test_speedscope_of_another_time_is_not_used(analyze, tmp_path, at, base, why):
    trace, profile = write(tmp_path / 'trace.json', kineto(base=base)), write(tmp_path / 'profile.json', speedscope())
    os.utime(profile, ns=(at, at))
    report = analyze(trace, profile)
    assert why in report['inputs'][1]['issues'][0]['text']


def test_times_of_day_need_no_file_time(ask, tmp_path):
    trace = write(tmp_path / 'trace.json', kineto())
    profile = write(tmp_path / 'profile.json', speedscope(unit='nanoseconds', weight=10_000_000, start=BASE + 5_000_000))
    os.utime(profile, ns=(5, 5))
    rows = {r['name']: r for r in ask(trace, profile, ROWS.format(f'{TID} (Python stack)'))}
    assert rows[named(0)]['s'] == 5_000_000


def test_stacks_end_with_the_trace(ask, tmp_path):
    trace = write(tmp_path / 'trace.json', kineto())
    window, = ask(trace, 'select min(start_ns) s, max(end_ns) e from host')
    profile = write(tmp_path / 'profile.json', speedscope([(0,)] * 4 + [(0, 1)] * 20 + [(0,)] * 4, 'nanoseconds', 10_000_000, BASE - 100_000_000))
    rows = {r['name']: r for r in ask(trace, profile, ROWS.format(f'{TID} (Python stack)'))}
    for frame in (0, 1):
        assert (rows[named(frame)]['s'], rows[named(frame)]['e']) == (window['s'], window['e'])
        assert rows[named(frame)]['t'] == window['e'] - window['s']
    assert ask(trace, profile, "select count(*) n from host c join host p on c.parent_id = p.id where c.start_ns < p.start_ns or c.end_ns > p.end_ns") == [{'n': 0}]


OPS = [('aten::matmul', 1000 * i * i + 5000) for i in range(9)] + [('aten::relu', 1000 * i * i + 5100) for i in range(9)] + [('aten::other', 50)]


def viztracer(shift_us, ops=OPS, compact=False, tid=TID, base=None):
    """Calls that begin two microseconds before their operators, on a clock of its own."""
    events = [{'ph': 'M', 'pid': PID, 'tid': tid, 'name': 'thread_name', 'args': {'name': 'MainThread'}},
              {'pid': PID, 'tid': tid, 'ts': shift_us, 'ph': 'X', 'cat': 'fee', 'dur': 99_000.25, 'name': 'train (/src/train.py:12)'}]
    for name, start in ops:
        events.append({'pid': PID, 'tid': tid, 'ts': round(shift_us + start - 2, 3), 'ph': 'X', 'cat': 'fee', 'dur': 8.5, 'name': 'Tensor.' + name.removeprefix('aten::')})
    metadata = {'overflow': False, 'version': '1.1.1'} | ({'baseTimeNanoseconds': base} if base else {})
    document = {'traceEvents': events, 'viztracer_metadata': metadata, 'file_info': {'files': {}, 'functions': {}}}
    return json.dumps(document, separators=(',', ':') if compact else None)


@pytest.mark.parametrize('compact', (True, False))
def test_viztracer_alone(ask, analyze, tmp_path, compact):
    path = write(tmp_path / 'result.json', viztracer(12_793_698_187.5, compact=compact))
    assert analyze(path)['inputs'][0]['format'] == 'viztracer'
    rows = {r['name']: (r['n'], r['t']) for r in ask(path, 'select name, count(*) n, sum(duration_ns) t from host group by 1')}
    assert rows == {'/src/train.py(12): train': (1, 99_000_250), 'Tensor.matmul': (9, 9 * 8500), 'Tensor.relu': (9, 9 * 8500), 'Tensor.other': (1, 8500)}


def test_viztracer_is_joined_by_the_operators_that_it_calls(ask, analyze, tmp_path):
    trace, calls = write(tmp_path / 'trace.json', kineto(OPS)), write(tmp_path / 'result.json', viztracer(12_793_698_187.5))
    report = analyze(trace, calls)
    assert len(report['ranks']) == 1 and 'of 19 operators' in report['inputs'][1]['issues'][0]['text']
    rows = {r['name']: r for r in ask(trace, calls, ROWS.format(f'{TID} (Python stack)'))}
    assert rows['/src/train.py(12): train']['s'] == 2000, 'calls begin as their operators do'
    assert rows['Tensor.matmul']['s'] == 5_000_000


def test_a_known_start_of_the_clock_is_enough(ask, analyze, tmp_path):
    trace = write(tmp_path / 'trace.json', kineto())
    calls = write(tmp_path / 'result.json', viztracer(5_000_000, ops=(), base=BASE - 5_000_000_000 + 3000).replace('"fee"', '"FEE"'))
    assert 'joined by their times' in analyze(trace, calls)['inputs'][1]['issues'][0]['text']
    rows = {r['name']: r for r in ask(trace, calls, ROWS.format(f'{TID} (Python stack)'))}
    assert rows['/src/train.py(12): train']['s'] == 3000


def test_viztracer_of_another_run_is_not_used(analyze, tmp_path):
    other = [(name, start * 1.37 + 11) for name, start in OPS[:3]]
    report = analyze(write(tmp_path / 'trace.json', kineto(OPS)), write(tmp_path / 'result.json', viztracer(12_793_698_187.5, other)))
    assert 'not used' in report['inputs'][1]['issues'][0]['text']


BURST, APART = [('aten::matmul', 5000 + 2 * i) for i in range(8)], [('aten::matmul', 5000 + 1000 * i * i) for i in range(8)]


@pytest.mark.parametrize(('operators', 'calls'), ((APART, BURST), (BURST, APART)))
def test_a_burst_of_calls_is_near_one_operator(analyze, tmp_path, operators, calls):
    report = analyze(write(tmp_path / 'trace.json', kineto(operators)), write(tmp_path / 'result.json', viztracer(12_793_698_187.5, calls)))
    assert 'not used' in report['inputs'][1]['issues'][0]['text']


@pytest.mark.parametrize(('trace_base', 'own_base', 'used'), ((BASE, None, False), (0, BASE, False), (0, None, True)))
def test_times_of_unrelated_clocks_join_nothing(analyze, tmp_path, trace_base, own_base, used):
    trace, calls = write(tmp_path / 'trace.json', kineto(base=trace_base)), write(tmp_path / 'result.json', viztracer(5, ops=(), base=own_base))
    text = analyze(trace, calls)['inputs'][1]['issues'][0]['text']
    assert ('joined by their times' if used else 'not used') in text


def test_a_folder_of_a_run(analyze, tmp_path):
    write(tmp_path / 'trace.json', kineto(OPS)), write(tmp_path / 'viztracer.json', viztracer(77.5))
    profile = write(tmp_path / 'py-spy.json', speedscope())
    os.utime(profile, ns=(BASE + 70_000_000,) * 2)
    write(tmp_path / 'train.log', log_writer.megatron([500.0] * 12))
    report = analyze(tmp_path)
    assert len(report['ranks']) == 1
    assert {i['format']: i['rank'] for i in report['inputs']} == {'kineto': 0, 'viztracer': 0, 'speedscope': 0, 'training-log': None}


@pytest.mark.parametrize('text', (
    json.dumps(speedscope())[:400], json.dumps(speedscope()).replace('[0, 1]', '[[[[0]]], {}, -1, 99999999999999999999, 1e9]'), json.dumps(speedscope()).replace('0.01', '-1e300'),
    json.dumps(speedscope(unit='bytes')), json.dumps(speedscope()).replace('"samples": [[', '"samples": {"a": [['), json.dumps({**speedscope(), 'profiles': []}),
    json.dumps({**speedscope(), 'shared': {'frames': [7, None, {'name': {}}]}}), json.dumps(speedscope([(0, 1, 2, 3) * 5000] * 3)),
    viztracer(5)[:300], viztracer(5).replace('"ts": ', '"ts": "x", "y": '), viztracer(5).replace('8.5', '-8.5'), viztracer(1e300), viztracer(5).replace('"fee"', '["fee"]')))
def test_damaged_files(profgpu, tmp_path, text):
    path = write(tmp_path / 'bad.json', text)
    trace = write(tmp_path / 'trace.json', kineto(OPS))
    for words in ((path,), (trace, path)):
        result = profgpu('analyze', *words, '--json', text=True)
        assert result.returncode == 0 or result.stderr.startswith('profgpu: ')


LOOP = """
import time
def inner(n):
    return sum(i * i for i in range(n))
def outer(seconds):
    end = time.time() + seconds
    while time.time() < end:
        inner(20_000)
outer({})
"""


def test_a_recording_of_py_spy(profgpu, analyze, ask, tmp_path):
    py_spy = shutil.which('py-spy', path=os.path.dirname(sys.executable) + os.pathsep + os.environ.get('PATH', ''))
    if py_spy is None:
        pytest.skip('py-spy is not installed')
    path, script = tmp_path / 'profile.json', write(tmp_path / 'loop.py', LOOP.format(1))
    done = subprocess.run([py_spy, 'record', '-f', 'speedscope', '-r', '50', '-o', path, '--', sys.executable, script], capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or not path.exists():
        pytest.skip('py-spy cannot record here: ' + done.stderr[-200:])
    document = json.loads(path.read_text())
    frames, sums = document['shared']['frames'], collections.Counter()
    for profile in document['profiles']:
        for stack, weight in zip(profile['samples'], profile['weights']):
            for f in (frames[i] for i in stack):   # a function that calls itself stands there twice
                sums[f"{f['file']}({f['line'] or 0}): {f['name']}" if f['file'] else f['name']] += round(weight * 1e9)
    rows = {r['name']: r['t'] for r in ask(path, 'select name, sum(duration_ns) t from host group by 1')}
    assert rows == dict(sums) and sums
    assert analyze(path)['inputs'][0]['format'] == 'speedscope'


TRAINING = """
import torch
from torch.profiler import ProfilerActivity, profile
from viztracer import VizTracer
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tracer = VizTracer(output_file='calls.json', verbose=0)
def train_step(i):
    with torch.profiler.record_function(f'step {i}'):
        loss = torch.relu(torch.matmul(model(torch.randn(8, 64)), torch.ones(4, 3))).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
train_step(0)
tracer.start()
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for i in range(6):
        train_step(i)
tracer.stop()
tracer.save()
profiler.export_chrome_trace('trace.json')
"""


def test_a_recording_of_viztracer_beside_pytorch(ask, analyze, tmp_path):
    pytest.importorskip('torch'), pytest.importorskip('viztracer')
    subprocess.run([sys.executable, '-c', TRAINING], cwd=tmp_path, check=True, capture_output=True, timeout=240)
    trace, calls = tmp_path / 'trace.json', tmp_path / 'calls.json'
    report = analyze(trace, calls)
    assert 'joined by' in report['inputs'][1]['issues'][0]['text'], report['inputs'][1]
    # Each step's range is within the function that opened it.
    steps = ask(trace, calls, "select start_ns s, end_ns e from host where name like 'step %' and kind = 'annotation' order by 1")
    functions = ask(trace, calls, "select h.start_ns s, h.end_ns e from host h join threads t on h.thread_id = t.id where h.name like '%train_step' and t.thread like '%stack)' order by 1")
    assert len(steps) == len(functions) == 6
    for step, function in zip(steps, functions):
        assert function['s'] <= step['s'] + 50_000 and step['e'] <= function['e'] + 50_000
