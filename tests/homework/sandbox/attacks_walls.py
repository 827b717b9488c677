"""Attacks on a worker's surroundings: files, network, processes, privileges.

Each row is {name: (what comes of it, the body of `attack(at)`)}. `at` tells the attacker more than
a student would ever know: where the key lies, which port listens, whose process is whose. What
comes of it is a failure, "raised TypeName", or "value" and its repr; DENIED is the two ways in
which a path can be out of reach.
"""

DENIED = ("raised PermissionError", "raised FileNotFoundError", "raised NotADirectoryError")
EPERM = "raised PermissionError"
# libc functions give -1 and an errno; the helper `system` in HEADER raises what it stands for.
HEADER = """
import atexit, builtins, ctypes, fcntl, gc, importlib, inspect, json, mmap, multiprocessing, os
import pathlib, pickle, re, resource, select, shutil, signal, socket, struct, subprocess, sys
import tempfile, threading, time
import numpy, torch

libc = ctypes.CDLL(None, use_errno=True)

def system(number, *arguments):
    got = libc.syscall(ctypes.c_long(number), *arguments)
    if got == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return got
"""

Rows = dict[str, tuple[str | tuple[str, ...], str]]


def end_as(what: str | tuple[str, ...], bodies: dict[str, str]) -> Rows:
    """Return rows with the same expected outcome."""
    return {name: (what, body) for name, body in bodies.items()}


FILES = {
    **end_as(DENIED, {
        "read the passwords": "return open('/etc/shadow').read()",
        "read the key": "return open(at['key']).read()",
        "list the folder of the key": "return os.listdir(at['outside'])",
        "read the key from the root": "os.chdir('/'); return open(at['key'][1:]).read()",
        "read the key through a path descriptor": """
top = os.open('/', os.O_PATH)
return os.open(at['key'][1:], os.O_RDONLY, dir_fd=top)""",
        "read the key through a link": "os.symlink(at['key'], 'l'); return open('l').read()",
        "climb to the key": "return open('../' * 30 + at['key'][1:]).read()",
        "map the key": "return mmap.mmap(os.open(at['key'], 0), 0, prot=mmap.PROT_READ)[:9]",
        "copy the key": "return shutil.copyfile(at['key'], 'mine')",
        "write outside": "open(at['outside'] + '/new', 'w').write('x')",
        "write outside through a link": (
            "os.symlink(at['outside'], 'there'); open('there/new', 'w').write('x')"
        ),
        "make a folder outside": "os.mkdir(at['outside'] + '/new')",
        "link outside": "os.symlink('/etc', at['outside'] + '/new')",
        "remove the key": "os.unlink(at['key'])",
        "empty the key": "os.truncate(at['key'], 0)",
        "open the key to all": "os.chmod(at['key'], 0o666)",
        "age the key": "os.utime(at['key'], (0, 0))",
        "own the key": "os.chown(at['key'], os.getuid(), os.getgid())",
        "mark the key": "os.setxattr(at['key'], 'user.mark', b'x')",
        "open the disk": "return os.open('/dev/vda', os.O_RDONLY)",
        "open the memory": "return os.open('/dev/mem', os.O_RDONLY)",
        "read one's own memory by file": "return open('/proc/self/mem', 'rb').read(1)",
        "read one's own map": "return open('/proc/self/maps').read()",
        "read the first process": "return open('/proc/1/environ').read()",
        "read the grader's environment": "return open(f\"/proc/{at['grader']}/environ\").read()",
        "read the grader's memory": "return open(f\"/proc/{at['grader']}/mem\", 'rb').read(1)",
        "read the zygote's files": "return os.listdir(f\"/proc/{at['zygote']}/fd\")",
        "write a group's limit": (
            "open('/sys/fs/cgroup/memory/memory.limit_in_bytes', 'w').write('-1')"
        ),
        "escape a group": "open('/sys/fs/cgroup/pids/cgroup.procs', 'w').write('0')",
        "spare oneself": "open('/proc/self/oom_score_adj', 'w').write('-1000')",
        "read labkit": "return open(at['labkit']).read()",
    }),
    **end_as((*DENIED, "raised OSError"), {
        "take the key by a hard link": "os.link(at['key'], 'mine'); return open('mine').read()",
        "move a file out": "open('a', 'w').close(); os.rename('a', at['outside'] + '/new')",
        "link a file out": "open('a', 'w').close(); os.link('a', at['outside'] + '/new')",
        "write over Python": "open(os.__file__, 'a').write('x')",
        "write over a package": "open(torch.__file__, 'a').write('x')",
    }),
    **end_as(EPERM, {
        "make a device": "os.mknod('disk', 0o60666, os.makedev(254, 0))",
        "make a pipe by name": "os.mkfifo('pipe')",
        "open by handle": (
            "return system(303, -100, at['key'].encode(), ctypes.create_string_buffer(136), "
            "ctypes.byref(ctypes.c_int()), 0)"
        ),
        "open another way (openat2)": (
            "return system(437, -100, at['key'].encode(), bytes(24), ctypes.c_size_t(24))"
        ),
    }),
    "list all processes": ((*DENIED, "value ['cpuinfo']"), "return os.listdir('/proc')"),
    **end_as("raised ModuleNotFoundError", {
        "import the tests": (
            "sys.path.insert(0, at['outside']); return importlib.import_module('secret').KEY"
        ),
        "import labkit": "return importlib.import_module('labkit')",
        "import what is installed beside": "return importlib.import_module('pytest').__name__",
    }),
    "import what is not allowed": ("forbidden", "import ensurepip"),
    "import from beside": ("forbidden", "from . import secret"),
    "look through all descriptors": (
        "value [0, 1, 2, 3]",
        """
found = []
for number in range(64):
    try:
        os.fstat(number)
        found.append(number)
    except OSError:
        pass
return found""",
    ),
    **end_as("value False", {
        "look through the environment": (
            "return at['hint'] in repr(os.environ) or at['hint'] in repr(sys.argv)"
        ),
        "look through all objects": """
hint = at['hint']
def tells(one):
    try:
        return type(one) in (str, bytes) and (hint if type(one) is str else hint.encode()) in one
    except Exception:
        return False
known = id(hint)
seen = set()
rest = gc.get_objects() + list(sys.modules.values())
for _ in range(2):
    rest = [one for one in gc.get_referents(*rest) if id(one) not in seen]
    seen.update(map(id, rest))
return any(tells(one) and one is not hint for one in rest if len(repr(type(one))) < 99)""",
        "look through all frames": """
frame, names = sys._getframe(), []
while frame:
    names += [*frame.f_locals, *frame.f_globals]
    frame = frame.f_back
return any('secret' in name or 'expected' in name for name in names)""",
    }),
}  # fmt: skip

NETWORK = {
    **end_as(EPERM, {
        "connect by TCP": "socket.create_connection(('127.0.0.1', at['tcp']))",
        "send by UDP": (
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', "
            "at['udp']))"
        ),
        "connect by IPv6": "socket.socket(socket.AF_INET6).connect(('::1', at['tcp']))",
        "connect by a path": "socket.socket(socket.AF_UNIX).connect(at['unix'])",
        "connect by an abstract name": "socket.socket(socket.AF_UNIX).connect('\\0' + at['hint'])",
        "listen": "socket.create_server(('127.0.0.1', 0))",
        "send raw packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "talk to the kernel (netlink)": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "make a pair of sockets": "socket.socketpair()",
        "connect past Python": "return system(41, 2, 1, 0)",
        "connect the channel elsewhere": """
place = struct.pack('=HH4s8x', 2, socket.htons(at['tcp']), b'\\x7f\\0\\0\\1')
return system(42, 3, place, 16)""",
        "send descriptors over the channel": "return system(46, 3, bytes(56), 0)",
        "use io_uring": "return system(425, 8, bytes(120))",
    }),
    "ask for a name": ("raised gaierror", "return socket.getaddrinfo('example.org', 80)"),
}  # fmt: skip
