#!/usr/bin/env python3
"""How often `profgpu diff` is right: bench/diff.py BUILD [--pairs N]. Writes results/diff.json and the figures of docs/diff.md.

Pairs of simulated runs of 20 steps whose pace varies from step to step by 1.5 % (standard deviation). Pairs that differ in nothing must hardly ever
fail a gate of +3 %; of those where everything takes 5 % longer nearly all must. And what a diff of two traces of 50 MB takes beside analysing both.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from end_to_end import make_trace, measured, peak_bytes, summary  # noqa: E402
from machine import description, write_result  # noqa: E402

GATE = 'step_time > +3%'
BEGIN, END = '<!-- bench/diff.py -->\n', '<!-- end -->\n'
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def saved_run(build, folder, seed, slower):
    trace, saved = os.path.join(folder, 'trace.json'), os.path.join(folder, f'{seed}-{slower}.json')
    subprocess.run([os.path.join(build, 'kineto-sim'), '--out', trace, '--no-truth', '--steps', '20', '--layers', '2', '--step-noise', '15',
                    '--seed', str(seed), '--slower', str(slower)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([os.path.join(build, 'profgpu'), 'analyze', trace, '--json', '--quiet', '-o', saved], check=True)
    return saved


def outcome(build, a, b):
    result = subprocess.run([os.path.join(build, 'profgpu'), 'diff', a, b, '--json', '--fail-on', GATE], capture_output=True, text=True)
    assert result.returncode in (0, 3), result.stderr
    return json.loads(result.stdout)['verdict'], result.returncode == 3


def series(build, folder, pairs, slower):
    counts = {'faster': 0, 'slower': 0, 'no_difference': 0, 'failed': 0}
    for pair in range(pairs):
        verdict, failed = outcome(build, saved_run(build, folder, 2 * pair + 1, 0), saved_run(build, folder, 2 * pair + 2, slower))
        counts[verdict] += 1
        counts['failed'] += failed
    return counts


def cost(build, runs):
    """Wall seconds and peak memory of a diff of two traces of 50 MB, and of analyzing one after the other; in turns."""
    program = os.path.join(build, 'profgpu')
    before, _ = make_trace(build, 50)
    after = os.path.join(build, 'traces', 'diff_after.json')
    if not os.path.exists(after):
        subprocess.run([os.path.join(build, 'kineto-sim'), '--out', after, '--no-truth', '--seed', '2', '--target-bytes', '50M'],
                       check=True, stdout=subprocess.DEVNULL)
    diff = [program, 'diff', '--json', before, after]
    both = [[program, 'analyze', '--json', '--quiet', path] for path in (before, after)]
    diffs, analyses = [], []
    for i in range(runs + 1):
        one = measured(diff)[0]['wall_s']
        two = sum(measured(command)[0]['wall_s'] for command in both)
        if i > 0:   # the first brings the files into memory
            diffs.append(one)
            analyses.append(two)
    return {'text_bytes': os.path.getsize(before) + os.path.getsize(after), 'runs': runs, 'diff_s': summary(diffs), 'analyses_s': summary(analyses),
            'diff_peak_bytes': peak_bytes(diff), 'analyze_peak_bytes': max(map(peak_bytes, both))}


def table(result):
    yield (f'`bench/diff.py`: {result["pairs"]} pairs of simulated runs, 20 steps each, whose pace varies by 1.5 % from step to step '
           '(standard deviation). The pairs are the same on every machine.')
    yield ''
    yield f'| the run after | pairs | faster | slower | no difference | gate `{GATE}` failed | target |'
    yield '| --- | ---: | ---: | ---: | ---: | ---: | --- |'
    for name, key, target in (('the same', 'null', 'at most 1 %'), ('takes 5 % longer', 'slow', 'at least 95 %')):
        c = result[key]
        yield (f'| {name} | {result["pairs"]} | {c["faster"]} | {c["slower"]} | {c["no_difference"]} | '
               f'{c["failed"]} ({100 * c["failed"] / result["pairs"]:.1f} %) | {target} |')
    c = result['cost']
    yield ''
    yield (f'A diff of two traces ({c["text_bytes"] / 1e6:.0f} MB together) took {c["diff_s"]["median"]:.2f} s and {c["diff_peak_bytes"] / 1e6:.0f} MB at the most, '
           f'analyzing one after the other {c["analyses_s"]["median"]:.2f} s and {c["analyze_peak_bytes"] / 1e6:.0f} MB: '
           f'{c["diff_s"]["median"] / c["analyses_s"]["median"]:.2f} times as long (medians of {c["runs"]} runs in turns, on {result["machine"]["date"]}: '
           f'{result["machine"]["cpu"]}, {result["machine"]["cores"]} cores).')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('--pairs', type=int, default=200)
    parser.add_argument('--runs', type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = {'pairs': arguments.pairs, 'null': series(arguments.build, folder, arguments.pairs, 0),
                  'slow': series(arguments.build, folder, arguments.pairs, 50), 'cost': cost(arguments.build, arguments.runs),
                  'machine': description(arguments.build)}
    write_result(arguments.build, 'diff', result)
    text = '\n'.join(table(result)) + '\n'
    path = os.path.join(ROOT, 'docs', 'diff.md')
    with open(path) as f:
        page = f.read()
    with open(path, 'w') as f:
        f.write(page[:page.index(BEGIN) + len(BEGIN)] + text + page[page.index(END):])
    print(text)


if __name__ == '__main__':
    main()
