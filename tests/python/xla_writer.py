"""One made-up run of JAX on a GPU as its profiler writes it: XPlane protocol buffers and Chrome's JSON, after the published schemas."""
import gzip
import json
import struct

STEPS, KERNELS = 4, 6
START = 1_750_000_000_000_000_000   # Unix time in ns
NAMES = ('loop_add_fusion', 'void gemm<float>(float*, int)', 'input_reduce_fusion')
DETAILS = 'regs:32 static_shared:1024 dynamic_shared:512 grid:128,2,1 block:256,1,1 occ_pct:50'


def run():
    """(line, name, start in ps, duration in ps, statistics), lines being (plane, number, name)."""
    host, stream = ('/host:CPU', 77, 'python'), ('/device:GPU:0', 7, 'Stream #7(Kernel,MemcpyH2D)')
    rows, number, t = [], 0, 10_000_000
    for step in range(STEPS):
        rows.append((host, 'train', t, 900_000_123, {'step_num': step}))
        rows.append((host, '$train.py:12 loss', t + 1_000_000, 90_000_000, {}))
        rows.append((host, '$builtins len', t + 2_000_000, 1_000_000, {}))
        rows.append((host, 'PjitFunction(update)', t + 100_000_000, 700_000_000, {}))
        number += 1
        rows.append((host, 'cuMemcpyHtoDAsync_v2', t + 101_000_000, 4_000_000, {'correlation_id': number}))
        rows.append((stream, 'MemcpyH2D', t + 110_000_000, 20_000_500, {'correlation_id': number, 'memcpy_details': 'kind_src:pinned kind_dst:device size:4096 dest:0 async:1'}))
        for k in range(KERNELS):
            number += 1
            rows.append((host, 'cuLaunchKernel', t + 200_000_000 + k * 10_000_000, 5_000_000, {'correlation_id': number}))
            rows.append((stream, NAMES[k % 3], t + 300_000_000 + k * 80_000_000, 60_000_000 + k * 1_000_499, {'correlation_id': number, 'kernel_details': DETAILS, 'hlo_op': 'fusion'}))
        rows.append((('/device:GPU:0', 1, 'XLA Modules'), 'jit_update', t + 300_000_000, 500_000_000, {}))
        rows.append((('/device:GPU:0', 2, 'XLA Ops'), 'fusion.1', t + 300_000_000, 500_000_000, {}))
        rows.append((('/device:GPU:0', 3, 'Steps'), str(step), t + 300_000_000, 500_000_000, {}))
        t += 1_000_000_000
    return rows


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def text(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def xplane(rows=None, plane_stats=True):
    """The bytes of an XSpace."""
    rows = run() if rows is None else rows
    space = b''
    for plane in dict.fromkeys(line[0] for line, *_ in rows):
        names, stats = {}, {}

        def numbered(table, key):
            return table.setdefault(key, len(table) + 1)

        def stat(key, value):
            if isinstance(value, int):
                return number(1, numbered(stats, key)) + number(4, value)
            if isinstance(value, float):
                return number(1, numbered(stats, key)) + varint(2 << 3 | 1) + struct.pack('<d', value)
            return number(1, numbered(stats, key)) + number(7, numbered(stats, value))   # by reference
        lines = b''
        for line in dict.fromkeys(line for line, *_ in rows if line[0] == plane):
            events = b''
            for of, name, start, duration, said in rows:
                if of == line:
                    said_bytes = b''.join(text(4, stat(k, v)) for k, v in said.items())
                    events += text(4, number(1, numbered(names, name)) + number(2, start) + number(3, duration) + said_bytes)
            lines += text(3, number(1, line[1]) + text(2, line[2]) + number(3, 0) + events)
        said = {'core_count': 132, 'compute_cap_major': 9, 'compute_cap_minor': 0, 'memory_size': 80 << 30} if 'device' in plane and plane_stats else {}
        own = b''.join(text(6, stat(k, v)) for k, v in said.items())
        if 'device' in plane and plane_stats:
            own += text(6, number(1, numbered(stats, 'gpu_device_name')) + text(5, 'NVIDIA H100 80GB HBM3'))
        tables = b''.join(text(4, number(1, i) + text(2, number(1, i) + text(2, n))) for n, i in names.items())
        tables += b''.join(text(5, number(1, i) + text(2, number(1, i) + text(2, n))) for n, i in stats.items())
        space += text(1, number(1, len(space) + 1) + text(2, plane) + lines + tables + own)
    task = number(1, 9) + text(2, 'Task Environment') + text(5, number(1, 1) + text(2, number(1, 1) + text(2, 'profile_start_time')))
    return space + text(1, task + text(6, number(1, 1) + number(3, START)))


def chrome(rows=None):
    rows = run() if rows is None else rows
    planes = {p: 700 + i for i, p in enumerate(dict.fromkeys(line[0] for line, *_ in rows))}
    events = []
    for plane, pid in planes.items():
        events.append({'ph': 'M', 'pid': pid, 'name': 'process_name', 'args': {'name': plane}})
    for plane, tid, name in dict.fromkeys(line for line, *_ in rows):
        events.append({'ph': 'M', 'pid': planes[plane], 'tid': tid, 'name': 'thread_name', 'args': {'name': name}})
    for (plane, tid, _), name, start, duration, said in rows:
        event = {'ph': 'X', 'pid': planes[plane], 'tid': tid, 'ts': start / 1e6, 'dur': duration / 1e6, 'name': name}
        if said:
            event['args'] = {k: str(v) for k, v in said.items()}
        events.append(event)
    return json.dumps({'displayTimeUnit': 'ns', 'metadata': {'highres-ticks': True}, 'traceEvents': events + [{}]}).encode()


def write(folder, kind):
    """A file of one of the kinds; its path."""
    path = folder / {'json': 'host.trace.json.gz', 'xplane': 'host.xplane.pb', 'xplane.gz': 'host.xplane.pb.gz'}[kind]
    data = chrome() if kind == 'json' else xplane()
    path.write_bytes(data if kind == 'xplane' else gzip.compress(data, mtime=0))
    return path
