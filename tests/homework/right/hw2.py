"""Right solutions of homework 2 other than the reference: each earns every point."""

LIBRARY = {
    "name": "torch's norms, exposures of one token",
    "replace": {
        "q1": """
LAW_1 = "size"
def expose_1():
    return torch.tensor([2.0, -2.0])
def mended_1(x, weight=None, bias=None, eps=1e-5):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, eps)
""",
        "q2": """
LAW_2 = "size"
def expose_2():
    return torch.tensor([300.0, -300.0]).half()
def mended_2(x, weight=None, eps=1e-6):
    y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    y = y.to(x.dtype)
    return y if weight is None else y * weight
""",
        "q3": """
LAW_3 = "size"
def expose_3():
    return torch.tensor([2500.0, 2500.25, 2500.5, 2499.75]).reshape(1, 4)
def mended_3(x, weight=None, bias=None, eps=1e-5):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, eps)
""",
        "q4": """
LAW_4 = "memory"
def expose_4():
    return torch.tensor([[0.0, 10.0], [100.0, -90.0]])
def mended_4(x, running_mean, running_var, momentum=MOMENTUM):
    m, v = running_mean.clone(), running_var.clone()
    torch.nn.functional.batch_norm(x, m, v, training=True, momentum=momentum)
    return m, v
""",
        "q5": """
LAW_5 = "gradient"
def expose_5():
    x = torch.ones(2)
    return x, x
def mended_5(x, weight=None, eps=1e-6):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
""",
    },
}

RIGHT = (LIBRARY,)
