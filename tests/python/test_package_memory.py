"""record_memory() and the memory of cells, with a stand-in for PyTorch's CUDA allocator."""
import gc
import mmap
import os
import re

import pytest

torch = pytest.importorskip('torch')
import profgpu  # noqa: E402
from cuda_memory import MIB, CudaMemory  # noqa: E402
from package_script import run_script  # noqa: E402
from profgpu import _allocator, memory  # noqa: E402

pytestmark = pytest.mark.usefixtures('package')


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv('RANK', raising=False)
    return tmp_path


@pytest.fixture
def cuda(here):
    made = []

    def make(**options):
        made.append(CudaMemory(torch, **options))
        return made[-1]

    yield make
    for one in reversed(made):
        one.restore()


def test_without_a_gpu_a_sentence_says_so_and_nothing_is_written(here, capsys):
    if torch.cuda.is_available():
        pytest.skip('there is a GPU')
    with profgpu.record_memory() as recorded:
        ran = True
    assert ran and capsys.readouterr().err == 'profgpu: record_memory() records nothing: PyTorch finds no GPU.\n'
    assert str(recorded.report) == 'Nothing was recorded: PyTorch finds no GPU.'
    assert recorded.report.findings == [] and recorded.report.to_dict()['ranks'] == []
    with pytest.raises(profgpu.ProfgpuError, match='no tables: PyTorch finds no GPU'):
        recorded.report.query('select 1')
    assert os.listdir(here) == []


def test_the_block_is_written_at_its_end(cuda, here, capsys):
    stand_in = cuda()
    with profgpu.record_memory('a/b.pickle', max_entries=1000, stacks='python') as recorded:
        assert stand_in.settings == {'stacks': 'python', 'max_entries': 1000}
        with pytest.raises(profgpu.ProfgpuError, match='before the block has ended'):
            recorded.report
    assert stand_in.settings is None
    assert os.listdir(here / 'a') == ['b.pickle']
    assert recorded.report.to_dict()['ranks'][0]['snapshot']['events'] > 400
    assert 'Peak' in recorded.report.verdict
    assert capsys.readouterr() == ('', '')


def test_a_rank_has_a_file_of_its_own(cuda, here, monkeypatch):
    cuda()
    with profgpu.record_memory() as recorded:
        assert recorded.path == 'memory.pickle'
    monkeypatch.setenv('RANK', '3')
    with profgpu.record_memory():
        pass
    assert sorted(os.listdir(here)) == ['memory-rank3.pickle', 'memory.pickle']


def test_a_history_that_was_on_stays_on(cuda):
    stand_in = cuda()
    stand_in.init()
    stand_in.record(max_entries=7)
    with profgpu.record_memory() as recorded:
        assert stand_in.settings['max_entries'] == 7
    assert stand_in.settings['max_entries'] == 7 and recorded.report


def test_not_at_end(cuda, here):
    stand_in = cuda()
    with profgpu.record_memory(at_end=False) as recorded:
        pass
    assert os.listdir(here) == [] and stand_in.settings is None
    with pytest.raises(profgpu.ProfgpuError, match='no snapshot was written'):
        recorded.report


@pytest.mark.parametrize('has_observers', [True, False])
def test_out_of_memory_is_explained_before_the_traceback(cuda, here, capsys, has_observers):
    stand_in = cuda(has_observers=has_observers)
    with pytest.raises(torch.OutOfMemoryError, match='Tried to allocate'):
        with profgpu.record_memory('m.pickle') as recorded:
            stand_in.fail(3 << 30)
    said = capsys.readouterr()
    assert said.out == ''
    assert said.err.startswith('profgpu: out of memory; what the allocator held is in m-oom.pickle\n')
    for part in ('Out of memory: 3.00 GiB', 'attend (job/model.py:30)', 'Memory at the peak'):
        assert part in said.err
    assert os.listdir(here) == ['m-oom.pickle'] and len(stand_in.dumped) == 1 and recorded.oom_path == 'm-oom.pickle'
    assert 'oom' in [finding.rule for finding in recorded.report.findings] and stand_in.settings is None


def test_an_error_that_is_caught_leaves_its_snapshot_and_the_block_goes_on(cuda, here, capsys):
    stand_in = cuda()
    with profgpu.record_memory('m.pickle') as recorded:
        for _ in range(5):
            with pytest.raises(torch.OutOfMemoryError):
                stand_in.fail()
    assert capsys.readouterr().err == ''
    assert sorted(os.listdir(here)) == ['m-oom.pickle', 'm.pickle']
    assert len(stand_in.dumped) == _allocator.OutOfMemory.MOST + 1   # only the first of them
    assert recorded.report.to_dict()['inputs'][0]['path'].endswith('m.pickle')


def test_the_last_of_many_failures_is_written_though_not_when_it_happened(cuda, capsys):
    stand_in = cuda()
    with pytest.raises(torch.OutOfMemoryError):
        with profgpu.record_memory('m.pickle'):
            for size in range(6):
                try:
                    stand_in.fail(size + 1 << 30)
                except torch.OutOfMemoryError:
                    if size == 5:
                        raise
    assert 'Out of memory: 6.00 GiB' in capsys.readouterr().err


def test_a_closed_block_observes_no_more(cuda, here):
    stand_in = cuda()
    with profgpu.record_memory('m.pickle', at_end=False):
        pass
    with pytest.raises(torch.OutOfMemoryError):
        stand_in.fail()
    assert os.listdir(here) == []


def test_on_oom_can_be_turned_off(cuda, here, capsys):
    stand_in = cuda()
    with pytest.raises(torch.OutOfMemoryError):
        with profgpu.record_memory('m.pickle', on_oom=False):
            stand_in.fail()
    assert os.listdir(here) == ['m.pickle'] and capsys.readouterr().err == ''


def test_another_error_goes_on_and_the_block_is_written(cuda, here):
    stand_in = cuda()
    with pytest.raises(ValueError, match='theirs'):
        with profgpu.record_memory('m.pickle'):
            raise ValueError('theirs')
    assert os.listdir(here) == ['m.pickle'] and stand_in.settings is None


def test_what_cannot_be_written_hides_no_error_of_the_program(cuda, here, capsys):
    stand_in = cuda()
    for error, act in ((torch.OutOfMemoryError, stand_in.fail), (ValueError, lambda: int('x')), (OSError, lambda: None)):
        with pytest.raises(error):
            with profgpu.record_memory('file/m.pickle'):
                (here / 'file').write_text('')   # after the path was checked
                act()
        assert error is OSError or 'file' in capsys.readouterr().err
        assert stand_in.settings is None and os.listdir(here) == ['file']
        (here / 'file').unlink()


def test_a_path_that_cannot_be_written_is_an_error_before_the_block_runs(cuda, here):
    stand_in = cuda()
    (here / 'file').write_text('')
    with pytest.raises(NotADirectoryError, match='file'):
        with profgpu.record_memory('file/sub/m.pickle'):
            raise AssertionError('it runs')
    assert stand_in.settings is None


def test_stacks_of_no_kind_are_an_error(here):
    with pytest.raises(ValueError, match='"all" or "python", not \'foo\''):
        profgpu.record_memory(stacks='foo')


def test_pytorch_2_0(cuda, here):
    stand_in = cuda(version='2.0', old_signature=True)
    with profgpu.record_memory(max_entries=50) as recorded:
        assert stand_in.settings == {'max_entries': 50}
    assert stand_in.settings is None and recorded.report.to_dict()['ranks'][0]['snapshot']['events'] > 0


def test_the_guides_snapshot_is_the_same(cuda, here):
    from profgpu.guide import capture_memory_snapshot
    stand_in = cuda()
    stand_in.init()
    with pytest.raises(ValueError):
        with capture_memory_snapshot('x/y.pickle', max_entries=10):
            assert stand_in.settings['max_entries'] == 10
            raise ValueError
    assert os.listdir(here / 'x') == ['y.pickle'] and stand_in.settings is None


def test_memory_of_a_piece_of_code(cuda):
    stand_in = cuda()
    stand_in.init()
    meter = memory.MemoryMeter()
    meter.start()
    stand_in.allocate(50 * MIB)
    stand_in.allocate(-30 * MIB)

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            stand_in.allocate(-5 * MIB)

    gc.disable()
    try:
        Cycle()
        with mmap.mmap(-1, 64 * MIB) as held:   # a bytearray may be given room that the heap already holds
            for _ in range(64):
                held.write(b'x' * MIB)
        host, gpu = meter.stop()
    finally:
        gc.enable()
    assert gpu == memory.MemoryUse('cuda:0', 100 * MIB, 115 * MIB, 150 * MIB, 5 * MIB, 55 * MIB)
    assert gpu.kept == 15 * MIB and gpu.freed == 35 * MIB
    assert host.where == 'host' and host.before > 0
    if host.peak is not None:   # where the kernel lets us begin it anew
        assert host.freed > 50 * MIB
    lines = meter.format().splitlines()
    assert lines[0].split() == ['memory', 'before', 'kept', 'peak', 'freed', 'by', 'gc', 'cached']
    assert lines[2].replace(' MiB', '').split() == ['cuda:0', '100.0', '+15.0', '150.0', '35.0', '5.0', '55.0']
    assert re.search('<td>cuda:0</td><td>100.0 MiB</td>', meter._repr_html_())


SHELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors='NoColor')
shell.run_line_magic('load_ext', 'profgpu')
for cell in ('%%profgpu --no-trace --backend none\\nkept = 1', '%%profgpu --no-trace --backend none\\n1 / 0'):
    print('succeeds:', shell.run_cell(cell, store_history=True).success)
shell.run_cell('import profgpu; profgpu.track_cells()')
shell.run_cell('1 / 0')
shell.run_cell('profgpu.track_cells(False)')
shell.run_cell('print("quiet", kept)')
"""


def test_in_ipython_a_cell_that_fails_fails_and_shows_its_error_once(tmp_path):
    pytest.importorskip('IPython')
    said = run_script(SHELL, IPYTHONDIR=str(tmp_path))
    first, second, tracked = re.split('succeeds: True|succeeds: False', said)
    assert re.findall('succeeds: (True|False)', said) == ['True', 'False']
    assert re.search(r'^host +[\d.]+ [KMG]iB', first, re.M)
    assert second.count('ZeroDivisionError: ') == 1 and 'by gc' not in second
    # Also below a cell that fails; and no more once it is turned off.
    assert tracked.count('by gc') == 1 and tracked.count('ZeroDivisionError: ') == 1
    assert tracked.rstrip().endswith('quiet 1')
