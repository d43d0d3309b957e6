"""What the library's objects may refer to and define, read from their symbol tables.

usage: symbols.py objects LIST            LIST: a file with the paths of all objects, one a line
       symbols.py exports LIBRARY         the shared library exports names of llminfer:: alone
       symbols.py --self-test COMPILER    planted violations, and tables that cannot be read, must be found

The process that hosts the library is not to be ended or written to by it, so the functions that do are not referred to.
Nor does an object define writable data (two copies of the library would share nothing, but two models in one would)
or unique symbols (they keep a library from being unloaded).
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ENDING = {"abort", "exit", "_exit", "_Exit", "quick_exit", "at_quick_exit", "atexit", "__assert_fail", "__assert_perror_fail"}
OUTPUT = {"puts", "fputs", "putc", "fputc", "putchar", "perror", "psignal", "stdout", "stderr", "syslog"}
PRINTF = re.compile(r"^(__)?(v?(f|s|sn|as|d|obstack_)?w?printf)(_chk)?$")
CXX = {
    "_ZSt4cout": "std::cout",
    "_ZSt4cerr": "std::cerr",
    "_ZSt4clog": "std::clog",
    "_ZNSt8ios_base4InitC1Ev": "<iostream>'s static constructor",
}
TERMINATE = "_ZSt9terminatev"
TERMINATE_ALLOWED = re.compile(r"llminfer_core\.dir/thread(_pool)?\.cpp\.o$")
# nlohmann-json's reader writes control characters of an error message into a buffer of its own with it, fmt the digits of
# a double.
SNPRINTF_ALLOWED = re.compile(
    r"(llminfer_chat\.dir/json|llminfer_profile\.dir/\w+_json|llminfer_api\.dir/batch_stats)\.cpp\.o$")
OTHER = {"getenv", "secure_getenv", "setenv"}
# Writable data that headers of others bring: the standard library's table for std::atomic::wait, and the cache sizes
# that Eigen reads once. Neither holds anything of a model.
FOREIGN_DATA = re.compile(r"^_ZG?V?ZN(St8__detail18__waiter_pool_base|5Eigen8internal20manage_caching_sizes)")
WRITABLE = re.compile(r"^(\.bss|\.data|\.tbss|\.tdata|\.lbss|\.ldata|COMMON)(?!\.rel\.ro)")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr.strip():
        raise RuntimeError(f"{' '.join(command[:2])} failed: {done.stderr.strip() or done.returncode}")
    return done.stdout.splitlines()


def reference_error(path, name):
    if name in ("snprintf", "__snprintf_chk") and SNPRINTF_ALLOWED.search(path):
        return None
    if name in ENDING or name in OUTPUT or name in OTHER or PRINTF.match(name):
        return f"refers to {name}"
    if name in CXX:
        return f"refers to {CXX[name]}"
    if name == TERMINATE and not TERMINATE_ALLOWED.search(path):
        return "refers to std::terminate"
    return None


def object_errors(path):
    """All that is wrong with one object file."""
    errors, count = [], 0
    for line in run(["nm", "-P", path]):
        name, kind = line.split(" ")[:2]
        count += 1
        if kind in "Uwv":
            errors.append(reference_error(path, name))
        elif kind == "u":
            errors.append(f"defines the unique symbol {name}")
    if count == 0:
        errors.append("has no symbols")
    for line in run(["objdump", "-t", path]):
        match = re.match(r"^[0-9a-f]+ (.{7}) (\S+)\t[0-9a-f]+ (?:\.hidden )?(\S+)$", line)
        if not match or match[1][-1] == "d" or not WRITABLE.match(match[2]):
            continue
        if match[3] != match[2] and not match[3].startswith("DW.ref.") and not FOREIGN_DATA.match(match[3]):
            errors.append(f"defines writable data: {match[3]} in {match[2]}")
    return [f"{path}: {error}" for error in errors if error]


def check_objects(list_file):
    paths = [os.path.normpath(line) for line in pathlib.Path(list_file).read_text().splitlines()]
    errors = [] if paths else ["no objects to read"]
    for path in paths:
        try:
            errors += object_errors(path)
        except (RuntimeError, OSError, ValueError) as error:
            errors.append(f"{path}: cannot be read: {error}")
    print(f"{len(paths)} objects")
    return errors


def check_exports(library):
    try:
        lines = run(["nm", "-D", "-C", "--defined-only", "-P", library])
    except (RuntimeError, OSError) as error:
        return [str(error)]
    names = [re.sub(r" [A-Za-z] [0-9a-f ]+$", "", line) for line in lines]
    print(f"{len(names)} exported symbols")
    allowed = re.compile(r"^((typeinfo|typeinfo name|vtable|VTT) for )?llminfer::")
    return [f"exports {name}" for name in names if not allowed.match(name)] + ([] if names else ["exports nothing"])


PLANTED = {
    "abort": "#include <cstdlib>\nvoid f() { std::abort(); }",
    "exit": "#include <cstdlib>\nvoid f() { std::exit(1); }",
    "printf": '#include <cstdio>\nvoid f(int x) { std::printf("%d", x); }',
    "snprintf": '#include <cstdio>\nint f(char* p, int x) { return std::snprintf(p, 9, "%d", x); }',
    "stderr": '#include <cstdio>\nvoid f() { std::fwrite("x", 1, 1, stderr); }',
    "assert": "#undef NDEBUG\n#include <cassert>\nvoid f(int x) { assert(x); }",
    "cout": "#include <iostream>\nvoid f() { std::cout << 1; }",
    "terminate": "#include <exception>\nvoid f() { std::terminate(); }",
    "terminate in a thread's destructor": "#include <thread>\nvoid f(std::thread& t) { t.~thread(); }",
    "unique": "template <class T> struct S { static inline const T* x = new T; };\nauto f() { return S<int>::x; }",
    "mutable": "int counter = 0;\nint f() { return ++counter; }",
    "local static": "#include <string>\nconst std::string& f() { static const std::string s(99, 'x'); return s; }",
    "thread_local": "thread_local int counter = 0;\nint f() { return ++counter; }",
}
GOOD = ("#include <string>\n#include <stdexcept>\nstatic constexpr const char* table[] = {\"a\", \"b\"};\n"
        "std::string f(int i) { if (i < 0) throw std::runtime_error(\"x\"); return std::string(table[i]) + std::to_string(i); }")


def compiled(compiler, folder, text, *flags):
    source, made = pathlib.Path(folder) / "x.cpp", pathlib.Path(folder) / "x.o"
    source.write_text(text)
    subprocess.run([compiler, "-std=c++20", "-O2", "-fPIC", *flags, "-c", source, "-o", made], check=True)
    return made


def list_of(folder, *paths):
    file = pathlib.Path(folder) / "list"
    file.write_text("\n".join(str(path) for path in paths))
    return file


def self_test(compiler):
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for what, text in PLANTED.items():
            flags = [] if what == "unique" else ["-fno-gnu-unique"]
            if not check_objects(list_of(folder, compiled(compiler, folder, text, *flags))):
                wrong.append(f"not found: {what}")
        good = compiled(compiler, folder, GOOD, "-fno-gnu-unique")
        wrong += [f"wrongly refused: {error}" for error in check_objects(list_of(folder, good))]
        garbage = pathlib.Path(folder) / "garbage.o"
        garbage.write_bytes(b"not an object")
        stripped = compiled(compiler, folder, "")
        for what, paths in {"no list": [], "no file": [good, "/absent.o"], "garbage": [garbage], "no symbols": [stripped]}.items():
            if what == "no symbols":
                subprocess.run(["strip", stripped], check=True)
            if not check_objects(list_of(folder, *paths)):
                wrong.append(f"not found: {what}")
        if not check_exports(str(garbage)):
            wrong.append("not found: exports of garbage")
    return wrong


def main():
    what, argument = sys.argv[1:3]
    errors = {"objects": check_objects, "exports": check_exports, "--self-test": self_test}[what](argument)
    sys.exit("\n".join(errors) if errors else 0)


if __name__ == "__main__":
    main()
