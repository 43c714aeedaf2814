"""The page in Firefox, driven through Marionette: views, timeline and errors. Chromium has the full tests (tests/page)."""
import json
import os
import shutil
import socket
import subprocess
import time

import pytest

VIEWS = ('overview', 'timeline', 'steps', 'kernels', 'ops', 'flame', 'memory', 'ranks', 'devices', 'inputs')


class Firefox:
    """One window without a screen, in an empty profile, with the network off. A command of Marionette is a line `LENGTH:[0, id, name, arguments]`."""

    def __init__(self, program, folder, port):
        preferences = {'marionette.port': port, 'network.manage-offline-status': False, 'network.online': False, 'app.update.auto': False,
                       'browser.shell.checkDefaultBrowser': False, 'datareporting.policy.dataSubmissionEnabled': False}
        (folder / 'user.js').write_text(''.join(f'user_pref({json.dumps(name)}, {json.dumps(value)});\n' for name, value in preferences.items()))
        self.process = subprocess.Popen([program, '--headless', '--no-remote', '--profile', folder, '--marionette', '--remote-allow-system-access'],
                                        env={**os.environ, 'HOME': str(folder)}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        until = time.time() + 60
        while True:
            try:
                self.socket = socket.create_connection(('127.0.0.1', port), timeout=60)
                break
            except ConnectionRefusedError:
                assert time.time() < until and self.process.poll() is None, 'Firefox does not listen'
                time.sleep(0.1)
        self.stream = self.socket.makefile('rb')
        self.answer()
        self.commands = 0
        self('WebDriver:NewSession')

    def answer(self):
        digits = b''
        while (byte := self.stream.read(1)) != b':':
            assert byte.isdigit(), 'Firefox went away'
            digits += byte
        return json.loads(self.stream.read(int(digits)))

    def __call__(self, name, **arguments):
        self.commands += 1
        text = json.dumps([0, self.commands, name, arguments]).encode()
        self.socket.sendall(b'%d:%s' % (len(text), text))
        (_, number, error, result) = self.answer()
        assert number == self.commands and error is None, error
        return result

    def run(self, script, context='content'):
        self('Marionette:SetContext', value=context)
        result = self('WebDriver:ExecuteScript', script=script, args=[])['value']
        self('Marionette:SetContext', value='content')
        return result

    def wait_for(self, condition, seconds=20):
        until = time.time() + seconds
        while not self.run(f'return Boolean({condition})'):
            assert time.time() < until, f'not in {seconds} s: {condition}'
            time.sleep(0.05)

    def errors(self, file):
        """What the browser's console has of errors and warnings in the page."""
        return self.run('return Services.console.getMessageArray().filter((m) => m instanceof Ci.nsIScriptError && '
                        f'm.sourceName.includes({json.dumps(file)})).map((m) => m.message)', 'chrome')

    def close(self):
        self.socket.close()
        self.process.kill()
        self.process.wait()


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


@pytest.fixture(scope='module')
def firefox(tmp_path_factory):
    program = os.environ.get('FIREFOX') or shutil.which('firefox-esr') or shutil.which('firefox')
    if program is None:
        pytest.skip('Firefox is not installed')
    browser = Firefox(program, tmp_path_factory.mktemp('firefox'), free_port())
    yield browser
    browser.close()


@pytest.fixture(scope='module')
def page(profgpu, simulate, tmp_path_factory):
    file = tmp_path_factory.mktemp('page') / 'job.html'
    trace = simulate('--ranks', '2', '--steps', '4', '--python-stacks', '--fault', 'data-loading-bound')
    assert profgpu('analyze', '--html', file, trace).returncode == 0
    if b'id="data"' not in file.read_bytes():
        pytest.skip('the program was built without the page')
    return file


def test_every_view_opens(firefox, page):
    firefox('WebDriver:Navigate', url=page.as_uri())
    firefox.wait_for("document.documentElement.classList.contains('ready')")
    assert firefox.run("return document.querySelector('.verdict .sentence').innerText").startswith('The GPU waits for data')
    for view in VIEWS:
        firefox.run(f"location.hash = {json.dumps('' if view == 'overview' else view)}")
        shown = f"document.getElementById('view-{view}')"
        if view == 'devices':  # nothing was sampled
            continue
        firefox.wait_for(f'{shown}.checkVisibility() && {shown}.innerText.length > 20')
    assert firefox.errors(page.name) == []


def test_the_timeline_is_drawn_and_answers(firefox, page):
    firefox('WebDriver:Navigate', url=page.as_uri() + '#timeline')
    firefox.wait_for("document.documentElement.classList.contains('ready')")
    colours = """const c = [...document.querySelectorAll('#view-timeline canvas')].sort((a, b) => b.height - a.height)[0];
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size"""
    until = time.time() + 20
    while firefox.run(colours) < 8:
        assert time.time() < until, 'the timeline is empty'
        time.sleep(0.1)
    view = "return document.querySelector('#view-timeline').innerText.match(/[\\d.,]+ \\S+ in view/)[0]"
    whole = firefox.run(view)
    firefox.run("for (const type of ['keydown', 'keyup']) document.querySelector('#view-timeline canvas').dispatchEvent("
                "new KeyboardEvent(type, { key: 'w', code: 'KeyW', bubbles: true }))")
    until = time.time() + 20
    while firefox.run(view) == whole:
        assert time.time() < until, 'W does not zoom'
        time.sleep(0.1)
    assert firefox.errors(page.name) == []
