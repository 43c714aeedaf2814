"""Categories, predictions and advice of memory snapshots against jobs that really run: small models on the CPU, whose
allocations become a snapshot as PyTorch's CUDA allocator would have written it. What is a parameter, a gradient or an
optimizer state is known from the job; what a change saves from a run with that change."""
import csv
import io
import pickle

import pytest

torch = pytest.importorskip('torch')

from recorded_jobs import Convolutions, Job, Perceptron, Transformer, record   # noqa: E402

OPTIMIZERS = {
    'sgd': lambda p: torch.optim.SGD(p, 0.01),
    'momentum': lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, foreach=True),
    'adam': lambda p: torch.optim.Adam(p, 1e-3, foreach=True),
    'adamw': lambda p: torch.optim.AdamW(p, 1e-3, foreach=False),
}
MODELS = {'transformer': Transformer, 'perceptron': Perceptron, 'convolutions': Convolutions,
          'checkpoints': lambda: Transformer(checkpoints=True)}
SHARE = 0.05


@pytest.fixture
def analyzed(tmp_path, analyze):
    def run(recorded):
        path = tmp_path / 'snapshot.pickle'
        path.write_bytes(pickle.dumps(recorded.snapshot, 4))
        return analyze(path)['ranks'][0]['snapshot']
    return run


def check(recorded, section, profgpu, tmp_path):
    """At the peak, and over all that the recording sees made."""
    held = {row['category']: row['held_bytes'] for row in section['peak']['categories']}
    assert sum(held.values()) == section['peak_allocated_bytes']
    for category, bytes_ in recorded.truth[section['peak_event']].items():
        assert held.get(category, 0) == pytest.approx(bytes_, rel=SHARE, abs=1024), category
    query = "SELECT category, size_bytes FROM snapshot_events WHERE action = 'alloc' ORDER BY event"
    result = profgpu('query', tmp_path / 'snapshot.pickle', query, '--format', 'csv')
    made = dict.fromkeys(recorded.truth[0], 0)
    known = dict(made)
    for kind, row in zip(recorded.kinds, csv.DictReader(io.StringIO(result.stdout.decode())), strict=True):
        if kind:
            known[kind] += int(row['size_bytes'])
        if row['category'] in made:
            made[row['category']] += int(row['size_bytes'])
    for category, bytes_ in known.items():
        assert made[category] == pytest.approx(bytes_, rel=SHARE, abs=1024), category


@pytest.mark.parametrize('before', [0, 2])
@pytest.mark.parametrize('model, optimizer', [
    ('transformer', 'sgd'), ('transformer', 'momentum'), ('transformer', 'adam'), ('transformer', 'adamw'),
    ('perceptron', 'sgd'), ('perceptron', 'adam'), ('convolutions', 'sgd'), ('convolutions', 'adamw'),
    ('checkpoints', 'sgd'), ('checkpoints', 'adam'),
])
def test_models_and_optimizers(model, optimizer, before, analyzed, profgpu, tmp_path):
    recorded = record(Job(MODELS[model], OPTIMIZERS[optimizer]), before=before)
    section = analyzed(recorded)
    assert section['steps'] == 2
    check(recorded, section, profgpu, tmp_path)


@pytest.mark.parametrize('optimizer', ['sgd', 'adam'])
@pytest.mark.parametrize('before', [0, 2])
@pytest.mark.parametrize('how', ['bf16', 'accumulated', 'frozen', 'zeroed-in-place'])
def test_ways_to_train(how, before, optimizer, analyzed, profgpu, tmp_path):
    more = {'bf16': {'dtype': torch.bfloat16}, 'accumulated': {'micro_batches': 2}, 'frozen': {'frozen': 'embed'},
            'zeroed-in-place': {'set_to_none': False}}[how]
    recorded = record(Job(Transformer, OPTIMIZERS[optimizer], **more), before=before)
    check(recorded, analyzed(recorded), profgpu, tmp_path)


# Frames of C++, ranges of the optimizer's steps, stacks of frees.
@pytest.mark.parametrize('native, annotated, of_frees', [
    (True, True, False), (True, False, True), (True, False, False), (False, True, False), (False, False, True),
    (False, False, False),
])
@pytest.mark.parametrize('optimizer, before', [('sgd', 0), ('sgd', 2), ('adam', 2)])
def test_ways_to_record(optimizer, before, native, annotated, of_frees, analyzed, profgpu, tmp_path):
    recorded = record(Job(Transformer, OPTIMIZERS[optimizer]), before=before, native=native, annotated=annotated,
                        of_frees=of_frees)
    check(recorded, analyzed(recorded), profgpu, tmp_path)


def peak_of(job):
    """The highest level, as the allocator's history has it."""
    level = highest = sum(b['requested_size'] for s in job.snapshot['segments'] for b in s['blocks'])
    for event in reversed(job.snapshot['device_traces'][0]):
        highest = max(highest, level)
        level -= {'alloc': 1, 'free_completed': -1}.get(event['action'], 0) * event['size']
    return max(highest, level)


@pytest.mark.parametrize('optimizer', ['sgd', 'adam'])
def test_twice_the_batch_is_predicted(optimizer, analyzed):
    def job(batch):
        return record(Job(Transformer, OPTIMIZERS[optimizer], batch=batch), before=1)
    section, twice = analyzed(job(16)), peak_of(job(32))
    batch = section['batch']
    assert batch['fixed_bytes'] + batch['scaling_bytes'] == section['peak_allocated_bytes']
    assert 0.95 * batch['double_peak_bytes'] <= twice <= 1.05 * batch['double_high_bytes']
    assert batch['double_peak_bytes'] == pytest.approx(twice, rel=0.05)
    assert batch['largest'] is None   # nothing tells how much memory there is


@pytest.mark.parametrize('times', [2, 3])
def test_the_largest_batch_that_fits_in_what_was_there(times, analyzed):
    """An allocation fails where a batch so many times as large would just have fit, and the job goes on."""
    recorded, larger = (record(Job(Transformer, OPTIMIZERS['adam'], batch=n), before=1) for n in (16, 16 * times))
    trace = recorded.snapshot['device_traces'][0]
    trace.insert(0, {'action': 'oom', 'device_free': peak_of(larger) - sum(recorded.held.values()), 'size': peak_of(larger),
                     'stream': 0, 'frames': [], 'time_us': trace[0]['time_us']})
    section = analyzed(recorded)
    batch = section['batch']
    assert section['oom']['steps_after'] == 2 and batch['outcome'] == 'fits'
    assert batch['capacity_bytes'] == peak_of(larger)
    assert batch['largest_low'] <= batch['largest'] <= batch['largest_high']
    assert batch['largest_high'] == pytest.approx(times, rel=0.1)


def test_a_pass_that_never_ended_tells_no_largest_batch(analyzed):
    whole = record(Job(Transformer, OPTIMIZERS['adam'], batch=32))
    batch = analyzed(whole.out_of_memory(peak_of(whole) * 2 // 3))['batch']
    assert batch['outcome'] == 'unfinished' and batch['largest_high'] <= 1
    assert batch['largest'] is batch['largest_low'] is batch['double_peak_bytes'] is None


def test_what_checkpoints_save_is_predicted(analyzed):
    def job(checkpoints):
        return record(Job(lambda: Transformer(layers=8, checkpoints=checkpoints), OPTIMIZERS['adam'], batch=32), before=1)
    section, with_checkpoints = analyzed(job(False)), peak_of(job(True))
    row = next(row for row in section['savings'] if row['change'].startswith('activation checkpointing of the 8 modules'))
    assert 'forward (recorded_jobs.py:' in row['change']
    assert row['peak_bytes'] == pytest.approx(with_checkpoints, rel=0.15)
    assert row['saved_bytes'] == section['peak_allocated_bytes'] - row['peak_bytes'] > 0


@pytest.mark.parametrize('change, more', [
    ('micro-batch of half the size, gradients accumulated', {'batch': 16, 'micro_batches': 2}),
    ('bf16 for all of it', {'dtype': torch.bfloat16}),
])
def test_what_a_change_saves_is_what_a_run_with_it_shows(change, more, analyzed):
    def job(**how):
        return record(Job(Transformer, OPTIMIZERS['adam'], **({'batch': 32} | how)), before=1)
    section, changed = analyzed(job()), peak_of(job(**more))
    row = next(row for row in section['savings'] if row['change'].startswith(change))
    assert row['peak_bytes'] == pytest.approx(changed, rel=0.1)


class ZeroesLate(Job):
    """zero_grad() stands between forward and backward."""

    def start(self):
        super().start()
        forward, zero = self.model.forward, self.optimizer.zero_grad

        def zeroing(tokens):
            out = forward(tokens)
            zero()
            return out
        self.model.forward, self.optimizer.zero_grad = zeroing, lambda set_to_none: None


class KeepsLogits(Job):
    """Those of a step are there until the next one's are kept."""

    def start(self):
        super().start()
        forward = self.model.forward

        def keeping(tokens):
            self.made = forward(tokens)
            return self.made
        self.model.forward = keeping

    def step(self):
        super().step()
        self.logits, self.made = self.made, None


def test_gradients_that_outlive_their_step(analyzed, profgpu, tmp_path):
    late, in_time = (record(of(lambda: Transformer(width=128), OPTIMIZERS['sgd'], batch=4), steps=3) for of in (ZeroesLate, Job))
    assert analyzed(in_time)['early_frees'] == []
    (row,) = analyzed(late)['early_frees']
    assert row['category'] == 'gradient' and row['function'] is None
    assert row['held_bytes'] == late.truth[-1]['gradient']
    assert row['peak_bytes'] == pytest.approx(peak_of(in_time), rel=0.02)
    text = profgpu('analyze', tmp_path / 'snapshot.pickle').stdout.decode(errors='replace')
    assert 'zero_grad() right after step()' in ' '.join(text.split())


def test_a_result_that_is_kept_over_the_step(analyzed):
    keeping, plain = (record(of(Transformer, OPTIMIZERS['sgd'], batch=12), before=2, steps=3) for of in (KeepsLogits, Job))
    assert analyzed(plain)['early_frees'] == []
    (row,) = analyzed(keeping)['early_frees']
    assert row['category'] in ('activation', 'temporary') and row['held_bytes'] == 12 * 32 * 200 * 4
    assert (row['function'], row['file']) == ('forward', 'recorded_jobs.py')
    assert row['peak_bytes'] == pytest.approx(peak_of(plain), rel=0.02)


def test_levels_by_category_add_up(analyzed):
    section = analyzed(record(Job(Transformer, OPTIMIZERS['adam'])))
    points = {point['event']: point for point in section['timeline']}
    assert 10 < len(section['category_timeline']) <= 100
    for row in section['category_timeline']:
        parts = sum(value for key, value in row.items()
                    if key.endswith('_bytes') and key not in ('reserved_bytes', 'pending_free_bytes'))
        assert parts == points[row['event']]['allocated_bytes']
        assert row['reserved_bytes'] == points[row['event']]['reserved_bytes']
        assert 0 <= row['pending_free_bytes'] <= parts
