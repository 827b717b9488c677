"""Attacks on other processes, and on privileges that a worker lacks; rows as in walls."""

from tests.homework.sandbox.attacks_walls import DENIED, EPERM, end_as

# Machine code: put arguments into place, make the call, return.
_CODE = """
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex({code!r}))
place = ctypes.addressof(ctypes.c_char.from_buffer(page))
return ctypes.CFUNCTYPE(ctypes.c_long)(place)()"""

PROCESSES = {
    **end_as(EPERM, {
        "fork": "return os.fork()",
        "fork in pairs": "while True: os.fork()",
        "fork a daemon": (
            "if os.fork(): return 1\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(600)"
        ),
        "fork past Python": "return system(57)",
        "fork sharing memory": "return system(58)",
        "clone": "return system(56, ctypes.c_long(17), 0, 0, 0, 0)",
        "become Python": "os.execv(sys.executable, ['python'])",
        "start processes": "multiprocessing.Process(target=print).start()",
        "run a program from memory": "return system(319, b'x', 0)",
        "kill the grader": "os.kill(at['grader'], signal.SIGKILL)",
        "stop the grader": "os.kill(at['grader'], signal.SIGSTOP)",
        "kill the zygote": "os.kill(at['zygote'], signal.SIGKILL)",
        "stop the parent": "os.kill(os.getppid(), signal.SIGSTOP)",
        "kill a sibling": "os.kill(at['sibling'], signal.SIGKILL)",
        "kill everybody": "os.kill(-1, signal.SIGKILL)",
        "kill the group": "os.killpg(0, signal.SIGKILL)",
        "kill by thread": "return system(234, at['sibling'], at['sibling'], 9)",
        "kill by descriptor": "return system(434, at['sibling'], 0)",
        "queue a signal": "return system(129, at['sibling'], 9, bytes(128))",
        "have the kernel signal a sibling": "fcntl.fcntl(3, fcntl.F_SETOWN, at['sibling'])",
        "choose the signal": "fcntl.fcntl(3, fcntl.F_SETSIG, signal.SIGKILL)",
        "trace the parent": "return system(101, 16, os.getppid(), 0, 0)",
        "trace a sibling": "return system(101, 0x4206, at['sibling'], 0, 0)",
        "read a sibling's memory": (
            "return system(310, at['sibling'], bytes(16), 1, bytes(16), 1, 0)"
        ),
        "write a sibling's memory": (
            "return system(311, at['sibling'], bytes(16), 1, bytes(16), 1, 0)"
        ),
        "compare with a sibling": "return system(312, os.getpid(), at['sibling'], 0, 0, 0)",
        "limit a sibling": "resource.prlimit(at['sibling'], resource.RLIMIT_CPU, (1, 1))",
        "leave the session": "os.setsid()",
        "share memory by key": "return system(29, 1, ctypes.c_size_t(4096), 0o1666)",
        "queue messages by name": "return system(240, b'queue', 0o102, 0o666, 0)",
    }),
    "clone another way": (
        "raised OSError",  # there is no such call, as on an older kernel
        "return system(435, bytes(88), ctypes.c_size_t(88))",
    ),
    "run a program": ((*DENIED,), "return subprocess.run(['/bin/sh', '-c', 'id']).returncode"),
    "become a program": (DENIED, "os.execv('/bin/sh', ['sh'])"),
    "spawn a program": (DENIED, "return os.posix_spawn('/bin/sh', ['sh'], {})"),
    "run a shell": (("value -1", "value 32512"), "return os.system('true')"),
    "kill by machine code": (
        "value -1",  # -EPERM: kill(-1, SIGKILL)
        _CODE.format(code="48c7c7ffffffff be09000000 b83e000000 0f05 c3"),
    ),
    "call as a 32-bit program": (
        "ended",  # getpid by the old gate: no such calls here
        _CODE.format(code="b814000000 cd80 c3"),
    ),
    "call by x32 numbers": ("ended", _CODE.format(code="b827000040 0f05 c3")),
}  # fmt: skip

POWERS = {
    "become root": (("raised PermissionError",), "os.setuid(0)"),
    **end_as(EPERM, {
        "become root's group": "os.setgid(0)",
        "take groups": "os.setgroups([0])",
        "take capabilities": "return system(126, struct.pack('=Ii', 0x20080522, 0), b'\\xff' * 24)",
        "get a user namespace": "return system(272, 0x10000000)",
        "get a mount namespace": "return system(272, 0x00020000)",
        "join a namespace": "return system(308, 3, 0)",
        "mount": "return system(165, b'none', b'/tmp', b'tmpfs', 0, 0)",
        "mount another way": "return system(430, b'tmpfs', 0)",
        "unmount": "return system(166, b'/tmp', 2)",
        "change the root": "os.chroot('.')",
        "turn the root": "return system(155, b'.', b'.')",
        "be nicer to oneself": "os.nice(-5)",
        "be real-time": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
        "choose the cores": "os.sched_setaffinity(0, {0})",
        "take privileges back": "return system(157, 38, 0, 0, 0, 0)",
        "be traced again": "return system(157, 4, 1, 0, 0, 0)",
        "outlive the parent": "return system(157, 1, 0, 0, 0, 0)",
        "adopt orphans": "return system(157, 36, 1, 0, 0, 0)",
        "filter calls anew": "return system(317, 1, 0, bytes(16))",
        "load a program into the kernel": "return system(321, 0, bytes(120), 120)",
        "count the kernel's events": "return system(298, bytes(120), 0, -1, -1, 0)",
        "handle page faults": "return system(323, 0)",
        "add a key to the kernel": "return system(248, b'user', b'k', b'v', 1, -3)",
        "read the kernel's keys": "return system(250, 0, -3, 0)",
        "change personality": "return system(135, 0x0040000)",
        "change the host's name": "return system(170, b'x', 1)",
        "change the time": "time.clock_settime(time.CLOCK_REALTIME, 0)",
        "restart the machine": "return system(169, 0xfee1dead, 0x28121969, 0x1234567, 0)",
        "load a module": "return system(175, bytes(16), 16, b'')",
        "watch the disk": "return system(300, 0, 0)",
        "watch files": "return system(253)",
        "talk to the terminal": "fcntl.ioctl(0, 0x5412, b'x')",
        "open the ports": "return system(172, 3)",
        "swap": "return system(167, b'/tmp/x', 0)",
        "lock memory": "return system(151, 3)",
    }),
    "raise the memory limit": (
        ("raised PermissionError", "raised ValueError"),
        "resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)",
    ),
    "raise the file limit": (
        ("raised PermissionError", "raised ValueError"),
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))",
    ),
}  # fmt: skip
