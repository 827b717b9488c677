"""Let Triton's interpreter change its language once a launch, not at every call of a helper.

Interpreted, `tl.load` and its kind are exchanged for NumPy's. Triton does so anew, with a look at
every name of the language, whenever a kernel calls a function: `tl.sum`, or a helper of ours. All
but the first time in a launch that changes nothing, and takes half of the time.
"""

import inspect
from typing import Any

import triton.language as tl
from triton.runtime import interpreter

_PARTS = (tl, tl.core, tl.tensor, tl.math, tl.core.tensor_descriptor_base)


def install() -> None:
    """Exchange what looks at every name, once, before the first launch."""
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


def _builtins(part: Any) -> list[tuple[str, Any]]:
    return [(name, one) for name, one in inspect.getmembers(part) if tl.core.is_builtin(one)]
