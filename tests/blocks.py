"""Blocks for labkit.check.block: labkit's own with one slip, steps in a line, and foreign ones."""

import inspect
import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn

from labkit import ModelConfig, placements
from labkit.attention.logits import explicit_logits
from labkit.norms import RMSNorm
from labkit.placements import (
    Admin,
    DeepNorm,
    Keel,
    NoNorm,
    OutputNorm,
    PostNorm,
    PreNorm,
    ResidualScale,
    SandwichNorm,
)


def config(recipe, **changes):
    """Say the dimensions of small blocks: a decoder with RMS norms and GELU (nGPT has SwiGLU)."""
    usual = {"norm": "rms", "dim": 16, "heads": 2, "hidden": 20, "depth": 6, "activation": "gelu"}
    usual |= {"activation": "swiglu"} if recipe == "ngpt" else {}
    return ModelConfig(**{"recipe": recipe, **usual, **changes})


def unit(x):
    return F.normalize(x, dim=-1)


# --- labkit's block with one slip. Each says what its explanation must say; None: no use here ---


def change(module, **methods):
    """Give a module other methods; they move with a copy of it, as a closure would not."""
    module.__class__ = type("Changed", (type(module),), methods)


def by_step(says, steps):
    """Give the feed-forward's step another equation, where there is one for its class."""

    def slip(block):
        if type(block.feed_forward) not in steps:
            return None
        change(block.feed_forward, step=steps[type(block.feed_forward)])
        return says

    return slip


def rms_norms(block):
    return [n for s in (block.attention, block.feed_forward) for n in s.children()
            if type(n) is RMSNorm]  # fmt: skip


def another_norm(says, formula):
    def slip(block):
        norms = rms_norms(block)
        if not norms:
            return None
        change(norms[-1], forward=lambda self, x: formula(x, self.weight))
        return says

    return slip


def rms(x):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def gains_exchanged(block):
    norms = rms_norms(block)
    if len(norms) < 2:
        return None
    norms[0].forward, norms[-1].forward = norms[-1].forward, norms[0].forward
    return "each other's places" if len(norms) == 2 and type(block.attention) not in (
        SandwichNorm, Keel) else ""  # fmt: skip


def attend(says, shift=1, times=lambda h: 1.0):
    """Attend by hand, with another mask or another scale."""

    def slip(block):
        a = block.attention.sublayer
        if hasattr(a, "s_qk"):
            return None

        def attending(a, q, k, v, context):
            logits = explicit_logits(q, k, None) * times(a.head_dim)
            if a.chain:
                logits = context.scores[a.chain] = logits + context.scores.get(a.chain, 0)
            logits = a.softcap * torch.tanh(logits / a.softcap) if a.softcap else logits
            hidden = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(shift)
            return logits.masked_fill(hidden, -torch.inf).softmax(-1) @ v

        change(a, attend=attending)
        return says

    return slip


def attribute(says, name, value, where="attention"):
    """Set what a sublayer has to another value."""

    def slip(block):
        sublayer = getattr(block, where).sublayer
        if getattr(sublayer, name, None) in (None, value):
            return None
        sublayer.register_parameter(name, None) if name in sublayer._parameters else setattr(
            sublayer, name, value)  # fmt: skip
        return says

    return slip


def after_the_rotation(block):
    a = block.attention.sublayer
    if a.norms is None or a.norms.share == "width" or a.norms.tensors[:2] != "qk":
        return None
    a.norms = replace(a.norms, after_rope=True)
    return "after the rotation"


def over_all_heads(block):
    a = block.attention.sublayer
    if a.norms is None or a.norms.share == "width":
        return None
    a.norms = replace(a.norms, share="width")
    for name in a.norms.tensors:
        setattr(a, f"norm_{name}", RMSNorm(16))
    return "full width"


def one_not_normed(block):
    a = block.attention.sublayer
    if a.norms is None:
        return None
    getattr(a, f"norm_{a.norms.tensors[-1]}").forward = lambda x: x
    return f"({a.norms.tensors[-1]}) are not normalized"


def moved(says, side, move):
    """Call a half in another way; `run` calls it as it was."""

    def slip(block):
        step = getattr(block, side)
        before = type(step).forward
        run = lambda self: lambda x, c: before(self, x, c)  # noqa: E731
        change(step, forward=lambda self, x, context: move(run(self), x, context, self.training))
        return says

    return slip


def in_place(run, x, context, training):
    y = run(x.clone(), context)
    x += 0.5
    return y


SLIPS = {
    "gain missing": another_norm("gain", lambda x, w: rms(x)),
    "norm missing": another_norm("missing", lambda x, w: x),
    "eps outside the root": another_norm("rms-outside", lambda x, w: (
        w * x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-6))),
    "LayerNorm": another_norm("is layer, not rms", lambda x, w: F.layer_norm(x, x.shape[-1:], w)),
    "gains exchanged": gains_exchanged,
    "residual missing": by_step("residual", {
        NoNorm: lambda s, x, f: f(x), PreNorm: lambda s, x, f, N: f(N(x)),
        PostNorm: lambda s, x, f, N: N(f(x)), OutputNorm: lambda s, x, f, N: N(f(x)),
        SandwichNorm: lambda s, x, f, N, M: M(f(N(x)))}),
    "skip from the copy": by_step("normalized copy", {
        PreNorm: lambda s, x, f, N: N(x) + f(N(x)), PostNorm: lambda s, x, f, N: N(N(x) + f(x)),
        OutputNorm: lambda s, x, f, N: N(x) + N(f(x)),
        SandwichNorm: lambda s, x, f, N, M: N(x) + M(f(N(x)))}),
    "write subtracted": by_step("subtracted", {
        NoNorm: lambda s, x, f: x - f(x), PreNorm: lambda s, x, f, N: x - f(N(x)),
        PostNorm: lambda s, x, f, N: N(x - f(x)),
        placements.StreamNorm: lambda s, x, f, N: N(x) - f(N(x))}),
    "factor on the branch": by_step("branch f instead", {
        DeepNorm: lambda s, x, f, N: N(x + s.alpha * f(x)),
        Keel: lambda s, x, f, N, M: M(x + s.alpha * f(N(x))),
        Admin: lambda s, x, f, N: N(x + s.omega * f(x)),
        ResidualScale: lambda s, x, f, N: x + s.scale * f(N(x))}),
    "mask off by one": attend("off by one", 2),
    "no 1/√d": attend("multiplied by 1 ", 1, lambda h: h**0.5),
    "mask missing": attribute("causal mask is missing", "causal", False),
    "norm after the rotation": after_the_rotation,
    "norm over all heads": over_all_heads,
    "one of q, k, v, c not normed": one_not_normed,
    "no soft cap": attribute("soft cap", "softcap", None),
    "no head gain": attribute("gain of each head is missing", "head_gain", None),
    "scores not added": attribute("scores", "chain", "another"),
    "activation": attribute("activation is relu", "activation", torch.relu, "feed_forward"),
    "detached": moved("cut off", "attention", lambda run, x, c, t: (
        run(x, c) + (x.detach() - x) / 2)),
    "in place": moved("in-place", "attention", in_place),
    "random": moved("random", "feed_forward", lambda run, x, c, t: (
        run(x, c) + 0.1 * torch.rand(()))),
    "rounded": moved("dtype", "feed_forward", lambda run, x, c, t: (
        run(x, c).to(torch.promote_types(x.dtype, torch.float32)))),
    "training mode": moved("training mode", "feed_forward", lambda run, x, c, t: (
        run(x, c) * (1 + t))),
}  # fmt: skip


# --- steps, wrappers, whole blocks of functions: (recipe, what is handed in, part of the cause) ---

WRONG_STEPS = [
    ("post", lambda x, f, norm: norm(norm(x) + f(x)), "skip is taken"),
    ("post", lambda x, f, norm: x + norm(f(x)), "on the branch"),
    ("post", lambda x, f, norm: x + f(norm(x)), "Pre-Norm"),
    ("post", lambda x, f, norm: norm(f(x)), "residual is missing"),
    ("post", lambda x, f, norm: norm(x + 0.5 * f(x)), "branch is halved"),
    ("post", lambda x, f, norm: norm(x + f(x)) if x.shape[1] <= 32 else x + f(norm(x)), ""),
    ("pre", lambda x, f, norm: norm(x) + f(norm(x)), "normalized copy"),
    ("pre", lambda x, f, norm: norm(x) + f(x), "missing"),
    ("output", lambda x, f, norm: x + f(norm(x)), "before the sublayer"),
    ("output", lambda x, f, norm: norm(x + f(x)), "after the addition"),
    ("sandwich", lambda x, f, norm, norm_out: x + f(norm(x)), "writes is missing"),
    ("sandwich", lambda x, f, norm, norm_out: norm_out(x + f(norm(x))), "after the addition"),
    ("peri", lambda x, f, n, m: x + m(f(x)), "raw stream"),
    ("deepnorm", lambda x, f, norm, alpha: norm(x + alpha * f(x)), "branch f instead"),
    ("deepnorm", lambda x, f, norm, alpha: norm(alpha * (x + f(x))), "missing"),
    ("deepnorm", lambda x, f, norm, alpha: alpha * x + f(x), "missing"),
    ("deepnorm", lambda x, f, norm, alpha: alpha * x + norm(f(x)), "branch"),
    ("deepnorm", lambda x, f, norm, depth: norm(64**0.25 * x + f(x)), "32 blocks"),
    ("deepnorm", lambda x, f, norm, depth: norm((4 * depth) ** 0.25 * x + f(x)), "sublayers"),
    ("deepnorm", lambda x, f, norm, depth: norm((8 * depth) ** 0.25 * x + f(x)), "8 belongs"),
    ("deepnorm", lambda x, f, norm, depth: norm((2 * depth) ** -0.25 * x + f(x)), "sign is wrong"),
    ("keel", lambda x, f, norm, norm_out, depth: norm_out(depth * x + f(norm(x))), "blocks"),
    ("keel", lambda x, f, norm, norm_out, alpha: norm_out(x + alpha * f(norm(x))), "branch"),
    ("keel", lambda x, f, norm, norm_out, alpha: norm_out(alpha * x + f(x)), "before"),
    ("keel", lambda x, f, norm, norm_out, alpha: alpha * x + f(norm(x)), "after the addition"),
    ("lns", lambda x, f, norm, index: x + f(norm(x) / max(index, 1) ** 0.5), "from 0"),
    ("lns", lambda x, f, norm, number: x + f(norm(x) / (2 * number) ** 0.5), "sublayers"),
    ("lns", lambda x, f, norm, number: x + f(norm(x) / number), "instead of its root"),
    ("lns", lambda x, f, norm, number: x + f(norm(x)) / number**0.5, "write"),
    ("lns", lambda x, f, norm: x + f(norm(x) / 6**0.5), ""),
    ("admin", lambda x, f, norm, omega: norm(x + omega * f(x)), "branch f instead"),
    ("admin", lambda x, f, norm, omega: norm(omega * (x + f(x))), "whole sum"),
    ("admin", lambda x, f, norm, omega: norm(x + f(x)), "missing"),
    ("b2t", lambda x, f, norm, entry: norm(x + f(x)), "not added"),
    ("b2t", lambda x, f, norm, entry: norm(2 * x + f(x)), "not the block's input"),
    ("b2t", lambda x, f, norm, entry: entry + norm(x + f(x)), "after the last norm"),
    ("b2t", lambda x, f, norm, entry: norm(entry.detach() + x + f(x)), "cut off"),
    ("resi-dual", lambda x, r, f, norm: ((y := norm(x + f(x))), r + y), "instead of the write"),
    ("resi-dual", lambda x, r, f, norm: (norm(x + f(x)), r), "not moved"),
    ("resi-dual", lambda x, r, f, norm: (norm(x + f(x)), x + f(x)), "starts again"),
    ("resi-dual", lambda x, r, f, norm: (norm(x + f(x)), norm(r + f(x))), "plain sum"),
    ("resi-dual", lambda x, r, f, norm: (norm(x + f(x)), r.detach() + f(x)), "cut off"),
    ("resi-dual", lambda x, f, norm: norm(x + f(x)), "second stream"),
    ("hybrid", lambda x, f, norm: x + f(norm(x)), "raw stream"),
    ("hybrid", lambda x, f, norm: norm(x) + f(x), "before the sublayer"),
    ("hybrid", lambda x, f, norm: norm(x + f(x)), "after the addition"),
    ("ngpt", lambda h, f, alpha: unit(h + alpha * unit(f(h))), "lacks − h"),
    ("ngpt", lambda h, f, alpha: h + alpha * (unit(f(h)) - h), "not renormalized"),
    ("ngpt", lambda h, f, alpha: unit(h + alpha * (f(h) - h)), "write is not normalized"),
    ("ngpt", lambda h, f, alpha: unit(alpha * h + (1 - alpha) * unit(f(h))), "kept"),
    ("ngpt", lambda h, f, alpha: unit(h + unit(f(h))), "ignored"),
    ("resnet-v1", lambda x, f, norm: x + torch.relu(norm(f(x))), "branch"),
    ("resnet-v1", lambda x, f, norm: x + norm(f(x)), "rectifier"),
    ("resnet-v1", lambda x, f, norm: torch.relu(x + f(x)), "norm"),
    ("resnet-v2", lambda x, f, norm: x + f(norm(torch.relu(x))), "before the norm"),
    ("resnet-v2", lambda x, f, norm: x + f(norm(x)), "rectifier"),
    ("resnet-v2", lambda x, f, norm: torch.relu(x + f(torch.relu(norm(x)))), "stream"),
    ("highway", lambda x, f, gate: x + gate(x) * f(x), "carry gate"),
    ("highway", lambda x, f, gate: (1 - gate(x)) * f(x) + gate(x) * x, "exchanged"),
    ("highway", lambda x, f, gate: f(x) + (1 - gate(x)) * x, "transform gate"),
    ("highway", lambda x, f, gate: gate(f(x)) * f(x) + (1 - gate(f(x))) * x, "output"),
    ("highway", lambda x, f: x + f(x), "both gates"),
]  # fmt: skip


class Wrapper(nn.Module):
    """Pre-Norm with dropout."""

    def __init__(self, make_norm, sublayer):
        super().__init__()
        self.norm, self.sublayer, self.drop = make_norm(), sublayer, nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.sublayer(self.norm(x)))


class TwoModes(Wrapper):
    def forward(self, x):
        pre = lambda: x + self.sublayer(self.norm(x))  # noqa: E731
        return pre() if self.training else self.norm(x + self.sublayer(x))


class Functional(Wrapper):
    def forward(self, x):
        return x + F.dropout(self.sublayer(self.norm(x)), 0.1, self.training)


class DeepWrapper(nn.Module):
    def __init__(self, make_norm, sublayer, depth):
        super().__init__()
        self.norm, self.fn, self.alpha = make_norm(), sublayer, (2 * depth) ** 0.25

    def forward(self, x, *args, **kwargs):
        return self.norm(torch.add(self.fn(x, *args, **kwargs), x, alpha=self.alpha))


class HighwayByHand(nn.Module):
    def __init__(self, dim, sublayer):
        super().__init__()
        self.transform, self.f = nn.Linear(dim, dim), sublayer

    def forward(self, x):
        t = torch.sigmoid(self.transform(x))
        return x + t * (self.f(x) - x)


RIGHT_STEPS = [
    ("none", lambda x, f: x + f(x)),
    ("post", lambda x, f, N: N(f(x) + x)),
    ("pre", Wrapper),
    ("pre", Functional),
    ("pre", lambda x, attn, mlp, ln_1, ln_2: (y := x + attn(ln_1(x))) + mlp(ln_2(y))),
    ("peri", lambda x, attention, feed_forward, *n: (
        (y := x + n[1](attention(n[0](x)))) + n[3](feed_forward(n[2](y))))),
    ("deepnorm", DeepWrapper),
    ("deepnorm", lambda x, f, norm, alpha=1.0: norm(f(x) + alpha * x)),
    ("deepnorm", lambda x, f, norm, alpha: norm(x + f(x) / alpha)),
    ("deepnorm", lambda x, f, norm, depth: norm((2 * depth) ** 0.25 * x + f(x))),
    ("keel", lambda x, f, norm, norm_out, sublayers: norm_out(f(norm(x)).add(x, alpha=sublayers))),
    ("keel", lambda x, f, n1, n2, depth: n2(2 * depth * x + f(n1(x)))),
    ("lns", lambda x, f, norm, number: x + f(number**-0.5 * norm(x))),
    ("lns", lambda x, f, norm, index: x + f(norm(x) / math.sqrt(index + 1))),
    ("admin", lambda x, f, norm, omega: norm(f(x) + x * omega)),
    ("b2t", lambda x, f, norm, entry: norm(entry + (x + f(x)))),
    ("b2t", lambda x, attn, ffn, n1, n2: n2(ffn(m := n1(attn(x) + x)) + m + x)),
    ("resi-dual", lambda x, r, f, norm: (norm(x + (w := f(x))), r + w)),
    ("hybrid", lambda x, f, norm: (z := norm(x)) + f(z)),
    ("hybrid", lambda x, attn, mlp, norm: (z := norm(x + attn(x))) + mlp(z)),
    ("pre-post", lambda x, a, f, n1, n2: (z := n2(x + a(n1(x)))) + f(z)),
    ("ngpt", lambda h, f, alpha: unit(h + alpha * (unit(f(h)) - h))),
    ("ngpt", lambda x, f, norm, alpha: norm((1 - alpha) * x + alpha * norm(f(x)))),
    ("resnet-v1", lambda x, f, norm: (x + norm(f(x))).clamp(min=0)),
    ("resnet-v2", lambda x, f, bn: f(F.relu(bn(x))) + x),
    ("highway", lambda x, f, gate: torch.lerp(x, f(x), gate(x))),
    ("highway", HighwayByHand),
]  # fmt: skip


# --- blocks by other hands ---


def hugging_face(model, layer, **changes):
    """Make one decoder layer of a tiny random model of transformers."""
    import transformers

    settings = getattr(transformers, f"{model}Config")(
        hidden_size=16, intermediate_size=20, num_attention_heads=2, num_key_value_heads=1,
        num_hidden_layers=4, vocab_size=8, attn_implementation="eager", attention_dropout=0.0,
        **changes,
    )  # fmt: skip
    path = f"transformers.models.{model.lower()}.modeling_{model.lower()}"
    kind = getattr(__import__(path, fromlist=["x"]), layer)
    takes_place = "layer_idx" in inspect.signature(kind).parameters
    return kind(settings, layer_idx=1) if takes_place else kind(settings)


def gpt2():
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    return GPT2Block(
        GPT2Config(n_embd=16, n_head=2, n_inner=20, attn_implementation="eager"), layer_idx=0
    )


def torch_layer(**options):
    settings = {"dropout": 0.0, "batch_first": True, **options}
    return nn.TransformerEncoderLayer(16, 2, 24, **settings)


class Fused(nn.Module):
    """Pre-Norm by hand: one matrix for q, k, v; `mask` and `move` may be wrong."""

    mask = staticmethod(lambda logits, ones: logits.masked_fill(ones.triu(1).bool(), -torch.inf))
    after = staticmethod(lambda weights, ones: weights)
    move = staticmethod(lambda x, f, norm: x + f(norm(x)))

    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.heads = heads
        self.qkv, self.out_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim, bias=False)
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)

    def attend(self, x):
        batch, time, _ = x.shape
        q, k, v = (t.view(batch, time, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, -1))  # fmt: skip
        logits, ones = q @ k.mT / q.shape[-1] ** 0.5, torch.ones(time, time)
        weights = self.after(self.mask(logits, ones).softmax(-1), ones)
        return self.out_proj((weights @ v).transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = self.move(x, self.attend, self.norm1)
        return self.move(x, lambda z: self.fc2(F.gelu(self.fc1(z))), self.norm2)


def fused(**changes):
    return type("Fused", (Fused,), {name: staticmethod(fn) for name, fn in changes.items()})


class Exchanged(Fused):
    def attend(self, x):
        return super().attend(x.transpose(0, 1)).transpose(0, 1)


class OneHead(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(dim, size, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf).softmax(-1) @ v


class ByHeads(nn.Module):
    """Pre-Norm with a list of heads and names that nobody knows; LayerNorm, ReLU."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.heads = nn.ModuleList(OneHead(n_embd, n_embd // n_head) for _ in range(n_head))
        self.mixer = nn.Linear(n_embd, n_embd)
        self.net = nn.Sequential(nn.Linear(n_embd, 40), nn.ReLU(), nn.Linear(40, n_embd))
        self.second, self.first = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, x):
        normed = self.first(x)
        x = x + self.mixer(torch.cat([head(normed) for head in self.heads], -1))
        return x + self.net(self.second(x))


BY_HEADS = {
    **{f"w{t[0]}": [f"heads.{i}.{t}.weight" for i in range(2)] for t in ("query", "key", "value")},
    "wo": "mixer.weight", "up": "net.0.weight", "down": "net.2.weight",
    "attention.norm": "first", "feed_forward.norm": "second",
}  # fmt: skip


class Sphere(nn.Module):
    """nGPT by hand, its scales stored as they are used."""

    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.heads, self.root = heads, dim**0.5
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(dim, hidden, bias=False) for _ in range(2))
        self.down, self.sqk = nn.Linear(hidden, dim, bias=False), nn.Parameter(torch.ones(dim))
        self.attn_alpha, self.mlp_alpha = (nn.Parameter(torch.full((dim,), 0.05)) for _ in "af")
        self.su, self.sv = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.ones(hidden))

    def attend(self, x):
        from labkit.attention import rotary_angles, rotate

        batch, time, dim = x.shape
        q, k, v = (w(x).view(batch, time, self.heads, -1).transpose(1, 2)
                   for w in (self.wq, self.wk, self.wv))  # fmt: skip
        s, angles = self.sqk.view(self.heads, 1, -1), rotary_angles(time, dim // self.heads)
        q, k = s * unit(rotate(q, angles)), s * unit(rotate(k, angles))
        hidden = torch.ones(time, time, dtype=torch.bool).triu(1)
        logits = (q @ k.mT * q.shape[-1] ** 0.5).masked_fill(hidden, -math.inf)
        return self.wo((logits.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))

    def forward(self, h):
        h = unit(torch.lerp(h, unit(self.attend(h)), self.attn_alpha.abs()))
        y = self.down(self.su * self.up(h) * F.silu(self.sv * self.root * self.gate(h)))
        return unit(torch.lerp(h, unit(y), self.mlp_alpha.abs()))


def no_mask(logits, ones):
    return logits


def masked(hides, fill=-torch.inf):
    """Make a class whose mask hides where `hides` says."""
    return fused(mask=lambda logits, ones: logits.masked_fill(hides(ones).bool(), fill))


CONFIG = {"config": config("pre")}
# name: (recipe, what makes it, further arguments)
FOREIGN = {
    "torch, post, GELU": ("post", lambda: torch_layer(activation="gelu"), {}),
    "torch, post, ReLU": ("post", torch_layer, {}),
    "torch, pre": ("pre", lambda: torch_layer(norm_first=True, bias=False), {}),
    "GPT-2": ("pre", gpt2, {}),
    "Llama": ("pre", lambda: hugging_face("Llama", "LlamaDecoderLayer"), {}),
    "BERT": ("post", lambda: hugging_face("Bert", "BertLayer", hidden_dropout_prob=0.0), {}),
    "ViT": ("pre", lambda: hugging_face("ViT", "ViTLayer"), {}),
    "OPT": ("pre", lambda: hugging_face(
        "OPT", "OPTDecoderLayer", ffn_dim=20, word_embed_proj_dim=16), {}),
    "Phi 3": ("pre", lambda: hugging_face("Phi3", "Phi3DecoderLayer", pad_token_id=0), {}),
    "OLMo 2": ("olmo2", lambda: hugging_face("Olmo2", "Olmo2DecoderLayer"), {}),
    "Gemma 2": ("gemma2", lambda: hugging_face(
        "Gemma2", "Gemma2DecoderLayer", head_dim=12, query_pre_attn_scalar=12), {}),
    "Qwen 3": ("qk", lambda: hugging_face("Qwen3", "Qwen3DecoderLayer", head_dim=8), {}),
    "by hand": ("pre", lambda: Fused, {}),
    "by hand, a config": ("pre", lambda: Fused, CONFIG),
    "by hand, post": ("post", lambda: fused(move=lambda x, f, norm: norm(f(x) + x)), {}),
    "a mask of -1e30": ("pre", lambda: masked(lambda ones: ones.triu(1), -1e30), {}),
    "no mask": ("pre", lambda: fused(mask=no_mask), {}),
    "names": ("pre", lambda: ByHeads, {"names": BY_HEADS}),
    "nGPT": ("ngpt", lambda: Sphere, {}),
}  # fmt: skip
TURNED = {"names": BY_HEADS | {"up": "net.2.weight", "down": "net.0.weight"}}
# name: (recipe, what makes it, part of the cause, further arguments)
WRONG_FOREIGN = {
    "no mask, config": ("pre", lambda: fused(mask=no_mask), "causal mask", CONFIG),
    "triu(2)": ("pre", lambda: masked(lambda ones: ones.triu(2)), "off by one", {}),
    "tril(-1)": ("pre", lambda: masked(lambda ones: ones.triu(0)), "does not see itself", {}),
    "mask after softmax": ("pre", lambda: fused(
        mask=no_mask, after=lambda weights, ones: weights * ones.tril()), "after the softmax", {}),
    "mask with 0": ("pre", lambda: masked(lambda ones: ones.triu(1), 0.0), "fills with 0", {}),
    "a window of 16": ("pre", lambda: masked(lambda ones: ones.triu(1) + ones.tril(-16)), "", {}),
    "both halves post": ("pre", lambda: fused(
        move=lambda x, f, norm: norm(x + f(x))), "both halves", {}),
    "twice x": ("pre", lambda: fused(move=lambda x, f, norm: 2 * x + f(norm(x))), "doubled", {}),
    "axes exchanged": ("pre", lambda: Exchanged, "first axis", {}),
    "torch, time first": ("pre", lambda: torch_layer(
        norm_first=True, batch_first=False), "batch_first=True", {}),
    "post as pre": ("pre", torch_layer, "after the addition", {}),
    "Llama as peri": ("peri", lambda: hugging_face("Llama", "LlamaDecoderLayer"), "", {}),
    "names exchanged": ("pre", lambda: ByHeads, "", TURNED),
    "other sizes": ("pre", lambda: Fused(32, 2, 20), "sizes", CONFIG),
    "names unknown": ("pre", lambda: ByHeads, "names={…}", {}),
    "no number": ("mix-ln", lambda: Fused, "must take the block's number", {}),
}  # fmt: skip
