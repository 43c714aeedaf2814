"""The definitions of the JSON contract once more, slow and plain: what `profgpu analyze --json` must say about a Kineto trace.

Nothing here is shared with the program. Times are integer nanoseconds, read from the decimal text without floating point.
Lists are scanned where an index would do; the traces of the tests are small.
"""
import bisect
import gzip
import json
import re
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal

OPS = {'cpu_op', 'Operator', 'operator'}
CALLS = {'cuda_runtime', 'Runtime', 'cuda_driver', 'Driver'}
KERNELS = {'kernel', 'Kernel', 'concurrent_kernel', 'mtia_ccp_events'}
COPIES = {'gpu_memcpy', 'Memcpy'}
SETS = {'gpu_memset', 'Memset'}
OTHER_HOST = {'python_function', 'overhead', 'Overhead'}

COMMUNICATION = re.compile(
    'nccl|rccl|cross_device_reduce|(one|two)_?shot_all_?reduce|multimem_all_?(reduce|gather)|nvshmem|deep_ep|mscclpp', re.I)
STEP = re.compile(r'ProfilerStep#\d+')
ENGINE_STEP = re.compile(
    r'execute_(context|new|\d+)_.*|step\[(DECODE|EXTEND|MIXED|PREFILL|TARGET_VERIFY|SPLIT_PREFILL|DRAFT_EXTEND).*'
    r'|(prefill|decode)\[.*|\[Executor\] _forward_step.*|execute_diffusion_.*|capture_\d+_.*')
LIKE_STEP = re.compile(r'(train(ing)?[ _-]?)?(step|iter|iteration|batch)[ _#:-]*\d+', re.I)
DATA_LOADING = re.compile(
    r'enumerate\(dataloader\).*|dataload(ing|er)?|loaddata|loadbatch|fetchbatch|nextbatch|getbatch')
CHECKPOINT = re.compile(r'(savecheckpoint|checkpointsave|save-checkpoint).*|checkpointing-?save|torch\.save|savemodel')
SYNCHRONIZE = re.compile(
    r'(cuda|hip)(Device|Stream|Event|Thread)Synchronize|cu(Ctx|Stream|Event)Synchronize|(Context|Stream|Event) Sync'
    r'|(cuda|hip)Memcpy(ToSymbol|FromSymbol|2D|WithStream|DtoH|HtoD)?|cuMemcpy(DtoH|HtoD)_v2')
ALLOCATION = re.compile(
    r'(cuda|hip)(Malloc|Free)(Async|Host|Managed)?|cudaMalloc(3D|Pitch)|cudaHost(Alloc|Register|Unregister)|hipHost(Malloc|Free)'
    r'|hipExtMallocWithFlags|cuMem(Alloc|Free)(_v2|Async)|cuMem(Create|Map|Unmap|Release|AddressReserve|SetAccess)')
# Left out of the op table by PyTorch's key_averages.
NOT_OPS = {'[memory]', '[OutOfMemory]', 'profiler::_record_function_enter', 'profiler::_record_function_enter_new',
           'profiler::_record_function_exit', 'aten::is_leaf', 'aten::output_nr', 'aten::_version'}
FIRST_USE_CALL = re.compile(
    r'(cu|hip)Init|(cu|hip)CtxCreate|cuDevicePrimaryCtxRetain|cuModuleLoad|hipModuleLoad|(cu|cuda)LibraryLoad|cuLibraryGet'
    r'|(cu|cuda|hip)StreamCreate|(cu|cuda|hip)GraphInstantiate|cudaGraphExecUpdate|(nv|hip)rtcCompile'
    r'|(cublas|cudnn|hipblas|miopen)Create|(miopen|cudnn)Find')
FIRST_USE_FRAME = re.compile(
    r'.*torch/_dynamo/convert_frame\.py.*: (_compile|compile_inner)'
    r'|.*torch/_inductor/.*: (compile_fx_inner|compile_to_module|benchmark_all_configs|autotune)'
    r'|.*triton/compiler/compiler\.py.*: compile|.*triton/runtime/autotuner\.py.*: (_bench|benchmark)', re.S)
PHASE_NAME = re.compile(r'forward.*|backward.*|optimizer.*|.*(step)?optimizer(step|zerograd)?')
MILLISECOND = 1_000_000
SHORT_NS = 10_000
LONG_COPY_CALL_NS = 20_000


def nanoseconds(value):
    """Decimal microseconds, half away from zero beyond the third digit."""
    return int((Decimal(value) * 1000).to_integral_value(ROUND_HALF_UP))


def load(path):
    raw = open(path, 'rb').read()
    if raw[:2] == b'\x1f\x8b':
        raw = gzip.decompress(raw)
    document = json.loads(raw.decode('utf-8', errors='replace'), parse_float=Decimal)
    return document if isinstance(document, dict) else {'traceEvents': document}


class Row:
    """A host range or an activity."""

    def __init__(self, event, kind):
        self.kind = kind
        self.layer = layer(event.get('cat', ''), kind)
        self.name = event.get('name', '')
        self.start = nanoseconds(event['ts'])
        self.duration = nanoseconds(event.get('dur', 0))
        self.end = self.start + self.duration
        self.thread = (str(event.get('pid')), str(event.get('tid')))
        args = event.get('args') or {}
        self.correlation = int(args.get('correlation') or 0)
        self.link = self.correlation if kind == 'call' else int(args.get('External id') or args.get('external id') or 0)
        if kind in ('kernel', 'memcpy', 'memset'):
            self.device = int(args.get('device', event.get('pid')))
            self.work = 'memory' if kind != 'kernel' else 'communication' if COMMUNICATION.search(self.name) else 'compute'
            self.launch = None


def category_kind(category):
    if category in OPS:
        return 'op'
    if category == 'user_annotation':
        return 'annotation'
    if category in CALLS or category.endswith(('_runtime', '_driver')):
        return 'call'
    if category in OTHER_HOST:
        return 'other'
    if category in KERNELS:
        return 'kernel'
    if category in COPIES:
        return 'memcpy'
    return 'memset' if category in SETS else None


def layer(category, kind):
    if kind == 'call':
        return 'driver' if category.lower().endswith('driver') else 'runtime'
    return ('python' if category == 'python_function' else 'overhead') if kind == 'other' else kind


class Window:
    """One file."""

    def __init__(self, document):
        self.host, self.activity = [], []
        self.base = int(document.get('baseTimeNanoseconds') or 0)
        self.properties = document.get('deviceProperties') or []
        for event in document['traceEvents']:
            if not isinstance(event, dict) or event.get('ph') != 'X':
                continue
            kind = category_kind(event.get('cat', 'cpu_op'))
            if kind is None:
                continue
            row = Row(event, kind)
            if row.duration < 0:
                continue
            (self.activity if hasattr(row, 'work') else self.host).append(row)
        # Ranges of the same start and length nest in this order.
        order = {'annotation': 0, 'op': 1, 'python': 2, 'runtime': 3, 'driver': 4, 'overhead': 5}
        self.host.sort(key=lambda r: (r.start, -r.duration, order[r.layer], r.link, r.name))
        self.activity.sort(key=lambda r: (r.device, r.start, r.duration, r.correlation, r.name))
        calls = {}
        for row in self.host:
            if row.kind == 'call' and row.correlation > 0:
                calls.setdefault(row.correlation, row)
        for row in self.activity:
            row.launch = calls.get(row.correlation)
        rows = self.host + self.activity
        self.start = min((r.start for r in rows), default=0)
        self.end = max((r.end for r in rows), default=0)

    def devices(self):
        return sorted({r.device for r in self.activity})

    def of_device(self, device):
        return [r for r in self.activity if r.device == device]


def merged(rows):
    out = []
    for start, end in sorted((r.start, r.end) if isinstance(r, Row) else r for r in rows):
        if end <= start:
            continue
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return [tuple(x) for x in out]


def length(intervals):
    return sum(end - start for start, end in intervals)


def common(a, b):
    """Length of the intersection of two unions."""
    return length(a) + length(b) - length(merged(list(a) + list(b)))


def percentile(values, q):
    values = sorted(values)
    at = (len(values) - 1) * q / 100
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


# --- devices ----------------------------------------------------------------------------------------------------------

def devices(windows):
    out = {}
    for device in sorted({d for w in windows for d in w.devices()}):
        total = defaultdict(int)
        for w in windows:
            rows = w.of_device(device)
            if not rows:
                continue
            unions = {k: merged(r for r in rows if r.work == k) for k in ('compute', 'communication', 'memory')}
            busy = merged(rows)
            rest = merged(unions['compute'] + unions['communication'])
            total['span_ns'] += max(r.end for r in rows) - min(r.start for r in rows)
            total['busy_ns'] += length(busy)
            for kind, union in unions.items():
                total[kind + '_ns'] += length(union)
            total['exposed_communication_ns'] += length(unions['communication']) - common(unions['communication'], unions['compute'])
            total['exposed_memory_ns'] += length(unions['memory']) - common(unions['memory'], rest)
        total['idle_ns'] = total['span_ns'] - total['busy_ns']
        out[device] = dict(total)
        overlap = total['communication_ns'] - total['exposed_communication_ns']
        out[device]['overlap_pct'] = 100 * overlap / total['communication_ns'] if total['communication_ns'] else None
        out[device]['utilization_pct'] = 100 * total['busy_ns'] / total['span_ns'] if total['span_ns'] else None
    return out


# --- steps ------------------------------------------------------------------------------------------------------------

def step_ranges(windows):
    for pattern in (STEP, ENGINE_STEP, LIKE_STEP):
        by_thread = defaultdict(list)
        for w in windows:
            for r in w.host:
                if r.kind in ('annotation', 'op') and pattern.fullmatch(r.name):
                    found = by_thread[r.thread]
                    if not found or found[-1][0] is not w or r.start >= found[-1][1].end:
                        found.append((w, r))
        if by_thread:
            # The thread with most of them; of several, the lowest.
            return max(sorted(by_thread.items(), key=lambda t: t[0]), key=lambda t: len(t[1]))[1]
    return []


def steps(windows):
    dev = devices(windows)
    busiest = max(dev, key=lambda d: (dev[d]['busy_ns'], -d)) if dev else None
    found = [(w, r.name, r.start, r.duration) for w, r in step_ranges(windows)]
    if not found:
        found = [(w, 'trace', w.start, w.end - w.start) for w in windows]
    out = []
    for w in windows:
        mine = [f for f in found if f[0] is w]
        last = incomplete(w, mine)
        durations = sorted(f[3] for f in mine if f is not last)
        limit = 1.5 * durations[(len(durations) - 1) // 2] if len(durations) > 1 and mine[0][1] != 'trace' else None
        leading = True
        for step in mine:
            _, name, start, duration = step
            leading = leading and step is not last and limit is not None and duration > limit
            busy = common(merged(w.of_device(busiest)), [(start, start + duration)]) if busiest is not None and duration else 0
            number = None if ENGINE_STEP.fullmatch(name) else re.search(r'\d+$', name)
            out.append({'name': name, 'index': int(number.group()) if number else len(out), 'start_ns': start + w.base - windows[0].base,
                        'duration_ns': duration, 'device': busiest,
                        'device_busy_ns': busy if busiest is not None else None,
                        'device_idle_ns': duration - busy if busiest is not None else None, 'warmup': leading,
                        'incomplete': step is last})
    return out


def incomplete(window, steps):
    """The last step, where it alone launches no device work and is under half of the others' lower median."""
    launches = sorted({r.launch.start for r in window.activity if r.launch is not None})

    def launches_in(step):
        at = bisect.bisect_left(launches, step[2])
        return at < len(launches) and launches[at] < step[2] + step[3]

    if len(steps) < 2 or launches_in(steps[-1]) or not all(launches_in(s) for s in steps[:-1]):
        return None
    others = sorted(s[3] for s in steps[:-1])
    return steps[-1] if 2 * steps[-1][3] < others[(len(others) - 1) // 2] else None


# --- kernels ----------------------------------------------------------------------------------------------------------

def kernels(windows):
    durations = defaultdict(list)
    for w in windows:
        for r in w.activity:
            durations[(r.device, r.name, r.work)].append(r.duration)
    total = defaultdict(int)
    for (device, _, _), d in durations.items():
        total[device] += sum(d)
    out = {}
    for key, d in durations.items():
        mean = sum(d) / len(d)
        out[key] = {'count': len(d), 'total_ns': sum(d), 'min_ns': min(d), 'max_ns': max(d), 'mean_ns': mean,
                    'median_ns': percentile(d, 50), 'p95_ns': percentile(d, 95),
                    'stddev_ns': (sum((x - mean) ** 2 for x in d) / (len(d) - 1)) ** 0.5 if len(d) > 1 else 0,
                    'kernel_pct': 100 * sum(d) / total[key[0]] if total[key[0]] else 0}
    return out


# --- ops --------------------------------------------------------------------------------------------------------------

class Node:
    def __init__(self, row):
        self.row, self.parent, self.children, self.launched = row, None, [], []


def trees(window):
    """Ranges nested by time alone, as PyTorch's EventList does; an only child of its parent's name is the same call."""
    threads = defaultdict(list)
    for row in window.host:
        if row.kind != 'other' and row.name not in NOT_OPS:
            threads[row.thread].append(Node(row))
    nodes = []
    for rows in threads.values():
        stack = []
        for node in rows:
            while stack and (node.row.start >= stack[-1].row.end or node.row.end > stack[-1].row.end):
                stack.pop()
            if stack:
                node.parent = stack[-1]
                stack[-1].children.append(node)
            stack.append(node)
        nodes += rows
    by_call = {id(n.row): n for n in nodes}
    for activity in window.activity:
        node = by_call.get(id(activity.launch)) if activity.launch is not None else None
        annotation = None
        while node is not None and node.row.kind != 'op':
            if node.row.kind == 'annotation' and annotation is None:
                annotation = node
            node = node.parent
        owner = node or annotation
        if owner is not None:
            owner.launched.append(activity.duration)
    kept = []
    for node in nodes:   # parents come before their children
        parent = node.parent
        if parent is not None and op_name(parent.row) == op_name(node.row) and len(parent.children) == 1:
            parent.children = node.children
            parent.launched += node.launched
            for child in node.children:
                child.parent = parent
        else:
            kept.append(node)
    return kept


def op_name(row):
    return 'ProfilerStep*' if row.name.startswith('ProfilerStep#') else row.name


def ops(windows):
    """{name: sorted rows}: annotations and ops of one name have a row each."""
    table = defaultdict(lambda: [0] * 5)
    for w in windows:
        nodes = trees(w)
        total = {}
        for node in reversed(nodes):
            total[id(node)] = sum(node.launched) + sum(total[id(c)] for c in node.children)
        for node in nodes:
            row = table[(op_name(node.row), node.row.kind == 'annotation')]
            for i, value in enumerate((1, node.row.duration, node.row.duration - sum(c.row.duration for c in node.children),
                                       total[id(node)], sum(node.launched))):
                row[i] += value
    out = defaultdict(list)
    for (name, _), row in table.items():
        out[name].append(tuple(row))
    return {name: sorted(rows) for name, rows in out.items()}


# --- idle -------------------------------------------------------------------------------------------------------------

def folded(name):
    return re.sub('[ #_]', '', name).lower()


def plain_call(name):
    return re.sub(r'_v\d{4}$', '', name)


def host_waits(window):
    """(start, end) of calls in which the host waits for the device."""
    return ((start, end) for _, start, end in host_waits_by_thread(window))


def host_waits_by_thread(window):
    first = {}
    for r in window.activity:
        if r.launch is not None and (id(r.launch) not in first or r.start < first[id(r.launch)].start):
            first[id(r.launch)] = r
    for r in window.host:
        if r.kind != 'call':
            continue
        copy = first.get(id(r))
        blocking = copy is not None and copy.kind == 'memcpy' and r.duration >= LONG_COPY_CALL_NS and r.end >= copy.start
        if blocking or SYNCHRONIZE.fullmatch(plain_call(r.name)):
            yield r.thread, r.start, r.end


def gaps(rows):
    """(start, end, activity that ends it, activity that ended last before it)."""
    until = last = None
    for r in sorted(rows, key=lambda r: (r.start, r.duration, r.correlation, r.name)):
        if until is not None and r.start > until:
            yield until, r.start, r, last
        if until is None or r.end >= until:
            until, last = r.end, r


def overlap(intervals, start, end):
    return sum(max(0, min(e, end) - max(s, start)) for s, e in intervals)


def without(intervals, taken):
    out = []
    for start, end in intervals:
        for s, e in taken:
            if e <= start or s >= end:
                continue
            if s > start:
                out.append((start, s))
            start = max(start, e)
        if start < end:
            out.append((start, end))
    return out


def lower_median(values):
    return sorted(values)[(len(values) - 1) // 2]


def first_use(window, device_waits):
    """Thread: intervals of work that happens once."""
    durations = defaultdict(list)
    for r in window.host:
        durations[r.name].append(r.duration)
    calls = [r.duration for r in window.host if r.kind == 'call']
    usual_call = lower_median(calls) if calls else 0

    def unusual(r, least):
        usual = lower_median(durations[r.name]) if len(durations[r.name]) >= 3 else 0
        if usual == 0 and r.kind == 'call':
            usual = usual_call
        return r.duration >= least and usual > 0 and r.duration // 20 >= usual

    has_ops, stacks, begun = set(), defaultdict(list), {}
    once, capture = defaultdict(list), defaultdict(list)
    for r in window.host:
        # Ranges may overlap without one in the other: the one that ends first of those that contain all of it.
        around = [p for p in stacks[r.thread] if p.end >= r.end and p.end > r.start and p.layer != 'python']
        if around and r.kind == 'op':
            has_ops.add(id(min(reversed(around), key=lambda p: p.end)))
        stacks[r.thread] = [p for p in stacks[r.thread] if p.end > r.start] + [r]
    for r in window.host:
        if r.kind == 'call' and 'StreamBeginCapture' in r.name:
            begun.setdefault(r.thread, r.start)
        if r.kind == 'call' and 'StreamEndCapture' in r.name and r.thread in begun:
            capture[r.thread].append((begun.pop(r.thread), r.end))
        if r.kind == 'annotation' and re.match(r'capture_\d+', r.name):
            capture[r.thread].append((r.start, r.end))
        if r.kind == 'call':
            first = FIRST_USE_CALL.match(r.name) or not SYNCHRONIZE.fullmatch(plain_call(r.name)) and unusual(
                r, 100 * MILLISECOND if ALLOCATION.fullmatch(plain_call(r.name)) else MILLISECOND)
        elif r.layer == 'python':
            first = FIRST_USE_FRAME.fullmatch(r.name)
        else:
            name = folded(r.name)
            first = r.name.endswith('(dynamo_timed)') or (
                window.activity and r.kind == 'op' and id(r) not in has_ops and unusual(r, MILLISECOND) and
                not any(p.fullmatch(name) for p in (CHECKPOINT, DATA_LOADING, PHASE_NAME)))
        if first:
            once[r.thread].append((r.start, r.end))
    return {thread: merged(without(merged(once[thread]), device_waits.get(thread, [])) + capture[thread])
            for thread in {*once, *capture}}


class IdleCauses:
    def __init__(self, window, device):
        self.window = window
        self.device_waits = defaultdict(list)
        for thread, start, end in host_waits_by_thread(window):
            self.device_waits[thread].append((start, end))
        self.device_waits = {thread: merged(waits) for thread, waits in self.device_waits.items()}
        self.host_functions = [r.start for r in window.host
                               if r.kind == 'call' and re.search('HostFunc|StreamAddCallback', r.name)]
        self.first_use = first_use(window, self.device_waits)
        self.any_busy = merged(window.activity)
        self.rows = window.of_device(device)
        self.waits = sorted(host_waits(window), key=lambda w: w[1])
        self.ends = [w[1] for w in self.waits]
        self.ranges = {}
        for row in window.host:
            if row.kind == 'call':
                kind = 'memory_allocation' if ALLOCATION.fullmatch(plain_call(row.name)) else None
            elif row.kind in ('op', 'annotation'):
                name = folded(row.name)
                kind = 'checkpoint' if CHECKPOINT.fullmatch(name) else 'data_loading' if DATA_LOADING.fullmatch(name) else None
            else:
                kind = None
            if kind is not None:
                self.ranges.setdefault((row.thread, kind), []).append(row)
        self.ranges = {key: merged(rows) for key, rows in self.ranges.items()}

    def unexplained(self, start, end, last):
        """Work is queued, and neither a recorded stream nor a host function can hold it up."""
        if end - start < MILLISECOND or overlap(self.any_busy, start, end) > 0:
            return False
        since = min(last.launch.start, start) if last.launch is not None else start
        return not any(since <= t < end for t in self.host_functions)

    def cause(self, start, end, ender, last):
        if ender.launch is None or not self.window.host:
            return 'unknown'
        launch, thread = ender.launch.start, ender.launch.thread
        once = self.first_use.get(thread, ())
        called = min(max(ender.launch.end, start), end)
        if 2 * overlap(once, start, called) > called - start and 2 * (called - start) > end - start:
            return 'first_use'
        if launch < start:
            if end - start < SHORT_NS:
                return 'launch_latency'
            return 'untraced_work' if self.unexplained(start, end, last) else 'dependency'
        limit = min(launch, end)
        waits = self.device_waits.get(thread, [])
        if end - limit >= MILLISECOND and 2 * (end - limit) > end - start:
            waited = overlap(self.any_busy, limit, end) == 0 and 2 * overlap(waits, limit, end) > end - limit
            return 'untraced_work' if waited else 'dependency'
        spent = {kind: self.ranges.get((thread, kind), ()) for kind in ('checkpoint', 'data_loading')}
        spent |= {'first_use': once, 'memory_allocation': self.ranges.get((thread, 'memory_allocation'), ())}
        for kind, intervals in spent.items():
            if 2 * overlap(intervals, start, limit) > limit - start:
                return kind
        queued = any(r.launch is not None and r.launch.start < start for r in self.rows if r.start >= end)
        if not queued and self.had_waited(start, limit):
            return 'synchronization'
        begun = [w for w in waits if start <= w[0] < end]
        if not queued and 2 * overlap(begun, start, limit) > limit - start and overlap(self.any_busy, start, limit) == 0:
            return 'untraced_work'
        return 'host_bound'

    def had_waited(self, start, limit):
        at = bisect.bisect_right(self.ends, start - SHORT_NS)
        return any(s < start and e <= limit for s, e in self.waits[at:bisect.bisect_right(self.ends, limit)])


def idle(windows):
    """{(device, cause): (total, count)}"""
    out = defaultdict(lambda: [0, 0])
    for w in windows:
        for device in w.devices():
            causes = IdleCauses(w, device)
            for start, end, ender, last in gaps(causes.rows):
                entry = out[(device, causes.cause(start, end, ender, last))]
                entry[0] += end - start
                entry[1] += 1
    return {key: tuple(value) for key, value in out.items()}


# --- launch -----------------------------------------------------------------------------------------------------------

def launch(windows):
    latencies, short, depths = [], [], []
    calls = 0
    for w in windows:
        owned = defaultdict(list)
        for r in w.activity:
            if r.launch is not None:
                owned[id(r.launch)].append(r)
        calls += len(owned)
        for rows in owned.values():
            first = min(rows, key=lambda r: r.start)
            call = first.launch
            latencies.append(first.start - call.start)
            if len(rows) == 1 and 'GraphLaunch' not in call.name and first.kind == 'kernel':
                short.append(first.duration < call.duration)
        for device in w.devices():
            pairs = [(r.launch.start, r.end, id(r.launch)) for r in w.of_device(device) if r.launch is not None]
            starts, ends = sorted(p[0] for p in pairs), sorted(p[1] for p in pairs)
            for time in {p[2]: p[0] for p in pairs}.values():
                depths.append(max(0, bisect.bisect_left(starts, time) - bisect.bisect_right(ends, time)))
    return {'launches': calls,
            'median_latency_ns': percentile(latencies, 50) if latencies else None,
            'p95_latency_ns': percentile(latencies, 95) if latencies else None,
            'short_kernels': sum(short) if short else 0,
            'short_kernel_pct': 100 * sum(short) / len(short) if short else None,
            'median_queue_depth': percentile(depths, 50) if depths else None}


# --- comparison -------------------------------------------------------------------------------------------------------

def near(got, want, whole=False):
    """Whole: nanoseconds, exact; a mean or a percentile between two of them is rounded to the nearest."""
    if got is None or want is None or isinstance(want, (str, bool)) or isinstance(got, str):
        return got == want
    if whole:
        return isinstance(got, int) and (got == want if isinstance(want, int) else abs(got - want) <= 0.5 + 1e-9 * abs(want))
    return abs(got - want) <= 1e-6 * max(1, abs(got), abs(want))


def differences(rank, windows):
    """What the program says of a rank and this file does not, as sentences."""
    out = []

    def same(what, got, want):
        if got != want:
            out.append(f'{what}: {got}, want {want}')

    def alike(what, got, want):
        for key, value in want.items():
            if not near(got.get(key), value, whole=key.endswith('_ns')):
                out.append(f'{what} {key}: {got.get(key)}, want {value}')

    want = devices(windows)
    same('devices', [d['id'] for d in rank['devices']], list(want))
    for got in rank['devices']:
        alike(f'device {got["id"]}', got, want.get(got['id'], {}))
    want = steps(windows)
    same('steps', [s['name'] for s in rank['steps']], [s['name'] for s in want])
    for got, expected in zip(rank['steps'], want):
        alike(f'step {got["name"]}', got, expected)
    want = kernels(windows)
    got = {(k['device'], k['name'], k['kind']): k for k in rank['kernels']}
    same('kernel rows', sorted(got.keys() ^ want.keys())[:3], [])
    for key in got.keys() & want.keys():
        alike(f'kernel {key[1][:60]}', got[key], want[key])
    want = ops(windows)
    table = defaultdict(list)
    for o in rank['ops']:
        table[o['name']].append((o['calls'], o['cpu_total_ns'], o['cpu_self_ns'], o['device_total_ns'], o['device_self_ns']))
    same('op rows', sorted(table.keys() ^ want.keys())[:3], [])
    for name in table.keys() & want.keys():
        same(f'op {name}', sorted(table[name]), want[name])
    want = idle(windows)
    same('idle', {(i['device'], i['cause']): (i['total_ns'], i['count']) for i in rank['idle'] if i['count']}, want)
    want = launch(windows)
    alike('launch', rank['launch'], want)
    return out
