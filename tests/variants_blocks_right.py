"""Blocks of recipes that are right, each written in another way than labkit's, by family."""

import inspect
import math

import torch
import torch.nn.functional as F
from blocks_by_hand import Attention, FeedForward, Sphere, config, hand, steps
from blocks_parts import PRE, Erf, LateScores, WrongDyT, dual, normformer, unit
from blocks_parts import sub_ln_flow as sub_ln
from torch import nn

from labkit import placements
from labkit.model import Block


def hugging_face(model, layer, **changes):
    """Make one decoder layer of a tiny random model of transformers."""
    import transformers

    settings = getattr(transformers, f"{model}Config")(
        hidden_size=16, intermediate_size=20, num_attention_heads=2, num_key_value_heads=1,
        num_hidden_layers=4, vocab_size=8, attn_implementation="eager", attention_dropout=0.0,
        **changes,
    )  # fmt: skip
    module = __import__(f"transformers.models.{model.lower()}.modeling_{model.lower()}",
                        fromlist=["x"])  # fmt: skip
    kind = getattr(module, layer)
    takes_place = "layer_idx" in inspect.signature(kind).parameters
    return kind(settings, layer_idx=1) if takes_place else kind(settings)


def gpt2():
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    return GPT2Block(
        GPT2Config(n_embd=16, n_head=2, n_inner=20, attn_implementation="eager"), layer_idx=0
    )


class OneHead(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(dim, size, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        logits = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
        return logits.softmax(-1) @ v


class ByHeads(nn.Module):
    """Pre-Norm with a list of heads, biases in the feed-forward, LayerNorm."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.heads = nn.ModuleList(OneHead(n_embd, n_embd // n_head) for _ in range(n_head))
        self.proj = nn.Linear(n_embd, n_embd)
        self.net = nn.Sequential(
            nn.Linear(n_embd, 3 * n_embd), nn.ReLU(), nn.Linear(3 * n_embd, n_embd)
        )
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, x):
        normed = self.ln1(x)
        x = x + self.proj(torch.cat([head(normed) for head in self.heads], -1))
        return x + self.net(self.ln2(x))


class Einsum(nn.Module):
    """Post-Norm from bare parameters of shape (head, dim, channel)."""

    def __init__(self, dim, heads, hidden):
        super().__init__()
        size = dim // heads
        self.W_Q, self.W_K, self.W_V = (
            nn.Parameter(torch.randn(heads, dim, size)) for _ in range(3)
        )
        self.W_O = nn.Parameter(torch.randn(heads, size, dim))
        self.W_in, self.W_out = (
            nn.Parameter(torch.randn(dim, hidden)),
            nn.Parameter(torch.randn(hidden, dim)),
        )
        self.n_heads = heads
        self.ln1_w, self.ln2_w = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.ones(dim))

    def forward(self, x):
        q, k, v = (torch.einsum("btd,hdc->bhtc", x, w) for w in (self.W_Q, self.W_K, self.W_V))
        logits = torch.einsum("bhic,bhjc->bhij", q, k) / q.shape[-1] ** 0.5
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        weights = torch.softmax(logits.masked_fill(hidden, -1e9), -1)
        y = torch.einsum("bhij,bhjc,hcd->bid", weights, v, self.W_O)
        x = F.rms_norm(x + y, x.shape[-1:], self.ln1_w, 1e-6)
        return F.rms_norm(x + F.gelu(x @ self.W_in) @ self.W_out, x.shape[-1:], self.ln2_w, 1e-6)


def torch_layer(**options):
    return nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True, **options)


class DeepWrapper(nn.Module):
    def __init__(self, make_norm, sublayer, depth):
        super().__init__()
        self.norm, self.fn, self.alpha = make_norm(), sublayer, (2 * depth) ** 0.25

    def forward(self, x, *args, **kwargs):
        return self.norm(torch.add(self.fn(x, *args, **kwargs), x, alpha=self.alpha))


class DeepBlock(nn.Module):
    """DeepNorm that draws its own weights, as the paper says."""

    def __init__(self, dim, heads, hidden, depth):
        super().__init__()
        self.attn, self.mlp = Attention(dim, heads), FeedForward(dim, hidden)
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.alpha, beta = (2 * depth) ** 0.25, (8 * depth) ** -0.25
        for w in (self.attn.out_proj.weight, self.mlp.fc1.weight, self.mlp.fc2.weight):
            nn.init.xavier_normal_(w, gain=beta)
        for part, gain in zip(self.attn.qkv.weight.chunk(3), (1, 1, beta), strict=True):
            nn.init.xavier_normal_(part.data, gain=gain)

    def forward(self, x):
        x = self.ln1(self.alpha * x + self.attn(x))
        return self.ln2(self.alpha * x + self.mlp(x))


class FusedStep(nn.Module):
    def __init__(self, sublayer, norm, alpha):
        super().__init__()
        self.sublayer, self.norm, self.alpha = sublayer, norm, alpha

    def forward(self, x):
        return self.norm(self.sublayer(x) + x * self.alpha)


class SphereByRoots(Sphere):
    """nGPT with its scales stored as they are, and lerp in place of the sum."""

    def __init__(self, dim, heads, hidden):
        lerp = lambda h, y, a: F.normalize(torch.lerp(h, unit(y), a), dim=-1)  # noqa: E731
        super().__init__(dim, heads, hidden, plain=True, move=lerp)
        for scale, start in ((self.attn_alpha, 0.05), (self.mlp_alpha, 0.05), (self.sqk, 1.0)):
            scale.data.fill_(start)


class SphereOfConfig(Sphere):
    def __init__(self, config):
        super().__init__(config.dim, config.heads, config.hidden_dim)

    def normalize(self):
        for name, w in self.named_parameters():
            if w.ndim == 2:
                columns = name.startswith(("wo", "down"))
                w.data.copy_(F.normalize(w.data, dim=0 if columns else 1))


class Convolutional(nn.Module):
    """ResNet v1's step, as a module that is made from its parts."""

    def __init__(self, make_norm, sublayer):
        super().__init__()
        self.bn, self.f, self.relu = make_norm(), sublayer, nn.ReLU()

    def forward(self, x):
        return self.relu(self.bn(self.f(x)) + x)


class HighwayByHand(nn.Module):
    def __init__(self, dim, sublayer):
        super().__init__()
        self.transform, self.f = nn.Linear(dim, dim), sublayer

    def forward(self, x):
        t = torch.sigmoid(self.transform(x))
        return x + t * (self.f(x) - x)


def residual_keel(x, f, norm, norm_out, sublayers):
    return norm_out(f(norm(x)).add(x, alpha=sublayers))


def hybrid_first(config, block=0):
    """HybridNorm*: labkit's parts, put together once more."""
    made = Block(config, block)
    made.register_module("attention", Block(config, block).attention)
    return made


def hybrid_flow(b, x):
    y = torch.add(x, b.a(x))
    z = b.n1(y)
    return z.add(b.f(z))


def mix(config, block=0):
    from dataclasses import replace

    return Block(replace(config, recipe="post" if block < config.depth // 4 else "pre"))


RIGHT = {}
RIGHT["plain"] = {
    "post: torch, GELU": (torch_layer(activation="gelu"), "post", {}),
    "post: torch, ReLU": (torch_layer(), "post", {}),
    "pre: torch": (torch_layer(norm_first=True, bias=False), "pre", {}),
    "pre: Llama": (hugging_face("Llama", "LlamaDecoderLayer"), "pre", {}),
    "pre: GPT-2": (gpt2(), "pre", {}),
    "pre: heads in a list": (ByHeads, "pre", {}),
    "pre: fused": (steps(PRE), "pre", {"config": config("pre")}),
    "pre: whole": (
        lambda x, attn, mlp, ln_1, ln_2: (y := x + attn(ln_1(x))) + mlp(ln_2(y)),
        "pre",
        {},
    ),
    "post: einsum": (Einsum, "post", {}),
    "post: step": (lambda x, f, N: N(f(x) + x), "post", {}),
    "output: OLMo 2's placement": (steps(lambda x, f, n, b: x + n(f(x))), "output", {}),
    "post: BERT": (hugging_face("Bert", "BertLayer", hidden_dropout_prob=0.0), "post", {}),
    "pre: ViT": (hugging_face("ViT", "ViTLayer"), "pre", {}),
    "pre: OPT": (
        hugging_face("OPT", "OPTDecoderLayer", ffn_dim=20, word_embed_proj_dim=16),
        "pre",
        {},
    ),
    "pre: Phi 3": (hugging_face("Phi3", "Phi3DecoderLayer", pad_token_id=0), "pre", {}),
    "olmo2: transformers": (hugging_face("Olmo2", "Olmo2DecoderLayer"), "olmo2", {}),
    "gemma2: transformers": (
        hugging_face("Gemma2", "Gemma2DecoderLayer", head_dim=8, query_pre_attn_scalar=8),
        "gemma2",
        {},
    ),
    "gemma2: wide heads": (
        hugging_face("Gemma2", "Gemma2DecoderLayer", head_dim=12, query_pre_attn_scalar=12),
        "gemma2",
        {},
    ),
    "qk: Qwen 3": (hugging_face("Qwen3", "Qwen3DecoderLayer", head_dim=8), "qk", {}),
    "peri: whole": (
        lambda x, attention, feed_forward, *n: (
            (y := x + n[1](attention(n[0](x)))) + n[3](feed_forward(n[2](y)))
        ),
        "peri",
        {},
    ),
    "sandwich: block": (steps(lambda x, f, n, m, b: m(f(n(x))) + x, each=2), "sandwich", {}),
    "none": (lambda x, f: x + f(x), "none", {}),
}
RIGHT["deepnorm"] = {
    "alpha": (lambda x, f, norm, alpha=1.0: norm(f(x) + alpha * x), "deepnorm", {}),
    "depth": (lambda x, f, norm, depth: norm((2 * depth) ** 0.25 * x + f(x)), "deepnorm", {}),
    "wrapper": (DeepWrapper, "deepnorm", {}),
    "instances": (FusedStep, "deepnorm", {}),
    "own weights": (DeepBlock, "deepnorm", {}),
    "rescaled": (lambda x, f, norm, alpha: norm(x + f(x) / alpha), "deepnorm", {}),
    "instance": (
        DeepBlock(16, 2, 24, 9),
        "deepnorm",
        {"config": config("deepnorm", hidden=24, depth=9, norm="layer")},
    ),
}
RIGHT["scaled"] = {
    "keel: sublayers": (residual_keel, "keel", {}),
    "keel: depth": (lambda x, f, n1, n2, depth: n2(2 * depth * x + f(n1(x))), "keel", {}),
    "keel: labkit's": (placements.Keel, "keel", {}),
    "keel: block": (
        steps(lambda x, f, n, m, b: m(2 * b.depth * x + f(n(x))), each=2),
        "keel",
        {"index": 4},
    ),
    "lns: number": (lambda x, f, norm, number: x + f(number**-0.5 * norm(x)), "lns", {}),
    "lns: index": (lambda x, f, norm, index: x + f(norm(x) / math.sqrt(index + 1)), "lns", {}),
    "lns: block": (steps(lambda x, f, n, b: x + f(n(x) / (b.index + 1) ** 0.5)), "lns", {}),
    "admin: omega": (lambda x, f, norm, omega: norm(f(x) + x * omega), "admin", {}),
    "admin: block": (
        hand(
            lambda b, x: (lambda y: b.n2(b.omega2 * y + b.f(y)))(b.n1(b.omega1 * x + b.a(x))),
            vectors=(("omega1", 1.0), ("omega2", 1.0)),
        ),
        "admin",
        {},
    ),
    "admin: labkit's": (placements.Admin, "admin", {}),
}
RIGHT["streams"] = {
    "b2t: step": (lambda x, f, norm, entry: norm(entry + (x + f(x))), "b2t", {}),
    "b2t: whole": (lambda x, attn, ffn, n1, n2: n2(ffn(m := n1(attn(x) + x)) + m + x), "b2t", {}),
    "b2t: block": (
        hand(lambda b, x: (lambda y: b.n2(x + y + b.f(y)))(b.n1(x + b.a(x)))),
        "b2t",
        {},
    ),
    "resi-dual: step": (lambda x, r, f, norm: (norm(x + (w := f(x))), r + w), "resi-dual", {}),
    "resi-dual: block": (dual(lambda x, r, f, n: (n((w := f(x)) + x), w + r)), "resi-dual", {}),
    "resi-dual: labkit's": (placements.ResiDual, "resi-dual", {}),
    "realformer: block": (LateScores, "realformer", {"config": config("realformer")}),
    "realformer: open": (LateScores, "realformer", {}),
    "realformer: labkit's": (Block, "realformer", {"config": config("realformer", norm="layer")}),
}
RIGHT["inner"] = {
    "normformer: block": (normformer(), "normformer", {}),
    "normformer: config": (normformer(), "normformer", {"config": config("normformer")}),
    "normformer: other order": (
        normformer(lambda b, x: (lambda y: b.f(b.n1(y)) + y * b.lam)(b.n3(b.a(b.n2(x))) + x)),
        "normformer",
        {},
    ),
    "normformer: step": (
        lambda x, f, norm, lam: f(norm(x)) + lam * x,
        "normformer",
        {"part": "feed-forward"},
    ),
    "sub-ln: block": (hand(sub_ln, inner="after", inside="c", wide=True), "sub-ln", {}),
    "sub-ln: labkit's": (Block, "sub-ln", {"config": config("sub-ln", norm="layer")}),
    "sub-ln: config": (
        hand(sub_ln, inner="after", inside="c", wide=True),
        "sub-ln",
        {"config": config("sub-ln")},
    ),
}
RIGHT["hybrid"] = {
    "hybrid: block": (hand(hybrid_flow, norms=1, inside="qkv"), "hybrid", {}),
    "hybrid: step": (lambda x, f, norm: (z := norm(x)) + f(z), "hybrid", {}),
    "hybrid: norm twice": (lambda x, f, norm: norm(x) + f(norm(x)), "hybrid", {}),
    "hybrid: whole": (lambda x, attn, mlp, norm: (z := norm(x + attn(x))) + mlp(z), "hybrid", {}),
    "kc-post": (hand(hybrid_flow, norms=1, inside="kc"), "kc-post", {}),
    "qkvc-post": (hand(hybrid_flow, norms=1, inside="qkvc"), "qkvc-post", {}),
    "pre-qkv-pre": (steps(PRE, inside="qkv"), "pre-qkv-pre", {"config": config("pre-qkv-pre")}),
    "qkv-pre": (
        hand(lambda b, x: (lambda y: y + b.f(b.n1(y)))(x + b.a(x)), norms=1, inside="qkv"),
        "qkv-pre",
        {},
    ),
    "post-pre": (steps(lambda x, f, n, b: n(x) + f(n(x)), PRE), "post-pre", {}),
    "pre-post": (lambda x, a, f, n1, n2: (z := n2(x + a(n1(x)))) + f(z), "pre-post", {}),
}
RIGHT["first"] = {
    "hybrid*: labkit's": (hybrid_first, "hybrid*", {}),
    "hybrid*: first": (steps(PRE, inside="qkv"), "hybrid*", {"index": 0}),
    "hybrid*: others": (hand(hybrid_flow, norms=1, inside="qkv"), "hybrid*", {"index": 2}),
    "first-qkv-pre": (
        hand(lambda b, x: (lambda y: y + b.f(b.n1(y)))(x + b.a(x)), norms=1, inside="qkv"),
        "first-qkv-pre",
        {"index": 0},
    ),
    "mix-ln: by the block": (mix, "mix-ln", {}),
    "mix-ln: first": (steps(lambda x, f, n, b: n(x + f(x))), "mix-ln", {"index": 0}),
    "mix-ln: others": (lambda x, f, norm: x + f(norm(x)), "mix-ln", {}),
    "embed-norm": (hand(hybrid_flow, norms=1, inside="qkv"), "embed-norm", {}),
}
RIGHT["ngpt"] = {
    "by hand": (Sphere, "ngpt", {}),
    "scales as they are": (SphereByRoots, "ngpt", {}),
    "with a hook": (SphereOfConfig, "ngpt", {}),
    "step": (lambda h, f, alpha: unit(h + alpha * (unit(f(h)) - h)), "ngpt", {}),
    "step with its norm": (
        lambda x, f, norm, alpha: norm((1 - alpha) * x + alpha * norm(f(x))),
        "ngpt",
        {},
    ),
}
RIGHT["bounded"] = {
    "dyt: by hand": (steps(PRE, kind=WrongDyT), "dyt", {}),
    "dyt: config": (steps(PRE, kind=WrongDyT), "dyt", {"config": config("dyt")}),
    "dyt: step": (lambda x, f, norm: f(norm(x)) + x, "dyt", {}),
    "derf: by hand": (steps(PRE, kind=Erf), "derf", {}),
    "derf: labkit's": (Block, "derf", {"config": config("derf")}),
    "derf: instance": (Block(config("derf")), "derf", {"config": config("derf")}),
}
RIGHT["images"] = {
    "v1: step": (lambda x, f, norm: (x + norm(f(x))).clamp(min=0), "resnet-v1", {}),
    "v1: wrapper": (Convolutional, "resnet-v1", {}),
    "v1: block": (steps(lambda x, f, n, b: F.relu(n(f(x)) + x)), "resnet-v1", {}),
    "v2: step": (lambda x, f, bn: f(F.relu(bn(x))) + x, "resnet-v2", {}),
    "v2: block": (steps(lambda x, f, n, b: x + f(F.relu(n(x)))), "resnet-v2", {}),
    "highway: step": (lambda x, f, gate: torch.lerp(x, f(x), gate(x)), "highway", {}),
    "highway: wrapper": (HighwayByHand, "highway", {}),
    "highway: labkit's": (placements.Highway, "highway", {}),
}
