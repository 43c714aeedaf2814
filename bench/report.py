#!/usr/bin/env python3
"""docs/performance.md from the results of the other scripts: bench/report.py BUILD"""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from machine import in_words, result_path  # noqa: E402

DOCUMENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'docs', 'performance.md')
TARGETS = {50: {'plain': 1.5, 'gzip': 1.2}, 500: {'plain': 2.0, 'gzip': 1.6}}   # times the one-core walk, by MB of text


def load(build, name):
    path = result_path(build, name)
    if not os.path.exists(path):
        return None
    with open(path) as f:
        return json.load(f)


def spread(s, form):
    return f'{form % s["median"]} ({form % s["least"]}–{form % s["most"]})'


def at_priority(m):
    """Under `chrt -f 10`, other work does not take the cores away."""
    return ', at real-time priority' if m.get('real_time') else ''


def where(m, on='On'):
    """When and on what: sections of the page may be of different machines."""
    return f'{on} {m["date"]} ({m["cpu"]}, {m["cores"]} cores), load before: {m["load_before"]:.1f}{at_priority(m)}'


def machine_lines(m):
    return (f'Measured on {m["date"]}: {in_words(m)}. Load of the machine before the runs: {m["load_before"]:.1f}{at_priority(m)}'
            + (': other work ran beside them, so the figures are too low.' if m['load_before'] > 1.5 else '.'))


def sizes_table(sizes):
    yield '| text | events | form | wall s | CPU s | MB/s of text | against the walk | best runs | peak memory | of the text |'
    yield '| ---: | ---: | --- | --- | ---: | ---: | --- | ---: | ---: | ---: |'
    for s in sizes:
        for form in ('plain', 'gzip'):
            f = s[form]
            yield (f'| {s["text_bytes"] / 1e6:.1f} MB | {s["events"]:,} | {form} | {spread(f["wall_s"], "%.3f")} | {f["cpu_s"]["median"]:.3f} | '
                   f'{f["rate_mb_s"]["median"]:.0f} | {spread(f["ratio_to_walk"], "%.2f")} | {f["ratio_of_best"]:.2f} | '
                   f'{f["peak_bytes"] / 1e6:.1f} MB | {f["peak_over_text"]:.3f} |')


def growth(sizes):
    first, last = sizes[0], sizes[-1]
    more = last['text_bytes'] / first['text_bytes']
    wall = last['plain']['wall_s']['median'] / first['plain']['wall_s']['median']
    memory = last['plain']['peak_bytes'] / first['plain']['peak_bytes']
    return (f'From {first["text_bytes"] / 1e6:.0f} to {last["text_bytes"] / 1e6:.0f} MB the text grows {more:.0f} times, the wall time '
            f'{wall:.0f} times and the peak memory {memory:.0f} times.')


def verdicts(result, peers):
    sizes = {s['megabytes']: s for s in result['sizes']}
    def row(text, value, shown, met):
        return f'| {text} | {shown} | {"met" if met else "missed"} |'

    for megabytes in (50, 500):
        for form, target in TARGETS[megabytes].items():
            if megabytes in sizes:
                value = sizes[megabytes][form]['ratio_to_walk']['median']
                yield row(f'{megabytes} MB {form}: {target} times the rate of the one-core walk', value, f'{value:.2f}', value >= target)
    if 500 in sizes:
        for form in ('plain', 'gzip'):
            value = sizes[500][form]['peak_over_text']
            yield row(f'500 MB {form}: peak memory at most 0.22 of the text', value, f'{value:.3f}', value <= 0.22)
    most = max(s['bytes_per_event'] for s in sizes.values() if s['megabytes'] >= 50 or len(sizes) == 1)
    yield row('40 bytes per event or less in memory, from 50 MB', most, f'{most:.1f}', most <= 40)
    value = result['start_up_ms']['median']
    yield row('`profgpu --help` under 10 ms', value, f'{value:.1f} ms', value < 10)
    if peers:
        value = peers['plain']['times']
        yield row('120 times as fast as HolisticTraceAnalysis', value, f'{value:.1f} times', value >= 120)


def peers_lines(peers):
    yield ''
    yield '## Beside HolisticTraceAnalysis'
    yield ''
    yield ('One trace, both programs, runs alternating. HolisticTraceAnalysis: parsing and four breakdowns (temporal, kernel, overlap, idle), '
           'its import not counted. profgpu: the whole process with the whole report as JSON.')
    yield ''
    yield '| form | HTA s | of which parse | HTA peak | profgpu s | profgpu peak | times as fast | best runs |'
    yield '| --- | --- | ---: | ---: | --- | ---: | ---: | ---: |'
    for form in ('plain', 'gzip'):
        p = peers[form]
        yield (f'| {form} | {spread(p["hta"]["total_s"], "%.2f")} | {p["hta"]["parse_s"]["median"]:.2f} | {p["hta"]["peak_bytes"] / 1e6:.0f} MB | '
               f'{spread(p["profgpu"]["wall_s"], "%.3f")} | {p["profgpu"]["peak_bytes"] / 1e6:.0f} MB | {p["times"]:.0f} | {p["times_of_best"]:.0f} |')
    yield ''
    m = peers['machine']
    yield f'{where(m)}. Version {peers["plain"]["hta"]["version"]}, {peers["text_bytes"] / 1e6:.1f} MB of text, {peers["runs"]} runs of it and three times as many of profgpu.'
    for form in ('plain', 'gzip'):
        for name, why in peers[form]['hta']['failed'].items():
            yield f'Its {name} breakdown failed on the {form} file ({why}), so its time lacks that.'


def sampler_verdicts(s):
    """Rows of the table of targets."""
    for row in s['costs']:
        value = row['ratio_to_bare']['median']
        yield (f'| sampling {row["devices"]} at {row["hz"]} Hz, {call_words(row["delay"])}: 1.2 times the bare loop | {value:.2f} | '
               f'{"met" if value <= 1.2 else "missed"} |')
    memory = max([r['run']['own_bytes']['median'] for r in s['costs']] + [m['own_bytes'] for m in s['log_memory']])
    yield f'| under 6 MB resident while sampling | {memory / 1e6:.1f} MB | {"met" if memory < 6e6 else "missed"} |'
    first = max(f['ms']['median'] for f in s['first_sample'])
    yield f'| first sample within 10 ms | {first:.1f} ms | {"met" if first <= 10 else "missed"} |'
    for text, counts in (('', (0, 1, 8)), (' with 16 devices', (16,))):
        most = max(a['ms']['median'] for a in s['added'] if a['devices'] in counts)
        yield f'| `profgpu -- true` adds under 15 ms{text} | {most:.1f} ms | {"met" if most < 15 else "missed"} |'


def top_verdicts(t):
    """Rows of the table of targets."""
    ours = t['programs']['profgpu top']
    for value, target, unit, text in (
            (max(r['first_frame_ms'] for r in ours.values()), 10, ' ms', f'`profgpu top`: first frame with {t["devices"]} devices within 10 ms'),
            (ours['0.1']['cpu_pct'], 1.3, ' %', f'`profgpu top`: {t["devices"]} devices ten times per second in 1.3 % of a core'),
            (max(r['own_bytes'] for r in ours.values()) / 1e6, 6, ' MB', '`profgpu top`: under 6 MB resident')):
        yield f'| {text} | {value:.{2 if unit == " %" else 1}f}{unit} | {"met" if value <= target else "missed"} |'


def top_lines(t):
    m = t['machine']
    yield from ['', '## The screen', '',
                f'`profgpu top`, nvitop and gpustat alternating, each in a terminal of {t["columns"]} × {t["rows"]} cells with {t["devices"]} devices of the same stand-in. '
                'The first frame is there when the screen has the memory of each device; CPU time and memory are of the window from two seconds after it. '
                f'The shortest interval of nvitop is 0.25 s. {where(m)}.', '',
                '| program | every s | first frame ms | one core | resident MB | without the stand-in MB |', '| --- | ---: | ---: | ---: | ---: | ---: |']
    for name, intervals in t['programs'].items():
        for interval, r in intervals.items():
            yield (f'| {name} | {interval} | {r["first_frame_ms"]:.1f} | {r["cpu_pct"]:.2f} % | {r["resident_bytes"] / 1e6:.1f} | {r["own_bytes"] / 1e6:.1f} |')


def call_words(delay):
    return 'instant calls' if delay == 'instant' else 'calls of 50 µs'


def sampler_lines(s):
    m = s['machine']
    yield from ['', '## Sampling devices', '',
                'Measured with a stand-in for the driver\'s library (`tests/stubs/nvml`), not with a GPU: what the program adds to the calls is '
                'real, what the calls cost is not. The stand-in costs all programs alike. '
                f'{where(m)}. Median (least–most) of {s["rounds"]} rounds, the programs alternating.', '',
                'CPU time of the whole process per tick, from a second after its start on. The bare loop is `bench/bare_sampler.cc`: it '
                'makes the calls that `profgpu run` makes, as often, and does nothing with them. The Python loop makes three calls per device '
                'with nvidia-ml-py. Calls of 50 µs are busy for that time.', '',
                '| calls | devices | Hz | calls per device | run µs | bare loop µs | Python µs | run / bare loop | Python / run | run late, missed |',
                '| --- | ---: | ---: | ---: | --- | --- | --- | --- | --- | ---: |']
    for r in s['costs']:
        yield (f'| {call_words(r["delay"])} | {r["devices"]} | {r["hz"]} | {r["calls_per_device_tick"]:.2f} | '
               + ' | '.join(spread(r[name]['cpu_us'], '%.1f') for name in ('run', 'bare', 'python'))
               + f' | {spread(r["ratio_to_bare"], "%.2f")} | {spread(r["ratio_of_python"], "%.1f")} | '
               + f'{r["run"]["late_ticks"]["median"]:.0f}, {r["run"]["missed_ticks"]["median"]:.0f} |')
    yield from ['', 'Resident memory in MB at the end of that time, without the stand-in and the C++ library that only it needs, and wake-ups behind '
                'schedule in µs (median, 99th percentile, most):', '',
                '| calls | devices | Hz | run MB | bare loop MB | Python MB | run late by | bare loop late by |', '| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |']
    for r in s['costs']:
        late = [', '.join(f'{r[name][f"jitter_{p}_ns"]["median"] / 1e3:.0f}' for p in ('p50', 'p99', 'max')) for name in ('run', 'bare')]
        yield (f'| {call_words(r["delay"])} | {r["devices"]} | {r["hz"]} | '
               + ' | '.join(f'{r[name]["own_bytes"]["median"] / 1e6:.1f}' for name in ('run', 'bare', 'python')) + f' | {late[0]} | {late[1]} |')
    yield ''
    for m in s['log_memory']:
        yield f'`profgpu log` of {m["devices"]}: {m["own_bytes"] / 1e6:.1f} MB.'
    yield from ['', '| | devices | calls | ms |', '| --- | ---: | --- | --- |']
    for f in s['first_sample']:
        yield f'| `profgpu log`, from its start to its first row | {f["devices"]} | {call_words(f["delay"])} | {spread(f["ms"], "%.1f")} |'
    for a in s['added']:
        words = call_words(a['delay']) if a['devices'] else ''
        yield f'| `profgpu -- true` longer than `true` | {a["devices"] or "none"} | {words} | {spread(a["ms"], "%.1f")} |'
    k = s['soak']
    yield from ['', f'Eight devices at 100 Hz for {k["seconds"]:.0f} s: {k["ticks"]:,} ticks, {k["missed_ticks"]} missed, {k["late_ticks"]} late by over half '
                f'an interval; late by {k["jitter_p50_ns"] / 1e3:.0f} µs (median), {k["jitter_p99_ns"] / 1e3:.0f} µs (99th percentile); '
                f'{k["resident_early_bytes"] / 1e6:.2f} MB at the start, {k["resident_late_bytes"] / 1e6:.2f} MB at the end. Beside it one device every two '
                f'seconds: {k["driver_values"]:,} of the {k["driver_values_due"]:,} values that the driver had measured in that time.']


def recorder_lines(r):
    m = r['machine']
    yield from ['', '## Recording', '',
                'Measured with stand-ins for the driver and for CUPTI (`tests/stubs/cuda`), not with a GPU: what we do with a record is real, what '
                'CUPTI takes is not. A record costs the stand-in that makes it and us that read and write it, CPU time of all threads; '
                f'each kernel comes with two calls. {where(m)}. Median (least–most) of {r["rounds"]} rounds.', '',
                '| CUPTI (simulated) | kernels/s requested | kernels/s | ns per record | dropped | bytes per kernel | bytes per call | most memory MB |',
                '| --- | ---: | --- | --- | ---: | ---: | ---: | ---: |']
    for row in r['runs']:
        asked = f'{row["asked_per_s"]:,}' if row['asked_per_s'] else 'all'
        cost = spread(row['ns_a_record'], '%.0f') if row['ns_a_record'] else ''
        yield (f'| {row["cupti"]} | {asked} | {spread(row["kernels_per_s"], "%.0f")} | {cost} | {row["dropped"]} | '
               f'{row["bytes"]["kernel"]:.1f} | {row["bytes"]["call"]:.1f} | {row["peak_mb"]:.0f} |')


def inject_lines(r):
    m, flood = r['machine'], r['flood']
    yield from ['', '## Recording without a GPU', '',
                f'{where(m)}. Median (least–most) of {r["rounds"]} rounds of `bench/inject.py`.', '',
                '| | |', '| --- | --- |']
    for threads, ns in r['event_ns'].items():
        yield f'| one range event, {threads} thread{"s" if threads != "1" else ""} on {m["cores"]} cores | {spread(ns, "%.0f")} ns |'
    yield from [f'| as many as two threads can make: events/s made | {spread(flood["made_per_s"], "%.0f")} |',
                f'| of these recorded; the rest is counted as dropped | {spread(flood["recorded_per_s"], "%.0f")} |',
                f'| bytes per event in the file | {spread(flood["bytes_an_event"], "%.1f")} |',
                f'| resident memory of that process at its most | {flood["resident_bytes"] / 1e6:.0f} MB |',
                f'| added to the start of a process that uses no CUDA: environment set | {spread(r["set_us"], "%.0f")} µs |',
                f'| the same, library preloaded too | {spread(r["preloaded_us"], "%.0f")} µs |']


def switch_lines(r):
    m = r['machine']
    names = {'pipe_one': 'a byte to another process and back, on one processor', 'pipe_two': 'the same, on two processors',
             'threads': 'a thread begun and ended'}
    yield from ['', '## Context switches', '',
                f'{where(m)}. Median (least–most) of {r["rounds"]} rounds of `bench/switches.py`, alternating: '
                'bare, with samples of threads alone (`--no-perf-events`), with switches.', '',
                '| µs each | bare | sampled | with switches | our own CPU time for all | lost | file bytes |',
                '| --- | --- | --- | --- | ---: | ---: | ---: |']
    for name, work in r['work'].items():
        ns = [spread({k: v / 1000 for k, v in work['ns'][mode].items()}, '%.2f') for mode in ('bare', 'sampled', 'switches')]
        yield (f'| {names[name]}, {work["count"]:,} times | {" | ".join(ns)} | {work["said"]["cpu_ns"] / 1e6:.0f} ms | '
               f'{work["said"]["lost_switches"]} | {work["said"]["file_bytes"]} |')
    yield from ['', 'Each thread has an event for each processor, and a switch walks past all of them. More processors than there are, '
                'simulated by as many events:', '', '| processors | byte and back, µs | thread, µs |', '| ---: | --- | --- |']
    for processors, ns in r['processors'].items():
        of = [spread({k: v / 1000 for k, v in ns[name].items()}, '%.2f') for name in ('pipe_one', 'threads')]
        yield f'| {processors} | {" | ".join(of)} |'


def build_verdicts(b):
    """Rows of the table of targets."""
    slowest = max(b['one_file'].values())
    for text, value, target in ((f'cold release build: {b["targets"]["cpu_s"]} s of CPU time at most', b['cold']['cpu_s'], b['targets']['cpu_s']),
                                (f'one file changed: the program within {b["targets"]["one_file_s"]} s', slowest, b['targets']['one_file_s'])):
        yield f'| {text} | {value:.0f} s | {"met" if value <= target else "missed"} |'


def build_lines(b):
    yield from ['', '## Building', '',
                f'{where(b["machine"])}. `bench/build.py`: the release preset without tests, nothing from a compiler cache: '
                f'{b["cold"]["cpu_s"]:.0f} s of CPU time, {b["cold"]["wall_s"]:.0f} s wall.', '',
                '| room | s |', '| --- | ---: |', *(f'| {room} | {s:.1f} |' for room, s in b['rooms'].items()), '',
                'The units that take longest:', '', '| unit | s |', '| --- | ---: |',
                *(f'| `{u["unit"]}` | {u["s"]:.1f} |' for u in b['slowest']), '',
                'From one changed file, the largest of its room, to the program:', '', '| file | s |', '| --- | ---: |',
                *(f'| `{name}` | {s:.1f} |' for name, s in sorted(b['one_file'].items(), key=lambda f: -f[1]))]


def leaf_lines(build):
    rows, day = [], ''
    for path in sorted(glob.glob(result_path(build, 'leaf_*'))):
        with open(path) as f:
            result = json.load(f)
            day = result['context']['date'][:10]
            for b in result['benchmarks']:
                rate = (f'{b["bytes_per_second"] / 1e6:,.0f} MB/s' if 'bytes_per_second' in b
                        else f'{1e9 / b["items_per_second"]:.1f} ns per item' if 'items_per_second' in b else '')
                rows.append(f'| {os.path.basename(path)[5:-5]} | {b["name"].replace("/real_time", "")} | {rate} |')
    if rows:
        yield from ['', '## Hot leaves', '', f'On {day}.', '', '| leaf | benchmark | |', '| --- | --- | ---: |', *rows]


def page_lines(r):
    m = r['machine']
    lines = ['', '## The page of an HTML report', '',
             f'{where(m)}. `bench/page.py`: `profgpu analyze` of simulated traces with and without `--html`, '
             'in turns; median (least–most).', '',
             '| events | text | page | events on it one by one | without `--html` | `--html` adds | peak memory | with `--html` |',
             '| ---: | ---: | ---: | ---: | --- | --- | ---: | ---: |']
    for s in r['sizes']:
        lines.append(f'| {s["events"]:,} | {s["text_bytes"] / 1e6:.0f} MB | {s["page_bytes"] / 1e6:.1f} MB | {s["kept"]:,} | '
                     f'{spread(s["analyze_s"], "%.2f")} s | {spread(s["added_s"], "%.2f")} s | {s["peak_bytes"] / 1e6:.0f} MB | '
                     f'{s["peak_with_page_bytes"] / 1e6:.0f} MB |')
    return lines


def frame_lines(r):
    lines = ['', '## The timeline of the page', '',
             f'{where(r)}. `bench/page_frames.mjs`: made-up packs with every event kept, in headless Chromium without a GPU (it '
             'paints on the processor), 1280 × 800 pixels, 60 frames a second at the most (16.7 ms). First picture: from opening the file. '
             f'{r["frames"]} frames a row; median, and in 95 of 100 frames at most.']
    lines += frame_table(r['rows'])
    if r.get('memory_rows'):
        lines += ['', 'The view of memory snapshots, of a made-up history of a training job: the cursor takes the allocator\'s state along.']
        lines += frame_table(r['memory_rows'])
    return lines


def frame_table(rows):
    lines = ['', '| events | pack | first picture | all detail | move | frame ms | of 95 % | our script ms | of 95 % |',
             '| ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |']
    for s in rows:
        opening = f'{s["events"]:,} | {s["pack_bytes"] / 1e6:.1f} MB | {s["first_ms"] / 1e3:.1f} s | {s["detailed_ms"] / 1e3:.1f} s'
        for name, m in s['moves'].items():
            lines.append(f'| {opening} | {name} | {m["median"]:.1f} | {m["p95"]:.1f} | {m["script"]:.1f} | {m["script_p95"]:.1f} |')
            opening = '| | |'
    return lines


def export_lines(r):
    m = r['machine']
    lines = ['', '## Exports and queries', '',
             f'{where(m)}. `bench/export.py`: each run reads the trace anew, so the first row says what reading '
             'costs.', '',
             '| text | what | wall s | MB/s of text | peak memory | output, of the text |', '| ---: | --- | --- | ---: | ---: | ---: |']
    for s in r['sizes']:
        for row in s['rows']:
            share = '' if row['output_bytes'] is None else f'{row["output_bytes"] / s["text_bytes"]:.2f}'
            lines.append(f'| {s["text_bytes"] / 1e6:.1f} MB | {row["name"]} | {spread(row["wall_s"], "%.2f")} | {row["rate_mb_s"]:.0f} | '
                         f'{row["peak_bytes"] / 1e6:.0f} MB | {share} |')
    return lines


def nsight_verdicts(n):
    """Rows of the table of targets."""
    for threads, key in (('one thread', 'of_select_one_thread'), ('all threads', 'of_select')):
        yield (f'| Nsight Systems export, {threads}: {n["target"]:.0%} of the rate of `select` alone | {n[key]:.0%} | '
               f'{"met" if n[key] >= n["target"] else "missed"} |')


def nsight_lines(n):
    return ['', '## Exports of Nsight Systems', '',
            f'{where(n)}. `bench/nsight.py`: {n["rows"]:,} rows, a file of {n["file_bytes"] / 1e6:.0f} MB in the page cache; medians. The yardstick is '
            '`bench/bare_select.cc`: SQLite alone selects the same columns on one core and takes each cell once. profgpu also sorts and links.', '',
            '| what | s |', '| --- | ---: |', f'| select alone | {n["select_s"]:.2f} |', f'| profgpu, one thread | {n["one_thread_s"]:.2f} |',
            f'| profgpu, all threads | {n["all_threads_s"]:.2f} |', '', f'In memory: {n["trace_bytes"] / n["events"]:.1f} bytes a row.']


def work_verdicts(w):
    """Rows of the table of targets."""
    added = max(row['added_pct'] for row in w['rows'])
    yield (f'| work and limits: at most {w["target_pct"]} % of the report without them, {w["text_bytes"] / 1e6:.0f} MB of text | {added:.1f} % | '
           f'{"met" if added <= w["target_pct"] else "missed"} |')


def work_lines(w):
    yield from ['', '## Work and limits', '',
                f'{where(w["machine"])}. `bench/work.py`: a trace with shapes, {w["text_bytes"] / 1e6:.0f} MB of text, read and reported with all analyses and as if no operator '
                f'had work and no device a limit, in turns. Median (least–most) of {w["runs"]} runs.', '',
                '| threads | with s | without s | more |', '| --- | --- | --- | ---: |']
    for row in w['rows']:
        yield f'| {row["threads"]} | {spread(row["with_s"], "%.3f")} | {spread(row["without_s"], "%.3f")} | {row["added_pct"]:.1f} % |'


def snapshot_verdicts(s):
    """Rows of the table of targets."""
    for row in s['rows']:
        what = f'memory snapshot of {row["bytes"] / 1e6:.0f} MB, stacks {row["stacks"]}'
        yield (f'| {what}: {s["target_mb_s"]} MB/s | {row["mb_s"]["median"]:.0f} MB/s | '
               f'{"met" if row["mb_s"]["median"] >= s["target_mb_s"] else "missed"} |')
        yield (f'| {what}: peak memory at most {s["target_memory"]:.0%} of the file | {row["of_file"]:.0%} | '
               f'{"met" if row["of_file"] <= s["target_memory"] else "missed"} |')


def snapshot_lines(s):
    yield from ['', '## Memory snapshots', '',
                f'{where(s["machine"])}. `bench/snapshot.py`: a training job\'s history of allocations, its stacks written out for each event or shared by events that have the '
                f'same. `profgpu analyze --json`, the whole report included, file in the page cache. Median (least–most) of {s["runs"]} runs.', '',
                '| stacks | file | MB/s | CPU s | peak memory | of the file |', '| --- | ---: | --- | ---: | ---: | ---: |']
    for row in s['rows']:
        yield (f'| {row["stacks"]} | {row["bytes"] / 1e6:.0f} MB | {spread(row["mb_s"], "%.0f")} | {row["cpu_s"]["median"]:.2f} | {row["peak_bytes"] / 1e6:.0f} MB | '
               f'{row["of_file"]:.2f} |')


def logs_verdicts(r):
    """Rows of the table of targets."""
    for row in r['rows'][:1]:
        yield (f'| training log, {row["lines"]}: {r["target_mb_s"]} MB per second of CPU time | {row["mb_s"]:.0f} MB/s | '
               f'{"met" if row["mb_s"] >= r["target_mb_s"] else "missed"} |')


def logs_lines(r):
    yield from ['', '## Training logs', '',
                f'{where(r["machine"])}. `bench/logs.py`: `profgpu analyze --json` of logs in memory, the whole report included, best of three. A line that reports a step becomes '
                'a row of the report.', '', '| lines | file | MB per second of CPU time |', '| --- | ---: | ---: |']
    for row in r['rows']:
        yield f'| {row["lines"]} | {row["bytes"] / 1e6:.0f} MB | {row["mb_s"]:.0f} |'


def job_lines(r):
    m = r['machine']
    lines = ['', '## Jobs of many ranks', '', f'`bench/job.py` {where(m, "on")}. Simulated jobs with what they planted known.']
    if clocks := r.get('clocks'):
        lines += ['', 'Clocks of hosts set apart by up to 50 ms, drifting by up to 50 ppm; ranks see a collective end up to 3 µs apart. Error: of the offset in '
                  f'the middle of what the rank recorded, median (least–most), {clocks["seeds"]} seeds a row.', '',
                  '| job | clocks | placed | error µs | stated µs | within what is stated | drift error ppm |', '| --- | ---: | ---: | --- | --- | ---: | --- |']
        for j in clocks['jobs']:
            if not j['known']:
                lines.append(f'| {j["name"]} | {j["clocks"]} | 0 | | | | |')
                continue
            us = [spread({k: v / 1e3 for k, v in j[key].items()}, '%.2f') for key in ('error_ns', 'stated_ns')]
            lines.append(f'| {j["name"]} | {j["clocks"]} | {j["known"]} | {us[0]} | {us[1]} | {j["within"]} of {j["known"]} | {spread(j["drift_error_ppm"], "%.1f")} |')
    if found := r.get('stragglers'):
        sizes = sorted({row['excess_pct'] for row in found['rows']})
        lines += ['', f'Stragglers: one rank (of a slow host: all of its ranks) makes the step so much longer; {found["seeds"]} jobs a cell. Each cell: named with the right '
                  'reason / with a wrong one / missed; `!n`: jobs in which a rank was named that is not late. A rank is named from 5 % of the step on, so the first column '
                  'should be missed and the second may be.', '', '| reason | ranks | ' + ' | '.join(f'{s} %' for s in sizes) + ' |', '| --- | ---: |' + ' ---: |' * len(sizes)]
        for kind, ranks in dict.fromkeys((row['kind'], row['ranks']) for row in found['rows']):
            cells = [row for row in found['rows'] if (row['kind'], row['ranks']) == (kind, ranks)]
            lines.append(f'| {kind} | {ranks} | ' + ' | '.join(
                f'{c["hit"]} / {c["wrong"]} / {c["missed"]}' + (f' !{c["false"]}' if c['false'] else '') for c in sorted(cells, key=lambda c: c['excess_pct'])) + ' |')
        healthy = found['healthy']
        lines += ['', f'Healthy jobs: {sum(h["runs"] for h in healthy)} (' + ', '.join(dict.fromkeys(h['strategy'] for h in healthy)) + '; '
                  + ', '.join(str(n) for n in dict.fromkeys(h['ranks'] for h in healthy)) + f' ranks), {sum(h["alarms"] for h in healthy)} with a straggler named.']
    if scale := r.get('scale'):
        lines += ['', f'`profgpu analyze FOLDER --json` of ranks of {scale["rank_bytes"]}B of text each, files in the page cache. Limit: the same efficiency of two processes without MPI, a core and half the ranks each.', '',
                  '| ranks | events | text | wall s | ns per event | peak memory | two MPI processes s | one on one core s | efficiency | limit | same bytes |',
                  '| ---: | ---: | ---: | --- | ---: | ---: | --- | --- | ---: | ---: | --- |']
        for row in scale['rows']:
            mpi = row.get('mpi')
            tail = (f'{spread(mpi["wall_s"], "%.2f")} | {spread(mpi["one_core_s"], "%.2f")} | {mpi["efficiency"]:.2f} | {mpi["limit"]:.2f} | {"yes" if mpi["same_bytes"] else "no"}' if mpi else '| | | |')
            lines.append(f'| {row["ranks"]} | {row["events"]:,} | {row["text_bytes"] / 1e6:.0f} MB | {spread(row["wall_s"], "%.2f")} | {row["ns_an_event"]:.0f} | '
                         f'{row["peak_bytes"] / 1e6:.0f} MB | {tail} |')
    if pair := r.get('pair'):
        clock = pair['clocks'][-1]
        error = 'unknown' if clock['error_ns'] is None else f'{clock["error_ns"] / 1e3:.1f} µs'
        lines += ['', f'Two recorded ranks of a job of 128: the second clock is placed by {clock["method"]}, {clock["offset_ns"] / 1e3:.1f} µs from the first, error {error}; '
                  f'{sum(c["calls"] for c in pair["collectives"])} collectives of the first rank, {len(pair["stragglers"])} stragglers.']
    return lines


def python_lines(r):
    m = r['machine']
    yield from ['', '## The Python package', '',
                'Over the stand-in for the driver\'s library, each in a process of its own, alternating: `GpuMonitor`, which keeps every sample, and a loop in '
                'a Python thread that makes eight calls of nvidia-ml-py a sample. Jitter is how far the time between two samples is from the interval. '
                f'{where(m)}. Median (least–most) of {r["rounds"]} rounds of {r["window_s"]:.0f} s.', '',
                '| Hz | | CPU µs per sample | samples/s | peak resident MB | jitter µs | jitter µs, 95th percentile |',
                '| ---: | --- | --- | --- | --- | --- | --- |']
    for rate, both in r['monitor'].items():
        for name, x in both.items():
            peak = {k: v / 1e6 for k, v in x['peak_bytes'].items()}
            yield (f'| {rate} | {name} | {spread(x["cpu_us_per_sample"], "%.0f")} | {spread(x["samples_per_s"], "%.1f")} | {spread(peak, "%.1f")} | '
                   f'{spread(x["jitter_median_us"], "%.0f")} | {spread(x["jitter_p95_us"], "%.0f")} |')
    yield from ['', '| Hz | the loop\'s CPU time, times ours | memory | jitter | jitter, 95th percentile |', '| ---: | --- | --- | --- | --- |']
    for rate, x in r['ratios'].items():
        yield f'| {rate} | ' + ' | '.join(spread(x[key], '%.2f') for key in ('cpu_us_per_sample', 'peak_bytes', 'jitter_median_us', 'jitter_p95_us')) + ' |'
    yield from ['', '| ranges | `step()` ns | `phase()` ns |', '| --- | ---: | ---: |']
    words = {'off': 'nothing listens', 'torch imported': 'nothing listens, PyTorch imported', 'monitor': 'a monitor runs',
             'torch.profiler': 'PyTorch\'s profiler runs'}
    for name, x in r['ranges'].items():
        yield f'| {words[name]} | {x["step_ns"]:.0f} | {x["phase_ns"]:.0f} |'
    a = {key: {k: v * 1e3 for k, v in x.items()} for key, x in r['analyze'].items() if key.endswith('_s')}
    yield from ['', f'The example trace: `profgpu.analyze` {spread(a["analyze_s"], "%.0f")} ms in a running interpreter, importing the package '
                f'{spread(a["import_s"], "%.0f")} ms, both with Python\'s start {spread(a["process_s"], "%.0f")} ms; `profgpu analyze --json` '
                f'{spread(a["command_s"], "%.0f")} ms. `analyze` takes {spread(r["analyze"]["ratio_to_command"], "%.2f")} of the command\'s time.']


def truth_lines(t):
    yield from ['', '## How true samples are', '',
                f'One device that is busy and idle in turns, {t["waves"]} waves, watched by `GpuMonitor` and by a loop in Python that takes each answer of the driver for the '
                f'time until the next. Errors, ours and the loop\'s: mean utilization in percentage points, energy in percent, the utilization of a phase in percentage points, '
                f'the energy of a phase in percent of all. The driver\'s buffer is silent at rest, or reports zeros. {where(t["machine"])}.', '',
                '| buffer at rest | interval s | mean | energy | phases | phase energy |', '| --- | ---: | --- | --- | --- | --- |']
    for row in t['rows']:
        ours, naive = row['profgpu'], row['naive']
        yield f'| {row["buffer"]} | {row["interval_s"]:g} | ' + ' | '.join(f'{ours[k]:.2f} (loop {naive[k]:.2f})' for k in ours) + ' |'


def hook_lines(h):
    starts, calls, stacks = h['start_up'], h['calls'], h['stacks']
    yield from ['', '## The Python hook', '',
                f'CPU time of `profgpu run --trace` in a Python program, with PyTorch {calls["torch"]}. {where(h["machine"])}.', '',
                '| what | cost |', '| --- | --- |',
                f'| start of a process, {starts["rounds"]} pairs | {starts["added_ms"]:.1f} ms ({starts["added_quartiles_ms"][0]:.1f}–{starts["added_quartiles_ms"][1]:.1f}) |',
                f'| a call that begins a phase | {calls["marked_ns"]:.0f} ns |', f'| the same within another | {calls["nested_ns"]:.0f} ns |',
                f'| an optimizer\'s step | {calls["optimizer_ns"]:.0f} ns |',
                f'| a sample of the loop\'s Python stack every {stacks["interval_ms"]} ms, while it computes | {stacks["works_pct"]:.2f} % of one core |',
                f'| while it waits | {stacks["waits_pct"]:.2f} % of one core |']


def exporter_lines(e):
    m = e['machine']
    yield from ['', '## The exporter', '',
                f'With the same stand-in, read once a second (twenty times while scrapes are timed, so that a page is made for nearly each). {where(m)}. {e["scrapes"]} scrapes of each '
                'kind on a connection of their own, from connecting to the last byte, by a client in Python; beside it a page of 15 bytes, what machine and client take. Requests a second are those of '
                f'{e["clients"]} clients in Python on connections that stay open; memory is what was resident after them, without the stand-in. '
                'CPU time is that of sampling, without requests.', '',
                '| devices | page | scrape p50 ms | p99 ms | gzip p50 ms | p99 ms | 15 bytes p50 ms | p99 ms | requests/s | resident MB | one core |',
                '| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |']
    for r in e['counts']:
        yield (f'| {r["devices"]} | {r["plain"]["bytes"] / 1e3:.0f} kB | {r["plain"]["p50_ms"]:.2f} | {r["plain"]["p99_ms"]:.2f} | '
               f'{r["gzip"]["p50_ms"]:.2f} | {r["gzip"]["p99_ms"]:.2f} | {r["health"]["p50_ms"]:.2f} | {r["health"]["p99_ms"]:.2f} | {r["requests_per_s"]:.0f} | {r["own_bytes"] / 1e6:.1f} | '
               f'{r["sampling_cpu_pct"]:.2f} % |')
    if 'crowds' not in e['counts'][0]:
        return
    yield from ['', 'More connections than it keeps (256): those that were silent longest are closed, by a crowd of clients that each open theirs anew.', '',
                '| devices | connections | requests/s | closed/s |', '| ---: | ---: | ---: | ---: |']
    for r in e['counts']:
        for c in r['crowds']:
            yield f'| {r["devices"]} | {c["connections"]} | {c["requests_per_s"]:.0f} | {c["closed_per_s"]:.1f} |'


def day_lines(d):
    m = d['machine']
    yield from ['', '## A day of samples', '',
                f'`examples/replay.jsonl` goes round at {d["speed"]} times its speed, read every {d["interval_s"] * 1e3:g} ms; the exporter is scraped ten times per second, '
                f'the monitor writes its log. Memory is what was resident, the replayed log among it, {d["settled_s"]} s after the start, at most since then, and at the end. '
                f'{where(m)}.', '',
                '| program | seconds | readings | settled MB | most MB | at the end MB | one core |', '| --- | ---: | ---: | ---: | ---: | ---: | ---: |']
    for r in d['programs']:
        yield (f'| {r["program"]} | {r["seconds"]:.0f} | {r["readings"]} | {r["settled_bytes"] / 1e6:.2f} | {r["most_bytes"] / 1e6:.2f} | {r["last_bytes"] / 1e6:.2f} | '
               f'{r["cpu_pct"]:.1f} % |')


def whole_runs_lines(result):
    sizes = result['sizes']
    yield from ['', '## Whole runs', '', machine_lines(result['machine']), '',
                'Simulated training traces, from the start of the process to the report on standard output, files in the page cache. The walk is '
                '`bench/bare_walk.cc`: simdjson visits every event and key of the same text on one core, keeps nothing, and the loading of the '
                'text is not counted; profgpu reads, links, analyzes, diagnoses and prints. Median (least–most) of '
                f'{sizes[0]["runs"]} alternating runs.', '', *sizes_table(sizes), '', growth(sizes), '',
                '| text | walk MB/s | bytes per event | ' + ' | '.join(f'{k.replace("analyse", "analyze")} %' for k in sizes[0]['stage_pct']) + ' |',
                '| ---: | --- | ---: |' + ' ---: |' * len(sizes[0]['stage_pct'])]
    # In a small trace the pieces that are being read when the last is asked for would count as linking.
    for s in [s for s in sizes if s['megabytes'] >= 50]:
        yield (f'| {s["text_bytes"] / 1e6:.1f} MB | {spread(s["walk_mb_s"], "%.0f")} | {s["bytes_per_event"]:.1f} | '
               + ' | '.join(f'{v:.0f}' for v in s['stage_pct'].values()) + ' |')
    yield from ['', f'`profgpu --help`: {spread(result["start_up_ms"], "%.1f")} ms over 100 runs.']


SECTIONS = (('end_to_end', whole_runs_lines), ('peers', peers_lines), ('sampler', sampler_lines), ('top', top_lines), ('exporter', exporter_lines),
            ('day', day_lines), ('recorder', recorder_lines), ('inject', inject_lines), ('switches', switch_lines), ('page', page_lines), ('page_frames', frame_lines),
            ('export', export_lines), ('nsight', nsight_lines), ('work', work_lines), ('snapshot', snapshot_lines), ('logs', logs_lines), ('job', job_lines), ('python', python_lines), ('truth', truth_lines), ('python_hook', hook_lines), ('build', build_lines))


def sections_of(page):
    """By heading, in order; what stands before the first is left out."""
    return {part.split('\n', 1)[0]: '## ' + part.rstrip('\n') for part in ('\n' + page).split('\n## ')[1:]}


def targets(build, old):
    """Rows of what was measured now; of the rest those of before."""
    end_to_end, peers, sampler, top, cold, nsight = (load(build, name) for name in ('end_to_end', 'peers', 'sampler', 'top', 'build', 'nsight'))
    work, snapshot, logs = (load(build, name) for name in ('work', 'snapshot', 'logs'))
    rows = {}
    for line in [*old.split('\n')[4:], *(verdicts(end_to_end, peers) if end_to_end else ()), *(sampler_verdicts(sampler) if sampler else ()),
                 *(top_verdicts(top) if top else ()), *(build_verdicts(cold) if cold else ()),
                 *(nsight_verdicts(nsight) if nsight else ()), *(work_verdicts(work) if work else ()),
                 *(snapshot_verdicts(snapshot) if snapshot else ()), *(logs_verdicts(logs) if logs else ())]:
        rows[line.split('|')[1]] = line
    return '\n'.join(['## Targets', '', '| target | measured | |', '| --- | --- | --- |', *rows.values()])


def main():
    build = sys.argv[1]
    with open(DOCUMENT) as f:
        old = sections_of(f.read())
    # A part that was not measured now stays as it was; each says when that was.
    new = {}
    for name, lines in SECTIONS:
        if result := load(build, name):
            new |= sections_of('\n'.join(lines(result)))
    new |= sections_of('\n'.join(leaf_lines(build)))
    headings = ['Whole runs', 'Beside HolisticTraceAnalysis', 'Sampling devices', 'The screen', 'The exporter', 'A day of samples', 'Recording',
                'Recording without a GPU', 'Context switches', 'The page of an HTML report', 'The timeline of the page', 'Exports and queries', 'Exports of Nsight Systems', 'Work and limits',
                'Memory snapshots', 'Training logs', 'Jobs of many ranks', 'The Python package', 'How true samples are', 'The Python hook', 'Building', 'Hot leaves']
    unknown = set(new) - set(headings)
    if unknown:
        raise SystemExit(f'no place for {", ".join(unknown)}')
    parts = ['# Performance', '`make bench` measures all of this again and writes this page; nothing in it is written by hand.',
             targets(build, old.get('Targets', '')), *(new.get(h) or old[h] for h in headings if h in new or h in old)]
    with open(DOCUMENT, 'w') as f:
        f.write('\n\n'.join(parts) + '\n')
    print('wrote docs/performance.md')


if __name__ == '__main__':
    main()
