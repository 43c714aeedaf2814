"""Training loops as people write them, one function each, run in one process with the Python hook: importing PyTorch
takes seconds. Between two, a mark names the next and the hook forgets the last. test_hook.py says what must be recorded."""
import gc
import os
import sys
import tempfile
import threading
import traceback
import warnings

import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

phases = sys.modules.get('profgpu_phases')
F = torch.nn.functional


def model():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def loader(batches=3, **options):
    data = TensorDataset(torch.randn(4 * batches, 4), torch.randint(0, 2, (4 * batches,)))
    return DataLoader(data, batch_size=4, **options)


def batch():
    return torch.randn(4, 4), torch.randint(0, 2, (4,))


def sgd(module):
    return torch.optim.SGD(module.parameters(), lr=0.01)


def train(module, optimizer, batches):
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimizer.step()


def plain():
    m = model()
    train(m, sgd(m), loader())
    torch.save(m.state_dict(), os.devnull)


def garbage():
    """Collections of the old and the middle generation in each step, and of the youngest, which is not marked."""
    m = model()

    def collected(batches):
        for batch in batches:
            for generation in (0, 1, 2):
                gc.collect(generation)
            yield batch

    gc.disable()
    train(m, sgd(m), collected(loader()))
    gc.enable()


def two_epochs_and_validation():
    m = model()
    o, data = sgd(m), loader(2)
    for _ in range(2):
        train(m, o, data)
        with torch.no_grad():
            for x, _ in loader(1):
                m(x)


def fork_workers():
    m = model()
    train(m, sgd(m), loader(num_workers=2, collate_fn=with_module))


def with_module(samples):
    x, y = torch.utils.data.default_collate(samples)
    return torch.nn.Identity()(x), y


def module_in_collate():
    m = model()
    train(m, sgd(m), loader(collate_fn=with_module))


def loader_in_dataset():
    class Data(IterableDataset):
        def __iter__(self):
            yield from loader(2)

    m = model()
    train(m, sgd(m), DataLoader(Data(), batch_size=None))


def no_loader():
    m = model()
    train(m, sgd(m), (batch() for _ in range(3)))


def one_batch_for_ever():
    m, data = model(), next(iter(loader()))
    train(m, sgd(m), [data] * 4)


def accumulation():
    m = model()
    o = sgd(m)
    for i, (x, y) in enumerate(loader(4)):
        F.cross_entropy(m(x), y).backward()
        if i % 2:
            o.step()
            o.zero_grad()


def gan():
    generator, critic = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
    of_generator, of_critic = sgd(generator), sgd(critic)
    for x, _ in loader(2):
        of_critic.zero_grad()
        (critic(generator(x).detach()).mean() - critic(x).mean()).backward()
        of_critic.step()
        of_generator.zero_grad()
        critic(generator(x)).mean().backward()
        of_generator.step()


def closure():
    m = model()
    o = torch.optim.SGD(m.parameters(), lr=0.01)
    for _ in range(2):
        x, y = batch()

        def evaluate():
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            return loss
        o.step(evaluate)


def lbfgs():
    m = model()
    o = torch.optim.LBFGS(m.parameters(), max_iter=2, max_eval=2)
    for x, y in loader(2):
        def evaluate():
            o.zero_grad()
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            return loss
        o.step(evaluate)


def optimizer_in_backward():
    m = torch.nn.Linear(4, 2, bias=False)
    o = sgd(m)
    m.weight.register_post_accumulate_grad_hook(lambda _: o.step())
    for x, y in loader(2):
        F.cross_entropy(m(x), y).backward()


def scaler():
    m = model()
    o, s = sgd(m), torch.amp.GradScaler('cpu', init_scale=2.0)
    for i, (x, y) in enumerate(loader(2)):
        loss = F.cross_entropy(m(x), y)
        s.scale(loss * float('inf') if i == 0 else loss).backward()
        s.step(o)  # skipped the first time
        s.update()
        assert any(p.grad.isfinite().all() for p in m.parameters()) == (i == 1)
        o.zero_grad()


def scaler_of_two():
    generator, critic, s = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1), torch.amp.GradScaler('cpu', init_scale=2.0)
    of_generator, of_critic = sgd(generator), sgd(critic)
    for x, _ in loader(2):
        s.scale(critic(generator(x)).mean()).backward()
        s.step(of_critic)
        s.scale(generator(x).mean()).backward()
        s.step(of_generator)
        s.update()


def recomputation():
    m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))

    class Recomputed(torch.nn.Module):
        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(m, x, use_reentrant=False)

    outer = Recomputed()
    outer.m = m
    train(outer, sgd(outer), [batch()])


def reentrant():
    class Module(torch.nn.Module):
        def forward(self, depth):
            return torch.zeros(()) if depth == 0 else self(depth - 1) + 1

    assert Module()(3) == 3


def scripted():
    m = torch.jit.script(model())
    train(m, sgd(m), [batch()])


def traced():
    m = torch.jit.trace(model(), batch()[0])
    train(m, sgd(m), [batch()])


def fx():
    m = torch.fx.symbolic_trace(model())
    train(m, sgd(m), [batch()])


class Failing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 2)

    def forward(self, x):
        self.inner(x)
        raise ValueError('no such weather')


def raised(call):
    """The error, and where it came from, without our own lines."""
    try:
        call()
    except Exception as error:
        frames = [(f.filename, f.name) for f in traceback.extract_tb(error.__traceback__)]
        ours = [f for f in frames if os.path.basename(f[0]) in ('profgpu_phases.py', 'sitecustomize.py')]
        assert len(ours) <= 1, frames
        return type(error).__name__, str(error), [f for f in frames if f not in ours]


def exception_in_forward():
    frames = raised(lambda: Failing()(batch()[0]))
    assert frames[0] == 'ValueError' and frames[1] == 'no such weather', frames
    assert frames[2][-1] == (__file__, 'forward') and frames[2][0] == (__file__, 'raised'), frames
    m = model()
    train(m, sgd(m), [batch()])


def exception_in_closure():
    m = model()
    o = sgd(m)
    for i, (x, y) in enumerate(loader(3)):
        def evaluate():
            loss = F.cross_entropy(m(x), y)
            if i == 1:
                raise MemoryError
            loss.backward()
            return loss
        try:
            o.step(evaluate)
        except MemoryError:
            pass


def exception_in_closure_without_loader():
    m = model()
    o = sgd(m)
    try:
        o.step(lambda: 1 / 0)
    except ZeroDivisionError:
        pass
    train(m, o, [batch(), batch()])


def abandoned():
    kept = []
    for data in (loader(), loader(num_workers=1)):
        batches = iter(data)
        next(batches)
        kept.append(batches)
    for _ in loader():
        break
    m = model()
    train(m, sgd(m), [batch()])


def loop_in_a_module():
    class Trainer(torch.nn.Module):
        def forward(self, data):
            m = model()
            train(m, sgd(m), data)

    Trainer()(loader(2))


def threads():
    def work():
        m = model()
        F.cross_entropy(m(batch()[0]), batch()[1]).backward()

    m = model()
    o = sgd(m)
    for _ in range(2):
        F.cross_entropy(m(batch()[0]), batch()[1]).backward()
        other = threading.Thread(target=work)
        other.start()
        other.join()
        o.step()


def prefetching_thread():
    m = model()
    o, batches, got = sgd(m), iter(loader(3)), []

    def fetch():
        got.append(next(batches))

    for _ in range(3):
        thread = threading.Thread(target=fetch)
        thread.start()
        thread.join()
        train(m, o, [got.pop()])


def distributed_checkpoint():
    import torch.distributed.checkpoint as dcp
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter('ignore')
        dcp.save(model().state_dict(), checkpoint_id=folder, no_dist=True)


def forked():
    m = model()
    o = sgd(m)
    train(m, o, [batch()])
    child = os.fork()
    if child == 0:
        # Without backward: autograd's threads are not there after a fork.
        for x, _ in loader(2):
            m(x)
            o.step()
        m(x)
        o.step()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def our_own_error():
    m = model()
    o = sgd(m)
    train(m, o, [batch()])
    phases.steps.before = None
    train(m, o, [batch(), batch()])


def main():
    torch.set_num_threads(1)  # OpenMP's threads are not there in a forked child either.
    for name in sys.argv[1:]:
        torch.manual_seed(0)
        phases.forget()
        phases.start()
        phases.library.profgpu_mark(('scenario ' + name).encode())
        globals()[name]()
        phases.end_last_step()


if __name__ == '__main__':
    main()
