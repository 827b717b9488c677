"""Swap the norms in any model, PyTorch's, Hugging Face's or your own, and report the changes.

    conversion = convert(model, {"LlamaRMSNorm": "dyt"}, only="*mlp*")
    print(conversion)      # the swapped norms, what they kept, and the others with reasons
    conversion.undo()      # restores the original modules

`convert` swaps norms; `fold_norms` merges trained batch norms into the linear maps after them. Both
check everything before they change the model, so that an error changes nothing.
"""

from labkit.convert.fold import fold_norms
from labkit.convert.swap import convert
