"""Homework 1: two students, what they wrote, what it is worth, and what they are told."""

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
        "q1": """
def layer_norm(x, weight=None, bias=None, eps=1e-5):
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    var = wide.square().mean(-1, keepdim=True) - mean.square()
    y = (wide - mean) / torch.sqrt(var + eps)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).to(x.dtype)
""",
        "q2": """
def rms_norm(x, weight=None, eps=EPS):
    wide = x if x.dtype == torch.float64 else x.float()
    y = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
    return y if weight is None else y * weight
""",
        "q3": """
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=MOMENTUM):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.running_mean, self.running_var = torch.zeros(channels), torch.ones(channels)

    def forward(self, x):
        axes = [0] if x.dim() == 2 else [0, 2]
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean(axes), x.var(axes, correction=0)
            n = x.numel() / x.shape[1]
            self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean
            unbiased = var * n / (n - 1)
            self.running_var = (1 - self.momentum) * self.running_var + self.momentum * unbiased
        y = (x.transpose(1, -1) - mean) / torch.sqrt(var + self.eps)
        return (y * self.weight + self.bias).transpose(1, -1)
""",
        "q4": """
def rms_norm_backward(x, weight, grad, eps=1e-6):
    r = torch.sqrt(x.square().mean(-1, keepdim=True) + eps)
    hat = x / r
    pulled = grad * weight
    grad_x = (pulled - hat * (pulled * hat).mean(-1, keepdim=True)) / r
    return grad_x, (grad * hat).sum(0)
""",
        "q5": """
BATCHES = math.floor(math.log(0.01) / math.log(1 - MOMENTUM))
SIZE_OUT = SMALL / math.sqrt(SMALL**2 + EPS)
SHARE = OFFSET**2 / (OFFSET**2 + 1)
""",
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
