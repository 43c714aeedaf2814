"""Memory snapshots: what is read and added up is what PyTorch's own viewer has, for real files and for those of every
version; and no pickle runs code."""
import copy
import csv
import gzip
import io
import json
import os
import pickle
import re

import pytest

from conftest import ROOT
from memory_snapshots import START_US, STACKS, VERSIONS, snapshot, viewer_levels, with_addresses, with_pinned_memory

REAL = os.path.join(os.path.dirname(ROOT), 'shared', 'snapshots')


def real_snapshots():
    if not os.path.isdir(REAL):
        return []
    return [os.path.join(REAL, name) for name in sorted(os.listdir(REAL)) if name.endswith('.pickle')]


@pytest.fixture(params=[*real_snapshots(), *(f'{v}-{p}' for v in VERSIONS for p in (2, 4, 5))],
                ids=lambda name: os.path.basename(name))
def file(request, tmp_path):
    """(path, the snapshot as Python reads it)"""
    if os.path.isabs(request.param):
        with open(request.param, 'rb') as f:
            return request.param, pickle.load(f)
    version, protocol = request.param.split('-')
    made = snapshot(version, seed=int(protocol), devices=2)
    path = tmp_path / 'snapshot.pickle'
    path.write_bytes(pickle.dumps(made, int(protocol)))
    return str(path), made


def test_totals_are_the_viewers(file, analyze):
    path, snap = file
    found = analyze(path)['ranks'][0]['snapshot']
    segments = snap['segments']
    assert found['segments'] == len(segments)
    assert found['blocks'] == sum(len(s['blocks']) for s in segments)
    assert found['events'] == sum(len(t) for t in snap['device_traces'])
    assert found['reserved_bytes'] == sum(s['total_size'] for s in segments)
    assert found['allocated_bytes'] == sum(s['allocated_size'] for s in segments)
    assert found['active_bytes'] == sum(s['active_size'] for s in segments)
    used = [b for s in with_addresses(copy.deepcopy(snap))['segments'] for b in s['blocks'] if b['state'] != 'inactive']
    assert found['requested_bytes'] == sum(b['requested_size'] for b in used)
    by_state = {}
    for s in segments:
        for b in s['blocks']:
            key = s['device'], b['state'], s['segment_type']
            size, count = by_state.get(key, (0, 0))
            by_state[key] = size + b['size'], count + 1
    assert {(r['device'], r['state'], r['pool']): (r['total_bytes'], r['blocks']) for r in found['states']} == by_state


def test_totals_are_those_of_pytorchs_own_module(file, analyze):
    viz = pytest.importorskip('torch.cuda._memory_viz')
    path, snap = file
    text = viz.segsum(with_addresses(copy.deepcopy(snap)))
    found = analyze(path)['ranks'][0]['snapshot']
    assert re.search(r'segments: (\d+)', text)[1] == str(found['segments'])
    assert re.search(r'total_reserved: (.*)', text)[1] == viz._format_size(found['reserved_bytes'])
    assert re.search(r'total_allocated: (.*)', text)[1] == viz._format_size(found['requested_bytes'])
    for segment in snap['segments']:
        assert viz.calc_active(segment) <= segment['active_size']


def rows(profgpu, path, query):
    result = profgpu('query', path, query, '--format', 'csv')
    assert result.returncode == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout.decode())))


def test_every_level_and_the_peak_are_the_viewers(file, analyze, profgpu):
    path, snap = file
    snap = with_addresses(copy.deepcopy(snap))
    found = analyze(path)['ranks'][0]['snapshot']
    events = rows(profgpu, path, 'SELECT device, event, action, size_bytes, allocated_bytes FROM snapshot_events')
    highest = 0
    for device, trace in enumerate(snap['device_traces']):
        of_device = [e for e in events if int(e['device']) == device]
        initial, levels = viewer_levels(snap, device)
        assert [int(e['event']) for e in of_device] == list(range(len(trace)))
        assert [int(e['allocated_bytes']) for e in of_device] == levels
        assert [int(e['size_bytes']) for e in of_device] == [e['size'] for e in trace]
        row = next((d for d in found['devices'] if d['device'] == device), None)
        if row is None:
            assert not trace
            continue
        peak = max([initial, *levels])
        assert row['peak_allocated_bytes'] == peak
        assert row['peak_event'] == (levels.index(peak) if initial < peak else None)
        highest = max(highest, peak)
    assert found['peak_allocated_bytes'] == highest
    assert sum(c['held_bytes'] for c in found['peak']['categories']) == highest
    assert max(p['allocated_bytes'] for p in found['timeline']) <= highest


def test_reserved_memory_is_what_the_segments_say(file, profgpu):
    path, snap = file
    for device, trace in enumerate(snap['device_traces']):
        level = sum(s['total_size'] for s in snap['segments'] if s['device'] == device)
        levels = []
        for event in reversed(trace):
            levels.append(level)
            level -= {'segment_alloc': 1, 'segment_map': 1, 'segment_free': -1, 'segment_unmap': -1}.get(event['action'], 0) * event['size']
        got = rows(profgpu, path, f'SELECT reserved_bytes FROM snapshot_events WHERE device = {device} ORDER BY event')
        assert [int(r['reserved_bytes']) for r in got] == levels[::-1]


def test_segments_and_blocks_are_tables(file, profgpu):
    path, snap = file
    segments = rows(profgpu, path, 'SELECT total_bytes, active_bytes FROM snapshot_segments')
    assert sorted(int(s['total_bytes']) for s in segments) == sorted(s['total_size'] for s in snap['segments'])
    blocks = rows(profgpu, path, 'SELECT state, sum(size_bytes) AS bytes FROM snapshot_blocks GROUP BY state')
    sums = {}
    for s in snap['segments']:
        for b in s['blocks']:
            sums[b['state']] = sums.get(b['state'], 0) + b['size']
    assert {b['state']: int(b['bytes']) for b in blocks} == sums


def test_a_snapshot_alone_is_a_report_in_every_form(file, profgpu):
    path, _ = file
    text = profgpu('analyze', path).stdout.decode()
    assert re.search(r'Peak [\d.]+ [KMG]iB', text) and 'Memory at the peak' in text and 'Held at the peak by' in text
    assert 'No GPU activity' not in text and 'nan' not in text.lower().split()
    assert 'Memory at the peak' in profgpu('analyze', '--format', 'markdown', path).stdout.decode()
    assert 'category' in profgpu('analyze', '--section', 'snapshot', path).stdout.decode()


def all_events(made):
    return [event for trace in made['device_traces'] for event in trace]


def all_blocks(made):
    return [block for segment in made['segments'] for block in segment['blocks']]


def without_history(made):
    made['device_traces'] = [[] for _ in made['device_traces']]


def without_traces(made):
    del made['device_traces']


def a_full_ring(made):
    for trace in made['device_traces']:
        del trace[:len(trace) * 2 // 3]


def on_device_3(made):
    made['device_traces'] = [[], [], [], made['device_traces'][0]]
    made['segments'] = [dict(s, device=3) for s in made['segments'] if s['device'] == 0]


def failures(made):
    trace = made['device_traces'][0]
    for at in range(0, len(trace), 50):
        trace.insert(at, {'action': 'oom', 'device_free': 12345, 'size': 1 << 33, 'stream': 0, 'frames': [],
                          'time_us': trace[at]['time_us']})


def expandable(made):
    for event in all_events(made):
        event['action'] = {'segment_alloc': 'segment_map', 'segment_free': 'segment_unmap'}.get(event['action'], event['action'])
    for segment in made['segments']:
        segment['is_expandable'] = True


def pools_and_streams(made):
    for i, event in enumerate(all_events(made)):
        event['pool_id'], event['stream'] = (0, i % 2), 140_000_000_000_000 + i % 4
    for i, segment in enumerate(made['segments']):
        segment['segment_pool_id'], segment['stream'] = (i % 3, i % 2), i


def used_by_other_streams(made):
    for segment in made['segments']:
        for i, block in enumerate(segment['blocks']):
            if block['state'] == 'active_allocated' and i % 3:
                block['state'] = 'active_pending_free' if i % 3 == 1 else 'active_awaiting_free'
                segment['allocated_size'] -= block['size']


def skipped_actions(made):
    made['device_traces'] = [[e for e in trace if e['action'] in ('alloc', 'free_completed')] for trace in made['device_traces']]


def without_segments(made):
    made['segments'] = []


def annotated(made):
    for i, event in enumerate(all_events(made)):
        event['user_metadata'] = f'm{i % 5}' if i % 2 else {'step': i}
        event['compile_context'] = '0/0' if i % 3 else None


def high_addresses(made):
    """As Intel's GPUs have them: the highest bit is set."""
    for event in all_events(made):
        event['addr'] |= 1 << 63
    for place in [*made['segments'], *all_blocks(made)]:
        place['address'] |= 1 << 63


def as_tuples(made):
    made['device_traces'] = tuple(map(tuple, made['device_traces']))
    made['segments'] = tuple(made['segments'])


def without_frames(made):
    for holder in [*all_events(made), *made['segments'], *all_blocks(made)]:
        holder.pop('frames', None)


@pytest.mark.parametrize('change', [
    without_history, without_traces, a_full_ring, on_device_3, failures, expandable, pools_and_streams, used_by_other_streams,
    skipped_actions, without_segments, annotated, high_addresses, as_tuples, without_frames,
], ids=lambda change: change.__name__)
def test_variants_are_read_as_the_viewer_reads_them(change, tmp_path, analyze):
    made = snapshot('2.9', seed=3, devices=2)
    change(made)
    path = tmp_path / 'snapshot.pickle'
    path.write_bytes(pickle.dumps(made, 4))
    found = analyze(path)['ranks'][0]['snapshot']
    made.setdefault('device_traces', [])
    segments = made['segments']
    assert (found['segments'], found['blocks']) == (len(segments), len(all_blocks(made)))
    assert found['events'] == len(all_events(made))
    for key, of_segment in (('reserved_bytes', 'total_size'), ('allocated_bytes', 'allocated_size'), ('active_bytes', 'active_size')):
        assert found[key] == sum(s[of_segment] for s in segments), key
    assert found['requested_bytes'] == sum(b['requested_size'] for b in all_blocks(made) if b['state'] != 'inactive')
    peaks = []
    for device in range(max(len(made['device_traces']), 2)):
        initial, levels = viewer_levels(made, device)
        peak = max([initial, *levels])
        peaks.append((peak, levels.index(peak) if peak > initial else None))
    highest = max(peak for peak, _ in peaks)
    assert found['history_recorded'] == (change not in (without_history, without_traces))
    if not found['history_recorded']:
        assert found['peak_allocated_bytes'] is found['peak_event'] is None
        assert found['peak']['allocated_bytes'] == highest
        return
    assert (found['peak_allocated_bytes'], found['peak_event']) == next(p for p in peaks if p[0] == highest)


def test_protocol_0_is_an_error_that_says_what_to_do(tmp_path, profgpu):
    path = tmp_path / 'old.pickle'
    path.write_bytes(pickle.dumps(snapshot('2.6'), 0))
    result = profgpu('analyze', path)
    assert result.returncode == 1 and b'old.pickle' in result.stderr and b'protocol=4' in result.stderr


def test_rows_that_lack_what_makes_them_one_are_counted(tmp_path, analyze):
    made = snapshot('2.6')
    del made['device_traces'][0][3]['size']
    made['segments'].append({'device': 0, 'address': 1, 'total_size': 512})
    (tmp_path / 'a.pickle').write_bytes(pickle.dumps(made, 4))
    document = analyze(tmp_path / 'a.pickle')
    (issue,) = document['inputs'][0]['issues']
    assert issue['count'] == 2 and 'left out' in issue['text']
    assert document['ranks'][0]['snapshot']['segments'] == len(made['segments']) - 1


def test_a_compressed_file_is_the_same(tmp_path, analyze):
    made = pickle.dumps(snapshot('2.6'), 4)
    (tmp_path / 'a.pickle').write_bytes(made)
    (tmp_path / 'a.pickle.gz').write_bytes(gzip.compress(made))
    assert analyze(tmp_path / 'a.pickle')['ranks'] == analyze(tmp_path / 'a.pickle.gz')['ranks']


def test_what_is_unknown_is_skipped(tmp_path, analyze):
    made = snapshot('2.9')
    made['new_key'] = {'a': [1, (2, 3), None]}
    for event in made['device_traces'][0]:
        event['new_member'] = [{'x': 1.5}]
    made['device_traces'][0].insert(5, {'action': 'brand_new', 'addr': 1, 'size': 2, 'stream': 0, 'frames': []})
    (tmp_path / 'a.pickle').write_bytes(pickle.dumps(made, 4))
    plain = snapshot('2.9')
    (tmp_path / 'b.pickle').write_bytes(pickle.dumps(plain, 4))
    a, b = (analyze(tmp_path / name)['ranks'][0]['snapshot'] for name in ('a.pickle', 'b.pickle'))
    (issue,) = analyze(tmp_path / 'a.pickle')['inputs'][0]['issues']
    assert issue['kind'] == 'unknown_rows' and issue['severity'] == 'info'
    rows_of = {name: int(n) for name, n in re.findall(r'([a-z_ ]+) \((\d+)\)', issue['text'].split('skipped: ')[1].replace(', ', ''))}
    assert rows_of == {'action brand_new': 1, 'new_key': 1, 'new_member': len(plain['device_traces'][0])}
    assert a['events'] == b['events'] + 1
    assert a['peak_allocated_bytes'] == b['peak_allocated_bytes']


def test_a_cut_file_gives_what_it_holds(tmp_path, profgpu):
    made = pickle.dumps(snapshot('2.6', events=300), 4)
    (tmp_path / 'whole.pickle').write_bytes(made)
    for part in (0.3, 0.6, 0.9, 0.999):
        path = tmp_path / 'cut.pickle'
        path.write_bytes(made[:int(len(made) * part)])
        result = profgpu('analyze', '--json', path)
        assert result.returncode == 0, (part, result.stderr)
        document = json.loads(result.stdout)
        assert any(i['kind'] == 'truncated' for i in document['inputs'][0]['issues']), part
        assert document['ranks'][0]['snapshot']['segments'] + document['ranks'][0]['snapshot']['events'] > 0
        columns = 'select rank, device, action, address, size_bytes from snapshot_events'
        whole = [tuple(r.values()) for r in json.loads(profgpu('query', '--json', tmp_path / 'whole.pickle', columns).stdout)]
        held = [tuple(r.values()) for r in json.loads(profgpu('query', '--json', path, columns).stdout)]
        assert held == whole[:len(held)], part


@pytest.mark.parametrize('cut', [0, 1, 2, 20])
def test_a_file_of_almost_nothing_is_an_error(cut, tmp_path, profgpu):
    path = tmp_path / 'cut.pickle'
    path.write_bytes(pickle.dumps(snapshot('2.6'), 4)[:cut])
    result = profgpu('analyze', path)
    assert result.returncode == 1 and b'cut.pickle' in result.stderr and not result.stdout


CODE = {
    'GLOBAL os system': b"cos\nsystem\n(S'touch pwned'\ntR.",
    'STACK_GLOBAL posix system': b'\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93.',
    'INST os system': b"\x80\x02(S'touch pwned'\nios\nsystem\n.",
    'INST os system after arguments': b"(S'touch pwned'\nI1\nios\nsystem\n.",
    'REDUCE': b'\x80\x04K\x01)R.',
    'NEWOBJ': b'\x80\x04K\x01)\x81.',
    'BUILD': b'\x80\x04K\x01}b.',
    'EXT1': b'\x80\x04\x82\x01.',
    'PERSID': b'\x80\x02Pabc\n.',
    'BINPERSID': b'\x80\x04K\x01Q.',
}


@pytest.mark.parametrize('what', CODE)
def test_nothing_is_imported_or_called(what, tmp_path, profgpu):
    path = tmp_path / 'snapshot.pickle'
    path.write_bytes(CODE[what])
    result = profgpu('analyze', path, cwd=tmp_path)
    assert result.returncode == 1 and what.removesuffix(' after arguments') in result.stderr.decode(), result.stderr
    assert os.listdir(tmp_path) == ['snapshot.pickle']


def test_a_class_within_a_snapshot_is_refused(tmp_path, profgpu):
    class Bad:
        def __reduce__(self):
            return os.system, ('touch pwned',)

    made = snapshot('2.6')
    made['device_traces'][0][3]['frames'] = Bad()
    path = tmp_path / 'snapshot.pickle'
    path.write_bytes(pickle.dumps(made, 4))
    result = profgpu('analyze', path, cwd=tmp_path)
    assert result.returncode == 1 and b'system' in result.stderr
    assert os.listdir(tmp_path) == ['snapshot.pickle']


@pytest.mark.parametrize('pickled', [
    b'\x80\x04' + b''.join(b']\x94(' + b'h' + bytes([i]) * 1 + b'e' for i in range(30)) + b'.',   # needs what is not there
    b'\x80\x04]\x94' + b''.join(b']\x94(' + (b'h' + bytes([i])) * 10 + b'e' for i in range(30)) + b'.',
    b'\x80\x04X\x00\xca\x9a\x3b.', b'\x80\x04\x8d' + b'\xff' * 8 + b'.', b'\x80\x04' + b'(' * 100_000, b'\x80\x04r\xff\xff\xff\x7f.',
    b'\x80\x04]\x94h\x00a.', b'\x80\x04}\x94\x8c\x08segmentsh\x00s.', b'\x80\x04' + b'N' * 1000,
], ids=['no-memo', 'memo-bomb', 'declared-length', 'declared-length-8', 'nesting', 'memo-index', 'cycle', 'cyclic-segments', 'no-stop'])
def test_bombs_are_bounded(pickled, tmp_path, profgpu):
    path = tmp_path / 'snapshot.pickle'
    path.write_bytes(pickled)
    result = profgpu('analyze', path)
    assert result.returncode == 1 and b'snapshot.pickle' in result.stderr


def test_shared_and_cyclic_objects_are_read_once(tmp_path, analyze):
    made = snapshot('2.6')
    made['itself'] = made
    made['segments'][0]['self'] = made['segments'][0]
    path = tmp_path / 'snapshot.pickle'
    path.write_bytes(pickle.dumps(made, 4))
    assert analyze(path)['ranks'][0]['snapshot']['segments'] == len(made['segments'])


def test_another_pickle_is_no_snapshot(tmp_path, profgpu):
    path = tmp_path / 'other.pickle'
    path.write_bytes(pickle.dumps({'weights': [1, 2, 3]}, 4))
    result = profgpu('analyze', path)
    assert result.returncode == 1 and b'not a PyTorch memory snapshot' in result.stderr


def test_snapshots_are_compared_by_line(tmp_path, profgpu):
    before, after = snapshot('2.6', seed=1), snapshot('2.6', seed=1, events=700)
    for name, made in (('a', before), ('b', after)):
        (tmp_path / f'{name}.pickle').write_bytes(pickle.dumps(made, 4))
    result = profgpu('diff', '--json', tmp_path / 'a.pickle', tmp_path / 'b.pickle')
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    peak = next(m for m in document['memory'] if m['name'] == 'peak_allocated_bytes')
    levels = [viewer_levels(with_addresses(copy.deepcopy(made)), 0) for made in (before, after)]
    assert [peak['before'], peak['after']] == [max(initial, *rest) for initial, rest in levels]
    assert any(line['after'] > line['before'] for line in document['memory_lines'])
    text = profgpu('diff', tmp_path / 'a.pickle', tmp_path / 'b.pickle').stdout.decode()
    assert 'Memory at the peak by line' in text and 'model.py:12' in text
    gated = profgpu('diff', tmp_path / 'a.pickle', tmp_path / 'b.pickle', '--fail-on', 'peak_memory > +2%')
    assert gated.returncode == 3
    assert profgpu('diff', tmp_path / 'a.pickle', tmp_path / 'a.pickle', '--fail-on', 'peak_memory > +2%').returncode == 0


def test_a_snapshot_beside_a_trace_of_its_rank_joins_it(tmp_path, simulate, analyze):
    trace = simulate('--steps', '3')
    (tmp_path / 'trace.json').write_bytes(trace.read_bytes())
    (tmp_path / 'snapshot.pickle').write_bytes(pickle.dumps(snapshot('2.6'), 4))
    alone = analyze(tmp_path / 'trace.json')
    both = analyze(tmp_path / 'trace.json', tmp_path / 'snapshot.pickle')
    assert len(both['ranks']) == 1
    assert both['ranks'][0]['snapshot']['events'] > 0
    assert both['ranks'][0]['steps'] == alone['ranks'][0]['steps']
    assert both['ranks'][0]['idle'] == alone['ranks'][0]['idle']
    assert alone['ranks'][0]['snapshot'] is None


def test_a_snapshot_of_no_known_rank_is_none(tmp_path, simulate, analyze):
    """Of several ranks, and taken at another time than all of their traces, or without any time."""
    job = simulate('--steps', '3', '--ranks', '2')
    untimed = snapshot('2.6')
    without_history(untimed)
    untimed['external_annotations'] = []
    for name, made in (('a', snapshot('2.6')), ('b', untimed)):
        path = tmp_path / f'{name}.pickle'
        path.write_bytes(pickle.dumps(made, 4))
        document = analyze(job, path)
        assert [(r['rank'], r['snapshot']) for r in document['ranks']] == [(0, None), (1, None)]
        (of_file,) = (i for i in document['inputs'] if i['path'].endswith('.pickle'))
        assert of_file['rank'] is None and 'tells which rank it is of' in of_file['issues'][0]['text']
    # Of one rank it can be of no other, and is said to be of another time.
    (of_file,) = (i for i in analyze(simulate('--steps', '3'), tmp_path / 'a.pickle')['inputs'] if i['path'].endswith('.pickle'))
    assert of_file['rank'] == 0 and 'the only one here' in of_file['issues'][0]['text']


def test_a_snapshot_taken_during_one_ranks_trace_is_of_that_rank(tmp_path, simulate, analyze):
    job = simulate('--steps', '3', '--ranks', '2')
    traces = sorted(job.glob('*.json'))
    other = json.loads(traces[1].read_text())
    other['baseTimeNanoseconds'] = other.get('baseTimeNanoseconds', 0) + 3600 * 10**9
    (tmp_path / 'rank-0.json').write_bytes(traces[0].read_bytes())
    (tmp_path / 'rank-1.json').write_text(json.dumps(other))
    start = min(e['ts'] for e in other['traceEvents'] if e.get('ph') == 'X') + other['baseTimeNanoseconds'] / 1000
    made = snapshot('2.6')
    for event in all_events(made) + made['external_annotations']:
        event['time_us'] += int(start) - START_US
    (tmp_path / 'snapshot.pickle').write_bytes(pickle.dumps(made, 4))
    assert [r['snapshot'] is not None for r in analyze(tmp_path)['ranks']] == [False, True]


def test_ranks_of_a_job_have_snapshots_of_their_own(tmp_path, analyze):
    for rank in range(3):
        (tmp_path / f'rank{rank}.pickle').write_bytes(pickle.dumps(snapshot('2.6', seed=rank), 4))
    document = analyze(tmp_path)
    assert [r['rank'] for r in document['ranks']] == [0, 1, 2]
    assert len({r['snapshot']['peak_allocated_bytes'] for r in document['ranks']}) == 3


def test_the_rank_that_ran_out_of_memory_is_the_one_described(tmp_path, analyze, profgpu):
    for rank in range(3):
        made = snapshot('2.6', seed=rank)
        if rank == 1:
            made['device_traces'][0].append({'action': 'oom', 'addr': 1 << 20, 'size': 1 << 30, 'stream': 0, 'frames': [],
                                             'time_us': made['device_traces'][0][-1]['time_us']})
        (tmp_path / f'rank{rank}.pickle').write_bytes(pickle.dumps(made, 4))
    document = analyze(tmp_path)
    peak = document['ranks'][1]['snapshot']['peak_allocated_bytes']
    assert document['verdict'].startswith('Rank 1: Out of memory: 1.00 GiB ')
    shown = float(re.search(r' Peak ([\d.]+) MiB', document['verdict'])[1])
    assert shown == pytest.approx(peak / 2**20, rel=0.01)
    text = profgpu('analyze', tmp_path).stdout.decode()
    assert 'Memory at the peak, rank 1' in text and 'mean step' not in text and 'steps differ' not in text


def test_every_key_is_documented(file, analyze):
    path, _ = file
    with open(os.path.join(ROOT, 'docs', 'report-json.md'), encoding='utf-8') as f:
        rows = f.read().split('| `snapshot` |')[1].split('\n| `')[0]
    named = set(re.findall(r'`([a-z0-9_]+)`', rows))

    def keys(value):
        if isinstance(value, dict):
            return set(value).union(*map(keys, value.values()))
        return set().union(*map(keys, value)) if isinstance(value, list) else set()

    assert keys(analyze(path)['ranks'][0]['snapshot']) - named == set()


@pytest.mark.parametrize('nested', [False, True])
@pytest.mark.parametrize('growing', [False, True])
def test_pinned_host_memory(growing, nested, tmp_path, analyze, profgpu):
    made = with_pinned_memory(snapshot('2.9'), growing, nested)
    path = tmp_path / 'snapshot.pickle'
    path.write_bytes(pickle.dumps(made, 4))
    document = analyze(path)
    section = document['ranks'][0]['snapshot']
    # The device's figures are its own.
    assert section['steps'] == 8 and section['peak_allocated_bytes'] == 512 and section['reserved_bytes'] == 0
    assert [d['device'] for d in section['devices']] == [0] and section['growth'] == []
    pinned = section['pinned']
    assert pinned['events'] == (16 if growing else 32) and pinned['reserved_bytes'] == 8 << 17
    assert pinned['allocated_bytes'] == (8 * 100_000 + 4 * 8 if growing else 0)
    assert pinned['peak_allocated_bytes'] == (pinned['allocated_bytes'] if growing else 100_008)
    assert [f['rule'] for f in document['findings']] == (['host-pinned-growth'] if growing else [])
    if growing:
        (line,) = pinned['growth']
        assert (line['function'], line['line'], line['cause']) == ('pin', 7, 'unknown')
        assert line['growth_bytes'] == pytest.approx(100_000, rel=0.01)
        (finding,) = document['findings']
        assert 'pin (job/data.py:7)' in finding['what'] and 'per step' in finding['why']
    events = rows(profgpu, path, 'SELECT device, count(*) AS n FROM snapshot_events GROUP BY device ORDER BY device')
    assert [(int(r['device']), int(r['n'])) for r in events] == [(-1, pinned['events']), (0, 72)]


def test_pinned_memory_alone(tmp_path, analyze):
    made = with_pinned_memory(snapshot('2.9'), True)
    made |= {'device_traces': [[]], 'segments': []}
    (tmp_path / 'a.pickle').write_bytes(pickle.dumps(made, 4))
    section = analyze(tmp_path / 'a.pickle')['ranks'][0]['snapshot']
    assert section['pinned']['allocated_bytes'] > 800_000 and section['pinned']['growth'] == []
    assert section['peak_allocated_bytes'] == 0 and section['devices'] == []


def test_without_pinned_memory_it_is_unknown(file, analyze):
    assert analyze(file[0])['ranks'][0]['snapshot']['pinned'] is None


def test_samples_tell_what_is_outside_of_pytorch(tmp_path, analyze, profgpu):
    made = snapshot('2.9')
    path, samples = tmp_path / 'snapshot.pickle', tmp_path / 'samples.jsonl'
    path.write_bytes(pickle.dumps(made, 4))
    start, end = (1000 * made['device_traces'][0][i]['time_us'] for i in (0, -1))
    reserved = sum(s['total_size'] for s in made['segments'])
    rows = [{'time_ns': time, 'device': 0, 'name': 'NVIDIA H100', 'vendor': 'NVIDIA', 'memory_total_bytes': 80 << 30,
             'memory_used_bytes': reserved + (3 << 30), 'processes': [{'pid': 7, 'type': 'C', 'memory_bytes': reserved + (1 << 30)}]}
            for time in range(start, end + 1, max((end - start) // 5, 1))]
    samples.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    section = analyze(path, samples)['ranks'][0]['snapshot']
    assert section['devices'][0]['peak_reserved_bytes'] == reserved
    assert section['outside'] == {'capacity_bytes': 80 << 30, 'used_bytes': reserved + (3 << 30), 'process_bytes': reserved + (1 << 30),
                                  'own_bytes': 1 << 30, 'other_bytes': 2 << 30}
    alone = analyze(path)['ranks'][0]['snapshot']['batch']
    assert alone['capacity_bytes'] is None and alone['largest'] is None
    batch = section['batch']
    assert batch['capacity_bytes'] == 77 << 30 and batch['scaling_bytes'] == alone['scaling_bytes']
    assert 1 < batch['largest_low'] <= batch['largest'] <= batch['largest_high']
    text = ' '.join(profgpu('analyze', path, samples).stdout.decode().split())
    assert 'outside PyTorch 1.00 GiB' in text and 'other processes 2.00 GiB' in text
    assert analyze(path)['ranks'][0]['snapshot']['outside'] is None


def with_only_the_snapshots_event(made):
    """As enabled='state' records it: a ring of one event."""
    made['device_traces'] = [trace[-1:] for trace in made['device_traces']]


@pytest.mark.parametrize('change', [without_history, without_traces, with_only_the_snapshots_event], ids=lambda c: c.__name__)
def test_what_is_held_without_a_history_is_no_peak(change, tmp_path, analyze, profgpu):
    made = snapshot('2.9')
    change(made)
    (tmp_path / 'a.pickle').write_bytes(pickle.dumps(made, 4))
    document = analyze(tmp_path / 'a.pickle')
    section = document['ranks'][0]['snapshot']
    held = sum(b['requested_size'] for b in all_blocks(made))
    assert section['history_recorded'] is False and section['peak_allocated_bytes'] is None
    assert section['peak']['allocated_bytes'] == sum(c['held_bytes'] for c in section['peak']['categories']) == held
    assert section['savings'] == section['early_frees'] == [] and section['batch'] is section['spike'] is section['replay'] is None
    assert section['devices'][0]['peak_allocated_bytes'] is section['devices'][0]['peak_reserved_bytes'] is None
    assert document['verdict'].startswith('Held when the snapshot was taken: ') and document['verdict_kind'] == 'inconclusive'
    assert '_record_memory_history(' in document['verdict']
    for text in (profgpu('analyze', tmp_path / 'a.pickle'), profgpu('analyze', '--format', 'markdown', tmp_path / 'a.pickle')):
        said = text.stdout.decode().replace('so the peak is unknown', '')
        said = ' '.join(said.split()).replace('so the peak is unknown', '')
        assert not re.search(r'\bpeak\b(?! pct|_)', said, re.I), said


def test_diff_of_snapshots_without_a_history(tmp_path, profgpu):
    for name, seed, history in (('a', 1, False), ('b', 2, False), ('c', 2, True)):
        made = snapshot('2.9', seed=seed)
        if not history:
            without_history(made)
        (tmp_path / f'{name}.pickle').write_bytes(pickle.dumps(made, 4))
    text = profgpu('diff', tmp_path / 'a.pickle', tmp_path / 'b.pickle').stdout.decode()
    assert 'The memory held when the snapshot was taken is ' in text and 'peak is' not in text and 'at the peak' not in text
    mixed = json.loads(profgpu('diff', '--json', tmp_path / 'a.pickle', tmp_path / 'c.pickle').stdout)
    assert mixed['memory_lines'] == [] and any('a.pickle has no history' in note for note in mixed['notes'])
    gated = profgpu('diff', tmp_path / 'a.pickle', tmp_path / 'c.pickle', '--fail-on', 'peak_memory > +2%')
    assert gated.returncode != 0 and b'peak_memory' in gated.stdout + gated.stderr


def test_devices_of_one_snapshot_are_told_apart(tmp_path, analyze, profgpu):
    made = snapshot('2.9', seed=1, devices=3)
    made['device_traces'][0].append({'action': 'oom', 'device_free': 1 << 20, 'size': 1 << 30, 'stream': 0, 'frames': [],
                                     'time_us': made['device_traces'][0][-1]['time_us']})
    (tmp_path / 'a.pickle').write_bytes(pickle.dumps(made, 4))
    document = analyze(tmp_path / 'a.pickle')
    section = document['ranks'][0]['snapshot']
    levels = [viewer_levels(with_addresses(copy.deepcopy(made)), d) for d in range(3)]
    peaks = [max(initial, *rest) for initial, rest in levels]
    assert [d['peak_allocated_bytes'] for d in section['devices']] == peaks
    assert section['peak']['device'] == section['oom']['device'] == 0, 'the one that ran out, though another peaks higher'
    assert peaks.index(max(peaks)) != 0
    for device in section['devices']:
        assert device['peak']['device'] == device['device']
        assert sum(c['held_bytes'] for c in device['peak']['categories']) == device['peak_allocated_bytes']
        assert device['reserved_bytes'] == sum(s['total_size'] for s in made['segments'] if s['device'] == device['device'])
    # What ran out is described by what that device held.
    (oom,) = (f for f in document['findings'] if f['rule'] == 'oom')
    first = section['devices'][0]['peak']['holders'][0]
    assert 'on device 0' in oom['what'] and any(f"{first['function']} (" in e or f"{first['function']} holds" in e for e in oom['evidence'])
    text = profgpu('analyze', tmp_path / 'a.pickle').stdout.decode()
    # Levels are of what was requested, at the end as at the peak.
    assert all(d['requested_bytes'] <= d['peak_allocated_bytes'] for d in section['devices'])
    assert 'Memory by device' in text and 'requested' in text and f"on device {section['peak']['device']}" in text


def test_diff_compares_each_device_with_itself(tmp_path, profgpu):
    for name, events in (('a', 300), ('b', 500)):
        (tmp_path / f'{name}.pickle').write_bytes(pickle.dumps(snapshot('2.9', devices=2, events=events), 4))
    document = json.loads(profgpu('diff', '--json', tmp_path / 'a.pickle', tmp_path / 'b.pickle').stdout)
    assert {line['name'].split(':')[0] for line in document['memory_lines']} == {'device 0', 'device 1'}


def test_one_device_needs_no_number(file, analyze):
    path, snap = file
    section = analyze(path)['ranks'][0]['snapshot']
    if sum(1 for d in section['devices'] if d['peak_allocated_bytes']) < 2:
        assert all(d['peak'] is None for d in section['devices'])


def test_what_grows_on_another_device_is_found(tmp_path, analyze):
    made = dict(snapshot('2.9'), segments=[])
    made['device_traces'] = [[{'action': 'alloc', 'addr': 1 << 30, 'size': 1 << 30, 'stream': 0, 'frames': STACKS[0], 'time_us': START_US}]]
    growing = with_pinned_memory(snapshot('2.9'), False)['device_traces'][0]
    for step in range(8):   # each step keeps something more
        at = growing.index(next(e for e in growing if e['addr'] == 0x300_0000 and e['time_us'] >= START_US + 10 * step))
        growing.insert(at, {'action': 'alloc', 'addr': 0x900_0000 + (step << 12), 'size': 4096, 'stream': 0, 'frames': STACKS[0],
                            'time_us': growing[at]['time_us']})
    made['device_traces'].append(growing)
    (tmp_path / 'a.pickle').write_bytes(pickle.dumps(made, 4))
    document = analyze(tmp_path / 'a.pickle')
    assert document['ranks'][0]['snapshot']['peak']['device'] == 0
    assert [line['device'] for line in document['ranks'][0]['snapshot']['growth']] == [1]
    (finding,) = (f for f in document['findings'] if f['rule'] == 'retained-graph')
    assert 'on device 1' in finding['what']


def test_pools_of_the_program_are_not_cuda_graphs(tmp_path, analyze, profgpu):
    made = snapshot('2.9', seed=4, events=3000)
    for segment, pool in zip(made['segments'], [(0, 0), (0, 5), (7, 0)], strict=False):
        segment['segment_pool_id'] = pool
    assert len(made['segments']) > 2
    (tmp_path / 'a.pickle').write_bytes(pickle.dumps(made, 4))
    section = analyze(tmp_path / 'a.pickle')['ranks'][0]['snapshot']
    kinds = {c['category']: c for c in section['peak']['categories']}
    assert kinds['memory_pool']['held_bytes'] == kinds['memory_pool']['certain_bytes'] > 0
    assert kinds['graph_pool']['held_bytes'] > 0
    assert sum(c['held_bytes'] for c in kinds.values()) == section['peak_allocated_bytes']
    got = rows(profgpu, tmp_path / 'a.pickle', 'SELECT pool, pool_kind FROM snapshot_segments ORDER BY id')
    assert [(r['pool'], r['pool_kind']) for r in got][:3] == [('0', 'default'), ('5', 'memory_pool'), ('0', 'cuda_graph')]


def test_members_of_the_newest_version_are_read(tmp_path, analyze, profgpu):
    made = snapshot('2.9')
    for i, event in enumerate(made['device_traces'][0]):
        event['pool_id'], event['user_metadata'] = (0, 0), f'step {i}'
        event['frames'] = [dict(f, fx_node_op='call_function', fx_node_name='linear', fx_original_trace='model.py:3') for f in event['frames']]
    made['allocator_settings'] |= {'graph_capture_record_stream_reuse': False, 'pinned_num_register_threads': 1,
                                   'release_lock_on_cudamalloc': False, 'pinned_use_cuda_host_register': False}
    (tmp_path / 'a.pickle').write_bytes(pickle.dumps(made, 4))
    document = analyze(tmp_path / 'a.pickle')
    assert document['inputs'][0]['issues'] == []
    got = rows(profgpu, tmp_path / 'a.pickle', 'SELECT user_metadata, compile_context, pool_kind FROM snapshot_events ORDER BY event')
    assert [r['user_metadata'] for r in got] == [f'step {i}' for i in range(len(got))]
    assert {r['compile_context'] for r in got} == {'N/A'} and {r['pool_kind'] for r in got} == {'default'}


def test_a_snapshot_of_pytorchs_own_memory_profile(tmp_path, analyze):
    """What the installed PyTorch makes of a profile on the CPU: events without times, with categories."""
    torch = pytest.importorskip('torch')
    from torch.cuda._memory_viz import _profile_to_snapshot
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    optimizer = torch.optim.Adam(model.parameters())
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as profiler:
        for _ in range(2):
            model(torch.randn(32, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    made = _profile_to_snapshot(profiler)
    (tmp_path / 'a.pickle').write_bytes(pickle.dumps(made))
    document = analyze(tmp_path / 'a.pickle')
    section = document['ranks'][0]['snapshot']
    assert document['inputs'][0]['issues'] == [] and section['events'] == len(all_events(made))
    device = max(range(len(made['device_traces'])), key=lambda d: len(made['device_traces'][d]))
    initial, levels = viewer_levels(with_addresses(copy.deepcopy(made)), device)
    assert section['peak_allocated_bytes'] == max(initial, *levels)
    held = {c['category']: c for c in section['peak']['categories']}
    parameters = sum(p.numel() * p.element_size() for p in model.parameters())
    assert held['optimizer_state']['certain_bytes'] >= 2 * parameters


@pytest.mark.parametrize('history', [False, True])
def test_a_device_that_is_nearly_full_without_a_history(history, tmp_path, simulate, analyze):
    """What is held is the least that the peak can be: it is said, and not called the peak."""
    made = snapshot('2.9')
    size = 78 << 30
    made['segments'] = [{'device': 0, 'address': 1 << 40, 'total_size': size, 'allocated_size': 1 << 30, 'active_size': 1 << 30,
                         'requested_size': 1 << 30, 'stream': 0, 'segment_type': 'large', 'segment_pool_id': (0, 0),
                         'is_expandable': False, 'frames': [], 'blocks': [
                             {'address': 1 << 40, 'size': 1 << 30, 'requested_size': 1 << 30, 'state': 'active_allocated', 'frames': []},
                             {'address': (1 << 40) + (1 << 30), 'size': size - (1 << 30), 'requested_size': 0, 'state': 'inactive', 'frames': []}]}]
    for event in made['device_traces'][0]:   # in the free part of the segment
        event['addr'] = (1 << 40) + (1 << 30) + event['addr'] % (1 << 30)
    if not history:
        without_history(made)
    (tmp_path / 'snapshot.pickle').write_bytes(pickle.dumps(made, 4))
    document = analyze(simulate('--steps', '3', '--no-memory'), tmp_path / 'snapshot.pickle')
    rank = document['ranks'][0]
    assert rank['memory']['capacity_bytes'] and rank['memory']['peak_reserved_bytes'] is None
    found = {f['rule']: f for f in document['findings']}
    assert ('peak' in found['memory-near-capacity']['what']) == history
    assert ('when the snapshot was taken' in found['memory-near-capacity']['why']) == (not history)
    # All of it may have been in use before: cached memory is no fragmentation without the history that tells.
    assert ('memory-fragmentation' in found) == history


MIB = 1 << 20


def test_without_completed_frees_those_that_are_asked_for_count(tmp_path, analyze, profgpu):
    made = snapshot('2.9')
    (tmp_path / 'whole.pickle').write_bytes(pickle.dumps(made, 4))
    made['device_traces'] = [[e for e in trace if e['action'] != 'free_completed'] for trace in made['device_traces']]
    (tmp_path / 'skipped.pickle').write_bytes(pickle.dumps(made, 4))
    whole, skipped = (analyze(tmp_path / name)['ranks'][0]['snapshot'] for name in ('whole.pickle', 'skipped.pickle'))
    assert skipped['peak_allocated_bytes'] == whole['peak_allocated_bytes']
    assert (whole['left_out'], skipped['left_out']) == ([], ['free_completed'])
    assert 'leaves out free_completed' in ' '.join(profgpu('analyze', tmp_path / 'skipped.pickle').stdout.decode().split())


@pytest.mark.parametrize('collects', ['noise', 'graphs'])
def test_what_keeps_tensors_decides_what_to_do(collects, tmp_path, analyze):
    """A list of tensors that no forward pass makes; and a forward pass without no_grad()."""
    def frames(name, line):
        return [{'name': name, 'filename': '/me/job/model.py', 'line': line}, {'name': 'main', 'filename': '/me/job/train.py', 'line': 9}]
    events = []

    def add(action, addr, size, stack):
        events.append({'action': action, 'addr': addr, 'size': size, 'stream': 0, 'frames': stack, 'time_us': START_US + len(events)})
    engine = [{'name': 'torch::autograd::Engine::evaluate_function()', 'filename': '??', 'line': 0}]
    for step in range(8):
        for line in range(4):
            add('alloc', (1 << 40) + (step * 8 + line) * MIB, MIB, frames('forward', line))
        if collects == 'noise':
            add('alloc', (1 << 41), MIB, engine)
            for address in [(1 << 40) + (step * 8 + line) * MIB for line in range(4)] + [1 << 41]:
                add('free_requested', address, MIB, []), add('free_completed', address, MIB, [])
            add('alloc', (1 << 42) + step * MIB, MIB, frames('sample_noise', 33))
    (tmp_path / 'a.pickle').write_bytes(pickle.dumps({'segments': [], 'device_traces': [events]}, 4))
    found = {f['rule']: f for f in analyze(tmp_path / 'a.pickle')['findings']}
    assert ('retained-graph' in found) == (collects == 'graphs')
    if collects == 'graphs':
        assert 'inference_mode' in found['retained-graph']['fix'][0] and 'after every pass' in found['retained-graph']['what']
    else:
        assert 'sample_noise' in found['memory-growth']['fix'][0] and 'item()' not in found['memory-growth']['fix'][0]
