"""SQLite exports as Nsight Systems' versions write them, made row by row, and what `nsys stats` says of such a file,
computed in SQL by the definitions of its guide ("Statistical Reports Shipped With Nsight Systems")."""
import ast
import re
import sqlite3

KERNEL = ('start', 'end', 'deviceId', 'contextId', 'streamId', 'correlationId', 'globalPid', 'demangledName', 'shortName',
          'registersPerThread', 'gridX', 'gridY', 'gridZ', 'blockX', 'blockY', 'blockZ', 'staticSharedMemory',
          'dynamicSharedMemory', 'graphNodeId')
MEMCPY = ('start', 'end', 'deviceId', 'contextId', 'streamId', 'correlationId', 'globalPid', 'bytes', 'copyKind', 'srcKind',
          'dstKind', 'graphNodeId')
MEMSET = ('start', 'end', 'deviceId', 'contextId', 'streamId', 'correlationId', 'globalPid', 'value', 'bytes',
          'graphNodeId', 'memKind')
SYNC = ('start', 'end', 'deviceId', 'contextId', 'streamId', 'correlationId', 'globalPid', 'syncType', 'eventId')
RUNTIME = ('start', 'end', 'eventClass', 'globalTid', 'correlationId', 'nameId', 'returnValue', 'callchainId')
NVTX = ('start', 'end', 'eventType', 'rangeId', 'category', 'color', 'text', 'globalTid', 'endGlobalTid', 'textId',
        'domainId', 'uint64Value', 'int64Value', 'doubleValue', 'uint32Value', 'int32Value', 'floatValue', 'jsonTextId',
        'jsonText')
OSRT = ('start', 'end', 'eventClass', 'globalTid', 'nameId', 'returnValue', 'nestingLevel', 'callchainId')

# What a version has beyond the columns above, and what it lacks. The columns of 2019 are those of its guide.
VERSIONS = {
    '2019': {'without': {'NVTX_EVENTS': ('jsonTextId', 'jsonText'), 'OSRT_API': ('nestingLevel',),
                         'CUPTI_ACTIVITY_KIND_KERNEL': ('graphNodeId',), 'CUPTI_ACTIVITY_KIND_MEMSET': ('memKind', 'graphNodeId'),
                         'CUPTI_ACTIVITY_KIND_MEMCPY': ('srcKind', 'dstKind', 'graphNodeId')},
             'with': {}, 'meta': None},
    '2022': {'without': {}, 'with': {}, 'meta': ('EXPORT_META_DATA', '2022.1.3.3', '2.9.1')},
    '2024': {'without': {}, 'meta': ('META_DATA_EXPORT', '2024.6.2.225', '3.16.1'),
             'with': {'CUPTI_ACTIVITY_KIND_KERNEL': ('mangledName', 'greenContextId'), 'NVTX_EVENTS': ('binaryData',)}},
    '2026': {'without': {}, 'meta': ('META_DATA_EXPORT', '2026.2.1.210', '3.25.0'),
             'with': {'CUPTI_ACTIVITY_KIND_KERNEL': ('mangledName', 'greenContextId', 'graphId', 'clusterX'),
                      'CUPTI_ACTIVITY_KIND_MEMCPY': ('copyCount',), 'NVTX_EVENTS': ('binaryData', 'eventId'),
                      'CUPTI_ACTIVITY_KIND_SYNCHRONIZATION': ('deprecatedSyncType', 'eventSyncId')}},
}
TABLES = {'CUPTI_ACTIVITY_KIND_KERNEL': KERNEL, 'CUPTI_ACTIVITY_KIND_MEMCPY': MEMCPY, 'CUPTI_ACTIVITY_KIND_MEMSET': MEMSET,
          'CUPTI_ACTIVITY_KIND_SYNCHRONIZATION': SYNC, 'CUPTI_ACTIVITY_KIND_RUNTIME': RUNTIME, 'NVTX_EVENTS': NVTX,
          'OSRT_API': OSRT}

MAIN = 4711


def pid_of(pid, vm=1):
    return vm << 48 | pid << 24


def tid_of(tid, pid=MAIN):
    return pid_of(pid) | tid


class Export:
    """One file. Rows are given by column; what a version has no column for is left out, as an old one does."""

    def __init__(self, path, version='2026'):
        self.path, self.version = str(path), VERSIONS[version]
        self.db = sqlite3.connect(self.path)
        self.texts, self.made, self.correlation = {}, set(), 0
        self.db.execute('CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)')
        if self.version['meta']:
            table, product, schema = self.version['meta']
            self.table(table, 'name TEXT, value TEXT', [('EXPORT_PRODUCT_VERSION', product), ('EXPORT_SCHEMA_VERSION', schema),
                                                        ('EXPORT_SCHEMA_VERSION_MAJOR', schema.split('.')[0])])

    def table(self, name, columns, rows=()):
        self.db.execute(f'CREATE TABLE {name} ({columns})')
        rows = list(rows)
        if rows:
            self.db.executemany(f'INSERT INTO {name} VALUES ({",".join("?" * len(rows[0]))})', rows)

    def text(self, value):
        if value not in self.texts:
            self.texts[value] = len(self.texts) + 1
            self.db.execute('INSERT INTO StringIds VALUES (?, ?)', (self.texts[value], value))
        return self.texts[value]

    def row(self, table, **values):
        columns = [c for c in TABLES[table] if c not in self.version['without'].get(table, ())]
        columns += self.version['with'].get(table, ())
        if table not in self.made:
            self.made.add(table)
            quoted = ', '.join(f'"{c}" ' + ('TEXT' if c in ('text', 'jsonText', 'binaryData') else
                                            'REAL' if c in ('doubleValue', 'floatValue') else 'INTEGER') for c in columns)
            self.db.execute(f'CREATE TABLE {table} ({quoted})')
        self.db.execute(f'INSERT INTO {table} VALUES ({",".join("?" * len(columns))})', [values.get(c) for c in columns])

    def launch(self, name, at, start, end, *, pid=MAIN, tid=1, device=0, stream=7, call='cudaLaunchKernel_v7000', **more):
        """A call at `at` that takes 5 µs, and its kernel from start to end."""
        self.call(call, at, at + 5000, pid=pid, tid=tid)
        self.row('CUPTI_ACTIVITY_KIND_KERNEL', start=start, end=end, deviceId=device, contextId=1, streamId=stream,
                 correlationId=self.correlation, globalPid=pid_of(pid), demangledName=self.text(name),
                 shortName=self.text(name.split('<')[0]), registersPerThread=32, gridX=10, gridY=1, gridZ=1, blockX=256,
                 blockY=1, blockZ=1, staticSharedMemory=0, dynamicSharedMemory=1024, **more)

    def call(self, name, start, end, *, pid=MAIN, tid=1):
        self.correlation += 1
        self.row('CUPTI_ACTIVITY_KIND_RUNTIME', start=start, end=end, eventClass=0 if name.startswith('cuda') else 1,
                 globalTid=tid_of(tid, pid), correlationId=self.correlation, nameId=self.text(name), returnValue=0)

    def copy(self, at, start, end, bytes, kind=1, src=0, dst=2, *, pid=MAIN, tid=1, device=0):
        self.call('cudaMemcpyAsync_v3020', at, at + 4000, pid=pid, tid=tid)
        self.row('CUPTI_ACTIVITY_KIND_MEMCPY', start=start, end=end, deviceId=device, contextId=1, streamId=7,
                 correlationId=self.correlation, globalPid=pid_of(pid), bytes=bytes, copyKind=kind, srcKind=src, dstKind=dst)

    def set(self, at, start, end, bytes, *, pid=MAIN, tid=1, device=0):
        self.call('cudaMemsetAsync_v3020', at, at + 3000, pid=pid, tid=tid)
        self.row('CUPTI_ACTIVITY_KIND_MEMSET', start=start, end=end, deviceId=device, contextId=1, streamId=7,
                 correlationId=self.correlation, globalPid=pid_of(pid), value=0, bytes=bytes, memKind=2)

    def range(self, text, start, end, *, pid=MAIN, tid=1, kind=59, domain=0, registered=False, **more):
        name = {'textId': self.text(text)} if registered else {'text': text}
        self.row('NVTX_EVENTS', start=start, end=end, eventType=kind, globalTid=tid_of(tid, pid), domainId=domain, **name, **more)

    def system(self, name, start, end, *, pid=MAIN, tid=1):
        self.row('OSRT_API', start=start, end=end, eventClass=27, globalTid=tid_of(tid, pid), nameId=self.text(name),
                 returnValue=0, nestingLevel=0)

    def done(self):
        self.db.commit()
        self.db.close()
        return self.path


def step_loop(export, steps=6, pid=MAIN, device=0, tid=1, start=1_000_000, gap=200_000):
    """A training loop: each step loads, launches ten kernels of 100 µs, copies and waits."""
    t = start
    for i in range(steps):
        begin = t
        export.copy(t + 20_000, t + 30_000, t + 60_000, 1 << 20, pid=pid, tid=tid, device=device)
        for k in range(10):
            export.launch(f'void gemm<{k % 3}>(float*)', t + 70_000 + k * 8_000, t + 100_000 + k * 110_000,
                          t + 200_000 + k * 110_000, pid=pid, tid=tid, device=device)
        export.set(t + 160_000, t + 1_200_000, t + 1_205_000, 4096, pid=pid, tid=tid, device=device)
        export.call('cudaStreamSynchronize_v3020', t + 170_000, t + 1_206_000, pid=pid, tid=tid)
        export.range(f'step {i}', begin, t + 1_210_000, pid=pid, tid=tid)
        export.range('forward', begin + 65_000, begin + 155_000, pid=pid, tid=tid, registered=True)
        export.system('read', begin + 1_000, begin + 9_000, pid=pid, tid=tid)
        t += 1_210_000 + gap
    return t


# What nsys stats prints.

COPIES = {1: 'HtoD', 2: 'DtoH', 8: 'DtoD', 10: 'PtoP', 11: 'HtoD (Unified', 12: 'DtoH (Unified', 13: 'DtoD (Unified'}


def summed(rows):
    """{name: (instances, total, minimum, maximum)} of (name, value)."""
    out = {}
    for name, value in rows:
        n, total, least, most = out.get(name, (0, 0, value, value))
        out[name] = (n + 1, total + value, min(least, value), max(most, value))
    return out


def nsys_stats(path):
    """{report: {name: (instances, total, min, max)}}, by the columns that are there."""
    db = sqlite3.connect(f'file:{path}?mode=ro&immutable=1', uri=True)
    db.text_factory = lambda b: b.decode(errors='replace')
    tables = {r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    strings = dict(db.execute('SELECT id, value FROM StringIds')) if 'StringIds' in tables else {}
    out = {}

    def rows(table, *columns):
        if table not in tables:
            return []
        there = {r[1] for r in db.execute(f'PRAGMA table_info({table})')}
        return db.execute('SELECT ' + ', '.join(f'"{c}"' if c in there else 'NULL' for c in columns) + f' FROM {table}')

    out['cuda_gpu_kern_sum'] = summed((strings[n], e - s) for s, e, n in rows('CUPTI_ACTIVITY_KIND_KERNEL', 'start', 'end', 'demangledName'))
    memory = [(COPIES.get(k, '?'), e - s, b) for s, e, k, b in rows('CUPTI_ACTIVITY_KIND_MEMCPY', 'start', 'end', 'copyKind', 'bytes')]
    memory += [('memset', e - s, b) for s, e, b in rows('CUPTI_ACTIVITY_KIND_MEMSET', 'start', 'end', 'bytes')]
    out['cuda_gpu_mem_time_sum'] = summed((n, t) for n, t, _ in memory)
    out['cuda_gpu_mem_size_sum'] = summed((n, b) for n, _, b in memory)
    out['cuda_api_sum'] = summed((re.sub(r'_v\d{4,}$', '', strings[n]), e - s)
                                 for s, e, n in rows('CUPTI_ACTIVITY_KIND_RUNTIME', 'start', 'end', 'nameId'))
    out['osrt_sum'] = summed((strings[n], e - s) for s, e, n in rows('OSRT_API', 'start', 'end', 'nameId'))
    out['nvtx_sum'] = summed(nvtx_ranges(list(rows('NVTX_EVENTS', 'start', 'end', 'eventType', 'text', 'textId', 'domainId',
                                                   'globalTid')), strings))
    return out


def pyprof_name(text):
    """What profgpu calls a range of PyProf or DLProf: the function, or the place in the program."""
    if not re.match(r"\{'(mod|traceMarker)': ", text):
        return None
    try:
        said = ast.literal_eval(text)
    except (SyntaxError, ValueError):   # cut
        return None
    return f"{said['mod']}.{said['op']}" if 'mod' in said else said['funcStack'].removeprefix('/<module>/')


def nvtx_ranges(rows, strings):
    """(name with its domain, duration) of push-pop and start-end ranges. Those without an end last until the last event.
    What PyTorch puts behind an operator's name is left away, as profgpu leaves it away."""
    domains = {(d, t >> 24): text or strings.get(i, '') for s, e, kind, text, i, d, t in rows if kind == 75}
    last = max((max(s, e or s) for s, e, *_ in rows), default=0)
    for s, e, kind, text, text_id, domain, tid in rows:
        if kind not in (59, 60):
            continue
        name = text if text is not None else strings.get(text_id, '(no name)')
        name = re.sub(r'(, seq = \d+)?(, op_id = \d+)?(, sizes = \[.*\])?(, input_op_ids = \[.*\])?$', '', name) or name
        name = pyprof_name(name) or name
        named = domains.get((domain, (tid or 0) >> 24), '')
        yield (f'{named}: {name}' if named else name), (e if e is not None else last) - s
