"""Steps of loops over data whose end is known only when it comes, and forwards of models that are compiled after watch()."""
import copy
import io
import pickle
import time

import pytest
from package_script import REPLAY

import profgpu

torch = pytest.importorskip('torch')
pytestmark = pytest.mark.usefixtures('package')


class Stream(torch.utils.data.IterableDataset):
    """No length; each item takes `wait_s`, and to find that there is no more `end_s`."""

    def __init__(self, n=5, wait_s=0.0, end_s=0.0):
        self.n, self.wait_s, self.end_s = n, wait_s, end_s

    def __iter__(self):
        for i in range(self.n):
            time.sleep(self.wait_s)
            yield torch.full((4,), float(i))
        time.sleep(self.end_s)


class TooLong(Stream):
    """Says that it has more than it has."""

    def __len__(self):
        return self.n + 3


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(x)


def trained(model, optimizer, batches):
    for batch in batches:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def watching():
    return profgpu.GpuMonitor(backend=REPLAY, interval_s=0.01)


def steps_seen(monitor):
    return monitor.summary.phases.get('step', {}).get('count', 0)


LOADERS = {
    'stream': lambda: torch.utils.data.DataLoader(Stream(), batch_size=1),
    'workers': lambda: torch.utils.data.DataLoader(Stream(), batch_size=1, num_workers=1),
    'wrong length': lambda: torch.utils.data.DataLoader(TooLong(), batch_size=1),
    'length': lambda: torch.utils.data.DataLoader(torch.ones(5, 4), batch_size=1),
    'dataset': Stream,
}


@pytest.mark.parametrize('kind', LOADERS)
def test_watch_opens_no_step_for_a_batch_that_never_came(kind):
    model, loader = Net(), LOADERS[kind]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watching() as monitor, profgpu.watch(model, optimizer, loader) as watched:
        for epoch in (1, 2):
            trained(model, optimizer, loader)
            assert watched.steps == 5 * epoch and watched._step_start is None, 'the last one has ended'
    assert steps_seen(monitor) == 10


@pytest.mark.parametrize('kind', LOADERS)
@pytest.mark.parametrize('num_steps', [2, 4, 10])
def test_profile_training_opens_no_step_for_a_batch_that_never_came(kind, num_steps):
    from profgpu.guide import profile_training
    done = []
    with watching() as monitor:
        summary = profile_training(done.append, LOADERS[kind](), num_steps=num_steps, warmup=1)
    assert len(done) == steps_seen(monitor) == min(5, num_steps + 1) and summary['steps'] == len(done) - 1


def test_profile_training_of_a_generator_takes_no_more_than_it_trains_on():
    from profgpu.guide import profile_training
    batches = iter(range(10))
    assert profile_training(lambda batch: None, batches, num_steps=3, warmup=1)['steps'] == 3 and next(batches) == 4
    assert profile_training(lambda batch: None, batches, num_steps=0, warmup=0) == {} and next(batches) == 5
    with watching() as monitor:
        assert profile_training(lambda batch: None, iter(()), warmup=0) == {}
    assert steps_seen(monitor) == 0
    with pytest.raises(StopIteration):
        profile_training(lambda batch: next(iter(())), [1, 2])


def test_a_wait_is_its_own_batchs():
    from profgpu.guide import profile_training

    def slow():
        yield from (time.sleep(0.2) for _ in range(2))  # the warm-up's
        yield from (time.sleep(0.02) for _ in range(3))
        time.sleep(0.3)  # no batch's

    summary = profile_training(lambda batch: time.sleep(0.01), slow(), num_steps=10, warmup=2)
    assert 20 <= summary['data_loading_ms'] < 40 and 30 <= summary['step_ms'] < 60 and summary['steps'] == 3
    model, loader = Net(), Stream(4, 0.02, 0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profgpu.watch(model, optimizer, loader) as watched:
        trained(model, optimizer, loader)
    m = watched.metrics()
    assert 0.02 <= m['profgpu/data_loading_s'] < 0.04 and m['profgpu/step_s'] < 0.06


def test_a_recording_has_the_steps_and_their_waits():
    model, loader = Net(), torch.utils.data.DataLoader(Stream(6, 0.02), batch_size=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profgpu.record() as rec, profgpu.watch(model, optimizer, loader):
        trained(model, optimizer, loader)
    rank = rec.report.to_dict()['ranks'][0]
    phases = {p['name']: p['wall_ns'] for p in rank['phases']}
    assert len(rank['steps']) == 6 and phases['data_loading'] >= 5 * 20e6, 'all but the first, which is before the steps'


def test_validation_is_in_no_step():
    model, loader = Net(), Stream(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profgpu.watch(model, optimizer, loader) as watched:
        for _ in range(2):
            for number, batch in enumerate(loader):
                trained(model, optimizer, [batch])
                if number == 2:
                    break
            with torch.no_grad():
                time.sleep(0.6)
                model(torch.ones(1, 4))
    m = watched.metrics()
    assert watched.steps == 6 and m['profgpu/step_s'] < 0.08


def test_an_optimizer_that_calls_the_forward_or_one_that_nobody_sees():
    model, batch = Net(), torch.ones(1, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        return loss

    with watching() as monitor, profgpu.watch(model, optimizer) as watched:
        for _ in range(4):
            optimizer.step(closure)
    assert watched.steps == steps_seen(monitor) == 4 and watched.metrics()['profgpu/optimizer_s'] > 0
    for model_seen in (None, Net()):
        with profgpu.watch(model_seen, optimizer) as watched:
            trained(model, optimizer, [batch] * 4)
        assert watched.steps == 4 and ('profgpu/backward_s' in watched.metrics()) == (model_seen is not None)
    loader = Stream(3)
    with profgpu.watch(model, optimizer, loader) as watched:
        for batch in loader:
            optimizer.step(closure)
            optimizer.step(closure)
    assert watched.steps == 3, 'two steps of the optimizer on one batch'


def test_a_step_that_raises_is_none_and_nor_are_its_phases():
    from profgpu.guide import TrainingProfiler
    profiler = TrainingProfiler(warmup=1)
    for number in range(6):
        try:
            with profiler.step(), profiler.phase('forward'):
                time.sleep(0.2 if number in (0, 3) else 0.01)
                assert number != 3
        except AssertionError:
            pass
    assert profiler.summary['steps'] == 4 and 10 <= profiler.summary['forward_ms'] <= profiler.summary['step_ms'] < 50


def test_no_batch_is_taken_that_no_step_is_made_of(capsys):
    from profgpu.guide import find_memory_leaks, memory_timeline
    batches = iter([(torch.ones(1, 4), torch.full((1,), number)) for number in range(12)])
    assert len(memory_timeline(Net(), batches, 2)) == 10 and next(batches)[1] == 2
    assert find_memory_leaks(Net(), batches, 2, warmup=5)['leak'] is None and next(batches)[1] == 10
    assert 'too few steps' in capsys.readouterr().out


# Compiled after watch()

class OnGraphs:
    """A backend that keeps what it was given."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs):
        self.graphs.append([node.name for node in graph.graph.nodes])
        return graph.forward


MODELS = {
    'own': Net,
    'linear': lambda: torch.nn.Linear(4, 2),
    'sequential': lambda: torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()),
    'of own': lambda: torch.nn.Sequential(Net(), torch.nn.Linear(2, 2)),
}


def compiled_by_function(model, backend):
    return torch.compile(model, backend=backend, fullgraph=True)


def compiled_by_options(model, backend):
    return torch.compile(backend=backend, dynamic=False)(model)


def compiled_in_place(model, backend):
    model.compile(backend=backend)
    return model


@pytest.mark.parametrize('kind', MODELS)
@pytest.mark.parametrize('compiled', [compiled_by_function, compiled_by_options, compiled_in_place])
def test_a_model_that_is_compiled_after_watch(kind, compiled):
    graphs = []
    for watches in (False, True):
        torch._dynamo.reset()
        model, backend, loader = MODELS[kind](), OnGraphs(), Stream(4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with watching() as monitor:
            watched = profgpu.watch(model, optimizer, loader) if watches else profgpu.watch()
            trained(compiled(model, backend), optimizer, loader)
            watched.close()
        graphs.append(backend.graphs)
        if watches:
            assert watched.steps == 4 and watched.metrics()['profgpu/forward_s'] > 0
            assert monitor.summary.phases['forward']['count'] == 4, 'one each, whatever it is called by'
    assert graphs[0] == graphs[1], 'as without watch()'
    assert graphs[0] or compiled is compiled_in_place  # there PyTorch compiles no layer of its own


def test_aot_eager_compiles_what_is_watched():
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profgpu.watch(model, optimizer) as watched:
        trained(torch.compile(model, backend='aot_eager', fullgraph=True), optimizer, [torch.ones(1, 4)] * 3)
    assert watched.steps == 3 and watched.metrics()['profgpu/forward_s'] > 0


def test_a_model_that_was_compiled_before_its_watch_and_is_watched_itself():
    torch._dynamo.reset()
    model = Net()
    compiled = torch.compile(model, backend='eager')
    compiled(torch.ones(1, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profgpu.watch(model, optimizer) as watched:
        trained(compiled, optimizer, [torch.ones(1, 4)] * 3)
    assert watched.steps == 3


def test_what_is_compiled_under_watch_can_be_saved_copied_and_compiled_into_others():
    torch._dynamo.reset()
    model, other = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    kind = torch._dynamo.OptimizedModule
    before = kind.__call__
    with profgpu.watch(model) as watched:
        compiled, not_watched = (torch.compile(m, backend='eager', fullgraph=True) for m in (model, other))
        not_watched(torch.ones(1, 4))
        assert not watched._open and watched._step_start is None
        assert torch.equal(compiled(torch.ones(1, 4)), model(torch.ones(1, 4)))
        torch.save(compiled.state_dict(), io.BytesIO())
        assert list(compiled.state_dict()) == ['_orig_mod.weight', '_orig_mod.bias']
        copied = copy.deepcopy(compiled)
        pickle.dumps(model)
        assert type(copied) is type(compiled) is kind

        @torch.compile(backend='eager', fullgraph=True)
        def outer(x):
            return compiled(x) + model(x)

        assert outer(torch.ones(1, 4)).shape == (1, 2)
        with pytest.raises(RuntimeError):
            compiled(torch.ones(1, 5))
        assert not watched._open, 'it ends with the error'
    assert kind.__call__ is before and '__call__' not in vars(torch.nn.Linear)
    compiled(torch.ones(1, 4))


FIRST = """
import sys, torch, profgpu
own, model = torch.compile, torch.nn.Linear(4, 2)
with profgpu.watch(model):
    assert torch.compile is not own
assert torch.compile is own and "torch._dynamo" not in sys.modules, "to watch imports no compiler"
first, second = profgpu.watch(model), profgpu.watch(model)
decorate = torch.compile(backend="eager", fullgraph=True)
compiled = decorate(model)
assert torch.compile is own
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
third = profgpu.watch(model, optimizer)
for _ in range(3):
    compiled(torch.ones(1, 4)).sum().backward()
    optimizer.step()
for watched in (first, second, third):
    assert watched._spent["forward"] > 0
    watched.close()
assert third.steps == 3
print("fine")
"""


def test_the_first_compilation_of_a_process():
    from package_script import run_script
    assert run_script(FIRST).rstrip().endswith('fine')
