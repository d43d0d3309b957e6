"""usage: run.py PROGRAM [ARGUMENT ...]     (by ../x86.sh)

Runs a static x86-64 Linux program on the processor that Bochs emulates (the Python package bochscpu): one thread in
long mode over 4 GiB of memory, whose calls of the system are answered here. No operating system is involved, so that
a processor with instructions that the build machine lacks needs nothing else. Exit status: the program's; 70 where it
did what cannot be answered.
"""
import ctypes
import errno
import os
import struct
import sys
import time

import bochscpu
import bochscpu.cpu
import bochscpu.memory

PAGE = 4096
MEMORY = 4 << 30
TABLES = 0x10000  # page tables, below the program
TRAP = 0x9000  # where the instruction SYSCALL goes
STACK = 0xBFFF0000
ANONYMOUS = 0xC0000000  # mmap's memory, handed out upwards and never again
CODE, DATA = 0xA0FB, 0xC0F3  # attributes of 64-bit segments of ring 3

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
ram = libc.mmap(None, MEMORY, 3, 0x4022, -1, 0)  # read and write; private, anonymous, no reserve


def read(address, size):
    if not 0 <= address <= MEMORY - size:
        stop(f"read of {size} bytes at {address:#x}")
    return ctypes.string_at(ram + address, size)


def write(address, data):
    if not 0 <= address <= MEMORY - len(data):
        stop(f"write of {len(data)} bytes at {address:#x}")
    ctypes.memmove(ram + address, data, len(data))


def text(address):
    return read(address, PAGE).split(b"\0")[0]


def stop(why):
    print(f"emulator: {why}", file=sys.stderr, flush=True)
    os._exit(70)


def give_page(address):
    """Called for a page that Bochs does not know yet."""
    if address >= MEMORY:
        stop(f"no memory at {address:#x}")
    first = address & ~0xFFFF
    for page in range(first, first + 0x10000, PAGE):
        bochscpu.memory.page_insert(page, ram + page)


def make_page_tables():
    """Every address is its own physical address, in pages of 2 MiB."""
    pages = [(i << 21) | 0x87 for i in range(MEMORY >> 21)]
    directories = [TABLES + 0x2000 + PAGE * i | 7 for i in range(MEMORY >> 30)]
    write(TABLES, struct.pack("<Q", TABLES + 0x1000 | 7))
    write(TABLES + 0x1000, struct.pack(f"<{len(directories)}Q", *directories))
    write(TABLES + 0x2000, struct.pack(f"<{len(pages)}Q", *pages))


def load(arguments):
    """The program's segments and its stack. Returns entry, stack pointer and where its data ends."""
    with open(arguments[0], "rb") as file:
        image = file.read()
    if image[:5] != b"\x7fELF\x02" or struct.unpack_from("<HH", image, 16) != (2, 62):
        stop(f"{arguments[0]} is no static x86-64 program")
    entry, table = struct.unpack_from("<QQ", image, 24)
    size, count = struct.unpack_from("<HH", image, 54)
    headers, end = 0, 0
    for i in range(count):
        kind, _, offset, address, _, length, memory, _ = struct.unpack_from("<IIQQQQQQ", image, table + i * size)
        if kind != 1:
            continue
        write(address, image[offset : offset + length])
        end = max(end, address + memory)
        if offset == 0:
            headers = address + table
    top = STACK

    def push(data):
        nonlocal top
        top -= len(data)
        write(top, data)
        return top

    words = [len(arguments)] + [push(a.encode() + b"\0") for a in arguments] + [0]
    words += [push(f"{name}={value}".encode() + b"\0") for name, value in os.environ.items() if name.startswith("LLM")]
    # AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_ENTRY, AT_RANDOM, AT_CLKTCK
    auxiliary = {3: headers, 4: size, 5: count, 6: PAGE, 9: entry, 25: push(bytes(range(16))), 17: 100}
    words += [0] + [number for pair in auxiliary.items() for number in pair] + [0, 0]
    top = (top - 8 * len(words)) & ~15
    write(top, struct.pack(f"<{len(words)}Q", *words))
    return entry, top, (end + PAGE - 1) & -PAGE


class System:
    """Linux as far as such a program asks for it. A method is a call: its arguments, what rax becomes."""

    def __init__(self, end):
        self.least = self.end = end
        self.free = ANONYMOUS

    def calls(self):
        nothing = lambda *_: 0
        return {
            0: self.read, 1: self.write, 3: self.close, 5: self.fstat, 8: self.lseek, 9: self.mmap, 12: self.brk,
            16: lambda *_: -errno.ENOTTY, 20: self.writev, 39: lambda *_: 1, 60: self.exit, 89: lambda *_: -errno.EINVAL,
            96: self.gettimeofday, 186: lambda *_: 1, 202: self.futex, 204: self.affinity, 218: lambda *_: 1,
            228: self.clock, 231: self.exit, 257: self.open, 262: self.stat, 302: self.limit, 318: self.random,
            # mprotect, munmap, signal handlers and masks, yield, madvise, alternate stack, rusage, robust list
            **dict.fromkeys((10, 11, 13, 14, 24, 28, 98, 131, 273), nothing), 334: lambda *_: -errno.ENOSYS,
        }  # fmt: skip

    def exit(self, status, *_):
        os._exit(status & 255)

    def read(self, file, address, size, *_):
        data = os.read(file, size)
        write(address, data)
        return len(data)

    def write(self, file, address, size, *_):
        return os.write(file, read(address, size)) if file in (1, 2) else -errno.EBADF

    def writev(self, file, list_, count, *_):
        parts = [struct.unpack("<QQ", read(list_ + 16 * i, 16)) for i in range(count)]
        return sum(self.write(file, *part) for part in parts)

    def open(self, _, path, flags, *__):
        if flags & 3:
            return -errno.EROFS
        return os.open(text(path), os.O_RDONLY)

    def close(self, file, *_):
        if file > 2:
            os.close(file)
        return 0

    def lseek(self, file, offset, whence, *_):
        return os.lseek(file, offset - (offset >> 63 << 64), whence)

    def put_stat(self, s, to):
        head = struct.pack("<QQQIIIIQqqq", s.st_dev, s.st_ino, s.st_nlink, s.st_mode, 0, 0, 0, 0, s.st_size, PAGE, 0)
        write(to, head + bytes(144 - len(head)))
        return 0

    def fstat(self, file, to, *_):
        return self.put_stat(os.fstat(file), to)

    def stat(self, file, path, to, *_):
        name = text(path)
        return self.put_stat(os.stat(name) if name else os.fstat(file), to)

    def brk(self, end, *_):
        if self.least < end < STACK - (64 << 20):
            self.end = end
        return self.end

    def mmap(self, _, size, __, flags, *___):
        at, size = self.free, (size + PAGE - 1) & -PAGE
        if not flags & 0x20:  # a file
            return -errno.ENODEV
        if at + size > MEMORY:
            return -errno.ENOMEM
        self.free += size
        return at

    def futex(self, _, operation, *__):
        return 0 if operation & 1 else -errno.EAGAIN  # wake; nobody else could end a wait

    def affinity(self, _, __, to, *___):
        write(to, struct.pack("<Q", 1))
        return 8

    def limit(self, _, __, ___, to, *____):
        if to:
            write(to, struct.pack("<QQ", 8 << 20, 8 << 20))
        return 0

    def clock(self, _, to, *__):
        write(to, struct.pack("<QQ", *divmod(time.monotonic_ns(), 10**9)))
        return 0

    def gettimeofday(self, to, *_):
        write(to, struct.pack("<QQ", *divmod(time.time_ns() // 1000, 10**6)))
        return 0

    def random(self, to, size, *_):
        write(to, os.urandom(size))
        return size


def segment(selector, attributes, base=0):
    out = bochscpu.Segment()
    out.present, out.selector, out.attr, out.base, out.limit = True, selector, attributes, base, 0xFFFFFFFF
    return out


def first_state(entry, stack):
    state = bochscpu.State()
    bochscpu.cpu.set_long_mode(state)
    state.cr4 |= 1 << 9 | 1 << 10 | 1 << 16 | 1 << 18  # SSE and its exceptions, FSGSBASE, XSAVE
    state.cr3 = TABLES
    state.xcr0 = 0xE7  # x87, SSE, AVX, AVX-512
    state.mxcsr, state.mxcsr_mask, state.fpcw, state.fptw = 0x1F80, 0xFFFF, 0x37F, 0xFFFF
    state.rip, state.rsp, state.rflags = entry, stack, 2
    state.cs = segment(0x33, CODE)
    for name in ("ds", "es", "fs", "gs", "ss"):
        setattr(state, name, segment(0x2B, DATA))
    state.star, state.lstar, state.sfmask = 0x20 << 48 | 0x08 << 32, TRAP, 0x700
    return state


def answer(calls, cpu):
    """A call of the system: number in rax, arguments in rdi, rsi, rdx, r10, r8, r9."""
    number, arguments = cpu.rax, (cpu.rdi, cpu.rsi, cpu.rdx, cpu.r10, cpu.r8, cpu.r9)
    if number == 158 and arguments[0] == 0x1002:  # arch_prctl: ARCH_SET_FS
        cpu.fs = segment(0x2B, DATA, arguments[1])
        cpu.rax = 0
        return
    if number not in calls:
        stop(f"no call {number} of the system")
    try:
        result = calls[number](*arguments)
    except OSError as error:
        result = -error.errno
    cpu.rax = result & (1 << 64) - 1


def main():
    make_page_tables()
    entry, stack, end = load(sys.argv[1:])
    # CLFLUSH of a line of no use, of which a hook tells, then SYSRET.
    write(TRAP, bytes.fromhex("0fae3c2500a00000480f07"))
    session = bochscpu.Session()
    session.missing_page_handler = give_page
    session.cpu.set_state(first_state(entry, stack))
    calls = System(end).calls()
    hook = bochscpu.Hook()
    # Nothing may be thrown through the emulator.
    hook.clflush = lambda session, *_: answer(calls, session.cpu)
    hook.exception = lambda session, _, vector, *__: stop(f"exception {vector} at {session.cpu.rip:#x}")
    session.run([hook])
    stop("the processor halted")


main()
