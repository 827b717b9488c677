"""FixNorm: word embeddings of unit length, at each lookup.

    input side    sqrt(d) · e / max(|e|, eps)
    output side   the unit rows, tied to the softmax: logits = h · unit rows

The table itself is never changed: its rows are normalized whenever they are read. It starts
uniform on (−0.01, 0.01). Source: Nguyen and Salazar 2019, arXiv 1910.05895, and their code.
"""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from labkit.norms._common import check_size
from labkit.norms.l2_norm import unit_length


def fix_norm(x: Float[Tensor, "*leading dim"], eps: float = 1e-5) -> Float[Tensor, "*leading dim"]:
    """Scale each vector on the last axis to length 1; shorter ones than eps are divided by eps."""
    return unit_length("fix_norm", x, None, eps)


class FixNorm(nn.Embedding):
    """An embedding that returns rows of length sqrt(dim), and `unit_rows` for a tied output."""

    equation = "sqrt(d) · e / max(|e|, eps) for the row e of each token"
    source = "Nguyen and Salazar 2019, arXiv 1910.05895"

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        eps: float = 1e-5,
        *,
        device=None,
        dtype=None,
    ):
        check_size("FixNorm", "embedding_dim", embedding_dim)
        if not eps >= 0:
            raise ValueError(f"FixNorm needs eps >= 0, got {eps}; the paper's is 1e-5")
        super().__init__(num_embeddings, embedding_dim, padding_idx, device=device, dtype=dtype)
        self.eps = eps

    def reset_parameters(self) -> None:
        """Draw the rows uniformly on (−0.01, 0.01)."""
        nn.init.uniform_(self.weight, -0.01, 0.01)
        self._fill_padding_idx_with_zero()

    def forward(self, input: Int[Tensor, "*leading"]) -> Float[Tensor, "*leading dim"]:
        """Look up rows of length sqrt(dim)."""
        rows = F.embedding(input, self.weight, self.padding_idx)
        return unit_length("FixNorm", rows, self.embedding_dim**0.5, self.eps)

    def unit_rows(self) -> Float[Tensor, "vocab dim"]:
        """Return the whole table with rows of length 1: the weight of a tied output layer."""
        return fix_norm(self.weight, self.eps)
