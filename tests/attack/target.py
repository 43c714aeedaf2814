"""Files of every kind that profgpu reads, made by the test suite's own writers, and the commands that read them."""
import gzip
import json
import os
import pickle
import subprocess
import sys

import mutation

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'python'))


class Target:
    """A kind of file: its name, a whole one, what to do to it, and the commands that read it."""

    def __init__(self, name, data, mutators=(), commands=()):
        self.name, self.data = name, data
        self.mutators = [*mutation.ANY, *([*mutators] * 6)]
        self.commands = [*ANALYSES, *commands]


ANALYSES = (('analyze', 'FILE'), ('analyze', '--json', 'FILE'), ('analyze', '--format', 'markdown', '--color', 'never', 'FILE'),
            ('analyze', '--section', 'findings', 'FILE'), ('analyze', '--section', 'inputs', 'FILE'),
            ('analyze', '--html', 'OUT.html', 'FILE'), ('analyze', '--format', 'sarif', 'FILE'), ('analyze', '--format', 'github', 'FILE'),
            ('diff', 'FILE', 'WHOLE'), ('diff', '--json', 'WHOLE', 'FILE'))
TABLES = (('query', 'FILE', 'select * from kernels_by_name'), ('query', '--format', 'csv', 'FILE', 'select * from host'),
          ('query', '--json', 'FILE', 'select * from gaps'), ('export', 'FILE', '--to', 'chrome', '-o', 'OUT.json'),
          ('export', 'FILE', '--to', 'perfetto', '-o', 'OUT.pftrace'), ('export', 'FILE', '--to', 'sqlite', '-o', 'OUT.sqlite'),
          ('export', 'FILE', '--to', 'csv', '--table', 'activity', '-o', 'OUT.csv'), ('export', 'FILE', '--to', 'speedscope', '-o', 'OUT.json'),
          ('export', 'FILE', '--to', 'folded', '-o', 'OUT.txt'), ('analyze', '--steps', '0:2', '--json', 'FILE'),
          ('analyze', '--section', 'kernels', 'FILE'), ('analyze', '--section', 'idle', 'FILE'), ('merge', 'FILE', 'WHOLE', '-o', 'OUT.json'))
SNAPSHOTS = (('analyze', '--section', 'snapshot', 'FILE'), ('query', 'FILE', 'select * from snapshot_blocks'))
DEVICES = (('devices', '--backend', 'replay:FILE,speed=max', '--json'), ('log', '--backend', 'replay:FILE,speed=max', '--count', '2'),
           ('log', '--backend', 'replay:FILE', '-i', '0.05', '--count', '2', '--format', 'json'), ('stat', '--backend', 'replay:FILE,speed=max'),
           ('top', '--once', '--backend', 'replay:FILE,speed=max'), ('analyze', '--samples', 'FILE', 'WHOLE'))


def simulated(tools, folder, *words):
    path = os.path.join(folder, 'seed.json')
    subprocess.run([tools['kineto-sim'], *words, '--out', path], check=True, stdout=subprocess.DEVNULL)
    with open(path, 'rb') as file:
        return file.read()


def samples():
    rows = []
    for i in range(40):
        for device in (0, 1):
            row = {'time_ns': 1_800_000_000_000_000_000 + i * 100_000_000, 'device': device, 'utilization_pct': i % 7 * 15, 'power_w': 300.5 + i,
                   'memory_used_bytes': 10_000_000_000, 'temperature_c': 60, 'clock_event_reasons': 4 * (i % 5 == 0)}
            if i == 0:
                row |= {'name': 'Test GPU', 'uuid': f'GPU-{device}', 'vendor': 'NVIDIA', 'host': 'node-a', 'memory_total_bytes': 80_000_000_000}
            if i % 10 == 0:
                row['processes'] = [{'pid': 4711, 'type': 'C', 'name': 'python', 'memory_bytes': 1000}]
            rows.append(json.dumps(row))
    return '\n'.join(rows).encode() + b'\n'


def smi_samples():
    rows = ['timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]']
    rows += [f'2026/11/23 05:36:{i:02d}.108, {i % 2}, Test GPU, {i} %, {1000 + i} MiB, {200 + i}.50 W' for i in range(30)]
    return '\n'.join(rows).encode() + b'\n'


def nsight(folder):
    import nsight_export
    export = nsight_export.Export(os.path.join(folder, 'seed.sqlite'))
    nsight_export.step_loop(export)
    with open(export.done(), 'rb') as file:
        return file.read()


def flight(folder):
    import flight_writer
    from pathlib import Path
    job = flight_writer.Job({'0': ('default_pg', [0, 1])})
    job.done('0', 3)
    job.collective('0')
    out = Path(folder) / 'flight'
    job.write(out)
    return (out / 'nccl_trace_rank_0').read_bytes()


def snapshot():
    import memory_snapshots
    return pickle.dumps(memory_snapshots.snapshot('2.9'), protocol=4)


def timeline():
    """By PyTorch's profiler, of memory by category."""
    events = [[-1, 1, 4000, 0], [-1, 1, 500, 7]]
    events += [[10**12 + 1000 * i, 2 + 2 * (i % 2), (-1) ** i * (500 + i // 2), i // 2 % 8] for i in range(60)]
    return json.dumps(events).encode()


def toolkit_lines():
    with open(os.path.join(ROOT, 'tests', 'fuzz', 'corpus', 'log', 'toolkits.log'), 'rb') as file:
        return file.read()


def targets(tools, folder):
    """`tools`: paths of kineto-sim and pgt-sample."""
    import log_writer
    trace = simulated(tools, folder, '--steps', '3', '--layers', '2')
    recording = os.path.join(folder, 'seed.pgt')
    subprocess.run([tools['pgt-sample'], recording, '6', '4'], check=True)
    with open(recording, 'rb') as file:
        recorded = file.read()
    return [
        Target('trace.json', trace, (mutation.packed,), TABLES),
        Target('trace.json.gz', gzip.compress(trace, 1), (), TABLES[:4]),
        Target('recording.pgt', recorded, (mutation.wrong_rows,), TABLES),
        Target('samples.jsonl', samples(), (), DEVICES),
        Target('smi.csv', smi_samples(), (), DEVICES),
        Target('export.sqlite', nsight(folder), (mutation.wrong_cells,), TABLES),
        Target('nccl_trace_rank_0', flight(folder), (mutation.wrong_opcodes,)),
        Target('snapshot.pickle', snapshot(), (mutation.wrong_opcodes,), SNAPSHOTS),
        Target('timeline.raw.json', timeline()),
        Target('train.log', (log_writer.megatron([500.0] * 20) + log_writer.deepspeed(5) + log_writer.titan(10)).encode() + toolkit_lines()),
    ]
