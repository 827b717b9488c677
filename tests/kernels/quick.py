"""Make Triton's interpreter patch its language once per launch, not at every call of a helper.

Interpreted, `tl.load` and its kind are exchanged for NumPy's. Triton does so anew, with a look at
every name of the language, whenever a kernel calls a function: `tl.sum`, or a helper of ours. All
but the first time in a launch that changes nothing, and takes a third of the time. What it finds
out about a type is kept, too: there are few.
"""

import inspect
from typing import Any

import triton.language as tl
from triton.runtime import interpreter

_PARTS = (tl, tl.core, tl.tensor, tl.math, tl.core.tensor_descriptor_base)


def install() -> None:
    """Replace the functions that inspect every name, once, before the first launch."""
    if interpreter._patch_lang.__module__ != interpreter.__name__:
        return
    found = {part: _builtins(part) for part in _PARTS}
    langs: dict[Any, tuple] = {}
    changed: set[tuple] = set()
    patch_lang, launch = interpreter._patch_lang, interpreter.GridExecutor.__call__

    def patch_builtin(part: Any, builder: Any, scope: Any) -> None:
        for name, member in found[part]:
            if getattr(part, name) is member:  # else it is exchanged already
                interpreter._patch_attr(part, name, member, builder, scope)

    def patch_once(function: Any) -> Any:
        if function not in langs:
            values = function.__globals__.values()
            langs[function] = tuple(part for part in _PARTS[:2] if any(v is part for v in values))
        if langs[function] in changed:
            return interpreter._LangPatchScope()  # nothing to be undone
        changed.add(langs[function])
        return patch_lang(function)

    def launch_anew(executor: Any, *args: Any, **named: Any) -> None:
        changed.clear()
        launch(executor, *args, **named)

    interpreter._patch_builtin = patch_builtin
    interpreter._patch_lang = patch_once
    interpreter.GridExecutor.__call__ = launch_anew
    _keep_types()


def _builtins(part: Any) -> list[tuple[str, Any]]:
    return [(name, one) for name, one in inspect.getmembers(part) if tl.core.is_builtin(one)]


def _keep_types() -> None:
    """Compute NumPy's dtype of a type, and the type of a block, once for each."""
    numpy_dtype, make = interpreter._get_np_dtype, tl.core.block_type.__init__
    dtypes: dict[str, Any] = {}
    blocks: dict[tuple, dict[str, Any]] = {}

    def known_dtype(kind: Any) -> Any:
        name = kind.scalar.name
        if name not in dtypes:
            dtypes[name] = numpy_dtype(kind)
        return dtypes[name]

    def block(self: Any, element_ty: Any, shape: Any) -> None:
        key = (element_ty.name, *(getattr(size, "value", size) for size in shape))
        if key not in blocks:
            make(self, element_ty, shape)
            blocks[key] = dict(vars(self))
        vars(self).update(blocks[key])

    interpreter._get_np_dtype = known_dtype
    tl.core.block_type.__init__ = block
