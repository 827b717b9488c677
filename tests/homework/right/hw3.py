"""Right solutions of homework 3 other than the reference: each earns every point."""

LOOPS = {
    "name": "loops over sublayers and heads, backward on a copy",
    "replace": {
        "q2": """
def predicted_rms(gain, sublayers):
    v = 1.0
    for _ in range(sublayers):
        v += gain * gain
    return v ** 0.5
def stream_rms(x, weights, placement):
    def size(t): return float(torch.sqrt(torch.mean(t**2)))
    out = [size(x)]
    for w in weights.unbind(0):
        if placement == "pre":
            x = x + torch.einsum("td,de->te", rms(x), w)
        elif placement == "post":
            x = rms(x + x @ w)
        out.append(size(x))
    return out
LATE = next(k for k in range(1, 5000) if GAIN / (1 + (k - 1) * GAIN**2) ** 0.5 < FAINT)
""",
        "q3": """
def gradient_norms(x, weights, target, placement, final=False):
    w = weights.clone().detach().requires_grad_(True)
    h = x.clone()
    for i in range(len(w)):
        h = h + rms(h) @ w[i] if placement == "pre" else rms(h + h @ w[i])
    if final:
        h = rms(h)
    loss = (h * target).sum(-1).mean()
    loss.backward()
    return w.grad.flatten(1).norm(dim=1).tolist()
""",
        "q4": """
def deepnorm_constants(encoder, decoder):
    if not encoder and not decoder:
        raise ValueError("no layers")
    if encoder and decoder:
        mixed = encoder ** (1 / 4) * decoder ** (1 / 16)
        first = (0.81 * mixed, 0.87 / mixed)
        return dict(encoder=first, decoder=((3 * decoder) ** 0.25, 1 / (12 * decoder) ** 0.25))
    both = [(2 * (encoder + decoder)) ** 0.25, (8 * (encoder + decoder)) ** -0.25]
    return dict(encoder=both if encoder else None, decoder=both if decoder else None)
def init_gain(matrix, beta):
    gains = dict(query=1, key=1, value=beta, output=beta, up=beta, down=beta)
    if matrix not in gains:
        raise ValueError(matrix)
    return gains[matrix]
DEEPEST = int(ALPHA_LIMIT**4 // 2)
""",
        "q5": """
def hybrid_block(x, p, heads):
    t, d = x.shape
    w = d // heads
    outs = []
    for h in range(heads):
        sl = slice(h * w, (h + 1) * w)
        q = rms((x @ p["q"])[:, sl], p["q_gain"])
        k = rms((x @ p["k"])[:, sl], p["k_gain"])
        v = rms((x @ p["v"])[:, sl], p["v_gain"])
        outs.append(attend(q[None], k[None], v[None])[0])
    y = x + torch.cat(outs, -1) @ p["out"]
    z = rms(y, p["gain"])
    return z + F.gelu(z @ p["up"]) @ p["down"]
""",
        "q1": """
def post(x, f, norm):
    y = f(x)
    return norm(y + x)
def pre(x, f, norm):
    return f(norm(x)).add(x)
def sandwich(x, f, before, after):
    return after(f(before(x))) + x
def deepnorm(x, f, norm, alpha):
    return post(alpha * x, lambda y: f(x), norm)
""",
    },
}

RIGHT = (LOOPS,)
