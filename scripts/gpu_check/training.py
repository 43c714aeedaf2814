#!/usr/bin/env python3
"""A training loop of real size, for measuring what recording costs and whether two recorders see the same.

    training.py MODEL --steps N [--warmup N] [--profiler torch|none] [--device cuda|cpu] [--small]

MODEL: transformer or resnet. Prints one JSON object: steps a second of the measured steps, and with --profiler torch the
kernels that torch.profiler saw in them. The measured steps lie between cudaProfilerStart and cudaProfilerStop.
"""
import argparse
import collections
import json
import os
import tempfile
import time

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = width * 4
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.short = nn.Identity() if inputs == outputs and stride == 1 else \
            nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def resnet50():
    blocks, inputs = [], 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for i in range(count):
            blocks.append(Bottleneck(inputs, 64 << stage, 2 if i == 0 and stage else 1))
            inputs = (64 << stage) * 4
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                         nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class Transformer(nn.Module):
    def __init__(self, layers, width, words=32000):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, x):
        return self.head(self.body(self.embed(x)))


def workload(name, device, small):
    """(model, batch, target)."""
    torch.manual_seed(0)
    if name == 'resnet':
        size, batch = (64, 2) if small else (224, 64)
        x = torch.randn(batch, 3, size, size, device=device)
        return resnet50().to(device), x, torch.randint(1000, (batch,), device=device)
    layers, width, batch, length = (2, 128, 2, 32) if small else (12, 1024, 16, 512)
    x = torch.randint(32000, (batch, length), device=device)
    return Transformer(layers, width).to(device), x, torch.randint(32000, (batch * length,), device=device)


def kernels_of(profile):
    """{name: [count, ns]} of the kernels in what the profiler saw."""
    out = collections.defaultdict(lambda: [0, 0])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'trace.json')
        profile.export_chrome_trace(path)
        with open(path, encoding='utf-8') as f:
            for event in json.load(f)['traceEvents']:
                if event.get('cat') == 'kernel':
                    out[event['name']][0] += 1
                    out[event['name']][1] += round(event['dur'] * 1000)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('model', choices=('transformer', 'resnet'))
    parser.add_argument('--steps', type=int, default=30)
    parser.add_argument('--warmup', type=int, default=10)
    parser.add_argument('--profiler', choices=('none', 'torch'), default='none')
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--small', action='store_true')
    o = parser.parse_args()
    cuda = o.device == 'cuda'
    model, x, target = workload(o.model, o.device, o.small)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        with torch.autocast(o.device, torch.bfloat16):
            out = model(x)
            loss = nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]).float(), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def run(steps):
        for _ in range(steps):
            step()
        if cuda:
            torch.cuda.synchronize()

    run(o.warmup)
    profile = None
    if o.profiler == 'torch':
        activities = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if cuda else [])
        profile = torch.profiler.profile(activities=activities)
        profile.start()
    if cuda:
        torch.cuda.profiler.start()
    begin = time.perf_counter()
    run(o.steps)
    seconds = time.perf_counter() - begin
    if cuda:
        torch.cuda.profiler.stop()
    result = {'model': o.model, 'steps': o.steps, 'steps_per_s': o.steps / seconds, 'torch': torch.__version__}
    if profile:
        profile.stop()
        result['kernels'] = kernels_of(profile)
    print(json.dumps(result))


if __name__ == '__main__':
    main()
