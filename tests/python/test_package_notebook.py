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
    '%%profgpu --no-trace --backend none\n1 / 0',
    '%%profgpu --no-trace --backend none\nfor',
    'profgpu.track_cells()',
    'block = bytearray(50 << 20)',
    'profgpu.track_cells(False)',
    'del block',
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
    # A cell that fails fails, and shows its error once.
    for number, name in ((7, 'ZeroDivisionError'), (8, 'SyntaxError')):
        assert [o.output_type for o in outputs[number]] == ['error'] and outputs[number][0].ename == name
    memory = shown(4)[shown(4).rindex('<table>'):]
    assert memory.count('<tr>') == 2 and '<td>host</td>' in memory
    assert outputs[9] == [] and outputs[12] == []
    kept = shown(10, 'text/plain').splitlines()[1].split()
    assert kept[0] == 'host' and kept[3].startswith('+') and 45 < float(kept[3]) < 60 and kept[4] == 'MiB'
