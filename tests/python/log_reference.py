"""What logs of trainings say, read by regular expressions alone: slow, and independent of the program.

Figures are of printed lines. A step's time is what its line states, in nanoseconds; memory is the largest that any line
states, in bytes.
"""
import re

TIME = re.compile(r'elapsed time per iteration \(ms\): ([0-9.]+)')
ITERATION = re.compile(r' iteration +(\d+)/')
TFLOPS = re.compile(r'(?:Effective Tera Flops per GPU|throughput per GPU \(TFLOP/s/GPU\)|TFLOPs): ([0-9.]+)')
MEMORY = re.compile(r'\| max allocated: ([0-9.]+) \| reserved: ([0-9.]+)(?: \| max reserved: ([0-9.]+))?')
SEE_MEMORY = re.compile(r'MA ([0-9.]+) GB +Max_MA ([0-9.]+) GB +CA ([0-9.]+) GB +Max_CA ([0-9.]+) GB')


def steps(text):
    """(iteration, nanoseconds) of each line."""
    out = []
    for line in text.splitlines():
        time = TIME.search(line)
        if time:
            out.append((int(ITERATION.search(line).group(1)), round(float(time.group(1)) * 1e6)))
    return out


def tflops(text):
    return [float(t) for t in TFLOPS.findall(text)]


def memory(text):
    """(largest allocated, largest reserved), None where no line states it."""
    allocated, reserved = [], []
    for largest, now, most in MEMORY.findall(text):
        allocated.append(round(float(largest) * 2**20))
        reserved += [round(float(x) * 2**20) for x in (now, most) if x]
    for now, largest, held, most in SEE_MEMORY.findall(text):
        allocated += [round(float(x) * 2**30) for x in (now, largest)]
        reserved += [round(float(x) * 2**30) for x in (held, most)]
    return max(allocated, default=None), max(reserved, default=None)


def percentile(values, q):
    values = sorted(values)
    at = (len(values) - 1) * q / 100
    low = int(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def measured(times):
    """All but leading steps of more than 1.5 times the lower median."""
    usual = sorted(times)[(len(times) - 1) // 2]
    first = 0
    while first < len(times) and times[first] > 1.5 * usual:
        first += 1
    return times[first:] or times
