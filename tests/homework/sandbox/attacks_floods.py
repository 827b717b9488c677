"""Attacks by volume: time, memory, output, files, threads, replies; rows as in walls.

`QUICK` names the rows that go on until their limit; they get a short one.
"""

from tests.homework.sandbox.attacks_walls import end_as

TIME = {
    **end_as("slow", {
        "loop": "while True: pass",
        "loop deaf to signals": """
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    try:
        while True: pass
    except BaseException:
        pass""",
        "loop in C": "return re.match(r'(a+)+$', 'a' * 64 + 'b')",
        "loop in arithmetic": "return pow(3, 10**12) % 7",
        "sleep": "time.sleep(600)",
        "wait for oneself": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "wait for a thread": (
            "thread = threading.Thread(target=time.sleep, args=(600,)); thread.start(); "
            "thread.join()"
        ),
        "read the channel": "os.read(3, 1)",
        "an error that never ends": """
class E(Exception):
    def __str__(self):
        while True: pass
raise E""",
    }),
    "a result that never ends": (
        "refused",
        "class L(list):\n    def __iter__(self):\n        while True: yield 1\nreturn L()",
    ),
}  # fmt: skip
QUICK = frozenset(name for name in TIME if TIME[name][0] == "slow")

MEMORY = {
    **end_as("memory", {
        "30 GB of tensor": "return torch.ones(30 << 28).sum().item()",
        "30 GB of array": "return float(numpy.ones(30 << 27).sum())",
        "30 GB of bytes": "return len(bytearray(30 << 30))",
        "memory piece by piece": "kept = []\nwhile True: kept.append(torch.ones(1 << 20))",
        "30 GB reserved": "return torch.empty(30 << 30, dtype=torch.uint8).shape[0]",
    }),
    "maps": (
        ("memory", "raised OSError"),
        "kept = []\nwhile True: kept.append(mmap.mmap(-1, 1 << 26))",
    ),
    "memory in folder": (
        ("memory", "ended", "raised OSError"),
        "for i in range(99):\n    open(str(i), 'wb').write(bytes(1 << 23))",
    ),
}  # fmt: skip

AMOUNT = {
    "threads": (
        ("raised RuntimeError", "memory"),
        "while True: threading.Thread(target=time.sleep, args=(60,)).start()",
    ),
    "threads that go on": (
        "value 1",
        """
def spin():
    while True: pass
for _ in range(3): threading.Thread(target=spin, daemon=True).start()
return 1""",
    ),
    "a closed folder": (
        "value 1",
        """
os.mkdir('d'); os.mkdir('d/e'); open('d/e/f', 'w').close(); os.umask(0o777)
os.mkdir('d/e/g'); return 1""",
    ),
    "descriptors": ("raised OSError", "kept = []\nwhile True: kept.append(os.dup(0))"),
    "a file with a hole": ("raised OSError", "os.truncate(os.open('big', 66), 3 << 30)"),
    **end_as(("raised OSError", "ended"), {
        "a file of 3 GB": """
with open('big', 'wb') as file:
    for _ in range(3 << 10): file.write(bytes(1 << 20))""",
        "a hundred thousand files": "for i in range(10**5): open(str(i), 'w').close()",
        "folders in folders": "for i in range(10**5): os.mkdir('d'); os.chdir('d')",
    }),
    "print for ever": ("slow", "while True: print('x' * 65536)"),
    "print without an end": ("slow", "while True: os.write(2, bytes(65536))"),
    "recurse": ("raised RecursionError", "def f(): f()\nf()"),
    **end_as("ended", {
        "recurse in C": """
sys.setrecursionlimit(10**9)
x = []
for _ in range(10**5): x = [x]
return repr(x)""",
        "crash": "ctypes.string_at(1)",
        "abort": "os.abort()",
        "leave": "os._exit(0)",
    }),
    "leave politely": ("raised SystemExit", "sys.exit(0)"),
    "interrupt": ("raised KeyboardInterrupt", "raise KeyboardInterrupt"),
    "a message of a megabyte": ("raised ValueError", "raise ValueError('x' * (1 << 20))"),
    "a message that rings": ("raised ValueError", "raise ValueError('\\x1b[2J\\x07\\0')"),
    "an error without a name": (
        ("ended", "raised PermissionError"),
        """
class Meta(type):
    @property
    def __name__(self): raise SystemExit
class E(Exception, metaclass=Meta): pass
raise E""",
    ),
}  # fmt: skip
QUICK |= {"print for ever", "print without an end"}

REPLIES = {
    "text of 1 GB": (("refused", "memory"), "return 'x' * (1 << 30)"),
    **end_as("refused", {
        "text of 9 MB": "return 'x' * (9 << 20)",
        "a million numbers": "return list(range(10**6))",
        "a tensor of 100 MB": "return torch.zeros(25 << 20)",
        "a tensor that only seems large": "return torch.zeros(1).expand(1 << 30)",
        "a list in itself": "x = []; x.append(x); return x",
        "lists in lists": "x = []\nfor _ in range(10**5): x = [x]\nreturn x",
        "a large integer": "return 1 << 100000",
        "a set": "return {1}",
        "bytes": "return b'x'",
        "a complex number": "return 1j",
        "a function": "return attack",
        "a class": "return dict",
        "a module": "return os",
        "a generator": "return (i for i in range(3))",
        "numbers as keys": "return {1: 2}",
        "a text of another kind": "class S(str): pass\nreturn S('x')",
        "a dict of another kind": "class D(dict): pass\nreturn D(x=1)",
        "a float of another kind": "class F(float): pass\nreturn F(1)",
        "a tensor of another kind": """
class T(torch.Tensor): pass
return torch.ones(2).as_subclass(T)""",
        "a sparse tensor": "return torch.eye(2).to_sparse()",
        "a tensor of nothing": "return torch.empty(2, device='meta')",
        "a quantized tensor": (
            "return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)"
        ),
        "a nested tensor": "return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])",
        "an array of objects": "return numpy.array([object()])",
        "an array of records": "return numpy.zeros(2, dtype=[('a', 'f4')])",
        "a class that seems plain": """
class C:
    __class__ = float
    def __eq__(self, other): return True
return C()""",
    }),
}  # fmt: skip
