"""Reports, summaries and %%profgpu in a notebook, run by a kernel of its own."""
import os

import pytest
from package_script import REPLAY, ROOT, TRACE

nbformat = pytest.importorskip('nbformat')
nbclient = pytest.importorskip('nbclient')
pytest.importorskip('ipykernel')
pytestmark = pytest.mark.usefixtures('package')

CELLS = [
    f'import time, profgpu\nreport = profgpu.analyze({TRACE!r})\nreport',
    'report.findings[0]',
    'report.kernels',
    '%load_ext profgpu',
    f'%%profgpu --no-trace --backend {REPLAY} --interval 0.01\ntime.sleep(0.2)\nkept = 7',
    'print(kept)',
    '%%profgpu --nonsense\npass',
]


def test_cells(tmp_path, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', os.path.join(ROOT, 'python'))
    monkeypatch.setenv('IPYTHONDIR', str(tmp_path))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, timeout=60, kernel_name='python3', allow_errors=True).execute()
    outputs = [cell.outputs for cell in book.cells]

    def shown(number, kind='text/html'):
        return ''.join(str(o.data.get(kind, '')) for o in outputs[number] if 'data' in o)

    assert '<table' in shown(0) and 'what to change' in shown(0) and '<Report: ' in shown(0, 'text/plain')
    assert 'data-loading-bound' in shown(1, 'text/plain') and outputs[2] and outputs[3] == []
    assert '[GPU 0]' in shown(4) and 'util.gpu' in shown(4)
    assert outputs[5][0].text == '7\n'
    assert outputs[6][0].ename == 'ProfgpuError' and '--no-trace' in outputs[6][0].evalue
