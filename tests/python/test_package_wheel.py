"""The wheel: what pyproject.toml and the install rules make of the built library, in clean virtual environments."""
import glob
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from package_script import REPLAY, ROOT, TRACE

pytestmark = pytest.mark.usefixtures('package')


def run(*words, **more):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=200, **more)
    assert done.returncode == 0, f'{words}:\n{done.stdout}{done.stderr}'
    return done.stdout


@pytest.fixture(scope='module')
def wheel(package, tmp_path_factory):
    pytest.importorskip('scikit_build_core')
    pytest.importorskip('build')
    build = os.path.dirname(os.path.abspath(os.environ['PROFGPU_LIBRARY']))
    if not os.path.exists(os.path.join(build, 'cmake_install.cmake')):
        pytest.skip('no build folder: ' + build)
    folder = tmp_path_factory.mktemp('wheel')
    run(os.path.join(ROOT, 'scripts', 'wheel'), build, folder, env={**os.environ, 'PYTHON': sys.executable})
    made, = folder.iterdir()
    return made


def test_one_wheel_for_every_python(wheel):
    assert wheel.name.endswith('-py3-none-manylinux_2_34_x86_64.whl')
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith('profgpu/')}
        metadata = archive.read(next(n for n in archive.namelist() if n.endswith('METADATA'))).decode()
    assert {'profgpu/py.typed', 'profgpu/guide/loops.py', 'profgpu/core/bin/profgpu', 'profgpu/core/bin/profgpu-gate', 'profgpu/core/lib/libprofgpu.so',
            'profgpu/core/lib/profgpu/libprofgpu-inject.so', 'profgpu/core/lib/profgpu/libprofgpu-preload.so',
            'profgpu/core/lib/profgpu/libprofgpu-tls.so',
            'profgpu/core/share/profgpu/python-hook/sitecustomize.py'} <= names
    assert not [n for n in names if n.endswith(('.pyc', '.a', '.h', '.gz'))]
    assert 'Requires-Python: >=3.8' in metadata and 'Requires-Dist' not in metadata


SCRIPT = f'''
import sys, profgpu
report = profgpu.analyze({TRACE!r})
assert report.findings and len(report.table("activity")) > 100
with profgpu.GpuMonitor(backend="none") as m:
    pass
import profgpu.guide
print(profgpu.__file__)
'''


def test_a_clean_environment(wheel, tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU', 'PYTHON'))}
    run(sys.executable, '-m', 'venv', tmp_path / 'venv')
    python = tmp_path / 'venv' / 'bin' / 'python'
    run(python, '-m', 'pip', 'install', '--no-index', '--quiet', wheel, env=environment)
    assert str(tmp_path) in run(python, '-c', SCRIPT, env=environment, cwd=tmp_path)
    version = run(tmp_path / 'venv' / 'bin' / 'profgpu', '--version', env=environment)
    assert version == run(python, '-m', 'profgpu', '--version', env=environment) and version.startswith('profgpu ')
    # The program finds the recorder and the hook beside it.
    recorded = subprocess.run([tmp_path / 'venv' / 'bin' / 'profgpu', 'run', '--trace', '-o', tmp_path / 'out', '--',
                               python, '-c', 'import profgpu\nwith profgpu.step(), profgpu.phase("x"): pass'],
                              env=environment, capture_output=True, text=True, timeout=60)
    assert recorded.returncode == 0 and 'not beside profgpu' not in recorded.stderr, recorded.stderr
    said = run(python, '-c', f'import profgpu; print(profgpu.analyze({str(tmp_path / "out")!r}).query('
                             '"select name from annotations").to_list("name"))', env=environment)
    assert "'x'" in said and 'ProfilerStep#0' in said


def test_two_processes_read_a_job(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        if 'profgpu/core/lib/profgpu/libprofgpu-mpi.so' not in archive.namelist() or not shutil.which('mpirun'):
            pytest.skip('not installed: MPI')
        archive.extractall(tmp_path)
    program = tmp_path / 'profgpu' / 'core' / 'bin' / 'profgpu'
    program.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU', 'OMPI', 'PMI', 'SLURM'))}
    environment.update(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    job = os.path.join(ROOT, 'examples', 'four-ranks')
    together = run('mpirun', '--oversubscribe', '--bind-to', 'none', '-n', '2', program, 'analyze', '--mpi', '--json', job,
                   env=environment)
    assert together == run(program, 'analyze', '--json', job, env=environment)


EVERYWHERE = """
import asyncio, profgpu, profgpu.guide, profgpu.recording, profgpu.timing, profgpu.watching, profgpu.integrations.deepspeed
assert profgpu.analyze(%r).metrics() and profgpu.benchmark(sorted, [2, 1], repeats=3, min_time=0.001)
@profgpu.gpu_profile(backend="none", report=False, return_profile=True)
async def wait():
    return [item async for item in items()]
@profgpu.annotate("items")
async def items():
    yield 1
with profgpu.GpuMonitor(backend=%r, interval_s=0.01, store_samples=True) as mon, profgpu.step():
    assert asyncio.run(wait()).value == [1]
assert mon.samples and "items" in mon.summary.phases
""" % (TRACE, REPLAY)


def test_every_python_that_is_here(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    (tmp_path / 'profgpu' / 'core' / 'bin' / 'profgpu').chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU', 'PYTHON'))}
    environment['PYTHONPATH'] = str(tmp_path)
    found = ['python3.%d' % minor for minor in range(8, 16)]
    found += glob.glob(os.path.expanduser('~/.pyenv/versions/3.*/bin/python'))
    for python in filter(shutil.which, found):
        # A name in PATH may stand for an interpreter that is not there.
        asked = subprocess.run([python, '-c', 'import sys; sys.exit(sys.version_info < (3, 8))'], capture_output=True)
        if asked.returncode == 0:
            run(python, '-W', 'error', '-c', EVERYWHERE, env=environment, cwd=tmp_path)
