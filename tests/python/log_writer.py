"""Logs as frameworks print them, with figures that a test chooses."""

MEGATRON = (' [2024-05-01 12:{:02d}:{:02d}] iteration {:8d}/    1000 | consumed samples: {:12d} | elapsed time per iteration (ms): {:.1f} | '
            'throughput per GPU (TFLOP/s/GPU): {:.1f} | learning rate: 1.000000E-04 | global batch size:    64 | lm loss: {:.6E} | '
            'loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |\n')


def megatron(times_ms, every=10, tflops=100.0):
    """A line for every `every` iterations, on a clock that shows their time."""
    text, seconds = '', 10.0
    for i, time in enumerate(times_ms):
        seconds += time * every / 1e3
        number = (i + 1) * every
        text += MEGATRON.format(int(seconds) // 60, int(seconds) % 60, number, number * 64, time, tflops * 500 / time, 9.0 - i / 100)
    return text


def deepspeed(steps, fwd=40.0, bwd=80.0, reduce=20.0, step=30.0, config=''):
    head = '[2024-05-01 12:00:00,500] [INFO] [logging.py:96:log_dist] [Rank 0] '
    text = config
    for i in range(1, steps + 1):
        text += f'{head}time (ms) | fwd_microstep: {fwd:.2f} | bwd_microstep: {bwd:.2f} | bwd_inner_microstep: {bwd - reduce:.2f} | ' \
                f'bwd_allreduce_microstep: {reduce:.2f} | step_microstep: {step:.2f}\n'
        text += f'{head}time (ms) | fwd: {fwd:.2f} | bwd: {bwd:.2f} | bwd_inner: {bwd - reduce:.2f} | bwd_allreduce: {reduce:.2f} | step: {step:.2f}\n'
    return text


def configuration(**zero):
    """As DeepSpeed prints what it was configured with."""
    lines = ''.join(f'        "{name}": {value}, \n' for name, value in zero.items())
    return ('[2024-05-01 12:00:00,000] [INFO] [config.py:988:print]   json = {\n    "train_batch_size": 64, \n'
            '    "zero_optimization": {\n' + lines + '    }\n}\n')


def titan(steps, rank=0, tps=8000, begin=10):
    return ''.join(
        f'[rank{rank}]:[titan] 2024-12-05 12:{(begin + 5 * i) // 60:02d}:{(begin + 5 * i) % 60:02d},250 - root - INFO - \x1b[31mstep: {i + 1:2d}  '
        f'\x1b[32mloss: {12 - i / 10:7.4f}  \x1b[38;2;180;60;0mgrad_norm:  1.2345  \x1b[33mmemory:  5.52GiB(5.81%)  \x1b[34mtps: {tps:,}  '
        f'\x1b[36mtflops: 1.23  \x1b[35mmfu: 12.34%\x1b[39m\n' for i in range(steps))
