#!/usr/bin/env python3
"""What a cold build of the release program costs: CPU time, wall time on this machine's cores, the units that take
longest, the time by room, and how long one changed file takes with a developer's units, for the largest file of each room.
  bench/build.py BUILD [FOLDER]      BUILD: a configured build, for the compiler's name; FOLDER: where to build, else a
                                     temporary one. Nothing is taken from a compiler's cache."""
import collections
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

import machine

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGETS = {'cpu_s': 420, 'one_file_s': 15}


def timed(command, **how):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **how)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = sum(getattr(after, k) - getattr(before, k) for k in ('ru_utime', 'ru_stime'))
    return {'cpu_s': round(cpu, 1), 'wall_s': round(time.monotonic() - start, 1)}


def units(folder):
    """Seconds of each output of the last build, from ninja's log."""
    seconds = {}
    with open(os.path.join(folder, '.ninja_log')) as f:
        for line in f:
            if not line.startswith('#'):
                start, end, _, name, _ = line.rstrip('\n').split('\t')
                seconds[name] = (int(end) - int(start)) / 1000
    return seconds


def by_room(seconds):
    rooms = collections.Counter()
    for name, s in seconds.items():
        found = re.search(r'CMakeFiles/profgpu_?(\w*)\.dir/', name)
        rooms[found.group(1) or 'main' if found else 'linking, page and manual'] += s
    return {room: round(s, 1) for room, s in rooms.most_common()}


def one_file_each(folder, environment):
    """How long the program takes to be there again after the largest file of a room has changed."""
    out = {}
    for room, _, names in sorted(os.walk(os.path.join(ROOT, 'src'))):
        files = [os.path.join(room, n) for n in names if n.endswith('.cc') and not n.endswith('_test.cc')]
        if not files or room.endswith(('/inject', '/tls')):
            continue
        largest = max(files, key=os.path.getsize)
        os.utime(largest)
        took = timed(['ninja', '-C', folder, 'profgpu'], env=environment)
        out[os.path.relpath(largest, ROOT)] = took['wall_s']
    return out


def configure(folder, environment, *settings):
    subprocess.run(['cmake', '--preset', 'release', '-B', folder, '-DPROFGPU_TESTS=OFF', *settings], check=True, cwd=ROOT,
                   stdout=subprocess.DEVNULL, env=environment)


def measure(build, folder):
    environment = {**os.environ, 'CCACHE_DISABLE': '1'}
    configure(folder, environment)
    result = {'machine': machine.description(build), 'targets': TARGETS,
              'cold': timed(['ninja', '-C', folder], env=environment)}
    seconds = units(folder)
    slowest = sorted(seconds.items(), key=lambda u: -u[1])[:10]
    configure(folder, environment, '-DPROFGPU_UNITY_FILES=10')
    subprocess.run(['ninja', '-C', folder, 'profgpu'], check=True, stdout=subprocess.DEVNULL, env=environment)
    result.update(units=len(seconds), slowest=[{'unit': n, 's': round(s, 1)} for n, s in slowest], rooms=by_room(seconds),
                  one_file=one_file_each(folder, environment))
    return result


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as temporary:
        result = measure(sys.argv[1], os.path.abspath(sys.argv[2]) if len(sys.argv) == 3 else temporary)
    machine.write_result(sys.argv[1], 'build', result)
    print(f"cold: {result['cold']['cpu_s']} s of processor, {result['cold']['wall_s']} s wall, {result['units']} units")
    for u in result['slowest']:
        print(f"  {u['s']:6.1f} s  {u['unit']}")
    print(f"one changed file, at most: {max(result['one_file'].values())} s")


if __name__ == '__main__':
    main()
