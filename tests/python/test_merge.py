"""profgpu merge: ranks in one timeline, read by readers that are not ours."""
import collections
import decimal
import gzip
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT
from test_export import Perfetto, figures, perfetto_trace, query   # noqa: F401 (a fixture)

PAIR = [os.path.join(ROOT, '..', 'shared', 'traces', f'pair128-rank{r}.json.gz') for r in (0, 1)]
SKEW_NS = 7_000_000
JOB = ('--ranks', '4', '--steps', '4', '--layers', '3', '--clock-skew', str(SKEW_NS))
DEVICE = ('kernel', 'memcpy', 'memset')
HOST = ('op', 'annotation', 'python', 'runtime', 'driver', 'overhead')
FIRST_LAUNCH_FLOW = 1 << 34


@pytest.fixture
def merge(profgpu, tmp_path):
    """merge(path, *options, to=name) -> where it was written, and what was said."""

    def run(*words, to='job.pftrace', code=0):
        out = tmp_path / to
        result = profgpu('merge', *words, '-o', out, text=True)
        assert result.returncode == code, result.stderr
        assert [p.name for p in tmp_path.iterdir() if 'partial' in p.name] == []
        return out, result.stderr

    return run


@pytest.fixture
def pair(tmp_path):
    if not all(map(os.path.exists, PAIR)):
        pytest.skip('the two real ranks are not here')
    folder = tmp_path / 'pair'
    folder.mkdir()
    for path in PAIR:
        shutil.copy(path, folder)
    return folder


def rank_of(read, track):
    """By the group of tracks that it is in: "rank 3 · host ..."."""
    while read.tracks[track].parent_uuid:
        track = read.tracks[track].parent_uuid
    t = read.tracks[track]
    return int(re.match(r'rank (\d+)', t.name or t.process.process_name)[1])


def joined(read):
    """Slices by arrow between ranks."""
    arrows = collections.defaultdict(list)
    for s in read.slices:
        for flow in s['flows']:
            if flow < FIRST_LAUNCH_FLOW:
                arrows[flow].append(s)
    return list(arrows.values())


def check_arrows(read):
    """Each joins two ranks' kernels of one collective, which overlap, and leads to the later one."""
    arrows = joined(read)
    for ends in arrows:
        assert len(ends) == 2
        a, b = sorted(ends, key=lambda s: (s['args']['wait_ns'] == 0, s['start']))
        assert rank_of(read, a['track']) != rank_of(read, b['track'])
        for key in ('collective', 'process_group', 'message_bytes', 'dtype', 'latest_rank', 'transfer_ns'):
            assert a['args'].get(key) == b['args'].get(key), key
        assert a['start'] <= b['start'] < a['start'] + a['duration']
        assert b['start'] - a['start'] + b['args']['wait_ns'] == a['args']['wait_ns']
    return arrows


# Perfetto

def test_ranks_lie_on_one_clock(merge, simulate, perfetto_trace, profgpu):
    path = simulate(*JOB)
    out, said = merge(path)
    read = Perfetto(perfetto_trace, out)
    arrows = check_arrows(read)
    calls = collections.Counter(rank_of(read, s['track']) for s in read.slices if 'wait_ns' in s['args'])
    assert set(calls) == {0, 1, 2, 3} and len(set(calls.values())) == 1
    assert len(arrows) == 3 * calls[0]
    # Steps of all ranks begin together, though their clocks are far apart.
    first = [s for s in read.slices if s['category'] == 'step' and s['name'] == 'ProfilerStep#6']
    assert len(first) == 4 and max(s['start'] for s in first) - min(s['start'] for s in first) < SKEW_NS / 2
    clocks = {rank_of(read, s['track']): s['args']['clock'] for s in first}
    assert clocks[0] == 'reference' and not any('not known' in c for c in clocks.values())
    # Nothing is lost and nothing is longer than it was.
    for kinds, table in ((DEVICE, 'activity'), (HOST, 'host')):
        total = sum(s['duration'] for s in read.slices if s['category'] in kinds)
        row = query(profgpu, path, f'select count(*) n, sum(duration_ns) t from {table}')[0]
        assert sum(s['category'] in kinds for s in read.slices) == row['n']
        assert abs(total - row['t']) <= row['n']
    assert 'for Perfetto' in said


def test_tracks_say_whose_they_are(merge, simulate, perfetto_trace):
    read = Perfetto(perfetto_trace, merge(simulate(*JOB))[0])
    names = {t.name or t.process.process_name or t.thread.thread_name for t in read.tracks.values()}
    for rank in range(4):
        assert any(re.match(rf'rank {rank} .*· GPU \d+$', n) for n in names)
        assert any(re.match(rf'rank {rank} .*· steps$', n) for n in names)
        assert any(re.match(rf'rank {rank} .*· pid \d+$', n) for n in names)
    assert any(re.match(r'stream \d+ \(compute\)$', n) for n in names)
    assert any(re.match(r'stream \d+ \(communication: all_reduce', n) for n in names)
    pids = [t.process.pid for t in read.tracks.values() if t.HasField('process')]
    assert len(pids) == len(set(pids)) and all(0 < p < 2**31 for p in pids)


def test_chosen_ranks_and_steps(merge, simulate, perfetto_trace, profgpu):
    path = simulate(*JOB)
    whole = Perfetto(perfetto_trace, merge(path, to='all.pftrace')[0])
    read = Perfetto(perfetto_trace, merge(path, '--ranks', '1,3', '--steps', '6:8')[0])
    assert {rank_of(read, s['track']) for s in read.slices} == {1, 3}
    assert {s['name'] for s in read.slices if s['category'] == 'step'} == {'ProfilerStep#6', 'ProfilerStep#7'}
    steps = query(profgpu, path, 'select rank, min(start_ns) a, max(start_ns + duration_ns) b from steps '
                                 'where rank in (1, 3) and number in (6, 7) group by rank')
    ours = sum(query(profgpu, path, f"""select count(*) n from activity a left join host l on l.rank = a.rank and l.id = a.launch_id
        where a.rank = {s['rank']} and ((a.start_ns < {s['b']} and a.start_ns + a.duration_ns > {s['a']})
          or (l.start_ns < {s['b']} and l.start_ns + l.duration_ns > {s['a']}))""")[0]['n'] for s in steps)
    device = [s for s in read.slices if s['category'] in DEVICE]
    assert len(device) == ours
    # Kernels are whole, and where the same kernel is in the file of all, both are as far apart as there.
    durations = lambda r: collections.Counter((s['name'], s['duration']) for s in r.slices if s['category'] in DEVICE)
    assert not durations(read) - durations(whole)
    host = [s for s in read.slices if s['category'] in HOST]
    for rank in (1, 3):
        span = [s for s in read.slices if s['category'] == 'step' and rank_of(read, s['track']) == rank]
        low, high = min(s['start'] for s in span), max(s['start'] + s['duration'] for s in span)
        assert all(low <= s['start'] and s['start'] + s['duration'] <= high for s in host if rank_of(read, s['track']) == rank)
    # Clocks come from all ranks and steps: arrows are as good as before, and lead to rank 3 or 1 whoever was the last.
    arrows = check_arrows_of_some(read)
    assert arrows and len(arrows) == sum('wait_ns' in s['args'] for s in device) / 2


def check_arrows_of_some(read):
    arrows = joined(read)
    for a, b in arrows:
        assert a['args']['latest_rank'] == b['args']['latest_rank'] in (0, 1, 2, 3)
        assert a['args']['transfer_ns'] == b['args']['transfer_ns']
        assert max(a['start'], b['start']) < min(a['start'] + a['duration'], b['start'] + b['duration'])
        assert abs(a['start'] - b['start']) == abs(a['args']['wait_ns'] - b['args']['wait_ns'])
    return arrows


def test_two_real_ranks(merge, pair, perfetto_trace, profgpu):
    out, said = merge(pair)
    read = Perfetto(perfetto_trace, out)
    arrows = check_arrows(read)
    # Its kernels carry no arguments: joined are those that overlap as the clocks stand.
    assert len(arrows) >= 5
    assert {rank_of(read, s['track']) for ends in arrows for s in ends} == {0, 1}
    row = query(profgpu, pair, 'select count(*) n from activity')[0]
    assert sum(s['category'] in DEVICE for s in read.slices) == row['n']


def test_without_collectives_it_says_so(merge, simulate, perfetto_trace, tmp_path):
    """One host each, no collective in common: what ties their clocks is at best that steps are equal."""
    folder = tmp_path / 'apart'
    folder.mkdir()
    for rank in (0, 1):
        with open(simulate('--steps', '3', '--layers', '2', '--seed', str(rank + 1))) as f:
            document = json.load(f)
        document['baseTimeNanoseconds'] = 1_700_000_000_000_000_000 + rank * 3_600_000_000_000
        document['host_name'] = f'node{rank}'
        document['distributedInfo'] = {'rank': rank, 'world_size': 2, 'backend': 'nccl'}
        (folder / f'r{rank}.json').write_text(json.dumps(document))
    out, said = merge(folder)
    assert re.search(r'clock of rank 1: not known: ', said)
    read = Perfetto(perfetto_trace, out)
    steps = [s for s in read.slices if s['category'] == 'step']
    assert 'not known' in next(s for s in steps if rank_of(read, s['track']) == 1)['args']['clock']
    starts = [min(s['start'] for s in steps if rank_of(read, s['track']) == r) for r in (0, 1)]
    assert abs(starts[0] - starts[1]) < 60_000_000_000, 'an hour apart by their own clocks'
    assert joined(read) == []
    names = {t.name or t.process.process_name for t in read.tracks.values()}
    assert any(n.startswith('rank 1 · node1 · GPU ') for n in names)
    out, _ = merge(folder, to='apart.json')
    clocks = json.loads(out.read_text())['profgpu_clocks']
    assert [c['rank'] for c in clocks] == [0, 1] and 'not known' in clocks[1]['note'] and 'note' not in clocks[0]


def test_perfetto_decodes_without_a_schema(merge, simulate):
    if shutil.which('protoc') is None:
        pytest.skip('protoc is not installed')
    with open(merge(simulate(*JOB))[0], 'rb') as f:
        assert subprocess.run(['protoc', '--decode_raw'], stdin=f, capture_output=True, check=True).stdout.startswith(b'1 {')


# Chrome

def test_chrome_says_the_same(merge, simulate, perfetto_trace):
    path = simulate(*JOB)
    read = Perfetto(perfetto_trace, merge(path, '--steps', '6:8')[0])
    plain, _ = merge(path, '--steps', '6:8', to='job.json')
    packed, _ = merge(path, '--steps', '6:8', to='job.json.gz')
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    document = json.loads(plain.read_text(), parse_float=decimal.Decimal)
    events = document['traceEvents']
    at = lambda e: int(e['ts'] * 1000)
    kernels = [e for e in events if e.get('cat') in ('kernel', 'gpu_memcpy', 'gpu_memset')]
    theirs = [s for s in read.slices if s['category'] in DEVICE]
    first = min(map(at, kernels)), min(s['start'] for s in theirs)
    assert sorted((e['name'], at(e) - first[0], int(e['dur'] * 1000)) for e in kernels) == \
        sorted((s['name'], s['start'] - first[1], s['duration']) for s in theirs)
    # A flow begins at one rank's kernel and ends at another's, in this order in the file.
    names = {e['pid']: e['args']['name'] for e in events if e['name'] == 'process_name'}
    rank = lambda e: int(re.match(r'rank (\d+) ', names[e['pid']])[1])
    places = {(e['pid'], e['tid'], at(e)): e for e in kernels}
    flows = collections.defaultdict(list)
    for e in events:
        if e.get('cat') == 'collective':
            flows[e['id']].append(e)
    assert len(flows) == len(joined(read)) > 0
    for a, b in flows.values():
        a, b = sorted((a, b), key=at)
        assert {a['ph'], b['ph']} == {'s', 'f'} and rank(a) != rank(b)
        assert at(a) == at(b) or (a['ph'], b['ph']) == ('s', 'f')
        ends = [places[e['pid'], e['tid'], at(e)]['args'] for e in (a, b)]
        assert ends[0]['Collective name'] == ends[1]['Collective name'] and ends[0]['latest_rank'] == ends[1]['latest_rank']
        assert ends[0]['wait_ns'] >= ends[1]['wait_ns'] == 0
    order = {e['pid']: e['args']['sort_index'] for e in events if e['name'] == 'process_sort_index'}
    assert sorted(names, key=order.get) == sorted(names, key=lambda pid: (int(re.match(r'rank (\d+)', names[pid])[1]), pid))
    streams = {e['args']['name'] for e in events if e['name'] == 'thread_name' and (e['pid'], e['tid']) in
               {(k['pid'], k['tid']) for k in kernels}}
    assert any(re.match(r'stream \d+ \(communication: all_reduce', s) for s in streams)
    assert document['profgpu_merged_ranks'] == 4 and [c['rank'] for c in document['profgpu_clocks']] == [0, 1, 2, 3]


def test_a_merged_file_is_not_taken_for_a_trace(merge, simulate, profgpu, analyze, tmp_path):
    path = simulate(*JOB)
    for to in ('job.json', 'job.json.gz'):
        out, _ = merge(path, to=to)
        result = profgpu('analyze', out, text=True)
        assert result.returncode == 1 and 'timeline of 4 ranks in one file' in result.stderr
    # Beside the traces it is left out, and they are not counted twice.
    folder = tmp_path / 'beside'
    shutil.copytree(path, folder)
    shutil.copy(out, folder)
    document = analyze(folder)
    assert len(document['ranks']) == 4
    assert any('left out: 1;' in i['text'] for s in document['inputs'] for i in s['issues'])


def test_one_rank_comes_back_as_it_was(merge, simulate, analyze):
    path = simulate(*JOB)
    out, _ = merge(path, '--ranks', '2', to='job.json')
    back = analyze(out)
    assert back['ranks'][0]['rank'] == 2
    before = figures(analyze(sorted(path.iterdir())[2]))
    assert durations(figures(back)['ranks'][0]) == durations(before['ranks'][0])


def durations(rank):
    """Figures that do not depend on where a clock begins, nor on what a nanosecond in a second of drift changes."""
    return [(d['id'], d['span_ns'], d['busy_ns'], d['exposed_communication_ns']) for d in rank['devices']], \
        [(k['name'], k['count'], k['total_ns']) for k in rank['kernels']], [(o['name'], o['calls']) for o in rank['ops']]


# What can go wrong

@pytest.mark.parametrize('words, code, says', [
    (('--ranks', '9'), 1, 'there is no rank 9\n  hint: ranks that were read: 0–3'),
    (('--ranks', '0,4-7'), 1, 'there is no rank 4-7'),
    (('--ranks', 'all'), 2, '--ranks takes a list such as 0,3,8-11, not "all"'),
    (('--ranks', ''), 2, '--ranks takes a list'),
    (('--steps', '100:'), 1, 'none of the chosen ranks has any of the chosen steps\n  hint: the traces have steps 5 to 8'),
    (('--steps', '3'), 2, '--steps takes A:B'),
    (('--to', 'sqlite'), 2, 'sqlite'),
], ids=str)
def test_words_that_do_not_fit(merge, simulate, words, code, says):
    out, said = merge(simulate(*JOB), *words, code=code)
    assert says in said and not out.exists()


def test_where_it_cannot_be_written(profgpu, simulate, tmp_path):
    path = simulate(*JOB)
    for words, code, says in (((), 2, '-o FILE is missing'), (('-o', tmp_path / 'job.svg'), 2, 'cannot infer the format'),
                              (('-o', tmp_path / 'absent' / 'job.pftrace'), 1, 'cannot be written'),
                              (('-o', '/dev/full', '--to', 'chrome'), 1, 'No space left'),
                              (('-o', sorted(path.iterdir())[0]), 2, 'is an input file')):
        result = profgpu('merge', path, *words, text=True)
        assert result.returncode == code and says in result.stderr, result.stderr
    result = profgpu('merge', os.path.join(ROOT, 'examples', 'replay.jsonl'), '-o', tmp_path / 'job.pftrace', text=True)
    assert result.returncode == 1 and 'only device samples' in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_rank_without_the_steps_is_left_out(merge, simulate, perfetto_trace, tmp_path):
    folder = tmp_path / 'run'
    shutil.copytree(simulate(*JOB), folder)
    last = sorted(folder.iterdir())[3]
    document = json.loads(last.read_text())
    document['traceEvents'] = [e for e in document['traceEvents'] if e['name'] != 'ProfilerStep#8']
    last.write_text(json.dumps(document))
    out, said = merge(folder, '--steps', '8:9')
    assert 'left out, without any of the chosen steps: rank 3' in said
    read = Perfetto(perfetto_trace, out)
    assert {rank_of(read, s['track']) for s in read.slices} == {0, 1, 2}


def test_samples_come_along(merge, simulate, perfetto_trace, tmp_path):
    path = simulate(*JOB)
    document = json.loads(sorted(path.iterdir())[0].read_text(), parse_float=decimal.Decimal)
    start = document.get('baseTimeNanoseconds', 0) + min(int(e['ts'] * 1000) for e in document['traceEvents'] if e.get('dur'))
    samples = tmp_path / 'samples.jsonl'
    samples.write_text(''.join(json.dumps({'time_ns': start + (i + 1) * 2_000_000, 'device': 0, 'power_w': 300 + i}) + '\n'
                               for i in range(20)))
    out, said = merge(path, '--samples', samples)
    read = Perfetto(perfetto_trace, out)
    assert [v for _, _, v in read.values if 300 <= v < 320] == [300 + i for i in range(20)], said


@pytest.mark.parametrize('to', ['job.pftrace', 'job.pftrace.gz', 'job.json', 'job.json.gz'])
def test_sizes_are_foreseen(merge, pair, profgpu, to):
    """The size that is said before so much is written holds for real traces within a factor of two."""
    name = 'kPerfettoEvent' if 'pftrace' in to else 'kChromeEvent'
    with open(os.path.join(ROOT, 'src', 'cli', 'export.cc')) as f:
        each = float(re.search(name + r'{(\d+), (\d+)}', f.read())[2 if to.endswith('.gz') else 1])
    events = sum(r['n'] for r in query(profgpu, pair, 'select count(*) n from host union all select count(*) from activity'))
    size = merge(pair, to=to)[0].stat().st_size
    assert events * each / 2 < size < events * each * 2, size / events
