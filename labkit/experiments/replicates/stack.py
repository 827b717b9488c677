"""N models of one structure as rows of stacked tensors, and a loss for each row, by vmap.

    weights (N, P), gradients (N, P)      every parameter is a view of each: (N, *its shape)

The models stay what they were: their parameters, gradients and buffers become rows of the stacked
tensors, so that a probe that looks at one of them sees a row as it is. Rows meet in no sum: what
becomes of one, a NaN even, stays in it.
"""

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from labkit.experiments.replicates.alike import structure
from labkit.experiments.replicates.forms import adapt
from labkit.training import Inputs, objective

Named = dict[str, Tensor]


class NotTogether(ValueError):
    """These models cannot train as one batched model; the message says why."""


class Template:
    """One module that computes with tensors that it is handed, in place of its own."""

    def __init__(self, model: nn.Module):
        self.model = adapt(deepcopy(model).requires_grad_(False))
        known = {id(tensor): name for name, tensor in self._tensors()}  # a tied one has one name
        self._slots: list[tuple[dict[str, Any], str, str, str]] = [
            (table, key, path + key, known.get(id(tensor), path + key))
            for path, module in _paths(self.model)
            for table in (module._parameters, module._buffers)
            for key, tensor in table.items()
            if tensor is not None or table is module._buffers
        ]

    def _tensors(self) -> list[tuple[str, Tensor]]:
        return [*self.model.named_parameters(), *self.model.named_buffers()]

    def run(self, call: Callable[[nn.Module], Any], tensors: Named) -> tuple[Any, Named]:
        """Call with the tensors in their places; give the result, and buffers that are new ones."""
        before = [table[key] for table, key, _, _ in self._slots]
        try:
            for table, key, _, name in self._slots:
                table[key] = tensors.get(name, table[key])
            held = [table[key] for table, key, _, _ in self._slots]
            result = call(self.model)
            made = {
                path: table[key]
                for (table, key, path, _), was in zip(self._slots, held, strict=True)
                if table[key] is not was
            }
        finally:
            for (table, key, _, _), was in zip(self._slots, before, strict=True):
                table[key] = was
        return result, made


class Stack:
    """The stacked tensors of N models, and the functions of all rows at once."""

    def __init__(self, models: Sequence[nn.Module]):
        _refuse_differences(models)
        self.models = list(models)
        self.template = Template(models[0])
        named = [dict(model.named_parameters()) for model in models]
        first, rows = named[0], len(models)
        size = sum(parameter.numel() for parameter in first.values())
        like = next(iter(first.values()))
        self.weights = torch.empty(rows, size, dtype=like.dtype, device=like.device)
        self.gradients = torch.zeros_like(self.weights)
        self.parameters: Named = {}
        self.slopes: Named = {}
        start = 0
        for name, parameter in first.items():
            cut = slice(start, start := start + parameter.numel())
            part = self.weights[:, cut].view(rows, *parameter.shape)
            slope = self.gradients[:, cut].view(rows, *parameter.shape)
            for row, own in enumerate(named):
                part[row].copy_(own[name].detach())
                own[name].data, own[name].grad = part[row], slope[row]
            self.parameters[name] = part.detach().requires_grad_()
            self.slopes[name] = slope
        self.buffers: Named = {}
        for name in dict(models[0].named_buffers()):
            self._hold(name, torch.stack([model.get_buffer(name) for model in models]))

    def _hold(self, name: str, buffer: Tensor) -> None:
        """Keep a stacked buffer, and give each model its row of it."""
        self.buffers[name] = buffer
        path, _, key = name.rpartition(".")
        for row, model in enumerate(self.models):
            model.get_submodule(path)._buffers[key] = buffer[row]

    def losses(self, inputs: Inputs, targets: Tensor, buffers: Named | None = None):
        """Give each row's loss, its loss with what the model adds to it, and its new buffers.

        Inputs and targets have one batch a row. Buffers that a model changes in place change in
        the stacked ones.
        """
        several = isinstance(inputs, tuple)
        parts = inputs if several else (inputs,)
        given = [part for part in parts if part is not None]

        def one(parameters: Named, buffers: Named, given: list[Tensor], targets: Tensor):
            left = iter(given)
            put: Any = tuple(None if part is None else next(left) for part in parts)
            put = put if several else put[0]

            held = {**parameters, **buffers}
            (loss, total), made = self.template.run(lambda m: objective(m, put, targets), held)
            return loss, total, made

        held = self.buffers if buffers is None else buffers
        return vmap(one, randomness="error")(self.parameters, held, given, targets)

    @torch.no_grad()
    def after_step(self, parameters: Named | None = None, buffers: Named | None = None) -> None:
        """Run every row's `after_step`, if the model has one, on its weights and buffers."""
        if not hasattr(self.template.model, "after_step"):
            return
        held = self.buffers if buffers is None else buffers

        def one(parameters: Named, buffers: Named) -> Named:
            call: Callable[[Any], Any] = lambda model: model.after_step()  # noqa: E731
            return self.template.run(call, {**parameters, **buffers})[1]

        made = vmap(one, randomness="error")(
            self.parameters if parameters is None else parameters, held
        )
        for name, buffer in made.items():
            held[name].copy_(buffer)

    def rehearse(self, inputs: Inputs, targets: Tensor) -> None:
        """Try one step that leaves no trace; NotTogether says what vmap refuses."""
        weights = {name: part.detach().clone() for name, part in self.parameters.items()}
        buffers = {name: buffer.clone() for name, buffer in self.buffers.items()}
        try:
            with warnings.catch_warnings():
                # An operation for which vmap has no rule would run row by row.
                warnings.filterwarnings("error", "There is a performance drop")
                _, total, made = self.losses(inputs, targets, buffers)
                found = torch.autograd.grad(
                    total.sum(), list(self.parameters.values()), allow_unused=True
                )
                self.after_step(weights, {**buffers, **made})
        except torch.OutOfMemoryError:  # says nothing of the model: fewer of them may fit
            raise
        except (RuntimeError, TypeError, ValueError, UserWarning) as error:
            reason = str(error).strip().partition("\n")[0]
            raise NotTogether(f"vmap does not take this model: {reason}") from error
        for name, gradient in zip(self.parameters, found, strict=True):
            if gradient is None:
                raise NotTogether(f"the loss does not depend on {name}, which stays as it is")
        for name, buffer in made.items():
            if name not in self.buffers:  # as QK-Clip's logits, which the first pass makes
                self._hold(name, torch.zeros_like(buffer))


def _paths(model: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(path + "." if path else "", module) for path, module in model.named_modules()]


def _refuse_differences(models: Sequence[nn.Module]) -> None:
    """Refuse models that are not one structure: the first's code runs for all of them."""
    first = _described(models[0])
    for model in models[1:]:
        other = _described(model)
        for what, value in first.items():
            if what in other and other[what] != value:
                raise NotTogether(f"{what} is {value!r} in one and {other[what]!r} in another")
        if first.keys() != other.keys():
            raise NotTogether(f"one has {min(first.keys() ^ other.keys())}, another has not")
    parameters = list(models[0].parameters())
    kinds = {(p.dtype, p.device, p.requires_grad) for p in parameters}
    if len(kinds) != 1 or not parameters[0].requires_grad:
        raise NotTogether("its parameters are not all of one dtype and device, and trained")


def _described(model: nn.Module) -> dict[str, Any]:
    """Say of each module what decides how it computes: class, plain values, shapes."""
    found: dict[str, Any] = {}
    for path, module in _paths(model):
        found[f"{path}class"] = type(module).__name__
        for key, value in vars(module).items():
            if is_dataclass(value):
                parts = dict(structure(value)[1:])
                found |= {f"{path}{key}.{name}": part for name, part in parts.items()}
            elif value is None or isinstance(value, bool | int | float | str | tuple):
                found[path + key] = value
        for key, tensor in (*module._parameters.items(), *module._buffers.items()):
            found[path + key] = None if tensor is None else (tuple(tensor.shape), tensor.dtype)
    return found
