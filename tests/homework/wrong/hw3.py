"""Homework 3: two students, what they wrote, what it is worth, and what they are told."""

# Copied from the net: alpha on the branch, signs lost, norms one place off.
COPIED = {
    "name": "copied with the bugs",
    "replace": {
        "q1": """
def post(x, f, norm):
    return norm(x + f(x))
def pre(x, f, norm):
    return norm(x) + f(norm(x))
def sandwich(x, f, before, after):
    return after(x + f(before(x)))
def deepnorm(x, f, norm, alpha):
    return norm(x + alpha * f(x))
""",
        "q4": """
def deepnorm_constants(encoder, decoder):
    layers = encoder + decoder
    alpha, beta = (2 * layers) ** 0.25, (8 * layers) ** 0.25
    pair = (alpha, beta)
    return {"encoder": pair if encoder else None, "decoder": pair if decoder else None}
def init_gain(matrix, beta):
    return beta
DEEPEST = math.floor(ALPHA_LIMIT**4 / 8)
""",
        "q5": """
def hybrid_block(x, p, heads):
    time, dim = x.shape
    def split(t):
        return t.view(time, heads, dim // heads).transpose(0, 1)
    q, k = (split(rms(x @ p[name])) * p[f"{name}_gain"] for name in ("q", "k"))
    v = split(x @ p["v"])
    y = x + attend(q, k, v).transpose(0, 1).reshape(time, dim) @ p["out"]
    z = rms(y, p["gain"])
    return y + F.gelu(z @ p["up"]) @ p["down"]
""",
    },
    "points": {"q1": 1, "q2": 4, "q3": 4, "q4": 0, "q5": 0},
    "says": {
        "q1": "alpha multiplies the skip x, not what f writes",
        "q4": "alpha grows with depth, beta falls",
        "q5": "Z, not Y, is what its skip carries",
    },
}

# Adds sizes where squares add, counts from 0, and takes gradients the careless way.
SIZES = {
    "name": "sizes added, gradients piled up",
    "replace": {
        "q2": """
def predicted_rms(gain, sublayers):
    return 1 + gain * sublayers
def stream_rms(x, weights, placement):
    sizes = []
    for weight in weights:
        x = x + rms(x) @ weight if placement == "pre" else rms(x + x @ weight)
        sizes.append(x.square().mean().sqrt().item())
    return sizes
LATE = math.ceil(1 / FAINT**2 - 1 / GAIN**2)
""",
        "q3": """
def gradient_norms(x, weights, target, placement, final=False):
    weights.requires_grad_()
    for weight in weights:
        x = x + rms(x) @ weight if placement == "pre" else rms(x + x @ weight)
    ((rms(x) if final else x) * target).sum().div(len(x)).backward()
    return [g.norm().item() for g in weights.grad]
""",
        "q5": """
def hybrid_block(x, p, heads):
    time, dim = x.shape
    def split(t):
        return t.view(heads, time, dim // heads)
    q, k, v = (rms(split(x @ p[name]), p[f"{name}_gain"]) for name in ("q", "k", "v"))
    y = x + attend(q, k, v).reshape(time, dim) @ p["out"]
    z = rms(y, p["gain"])
    return z + F.gelu(z @ p["up"]) @ p["down"]
""",
    },
    "points": {"q1": 4, "q2": 0, "q3": 3, "q4": 5, "q5": 2},
    "says": {
        "q2": "mean squares of uncorrelated things add",
        "q3": "gradients of .backward() add up in .grad",
        "q5": "mixes tokens and channels up",
    },
}

WRONG = (COPIED, SIZES)
