"""Placements of norms: `RECIPES` is their table; each step is one equation.

A row defines how attention and feed-forward are placed on the stream (steps: see residual.py,
scaled.py, streams.py, images.py, sphere.py), which of q, k, v and c (the heads' outputs) have their
own norms, and the layers around the blocks. `labkit show NAME` prints a row in full.
"""

from labkit.placements.images import Highway, ResNetV1, ResNetV2
from labkit.placements.plan import Placement, Recipe
from labkit.placements.residual import (
    NoNorm,
    OutputNorm,
    PostNorm,
    PreNorm,
    SandwichNorm,
    StreamNorm,
)
from labkit.placements.scaled import Admin, DeepNorm, Keel, LayerNormScaling, ResidualScale
from labkit.placements.slots import AT, parse_slots
from labkit.placements.sphere import SphereStep
from labkit.placements.step import Place, Step
from labkit.placements.streams import BottomToTop, ResiDual
from labkit.system.unknown import explain_unknown

POST, PRE = Placement(PostNorm, PostNorm), Placement(PreNorm, PreNorm)
HYBRID = Placement(NoNorm, StreamNorm, "qkv rms")
TABLE_4 = "Zhuo et al. 2025, arXiv 2503.04598, Table 4"

RECIPES: dict[str, Recipe] = {
    "post": Recipe(POST, "Vaswani et al. 2017, arXiv 1706.03762", final_norm=False),
    "pre": Recipe(PRE, "Xiong et al. 2020, arXiv 2002.04745"),
    "output": Recipe(
        Placement(OutputNorm, OutputNorm),
        "Liu et al. 2021 (Swin v2), arXiv 2111.09883; OLMo 2, arXiv 2501.00656",
        note="OLMo 2 adds norms on q and k: the recipe olmo2"),
    "olmo2": Recipe(
        Placement(OutputNorm, OutputNorm, "olmo2"), "OLMo 2, arXiv 2501.00656",
        note="q and k are normed over their whole width, before heads and rotation"),
    "qk": Recipe(
        Placement(PreNorm, PreNorm, "qk rms"), "Dehghani et al. 2023 (ViT-22B), arXiv 2302.05442",
        note="Pre-Norm with norms on q and k; RMS as in Gemma 3 and Qwen 3, ViT-22B has LayerNorm"),
    "sandwich": Recipe(
        Placement(SandwichNorm, SandwichNorm), "Ding et al. 2021 (CogView), arXiv 2105.13290",
        note="CogView shrinks output weights by sqrt(2 · depth): the initialization gpt2"),
    "peri": Recipe(
        Placement(SandwichNorm, SandwichNorm), "Kim et al. 2025, arXiv 2502.02732",
        embedding_norm=True),
    "gemma2": Recipe(
        Placement(SandwichNorm, SandwichNorm), "Gemma 2, arXiv 2408.00118",
        softcap=50.0, logit_softcap=30.0, norm="rms-gemma",
        note="bounded logits, and no norm on q and k"),
    "gemma3": Recipe(
        Placement(SandwichNorm, SandwichNorm, "gemma3"), "Gemma 3, arXiv 2503.19786",
        norm="rms-gemma", note="norms on q and k in place of Gemma 2's bound"),
    "deepnorm": Recipe(
        Placement(DeepNorm, DeepNorm), "Wang et al. 2022, arXiv 2203.00555",
        final_norm=False, init="deepnorm"),
    "keel": Recipe(
        Placement(Keel, Keel), "Chen and Wei 2026, arXiv 2601.19895",
        first=Placement(PreNorm, Keel),
        final_norm=False,
        note="α counts sublayers; the first feed-forward has α = 1; the last norm is a step's"),
    "admin": Recipe(
        Placement(Admin, Admin), "Liu et al. 2020, arXiv 2004.08249",
        final_norm=False, profiled=True),
    "b2t": Recipe(
        Placement(PostNorm, BottomToTop), "Takase et al. 2023, arXiv 2206.00330",
        final_norm=False,
        note="the paper's code also shrinks all weights: the initialization b2t"),
    "resi-dual": Recipe(
        Placement(ResiDual, ResiDual), "Xie et al. 2023, arXiv 2304.14802", second_stream=True,
        note="r ← r + f(x) runs beside it from the embedding on; the output reads x + N(r)"),
    "realformer": Recipe(
        POST, "He et al. 2021, arXiv 2012.11747", final_norm=False, chain=True,
        note="attention logits add up from block to block, one chain for each kind of attention"),
    "sub-ln": Recipe(
        Placement(PreNorm, PreNorm, "c {norm} width shift"),
        "Wang et al. 2022 (Magneto), arXiv 2210.06423", inner_norm=True, init="magneto",
        note="a norm before each output matrix too; cross-attention has none there"),
    "normformer": Recipe(
        Placement(SandwichNorm, ResidualScale), "Shleifer et al. 2021, arXiv 2110.09456",
        inner_norm=True, head_gain=True,
        note="the gain for each head stands before the output matrix, as in the paper"),
    "mix-ln": Recipe(
        PRE, "Li et al. 2024, arXiv 2412.13795", first=POST, first_blocks=0.25),
    "lns": Recipe(
        Placement(LayerNormScaling, LayerNormScaling), "Sun et al. 2025, arXiv 2502.05795",
        init="normal"),
    "hybrid": Recipe(HYBRID, TABLE_4, note="Table 4's HybridNorm, which is QKV-Post"),
    "hybrid*": Recipe(
        HYBRID, TABLE_4, first=Placement(PreNorm, PreNorm, "qkv rms"),
        note="the first block is Pre-QKV-Pre"),
    "first-qkv-pre": Recipe(
        HYBRID, "Zhuo et al. 2025, arXiv 2503.04598, first blocks",
        first=Placement(NoNorm, PreNorm, "qkv rms"), note="the first block is QKV-Pre"),
    "embed-norm": Recipe(
        HYBRID, "Zhuo et al. 2025, arXiv 2503.04598, first blocks", embedding_norm=True),
    "qkvc-post": Recipe(Placement(NoNorm, StreamNorm, "qkvc rms"), TABLE_4),
    "qkc-post": Recipe(Placement(NoNorm, StreamNorm, "qkc rms"), TABLE_4),
    "qk-post": Recipe(Placement(NoNorm, StreamNorm, "qk rms"), TABLE_4, note="diverges there"),
    "kv-post": Recipe(Placement(NoNorm, StreamNorm, "kv rms"), TABLE_4),
    "kc-post": Recipe(Placement(NoNorm, StreamNorm, "kc rms"), TABLE_4),
    "pre-qkv-post": Recipe(Placement(PreNorm, StreamNorm, "qkv rms"), TABLE_4),
    "pre-qkv-pre": Recipe(
        Placement(PreNorm, PreNorm, "qkv rms"), TABLE_4,
        note="the paper's text calls its feed-forward Post-Norm; its formula and name do not"),
    "pre-qk-pre": Recipe(
        Placement(PreNorm, PreNorm, "qk rms"), TABLE_4, note="Pre-Norm with norms on q and k"),
    "qkv-pre": Recipe(Placement(NoNorm, PreNorm, "qkv rms"), TABLE_4),
    "post-pre": Recipe(Placement(StreamNorm, PreNorm), TABLE_4),
    "pre-post": Recipe(Placement(PreNorm, StreamNorm), TABLE_4),
    "ngpt": Recipe(
        Placement(SphereStep, SphereStep), "Loshchilov et al. 2024, arXiv 2410.01131",
        final_norm=False, sphere=True,
        note="all matrices are normalized after each optimizer step; no weight decay or warm-up"),
    "dyt": Recipe(
        PRE, "Zhu et al. 2025, arXiv 2503.10622", norm="dyt",
        norm_kw=(("bias", False),), embedding_scale=True,
        note="as in its LLaMA code: no shift; α starts by width, attention's by itself"),
    "derf": Recipe(
        PRE, "Chen et al. 2025, arXiv 2512.10938", norm="derf", embedding_scale=True,
        note="α for attention's norms apart from all others"),
    "resnet-v1": Recipe(
        Placement(ResNetV1, ResNetV1), "He et al. 2016a, arXiv 1512.03385", final_norm=False),
    "resnet-v2": Recipe(Placement(ResNetV2, ResNetV2), "He et al. 2016b, arXiv 1603.05027"),
    "highway": Recipe(
        Placement(Highway, Highway), "Srivastava et al. 2015, arXiv 1505.00387",
        final_norm=False),
    "overwritten": Recipe(
        Placement(StreamNorm, StreamNorm), "github.com/NVIDIA/ngpt, issue 1",
        note="a mistake, kept as a baseline: the norm overwrites the stream that skips carry"),
    "none": Recipe(
        Placement(NoNorm, NoNorm), "the plain residual stack", final_norm=False,
        note="no norm anywhere: what all others are compared with"),
}  # fmt: skip
ALIASES = {
    "post-norm": "post",
    "pre-norm": "pre",
    "output-norm": "output",
    "hybridnorm": "hybrid",
    "hybridnorm*": "hybrid*",
    "qkv-post": "hybrid",
    "layernorm-scaling": "lns",
}


def recipe(name: str) -> Recipe:
    """Look up a recipe by its name or alias; names like at:q,k are lists of slots (slots.py)."""
    if name.startswith(AT):
        return parse_slots(name)
    if (found := RECIPES.get(ALIASES.get(name, name))) is None:
        raise ValueError(explain_unknown("recipe", name, [*RECIPES, *ALIASES]))
    return found
