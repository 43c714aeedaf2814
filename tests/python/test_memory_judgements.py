"""What memory snapshots of whole jobs are said to show: whose memory it is, what leaks, why it ran out. Each snapshot is
made here as PyTorch's allocator writes one, so that what is right is known."""
import json
import pickle

import pytest

from memory_snapshots import START_US

MIB = 1 << 20
PACKAGES = '/opt/lib/python3.11/site-packages/'


def frame(name, file, line):
    return {'name': name, 'filename': file, 'line': line}


def native(op):
    return [frame(f'at::_ops::{op}::call(at::Tensor const&)', '??', 0)]


MODULE = [frame('_call_impl', PACKAGES + 'torch/nn/modules/module.py', 1747)]
MAIN = [frame('train_step', '/app/train.py', 60), frame('main', '/app/train.py', 90)]
ENGINE = [frame('torch::autograd::Engine::evaluate_function()', '??', 0)]
MOVED = native('to') + [frame('convert', PACKAGES + 'torch/nn/modules/module.py', 1160),
                        frame('to', PACKAGES + 'torch/nn/modules/module.py', 1340)]


def forward(line, name='GPT.forward', file='/app/model.py', op='mm'):
    return native(op) + [frame(name, file, line)] + MODULE


def backward(node='MmBackward0'):
    return [frame(f'torch::autograd::generated::{node}::apply()', '??', 0)] + ENGINE


GRADIENT = [frame('torch::autograd::AccumulateGrad::apply()', '??', 0)] + ENGINE


def optimizer(main=MAIN):
    return native('zeros_like') + [frame('_init_group', PACKAGES + 'torch/optim/adamw.py', 133),
                                   frame('step', PACKAGES + 'torch/optim/adamw.py', 220)] + main


class Memory:
    """One segment that requests are served from, first fit."""

    def __init__(self, reserved_mib=4096, device=0):
        self.device, self.reserved, self.base = device, reserved_mib * MIB, (1 << 40) + (device << 36)
        self.events, self.live = [], {}
        self.add('segment_alloc', self.base, self.reserved, [])

    def add(self, action, addr, size, frames, **more):
        self.events.append({'action': action, 'addr': addr, 'size': size, 'stream': 0, 'frames': list(frames),
                            'time_us': START_US + 10 * len(self.events)} | more)

    def alloc(self, size, frames):
        at = self.base
        for address, (held, _) in sorted(self.live.items()):
            if address - at >= size:
                break
            at = address + (held + 511) // 512 * 512
        self.live[at] = (size, frames)
        self.add('alloc', at, size, frames)
        return at

    def free(self, *addresses):
        for address in addresses:
            size, _ = self.live.pop(address)
            self.add('free_requested', address, size, [])
            self.add('free_completed', address, size, [])

    def fail(self, size, frames, device_free=0):
        self.add('oom', 0, size, frames, device_free=device_free)

    def segment(self):
        blocks, at = [], self.base
        for address, (size, frames) in sorted(self.live.items()):
            if address > at:
                blocks.append({'address': at, 'size': address - at, 'requested_size': 0, 'state': 'inactive', 'frames': []})
            at = address + (size + 511) // 512 * 512
            blocks.append({'address': address, 'size': at - address, 'requested_size': size, 'state': 'active_allocated',
                           'frames': frames})
        blocks.append({'address': at, 'size': self.base + self.reserved - at, 'requested_size': 0, 'state': 'inactive', 'frames': []})
        used = sum(b['size'] for b in blocks if b['state'] != 'inactive')
        return {'device': self.device, 'address': self.base, 'total_size': self.reserved, 'allocated_size': used,
                'active_size': used, 'requested_size': sum(b['requested_size'] for b in blocks), 'stream': 0,
                'segment_type': 'large', 'segment_pool_id': (0, 0), 'is_expandable': False, 'frames': [], 'blocks': blocks}


class Job:
    """Parameters of 16 MiB, AdamW; a forward of four lines."""
    PARAMETERS = 4

    def __init__(self, memory, main=MAIN, moved_in=None):
        self.memory, self.main, self.states, self.gradients = memory, main, [], []
        for _ in range(self.PARAMETERS):
            memory.alloc(16 * MIB, MOVED + (moved_in or main))

    def forward(self, size=8 * MIB):
        return [self.memory.alloc(size, forward(60 + line) + self.main) for line in range(4)]

    def backward(self, activations):
        self.gradients = [self.memory.alloc(16 * MIB, GRADIENT) for _ in range(self.PARAMETERS)]
        self.memory.free(*reversed(activations))

    def step(self):
        if not self.states:
            self.states = [self.memory.alloc(16 * MIB, optimizer(self.main)) for _ in range(2 * self.PARAMETERS)]
        scratch = self.memory.alloc(16 * MIB, optimizer(self.main))
        self.memory.free(scratch)
        self.memory.free(*self.gradients)

    def train(self, steps, after=None):
        for step in range(steps):
            self.backward(self.forward())
            self.step()
            if after:
                after(step)


@pytest.fixture
def analyzed(tmp_path, analyze):
    def run(*memories, change=None):
        snapshot = {'segments': [m.segment() for m in memories], 'device_traces': [m.events for m in memories],
                    'allocator_settings': {'PYTORCH_CUDA_ALLOC_CONF': '', 'max_split_size': -1, 'expandable_segments': False,
                                           'garbage_collection_threshold': 0.0, 'roundup_power2_divisions': {}}}
        path = tmp_path / 'snapshot.pickle'
        path.write_bytes(pickle.dumps(change(snapshot) if change else snapshot, 4))
        document = analyze(path)
        return document, document['ranks'][0]['snapshot']
    return run


def held(section):
    return {row['category']: row['held_bytes'] / MIB for row in section['peak']['categories']}


def finding(document, rule):
    return next((f for f in document['findings'] if f['rule'] == rule), None)


def with_frames(snapshot, change):
    for trace in snapshot['device_traces']:
        for event in trace:
            event['frames'] = change(event['frames'])
    for segment in snapshot['segments']:
        for block in segment['blocks']:
            block['frames'] = change(block['frames'])
    return snapshot


def test_paths_of_windows(analyzed):
    def on_windows(frames):
        root = 'C:\\Python311\\Lib\\site-packages\\'
        return [f | {'filename': f['filename'].replace(PACKAGES, root).replace('/', '\\') if f['line'] else '??'} for f in frames]
    memory = Memory()
    Job(memory).train(3)
    _, plain = analyzed(memory)
    _, section = analyzed(memory, change=lambda s: with_frames(s, on_windows))
    assert held(section) == held(plain) and held(section)['parameter'] == 64
    assert [h['file'] for h in section['peak']['holders']] == [h['file'] for h in plain['peak']['holders']]


def test_what_runs_a_model_with_a_cache_makes_none(analyzed):
    for name, file in (('generate_with_kv_cache', '/app/generate.py'), ('generate', '/app/kv_cache/gpt.py')):
        main = [frame(name, file, 40), frame('<module>', file, 90)]
        memory = Memory()
        job = Job(memory, main)
        for _ in range(4):
            logits = memory.alloc(32 * MIB, native('mm') + [frame('GPT.forward', file, 66)] + MODULE + main)
            memory.free(logits)
        cache = memory.alloc(5 * MIB, native('zeros') + [frame('init_kv_cache', file, 12)] + main)
        memory.alloc(32 * MIB, native('mm') + [frame('GPT.forward', file, 66)] + MODULE + main)
        _, section = analyzed(memory)
        assert held(section)['kv_cache'] == 5 and held(section)['parameter'] == 64, (name, held(section), job, cache)


def test_a_folder_of_optimizers_is_none(analyzed):
    main = [frame('main', '/app/optimizers/train.py', 90)]
    memory = Memory()
    Job(memory, main).train(5)
    document, section = analyzed(memory)
    assert held(section)['parameter'] == 64 and held(section)['optimizer_state'] == 128
    assert section['steps'] == 5 and section['early_frees'] == []


def test_clipping_of_gradients_is_a_spike(analyzed):
    clip = native('_foreach_mul') + [frame('clip_grad_norm_', PACKAGES + 'torch/nn/utils/clip_grad.py', 90)] + MAIN
    memory = Memory()
    job = Job(memory)
    for _ in range(4):
        job.backward(job.forward())
        scratch = [memory.alloc(MIB, clip) for _ in range(200)]
        memory.free(*scratch)
        job.step()
    document, section = analyzed(memory)
    assert section['peak']['phase'] == 'optimizer'
    assert section['spike']['held_bytes'] == 200 * MIB
    assert 'clip_grad_norm_(…, foreach=False)' in finding(document, 'peak-spike')['fix'][0]


@pytest.mark.parametrize('convolution', [True, False])
def test_a_workspace_of_cudnn_is_cudnns(convolution, analyzed):
    memory = Memory()
    job = Job(memory)
    for _ in range(3):
        activations = job.forward()
        work = memory.alloc(300 * MIB, [frame('at::native::run_conv_plan(cudnnContext*)', '??', 0)] + native('cudnn_convolution')
                            + [frame('Stem.forward', '/app/model.py', 15)] + MODULE + MAIN)
        if convolution:
            memory.free(work)
        job.backward(activations)
        job.step()
    document, _ = analyzed(memory)
    for rule in ['oversized-workspace'] + ['peak-spike'] * convolution:
        fixes = ' '.join(finding(document, rule)['fix'])
        assert 'cudnn.benchmark' in fixes and 'CUBLAS' not in fixes


def test_cublas_workspace_without_frames_of_cpp(analyzed):
    memory = Memory()
    job = Job(memory)
    memory.alloc(8_519_680, forward(61) + MAIN)
    job.train(3)
    _, section = analyzed(memory, change=lambda s: with_frames(s, lambda frames: [f for f in frames if f['line']]))
    assert held(section)['workspace'] == 8.125


def test_a_loss_with_large_logits_is_advised_a_fused_one(analyzed):
    memory = Memory()
    job = Job(memory)
    loss = [frame('cross_entropy', PACKAGES + 'torch/nn/functional.py', 3000)] + MAIN
    for _ in range(3):
        activations = job.forward()
        activations.append(memory.alloc(200 * MIB, native('_to_copy') + [frame('ForCausalLMLoss', PACKAGES + 'transformers/loss/loss_utils.py', 40)] + MAIN))
        activations.append(memory.alloc(200 * MIB, native('_log_softmax') + loss))
        gradient = memory.alloc(200 * MIB, backward('LogSoftmaxBackward0'))
        memory.free(gradient)
        job.backward(activations)
        job.step()
    document, section = analyzed(memory)
    assert 'cross entropy' in finding(document, 'peak-spike')['fix'][0]
    (saving,) = [s for s in section['savings'] if 'cross entropy' in s['change']]
    assert saving['saved_bytes'] >= 500 * MIB
    assert not any('bf16 for all of it' in s['change'] for s in section['savings']), 'the loss widens what has 16 bits'


def test_what_the_program_gathers_over_steps_is_no_activation(analyzed):
    buffer = native('cat') + [frame('Buffer.add', '/app/buffer.py', 9)] + MAIN
    memory, bag = Memory(), []

    def gather(step):
        if step % 6 == 5:
            memory.free(*bag)
            bag.clear()
        bag.append(memory.alloc(8 * MIB, buffer))
    Job(memory).train(20, gather)
    _, section = analyzed(memory)
    assert held(section)['activation'] <= 32 and held(section)['unknown'] == 48


def test_a_number_that_is_kept_is_no_graph(analyzed):
    loss = native('nll_loss') + [frame('cross_entropy', PACKAGES + 'torch/nn/functional.py', 3000),
                                 frame('forward', PACKAGES + 'torch/nn/modules/loss.py', 1297)] + MODULE + MAIN
    memory = Memory()
    Job(memory).train(8, lambda step: memory.alloc(4, loss))
    document, _ = analyzed(memory)
    assert finding(document, 'retained-graph') is None and finding(document, 'memory-growth') is None


def cached(memory, line, tokens, layers, caches):
    """Each token's keys and values in place of those before; `caches`: the sequence's so far."""
    for token in range(tokens):
        for layer in range(layers):
            stack = native('cat') + [frame('DynamicCache.update', PACKAGES + 'transformers/cache_utils.py', 780)] + forward(line) + MAIN
            longer = memory.alloc((64 + token) * 32 * 1024, stack)
            if layer < len(caches):
                memory.free(caches[layer])
                caches[layer] = longer
            else:
                caches.append(longer)


@pytest.mark.parametrize('kept', [True, False])
def test_caches_of_requests_that_are_over(kept, analyzed):
    memory = Memory()
    Job(memory)
    for _ in range(8):
        caches = []
        cached(memory, 70, 10, 6, caches)
        if not kept:
            memory.free(*caches)
    document, section = analyzed(memory)
    lines = [g for g in section['growth'] if g['category'] == 'kv_cache']
    assert bool(lines) == kept == (finding(document, 'memory-growth') is not None)
    if kept:
        assert lines[0]['per'] == 'generation' and lines[0]['growth_bytes'] == 6 * 73 * 32 * 1024


def test_sequences_that_take_turns_keep_no_caches(analyzed):
    memory = Memory()
    Job(memory)
    several = [[] for _ in range(4)]
    for token in range(40):
        for n, caches in enumerate(several):
            stack = native('cat') + [frame('DynamicCache.update', PACKAGES + 'transformers/cache_utils.py', 780)] + forward(70) + MAIN
            longer = memory.alloc((100 * (n + 1) + token) * 4096, stack)
            if caches:
                memory.free(caches.pop())
            caches.append(longer)
    _, section = analyzed(memory)
    assert section['growth'] == []


def test_growth_of_few_steps_is_mentioned(analyzed, profgpu, tmp_path):
    memory = Memory()
    Job(memory).train(4, lambda step: memory.alloc(64 * MIB, native('cat') + [frame('keep', '/app/log.py', 9)] + MAIN))
    _, section = analyzed(memory)
    assert section['growth'] == [] and section['kept_of_steps']['held_bytes'] == 256 * MIB
    shown = profgpu('analyze', tmp_path / 'snapshot.pickle').stdout.decode()
    assert 'keep (app/log.py:9) keeps something of each of 4 steps, 256 MiB in all' in ' '.join(shown.split())


def test_a_graph_of_an_earlier_pass_is_one_finding(analyzed):
    memory, before = Memory(), []
    job = Job(memory)

    def validate(step):
        graph = job.forward(40 * MIB)
        memory.free(*before)
        before[:] = graph
    job.train(6, validate)
    document, section = analyzed(memory)
    (row,) = section['early_frees']
    assert row['graph_lines'] == 4 and row['held_bytes'] == 160 * MIB
    assert row['peak_bytes'] == (64 + 128 + 160) * MIB, 'one graph at a time'
    found = finding(document, 'retained-graph')
    assert 'no_grad' in found['fix'][0] and found['value'] == 160


def test_memory_runs_out_by_what_each_step_keeps(analyzed):
    memory = Memory(reserved_mib=800)
    job = Job(memory)
    job.train(8, lambda step: memory.alloc(40 * MIB, native('clone') + [frame('snapshot_grads', '/app/debug.py', 14)] + MAIN))
    job.forward()
    memory.fail(300 * MIB, forward(64) + MAIN)
    document, section = analyzed(memory)
    assert section['oom']['cause'] == 'growth' and section['oom']['grown_bytes'] == 280 * MIB, 'of the seven steps before'
    found = finding(document, 'oom')
    assert 'snapshot_grads (app/debug.py:14)' in found['fix'][0] and 'checkpoint' not in ' '.join(found['fix'])
    assert section['batch'] is None and '280 MiB' in document['verdict'] and 'nearly all there is' not in document['verdict']


def test_what_the_failed_batch_needs_has_what_the_step_before_kept(analyzed):
    memory = Memory(reserved_mib=260)
    job = Job(memory)
    job.train(8, lambda step: memory.alloc(3 * MIB, native('clone') + [frame('snapshot_grads', '/app/debug.py', 14)] + MAIN))
    for line in range(3):
        memory.alloc(8 * MIB, forward(60 + line) + MAIN)
    memory.fail(8 * MIB, forward(63) + MAIN)
    _, section = analyzed(memory)
    at_rest = (64 + 128 + 8 * 3) * MIB
    assert section['oom']['cause'] == 'need'
    assert section['batch']['full_peak_bytes'] == at_rest + (32 + 64) * MIB, 'activations and gradients'


def test_memory_runs_out_in_the_first_step_of_the_optimizer(analyzed):
    memory = Memory(reserved_mib=180)
    job = Job(memory)
    job.backward(job.forward())
    for _ in range(3):
        memory.alloc(16 * MIB, optimizer())
    memory.fail(16 * MIB, optimizer())
    document, section = analyzed(memory)
    assert section['oom']['in_optimizer'] and section['batch'] is None
    found = finding(document, 'oom')
    assert '8-bit' in found['fix'][0] and not any('checkpoint' in fix or 'micro-batch' in fix for fix in found['fix'])
    assert 'a smaller batch needs as much' in found['why']


def test_the_device_that_ran_out_is_the_one_described(analyzed):
    first, second = Memory(), Memory(reserved_mib=280, device=1)
    Job(first).train(3, lambda step: None)
    big = first.alloc(1000 * MIB, forward(60) + MAIN)
    first.free(big)
    Job(second).train(2)
    second.alloc(60 * MIB, native('cat') + [frame('log_preds', '/app/eval.py', 8)] + MAIN)
    second.fail(100 * MIB, forward(60) + MAIN)
    _, section = analyzed(first, second)
    assert section['oom']['device'] == section['peak']['device'] == 1
    assert section['peak_allocated_bytes'] < 500 * MIB


def test_lines_of_compiled_code_are_those_of_the_model(analyzed):
    generated = frame('call', '/tmp/torchinductor_me/ab/cabc.py', 100) | {
        'fx_node_op': 'call_function', 'fx_node_name': 'addmm', 'fx_node_target': 'aten.addmm.default',
        'fx_original_trace': f'  File "/app/model.py", line 15, in forward\n    return self.fc(x)\n'
                             f'  File "{PACKAGES}torch/nn/modules/linear.py", line 125, in forward\n    return F.linear(x)\n'}
    compiled = [generated, frame('compiled_fn', PACKAGES + 'torch/_functorch/_aot_autograd/runtime_wrappers.py', 300)] + MAIN
    memory = Memory()
    job = Job(memory)
    for _ in range(3):
        job.backward([memory.alloc(30 * MIB, compiled) for _ in range(4)])
        job.step()
    _, section = analyzed(memory)
    (row,) = [h for h in section['peak']['holders'] if h['category'] == 'activation']
    assert (row['function'], row['file'], row['line']) == ('forward', 'app/model.py', 15)


def test_what_sharded_parameters_gather_does_not_grow_with_the_batch(analyzed):
    fsdp = PACKAGES + 'torch/distributed/fsdp/'
    memory = Memory()
    job = Job(memory)
    for _ in range(3):
        gathered = memory.alloc(64 * MIB, native('resize_') + [frame('_alloc_padded_unsharded_flat_param', fsdp + '_flat_param.py', 1350)] + MAIN)
        activations = job.forward(4 * MIB)
        memory.free(gathered)
        whole = memory.alloc(64 * MIB, backward())
        gathered = memory.alloc(64 * MIB, native('resize_') + [frame('_alloc_padded_unsharded_flat_param', fsdp + '_flat_param.py', 1350)] + ENGINE)
        memory.free(whole, gathered)
        job.backward(activations)
        job.step()
    _, section = analyzed(memory)
    assert section['batch']['double_peak_bytes'] <= section['peak_allocated_bytes'] + 16 * MIB


def test_diff_pairs_lines_that_an_edit_moved(tmp_path, profgpu):
    def saved(name, shift, file, more):
        memory = Memory()
        job = Job(memory)
        for _ in range(3):
            activations = [memory.alloc(size * MIB, native(op) + [frame('Attention.forward', file, line + shift)] + MODULE + MAIN)
                           for op, size, line in (('mm', 8, 18), ('softmax', 30, 20), ('mm', 5, 22))]
            if more:
                activations.append(memory.alloc(3 * MIB, native('gelu') + [frame('Extra.forward', file, 12)] + MODULE + MAIN))
            job.backward(activations)
            job.step()
        snapshot = {'segments': [memory.segment()], 'device_traces': [memory.events]}
        (tmp_path / name).write_bytes(pickle.dumps(snapshot, 4))
        return tmp_path / name

    def changed(before, after):
        result = profgpu('diff', before, after, '--json')
        rows = json.loads(result.stdout)['memory_lines']
        return [(r['name'], r['after'] - r['before']) for r in rows if r['after'] != r['before']], rows
    before = saved('before.pickle', 0, '/app/model.py', False)
    edited, rows = changed(before, saved('edited.pickle', 2, '/app/model.py', True))
    assert edited == [('Extra.forward (app/model.py:12), activation', 3 * MIB)]
    assert 'Attention.forward (app/model.py:20 → 22), activation' in {r['name'] for r in rows}
    other, _ = changed(before, saved('other.pickle', 0, '/checkout/model.py', False))
    assert other == []


def test_steps_and_notes_are_the_traces_in_any_order(tmp_path, simulate, analyze, profgpu):
    trace, snapshot = simulate('--steps', '3', '--no-memory'), tmp_path / 'a.pickle'
    memory = Memory()
    Job(memory).train(3)
    snapshot.write_bytes(pickle.dumps({'segments': [memory.segment()], 'device_traces': [memory.events]}, 4))
    for order in ((trace, snapshot), (snapshot, trace)):
        shown = profgpu('analyze', *order).stdout.decode().splitlines()
        (line,) = [x for x in shown if x.startswith(str(snapshot))]
        about = line.removeprefix(str(snapshot))
        assert 'steps' not in about and 'NVIDIA' not in about
