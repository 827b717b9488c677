"""N models of one structure as rows of stacked tensors, with a loss for each row, by vmap.

    weights (N, P), gradients (N, P)      every parameter is a view of each: (N, *its shape)

The models themselves are kept: their parameters, gradients and buffers become rows of the stacked
tensors, so that a probe of one model reads its row. No sum crosses rows, so even a NaN stays in its
row.

A few modules are replaced by equivalent forms that vmap supports:

attention   vmap has no rule for torch's fused attention on every device, and would run it row by
            row: here rows become part of the batch
RMSNorm     on the CPU labkit's is a custom autograd function, which vmap refuses: the formula

All other modules of labkit consist of operations that vmap supports. Models that branch on a
tensor's values, or draw random numbers, raise NotTogether.
"""

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from types import MethodType
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from labkit.attention import Attention
from labkit.context import Context
from labkit.experiments.replicates.alike import NotTogether, refuse_differences
from labkit.norms import GemmaRMSNorm, LlamaRMSNorm, RMSNorm, T5RMSNorm, rms_norm
from labkit.training import Inputs, compute_objective

Named = dict[str, Tensor]


class Template(nn.Module):
    """One model that computes with borrowed tensors in place of its own."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = deepcopy(model).requires_grad_(False)
        adapt_modules(self.model)
        self.known = set(dict(self.model.named_buffers()))

    def forward(self, call: Callable[[nn.Module], Any]) -> Any:
        """Call the given function with the model."""
        return call(self.model)

    def run_model(self, call: Callable[[nn.Module], Any], tensors: Named) -> tuple[Any, Named]:
        """Call with the given tensors in place; return the result, and any new buffers."""
        lent = {f"model.{name}": tensor for name, tensor in tensors.items()}
        result = functional_call(self, lent, (call,))  # writes into `lent` what was replaced
        made = {
            name: lent[f"model.{name}"]
            for name, tensor in tensors.items()
            if lent[f"model.{name}"] is not tensor
        }
        for name, buffer in list(self.model.named_buffers()):
            if name not in self.known:  # as QK-Clip's logits, which the first pass makes
                made[name] = buffer
                _set_buffer(self.model, name, None)
        return result, made


class Stack:
    """The stacked tensors of N models, and their computations on all rows at once."""

    def __init__(self, models: Sequence[nn.Module]):
        refuse_differences(models)
        self.models = list(models)
        self.template = Template(models[0])
        rows = len(self.models)
        stacked, self.buffers = stack_module_state(self.models)
        shapes = {name: part.shape for name, part in stacked.items()}
        self.weights = torch.cat(
            [part.detach().reshape(rows, -1) for part in stacked.values()], dim=1
        )
        self.gradients = torch.zeros_like(self.weights)
        sizes = [shape[1:].numel() for shape in shapes.values()]
        parts, slopes = (
            {
                name: part.view(shapes[name])
                for name, part in zip(shapes, whole.split(sizes, dim=1), strict=True)
            }
            for whole in (self.weights, self.gradients)
        )
        self.parameters: Named = {
            name: part.detach().requires_grad_() for name, part in parts.items()
        }
        self.slopes: Named = slopes
        for row, model in enumerate(self.models):
            for name, parameter in model.named_parameters():
                parameter.data, parameter.grad = parts[name][row], slopes[name][row]
        for name, buffer in self.buffers.items():
            self._hold_buffer(name, buffer)

    def _hold_buffer(self, name: str, buffer: Tensor) -> None:
        """Store a stacked buffer, and give each model its row of it."""
        self.buffers[name] = buffer
        for row, model in enumerate(self.models):
            _set_buffer(model, name, buffer[row])

    def mark_matrices(self) -> Tensor:
        """Mark the columns of the weights that belong to tensors of two or more axes."""
        parts = [
            slope.new_full(slope[0].shape, slope.ndim > 2, dtype=torch.bool).flatten()
            for slope in self.slopes.values()
        ]
        return torch.cat(parts)

    def compute_losses(self, inputs: Inputs, targets: Tensor):
        """Compute each row's loss, its total loss with the model's own terms, and its new buffers.

        Inputs and targets have one batch per row. In-place changes to a model's buffers change the
        stacked buffers.
        """

        def compute_row_loss(parameters: Named, buffers: Named, inputs: Inputs, targets: Tensor):
            (loss, total), made = self.template.run_model(
                lambda model: compute_objective(model, inputs, targets), {**parameters, **buffers}
            )
            return loss, total, made

        several = isinstance(inputs, tuple)
        rows = tuple(None if part is None else 0 for part in inputs) if several else 0
        every = vmap(compute_row_loss, (0, 0, rows, 0), randomness="error")
        return every(self.parameters, self.buffers, inputs, targets)

    @torch.no_grad()
    def after_step(self) -> None:
        """Run every row's `after_step`, if the model has one, on its weights and buffers."""
        if not hasattr(self.template.model, "after_step"):
            return

        def update_row(parameters: Named, buffers: Named) -> Named:
            held = {**parameters, **buffers}
            return self.template.run_model(lambda model: cast(Any, model).after_step(), held)[1]

        made = vmap(update_row, randomness="error")(self.parameters, self.buffers)
        for name, buffer in made.items():
            self.buffers[name].copy_(buffer)

    def rehearse_step(self, inputs: Inputs, targets: Tensor) -> None:
        """Try one step and undo it; raise NotTogether, with the reason, if vmap refuses it."""
        kept = [(tensor, tensor.clone()) for tensor in (self.weights, *self.buffers.values())]
        try:
            with warnings.catch_warnings():
                # An operation for which vmap has no rule would run row by row.
                warnings.filterwarnings("error", "There is a performance drop")
                _, total, made = self.compute_losses(inputs, targets)
                gradients = torch.autograd.grad(
                    total.sum(), list(self.parameters.values()), allow_unused=True
                )
                for name, buffer in made.items():
                    if name not in self.buffers:
                        self._hold_buffer(name, torch.zeros_like(buffer))
                self.after_step()
        except torch.OutOfMemoryError:  # not the model's fault: fewer of them may fit
            raise
        except (RuntimeError, TypeError, ValueError, UserWarning) as error:
            reason = str(error).strip().partition("\n")[0]
            raise NotTogether(f"vmap does not support this model: {reason}") from error
        finally:
            for tensor, was in kept:
                tensor.copy_(was)
        for name, gradient in zip(self.parameters, gradients, strict=True):
            if gradient is None:
                raise NotTogether(
                    f"the loss must depend on every parameter, but does not depend on {name}, "
                    "which would never change"
                )


def _set_buffer(model: nn.Module, name: str, buffer: Tensor | None) -> None:
    path, _, key = name.rpartition(".")
    setattr(model.get_submodule(path), key, buffer)


def adapt_modules(model: nn.Module) -> None:
    """Replace modules of a model, in place, by forms that vmap supports."""
    for module in model.modules():
        if isinstance(module, Attention):
            module.attend = MethodType(_compute_attention, module)
        elif type(module) is RMSNorm:
            module.forward = MethodType(_rms_norm, module)
        elif type(module) in (GemmaRMSNorm, LlamaRMSNorm, T5RMSNorm):
            module.forward = MethodType(_norm_with_gain, module)


def _rms_norm(norm: RMSNorm, x: Tensor) -> Tensor:
    axes = len(norm.normalized_shape)
    weight = None if norm.weight is None else norm.weight.flatten()
    return rms_norm(x.flatten(-axes), weight, norm.eps).view(x.shape)


def _norm_with_gain(norm: Any, x: Tensor) -> Tensor:
    return type(norm).function(x, norm.weight, norm.eps)


def _compute_attention(
    layer: Attention, q: Tensor, k: Tensor, v: Tensor, context: Context
) -> Tensor:
    padding = context.memory_padding if layer.cross else context.padding
    seen = layer.softcap is not None or layer.chain is not None or layer.clip
    if padding is not None or seen:  # the logits exist, because they are recorded
        return type(layer).attend(layer, q, k, v, context)
    scale = None if layer.temperature is None else 1.0
    return _Attend.apply(q, k, v, layer.causal, scale, layer.kv_heads != layer.heads)


class _Attend(torch.autograd.Function):
    """torch's fused attention; rows added by vmap become part of the batch."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None, gqa: bool):
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=causal, scale=scale, enable_gqa=gqa
        )

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass  # vmap is outside autograd, which differentiates the operation itself

    @staticmethod
    def vmap(info, in_dims, q, k, v, causal, scale, gqa):  # pyright: ignore[reportIncompatibleMethodOverride]
        rows = [
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip((q, k, v), in_dims[:3], strict=True)
        ]
        flat = [x.flatten(0, 1) for x in rows]
        mixed = F.scaled_dot_product_attention(*flat, is_causal=causal, scale=scale, enable_gqa=gqa)
        return mixed.unflatten(0, rows[0].shape[:2]), 0
