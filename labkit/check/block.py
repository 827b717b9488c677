"""Check an implementation of a recipe's block, yours or a stranger's, against labkit's own.

    report = check.block(MyBlock, "pre", ModelConfig(recipe="pre", dim=32, heads=4))
    report = check.block(lambda x, f, norm: x + f(norm(x)), "pre")

The reference is labkit's block in float64 on the same weights; tests/recipe_equations.py has its
equations once more, from the papers. This file has what is asked, the laws and the search for a
cause; block_parts.py and block_module.py run what was handed in, block_subject.py what it is held
against; block_weights.py reads parameters by name; block_mistakes.py knows what may be wrong.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from labkit.check.block_call import arguments, call, role_of, roles
from labkit.check.block_mistakes import changes
from labkit.check.block_module import COLUMNS, MATRICES, ModuleSubject
from labkit.check.block_parts import PartsSubject
from labkit.check.block_subject import ALLOWED, RIGHT, SIDES, BlockSubject, Out, close, same
from labkit.check.block_weights import Names
from labkit.check.case import Broken, Case, Untested, describe, told
from labkit.check.report import Law, Report
from labkit.check.run import Implementation, refuse_nothing, try_all, try_law
from labkit.model.config import ModelConfig
from labkit.norms import NORMS
from labkit.norms.unit import unit
from labkit.placements import ALIASES
from labkit.placements import recipe as look_up

GRADIENT = 1e-3  # allowed, relative to the largest entry
_OVER_TOKENS = {"batch", "instance", "group", "power", "rep-batch", "prep-batch"}
_NUMBERED = {"index", "number", "sublayer_index", "place"}
_DEPTH = {"depth", "sublayers", "config", "place", "alpha"}


def block(
    given: Implementation,
    recipe: str,
    config: ModelConfig | None = None,
    *,
    index: int | None = None,
    part: str | None = None,
    names: Names | None = None,
    seed: int = 0,
) -> Report:
    """Check a block, or the step of one sublayer, against the equations of a recipe.

    `given` is one of these; arguments are recognized by their names, else by their order:

    - a block: an nn.Module, its class, or a function that makes one, for a stream of shape
      (batch, time, dim): attention runs over the second axis. The class or function takes a
      config (`MyBlock(config)`, and the block's number if it likes: `MyBlock(config, block=0)`), or
      sizes by name (dim, heads, hidden, kv_heads, depth, …). `forward(x)` returns the stream, or a
      tuple that starts with it; it may also take context (labkit.context.Context), angles (time,
      head_dim/2), position_embeddings (cos, sin), a mask that is added to the logits, is_causal,
      padding (True: a real token) or key_padding_mask (True: padding), prev (RealFormer's scores,
      which it returns too) and r (ResiDual's second stream, returned too).
    - a step: a function (x, f, norm), (x, f, norm, norm_out) or (x, f), of the stream and the
      sublayer. It may take alpha, omega, lam, gate, entry (the block's input), r, depth (blocks),
      sublayers, index (the block, from 0) or number (from 1). With r it returns (x, r).
    - a wrapper: a class or function (make_norm, sublayer), as labkit.placements.PostNorm, which
      makes a module; it may take place, dim, depth, index, number.
    - a whole block of functions: (x, attention, feed_forward, *norms), norms in their order.

    A module's parameters are read by their names: labkit's, torch's, GPT-2's, Llama's and their
    like are known; norms of the stream stand in the order in which the module defines them. `names`
    tells what is called otherwise, {"wq": "my.query.weight", …}: wq, wk, wv, wo or wqkv, up, gate,
    down, norm_q, attention.norm, attention.norm_out, feed_forward.norm, …; a list of names is put
    together row by row, and "name.T" is a matrix stored as (in, out). A block whose names nobody
    tells is refused.
    `config` says dimensions, norm, activation, kind and depth. Without it a module may have any
    norm, activation, positions and mask, as far as the recipe leaves them open; constants that
    depend on depth are those of 6 blocks. `index` is the block's number from 0: without it, a
    module's own attribute, else the last block; a class for a recipe that treats the first blocks
    in another way must take its number. Modules and wrappers are run in evaluation mode, and in
    training mode with dropout at 0.
    `part` names the half, attention or feed-forward, that a step or a wrapper is, where the two
    differ. `seed` draws other inputs and weights. Cross-attention is not checked.
    """
    look_up(recipe)
    recipe = ALIASES.get(recipe, recipe)
    if part not in (None, *SIDES):
        raise ValueError(f"part must be attention or feed-forward, got {part!r}")
    if config is not None and not isinstance(config, ModelConfig):
        raise TypeError(f"config must be a labkit.ModelConfig, got {type(config).__name__}")
    if config is not None and config.kind == "encoder-decoder":
        raise ValueError("a block of one stack is checked; use a config of kind decoder or encoder")
    title = f"check.block {recipe}"
    if refused := refuse_nothing(given, "a module, its class or a function"):
        return Report(title, (refused,))
    exam = BlockExam(given, recipe, config, index, part, names or {}, seed)

    def attempt(name: str, law: Callable[..., None], exam: BlockExam) -> Law | None:
        return try_law(name, law, exam) if exam.settled or name == "runs" else None

    def notes(exam: BlockExam) -> tuple[str, ...]:
        return tuple(dict.fromkeys(exam.notes))

    return try_all(title, exam.prepare, LAWS, notes, attempt)


def form_of(given: Any, recipe: str) -> str:
    """Name the form of what was handed in: module, class (or maker), step, wrapper, whole."""
    if isinstance(given, nn.Module):
        return "module"
    listed, row = arguments(given), look_up(recipe).block
    meant = roles(given, {"make_norm", "config", "attention", "feed_forward", "sublayer"})
    if isinstance(given, type):
        return "wrapper" if {"make_norm", "sublayer"} & set(meant) else "class"
    required = [p for p in listed if p.default is p.empty]
    if ("config" in meant[:1] and listed[0].name not in ("c", "h")) or len(required) <= 1:
        return "class"
    if meant[0] == "make_norm":
        return "wrapper"
    if "attention" in meant[1:] and "feed_forward" in meant[1:]:
        return "whole"
    if meant[0] is None and role_of(listed[0].name, {"dim"}) and role_of(listed[1].name, {"heads"}):
        return "class"
    # By their number: (x, attention, feed-forward, every norm), where no step takes as many.
    norms = [len(row.attention.norms), len(row.feed_forward.norms)]
    many = len(required) == 3 + sum(norms) and len(required) - 2 not in norms
    return "whole" if many and meant[1] != "sublayer" else "step"


@dataclass
class BlockExam:
    """One check: what was handed in, the subject made of it, and one explanation for all laws."""

    given: Any
    recipe: str
    config: ModelConfig | None
    index: int | None
    part: str | None
    names: Names
    seed: int
    settled = False  # it runs, and what the recipe leaves open was chosen
    off = False  # a value came out wrong; what follows proves little
    subject: BlockSubject = field(init=False)
    _cause: str | None = None

    # --- what is held against what ---

    def prepare(self) -> "BlockExam":
        """Make the subject."""
        self.form = form_of(self.given, self.recipe)
        taken = roles(self.given, _NUMBERED | _DEPTH) if self.form != "module" else []
        self.taken = {role for role in taken if role}
        self.subject = self.make(self.config, self.index)
        self.notes = self.subject.notes
        if (config := self.config) and ALIASES.get(config.recipe, config.recipe) != self.recipe:
            self.notes.append(
                f"the config is for {config.recipe!r}; it was taken with {self.recipe!r} instead"
            )
        return self

    def make(self, config: ModelConfig | None, index: int | None) -> BlockSubject:
        """Make the subject, for the config and block that were named or for others."""
        small: Any = {"dim": 16, "heads": 2, "hidden": 20, "depth": 6, "context": 16}
        settled = config or ModelConfig(self.recipe, **small)
        settled = settled if settled.recipe == self.recipe else replace(settled, recipe=self.recipe)
        if settled.experts is not None:
            raise Broken("a block with experts cannot be checked; leave config.experts out")
        if settled.norm_name in _OVER_TOKENS:
            fits = ", ".join(name for name in NORMS if name not in _OVER_TOKENS)
            raise Broken(
                f"a block is checked with a norm of one vector ({fits}), got "
                f"{settled.norm_name!r}; check that norm by itself, by the check of its name or by "
                "check.any_norm"
            )
        if self.form not in ("module", "class"):
            return PartsSubject(
                self.given, self.form, self.recipe, settled, index, self.part, self.seed
            )
        module, named = self.given, None if config is None else settled
        if self.form == "class":
            index = 0 if index is None and self.taken & {"index", "number"} else index
            module = self._build(settled, index or 0)
            named = settled if config is not None or "config" in self.taken else None
        return ModuleSubject(module, self.recipe, named, settled, index, self.names, self.seed)

    def _build(self, config: ModelConfig, index: int) -> nn.Module:
        """Make a module from a class or a maker, from a config or from sizes by name."""
        known: dict[str, Any] = {
            "config": config, "dim": config.dim, "heads": config.heads, "hidden": config.hidden_dim,
            "kv_heads": config.kv_heads or config.heads, "depth": config.depth, "dropout": 0.0,
            "head_dim": config.dim // config.heads, "sublayers": 2 * config.depth,
            "index": index, "number": index + 1, "causal": config.kind != "encoder",
        }  # fmt: skip
        strange = not any(roles(self.given, known)) and arguments(self.given)
        try:
            order = ("config", "dim", "heads", "hidden")
            made = self.given(config) if strange else call(self.given, known, order)
        except Exception as error:
            raise Broken(f"making the block raised {told(error)}") from error
        if not isinstance(made, nn.Module):
            raise Broken(f"it made a {type(made).__name__}, where an nn.Module is wanted")
        return made

    def settle(self) -> None:
        """Run it, and choose, among what the recipe leaves open, what fits; else the likeliest.

        The best fit first: GELU and its approximation by tanh differ by less than is allowed.
        """
        self.cases = [self.subject.case("ordinary numbers", batch=1, time=t) for t in (4, 3)]
        self.actual = [self.run(case) for case in self.cases]
        try:
            self.fits = self._choose()
        except Broken:
            raise
        except Exception as error:  # our reference does not run on such weights
            raise Broken(f"it could not be prepared: {told(error)}") from error
        self.settled = True

    def _choose(self) -> bool:
        """Choose what is left open, and return whether all that came fits."""
        for allowed in (1e-5, ALLOWED):
            for _ in self.subject.choices():
                if self._matches(allowed=allowed):
                    return True
        next(iter(self.subject.choices()))
        return False

    def note_what_was_chosen(self) -> None:
        """Tell what the reader did not ask for in so many words."""
        subject = self.subject
        if isinstance(subject, PartsSubject) and subject.free:
            other = next(side for side in SIDES if side not in subject.sides)
            self.notes.append(
                f"it was held against the {subject.sides[0]} half, {subject.steps[0].equation}; "
                f"name the other one with part={other!r}"
            )
        elif self.fits and not subject.causal and self.config is None and self.form == "module":
            self.notes.append(
                "it sees later tokens, as an encoder's block may; a config of kind decoder refuses "
                "that"
            )

    def run(self, case: Case) -> Out:
        """Run what was handed in."""
        with torch.no_grad():
            return self.subject.run(case)

    @torch.no_grad()
    def _matches(self, change: Any = RIGHT, allowed: float = ALLOWED) -> bool:
        pairs = zip(self.cases, self.actual, strict=True)
        return all(same(actual, self.subject.truth(c, change), allowed) for c, actual in pairs)

    def compare(self, case: Case) -> None:
        """Hold all that comes on a case against the reference."""
        with torch.no_grad():
            actual, expected = self.run(case), self.subject.truth(case)
        for (name, came), (_, wanted) in zip(actual.parts(), expected.parts(), strict=True):
            if came is None and wanted is not None:
                raise Broken(
                    f"on {case} no {name} came: take it and return it too, or use the context",
                    f"the {name} of the blocks before are not carried on, not accumulated",
                )
            if came is not None and wanted is not None and not close(came, wanted):
                self.off = True
                what = f", {name}" if name else ""
                raise Broken(describe(case, came, wanted, what), self.cause())

    # --- why ---

    def cause(self, usual: str = "") -> str:
        """Return the mistake that gives what came, looked for once; else a usual one.

        A usual mistake explains no wrong value, so it is not told once a value was wrong.
        """
        if self._cause is None:
            self._cause = "" if self.fits else self._explain()
        return self._cause or ("" if self.off else usual)

    def _explain(self) -> str:
        first = self.actual[0].stream
        if not close(self.run(self.cases[0]).stream, first, 1e-9) and bool(first.isfinite().all()):
            return "something random or remembered takes part in evaluation mode"
        if bool(first[:, 0].isnan().all()) and bool(first[:, 1:].isfinite().all()):
            return (
                "the causal mask is off by one: a token does not see itself, and the first sees "
                "nothing (tril(-1) for tril(0), > for >=)"
            )
        if isinstance(self.subject, ModuleSubject) and self.subject.mixes_batch():
            return (
                "attention runs over the first axis: batch_first=True is missing, or the axes are "
                "exchanged; (batch, time, dim) is the rule: hand it in with batch_first=True"
            )
        for _ in self.subject.choices():
            for change in changes(self.subject):
                try:
                    if self._matches(change):
                        return change.sentence
                except (RuntimeError, ValueError, ArithmeticError, TypeError, AttributeError):
                    continue  # shapes that do not fit: it is another mistake
        return ""


# --- the laws ---


def runs(exam: BlockExam) -> None:
    """Take a stream of shape (batch, time, dim) and return one of the same shape."""
    exam.settle()
    exam.note_what_was_chosen()
    exam.run(exam.subject.case("ordinary numbers"))


def has_parameters(exam: BlockExam) -> None:
    """Have every matrix, and a norm with a gain of its own at each place."""
    if not isinstance(exam.subject, ModuleSubject):
        raise Untested()
    if exam.subject.problems:
        strange = "; ".join(exam.subject.strange.values())
        usual = strange or "a norm or a matrix is missing, or two places share one"
        cause = exam.cause() or usual
        raise Broken("; ".join(exam.subject.problems), cause)


def value(exam: BlockExam) -> None:
    """Match the recipe's equations in float64."""
    exam.compare(exam.subject.case("ordinary numbers"))
    exam.compare(exam.subject.case("again", time=7))
    large = exam.subject.case("many long sequences", batch=6, time=40)
    try:
        exam.run(large)
    except Broken:
        exam.notes.append("40 tokens were not checked: it does not take as many")
        return
    exam.compare(large)


def _silent(exam: BlockExam, halves: tuple[str, ...], silent: tuple[str, ...], about: str) -> None:
    if exam.subject.row.sphere or exam.subject.sides != halves:
        raise Untested()
    with exam.subject.silenced(silent):
        exam.compare(exam.subject.case(about))


def attention_half(exam: BlockExam) -> None:
    """Match the equations when the feed-forward writes nothing."""
    _silent(exam, SIDES, SIDES[1:], "the feed-forward writes nothing")


def feed_forward_half(exam: BlockExam) -> None:
    """Match the equations when the attention writes nothing."""
    _silent(exam, SIDES, SIDES[:1], "the attention writes nothing")


def skip(exam: BlockExam) -> None:
    """Leave of x what the equations leave when no sublayer writes anything."""
    sides = exam.subject.sides
    _silent(exam, sides, sides, "no sublayer writes anything")


def shapes(exam: BlockExam) -> None:
    """Match them for one token, one sequence and many."""
    exam.compare(exam.subject.case("one token", batch=1, time=1))
    exam.compare(exam.subject.case("four short sequences", batch=4, time=2))
    exam.compare(exam.subject.case("one long sequence", batch=1, time=11))


def scales(exam: BlockExam) -> None:
    """Match them for a small and for a large stream: norms stand where they should."""
    if exam.subject.row.sphere:
        raise Untested()
    exam.compare(exam.subject.case("a small stream", scale=0.3))
    exam.compare(exam.subject.case("a large stream", scale=100.0))


def causal(exam: BlockExam) -> None:
    """Let no token see a later one."""
    if not isinstance(exam.subject, ModuleSubject) or not exam.subject.causal:
        raise Untested()
    case = exam.subject.case("ordinary numbers")
    moved = case.x.clone()
    moved[:, 3] = moved[:, 3] * -1.5 + 1
    moved = unit(moved) if exam.subject.row.sphere else moved
    before, after = exam.run(case).stream[:, :3], exam.run(replace(case, x=moved)).stream[:, :3]
    if not close(after, before, 1e-9):
        raise Broken(
            describe(case, after, before, ", token 3 changed, an earlier token"),
            exam.cause("the causal mask is missing, or a norm runs over the tokens"),
        )


def padding(exam: BlockExam) -> None:
    """Let no token see a padded one, where a mask of padding is taken."""
    subject = exam.subject
    if not isinstance(subject, ModuleSubject) or not subject.takes & {
        "context", "padding", "key_padding_mask",
    }:  # fmt: skip
        raise Untested()
    case = subject.case("two tokens of the first sequence are padding")
    real = torch.ones(case.x.shape[:2], dtype=torch.bool)
    real[0, :2] = False  # the first: a causal mask does not hide them
    case = case.but(padding=real)
    with torch.no_grad():
        actual, expected = exam.run(case).stream[real], subject.truth(case).stream[real]
    if not close(actual, expected):
        raise Broken(
            describe(case, actual, expected, ", real tokens"),
            exam.cause("padding is not masked, or its mask has the opposite sense"),
        )


def _slopes(
    run: Callable[[Case], Out], inner: dict[str, Tensor], case: Case, weights: list[Tensor | None]
) -> dict[str, Tensor]:
    """Differentiate all that comes, weighed at random, by all that goes in and is inside."""
    leaves = {name: t.clone().requires_grad_(True) for name, t in case.tensors().items()}
    out = run(case.map(lambda name, _: leaves[name] * 1))
    if not out.stream.requires_grad:
        raise Broken(f"on {case} the new stream has no gradient: it was cut off (detach, no_grad)")
    pairs = zip(out.parts(), weights, strict=True)
    total = sum((t * w).sum() for (_, t), w in pairs if t is not None and w is not None)
    places = {**leaves, **inner}
    grads = torch.autograd.grad(total, [*places.values()], allow_unused=True)  # pyright: ignore
    return {name: torch.zeros_like(p) if g is None else g
            for (name, p), g in zip(places.items(), grads, strict=True)}  # fmt: skip


def _gradient(exam: BlockExam, by_inputs: bool) -> None:
    subject = exam.subject
    case = subject.case("ordinary numbers", batch=1, time=4)
    with torch.no_grad():
        parts = subject.truth(case).parts()
    weights = [None if t is None else subject.normal(*t.shape) for _, t in parts]
    run = lambda one: subject.run(one, one.x)  # noqa: E731
    actual = subject.gradients(_slopes(run, subject.inner(), case, weights))
    expected = _slopes(subject.truth, subject.leaves, case, weights)
    for role in MATRICES if subject.row.sphere and isinstance(subject, ModuleSubject) else ():
        # Only the part along the sphere: a block may renormalize its weights in the forward pass.
        w, axis = subject.leaves[role].detach(), 0 if role in COLUMNS else 1
        for g in (actual, expected):
            g[role] = g[role] - (g[role] * w).sum(axis, keepdim=True) * w
    largest = max(g.abs().max().item() for g in expected.values())
    for name in [n for n in expected if (n in case.tensors()) == by_inputs]:
        came, wanted = actual[name].view(expected[name].shape), expected[name]
        # The second part: a key's bias, say, has gradient 0 but for rounding.
        allowed = GRADIENT * wanted.abs().max().item() + 1e-5 * largest
        if (came - wanted).abs().max().item() > allowed:
            raise Broken(
                describe(case, came, wanted, f", gradient of {name}"),
                exam.cause("part of the way is cut off (detach, no_grad, .data) or scaled"),
            )


def gradient_x(exam: BlockExam) -> None:
    """Return the gradient of x, and of whatever else comes in."""
    _gradient(exam, by_inputs=True)


def gradient_parameters(exam: BlockExam) -> None:
    """Give every parameter its gradient."""
    _gradient(exam, by_inputs=False)


def inputs_kept(exam: BlockExam) -> None:
    """Leave x and the parameters as they were."""
    case, own = exam.subject.case("ordinary numbers"), exam.subject.inner().values()
    x, before = case.x.clone(), [p.detach().clone() for p in own]
    with torch.no_grad():
        exam.subject.run(case, x)
    if not torch.equal(x, case.x):
        raise Broken(
            f"on {case} x was overwritten",
            "an in-place operation (+=, add_, mul_) on the stream or a view of it",
        )
    if any(not torch.equal(p, b) for p, b in zip(own, before, strict=True)):
        raise Broken(f"on {case} a parameter was changed by the forward pass", "in-place code")


def repeatable(exam: BlockExam) -> None:
    """Give the same result for the same input."""
    case = exam.subject.case("ordinary numbers")
    first, second = exam.run(case).stream, exam.run(case).stream
    if not close(second, first, 1e-9):
        usual = "something random or remembered takes part in evaluation mode"
        raise Broken(describe(case, second, first, ", called a second time"), exam.cause() or usual)


def training(exam: BlockExam) -> None:
    """Match the equations in training mode too, with dropout at 0."""
    subject = exam.subject
    if exam.off or subject.training is None:
        raise Untested()
    inner = subject.module.modules() if isinstance(subject, ModuleSubject) else ()
    if any(isinstance(m, _BatchNorm) for m in inner):
        exam.notes.append("training mode was not checked: a norm has running statistics")
        raise Untested()
    case, made = subject.case("in training mode"), []
    with subject.training():
        for seed in range(2):
            torch.manual_seed(seed)
            made.append(exam.run(case).stream)
    if not close(made[1], made[0], 1e-9):
        exam.notes.append("training mode was not checked: something random remains in it")
        raise Untested()
    with torch.no_grad():
        expected = subject.truth(case).stream
    if not close(made[0], expected):
        cause = "it does one thing in training mode and another in evaluation mode"
        raise Broken(describe(case, made[0], expected), cause)


def precision(exam: BlockExam) -> None:
    """Stay close to float64 in float32 and in bfloat16, in the dtype that came in."""
    case = exam.subject.case("precision")
    expected = exam.run(case).stream
    for dtype, allowed in ((torch.float32, 1e-4), (torch.bfloat16, 0.15)):
        with torch.no_grad():
            narrow = case.map(lambda _, t, dtype=dtype: t.to(dtype))
            actual = exam.subject.in_dtype(dtype).run(narrow).stream
        if actual.dtype != dtype:
            raise Broken(
                f"on {case} in {dtype} the new stream is {actual.dtype}",
                "a cast to another dtype that is not undone",
            )
        if not bool(actual.isfinite().all()) or not close(actual, expected, allowed):
            raise Broken(
                describe(case, actual, expected, f" in {dtype}"), exam.cause("lost precision")
            )


def constants(exam: BlockExam) -> None:
    """Match the equations for other depths and other blocks of the stack."""
    row, taken, scaled = exam.subject.row, exam.taken, exam.recipe == "lns"
    if row.first is None and exam.recipe not in ("deepnorm", "lns"):
        raise Untested()
    _must_know_its_block(exam)
    numbered = taken & _NUMBERED or (scaled and exam.form not in ("module", "class"))
    if exam.form == "module" or not (numbered or taken & _DEPTH):
        raise Untested()
    base = replace(exam.config or exam.subject.config, recipe=exam.recipe)
    for depth in (3, 12) if taken & _DEPTH else (base.depth,):
        named = depth - 1 if exam.index is None else exam.index
        for index in (0, 1, depth - 1) if numbered and exam.index is None else (named,):
            first = row.placement(index, depth) is row.first
            # A step is one equation, and a block that was named stays what it is.
            is_that = first == (exam.subject.placement is row.first)
            if index >= depth or not ((exam.form == "class" and exam.index is None) or is_that):
                continue
            other = copy.copy(exam)
            other.subject, other._cause = exam.make(replace(base, depth=depth), index), None
            other.settle()
            try:
                other.compare(other.subject.case(f"depth {depth}, block {index} from 0"))
            except Broken as broken:
                usual = "a constant does not follow the depth or the block's number"
                raise Broken(broken.message, broken.cause or exam.cause(usual)) from None


def _must_know_its_block(exam: BlockExam) -> None:
    """Want a class to take its block's number where the recipe needs it; note what was assumed."""
    scaled = exam.recipe == "lns"
    if exam.index is not None or exam.taken & _NUMBERED or exam.recipe == "deepnorm":
        return
    many = "divides by the root of the block's number"
    many = many if scaled else "treats the first block(s) in another way"
    if exam.form == "class":
        raise Broken(
            f"{getattr(exam.given, '__name__', 'the class')} does not take its block's number",
            f"the recipe {many}: the class must take the block's number, or pass index=…",
        )
    if not scaled or exam.form == "module":
        equations = "; ".join(step.equation for step in exam.subject.steps)
        exam.notes.append(
            f"the recipe {many}: this was held against block {exam.subject.index} (from 0) alone, "
            f"{equations}; name another one with index=…"
        )


LAWS: dict[str, Callable[[BlockExam], None]] = {
    "runs": runs, "parameters": has_parameters, "value": value, "attention half": attention_half,
    "feed-forward half": feed_forward_half, "skip path": skip, "shapes": shapes,
    "small and large streams": scales, "causal": causal, "padding": padding,
    "gradient of x": gradient_x, "gradient of parameters": gradient_parameters,
    "inputs kept": inputs_kept, "same result twice": repeatable, "training mode": training,
    "precision": precision, "constants": constants,
}  # fmt: skip
