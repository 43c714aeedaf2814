"""Structures that programs hand over with NVTX ranges: from NVIDIA's headers to SQL and Chrome's format."""
import json
import os
import subprocess

from lifecycle_test import environment, recording, recordings
from recorded import BUILD, LIBRARY, need

PROFGPU = os.path.join(BUILD, 'profgpu')


def record(folder, *words, options=''):
    path = os.path.join(BUILD, 'nvtx-payload')
    need(path, LIBRARY)
    env = environment(folder, options, NVTX_INJECTION64_PATH=LIBRARY)
    result = subprocess.run([path, *words], env=env, capture_output=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, b''), result.stderr
    return result.stdout.decode().splitlines()


def profgpu(*words):
    need(PROFGPU)
    result = subprocess.run([PROFGPU, *words], env=environment(None), capture_output=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.decode()


def arguments(path):
    """(name, arguments) of all ranges with some, in order of time."""
    query = "select name, arguments from host where kind = 'annotation' order by start_ns, end_ns desc"
    rows = json.loads(profgpu('query', str(path), query, '--json'))
    return [(row['name'].removeprefix('NCCL: '), row['arguments'] and json.loads(row['arguments'])) for row in rows]


STRUCTURE = {'tiny': -3, 'part': 0.5, 'large': -5000000000, 'inside.low': -7, 'inside.high': 2.25, 'three': [1, -2, 3],
             'text': 'a "b"'}
EXPECTED = [
    ('AllReduce', {'Message size [bytes]': 1 << 20, 'Reduction operation': 'Sum'}),
    ('AllReduce', {'Message size [bytes]': 4096, 'Reduction operation': 'Max'}),
    ('AllReduce', {'Message size [bytes]': 8, 'Reduction operation': 77}),
    ('structure', STRUCTURE),
    ('cut', {'tiny': -3, 'part': 0.5}),
    ('lengths', {'count': 2, 'values': [7, 8], 'rest': 'words'}),
    ('lying length', {'count': 0xffffffff}),
    ('beside', {'kind': 1, 'value.part': 0.25, 'corners[0].x': 1, 'corners[0].y': -2, 'corners[1].x': 3, 'corners[1].y': 4,
                'name': '0x0'}),
    ('within', {'values[0].part': 1.5, 'values[1].whole': -9}),
    ('several', {'payload': 'unbounded', 'payload (2)': '0x0102ff', 'payload (3)': 0.5}),
    ('null', None),
    ('unknown schema', {'payload': '0x6162'}),
    ('big', {'payload': '0x' + '00' * 256}),
    ('no payloads', None),
    ('negative', None),
    ('from payload', {'number': 1, 'result': 42}),
    ('from payload', {'number': 2, 'result': 42}),
    ('from payload', {'number': 3}),
]


def test_values_as_the_program_gave_them(tmp_path):
    said = record(tmp_path)
    assert said == ['enum 1', 'schema 1', 'dynamic 1']
    recorded = recording(tmp_path)
    assert recorded.dropped() == 0
    assert {row['name'] for row in recorded['payload_field']} > {'Message size [bytes]', 'Sum', 'low', 'three'}
    big, = [row for row in recorded['payload'] if row['size'] == 1000]
    assert len(big['bytes']) == 2 * 256
    seen = arguments(recorded.path)
    assert [name for name, _ in seen] == [name for name, _ in EXPECTED]
    for (name, got), (_, wanted) in zip(seen, EXPECTED):
        assert got == wanted, name


def test_in_one_command_and_in_chromes_format(tmp_path):
    path = os.path.join(BUILD, 'nvtx-payload')
    need(path, LIBRARY, PROFGPU)
    folder = tmp_path / 'out'
    profgpu('run', '--backend', 'none', '-q', '--trace', '-o', str(folder), '--', path)
    chrome = tmp_path / 'trace.json'
    profgpu('export', str(folder), '--to', 'chrome', '--output', str(chrome))
    events = json.loads(chrome.read_text())['traceEvents']
    shown = [e['args']['arguments'] for e in events if 'arguments' in e.get('args', {})]
    assert {'Message size [bytes]': 4096, 'Reduction operation': 'Max'} in shown and STRUCTURE in shown
    assert 'left out because they do not match their schema' in profgpu('analyze', str(folder), '--json')


def test_a_forked_child_has_its_parents_schemas(tmp_path):
    record(tmp_path, 'fork')
    child, = [r for r in recordings(tmp_path) if r.properties['ppid'] != str(os.getpid())]
    assert len(child['payload']) == 1
    assert {row['name'] for row in child['payload_field']} > {'Sum', 'Message size [bytes]'}
    assert arguments(child.path) == [('AllReduce of the child',
                                      {'Message size [bytes]': 512, 'Reduction operation': 'Product'})]


def test_schemas_that_lie_are_refused(tmp_path):
    said = record(tmp_path, 'hostile')
    assert said[3:] == ['refused 1 1', 'full 1']
    recorded = recording(tmp_path)
    seen = dict(arguments(recorded.path)[len(EXPECTED):])
    assert seen['circle'] == {'payload': '0x' + b'12345678'.hex()}
    assert seen['far'] == {'here': 5}
    assert seen['many'] == {'field 0': 1}
    assert {row['of'] for row in recorded['drop']} == {9, 10}


def test_switched_off(tmp_path):
    record(tmp_path, options='nvtx=0')
    assert os.listdir(tmp_path) == []
