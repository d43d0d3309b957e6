"""Who may include whom. The table is the one of CONTRIBUTING.md.

usage: include_rules.py REPOSITORY      checks every source file of the repository
       include_rules.py --self-test     planted violations must be found
"""
import pathlib
import re
import sys
import tempfile

# Rooms a room may include besides itself; and whether it may include <llminfer/backend/...>.
ALLOWED = {
    "core": (set(), False),
    "quant": ({"core"}, True),
    "text": ({"core"}, False),
    "format": ({"core", "quant", "text/tokenizer_spec.h"}, False),
    "graph": ({"core", "quant"}, True),
    "device": ({"core", "quant", "graph"}, True),
    "cuda": ({"core", "quant", "graph", "device"}, True),
    "models": ({"core", "quant", "graph", "format"}, True),
    "profile": ({"core", "graph"}, True),
    "runtime": ({"core", "graph", "text", "models", "profile"}, True),
    "api": ({"core", "quant", "text", "format", "graph", "device", "models", "profile", "runtime"}, True),
}
# Public headers that are about the handles themselves: whoever includes them stands above the rooms.
HANDLES = {"model.hpp", "session.hpp", "generator.hpp", "batcher.hpp", "device.hpp", "llminfer.hpp"}
# Output, aborting checks, static constructors, and what the oldest compilers do not have.
FORBIDDEN = {"iostream", "cassert", "assert.h", "ranges", "expected", "source_location", "format", "print", "regex"}
FORBIDDEN_PREFIXES = {
    "Eigen/": "src/device/reference/",  # only the oracle may use it
}
EXAMPLE_LIBRARIES = ("CLI/", "nlohmann/", "httplib.h")
POSIX_HEADERS = {"fcntl.h", "poll.h", "signal.h", "termios.h", "unistd.h"}  # for programs at a terminal
SOURCES = {".h", ".hpp", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def room_of(path):
    """'src/device/cpu/x.cpp' is of room device, 'cuda/x.cu' of cuda, 'examples/x.cpp' of examples."""
    return path.parts[1] if path.parts[0] == "src" else path.parts[0]


def quoted_error(root, path, name):
    """An error for #include "name" in a file of the rooms, or None."""
    room = room_of(path)
    source = root / "src" / name
    if room == "cuda" and not source.is_file():
        return None if (root / "cuda" / name).is_file() else "does not exist"
    if not source.is_file():
        return "does not exist"
    target = pathlib.PurePath(name).parts[0]
    allowed = ALLOWED[room][0]
    if target != room and target not in allowed and name not in allowed:
        return f"{room} may not include {target}"
    return device_error(path, name)


def device_error(path, name):
    """A concrete device is named by itself and by the registry alone; common/ is what devices share."""
    parts = pathlib.PurePath(name).parts
    if parts[0] != "device" or len(parts) < 3:
        return None
    if parts[1] == "common":
        return None if room_of(path) in ("device", "cuda") else "device/common is for devices"
    inside = path.parts[:3] == ("src", "device", parts[1])
    registry = path.as_posix() == "src/device/registry.cpp"
    return None if inside or registry else f"only device/{parts[1]} and device/registry.cpp may name this device"


def angled_error(root, path, name):
    """An error for #include <name> in a file of the rooms, or None."""
    room = room_of(path)
    if name in FORBIDDEN:
        return f"<{name}> is not used in the library"
    for prefix, home in FORBIDDEN_PREFIXES.items():
        if name.startswith(prefix) and not path.as_posix().startswith(home):
            return f"only {home} may use {prefix}"
    if name.startswith("llminfer/backend/") and not ALLOWED[room][1]:
        return f"{room} may not include the backend interface"
    if name.startswith("llminfer/") and pathlib.PurePath(name).name in HANDLES and room not in ("api", "runtime"):
        if not (name == "llminfer/device.hpp" and path.as_posix().startswith("src/device/registry.")):  # for the options
            return f"{room} is below the handles"
    if (root / "src" / name).is_file():
        return "a header of src/ is included with quotes"
    return None


def example_error(root, path, kind, name):
    if kind == '"':
        return None if (root / path.parent / name).is_file() else "examples include only their own files"
    if "/" in name or name.endswith((".h", ".hpp")):
        system = name.startswith(("sys/",)) or name in POSIX_HEADERS
        if not (name.startswith("llminfer/") or name.startswith(EXAMPLE_LIBRARIES) or system):
            return "examples include only <llminfer/...> and their own libraries"
    return None


def files(root):
    for folder in ("src", "cuda", "examples"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCES:
                yield path.relative_to(root)


def check(root):
    count, errors = 0, []
    for path in files(root):
        count += 1
        room = room_of(path)
        if room != "examples" and room not in ALLOWED:
            errors.append(f"{path}: the room {room} is not in the table")
            continue
        for kind, name in INCLUDE.findall((root / path).read_text()):
            if room == "examples":
                error = example_error(root, path, kind, name)
            else:
                error = (quoted_error if kind == '"' else angled_error)(root, path, name)
            if error:
                errors.append(f"{path} includes {name}: {error}")
    return count, errors


# File with a violation, and what it includes.
PLANTED = [
    ("src/core/a.cpp", '"graph/graph.h"'),
    ("src/core/a.cpp", "<llminfer/backend/graph.hpp>"),
    ("src/text/a.cpp", '"format/gguf.h"'),
    ("src/format/a.cpp", '"text/other.h"'),
    ("src/graph/a.cpp", '"runtime/pool.h"'),
    ("src/runtime/a.cpp", '"device/registry.h"'),
    ("src/device/a.cpp", '"device/cpu/cpu.h"'),
    ("src/device/reference/a.cpp", '"device/cpu/cpu.h"'),
    ("src/api/a.cpp", '"device/common/x.h"'),
    ("src/device/cpu/a.cpp", "<Eigen/Dense>"),
    ("src/models/a.cpp", "<iostream>"),
    ("src/graph/a.cpp", "<llminfer/session.hpp>"),
    ("src/graph/a.cpp", '"graph/absent.h"'),
    ("src/nowhere/a.cpp", "<string>"),
    ("examples/a.cpp", '"core/fail.h"'),
    ("examples/a.cpp", "<fmt/core.h>"),
]
GOOD = [
    ("src/core/b.cpp", "<string>"),
    ("src/graph/b.cpp", '"core/fail.h"'),
    ("src/format/b.cpp", '"text/tokenizer_spec.h"'),
    ("src/device/registry.cpp", '"device/cpu/cpu.h"'),
    ("src/device/cpu/b.cpp", '"device/cpu/cpu.h"'),
    ("src/device/reference/b.cpp", "<Eigen/Dense>"),
    ("src/device/reference/b.h", '"device/common/x.h"'),
    ("cuda/b.cpp", '"device/common/x.h"'),
    ("src/api/b.cpp", '"runtime/pool.h"'),
    ("examples/b.cpp", "<llminfer/session.hpp>"),
]
HEADERS = ["core/fail.h", "graph/graph.h", "format/gguf.h", "text/other.h", "text/tokenizer_spec.h", "runtime/pool.h",
           "device/registry.h", "device/cpu/cpu.h", "device/common/x.h"]


def planted_errors(cases):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in HEADERS:
            (root / "src" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "src" / name).write_text("#pragma once\n")
        for path, include in cases:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"#include {include}\n")
        return check(root)[1]


def self_test():
    wrong = [f"not found: {case}" for case in PLANTED if len(planted_errors([case])) != 1]
    return wrong + [f"wrongly refused: {error}" for error in planted_errors(GOOD)]


def main():
    if sys.argv[1] == "--self-test":
        wrong = self_test()
        sys.exit("\n".join(wrong) if wrong else 0)
    count, errors = check(pathlib.Path(sys.argv[1]))
    print(f"{count} files")
    if count == 0:
        errors.append("no files found")
    sys.exit("\n".join(errors) if errors else 0)


if __name__ == "__main__":
    main()
