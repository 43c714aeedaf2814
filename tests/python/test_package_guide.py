"""Every helper of the guide, called as the guide calls it: its arguments by place and by name, its attributes, the keys of its results."""
import collections
import dataclasses
import inspect
import json
import os
import subprocess
import sys
import time

import pytest
from package_script import REPLAY, ROOT

import profgpu
from profgpu import guide

torch = pytest.importorskip('torch')
pytestmark = pytest.mark.usefixtures('package')

# Name: what the guide passes by place, and what by name.
CALLS = {
    'quick_benchmark': (['model', 'input_shape'], ['num_iterations', 'warmup']),
    'auto_profile': ([], ['warmup', 'iterations']),
    'CommTimer': ([], []),
    'DeepSpeedCommProfiler': (['model_engine'], []),
    'create_profiling_config': (['base_config'], ['profile_step']),
    'measure_inter_node_bandwidth': ([], []),
    'add_sync_markers': (['step'], []),
    'update_metrics': ([], []),
    'OverlapProfiler': (['model'], []),
    'PipelineProfiler': ([], ['output_dir']),
    'ProfiledDataLoader': (['dataloader'], []),
    'profile_deepspeed_training': (['model', 'train_dataloader', 'ds_config'], ['num_steps', 'output_dir']),
    'profile_zero_stage': (['model_engine', 'batch', 'stage'], []),
    'profile_fsdp_memory': (['model'], ['inputs']),
    'capture_memory_snapshot': ([], ['output_path']),
    'memory_timeline': (['model', 'dataloader'], ['num_steps']),
    'find_memory_leaks': (['model', 'dataloader'], ['num_steps']),
    'profile_collective_ops': ([], []),
    'GPUMonitor': ([], []),
    'NVTXAnnotator': ([], []),
    'ProfilerWrapper': ([], []),
}


@pytest.mark.parametrize('name', sorted(CALLS))
def test_arguments(name):
    by_place, by_name = CALLS[name]
    signature = inspect.signature(getattr(guide, name))
    assert signature.bind(*by_place, **dict.fromkeys(by_name))
    assert list(signature.parameters)[:len(by_place)] == by_place


@pytest.fixture
def parts():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    data = torch.utils.data.TensorDataset(torch.randn(24, 8), torch.randint(0, 2, (24,)))
    return model, torch.utils.data.DataLoader(data, batch_size=4), torch.optim.AdamW(model.parameters())


def test_baseline(parts, capsys):
    model, _, _ = parts
    avg_time, throughput = guide.quick_benchmark(model, (32, 8), num_iterations=10, warmup=2)
    assert avg_time > 0 and throughput == pytest.approx(32e3 / avg_time)
    said = capsys.readouterr().out
    assert 'Average time: ' in said and ' ms' in said and 'Throughput: ' in said and ' samples/sec' in said


def test_decorator_and_monitor(parts, capsys):
    model, loader, _ = parts

    @guide.auto_profile(warmup=1, iterations=3)
    def train_step(batch):
        return model(batch[0])

    with guide.GPUMonitor() as watching:
        for batch in loader:
            assert train_step(batch).shape == (4, 2)
    assert str(watching.get_summary()) and 'train_step' in capsys.readouterr().out


def test_decorator_without_parentheses(capsys):
    @guide.auto_profile
    def double(x):
        return 2 * x

    assert [double(n) for n in range(14)] == [2 * n for n in range(14)]
    assert len(double.timing.times_s) == 10 and 'double: ' in capsys.readouterr().out


def test_steps_with_profiler_and_annotator(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, loader, optimizer = parts
    annotator, profiler = guide.NVTXAnnotator(), guide.ProfilerWrapper()
    for step in range(16):
        with profiler.profile_step(step):
            with annotator.range('data_transfer'):
                batch = {k: v.to('cpu') for k, v in zip('xy', next(iter(loader)))}
            with annotator.range('forward'):
                loss = torch.nn.functional.cross_entropy(model(batch['x']), batch['y'])
            with annotator.range('backward'):
                loss.backward()
            with annotator.range('optimizer'):
                optimizer.step()
    report = profiler.finish()
    assert len(report.to_dict()['ranks'][0]['steps']) == 10 and os.listdir('profiling_results')


def test_pipeline(parts, tmp_path):
    model, loader, optimizer = parts
    profiler = guide.PipelineProfiler(str(tmp_path / 'profile'))
    assert set(profiler.timings) == {'data_loading', 'preprocessing', 'forward', 'backward', 'optimizer', 'checkpoint',
                                     'total_step'} and profiler.generate_report() == {}
    report = profiler.profile_epoch(model, loader, optimizer, torch.nn.CrossEntropyLoss())
    assert report == profiler.generate_report() and len(profiler.timings['total_step']) == 6
    assert all(set(phase) == {'avg_ms', 'percentage'} for phase in report.values()) and 'checkpoint' not in report
    with profiler.phase('checkpoint'):
        torch.save(model.state_dict(), tmp_path / 'model.pt')
    assert profiler.generate_report()['checkpoint']['avg_ms'] > 0


@dataclasses.dataclass
class Pair:
    x: torch.Tensor
    labels: torch.Tensor
    note: str = 'kept'


class Named(torch.nn.Linear):
    def forward(self, x, labels=None):
        logits = super().forward(x)
        loss = torch.nn.functional.cross_entropy(logits, labels) if labels is not None else None
        return {'logits': logits, 'loss': loss}


BATCHES = {
    'a dict by the names of the model': (Named(8, 2), lambda x, y: {'x': x, 'labels': y}, None),
    'a dataclass': (Named(8, 2), Pair, None),
    'a dict with one input': (torch.nn.Linear(8, 2), lambda x, y: {'pixels': x, 'y': y}, torch.nn.CrossEntropyLoss()),
    'a named tuple': (torch.nn.Linear(8, 2), collections.namedtuple('Batch', 'pixels target'), torch.nn.CrossEntropyLoss()),
}


@pytest.mark.parametrize('kind', sorted(BATCHES))
def test_pipeline_takes_batches_of_other_kinds(kind, tmp_path):
    model, make, criterion = BATCHES[kind]
    torch.manual_seed(0)
    x, y = torch.randn(4, 8), torch.randint(0, 2, (4,))
    before = model.weight.detach().clone()
    report = guide.PipelineProfiler(None).profile_epoch(
        model, [make(x, y)] * 3, torch.optim.SGD(model.parameters(), lr=0.1), criterion)
    assert set(report) >= {'data_loading', 'preprocessing', 'forward', 'backward', 'optimizer'}
    assert not torch.equal(model.weight, before), 'it was trained'
    rows = guide.memory_timeline(model, [make(x, y)], criterion=criterion)
    assert [row['phase'] for row in rows][-1] == 'after_step'


class Engine:
    """What profile_zero_stage needs of a DeepSpeed engine."""

    def __init__(self, model):
        self.module = model

    def __call__(self, *inputs, **named):
        return self.module(*inputs, **named)

    forward = __call__

    def backward(self, loss):
        (loss if loss.dim() == 0 else loss.sum()).backward()

    def step(self):
        self.stepped = True


@pytest.mark.parametrize('kind', sorted(BATCHES))
def test_memory_of_shards_takes_batches_of_other_kinds(kind):
    model, make, _ = BATCHES[kind]
    batch = make(torch.randn(4, 8), torch.randint(0, 2, (4,)))
    assert set(guide.profile_fsdp_memory(model, batch)) == {'forward', 'backward'}
    engine = Engine(model)
    rows = guide.profile_zero_stage(engine, batch, 2)
    assert set(rows) == {'ZeRO-2_forward', 'ZeRO-2_backward', 'ZeRO-2_step'} and engine.stepped


def test_a_batch_without_labels_says_so():
    model = torch.nn.Linear(8, 2)
    with pytest.raises(ValueError, match='has no labels'):
        guide.PipelineProfiler(None).profile_epoch(model, [{'x': torch.ones(4, 8)}], None, torch.nn.CrossEntropyLoss())


def test_deepspeed_configuration():
    base = {'train_batch_size': 32, 'flops_profiler': {'top_modules': 2, 'output_file': 'flops.txt'}}
    config = guide.create_profiling_config(base, profile_step=3)
    assert config == {'train_batch_size': 32, 'wall_clock_breakdown': True, 'flops_profiler': {
        'enabled': True, 'profile_step': 3, 'module_depth': -1, 'top_modules': 2, 'detailed': True, 'output_file': 'flops.txt'}}
    assert base == {'train_batch_size': 32, 'flops_profiler': {'top_modules': 2, 'output_file': 'flops.txt'}}


class Gauges:
    """What update_metrics() uses of prometheus_client, where that is not installed."""

    def __init__(self):
        self.registered = {}

    def unregister(self, gauge):
        del self.registered[gauge.name]

    def Gauge(self, name, text, labels=(), registry=None):
        return Gauge(name, tuple(labels), registry)


class Gauge:
    def __init__(self, name, labels, registry):
        assert name not in registry.registered
        self.name, self.values, registry.registered[name] = name, {}, self

    def labels(self, **labels):
        return Labelled(self, tuple(labels.values()))

    def set(self, value):
        self.values[()] = value

    def remove(self, *labels):
        del self.values[labels]


class Labelled:
    def __init__(self, gauge, labels):
        self.gauge, self.key = gauge, labels

    def set(self, value):
        self.gauge.values[self.key] = value


def test_gauges_are_set_in_a_loop(monkeypatch):
    client = Gauges()
    client.REGISTRY = client
    monkeypatch.setitem(sys.modules, 'prometheus_client', client)
    gauges = guide.PrometheusGauges(backend=REPLAY, interval_s=0.01)
    for step in range(3):
        readings = gauges.update(loss=1.0 / (step + 1))
    of = {name: gauge.values for name, gauge in client.registered.items()}
    assert set(of) == {'gpu_utilization_percent', 'gpu_memory_used_bytes', 'gpu_power_watts', 'loss'}
    assert of['loss'] == {(): 1 / 3} and len(readings) == 2
    for gpu in readings:
        assert of['gpu_memory_used_bytes'][str(gpu['gpu_id']),] == gpu['memory_used_gb'] * 1e9
    gauges._monitor.get_metrics = lambda: [{**gpu, 'power_w': None} for gpu in readings]
    gauges.update()
    assert of['gpu_power_watts'] == {}, 'what is unknown is not shown as it was'
    gauges.close()
    assert client.registered == {}


def test_gauges_need_their_package(monkeypatch):
    monkeypatch.setitem(sys.modules, 'prometheus_client', None)
    with pytest.raises(profgpu.ProfgpuError, match='prometheus_client is not installed') as error:
        guide.update_metrics()
    assert 'profgpu exporter' in error.value.hint


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        time.sleep(0.02)
        return torch.full((4,), float(i))


@pytest.mark.parametrize('workers', [0, 2])
def test_loader(workers):
    loader = guide.ProfiledDataLoader(torch.utils.data.DataLoader(Slow(), batch_size=2, num_workers=workers))
    for _ in range(2):
        seen = torch.cat(list(loader))
        assert sorted(seen[:, 0].tolist()) == list(range(12))
    stats = loader.get_stats()
    assert len(loader) == 6 and len(loader.load_times) == len(loader.transfer_times) == 12
    # Two items of 20 ms per batch, by one process or shared by two.
    assert (39 if workers == 0 else 10) <= stats['avg_load_ms'] < 80 and stats['avg_transfer_ms'] < 20
    assert stats['first_load_ms'] >= 39, 'with the start of the workers'


def test_a_model_without_ranks(parts):
    model, loader, _ = parts
    inputs = next(iter(loader))[0]
    timer = guide.CommTimer()
    for _ in range(3):
        assert timer.profile_step(model, inputs).requires_grad
    assert timer.comm_time == 0 and timer.get_summary()['comm_pct'] == 0 and timer.compute_time > 0
    gradients = [p.grad.clone() for p in model.parameters()]
    found = guide.OverlapProfiler(model).profile(inputs, num_iterations=2)
    assert found['overlap_efficiency_pct'] is None and found['comm_total_ms'] == 0 and found['with_comm_ms'] > 0
    assert all(torch.equal(p.grad, gradient) for p, gradient in zip(model.parameters(), gradients))


def test_memory(parts):
    model, loader, _ = parts
    rows = guide.memory_timeline(model, [(x, y) for x, y in loader], num_steps=2)
    assert [set(row) >= {'step', 'phase', 'allocated_gb'} for row in rows] == [True] * 10
    assert not guide.find_memory_leaks(model, loader, num_steps=100)['leak']


# What the guide has for FSDP and DDP, on two ranks with gloo. The gradients that a timed step has to leave are those of plain
# passes on each rank, averaged.
RANKS = """
import os, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
from profgpu.guide import CommTimer, OverlapProfiler, profile_fsdp_memory
dist.init_process_group("gloo")
torch.set_num_threads(1)
ranks, cpu = dist.get_world_size(), torch.device("cpu")
def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512))
torch.manual_seed(dist.get_rank() + 1)
batch = torch.randn(8, 64)
plain = net()
plain(batch).sum().backward()
for p in plain.parameters(): dist.all_reduce(p.grad); p.grad /= ranks
def square(model, is_sharded):
    local = [g.to_local() if hasattr(g, "to_local") else g for g in (p.grad for p in model.parameters()) if g is not None]
    total = sum(g.double().square().sum() for g in local)
    if is_sharded: dist.all_reduce(total)
    return float(total)
expected = square(plain, False)
KINDS = {
    "ddp": DDP,
    "fsdp": lambda m: FSDP(m, device_id=cpu),
    "fsdp with its own parameters": lambda m: FSDP(m, device_id=cpu, use_orig_params=True),
    "fully_shard": lambda m: fully_shard(m, mesh=init_device_mesh("cpu", (ranks,))),
}
for kind, wrapped in KINDS.items():
    model = wrapped(net())
    def check(what):
        got = square(model, kind != "ddp")
        assert abs(got - expected) < 1e-4 * expected, (kind, what, got, expected)
    timer = CommTimer()
    for _ in range(3):
        model.zero_grad()
        timer.profile_step(model, batch)
        check("a timed step")
    summary = timer.get_summary()
    assert timer.compute_time > 0 and timer.comm_time >= 0 and summary["compute_ms"] > 0, summary
    profiler = OverlapProfiler(model)
    found = profiler.profile(batch, num_iterations=3, warmup=1)
    check("gradients stay")
    assert found["comm_total_ms"] > 0 and 0 <= found["overlap_efficiency_pct"] <= 100
    assert profiler.compute_only_time * 1e3 == found["compute_only_ms"] and profiler.with_comm_time > 0
    model.zero_grad()
    phases = profile_fsdp_memory(model, batch)
    assert set(phases) == {"forward", "backward"} and all(p["ms"] > 0 for p in phases.values())
    check("a pass after it")
from profgpu.guide import DeepSpeedCommProfiler, add_sync_markers, measure_inter_node_bandwidth
import profgpu
os.environ["GROUP_RANK"] = str(dist.get_rank())
between = measure_inter_node_bandwidth(sizes=[1 << 10, 1 << 20], iterations=3)
assert set(between) == {1 << 10, 1 << 20} and all(gbps > 0 for gbps in between.values()), between
everywhere = [None] * ranks
dist.all_gather_object(everywhere, between)
assert everywhere == [between] * ranks
os.environ["GROUP_RANK"] = "0"
assert measure_inter_node_bandwidth(sizes=[1 << 10]) == {}
class Engine:
    model = DDP(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def __call__(self, batch): return self.model(batch).sum()
    def backward(self, loss): loss.backward()
    def step(self): self.optimizer.step()
comm = DeepSpeedCommProfiler(Engine())
assert comm.comm_times == {"all_gather": [], "reduce_scatter": [], "all_reduce": []}
for _ in range(2): assert comm.profile_step(batch) > 0
assert len(comm.comm_times["all_reduce"]) >= 2 and comm.get_summary()["all_reduce_ms"] > 0, comm.comm_times
with profgpu.record() as rec:
    for number in (5, 6):
        end = add_sync_markers(number)
        plain(batch).sum().backward()
        end(), end()
assert [row["index"] for row in rec.report.to_dict()["ranks"][0]["steps"]] == [5, 6], rec.report.to_dict()["ranks"][0]["steps"]
dist.barrier()
if dist.get_rank() == 0: print("fine", flush=True)
os._exit(0)   # PyTorch's teardown aborts now and then
"""


def test_two_ranks(tmp_path):
    script = tmp_path / 'ranks.py'
    script.write_text(RANKS)
    done = subprocess.run([sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc_per_node=2', str(script)],
                          capture_output=True, text=True, timeout=200,
                          env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, 'python'), OMP_NUM_THREADS='1'))
    assert done.returncode == 0 and 'fine' in done.stdout, done.stdout + done.stderr[-3000:]


def test_log_of_the_monitor(tmp_path):
    watching = guide.GPUMonitor()
    log = tmp_path / 'gpu_metrics.jsonl'
    watching.start_logging(interval_sec=0.05, output_file=str(log))
    time.sleep(0.2)
    watching.stop_logging()
    for line in log.read_text().splitlines():
        assert {'gpu_id', 'gpu_util_pct', 'memory_util_pct', 'memory_used_gb', 'memory_total_gb', 'power_w', 'temperature_c',
                'timestamp'} <= json.loads(line).keys()
