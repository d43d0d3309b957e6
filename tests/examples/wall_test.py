"""The page that llminfer-wall writes, in a real browser, and its other outputs. Skipped without Chromium or the model.

usage: wall_test.py LLMINFER-WALL
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def png_rows(data):
    """Width and the decompressed rows of a PNG, filters undone only as far as counting different rows needs."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "no PNG"
    width, height = struct.unpack(">II", data[16:24])
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += size + 12
    raw = zlib.decompress(packed)
    stride = len(raw) // height
    return width, [raw[y * stride:(y + 1) * stride] for y in range(height)]


def main():
    browser = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)
    model = pathlib.Path(os.environ.get("LLMINFER_MODELS", "")) / "smollm2-135m-q4_1.gguf"
    if not model.is_file():
        skip(f"{model} is not there")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        report = json.loads(run(sys.argv[1], model, "--json", "--prompt", 64, "--generate", 16, "--ceilings",
                                folder / "c.json", "--html", folder / "r.html", "--svg", folder))
        assert {p["phase"] for p in report["phases"]} == {"prefill", "decode"}, report["phases"]
        time = report["time"]
        assert abs(sum(v for k, v in time.items() if k != "wall") - time["wall"]) < 0.02 * time["wall"], time
        for picture in ("roofline", "time", "memory", "batch"):
            text = (folder / f"{picture}.svg").read_text()
            assert "</svg>" in text and "nan" not in text and "inf" not in text.replace("info", ""), picture
        page = (folder / "r.html").read_text()
        assert not re.search(r'(src|href)="', page), "the page fetches something"
        if browser is None:
            skip("no Chromium: the page was not opened")
        options = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   f"--user-data-dir={folder / 'browser'}", "--window-size=960,2600"]
        dom = run(*options, "--dump-dom", f"file://{folder / 'r.html'}")
        assert dom.count("<svg") == 4 and "bound by" in dom, dom[:500]
        run(*options, f"--screenshot={folder / 'r.png'}", f"file://{folder / 'r.html'}")
        width, rows = png_rows((folder / "r.png").read_bytes())
        assert width == 960 and len(set(rows)) > 500, f"{width} pixels wide, {len(set(rows))} different rows"
        print(f"{browser}: {len(set(rows))} different rows of pixels")


if __name__ == "__main__":
    main()
