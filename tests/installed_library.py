#!/usr/bin/env python3
"""Installs the library that BUILD made into an empty prefix, builds examples/ against it through find_package(profgpu), and
runs the example on a replay. The library shows only what its headers declare.

    tests/installed_library.py BUILD
"""
import os
import re
import subprocess
import sys
import tempfile

SYMBOL = re.compile(r'^profgpu::(Monitor|MonitorSummary)::(?!Impl)|^profgpu_\w+$')


def run(*words, **more):
    result = subprocess.run(words, capture_output=True, text=True, timeout=250, **more)
    assert result.returncode == 0, f'{" ".join(words)}:\n{result.stdout}{result.stderr}'
    return result.stdout


def check_exports(library):
    names = [line.split(' ', 2)[2] for line in run('nm', '-DC', '--defined-only', library).splitlines()]
    assert any(n.startswith('profgpu::Monitor::start(') for n in names), names
    assert not [n for n in names if not SYMBOL.match(n)], [n for n in names if not SYMBOL.match(n)]


def check_config(build):
    """What another project writes: the name with its namespace, and a version that may be too new."""
    text = '\n'.join(['cmake_minimum_required(VERSION 3.25)', 'project(user CXX)', 'find_package(profgpu 0.1 REQUIRED)',
                      'find_package(profgpu 99 QUIET)', 'if(profgpu_FOUND)', 'message(FATAL_ERROR "99 is not there")',
                      'endif()', ''])
    os.mkdir(build)
    with open(os.path.join(build, 'CMakeLists.txt'), 'w', encoding='utf-8') as f:
        f.write(text)


def check_c(folder, found):
    """A project in C alone."""
    os.mkdir(folder)
    with open(os.path.join(folder, 'CMakeLists.txt'), 'w', encoding='utf-8') as f:
        f.write('cmake_minimum_required(VERSION 3.25)\nproject(user C)\nfind_package(profgpu REQUIRED)\n'
                'add_executable(user user.c)\ntarget_link_libraries(user PRIVATE profgpu::profgpu)\n')
    with open(os.path.join(folder, 'user.c'), 'w', encoding='utf-8') as f:
        f.write('#include <profgpu/c.h>\nint main(void) { return profgpu_c_version() != PROFGPU_C_VERSION; }\n')
    run('cmake', '-S', folder, '-B', folder + '-build', found)
    run('cmake', '--build', folder + '-build')
    run(os.path.join(folder + '-build', 'user'))


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        prefix, example, user = (os.path.join(folder, name) for name in ('prefix', 'example', 'user'))
        run('cmake', '--install', build, '--component', 'library', '--prefix', prefix)
        found = f'-DCMAKE_PREFIX_PATH={prefix}'
        check_config(user)
        run('cmake', '-S', user, '-B', user + '-build', found)
        check_c(os.path.join(folder, 'c'), found)
        run('cmake', '-S', 'examples', '-B', example, '-DCMAKE_BUILD_TYPE=Release', found)
        run('cmake', '--build', example)
        library, = [os.path.join(path, name) for path, _, names in os.walk(prefix) for name in names
                    if re.fullmatch(r'libprofgpu\.so\.\d+\.\d+\.\d+', name)]
        check_exports(library)
        said = run(os.path.join(example, 'monitor'), 'sleep 0.5', 'replay:examples/replay.jsonl,loop,speed=20')
        assert 'NVIDIA H100 80GB HBM3' in said and re.search(r'GPU 1, command: 0\.[56]\d s, busy [\d.]+ %', said), said
        bare = subprocess.run([os.path.join(example, 'monitor'), 'exit 3', 'none'], capture_output=True, text=True, timeout=60)
        assert bare.returncode == 1 and 'not watched' in bare.stderr and bare.stdout == '', bare
    print('the installed library works')


if __name__ == '__main__':
    main()
