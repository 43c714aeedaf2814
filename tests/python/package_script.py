"""Runs Python with the package in a process of its own."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REPLAY = 'replay:' + os.path.join(ROOT, 'examples', 'replay.jsonl') + ',loop,speed=50'
TRACE = os.path.join(ROOT, 'examples', 'resnet-demo.json.gz')

# What hides a package from an interpreter: its import fails as if it were not installed.
HIDE = 'import sys\nfor name in %r: sys.modules[name] = None\n'


def run_script(text, *, hidden=(), python=sys.executable, **variables):
    """What the script prints. A script that fails fails the test."""
    environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, 'python'), **variables)
    script = (HIDE % (list(hidden),) if hidden else '') + text
    done = subprocess.run([python, '-c', script], capture_output=True, text=True, timeout=100, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
