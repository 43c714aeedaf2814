"""Logs that real trainers print here, on the CPU: every iteration of theirs is one of ours."""
import json
import subprocess
import sys

import pytest

pytest.importorskip('torch')

BATCHES, CHECKS, EPOCHS = 37, 11, 3

LIGHTNING = f"""
import sys, time, torch
import lightning
from lightning.pytorch.callbacks import TQDMProgressBar
from torch.utils.data import DataLoader, TensorDataset

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        time.sleep(0.02)
        loss = self.layer(batch[0]).pow(2).mean()
        self.log('train_loss', loss, prog_bar=True)
        return loss
    def validation_step(self, batch, index):
        time.sleep(0.04)
        self.log('val_loss', self.layer(batch[0]).pow(2).mean(), prog_bar=True)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)

data = lambda batches: DataLoader(TensorDataset(torch.randn(batches * 4, 8)), batch_size=4)
lightning.Trainer(max_epochs={EPOCHS}, accelerator='cpu', logger=False, enable_checkpointing=False,
                  callbacks=[TQDMProgressBar(refresh_rate=int(sys.argv[1]))]).fit(Model(), data({BATCHES}), data({CHECKS}))
"""

TRAINER = f"""
import time, torch
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def forward(self, x, labels=None):
        time.sleep(0.02)
        y = self.layer(x)
        return {{'loss': ((y - labels) ** 2).mean(), 'logits': y}}

data = [{{'x': torch.randn(8), 'labels': torch.randn(1)}} for _ in range(160)]
arguments = TrainingArguments(output_dir='out', num_train_epochs=2, per_device_train_batch_size=4, logging_steps=5, disable_tqdm=True, use_cpu=True,
                              report_to=[], save_strategy='no', eval_strategy='epoch')
Trainer(Model(), arguments, train_dataset=data, eval_dataset=data[:40]).train()
"""


def printed(tmp_path, program, *words):
    path = tmp_path / 'train.log'
    with open(path, 'wb') as log:
        subprocess.run([sys.executable, '-c', program, *words], cwd=tmp_path, check=True, stdout=log, stderr=subprocess.STDOUT, timeout=240)
    return path


def analyzed(profgpu, path):
    result = profgpu('analyze', path, '--json')
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize('refresh', ('1', '10'))
def test_lightning(profgpu, tmp_path, refresh):
    pytest.importorskip('lightning')
    report = analyzed(profgpu, printed(tmp_path, LIGHTNING, refresh))
    steps = report['ranks'][0]['steps']
    assert sum(s['iterations'] for s in steps) == BATCHES * EPOCHS and steps[-1]['index'] == BATCHES * EPOCHS
    # A step sleeps 20 ms, an evaluation eleven times 40 ms; on a busy machine they take longer.
    assert 20e6 <= report['logs'][0]['throughput']['min_ns'] and all(s['loss'] is not None for s in steps)
    evaluations = [s for s in report['logs'][0]['stalls'] if s['kind'] == 'evaluation']
    assert [s['step'] for s in evaluations] == [BATCHES * (i + 1) for i in range(EPOCHS)]
    assert all(s['duration_ns'] >= CHECKS * 39e6 for s in evaluations)
    assert report['logs'][0]['end']['kind'] == 'finished'


def test_the_trainer_without_a_bar(profgpu, tmp_path):
    pytest.importorskip('transformers')
    pytest.importorskip('accelerate')
    report = analyzed(profgpu, printed(tmp_path, TRAINER))
    steps = report['ranks'][0]['steps']
    assert [s['index'] for s in steps] == list(range(5, 85, 5)) and {s['iterations'] for s in steps} == {5}
    assert all(s['loss'] is not None and s['grad_norm'] is not None and s['learning_rate'] is not None for s in steps)
    assert min(s['duration_ns'] for s in steps) == max(s['duration_ns'] for s in steps) >= 20e6
