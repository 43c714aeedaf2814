#!/usr/bin/env python3
"""How fast an export of Nsight Systems is read: bench/nsight.py BUILD [--million ROWS]. Writes results/nsight.json.

The file has kernels, their launches, ranges and calls of the C library as a training run has them. The yardstick is SQLite alone (bench/bare_select.cc),
selecting the same columns and taking each cell once, on one core; profgpu reads, sorts, links, and is measured with one thread and with all.
"""
import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from machine import description, write_result  # noqa: E402

TARGET = 0.6
RUNS = 5


def make(path, kernels):
    if os.path.exists(path):
        return
    db = sqlite3.connect(path + '.part')
    db.execute('pragma journal_mode = off')
    db.execute('pragma synchronous = off')
    db.execute('create table StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)')
    db.executemany('insert into StringIds values (?, ?)', [(i, f'void kernel_{i}<float, {i % 7}>(float const*, float*, int)') for i in range(300)])
    db.executemany('insert into StringIds values (?, ?)', [(1000, 'cudaLaunchKernel_v7000'), (1001, 'cudaMemcpyAsync_v3020'), (1002, 'read'), (1003, 'aten::mm')])
    kernel = ('start end deviceId contextId greenContextId streamId correlationId globalPid demangledName shortName mangledName launchType cacheConfig '
              'registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId '
              'sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig').split()
    tables = {'CUPTI_ACTIVITY_KIND_KERNEL': kernel,
              'CUPTI_ACTIVITY_KIND_RUNTIME': 'start end eventClass globalTid correlationId nameId returnValue callchainId'.split(),
              'NVTX_EVENTS': ('start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value int64Value doubleValue '
                              'uint32Value int32Value floatValue jsonTextId jsonText binaryData').split(),
              'OSRT_API': 'start end eventClass globalTid nameId returnValue nestingLevel callchainId'.split()}
    for name, columns in tables.items():
        db.execute(f'create table {name} ({", ".join(chr(34) + c + chr(34) + " INTEGER" for c in columns)})')
    pid = 1 << 48 | 4711 << 24

    def fill(name, rows):
        db.executemany(f'insert into {name} values ({",".join("?" * len(tables[name]))})', rows)

    fill('CUPTI_ACTIVITY_KIND_KERNEL',
         ((i * 9000 + 7000, i * 9000 + 15000, 0, 1, None, 7, i + 1, pid, i % 300, i % 300, None, 1, 0, 64, 128, 1, 1, 256, 1, 1, 0, 49152, 0, 0, i, 49152,
           None, 0) for i in range(kernels)))
    fill('CUPTI_ACTIVITY_KIND_RUNTIME', ((i * 9000, i * 9000 + 5000, 0, pid | 1, i + 1, 1000, 0, None) for i in range(kernels)))
    fill('NVTX_EVENTS', ((i * 18000 - 500, i * 18000 + 17000, 59, None, None, None, None, pid | 1, None, 1003, 0, *[None] * 9) for i in range(kernels // 2)))
    fill('OSRT_API', ((i * 36000 + 100, i * 36000 + 2000, 27, pid | 2, 1002, 0, 0, None) for i in range(kernels // 4)))
    db.commit()
    db.close()
    os.rename(path + '.part', path)


def run(*words):
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('--million', type=float, default=2)
    args = parser.parse_args()
    folder = os.path.join(args.build, 'traces')
    os.makedirs(folder, exist_ok=True)
    kernels = int(args.million * 1e6 / 2.75)
    path = os.path.join(folder, f'nsight-{kernels}.sqlite')
    make(path, kernels)
    bare, one, all_threads, sizes = [], [], [], {}
    for _ in range(RUNS):   # in turns
        b = run(os.path.join(args.build, 'bench', 'bare_select'), path)
        bare.append(b['seconds'])
        for times, threads in ((one, '1'), (all_threads, '0')):
            s = run(os.path.join(args.build, 'bench', 'stages'), path, threads)
            times.append(s['read_s'] + s['link_s'])
            sizes = {'events': s['events'], 'trace_bytes': s['trace_bytes'], 'rows': b['rows']}
    median = statistics.median
    result = {**description(args.build), **sizes, 'file_bytes': os.path.getsize(path), 'select_s': median(bare), 'one_thread_s': median(one), 'all_threads_s': median(all_threads),
              'of_select_one_thread': median(bare) / median(one), 'of_select': median(bare) / median(all_threads), 'target': TARGET}
    write_result(args.build, 'nsight', result)
    print(json.dumps(result, indent=2))


if __name__ == '__main__':
    main()
