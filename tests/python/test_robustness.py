"""Bad input. Each ends in a report that says what is missing, or in one short message that names the file; never in a crash,
a hang or an escape sequence on the terminal."""
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import time

import pytest

from conftest import program

SECONDS = 20   # for one run on a trace of half a megabyte or less
FORMS = ('terminal', 'json', 'markdown', 'html')


@pytest.fixture(scope='module')
def small(simulate):
    """The text of a small trace with two devices' worth of everything: ops, launches, copies, memory, steps."""
    return simulate('--steps', '2', '--layers', '1', '--python-stacks', '--sync-rows').read_bytes()


@pytest.fixture
def outcome(profgpu):
    """outcome(path, *options): runs, checks what always holds, and gives (exit code, JSON document or None, message)."""

    def run(path, *options):
        start = time.monotonic()
        result = profgpu('analyze', '--json', *options, path)
        assert time.monotonic() - start < SECONDS
        message = result.stderr.decode()   # valid UTF-8
        if result.returncode == 0:
            return 0, json.loads(result.stdout), message
        assert result.returncode == 1, message
        assert result.stdout == b''
        assert message.startswith('profgpu: ') and os.path.basename(path) in message
        assert len(message) < 1000 and message.count('\n') <= 4
        return 1, None, message

    return run


def issues(document):
    return {i['kind'] for source in document['inputs'] for i in source['issues']}


def compressed(text, form, folder):
    path = folder / ('cut.json' + {'plain': '', 'gz': '.gz', 'zst': '.zst'}[form])
    if form == 'plain':
        path.write_bytes(text)
    elif form == 'gz':
        path.write_bytes(gzip.compress(text, 6))
    else:
        if not shutil.which('zstd'):
            pytest.skip('no zstd program')
        path.write_bytes(subprocess.run(['zstd', '-q', '-c'], input=text, capture_output=True, check=True).stdout)
    return path


@pytest.mark.parametrize('form', ['plain', 'gz', 'zst'])
def test_cut_anywhere(form, small, outcome, check, tmp_path):
    path = compressed(small, form, tmp_path)
    whole = path.read_bytes()
    reports = 0
    for size in sorted({0, 1, 2, len(whole) - 1} | set(random.Random(1).sample(range(len(whole)), 200))):
        path.write_bytes(whole[:size])
        code, document, _ = outcome(str(path))
        if code == 0:
            reports += 1
            check(document)
            # A cut in the white space after the last brace takes nothing away.
            assert issues(document) & {'truncated', 'damaged'} or not whole[size:].strip()
    assert reports > (100 if form != 'zst' else 0)


def test_a_longer_piece_never_says_less(small, outcome, tmp_path):
    path = tmp_path / 'cut.json'
    events = []
    for part in range(1, 20):
        path.write_bytes(small[:len(small) * part // 20])
        code, document, _ = outcome(str(path))
        events.append(document['inputs'][0]['events'] if code == 0 else 0)
    assert events == sorted(events)
    assert events[-1] > 0.9 * len(json.loads(small)['traceEvents'])


@pytest.mark.parametrize('form', ['plain', 'gz'])
def test_flipped_bytes(form, small, outcome, check, tmp_path):
    path = compressed(small, form, tmp_path)
    whole = path.read_bytes()
    for seed in range(150):
        rng = random.Random(seed)
        data = bytearray(whole)
        for _ in range(rng.choice((1, 3, 30))):
            data[rng.randrange(len(data))] = rng.choice((0, 34, 44, 91, 92, 93, 123, 125, 255, rng.randrange(256)))
        path.write_bytes(data)
        code, document, _ = outcome(str(path))
        if code == 0:
            check(document)


@pytest.mark.parametrize('name, data', {
    'empty': b'',
    'spaces': b' \n' * 1000,
    'binary': bytes(random.Random(3).randrange(256) for _ in range(100_000)),
    'zeros': bytes(100_000),
    'elf': b'\x7fELF' + bytes(1000),
    'text': b'epoch 1 loss 0.3\n' * 500,
    'csv': b'a,b,c\n1,2,3\n' * 500,
    'gzip of nothing': gzip.compress(b''),
    'gzip of text': gzip.compress(b'hello\n'),
    'gzip header only': b'\x1f\x8b\x08\x00',
    'zstd header only': b'\x28\xb5\x2f\xfd',
    'brace': b'{',
    'bracket': b'[',
    'empty object': b'{}',
    'empty array': b'[]',
    'no events': b'{"traceEvents": []}',
    'events null': b'{"traceEvents": null}',
    'events a number': b'{"traceEvents": 17}',
    'events an object': b'{"traceEvents": {"a": 1}}',
    'other JSON': b'{"a": [1, 2, {"b": null}]}',
    'number': b'17',
    'events of no use': b'{"traceEvents": [1, null, "a", [], {}, {"ph": "X"}, {"name": 3}]}',
    'deep arrays': b'[' * 1_000_000,
    'deep objects': b'{"a":' * 300_000,
    'deep in an event': b'{"traceEvents": [{"ph": "X", "args": ' + b'[' * 500_000 + b']' * 500_000 + b'}]}',
    'long string': b'{"traceEvents": [{"ph": "X", "name": "' + b'a' * 5_000_000,
    'UTF-16': '{"traceEvents": []}'.encode('utf-16'),
}.items(), ids=lambda x: x if isinstance(x, str) else '')
def test_not_a_trace(name, data, outcome, tmp_path):
    path = tmp_path / 'strange.json'
    path.write_bytes(data)
    code, _, message = outcome(str(path))
    assert code == 1, name
    assert 'internal' not in message


def event(name='op', **more):
    return {'ph': 'X', 'cat': 'cpu_op', 'name': name, 'pid': 1, 'tid': 1, 'ts': 100, 'dur': 50, 'args': {}} | more


def kernel(name='sgemm', **more):
    return event(name, cat='kernel', pid=0, tid=7, args={'device': 0, 'stream': 7, 'correlation': 3}) | more


def write(path, *events, **fields):
    path.write_text(json.dumps({'traceEvents': list(events)} | fields, ensure_ascii=False), encoding='utf-8',
                    errors='surrogatepass')
    return str(path)


NUMBERS = [1e300, -1e300, 1 << 63, 1 << 64, -(1 << 63), 10 ** 400, '1e999', '0x10', 'NaN', '', '-', None, [], {}, True,
           9223372036854775.807, 9223372036854775.808, 1e-400, -0.0, '12.5']


@pytest.mark.parametrize('field', ['ts', 'dur', 'pid', 'tid', 'id', 'device', 'stream', 'correlation', 'bytes', 'grid',
                                   'External id', 'Sequence number'])
def test_numbers_out_of_range(field, outcome, check, tmp_path):
    for value in NUMBERS:
        good = [event('good'), kernel('good kernel')]
        odd = [event('odd'), kernel('odd kernel', ts=200)]
        for row in odd:
            (row if field in row else row['args'])[field] = value
        code, document, _ = outcome(write(tmp_path / 'numbers.json', *good, *odd))
        assert code == 0, value
        check(document)
        assert 'good' in {o['name'] for o in document['ranks'][0]['ops']}
        assert 'good kernel' in {k['name'] for k in document['ranks'][0]['kernels']}


def test_bare_words_where_numbers_stand(outcome, tmp_path):
    for word in ('NaN', 'Infinity', '-Infinity', '1.', '.5', '+1', '1e', '--1', '1_000', 'nil', "'1'"):
        path = tmp_path / 'words.json'
        path.write_text('{"traceEvents": [%s, {"ph": "X", "cat": "cpu_op", "name": "odd", "pid": 1, "tid": 1, "ts": %s, "dur": 1}, %s]}'
                        % (json.dumps(event('first')), word, json.dumps(event('last', ts=300))))
        code, document, _ = outcome(str(path))
        assert code == 0
        names = {o['name'] for o in document['ranks'][0]['ops']}
        assert {'first', 'last'} <= names
        assert 'odd' not in names or word in ('1.', '.5', '+1')
        assert 'odd' in names or issues(document) & {'out_of_range', 'damaged'}


def test_negative_durations_are_left_out_and_counted(outcome, check, tmp_path):
    code, document, _ = outcome(write(tmp_path / 'negative.json', event(), event('bad', dur=-3), kernel(), kernel('bad', dur=-1)))
    check(document)
    found = [i for i in document['inputs'][0]['issues'] if i['kind'] == 'negative_duration']
    assert [i['count'] for i in found] == [2]
    rank = document['ranks'][0]
    assert 'bad' not in {r['name'] for r in rank['ops'] + rank['kernels']}


# What must never reach a terminal or a file as it is: C0, DEL and C1 control characters other than the line break, and what
# turns the direction of writing.
CONTROL = re.compile('[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]')
HOSTILE = ['\x1b[31mred\x1b[0m', '\x1b]0;title\x07', '\x1b]8;;http://x\x1b\\link', '\x9b31m', 'bell\x07', 'back\x08\x08',
           'return\rover', 'tab\tbed', 'nul\x00nul', 'del\x7f', '\u202egnp.exe', 'two\nlines', '\x1bPq#0\x1b\\', '\x85next']


@pytest.mark.parametrize('form', FORMS)
@pytest.mark.parametrize('section', [None, 'kernels', 'ops', 'steps', 'idle', 'collectives', 'memory'])
def test_escape_sequences_in_names_stay_inside(form, section, profgpu, tmp_path):
    events = []
    for i, name in enumerate(HOSTILE):
        at = 1000 * i
        events += [event(name, ts=at, dur=400), event(name, cat='user_annotation', ts=at, dur=900),
                   event(name, cat='cuda_runtime', ts=at + 10, dur=5, args={'correlation': i + 1}),
                   kernel(name, ts=at + 100, args={'device': 0, 'stream': 7, 'correlation': i + 1, 'Collective name': name,
                                                   'dtype': name, 'Process Group Name': name, 'Group size': 2})]
    path = write(tmp_path / 'hostile.json', *events, host_name=HOSTILE[0],
                 deviceProperties=[{'id': 0, 'name': HOSTILE[1]}], traceName=HOSTILE[2],
                 distributedInfo={'backend': HOSTILE[0], 'rank': 0, 'world_size': 2})
    words = ['--section', section] if section and form not in ('json', 'html') else []
    result = profgpu('analyze', '--format', form, '--color', 'never', '-v', *words, path)
    assert result.returncode == 0, result.stderr
    for text in (result.stdout.decode(), result.stderr.decode()):
        found = CONTROL.search(text)
        assert found is None, (repr(found.group()), repr(text[max(0, found.start() - 60):found.end() + 60]))


def test_names_of_files_stay_inside_too(profgpu, tmp_path):
    for name in ('\x1b[31mred.json', 'two\nlines.json', '\x9b31m.json', 'bell\x07.json'):
        path = tmp_path / name
        path.write_text('nothing')
        for words in (['analyze', path], ['analyze', tmp_path / ('no' + name)]):
            result = profgpu(*words)
            assert result.returncode == 1
            assert not CONTROL.search(result.stderr.decode())
        write(path, event(), kernel())
        for form in FORMS:
            assert not CONTROL.search(profgpu('analyze', '--format', form, path).stdout.decode())


def test_markup_in_names(profgpu, tmp_path):
    names = ['<script>alert(1)</script>', '</td></tr>', '| a | b |', '`code`', '[x](javascript:1)', '"quoted" \\ back', '&amp;',
             '![i](http://x/y.png)', '# heading', '{{x}}', '%s%n%d', '{} {0}', '$(touch x)']
    path = write(tmp_path / 'markup.json', *[event(n, ts=100 * i, dur=90) for i, n in enumerate(names)],
                 *[kernel(n, ts=100 * i + 5) for i, n in enumerate(names)])
    document = json.loads(profgpu('analyze', '--json', path).stdout)
    assert set(names) <= {o['name'] for o in document['ranks'][0]['ops']}
    assert set(names) == {k['name'] for k in document['ranks'][0]['kernels']}
    text = profgpu('analyze', '--format', 'markdown', '--top', '50', path).stdout.decode()
    for word in ('<script>', '</td>', '![i](http', '[x](javascript'):
        assert word not in re.sub(r'`+[^`\n]*`+', '', text), word
    for line in text.split('\n'):   # a name's bars split no cell
        assert '| a | b |' not in line


def test_invalid_utf8(outcome, check, tmp_path):
    for bad in (b'\xff\xfe', b'\xc3', b'\xe2\x82', b'\xed\xa0\x80', b'\xf5\x80\x80\x80', b'\xc0\xaf', b'\x80' * 40):
        path = tmp_path / 'utf8.json'
        path.write_bytes(json.dumps({'traceEvents': [event(), event('NAME', ts=200), kernel('NAME')]}).encode().replace(b'NAME', b'a' + bad + b'z'))
        code, document, _ = outcome(str(path))
        assert code == 0
        check(document)
        assert 'invalid_text' in issues(document)
        assert any(k['name'].startswith('a\ufffd') and k['name'].endswith('z') for k in document['ranks'][0]['kernels'])
    path.write_text('{"traceEvents": [%s]}' % json.dumps(event('NAME')).replace('NAME', r'a\ud800z\u12\"'))
    assert outcome(str(path))[0] in (0, 1)


def test_duplicated_ranks(simulate, profgpu, tmp_path):
    job = simulate('--ranks', '2', '--steps', '2', '--layers', '1')
    for name in os.listdir(job):
        shutil.copy(job / name, tmp_path / name)
    shutil.copy(tmp_path / 'rank-0.json', tmp_path / 'rank-0-again.json')
    result = profgpu('analyze', '--json', tmp_path)
    message = result.stderr.decode()
    assert result.returncode == 1 and result.stdout == b''
    assert 'rank-0.json' in message and 'rank-0-again.json' in message and 'rank 0' in message


def test_folder_with_other_files(simulate, outcome, check, tmp_path):
    job = simulate('--ranks', '2', '--steps', '2', '--layers', '1')
    folder = tmp_path / 'job'
    shutil.copytree(job, folder)
    (folder / 'README.md').write_text('notes')
    (folder / 'train.log').write_text('epoch 1\n' * 100)
    (folder / 'model.pt').write_bytes(bytes(5000))
    (folder / 'config.json').write_text('{"lr": 0.1}')
    (folder / 'empty.json').write_text('')
    (folder / '.hidden').write_text('x')
    (folder / 'nested').mkdir()
    os.symlink('nowhere', folder / 'dangling.json')
    os.mkfifo(folder / 'pipe.json')
    code, document, _ = outcome(str(folder))
    assert code == 0
    check(document)
    assert [r['rank'] for r in document['ranks']] == [0, 1]
    left_out, = [i['text'] for s in document['inputs'] for i in s['issues'] if 'left out' in i['text']]
    assert left_out.startswith('files left out: 8; ')
    assert 'dangling.json: No such file' in left_out and 'nested: a folder' in left_out and 'pipe.json: not a regular file' in left_out


def test_missing_and_unreadable(outcome, profgpu, tmp_path):
    assert outcome(str(tmp_path / 'nowhere.json'))[0] == 1
    (tmp_path / 'empty').mkdir()
    assert outcome(str(tmp_path / 'empty'))[0] == 1
    (tmp_path / 'hosts' / 'a').mkdir(parents=True)
    code, _, said = outcome(str(tmp_path / 'hosts'))
    assert code == 1 and 'the folder is empty' in said
    (tmp_path / 'logs').mkdir()
    (tmp_path / 'logs' / 'a.log').write_text('x')
    assert outcome(str(tmp_path / 'logs'))[0] == 1
    os.symlink('loop.json', tmp_path / 'loop.json')
    assert outcome(str(tmp_path / 'loop.json'))[0] == 1
    assert profgpu('analyze', '--json', '').returncode in (1, 2)
    assert profgpu('analyze', '--json', 'x' * 5000).returncode == 1


def test_no_permission(outcome, tmp_path):
    if os.geteuid() == 0:
        pytest.skip('root may read everything')
    path = tmp_path / 'secret.json'
    path.write_text('{}')
    path.chmod(0)
    assert 'ermission' in outcome(str(path))[2]


@pytest.mark.parametrize('name', ['-', '/dev/stdin'])
@pytest.mark.parametrize('form', ['pipe', 'gzip pipe', 'file'])
def test_standard_input(name, form, small, tmp_path):
    (tmp_path / 'trace.json').write_bytes(small)
    command = [program('PROFGPU', 'profgpu'), 'analyze', '--json']
    whole = subprocess.run([*command, tmp_path / 'trace.json'], capture_output=True, timeout=60, check=True).stdout
    given = {'pipe': {'input': small}, 'gzip pipe': {'input': gzip.compress(small)},
             'file': {'stdin': open(tmp_path / 'trace.json', 'rb')}}[form]
    result = subprocess.run([*command, name], capture_output=True, timeout=60, **given)
    assert result.returncode == 0, result.stderr
    document, expected = json.loads(result.stdout), json.loads(whole)
    assert document['inputs'][0].pop('path') == name
    del expected['inputs'][0]['path'], expected['next'], document['next']
    if form == 'gzip pipe':
        del document['inputs'][0]['file_bytes'], expected['inputs'][0]['file_bytes']
    assert document == expected


def test_what_may_have_been_in_the_part_that_is_cut_off(profgpu, tmp_path):
    events = [{'ph': 'X', 'cat': 'cpu_op', 'name': f'aten::{random.random()}', 'pid': 1, 'tid': 1, 'ts': i, 'dur': 1} for i in range(2000)]
    packed = gzip.compress(json.dumps({'traceEvents': events}).encode())
    (tmp_path / 'cut.json.gz').write_bytes(packed[:len(packed) // 2])
    (tmp_path / 'whole.json.gz').write_bytes(packed)
    # Lines break where they are full.
    cut, whole = [b' '.join(profgpu('analyze', tmp_path / name).stdout.split()) for name in ('cut.json.gz', 'whole.json.gz')]
    assert b'in the part that is cut off' in cut and b'ProfilerActivity' not in cut
    assert b'was ProfilerActivity.CUDA on?' in whole


def test_what_a_step_does_beyond_the_cut_is_not_known(profgpu, tmp_path):
    def event(kind, name, at, length):
        return {'ph': 'X', 'cat': kind, 'name': name, 'pid': 1, 'tid': 1, 'ts': at, 'dur': length}
    events = [event('user_annotation', 'ProfilerStep#1', 0, 100_000)]
    events += [event('cpu_op', f'aten::{random.random()}', 10 * i, 9) for i in range(10_000)]
    packed = gzip.compress(json.dumps({'traceEvents': events}).encode())
    (tmp_path / 'cut.json.gz').write_bytes(packed[:len(packed) // 4])
    text = b' '.join(profgpu('analyze', tmp_path / 'cut.json.gz').stdout.split())
    assert b'and it is cut off: record fewer steps' in text and b'no operator runs' not in text
    # Nothing comes out of less than the first block of what is packed.
    (tmp_path / 'start.json.gz').write_bytes(packed[:12])
    start = profgpu('analyze', tmp_path / 'start.json.gz')
    assert start.returncode == 1 and b'before anything can be read' in start.stderr and b'hint: ' in start.stderr


def test_two_pipes(small, profgpu, tmp_path):
    (tmp_path / 'trace.json').write_bytes(small)
    result = subprocess.run(['bash', '-c', '"$0" diff --json <(cat "$1") <(cat "$1")', program('PROFGPU', 'profgpu'), tmp_path / 'trace.json'],
                            capture_output=True, timeout=60)
    assert result.returncode == 0 and json.loads(result.stdout)['schema'] == 'profgpu.diff.v1', result.stderr


def test_nothing_piped_in(profgpu, tmp_path):
    nothing = profgpu('analyze', '-')
    assert nothing.returncode == 1 and b'-: ' in nothing.stderr and b'is empty' in nothing.stderr
    os.mkfifo(tmp_path / 'named')
    named = profgpu('analyze', tmp_path / 'named')
    assert named.returncode == 1 and b'standard input' in named.stderr


def test_what_a_trace_lacks_is_said(simulate, analyze, check):
    base = ('--steps', '2', '--layers', '1')
    for options, kind in ((('--cpu-only',), 'no_device_activity'), (('--no-steps',), 'no_steps'),
                          (('--drop-kernels', '30'), 'launch_without_activity')):
        document = analyze(simulate(*base, *options))
        check(document)
        assert kind in issues(document), kind
    document = analyze(simulate(*base, '--cpu-only'))
    assert document['ranks'][0]['devices'] == [] and document['ranks'][0]['idle'] == []
    assert {c['verdict'] for c in document['checklist'] if c['id'] in ('gpu-utilization', 'mixed-precision')} == {'unknown'}
    assert analyze(simulate(*base))['inputs'][0]['issues'] == []


def test_overruns_are_counted(outcome, check, tmp_path):
    rows = [kernel('long', ts=100, dur=500), kernel('next', ts=300, dur=10), kernel('after', ts=700, dur=10)]
    _, document, _ = outcome(write(tmp_path / 'overrun.json', event(), *rows))
    check(document)
    assert [i['count'] for i in document['inputs'][0]['issues'] if i['kind'] == 'overrun'] == [1]


@pytest.mark.parametrize('form', FORMS)
def test_a_full_disk_is_an_error(form, simulate, profgpu):
    if not os.path.exists('/dev/full'):
        pytest.skip('no /dev/full')
    path = simulate('--steps', '2', '--layers', '1')
    result = profgpu('analyze', '--format', form, '-o', '/dev/full', path)
    assert result.returncode == 1 and b'/dev/full' in result.stderr
    with open('/dev/full', 'wb') as full:
        result = profgpu('analyze', '--format', form, path, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1 and b'standard output' in result.stderr


def test_output_into_a_missing_folder(simulate, profgpu, tmp_path):
    result = profgpu('analyze', '-o', tmp_path / 'no' / 'report.txt', simulate('--steps', '2', '--layers', '1'))
    assert result.returncode == 1 and b'report.txt' in result.stderr


@pytest.mark.parametrize('form', FORMS)
def test_a_reader_that_leaves(form, simulate):
    path = simulate('--steps', '4', '--layers', '3')
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run([program('PROFGPU', 'profgpu'), 'analyze', '--format', form, str(path)], stdout=writing,
                            stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert result.returncode == 0 and result.stderr == b''


def test_closed_streams(simulate):
    path = simulate('--steps', '2', '--layers', '1')
    for redirection in ('>&-', '2>&-', '<&-', '>&- 2>&-', '>&- 2>&- <&-'):
        result = subprocess.run(['sh', '-c', f'exec "$0" analyze "$1" {redirection}', program('PROFGPU', 'profgpu'), str(path)],
                                capture_output=True, timeout=60)
        assert result.returncode == (1 if '>&-' in redirection.split() else 0), redirection


@pytest.mark.parametrize('words, code', [
    (['--steps', '100:200'], 1), (['--steps', '3:1'], 2), (['--steps', 'a:b'], 2), (['--steps', '-5:2'], 2),
    (['--steps', '1:99999999999999999999'], 2), (['--step-pattern', '['], 2), (['--step-pattern', '('], 2), (['--step-pattern', r'step \d+'], 2),
    (['--step-pattern', 'a{1,255}{1,255}{1,255}'], 2),
    (['--step-pattern', 'matches nothing at all'], 0), (['--threshold', 'no-such-rule=3'], 2), (['--threshold', 'low-gpu-utilization'], 2),
    (['--threshold', 'low-gpu-utilization=x'], 2), (['--threshold', 'low-gpu-utilization=nan'], 2), (['--top', '-1'], 2),
    (['--top', '0'], None), (['--top', 'x'], 2), (['--section', 'nonsense'], 2), (['--format', 'pdf'], 2), (['--fail-on', 'loud'], 2),
    (['--width', '0'], None), (['--width', '1'], None), (['--width', '1000000'], None), (['--no-such-option'], 2),
    (['--step-pattern', '(a*)*' * 20 + 'b'], 0)], ids=lambda x: ' '.join(x)[:40] if isinstance(x, list) else '')
def test_options(words, code, simulate, profgpu):
    start = time.monotonic()
    result = profgpu('analyze', *words, simulate('--steps', '3', '--layers', '1'))
    assert time.monotonic() - start < SECONDS
    assert code is None or result.returncode == code, result.stderr
    if result.returncode == 2:
        assert result.stderr.startswith(b'profgpu') and len(result.stderr) < 1000


def test_what_is_read_is_not_written_over(small, profgpu, tmp_path):
    trace = tmp_path / 'job' / 'trace.json'
    trace.parent.mkdir()
    trace.write_bytes(small)
    os.symlink(trace, tmp_path / 'link')
    for words in (['analyze', trace, '--html', trace], ['analyze', trace, '-o', tmp_path / 'link'], ['analyze', trace.parent, '--html', trace],
                  ['query', trace, 'select 1', '-o', trace], ['diff', trace, trace, '-o', trace], ['export', trace, '--to', 'chrome', '-o', trace]):
        refused = profgpu(*words)
        assert refused.returncode == 2 and b'is an input file' in refused.stderr, words
        assert trace.read_bytes() == small
    for _ in range(2):
        assert profgpu('analyze', '-q', trace.parent, '--html', trace.parent / 'report.html').returncode == 0


def test_a_trace_is_no_samples(small, profgpu, tmp_path):
    for name in ('a.json', 'b.json'):
        (tmp_path / name).write_bytes(small)
    refused = profgpu('analyze', tmp_path / 'a.json', '--samples', tmp_path / 'b.json')
    assert refused.returncode == 2 and b'b.json: this is a PyTorch trace, not device samples' in refused.stderr


def test_a_file_named_twice_is_read_once(small, analyze, tmp_path):
    (tmp_path / 'a.json').write_bytes(small)
    os.symlink(tmp_path / 'a.json', tmp_path / 'b.json')
    for words in ([tmp_path / 'a.json'] * 2, [tmp_path / 'a.json', tmp_path], [tmp_path]):
        document = analyze(*words)
        assert len(document['inputs']) == len(document['ranks']) == 1


def test_a_rank_that_nobody_states_is_called_a_guess(simulate, analyze, tmp_path):
    job = simulate('--ranks', '2', '--steps', '2', '--layers', '1')
    for i, path in enumerate(sorted(job.glob('*rank*'))):
        document = json.loads(path.read_bytes())
        document.pop('distributedInfo')
        (tmp_path / f'{"ab"[i]}.json').write_text(json.dumps(document))
    inputs = analyze(tmp_path)['inputs']
    assert [i['rank'] for i in inputs] == [0, 1]
    assert all('assumed rank' in i['issues'][0]['text'] for i in inputs), inputs
    assert analyze(tmp_path / 'a.json')['inputs'][0]['issues'] == []


def test_names_that_count_the_ranks_of_each_host(simulate, profgpu, tmp_path):
    job = simulate('--ranks', '2', '--steps', '2', '--layers', '1')
    for i, path in enumerate(sorted(job.glob('*rank*'))):
        document = json.loads(path.read_bytes())
        document.pop('distributedInfo')
        (tmp_path / str(i)).mkdir()
        (tmp_path / str(i) / 'rank0.json').write_text(json.dumps(document))
    refused = profgpu('analyze', tmp_path / '0', tmp_path / '1')
    assert refused.returncode == 1 and b'both are named as rank 0' in refused.stderr and b'whole job' in refused.stderr
