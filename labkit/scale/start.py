"""Put a run together and train it: settings, processes, tokens, model, optimizer, checkpoint."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import nn

from labkit.fused import fuse
from labkit.model import Transformer
from labkit.scale import checkpoint, folder
from labkit.scale.evaluate import Evaluation
from labkit.scale.log import Log, check_tensorboard
from labkit.scale.loop import Outcome, Training
from labkit.scale.parallel import Group, join_processes, unwrap_model, wrap_model
from labkit.scale.plan import Plan, settle_plan
from labkit.scale.sampler import Sampler
from labkit.scale.shards import open_shards
from labkit.training import make_optimizer, prepare_model

_PROFILED = 32  # sequences that Admin sees before training, whatever the number of processes


def train_run(
    given: dict[str, Any], resume: bool = False, say: Callable[[str], object] = print
) -> Outcome:
    """Train a run, in all processes that torchrun started; `given` are fields of ScaleConfig.

    With `resume`, what is not given is as the run's folder has it. ValueError where settings,
    tokens or the folder do not fit.
    """
    with join_processes(given.get("device", "auto")) as group, ExitStack() as stack:
        plan, data, sampler, held_out = group.run_together(
            lambda: _settle_run(given, resume, group)
        )
        quiet = say if group.first else lambda text: None

        def claim_folder() -> None:
            if group.first:
                out = Path(plan.config.out)
                stack.enter_context(folder.hold_folder(out))
                folder.write_run(plan.config, plan.parameters, data)
                checkpoint.remove_partial(out / "checkpoints")

        group.run_together(claim_folder)
        return _resume_and_train(plan, group, data, sampler, held_out, quiet)


def _settle_run(
    given: dict[str, Any], resume: bool, group: Group
) -> tuple[Plan, str, Sampler, Sampler]:
    """Read and check everything, write nothing: the plan, the data's digest, what is read."""
    config = folder.choose_settings(given, resume)
    check_tensorboard(config.tensorboard)
    # The first process reads and hashes every file; that is once a run.
    shards = open_shards(Path(config.data), verify=group.first)
    plan = settle_plan(config, group, shards)
    for split in ("train", "validation"):
        if split not in shards.splits:
            raise ValueError(f"{shards.folder} has no split {split!r}; write it again, with more")
    train, held_out = (
        Sampler(shards.splits[split], plan.model.context, config.seed)
        for split in ("train", "validation")
    )
    return plan, shards.digest, train, held_out


def _resume_and_train(
    plan: Plan,
    group: Group,
    data: str,
    sampler: Sampler,
    held_out: Sampler,
    say: Callable[[str], object],
) -> Outcome:
    config, out = plan.config, Path(plan.config.out)
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    say(str(plan))
    found = checkpoint.list_checkpoints(out / "checkpoints")
    model = group.run_together(lambda: _build_model(plan, group, sampler, fresh=not found, say=say))
    optimizer = make_optimizer(unwrap_model(model), plan.training)
    done = 0
    if found:
        state = group.run_together(
            lambda: checkpoint.load_checkpoint(found[-1], unwrap_model(model), optimizer)
        )
        done = state["step"]
        if state["diverged_at"] is not None:
            return Outcome("diverged", done, state["diverged_at"])
        if done == config.steps:
            return Outcome("finished", done)
        say(f"{'from':<11} {found[-1].name}: {done} steps are done")
    log = group.run_together(lambda: Log(out, config.tensorboard, group.first, done))
    evaluation = Evaluation(held_out, config.eval_sequences, plan.micro_batch, group, plan.half)
    try:
        return Training(plan, group, model, optimizer, sampler, evaluation, log, data, done).run()
    finally:
        log.close()


def _build_model(
    plan: Plan, group: Group, sampler: Sampler, fresh: bool, say: Callable[[str], object]
) -> nn.Module:
    """Draw the weights on the CPU, where a seed means the same everywhere; then spread them."""
    config = plan.config
    torch.manual_seed(config.seed)
    model: Transformer = plan.model.build().to(group.device)
    if group.device.type == "cuda" and not config.formulas:
        say(f"{'kernels':<11} {fuse(model)}")
    if fresh:
        inputs, _ = sampler.read_windows(sampler.choose_windows(0, config.batch)[:_PROFILED])
        prepare_model(model, inputs)
    if config.compile:
        import torch._dynamo as dynamo  # slow to import

        # Blocks share their code, and a number of its own, as LNS has, makes a graph for each; so
        # does evaluation. Past the limit blocks would run uncompiled, with a warning in the log.
        dynamo.config.recompile_limit = max(dynamo.config.recompile_limit, 4 * len(model.blocks))
        for block in model.blocks:
            block.compile()
    return wrap_model(model.train(), plan.parallel, group, plan.half)
