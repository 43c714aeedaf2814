#!/usr/bin/env python3
"""What `profgpu exporter` costs: the time of a scrape, memory, requests a second, CPU time.

  bench/exporter.py BUILD [--scrapes N] [--seconds S]

The driver is our stand-in (tests/stubs/nvml). A scrape is a request on a connection of its own, from connecting to the last byte; the
devices are read twenty times per second meanwhile, as often as it is asked for, so that nearly every time a page is made. Beside it the same for
/health, a page of 15 bytes: what the machine takes. Requests a second are those of 8 processes with connections that stay open. Writes
BUILD/results/exporter.json; bench/report.py makes docs/performance.md of it.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
from sampler import DEVICES, processor_ns, resident_bytes  # noqa: E402

COUNTS = (8, 16)
CROWDS = (64, 256, 512)   # the exporter keeps 256
CLIENTS = 8


def start(build, folder, count, interval):
    scenario = os.path.join(folder, 'scenario.txt')
    with open(scenario, 'w') as f:
        f.write(f'driver 550.54.15\ndevice 0..{count - 1}\n{DEVICES}')
    stub = os.path.join(build, 'tests', 'stubs')
    env = dict(os.environ, PROFGPU_NVML_LIBRARY=os.path.join(stub, 'libnvidia-ml.so.1'), PROFGPU_NVML_SCENARIO=scenario, LD_LIBRARY_PATH=stub)
    process = subprocess.Popen([os.path.join(build, 'profgpu'), 'exporter', '--backend', 'nvml', '--listen', '127.0.0.1:0', '-i', str(interval)], env=env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    port = int(line.split('http://127.0.0.1:')[1].split('/')[0])
    time.sleep(3)
    return process, port


def scrape(port, request):
    size = 0
    begun = time.perf_counter()
    with socket.create_connection(('127.0.0.1', port), timeout=30) as connection:
        connection.sendall(request)
        while got := len(connection.recv(1 << 20)):
            size += got
    return time.perf_counter() - begun, size


def scrape_times(port, scrapes, path, header=''):
    request = f'GET {path} HTTP/1.0\r\n{header}\r\n'.encode()
    times = []
    for _ in range(scrapes):
        time.sleep(0.05)
        seconds, size = scrape(port, request)
        times.append(seconds * 1e3)
    times.sort()
    return {'p50_ms': times[len(times) // 2], 'p99_ms': times[min(len(times) * 99 // 100, len(times) - 1)], 'most_ms': times[-1], 'bytes': size}


def hammer(port, seconds, queue):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=30)
    end, done = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        connection.request('GET', '/metrics')
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 200
        done += 1
    queue.put(done)


def requests_per_second(port, seconds):
    queue = multiprocessing.Queue()
    clients = [multiprocessing.Process(target=hammer, args=(port, seconds, queue)) for _ in range(CLIENTS)]
    for c in clients:
        c.start()
    total = sum(queue.get() for _ in clients)
    for c in clients:
        c.join()
    return total / seconds


def crowd_member(port, count, seconds, queue):
    """Holds so many connections and asks over each in turn; one that was closed is opened anew."""
    connections = [http.client.HTTPConnection('127.0.0.1', port, timeout=30) for _ in range(count)]
    end, answered, closed = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        for c in connections:
            try:
                c.request('GET', '/metrics')
                answered += c.getresponse().read()[:1] == b'#'
            except (OSError, http.client.HTTPException):
                closed += 1
                c.close()
    queue.put((answered, closed))


def crowd(port, connections, seconds):
    """With more connections than the exporter keeps, those that were silent longest are closed: what that leaves of requests a second."""
    queue = multiprocessing.Queue()
    clients = [multiprocessing.Process(target=crowd_member, args=(port, connections // CLIENTS, seconds, queue)) for _ in range(CLIENTS)]
    for c in clients:
        c.start()
    results = [queue.get() for _ in clients]
    for c in clients:
        c.join()
    return {'connections': connections, 'requests_per_s': sum(a for a, _ in results) / seconds, 'closed_per_s': sum(c for _, c in results) / seconds}


class Running:
    """An exporter with so many devices, ended in the end."""

    def __init__(self, *how):
        self.folder = tempfile.TemporaryDirectory()
        self.process, self.port = start(how[0], self.folder.name, *how[1:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=20)
        self.folder.cleanup()


def measure(build, count, scrapes, seconds):
    result = {'devices': count}
    with Running(build, count, 0.05) as e:
        result['plain'] = scrape_times(e.port, scrapes, '/metrics')
        result['gzip'] = scrape_times(e.port, scrapes, '/metrics', 'Accept-Encoding: gzip\r\n')
        result['health'] = scrape_times(e.port, scrapes, '/health')
    with Running(build, count, 1) as e:
        before, begun = processor_ns(e.process.pid), time.monotonic()
        time.sleep(seconds)
        result['sampling_cpu_pct'] = (processor_ns(e.process.pid) - before) / (time.monotonic() - begun) / 1e7
        result['requests_per_s'] = requests_per_second(e.port, seconds)
        result['crowds'] = [crowd(e.port, connections, seconds) for connections in CROWDS]
        result['resident_bytes'], result['own_bytes'] = resident_bytes(e.process.pid)
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('--scrapes', type=int, default=500)
    parser.add_argument('--seconds', type=float, default=10)
    a = parser.parse_args()
    out = {'machine': machine.description(a.build), 'scrapes': a.scrapes, 'clients': CLIENTS,
           'counts': [measure(a.build, count, a.scrapes, a.seconds) for count in COUNTS]}
    for row in out['counts']:
        print(json.dumps(row))
    machine.write_result(a.build, 'exporter', out)


if __name__ == '__main__':
    main()
