"""Bytes of weights, keys and values that a multiprocessor has asked for at once, in kernels that write text.

The loop with tensor instructions is followed instruction by instruction: a load is under way from its place to the first
instruction that names one of its registers. The most bytes under way of a warp, times the warps that a multiprocessor
has room for (registers, shared memory; cuda_occupancy.h), have to be LEAST at least: memory of these GPUs answers after
some 600 to 800 ns, in which a multiprocessor's share of it is as much.
"""
import re
import subprocess

import disassembly
import kernels

LEAST = 32 * 1024
PRODUCT = re.compile(r"^matmul_(?:decode|experts|mixed)_kernel<WeightFormat<.*>(?:, \d+)?, (\d+)>")
# Of 9 to 16 rows. MXFP4's is left out: nvcc 13.0 gives it 34 KB for sm_80, but 30 for sm_90a.
BATCH = re.compile(r"^matmul_batch_kernel<(?!.*Mxfp4Table)")
MIXED = "matmul_mixed_kernel"  # has a loop for each of its formats
ATTENTION = re.compile(r"^attention_mma_kernel<")
BATCH_WARPS = 8  # as kernels/matmul_batch.cuh has it
ATTENTION_WARPS = 4  # as kernels/attention_mma.cu has it
REGISTER = re.compile(r"\bR(\d+)(\.64)?")
COPY = re.compile(r"(?:IMAD\.MOV\.U32|MOV) +R(\d+), (?:RZ, RZ, )?R(\d+) *$")
ADDRESS = re.compile(r"\[R(\d+)(?:\.64)?(?:\+(-?0x[0-9a-f]+))?\]")


def warps_of(name):
    """Of a block; None for kernels that this is not about."""
    product = PRODUCT.match(name)
    if product:
        return int(product[1])
    if BATCH.match(name):
        return BATCH_WARPS
    return ATTENTION_WARPS if ATTENTION.match(name) else None


def size_of(opcode):
    return 16 if ".128" in opcode else 8 if ".64" in opcode else 4


def streamed(name, opcode):
    """Whether an instruction loads weights (which alone are read once), keys or values."""
    if not opcode.startswith("LDG"):
        return False
    # In attention, single words are numbers of pages.
    return size_of(opcode) > 4 if ATTENTION.match(name) else ".EF" in opcode


def registers_of(opcode, operands):
    """All that an instruction may name. Tensor instructions name up to four by the first of them."""
    used = set()
    for number, wide in REGISTER.findall(operands):
        count = 4 if opcode.startswith(disassembly.TENSOR) else 2 if wide else 1
        used.update(range(int(number), int(number) + count))
    return used


def written_by(opcode, operands):
    """The registers that an instruction leaves something in."""
    first = REGISTER.match(operands.strip())
    if not first or opcode.startswith("ST"):
        return set()
    wide = 2 if ".WIDE" in opcode or ".64" in opcode else 1
    count = 4 if opcode.startswith(disassembly.TENSOR) else size_of(opcode) // 4 if opcode.startswith("LD") else wide
    return set(range(int(first[1]), int(first[1]) + count))


def streams_of(name, function, loop):
    """Of a turn's loads of weights: the place of the instruction and how many different bytes a warp asks for by it.

    Levels are loads of one base, 512 bytes apart: each lane has its own. Scales are the same for the four lanes of a
    row. What is neither is taken for scales."""
    values, bases, place = {}, {}, {}  # values: what a register has, as the place of the instruction that made it
    for at in sorted(loop):
        _, opcode, operands = function["code"][at]
        address, copy = ADDRESS.search(operands), COPY.match(opcode + operands)
        if streamed(name, opcode) and address:
            place[at] = values.get(int(address[1]), -int(address[1]))
            bases.setdefault(place[at], []).append(int(address[2] or "0", 16))
        for register in written_by(opcode, operands):
            values[register] = at
        if copy:
            values[int(copy[1])] = values.get(int(copy[2]), -int(copy[2]))
    sizes = {}
    for at, base in place.items():
        offsets = bases[base]
        own = len(offsets) > 1 and all((offset - offsets[0]) % 512 == 0 for offset in offsets)
        sizes[at] = (32 if own or ATTENTION.match(name) else 8) * size_of(function["code"][at][1])
    return sizes


def most_under_way(name, function, loop):
    """Bytes of a warp. Twice around: loads of the next turn may be ahead of its end."""
    under_way, most, sizes = [], 0, streams_of(name, function, loop)
    for at in 2 * sorted(loop):
        _, opcode, operands = function["code"][at]
        used = registers_of(opcode, operands)
        under_way = [(held, size) for held, size in under_way if not held & used]
        if at in sizes:
            under_way.append((written_by(opcode, operands), sizes[at]))
        most = max(most, sum(size for _, size in under_way))
    return most


def occupancies(program, questions):
    """Blocks of a multiprocessor for each (architecture, registers, shared memory, threads)."""
    lines = "".join(f"{arch} {registers} {shared} {threads}\n" for arch, registers, shared, threads in questions)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    blocks = [int(line) for line in done.stdout.split()]
    if len(blocks) != len(questions):
        raise kernels.Failure(f"{len(blocks)} answers to {len(questions)} questions")
    return blocks


def measure(found, program):
    """Per kernel and architecture: KB of a multiprocessor under way at once."""
    kernels_found, questions = [], []
    for arch, functions in sorted(found.items()):
        names = kernels.short_names(functions)
        for raw, function in functions.items():
            warps = warps_of(names[raw])
            if warps is None:
                continue
            loops = [loop for loop in disassembly.loops_of(function) if disassembly.has_tensor(function, loop)]
            least = min if names[raw].startswith(MIXED) else max
            most = least((most_under_way(names[raw], function, loop) for loop in loops), default=0)
            kernels_found.append((names[raw], arch, warps * most))
            questions.append((arch.rstrip("a"), function["registers"], function["shared"], 32 * warps))
    if not kernels_found:
        raise kernels.Failure("no kernel of those that write text")
    table = {}
    for (name, arch, size), blocks in zip(kernels_found, occupancies(program, questions), strict=True):
        table.setdefault(name, {})[arch] = round(blocks * size / 1024, 1)
    return table


def check(now, held, architectures):
    """Problems: less than LEAST, or than the table has, or nothing where it has something."""
    problems = kernels.no_longer_found(now, held, architectures, "KB under way")
    known = {arch for row in held.values() for arch in row}
    for name, row in sorted(now.items()):
        for arch, kilobytes in sorted(row.items()):
            before = held.get(name, {}).get(arch)
            where = f"{name}, sm_{arch}: {kilobytes} KB under way on a multiprocessor"
            if 1024 * kilobytes < LEAST:
                problems.append(f"{where}, the least is {LEAST // 1024}")
            elif arch in known and (before is None or kilobytes < before):
                problems.append(f"{where}, the table has {before}")
    return problems


def self_test():
    text = """.text.matmul_decode_kernel:
.L_x_1:
        /*0000*/                   LDG.E.EF.128 R4, desc[UR4][R2.64] ;
        /*0010*/                   LDG.E.EF.128 R8, desc[UR4][R2.64+0x200] ;
        /*0020*/                   LDG.E.EF.128 R12, desc[UR4][R22.64] ;
        /*0030*/                   LDG.E.128.CONSTANT R16, desc[UR4][R20.64] ;
        /*0040*/                   HMMA.16816.F32 R24, R4, R16, R24 ;
        /*0050*/                   HMMA.16816.F32 R24, R8, R12, R24 ;
        /*0060*/               @P0 BRA `(.L_x_1) ;
"""
    function = disassembly.read_functions(text)["matmul_decode_kernel"]
    name = "matmul_decode_kernel<WeightFormat<FourBits<8>, HalfScales, 0>, 1, 8>"
    loop = disassembly.loops_of(function)[0]
    assert warps_of(name) == 8 and warps_of("rope_kernel") is None
    assert warps_of("matmul_mixed_kernel<WeightFormat<ThreeBits, A, 0>, WeightFormat<B<1>, C, 640>, 4>") == 4
    assert warps_of("matmul_batch_kernel<WeightFormat<TwoBits, NibbleScales, 640>, (Pair)1>") == 8
    assert most_under_way(name, function, loop) == 2 * 512 + 128
    early = text.replace("R12, desc[UR4][R22.64]", "R12, desc[UR4][R4.64]")  # waits for the one before it
    function = disassembly.read_functions(early)["matmul_decode_kernel"]
    assert most_under_way(name, function, loop) == 2 * 512
    attention = text.replace("LDG.E.EF.128 R12", "LDG.E.64 R12").replace("LDG.E.128.CONSTANT", "LDG.E")
    function = disassembly.read_functions(attention)["matmul_decode_kernel"]
    assert most_under_way("attention_mma_kernel<64>", function, loop) == 2 * 512 + 256
    assert check({"a": {"80": 33.0}}, {}, {"80"}) == []
    assert check({"a": {"80": 31.9}}, {}, {"80"}) == ["a, sm_80: 31.9 KB under way on a multiprocessor, the least is 32"]
    assert len(check({"a": {"80": 33.0}}, {"a": {"80": 33.0, "89": 33.0}, "b": {"80": 33.0, "89": 33.0}}, {"80"})) == 1
    assert check({"a": {"80": 33.0}}, {"a": {"80": 34.0}}, {"80"}) == [
        "a, sm_80: 33.0 KB under way on a multiprocessor, the table has 34.0"]
