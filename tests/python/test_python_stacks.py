"""The Python stack of a loop, sampled: with a package that has the names of torch and nothing behind them, so that the
loop does what the test says and no more."""
import collections
import re

import pytest

from test_hook import environment, interpreters, old_torch, recordings, run

STACK = 'profgpu.stack'
PUSH, POP = 1, 2
PYTHONS = [path for path in interpreters() if not re.search(r'/(2\.|3\.[678]\.)', path)]
LOOP = """
import os, sys, threading, time
import torch
from torch.optim.optimizer import SGD
class M(torch.nn.Module):
    def forward(self, x): return x
m, o = M(), SGD()
def spins(seconds=0.02):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
def waits(seconds=0.02):
    time.sleep(seconds)
def train(steps):
    for _ in range(steps):
        m(1)
        spins()
        waits()
        o.step()
"""


def sample_rows(recording):
    return sorted((row for row in recording['range_event'] if row['domain'] == STACK), key=lambda row: row['time_ns'])


def samples(recording):
    """Stacks, outermost frame first. A sample is what is open when a frame that called none was pushed."""
    out, stack, pushed = [], [], False
    for row in sample_rows(recording):
        if row['op'] == PUSH:
            stack.append(row['name'])
            pushed = True
        else:
            assert row['op'] == POP and stack, 'a frame ends that never began'
            if pushed:
                out.append(list(stack))
            pushed = False
            stack.pop()
    return out + ([stack] if pushed else [])


def record(folder, main, interval_ns=1_000_000, **more):
    more.setdefault('code', 0)
    return run(folder, old_torch(folder, '1.13.1', **{'main.py': LOOP + main}), PROFGPU_PYTHON_STACKS_NS=str(interval_ns),
               **more)


@pytest.mark.parametrize('python', PYTHONS)
def test_lines_are_named_where_the_loop_waits_and_where_it_works(python, tmp_path):
    record(tmp_path, 'train(25)\n', python=python)
    file, = recordings(tmp_path)
    assert file.properties['python_hook'] == 'on'
    # A last sample may fall into the interpreter's end, which is no part of the program.
    seen = [stack for stack in samples(file) if not stack[0].endswith(': _shutdown')]
    inner = collections.Counter(stack[-1].split(': ')[1] for stack in seen)
    # How much of each depends on how often the sampler gets the interpreter's lock while the loop works.
    assert inner['spins'] and inner['waits'] and inner['spins'] + inner['waits'] > 0.5 * len(seen), inner
    lines = (LOOP + 'train(25)\n').splitlines()
    for stack in seen:
        for name in stack:
            file_name, line, function = re.fullmatch(r'(.*)\((\d+)\): (.*)', name).groups()
            assert file_name in ('main.py', 'torch/nn.py', 'torch/optim/optimizer.py'), name
            assert file_name != 'main.py' or lines[int(line) - 1].strip(), name
    assert any(stack[-1].startswith('main.py') and lines[int(re.search(r'\((\d+)\)', stack[-1])[1]) - 1].strip()
               == 'time.sleep(seconds)' for stack in seen)
    assert len({row['tid'] for row in sample_rows(file)}) == 1


def test_the_thread_that_steps_is_the_one(tmp_path):
    """One that also calls a module is not, once that is known."""
    record(tmp_path, """
def other():
    for _ in range(30):
        m(1)
        time.sleep(0.01)
thread = threading.Thread(target=other)
o.step(); m(1); thread.start(); train(10); thread.join()
""")
    file, = recordings(tmp_path)
    stacks = samples(file)
    assert stacks and not any('other' in name for stack in stacks for name in stack)


def test_a_forked_child_samples_itself(tmp_path):
    record(tmp_path, """
train(3)
child = os.fork()
train(5)
if child == 0: os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
""")
    files = recordings(tmp_path)
    assert len(files) == 2
    for file in files:
        assert samples(file) and {row['tid'] for row in sample_rows(file)} == {int(file.properties['pid'])}


@pytest.mark.parametrize('end', ['', 'sys.exit(0)', 'os._exit(0)', 'os.abort()', 'raise KeyError()',
                                 'threading.Thread(target=train, args=(3,), daemon=True).start()',
                                 'threading.Thread(target=train, args=(3,)).start()'])
def test_programs_end_as_ever(end, tmp_path):
    """Sampled as often as it goes, when Python takes itself apart."""
    main = f'train(2)\n{end}\n'
    code = {'os.abort()': -6, 'raise KeyError()': 1}.get(end, 0)
    for round in range(6):
        result = record(tmp_path / str(round), main, interval_ns=20_000, code=code)
        assert result.stdout == '' and ('KeyError' in result.stderr) == ('KeyError' in end) and 'profgpu' not in result.stderr


def test_what_the_loop_does_is_not_changed(tmp_path):
    """Signal handlers and recursion to the limit; stacks may be deeper than is kept. Threads of Python take turns sooner."""
    result = record(tmp_path, """
import signal
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
seen = []
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
train(10)
signal.setitimer(signal.ITIMER_REAL, 0)
def deep(n): return deep(n + 1)
for _ in range(20):
    try: deep(0)
    except RecursionError: pass
def deeper(n): return train(2) if n == 0 else deeper(n - 1)
deeper(300)
print(len(seen) > 50, sys.getswitchinterval())
""", interval_ns=100_000)
    assert result.stdout == 'True 0.0005\n' and result.stderr == ''
    file, = recordings(tmp_path)
    assert max(len(stack) for stack in samples(file)) == 128


@pytest.mark.parametrize('more', [{'PROFGPU_PYTHON_STACKS_NS': '0'}, {'PROFGPU_PYTHON_STACKS_NS': None}])
def test_off(more, tmp_path):
    run(tmp_path, old_torch(tmp_path, '1.13.1', **{'main.py': LOOP + 'train(3)\n'}), **more)
    file, = recordings(tmp_path)
    assert file.properties['python_hook'] == 'on' and not sample_rows(file)


def test_a_number_that_is_none_is_said(tmp_path):
    record(tmp_path, 'train(2)\n', interval_ns='often')
    file, = recordings(tmp_path)
    assert file.properties['python_hook'].startswith('off after an error: ValueError') and not sample_rows(file)
    assert 'PROFGPU_PYTHON_STACKS_NS' not in environment(None)
