"""Machine code of a library as nvdisasm writes it: functions, their loops, what they take of a multiprocessor."""
import os
import re
import subprocess
import tempfile

import kernels

FUNCTION = re.compile(r"^\.text\.(\w+):")
LABEL = re.compile(r"^(\.L_x_\d+):")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(@!?U?P\w+)?\s*([A-Z][\w.]*)(.*?);")
TARGET = re.compile(r"`\((\.L_x_\d+)\)")
RESOURCES = re.compile(r"Function (\w+):\s+REG:(\d+) .*?SHARED:(\d+)")
TENSOR = ("HMMA", "IMMA", "HGMMA", "IGMMA", "DMMA", "QMMA", "OMMA")


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


def has_tensor(function, loop):
    return any(function["code"][at][1].startswith(TENSOR) for at in loop)


def disassemble(tools, library):
    """Per architecture the functions of a library, with their registers and bytes of static shared memory."""
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
            used = subprocess.run([os.path.join(tools, "cuobjdump"), "-res-usage", file], **run).stdout
            for name, registers, shared in RESOURCES.findall(used):
                functions[name].update(registers=int(registers), shared=int(shared))
            found.setdefault(arch[1], {}).update(functions)
    return found
