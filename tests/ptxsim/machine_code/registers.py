#!/usr/bin/env python3
"""Registers, stack and spills of every kernel, as ptxas tells them while it compiles.

usage: registers.py TABLE NVCC_VERSION [--write] LOG...
       registers.py TABLE NVCC_VERSION [--write] --compile ARCHITECTURES COMMAND... -- KERNEL.cu...
       registers.py --self-test

No kernel may spill or have a stack. Where the table was made with this nvcc, no kernel may take more registers than it
says; a higher number is put there with --write, and a reason in the commit. --compile runs COMMAND -arch=sm_X for each
of the architectures (80,90a) and kernels, two at a time, warnings being errors.
"""
import concurrent.futures
import subprocess
import sys
import tempfile

import kernels


def compare(found, table, version):
    problems = []
    held = table["registers"] if table["nvcc"] == version else {}
    known = {arch for row in held.values() for arch in row}
    if not held:
        print(f"nvcc {version}, the table is of {table['nvcc']}: registers are not compared")
    for (name, arch), numbers in sorted(found.items()):
        where = f"{name}, sm_{arch}"
        if numbers["stack"] or numbers["spills"]:
            problems.append(f"{where}: {numbers['stack']} bytes of stack, {numbers['spills']} of spills")
        if arch in known:
            most = held.get(name, {}).get(arch)
            if most is None:
                problems.append(f"{where}: not in the table, it takes {numbers['registers']}")
            elif numbers["registers"] > most:
                problems.append(f"{where}: {numbers['registers']} registers, the table has {most}")
    return problems


def write(path, found, version):
    table = kernels.read_table(path)
    held = table["registers"] if table["nvcc"] == version else {}
    archs = {arch for _, arch in found}
    here = {name for name, _ in found}
    for name in list(held):
        for arch in archs:
            if name not in here:
                held[name].pop(arch, None)
        if not held[name]:
            del held[name]
    for (name, arch), numbers in found.items():
        held.setdefault(name, {})[arch] = numbers["registers"]
    kernels.write_table(path, {"nvcc": version, "registers": held})


def compile_one(command, arch, source):
    with tempfile.NamedTemporaryFile(suffix=".cubin") as out:
        call = [*command, f"-arch=sm_{arch}", "-Xptxas", "-v", "-cubin", "-o", out.name, source]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    if done.returncode:
        raise kernels.Failure(f"sm_{arch} {source}: {text}")
    return text


def compile_all(archs, command, sources):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(compile_one, command, a, s) for a in archs for s in sources]
        return "\n".join(job.result() for job in jobs)


def self_test():
    log = """ptxas info    : Compiling entry function '_Z4goodi' for 'sm_80'
ptxas info    : Function properties for _Z4goodi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 16 bytes smem
ptxas info    : Compiling entry function '_Z3badi' for 'sm_80'
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers
"""
    found = kernels.read_ptxas(log)
    held = {"nvcc": "1", "registers": {"good": {"80": 32}, "bad": {"80": 39}}}
    problems = compare(found, held, "1")
    assert problems == ["bad, sm_80: 16 bytes of stack, 20 of spills", "bad, sm_80: 40 registers, the table has 39"]
    assert len(compare(found, held, "2")) == 1, "another nvcc: spills alone"
    held["registers"].pop("good")
    assert "good, sm_80: not in the table, it takes 32" in compare(found, held, "1")
    try:
        kernels.read_ptxas("nothing of use")
    except kernels.Failure:
        return 0
    return 1


def main(args):
    if args == ["--self-test"]:
        return self_test()
    if len(args) < 3:
        sys.exit(__doc__)
    table, version, *rest = args
    writes = rest[0] == "--write"
    if writes:
        rest = rest[1:]
    if rest and rest[0] == "--compile":
        split = rest.index("--")
        text = compile_all(rest[1].split(","), rest[2:split], rest[split + 1:])
    else:
        text = ""
        for log in rest:
            with open(log, encoding="utf-8") as file:
                text += file.read()
    found = kernels.read_ptxas(text)
    if writes:
        write(table, found, version)
    problems = compare(found, kernels.read_table(table), version)
    if problems and not writes:
        print(f"to write {table} anew: give this test's command --write behind {version}")
    return kernels.report(problems, f"{len(found)} kernels and architectures")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except kernels.Failure as failure:
        sys.exit(f"error: {failure}")
