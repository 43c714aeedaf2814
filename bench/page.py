#!/usr/bin/env python3
"""The page of an HTML report: its size, and the time that --html adds to an analysis.

  bench/page.py BUILD [--events 75000,1000000,5000000] [--runs N]

BUILD holds profgpu and kineto-sim. Traces are made once, below BUILD. Runs with and without --html alternate, so that what else the
machine does hits both. Writes BUILD/results/page.json and prints it as a table.
"""
import argparse
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, 'tests', 'python')]
import machine  # noqa: E402
from end_to_end import measured, peak_bytes, plain_trace, summary  # noqa: E402
from page_data import PageData  # noqa: E402

BYTES_AN_EVENT = 309   # of the simulator's JSON, about; what a trace really has is counted


def measure(build, events, runs):
    trace = plain_trace(build, f'page_{events}', events * BYTES_AN_EVENT)
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, 'page.html')
        plain = [f'{build}/profgpu', 'analyze', '--quiet', trace]
        with_page = [*plain, '--html', page]
        without, beside = [], []
        for i in range(runs + 1):
            a, b = measured(plain)[0]['wall_s'], measured(with_page)[0]['wall_s']
            if i > 0:   # the first brings the file into memory
                without.append(a)
                beside.append(b)
        with open(page, 'rb') as f:
            html = f.read()
        header = PageData(html).header
        return {'events': header['report']['inputs'][0]['events'], 'text_bytes': os.path.getsize(trace),
                'page_bytes': len(html), 'page_events': header['events'], 'kept': header['events_kept'],
                'analyze_s': summary(without), 'with_page_s': summary(beside),
                'added_s': summary(b - a for a, b in zip(without, beside)),
                'peak_bytes': peak_bytes(plain, 1), 'peak_with_page_bytes': peak_bytes(with_page, 1)}


def show(sizes):
    print(f'{"events":>10} {"text":>9} {"page":>8} {"kept":>8} {"analyze":>9} {"--html adds":>12} {"peak":>8} {"with page":>10}')
    for s in sizes:
        print(f'{s["events"]:10,} {s["text_bytes"] / 1e6:7.1f}MB {s["page_bytes"] / 1e6:6.2f}MB {s["kept"]:8,} {s["analyze_s"]["median"]:8.3f}s '
              f'{s["added_s"]["median"]:11.3f}s {s["peak_bytes"] / 1e6:6.0f}MB {s["peak_with_page_bytes"] / 1e6:8.0f}MB')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build')
    parser.add_argument('--events', default='75000,1000000,5000000')
    parser.add_argument('--runs', type=int, default=5)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    result = {'machine': machine.description(build), 'sizes': [measure(build, int(n), options.runs) for n in options.events.split(',')]}
    machine.write_result(build, 'page', result)
    show(result['sizes'])


if __name__ == '__main__':
    main()
