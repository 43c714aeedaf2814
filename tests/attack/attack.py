#!/usr/bin/env python3
"""Attacks every command with damaged files and command lines, and checks what must hold whatever the input.

What breaks a promise is kept in a folder: the file, and the command that reads it. Exit code 1 then.
"""
import argparse
import csv
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mutation
import target

SECONDS = 20                      # a command of inputs of this size takes well under a second
MEMORY_BYTES = 400 << 20          # with what the input asks for: a small one may not ask for more
CODES = (0, 1, 2, 3)
SECRET = 'hf_PLANTEDSECRETPLANTEDSECRET'
# Of what a terminal obeys. Colors are off.
CONTROL = re.compile('[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]')


class Broken(Exception):
    """A promise that did not hold."""


def need(holds, promise):
    if not holds:
        raise Broken(promise)


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 20, 256 << 20))


def run(words, folder, program):
    """The exit code, what it printed, and the most memory that it held."""
    environment = {**os.environ, 'TZ': 'UTC', 'LC_ALL': 'C.UTF-8', 'COLUMNS': '100', 'HF_TOKEN': SECRET,
                   'ASAN_OPTIONS': 'detect_leaks=1'}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([program, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   preexec_fn=limits)
        end = time.monotonic() + SECONDS
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                process.kill()
                os.wait4(process.pid, 0)
                raise Broken(f'it ends within {SECONDS} s')
            time.sleep(0.002)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return process.returncode, out.read(), err.read(), usage.ru_maxrss * 1024


def as_text(data, what):
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Broken(f'{what} is valid UTF-8: {error}') from None


def check_json(text, what):
    try:
        json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    except ValueError as error:
        raise Broken(f'{what} is JSON: {error}') from None


def check_document(path):
    with open(path, 'rb') as file:
        data = file.read()
    name = os.path.basename(path)
    need(SECRET.encode() not in data, f'{name} has no secret of the environment')
    if name.endswith(('.pftrace', '.sqlite')):
        return
    text = as_text(data, name)
    if name.endswith('.json'):
        check_json(text, name)
    elif name.endswith('.html'):
        need(mutation.PLANTED_MARKUP not in text and '<script>planted' not in text, 'the page escapes what names hold')
    elif name.endswith('.csv'):
        rows = list(csv.reader(io.StringIO(text), strict=True))
        need(len({len(row) for row in rows}) <= 1, 'rows of the table are of one length')
        need(not any(cell[:1] in ('=', '@') for row in rows for cell in row), 'no cell is a formula')


def check(words, folder, program, bytes_in):
    before = set(os.listdir(folder))
    code, out, err, memory = run(words, folder, program)
    need(code in CODES, f'its exit code is documented (it is {code}): {err[-2000:].decode(errors="replace")}')
    printed, said = as_text(out, 'standard output'), as_text(err, 'standard error')
    written = set(os.listdir(folder)) - before
    need(printed or said or written, 'it says something')
    need(code != 1 and code != 2 or said, 'an error is said')
    need(memory < MEMORY_BYTES + 40 * bytes_in, f'it holds {MEMORY_BYTES >> 20} MiB and 40 times the input at most, not {memory >> 20} MiB')
    need(SECRET not in printed + said, 'it prints no secret of the environment')
    need(not CONTROL.search(said), 'messages have no control characters')
    as_json = {'--json', 'json', 'sarif'} & set(words)
    as_csv = 'csv' in words
    if as_json and printed:
        for document in printed.splitlines() if words[0] == 'log' else [printed]:
            check_json(document, 'standard output')
    elif not as_csv:
        need(not CONTROL.search(printed), 'standard output has no control characters')
    if 'github' in words:
        need(all(line.startswith(('::notice ', '::warning ', '::error ')) for line in printed.splitlines()), 'a line is one workflow command')
    asked = {word for word in words if word.startswith('OUT.')}
    need(written <= asked, f'it writes no other file: {written - asked}')
    for name in written:
        check_document(os.path.join(folder, name))
        os.remove(os.path.join(folder, name))
    return out


def attack(kind, random, program, folder):
    """One damaged file through one command; what to keep if a promise breaks."""
    data = kind.data
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(kind.mutators)(random, data)[:4 << 20]
    name = kind.name
    with open(os.path.join(folder, name), 'wb') as file:
        file.write(data)
    words = [word.replace('FILE', name).replace('WHOLE', 'whole-' + kind.name) for word in random.choice(kind.commands)]
    bytes_in = len(data) + len(kind.data) * any('whole-' in word for word in words)
    try:
        out = check(words, folder, program, bytes_in)
        if random.random() < 0.05 and words[0] == 'analyze' and '--html' not in words:
            need(out == check(words, folder, program, bytes_in), 'it prints the same again')
    except Broken as broken:
        return words, data, str(broken)
    finally:
        os.remove(os.path.join(folder, name))
    return None


ARGUMENTS = ['--top', '--steps', '--section', '--format', '--width', '--color', '-o', '--json', '--samples', '--fail-on', '--threshold', '-i', '--count',
             '--device', '--backend', '--query', '--step-pattern', '-v', '-q', '--', '-', '']
VALUES = ['0', '-1', '1e9', '99999999999999999999', 'a' * 5000, '\x1b[2J', '\udcff', '0:0', '5:2', ':', '[', '(' * 200, 'replay:', 'replay:.', 'all',
          'cuda:0', '../..', '/dev/full', '/dev/null', 'json', 'html', '%s%n', '=1', "'", 'none', 'straggler=1', 'x=y=z', '１']
COMMANDS = ['analyze', 'diff', 'query', 'export', 'merge', 'devices', 'stat', 'log', 'pick', 'doctor', 'explain', 'formats', 'help', 'history', 'baseline',
            'check', 'attach', 'completion', 'nonsense', '', '-', '--']


def attack_arguments(random, program, folder, whole):
    """One command line of random words. Nothing that watches or runs a program for long is among them."""
    words = [random.choice(COMMANDS)]
    for _ in range(random.randrange(6)):
        words.append(random.choice(random.choice((ARGUMENTS, VALUES, [whole]))))
    if words[0] in ('log', 'stat', '', '--', '-'):
        words = ['log', '--backend', 'none', *words[1:]]
    if '-o' in words or '--output' in words or any(w.startswith('-o') for w in words):
        words = [w for w in words if not w.startswith('-o')]
    if '\0' in ''.join(words):
        return None
    try:
        encoded = [os.fsencode(w) if '\udcff' in w else w for w in words]
        check_line(encoded, folder, program)
    except Broken as broken:
        return [w.encode(errors='surrogateescape').decode(errors='replace') for w in words], b'', str(broken)
    return None


def check_line(words, folder, program):
    before = set(os.listdir(folder))
    code, out, err, memory = run(words, folder, program)
    need(code in CODES, f'its exit code is documented (it is {code}): {err[-2000:].decode(errors="replace")}')
    said = as_text(err, 'standard error')
    as_text(out, 'standard output')
    need(out or err, 'it says something')
    need(not CONTROL.search(said), 'messages have no control characters')
    need(memory < MEMORY_BYTES, f'it holds {MEMORY_BYTES >> 20} MiB at most, not {memory >> 20} MiB')
    need(set(os.listdir(folder)) == before, f'it writes no file: {set(os.listdir(folder)) - before}')


def keep(folder, number, kind, words, data, promise):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f'{number}-{kind}')
    if data:
        with open(path, 'wb') as file:
            file.write(data)
    with open(path + '.txt', 'w', encoding='utf-8') as file:
        file.write(f'promise: {promise}\ncommand: profgpu {" ".join(words)}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--tools', default=os.path.join(target.ROOT, 'build', 'release'), help='folder of profgpu, kineto-sim and pgt-sample')
    parser.add_argument('--keep', default='attack-found')
    parser.add_argument('--result', help='JSON file of what was tried')
    parser.add_argument('--only', help='only files of this name')
    options = parser.parse_args()
    tools = {name: os.path.join(options.tools, name) for name in ('profgpu', 'kineto-sim', 'pgt-sample')}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end, found, counts = time.monotonic() + options.seconds, 0, {}
    with tempfile.TemporaryDirectory(prefix='profgpu-attack-') as folder:
        seeds = os.path.join(folder, 'seeds')
        work = os.path.join(folder, 'work')
        os.mkdir(seeds)
        os.mkdir(work)
        kinds = [k for k in target.targets(tools, seeds) if options.only in (None, k.name)]
        for kind in kinds:
            with open(os.path.join(work, 'whole-' + kind.name), 'wb') as file:
                file.write(kind.data)
        number = 0
        while time.monotonic() < end:
            number += 1
            source = random.Random(f'{options.seed}/{number}')
            kind = source.choice([*kinds, None]) if options.only is None else kinds[0]
            name = kind.name if kind else 'arguments'
            broken = attack(kind, source, tools['profgpu'], work) if kind else \
                attack_arguments(source, tools['profgpu'], work, 'whole-' + kinds[0].name)
            counts[name] = counts.get(name, 0) + 1
            if broken:
                found += 1
                words, data, promise = broken
                print(f'{name} #{number}: not so: {promise}\n  profgpu {" ".join(words)}', flush=True)
                keep(options.keep, number, name, words, data, promise)
            for entry in os.listdir(work):
                if not entry.startswith('whole-'):
                    path = os.path.join(work, entry)
                    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    print(f'{number} attacks of seed {options.seed} in {options.seconds:.0f} s: {found} broke a promise; ' +
          ', '.join(f'{name} {count}' for name, count in sorted(counts.items())))
    if options.result:
        os.makedirs(os.path.dirname(os.path.abspath(options.result)), exist_ok=True)
        with open(options.result, 'w', encoding='utf-8') as file:
            json.dump({'seed': options.seed, 'seconds': options.seconds, 'inputs': number, 'broke': found, 'kinds': counts}, file, indent=1)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
