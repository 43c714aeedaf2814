"""The machine that is checked: its devices as nvidia-smi knows them, our program, and a load."""
import json
import os
import platform
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RESULTS = os.path.join(ROOT, 'docs', 'results')
LOAD = os.path.join(ROOT, 'scripts', 'gpu_check', 'load.py')
INVENTORY = ('index', 'uuid', 'name', 'driver_version', 'pci.bus_id')


class NoGpu(Exception):
    """There is nothing to check here, and why."""


class Machine:
    def __init__(self, seconds):
        self.seconds = seconds
        self.simulated = any(os.environ.get(v) for v in ('PROFGPU_NVML_LIBRARY', 'PROFGPU_NVIDIA_SMI'))
        self.smi = os.environ.get('PROFGPU_NVIDIA_SMI') or shutil.which('nvidia-smi')
        self.program = os.path.abspath(os.environ.get('PROFGPU') or os.path.join(ROOT, 'build', 'release', 'profgpu'))
        self.devices = []

    def find(self):
        """The devices, then what can drive them. NoGpu where something is missing that only such a machine has."""
        if not self.smi:
            raise NoGpu('there is no nvidia-smi on the PATH: no NVIDIA driver here')
        try:
            listed = subprocess.run([self.smi, '--query-gpu=' + ','.join(INVENTORY), '--format=csv,noheader'],
                                    capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise NoGpu(f'nvidia-smi cannot be run: {e}') from e
        rows = [line.split(', ', len(INVENTORY) - 1) for line in listed.stdout.splitlines()]
        self.devices = [dict(zip(INVENTORY, row)) for row in rows if len(row) == len(INVENTORY) and row[0].isdigit()]
        if listed.returncode or not self.devices:
            raise NoGpu('nvidia-smi lists no device: ' + ((listed.stdout + listed.stderr).strip()[:300] or 'it says nothing'))
        self.build()
        if not self.simulated:
            torch = subprocess.run([sys.executable, '-c', 'import torch; assert torch.cuda.is_available()'],
                                   capture_output=True, text=True, check=False)
            if torch.returncode:
                raise NoGpu('the load needs PyTorch with CUDA: ' + (torch.stderr.strip().split('\n')[-1] or 'no CUDA'))

    def build(self):
        if os.access(self.program, os.X_OK):
            return
        for words in (['--preset', 'release', '-DPROFGPU_TESTS=OFF'], ['--build', '--preset', 'release', '--target', 'profgpu']):
            if not shutil.which('cmake') or subprocess.run(['cmake', *words], cwd=ROOT, check=False).returncode:
                sys.exit(f'gpu-check: {self.program} is not there and cannot be built here: bring it along')

    def profgpu(self, *words, timeout=120):
        """What a command writes; an exit status of None: it took too long."""
        try:
            return subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                                  check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, None, '', f'still running after {timeout} s')

    def profgpu_json(self, *words):
        """(document or None, why not)."""
        result = self.profgpu(*words)
        try:
            return json.loads(result.stdout), result.stderr.strip()
        except ValueError:
            return None, f'exit {result.returncode}: {result.stderr.strip()[:300]}'

    def load(self, phases):
        """The command that makes the load, and writes to `phases` what it does when."""
        words = [sys.executable, LOAD, str(self.seconds), phases]
        return words + ['--asleep'] if self.simulated else words

    def describe(self, document):
        version = self.profgpu('--version').stdout.strip()
        return {'simulated': self.simulated, 'profgpu': version, 'seconds': self.seconds,
                'devices': [{k: d[k] for k in ('index', 'name', 'driver_version')} for d in self.devices],
                'machine': {'kernel': platform.release(), 'glibc': re.sub(r'^glibc ', '', ' '.join(platform.libc_ver())),
                            'processors': os.cpu_count()}, **document}
