"""Attacks on the marks: whole programs, called by `rms_norm(x)`; none may earn points.

Each row is {name: (what comes of it, program)}; the program must not hold a right rms_norm.
"""

from tests.homework.sandbox.attacks_walls import end_as

_WRONG = """
def rms_norm(x):
    return torch.zeros_like(x)
"""
_FRAME = """
def frame(text, body=b'', magic=b'LKW1', header=None, length=None):
    head = struct.pack('<4sIQ', magic, len(text) if header is None else header,
                       len(body) if length is None else length)
    return head + text + body

def reply(value, body=b''):
    return frame(b'{"head": {"id": 2, "failure": ""}, "value": ' + value + b'}', body)
"""
WRONG = "value wrong"  # a value came back, and it is not the right one


def send(message: str, then: str = "time.sleep(600)") -> str:
    """Return a program that writes bytes of its own to the channel when it is called."""
    return f"{_FRAME}\ndef rms_norm(x):\n    os.write(3, {message})\n    {then}"


MARKS = {
    **end_as(WRONG, {
        "patch torch.allclose": "torch.allclose = torch.equal = lambda *a, **k: True\n" + _WRONG,
        "patch torch.testing": (
            "torch.testing.assert_close = lambda *a, **k: None\n"
            "torch.Tensor.__eq__ = torch.Tensor.eq = lambda *a: torch.tensor(True)\n" + _WRONG
        ),
        "nothing": "def rms_norm(x): return None",
        "True": "def rms_norm(x): return True",
        "not a number": "def rms_norm(x): return x * float('nan')",
        "infinite": "def rms_norm(x): return x * float('inf')",
        "wrong shape": "def rms_norm(x): return x[:1] / x[:1].square().mean().sqrt()",
        "wrong dtype": "def rms_norm(x): return x.double()",
        "a dict that seems a reply": (
            "def rms_norm(x): return {'failure': '', 'id': 2, 'points': 99, 'value': True}"
        ),
        "a forged reply, then silence": send("reply(b'true')"),
        "patch the wire": (
            "wire = sys.modules['confined.wire']\nkeep = wire.write_frame\n"
            "wire.write_frame = lambda head, value=None, cap=0: keep({**head, 'points': 9}, True)\n"
            + _WRONG
        ),
        "an import hook": (
            "class Hook:\n    def find_spec(self, *a): raise SystemExit\n"
            "sys.meta_path.insert(0, Hook())\n" + _WRONG
        ),
        "a trace on everything": (
            "def trace(frame, event, argument):\n    frame.f_locals['ok'] = True\n"
            "    return trace\n"
            "sys.settrace(trace)\n" + _WRONG
        ),
        "look for the answer in the frames": (
            "def rms_norm(x):\n    frame = sys._getframe()\n    while frame:\n"
            "        for name, value in list(frame.f_locals.items()):\n"
            "            if name in ('expected', 'answer', 'truth'): return value\n"
            "        frame = frame.f_back\n    return torch.zeros_like(x)"
        ),
        "look for the answer among the objects": (
            "def rms_norm(x):\n    for one in gc.get_objects():\n"
            "        if type(one) is torch.Tensor and one.shape == x.shape and one is not x:\n"
            "            return one\n"
            "    return torch.zeros_like(x)"
        ),
        "change the question": "def rms_norm(x):\n    x.zero_()\n    return x",
        "print the marks": _WRONG + "print('q1: public checks passed')\nprint('points: 99/99')",
    }),
    **end_as("refused", {
        "equal to everything": (
            "class Same:\n    def __eq__(self, other): return True\n"
            "    def __getattr__(self, name): return lambda *a, **k: self\n"
            "def rms_norm(x): return Same()"
        ),
        "a tensor that is equal to everything": (
            "class Same(torch.Tensor):\n"
            "    @classmethod\n"
            "    def __torch_function__(cls, f, types, args=(), kwargs=None): return True\n"
            "def rms_norm(x): return torch.zeros(3, 8).as_subclass(Same)"
        ),
        "a forged reply ahead of time": _FRAME + "os.write(3, reply(b'true'))\n" + _WRONG,
        "a forged failure": send(
            'frame(b\'{"head": {"id": 2, "failure": "full marks"}}\')'
        ),
        "a failure that is no text": send('frame(b\'{"head": {"id": 2, "failure": ["raised"]}}\')'),
        "a failure that is no text, while importing": (
            _FRAME + "os.write(3, frame(b'{\"head\": {\"id\": 1, \"failure\": [1]}}'))\n" + _WRONG
        ),
        "a header of 4 GB": send("frame(b'', header=2**32 - 1)"),
        "a body without an end": send("frame(b'', length=2**63)"),
        "JSON without a bottom": send("frame(b'[' * (1 << 20))"),
        "numbers of a million digits": send("reply(b'9' * 10**6)"),
        "a tensor larger than its bytes": send(
            'reply(b\'["x", "float32", [99, 99]]\', bytes(8))'
        ),
        "a tensor of negative size": send('reply(b\'["x", "float32", [-1, -2]]\', bytes(8))'),
        "a tensor of a dtype that is code": send('reply(b\'["x", "load", [1]]\', bytes(4))'),
        "a pickle": (
            "class Run:\n    def __reduce__(self): return (exec, ('raise SystemExit(99)',))\n"
            + send("pickle.dumps(Run()) * 9")
        ),
        "a pickle within a frame": send("frame(pickle.dumps(x))"),
        "junk on all descriptors": (
            "def rms_norm(x):\n    for number in range(64):\n"
            "        try: os.write(number, b'junk' * 99)\n"
            "        except OSError: pass\n    time.sleep(600)"
        ),
    }),
    "no definition": ("missing", "rms_norm_ = 1"),
    "not a function": ("raised TypeError", "rms_norm = 3"),
    **end_as("broken", {
        "no Python": "def rms_norm(x:\n",
        "a definition that fails": "rms_norm = 1 / 0",
        "leave politely while importing": "rms_norm = sys.exit(0)",
    }),
    **end_as("ended", {
        "leave while importing": "os._exit(0)\n" + _WRONG,
        "close all descriptors": "def rms_norm(x):\n    os.closerange(0, 64); time.sleep(600)",
        "put a file for the channel": (
            "def rms_norm(x):\n    os.dup2(os.open('reply', 66), 3); time.sleep(600)"
        ),
        "at exit": "atexit.register(lambda: print('q1: 99 points'))\ndef rms_norm(x): os._exit(0)",
        "put another torch in its place": (
            "class Other:\n    def __getattr__(self, name): return lambda *a, **k: True\n"
            "sys.modules['torch'] = Other()\ndef rms_norm(x): return 0.0"
        ),
    }),
    **end_as("slow", {
        "loop while importing": "while True: pass\n" + _WRONG,
        "a reply that stalls": send("frame(b'{', header=1 << 20)"),
        "a reply drop by drop": send(
            "frame(b'{', header=1 << 20)", "while True: os.write(3, b' '); time.sleep(0.01)"
        ),
    }),
    "a forged reply": (
        ("refused", WRONG),  # whether the grader read between the two replies
        send(
            'frame(b\'{"head": {"id": 2, "failure": "", "points": 9}, "value": true}\')', "return x"
        ),
    ),
    "junk in the background": (
        ("refused", "slow", WRONG),  # the flood may come too late: the answer is wrong
        "def flood():\n    while True: os.write(3, b'junk')\n"
        "threading.Thread(target=flood, daemon=True).start()\n" + _WRONG,
    ),
    "patch json and struct": (
        ("refused", "ended"),
        "json.dumps = lambda *a, **k: 'true'\nstruct.Struct.pack = None\n" + _WRONG,
    ),
    "delete the builtins": (
        ("ended", "raised NameError", "raised KeyError"),
        "def rms_norm(x):\n    vars(builtins).clear()\n    return x",
    ),
}  # fmt: skip
SLOW = frozenset(name for name, (actual, text) in MARKS.items() if actual == "slow")
