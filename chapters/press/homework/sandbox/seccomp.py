"""The system calls that a worker may make; all others fail with EPERM.

A worker computes, reads what is shown to it and writes below its own folder. So there is no call
here to start a process or a program, to signal or trace another one, to open a socket, to change
users, mounts, namespaces, limits, modes or owners of files, and none that a later kernel adds.
"""

import errno
import tempfile
from functools import cache

COMPUTE = """
    brk mmap munmap mremap mprotect madvise msync membarrier futex set_robust_list get_robust_list
    rseq set_tid_address sched_yield sched_getaffinity sched_getparam sched_getscheduler
    sched_get_priority_max sched_get_priority_min getpriority getcpu exit exit_group
    restart_syscall arch_prctl getrandom uname sysinfo
"""
FILES = """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close
    close_range dup dup2 dup3 open openat creat stat fstat lstat newfstatat statx access faccessat
    faccessat2 readlink readlinkat getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir
    unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat ftruncate fallocate
    umask fsync fdatasync flock statfs fstatfs fadvise64 readahead sendfile copy_file_range
    getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
"""
WAIT = """
    poll ppoll select pselect6 epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd2 pipe pipe2
    pause alarm setitimer getitimer nanosleep clock_nanosleep clock_gettime clock_getres
    gettimeofday time times wait4 waitid
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend
    sigaltstack
"""
SELF = """
    getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp
    getpgid getsid getrlimit getrusage
"""

_THREAD = 0x00010000  # of clone's flags: the new task is a thread of this process
_NAMESPACES = 0x7E020000  # ... or it is in new namespaces

# Calls allowed with some arguments only: (call, argument, values).
CHOSEN = (
    # duplicate, flags, locks, pipe size: not F_SETOWN and F_SETSIG, which send signals
    ("fcntl", 1, (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)),
    # is it a terminal, how large, how much to read, block or not, close on exec or not
    ("ioctl", 1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),
    # name this thread or its memory, and read flags
    ("prctl", 0, (15, 16, 0x53564D41, 3, 21, 23, 39)),
)


@cache
def compile_filter() -> bytes:
    """Compile the list for this machine: entries of 8 bytes for prctl(PR_SET_SECCOMP).

    pyseccomp and libseccomp must be there; RuntimeError or ImportError otherwise.
    """
    import pyseccomp as seccomp  # the extra `course`

    rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))

    def allow(name: str, *arguments: seccomp.Arg) -> None:
        number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
        if number >= 0:  # this architecture has it
            rules.add_rule(seccomp.ALLOW, number, *arguments)

    for name in f"{COMPUTE} {FILES} {WAIT} {SELF}".split():
        allow(name)
    for name, argument, values in CHOSEN:
        for value in values:
            allow(name, seccomp.Arg(argument, seccomp.EQ, value))
    allow("clone", seccomp.Arg(0, seccomp.MASKED_EQ, _THREAD | _NAMESPACES, _THREAD))
    # One's own limits may be read.
    allow("prlimit64", seccomp.Arg(0, seccomp.EQ, 0), seccomp.Arg(2, seccomp.EQ, 0))
    # Its arguments cannot be looked into; the C library then takes clone.
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
