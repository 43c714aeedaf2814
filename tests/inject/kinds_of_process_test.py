"""The recorder in processes of every kind: what they print, how they end and how long they take is as without it, and what it wrote is readable."""
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from recorded import BUILD, LIBRARY, Recording, need

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(BUILD, 'profgpu')
SOURCE = os.path.join(HERE, 'kinds_of_process.c')
COMPILER = shutil.which('gcc') or shutil.which('cc')
NO_RECORDING = {'seccomp_strict'}   # the file has no end, and that is all


def built(folder, *options, compiler=COMPILER, source=SOURCE):
    """Path of the program; skips where it cannot be built so."""
    if not compiler:
        pytest.skip('there is no such compiler')
    out = os.path.join(folder, 'kinds')
    r = subprocess.run([compiler, '-O1', '-g', '-pthread', *options, source, '-o', out], capture_output=True, text=True)
    if r.returncode:
        pytest.skip(f'cannot be built: {r.stderr[-300:]}')
    return out


@pytest.fixture(scope='module')
def subject(tmp_path_factory):
    need(LIBRARY, os.path.join(BUILD, 'pgt-dump'))
    return built(tmp_path_factory.mktemp('kinds'), '-Wall', '-Wextra', '-Werror')


def kinds():
    """Every kind that the program knows, from its table."""
    with open(SOURCE, encoding='utf-8') as f:
        table = f.read().split('} kinds[] = {')[1].split('};')[0]
    return [piece.split('"')[1] for piece in table.split('{') if '"' in piece]


def clean():
    return {k: v for k, v in os.environ.items() if not k.startswith(('PROFGPU_', 'PYTHON')) and k not in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LD_PRELOAD')}


def preloaded(folder):
    return dict(clean(), LD_PRELOAD=LIBRARY, CUDA_INJECTION64_PATH=LIBRARY, PROFGPU_RECORD=str(folder), PROFGPU_RECORD_OPTIONS='flush_ms=20')


def ran(words, env, seconds=120):
    """(exit code or minus signal, standard output, standard error), seconds"""
    begun = time.monotonic()
    process = subprocess.Popen(list(map(str, words)), env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, error = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise AssertionError(f'{words} hangs') from None
    return (process.returncode, out, error), time.monotonic() - begun


def ran_within(words, env, limit):
    """The same of up to three runs. A process that waits for the recorder takes its 10 s in each; a busy machine does not."""
    for _ in range(3):
        result, took = ran(words, env)
        if took < limit:
            return result
    raise AssertionError(f'{words} takes {took:.1f} s, allowed are {limit:.1f}')


def check_recordings(folder):
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith('.pgt') and os.path.getsize(os.path.join(folder, name))]
    for path in paths[:40]:
        Recording(path)
    return len(paths)


def check_same(words, folder):
    os.makedirs(folder, exist_ok=True)
    alone, plain_took = ran(words, clean())
    assert ran_within(words, preloaded(folder), 3 * plain_took + 5) == alone
    return check_recordings(folder)


@pytest.mark.parametrize('kind', kinds())
def test_as_without_it(subject, tmp_path, kind):
    if kind in ('another_user',) and os.geteuid() != 0:
        pytest.skip('needs root')
    folder = tmp_path / 'recording'
    folder.mkdir(mode=0o777)
    files = check_same([subject, kind], folder)
    assert files > 0 or kind in ('exec_from_thread', 'exec_storm', 'raise_kill', 'few_descriptors'), 'it was recorded'


@pytest.mark.parametrize('kind', ['plain', 'fork_storm', 'children_killed', 'raise_segv', 'raise_abort', 'raise_signal', 'exit_in_handler', 'stack_overflow',
                                  'exec_storm', 'daemonize', 'leaves_in_atexit', 'another_user'])
def test_run_passes_its_end_on(subject, tmp_path, kind):
    """profgpu run --trace --preload: 128 + the signal, as shells have it; its output is the command's."""
    if kind == 'another_user' and os.geteuid() != 0:
        pytest.skip('needs root')
    (code, out, error), _ = ran([subject, kind], clean())
    begun = time.monotonic()
    result, took = ran([PROGRAM, 'run', '-q', '--backend', 'none', '--trace', '--preload', '-o', tmp_path / 'x', '--', subject, kind], clean())
    assert result[:2] == (128 - code if code < 0 else code, out), result[2]
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize('options', [('-static',), ('-static-pie',), ('-no-pie',), ('-O3', '-flto'), ('-fsanitize=address',), ('-fsanitize=undefined',), ('-fsanitize=thread',),
                                     ('-Wl,-z,now',), ('-pg',)], ids=' '.join)
@pytest.mark.parametrize('kind', ['plain', 'fork_storm', 'thread_storm', 'exit_in_handler', 'raise_abort'])
def test_programs_built_otherwise(tmp_path, options, kind):
    need(LIBRARY, os.path.join(BUILD, 'pgt-dump'))
    program = built(tmp_path, *options)
    os.chdir(tmp_path)   # gmon.out
    words = [program, kind]
    if options == ('-fsanitize=address',):
        # Its runtime wants to be first; so does every preloaded library. It says what to do, and that holds with ours.
        library = subprocess.run([COMPILER, '-print-file-name=libasan.so'], capture_output=True, text=True, check=True).stdout.strip()
        env = clean()
        alone, _ = ran(words, dict(env, ASAN_OPTIONS='detect_leaks=0'))
        (tmp_path / 'r').mkdir()
        recorded, _ = ran(words, dict(preloaded(tmp_path / 'r'), LD_PRELOAD=f'{os.path.realpath(library)}:{LIBRARY}', ASAN_OPTIONS='detect_leaks=0'))
        assert recorded == alone
        return
    check_same(words, tmp_path / 'r')


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGQUIT, signal.SIGXCPU])
def test_a_signal_at_every_moment_of_the_start_and_the_end(subject, tmp_path, number):
    """The process ends by it, wherever it is: in the loader, in the recorder's start, in its last flush."""
    for i in range(30):
        folder = tmp_path / str(i)
        folder.mkdir()
        process = subprocess.Popen([subject, 'plain'], env=preloaded(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(i * 0.0007)
        process.send_signal(number)
        out, error = process.communicate(timeout=30)
        assert process.returncode in (0, -number) and error == b'', (process.returncode, error)
        assert process.returncode or out == b'plain\n'
        check_recordings(folder)


PYTHON = {
    'fork': 'import multiprocessing as m\ndef f(x): return x * x\nif __name__ == "__main__":\n  with m.get_context("fork").Pool(4) as p: print(sum(p.map(f, range(100))))',
    'spawn': 'import multiprocessing as m\ndef f(x): return x * x\nif __name__ == "__main__":\n  with m.get_context("spawn").Pool(2) as p: print(sum(p.map(f, range(100))))',
    'forkserver': 'import multiprocessing as m\ndef f(x): return x * x\nif __name__ == "__main__":\n  with m.get_context("forkserver").Pool(2) as p: print(sum(p.map(f, range(100))))',
    'subprocess': 'import subprocess,sys\nprint(subprocess.run([sys.executable, "-c", "raise SystemExit(4)"]).returncode)',
    'killed workers': 'import os,signal,multiprocessing as m,time\ndef f(): time.sleep(60)\nif __name__ == "__main__":\n  p = [m.Process(target=f) for _ in range(4)]\n'
                      '  [x.start() for x in p]; [os.kill(x.pid, 9) for x in p]; [x.join() for x in p]; print([x.exitcode for x in p])',
    'threads': 'import threading\nt = [threading.Thread(target=sum, args=(range(1000),)) for _ in range(50)]\n[x.start() for x in t]; [x.join() for x in t]; print(len(t))',
    'an exception': 'raise RuntimeError("on its way out")',
    'os._exit': 'import os\nprint("x", flush=True); os._exit(9)',
    'recursion': 'import sys\ndef f(n): return f(n + 1)\ntry: f(0)\nexcept RecursionError: print("deep")',
    'signals': 'import signal,os\nsignal.signal(signal.SIGUSR1, lambda *a: print("got"))\nos.kill(os.getpid(), signal.SIGUSR1); signal.raise_signal(signal.SIGTERM)',
    'asyncio': 'import asyncio,sys\nasync def f():\n  p = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(1)")\n  return await p.wait()\nprint(asyncio.run(f()))',
    'dlclose': 'import ctypes,_ctypes,os\nl = ctypes.CDLL(os.environ.get("PROFGPU_INJECT", "libm.so.6"))\n_ctypes.dlclose(l._handle)\nprint("closed")',
    'isolated': 'import subprocess,sys\nprint(subprocess.run([sys.executable, "-I", "-S", "-c", "print(2)"], capture_output=True).stdout)',
}


@pytest.mark.parametrize('name', PYTHON)
def test_python_programs(tmp_path, name):
    need(LIBRARY, PROGRAM)
    script = tmp_path / 'script.py'
    script.write_text(PYTHON[name])
    (code, out, error), alone = ran([sys.executable, script], clean())
    for more in ((), ('--preload',)):
        its_code, its_out, its_error = ran_within([PROGRAM, 'run', '-q', '--backend', 'none', '--trace', *more, '-o', tmp_path / f'x{len(more)}', '--',
                                                   sys.executable, script], clean(), 3 * alone + 5)
        assert (its_code, its_out) == (128 - code if code < 0 else code, out), its_error
        assert its_error.splitlines()[-1:] == error.splitlines()[-1:] or not error, its_error


OTHERS = {   # compiler or interpreter, source's name, source, how it is built
    'go': ('go', 'main.go', 'package main\nimport ("fmt"; "os"; "os/exec"; "sync")\nfunc main() { var w sync.WaitGroup; for i := 0; i < 100; i++ { w.Add(1); go func() { w.Done() }() }; w.Wait()\n'
                            'o, _ := exec.Command("echo", "child").Output(); fmt.Print(string(o)); os.Exit(6) }', ['build', '-o', 'main', 'main.go']),
    'rust': ('rustc', 'main.rs', 'use std::{process, thread};\nfn main() { let t: Vec<_> = (0..50).map(|i| thread::spawn(move || i)).collect();\nlet s: i32 = t.into_iter().map(|x| x.join().unwrap()).sum();\n'
                                 'let o = process::Command::new("echo").arg("child").output().unwrap(); print!("{} {}", s, String::from_utf8_lossy(&o.stdout)); process::exit(6) }', ['-o', 'main', 'main.rs']),
    'java': ('java', 'Main.java', 'public class Main { public static void main(String[] a) throws Exception { Process p = new ProcessBuilder("echo", "child").inheritIO().start(); p.waitFor();\n'
                                  'Thread t = new Thread(() -> System.out.println("thread")); t.start(); t.join(); System.exit(6); } }', None),
    'node': ('node', 'main.js', 'const {execFileSync} = require("child_process"); const {Worker} = require("worker_threads");\nprocess.stdout.write(execFileSync("echo", ["child"]));\n'
                                'new Worker("1 + 1", {eval: true}).on("exit", () => process.exit(6));', None),
    'perl': ('perl', 'main.pl', 'for (1..20) { my $p = fork; exit 3 if !$p; } my $n = 0; while (wait > 0) { $n += $? >> 8 } print "$n\\n"; exit 6;', None),
    'bash': ('bash', 'main.sh', 'for i in $(seq 50); do (exit $i) & done; wait; echo $(echo a | cat | cat); trap "echo trapped; exit 6" TERM; kill $$', None),
    'musl': ('musl-gcc', 'main.c', '#include <stdio.h>\nint main(void) { puts("musl"); return 6; }', ['-static', 'main.c', '-o', 'main']),
    'static C++': ('g++', 'main.cc', '#include <iostream>\n#include <thread>\nint main() { std::thread([] { std::cout << "static" << std::endl; }).join(); return 6; }', ['-static', '-pthread', 'main.cc', '-o', 'main']),
    'C++ that throws': ('g++', 'main.cc', '#include <iostream>\n#include <stdexcept>\nint main() { for (int i = 0; i < 1000; ++i) try { throw std::runtime_error("x"); } catch (std::exception&) {}\n'
                                          'std::cout << "caught" << std::endl; return 6; }', ['main.cc', '-o', 'main']),
}


@pytest.mark.parametrize('name', OTHERS)
def test_other_languages(tmp_path, name):
    need(LIBRARY, PROGRAM)
    tool, file, text, build = OTHERS[name]
    path = shutil.which(tool)
    if not path:
        pytest.skip(f'{tool} is not installed')
    (tmp_path / file).write_text(text)
    if build:
        r = subprocess.run([path, *build], cwd=tmp_path, capture_output=True, text=True)
        if r.returncode:
            pytest.skip(f'cannot be built: {r.stderr[-200:]}')
    words = [tmp_path / 'main'] if build else [path, tmp_path / file]
    alone, took_alone = ran(words, clean())
    assert alone[0] == 6, alone
    for more in ((), ('--preload',)):
        code, out, error = ran_within([PROGRAM, 'run', '-q', '--backend', 'none', '--trace', *more, '-o', tmp_path / f'x{len(more)}', '--', *words],
                                      clean(), 3 * took_alone + 5)
        assert (code, out) == alone[:2], error


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root')
def test_a_program_with_rights_of_its_own(subject, tmp_path):
    """setuid: the loader does not preload into it, and it runs as without."""
    program = tmp_path / 'setuid'
    shutil.copy(subject, program)
    program.chmod(0o4755)
    folder = tmp_path
    while folder.name != 'tmp' and folder != folder.parent:
        folder.chmod(folder.stat().st_mode | 0o055)
        folder = folder.parent
    words = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', program, 'plain']
    (tmp_path / 'r').mkdir(mode=0o777)
    alone, _ = ran(words, clean())
    assert alone[:2] == (0, b'plain\n'), alone
    # The loader's word on a preloaded library that it does not take is of setpriv's own start.
    assert ran(words, preloaded(tmp_path / 'r'))[0][:2] == alone[:2]
