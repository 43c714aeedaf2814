"""Traces that PyTorch itself writes, on the CPU: the op table must be what `key_averages()` says, the steps what was recorded.

A row of key_averages stands for all events of one name; annotations have rows of their own. Left out of the comparison, because
the trace or the table does not hold them: Python frames (rows of key_averages with with_stack; they also take time from the ops
around them, so the expected table is built without them) and the `[memory]` rows that profile_memory adds.
"""
import glob
import os
import socket
import subprocess
import sys
import textwrap
from collections import defaultdict

import pytest

import slow_reference

torch = pytest.importorskip('torch')
from torch.autograd.profiler_util import EventList  # noqa: E402
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


def train(profiler, steps, workers=0, conv=False, optimizer=torch.optim.SGD, ranges=False):
    torch.manual_seed(0)
    shape = (3, 8, 8) if conv else (16,)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3) if conv else torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(144 if conv else 16, 4))
    opt = optimizer(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(4 * steps, *shape), torch.randint(0, 4, (4 * steps,)))
    for x, y in DataLoader(data, batch_size=4, num_workers=workers):
        opt.zero_grad()
        if ranges:
            with record_function('forward'):
                with record_function('aten::relu'):   # an annotation with the name of an op
                    loss = torch.nn.functional.cross_entropy(model(x), y)
        else:
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        loss.item()
        profiler.step()


def expected_ops(profiler):
    """{name: sorted (calls, cpu total, cpu self)} of key_averages, in nanoseconds, as if no stacks were recorded."""
    inner = profiler.profiler
    events = inner._parse_kineto_results(inner.kineto_results)
    events = EventList([e for e in events if not e.is_python_function and e.name != '[memory]'],
                       use_device=None, profile_memory=inner.profile_memory, with_flops=inner.with_flops)
    events._build_tree()
    return as_table(events.key_averages())


def as_table(averages):
    out = defaultdict(list)
    for a in averages:
        # Times are nanoseconds over 1000 in floating point: exact to well under half a nanosecond here.
        out[a.key].append((a.count, round(a.cpu_time_total * 1000), round(a.self_cpu_time_total * 1000)))
    return {name: sorted(rows) for name, rows in out.items()}


def ops_of(rank):
    out = defaultdict(list)
    for o in rank['ops']:
        out[o['name']].append((o['calls'], o['cpu_total_ns'], o['cpu_self_ns']))
    return {name: sorted(rows) for name, rows in out.items()}


def recorded_steps(path):
    document = slow_reference.load(path)
    return sorted((slow_reference.nanoseconds(e['ts']), e['name'], slow_reference.nanoseconds(e['dur']))
                  for e in document['traceEvents'] if e['name'].startswith('ProfilerStep#') and e['cat'] == 'user_annotation')


def steps_of(rank):
    return [(s['start_ns'], s['name'], s['duration_ns']) for s in rank['steps']]


OPTIONS = {
    'none': {},
    'shapes': {'record_shapes': True},
    'stack': {'with_stack': True},
    'memory': {'profile_memory': True},
    'flops': {'with_flops': True, 'record_shapes': True},
    'modules': {'with_modules': True, 'with_stack': True},
    'all': {'record_shapes': True, 'with_stack': True, 'profile_memory': True, 'with_flops': True},
}


@pytest.mark.parametrize('ending', ['.json', '.json.gz'])
@pytest.mark.parametrize('options', OPTIONS)
def test_ops_equal_key_averages(options, ending, analyze, check, tmp_path):
    path = str(tmp_path / ('trace' + ending))
    with profile(activities=[ProfilerActivity.CPU], **OPTIONS[options]) as p:
        train(p, 4, conv=options in ('flops', 'all'), optimizer=torch.optim.Adam if options == 'all' else torch.optim.SGD)
    p.export_chrome_trace(path)
    document = analyze(path)
    check(document)
    rank = document['ranks'][0]
    got, want = ops_of(rank), expected_ops(p)
    assert got.keys() == want.keys()
    assert got == want
    if not OPTIONS[options].get('with_stack'):
        # The table that a user prints, without anything of ours between.
        printed = as_table(p.key_averages())
        printed.pop('[memory]', None)
        assert got == printed
    # PyTorch writes no operation counts into the trace, not even with_flops: they are what the shapes say.
    flops = {a.key: a.flops for a in p.key_averages() if a.flops}
    for o in rank['ops']:
        if not OPTIONS[options].get('record_shapes'):
            assert o['flops'] is None and o['bytes'] is None
        elif o['name'] in ('aten::mm', 'aten::addmm'):
            assert o['flops'] == flops.get(o['name'], o['flops']) > 0 and o['bytes'] > 0
    assert rank['devices'] == [] and rank['idle'] == [] and rank['kernels'] == []
    assert [s['name'] for s in rank['steps']] == [name for _, name, _ in recorded_steps(path)] or not recorded_steps(path)
    assert 'no_device_activity' in {i['kind'] for i in document['inputs'][0]['issues']}
    assert document['inputs'][0]['events'] == len(slow_reference.load(path)['traceEvents'])


@pytest.mark.parametrize('workers', [0, 2])
def test_steps_and_phases_with_a_loader(workers, analyze, check, tmp_path):
    path = str(tmp_path / 'trace.json')
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=4, repeat=1),
                 on_trace_ready=lambda p: p.export_chrome_trace(path)) as p:
        train(p, 8, workers=workers)
    document = analyze(path)
    check(document)
    rank = document['ranks'][0]
    assert len(rank['steps']) == 4
    assert steps_of(rank) == recorded_steps(path)
    assert [s['index'] for s in rank['steps']] == [2, 3, 4, 5]
    wall = {x['name']: x['wall_ns'] for x in rank['phases']}
    for phase in ('data_loading', 'forward', 'backward', 'optimizer'):
        assert wall[phase] > 0, wall
    loading = [r for r in slow_reference.Window(slow_reference.load(path)).host if r.name.startswith('enumerate(DataLoader)')]
    within = slow_reference.common(slow_reference.merged((s, s + d) for s, _, d in steps_of(rank)), slow_reference.merged(loading))
    assert wall['data_loading'] == within


def test_annotations_and_ops_of_one_name_have_rows_of_their_own(analyze, tmp_path):
    path = str(tmp_path / 'trace.json')
    with profile(activities=[ProfilerActivity.CPU]) as p:
        train(p, 3, ranges=True)
    p.export_chrome_trace(path)
    got = ops_of(analyze(path)['ranks'][0])
    assert len(got['aten::relu']) == 2
    assert got == expected_ops(p)


def test_several_windows_of_one_schedule(analyze, check, tmp_path):
    tables, number = [], iter(range(100))

    def ready(p):
        tables.append(expected_ops(p))
        p.export_chrome_trace(str(tmp_path / f'window{next(number)}.json'))

    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2, repeat=3),
                 on_trace_ready=ready) as p:
        train(p, 13)
    document = analyze(tmp_path)
    check(document)
    assert len(tables) == 3 and len(document['inputs']) == 3
    assert len(document['ranks']) == 1
    rank = document['ranks'][0]
    assert [s['index'] for s in rank['steps']] == [2, 3, 6, 7, 10, 11]
    total = defaultdict(int)
    for table in tables:
        for name, rows in table.items():
            total[name] += sum(r[0] for r in rows)
    assert {name: sum(r[0] for r in rows) for name, rows in ops_of(rank).items()} == total


def test_tensorboard_handler(analyze, check, tmp_path):
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=2, repeat=2),
                 on_trace_ready=tensorboard_trace_handler(str(tmp_path), use_gzip=True), record_shapes=True) as p:
        train(p, 6)
    files = glob.glob(str(tmp_path / '*.pt.trace.json.gz'))
    assert len(files) == 2
    document = analyze(tmp_path)
    check(document)
    assert len(document['ranks']) == 1
    assert len(document['ranks'][0]['steps']) == 4


def test_memory_events(analyze, tmp_path):
    path = str(tmp_path / 'trace.json')
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        train(p, 2)
    p.export_chrome_trace(path)
    recorded = [e for e in slow_reference.load(path)['traceEvents'] if e.get('name') == '[memory]']
    assert recorded and all(e['args']['Device Type'] == 0 for e in recorded)
    # Memory of the CPU is no device memory: unknown, not 0.
    memory = analyze(path)['ranks'][0]['memory']
    assert memory is None or memory['peak_allocated_bytes'] is None
    assert memory is None or memory['timeline'] == []


@pytest.mark.parametrize('form', ['terminal', 'markdown'])
def test_every_form_reads_a_trace_with_stacks(form, profgpu, tmp_path):
    path = str(tmp_path / 'trace.json')
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, with_modules=True, record_shapes=True) as p:
        train(p, 3)
    p.export_chrome_trace(path)
    result = profgpu('analyze', '--format', form, path)
    assert result.returncode == 0 and result.stdout


JOB = textwrap.dedent('''
    import os, sys, time, torch, torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile, schedule
    dist.init_process_group('gloo')
    rank = dist.get_rank()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3, repeat=1), record_shapes=True,
                 on_trace_ready=lambda p: p.export_chrome_trace(os.path.join(sys.argv[1], sys.argv[2] % rank))) as p:
        for _ in range(6):
            opt.zero_grad()
            model(torch.randn(8, 64)).sum().backward()
            opt.step()
            time.sleep(0.02)   # gloo's thread ends its range after the collective; a profiler stopped before that corrupts the heap
            p.step()
    dist.barrier()
    os._exit(0)   # gloo's own tear-down aborts now and then, when the other rank is gone first
''')


def torchrun(*words):
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    command = [sys.executable, '-m', 'torch.distributed.run', '--nproc-per-node=2', '--master-addr=127.0.0.1',
               f'--master-port={port}', *words]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           env=os.environ | {'OMP_NUM_THREADS': '1', 'GLOO_SOCKET_IFNAME': 'lo'})
    try:
        output = job.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        job.terminate()   # torchrun ends its workers
        output = job.communicate(timeout=60)[0]
    assert job.returncode == 0, output.decode(errors='replace')


@pytest.mark.parametrize('name', ['rank%d.json', 'trace-%d.json.gz'])
def test_two_ranks_with_torchrun(name, analyze, check, tmp_path):
    job = tmp_path / 'job.py'
    job.write_text(JOB)
    folder = tmp_path / 'traces'
    folder.mkdir()
    torchrun(str(job), str(folder), name)
    document = analyze(folder)
    check(document)
    assert [r['rank'] for r in document['ranks']] == [0, 1]
    assert [r['world_size'] for r in document['ranks']] == [2, 2]
    assert document['cluster']['ranks'] == 2
    assert list(document['cluster']['step_mean_ns_by_rank']) == ['0', '1']
    for rank in document['ranks']:
        assert [s['index'] for s in rank['steps']] == [2, 3, 4]
        assert 'gloo:all_reduce' in {o['name'] for o in rank['ops']}
