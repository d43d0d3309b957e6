#!/usr/bin/env python3
"""What the machine code of the CUDA device must look like, as nvdisasm writes it.

usage: sass.py TABLE TOOLS OCCUPANCY LIBRARY [--all] [--write]     TOOLS: folder with cuobjdump and nvdisasm
                                                                   OCCUPANCY: the program of occupancy.cpp
                                                                   --all: every architecture of the table must be there
       sass.py --self-test

In every kernel: no local memory, no integer division in a loop. In every kernel that multiplies matrices: tensor
instructions. The share of bytes that loops with tensor instructions load 16 at a time from global memory is held by
the table: a share that falls fails until the table is written anew, with a reason in the commit. So are the lane
instructions for each weight in the loops of products of few rows, which have bounds too, the instructions for each tensor
instruction in those of many rows, and the bytes that are under way at once (in_flight.py). What the table has and the
library no longer, under that name, is a problem as well.
"""
import re
import subprocess
import sys

import disassembly
import in_flight
import kernels
from disassembly import TENSOR

DIVISION = re.compile(r"(div|rem)_[us]\d+")
NUMBERS = ("wide_loads", "lane_instructions_per_weight", "instructions_per_tensor_instruction")
DECODE_KERNEL = re.compile(r"^matmul_(?:decode|experts)_kernel<WeightFormat<.*>, (\d+), \d+\b")
MIXED_KERNEL = re.compile(r"^matmul_mixed_kernel<")  # a loop for each of its formats, with twice 64 rows
MATRIX_KERNEL = re.compile(r"^(matmul_(?!plain)\w+_kernel|attention_(mma|tiled)\w*_kernel)")


def is_division(opcode):
    """The estimate of a reciprocal, rounded up, with which every division of integers begins."""
    return opcode.startswith("I2F") and ".RP" in opcode


def divisions_in_loops(function, loops):
    """Those that are written out, and calls of the compiler's subroutines for 64 bits."""
    count = 0
    for loop in loops:
        for at in loop:
            _, opcode, operands = function["code"][at]
            count += is_division(opcode) or (opcode.startswith("CALL") and bool(DIVISION.search(operands)))
    return count


def bytes_of(opcode):
    for word, size in ((".128", 16), (".64", 8), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1)):
        if word in opcode:
            return size
    return 4


def wide_share(name, function, loops):
    """Of what loops with tensor instructions load from global memory; None where there is none. In attention, single words
    are numbers of pages, which are not looked at: the simulator counts how keys and values come."""
    wide = total = 0
    for loop in loops:
        opcodes = [function["code"][at][1] for at in loop]
        if not disassembly.has_tensor(function, loop):
            continue
        for opcode in opcodes:
            if opcode.startswith(("LDG", "UBLKCP")) and opcode != "LDGDEPBAR":  # which only marks where copies end
                size = 16 if opcode.startswith("UBLKCP") else bytes_of(opcode)
                if size == 4 and name.startswith("attention"):
                    continue
                total += size
                wide += size if size == 16 else 0
    return round(wide / total, 3) if total else None


def instructions_per_weight(name, function, loops):
    """In loops with tensor instructions, of lanes; None for other kernels. A turn has 64 columns of so many times 64 rows
    as the last but one argument of the template says."""
    groups = DECODE_KERNEL.match(name)
    counts = [len(loop) for loop in loops if disassembly.has_tensor(function, loop)]
    if MIXED_KERNEL.match(name):
        return round(32 * max(counts) / (64 * 64 * 2), 2)
    if not groups:
        return None
    return round(32 * sum(counts) / (64 * 64 * int(groups[1])), 2)


def instructions_per_tensor(name, function, loops):
    """In products of many rows: of a loop for each tensor instruction in it, its outer parts counted once; None for
    others."""
    if not name.startswith(("matmul_batch_kernel", "matmul_prompt_kernel")):
        return None
    own = [at for loop in loops if disassembly.has_tensor(function, loop) for at in loop]
    tensor = sum(function["code"][at][1].startswith(TENSOR) for at in own)
    return round(len(own) / tensor, 2) if tensor else None


def most_per_weight(name):
    if MIXED_KERNEL.match(name):  # of the format that takes more
        return 3.0
    return 2.0 if "FourBits<8>, HalfScales" in name or "EightBits" in name else 3.0


def most_per_tensor(name):
    """A tensor instruction takes a quarter of a multiprocessor 8.7 clocks on an H200, 8.9 on an A100; outer parts, which are
    counted as if they came as often as inner ones, make numbers too large. Up to sixteen rows memory takes longer."""
    return 8.7 if name.startswith("matmul_prompt_kernel") else float("inf")


def look_at(name, function):
    """Problems, and the numbers that the table holds, by name."""
    problems = []
    opcodes = [opcode for _, opcode, _ in function["code"]]
    if not opcodes:
        raise kernels.Failure(f"{name}: no instruction understood")
    if any(o.startswith(("LDL", "STL")) for o in opcodes):
        problems.append("local memory is used")
    matrix = MATRIX_KERNEL.match(name)
    if matrix and not any(o.startswith(TENSOR) for o in opcodes):
        problems.append("no tensor instructions")
    loops = disassembly.loops_of(function)
    divisions = divisions_in_loops(function, loops)
    if divisions:
        problems.append(f"{divisions} integer divisions in loops")
    per_weight = instructions_per_weight(name, function, loops)
    if per_weight is not None and not 0 < per_weight <= most_per_weight(name):
        problems.append(f"{per_weight} lane instructions for each weight, the bound is {most_per_weight(name)}")
    per_tensor = instructions_per_tensor(name, function, loops)
    if per_tensor is not None and per_tensor > most_per_tensor(name):
        problems.append(f"{per_tensor} instructions for each tensor instruction, the bound is {most_per_tensor(name)}")
    return problems, {"wide_loads": wide_share(name, function, loops) if matrix else None,
                      "lane_instructions_per_weight": per_weight,
                      "instructions_per_tensor_instruction": per_tensor}


def absent(found, table):
    """Problems: architectures of the table that the library does not have."""
    known = {arch for rows in table.values() for row in rows.values() for arch in row}
    return [f"sm_{arch}: the table has it, the library has not" for arch in sorted(known - set(found))]


def check(found, table):
    problems, now = [], {what: {} for what in NUMBERS}
    known = {arch for row in table["wide_loads"].values() for arch in row}
    for arch, functions in sorted(found.items()):
        names = kernels.short_names(functions)
        for raw, function in sorted(functions.items()):
            name = names[raw]
            told, numbers = look_at(name, function)
            problems += [f"{name}, sm_{arch}: {problem}" for problem in told]
            for what, value in numbers.items():
                if value is None:
                    continue
                now[what].setdefault(name, {})[arch] = value
                held = table[what].get(name, {}).get(arch)
                if arch in known and held is None:
                    problems.append(f"{name}, sm_{arch}: not in the table, {what} is {value}")
                elif arch in known and (value < held if what == "wide_loads" else value > held):
                    problems.append(f"{name}, sm_{arch}: {what} is {value}, the table has {held}")
    for what in NUMBERS:
        problems += kernels.no_longer_found(now[what], table[what], found, what)
    return problems, now


def self_test():
    in_flight.self_test()
    loop = """.text.matmul_x_kernel:
        /*0000*/                   LDG.E.128 R4, [R2.64] ;
.L_x_1:
        /*0010*/                   LDG.E.128 R4, [R2.64] ;
        /*0020*/                   LDG.E R5, [R2.64] ;
        /*0030*/                   HMMA.16816.F32 R8, R4, R2, R8 ;
        /*0040*/               @P0 BRA `(.L_x_1) ;
        /*0050*/                   I2F.RP R0, R8 ;
        /*0060*/                   EXIT ;
.L_x_2:
        /*0070*/                   BRA `(.L_x_2) ;
"""
    function = disassembly.read_functions(loop)["matmul_x_kernel"]
    assert disassembly.loops_of(function) == [{1, 2, 3, 4}]
    problems, numbers = look_at("matmul_x_kernel", function)
    assert problems == [] and numbers["wide_loads"] == 0.8 and numbers["lane_instructions_per_weight"] is None
    assert look_at("matmul_batch_kernel<F>", function)[1]["instructions_per_tensor_instruction"] == 4
    many = loop.replace("        /*0020*/", "        /*0020*/                   FFMA R1, R2, R3, R1 ;\n" * 5 + "        /*0020*/")
    assert look_at("matmul_prompt_kernel<F>", disassembly.read_functions(many)["matmul_x_kernel"])[0] == [
        "9.0 instructions for each tensor instruction, the bound is 8.7"]
    assert look_at("attention_mma_kernel<64>", function)[1]["wide_loads"] == 1
    bad = loop.replace("LDG.E R5, [R2.64]", "I2F.U32.RP R5, R2").replace("HMMA.16816.F32 R8, R4, R2, R8", "STL [R1], R4")
    problems = look_at("matmul_x_kernel", disassembly.read_functions(bad)["matmul_x_kernel"])[0]
    assert problems == ["local memory is used", "no tensor instructions", "1 integer divisions in loops"], problems
    call = loop.replace("LDG.E R5, [R2.64]", "CALL.REL.NOINC `($__internal_0_$__cuda_sm20_rem_u64)")
    assert look_at("matmul_x_kernel", disassembly.read_functions(call)["matmul_x_kernel"])[0] == ["1 integer divisions in loops"]
    floats = call.replace("cuda_sm20_rem_u64", "cuda_sm3x_div_rn_noftz_f32_slowpath")
    assert look_at("matmul_x_kernel", disassembly.read_functions(floats)["matmul_x_kernel"])[0] == []
    jump = loop.replace("@P0 BRA `(.L_x_1)", "    BRA `(.L_x_3)").replace("        /*0060*/", ".L_x_3:\n        /*0060*/")
    assert disassembly.loops_of(disassembly.read_functions(jump)["matmul_x_kernel"]) == []
    many = loop.replace("        /*0020*/", "        /*0020*/                   FFMA R1, R2, R3, R1 ;\n" * 400 + "        /*0020*/")
    assert most_per_weight("matmul_mixed_kernel<WeightFormat<F>, WeightFormat<EightBits>, 8>") == 3.0
    assert instructions_per_weight("matmul_decode_kernel<WeightFormat<F>, 2, 8>", function, disassembly.loops_of(function)) == 0.02
    assert look_at("matmul_decode_kernel<WeightFormat<F>, 1, 8>", disassembly.read_functions(many)["matmul_x_kernel"])[0] == [
        "3.16 lane instructions for each weight, the bound is 3.0"]
    table = {"wide_loads": {"matmul_x_kernel": {"80": 0.8, "90a": 0.8}, "matmul_y_kernel": {"90a": 1.0}},
             "lane_instructions_per_weight": {}, "instructions_per_tensor_instruction": {}}
    assert check({"80": {"matmul_x_kernel": function}}, table)[0] == []
    gone = check({arch: {"matmul_x_kernel": function} for arch in ("80", "90a")}, table)[0]
    assert len(gone) == 1 and gone[0].startswith("matmul_y_kernel, sm_90a: the table has wide_loads 1.0"), gone
    assert len(check({"80": {"norm_kernel": function}}, table)[0]) == 1
    assert absent({"80": {}}, table) == ["sm_90a: the table has it, the library has not"]
    try:
        look_at("norm_kernel", {"code": [], "labels": {}})
    except kernels.Failure:
        return 0
    return 1


def main(args):
    if args == ["--self-test"]:
        return self_test()
    options = set(args[4:])
    if len(args) < 4 or options - {"--all", "--write"}:
        sys.exit(__doc__)
    found = disassembly.disassemble(args[1], args[3])
    table = kernels.read_table(args[0])
    if "--write" in options:
        table = {what: {} for what in (*NUMBERS, "kb_under_way")}
    problems, now = check(found, table)
    now["kb_under_way"] = in_flight.measure(found, args[2])
    problems += in_flight.check(now["kb_under_way"], table["kb_under_way"], found)
    problems += absent(found, table) if "--all" in options else []
    if "--write" in options:
        kernels.write_table(args[0], now)
    elif problems:
        print(f"to write {args[0]} anew: give this test's command --write at its end")
    return kernels.report(problems, f"{sum(len(f) for f in found.values())} kernels and architectures")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (kernels.Failure, subprocess.CalledProcessError) as failure:
        sys.exit(f"error: {failure}")
