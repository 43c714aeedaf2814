"""The real program in a terminal of tmux: keys in, screens out."""
import os
import shutil
import subprocess
import time
import uuid

import pytest

from conftest import ROOT, program
from exporter_page import STUB


class TerminalSession:
    def __init__(self, folder, width, height, *words, scenario=None, env=None, shell=''):
        if not shutil.which('tmux'):
            pytest.skip('tmux is not installed')
        self.name = 't' + uuid.uuid4().hex[:8]
        self.folder = folder
        self.status = folder / 'status'
        self.error = folder / 'error'
        more = {'LC_ALL': 'C.UTF-8', 'TZ': 'UTC', **(env or {})}
        if scenario is not None:
            path = folder / 'scenario.txt'
            path.write_text(scenario)
            more.update(PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=str(path))
            words = ('--backend', 'nvml', *words)
        line = ' '.join(f"'{w}'" for w in ('env', *(f'{k}={v}' for k, v in more.items()), program('PROFGPU', 'profgpu'), 'top', *map(str, words)))
        script = folder / 'run.sh'
        # What the terminal is like afterwards is asked of the terminal itself.
        script.write_text(f'{shell}\n{line} 2> {self.error}\nstatus=$?\nstty -a > {folder}/stty\necho LEFT\necho $status > {self.status}\nsleep 600\n')
        self.tmux('new-session', '-d', '-x', str(width), '-y', str(height), '-c', ROOT, f'bash {script}')

    def tmux(self, *words):
        return subprocess.run(['tmux', '-L', self.name, '-f', '/dev/null', *words], check=True, capture_output=True, timeout=20,
                              env=dict(os.environ, TMUX_TMPDIR=str(self.folder))).stdout.decode()

    def screen(self, colours=False):
        return self.tmux('capture-pane', '-p', *(['-e'] if colours else []))

    def keys(self, *keys):
        self.tmux('send-keys', *keys)

    def wait(self, is_so, seconds=60):
        """The first screen of which `is_so` holds: a function, or a text that is on it."""
        end = time.monotonic() + seconds
        while True:
            text = self.screen()
            if is_so in text if isinstance(is_so, str) else is_so(text):
                return text
            assert time.monotonic() < end, f'never came: {is_so}\n{text}\n{self.error.read_text() if self.error.exists() else ""}'
            time.sleep(0.05)

    def exit_code(self, seconds=60):
        end = time.monotonic() + seconds
        while not self.status.exists() or not self.status.read_text():
            assert time.monotonic() < end, f'it does not end\n{self.screen()}'
            time.sleep(0.05)
        return int(self.status.read_text())

    def pid(self):
        """Of the program."""
        shell = self.tmux('list-panes', '-F', '#{pane_pid}').strip()
        found = subprocess.run(['pgrep', '-P', shell, 'profgpu'], capture_output=True, text=True).stdout.split()
        return int(found[0])

    def close(self):
        subprocess.run(['tmux', '-L', self.name, 'kill-server'], capture_output=True, env=dict(os.environ, TMUX_TMPDIR=str(self.folder)))
