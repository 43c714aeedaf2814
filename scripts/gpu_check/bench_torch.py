"""The same quantities as `profgpu bench`, by PyTorch. Prints one JSON object: rates by name, each measured twice."""
import json

import torch

MIB = 1 << 20


def seconds(work, runs=20):
    """The median of events around the work, after warm-up."""
    for _ in range(5):
        work()
    took = []
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        took.append(begin.elapsed_time(end) / 1e3)
    return sorted(took)[runs // 2]


def rates():
    host = torch.empty(256 * MIB, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(256 * MIB, dtype=torch.uint8, device='cuda')
    out = {'host_to_device_memcpy_ce': host.numel() / seconds(lambda: there.copy_(host, non_blocking=True)) / 1e9,
           'device_to_host_memcpy_ce': host.numel() / seconds(lambda: host.copy_(there, non_blocking=True)) / 1e9}
    big, to = (torch.empty(1 << 30, dtype=torch.uint8, device='cuda') for _ in range(2))
    out['device_local_copy'] = big.numel() / seconds(lambda: to.copy_(big)) / 1e9
    n = 8192
    for name, kind, tf32 in (('fp32', torch.float32, False), ('tf32', torch.float32, True),
                             ('bf16', torch.bfloat16, False), ('fp16', torch.float16, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.rand(n, n, device='cuda').sub_(0.5).to(kind) for _ in range(2))
        out[f'{name}_{n}'] = 2 * n ** 3 / seconds(lambda: torch.mm(a.t(), b)) / 1e12
    return out


if __name__ == '__main__':
    first, second = rates(), rates()
    print(json.dumps({name: [first[name], second[name]] for name in first}))
