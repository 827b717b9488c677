"""The site's stand-in for torch computes the same results as torch, or raises an error."""

import re
from math import isclose, isnan

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from labkit.check.compare import read_numbers
from press.site.answers import torch_of_lists as lists

# x has shape (a, b, c) and y (b, 1) or (c,), m (b, c), k (c, b), v (c,); n is m in whole numbers.
ENTRYWISE = """
-x | abs(x) | x.abs() | x.square() | x.relu() | x.sqrt() | x.abs().sqrt() | x.exp() |
x.abs().rsqrt() | x.reciprocal() | x.tanh() | x.erf() | x.sigmoid() | x.sin() | x.cos() | x + y |
x - y | x * y | x / y | x ** 2 | x ** 3 | x.abs() ** y | x ** -1 | x ** 0.5 | 2 ** x | 1 - x | 2 /
x | 3 * x | x / 2 | x + 1 | x.add(y) | x.sub(y) | x.mul(y) | x.div(y) | x.pow(2) | n / 2 | n + 1 |
n * n | n / n.abs().clamp(min=1) | n + 0.5 | n ** 2 | n + m | n * True | x == x | x != y | x < y |
x <= y | x > y | x >= y | (x > 0) & (x < 1) | ((x > 0) | (y > 0)) | x.maximum(y) | x.minimum(y) |
torch.maximum(x, y) | x.clamp(min=0) | x.clamp(max=0.5) | x.clamp(-0.5, 0.5) | x.clip(0, 1) |
x.clamp_min(0.1) | torch.clamp(x, max=y) | torch.where(x > 0, x, y) | torch.where(x > 0, x, 0.0) |
x.lerp(y + x, 0.3) | torch.relu(x) | torch.exp(x) | torch.sqrt(x.abs()) | torch.abs(x) |
torch.tanh(x) | x.to(torch.float32) | x.double() | x.float() | n.double() | (x > 0).double() |
x.to(y) | x.to(torch.promote_types(x.dtype, torch.float32)) | torch.promote_types(torch.bool,
torch.int64) | torch.nn.functional.relu(x) | x.clone() | x.detach() | x.contiguous()
"""
REDUCED = """
x.sum() | x.sum(0) | x.sum(-1) | x.sum(-1, keepdim=True) | x.sum((0, 2)) | x.sum(dim=(1, 2),
keepdim=True) | x.mean() | x.mean(-1) | x.mean(1, keepdim=True) | x.mean((0, 1)) | x.mean([0, 2])
| x.mean(dim=-1) | x.var(0) | x.var(-1, correction=0) | x.var((0, 2), correction=0, keepdim=True)
| x.var(-1, False) | x.var(-1, unbiased=False, keepdim=True) | x.var(correction=0) | x.std(-1,
correction=0) | x.std(-1, keepdim=True, correction=0) | x.std(dim=(1, 2), correction=0) | x.norm()
| x.norm(dim=-1) | x.norm(dim=-1, keepdim=True) | torch.linalg.norm(m, dim=-1) |
torch.linalg.vector_norm(x, dim=(0, 1)) | torch.nn.functional.normalize(x, dim=-1) | x.amax(-1) |
x.amin((0, 1)) | x.amax(dim=1, keepdim=True) | x.argmax() | x.argmax(-1) | x.max() | x.min() |
x.max(y + 0 * x) | (x > 0).sum() | n.sum() | n.sum(0) | n.amax() | x.double().mean().item() | (x >
0).double().mean() | torch.mean(x, -1) | torch.var(x, -1, correction=0) | torch.sum(x, dim=0) |
torch.max(x)
"""
SHAPED = """
x.reshape(-1) | x.reshape(x.shape[0], -1) | x.view(-1, x.shape[-1]) | x.flatten() | x.flatten(1) |
x.flatten(0, 1) | x.transpose(0, 1) | x.transpose(-1, -2) | x.permute(2, 0, 1) | x.mT | m.T |
m.t() | x.swapaxes(0, 2) | x.movedim(0, -1) | x.movedim(-1, 0) | x.unsqueeze(0) | x.unsqueeze(-1)
| x.unsqueeze(1).squeeze(1) | x[:1].squeeze(0) | x[:1].squeeze() | v.expand(m.shape) | v.expand(2,
3, -1) | v.expand_as(x) | v.repeat_interleave(2) | m.repeat_interleave(3, dim=0) |
m.repeat_interleave(2, dim=-1) | x.repeat_interleave(2, 1) | x.flip(-1) | x.flip(0, 2) |
x.flip((0, 1)) | torch.flip(x, (0,)) | torch.cat((x, x), -1) | torch.cat([x, 2 * x]) |
torch.cat([m, k.T], dim=1) | torch.stack((x, x)) | torch.stack([v, v], -1) | torch.stack([m, m],
dim=1) | x.chunk(2, -1)[0] | x.chunk(2, 1)[-1] | x.split(1)[0] | x[0] | x[-1] | x[..., 0] | x[...,
:1] | x[:, None] | x[:, :, None] | x[None] | x[0, ..., -1] | x[:, 0] | x[0, 0, 0] | x[..., ::2] |
x[..., 1::2] | x[:, -1:] | x[:, :-1] | v[1:] | v[[0, -1, 0]] | m[:, [0, 0]] | m[[0]] | x[x > 0] |
m[m.sum(-1) > 0] | v[torch.tensor([1, 0])] | m[0][None, :] | x.index_select(1, torch.tensor([0,
0])) | torch.zeros(2, 3) | torch.zeros((2, 3)) | torch.ones(2) | torch.full((2, 2), 7.0) |
torch.eye(3) | torch.tensor([[1.0, 2], [3, 4]]) | torch.tensor([1, 2]) | torch.tensor(3) |
torch.tensor([True, False]) | torch.zeros_like(x) | torch.ones_like(n) | torch.full_like(x, 2) |
torch.as_tensor([1.0]) | torch.zeros(2, dtype=torch.float64) | torch.tensor([1, 2],
dtype=torch.float64) | list(torch.broadcast_shapes((2, 1), (3,))) | list(x.shape) | len(x) |
x.ndim | x.dim() | x.size(0) | x.size(-1) | x.numel() | x.tolist() | [row.tolist() for row in m] |
float(x.sum()) | round(float(v[0]), 3) | f"{v.sum():.3f}" | bool((x == x).sum() > 0) |
int(n.sum()) | isinstance(x, torch.Tensor) | x.shape[-1] ** 0.5
"""
PRODUCTS = """
m @ k | x @ k | x @ x.mT | v @ v | m @ v | v @ k | x @ v | torch.matmul(x, k) | m.matmul(k) |
m.mm(k) | torch.einsum("bc,cd->bd", m, k) | torch.einsum("ic,jc->ij", m, m) |
torch.einsum("abc,abc->ab", x, x) | torch.einsum("abc->a", x) | torch.einsum("c,c", v, v) |
torch.einsum("i,j->ij", v, v) | torch.einsum("abc,cd->dab", x, k)
"""
IN_PLACE = """
z.add_(1) | z.sub_(x) | z.mul_(2) | z.div_(2) | z.lerp_(x + 1, 0.25) | z.copy_(2 * x) |
z.copy_(torch.zeros(1))
"""
STATEMENTS = """
z += 1 | z -= x | z *= y | z /= 2 | z[0] = 1 | z[..., 0] = 2.5 | z[:, 1:] = 0 | z[z > 0] = 1 |
z[0, 0] = v | z[..., :1] += 1 | z[:] = x * 2 | z[0].mul_(2) | p = z[1:]; p += 1 | z[:, 0] *= 2
"""


REFUSED = """
x + torch.zeros(7) | x.reshape(5) | x[9] | x[0, 0, 0, 0] | x @ x | torch.cat((x, m)) | n.mean()
| x.sum(4) | torch.tensor([[1.0], [1.0, 2.0]]) | x[::-1] | x.item() | x.expand(2, 2, 9)
| x.view(3, -1)
"""
ALIKE = """
concat concatenate clamp_max device requires_grad grad empty empty_like no_grad dtype split
"""


def expressions(text: str) -> list[str]:
    """Split a list at its bars, except inside brackets, where a bar is Python's operator."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "|" and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [" ".join(part.split()) for part in [*parts, text[start:]]]


def plain(value):
    """Convert a result of torch or the stand-in to a form that can be compared."""
    if hasattr(value, "tolist"):
        return "tensor", str(value.dtype), *read_numbers(value)
    if isinstance(value, torch.dtype | lists.dtype):
        return "dtype", str(value), (), []
    if isinstance(value, str):
        return "text", value, (), []
    return "value", type(value).__name__, *read_numbers(value)


def made(module, numbers, shapes):
    """Make the tensors that an expression uses."""
    a, b, c = shapes
    flat = iter(numbers)

    def nested(*shape):
        return [nested(*shape[1:]) for _ in range(shape[0])] if shape else next(flat)

    names = {
        "x": nested(a, b, c), "y": nested(b, 1), "m": nested(b, c), "k": nested(c, b),
        "v": nested(c),
    }  # fmt: skip
    tensors = {name: module.tensor(of, dtype=module.float64) for name, of in names.items()}
    whole = [[int(10 * value) for value in row] for row in names["m"]]
    return {"torch": module, "n": module.tensor(whole), "z": tensors["x"].clone(), **tensors}


def assert_same(code: str, numbers, shapes, statement: bool = False) -> None:
    came = []
    for module in (torch, lists):
        names = made(module, numbers, shapes)
        if statement:
            exec(code, names)
            came.append(plain(names["z"]))
        else:
            came.append(plain(eval(code, names)))
    (kind, name, shape, wanted), (own_kind, own_name, own_shape, actual) = came
    assert (own_kind, own_name, own_shape) == (kind, name, shape), code
    loose = "float32" in name  # the stand-in computes in double precision
    rel, near = (1e-5, 1e-6) if loose else (1e-9, 1e-12)
    close = (
        isclose(a, w, rel_tol=rel, abs_tol=near) or (isnan(a) and isnan(w))
        for a, w in zip(actual, wanted, strict=True)
    )
    assert all(close), f"{code} is {actual}, and in torch {wanted}"


NUMBERS = st.lists(
    st.integers(-2000, 2000).map(lambda i: (2 * i + 1) / 1000), min_size=180, max_size=180
)
SHAPES = st.tuples(st.integers(2, 3), st.integers(2, 4), st.integers(2, 4))
EACH = settings(max_examples=4, deadline=None, derandomize=True, phases=[Phase.generate])


@pytest.mark.parametrize(
    "text",
    [ENTRYWISE, REDUCED, SHAPED, PRODUCTS, IN_PLACE],
    ids=["entry by entry", "reductions", "shapes", "products", "in place"],
)
def test_expressions_come_out_as_in_torch(text):
    listed = expressions(text)
    assert len(listed) > 3

    @EACH
    @given(NUMBERS, SHAPES)
    def hold(numbers, shapes):
        for code in listed:
            assert_same(code, numbers, shapes)

    hold()


@EACH
@given(NUMBERS, SHAPES)
def test_statements_change_what_they_change_in_torch(numbers, shapes):
    for code in expressions(STATEMENTS):
        assert_same(code, numbers, shapes, statement=True)


def test_everything_that_it_has_is_held_against_torch():
    """Every method and function of the stand-in has a row above, except aliases."""
    text = " ".join((ENTRYWISE, REDUCED, SHAPED, PRODUCTS, IN_PLACE, STATEMENTS))
    named = set(re.findall(r"[\w]+", text))
    assert promised("x.nothing") | promised("torch.nothing") <= named | {*ALIKE.split()}


def promised(code: str) -> set[str]:
    """Read which functions the message for a missing name lists as available."""
    with pytest.raises(lists.NotHere) as refusal:
        eval(code, made(lists, [0.5] * 180, (2, 2, 2)))
    return {*str(refusal.value).split("it has ")[1].split(";")[0].split(", ")}


@pytest.mark.parametrize("of", ["m", "torch", "torch.linalg", "torch.nn", "torch.nn.functional"])
def test_what_it_promises_it_has_as_torch_does(of):
    names = [made(module, [0.5] * 180, (2, 2, 2)) for module in (lists, torch)]
    own, other = (eval(of, scope) for scope in names)
    for name in promised(f"{of}.nothing"):
        assert hasattr(own, name) and hasattr(other, name), name


def test_a_method_is_a_function_where_torch_has_one():
    for name in promised("x.nothing"):
        member = getattr(torch, name, None)
        is_function = callable(member) and not isinstance(member, type)
        assert is_function != (name in lists.NO_FUNCTIONS), name


@pytest.mark.parametrize(
    "code",
    [
        "torch.conv2d(x, x)",
        "x.backward()",
        "torch.linalg.svd(m)",
        "torch.nn.Linear(2, 2)",
        "torch.randn(3)",
        "x.bfloat16()",
    ],
)
def test_what_it_does_not_have_is_said_in_a_sentence(code):
    names = made(lists, [0.5] * 180, (2, 2, 2))
    with pytest.raises(
        AttributeError, match=r"has no '.*'; it has .*; JupyterLab has all of torch"
    ):
        eval(code, names)


@pytest.mark.parametrize(
    "code", ["x.T.add_(1)", "x.reshape(-1).mul_(0)", "x.view(-1).copy_(x.view(-1))"]
)
def test_a_view_does_not_change_in_place_unseen(code):
    names = made(lists, [0.5] * 180, (2, 2, 2))
    with pytest.raises(lists.NotHere, match="modifying a view in place"):
        eval(code, names)


@pytest.mark.parametrize("code", expressions(REFUSED))
def test_what_torch_refuses_it_refuses(code):
    for module in (torch, lists):
        names = made(module, [0.5] * 180, (2, 4, 2))
        with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)):
            eval(code, names)


def test_it_looks_like_torch():
    names = made(lists, [0.5] * 180, (1, 2, 2))
    assert repr(names["v"]) == "tensor([0.5000, 0.5000])"
    assert f"{names['v'].sum():.1f}" == "1.0"
