"""Homework 2: two students, what they wrote, what it is worth, and what they are told."""

# Finds the input each time, and mends only what this input shows.
NARROW = {
    "name": "mended for one input",
    "replace": {
        "q1": """
LAW_1 = "size"
def expose_1():
    return torch.tensor([[-2.0, 2.0]])
def mended_1(x, weight=None, bias=None, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    std = x.std(-1, keepdim=True, correction=0)
    y = (x - mean) / (std + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias
""",
        "q2": """
LAW_2 = "scale"
def expose_2():
    return torch.full((1, 8), 2000.0, dtype=torch.float16)
def mended_2(x, weight=None, eps=1e-6):
    largest = x.abs().amax(-1, keepdim=True)
    y = x / largest
    y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + eps)
    return y if weight is None else y * weight
""",
        "q3": """
LAW_3 = "shift"
def expose_3():
    return torch.tensor([[2000.0, 2000.1, 2000.2, 2000.3]])
def mended_3(x, weight=None, bias=None, eps=1e-5):
    wide = x.double()
    with torch.no_grad():
        mean = wide.mean(-1, keepdim=True)
    y = (wide - mean) / torch.sqrt((wide - mean).square().mean(-1, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).to(x.dtype)
""",
        "q4": """
LAW_4 = "memory"
def expose_4():
    return torch.tensor([[0.0], [500.0]])
def mended_4(x, running_mean, running_var, momentum=MOMENTUM):
    axes = (0,) if x.dim() == 2 else (0, 2)
    n = x.shape[0]
    mean, var = x.mean(axes), x.var(axes, correction=0) * n / (n - 1)
    return running_mean.lerp(mean, momentum), running_var.lerp(var, momentum)
""",
        "q5": """
LAW_5 = "gradient"
def expose_5():
    x = torch.tensor([[1.0, 2.0, 2.0]])
    return x, x
def mended_5(x, weight=None, eps=1e-6):
    y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)
    return y if weight is None else y * weight
""",
    },
    "points": {"q1": 3, "q2": 3, "q3": 3, "q4": 3, "q5": 3},
    "says": {
        "q1": "there is a second slip in found_1",
        "q2": "Nothing but the last step may be in half precision",
        "q3": "the subtraction of the mean belongs into the graph",
        "q4": "n counts every value of a channel",
        "q5": "with a weight and another eps",
    },
}

# Names the laws, breaks the rules for exposures, and hands the found code back.
RULES = {
    "name": "exposures out of bounds",
    "replace": {
        "q1": """
LAW_1 = "size"
expose_1 = lambda: torch.tensor([[-1e-4, 1e-4]])
mended_1 = found_1
""",
        "q2": 'LAW_2 = "format"\nexpose_2 = lambda: torch.full((1, 4), 1e20)\nmended_2 = found_2',
        "q3": 'LAW_3 = "shift"\nexpose_3 = lambda: torch.full((1, 8), 2000.0)\nmended_3 = found_3',
        "q4": 'LAW_4 = "memory"\nexpose_4 = lambda: [[1.0], [2.0]]\nmended_4 = found_4',
        "q5": 'LAW_5 = "gradient"\nexpose_5 = lambda: torch.ones(1, 4)\nmended_5 = found_5',
    },
    "points": {"q1": 1, "q2": 1, "q3": 1, "q4": 1, "q5": 1},
    "says": {
        "q1": "a variance (divided by d) of at least 1",
        "q2": "none larger than your LARGEST",
        "q3": "the right one says next to nothing",
        "q4": "An exposure is a float tensor (batch, channels)",
        "q5": "An exposure is a pair of float tensors of one shape",
    },
}

WRONG = (NARROW, RULES)
