"""Ranges, marks and names that programs give through NVTX: from C, C++ and Python, without a GPU."""
import os
import struct
import subprocess
import sys

import pytest
from lifecycle_test import MARK, POP, PUSH, environment, events, recording, recordings
from recorded import BUILD, LIBRARY, need

RANGE_START, RANGE_END = 3, 4


def run(folder, *words, options='', **more):
    env = environment(folder, options, NVTX_INJECTION64_PATH=LIBRARY, **more)
    result = subprocess.run([str(w) for w in words], env=env, capture_output=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, b''), result.stderr
    return result.stdout


def program(name):
    path = os.path.join(BUILD, name)
    need(path, LIBRARY)
    return path


def python(folder, code, **more):
    need(LIBRARY)
    return run(folder, sys.executable, '-c', code, **more)


def named(recorded, op, domain=None):
    return [row['name'] for row in events(recorded, op) if row['domain'] == domain]


def test_every_call_from_c(tmp_path):
    run(tmp_path, program('nvtx-c'))
    recorded = recording(tmp_path)
    wide = 'größer ≥ \U0001f600'
    assert named(recorded, PUSH) == ['ascii', 'wide', None]
    assert named(recorded, PUSH, 'library') == ['registered', wide]
    assert len(events(recorded, POP)) == 6
    starts = {row['name']: row['range'] for row in events(recorded, RANGE_START)}
    assert len(set(starts.values())) == 3 and 0 not in starts.values()
    ends = [row['range'] for row in events(recorded, RANGE_END)]
    assert ends == [starts['outer'], starts['inner'], starts[wide], 12345]
    assert named(recorded, MARK) == ['mark', 'wide mark'] + ['payload'] * 6 + [None, None]
    assert named(recorded, MARK, 'library') == [wide]


def test_payloads_and_names(tmp_path):
    run(tmp_path, program('nvtx-c'))
    recorded = recording(tmp_path)
    payloads = [(row['payload_type'], row['payload']) for row in events(recorded, MARK) if row['category'] == 7]
    bits = [struct.unpack('<Q', struct.pack('<d', x))[0] for x in (2.5, 0.5)]
    integers = [1 << 40, (1 << 64) - 5, (1 << 64) - 6, 4_000_000_000]
    assert payloads == [(1, value) for value in integers] + [(2, bits[0]), (2, bits[1])]
    properties = recorded.properties
    assert properties['nvtx_category library 7'] == 'seven' and properties['nvtx_category library 8'] == 'eight'
    assert properties['nvtx_category  7'] == 'default seven'
    assert recorded['thread'][-1]['name'] == 'the main one' and properties['recorded_by'] == 'nvtx'


def test_cpp_and_handles_in_a_child(tmp_path):
    run(tmp_path, program('nvtx-cpp'))
    parent, child = sorted(recordings(tmp_path), key=lambda r: -len(events(r, PUSH)))
    assert named(parent, PUSH) == ['scoped'] and named(parent, PUSH, 'c++ domain') == ['registered in C++']
    mark, = events(parent, MARK)
    assert (mark['name'], mark['domain'], mark['payload']) == ('in a domain', 'c++ domain', 42)
    assert named(child, MARK, 'c++ domain') == ['another name first, so that numbers differ', 'registered in C++']


def test_switched_off(tmp_path):
    run(tmp_path, program('nvtx-c'), options='nvtx=0')
    assert os.listdir(tmp_path) == []
    run(None, program('nvtx-c'))


@pytest.mark.skipif(subprocess.run([sys.executable, '-c', 'import nvtx'], capture_output=True).returncode != 0,
                    reason='the nvtx package is not installed')
def test_from_python(tmp_path):
    python(tmp_path, '''
import nvtx, threading
@nvtx.annotate("decorated", color="blue")
def f(): pass
def work():
    for i in range(50):
        with nvtx.annotate("with block", domain="mine", category="loading"): f()
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
nvtx.mark("here", payload=3.5)
r = nvtx.start_range("long"); nvtx.end_range(r)
''')
    recorded = recording(tmp_path)
    assert named(recorded, PUSH, 'mine') == ['with block'] * 200
    assert len([row for row in events(recorded, PUSH) if row['name'] == 'decorated']) == 200
    assert len(events(recorded, POP)) == 400
    assert [row['name'] for row in events(recorded, MARK)] == ['here']
    assert len(events(recorded, RANGE_START)) == len(events(recorded, RANGE_END)) == 1
    assert 'loading' in [v for k, v in recorded.properties.items() if k.startswith('nvtx_category mine')]


TORCH = 'import torch; torch.cuda.nvtx.range_push("x"); torch.cuda.nvtx.range_pop()'


def test_torch(tmp_path):
    if subprocess.run([sys.executable, '-c', TORCH], capture_output=True).returncode:
        pytest.skip('this PyTorch is built without NVTX')
    python(tmp_path, TORCH)
    assert named(recording(tmp_path), PUSH) == ['x']
