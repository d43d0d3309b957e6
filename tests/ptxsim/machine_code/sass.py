#!/usr/bin/env python3
"""What the machine code of the CUDA device must look like, as nvdisasm writes it.

usage: sass.py TABLE TOOLS LIBRARY [--write]     TOOLS: folder with cuobjdump and nvdisasm
       sass.py --self-test

In every kernel: no local memory, no integer division in a loop. In every kernel that multiplies matrices: tensor
instructions. The share of bytes that loops with tensor instructions load 16 at a time from global memory is held by
the table: a share that falls fails until the table is written anew, with a reason in the commit. So are the lane
instructions for each weight in the loops of products of few rows, which have bounds too.
"""
import os
import re
import subprocess
import sys
import tempfile

import kernels

FUNCTION = re.compile(r"^\.text\.(\w+):")
LABEL = re.compile(r"^(\.L_x_\d+):")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(@!?U?P\w+)?\s*([A-Z][\w.]*)(.*?);")
TARGET = re.compile(r"`\((\.L_x_\d+)\)")
DIVISION = re.compile(r"(div|rem)_[us]\d+")
TENSOR = ("HMMA", "IMMA", "HGMMA", "IGMMA", "DMMA", "QMMA", "OMMA")
DECODE_KERNEL = re.compile(r"^matmul_decode_kernel<.*, (\d+), \d+>$")
MATRIX_KERNEL = re.compile(r"^(matmul_(?!plain)\w+_kernel|attention_(mma|tiled)\w*_kernel)")


def read_functions(text):
    """Per function: its instructions as (predicate, opcode, operands), and the places of labels."""
    functions, current = {}, None
    for line in text.splitlines():
        function, label, instruction = FUNCTION.match(line), LABEL.match(line), INSTRUCTION.match(line)
        if function:
            current = functions.setdefault(function[1], {"code": [], "labels": {}})
        elif current is None:
            continue
        elif label:
            current["labels"][label[1]] = len(current["code"])
        elif instruction:
            current["code"].append((instruction[1], instruction[2], instruction[3]))
    return functions


def next_places(function):
    """Per instruction where it may go on."""
    code, labels = function["code"], function["labels"]
    edges = []
    for at, (predicate, opcode, operands) in enumerate(code):
        word, target = opcode.split(".")[0], TARGET.search(operands)
        to = [at + 1] if at + 1 < len(code) and (predicate or word not in ("BRA", "EXIT", "RET", "JMP", "KILL")) else []
        if word == "BRA" and target and labels.get(target[1], len(code)) < len(code):
            to.append(labels[target[1]])
        edges.append(to)
    return edges


def loops_of(function):
    """Sets of instructions that can come again (strongly connected parts, by Tarjan's method without recursion)."""
    edges = next_places(function)
    number, low, on_stack, stack, loops = {}, {}, set(), [], []
    for root in range(len(edges)):
        if root in number:
            continue
        work = [(root, 0)]
        while work:
            at, done = work.pop()
            if done == 0:
                number[at] = low[at] = len(number)
                stack.append(at)
                on_stack.add(at)
            if done > 0 and edges[at][done - 1] in on_stack:
                low[at] = min(low[at], low[edges[at][done - 1]])
            if done < len(edges[at]):
                work.append((at, done + 1))
                if edges[at][done] not in number:
                    work.append((edges[at][done], 0))
                continue
            if low[at] == number[at]:
                part = set(stack[stack.index(at):])
                del stack[len(stack) - len(part):]
                on_stack -= part
                opcodes = {function["code"][i][1].split(".")[0] for i in part}
                # Behind the end the code jumps to itself, for ever.
                if (len(part) > 1 or at in edges[at]) and opcodes != {"BRA"}:
                    loops.append(part)
    return loops


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


def wide_share(function, loops):
    """Of what loops with tensor instructions load from global memory; None where there is none."""
    wide = total = 0
    for loop in loops:
        opcodes = [function["code"][at][1] for at in loop]
        if not any(o.startswith(TENSOR) for o in opcodes):
            continue
        for opcode in opcodes:
            if opcode.startswith(("LDG", "LDGSTS", "UBLKCP")):
                size = 16 if opcode.startswith("UBLKCP") else bytes_of(opcode)
                total += size
                wide += size if size == 16 else 0
    return round(wide / total, 3) if total else None


def instructions_per_weight(name, function, loops):
    """In loops with tensor instructions, of lanes; None for other kernels. A turn has 64 columns of so many times 64 rows
    as the last but one argument of the template says."""
    groups = DECODE_KERNEL.match(name)
    if not groups:
        return None
    counts = [len(loop) for loop in loops if any(function["code"][at][1].startswith(TENSOR) for at in loop)]
    return round(32 * sum(counts) / (64 * 64 * int(groups[1])), 2)


def most_per_weight(name):
    return 2.0 if "FourBits<8>, HalfScales" in name or "EightBits" in name else 3.0


def look_at(name, function):
    """Problems, the share of wide loads, and lane instructions per weight."""
    problems = []
    opcodes = [opcode for _, opcode, _ in function["code"]]
    if not opcodes:
        raise kernels.Failure(f"{name}: no instruction understood")
    if any(o.startswith(("LDL", "STL")) for o in opcodes):
        problems.append("local memory is used")
    matrix = MATRIX_KERNEL.match(name)
    if matrix and not any(o.startswith(TENSOR) for o in opcodes):
        problems.append("no tensor instructions")
    loops = loops_of(function)
    divisions = divisions_in_loops(function, loops)
    if divisions:
        problems.append(f"{divisions} integer divisions in loops")
    per_weight = instructions_per_weight(name, function, loops)
    if per_weight is not None and not 0 < per_weight <= most_per_weight(name):
        problems.append(f"{per_weight} lane instructions for each weight, the bound is {most_per_weight(name)}")
    return problems, wide_share(function, loops) if matrix else None, per_weight


def disassemble(tools, library):
    """Per architecture the functions of a library."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        run = {"check": True, "capture_output": True, "text": True, "cwd": folder}
        environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}")
        subprocess.run([os.path.join(tools, "cuobjdump"), "-xelf", "all", os.path.abspath(library)], env=environment,
                       **run)
        for file in sorted(os.listdir(folder)):
            arch = re.search(r"\.sm_(\w+)\.cubin$", file)
            if not arch:
                raise kernels.Failure(f"a file without an architecture: {file}")
            text = subprocess.run([os.path.join(tools, "nvdisasm"), "-c", file], **run).stdout
            functions = read_functions(text)
            if not functions:
                raise kernels.Failure(f"no function in {file}")
            found.setdefault(arch[1], {}).update(functions)
    return found


def check(found, table):
    problems, now = [], {"wide_loads": {}, "lane_instructions_per_weight": {}}
    known = {arch for rows in table.values() for row in rows.values() for arch in row}
    for arch, functions in sorted(found.items()):
        names = kernels.short_names(functions)
        for raw, function in sorted(functions.items()):
            name = names[raw]
            told, share, per_weight = look_at(name, function)
            problems += [f"{name}, sm_{arch}: {problem}" for problem in told]
            for what, value in (("wide_loads", share), ("lane_instructions_per_weight", per_weight)):
                if value is None:
                    continue
                now[what].setdefault(name, {})[arch] = value
                held = table[what].get(name, {}).get(arch)
                if arch in known and held is None:
                    problems.append(f"{name}, sm_{arch}: not in the table, {what} is {value}")
                elif arch in known and (value < held if what == "wide_loads" else value > held):
                    problems.append(f"{name}, sm_{arch}: {what} is {value}, the table has {held}")
    return problems, now


def self_test():
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
    function = read_functions(loop)["matmul_x_kernel"]
    assert loops_of(function) == [{1, 2, 3, 4}]
    assert look_at("matmul_x_kernel", function) == ([], 0.8, None)
    bad = loop.replace("LDG.E R5, [R2.64]", "I2F.U32.RP R5, R2").replace("HMMA.16816.F32 R8, R4, R2, R8", "STL [R1], R4")
    problems = look_at("matmul_x_kernel", read_functions(bad)["matmul_x_kernel"])[0]
    assert problems == ["local memory is used", "no tensor instructions", "1 integer divisions in loops"], problems
    call = loop.replace("LDG.E R5, [R2.64]", "CALL.REL.NOINC `($__internal_0_$__cuda_sm20_rem_u64)")
    assert look_at("matmul_x_kernel", read_functions(call)["matmul_x_kernel"])[0] == ["1 integer divisions in loops"]
    floats = call.replace("cuda_sm20_rem_u64", "cuda_sm3x_div_rn_noftz_f32_slowpath")
    assert look_at("matmul_x_kernel", read_functions(floats)["matmul_x_kernel"])[0] == []
    jump = loop.replace("@P0 BRA `(.L_x_1)", "    BRA `(.L_x_3)").replace("        /*0060*/", ".L_x_3:\n        /*0060*/")
    assert loops_of(read_functions(jump)["matmul_x_kernel"]) == []
    many = loop.replace("        /*0020*/", "        /*0020*/                   FFMA R1, R2, R3, R1 ;\n" * 400 + "        /*0020*/")
    assert instructions_per_weight("matmul_decode_kernel<F, 2, 8>", function, loops_of(function)) == 0.02
    assert look_at("matmul_decode_kernel<F, 1, 8>", read_functions(many)["matmul_x_kernel"])[0] == [
        "3.16 lane instructions for each weight, the bound is 3.0"]
    try:
        look_at("norm_kernel", {"code": [], "labels": {}})
    except kernels.Failure:
        return 0
    return 1


def main(args):
    if args == ["--self-test"]:
        return self_test()
    if len(args) not in (3, 4):
        sys.exit(__doc__)
    found = disassemble(args[1], args[2])
    table = kernels.read_table(args[0])
    if args[3:] == ["--write"]:
        table = {"wide_loads": {}, "lane_instructions_per_weight": {}}
    problems, now = check(found, table)
    if args[3:] == ["--write"]:
        kernels.write_table(args[0], now)
    elif problems:
        print(f"to write {args[0]} anew: give this test's command --write at its end")
    return kernels.report(problems, f"{sum(len(f) for f in found.values())} kernels and architectures")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (kernels.Failure, subprocess.CalledProcessError) as failure:
        sys.exit(f"error: {failure}")
