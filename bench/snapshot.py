#!/usr/bin/env python3
"""How fast and in how much memory a memory snapshot of PyTorch is read: bench/snapshot.py BUILD [--megabytes N] [--runs N].

The file is a training job's history of allocations, step after step, as torch.cuda.memory._dump_snapshot() writes it. Its stacks are written out
for each event, as references to frames, or shared by events that have the same: PyTorch does both. Writes results/snapshot.json.
"""
import argparse
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from end_to_end import measured, peak_bytes, summary  # noqa: E402
from machine import description, write_result  # noqa: E402

TARGET_MB_S, TARGET_MEMORY = 300, 0.5
STACKS, FRAMES, DEPTH, ALLOCATIONS = 400, 900, 28, 1000   # the last: of a step
BASE, FIRST_US = 0x7f0000000000, 1_750_000_000_000_000


class Pickle:
    """Writes pickles of protocol 4 without frames. Objects get their place in the memo in the order in which they are written."""

    def __init__(self):
        self.memo, self.known = 0, {}

    def memoize(self):
        self.memo += 1
        return b'\x94'

    def again(self, key):
        place = self.known[key]
        return b'h' + bytes([place]) if place < 256 else b'j' + struct.pack('<I', place)

    def once(self, key, write):
        """What `write` returns, and a reference to that from the second time on."""
        if key in self.known:
            return self.again(key)
        self.known[key] = self.memo
        return write()

    def text(self, text):
        raw = text.encode()
        size = b'\x8c' + bytes([len(raw)]) if len(raw) < 256 else b'X' + struct.pack('<I', len(raw))
        return self.once(text, lambda: size + raw + self.memoize())

    @staticmethod
    def number(x):
        if 0 <= x < 256:
            return b'K' + bytes([x])
        return b'J' + struct.pack('<i', x) if x < 2**31 else b'\x8a\x08' + struct.pack('<q', x)

    def dictionary(self, **members):
        """Members are functions, so that all is written in order."""
        begin = b'}' + self.memoize() + b'('
        return begin + b''.join(self.text(key) + value() for key, value in members.items()) + b'u'

    def items(self, values):
        begin = b']' + self.memoize() + b'('
        return begin + b''.join(value() for value in values) + b'e'


def frame(p, i):
    return lambda: p.once(('frame', i), lambda: p.dictionary(
        name=lambda: p.text(f'forward_{i}'), filename=lambda: p.text(f'/opt/model/layers/block_{i % 40}.py'), line=lambda: p.number(20 + i)))


def stack(p, i, shared):
    def write():
        return p.items([frame(p, (i * 7 + depth * (i % 5 + 1)) % FRAMES) for depth in range(DEPTH)])
    return (lambda: p.once(('stack', i), write)) if shared else write


def step(p, shared):
    """The events of a step, and where in them their times are."""
    out, times = bytearray(), []
    order = [(i, 'alloc') for i in range(ALLOCATIONS)]
    for i in reversed(range(ALLOCATIONS)):
        order += [(i, 'free_requested'), (i, 'free_completed')]
    for i, action in order:
        time = Pickle.number(FIRST_US)
        event = p.dictionary(action=lambda: p.text(action), addr=lambda: p.number(BASE + i * (2 << 20)),
                             size=lambda: p.number(512 * (i % 3000 + 1)), stream=lambda: p.number(0), time_us=lambda: time,
                             frames=stack(p, i % STACKS, shared))
        times.append(len(out) + event.index(time) + 2)
        out += event
    return out, times


def make(path, size, shared):
    p = Pickle()
    with open(path + '.part', 'wb') as f:
        f.write(b'\x80\x04}' + p.memoize() + b'(' + p.text('segments'))
        block = [lambda: p.dictionary(address=lambda: p.number(BASE), size=lambda: p.number(4 << 30), requested_size=lambda: p.number(0),
                                      state=lambda: p.text('inactive'), frames=lambda: p.items([]))]
        f.write(p.items([lambda: p.dictionary(
            device=lambda: p.number(0), address=lambda: p.number(BASE), total_size=lambda: p.number(4 << 30), allocated_size=lambda: p.number(0),
            active_size=lambda: p.number(0), requested_size=lambda: p.number(0), stream=lambda: p.number(0), segment_type=lambda: p.text('large'),
            blocks=lambda: p.items(block))]))
        f.write(p.text('device_traces') + b']' + p.memoize() + b'(]' + p.memoize() + b'(')
        now = FIRST_US
        events, times = step(p, shared)   # writes out what later ones refer to
        again = None
        while f.tell() < size:
            for at in times:
                struct.pack_into('<q', events, at, now)
                now += 30
            f.write(events)
            if again is None:
                events, times = again = step(p, shared)
        f.write(b'eeu.')
    os.rename(path + '.part', path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build')
    parser.add_argument('--megabytes', type=int, default=1000)
    parser.add_argument('--runs', type=int, default=5)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    folder = os.path.join(build, 'traces')
    os.makedirs(folder, exist_ok=True)
    result = {'machine': description(build), 'runs': options.runs, 'target_mb_s': TARGET_MB_S, 'target_memory': TARGET_MEMORY, 'rows': []}
    for stacks, shared in (('written out', False), ('shared', True)):
        path = os.path.join(folder, f'snapshot-{options.megabytes}-{int(shared)}.pickle')
        if not os.path.exists(path):
            make(path, options.megabytes * 10**6, shared)
        command = [f'{build}/profgpu', 'analyze', '--json', '--no-progress', '-o', '/dev/null', path]
        runs = [measured(command)[0] for _ in range(options.runs + 1)][1:]
        size = os.path.getsize(path)
        peak = peak_bytes(command, 1)
        result['rows'].append({'stacks': stacks, 'bytes': size, 'mb_s': summary(size / 1e6 / r['wall_s'] for r in runs),
                               'cpu_s': summary(r['cpu_s'] for r in runs), 'peak_bytes': peak, 'of_file': peak / size})
        row = result['rows'][-1]
        print(f'stacks {stacks}: {size / 1e6:.0f} MB at {row["mb_s"]["median"]:.0f} MB/s (CPU time {row["cpu_s"]["median"]:.2f} s), '
              f'peak memory {peak / 1e6:.0f} MB, {row["of_file"]:.2f} of the file')
        os.remove(path)
    write_result(build, 'snapshot', result)


if __name__ == '__main__':
    main()
