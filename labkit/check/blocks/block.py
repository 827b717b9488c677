"""Check an implementation of a recipe's block, yours or a stranger's, against its equations.

    report = check.block(MyBlock, "pre", ModelConfig(recipe="pre", dim=32, heads=4))
    report = check.block(lambda x, f, norm: x + f(norm(x)), "pre")

The reference is written apart from labkit.placements and labkit.attention, in float64.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from labkit.check.blocks.exam import Exam
from labkit.check.blocks.forms import Forms, exams
from labkit.check.blocks.halves import HALVES, SIDES
from labkit.check.blocks.laws import BASIC
from labkit.check.blocks.places import MORE
from labkit.check.case import Broken, Untested
from labkit.check.guard import run_all, untouched_world
from labkit.check.report import Law, Report
from labkit.model.config import ModelConfig
from labkit.placements import ALIASES
from labkit.placements import recipe as look_up

SECONDS_EACH, SECONDS_TOTAL = 8.0, 40.0


def block(
    given: Callable[..., Any] | nn.Module | type[nn.Module],
    recipe: str,
    config: ModelConfig | None = None,
    *,
    index: int | None = None,
    part: str | None = None,
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
      prev (RealFormer's scores, which it returns too) and r (ResiDual's second stream, returned
      too). Parameters are matched by usual names (q_proj, wq, in_proj_weight, c_attn, fc1, w1,
      gate_proj, …), else by shape and order; norms of one size may come in any order.
    - a step: a function (x, f, norm), (x, f, norm, norm_out) or (x, f), of the stream and the
      sublayer. It may take alpha, omega, lam, gate, entry (the block's input), r, depth (blocks),
      sublayers, index (the block, from 0) or number (from 1). With r it returns (x, r).
    - a wrapper: a class or function (make_norm, sublayer), as labkit.placements.PostNorm, which
      makes a module; it may take place, dim, depth, index, number.
    - a whole block of functions: (x, attention, feed_forward, *norms), norms in their order.

    `config` says dimensions, norm, activation, kind and depth. Without it a module may have any
    norm, activation, positions and mask, as far as the recipe leaves them open; constants that
    depend on depth are those of 6 blocks. `index` is the block's number from 0: without it, a
    module's own attribute, else a block past those that the recipe treats in another way; a class
    for such a recipe must take its number. Modules and wrappers are run in evaluation mode, and in
    training mode with dropout at 0.
    `part` names the half, attention or feed-forward, that a step or a wrapper is, where the two
    differ. `seed` draws other inputs and weights.
    """
    look_up(recipe)
    recipe = ALIASES.get(recipe, recipe)
    if recipe not in HALVES:
        raise ValueError(f"there is no reference for {recipe!r}; there is for {', '.join(HALVES)}")
    if part not in (None, *SIDES):
        raise ValueError(f"part must be attention or feed-forward, got {part!r}")
    if config is not None and not isinstance(config, ModelConfig):
        raise TypeError(f"config must be a labkit.ModelConfig, got {type(config).__name__}")
    if config is not None and config.kind == "encoder-decoder":
        raise ValueError("a block of one stack is checked; use a config of kind decoder or encoder")
    title = f"check.block {recipe}"
    if given is None or given is ...:
        return Report(title, (Law("answered", False, "", "not answered yet"),))
    if not callable(given):
        message = f"a module, its class or a function is wanted, got {type(given).__name__}"
        return Report(title, (Law("callable", False, "", message),))
    forms = Forms(given, recipe, config, index, part, seed)
    held: list[Exam] = []

    def prepare() -> Law | None:
        try:
            held.append(exams(forms))
        except Broken as broken:
            return Law("prepared", False, broken.cause, broken.message)
        except Exception as error:
            message = f"it could not be prepared: {type(error).__name__}: {error}"
            return Law("prepared", False, "", message)
        return None

    def job(name: str, law: Callable[..., None], *args: Any) -> Callable[[], Law | None]:
        return lambda: _hold(name, law, held[0], *args) if held else None

    jobs = [prepare, *(job(name, law) for name, law in BASIC.items())]
    jobs += [job(name, law, forms) for name, law in MORE.items()]
    with untouched_world():
        done = run_all(jobs, SECONDS_EACH, SECONDS_TOTAL)
    laws = [law for law in done if law is not None]
    if len(done) < len(jobs):
        name = ["prepared", *BASIC, *MORE][len(done)]
        message = f"no result within {SECONDS_EACH:g} seconds on a small input; stopped"
        cause = "a loop that does not end, a wait, or a block that is very slow"
        laws.append(Law(name, False, cause, message))
    told = held[0].notes if held else []
    if config is not None and ALIASES.get(config.recipe, config.recipe) != recipe:
        told.append(f"the config is for {config.recipe!r}; it was taken with {recipe!r} instead")
    notes = tuple(dict.fromkeys(told))
    return Report(title, tuple(laws), notes)


def _hold(name: str, law: Callable[..., None], exam: Exam, *args: Any) -> Law | None:
    """Try one law; None where it does not apply."""
    if exam.refused and name != "runs":
        return None
    try:
        law(exam, *args)
    except Untested:
        return None
    except Broken as broken:
        return Law(name, False, broken.cause, broken.message)
    except Exception as error:  # an outcome that no law foresaw is wrong, and no crash of ours
        return Law(name, False, "", f"{type(error).__name__}: {error}")
    return Law(name, True, "", (law.__doc__ or "").strip())
