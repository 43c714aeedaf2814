"""The documentation becomes a site without a warning: every link leads somewhere, and every page is in the menu."""
import glob
import os
import re
import subprocess
import sys

import pytest

from conftest import ROOT

pytest.importorskip('sphinx')


def test_site(tmp_path):
    site = tmp_path / 'site'
    done = subprocess.run([sys.executable, '-m', 'sphinx', '-W', '--keep-going', '-q', '-b', 'html', '-d', str(tmp_path / 'trees'),
                           os.path.join(ROOT, 'docs'), str(site)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    start = (site / 'README.html').read_text(encoding='utf-8')
    menu = set(re.findall(r'toctree-l1[^"]*"><a class="reference internal" href="([\w-]+)\.html"', start))
    pages = {os.path.basename(p)[:-3] for p in glob.glob(os.path.join(ROOT, 'docs', '*.md'))}
    assert menu == pages - {'README'}
