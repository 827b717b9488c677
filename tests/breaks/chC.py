"""Deliberate bugs in labkit that appendix C, a zoo of placements, must detect."""

from tests.breaks import Break

BREAKS = [
    Break(
        idea="Post-Norm's norm stands on the write, not on the sum",
        path="labkit/placements/residual.py",
        old="        return N(x + f(x))\n",
        new="        return x + N(f(x))\n",
        claim="C-uniform-offset-by-hand",
    ),
    Break(
        idea="Pre-Norm's skip starts from the normalized copy",
        path="labkit/placements/residual.py",
        old="        return x + f(N(x))\n",
        new="        return N(x) + f(N(x))\n",
        claim="C-xiong-lemma-pre",
    ),
    Break(
        idea="the soft cap has slope 2 at 0",
        path="labkit/attention/logits.py",
        old="    return cap * torch.tanh(logits / cap)\n",
        new="    return cap * torch.tanh(2 * logits / cap)\n",
        claim="C-a-cap-is-a-line-below-a-sixth",
    ),
    Break(
        idea="ResiDual's output reads the plain sum alone, as Pre-Norm does",
        path="labkit/model/transformer.py",
        old="            return x + apply_norm(final_norm, context.total, context)\n",
        new="            return apply_norm(final_norm, context.total, context)\n",
        claim="C-resi-dual-keeps-its-last-block",
    ),
]
