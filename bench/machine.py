"""What machine and compiler a measurement was made with, and where results are written."""
import datetime
import json
import os
import platform
import re
import subprocess


def first(pattern, text, otherwise='unknown'):
    found = re.search(pattern, text, re.M)
    return found.group(1).strip() if found else otherwise


def description(build):
    with open('/proc/cpuinfo') as f:
        cpu = first(r'^model name\s*:\s*(.+)$', f.read())
    with open('/proc/meminfo') as f:
        memory = int(first(r'^MemTotal:\s*(\d+)', f.read(), '0')) * 1024
    with open(os.path.join(build, 'CMakeCache.txt')) as f:
        compiler = first(r'^CMAKE_CXX_COMPILER:[A-Z]+=(.+)$', f.read())
    version = subprocess.run([compiler, '--version'], capture_output=True, text=True).stdout.split('\n')[0]
    system = 'unknown'
    if os.path.exists('/etc/os-release'):
        with open('/etc/os-release') as f:
            system = first(r'^PRETTY_NAME="?([^"\n]+)', f.read())
    return {'cpu': cpu, 'cores': len(os.sched_getaffinity(0)), 'memory_bytes': memory, 'kernel': platform.release(), 'system': system,
            'compiler': version, 'date': datetime.date.today().isoformat(), 'load_before': os.getloadavg()[0],
            'real_time': os.sched_getscheduler(0) != os.SCHED_OTHER}


def in_words(m):
    return f'{m["cpu"]}, {m["cores"]} cores, {m["memory_bytes"] / 2**30:.0f} GiB, {m["system"]}, Linux {m["kernel"]}, {m["compiler"]}'


def result_path(build, name):
    return os.path.join(build, 'results', name + '.json')


def write_result(build, name, result):
    os.makedirs(os.path.join(build, 'results'), exist_ok=True)
    with open(result_path(build, name), 'w') as f:
        json.dump(result, f, indent=1)
        f.write('\n')
