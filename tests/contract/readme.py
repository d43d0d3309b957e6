"""The README shows the programs that are in the repository, and begins with the two commands.

usage: readme.py REPOSITORY
"""
import pathlib
import re
import sys


def main():
    root = pathlib.Path(sys.argv[1])
    text = (root / "README.md").read_text()
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
    errors = []
    shell = [code for language, code in blocks if language == "sh"]
    if not shell or not all(command in shell[0] for command in ("scripts/run", "scripts/test")):
        errors.append("README.md does not begin with scripts/run and scripts/test")
    programs = [code for language, code in blocks if language == "cpp"]
    hello = (root / "examples/hello.cpp").read_text()
    if not programs or programs[0] != hello:
        errors.append("the first program of README.md is not examples/hello.cpp")
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        if not (root / link).exists():
            errors.append(f"README.md links to {link}, which does not exist")
    sys.exit("\n".join(errors) if errors else 0)


if __name__ == "__main__":
    main()
