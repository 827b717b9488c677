"""Typical wrong solutions of homework 5: their points, and their messages.

A question that is not replaced keeps the reference solution, which then speaks of another norm.
"""

# The fourth power, in the format that comes; a gain that is no parameter; n instead of n − 1.
UNLEARNED = {
    "name": "a gain that cannot learn",
    "replace": {
        "q1": """
class OwnNorm(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.weight = torch.ones(dim)

    def forward(self, x: Tensor) -> Tensor:
        size = x.pow(4).mean(dim=-1, keepdim=True).pow(0.25)
        return self.weight * x / (size + 1e-6)
""",
        "q2": """
def blind_to() -> dict[str, bool]:
    return {"scale": True, "shift": False, "mirror": True}
""",
        "q3": """
def own_backward(x, dy, parameters):
    size = x.pow(4).mean(-1, keepdim=True).pow(0.25)
    return dy / size, {}
""",
        "q4": """
def outlier(size: float, dim: int) -> tuple[float, float]:
    return math.copysign(math.sqrt(dim), size), 0.0
""",
        "q6": (("differences) / (n - 1))", "differences) / n)"),),
    },
    "points": {"q1": 3, "q2": 3, "q3": 0, "q4": 0, "q5": 0, "q6": 2},
    "says": {
        "q1": "A root has no slope at 0",
        "q3": "OwnNorm has no parameter that learns",
        "q4": "Write the token down",
        "q5": "What a norm learns has to be an nn.Parameter",
        "q6": "The deviation is divided by n − 1",
    },
}

# RMSNorm under another name, in float32 whatever comes; the prediction is one for one token.
RENAMED = {
    "name": "RMSNorm, renamed",
    "replace": {
        "q1": """
class OwnNorm(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        size = torch.sqrt(wide.square().sum(dim=-1, keepdim=True) + 1e-6)
        return (self.weight * wide / size).to(x.dtype)
""",
        "q2": """
def blind_to() -> dict[str, bool]:
    return {"scale": True, "shift": True, "mirror": True}
""",
        "q3": """
def own_backward(x, dy, parameters):
    size = torch.sqrt(x.square().sum(-1, keepdim=True) + 1e-6)
    y = x / size
    u = parameters["weight"] * dy
    return (u - y * (u * y).sum(-1, keepdim=True)) / size, {"weight": (dy * y).sum(0)}
""",
        "q4": """
def outlier(size: float, dim: int) -> tuple[float, float]:
    return (1.0 if size == OUTLIER and OUTLIER > 0 else -1.0 if size == OUTLIER else size), 0.0
""",
    },
    "points": {"q1": 2, "q2": 2, "q3": 1, "q4": 1, "q5": 3, "q6": 3},
    "says": {
        "q1": "Fresh from its constructor this is LayerNorm, RMSNorm",
        "q2": "Add c to every feature",
        "q3": "float64 has to be computed in float64",
        "q4": "Another size (negative ones, too)",
    },
}

WRONG = (UNLEARNED, RENAMED)
