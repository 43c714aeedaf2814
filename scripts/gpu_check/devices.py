"""What profgpu says of devices, beside what nvidia-smi says of them at the same time.

The device rests, works, half works and rests while `profgpu run` samples it ten times a second and nvidia-smi prints its
rows twice a second.
"""
import json
import os
import subprocess
import tempfile
import time

from gpu_check import fields

INTERVAL_S, SMI_INTERVAL_MS = 0.1, 500
EDGE_NS = 1_500_000_000           # of a phase at either end belongs to the change
ENERGY_PCT = 5                    # between the counter and power over time: NVIDIA gives the sensor that
JITTER_NS, LATE_PCT = 5_000_000, 1
PERCENTAGES = ('graphics_active_pct', 'sm_active_pct', 'sm_occupancy_pct', 'tensor_active_pct', 'dram_active_pct',
               'fp64_active_pct', 'fp32_active_pct', 'fp16_active_pct')


def end(child):
    """A program that hangs in the driver may not even heed SIGKILL: it is left behind then."""
    for stop in (child.terminate, child.kill):
        stop()
        try:
            child.wait(timeout=5)
            return
        except subprocess.TimeoutExpired:
            pass


class Watch:
    """nvidia-smi's rows while a block runs."""

    def __init__(self, machine):
        self.machine, self.child = machine, None
        self.names = self.accepted([f.smi[0] for f in fields.FIELDS])

    def query(self, names, *more):
        return [self.machine.smi, '--query-gpu=timestamp,index,' + ','.join(names), '--format=csv,noheader,nounits', *more]

    def accepted(self, names):
        """The names that this nvidia-smi knows: it refuses a query for the first that it does not, by name."""
        older = {name: f.smi[i + 1] for f in fields.FIELDS for i, name in enumerate(f.smi[:-1])}
        while names:
            answer = subprocess.run(self.query(names), capture_output=True, text=True, timeout=60, check=False)
            refused = [n for n in names if f'"{n}"' in answer.stdout + answer.stderr]
            if answer.returncode == 0 or not refused:
                break
            names = [older.get(n) if n in refused else n for n in names]
            names = [n for n in names if n]
        return names

    def __enter__(self):
        self.file = tempfile.TemporaryFile('w+')
        self.child = subprocess.Popen(self.query(self.names, '-lms', str(SMI_INTERVAL_MS)), stdout=self.file,
                                      stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        end(self.child)

    def series(self):
        """{(device index, metric): [(time_ns, value)]}."""
        by_name = {name: f for f in fields.FIELDS for name in f.smi}
        out = {}
        self.file.seek(0)
        for line in self.file:
            cells = line.rstrip('\n').split(', ')
            if len(cells) != len(self.names) + 2 or not line.endswith('\n'):
                continue   # the last may be cut
            stamp, milliseconds = cells[0].split('.')
            when = int(time.mktime(time.strptime(stamp, '%Y/%m/%d %H:%M:%S'))) * 10**9 + int(milliseconds) * 10**6
            for name, cell in zip(self.names, cells[2:]):
                value = fields.number(cell)
                if value is not None:
                    f = by_name[name]
                    out.setdefault((cells[1], f.metric), []).append((when, value * f.scale))
        return out


def our_series(path):
    """({(device index, metric): [(time_ns, value)]}, all processes seen) of a file of samples."""
    out, processes = {}, []
    with open(path, encoding='utf-8') as f:
        for line in f:
            row = json.loads(line)
            processes += row.pop('processes', [])
            for key, value in row.items():
                if key != 'time_ns' and key != 'device' and type(value) in (int, float):
                    out.setdefault((str(row['device']), key), []).append((row['time_ns'], value))
    for series in out.values():
        series.sort()
    return out, processes


def phases_of(path):
    """[(phase, from_ns, to_ns)], without the changes at either end; the load's process."""
    with open(path, encoding='utf-8') as f:
        rows = [json.loads(line) for line in f]
    edge = min(EDGE_NS, (rows[1]['time_ns'] - rows[0]['time_ns']) // 4)
    return [(a['phase'], a['time_ns'] + edge, b['time_ns'] - edge) for a, b in zip(rows, rows[1:])], rows[0]['pid']


def within(series, begin_ns, end_ns):
    return [(t, v) for t, v in series if begin_ns <= t <= end_ns]


def check(name, ok, said, **figures):
    return {'name': name, 'ok': ok, 'said': said, **figures}


def compare_fields(machine, ours, theirs):
    rows = []
    for device in machine.devices:
        for f in fields.FIELDS:
            key = (device['index'], f.metric)
            rows.append({'device': device['index'], **fields.compare(f, ours.get(key, []), theirs.get(key, []))})
    bad = [f'{r["metric"]} of device {r["device"]}: {r["said"]}' for r in rows if r['ok'] is False]
    compared = sum(r['ok'] is not None for r in rows)
    said = '; '.join(bad) or f'all {compared} that both say agree'
    return rows, check('fields', not bad and compared > 0, said)


def energy_check(index, ours, begin_ns, end_ns):
    counter = within(ours.get((index, 'energy_j'), []), begin_ns, end_ns)
    power = within(ours.get((index, 'power_instant_w')) or ours.get((index, 'power_w'), []), begin_ns, end_ns)
    power = within(power, counter[0][0], counter[-1][0]) if counter else []
    if len(counter) < 2 or len(power) < 2:
        return check('energy', None, 'there is no counter, or no power to hold it against')
    seconds = (power[-1][0] - power[0][0]) / 1e9
    integral = sum((b[0] - a[0]) / 1e9 * (a[1] + b[1]) / 2 for a, b in zip(power, power[1:]))
    counted = counter[-1][1] - counter[0][1]
    mean_w, counted_w = integral / seconds, counted / ((counter[-1][0] - counter[0][0]) / 1e9)
    off = 100 * (mean_w - counted_w) / counted_w if counted_w > 0 else None
    steps = [b[0] - a[0] for a, b in zip(counter, counter[1:]) if b[1] > a[1]]
    return check('energy', off is not None and abs(off) <= ENERGY_PCT,
                 'the counter does not move' if off is None else
                 f'counter {counted_w:.1f} W, power over time {mean_w:.1f} W, {off:+.2f} % (at most {ENERGY_PCT})',
                 counter_j=counted, seconds=seconds, off_pct=off, counter_moved=len(steps), readings=len(counter))


def gpm_check(index, ours, spans, simulated):
    """Percentages lie in 0 to 100; at full load multiprocessors and tensor cores are active, at rest they are not."""
    means, bad = {}, []
    for metric in PERCENTAGES:
        series = ours.get((index, metric), [])
        if any(not 0 <= v <= 100 for _, v in series):
            bad.append(f'{metric} leaves 0 to 100')
        for phase, begin, end in spans:
            values = [v for _, v in within(series, begin, end)]
            if values:
                means.setdefault(metric, {})[phase] = sum(values) / len(values)
    if not means:
        return check('chip counters', None, 'the device has none (GPM: Hopper and newer)')
    if not simulated:
        for metric, phase, least, most in (('sm_active_pct', 'work', 50, 100), ('tensor_active_pct', 'work', 10, 100),
                                           ('sm_active_pct', 'rest', 0, 5)):
            got = means.get(metric, {}).get(phase)
            if got is None or not least <= got <= most:
                bad.append(f'{metric} at {phase} is {got}, expected {least} to {most}')
    said = '; '.join(bad) or ', '.join(f'{m} {v.get("work", 0):.1f} at work' for m, v in means.items())
    return check('chip counters', not bad, said, means=means)


def sampler_check(run, seconds, simulated):
    """Only measured with stand-ins: a machine that runs tests may be busy with others."""
    s = run['sampler']
    ticks = max(s['ticks'], 1)
    late = 100 * (s['late_ticks'] + s['missed_ticks']) / ticks
    good = late <= LATE_PCT and s['jitter_p99_ns'] <= JITTER_NS and not run['troubles']
    return check('sampler', None if simulated else good,
                 f'{s["cpu_ns"] / ticks / 1000:.1f} µs of processor time and {s["calls"] / ticks:.2f} calls a reading, '
                 f'wake-ups {s["jitter_p50_ns"] / 1000:.0f} µs behind at the median and {s["jitter_p99_ns"] / 1000:.0f} at p99, '
                 f'{late:.2f} % late or missed, first reading after {s["first_reading_ns"] / 1e6:.1f} ms',
                 **s, busy_us_a_reading=s['busy_ns'] / ticks / 1000, wall_s=seconds)


def smi_processes(machine):
    answer = subprocess.run([machine.smi, '--query-compute-apps=gpu_uuid,pid,used_memory,name', '--format=csv,noheader,nounits'],
                            capture_output=True, text=True, timeout=60, check=False)
    rows = [line.split(', ', 3) for line in answer.stdout.splitlines()]
    return {int(r[1]): fields.number(r[2]) for r in rows if len(r) == 4 and r[1].isdigit()}


def process_check(machine, pid):
    """Taken while the load works: the same programs with the same memory as nvidia-smi lists, our own load among them."""
    theirs = smi_processes(machine)
    stat, why = machine.profgpu_json('stat', '--json', '--backend', 'nvml')
    if stat is None:
        return check('processes', False, 'stat: ' + why)
    listed = [p for d in stat['devices'] for p in d['processes']]
    ours = {p['pid']: (p['memory_bytes'] or 0) / fields.MIB for p in listed if p['type'] != 'G'}
    bad = [f'only {who} lists {n}' for who, n in [('nvidia-smi', n) for n in theirs.keys() - ours.keys()]
           + [('profgpu', n) for n in ours.keys() - theirs.keys()]]
    bad += [f'process {n} holds {ours[n]:.0f} MiB, nvidia-smi says {theirs[n]:.0f}' for n in theirs.keys() & ours.keys()
            if theirs[n] is not None and abs(ours[n] - theirs[n]) > 2]
    own = [p for p in listed if pid in (p['pid'], p['visible_pid'])]
    said = '; '.join(bad) or f'{len(theirs)} as nvidia-smi lists them; ' + (
        'the load is one of them' if own else 'the load is not among them by its own number: '
        + ('; '.join(str(p['unknown']) for p in listed) or 'nothing is listed'))
    return check('processes', not bad, said, nvidia_smi=len(theirs), profgpu=len(ours), own_found=bool(own))


def command_checks(machine):
    """devices, stat, pick and doctor, each against nvidia-smi's inventory."""
    yield inventory_check(machine, 'devices')
    yield inventory_check(machine, 'stat')
    picked = machine.profgpu('pick', '--max-memory', '100', '--max-util', '100')
    yield check('pick', picked.returncode == 0 and picked.stdout.strip() in {d['index'] for d in machine.devices},
                (picked.stdout + picked.stderr).strip())
    doctor, why = machine.profgpu_json('doctor', '--json')
    if doctor is None:
        yield check('doctor', False, why)
        return
    states = {b['name']: b['state'] for b in doctor['backends']}
    problems = [c['detail'] for c in doctor['checks'] if c['verdict'] == 'problem']
    unknown = sum(c['verdict'] == 'unknown' for c in doctor['checks'])
    # The stand-in for nvidia-smi starts too slowly for the time that doctor gives it.
    yield check('doctor', states['nvml'] == 'works' and (states['smi'] == 'works' or machine.simulated),
                f'NVML {states["nvml"]}, nvidia-smi {states["smi"]}; {len(doctor["checks"])} checks, {unknown} unknown; '
                + ('problems: ' + '; '.join(problems) if problems else 'no problem'), problems=problems)


def inventory_check(machine, command):
    document, why = machine.profgpu_json(command, '--json', '--backend', 'nvml', '--device', 'all')
    if document is None:
        return check(command, False, why)
    whole = [d for d in document['devices'] if d['mig_profile'] is None]
    ours = [(d['uuid'], d['name'], d['pci_bus_id'].lower()) for d in whole]
    theirs = [(d['uuid'], d['name'], d['pci.bus_id'].lower()) for d in machine.devices]
    same = ours == theirs and document['driver'] == machine.devices[0]['driver_version']
    return check(command, same, f'{len(ours)} devices as nvidia-smi lists them' if same else f'{ours} for {theirs}')


def wait_for_phase(path, phase, process, timeout_s):
    """The load's process number, once it is there; None if it never came."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and process.poll() is None:
        if os.path.exists(path):
            with open(path, encoding='utf-8') as f:
                rows = [json.loads(line) for line in f if line.endswith('\n')]
            if rows and rows[-1]['phase'] == phase:
                return rows[-1]['pid']
        time.sleep(0.05)
    return None


def watched_run(machine, folder):
    """(run's document, check of processes, our series, nvidia-smi's, the load's phases)."""
    samples, phases, summary = (os.path.join(folder, n) for n in ('samples.jsonl', 'phases.jsonl', 'summary.json'))
    words = [machine.program, 'run', '--quiet', '--json', '--backend', 'nvml', '--device', 'all', '-i', str(INTERVAL_S),
             '--samples', samples, '--', *machine.load(phases)]
    with Watch(machine) as watch, open(summary, 'w+', encoding='utf-8') as out:
        process = subprocess.Popen(words, stdout=out, stdin=subprocess.DEVNULL)
        try:
            pid = wait_for_phase(phases, 'work', process, 120 + machine.seconds)
            time.sleep(machine.seconds / 16)
            processes = process_check(machine, pid)
            process.wait(timeout=120 + machine.seconds)
        finally:
            end(process)
    with open(summary, encoding='utf-8') as f:
        lines = f.read().splitlines()
    if process.returncode or not lines:
        raise RuntimeError(f'profgpu run ended with {process.returncode}')
    ours, _ = our_series(samples)
    return json.loads(lines[-1]), processes, ours, watch.series(), phases_of(phases)[0]


def not_compared(ours):
    compared = {f.metric for f in fields.FIELDS}
    return sorted({metric for _, metric in ours} - compared - {'numa_node'})


def run(machine):
    with tempfile.TemporaryDirectory() as folder:
        try:
            summary, processes, ours, theirs, spans = watched_run(machine, folder)
        except (RuntimeError, subprocess.TimeoutExpired, OSError) as e:
            return {'checks': [check('load', False, str(e))]}
    rows, agreement = compare_fields(machine, ours, theirs)
    loaded = machine.devices[0]['index']
    work = next((begin, end) for phase, begin, end in spans if phase == 'work')
    checks = [agreement, energy_check(loaded, ours, *work), gpm_check(loaded, ours, spans, machine.simulated), processes,
              sampler_check(summary, summary['wall_ns'] / 1e9, machine.simulated), *command_checks(machine)]
    return {'checks': checks, 'fields': rows, 'not_said_by_nvidia_smi': not_compared(ours)}
