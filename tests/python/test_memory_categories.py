"""Categories, predictions and advice of memory snapshots against jobs that really run: small models on the CPU, whose
allocations become a snapshot as PyTorch's CUDA allocator would have written it. What is a parameter, a gradient or an
optimizer state is known from the job; what a change saves from a run with that change."""
import csv
import io
import pickle

import pytest

torch = pytest.importorskip('torch')

from recorded_jobs import Convolutions, Job, Perceptron, Recorded, Transformer   # noqa: E402

OPTIMIZERS = {
    'sgd': lambda p: torch.optim.SGD(p, 0.01),
    'momentum': lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, foreach=True),
    'adam': lambda p: torch.optim.Adam(p, 1e-3, foreach=True),
    'adamw': lambda p: torch.optim.AdamW(p, 1e-3, foreach=False),
}
MODELS = {'transformer': Transformer, 'perceptron': Perceptron, 'convolutions': Convolutions,
          'checkpoints': lambda: Transformer(checkpoints=True)}
FROZEN = {'transformer': 'embed', 'perceptron': '0', 'convolutions': '3', 'checkpoints': 'blocks.0'}
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


@pytest.mark.parametrize('optimizer', OPTIMIZERS)
@pytest.mark.parametrize('model', MODELS)
@pytest.mark.parametrize('before', [0, 2])
def test_models_and_optimizers(model, optimizer, before, analyzed, profgpu, tmp_path):
    recorded = Recorded(Job(MODELS[model], OPTIMIZERS[optimizer]), before=before)
    section = analyzed(recorded)
    assert section['steps'] == 3
    check(recorded, section, profgpu, tmp_path)


@pytest.mark.parametrize('optimizer', ['sgd', 'adam'])
@pytest.mark.parametrize('before', [0, 2])
@pytest.mark.parametrize('how', ['bf16', 'accumulated', 'frozen', 'zeroed-in-place'])
@pytest.mark.parametrize('model', ['transformer', 'convolutions'])
def test_ways_to_train(model, how, before, optimizer, analyzed, profgpu, tmp_path):
    more = {'bf16': {'dtype': torch.bfloat16}, 'accumulated': {'micro_batches': 3}, 'frozen': {'frozen': FROZEN[model]},
            'zeroed-in-place': {'set_to_none': False}}[how]
    recorded = Recorded(Job(MODELS[model], OPTIMIZERS[optimizer], **more), before=before)
    check(recorded, analyzed(recorded), profgpu, tmp_path)


@pytest.mark.parametrize('optimizer', ['sgd', 'adam'])
@pytest.mark.parametrize('before', [0, 2])
@pytest.mark.parametrize('native', [True, False])
@pytest.mark.parametrize('annotated', [True, False])
@pytest.mark.parametrize('of_frees', [True, False])
def test_ways_to_record(of_frees, annotated, native, before, optimizer, analyzed, profgpu, tmp_path):
    recorded = Recorded(Job(Transformer, OPTIMIZERS[optimizer]), before=before, native=native, annotated=annotated,
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
        return Recorded(Job(Transformer, OPTIMIZERS[optimizer], batch=batch), before=1)
    section, twice = analyzed(job(16)), peak_of(job(32))
    batch = section['batch']
    assert batch['fixed_bytes'] + batch['scaling_bytes'] == section['peak_allocated_bytes']
    assert 0.95 * batch['double_peak_bytes'] <= twice <= 1.05 * batch['double_high_bytes']
    assert batch['double_peak_bytes'] == pytest.approx(twice, rel=0.05)
    assert batch['largest'] is None   # nothing tells how much memory there is


@pytest.mark.parametrize('times', [2, 3])
def test_the_largest_batch_that_fits_in_what_was_there(times, analyzed):
    """An allocation fails where a batch so many times as large would just have fit."""
    recorded, larger = (Recorded(Job(Transformer, OPTIMIZERS['adam'], batch=n), before=1) for n in (16, 16 * times))
    trace = recorded.snapshot['device_traces'][0]
    reserved = sum(s['total_size'] for s in recorded.snapshot['segments'])
    trace.append({'action': 'oom', 'device_free': peak_of(larger) - reserved, 'size': 1 << 40, 'stream': 0, 'frames': [],
                  'time_us': trace[-1]['time_us']})
    batch = analyzed(recorded)['batch']
    assert batch['capacity_bytes'] == peak_of(larger)
    assert batch['largest_low'] <= batch['largest'] <= batch['largest_high']
    assert batch['largest_high'] == pytest.approx(times, rel=0.1)


def test_what_checkpoints_save_is_predicted(analyzed):
    def job(checkpoints):
        return Recorded(Job(lambda: Transformer(layers=8, checkpoints=checkpoints), OPTIMIZERS['adam'], batch=32), before=1)
    section, with_checkpoints = analyzed(job(False)), peak_of(job(True))
    row = next(row for row in section['savings'] if row['change'].startswith('activation checkpointing of the 8 modules'))
    assert 'forward (python/recorded_jobs.py:' in row['change']
    assert row['peak_bytes'] == pytest.approx(with_checkpoints, rel=0.1)
    assert row['saved_bytes'] == section['peak_allocated_bytes'] - row['peak_bytes'] > 0


@pytest.mark.parametrize('change, more', [
    ('micro-batch of half the size, gradients accumulated', {'batch': 16, 'micro_batches': 2}),
    ('bf16 for all of it', {'dtype': torch.bfloat16}),
])
def test_what_a_change_saves_is_what_a_run_with_it_shows(change, more, analyzed):
    def job(**how):
        return Recorded(Job(Transformer, OPTIMIZERS['adam'], **({'batch': 32} | how)), before=1)
    section, changed = analyzed(job()), peak_of(job(**more))
    row = next(row for row in section['savings'] if row['change'].startswith(change))
    assert row['peak_bytes'] == pytest.approx(changed, rel=0.1)


def test_gradients_that_outlive_their_step(analyzed, profgpu, tmp_path):
    class Late(Job):
        def step(self):
            self.optimizer.zero_grad, zero = (lambda set_to_none: None), self.optimizer.zero_grad
            super().step()
            self.optimizer.zero_grad = zero
            self.late()

        def late(self):
            pass

    class NextStep(Late):
        """zero_grad() stands before backward()."""
        def start(self):
            super().start()
            forward = self.model.forward

            def zeroing(tokens):
                out = forward(tokens)
                torch.optim.Optimizer.zero_grad(self.optimizer)
                return out
            self.model.forward = zeroing

    def job(of):
        return Recorded(of(lambda: Transformer(width=96, words=2000), OPTIMIZERS['adam'], batch=16), before=2)
    late, in_time = job(NextStep), job(Job)
    rows = analyzed(late)['early_frees']
    gradients = [row for row in rows if row['category'] == 'gradient']
    assert len(gradients) == (1 if peak_of(late) > 1.02 * peak_of(in_time) else 0)
    assert gradients and gradients[0]['peak_bytes'] == pytest.approx(peak_of(in_time), rel=0.05)
    text = profgpu('analyze', tmp_path / 'snapshot.pickle').stdout.decode()
    assert 'zero_grad() right after step()' in ' '.join(text.split())
    assert analyzed(in_time)['early_frees'] == []


def test_a_result_that_is_kept_over_the_step(analyzed):
    class Keeping(Job):
        """Its logits are there until the next step's are made."""
        def start(self):
            super().start()
            forward = self.model.forward

            def keeping(tokens):
                self.logits = forward(tokens)
                return self.logits
            self.model.forward = keeping

    def job(of):
        return Recorded(of(lambda: Transformer(layers=1, words=200), OPTIMIZERS['sgd'], batch=64), before=2, steps=4)
    rows = analyzed(job(Keeping))['early_frees']
    assert rows and rows[0]['category'] in ('activation', 'temporary') and rows[0]['saved_bytes'] > 0
    assert rows[0]['file'] == 'python/recorded_jobs.py'
    assert analyzed(job(Job))['early_frees'] == []


def test_levels_by_category_add_up(analyzed):
    section = analyzed(Recorded(Job(Transformer, OPTIMIZERS['adam'])))
    points = {point['event']: point for point in section['timeline']}
    assert 10 < len(section['category_timeline']) <= 100
    for row in section['category_timeline']:
        parts = sum(value for key, value in row.items()
                    if key.endswith('_bytes') and key not in ('reserved_bytes', 'pending_free_bytes'))
        assert parts == points[row['event']]['allocated_bytes']
        assert row['reserved_bytes'] == points[row['event']]['reserved_bytes'] and row['pending_free_bytes'] == 0
