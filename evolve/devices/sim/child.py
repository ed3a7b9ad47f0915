"""Runs one job in its own process: `python -I -S child.py PROGRAM JOB_FD BYTES AS_LIMIT CPU_S LAUNCHER...`.

Standard library only, no import from evolve. The program is untrusted code: limits come first.
"""

import ctypes
import resource
import sys


def main(argv: list[str]) -> int:
    """Load the program and hand it the job. On exit status 0 the job's status field says the rest."""
    program, fd, size, address_space, cpu_s = argv[0], int(argv[1]), int(argv[2]), int(argv[3]), int(argv[4])
    for what, limit in (
        (resource.RLIMIT_AS, address_space),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, size),
        (resource.RLIMIT_NOFILE, 32),
    ):
        resource.setrlimit(what, (limit, limit))
    for libm in ("libm.so.6", "libm.so", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"):
        try:
            ctypes.CDLL(libm, mode=ctypes.RTLD_GLOBAL)
            break
        except OSError:
            continue
    library = ctypes.CDLL(program)
    launchers = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in argv[5:]]
    table = (ctypes.c_void_p * len(launchers))(*launchers)
    library.ev_main.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64)
    return int(library.ev_main(f"/proc/self/fd/{fd}".encode(), table, size))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
