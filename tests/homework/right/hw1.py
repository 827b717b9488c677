"""Right solutions of homework 1 other than the reference: each earns every point."""

WIDE = {
    "name": "everything in float64, axes folded",
    "replace": {
        "q1": """
def layer_norm(x, weight=None, bias=None, eps=1e-5):
    d = x.double()
    var, mean = torch.var_mean(d, -1, correction=0, keepdim=True)
    out = (d - mean) / torch.sqrt(var + eps)
    out = out * (1 if weight is None else weight) + (0 if bias is None else bias)
    return out.to(x.dtype)
""",
        "q2": """
def rms_norm(x, weight=None, eps=EPS):
    f = x if x.dtype == torch.float64 else x.to(torch.float32)
    n = f / torch.sqrt(torch.mean(f**2, dim=-1, keepdim=True) + eps)
    if weight is None:
        return n.to(x.dtype)
    return (n * weight.float() if x.dtype != torch.float64 else n * weight).to(x.dtype)
""",
        "q3": """
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=MOMENTUM):
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        three = x.dim() == 3
        if three:
            b, c, t = x.shape
            x = x.permute(0, 2, 1).reshape(-1, c)
        if self.training:
            mean = x.mean(0)
            var = ((x - mean) ** 2).mean(0)
            n = x.shape[0]
            with torch.no_grad():
                self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean
                unbiased = var * n / (n - 1)
                self.running_var = (1 - self.momentum) * self.running_var + self.momentum * unbiased
                self.num_batches_tracked += 1
        else:
            mean, var = self.running_mean, self.running_var
        y = (x - mean) / torch.sqrt(var + self.eps) * self.weight + self.bias
        return y.reshape(b, t, c).permute(0, 2, 1) if three else y
""",
        "q4": """
def rms_norm_backward(x, weight, grad, eps=1e-6):
    def up(t): return t.double()
    X, W, G = up(x), up(weight), up(grad)
    d = X.shape[-1]
    r = torch.sqrt((X**2).sum(-1, keepdim=True) / d + eps)
    gx = G * W / r - X * (G * W * X).sum(-1, keepdim=True) / (d * r**3)
    gw = (G * X / r).sum(dim=tuple(range(X.dim() - 1)))
    return gx.to(x.dtype), gw.to(weight.dtype)
""",
        "q5": """
BATCHES = next(n for n in range(1, 1000) if (1 - MOMENTUM) ** n <= 0.01)
SIZE_OUT = (SMALL**2 / (SMALL**2 + EPS)) ** 0.5
SHARE = 1 - 1 / (OFFSET**2 + 1)
""",
    },
}

RIGHT = (WIDE,)
