"""The examples of docs/python.md run, one after the other as they stand there."""
import os
import re

import pytest
from package_script import ROOT, TRACE

pytestmark = pytest.mark.usefixtures('package')


def test_examples(tmp_path, monkeypatch):
    pytest.importorskip('torch')
    with open(os.path.join(ROOT, 'docs', 'python.md'), encoding='utf-8') as file:
        blocks = re.findall(r'^```python\n(.*?)^```', file.read(), re.M | re.S)
    assert len(blocks) >= 9
    monkeypatch.chdir(tmp_path)
    os.symlink(TRACE, 'trace.json.gz')
    names = {'__name__': 'example'}
    for number, block in enumerate(blocks):
        exec(compile(block, f'docs/python.md, example {number}', 'exec'), names)
    assert names['found'].rows and names['watched'].steps == 8 and len(names['longest']) == 3
    assert names['rec'].report.findings is not None and (tmp_path / 'report.html').exists()
