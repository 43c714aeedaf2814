#!/usr/bin/env python3
"""A day of samples through `profgpu exporter` and `profgpu monitor`: does their memory stay what it was?

  bench/day.py BUILD [--seconds S]

examples/replay.jsonl goes round at a thousand times its speed and is read a thousand times per second, as many readings in 86.4 s as in a day of one a second. The
exporter is scraped ten times per second meanwhile; the monitor writes its log, in files of 4 MB. Writes BUILD/results/day.json; bench/report.py makes
docs/performance.md of it.
"""
import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
from sampler import processor_ns, resident_bytes  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPEED, INTERVAL = 1000, 0.001
SETTLED = 5   # seconds after which memory should grow no more


def readings_of_log(folder):
    """Rows of samples in all files of the log."""
    count = 0
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as f:
            count += sum('"alert"' not in line for line in f)
    return count


def watch(process, seconds, each):
    """[(seconds since the start, resident bytes)], ten times per second."""
    begun, course = time.monotonic(), []
    while (now := time.monotonic() - begun) < seconds:
        assert process.poll() is None, 'it ended'
        course.append((now, resident_bytes(process.pid)[0]))
        each()
        time.sleep(0.1)
    return course


def result_of(name, course, process, readings):
    settled = [size for at, size in course if at >= SETTLED]
    return {'program': name, 'seconds': course[-1][0], 'readings': readings, 'settled_bytes': settled[0], 'most_bytes': max(settled), 'last_bytes': settled[-1],
            'cpu_pct': processor_ns(process.pid) / course[-1][0] / 1e7}


def start(build, *words):
    replay = f'replay:{ROOT}/examples/replay.jsonl,loop,speed={SPEED}'
    return subprocess.Popen([os.path.join(build, 'profgpu'), *words, '--backend', replay, '-i', str(INTERVAL)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def end(process):
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


def exporter_day(build, seconds):
    process = start(build, 'exporter', '--listen', '127.0.0.1:0')
    port = int(process.stderr.readline().split('http://127.0.0.1:')[1].split('/')[0])
    page = ''

    def scrape():
        nonlocal page
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=30)
        connection.request('GET', '/metrics')
        page = connection.getresponse().read().decode()
        connection.close()

    course = watch(process, seconds, scrape)
    readings = next(int(line.split()[1]) for line in page.splitlines() if line.startswith('profgpu_exporter_readings_total '))
    result = result_of('exporter', course, process, readings)
    end(process)
    return result


def monitor_day(build, seconds):
    with tempfile.TemporaryDirectory() as folder:
        process = start(build, 'monitor', '--output', os.path.join(folder, 'gpu.jsonl'), '--rotate', '4MB', '--keep', '1000')
        result = result_of('monitor', watch(process, seconds, lambda: None), process, 0)
        end(process)
        result['readings'] = readings_of_log(folder)
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('--seconds', type=float, default=86.4)
    a = parser.parse_args()
    out = {'machine': machine.description(a.build), 'speed': SPEED, 'interval_s': INTERVAL, 'settled_s': SETTLED,
           'programs': [exporter_day(a.build, a.seconds), monitor_day(a.build, a.seconds)]}
    for row in out['programs']:
        print(json.dumps(row))
    machine.write_result(a.build, 'day', out)


if __name__ == '__main__':
    main()
