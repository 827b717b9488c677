"""A whole block with weights of its own, which labkit's block is given by their names."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.attention import rotary_angles
from labkit.attention.parts import OwnGains
from labkit.check.block_call import arguments, call, roles
from labkit.check.block_subject import (
    SIDES,
    BlockSubject,
    Feed,
    Out,
    close,
    context_of,
    set_meanwhile,
    without_dropout,
)  # fmt: skip
from labkit.check.block_weights import Gains, Names, Piece, find
from labkit.check.case import Broken, Case, told
from labkit.model.block import Block
from labkit.model.config import ModelConfig
from labkit.norms import make_norm
from labkit.norms.unit import Scale, unit
from labkit.placements import recipe

# Numbers that modules and their configs hold, by the names they usually have.
HEADS = ("heads", "num_heads", "n_heads", "nhead", "n_head", "num_attention_heads", "h")
KV_HEADS = ("kv_heads", "num_kv_heads", "n_kv_heads", "num_key_value_heads")
INDEX = ("block", "block_index", "layer_index", "layer_idx", "index", "layer_id")
DEPTH = ("depth", "num_layers", "n_layers", "n_layer", "num_hidden_layers", "layers")
EPS = ("eps", "epsilon", "variance_epsilon", "norm_eps", "layer_norm_eps")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu, "silu": F.silu, "relu": F.relu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
}  # fmt: skip
NORM_KINDS = ("rms", "layer", "rms-gemma", "annotated-layer", "rms-outside", "scale", "l2", "dyt",
              "derf", "none")  # fmt: skip
MATRICES, COLUMNS = ("q", "k", "v", "gate", "up", "out", "down"), ("out", "down")


def attribute(module: nn.Module | None, names: Sequence[str], kind: type = int) -> Any:
    """Find a number by its name in the module, what it holds, or their configs; None: nowhere."""
    for one in [] if module is None else module.modules():
        for holder in (one, getattr(one, "config", None), getattr(one, "place", None)):
            for name in names:
                value = getattr(holder, name, None)
                if isinstance(value, kind) and not isinstance(value, bool):
                    return value
    return None


class ModuleSubject(BlockSubject):
    """A copy of the module in float64 with weights drawn at random, and labkit's block with them.

    `problems` says which parameters the recipe has and the module has not, or the other way round.
    """

    def __init__(
        self, given: nn.Module, name: str, config: ModelConfig | None, usual: ModelConfig,
        index: int | None, names: Names, seed: int,
    ):  # fmt: skip
        if sum(p.ndim >= 2 for p in given.parameters()) < 3:
            raise Broken(
                f"{type(given).__name__} is no block: attention and feed-forward have four "
                "matrices or more; hand in a block, a step (x, f, norm) or a wrapper (make_norm, "
                "sublayer)"
            )
        self.given, self.asked = given, config
        self.module = copy.deepcopy(given).to("cpu", torch.float64).eval().requires_grad_(True)
        heads = config.heads if config else attribute(given, HEADS) or usual.heads
        kv_heads = (config.kv_heads if config else attribute(given, KV_HEADS)) or heads
        self.found = find(self.module, names, heads, kv_heads)
        self.head_dim = self.found.shape("q")[0] // heads
        self._refuse_misfits(config)
        super().__init__(name, config or self._describe(name, heads, usual), 0, seed)
        last, hint = self.config.depth - 1, attribute(given, INDEX)
        self.index = index if index is not None else last if hint is None else min(hint, last)
        self.placement = self.row.placement(self.index, self.config.depth)
        self.takes = set(roles(self.module.forward, {
            "context", "angles", "cos_sin", "cos", "padding", "key_padding_mask"})[1:])  # fmt: skip
        self._draw()
        self._load_reference()
        self.angles = bool(self.takes & {"context", "angles", "cos_sin", "cos"})

    def _refuse_misfits(self, config: ModelConfig | None) -> None:
        kind, found = type(self.given).__name__, self.found
        needed = [role for role in MATRICES if role not in found.pieces and role != "gate"]
        if needed:
            shapes = ", ".join(f"{n} {tuple(p.shape)}" for n, p in found.own.items())
            raise Broken(
                f"{kind} has no parameter whose name says that it is {', '.join(needed)}; tell it "
                f"with names={{'{needed[0]}': '…', …}}. It has {shapes}",
                "the names of its matrices are not known: names={…} tells which is which",
            )
        shapes = {role: found.shape(role) for role in MATRICES if role in found.pieces}
        dim, hidden = found.shape("q")[-1], found.shape("up")[0]
        wanted = {"out": (dim, shapes["q"][0]), "up": (hidden, dim), "down": (dim, hidden)}
        if any(len(s) != 2 for s in shapes.values()) or any(
            shapes[r] != s for r, s in wanted.items()
        ):
            raise Broken(
                f"the matrices of {kind} have the shapes {shapes}; (out, in) is wanted, with two "
                "axes: names={'wq': 'name.T', …} turns one that is stored as (in, out)"
            )
        if config is not None and config.dim != dim:
            raise Broken(
                f"{kind} has parameters for a stream of width {dim}; the config says "
                f"dim={config.dim}",
                "module and config have different sizes",
            )

    def _describe(self, name: str, heads: int, usual: ModelConfig) -> ModelConfig:
        """Describe a module for which nobody gave a config, from its shapes."""
        found, sphere = self.found, recipe(name).sphere
        with_shift = any("bias" in gains.leaves for gains in found.norms[:1])
        return ModelConfig(
            name, "layer" if with_shift else "rms", found.shape("q")[-1],
            attribute(self.given, DEPTH) or usual.depth, heads,
            None if sphere else found.shape("k")[0] // self.head_dim, hidden=found.shape("up")[0],
            activation="swiglu" if "gate" in found.pieces else "gelu",
        )  # fmt: skip

    @torch.no_grad()
    def _draw(self) -> None:
        """Draw every parameter, so that no two gains are alike and none is 1."""
        for name, p in self.module.named_parameters():
            noise = self.normal(*p.shape)
            if p.ndim >= 2 and p.numel() > max(p.shape):
                p.copy_(noise * 1.2 / max(self.config.dim, min(p.shape[-2:])) ** 0.5)
            elif "bias" in name or "beta" in name:
                p.copy_(noise * 0.3)
            elif "alpha" in name and p.numel() > 1:  # of either sign: |α| counts
                p.copy_((0.5 + noise.abs()) * noise.sign())
            else:
                p.copy_(0.5 + torch.rand(p.shape, generator=self.generator, dtype=p.dtype))
        for role in MATRICES if self.row.sphere else ():
            for piece in self.found.pieces.get(role, []):
                view = piece.read(self.inner())
                view.copy_(unit(view.T).T if role in COLUMNS else unit(view))
        self.found.own = {name: p.detach() for name, p in self.module.named_parameters()}

    # --- labkit's block on the same weights ---

    def _load_reference(self) -> None:
        self.leaves, self.pieces, self.problems = {}, {}, []
        block: Any = Block(self.config, self.index).double()
        steps: list[Any] = [block.attention, block.feed_forward]
        attention, feed = steps[0].sublayer, steps[1].sublayer
        self.steps, self.causal, attention.head_dim = steps, attention.causal, self.head_dim
        for role in MATRICES:
            linear = getattr(attention if hasattr(attention, role) else feed, role)
            if linear is not None:
                self._load(linear, "weight", role)
                if f"{role}.bias" in self.found.pieces:
                    self._load(linear, "bias", f"{role}.bias")
        for holder, name in ((attention, "head_gain"), (attention, "temperature")):
            if getattr(holder, name) is not None:
                self._load(holder, name, name)
        if self.row.sphere:
            self._load(attention.s_qk, "weight", "s_qk")
            self._load(feed.s_uv, "weight", "s_uv")
            scales = [m for step in steps for m in step.modules() if isinstance(m, Scale)]
            self.factors = {scale: scale.factor for scale in scales}
        else:
            feed.__class__, feed.act = Feed, ACTIVATIONS["silu"]
        # A step's own factors, in the order of their places.
        own = {"alpha.weight": "alpha", "omega": "omega", "scale": "scale", "weight": "gate T",
               "bias": "gate T.bias"}  # fmt: skip
        for role in own.values():
            having = [s for s in steps for n, _ in s.named_parameters() if own.get(n) == role]
            for number, step in enumerate(having):
                name = next(n for n, r in own.items() if r == role).rpartition(".")[2]
                self._load(step.alpha if role == "alpha" else step,
                           "weight" if role == "alpha" else name, role, number)  # fmt: skip
        self._load_norms()
        self._load_inside(attention, feed)
        self.problems += self.strange.values()

    def _load(self, module: Any, name: str, role: str, number: int = 0) -> None:
        """Give one parameter of the reference the values of the module's."""
        pieces = self.found.pieces.get(role, [])
        if number < len(pieces):
            self._set(module, name, pieces[number], f"{role} {number or ''}".strip())
        else:  # random, so that it is missed
            self.problems.append(f"it has no parameter for {role.replace('_', ' ')}")
            getattr(module, name).data = 0.5 + self.normal(*getattr(module, name).shape).abs()

    def _set(self, module: Any, name: str, piece: Piece, label: str) -> None:
        value: Tensor = piece.read(self.found.own).clone()
        old: Any = getattr(module, name, None)
        if old is not None and old.numel() == value.numel():
            value = value.view(old.shape)
        setattr(module, name, nn.Parameter(value))
        self.leaves[label], self.pieces[label] = getattr(module, name), piece

    def _norm(self, gains: Gains, kind: str, eps: float | None) -> Any:
        """Make labkit's norm of a kind with somebody's gain, shift and slope."""
        if len(gains.size) == 2:
            plain: Any = make_norm(kind, gains.size[1]).double()
            plain.weight = None
            norm: Any = OwnGains(plain, *gains.size)
        else:
            scalar = sum(gains.size) <= 1
            norm = make_norm(kind, gains.width or self.config.dim if scalar else gains.size[0])
            norm = norm.double()
        for leaf in ("weight", "bias", "alpha", "shift"):
            if hasattr(norm, leaf) and leaf in gains.leaves:
                self._set(norm, leaf, gains.leaves[leaf], f"{gains.path}.{leaf}")
            elif hasattr(norm, leaf) and leaf in ("weight", "bias"):
                setattr(norm, leaf, None)
        if hasattr(norm, "eps") and eps is not None:
            norm.eps = eps
        return norm

    def _identify(self, gains: Gains, wanted: str) -> tuple[Any, Any]:
        """Make a norm as it is asked for, and as it is: what its module does, where it has one.

        eps is free, unless the config says it: a module's own attribute tells it, or the default.
        """
        asked = self.config.norm_eps
        hint = attribute(gains.owner, EPS, float) or attribute(self.given, EPS, float)
        right = self._norm(gains, wanted, hint if asked is None else asked)
        if gains.owner is None or len(gains.size) != 1:
            return right, right
        width = gains.size[0] if gains.size[0] > 1 else gains.width or self.config.dim
        x = 0.02 * self.normal(5, width)  # small, so that eps and where it stands count
        path = gains.path
        with torch.no_grad():
            try:
                came = gains.owner(x)
            except Exception:  # it wants more than x: nothing is known of it
                return right, right
            for kind in (wanted, *NORM_KINDS):
                for eps in dict.fromkeys((asked, hint, None, 1e-5, 1e-6)):
                    try:
                        actual = self._norm(gains, kind, eps)
                        if not close(actual(x), came, 1e-5):
                            continue
                    except Exception:  # a gain of another shape, say: not this kind
                        continue
                    if kind == wanted and asked in (None, eps):
                        return actual, actual
                    self.strange[path] = (
                        f"the norm {path} is missing: it does nothing" if kind == "none"
                        else f"its norm {path} is {kind}, not {wanted}" if kind != wanted
                        else f"eps of its norm {path} is {actual.eps:g}, not {asked:g}"
                    )  # fmt: skip
                    return self._norm(gains, wanted, asked), actual
        self.strange[path] = f"its norm {path} is no {wanted}; labkit.check says more"
        return self._norm(gains, wanted, hint), right

    def _load_norms(self) -> None:
        """Load the norms of the stream; a free kind is that of the first."""
        self.strange: dict[str, str] = {}
        wanted, count = self.config.norm_name, sum(len(step.norms) for step in self.steps)
        if self.asked is None and self.row.norm is None and self.found.norms:
            actual = self._identify(self.found.norms[0], wanted)[1]
            made = {type(make_norm(kind, 4)): kind for kind in NORM_KINDS}
            wanted = made.get(type(actual), wanted)
            self.strange.clear()
        pairs = [self._identify(gains, wanted) for gains in self.found.norms]
        self.norms, self.actual_norms = [p[0] for p in pairs], [p[1] for p in pairs]
        for norm, gains in zip(self.norms, self.found.norms, strict=True):
            for leaf in gains.leaves:
                self.leaves[f"{gains.path}.{leaf}"] = getattr(norm, leaf, torch.zeros(()))
        if not pairs and count and not self.found.inside:
            self.notes.append("the gains of its norms were not tested: there are none")
            self.norms = [self._norm(Gains("", None), wanted, None)] * count
        elif len(pairs) < count:
            equations = "; ".join(step.equation for step in self.steps)
            self.problems.append(
                f"it has {len(pairs)} norms on the stream, and the recipe {count}: {equations}"
            )

    def _load_inside(self, attention: Any, feed: Any) -> None:
        """Load the norms of q, k, v, c and the hidden vector; `inside` keeps them as they are."""
        self.inside: dict[str, Any] = {}
        kinds = {type(make_norm(kind, 4)): kind for kind in NORM_KINDS}
        for role in ("norm_q", "norm_k", "norm_v", "norm_c", "inner_norm"):
            holder = feed if role == "inner_norm" else attention
            right, gains = getattr(holder, role, None), self.found.inside.get(role)
            if gains is None:
                if right is not None and [*right.parameters()]:
                    self.problems.append(f"it has no parameter for {role}")
                continue
            wide = attention.norms is not None and attention.norms.share == "width"
            gains.width = self.config.dim if wide else self.head_dim
            gains.width = self.config.hidden_dim if holder is feed else gains.width
            bare: Any = right.norm if isinstance(right, OwnGains) else right
            plain = kinds.get(type(bare), "rms")
            asked, actual = self._identify(gains, plain)
            if not isinstance(actual, nn.Identity):
                self.inside[role] = actual
            if right is None:
                self.problems.append(f"the recipe has no place for its {gains.path}")
                continue
            sizes = [tuple(getattr(norm.weight, "shape", ())) for norm in (asked, right)]
            if sizes[0] == sizes[1] or not sizes[1]:
                setattr(holder, role, asked)
            else:
                self.problems.append(f"{gains.path} has the shape {sizes[0]}, not {sizes[1]}")

    # --- what is left open ---

    def choices(self) -> Iterator[None]:
        """Try activations and, on the sphere, how scales are stored; look at the rest once."""
        attention, feed = self.steps[0].sublayer, self.steps[1].sublayer
        self.angles = self.angles or self._minds_order()
        if self.row.sphere:
            for factors in (self.factors, dict.fromkeys(self.factors, 1.0)):
                for scale, factor in factors.items():
                    scale.factor = factor
                yield None
            return
        usual = {"swiglu": ["silu"], "gelu": ["gelu", "gelu-tanh"]}
        acts = usual.get(self.config.activation, [self.config.activation])
        causal = [attention.causal]
        if self.asked is None:
            named = {type(m).__name__.lower() for m in self.module.modules()}
            acts = sorted(ACTIVATIONS, key=lambda a: (a not in named, a not in acts))
            causal = [False, True] if self._sees_later() else [True]
        for attention.causal in causal:
            self.causal = attention.causal
            for name in acts:
                feed.act = ACTIVATIONS[name]
                yield None

    def _moved(self, change: Callable[[Tensor], Tensor], watched: int, row: int = 0) -> bool:
        """Return whether a token comes out otherwise when others change."""
        case = self.case("ordinary numbers", time=4)
        with torch.no_grad():
            before = self.run(case).stream[row, watched]
            after = self.run(case, change(case.x.clone())).stream[row, watched]
        return not close(after, before, 1e-9)

    def _sees_later(self) -> bool:
        return self._moved(lambda x: torch.cat((x[:, :3], x[:, 3:].flip(-1)), 1), 2)

    def _minds_order(self) -> bool:
        return self._moved(lambda x: x[:, [1, 0, 2, 3]], 2)

    def mixes_batch(self) -> bool:
        """Return whether one sequence of a batch depends on another."""
        return self._moved(lambda x: torch.cat((x[:1].flip(-1), x[1:])), 2, row=1)

    # --- runs ---

    def inner(self) -> dict[str, Tensor]:
        """Return the module's own parameters."""
        return dict(self.module.named_parameters())

    def gradients(self, came: dict[str, Tensor]) -> dict[str, Tensor]:
        """Cut the gradients of the module's parameters as their values are cut."""
        given = {name: g for name, g in came.items() if name not in self.found.own}
        return given | {label: self.pieces[label].read(came) for label in self.leaves}

    def in_dtype(self, dtype: torch.dtype) -> "ModuleSubject":
        """Return a copy in another precision."""
        other = copy.copy(self)
        other.module = copy.deepcopy(self.module).to(dtype)
        return other

    def training(self) -> Any:
        """Run a copy in training mode meanwhile, without its dropout."""
        twin = copy.deepcopy(self.module).train()
        without_dropout(twin)
        return set_meanwhile(self, "module", twin)

    @contextmanager
    def silenced(self, sides: Sequence[str]) -> Iterator[None]:
        """Set what the sublayers write with to 0 meanwhile."""
        roles_ = [role for role, side in zip(COLUMNS, SIDES, strict=True) if side in sides]
        labels = [label for r in roles_ for label in (r, f"{r}.bias") if label in self.leaves]
        tensors = [t for r in labels for t in (self.leaves[r], self.pieces[r].read(self.inner()))]
        with torch.no_grad():
            kept = [t.clone() for t in tensors]
            for t in tensors:
                t.zero_()
            try:
                yield
            finally:
                for t, before in zip(tensors, kept, strict=True):
                    t.copy_(before)

    def run(self, case: Case, x: Tensor | None = None) -> Out:
        """Call the module with what its forward asks for by name."""
        x = case.x.clone() if x is None else x
        time, kind = x.shape[1], x.dtype
        angles = rotary_angles(time, self.head_dim)
        doubled = torch.cat((angles, angles), -1)
        cos, sin, context = doubled.cos().to(kind), doubled.sin().to(kind), context_of(case, angles)
        known: dict[str, Any] = {
            "x": x, "context": context, "angles": angles.to(kind), "cos": cos, "sin": sin,
            "cos_sin": (cos[None], sin[None]), "positions": torch.arange(time)[None], "entry": x,
            "causal": self.causal, "second": x, **case.given,
        }  # fmt: skip
        known |= {"second": known.pop("r")} if "r" in known else {}
        if (padding := case.given.get("padding")) is not None:
            known["key_padding_mask"] = ~padding
        if self.causal:
            mask = torch.full((time, time), -torch.inf, dtype=kind).triu(1)
            four = any(p.name == "attention_mask" for p in arguments(self.module.forward))
            known["mask"] = mask[None, None] if four else mask
        try:
            result = call(self.module.forward, known, ("x",))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise Broken(f"on {case} your code raised {told(error)}") from error
        return self.outcome(result, case, context)
