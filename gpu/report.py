#!/usr/bin/env python3
"""Puts the parts that one call of run.sh wrote together and prints a short table.

usage: report.py FOLDER PART      reads FOLDER/PART-*.json, writes FOLDER/PART.json; 1 where a part is not ok
       report.py counters NCU.csv COUNTS.json      the hardware's counters beside the simulator's, as JSON
"""
import csv
import json
import pathlib
import sys

# The simulator's count: the metric of ncu that counts the same.
METRICS = {
    "warp_instructions": "smsp__inst_executed.sum",
    "global_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "matrix_instructions": "smsp__inst_executed_pipe_tensor.sum",
    "unique_sectors": "dram__sectors_read.sum",
}


def read_ncu(lines):
    """Per launch in order: name and metrics, from ncu --csv --page raw (long form: a line a metric)."""
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError("ncu wrote no table")
    launches = {}
    for row in csv.DictReader(lines[start:]):
        launch = launches.setdefault(row["ID"], {"kernel": row["Kernel Name"]})
        launch[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return list(launches.values())


def compare_counters(hardware, counts):
    """Pairs launches in order. Both programs launch the same, but for the clearing of memory, which is no kernel here."""
    if len(hardware) != len(counts):
        raise ValueError(f"{len(hardware)} launches on the GPU, {len(counts)} in the simulator")
    rows = []
    for seen, counted in zip(hardware, counts):
        row = {"kernel": seen["kernel"]}
        for name, metric in METRICS.items():
            if metric in seen:
                ratio = seen[metric] / counted[name] if counted[name] else None
                row[name] = {"gpu": seen[metric], "simulator": counted[name], "ratio": ratio}
        rows.append(row)
    return rows


def lines_of(name, part):
    """What of a part is worth a line."""
    result = part.get("result", {})
    if name == "ceilings":
        yield (f"copy {result['copy_bytes_per_s']['best'] / 1e9:.0f} GB/s, read "
               f"{result['read_bytes_per_s']['best'] / 1e9:.0f} GB/s, bf16 (mma.sync) "
               f"{result['bf16_operations_per_s']['best'] / 1e12:.1f} T operations/s"
               + (", something else was at work" if result["busy"] else ""))
    elif name.startswith("correct"):
        yield (f"{result['cases']} cases, {len(result['failed'])} failed, {result['unsupported']} unsupported, worst "
               f"{result['worst_share_of_limit']:.2f} of its limit: {result['worst_case']}")
        if result.get("notes"):
            yield result["notes"]
    elif name == "info" and result.get("cublas"):
        yield result["cublas"]
    elif name == "dense":
        for row in result["dense"]:
            said = [f"{row['microseconds']:.1f} us"] if "microseconds" in row else []
            if "times_cublas" in row:
                said.append(f"cuBLAS {row['cublas_microseconds']:.1f} us, {row['times_cublas']:.2f} times as long")
            said += [row["failed"]] if "failed" in row else []
            yield f"{row['type']:8} {row['columns']} x {row['out']}, {row['rows']} rows: {', '.join(said)}"
    elif name == "replay":
        yield f"{result.get('steps', 0)} replayed steps of {result.get('cases', 0)} models" + (
            f": {result['failed']}" if "failed" in result else ", all of the same bits")
    elif name == "products":
        for row in result["products"]:
            share = "".join(f", {row[s]:.0%} of {what}" for s, what in
                            (("share_of_copy", "copying"), ("share_of_tensor", "tensor")) if s in row)
            yield (f"{row['type']:8} {row['columns']} x {row['out']}, {row['rows']} rows: "
                   f"{row['microseconds']:.1f} us{share}")
    elif name == "attention":
        for row in result["attention"]:
            share = "".join(f", {row[s]:.0%} of {what}" for s, what in
                            (("share_of_copy", "copying"), ("share_of_tensor", "tensor")) if s in row)
            yield (f"attention {row['cache']} head {row['head']}, {row['sequences']} x {row['tokens']} behind "
                   f"{row['context']}: {row['microseconds']:.1f} us{share}")
    elif name.startswith("sanitizer"):
        yield f"{result['tool']}: {result['summary']}"
    elif name == "peers":
        for model, speeds in result.items():
            yield f"{model}: {json.dumps(speeds)}"


def report(folder, letter):
    parts, ok = {}, True
    for path in sorted(pathlib.Path(folder).glob(f"{letter}-*.json")):
        name = path.stem[len(letter) + 1:]
        parts[name] = json.loads(path.read_text())
        good = parts[name].get("ok", True)
        ok = ok and good
        for line in lines_of(name, parts[name]):
            print(line)
        if not good:
            print(f"{name}: NOT OK")
    if not parts:
        print(f"no {letter}-*.json in {folder}")
        ok = False
    (pathlib.Path(folder) / f"{letter}.json").write_text(json.dumps({"ok": ok, "parts": parts}, indent=1) + "\n")
    return 0 if ok else 1


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "counters":
        table = compare_counters(read_ncu(pathlib.Path(sys.argv[2]).read_text().splitlines()),
                                 json.loads(pathlib.Path(sys.argv[3]).read_text())["launches"])
        print(json.dumps({"ok": True, "result": table}, indent=1))
        sys.exit(0)
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(report(sys.argv[1], sys.argv[2]))
