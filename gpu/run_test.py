#!/usr/bin/env python3
"""run.sh and what it calls, as far as that goes without a GPU. usage: run_test.py SOURCE SIMULATED_PROGRAM"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

source, program = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(source / "gpu"))
import report  # noqa: E402

run_sh = source / "gpu" / "run.sh"


def call(*args, path=None, **more):
    environment = dict(os.environ, **more)
    if path is not None:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    return subprocess.run([run_sh, *args], capture_output=True, text=True, env=environment, check=False)


def expect(ok, what, done=None):
    if not ok:
        sys.exit(f"failed: {what}\n" + (f"exit {done.returncode}\n{done.stdout}\n{done.stderr}" if done else ""))


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def refuses(folder):
    for wrong in ((), ("E",), ("A", "--out"), ("A", "--nothing")):
        done = call(*wrong)
        expect(done.returncode == 2 and "usage: gpu/run.sh" in done.stderr, f"usage of {wrong}", done)
    fake = folder / "fake"
    fake.mkdir()
    script(fake / "nvidia-smi", "echo 'No devices were found'; exit 6\n")
    done = call("A", "--out", str(folder / "none"), path=fake)
    expect(done.returncode == 1 and "no GPU here: No devices were found" in done.stderr, "no GPU, a driver", done)
    if shutil.which("nvidia-smi") is None:
        done = call("C", "--out", str(folder / "none"))
        expect(done.returncode == 1 and "no GPU here: there is no nvidia-smi" in done.stderr, "no driver", done)
    done = call("D", "--tiny", "--program", program, "--out", str(folder / "none"))
    expect(done.returncode == 1 and "part D" in done.stderr, "D has no tiny form", done)
    done = call("D", "--program", program, "--out", str(folder / "none"), LLMINFER_PEER_BIN=str(folder))
    expect(done.returncode == 1 and "LLMINFER_PEER_BIN" in done.stderr, "no peer", done)
    expect(not (folder / "none").exists() or not list((folder / "none").glob("*.json")), "results of nothing")


def parts(folder):
    found = {}
    for letter in "ABC":
        done = call(letter, "--tiny", "--program", program, OUT=str(folder), SEED="5",
                    FILTER={"A": "rms_norm", "B": "plain f32", "C": "Q4_0"}[letter])
        expect(done.returncode == 0, f"part {letter}", done)
        found[letter] = json.loads((folder / f"{letter}.json").read_text())
        expect(found[letter]["ok"] is True, f"{letter}.json", done)
    a, b, c = (found[letter]["parts"] for letter in "ABC")
    expect(a["info"]["device"]["isa"] == "sm_80", "device")
    expect(a["info"]["result"]["cublas"] == "cuBLAS 13.2.3", "the stand-in for cuBLAS")
    expect(a["correct"]["result"]["seed"] == 5 and a["correct"]["result"]["cases"] > 5, "cases")
    expect(b["replay"]["result"]["steps"] == 4 and b["replay"]["calls"]["graph_launches"] >= 2, "replayed steps")
    rows = c["products"]["result"]["products"]
    expect([(r["type"], r["rows"]) for r in rows] == [("Q4_0", 1), ("Q4_0", 8)], "products")
    copy = c["ceilings"]["result"]["copy_bytes_per_s"]["best"]
    for row in rows:
        expect(abs(row["share_of_copy"] - row["bytes_per_s"] / copy) < 1e-6 * row["share_of_copy"], "shares")
    dense = c["dense"]["result"]["dense"]
    expect([(r["type"], r["rows"]) for r in dense] == [(t, n) for t in ("F32", "F16", "BF16") for n in (1, 17)], "dense")
    expect(all(r["cublas_microseconds"] > 0 and r["times_cublas"] > 0 for r in dense), "beside cuBLAS")
    rows = c["attention"]["result"]["attention"]
    expect([(r["cache"], r["head"], r["tokens"]) for r in rows] == [("f16", 64, 1), ("f16", 64, 20), ("f16", 128, 1)], "attention")
    expect("share_of_copy" in rows[0] and "share_of_copy" not in rows[1], "shares of attention")


def failures(folder):
    script(folder / "bad", 'while [ "$1" != --out ]; do shift; done\necho \'{"ok": false, "result": {}}\' >"$2"\nexit 1\n')
    done = call("B", "--tiny", "--program", str(folder / "bad"), "--out", str(folder / "out"))
    expect(done.returncode == 1 and "replay: NOT OK" in done.stdout, "a check that fails", done)
    script(folder / "dead", "exit 3\n")
    done = call("B", "--tiny", "--program", str(folder / "dead"), "--out", str(folder / "out"))
    expect(done.returncode == 1 and "failed or ran out of time" in (folder / "out/B.json").read_text(), "it died", done)


def failing_products(folder):
    """cuBLAS fails in the second row's product: our own times are there all the same, and cuBLAS's until then."""
    file = folder / "C-dense.json"
    done = subprocess.run([program, "dense", "--tiny", "--samples", "1", "--fail-product", "2", "--out", file],
                          capture_output=True, text=True, check=False)
    expect(done.returncode == 1 and done.stderr == "", "dense products that fail", done)
    found = json.loads(file.read_text())
    reason = "no cuBLAS: a product of cuBLAS 13.2.3 failed with status 14"
    rows = found["result"]["dense"]
    expect(found["ok"] is False and found["findings"] == [] and found["result"]["cublas"] == reason, "the reason", done)
    expect(len(rows) == 6 and all(r["microseconds"] > 0 for r in rows), "our own times", done)
    expect(["times_cublas" in r for r in rows] == [True] + 5 * [False], "cuBLAS's times", done)
    expect([r.get("failed") for r in rows] == [None, reason] + 4 * [None], "the row that failed", done)
    lines = list(report.lines_of("dense", found))
    expect(len(lines) == 6 and "times as long" in lines[0], "lines of rows that went well")
    expect(lines[1].endswith(f" us, {reason}") and lines[2].endswith(" us"), "lines of rows that did not")


def counters():
    table = ['==PROF== Connected', '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"',
             '"0","a","smsp__inst_executed.sum","inst","1,200"', '"0","a","dram__sectors_read.sum","sector","50"',
             '"1","b","smsp__inst_executed.sum","inst","10"']
    counts = [{"warp_instructions": 1500, "unique_sectors": 50}, {"warp_instructions": 0}]
    rows = report.compare_counters(report.read_ncu(table), counts)
    expect(rows[0]["warp_instructions"] == {"gpu": 1200.0, "simulator": 1500, "ratio": 0.8}, "ratio")
    expect(rows[1]["warp_instructions"]["ratio"] is None and "unique_sectors" not in rows[1], "nothing to divide by")
    for wrong in (lambda: report.compare_counters(report.read_ncu(table), counts[:1]), lambda: report.read_ncu(["no"])):
        try:
            wrong()
        except ValueError:
            continue
        sys.exit("failed: a table that does not fit is taken")


def models(folder):
    made = [folder / "one.gguf", folder / "two.gguf"]
    for file in made:
        subprocess.run([sys.executable, source / "gpu/random_model.py", "tiny", file], check=True)
    expect(made[0].read_bytes() == made[1].read_bytes() and made[0].read_bytes()[:4] == b"GGUF", "models")


with tempfile.TemporaryDirectory() as name:
    place = pathlib.Path(name)
    refuses(place)
    (place / "results").mkdir()
    parts(place / "results")
    failures(place)
    failing_products(place)
    counters()
    models(place)
print("all well")
