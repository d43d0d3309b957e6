#!/usr/bin/env python3
"""Where the time of a product should go on a GPU, from what the simulator counts. It ranks designs and is no speed.

usage: forecast.py PROGRAM [--markdown]      PROGRAM: gpu_check_simulated
       forecast.py --self-test

For each type of weights and number of rows: the time that each part of the chip needs for a launch's work, if it did
nothing else and all multiprocessors had their share. --markdown: a table of what takes longest; where that is not
memory (up to 16 rows) or tensor instructions (512 rows), in brackets the share of its time that those need. Takes
some minutes.
"""
import json
import subprocess
import sys

# Multiprocessors, clock, DRAM bytes/s, tensor operations/s. Memory and tensor rates of the H200 are measured ones, those
# of the A100 are 90 % of the published ones; mma.sync reaches about 62 % of the H200's. Per multiprocessor and clock: four
# warp instructions, 128 bytes of L1 (one sector takes a quarter), one shared wavefront.
CHIPS = {
    "H200": {"sms": 132, "clock": 1.98e9, "dram": 4.3e12, "tensor": 0.62 * 790e12},
    "A100": {"sms": 108, "clock": 1.41e9, "dram": 0.9 * 2.04e12, "tensor": 0.9 * 312e12},
}
PTX_PER_SASS = 1.25  # instructions of PTX for one of the machine
# Of two products the difference is taken, so that what a launch costs once (activations, its beginning) is left out.
SHAPES, ROWS = ("4096,512", "4096,1024"), (1, 8, 16, 512)


def terms(counts, chip):
    """Seconds of each part."""
    per_clock = chip["sms"] * chip["clock"]
    return {
        "DRAM": 32 * counts["unique_sectors"] / chip["dram"],
        "L1": counts["global_sectors"] / (4 * per_clock),
        "issue": counts["warp_instructions"] / PTX_PER_SASS / (4 * per_clock),
        "shared": counts["shared_wavefronts"] / per_clock,
        "tensor": 4096 * counts["matrix_instructions"] / chip["tensor"],
    }


def counts_of(report):
    """Of each product. A launch of a product follows one for its activations, and each product runs twice (warming up,
    one sample)."""
    launches = [x for x in report["launches"] if "fragments" not in x["kernel"]]
    products = report["result"]["products"]
    if len(launches) != 2 * len(products):
        raise ValueError(f"{len(launches)} launches for {len(products)} products")
    return [(p["type"], p["rows"], launches[2 * n + 1]) for n, p in enumerate(products)]


def forecast(small, large):
    """Rows of the table, from two reports of `products --counts`."""
    rows = []
    for (kind, count, before), (_, _, after) in zip(counts_of(small), counts_of(large), strict=True):
        more = {name: after[name] - before[name] for name in before if name != "kernel"}
        for name, chip in CHIPS.items():
            parts = terms(more, chip)
            most = max(parts, key=parts.get)
            rows.append({"type": kind, "rows": count, "chip": name, "largest": most,
                         "share_of_memory": parts["DRAM"] / parts[most], "parts": parts})
    return rows


def wanted(row):
    return "tensor" if row["rows"] >= 512 else "DRAM"


def misses(rows):
    """As chip, type, rows: those whose largest part is another one than it should be."""
    return sorted([r["chip"], r["type"], r["rows"], r["largest"]] for r in rows if r["largest"] != wanted(r))


def markdown(rows):
    lines = ["| chip | type | " + " | ".join(f"{r} rows" for r in ROWS) + " |", "|---|---|" + "---|" * len(ROWS)]
    for chip in CHIPS:
        for kind in dict.fromkeys(r["type"] for r in rows):
            cells = []
            for count in ROWS:
                row = next(r for r in rows if (r["chip"], r["type"], r["rows"]) == (chip, kind, count))
                share = row["parts"][wanted(row)] / row["parts"][row["largest"]]
                cells.append(f"{row['largest']}" + ("" if row["largest"] == wanted(row) else f" ({share:.0%})"))
            lines.append(f"| {chip} | {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def run(program, shape):
    done = subprocess.run([program, "products", "--samples", "1", "--shape", shape, "--tiny", "--counts", "--rows",
                           ",".join(map(str, ROWS))], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{program}: exit {done.returncode}\n{done.stderr}\n{done.stdout[-2000:]}")
    return json.loads(done.stdout)


def self_test():
    base = {"kernel": "matmul", "unique_sectors": 10**6, "global_sectors": 10**6, "warp_instructions": 10**5,
            "shared_wavefronts": 10**3, "matrix_instructions": 10**4}
    product = {"products": [{"type": "Q4_0", "rows": 1}]}
    twice = {name: 2 * value for name, value in base.items() if name != "kernel"} | {"kernel": "matmul"}

    def report_of(launch):
        return {"launches": [dict(base, kernel="fragments"), launch, launch], "result": product}

    rows = forecast(report_of(base), report_of(twice))
    assert [r["largest"] for r in rows] == ["DRAM", "DRAM"] and misses(rows) == []
    assert abs(rows[0]["parts"]["DRAM"] - 32e6 / 4.3e12) < 1e-12
    rows = forecast(report_of(base), report_of(dict(twice, warp_instructions=10**8)))
    assert misses(rows) == [["A100", "Q4_0", 1, "issue"], ["H200", "Q4_0", 1, "issue"]]
    try:
        forecast(report_of(base), {"launches": [base], "result": product})
    except ValueError:
        return 0
    return 1


def main(args):
    if args == ["--self-test"]:
        return self_test()
    if not args or args[0].startswith("--"):
        sys.exit(__doc__)
    rows = forecast(*(run(args[0], shape) for shape in SHAPES))
    if "--markdown" in args:
        print(markdown(rows))
    else:
        for row in rows:
            parts = ", ".join(f"{name} {1e6 * seconds:.3f}" for name, seconds in row["parts"].items())
            print(f"{row['chip']} {row['type']:8} {row['rows']:4} rows: {row['largest']:7} microseconds: {parts}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
