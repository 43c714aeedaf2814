#!/usr/bin/env python3
"""docs/performance.md from the results of the other scripts: bench/report.py BUILD"""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from machine import result_path  # noqa: E402

DOCUMENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'docs', 'performance.md')
TARGETS = {'plain': 1.2, 'gzip': 1.0}


def load(build, name):
    path = result_path(build, name)
    if not os.path.exists(path):
        return None
    with open(path) as f:
        return json.load(f)


def spread(s, form):
    return f'{form % s["median"]} ({form % s["least"]}–{form % s["most"]})'


def machine_lines(m):
    return (f'Measured on {m["date"]}: {m["cpu"]}, {m["cores"]} cores, {m["memory_bytes"] / 2**30:.0f} GiB, {m["system"]}, Linux {m["kernel"]}, '
            f'{m["compiler"]}. Load of the machine before the runs: {m["load_before"]:.1f}'
            + (': other work ran beside them, so the figures are too low.' if m['load_before'] > 1.5 else '.'))


def sizes_table(sizes):
    yield '| text | events | form | wall s | processor s | MB/s of text | against the walk | best runs | peak memory | of the text |'
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
    yield '| target | measured | |'
    yield '| --- | --- | --- |'

    def row(text, value, shown, met):
        return f'| {text} | {shown} | {"met" if met else "missed"} |'

    for megabytes in (50, 500):
        for form, target in TARGETS.items():
            if megabytes in sizes:
                value = sizes[megabytes][form]['ratio_to_walk']['median']
                yield row(f'{megabytes} MB {form}: {target} times the rate of the one-core walk', value, f'{value:.2f}', value >= target)
    if 500 in sizes:
        for form in TARGETS:
            value = sizes[500][form]['peak_over_text']
            yield row(f'500 MB {form}: peak memory under 0.3 of the text', value, f'{value:.3f}', value < 0.3)
    most = max(s['bytes_per_event'] for s in sizes.values() if s['megabytes'] >= 50 or len(sizes) == 1)
    yield row('40 bytes an event or less in memory, from 50 MB', most, f'{most:.1f}', most <= 40)
    value = result['start_up_ms']['median']
    yield row('`profgpu --help` under 10 ms', value, f'{value:.1f} ms', value < 10)
    if peers:
        value = peers['plain']['times']
        yield row('60 times as fast as HolisticTraceAnalysis', value, f'{value:.0f} times', value >= 60)


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
    yield f'Version {peers["plain"]["hta"]["version"]}, {peers["text_bytes"] / 1e6:.1f} MB of text, {peers["runs"]} runs of it and three times as many of profgpu.'
    for form in ('plain', 'gzip'):
        for name, why in peers[form]['hta']['failed'].items():
            yield f'Its {name} breakdown failed on the {form} file ({why}), so its time lacks that.'


def leaf_lines(build):
    rows = []
    for path in sorted(glob.glob(result_path(build, 'leaf_*'))):
        with open(path) as f:
            for b in json.load(f)['benchmarks']:
                rate = (f'{b["bytes_per_second"] / 1e6:,.0f} MB/s' if 'bytes_per_second' in b
                        else f'{1e9 / b["items_per_second"]:.1f} ns an item' if 'items_per_second' in b else '')
                rows.append(f'| {os.path.basename(path)[5:-5]} | {b["name"].replace("/real_time", "")} | {rate} |')
    if rows:
        yield from ['', '## Hot leaves', '', '| leaf | benchmark | |', '| --- | --- | ---: |', *rows]


def main():
    build = sys.argv[1]
    result, peers = load(build, 'end_to_end'), load(build, 'peers')
    if result is None:
        raise SystemExit('run bench/end_to_end.py first')
    lines = ['# Performance', '', '`make bench` measures all of this again and writes this page; nothing in it is written by hand.', '',
             machine_lines(result['machine']), '', '## Targets', '', *verdicts(result, peers), '', '## Whole runs', '',
             'Simulated training traces, from the start of the process to the report on standard output, files in the page cache. The walk is '
             '`bench/bare_walk.cc`: simdjson visits every event and key of the same text on one core, keeps nothing, and the loading of the '
             'text is not counted; profgpu reads, links, analyses, diagnoses and prints. Median (least–most) of '
             f'{result["sizes"][0]["runs"]} alternating runs.', '', *sizes_table(result['sizes']), '', growth(result['sizes']), '',
             '| text | walk MB/s | bytes an event | ' + ' | '.join(f'{k} %' for k in result['sizes'][0]['stage_pct']) + ' |',
             '| ---: | --- | ---: |' + ' ---: |' * len(result['sizes'][0]['stage_pct'])]
    # In a small trace the pieces that are being read when the last is asked for would count as linking.
    for s in [s for s in result['sizes'] if s['megabytes'] >= 50]:
        lines.append(f'| {s["text_bytes"] / 1e6:.1f} MB | {spread(s["walk_mb_s"], "%.0f")} | {s["bytes_per_event"]:.1f} | '
                     + ' | '.join(f'{v:.0f}' for v in s['stage_pct'].values()) + ' |')
    u = result['start_up_ms']
    lines += ['', f'`profgpu --help`: {spread(u, "%.1f")} ms over 100 runs.']
    if peers:
        lines += peers_lines(peers)
    lines += leaf_lines(build)
    with open(DOCUMENT, 'w') as f:
        f.write('\n'.join(lines) + '\n')
    print('wrote docs/performance.md')


if __name__ == '__main__':
    main()
