"""Attacks by amount: time, memory, output, files, threads, replies; rows as in walls.

`QUICK` names the rows that go on until their limit; they get a short one.
"""

TIME = {
    "loop": ("slow", "while True: pass"),
    "loop deaf to signals": (
        "slow",
        """
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
    ),
    "loop in C": ("slow", "return re.match(r'(a+)+$', 'a' * 64 + 'b')"),
    "loop in arithmetic": ("slow", "return pow(3, 10**12) % 7"),
    "sleep": ("slow", "time.sleep(600)"),
    "wait for oneself": ("slow", "lock = threading.Lock(); lock.acquire(); lock.acquire()"),
    "wait for a thread": (
        "slow",
        "thread = threading.Thread(target=time.sleep, args=(600,)); thread.start(); thread.join()",
    ),
    "read the channel": ("slow", "os.read(3, 1)"),
    "a result that never ends": (
        "refused",
        "class L(list):\n    def __iter__(self):\n        while True: yield 1\nreturn L()",
    ),
    "an error that never ends": (
        "slow",
        "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
    ),
}
QUICK = frozenset(name for name in TIME if TIME[name][0] == "slow")

MEMORY = {
    "30 GB of tensor": ("memory", "return torch.ones(30 << 28).sum().item()"),
    "30 GB of array": ("memory", "return float(numpy.ones(30 << 27).sum())"),
    "30 GB of bytes": ("memory", "return len(bytearray(30 << 30))"),
    "memory piece by piece": (
        "memory",
        "kept = []\nwhile True: kept.append(torch.ones(1 << 20))",
    ),
    "maps": (
        ("memory", "raised OSError"),
        "kept = []\nwhile True: kept.append(mmap.mmap(-1, 1 << 26))",
    ),
    "30 GB reserved": ("memory", "return torch.empty(30 << 30, dtype=torch.uint8).shape[0]"),
    "memory in folder": (
        ("memory", "ended", "raised OSError"),
        "for i in range(99):\n    open(str(i), 'wb').write(bytes(1 << 23))",
    ),
}

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
    "descriptors": (
        "raised OSError",
        "kept = []\nwhile True: kept.append(os.dup(0))",
    ),
    "a file of 3 GB": (
        ("raised OSError", "ended"),
        "with open('big', 'wb') as file:\n    for _ in range(3 << 10): file.write(bytes(1 << 20))",
    ),
    "a file with a hole": ("raised OSError", "os.truncate(os.open('big', 66), 3 << 30)"),
    "a hundred thousand files": (
        ("raised OSError", "ended"),
        "for i in range(10**5): open(str(i), 'w').close()",
    ),
    "folders in folders": (
        ("raised OSError", "ended"),
        "for i in range(10**5): os.mkdir('d'); os.chdir('d')",
    ),
    "a closed folder": (
        "value 1",
        "os.mkdir('d'); os.mkdir('d/e'); open('d/e/f', 'w').close(); os.umask(0o777)\n"
        "os.mkdir('d/e/g'); return 1",
    ),
    "print for ever": ("slow", "while True: print('x' * 65536)"),
    "print without an end": ("slow", "while True: os.write(2, bytes(65536))"),
    "recurse": ("raised RecursionError", "def f(): f()\nf()"),
    "recurse in C": (
        "ended",
        "sys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**5): x = [x]\nreturn repr(x)",
    ),
    "crash": ("ended", "ctypes.string_at(1)"),
    "abort": ("ended", "os.abort()"),
    "leave": ("ended", "os._exit(0)"),
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
}
QUICK |= {"print for ever", "print without an end"}

REPLIES = {
    "text of 1 GB": (("refused", "memory"), "return 'x' * (1 << 30)"),
    "text of 9 MB": ("refused", "return 'x' * (9 << 20)"),
    "a million numbers": ("refused", "return list(range(10**6))"),
    "a tensor of 100 MB": ("refused", "return torch.zeros(25 << 20)"),
    "a tensor that only seems large": ("refused", "return torch.zeros(1).expand(1 << 30)"),
    "a list in itself": ("refused", "x = []; x.append(x); return x"),
    "lists in lists": ("refused", "x = []\nfor _ in range(10**5): x = [x]\nreturn x"),
    "a large integer": ("refused", "return 1 << 100000"),
    "a set": ("refused", "return {1}"),
    "bytes": ("refused", "return b'x'"),
    "a complex number": ("refused", "return 1j"),
    "a function": ("refused", "return attack"),
    "a class": ("refused", "return dict"),
    "a module": ("refused", "return os"),
    "a generator": ("refused", "return (i for i in range(3))"),
    "numbers as keys": ("refused", "return {1: 2}"),
    "a text of another kind": ("refused", "class S(str): pass\nreturn S('x')"),
    "a dict of another kind": ("refused", "class D(dict): pass\nreturn D(x=1)"),
    "a float of another kind": ("refused", "class F(float): pass\nreturn F(1)"),
    "a tensor of another kind": (
        "refused",
        "class T(torch.Tensor): pass\nreturn torch.ones(2).as_subclass(T)",
    ),
    "a sparse tensor": ("refused", "return torch.eye(2).to_sparse()"),
    "a tensor of nothing": ("refused", "return torch.empty(2, device='meta')"),
    "a quantized tensor": (
        "refused",
        "return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)",
    ),
    "a nested tensor": (
        "refused",
        "return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])",
    ),
    "an array of objects": ("refused", "return numpy.array([object()])"),
    "an array of records": ("refused", "return numpy.zeros(2, dtype=[('a', 'f4')])"),
    "a class that seems plain": (
        "refused",
        "class C:\n    __class__ = float\n    def __eq__(self, other): return True\nreturn C()",
    ),
}
