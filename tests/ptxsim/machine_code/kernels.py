"""What the checks of machine code share: names of kernels, what ptxas says, the files with what is held."""
import json
import re
import subprocess

ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")


class Failure(Exception):
    """The check's own trouble: a program that is missing or prints what is not understood."""


def short_names(mangled):
    """Readable names without namespaces (one of which has a hash in it), parameters and the type that is returned."""
    mangled = list(mangled)
    done = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True)
    names = {}
    for raw, name in zip(mangled, done.stdout.splitlines()):
        name = re.sub(r"_GLOBAL__N__\w+::|\(anonymous namespace\)::|llminfer::|cuda::|v0::", "", name)
        name = re.sub(r"\((?:[^()]|\([^()]*\))*\)$", "", name)
        names[raw] = re.sub(r"^void ", "", name)
    return names


def read_ptxas(text):
    """Per (kernel, architecture): registers, bytes of stack, bytes of spills."""
    found, current, memory = {}, None, (0, 0)
    for line in text.splitlines():
        entry, stack, used = ENTRY.search(line), STACK.search(line), USED.search(line)
        if entry:
            current, memory = entry.groups(), (0, 0)
        elif stack:
            memory = (memory[0] + int(stack[1]), memory[1] + int(stack[2]) + int(stack[3]))
        elif used:
            if current is None:
                raise Failure(f"registers of an unknown kernel: {line}")
            found[current] = {"registers": int(used[1]), "stack": memory[0], "spills": memory[1]}
            current = None
    if not found:
        raise Failure("ptxas told nothing")
    names = short_names({name for name, _ in found})
    return {(names[name], arch): numbers for (name, arch), numbers in found.items()}


def read_table(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_table(path, table):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(table, file, indent=1, sort_keys=True)
        file.write("\n")


def no_longer_found(now, held, architectures, what):
    """Problems: what a table holds of architectures that were looked at and nothing was found for."""
    return [f"{name}, sm_{arch}: the table has {what} {value}, none was found; if that is right, write the table anew"
            for name, row in sorted(held.items()) for arch, value in sorted(row.items())
            if arch in architectures and arch not in now.get(name, {})]


def report(problems, looked_at):
    for problem in problems:
        print(problem)
    print(f"{looked_at}, {len(problems)} problems")
    return 1 if problems else 0
