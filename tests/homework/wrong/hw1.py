"""Homework 1: wrong solutions of two students, their points, and their messages."""

# Calls what it was asked to write: torch's norms, and autograd.
LIBRARY = {
    "name": "torch's own norms",
    "replace": {
        "q1": """
import torch.nn.functional as F

def layer_norm(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)
""",
        "q2": """
def rms_norm(x, weight=None, eps=EPS):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)
""",
        "q3": """
class BatchNorm(nn.BatchNorm1d):
    def __init__(self, channels, eps=1e-5, momentum=MOMENTUM):
        super().__init__(channels, eps, momentum)
""",
        "q4": """
def rms_norm_backward(x, weight, grad, eps=1e-6):
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    y = weight * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return torch.autograd.grad(y, (x, weight), grad)
""",
    },
    "points": {"q1": 0, "q2": 0, "q3": 0, "q4": 0, "q5": 3},
    "says": {
        "q1": "torch's own layer_norm was called; write the formula by hand",
        "q2": "torch's own rms_norm was called",
        "q3": "torch's own batch_norm was called",
        "q4": "torch's own grad was called",
    },
}

# Right in float32 on ordinary numbers; wrong where formats, memory and many axes come in.
NEARLY = {
    "name": "right on ordinary numbers",
    "replace": {
        "q1": (
            ("x.to(torch.promote_types(x.dtype, torch.float32))", "x.float()"),
            ("centred.square()", "wide.square()"),
            (" + eps)", " - wide.mean(dim=-1, keepdim=True).square() + eps)"),
        ),
        "q2": (("y * weight.to(y.dtype)", "y.to(x.dtype) * weight"),),
        "q3": (
            (
                'register_buffer("running_mean", torch.zeros(channels))',
                "running_mean = torch.zeros(channels)",
            ),
            (
                'register_buffer("running_var", torch.ones(channels))',
                "running_var = torch.ones(channels)",
            ),
        ),
        "q4": (
            ("torch.promote_types(x.dtype, torch.float32)", "x.dtype"),
            (".reshape(-1, x.shape[-1])", ""),
        ),
        "q5": (("math.ceil", "math.floor"),),
    },
    "points": {"q1": 3, "q2": 3, "q3": 3, "q4": 2, "q5": 2},
    "says": {
        "q1": "subtract the mean before you square",
        "q2": "rounded more than once",
        "q3": "running_mean and running_var are buffers",
        "q4": "each token adds grad · x̂, over all leading axes",
        "q5": "Round up",
    },
}

WRONG = (LIBRARY, NEARLY)
