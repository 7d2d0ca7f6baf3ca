"""Training steps of the networks for images in PyTorch, as `bench step` measures ours.

usage: nets.py [--threads 1] [--seconds 4] [name ...]
Names are resnet18, mobilenet, vit, unet; all of them by default. The best and the median step.
"""

import argparse
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("--threads", type=int, default=1)
ap.add_argument("--seconds", type=float, default=4)
ap.add_argument("names", nargs="*")
flags = ap.parse_args()
torch.set_num_threads(flags.threads)


def conv(i, o, k, stride, groups=1):
    return nn.Sequential(
        nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o)
    )


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.a, self.b = conv(i, o, 3, stride), conv(o, o, 3, 1)
        self.short = conv(i, o, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.b(F.relu(self.a(x))) + self.short(x))


class Inverted(nn.Module):
    def __init__(self, i, times, o, stride):
        super().__init__()
        e = i * times
        widen = [conv(i, e, 1, 1), nn.ReLU6()] if times > 1 else []
        self.f = nn.Sequential(*widen, conv(e, e, 3, stride, e), nn.ReLU6(), conv(e, o, 1, 1))
        self.skip = stride == 1 and i == o

    def forward(self, x):
        return x + self.f(x) if self.skip else self.f(x)


def classified(parts, i):
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, 10, bias=False)]
    return nn.Sequential(*parts, *head)


def resnet18():
    parts, i = [conv(3, 64, 3, 1), nn.ReLU()], 64
    widths = [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]
    for o, stride in widths:
        parts.append(Residual(i, o, stride))
        i = o
    return classified(parts, i)


def mobilenet():
    parts, i = [conv(3, 32, 3, 1), nn.ReLU6()], 32
    rows = [(1, 16, 1), (6, 24, 1), (6, 24, 1), (6, 32, 2), (6, 32, 1), (6, 64, 2), (6, 64, 1)]
    for times, o, stride in rows + [(6, 96, 1), (6, 160, 2), (6, 160, 1)]:
        parts.append(Inverted(i, times, o, stride))
        i = o
    return classified(parts, i)


class Attention(nn.Module):
    """As our layer: no biases in the projections."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(d, 3 * d, False), nn.Linear(d, d, False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.attention, self.n2 = nn.LayerNorm(d), Attention(d, 3), nn.LayerNorm(d)
        self.a, self.b = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.b(F.gelu(self.a(self.n2(x)), approximate="tanh"))


class Vit(nn.Module):
    def __init__(self, d=192):
        super().__init__()
        self.patches, self.places = nn.Linear(48, d), nn.Parameter(torch.randn(64, d) * 0.02)
        self.layers = nn.Sequential(*[Layer(d) for _ in range(6)])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 10)

    def forward(self, x):
        x = F.unfold(x, 4, stride=4).transpose(1, 2)
        x = self.layers(self.patches(x) + self.places)
        return self.head(self.norm(x).mean(1))


def twice(i, o):
    return nn.Sequential(conv(i, o, 3, 1), nn.ReLU(), conv(o, o, 3, 1), nn.ReLU())


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2, self.d3 = twice(3, 32), twice(32, 64), twice(64, 128)
        self.u2 = nn.ConvTranspose2d(128, 64, 2, 2, bias=False)
        self.u1 = nn.ConvTranspose2d(64, 32, 2, 2, bias=False)
        self.e2, self.e1, self.head = twice(128, 64), twice(64, 32), nn.Conv2d(32, 10, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        x = self.d3(F.max_pool2d(b, 2))
        x = self.e2(torch.cat([b, self.u2(x)], 1))
        return self.head(self.e1(torch.cat([a, self.u1(x)], 1)))


def measure(name, make, batch, side, labels):
    model = make().to(memory_format=torch.channels_last)
    parameters = model.parameters()
    if name == "vit":
        optimizer = torch.optim.AdamW(parameters, 1e-3, weight_decay=0.01, foreach=True)
    else:
        optimizer = torch.optim.SGD(parameters, 0.05)
    x = (torch.rand(batch, 3, side, side) - 0.5).contiguous(memory_format=torch.channels_last)
    times, begun = [], time.perf_counter()
    while time.perf_counter() - begun < flags.seconds or len(times) < 5:
        t0 = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), labels).backward()
        optimizer.step()
        times.append((time.perf_counter() - t0) * 1e3)
    for metric, value in [("min", min(times)), ("median", statistics.median(times))]:
        print(
            f"result workload={name} peer=torch layout=t{flags.threads} "
            f"metric=step_ms_{metric} value={value:.5g}",
            flush=True,
        )


ten = torch.arange(64) % 10
all_nets = {
    "resnet18": (resnet18, 64, 32, ten),
    "mobilenet": (mobilenet, 64, 32, ten),
    "vit": (Vit, 64, 32, ten),
    "unet": (Unet, 8, 64, (torch.arange(8 * 64 * 64) % 10).view(8, 64, 64)),
}
for name in flags.names or all_nets:
    measure(name, *all_nets[name])
