#!/usr/bin/env python3
"""Makes the first visible device rest, work, half work and rest again, each a quarter of the time.

    load.py SECONDS FILE [--asleep]

Appends to FILE one line of JSON as each phase begins, and one at the end: phase, time_ns (Unix), pid. With --asleep it
makes no load: for stand-ins, whose devices play a scenario.
"""
import json
import os
import sys
import time

SIZE = 8192   # a product of such matrices takes about 2 ms on an H100: full load, and still steered to the millisecond
PHASES = ('rest', 'work', 'half', 'rest')


def worker():
    """work(seconds): keeps the device busy for about so long."""
    import torch
    a = torch.randn(SIZE, SIZE, device='cuda', dtype=torch.bfloat16)
    b = torch.randn(SIZE, SIZE, device='cuda', dtype=torch.bfloat16)
    out = torch.empty_like(a)

    def work(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(4):
                torch.mm(a, b, out=out)
            torch.cuda.synchronize()

    work(1)   # loads the library's kernels
    return work


def main():
    seconds, path = float(sys.argv[1]), sys.argv[2]
    work = time.sleep if '--asleep' in sys.argv else worker()

    def note(phase):
        with open(path, 'a', encoding='utf-8') as f:
            f.write(json.dumps({'phase': phase, 'time_ns': time.time_ns(), 'pid': os.getpid()}) + '\n')

    for phase in PHASES:
        note(phase)
        end = time.monotonic() + seconds / len(PHASES)
        while (left := end - time.monotonic()) > 0:
            if phase == 'rest':
                time.sleep(left)
            else:
                work(min(left, 1 if phase == 'work' else 0.5))
            if phase == 'half':
                time.sleep(max(0, min(0.5, end - time.monotonic())))
    note('end')


if __name__ == '__main__':
    main()
