"""Every helper of the guide, called as the guide calls it: its arguments by place and by name, its attributes, the keys of its results."""
import inspect
import json
import os
import subprocess
import sys
import time

import pytest
from package_script import ROOT

from profgpu import guide

torch = pytest.importorskip('torch')
pytestmark = pytest.mark.usefixtures('package')

# Name: what the guide passes by place, and what by name.
CALLS = {
    'quick_benchmark': (['model', 'input_shape'], ['num_iterations', 'warmup']),
    'auto_profile': ([], ['warmup', 'iterations']),
    'CommTimer': ([], []),
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
    # Two items of 20 ms a batch, by one process or shared by two.
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
