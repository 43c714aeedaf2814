"""Memory snapshots in the shape that each PyTorch version writes them in, and what PyTorch's viewer makes of one: an
independent, slow implementation of its definitions."""
import random

VERSIONS = ('2.0', '2.1', '2.6', '2.9')
START_US = 1_700_000_000_000_000


def frame(name, filename='job/train.py', line=10):
    return {'name': name, 'filename': filename, 'line': line}


STACKS = (
    [frame('at::_ops::mul_Tensor::call(at::Tensor const&)', '??', 0), frame('forward', '/me/job/model.py', 12),
     frame('_call_impl', '/x/site-packages/torch/nn/modules/module.py', 1790), frame('main')],
    [frame('torch::autograd::generated::MulBackward0::apply()', 'Functions.cpp', 0),
     frame('torch::autograd::Engine::evaluate_function()', '??', 0)],
    [frame('torch::autograd::AccumulateGrad::apply()', '??', 0),
     frame('torch::autograd::Engine::evaluate_function()', '??', 0)],
    [frame('at::_ops::zeros_like::call(at::Tensor const&)', '??', 0),
     frame('step', '/x/site-packages/torch/optim/adamw.py', 77), frame('main', line=41)],
    [],
)


class Device:
    """Random allocations within segments of 20 MiB; some were made before the history begins."""

    def __init__(self, device, version, rng):
        self.device, self.version, self.rng = device, version, rng
        self.events, self.live, self.time_us = [], {}, START_US
        self.base = 0x7f00_0000_0000 + device * 0x10_0000_0000
        self.segments = 0

    def add(self, action, addr, size, frames=(), **more):
        self.time_us += self.rng.randrange(3)
        event = {'action': action, 'addr': addr, 'size': size, 'stream': 0, 'frames': list(frames)}
        if self.version >= '2.1':
            event['time_us'] = self.time_us
        if self.version >= '2.9':
            event |= {'compile_context': 'N/A', 'user_metadata': ''}
        self.events.append(event | more)

    def segment(self):
        self.add('segment_alloc', self.base + (self.segments << 25), 20 << 20, self.rng.choice(STACKS))
        self.segments += 1

    def alloc(self, recorded=True):
        slot = next(i for i in range(10_000) if i not in self.live)
        while slot // 100 >= self.segments:
            self.segment()
        size, frames = self.rng.randrange(1, 200_000), self.rng.choice(STACKS)
        self.live[slot] = (size, frames)
        if recorded:
            self.add('alloc', self.address(slot), size, frames)

    def free(self):
        if self.live:
            slot = self.rng.choice(list(self.live))
            size, _ = self.live.pop(slot)
            self.add('free_requested', self.address(slot), size)
            self.add('free' if self.version < '2.1' else 'free_completed', self.address(slot), size)

    def address(self, slot):
        return self.base + (slot // 100 << 25) + slot % 100 * (200 << 10)

    def rows(self):
        """The segments as the snapshot has them."""
        rows = []
        for n in range(self.segments):
            start, at, blocks = self.base + (n << 25), self.base + (n << 25), []
            for slot in sorted(s for s in self.live if s // 100 == n):
                size, frames = self.live[slot]
                self.put(blocks, at, self.address(slot) - at)
                at = self.address(slot)
                self.put(blocks, at, (size + 511) // 512 * 512, size, frames)
                at += blocks[-1]['size']
            self.put(blocks, at, start + (20 << 20) - at)
            used = [b for b in blocks if b['state'] != 'inactive']
            row = {'device': self.device, 'address': start, 'total_size': 20 << 20, 'stream': 0,
                   'segment_type': 'large', 'allocated_size': sum(b['size'] for b in used),
                   'active_size': sum(b['size'] for b in used), 'blocks': blocks}
            if self.version >= '2.1':
                row |= {'requested_size': sum(b['requested_size'] for b in used), 'segment_pool_id': (0, 0),
                        'is_expandable': False, 'frames': STACKS[0]}
            rows.append(row)
        return rows

    def put(self, blocks, address, size, requested=0, frames=()):
        if size <= 0:
            return
        block = {'size': size, 'state': 'active_allocated' if requested else 'inactive'}
        if self.version < '2.1':
            if requested:
                block['history'] = [{'addr': address, 'real_size': requested, 'frames': list(frames)}]
        else:
            block |= {'address': address, 'requested_size': requested, 'frames': list(frames)}
        blocks.append(block)


def snapshot(version, seed=0, devices=1, events=400):
    rng = random.Random(seed)
    all_devices = [Device(d, version, rng) for d in range(devices)]
    for device in all_devices:
        for _ in range(rng.randrange(1, 30)):
            device.alloc(recorded=False)
        device.events.clear()   # of their segments, too
        for _ in range(events):
            device.alloc() if rng.random() < 0.55 else device.free()
        if version >= '2.1':
            device.add('snapshot', 0, 0)
    found = {'segments': [row for d in all_devices for row in d.rows()], 'device_traces': [d.events for d in all_devices]}
    if version >= '2.6':
        found['allocator_settings'] = {
            'PYTORCH_CUDA_ALLOC_CONF': '', 'max_split_size': -1, 'garbage_collection_threshold': 0.0,
            'expandable_segments': False, 'roundup_power2_divisions': {str(1 << i): 0 for i in range(16)}}
        found['external_annotations'] = [
            {'stage': stage, 'name': 'Optimizer.step#AdamW.step', 'device': 0, 'time_us': START_US + us}
            for stage, us in (('START', 100), ('END', 200))]
    return found


def with_addresses(snap):
    """Blocks of old versions have none: they follow each other. The list as the viewer annotates it."""
    for segment in snap['segments']:
        at = segment['address']
        for block in segment['blocks']:
            block.setdefault('address', at)
            if 'requested_size' not in block:
                history = block.get('history')
                block['requested_size'] = history[0]['real_size'] if history else block['size']
            at = block['address'] + block['size']
    return snap


def viewer_levels(snap, device):
    """MemoryViz.js: the level before the first event, and the level after each event of the device's trace."""
    trace = snap['device_traces'][device] if device < len(snap['device_traces']) else []
    live, initial, changes = {}, 0, []
    for event in trace:
        change = 0
        if event['action'] == 'alloc':
            live[event['addr']] = event['size']
            change = event['size']
        elif event['action'] in ('free', 'free_completed'):
            if event['addr'] in live:
                change = -live.pop(event['addr'])
            else:
                initial += event['size']
                change = -event['size']
        changes.append(change)
    for segment in snap['segments']:
        for block in segment['blocks'] if segment['device'] == device else ():
            if block['state'] == 'active_allocated' and block['address'] not in live:
                initial += block['requested_size']
    levels, level = [], initial
    for change in changes:
        level += change
        levels.append(level)
    return initial, levels


def with_pinned_memory(snap, growing, nested=False, steps=8):
    """As PyTorch 2.14 records it: each step pins a batch; `growing`: and keeps it. Its device has optimizer steps."""
    stack = [frame('pin', 'job/data.py', 7), frame('main')]
    optimizer = STACKS[3]
    device, host, segments, time = [], [], [], START_US
    for step in range(steps):
        at, size = 0x7000_0000 + (step << 20), 100_000 + 8 * (step % 2)
        for action in ('segment_alloc', 'alloc'):
            host.append({'action': action, 'addr': at, 'size': 1 << 17 if action[0] == 's' else size, 'stream': 0,
                         'frames': stack, 'time_us': time})
        if not growing:
            host += [{'action': action, 'addr': at, 'size': size, 'stream': 0, 'frames': [], 'time_us': time + 4}
                     for action in ('free_requested', 'free_completed')]
        blocks = [{'address': at, 'size': 1 << 17, 'requested_size': size, 'frames': stack,
                   'state': 'active_allocated' if growing else 'inactive'}]
        segments.append({'address': at, 'total_size': 1 << 17, 'allocated_size': growing << 17, 'active_size': growing << 17,
                         'stream': 0, 'segment_type': 'large', 'blocks': blocks})
        for of_device, frames in ((1, STACKS[0]), (2, STACKS[1]), (3, optimizer)):
            for action in ('alloc', 'free_requested', 'free_completed'):
                device.append({'action': action, 'addr': 0x100_0000 * of_device, 'size': 512, 'stream': 0,
                               'frames': frames if action == 'alloc' else [], 'time_us': time + of_device})
        time += 10
    snap = dict(snap, segments=[], device_traces=[device], host_segments=segments, host_traces=[host] if nested else host)
    snap.pop('external_annotations', None)
    return snap
