"""A kernel as a PyTorch operator: one differentiable function made from two launchers.

    forward(*args)            -> results: the caller's, then those that backward needs
    save(ctx, args, results)     saves the latter
    gradients(ctx, backward, *grads) calls backward(...) and returns one gradient for each argument

Both launchers are registered as custom operators (`torch.ops.normkernels`), which torch.compile and
dispatch modes understand; torch.func's transforms get a separate function. A plain call, outside
all of these, takes the shortest path: less than half of the Python overhead.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter


def make_differentiable(
    name: str,
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    *,
    save: Callable[..., None],
    gradients: Callable[..., tuple],
    results: int = 1,
    rowwise: int = 1,
) -> Callable[..., Any]:
    """Make one function from a pair of launchers; the caller gets the first `results` results.

    The first `rowwise` arguments have a row for each result, so that vmap can fold its axis into
    them; over other arguments, vmap becomes a loop. On tensors without values the launchers
    allocate but launch nothing. Second derivatives raise RuntimeError.
    """
    forward_op = torch.library.custom_op(f"normkernels::{name}", forward, mutates_args=())
    backward_op = torch.library.custom_op(
        f"normkernels::{name}_backward", backward, mutates_args=()
    )

    def keep(ctx: Any, inputs: tuple, output: Any) -> None:
        # None for a result that nobody used, instead of zeros that would be written and read.
        ctx.set_materialize_grads(False)
        save(ctx, inputs, output)

    def refuse(ctx: Any, *grads: Any) -> None:
        raise RuntimeError(
            f"kernel {name} has no second derivative, so it cannot compute the gradient of a "
            "gradient; use the formula of the same name in labkit"
        )

    def pick_shown(output: Any) -> Any:
        return output[0] if results == 1 else output[:results]

    forward_op.register_fake(forward)
    backward_op.register_fake(backward)
    forward_op.register_autograd(
        lambda ctx, *grads: gradients(ctx, backward_op, *grads), setup_context=keep
    )
    backward_op.register_autograd(refuse)
    forward_op.register_vmap(_make_vmap_rule(forward_op, rowwise))
    backward_op.register_vmap(_make_vmap_rule(backward_op, 0))

    def keep_for_transforms(ctx: Any, inputs: tuple, output: tuple) -> None:
        # Statistics are results to torch.func, though no caller gets them.
        ctx.mark_non_differentiable(*output[results:])
        keep(ctx, inputs, output)

    transformed_backward = _make_transformed(backward_op, lambda *_: None, refuse, 0)
    transformed = _make_transformed(
        forward_op,
        keep_for_transforms,
        lambda ctx, *grads: gradients(ctx, transformed_backward, *grads),
        rowwise,
    )

    class Plain(torch.autograd.Function):
        """The fast path: forward and saving in one, and no results beyond the caller's."""

        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            output = forward(*args)
            keep(ctx, args, output)
            return pick_shown(output)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor | None) -> tuple:
            # With create_graph=True the operator is on the tape, and raises when differentiated.
            call = backward_op if torch.is_grad_enabled() else backward
            return gradients(ctx, call, *grads)

    def call(*args: Any) -> Any:
        tensors = [a for a in args if isinstance(a, Tensor)]
        # From the rarest case to the plain one: each handles what the next cannot.
        if is_transformed():
            return pick_shown(transformed(*args))
        if is_watched(tensors):
            return pick_shown(forward_op(*args))
        if (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)) or any(
            forward_ad.unpack_dual(t).tangent is not None for t in tensors
        ):
            return Plain.apply(*args)  # which refuses forward-mode differentiation
        return pick_shown(forward(*args))

    return call


# PyTorch has no public function that tells whether torch.func's transforms and dispatch modes are
# active. The public way is to call the operator each time, with more than twice the overhead.


def is_transformed() -> bool:
    """Return whether a torch.func transform is active, which custom operators' gradients refuse."""
    return torch._C._are_functorch_transforms_active()


def is_watched(tensors: list[Tensor]) -> bool:
    """Return whether a compiler, dispatch mode or tensor subclass (fake, distributed) is used."""
    return (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or any(type(t) is not Tensor and type(t) is not Parameter for t in tensors)
    )


def _make_transformed(
    op: Any, keep: Callable, gradient: Callable, rowwise: int
) -> Callable[..., Any]:
    """Make a function for torch.func's grad and vmap of an operator, in any order."""

    class Transformed(torch.autograd.Function):
        @staticmethod
        def forward(*args: Any) -> Any:
            return op(*args)

        setup_context = staticmethod(keep)
        backward = staticmethod(gradient)

        @staticmethod
        def vmap(info: Any, in_dims: tuple, *args: Any) -> tuple:
            return _make_vmap_rule(Transformed.apply, rowwise)(info, in_dims, *args)

    return Transformed.apply


def _make_vmap_rule(op: Any, rowwise: int) -> Callable[..., Any]:
    """Make the vmap rule: one call over folded rows if possible, else one call per sample."""

    def call_rows(info: Any, dims: tuple, *args: Any) -> tuple:
        size = info.batch_size
        if rowwise and all(dim is None for dim in dims[rowwise:]):
            rows = (
                a.expand(size, *a.shape) if dim is None else a.movedim(dim, 0)
                for a, dim in zip(args[:rowwise], dims, strict=False)
            )
            output = op(*rows, *args[rowwise:])
        else:
            each = [
                op(*(a if d is None else a.select(d, i) for a, d in zip(args, dims, strict=True)))
                for i in range(size)
            ]
            output = tuple(torch.stack(parts) for parts in zip(*each, strict=True))
        return output, (0,) * len(output)

    return call_rows
