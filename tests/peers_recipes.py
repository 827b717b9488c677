"""Other people's whole models with our weights: which matrices correspond."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from peers import distance, hf, peer
from torch import Tensor, nn

from labkit.context import Context
from labkit.model import ModelConfig, Transformer
from labkit.placements.scaled import deepnorm_constants
from labkit.placements.sphere import normalize_weights

DIM, DEPTH, HEADS, KV_HEADS, HIDDEN, VOCAB, TIME = 32, 3, 4, 2, 48, 40, 9
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": DIM,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "intermediate_size": HIDDEN,
    "head_dim": DIM // HEADS,
    "max_position_embeddings": TIME,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
    "attn_implementation": "eager",
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OURS = {"dim": DIM, "depth": DEPTH, "heads": HEADS, "vocab": VOCAB, "hidden": HIDDEN}


@dataclass(frozen=True)
class Twin:
    """One recipe and one peer, with our weights in the peer.

    `names` maps our parameter names to the peer's; "{}" is the block. `run` runs both on the same
    input and gives (ours, theirs). `tolerance` is a share of the largest output.
    """

    recipe: str
    peer: str
    package: str
    make: Callable[[], tuple[Transformer, nn.Module]]
    run: Callable[[Transformer, nn.Module], tuple[Tensor, Tensor]]
    names: dict[str, str | tuple[str, ...]]
    change: dict[str, Callable[[Tensor], Tensor]] = field(default_factory=dict)
    tolerance: float = 3e-6
    verdict: str = "agrees"

    @property
    def name(self) -> str:
        return f"{self.recipe} | {self.peer}"

    def models(self) -> tuple[Transformer, nn.Module]:
        """Make both, with random vectors and our weights in the peer."""
        torch.manual_seed(0)
        ours, theirs = self.make()
        for parameter in ours.parameters():
            if parameter.ndim < 2:
                parameter.data += 0.2 * torch.rand_like(parameter)
        other, met = views(theirs), set()
        for parameter, name, target in self.pairs(ours, other):
            other[target].copy_(self.changed(name)(parameter.data).reshape(other[target].shape))
            met.add(target)
        for name in set(other) - met:  # what is left over may only be a shift or a position
            assert name.endswith(("bias", "beta", "freqs")), f"{self.name}: {name} is left"
            if not name.endswith("freqs"):
                other[name].zero_()
        return ours.eval(), theirs.eval()

    def pairs(self, ours: Transformer, other: dict[str, Tensor]) -> Iterator[tuple]:
        """Yield our parameters, their names without numbers, and the peer's names."""
        for name, parameter in ours.named_parameters():
            block = re.search(r"(?<=\.)\d+(?=\.)", name)
            pattern = name if block is None else name.replace(f".{block[0]}.", ".{}.", 1)
            i = 0 if block is None else int(block[0])
            targets = self.names[pattern]
            parts = (targets,) if isinstance(targets, str) else targets
            for part, piece in zip(parts, parameter.chunk(len(parts)), strict=True):
                target = part.format(i, a=2 * i, f=2 * i + 1)
                yield (piece if parts[1:] else parameter), pattern, target

    def changed(self, name: str) -> Callable[[Tensor], Tensor]:
        return self.change.get(name, lambda value: value)

    def compare(self) -> tuple[float, float]:
        """Return the largest relative differences of outputs and of gradients."""
        ours, theirs = self.models()
        mine, other = self.run(ours, theirs)
        probe = torch.randn(mine.shape, generator=torch.Generator().manual_seed(3)).to(mine.dtype)
        for y in (mine, other):
            (y * probe).sum().backward()
        found = views(theirs, lambda parameter: parameter.grad)
        gradients = [
            distance(parameter.grad.reshape(found[target].shape), found[target])
            for parameter, name, target in self.pairs(ours, found)
            if name not in self.change and parameter.is_leaf
        ]
        return distance(mine.detach(), other.detach()), max(gradients)


def views(
    model: nn.Module, of: Callable[[nn.Parameter], Tensor | None] = lambda parameter: parameter.data
) -> dict[str, Tensor]:
    """Return a peer's weights (or gradients) with q, k, v separated, as in our models."""
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        value = of(parameter)
        if value is None:
            continue
        if name.endswith("in_proj_weight"):
            found |= {f"{name}.{part}": x for part, x in zip("qkv", value.chunk(3), strict=True)}
        else:
            found[name] = value
    return found


def tokens() -> Tensor:
    return torch.randint(1, VOCAB, (2, TIME), generator=torch.Generator().manual_seed(1))


def stream() -> Tensor:
    return torch.randn(2, TIME, DIM, generator=torch.Generator().manual_seed(2))


# --- transformers: whole models, from tokens to logits ---

BLOCK = "model.layers.{}."
ATTENTION = {
    f"blocks.{{}}.attention.sublayer.{ours}.weight": f"{BLOCK}self_attn.{theirs}_proj.weight"
    for ours, theirs in (("q", "q"), ("k", "k"), ("v", "v"), ("out", "o"))
}
GATED = {
    f"blocks.{{}}.feed_forward.sublayer.{name}.weight": f"{BLOCK}mlp.{name}_proj.weight"
    for name in ("gate", "up", "down")
}
ENDS = {
    "embedding.weight": "model.embed_tokens.weight",
    "output.weight": "lm_head.weight",
    "final_norm.weight": "model.norm.weight",
}
HEAD_NORMS = {
    f"blocks.{{}}.attention.sublayer.norm_{name}.weight": f"{BLOCK}self_attn.{name}_norm.weight"
    for name in "qk"
}
TWO_NORMS = {
    "blocks.{}.attention.norm.weight": BLOCK + "input_layernorm.weight",
    "blocks.{}.feed_forward.norm.weight": BLOCK + "post_attention_layernorm.weight",
}
AFTER_NORMS = {
    "blocks.{}.attention.norm.weight": BLOCK + "post_attention_layernorm.weight",
    "blocks.{}.feed_forward.norm.weight": BLOCK + "post_feedforward_layernorm.weight",
}
FOUR_NORMS = {
    "blocks.{}.attention.norm.weight": BLOCK + "input_layernorm.weight",
    "blocks.{}.attention.norm_out.weight": BLOCK + "post_attention_layernorm.weight",
    "blocks.{}.feed_forward.norm.weight": BLOCK + "pre_feedforward_layernorm.weight",
    "blocks.{}.feed_forward.norm_out.weight": BLOCK + "post_feedforward_layernorm.weight",
}


def language_models(ours: Transformer, theirs: nn.Module) -> tuple[Tensor, Tensor]:
    return ours(tokens()), theirs(input_ids=tokens()).logits


def transformers_twin(recipe: str, name: str, module: str, norms: dict[str, str], **kw) -> Twin:
    """Pair a recipe with a causal language model of transformers; both have SwiGLU and RoPE."""
    package = peer("transformers")
    gemma = "Gemma" in name
    mine = {"norm_eps": 1e-6, "kv_heads": KV_HEADS, "context": TIME, **kw.pop("ours", {})}
    options = {**SIZES, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, **kw}

    def make() -> tuple[Transformer, nn.Module]:
        kind = getattr(hf(module), f"{name}ForCausalLM")
        config = getattr(package, f"{name}{'TextConfig' if name == 'Gemma3' else 'Config'}")
        return ModelConfig(recipe=recipe, **{**OURS, **mine}).build(), kind(config(**options))

    # We multiply the embedding by sqrt(dim); of these only Gemma does.
    change = {} if gemma else {"embedding.weight": lambda weight: weight * DIM**0.5}
    names = ENDS | ATTENTION | GATED | norms
    return Twin(recipe, name, "transformers", make, language_models, names, change)


BY_KIND = {"full_attention": SIZES["rope_parameters"]}  # rotation for each kind of layer
GEMMA = {"hidden_activation": "silu", "query_pre_attn_scalar": DIM // HEADS}
FULL = {"layer_types": ["full_attention"] * DEPTH}
TWINS = [
    transformers_twin("pre", "Llama", "llama", TWO_NORMS, ours={"norm": "rms-llama"}),
    transformers_twin(
        "qk", "Qwen3", "qwen3", TWO_NORMS | HEAD_NORMS, ours={"norm": "rms-llama"}
    ),
    transformers_twin("olmo2", "Olmo2", "olmo2", AFTER_NORMS | HEAD_NORMS),
    transformers_twin(  # caps so low that they bend the logits of random weights
        "gemma2", "Gemma2", "gemma2", FOUR_NORMS, **GEMMA, **FULL,
        ours={"softcap": 0.3, "logit_softcap": 0.5},
        attn_logit_softcapping=0.3, final_logit_softcapping=0.5,
    ),
    transformers_twin(
        "gemma3", "Gemma3", "gemma3", FOUR_NORMS | HEAD_NORMS, **GEMMA, **FULL,
        final_logit_softcapping=None,
        rope_parameters=BY_KIND,
    ),
]  # fmt: skip


# --- stacks of blocks on a stream, without positions ---


def through_blocks(ours: Transformer, x: Tensor) -> Tensor:
    """Run our blocks and final norm on a stream, with neither embedding nor positions."""
    context = Context()
    for block in ours.blocks:
        x = block(x, context)
    return ours.final_norm(x)


def bare(config: ModelConfig) -> Transformer:
    """Make a model and remove the parts that a stack of blocks does not have."""
    model = config.build()
    model.embedding = model.output = nn.Identity()
    return model


def stacks(ours: Transformer, theirs: nn.Module) -> tuple[Tensor, Tensor]:
    return through_blocks(ours, stream().double()), theirs(stream().double())


class Stack(nn.Module):
    """torch's encoder layers, one after another."""

    def __init__(self, layers: list[nn.Module], norm: nn.Module | None):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x if self.norm is None else self.norm(x)


def torch_twin(recipe: str, norm_first: bool) -> Twin:
    """Pair with nn.TransformerEncoderLayer, whose q, k, v are one matrix that receives ours."""

    def make() -> tuple[Transformer, nn.Module]:
        config = ModelConfig(
            recipe=recipe, norm="layer", kind="encoder", activation="relu", norm_eps=1e-5, **OURS
        )
        layers: list[nn.Module] = [
            nn.TransformerEncoderLayer(
                DIM, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=norm_first
            )
            for _ in range(DEPTH)
        ]
        ours = bare(config).double()
        stack = Stack(layers, nn.LayerNorm(DIM) if norm_first else None).double()
        return ours, stack

    at = "layers.{}."
    names = {
        f"blocks.{{}}.attention.sublayer.{name}.weight": f"{at}self_attn.in_proj_weight.{name}"
        for name in "qkv"
    } | {
        "blocks.{}.attention.sublayer.out.weight": at + "self_attn.out_proj.weight",
        "blocks.{}.feed_forward.sublayer.up.weight": at + "linear1.weight",
        "blocks.{}.feed_forward.sublayer.down.weight": at + "linear2.weight",
        "final_norm.weight": "norm.weight",
        "final_norm.bias": "norm.bias",
    }
    for ours_name, their_name in (("attention", "norm1"), ("feed_forward", "norm2")):
        for part in ("weight", "bias"):
            names[f"blocks.{{}}.{ours_name}.norm.{part}"] = f"{at}{their_name}.{part}"
    name = f"TransformerEncoderLayer({norm_first=})"
    return Twin(recipe, name, "torch", make, stacks, names, tolerance=1e-13)


X_STACK = {
    f"blocks.{{}}.attention.sublayer.{ours}.weight": f"layers.{{a}}.1.to_{ours}.weight"
    for ours in ("q", "k", "v", "out")
} | {
    "blocks.{}.feed_forward.sublayer.up.weight": "layers.{f}.1.ff.0.0.weight",
    "blocks.{}.feed_forward.sublayer.down.weight": "layers.{f}.1.ff.2.weight",
}
X_PARTS = {
    "layer": {"weight": "gamma"},
    "rms": {"weight": "g"},
    "scale": {"weight": "g"},
    "dyt": {"weight": "gamma", "bias": "beta", "alpha": "pre_tanh_scale"},
    "derf": {"weight": "gamma", "bias": "beta", "alpha": "alpha", "shift": "s"},
}


def x_transformers_twin(
    recipe: str, norm: str, seats: dict[str, int], ours: dict | None = None, **kw
) -> Twin:
    """Pair with x-transformers' Decoder. `seats`: our norm in a step -> its place in theirs.

    A place is 0 before the branch, 1 on what it writes, 2 on the stream after it.
    """
    heads = {name: ours.pop(name) for name in list(ours or {}) if name == "heads_normed"}

    def make() -> tuple[Transformer, nn.Module]:
        # their RMSNorm has no eps, their LayerNorm no bias
        options = {"layer": {"norm_kw": (("bias", False),)}, "rms": {"norm_eps": 0.0}}
        mine = {**OURS, "norm": norm, "activation": "gelu", **options.get(norm, {}), **(ours or {})}
        theirs = peer("x_transformers").Decoder(
            dim=DIM, depth=DEPTH, heads=HEADS, attn_dim_head=DIM // HEADS,
            ff_no_bias=True, ff_mult=HIDDEN / DIM, norm_add_unit_offset=False, **kw,
        )  # fmt: skip
        model = bare(ModelConfig(recipe=recipe, **mine))
        model.embedding_scale = None
        return model.double(), theirs.double()

    names = dict(X_STACK)
    for part, their_part in X_PARTS[norm].items():
        names[f"final_norm.{part}"] = f"final_norm.{their_part}"
        for seat, place in seats.items():
            names[f"blocks.{{}}.attention.{seat}.{part}"] = f"layers.{{a}}.0.{place}.{their_part}"
            other = f"layers.{{f}}.0.{place}.{their_part}"
            names[f"blocks.{{}}.feed_forward.{seat}.{part}"] = other
    change = {}
    if norm == "scale":
        change = {name: lambda g: g / DIM**0.5 for name in names if "norm" in name}
    for tensor in heads.get("heads_normed", ""):
        theirs = {"q": "q_rmsnorm", "k": "k_rmsnorm", "v": "value_rmsnorm"}[tensor]
        name = f"blocks.{{}}.attention.sublayer.norm_{tensor}.weight"
        names[name] = f"layers.{{a}}.1.{theirs}.gamma"
        change[name] = lambda gain: (gain - 1).repeat(HEADS)
    told = ", ".join(f"{key}={value}" for key, value in kw.items()) or "defaults"
    return Twin(
        recipe, f"Decoder({told})", "x-transformers", make, stacks, names, change, tolerance=1e-6
    )


def interleaved(weight: Tensor) -> Tensor:
    """Interleave channels i and i + head_dim/2, because nGPT-pytorch rotates adjacent pairs."""
    pairs = weight.reshape(HEADS, 2, DIM // HEADS // 2, -1)
    return pairs.transpose(1, 2).reshape(weight.shape)


def ngpt_twin() -> Twin:
    """Pair with nGPT-pytorch, which scales only q: by our scale squared."""

    def make() -> tuple[Transformer, nn.Module]:
        module = peer("nGPT_pytorch.nGPT")
        for name in ("nGPT", "Attention", "FeedForward", "NormLinear", "Scale"):
            # They define __eq__ without __hash__, so that parameters() raises.
            getattr(module, name).__hash__ = nn.Module.__hash__
        theirs = module.nGPT(
            num_tokens=VOCAB, dim=DIM, depth=DEPTH, dim_head=DIM // HEADS, heads=HEADS,
            ff_expand_factor=1.5 * HIDDEN / DIM, manual_norm_weights=True,
            add_value_residual=False, alpha_init=0.05,
        )  # fmt: skip
        ours = ModelConfig(recipe="ngpt", **OURS).build().double()
        normalize_weights(ours)  # to unit length in float64
        return ours, theirs.double()

    def run(ours: Transformer, theirs: nn.Module) -> tuple[Tensor, Tensor]:
        return ours(tokens()), theirs(tokens())

    at = "layers.{}.0.fn."
    names = {
        "embedding.weight": "token_embed.linear.weight",
        "output.weight": "to_logits.linear.weight",
        "s_z.weight": "logit_scale.scale",
        "blocks.{}.attention.sublayer.s_qk.weight": at + "qk_scale.scale",
        "blocks.{}.attention.alpha.weight": "layers.{}.0.branch_scale.scale",
        "blocks.{}.feed_forward.alpha.weight": "layers.{}.1.branch_scale.scale",
        "blocks.{}.feed_forward.sublayer.s_uv.weight": (
            "layers.{}.1.fn.hidden_scale.scale",
            "layers.{}.1.fn.gate_scale.scale",
        ),
    }
    for ours, theirs in (("q", "to_q"), ("k", "to_k"), ("v", "to_v"), ("out", "to_out")):
        names[f"blocks.{{}}.attention.sublayer.{ours}.weight"] = f"{at}{theirs}.linear.weight"
    for ours, theirs in (("up", "to_hidden"), ("gate", "to_gate"), ("down", "to_out")):
        name = f"blocks.{{}}.feed_forward.sublayer.{ours}.weight"
        names[name] = f"layers.{{}}.1.fn.{theirs}.linear.weight"
    change = {f"blocks.{{}}.attention.sublayer.{name}.weight": interleaved for name in "qk"} | {
        "blocks.{}.attention.sublayer.s_qk.weight": lambda s: interleaved(s * s),
        # They use the rows as they are and we renormalize them: the same rows, another gradient.
        "embedding.weight": lambda rows: rows,
    }
    # their rotation is computed in float32
    verdict = "agrees; one scale s on q for our s² on both, alpha without absolute value"
    return Twin("ngpt", "nGPT", "nGPT-pytorch", make, run, names, change, 1e-7, verdict)


ONE, TWO = {"norm": 0}, {"norm": 0, "norm_out": 1}
ALPHA = deepnorm_constants("decoder", 0, DEPTH).alpha
TWINS += [
    torch_twin("pre", norm_first=True),
    torch_twin("post", norm_first=False),
    x_transformers_twin("pre", "layer", ONE),
    x_transformers_twin("pre", "rms", ONE, use_rmsnorm=True),
    x_transformers_twin("pre", "scale", ONE, use_scalenorm=True),
    x_transformers_twin("dyt", "dyt", ONE, use_dynamic_tanh=True),
    x_transformers_twin("derf", "derf", ONE, use_derf=True),
    x_transformers_twin("post", "layer", {"norm": 2}, pre_norm=False),
    x_transformers_twin("sandwich", "rms", TWO, use_rmsnorm=True, sandwich_norm=True),
    x_transformers_twin("realformer", "layer", {"norm": 2}, pre_norm=False, residual_attn=True),
    x_transformers_twin(
        "deepnorm", "layer", {"norm": 2}, pre_norm=False, scale_residual_constant=ALPHA
    ),
    x_transformers_twin(
        "pre-qk-pre", "rms", ONE, {"heads_normed": "qk"}, use_rmsnorm=True, attn_qk_rmsnorm=True
    ),
    x_transformers_twin(
        "pre-qkv-pre", "rms", ONE, {"heads_normed": "qkv"},
        use_rmsnorm=True, attn_qk_rmsnorm=True, attn_value_rmsnorm=True,
    ),
    ngpt_twin(),
]  # fmt: skip
