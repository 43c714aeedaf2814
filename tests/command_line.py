"""The program as a shell sees it: exit codes, streams, help, completions, the manual page.
Standard library only; run from the project's root with PROFGPU naming the program."""
import gzip
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

# A shell's background jobs ignore it, and their children with them.
signal.signal(signal.SIGINT, signal.default_int_handler)
PROGRAM = os.path.abspath(os.environ.get('PROFGPU', 'build/release/profgpu'))
with open(PROGRAM, 'rb') as program:
    CODE = program.read()
SANITIZED = b'__asan_init' in CODE or b'__tsan_init' in CODE


def run(*words, **more):
    more.setdefault('stdin', subprocess.DEVNULL)
    return subprocess.run([PROGRAM, *words], capture_output='stdout' not in more, timeout=60, **more)


def trace(folder, name='trace.json'):
    """The smallest trace with a step, an op, a launch and a kernel."""
    events = [
        {'ph': 'X', 'cat': 'user_annotation', 'name': 'ProfilerStep#1', 'pid': 1, 'tid': 1, 'ts': 100, 'dur': 90},
        {'ph': 'X', 'cat': 'cpu_op', 'name': 'aten::mm', 'pid': 1, 'tid': 1, 'ts': 110, 'dur': 20, 'args': {'External id': 1}},
        {'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaLaunchKernel', 'pid': 1, 'tid': 1, 'ts': 112, 'dur': 5,
         'args': {'correlation': 7}},
        {'ph': 'X', 'cat': 'kernel', 'name': 'sgemm\x1b[31m', 'pid': 0, 'tid': 7, 'ts': 120, 'dur': 30,
         'args': {'device': 0, 'stream': 7, 'correlation': 7}},
        {'ph': 'X', 'cat': 'kernel', 'name': 'add', 'pid': 0, 'tid': 7, 'ts': 170, 'dur': 10,
         'args': {'device': 0, 'stream': 7, 'correlation': 8}}]
    path = os.path.join(folder, name)
    with open(path, 'w') as f:
        json.dump({'schemaVersion': 1, 'traceEvents': events}, f)
    return path


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.trace = trace(self.folder)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def commands(self):
        text = run('--help').stdout.decode()
        block = text.split('short for profgpu run\n')[1].split('\nOptions\n')[0]   # by task
        return [line.split()[0] for line in block.split('\n') if line.startswith('  ') and line[2] != ' ']

    def test_every_command_has_help_with_examples(self):
        self.assertIn('analyze', self.commands())
        for name in self.commands():
            r = run(name, '--help')
            self.assertEqual((r.returncode, r.stderr), (0, b''))
            self.assertRegex(r.stdout, rb'Examples\n  (\S*\$\()?profgpu (-- |' + name.encode() + rb')')
            self.assertEqual(r.stdout, run('help', name).stdout)
            self.assertLessEqual(max(map(len, r.stdout.decode().split('\n'))), 88)

    def test_usage_errors(self):
        for words, said in [((), b'Usage'), (('anlyze',), b'did you mean analyze?'), (('--nothing',), b'unknown option'),
                            (('analyze',), b'missing argument: PATH'), (('analyze', '--jsn', 'x'), b'did you mean --json?'),
                            (('explain', 'nothing-like-it'), b'profgpu rules'), ((self.trace,), b'profgpu analyze')]:
            r = run(*words)
            self.assertEqual((r.returncode, r.stdout), (2, b''), words)
            self.assertIn(said, r.stderr)

    def test_no_report(self):
        r = run('analyze', os.path.join(self.folder, 'missing\x1b[31m.json'))
        self.assertEqual((r.returncode, r.stdout), (1, b''))
        self.assertTrue(r.stderr.startswith(b'profgpu: analyze: '), r.stderr)
        self.assertIn(b'missing', r.stderr)
        self.assertNotIn(b'\x1b', r.stderr)

    def test_report(self):
        r = run('analyze', self.trace)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertNotIn(b'\x1b', r.stdout, 'no colors without a terminal, and never those of a kernel name')
        self.assertEqual(json.loads(run('analyze', '--json', self.trace).stdout)['schema'], 'profgpu.analysis.v1')
        colored = run('analyze', '--color', 'always', self.trace).stdout
        self.assertNotIn(b'sgemm\x1b', colored)

    def test_output_file(self):
        out = os.path.join(self.folder, 'report.json')
        r = run('analyze', self.trace, '--json', '-o', out)
        self.assertEqual((r.returncode, r.stdout), (0, b''), r.stderr)
        with open(out) as f:
            written = json.load(f)
        self.assertEqual(written, json.loads(run('analyze', '--json', self.trace).stdout))
        self.assertEqual(sorted(os.listdir(self.folder)), ['report.json', 'trace.json'])
        r = run('analyze', self.trace, '-o', os.path.join(self.folder, 'no', 'report'))
        self.assertEqual(r.returncode, 1)
        self.assertIn(b'cannot be written', r.stderr)

    def test_fail_on(self):
        self.assertEqual(run('analyze', self.trace, '--fail-on', 'info').returncode, 3)

    def test_full_disk_and_closed_output(self):
        with open('/dev/full', 'wb') as full:
            r = subprocess.run([PROGRAM, 'analyze', self.trace], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(r.returncode, 1)
        self.assertIn(b'No space left', r.stderr)
        r = subprocess.run(['bash', '-c', '"$0" --help >&-', PROGRAM], stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(r.returncode, 1)

    def test_a_reader_that_leaves_is_no_error(self):
        r = subprocess.run(['bash', '-c', '"$0" --help | true; echo ${PIPESTATUS[0]}', PROGRAM], capture_output=True, timeout=60)
        self.assertEqual((r.stdout, r.stderr), (b'0\n', b''))

    def test_ctrl_c(self):
        process = subprocess.Popen([PROGRAM, 'analyze', '-'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        process.stdin.write(b'{"traceEvents": [' + b' ' * (1 << 20))   # more than a pipe holds: it reads, and waits for more
        process.stdin.flush()
        process.send_signal(2)
        self.assertEqual(process.wait(timeout=60), 130)
        process.stdin.close()

    def test_starts_quickly(self):
        best = 1.0
        for _ in range(200):   # a machine is busy with others
            begin = time.perf_counter()
            run('--help')
            best = min(best, time.perf_counter() - begin)
            if SANITIZED or best < 0.010:
                return
        self.fail(f'{best} s')

    def flags(self):
        """{command: the flags that its help names}"""
        return {name: set(re.findall(r'^ {2,6}(?:-\w, |    )?(--[\w.-]+)', run(name, '--help').stdout.decode(), re.M)) for name in self.commands()}

    def test_the_manual_page_has_every_command_and_flag(self):
        page = run('manpage').stdout.decode().replace('\\-', '-')
        self.assertEqual([line for line in page.split('\n') if line.startswith('.SH ')][:3], ['.SH NAME', '.SH SYNOPSIS', '.SH DESCRIPTION'])
        parts = dict(re.findall(r'^\.SS (\S+)\n(.*?)(?=^\.S[SH] |\Z)', page, re.M | re.S))
        self.assertEqual(sorted(parts), sorted(self.commands()))
        for name, flags in self.flags().items():
            usage = parts[name].split('\n')[0]
            self.assertTrue(usage.startswith(f'\\fBprofgpu {name}') and page.count(usage + '\n.br\n') == 1, usage)
            named = re.findall(r'^\.TP\n(?:\\fB-\w\\fR, )?\\fB(--[\w.-]+)\\fR', parts[name], re.M)
            self.assertEqual({*named, '--help'}, flags | {'--help'}, name)

    def test_the_manual_page_is_well_formed(self):
        if not shutil.which('man'):
            self.skipTest('man is not installed')
        path = os.path.join(self.folder, 'profgpu.1.gz')
        with gzip.open(path, 'wb') as f:
            f.write(run('manpage').stdout)
        r = subprocess.run(['man', '--warnings', '-E', 'UTF-8', '-l', '-Tutf8', '-Z', path], capture_output=True,
                           env=dict(os.environ, LC_ALL='C.UTF-8', MANWIDTH='80'))
        self.assertEqual((r.returncode, r.stderr), (0, b''))

    def completed(self, shell, *lines):
        """What the shell offers at the end of each line of words, with the script loaded: a set each."""
        if not shutil.which(shell):
            self.skipTest(f'{shell} is not installed')
        path = os.path.join(self.folder, shell)
        with open(path, 'wb') as f:
            f.write(run('completion', shell).stdout)
        r = subprocess.run([shell, *OFFERS[shell], path, *(' '.join(words) for words in lines)], capture_output=True, text=True, timeout=120)
        self.assertEqual((r.returncode, r.stderr), (0, ''))
        offered = [set(part.split('\n')) - {''} for part in r.stdout.split('NEXT\n')]
        self.assertEqual(offered.pop(), set())
        return offered

    def test_completions(self):
        flags = self.flags()
        for shell in OFFERS:
            with self.subTest(shell):
                commands, values, rules, *offered = self.completed(
                    shell, ['profgpu', ''], ['profgpu', 'analyze', '--fail-on', ''], ['profgpu', 'explain', ''],
                    *(['profgpu', name, '--'] for name in flags))
                self.assertEqual({c for c in commands if c[0] != '-'}, {*flags, 'help'})
                self.assertLessEqual({'info', 'warning', 'critical'}, values)
                self.assertIn('host-bound-launches', rules)
                for name, some in zip(flags, offered):
                    self.assertEqual({f for f in some if f.startswith('--')} | {'--help'}, flags[name] | {'--help'}, name)

    def test_completions_of_words_behind_a_command(self):
        """Actions of attach and baseline, programs and files after run, values after an equals sign."""
        with open(os.path.join(self.folder, 'train-here.py'), 'w'):
            pass
        here = os.path.join(self.folder, 'train-')
        for shell in OFFERS:
            with self.subTest(shell):
                actions, save, script = self.completed(shell, ['profgpu', 'attach', '12', ''], ['profgpu', 'baseline', ''], ['profgpu', 'run', here])
                self.assertLessEqual({'start', 'stop', 'memory', 'torch'}, actions)
                self.assertIn('save', save)
                if shell != 'zsh':   # its _files is not the real one here
                    self.assertTrue(any(word.endswith('train-here.py') for word in script), script)
        program, value = self.completed('bash', ['profgpu', 'run', 'bas'], ['profgpu', 'analyze', '--format', '=', 'js'])
        self.assertIn('bash', program)
        self.assertEqual(value, {'json'})
        self.assertIn('compadd -- --help --version', run('completion', 'zsh').stdout.decode())

    def test_zsh_completes_a_flag(self):
        """In a terminal, as people have it."""
        if not shutil.which('zsh'):
            self.skipTest('zsh is not installed')
        with open(os.path.join(self.folder, '_profgpu'), 'wb') as f:
            f.write(run('completion', 'zsh').stdout)
        pid, fd = pty.fork()
        if pid == 0:
            os.execvpe('zsh', ['zsh', '-f', '-i'], dict(os.environ, TERM='dumb', HOME=self.folder))
        text = b''

        def wait_for(what):
            nonlocal text
            end = time.monotonic() + 60
            while what not in text:
                self.assertLess(time.monotonic(), end, text)
                if select.select([fd], [], [], 1)[0]:
                    text += os.read(fd, 65536)

        try:
            os.write(fd, b'fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D; echo load""ed\n' % self.folder.encode())
            wait_for(b'loaded')
            os.write(fd, b'profgpu analyze --fail-\t')
            wait_for(b'--fail-on')
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(fd)


# How to get what each shell offers: the script, then the lines; the words offered, one a line, and NEXT after each line.
OFFERS = {
    'bash': ['-c', '''compopt() { :; }
        source "$0"
        for line; do
          COMP_WORDS=($line); [[ $line == *" " ]] && COMP_WORDS+=("")
          COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _profgpu; printf "%s\\n" "${COMPREPLY[@]}" NEXT
        done'''],
    # What its helpers would show is written down: descriptions, actions and all.
    'zsh': ['-f', '-c', '''compdef() { : }; _files() { : }
        offer() { local one; for one; do one=${one#\\*}; print -r -- ${${one%%\\[*}%%:*}; done }
        _describe() { eval "offer \\"\\${$2[@]}\\"" }
        _arguments() {
          local one
          offer "$@"
          for one; do [[ $one == *:\\(*\\) && ( $one != -* || $one == $words[-2]* ) ]] && print -rl -- ${=${one##*:\\(}%\\)}; done
        }
        for line in "${@}"; do
          words=(${=line}); [[ $line == *" " ]] && words+=("")
          CURRENT=$#words; source "$0"; print NEXT
        done'''],
    'fish': ['-c', '''source $argv[1]
        for line in $argv[2..]; complete -C $line | cut -f1; echo NEXT; end'''],
}


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], '-v'])
