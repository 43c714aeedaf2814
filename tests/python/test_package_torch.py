"""The package with PyTorch (CPU): watch(), record(), the guide's helpers, callbacks, torchrun, and the recorder."""
import copy
import io
import json
import os
import pickle
import subprocess
import sys
import time

import pytest
from package_script import REPLAY, ROOT, run_script

import profgpu

torch = pytest.importorskip('torch')
pytestmark = pytest.mark.usefixtures('package')


class Slow(torch.utils.data.Dataset):
    """Each item takes `wait_s`."""

    def __init__(self, n=8, wait_s=0.0):
        self.n, self.wait_s = n, wait_s

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(self.wait_s)
        return torch.full((4,), float(i)), torch.zeros(2)


class Model(torch.nn.Module):
    """Its forward takes `wait_s`."""

    def __init__(self, wait_s=0.0):
        super().__init__()
        self.linear, self.wait_s = torch.nn.Linear(4, 2), wait_s

    def forward(self, x):
        time.sleep(self.wait_s)
        return self.linear(x)


def parts(n=8, load_s=0.0, forward_s=0.0):
    model = Model(forward_s)
    return model, torch.optim.SGD(model.parameters(), lr=0.01), torch.utils.data.DataLoader(Slow(n, load_s), batch_size=1)


def train(model, optimizer, loader):
    for inputs, labels in loader:
        loss = torch.nn.functional.mse_loss(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_watch_counts_and_times():
    model, optimizer, loader = parts(6, 0.01, 0.02)
    kind, backward = type(loader), torch.autograd.backward
    with profgpu.watch(model, optimizer, loader) as watched, profgpu.GpuMonitor(backend=REPLAY, interval_s=0.01) as mon:
        train(model, optimizer, loader)
    assert watched.steps == 6 and type(loader) is kind and torch.autograd.backward is backward
    m = watched.metrics()
    assert 0.01 <= m['profgpu/data_loading_s'] < 0.03 and 0.02 <= m['profgpu/forward_s'] < 0.05
    assert m['profgpu/step_s'] >= 0.03 and 20 < m['profgpu/data_loading_pct'] < 50
    assert m['profgpu/backward_s'] > 0 and m['profgpu/optimizer_s'] > 0
    assert {'data_loading', 'forward', 'backward', 'optimizer'} <= set(mon.summary.phases)
    train(model, optimizer, loader)
    assert watched.steps == 6, 'no hook is left'


def test_watch_of_gradients_that_accumulate_and_of_errors():
    model, optimizer, loader = parts(8)
    with profgpu.watch(model, optimizer, loader) as watched:
        for number, (inputs, labels) in enumerate(loader):
            model(inputs).sum().backward()
            if number % 4 == 3:
                optimizer.step()
    assert watched.steps == 2
    with profgpu.watch(model, optimizer) as watched:
        for _ in range(3):
            with pytest.raises(RuntimeError):
                model(torch.zeros(1, 5))
            model(torch.zeros(1, 4)).sum().backward()
            optimizer.step()
        other = model(torch.zeros(1, 4))
    assert watched.steps == 3 and other.shape == (1, 2) and profgpu.watch().metrics() == {}


def test_what_is_watched_can_be_saved_copied_scripted_and_compiled():
    model, optimizer, loader = parts(4)
    with profgpu.watch(model, optimizer, loader) as watched:
        torch.save(model, io.BytesIO())
        for thing in (model, optimizer, loader):
            pickle.dumps(thing)
        copied = copy.deepcopy(model)
        assert type(loader) is torch.utils.data.DataLoader and type(copied) is Model
        torch._dynamo.reset()
        whole = torch.nn.Linear(4, 2)
        with profgpu.watch(whole):
            torch.jit.script(whole)
            torch.export.export(whole, (torch.ones(1, 4),))
            torch.compile(whole, backend='eager', fullgraph=True)(torch.ones(1, 4))
        compiled = torch.compile(whole, backend='eager', fullgraph=True)
        other = torch.optim.SGD(whole.parameters(), lr=0.1)
        with profgpu.watch(compiled, other) as of_compiled:
            train(compiled, other, [(torch.ones(1, 4), torch.ones(1, 2))] * 3)
        assert of_compiled.metrics()['profgpu/forward_s'] > 0 and of_compiled.steps == 3
        assert not torch._dynamo.utils.counters['graph_break']
        copied(torch.zeros(1, 4))
        assert 'forward' not in watched._spent, 'a copy is not watched'
        train(model, optimizer, loader)
    assert watched.steps == 4


def test_watches_that_close_in_the_order_in_which_they_opened():
    model, optimizer, loader = parts(3)
    replaced = lambda: (torch.autograd.backward, Model.__call__, type(loader).__iter__)
    before = replaced()
    first, second = (profgpu.watch(model, optimizer, loader) for _ in range(2))
    train(model, optimizer, loader)
    first.close()
    train(model, optimizer, loader)
    second.close()
    assert (first.steps, second.steps) == (3, 6) and replaced() == before and '__call__' not in vars(Model)


@pytest.mark.parametrize('wrong, said', [
    (dict(loader=[1]), 'loader: .*not list'), (dict(optimizer='x'), 'optimizer: .*not str'), (dict(model=5), 'model: .*not int')])
def test_watch_of_what_cannot_be_watched_leaves_nothing(wrong, said):
    model, optimizer, loader = parts()
    backward = torch.autograd.backward
    with pytest.raises(TypeError, match=said):
        profgpu.watch(**{'model': model, 'optimizer': optimizer, 'loader': loader, **wrong})
    assert torch.autograd.backward is backward and '__call__' not in vars(Model)
    assert not optimizer._optimizer_step_pre_hooks and '__iter__' in vars(type(loader)) and not hasattr(type(loader).__iter__, '__watched__')


def test_a_wait_after_an_error_is_a_wait():
    model, optimizer, loader = parts(4, 0.02)
    forward = model.forward
    with profgpu.watch(model, optimizer, loader) as watched:
        for number, (inputs, _) in enumerate(loader):
            model.forward = None if number == 1 else forward  # cannot be called
            optimizer.param_groups[0]['lr'] = None if number == 2 else 0.1  # neither
            try:
                model(inputs).sum().backward()
                optimizer.step()
            except TypeError:
                pass
    m = watched.metrics()
    assert watched.steps == 2 and m['profgpu/data_loading_s'] > 0.035
    assert m['profgpu/forward_s'] < 0.015 and m['profgpu/optimizer_s'] < 0.015


def test_record_has_steps_and_phases():
    model, optimizer, loader = parts(5, 0.005)
    with profgpu.record() as rec:
        for inputs, labels in loader:
            with profgpu.step():
                with profgpu.phase('forward'):
                    loss = model(inputs).sum()
                with profgpu.phase('backward'):
                    loss.backward()
                with profgpu.phase('optimizer'):
                    optimizer.step()
        with pytest.raises(profgpu.ProfgpuError, match='before'):
            rec.report
    report = rec.report
    folder = os.path.dirname(rec.path)
    assert len(report.to_dict()['ranks'][0]['steps']) == 5
    phases = {p['name']: p['wall_ns'] for p in report.to_dict()['ranks'][0]['phases']}
    assert phases['forward'] > 0 and phases['backward'] > 0 and phases['optimizer'] > 0
    names = set(report.query("select name from annotations").to_list('name'))
    assert {'forward', 'ProfilerStep#0'} <= names or any(n.startswith('ProfilerStep#') for n in names)
    del rec
    assert os.path.exists(folder) and report.table('host')
    del report
    assert not os.path.exists(folder)


def test_record_has_no_schedule():
    with pytest.raises(ValueError, match='whole block'):
        profgpu.record(schedule=torch.profiler.schedule(wait=1, warmup=1, active=1))


NESTED = """
import html, profgpu, torch
with profgpu.record() as outer:
    torch.ones(3)
    try:
        with profgpu.record():
            pass
    except profgpu.ProfgpuError as error:
        print(error.message)
assert outer.report.verdict
with profgpu.record() as outer:
    with torch.profiler.profile() as inner:
        torch.ones(3)
assert len(inner.key_averages())
with profgpu.record() as empty:
    pass
for recording in (outer, empty):
    try:
        recording.report
    except profgpu.ProfgpuError as error:
        print(error.message)
        assert html.escape(error.message) in recording._repr_html_()
"""


def test_a_profiler_within_another_and_a_block_without_pytorch():
    within, no_trace, empty = [line for line in run_script(NESTED).splitlines() if not line.startswith('USDT')]
    assert 'runs already' in within and 'another' in no_trace and 'no operation of PyTorch' in empty


MAGIC = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "profgpu")
shell.run_cell("import torch")
result = shell.run_cell_magic("profgpu", "--backend {REPLAY} --interval 0.01", "x = torch.ones(8, 8) @ torch.ones(8, 8)\\nimport time; time.sleep(0.1)")
assert shell.user_ns["x"][0, 0] == 8
assert result.gpu.n_samples > 2 and result.report.ops is not None and "<" in result._repr_html_() and "[GPU 0]" in str(result)
assert isinstance(shell.run_cell("%%profgpu --backend none\\n1/0").error_in_exec, ZeroDivisionError)
nothing = shell.run_cell_magic("profgpu", "--backend {REPLAY} --interval 0.01", "time.sleep(0.1)")
assert "[GPU 0]" in repr(nothing) and "no operation of PyTorch" in repr(nothing) and "no operation" in nothing._repr_html_()
print("fine")
"""


def test_the_magic():
    pytest.importorskip('IPython')
    assert run_script(MAGIC).rstrip().endswith('fine')


def test_a_range_costs_little_when_nothing_listens():
    """The bound is 1 µs on a quiet machine; here the best of many batches, and twice that."""
    def each(make):
        best = 1.0
        for _ in range(50):
            begin = time.perf_counter()
            for _ in range(200):
                with make():
                    pass
            best = min(best, (time.perf_counter() - begin) / 200)
        return best

    assert each(profgpu.step) < 2e-6
    assert each(lambda: profgpu.phase('forward')) < 2e-6


def test_compiled_code_is_compiled_whole():
    @torch.compile(backend='eager', fullgraph=True)
    def forward(x):
        with profgpu.step(), profgpu.phase('forward'):
            return x * 2

    with profgpu.GpuMonitor(backend=REPLAY, interval_s=0.01):
        assert forward(torch.ones(2)).tolist() == [2, 2]


RECORDED = """
import torch, profgpu, time
assert profgpu.is_recorded()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(4):
    with profgpu.step(number + 10):
        with profgpu.phase("tokenize"):
            time.sleep(0.01)
        model(torch.zeros(1, 4)).sum().backward()
        optimizer.step()
    time.sleep(0.02)  # between steps
profgpu.mark("done")
"""


def test_the_recorder_gets_steps_and_phases(profgpu, tmp_path):
    out = tmp_path / 'run'
    script = tmp_path / 'loop.py'
    script.write_text(RECORDED)
    environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, 'python'))
    done = profgpu('run', '--trace', '-o', out, '--', sys.executable, script, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    import profgpu as package
    report = package.analyze(out)
    steps = report.to_dict()['ranks'][0]['steps']
    assert [s['index'] for s in steps] == [10, 11, 12, 13], 'and not those that the hook counts'
    assert all(10e6 <= s['duration_ns'] for s in steps)
    assert min(s['duration_ns'] for s in steps) < 30e6, 'what is between steps is in none'
    names = report.query('select name, count(*) as n from annotations group by name')
    assert dict(zip(names.to_list('name'), names.to_list('n')))['tokenize'] == 4


# The guide

def test_quick_benchmark_and_auto_profile(capsys):
    from profgpu.guide import auto_profile, quick_benchmark
    model = Model(0.002).train()
    avg_ms, throughput = quick_benchmark(model, (16, 4), num_iterations=5, warmup=1)
    assert 2 <= avg_ms < 20 and throughput == pytest.approx(16 / avg_ms * 1e3) and model.training
    assert 'Throughput' in capsys.readouterr().out and len(quick_benchmark.timing.times_s) == 5
    calls = []

    @auto_profile(warmup=2, iterations=3)
    def step(x):
        calls.append(x)
        time.sleep(0.02 if len(calls) <= 2 else 0.002)
        return x * 2

    assert [step(i) for i in range(8)] == [0, 2, 4, 6, 8, 10, 12, 14] and calls == list(range(8))
    assert len(step.timing.times_s) == 3 and step.timing.max_s < 0.02 <= step.timing.first_call_s
    assert capsys.readouterr().out.count('step: ') == 1


def test_auto_profile_of_what_does_nothing_when_it_is_called():
    from profgpu.guide import auto_profile

    async def coroutine():
        pass

    def generator():
        yield

    for function in (coroutine, generator):
        with pytest.raises(ValueError, match='none of its work'):
            auto_profile()(function)


def test_the_loader_is_timed_where_it_waits():
    from profgpu.guide import ProfiledDataLoader
    loader = ProfiledDataLoader(torch.utils.data.DataLoader(Slow(6, 0.01), batch_size=1))
    assert loader.get_stats()['avg_load_ms'] == 0 and len(loader) == 6
    assert len([batch for batch in loader if time.sleep(0.02) is None]) == 6
    assert 10 <= loader.get_stats()['avg_load_ms'] < 19, 'the wait, and not what the loop does'
    assert len(loader.load_times) == len(loader.transfer_times) == 6


def test_the_pipelines_parts_add_up(tmp_path):
    from profgpu.guide import PipelineProfiler
    model, optimizer, loader = parts(5, 0.01, 0.01)
    profiler = PipelineProfiler(str(tmp_path / 'out'))
    report = profiler.profile_epoch(model, loader, optimizer, torch.nn.functional.mse_loss, lambda: time.sleep(0.02))
    assert {'data_loading', 'preprocessing', 'forward', 'backward', 'optimizer', 'checkpoint', 'total_step'} <= set(report)
    assert 10 <= report['data_loading']['avg_ms'] < 30 and 10 <= report['forward']['avg_ms'] < 30
    assert report['checkpoint']['avg_ms'] >= 20 and len(profiler.timings['data_loading']) == 5
    assert sum(p['percentage'] for n, p in report.items() if n != 'total_step') == pytest.approx(100)
    within = sum(p['avg_ms'] for n, p in report.items() if n not in ('total_step', 'checkpoint'))
    assert within == pytest.approx(report['total_step']['avg_ms'], rel=0.01)
    with open(profiler.save()) as file:
        assert json.load(file) == report


def test_training_profiler_and_profile_training():
    from profgpu.guide import TrainingProfiler, profile_training
    profiler = TrainingProfiler(warmup=1)
    assert profiler.get_summary() == {}
    for number in range(4):
        with profiler.step(batch_size=8), profiler.phase('forward'):
            time.sleep(0.05 if number == 0 else 0.005)
    summary = profiler.summary
    assert summary['steps'] == 3 and 5 <= summary['step_ms'] < 20 and 5 <= summary['forward_ms'] < 20
    assert summary['samples_per_s'] == pytest.approx(8 * summary['steps_per_s'])
    model, optimizer, loader = parts(5, 0.01)
    summary = profile_training(lambda batch: model(batch[0]).sum().backward(), loader, num_steps=10, warmup=1, device='cpu')
    assert summary['steps'] == 4 and 10 <= summary['data_loading_ms'] < 30


@pytest.mark.parametrize('num_steps', [3, 10])
def test_profile_training_makes_no_step_without_a_batch(num_steps):
    from profgpu.guide import profile_training
    with profgpu.GpuMonitor(backend=REPLAY, interval_s=0.01) as mon:
        profile_training(lambda batch: time.sleep(0.02), parts(4)[2], num_steps=num_steps, warmup=1)
    assert mon.summary.phases['step']['count'] == 4


def test_a_phase_that_few_steps_have():
    from profgpu.guide import TrainingProfiler
    profiler = TrainingProfiler(warmup=3)
    for number in range(13):
        with profiler.step():
            with profiler.phase('forward'):
                pass
            if number in (1, 6, 11):
                with profiler.phase('checkpoint'):
                    time.sleep(0.5 if number == 1 else 0.05)
    assert 10 <= profiler.summary['checkpoint_ms'] < 15, 'two of 50 ms, in ten steps'


def test_wrappers_of_the_profiler(tmp_path):
    from profgpu.guide import NVTXAnnotator, ProfilerWrapper, get_profiler_context
    model, optimizer, loader = parts(8)
    profiler, annotator = ProfilerWrapper(str(tmp_path / 'a'), wait=1, warmup=1, active=3), NVTXAnnotator()
    for number, (inputs, labels) in enumerate(loader):
        with profiler.profile_step(number):
            with annotator.range('forward'):
                loss = model(inputs).sum()
            annotator.push('backward')
            loss.backward()
            annotator.pop()
    report = profiler.finish()
    assert len(report.to_dict()['ranks'][0]['steps']) == 3 and profiler.finish() is report
    with get_profiler_context(output_dir=str(tmp_path / 'b')):
        model(torch.zeros(1, 4))
    assert profgpu.analyze(tmp_path / 'b').to_dict()['ranks']
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with get_profiler_context(output_dir=str(tmp_path / 'c'), schedule=schedule) as context:
        for _ in range(9):
            model(torch.zeros(1, 4))
            context.step()
    assert [s['index'] for s in profgpu.analyze(tmp_path / 'c').to_dict()['ranks'][0]['steps']] == [2, 3, 6, 7]
    with get_profiler_context(enabled=False) as nothing:
        nothing.step()


def test_memory():
    from profgpu.guide import (capture_memory_snapshot, find_memory_leaks, memory_summary, memory_timeline,
                               profile_fsdp_memory)
    model, optimizer, loader = parts(4)
    rows = memory_timeline(model, loader, 2, criterion=torch.nn.functional.mse_loss, optimizer=optimizer)
    assert [r['phase'] for r in rows] == ['start', 'after_transfer', 'after_forward', 'after_backward', 'after_step'] * 2
    assert all(r['allocated_gb'] > 0 for r in rows) and memory_summary()['allocated_gb'] > 0
    held = []
    batches = [(torch.zeros(1, 4), torch.zeros(2))] * 20
    # 40 MB each: smaller ones may come out of what this process had freed before.
    leaks = find_memory_leaks(model, batches, 15, step_fn=lambda batch: held.append(torch.ones(10_000_000)))
    assert leaks['leak'] and 32 < leaks['growth_mb_per_step'] < 48 and leaks['steps'] == 15
    assert not find_memory_leaks(model, batches, 15, optimizer=optimizer, report=False)['leak']
    phases = profile_fsdp_memory(model, torch.zeros(2, 4))
    assert set(phases) == {'forward', 'backward'} and phases['forward']['ms'] > 0
    if not torch.cuda.is_available():
        with pytest.raises(profgpu.ProfgpuError, match='no GPU'):
            with capture_memory_snapshot():
                pass


DEEPSPEED = """
import sys, types, torch, json
class Engine(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.module, self.device = model, torch.device("cpu")
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def forward(self, batch): return self.module(batch).sum()
    def backward(self, loss): loss.backward()
    def step(self): self.optimizer.step(); self.optimizer.zero_grad()
    def is_gradient_accumulation_boundary(self): return True
    def train_micro_batch_size_per_gpu(self): return 3
fake = types.ModuleType("deepspeed")
fake.initialize = lambda model, model_parameters, config: (Engine(model), None, None, None)
sys.modules["deepspeed"] = fake
from profgpu.guide import profile_deepspeed_training, profile_zero_stage
model = torch.nn.Linear(4, 2)
out = sys.argv[1] if len(sys.argv) > 1 else OUT
t = profile_deepspeed_training(model, [torch.ones(1, 4)] * 20, {"zero_optimization": {"stage": 2}}, 12, out)
assert {len(v) for v in t.values()} == {12} and set(t) == {"forward", "backward", "step", "total", "throughput"}
assert all(f + b + s <= w for f, b, s, w in zip(t["forward"], t["backward"], t["step"], t["total"]))
report = json.load(open(out + "/deepspeed_profile_report.json"))
assert report["config"]["zero_stage"] == 2 and report["warmup_steps"] == 3 and sum(report["breakdown_pct"].values()) <= 100
engine = Engine(model)
assert set(profile_zero_stage(engine, torch.ones(1, 4), 3)) == {"ZeRO-3_forward", "ZeRO-3_backward", "ZeRO-3_step"}
from profgpu.integrations.deepspeed import watch_engine
watched = watch_engine(engine)
for _ in range(3):
    engine.backward(engine(torch.ones(1, 4))); engine.step()
engine.eval()
engine(torch.ones(1, 4))
engine.train()
with torch.no_grad():
    engine(torch.ones(1, 4))
assert not watched._open, "an evaluation begins no step"
m = watched.metrics()
assert m["profgpu/step_s"] >= m["profgpu/forward_s"] + m["profgpu/backward_s"] + m["profgpu/optimizer_s"] > 0
watched.close()
assert "forward" not in engine.__dict__
print("fine")
"""


def test_deepspeed_by_a_stand_in(tmp_path):
    """Where DeepSpeed is not installed: the stand-in has the calls that its engine has."""
    assert run_script('OUT = %r\n' % str(tmp_path) + DEEPSPEED).rstrip().endswith('fine')


REAL_DEEPSPEED = f"""
import json, os, torch, types, profgpu
import deepspeed
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled, which takes two minutes; gloo does
from profgpu.guide import profile_deepspeed_training, profile_zero_stage
from profgpu.integrations.deepspeed import watch_engine
deepspeed.init_distributed("gloo")
def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.net = net()
    def forward(self, x): return types.SimpleNamespace(loss=self.net(x).square().mean())
def config(stage):
    return {{"train_batch_size": 16, "gradient_accumulation_steps": 2, "zero_optimization": {{"stage": stage}},
            "optimizer": {{"type": "Adam", "params": {{"lr": 1e-3, "torch_adam": True}}}}}}
batch = torch.randn(4, 16)
t = profile_deepspeed_training(Net(), [batch] * 20, config(2), num_steps=8, output_dir=OUT)
assert {{len(v) for v in t.values()}} == {{8}} and all(f + b + s <= w for f, b, s, w in zip(t["forward"], t["backward"], t["step"], t["total"]))
assert abs(t["throughput"][0] * t["total"][0] - 8) < 1e-6, "four samples a pass on each of two ranks, which only the engine knows"
if torch.distributed.get_rank() == 0:
    report = json.load(open(OUT + "/deepspeed_profile_report.json"))
    assert report["config"]["batch_size"] == 4 and report["config"]["zero_stage"] == 2 and sum(report["breakdown_pct"].values()) <= 100
for stage in (1, 3):
    model = Net()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config(stage))
    before = profile_zero_stage(engine, batch, stage)
    assert set(before) == {{"ZeRO-%d_%s" % (stage, p) for p in ("forward", "backward", "step")}} and all(p["ms"] > 0 for p in before.values())
    profile_zero_stage(engine, batch, stage)
    with profgpu.GpuMonitor(backend={REPLAY!r}, interval_s=0.01) as mon:
        watched = watch_engine(engine)
        for _ in range(6):
            engine.backward(engine(batch).loss); engine.step()
        watched.close()
    phases = {{name: p["count"] for name, p in mon.summary.phases.items()}}
    assert (phases["step"], phases["forward"], phases["backward"], phases["optimizer"]) == (3, 6, 6, 6), phases
    m = watched.metrics()
    assert m["profgpu/step_s"] >= m["profgpu/forward_s"] + m["profgpu/backward_s"] + m["profgpu/optimizer_s"] > 0
torch.distributed.barrier()
if torch.distributed.get_rank() == 0: print("fine", flush=True)
os._exit(0)   # PyTorch 2.13 aborts now and then when its threads meet the end of the interpreter
"""


def test_deepspeed(tmp_path):
    pytest.importorskip('deepspeed')
    done = torchrun(tmp_path, 'OUT = %r\n' % str(tmp_path) + REAL_DEEPSPEED, DS_ACCELERATOR='cpu')
    assert done.returncode == 0 and 'fine' in done.stdout, done.stdout[-2000:] + done.stderr[-3000:]


def torchrun(folder, text, **variables):
    script = folder / 'ranks.py'
    script.write_text(text)
    return subprocess.run([sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc_per_node=2', str(script)],
                          capture_output=True, text=True, timeout=200,
                          env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, 'python'), OMP_NUM_THREADS='1', **variables))


TORCHRUN = """
import os, sys, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
from profgpu.guide import CommTimer, OverlapProfiler, profile_collective_ops
torch.manual_seed(0)
torch.set_num_threads(1)
model = DDP(torch.nn.Sequential(torch.nn.Linear(64, 2000), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(2000), torch.nn.Linear(2000, 2000)))
batch = torch.randn(4, 64)
timer = CommTimer()
for _ in range(4):
    model.zero_grad()
    loss = timer.profile_step(model, batch)
grads = [p.grad.clone() for p in model.parameters()]
summary = timer.get_summary()
assert timer.steps == 4 and timer.compute_time > 0 and timer.comm_time > 0 and 0 < summary["comm_pct"] < 100, summary
buffers = {k: v.clone() for k, v in model.named_buffers()}
assert int(buffers["module.2.num_batches_tracked"]) == 4, "the silent passes are undone"
found = OverlapProfiler(model).profile(batch, num_iterations=4, warmup=1)
assert found["comm_total_ms"] > 0 and 0 <= found["overlap_efficiency_pct"] <= 100 and found["with_comm_ms"] > 0, found
assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), grads))
assert all(torch.equal(v, buffers[k]) for k, v in model.named_buffers())
ops = profile_collective_ops(sizes=(1024, 1 << 20), iterations=3, warmup=1)
assert set(ops) == {n + s + e for n in ("all_reduce", "all_gather") for s in ("_1KB", "_1024KB") for e in ("", "_busbw_gbps")}
assert all(v > 0 for v in ops.values())
dist.barrier()
if dist.get_rank() == 0: print("fine", flush=True)
os._exit(0)   # PyTorch 2.13 aborts now and then when its threads meet the end of the interpreter
"""


def test_two_ranks(tmp_path):
    done = torchrun(tmp_path, TORCHRUN)
    assert done.returncode == 0 and 'fine' in done.stdout, done.stdout + done.stderr[-3000:]


def test_collectives_need_a_group():
    from profgpu.guide import profile_collective_ops
    with pytest.raises(profgpu.ProfgpuError, match='not initialized'):
        profile_collective_ops()


# Libraries around loops

def test_accelerate():
    accelerate = pytest.importorskip('accelerate')
    from profgpu.integrations.accelerate import watch
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer, loader = accelerator.prepare(*parts(8, 0.002))
    logged = []
    accelerator.log = lambda values, step=None: logged.append((values, step))
    with watch(accelerator, model, optimizer, loader) as watched:
        for inputs, labels in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(inputs).sum())
                optimizer.step()
                optimizer.zero_grad()
        watched.log(3)
    assert watched.steps == 4 and logged[0][1] == 3 and logged[0][0]['profgpu/backward_s'] > 0


LIGHTNING = f"""
import logging, torch, warnings
warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
import lightning.pytorch as pl
import profgpu
from lightning.pytorch.loggers import CSVLogger
from profgpu.integrations.lightning import ProfgpuCallback
class Net(pl.LightningModule):
    def __init__(self): super().__init__(); self.linear = torch.nn.Linear(4, 2)
    def training_step(self, batch, i): return self.linear(batch).sum()
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=0.1)
got = []
class Logger(CSVLogger):
    def log_metrics(self, metrics, step=None): got.append(dict(metrics))
mon = profgpu.GpuMonitor(backend={REPLAY!r}, interval_s=0.01)
trainer = pl.Trainer(max_epochs=1, accelerator="cpu", logger=Logger(OUT), log_every_n_steps=4, enable_progress_bar=False,
    enable_model_summary=False, enable_checkpointing=False, callbacks=[ProfgpuCallback(mon)])
trainer.fit(Net(), torch.utils.data.DataLoader(torch.ones(8, 4)))
ours = [m for m in got if "profgpu/step_s" in m]
assert len(ours) == 2 and ours[0]["profgpu/backward_s"] > 0 and ours[0]["profgpu/optimizer_s"] > 0, got
assert any(k.startswith("profgpu/gpu/") for k in ours[-1]) and set(mon.summary.phases) >= {{"step", "backward", "optimizer"}}
print("fine")
"""


def test_lightning(tmp_path):
    pytest.importorskip('lightning')
    assert run_script('OUT = %r\n' % str(tmp_path) + LIGHTNING).rstrip().endswith('fine')


def test_transformers(tmp_path):
    transformers = pytest.importorskip('transformers')
    from profgpu.integrations.transformers import ProfgpuCallback

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 1)

        def forward(self, x=None, labels=None):
            return {'loss': self.linear(x).sum()}

    data = [{'x': torch.ones(4), 'labels': torch.zeros(1)} for _ in range(8)]
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), use_cpu=True, logging_steps=2, report_to=[],
                                               per_device_train_batch_size=1, max_steps=4, save_strategy='no',
                                               disable_tqdm=True)
    class Tracker(transformers.TrainerCallback):
        seen = []

        def on_log(self, args, state, control, logs=None, **kwargs):
            self.seen.append(dict(logs))

    trainer = transformers.Trainer(model=Net(), args=arguments, train_dataset=data, callbacks=[Tracker])
    ProfgpuCallback(None).attach(trainer)
    trainer.train()
    assert 'profgpu/step_s' in Tracker.seen[0]
    logged = [entry for entry in trainer.state.log_history if 'profgpu/step_s' in entry]
    assert len(logged) >= 2 and logged[0]['profgpu/optimizer_s'] > 0
