"""The Python hook with real PyTorch: what it records of the loops in hook_scenarios.py, and that programs do not notice it.

A loop's recording as text: D data loading, F forward, B backward, O optimizer, C checkpoint, | the end of a step; what is
within a phase stands behind it in brackets.
"""
import json
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'inject'))
from recorded import BUILD, LIBRARY, Recording, need  # noqa: E402

HOOK = os.path.join(BUILD, 'share', 'profgpu', 'python-hook')
SCENARIOS = os.path.join(ROOT, 'tests', 'python', 'hook_scenarios.py')
LETTERS = {'data_loading': 'D', 'forward': 'F', 'backward': 'B', 'optimizer': 'O', 'checkpoint': 'C'}
PUSH, POP, MARK, STEP = 1, 2, 5, 6
GARBAGE = 'Python GC'


def environment(folder, **more):
    need(LIBRARY, HOOK, os.path.join(BUILD, 'pgt-dump'))
    env = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU_', 'PYTHON'))
           and k not in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE')}
    env.update(PYTHONPATH=HOOK, PROFGPU_INJECT=LIBRARY, PYTHONDONTWRITEBYTECODE='1')
    if folder is not None:
        env['PROFGPU_RECORD'] = str(folder)
    env.update(more)
    return {k: v for k, v in env.items() if v is not None}


def run(folder, *command, code=0, python=sys.executable, cwd=None, **more):
    result = subprocess.run([python, *map(str, command)], env=environment(folder, **more), stdin=subprocess.DEVNULL,
                            cwd=cwd, capture_output=True, text=True, timeout=120)
    assert result.returncode == code, result.stderr
    return result


def recordings(folder):
    return [Recording(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith('.pgt')]


def loops(recording):
    """{scenario: {thread: text}}; '' stands for what comes before the first."""
    out, name, numbers = {}, '', []
    opened = {}   # phases, by thread
    for row in sorted(recording['range_event'], key=lambda row: row['time_ns']):
        assert row['domain'] == 'profgpu'
        tid, op = row['tid'], row['op']
        if op == MARK:
            assert not any(opened.values()), f'{name}: a phase is open at the end'
            name, numbers = row['name'].replace('scenario ', ''), []
            continue
        text = out.setdefault(name, {}).setdefault(tid, [])
        if op == STEP:
            numbers.append(row['payload'])
            assert numbers == list(range(len(numbers))), name
            text.append('|')
        elif op == PUSH:
            opened.setdefault(tid, []).append(row['name'])
            if row['name'] != GARBAGE:   # which Python collects when it likes
                text += [LETTERS[row['name']], '(']
        else:
            assert op == POP and opened[tid], f'{name}: closed twice'
            if opened[tid].pop() != GARBAGE:
                text.append(')')
    assert not any(opened.values())
    return {name: {tid: ''.join(text).replace('()', '') for tid, text in threads.items()} for name, threads in out.items()}


# Iterating over a DataLoader is two waits at first: its workers start, the first batch comes.
EXPECTED = {
    'plain': 'DDFBO|DFBO|DFBO|DC',
    # A step ends with the next wait for data, whichever loader it is for; validation is part of none but the next.
    'two_epochs_and_validation': 'DDFBO|DFBO|D' + 'DDFD' + 'DDFBO|DFBO|D' + 'DDFD',
    'fork_workers': 'DDFBO|DFBO|DFBO|D',
    'module_in_collate': 'DDFBO|DFBO|DFBO|D',
    'loader_in_dataset': 'DDFBO|DFBO|D',
    'no_loader': 'FBO|FBO|FBO|',
    # That the second step does not wait for data is known when the optimizer comes again.
    'one_batch_for_ever': 'DDFBOFB|O|FBO|FBO|',
    'accumulation': 'DDFBDFBO|DFBDFBO|D',
    'gan': 'DDFFFBOFFBO|DFFFBOFFBO|D',
    'closure': 'O(FB)|O(FB)|',
    'lbfgs': 'DDO(FBFB)|DO(FBFB)|D',
    'optimizer_in_backward': 'DDFB(O)|DFB(O)|D',
    'scaler': 'DDFBO|DFBO|D',
    'scaler_of_two': 'DDFFBOFBO|DFFBOFBO|D',
    'recomputation': 'FBO|',
    'reentrant': 'F',
    'scripted': 'FBO|',
    # Tracing runs the module three times.
    'traced': 'FFFFBO|',
    'fx': 'FBO|',
    'garbage': 'DDFBO|DFBO|DFBO|D',
    'exception_in_forward': 'FFBO|',
    'exception_in_closure': 'DDO(FB)|DO(F)DO(FB)|D',
    # The optimizer's phase stays open until it steps again.
    'exception_in_closure_without_loader': 'O(FB)O|FBO|',
    'abandoned': 'DDDDDDFBO|',
    'loop_in_a_module': 'FDDFBO|DFBO|D',
    'distributed_checkpoint': 'C',
}
SPECIAL = ('prefetching_thread', 'threads', 'forked', 'our_own_error')


@pytest.fixture(scope='module')
def scenarios(tmp_path_factory):
    """What one process and its children wrote: ({name: {thread: text}} and recording of the parent, the others)."""
    folder = tmp_path_factory.mktemp('scenarios')
    run(folder, SCENARIOS, *EXPECTED, *SPECIAL, cwd=str(folder))
    files = recordings(folder)
    # The numbers of processes wrap around: a child's may be below its parent's.
    pids = {file.properties['pid'] for file in files}
    [parent] = [file for file in files if file.properties['ppid'] not in pids]
    return loops(parent), parent, [file for file in files if file is not parent]


@pytest.mark.parametrize('name', EXPECTED)
def test_loop(scenarios, name):
    assert list(scenarios[0][name].values()) == [EXPECTED[name]]


def test_collections_of_garbage_are_marked_but_for_the_youngest_generation(scenarios):
    names, name = {}, ''
    for row in sorted(scenarios[1]['range_event'], key=lambda row: row['time_ns']):
        if row['op'] == MARK:
            name = row['name'].replace('scenario ', '')
        elif row['op'] == PUSH and row['name'] == GARBAGE:
            names[name] = names.get(name, 0) + 1
    assert names.get('garbage') == 6


def test_the_collection_at_the_end_of_the_interpreter_is_not_marked(tmp_path):
    run(tmp_path, '-c', 'import torch; torch.nn.Linear(2, 2)(torch.zeros(1, 2))')
    [file] = recordings(tmp_path)
    names = [row['name'] for row in file['range_event'] if row['op'] == PUSH]
    assert names == ['forward'] and int(file.properties['processors']) == len(os.sched_getaffinity(0))


def test_other_threads_end_no_steps(scenarios):
    assert list(scenarios[0]['threads'].values()) == ['FBO|FBO|', 'FB', 'FB']
    assert list(scenarios[0]['prefetching_thread'].values()) == ['DFBOFB|O|FBO|', 'D', 'D', 'D']


def test_a_forked_child_counts_for_itself_and_data_workers_write_nothing(scenarios):
    loop, parent, others = scenarios
    assert list(loop['forked'].values()) == ['FBO|']
    assert [loops(file) for file in others] == [{'': {int(others[0].properties['pid']): 'DDFO|DFO|DFO|'}}]
    assert others[0].ended
    assert others[0].properties['ppid'] == parent.properties['pid']


def test_an_error_of_ours_turns_the_hook_off(scenarios):
    loop, parent, _ = scenarios
    assert list(loop['our_own_error'].values()) == ['FBO']
    assert parent.properties['python_hook'].startswith('off after an error: TypeError')
    assert parent.properties['torch_version'].startswith(('1.', '2.'))


COMPILED = """
import json, torch, torch._dynamo
from torch._dynamo.utils import counters
F = torch.nn.functional
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.linear(x).relu()
class Broken(Block):
    def forward(self, x):
        x = super().forward(x)
        torch._dynamo.graph_break()
        return self.linear(x)
def hooked():
    m = torch.nn.Sequential(Block(), Block())
    m[0].register_forward_hook(lambda module, args, out: out + 1)
    return m
def data(n=8):
    return torch.randn(n, 4), torch.randint(0, 4, (n,))
def train(call, m, o, sizes=(8, 8)):
    for n in sizes:
        x, y = data(n)
        o.zero_grad()
        F.cross_entropy(call(x), y).backward()
        o.step()
seen = {}
def case(name, make, compiled=lambda m, **o: torch.compile(m, backend='aot_eager', **o), sizes=(8, 8), whole=False, **options):
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    m = make()
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    if whole == 'step':
        step = torch.compile(o.step, backend='aot_eager')
        for n in sizes:
            x, y = data(n)
            F.cross_entropy(m(x), y).backward()
            step()
    elif whole:
        @torch.compile(backend='aot_eager')
        def everything(x, y):
            o.zero_grad()
            F.cross_entropy(m(x), y).backward()
            o.step()
        for n in sizes:
            everything(*data(n))
    elif compiled == 'in place':
        m.compile(backend='aot_eager')
        train(m, m, o, sizes)
    else:
        train(compiled(m, **options), m, o, sizes)
    counted = ['stats', 'graph_break', 'recompile_limit', 'unimplemented', 'inline_call']
    if not whole:  # In an optimizer with hooks, whosever, other frames follow its graph break.
        counted.append('frames')
    seen[name] = [{k: dict(counters[k]) for k in counted}, float(sum(p.detach().sum() for p in m.parameters()))]
plain = lambda: torch.nn.Sequential(Block(), Block())
case('module', plain)
case('fullgraph', plain, fullgraph=True)
case('in place', plain, compiled='in place')
case('function', plain, compiled=lambda m: torch.compile(lambda x: m(x), backend='aot_eager', fullgraph=True))
case('hooks on a module', hooked)
case('graph break', lambda: torch.nn.Sequential(Broken(), Broken()))
case('shapes change', plain, sizes=(8, 9, 10, 11))
case('standard module', lambda: torch.nn.Linear(4, 4))
case('optimizer step', plain, whole='step')
case('all of a step', plain, whole=True)
many = []
def several():
    return plain()
torch._dynamo.reset(); counters.clear()
for _ in range(12):
    m = several(); torch.compile(m, backend='aot_eager')(data()[0])
seen['twelve modules'] = {k: dict(v) for k, v in counters.items() if k in ('stats', 'frames', 'graph_break')}
print(json.dumps(seen))
"""


@pytest.mark.parametrize('more', [{}, {'KINETO_USE_DAEMON': '1'}])
def test_torch_compile_sees_the_same(tmp_path, more):
    both = [subprocess.Popen([sys.executable, '-c', COMPILED], env=environment(folder, **more), stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL) for folder in (None, tmp_path)]
    off, on = (json.loads(process.communicate(timeout=180)[0]) for process in both)
    assert off['graph break'][0]['graph_break'], 'the counters count nothing'
    assert on == off
    text, = loops(recordings(tmp_path)[0])[''].values()
    # Three ways to compile a module, two steps each.
    assert text.startswith('FBO|' * 6)


RANK = """
import os, sys, torch, torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
dist.init_process_group('gloo')
m = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
o = torch.optim.SGD(m.parameters(), lr=0.1)
for x, in DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4):
    o.zero_grad()
    m(x).sum().backward()
    o.step()
dist.barrier()
os._exit(0)  # gloo's tear-down aborts now and then
"""


def test_torchrun(tmp_path):
    script = tmp_path / 'train.py'
    script.write_text(RANK)
    folder = tmp_path / 'recording'
    folder.mkdir()
    run(folder, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', 2, script, OMP_NUM_THREADS='1')
    files = recordings(folder)
    assert sorted(file.properties['rank'] for file in files) == ['0', '1'], 'the launcher writes no file'
    for file in files:
        assert list(loops(file)[''].values()) == ['DDFBO|DFBO|D']


PROFILED = """
import json, sys, torch
from torch.utils.data import DataLoader, TensorDataset
m = torch.nn.Linear(4, 2)
o = torch.optim.SGD(m.parameters(), lr=0.1)
every = torch.profiler.schedule(wait=0, warmup=0, active=20)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=every) as p:
    for x, in DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=4):
        m(x).sum().backward()
        o.step()
        p.step()
p.export_chrome_trace(sys.argv[1])
events = json.load(open(sys.argv[1]))['traceEvents']
print(json.dumps(sorted(e['name'] for e in events if e.get('name', '').startswith('ProfilerStep#'))))
"""


def test_a_program_that_profiles_itself_has_its_own_steps(tmp_path):
    result = run(tmp_path, '-c', PROFILED, tmp_path / 'trace.json', KINETO_USE_DAEMON='1')
    assert json.loads(result.stdout.splitlines()[-1]) == sorted(f'ProfilerStep#{i}' for i in range(11))


SPAWNED = """
import sys, torch, torch.multiprocessing as mp
sys.path.insert(0, sys.argv[1])
import hook_scenarios as s
def work(rank):
    m = s.model()
    s.train(m, s.sgd(m), s.loader(2))
if __name__ == '__main__':
    torch.set_num_threads(1)
    mp.spawn(work, nprocs=1)
    m = s.model()
    s.train(m, s.sgd(m), s.loader(1, num_workers=1, multiprocessing_context='spawn', collate_fn=s.with_module))
"""


def test_spawned_processes(tmp_path):
    script = tmp_path / 'spawned.py'
    script.write_text(SPAWNED)
    folder = tmp_path / 'recording'
    folder.mkdir()
    run(folder, script, os.path.dirname(SCENARIOS))
    # The rank and its parent; the data worker imported PyTorch and called a module, and has no file.
    assert sorted(text for file in recordings(folder) for text in loops(file)[''].values()) == ['DDFBO|D', 'DDFBO|DFBO|D']


SHOWN = """
import sys
try:
    import sitecustomize
    found = sitecustomize.__file__
except ImportError as error:
    found = type(error).__name__
print([sys.path, found, sorted(m for m in sys.modules if m not in ('site', 'abc')), sys.argv])
"""


def interpreters():
    """This one, and others where pyenv has them: the hook's first file must be read by all."""
    folder = os.path.join(os.environ.get('PYENV_ROOT', os.path.expanduser('~/.pyenv')), 'versions')
    found = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [sys.executable] + [os.path.join(folder, name, 'bin', 'python') for name in found if re.match(r'[23]\.', name)]


@pytest.mark.parametrize('python', interpreters())
@pytest.mark.parametrize('chained', [False, True])
def test_a_program_sees_what_it_would_see_without(python, chained, tmp_path):
    other = tmp_path / 'other'
    other.mkdir()
    if chained:
        (other / 'sitecustomize.py').write_text('import sys\nsys.argv_of_site = 1\n')
    results = [run(tmp_path, '-c', SHOWN, python=python, cwd=str(tmp_path), PYTHONPATH=path)
               for path in (str(other), f'{HOOK}:{other}', f'{HOOK}/:{HOOK}:{other}')]
    assert (str(other) in eval(results[0].stdout)[1]) == chained
    for result in results[1:]:
        assert (eval(result.stdout), result.stderr) == (eval(results[0].stdout), '')
    assert not recordings(tmp_path)


def test_an_error_in_the_next_sitecustomize_is_reported_as_ever(tmp_path):
    (tmp_path / 'sitecustomize.py').write_text('raise ValueError("theirs")\n')
    results = [run(tmp_path, '-c', '1', PYTHONPATH=path).stderr for path in (str(tmp_path), f'{HOOK}:{tmp_path}')]
    assert 'theirs' in results[0] and results[1] == results[0]


def test_started_in_its_own_folder(tmp_path):
    assert run(tmp_path, '-c', 'import sitecustomize', cwd=HOOK).stderr == ''


OLD = {
    'torch/__init__.py': """
__version__ = VERSION
from . import _C, nn, autograd, serialization, cuda, optim, utils
from .serialization import save
import torch.optim.optimizer, torch.utils.data.dataloader, torch.utils.data._utils.worker
""",
    'torch/_C.py': '', 'torch/nn.py': """
class Module:
    def _call_impl(self, *args): return self.forward(*args)
    __call__ = _call_impl
""",
    'torch/autograd.py': 'def backward(tensor): return tensor\n',
    'torch/serialization.py': 'def save(what): pass\n',
    'torch/cuda/__init__.py': 'from . import amp\n',
    'torch/cuda/amp.py': """
class GradScaler:
    def step(self, optimizer): optimizer.step()
""",
    'torch/optim/__init__.py': '',
    'torch/optim/optimizer.py': """
class Optimizer:
    def __init__(self): self._hook_for_profile()
    def _hook_for_profile(self): type(self).step.hooked = True
class SGD(Optimizer):
    def step(self, closure=None): return closure and closure()
""",
    'torch/utils/__init__.py': '', 'torch/utils/data/__init__.py': '', 'torch/utils/data/_utils/__init__.py': '',
    'torch/utils/data/_utils/worker.py': '_worker_info = None\n',
    'torch/utils/data/dataloader.py': """
class _BaseDataLoaderIter:
    def __init__(self): self.left = 2
    def __next__(self):
        if self.left == 0: raise StopIteration
        self.left -= 1
        return self.left
class DataLoader:
    def __iter__(self):
        i = _BaseDataLoaderIter.__new__(Iterator); i.__init__(); return i
class Iterator(_BaseDataLoaderIter):
    def __iter__(self): return self
""",
    'main.py': """
import torch
from torch.optim.optimizer import SGD
class M(torch.nn.Module):
    def forward(self, x): return x
m, o, p, scaler = M(), SGD(), SGD(), torch.cuda.amp.GradScaler()
for x in torch.utils.data.dataloader.DataLoader():
    torch.autograd.backward(m(x))
    scaler.step(o) if x else o.step()
    p.step(lambda: m(x))
torch.save(x)
""",
}


def old_torch(folder, version, **changes):
    for name, text in {**OLD, **changes}.items():
        path = os.path.join(folder, 'old', name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as file:
            file.write(text.replace('VERSION', repr(version)))
    return os.path.join(folder, 'old', 'main.py')


@pytest.mark.parametrize('python', [path for path in interpreters() if not re.search(r'/(2\.|3\.[67]\.)', path)])
def test_the_calls_that_torch_1_has(python, tmp_path):
    """Simulated: a package with the names of torch 1.13 and nothing behind them."""
    run(tmp_path, old_torch(tmp_path, '1.13.1'), python=python)
    file, = recordings(tmp_path)
    assert list(loops(file)[''].values()) == ['DDFBOO(F)|DFBOO(F)|DC']
    assert file.properties['python_hook'] == 'on' and file.properties['torch_version'] == '1.13.1'


def test_what_a_version_lacks_is_said(tmp_path):
    script = old_torch(tmp_path, '9.0', **{
        'torch/autograd.py': '', 'main.py': 'import torch\ntorch.nn.Module.forward = print\ntorch.nn.Module()()\n'})
    run(tmp_path, script)
    file, = recordings(tmp_path)
    assert file.properties['python_hook'] == 'on without backward'
    assert list(loops(file)[''].values()) == ['F']


def test_a_torch_that_is_another_thing_altogether(tmp_path):
    (tmp_path / 'torch.py').write_text('light = True\n')
    assert run(tmp_path, '-c', 'import torch; print(torch.light, torch.__loader__.exec_module.__name__)',
               cwd=str(tmp_path)).stdout == 'True exec_module\n'
    (tmp_path / 'torch.py').write_text('1 / 0\n')
    assert 'ZeroDivisionError' in run(tmp_path, '-c', 'import torch', cwd=str(tmp_path), code=1).stderr
    assert not recordings(tmp_path)


INTERRUPTED = """
import os, signal, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
os.kill(os.getpid(), signal.SIGINT)
"""


def test_an_interrupt_ends_the_recording(tmp_path):
    # Python then kills itself, so that no library is told of the end.
    (tmp_path / 'rec').mkdir()
    (tmp_path / 'loop.py').write_text(INTERRUPTED)
    result = run(tmp_path / 'rec', tmp_path / 'loop.py', code=-2)
    assert result.stderr.rstrip().endswith('KeyboardInterrupt')
    recording, = recordings(tmp_path / 'rec')
    assert recording.ended


@pytest.mark.parametrize('more', [{'PROFGPU_PYTHON_HOOK': '0'}, {'PROFGPU_INJECT': '/nowhere.so'}, {'PROFGPU_INJECT': None},
                                  {'PROFGPU_RECORD': None}, {'PROFGPU_RECORD': '/nowhere'}])
def test_off(more, tmp_path):
    assert run(tmp_path, old_torch(tmp_path, '1.13.1'), **more).stderr == ''
    assert not recordings(tmp_path)


@pytest.mark.parametrize('option', ['-I', '-E', '-S'])
def test_options_of_python_that_keep_it_out(option, tmp_path):
    run(tmp_path, option, old_torch(tmp_path, '1.13.1'), code=1 if option == '-I' else 0)
    assert not recordings(tmp_path)
