"""A small classifier that trains on the CPU. It is slow for three reasons; docs/tutorial.md finds them with profgpu.

    profgpu run --trace -o rec -- python examples/tutorial/train.py
"""
import gc
import os
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "40"))
BATCH = 32
CHECKPOINT = tempfile.NamedTemporaryFile(suffix=".pt")


class Pictures(Dataset):
    """Every sample has a record that stays in memory. The sleep stands for a read from network storage."""

    def __init__(self):
        self.records = [{"id": i, "label": i % 10, "tags": [i]} for i in range(10_000)]

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, i):
        time.sleep(0.008)
        return torch.full((256,), i / len(self)), self.records[i]["label"]


def train():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Pictures(), batch_size=BATCH, shuffle=True)
    model = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    for step, (pictures, labels) in enumerate(loader):
        loss = loss_of(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, CHECKPOINT.name)
        if step % 2 == 1:
            gc.collect()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    train()
