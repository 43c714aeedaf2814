"""What writes packages and measures installing, as far as that takes no build: scripts/tarball, clean-install, architecture."""
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import tarfile

import pytest
from conftest import ROOT, program


def run(*words, **more):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=200, cwd=ROOT, **more)
    assert done.returncode == 0, f'{words}:\n{done.stdout}{done.stderr}'
    return done.stdout


@pytest.fixture(scope='module')
def tarball(tmp_path_factory):
    build = os.path.dirname(program('PROFGPU', 'profgpu'))
    if not os.path.exists(os.path.join(build, 'share', 'profgpu.1.gz')):
        pytest.skip('share_files is not built: ' + build)
    out = tmp_path_factory.mktemp('dist')
    path = run('scripts/tarball', build, out).strip()
    again = run('scripts/tarball', build, tmp_path_factory.mktemp('again')).strip()
    with open(path, 'rb') as one, open(again, 'rb') as other:
        assert one.read() == other.read()
    return path


def test_the_folder_runs_from_anywhere(tarball, tmp_path):
    with tarfile.open(tarball) as archive:
        names = archive.getnames()
        assert all(entry.uid == 0 and not os.path.isabs(entry.name) for entry in archive)
        archive.extractall(tmp_path)
    folder, = tmp_path.iterdir()
    assert f'{folder.name}.tar.gz' == os.path.basename(tarball) and f'{folder.name}/share/man/man1/profgpu.1.gz' in names
    there = tmp_path / 'a folder' / 'with blanks'
    there.parent.mkdir()
    shutil.move(folder, there)
    alone = {'PATH': '/usr/bin:/bin', 'HOME': str(tmp_path)}
    assert run(there / 'bin' / 'profgpu', 'demo', env=alone) == run(program('PROFGPU', 'profgpu'), 'demo', env=alone)
    recorded = subprocess.run([there / 'bin' / 'profgpu', 'run', '--trace', '-o', tmp_path / 'rec', '--', '/usr/bin/python3', '-c', '1'],
                              env=alone, capture_output=True, text=True, timeout=60)
    assert recorded.returncode == 0 and 'not beside profgpu' not in recorded.stderr, recorded.stderr
    run('scripts/check-binary', there / 'bin' / 'profgpu', *(there / 'lib' / 'profgpu').glob('*.so*'))


def test_architectures():
    assert run('scripts/architecture', program('PROFGPU', 'profgpu')).strip() in ('x86_64', 'aarch64')
    refused = subprocess.run(['scripts/architecture', 'LICENSE'], cwd=ROOT, capture_output=True, text=True)
    assert refused.returncode == 1 and refused.stderr.endswith('of an architecture without a name\n')


@pytest.fixture(scope='module')
def clean_install():
    loader = importlib.machinery.SourceFileLoader('clean_install', os.path.join(ROOT, 'scripts', 'clean-install'))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('clean_install', loader))
    loader.exec_module(module)
    return module


def test_seconds_by_stage(clean_install, tmp_path):
    system = tmp_path / 'CMakeFiles' / '3.25.1' / 'CMakeSystem.cmake'
    system.parent.mkdir(parents=True)
    system.write_text('')
    os.utime(system, (1000, 1000))
    (tmp_path / 'build.ninja').write_text('')
    os.utime(tmp_path / 'build.ninja', (1004, 1004))
    (tmp_path / '.ninja_log').write_text('# ninja log v5\n0\t30000\t1\ta.cc.o\tx\n10\t90000\t1\tb.cc.o\tx\n90000\t93000\t1\tprofgpu\tx\n')
    assert clean_install.build_stages(str(tmp_path), 100.0) == [('configure', 4.0), ('compile', 90.0), ('link', 3.0), ('rest', 3.0)]


def test_the_page_gets_the_figures_and_keeps_the_rest(clean_install, tmp_path, monkeypatch):
    page = tmp_path / 'install.md'
    page.write_text('before\n' + clean_install.BEGIN + 'old\n' + clean_install.END + 'after\n')
    monkeypatch.setattr(clean_install, 'PAGE', str(page))
    stages = [('packages', 50.0), ('configure', 4.0), ('compile', 90.0), ('link', 3.0), ('rest', 1.0)]
    clean_install.update(clean_install.table([('`make demo`', stages, 148.0, 260.0), ('`pip install .`', stages, 241.0, 400.0)], 0.1))
    text = page.read_text()
    assert text.startswith('before\n') and text.endswith('after\n') and 'old' not in text
    rows = [line for line in text.splitlines() if line.startswith('| `')]
    assert rows == ['| `make demo` | 50 | 4 | 90 | 3 | 1 | 148 | 260 | met |', '| `pip install .` | 50 | 4 | 90 | 3 | 1 | 241 | 400 | missed |']
    page.write_text('no place\n')
    with pytest.raises(SystemExit, match='no place for the figures'):
        clean_install.update('x')


def test_the_pages_install_as_it_is_measured(clean_install):
    for page in ('README.md', 'docs/getting-started.md', 'docs/install.md', 'docs/python.md'):
        with open(os.path.join(ROOT, page), encoding='utf-8') as f:
            assert clean_install.PIP in f.read(), page


def test_help_says_what_is_needed():
    said = run('scripts/clean-install', '--help')
    assert 'debootstrap' in said and '--update' in said
    assert run('scripts/sysroot-aarch64', '--help').startswith("Debian's aarch64 libraries")
