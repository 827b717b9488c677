"""Swap the norms inside any model, PyTorch's, Hugging Face's or your own, and say what happened.

    conversion = convert(model, {"LlamaRMSNorm": "dyt"}, only="*mlp*")
    print(conversion)      # what was swapped, what was kept, what was left and why
    conversion.undo()      # the very same modules back in their places

`convert` swaps, `fold_norms` merges trained batch-statistics norms into the linear maps behind
them. Both check everything first and change the model last, so that an error changes nothing.
"""

from labkit.convert.fold import fold_norms
from labkit.convert.record import Conversion, Left, Swapped
from labkit.convert.swap import convert

__all__ = ["Conversion", "Left", "Swapped", "convert", "fold_norms"]
