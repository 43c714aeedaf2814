"""Files as people attach them: in a zip archive."""
import pickle
import zipfile

import pytest

from memory_snapshots import snapshot


def archive(path, files, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, 'w', method) as z:
        for name, content in files.items():
            z.writestr(name, content)
    return path


@pytest.fixture
def pickled():
    return pickle.dumps(snapshot('2.9', events=2000), 4)


@pytest.mark.parametrize('method', [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
@pytest.mark.parametrize('more', [{}, {'a/': b'', '__MACOSX/._snapshot.pickle': b'x' * 300}])
def test_the_one_file_in_an_archive_is_read(method, more, pickled, tmp_path, analyze):
    (tmp_path / 'snapshot.pickle').write_bytes(pickled)
    path = archive(tmp_path / 'snapshot.zip', more | {'a/snapshot.pickle': pickled}, method)
    document = analyze(path)
    assert document['inputs'][0]['issues'] == []
    assert document['ranks'] == analyze(tmp_path / 'snapshot.pickle')['ranks']


def test_what_torch_saved_is_read(pickled, tmp_path, analyze):
    torch = pytest.importorskip('torch')
    torch.save(pickle.loads(pickled), tmp_path / 'snapshot.pt')
    (tmp_path / 'snapshot.pickle').write_bytes(pickled)
    assert analyze(tmp_path / 'snapshot.pt')['ranks'] == analyze(tmp_path / 'snapshot.pickle')['ranks']


def test_several_files_are_an_error_that_counts_them(pickled, tmp_path, profgpu):
    result = profgpu('analyze', archive(tmp_path / 'two.zip', {'rank0.pickle': pickled, 'rank1.pickle': pickled}))
    assert result.returncode == 1 and b'two.zip: a zip file of 2 files' in result.stderr and not result.stdout


def test_a_trace_in_an_archive(simulate, tmp_path, analyze):
    trace = simulate('--seed', '1')
    with open(trace, 'rb') as f:
        path = archive(tmp_path / 'trace.zip', {'trace.json': f.read()})
    assert analyze(path)['ranks'] == analyze(trace)['ranks']


@pytest.mark.parametrize('part', [0.0, 0.2, 0.6, 0.99])
def test_a_cut_archive_is_an_error(part, pickled, tmp_path, profgpu):
    whole = archive(tmp_path / 'a.zip', {'snapshot.pickle': pickled}).read_bytes()
    path = tmp_path / 'cut.zip'
    path.write_bytes(whole[:4 + int(part * (len(whole) - 4))])
    result = profgpu('analyze', path)
    assert result.returncode == 1 and b'cut.zip: a damaged zip file' in result.stderr


def test_damage_never_crashes(pickled, tmp_path, profgpu):
    whole = bytearray(archive(tmp_path / 'a.zip', {'snapshot.pickle': pickled}).read_bytes())
    directory = whole.rfind(b'PK\x01\x02')
    path = tmp_path / 'bad.zip'
    for at in [*range(4, 34), *range(directory, len(whole))]:
        bad = bytearray(whole)
        bad[at] ^= 0xFF
        path.write_bytes(bad)
        assert profgpu('analyze', '--json', path).returncode in (0, 1)


def test_an_encrypted_archive_is_named(pickled, tmp_path, profgpu):
    whole = bytearray(archive(tmp_path / 'a.zip', {'snapshot.pickle': pickled}).read_bytes())
    whole[whole.rfind(b'PK\x01\x02') + 8] |= 1
    (tmp_path / 'locked.zip').write_bytes(whole)
    result = profgpu('analyze', tmp_path / 'locked.zip')
    assert result.returncode == 1 and b'an encrypted zip file' in result.stderr
