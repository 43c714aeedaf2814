"""FLOPs of operators equal those of torch.utils.flop_counter, operator by operator: each model runs once under the counter and
once under the profiler with shapes, forward and backward, on the CPU.

The counter sees operators below autograd, the profiler those that do the work on this machine: a convolution is
aten::convolution there and aten::mkldnn_convolution here. Operators that the counter does not know have no FLOPs in its
registry; where the program knows them all the same, they are in OURS_ALONE.
"""
import math
from collections import defaultdict

import pytest

torch = pytest.importorskip('torch')
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count  # noqa: E402

aten = torch.ops.aten

# What the counter lacks for the CPU: the same attention as on devices, whose formulas it has.
ON_CPU = {
    aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    aten._scaled_dot_product_flash_attention_for_cpu_backward:
        lambda grad, q, k, v, *_, **__: sdpa_backward_flop_count(grad, q, k, v),
}
CONVOLUTIONS = {'mkldnn_convolution', '_convolution', '_slow_conv2d_forward', 'slow_conv3d_forward', 'slow_conv_transpose2d',
                'slow_conv_transpose3d', 'slow_conv_dilated2d', 'slow_conv_dilated3d', '_conv_depthwise2d',
                'mkldnn_convolution_transpose', 'thnn_conv2d'}
OURS_ALONE = {'mkldnn_rnn_layer', 'mkldnn_rnn_layer_backward', 'mv', 'addmv', 'dot', 'addbmm'}


class Residual(nn.Module):
    def __init__(self, channels, out, stride=1, groups=1):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, out, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(out),
                                  nn.ReLU(), nn.Conv2d(out, out, 3, 1, 1, groups=groups, bias=False), nn.BatchNorm2d(out))
        self.short = nn.Conv2d(channels, out, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


def resnet():
    net = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                        Residual(16, 16), Residual(16, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return net, lambda: F.cross_entropy(net(torch.randn(2, 3, 40, 44)), torch.tensor([1, 2]))


def mobilenet():
    net = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.Hardswish(), nn.Conv2d(16, 16, 3, 1, 1, groups=16),
                        nn.Conv2d(16, 24, 1), Residual(24, 24, groups=4), nn.Conv2d(24, 8, (3, 1), dilation=(2, 1)))
    return net, lambda: net(torch.randn(2, 3, 20, 20)).square().mean()


def video():
    net = nn.Sequential(nn.Conv3d(3, 8, 3, (1, 2, 2), 1), nn.ReLU(), nn.ConvTranspose3d(8, 4, 2, 2), nn.AvgPool3d(2))
    return net, lambda: net(torch.randn(1, 3, 4, 12, 12)).sum()


class Attention(nn.Module):
    def __init__(self, size, heads, key_heads=None, causal=False):
        super().__init__()
        self.heads, self.key_heads, self.causal = heads, key_heads or heads, causal
        self.q = nn.Linear(size, size)
        self.kv = nn.Linear(size, 2 * size * self.key_heads // heads)
        self.out = nn.Linear(size, size)

    def forward(self, x, memory=None, bias=None):
        memory = x if memory is None else memory
        split = lambda t, n: t.unflatten(-1, (n, -1)).transpose(1, 2)   # noqa: E731
        k, v = self.kv(memory).chunk(2, -1)
        y = F.scaled_dot_product_attention(split(self.q(x), self.heads), split(k, self.key_heads), split(v, self.key_heads),
                                           bias, is_causal=self.causal, enable_gqa=self.key_heads != self.heads)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, size, heads, key_heads=None, causal=False, norm=nn.LayerNorm, cross=False):
        super().__init__()
        self.attention = Attention(size, heads, key_heads, causal)
        self.cross = Attention(size, heads) if cross else None
        self.norms = nn.ModuleList(norm(size) for _ in range(3))
        self.up, self.down = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)

    def forward(self, x, memory=None, bias=None):
        x = x + self.attention(self.norms[0](x), bias=bias)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), memory)
        return x + self.down(F.gelu(self.up(self.norms[2](x))))


def vit():
    patch, cls = nn.Conv2d(3, 32, 8, 8), nn.Parameter(torch.zeros(1, 1, 32))
    blocks, head = nn.Sequential(Block(32, 4), Block(32, 4)), nn.Linear(32, 10)
    net = nn.ModuleList([patch, blocks, head])

    def loss():
        x = patch(torch.randn(2, 3, 32, 32)).flatten(2).transpose(1, 2)
        x = blocks(torch.cat([cls.expand(2, 1, 32), x], 1))
        return F.cross_entropy(head(x[:, 0]), torch.tensor([1, 2]))
    return net, loss


def bert():
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2, enable_nested_tensor=False)
    words = nn.Embedding(100, 32)
    mask = torch.zeros(2, 12, dtype=torch.bool)
    mask[1, 9:] = True
    return net, lambda: F.cross_entropy(
        (net(words(torch.randint(100, (2, 12))), src_key_padding_mask=mask) @ words.weight.T).flatten(0, 1),
        torch.randint(100, (24,)))


def gpt2():
    words, places = nn.Embedding(50, 32), nn.Embedding(16, 32)
    fused, out = nn.Parameter(torch.randn(32, 96)), nn.Parameter(torch.randn(32, 32))
    net = nn.ModuleList([words, places, nn.LayerNorm(32)])

    def loss():
        tokens = torch.randint(50, (3, 16))
        x = words(tokens) + places(torch.arange(16))
        qkv = torch.addmm(torch.zeros(96), x.view(-1, 32), fused).view(3, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*qkv, is_causal=True).transpose(1, 2).reshape(-1, 32)
        x = net[2](torch.addmm(torch.zeros(32), y, out))
        return F.cross_entropy(x @ words.weight.T, tokens.view(-1))
    return net, loss


def llama():
    net = nn.Sequential(nn.Embedding(50, 32), Block(32, 8, 2, True, nn.RMSNorm), Block(32, 8, 2, True, nn.RMSNorm),
                        nn.Linear(32, 50, bias=False))
    return net, lambda: F.cross_entropy(net(torch.randint(50, (2, 17))).flatten(0, 1), torch.randint(50, (34,)))


def t5():
    words, bias = nn.Embedding(50, 32), nn.Embedding(20, 4)
    encoder, decoder = Block(32, 4, norm=nn.RMSNorm), Block(32, 4, causal=True, norm=nn.RMSNorm, cross=True)
    net = nn.ModuleList([words, bias, encoder, decoder])

    def loss():
        place = torch.arange(10)
        relative = bias((place[:, None] - place[None]).clamp(-9, 9) + 9).permute(2, 0, 1)[None]
        memory = encoder(words(torch.randint(50, (2, 10))), bias=relative)
        return (decoder(words(torch.randint(50, (2, 7))), memory) @ words.weight.T).logsumexp(-1).mean()
    return net, loss


def unet():
    down = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 16, 3, 2, 1))
    middle, up = Attention(16, 2), nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1)
    out = nn.Conv2d(8 + 3, 3, 1)
    net = nn.ModuleList([down, middle, up, out])

    def loss():
        x = torch.randn(2, 3, 16, 16)
        y = down(x)
        y = middle(y.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, y.shape[2:])
        return F.mse_loss(out(torch.cat([up(y), F.interpolate(x, scale_factor=1.0)], 1)), x)
    return net, loss


def mixtral():
    gate, first, second = nn.Linear(16, 4, bias=False), nn.Parameter(torch.randn(4, 16, 48)), nn.Parameter(torch.randn(4, 24, 16))
    net = nn.ModuleList([gate])

    def loss():
        x = torch.randn(30, 16)
        weights, chosen = gate(x).softmax(-1).topk(2)
        y = torch.zeros_like(x)
        for e in range(4):
            row, place = (chosen == e).nonzero(as_tuple=True)
            up, act = (x[row] @ first[e]).chunk(2, -1)
            y = y.index_add(0, row, ((F.silu(up) * act) @ second[e]) * weights[row, place, None])
        dense = torch.einsum('td,edh->teh', x, first)   # as other mixtures compute it
        return y.square().mean() + dense.mean()
    return net, loss


def dlrm():
    bags = nn.ModuleList(nn.EmbeddingBag(40, 8, mode='sum') for _ in range(3))
    bottom, top = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 8)), nn.Linear(8 + 6, 1)
    net = nn.ModuleList([bags, bottom, top])

    def loss():
        x = bottom(torch.randn(5, 13))
        rows = [x] + [bag(torch.randint(40, (11,)), torch.tensor([0, 2, 4, 6, 9])) for bag in bags]
        all_rows = torch.stack(rows, 1)
        pairs = torch.bmm(all_rows, all_rows.transpose(1, 2))
        i, j = torch.tril_indices(4, 4, -1)
        return F.binary_cross_entropy_with_logits(top(torch.cat([x, pairs[:, i, j]], 1)), torch.ones(5, 1))
    return net, loss


def mamba():
    into, conv, params = nn.Linear(16, 64), nn.Conv1d(32, 32, 4, padding=3, groups=32), nn.Linear(32, 8 + 8 + 32)
    out, a = nn.Linear(32, 16), nn.Parameter(torch.rand(32, 8))
    net = nn.ModuleList([into, conv, params, out])

    def loss():
        x, z = into(torch.randn(2, 9, 16)).chunk(2, -1)
        x = F.silu(conv(x.transpose(1, 2))[..., :9].transpose(1, 2))
        b, c, step = params(x).split([8, 8, 32], -1)
        state, ys = torch.zeros(2, 32, 8), []
        for t in range(9):
            state = state * torch.exp(-F.softplus(step[:, t, :, None]) * a) + torch.einsum('bd,bn->bdn', x[:, t], b[:, t])
            ys.append(torch.einsum('bdn,bn->bd', state, c[:, t]))
        return out(torch.stack(ys, 1) * F.silu(z)).square().mean()
    return net, loss


def lstm():
    net = nn.LSTM(12, 16, num_layers=2, bidirectional=True)
    needs = lambda *shape: torch.randn(*shape, requires_grad=True)   # noqa: E731: oneDNN's layer makes all gradients
    return net, lambda: net(needs(7, 3, 12), (needs(4, 3, 16), needs(4, 3, 16)))[0].square().mean()


def gru():
    net, cell = nn.GRU(12, 16, batch_first=True), nn.LSTMCell(16, 8)
    return net, lambda: cell(net(torch.randn(3, 7, 12))[0][:, -1])[0].square().mean()


def conformer():
    half = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 64), nn.SiLU(), nn.Linear(64, 16))
    attention = nn.MultiheadAttention(16, 4, batch_first=True)
    conv = nn.Sequential(nn.Conv1d(16, 32, 1), nn.GLU(1), nn.Conv1d(16, 16, 7, padding=3, groups=16), nn.BatchNorm1d(16),
                         nn.SiLU(), nn.Conv1d(16, 16, 1))
    stem = nn.Conv2d(1, 4, 3, 2)
    net = nn.ModuleList([half, attention, conv, stem])

    def loss():
        x = stem(torch.randn(2, 1, 41, 9)).flatten(1, 1).transpose(1, 2).flatten(2)
        x = x + half(x) / 2
        x = x + attention(x, x, x)[0]
        return (x + conv(x.transpose(1, 2)).transpose(1, 2)).square().mean()
    return net, loss


def baddbmm_attention():
    qkv = nn.Linear(16, 48)

    def loss():
        q, k, v = qkv(torch.randn(2, 6, 16)).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4).flatten(1, 2)
        scores = torch.baddbmm(torch.zeros(1, 6, 6), q, k.transpose(1, 2), beta=0, alpha=1 / math.sqrt(4))
        return torch.bmm(scores.softmax(-1), v).square().mean()
    return qkv, loss


def written_out_attention():
    net = Block(32, 4, causal=True)

    def loss():
        with sdpa_kernel(SDPBackend.MATH):
            return net(torch.randn(2, 11, 32)).square().mean()
    return net, loss


def checkpointed():
    blocks = nn.ModuleList([Block(32, 4), Block(32, 4)])

    def loss():
        x = torch.randn(2, 10, 32, requires_grad=True)
        # Else the last operator that is computed again ends before it does anything, which the profiler does not show.
        with set_checkpoint_early_stop(False):
            for block in blocks:
                x = checkpoint(block, x, use_reentrant=False)
        return x.square().mean()
    return blocks, loss


MODELS = [resnet, mobilenet, video, vit, bert, gpt2, llama, t5, unet, mixtral, dlrm, mamba, lstm, gru, conformer,
          baddbmm_attention, written_out_attention, checkpointed]


def step(loss):
    torch.manual_seed(1)
    loss().backward()


def counted(loss):
    """{operator: FLOPs} by the counter."""
    # Without oneDNN, whose recurrent layers the counter does not know.
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False, custom_mapping=ON_CPU) as counter:
        step(loss)
    return {str(op).split('.')[-1]: flops for op, flops in counter.get_flop_counts()['Global'].items() if flops > 0}


def ours(rank):
    """{operator by the counter's name: FLOPs} by the program."""
    out = defaultdict(int)
    for row in rank['ops']:
        name = row['name'].removeprefix('aten::')
        if row['flops']:
            out['convolution' if name in CONVOLUTIONS else name] += row['flops']
    return dict(out)


@pytest.mark.parametrize('model', MODELS, ids=lambda m: m.__name__)
def test_flops_equal_the_counters(model, analyze, tmp_path):
    torch.manual_seed(0)
    net, loss = model()
    net.train()
    want = counted(loss)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
        step(loss)
    path = str(tmp_path / 'trace.json')
    p.export_chrome_trace(path)
    got = ours(analyze(path)['ranks'][0])
    alone = {name: got.pop(name) for name in OURS_ALONE & got.keys()}
    for name in sorted(want.keys() | got.keys()):
        if alone and name not in got:
            continue   # layers that the counter takes apart
        assert got.get(name, 0) == want.get(name, 0), f'{model.__name__}: FLOPs of aten::{name} are not those of the counter'
    if alone:
        assert sum(alone.values()) + sum(got.values()) == sum(want.values()), f'{model.__name__}: {alone}'
