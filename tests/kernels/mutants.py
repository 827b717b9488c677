"""Plant bugs in a copy of the kernels, and report which law finds each.

Laws that cannot fail prove nothing. Each mutant names a file, what stands there, what is put
instead, and the checks (as they begin) of which one must fail. Where users of other kernels hit the
same bug, it names the issue. `python tests/kernels/mutants.py` prints the list, and takes words of
the names. Triton and PyTorch are imported once; each mutant is a fork of that process, with
normkernels from its own folder.
"""

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """One bug, and the prefixes of the names of the checks that must find it."""

    name: str
    file: str
    old: str
    new: str
    found_by: tuple[str, ...]


WHOLE_TILE = "here = (rows < M) & within(columns, N, BLOCK)"
MUTANTS = [
    # Places in memory
    Mutant("int32 offsets forward (linkedin/Liger-Kernel#803)", "rms_norm.py",
           "tl.program_id(0).to(tl.int64) * ROWS", "tl.program_id(0) * ROWS",
           ("far_rows[rms_norm,",)),
    Mutant("int32 offsets of outputs (linkedin/Liger-Kernel#1335)", "layer_norm.py",
           "tl.store(y_ptr + rows * N + columns, y, mask=here)",
           "tl.store(y_ptr + (rows * N + columns).to(tl.int32), y, mask=here)",
           ("far_elements[layer_norm,",)),
    Mutant("int32 offsets backward", "norm_backward.py",
           "rows = first + tl.arange(0, ROWS).to(tl.int64)[:, None]",
           "rows = first + tl.arange(0, ROWS)[:, None]",
           ("far_rows[rms_norm,",)),
    Mutant("int32 strides of heads (flashinfer-ai/flashinfer#3005)", "qk_norm_rope.py",
           "batch.to(tl.int64) * batch_stride", "batch * batch_stride",
           ("far_rows[qk_norm_rope,",)),
    Mutant("no column mask", "rms_norm.py", WHOLE_TILE, "here = (rows < M) & (columns >= 0)",
           ("inside[rms_norm,",)),
    Mutant("no row mask",
           "rms_norm.py", WHOLE_TILE, "here = (rows >= 0) & within(columns, N, BLOCK)",
           ("inside[rms_norm,",)),
    Mutant("no mask where a statistic is stored", "rms_norm.py",
           "tl.store(rstd_ptr + rows, rstd, mask=rows < M)", "tl.store(rstd_ptr + rows, rstd)",
           ("inside[rms_norm,",)),
    Mutant("no mask where partial sums are read", "partials.py",
           "here = (rows < P) & (columns < N)", "here = columns < N + 0 * rows",
           ("inside[rms_norm,",)),
    Mutant("angles read beyond the turning channels (vllm-project/vllm#51049)", "qk_norm_rope.py",
           "cos = tl.load(cos_ptr + place, mask=valid & turning, other=0)",
           "cos = tl.load(cos_ptr + place, mask=valid, other=0)",
           ("inside[qk_norm_rope,",)),
    Mutant("all sequences at the positions of the first", "heads.py",
           "(batch % tables) * time + position", "position + 0 * batch", ("positions_may_differ",)),
    Mutant("neighbours' halves swapped where they are stored", "heads.py",
           "tl.interleave(a, b)", "tl.interleave(b, a)", ("partners_may_be",)),
    Mutant("all programs share one row of sums (a race, triton-lang/triton#6307)",
           "norm_backward.py",
           "partials_ptr += program.to(tl.int64) * N + columns", "partials_ptr += columns",
           ("inside[rms_norm,",)),
    Mutant("a row of sums that nobody fills (stale slots, linkedin/Liger-Kernel#1208)",
           "norm_backward.py",
           "make_partials(1 + shifts, programs, n", "make_partials(1 + shifts, programs + 1, n",
           ("prefilled[rms_norm,",)),
    Mutant("dY overwritten (linkedin/Liger-Kernel#370, #1305)",
           "norm_backward.py", "tl.store(dz_ptr + place, dz, mask=here)",
           "tl.store(dz_ptr + place, dz, mask=here)\n"
           "        tl.store(dy_ptr + rows * dy_stride + columns, dz, mask=here)",
           ("untouched[rms_norm,",)),
    Mutant("rows on the grid's second axis, 65536 at most (NVIDIA/apex#411)", "layer_norm.py",
           "            (-(-m // tile.rows),),", "            (1, -(-m // tile.rows)),",
           ("far_elements[layer_norm,",)),
    Mutant("no program where there are many chunks", "norm_backward.py", "max(1, count_processors",
           "max(0, count_processors", ("formula[rms_norm, 3x32768", "formula[rms_norm, 2x32768")),
    # Layouts
    Mutant("row stride forgotten", "rows.py", "return rows, rows.shape[0], rows.stride(0)",
           "return rows, rows.shape[0], n", ("strides[rms_norm,",)),
    Mutant("a last axis that is not dense (Dao-AILab/quack#88)",
           "rows.py", "if rows.stride(-1) != 1:", "if False:",
           ("strides[rms_norm,",)),
    Mutant("strided gain", "rows.py", "else parameter.contiguous()", "else parameter",
           ("strides[rms_norm,",)),
    Mutant("strided heads", "heads.py", "x = x.contiguous()", "pass", ("strides[qk_norm_rope,",)),
    # Precision
    Mutant("partial sums in bfloat16 (linkedin/Liger-Kernel#950)", "partials.py",
           "n, dtype=torch.float32, device=device)", "n, dtype=torch.bfloat16, device=device)",
           ("formula[rms_norm,",)),
    Mutant("statistics in bfloat16 (pytorch/helion#2273)", "rows.py",
           "x.new_empty(x.shape[:-1], dtype=torch.float32",
           "x.new_empty(x.shape[:-1], dtype=torch.bfloat16",
           ("formula[rms_norm,",)),
    Mutant("padded lanes in the variance (triton-lang/triton#9838)", "layer_norm.py",
           "centred = tl.where(here, x - mean, 0)", "centred = x - mean",
           ("formula[layer_norm,",)),
    Mutant("what the mean missed is forgotten", "layer_norm.py",
           "y = apply_affine(centred * rstd - missed * rstd,", "y = apply_affine(centred * rstd,",
           ("rows_far_from_zero",)),
    Mutant("E[x²] − mean²", "layer_norm.py",
           "squares = tl.sum(centred * centred, axis=1, keep_dims=True)",
           "squares = tl.sum(x * x, axis=1, keep_dims=True) - N * mean * mean",
           ("hard_rows[layer_norm,",)),
    Mutant("eps outside the root", "rms_norm.py", "rstd = tl.rsqrt(squares / N + eps)",
           "rstd = 1 / (tl.sqrt(squares / N) + eps)", ("no_eps[rms_norm,",)),
    Mutant("no eps", "layer_norm.py", "missed * missed, 0) + eps)", "missed * missed, 0))",
           ("hard_rows[layer_norm, constant", "no_eps[layer_norm,")),
    Mutant("llama's order rounds once", "rms_norm.py",
           "standard = standard.to(x_ptr.dtype.element_ty).to(tl.float32)", "pass",
           ("same_rounding[rms_norm_llama,",)),
    Mutant("the sum is not rounded", "add_norm.py", "h = rounded.to(tl.float32)", "pass",
           ("same_rounding[add_rms_norm,",)),
    Mutant("x̂ from y / γ (NVIDIA/apex#1715)",
           "rms_norm.py", "ctx.save_for_backward(x, weight, output[1])",
           "y = output[0] if weight is None else (output[0] / weight).to(x.dtype)\n"
           "    ctx.save_for_backward(y / output[1][..., None], weight, output[1])",
           ("hard_gains[rms_norm,",)),
    # Formulas
    Mutant("Gemma's gain without 1", "rms_norm.py", "standard *= weight + OFFSET",
           "standard *= weight", ("formula[rms_norm_gemma,",)),
    Mutant("no dW (unslothai/unsloth#4550)",
           "rms_norm.py", "weight is not None and ctx.needs_input_grad[1]", "False",
           ("formula[rms_norm,",)),
    Mutant("residual gradient normalised (Dao-AILab/quack#53)",
           "norm_backward.py", "dz += tl.load(dh_ptr",
           "dz += rstd * tl.load(dh_ptr", ("formula[add_rms_norm,",)),
    Mutant("the norm is not rounded before the sum", "norm_add.py",
           "h = norm.to(x_ptr.dtype.element_ty).to(tl.float32)", "h = norm",
           ("same_rounding[rms_norm_add,",)),
    Mutant("no mask where the next norm's statistic is stored", "norm_add.py",
           "next_rstd, mask=rows < M)", "next_rstd)", ("inside[rms_norm_add_norm",)),
    Mutant("the sum's own gradient dropped before the inner norm", "norm_add.py",
           "dh=dh,", "dh=None,", ("formula[rms_norm_add_norm",)),
    Mutant("the residual gets the gradient of the norm's input", "norm_add.py",
           "dz.to(ctx.skip_dtype)", "dx.to(ctx.skip_dtype)", ("formula[rms_norm_add_norm",)),
    Mutant("a scale for the row in place of one for each group", "rms_norm_fp8.py",
           "GROUP=group or tile.block", "GROUP=tile.block", ("values_and_scales", "the_largest")),
    Mutant("a row of zeros divided by its maximum", "rms_norm_fp8.py",
           "tl.where(most == 0, 1.0, scale)", "scale", ("the_largest",)),
    Mutant("the unrounded norm is quantized", "rms_norm_fp8.py",
           "y = y.to(dtype).to(tl.float32)", "pass", ("values_and_scales",)),
    Mutant("a gate's slope without its second term", "rms_norm_gated.py",
           "(sigma + silu * (1 - sigma))", "sigma", ("formula[rms_norm_gated,",)),
    Mutant("the gain's gradient without the gate", "rms_norm_gated.py",
           "dweight += dy * rounded", "dweight += dy / silu * rounded",
           ("formula[rms_norm_gated,",)),
    Mutant("the product with the gain is not rounded", "rms_norm_gated.py",
           "if FIRST and weight_ptr is not None:", "if False:",
           ("same_rounding[rms_norm_gated:qwen,",)),
    Mutant("gradient of the sum alone dropped", "add_norm.py", "elif dh is not None:",
           "elif False:", ("one_output[add_rms_norm,",)),
    Mutant("the skip's gradient without α", "norm_backward.py", "dz * alpha", "dz",
           ("formula[deep_norm,",)),
    Mutant("the projection on 1 forgotten", "norm_backward.py",
           "dz -= tl.sum(u, axis=1, keep_dims=True) / N", "pass",
           ("projections[layer_norm,",)),
    Mutant("turned the wrong way back", "qk_norm_rope_backward.py",
           "v_a, v_b = turn_halves(v_a, v_b, cos, -sin",
           "v_a, v_b = turn_halves(v_a, v_b, cos, sin",
           ("formula[qk_norm_rope,",)),
    Mutant("norm before the rotation, gain of nGPT", "qk_norm_rope.py",
           "if cos_ptr is not None and not AFTER:", "if cos_ptr is not None and False:",
           ("formula[qk_norm_rope,",)),
    Mutant("gradient of α without its sign", "ngpt_backward.py", "-total, 0.0", "total, 0.0",
           ("formula[ngpt_update,",)),
    Mutant("zero vectors divided", "sphere.py", "tl.where(length == 0, 1.0, length)", "length",
           ("hard_rows[ngpt_update, zero",)),
    Mutant("gradient of α forgets x", "squash_backward.py", "tl.reshape(u * x,", "tl.reshape(u,",
           ("formula[dynamic_tanh,",)),
    # Always the same
    Mutant("partial sums in any order", "partials.py", "matrices, p, n = partials.shape",
           "matrices, p, n = partials.shape\n    partials = partials[:, torch.randperm(p)]",
           ("repeat[rms_norm, 13x1536", "repeat[layer_norm, 13x1536")),
    Mutant("the tile depends on the batch (vllm-project/vllm#48391)",
           "rms_norm.py", "tile = forward_tile(n)",
           "tile = forward_tile(n if m > 12 else 64)", ("alone[rms_norm,",)),
    Mutant("a statistic changed by backward", "rms_norm.py", "x, weight, rstd = ctx.saved_tensors",
           "x, weight, rstd = ctx.saved_tensors\n    rstd.data.mul_(1.5)",
           ("untouched[rms_norm,",)),
    Mutant("changes of x unnoticed", "rms_norm.py", "ctx.save_for_backward(x, weight, output[1])",
           "ctx.save_for_backward(x.data, weight, output[1])", ("noticed[rms_norm,",)),
    # PyTorch's machinery
    Mutant("two empty results are one tensor", "norm_backward.py",
           "dweight = z.new_empty(0) if scaled is None or not learns",
           "dweight = dskip if scaled is None or not learns", ("modes[add_rms_norm,",)),
    Mutant("operators without autograd: compiled, no gradients (pytorch/pytorch#193061)",
           "operator.py", "forward_op.register_autograd(",
           "(lambda *a, **k: None)(",
           ("modes[rms_norm,", "compile_whole[rms_norm, aot")),
    Mutant("compiled for each M (linkedin/Liger-Kernel#988)",
           "operator.py", "forward_op.register_fake(forward)",
           "forward_op.register_fake(lambda x, *a: forward(x.view(*map(int, x.shape)), *a))",
           ("compile_dynamic[rms_norm",)),
    Mutant("results of fake tensors in float32", "rms_norm.py", "if not is_fake(x):",
           "if is_fake(x): y = y.float()\n    if not is_fake(x):",
           ("fake[rms_norm,", "compile_whole[rms_norm, aot")),
    Mutant("the second derivative is 0", "operator.py", "backward_op.register_autograd(refuse)",
           "backward_op.register_autograd(lambda ctx, *g: (None,) * 7)",
           ("no_second_derivative[rms_norm,",)),
    Mutant("create_graph is not seen", "operator.py",
           "call = backward_op if torch.is_grad_enabled() else backward", "call = backward",
           ("no_second_derivative[rms_norm,",)),
    Mutant("tangents of forward mode are lost", "operator.py",
           "forward_ad.unpack_dual(t).tangent is not None for t in tensors", "()",
           ("forward_mode[rms_norm,",)),
    Mutant("vmap over another axis", "operator.py", "else a.movedim(dim, 0)",
           "else a.movedim(1 - dim, 0)", ("vmap[rms_norm,",)),
    Mutant("vmap takes the first member", "operator.py", "a.select(d, i)", "a.select(d, 0)",
           ("vmap[rms_norm,",)),
    Mutant("autocast decides the dtype", "rms_norm.py", "    dtype = x.dtype\n",
           "    dtype = torch.bfloat16 if torch.is_autocast_enabled('cpu') else x.dtype\n",
           ("autocast[rms_norm,",)),
    Mutant("everything through the operator: host overhead (Dao-AILab/quack#77)", "operator.py",
           "if is_watched(tensors):", "if True:",
           ("host_work[rms_norm,",)),
    Mutant("a negative eps is taken", "checks.py", "not eps >= 0:", "eps < -1:",
           ("misuse[rms_norm,",)),
    Mutant("a gain of any length is taken", "checks.py", "parameter.ndim != 1 or",
           "parameter.ndim != 1 and",
           ("misuse[rms_norm,",)),
    Mutant("float64 is taken", "checks.py", "DTYPES = (torch.float32,",
           "DTYPES = (torch.float64, torch.float32,",
           ("misuse[rms_norm,",)),
    Mutant("starts on the CPU", "checks.py", "if tensor.device.type not in launch.DEVICE_TYPES and",
           "if False and", ("misuse[rms_norm,",)),
]  # fmt: skip


def planted(mutant: Mutant, folder: Path) -> None:
    """Copy the kernels and their tests, and plant the bug."""
    for part in ("kernels/normkernels", "tests/kernels"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "kernels/normkernels" / mutant.file
    text = file.read_text()
    if mutant.old not in text:
        raise LookupError(f"{mutant.file} has no {mutant.old!r} any more")
    file.write_text(text.replace(mutant.old, mutant.new))


def found(mutant: Mutant, folder: Path) -> str | None:
    """Return which check failed and how; None if all passed."""
    sys.path[:0] = [str(folder), str(folder / "kernels")]
    warnings.simplefilter("ignore")
    from tests.kernels.laws import Skip, checks

    chosen = [check for check in checks() if check.name.startswith(mutant.found_by)]
    if not chosen:
        return None
    for check in chosen:
        try:
            check.run()
        except Skip:
            pass
        except Exception as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            return f"{check.name}: {said[:120]}"
    return None


def results(mutants: list[Mutant], at_once: int = 2) -> Iterator[tuple[Mutant, str]]:
    """Fork for each mutant, several in parallel; return what found it, empty if nothing did."""
    running: dict[int, tuple[Mutant, Path, Path]] = {}
    waiting = list(mutants)
    while waiting or running:
        while waiting and len(running) < at_once:
            mutant = waiting.pop(0)
            folder = Path(tempfile.mkdtemp(prefix="mutant"))
            said = folder / "said"
            child = os.fork()
            if not child:
                try:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                    planted(mutant, folder)
                    said.write_text(found(mutant, folder) or "")
                except BaseException as error:
                    said.write_text(f"!{type(error).__name__}: {error}")
                finally:
                    os._exit(0)
            running[child] = mutant, folder, said
        child, _ = os.wait()
        mutant, folder, said = running.pop(child)
        yield mutant, said.read_text() if said.exists() else "!died"
        shutil.rmtree(folder)


def main(*words: str) -> int:
    """Print what found each mutant whose name contains all words; return 1 if one survived."""
    os.environ["TRITON_INTERPRET"] = "1"
    import torch
    import torch._dynamo
    import triton

    torch.set_num_threads(1)
    assert triton and not any(name.startswith("normkernels") for name in sys.modules)
    survived = 0
    for mutant, text in results([m for m in MUTANTS if all(w in m.name for w in words)]):
        lives = not text or text.startswith("!")
        survived += lives
        print(f"{'SURVIVED' if lives else 'found'}  {mutant.name}  |  {text}", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its `cases` is no module of its own
    sys.exit(main(*sys.argv[1:]))
