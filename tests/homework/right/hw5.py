"""Right solutions of homework 5 other than the reference: each earns every point.

A strict grader must not be a narrow one. The backward passes take autograd, which the text
forbids; what is tested here is that a right gradient of any norm is accepted.
"""

BACKWARD = """
def own_backward(x, dy, parameters):
    with torch.inference_mode(False), torch.enable_grad():
        norm = OwnNorm(x.shape[-1]).double()
        norm.load_state_dict({name: value.clone() for name, value in parameters.items()})
        leaf = x.clone().requires_grad_()
        dx, *rest = torch.autograd.grad(norm(leaf), [leaf, *norm.parameters()], dy.clone())
        return dx, dict(zip([name for name, _ in norm.named_parameters()], rest, strict=True))
"""
GAIN = "self.weight = nn.Parameter(torch.ones(dim))"


def solution(
    name: str, parameters: str, formula: str, laws: dict[str, bool], pair: str
) -> dict[str, object]:
    """Build a norm from the lines of its constructor and its forward, its laws, and its outlier."""
    return {
        "name": name,
        "replace": {
            "q1": f"""
class OwnNorm(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        {parameters}

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        {formula}
        return y.to(x.dtype)
""",
            "q2": f"def blind_to() -> dict[str, bool]:\n    return {laws}",
            "q3": BACKWARD,
            "q4": f"def outlier(size, dim):\n    sign = math.copysign(1, size)\n    return {pair}",
        },
    }


RIGHT = (
    solution(
        "the range",
        GAIN,
        """high, low = wide.amax(-1, keepdim=True), wide.amin(-1, keepdim=True)
        y = self.weight * (wide - wide.mean(-1, keepdim=True)) / (high - low + 1e-6)""",
        {"scale": True, "shift": True, "mirror": True},
        "sign * (dim - 1) / dim, -sign / dim",
    ),
    solution(
        "two norms mixed, with a shift",
        GAIN
        + "; self.mix = nn.Parameter(torch.tensor(0.5)); self.b = nn.Parameter(torch.zeros(dim))",
        """one = wide / (wide.abs().mean(-1, keepdim=True) + 1e-6)
        two = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        y = self.weight * (self.mix * one + (1 - self.mix) * two) + self.b""",
        {"scale": True, "shift": False, "mirror": False},
        "sign * (dim + math.sqrt(dim)) / 2, 0.0",
    ),
    solution(
        "a learned weight in the statistic, a single gain",
        "self.logits = nn.Parameter(torch.zeros(dim)); self.gain = nn.Parameter(torch.ones(()))",
        """share = self.logits.softmax(-1)
        size = ((share * wide.square()).sum(-1, keepdim=True) + 1e-6).sqrt()
        y = self.gain * wide / (size + wide.abs().amax(-1, keepdim=True))""",
        {"scale": True, "shift": False, "mirror": True},
        "sign / (1 + dim**-0.5), 0.0",
    ),
    solution(
        "a bounded curve behind a norm that sees size a little",
        GAIN,
        "y = self.weight * torch.tanh(wide / (wide.square().mean(-1, keepdim=True) + 4.0).sqrt())",
        {"scale": False, "shift": False, "mirror": True},
        "math.tanh(size / math.sqrt(size**2 / dim + 4.0)), 0.0",
    ),
)
