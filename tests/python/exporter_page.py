"""A running `profgpu exporter`, and its page as data."""
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

from conftest import ROOT, program

REPLAY = f'replay:{os.path.join(ROOT, "examples", "replay.jsonl")}'
STUB = os.environ.get('NVML_STUB') or os.path.join(os.path.dirname(program('PROFGPU', 'profgpu')), 'tests', 'stubs', 'libnvidia-ml.so.1')
SAMPLE = re.compile(r'^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)')


def samples(text):
    """[(name, labels, number)] of a page in either format. A line that is none of its lines fails."""
    found = []
    for line in text.splitlines():
        if line.startswith('#'):
            assert re.match(r'# (HELP|TYPE) \S+ .+|# EOF$', line), line
            continue
        match = SAMPLE.match(line)
        assert match, line
        found.append((match[1], dict(LABEL.findall(match[2] or '')), float(match[3])))
    return found


class Exporter:
    def __init__(self, *words, env=None, port=None):
        self.error = []
        listen = f'127.0.0.1:{port or 0}'
        words = list(map(str, words))
        if '--listen' not in words:
            words += ['--listen', listen]
        clean = {k: v for k, v in os.environ.items() if not k.startswith('DCGM_') and k != 'NODE_NAME'}
        self.process = subprocess.Popen([program('PROFGPU', 'profgpu'), 'exporter', *words], env=dict(clean, **(env or {})),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = None
        listens = threading.Event()   # or has ended

        def read_errors():
            for line in self.process.stderr:
                self.error.append(line)
                found = re.search(r' at (https?://\S+?)/metrics', line)
                if found and not self.url:
                    self.url = found[1]
                    listens.set()
            listens.set()

        self.reader = threading.Thread(target=read_errors, daemon=True)
        self.reader.start()
        listens.wait(60)
        assert self.url, f'it does not listen: {"".join(self.error)}'
        self.port = int(self.url.rsplit(':', 1)[1])

    def get(self, path='/metrics', headers=None, method='GET', context=None):
        """(status, headers, body as bytes)"""
        request = urllib.request.Request(self.url + path, headers=headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as reply:
                return reply.status, reply.headers, reply.read()
        except urllib.error.HTTPError as e:
            return e.code, e.headers, e.read()

    def page(self, accept=None):
        status, _, body = self.get(headers={'Accept': accept} if accept else {})
        assert status == 200
        return body.decode()

    def values(self, name, **labels):
        """The numbers of that name's series that have these labels, by gpu (a list's order is the page's)."""
        return [n for found, have, n in samples(self.page()) if found == name and labels.items() <= have.items()]

    def wait_for(self, true, seconds=60):
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f'this never came; the page is now:\n{self.page()}'
            time.sleep(0.1)

    def wait_ready(self):
        self.wait_for(lambda: self.get('/-/ready')[0] == 200)
        return self

    def resident_kb(self):
        with open(f'/proc/{self.process.pid}/status') as f:
            return int(re.search(r'VmRSS:\s+(\d+)', f.read())[1])

    def end(self, how=signal.SIGTERM):
        """(exit code, seconds that it took)"""
        begun = time.monotonic()
        self.process.send_signal(how)
        self.process.wait(timeout=60)
        self.reader.join(timeout=60)
        return self.process.returncode, time.monotonic() - begun

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
