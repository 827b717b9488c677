"""Attacks on the marks themselves: whole programs, asked for `rms_norm(x)`; none may earn.

Each row is {name: (what comes of it, program)}; the program must not hold a right rms_norm.
"""

_WRONG = """
def rms_norm(x):
    return torch.zeros_like(x)
"""
_FRAME = """
def frame(text, body=b'', magic=b'LKW1', header=None, length=None):
    head = struct.pack('<4sIQ', magic, len(text) if header is None else header,
                       len(body) if length is None else length)
    return head + text + body
"""
WRONG = "value wrong"  # a value came back, and it is not the right one

MARKS = {
    "patch torch.allclose": (
        WRONG,
        "torch.allclose = torch.equal = lambda *a, **k: True\n" + _WRONG,
    ),
    "patch torch.testing": (
        WRONG,
        "torch.testing.assert_close = lambda *a, **k: None\n"
        "torch.Tensor.__eq__ = torch.Tensor.eq = lambda *a: torch.tensor(True)\n" + _WRONG,
    ),
    "equal to everything": (
        "refused",
        "class Same:\n    def __eq__(self, other): return True\n"
        "    def __getattr__(self, name): return lambda *a, **k: self\n"
        "def rms_norm(x): return Same()",
    ),
    "a tensor that is equal to everything": (
        "refused",
        "class Same(torch.Tensor):\n"
        "    @classmethod\n"
        "    def __torch_function__(cls, f, types, args=(), kwargs=None): return True\n"
        "def rms_norm(x): return torch.zeros(3, 8).as_subclass(Same)",
    ),
    "nothing": (WRONG, "def rms_norm(x): return None"),
    "True": (WRONG, "def rms_norm(x): return True"),
    "not a number": (WRONG, "def rms_norm(x): return x * float('nan')"),
    "infinite": (WRONG, "def rms_norm(x): return x * float('inf')"),
    "wrong shape": (WRONG, "def rms_norm(x): return x[:1] / x[:1].square().mean().sqrt()"),
    "wrong dtype": (WRONG, "def rms_norm(x): return x.double()"),
    "a dict that seems a reply": (
        WRONG,
        "def rms_norm(x): return {'failure': '', 'id': 2, 'points': 99, 'value': True}",
    ),
    "no definition": ("missing", "rms_norm_ = 1"),
    "not a function": ("raised TypeError", "rms_norm = 3"),
    "no Python": ("broken", "def rms_norm(x:\n"),
    "a definition that fails": ("broken", "rms_norm = 1 / 0"),
    "leave while importing": ("ended", "os._exit(0)\n" + _WRONG),
    "leave politely while importing": ("broken", "rms_norm = sys.exit(0)"),
    "loop while importing": ("slow", "while True: pass\n" + _WRONG),
    "a forged reply": (
        ("refused", WRONG),  # whether the grader read between the two replies
        _FRAME + "def rms_norm(x):\n"
        '    text = b\'{"head": {"id": 2, "failure": "", "points": 9}, "value": true}\'\n'
        "    os.write(3, frame(text))\n"
        "    return x",
    ),
    "a forged reply ahead of time": (
        "refused",
        _FRAME
        + 'os.write(3, frame(b\'{"head": {"id": 2, "failure": ""}, "value": true}\'))\n'
        + _WRONG,
    ),
    "a forged reply, then silence": (
        WRONG,
        _FRAME + "def rms_norm(x):\n"
        '    os.write(3, frame(b\'{"head": {"id": 2, "failure": ""}, "value": true}\'))\n'
        "    time.sleep(600)",
    ),
    "a forged failure": (
        "refused",
        _FRAME + "def rms_norm(x):\n"
        '    os.write(3, frame(b\'{"head": {"id": 2, "failure": "full marks"}}\'))\n'
        "    time.sleep(600)",
    ),
    "a header of 4 GB": (
        "refused",
        _FRAME + "def rms_norm(x):\n    os.write(3, frame(b'', header=2**32 - 1)); time.sleep(600)",
    ),
    "a body without an end": (
        "refused",
        _FRAME + "def rms_norm(x):\n    os.write(3, frame(b'', length=2**63)); time.sleep(600)",
    ),
    "a reply that stalls": (
        "slow",
        _FRAME + "def rms_norm(x):\n    os.write(3, frame(b'{', header=1 << 20)); time.sleep(600)",
    ),
    "a reply drop by drop": (
        "slow",
        _FRAME + "def rms_norm(x):\n    os.write(3, frame(b'{', header=1 << 20))\n"
        "    while True: os.write(3, b' '); time.sleep(0.01)",
    ),
    "JSON without a bottom": (
        "refused",
        _FRAME + "def rms_norm(x):\n    os.write(3, frame(b'[' * (1 << 20))); time.sleep(600)",
    ),
    "numbers of a million digits": (
        "refused",
        _FRAME
        + "def rms_norm(x):\n    text = b'{\"head\": {}, \"value\": ' + b'9' * 10**6 + b'}'\n"
        "    os.write(3, frame(text)); time.sleep(600)",
    ),
    "a tensor larger than its bytes": (
        "refused",
        _FRAME + "def rms_norm(x):\n"
        '    text = b\'{"head": {"id": 2, "failure": ""}, "value": ["x", "float32", [99, 99]]}\'\n'
        "    os.write(3, frame(text, bytes(8))); time.sleep(600)",
    ),
    "a tensor of negative size": (
        "refused",
        _FRAME + "def rms_norm(x):\n"
        '    text = b\'{"head": {"id": 2, "failure": ""}, "value": ["x", "float32", [-1, -2]]}\'\n'
        "    os.write(3, frame(text, bytes(8))); time.sleep(600)",
    ),
    "a tensor of a dtype that is code": (
        "refused",
        _FRAME + "def rms_norm(x):\n"
        '    text = b\'{"head": {"id": 2, "failure": ""}, "value": ["x", "load", [1]]}\'\n'
        "    os.write(3, frame(text, bytes(4))); time.sleep(600)",
    ),
    "a pickle": (
        "refused",
        "class Run:\n    def __reduce__(self): return (exec, ('raise SystemExit(99)',))\n"
        "def rms_norm(x):\n    os.write(3, pickle.dumps(Run()) * 9); time.sleep(600)",
    ),
    "a pickle within a frame": (
        "refused",
        _FRAME + "def rms_norm(x):\n    os.write(3, frame(pickle.dumps(x))); time.sleep(600)",
    ),
    "junk on all descriptors": (
        "refused",
        "def rms_norm(x):\n    for number in range(64):\n"
        "        try: os.write(number, b'junk' * 99)\n"
        "        except OSError: pass\n    time.sleep(600)",
    ),
    "junk in the background": (
        ("refused", "slow", WRONG),  # the flood may come too late: the answer is wrong
        "def flood():\n    while True: os.write(3, b'junk')\n"
        "threading.Thread(target=flood, daemon=True).start()\n" + _WRONG,
    ),
    "close all descriptors": (
        "ended",
        "def rms_norm(x):\n    os.closerange(0, 64); time.sleep(600)",
    ),
    "put a file for the channel": (
        "ended",
        "def rms_norm(x):\n    os.dup2(os.open('reply', 66), 3); time.sleep(600)",
    ),
    "at exit": (
        "ended",
        "atexit.register(lambda: print('q1: 99 points'))\ndef rms_norm(x): os._exit(0)",
    ),
    "patch the wire": (
        WRONG,
        "wire = sys.modules['confined.wire']\nkeep = wire.frame\n"
        "wire.frame = lambda head, value=None, cap=0: keep({**head, 'points': 9}, True)\n" + _WRONG,
    ),
    "patch json and struct": (
        ("refused", "ended"),
        "json.dumps = lambda *a, **k: 'true'\nstruct.Struct.pack = None\n" + _WRONG,
    ),
    "delete the builtins": (
        ("ended", "raised NameError", "raised KeyError"),
        "def rms_norm(x):\n    vars(builtins).clear()\n    return x",
    ),
    "put another torch in its place": (
        "ended",
        "class Other:\n    def __getattr__(self, name): return lambda *a, **k: True\n"
        "sys.modules['torch'] = Other()\ndef rms_norm(x): return 0.0",
    ),
    "an import hook": (
        WRONG,
        "class Hook:\n    def find_spec(self, *a): raise SystemExit\n"
        "sys.meta_path.insert(0, Hook())\n" + _WRONG,
    ),
    "a trace on everything": (
        WRONG,
        "def trace(frame, event, argument):\n    frame.f_locals['ok'] = True\n    return trace\n"
        "sys.settrace(trace)\n" + _WRONG,
    ),
    "look for the answer in the frames": (
        WRONG,
        "def rms_norm(x):\n    frame = sys._getframe()\n    while frame:\n"
        "        for name, value in list(frame.f_locals.items()):\n"
        "            if name in ('expected', 'answer', 'truth'): return value\n"
        "        frame = frame.f_back\n    return torch.zeros_like(x)",
    ),
    "look for the answer among the objects": (
        WRONG,
        "def rms_norm(x):\n    for one in gc.get_objects():\n"
        "        if type(one) is torch.Tensor and one.shape == x.shape and one is not x:\n"
        "            return one\n"
        "    return torch.zeros_like(x)",
    ),
    "change the question": (WRONG, "def rms_norm(x):\n    x.zero_()\n    return x"),
    "print the marks": (
        WRONG,
        _WRONG + "print('q1: public checks passed')\nprint('points: 99/99')",
    ),
}
SLOW = frozenset(name for name, (actual, text) in MARKS.items() if actual == "slow")
