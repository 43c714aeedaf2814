"""Small models that really train on the CPU, recorded as PyTorch's CUDA allocator would have recorded them: PyTorch's own
profiler tells every allocation, with the stack of operators and Python frames that it was made in. What each allocation is
for is known from the job itself: addresses of its parameters, gradients and optimizer states."""
import gc
import re
import time
from zlib import crc32

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

LIBRARY = '/x/site-packages/'
torch.set_num_threads(1)   # small models are no faster with more


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
        return self.out(weights @ v)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Transformer(nn.Module):
    def __init__(self, width=64, layers=2, words=200, checkpoints=False):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, words)
        self.checkpoints = checkpoints

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        return self.head(x)

    @staticmethod
    def batch(size):
        return torch.randint(0, 200, (size, 32))


class Perceptron(nn.Sequential):
    def __init__(self, width=96, layers=3):
        super().__init__(*(m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU())), nn.Linear(width, 10))

    @staticmethod
    def batch(size):
        return torch.randn(size, 96)


class Convolutions(nn.Sequential):
    def __init__(self, channels=24):
        super().__init__(nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
                         nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(channels, 10))

    @staticmethod
    def batch(size):
        return torch.randn(size, 3, 16, 16)


def storages(tensors):
    """{address: bytes}"""
    found = {}
    for tensor in tensors:
        if tensor is not None:
            storage = tensor.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return found


class Job:
    """Trains; `marks` has what was a gradient when."""

    def __init__(self, make_model, make_optimizer, batch=7, dtype=torch.float32, micro_batches=1, frozen='',
                 set_to_none=True):
        torch.manual_seed(0)
        self.make_model, self.make_optimizer, self.batch, self.dtype = make_model, make_optimizer, batch, dtype
        self.micro_batches, self.frozen, self.set_to_none = micro_batches, frozen, set_to_none
        self.model = self.optimizer = None
        self.marks, self.steps = [], []

    def start(self):
        self.model = self.make_model().to(self.dtype)
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(not (self.frozen and name.startswith(self.frozen)))
        self.optimizer = self.make_optimizer([p for p in self.model.parameters() if p.requires_grad])

    def step(self):
        for _ in range(self.micro_batches):
            x = self.model.batch(self.batch)
            out = self.model(x.to(self.dtype) if x.is_floating_point() else x)
            loss = out.pow(2).mean()
            loss.backward()
        self.marks.append((time.time_ns(), self.gradients()))
        start = time.time_ns()
        self.optimizer.step()
        self.steps.append((start, time.time_ns()))
        self.optimizer.zero_grad(set_to_none=self.set_to_none)

    def parameters(self):
        return storages([*self.model.parameters(), *self.model.buffers()])

    def gradients(self):
        return storages(p.grad for p in self.model.parameters())

    def states(self):
        return storages(value for state in self.optimizer.state.values() for value in state.values() if torch.is_tensor(value))


def name_of(event):
    try:
        return event.name
    except UnicodeDecodeError:   # PyTorch gives some built-in functions a name of random bytes
        return ''


def frames_of(event, native):
    """As the allocator records them, the innermost first. What the engine calls on a GPU has a thread of its own: no frame of
    the program is in it, unless the engine calls Python again. The profiler gives a function's first line: what it calls
    tells its lines apart."""
    frames, called = [], ''
    event = event.parent
    while event is not None:
        name = name_of(event)
        if name.startswith('autograd::engine::evaluate_function'):
            return frames + ([{'name': 'torch::autograd::Engine::evaluate_function()', 'filename': '??', 'line': 0}] if native else [])
        python = re.fullmatch(r'(.+)\((\d+)\): (.+)', name)
        if python and not name.startswith('<built-in'):
            file = python[1] if not re.match('(torch|contextlib|threading|importlib)', python[1]) else LIBRARY + python[1]
            line = int(python[2]) + (1 + crc32(called.encode()) % 50 if called else 0)
            frames.append({'name': python[3], 'filename': file, 'line': line})
            called = ''
        elif name.startswith('nn.Module: '):
            called = name.rpartition('_')[0]
        elif native and name.startswith('aten::'):
            frames.append({'name': f'at::_ops::{name[6:]}::call(at::Tensor const&)', 'filename': '??', 'line': 0})
        elif native and name == 'torch::autograd::AccumulateGrad':
            frames.append({'name': 'torch::autograd::AccumulateGrad::apply()', 'filename': '??', 'line': 0})
        elif native and re.fullmatch(r'\w+Backward\d*', name):
            frames.append({'name': f'torch::autograd::generated::{name}::apply()', 'filename': '??', 'line': 0})
        event = event.parent
    return frames


def allocations(recorded, native, of_frees):
    """(time in ns, address, bytes, frames) of each event, bytes below 0 where it frees. `of_frees`: these have stacks of their
    own, as with context='all'."""
    found, left = [], list(recorded.profiler.kineto_results.experimental_event_tree())
    while left:
        event = left.pop()
        left += event.children
        if name_of(event) == '[memory]':
            fields = event.extra_fields
            frames = frames_of(event, native) if fields.alloc_size > 0 or of_frees else []
            found.append((event.start_time_ns, fields.ptr, fields.alloc_size, frames))
    return sorted(found, key=lambda e: e[0])


def record(job, steps=2, before=0, native=True, annotated=True, of_frees=True):
    """`before`: steps that the recording does not see. The profiler tells no end of what was there before: it has to stay."""
    if before:
        job.start()
    for _ in range(before):
        job.step()
    held = {**job.parameters(), **job.states(), **job.gradients()} if before else {}
    job.marks.clear()
    gc.collect()   # what earlier jobs left in cycles: its end would be an event of this recording
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True, record_shapes=True) as recorded:
        if not before:
            job.start()
        for _ in range(steps):
            job.step()
    return Recorded(job, allocations(recorded, native, of_frees), held, annotated)


# Each block has a segment of its own.
ALLOCATES, FREES = ('segment_alloc', 'alloc'), ('free_requested', 'free_completed', 'segment_free')


class Recorded:
    """`snapshot`: as PyTorch would write it; `truth`: bytes by category after each event; `kinds`: of each event that allocates."""

    def __init__(self, job, raw, held, annotated):
        self.job, self.raw, self.held = job, raw, held
        live = {}
        for _, address, size, frames in self.raw:
            if size > 0:
                live[address] = (size, frames)
            else:
                live.pop(address, None)
        live |= {address: (size, []) for address, size in held.items() if address not in live}
        self.snapshot = {'segments': [self.segment(address, *what) for address, what in sorted(live.items())],
                         'device_traces': [list(self.events())]}
        if annotated:
            self.snapshot['external_annotations'] = [
                {'stage': stage, 'name': f'Optimizer.step#{type(job.optimizer).__name__}.step', 'device': 0, 'time_us': time // 1000}
                for times in job.steps for stage, time in zip(('START', 'END'), times)]
        self.judge(held)

    def out_of_memory(self, capacity):
        """The same job on a device of so many bytes, up to the allocation that finds no memory."""
        level = sum(self.held.values())
        for i, (time_ns, _, size, frames) in enumerate(self.raw):
            if level + size > capacity:
                break
            level += size
        cut = Recorded(self.job, self.raw[:i], self.held, 'external_annotations' in self.snapshot)
        cut.snapshot['device_traces'][0].append({'action': 'oom', 'device_free': capacity - level, 'size': size, 'stream': 0,
                                                 'time_us': time_ns // 1000, 'frames': frames})
        return cut

    @staticmethod
    def segment(address, size, frames):
        block = {'address': address, 'size': size, 'requested_size': size, 'state': 'active_allocated', 'frames': frames}
        return {'device': 0, 'address': address, 'total_size': size, 'allocated_size': size, 'active_size': size,
                'requested_size': size, 'stream': 0, 'segment_type': 'large', 'segment_pool_id': (0, 0), 'is_expandable': False,
                'frames': frames, 'blocks': [block]}

    def events(self):
        for time_ns, address, size, frames in self.raw:
            for action in ALLOCATES if size > 0 else FREES:
                yield {'action': action, 'addr': address, 'size': abs(size), 'stream': 0, 'time_us': time_ns // 1000,
                       'frames': frames, 'compile_context': 'N/A', 'user_metadata': ''}

    def judge(self, held):
        ends, live = {}, {}
        for i, (time_ns, address, size, _) in enumerate(self.raw):
            if size > 0:
                live[address] = i
            elif address in live:
                ends[live.pop(address)] = time_ns
        parameters, states = self.job.parameters(), self.job.states()
        kind_of, live = {}, {}
        for i, (time_ns, address, size, _) in enumerate(self.raw):
            if size <= 0:
                continue
            end = ends.get(i)
            if end is None and address in parameters:
                kind_of[i] = 'parameter'
            elif end is None and address in states:
                kind_of[i] = 'optimizer_state'
            elif any(address in marked and time_ns <= mark and (end is None or end > mark) for mark, marked in self.job.marks):
                kind_of[i] = 'gradient'
        self.kinds = [kind_of.get(i) for i, e in enumerate(self.raw) if e[2] > 0]
        level = dict.fromkeys(('parameter', 'gradient', 'optimizer_state'), 0)
        self.truth, where = [], {}
        for address, size in held.items():
            where[address] = 'parameter' if address in parameters else 'optimizer_state' if address in states else 'gradient'
            level[where[address]] += size
        for i, (_, address, size, _) in enumerate(self.raw):
            if size > 0:
                where[address] = kind = kind_of.get(i)
            else:
                kind = where.pop(address, None)
            if kind:
                level[kind] += size
            self.truth += [dict(level)] * len(ALLOCATES if size > 0 else FREES)
