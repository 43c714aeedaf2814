#!/usr/bin/env python3
"""profgpu beside HolisticTraceAnalysis (from PyPI) on the same 50 MB trace.

  bench/peers.py BUILD [--runs N]

HTA is timed inside one Python process after its import: parsing, then its temporal, kernel, overlap and idle-time breakdowns.
profgpu is timed from the start of its process to its end, with everything that it reports. Runs alternate. HTA is installed into
build/venv-bench, away from the tests' environment. Writes build/bench/results/peers.json.
"""
import argparse
import json
import os
import subprocess
import sys
import textwrap

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
from end_to_end import make_trace, measured, peak_bytes, summary  # noqa: E402

MEGABYTES = 50
HTA = textwrap.dedent('''
    import json, logging, resource, sys, time, warnings
    warnings.filterwarnings('ignore')
    logging.disable(logging.CRITICAL)
    from importlib.metadata import version
    from hta.trace_analysis import TraceAnalysis
    start = time.perf_counter()
    analysis = TraceAnalysis(trace_files={0: sys.argv[1]})
    parsed = time.perf_counter()
    done, failed = {}, {}
    for name, call in (
            ('temporal', lambda: analysis.get_temporal_breakdown(visualize=False)),
            ('kernels', lambda: analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)),
            ('overlap', lambda: analysis.get_comm_comp_overlap(visualize=False)),
            ('idle', lambda: analysis.get_idle_time_breakdown(ranks=[0], visualize=False))):
        begin = time.perf_counter()
        try:
            call()
            done[name] = time.perf_counter() - begin
        except Exception as error:
            failed[name] = repr(error)[:200]
    end = time.perf_counter()
    print(json.dumps({'version': version('HolisticTraceAnalysis'), 'parse_s': parsed - start, 'breakdowns_s': done, 'failed': failed,
                      'total_s': end - start, 'peak_bytes': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
''')


def environment(root):
    folder = os.path.join(root, 'build', 'venv-bench')
    python = os.path.join(folder, 'bin', 'python')
    if subprocess.run([python, '-c', 'import hta'], capture_output=True).returncode if os.path.exists(python) else True:
        print('installing HolisticTraceAnalysis into build/venv-bench')
        subprocess.run(['/usr/bin/python3', '-m', 'venv', folder], check=True)
        subprocess.run([python, '-m', 'pip', 'install', '--quiet', '--quiet', '--disable-pip-version-check',
                        'HolisticTraceAnalysis', 'pandas<3'], check=True)   # HTA 0.5 fails with pandas 3
    return python


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build')
    parser.add_argument('--runs', type=int, default=3)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    python = environment(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # HTA reads files by their ending; both forms are given to both.
    plain, zipped = make_trace(build, MEGABYTES)
    result = {'machine': machine.description(build), 'text_bytes': os.path.getsize(plain), 'runs': options.runs}
    for form, path in (('plain', plain), ('gzip', zipped)):
        ours, theirs = [], []
        for _ in range(options.runs):
            theirs.append(json.loads(measured([python, '-c', HTA, path])[1].decode().strip().split('\n')[-1]))
            ours += [measured([f'{build}/profgpu', 'analyze', '--json', path])[0] for _ in range(3)]
        total = summary(t['total_s'] for t in theirs)
        wall = summary(o['wall_s'] for o in ours)
        result[form] = {
            'hta': {'version': theirs[0]['version'], 'total_s': total, 'parse_s': summary(t['parse_s'] for t in theirs),
                    'peak_bytes': max(t['peak_bytes'] for t in theirs), 'failed': theirs[0]['failed'],
                    'done': list(theirs[0]['breakdowns_s'])},
            'profgpu': {'wall_s': wall, 'peak_bytes': peak_bytes([f'{build}/profgpu', 'analyze', '--json', path])},
            'times': total['median'] / wall['median'], 'times_of_best': total['least'] / wall['least']}
    machine.write_result(build, 'peers', result)
    for form in ('plain', 'gzip'):
        r = result[form]
        print(f'{form}: HTA {r["hta"]["version"]} {r["hta"]["total_s"]["median"]:.2f} s (parse {r["hta"]["parse_s"]["median"]:.2f}), '
              f'peak {r["hta"]["peak_bytes"] / 1e6:.0f} MB; profgpu {r["profgpu"]["wall_s"]["median"]:.3f} s, '
              f'peak {r["profgpu"]["peak_bytes"] / 1e6:.0f} MB: {r["times"]:.0f} times (best runs {r["times_of_best"]:.0f})')
        for name, why in r['hta']['failed'].items():
            print(f'  HTA\'s {name} breakdown failed: {why}')


if __name__ == '__main__':
    main()
