#!/usr/bin/env python3
"""llminfer-bench beside any number of llama.cpp builds on the same machine: ratios, not absolute speeds.

Runs alternate, ours, then each peer, as many rounds as asked, so that what disturbs the machine disturbs all of them;
medians are compared. Prints a markdown table of every model and a line with the processor and the commands.

  compare_peers.py --ours build/release/examples/llminfer-bench --peer NAME=DIR [--peer NAME=DIR] MODEL.gguf ...

DIR holds llama-bench and llama-batched-bench. Peers run with flash attention on.
"""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys


def output_of(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


class Ours:
    """llminfer-bench; `isa` forces an instruction set, `device` is where it runs."""

    def __init__(self, path, isa, device="cpu"):
        self.path, self.name, self.share = path, "llminfer" + (f" ({isa})" if isa else ""), []
        self.isa = ["--isa", isa] if isa else []
        self.device = device

    def measure(self, options, model):
        where = ["--threads", options.threads] if self.device == "cpu" else ["--device", self.device]
        command = [self.path, model, *where, "--rounds", 1, "--json", *self.isa]
        command += ["--prompt", options.prompt, "--generate", options.generate]
        if options.batch:
            command += ["--batch", ",".join(map(str, options.batch))]
        report = json.loads(output_of(command))
        speeds = {}
        if options.prompt:
            speeds[f"prefill {options.prompt}"] = report["prefill"]["tokens_per_s"]
        if options.generate:
            speeds[f"decode {options.generate}"] = report["decode"]["tokens_per_s"]
            if self.device == "cpu":
                self.share.append(report["decode"]["bandwidth_share"])
        for entry in report.get("batch", []):
            speeds[f"{entry['sequences']} sequences"] = entry["tokens_per_s"]
        return speeds


class Peer:
    """A llama.cpp build."""

    def __init__(self, name, directory):
        self.name, self.directory = name, pathlib.Path(directory)

    def measure(self, options, model):
        speeds = {}
        layers = ["-ngl", 99] if options.device != "cpu" else []
        common = ["-m", model, "-t", options.threads, "-fa", "on", *layers]
        for kind, tokens, flags in (("prefill", options.prompt, ["-p", options.prompt, "-n", 0]),
                                    ("decode", options.generate, ["-p", 0, "-n", options.generate])):
            if tokens:
                runs = json.loads(output_of([self.directory / "llama-bench", *common, *flags, "-r", 1, "-o", "json"]))
                speeds[f"{kind} {tokens}"] = runs[0]["avg_ts"]
        if options.batch:
            most = max(options.batch)
            lines = output_of([self.directory / "llama-batched-bench", "-m", model, "-t", options.threads, "-tb",
                               options.threads, "-fa", "on", *layers, "-c", most * (options.batch_prompt + options.batch_generate),
                               "-npp", options.batch_prompt, "-ntg", options.batch_generate, "-npl",
                               ",".join(map(str, options.batch)), "--output-format", "jsonl"])
            for line in lines.splitlines():
                if line.startswith("{"):
                    run = json.loads(line)
                    speeds[f"{run['pl']} sequences"] = run["speed_tg"]
        return speeds


def compare(options, runners, model):
    rounds = [[] for _ in runners]
    for number in range(options.rounds):
        for runner, list_of in zip(runners, rounds):
            print(f"{model.name}: round {number + 1} of {options.rounds}, {runner.name}", file=sys.stderr)
            list_of.append(runner.measure(options, model))
    medians = [{key: statistics.median(one[key] for one in list_of) for key in list_of[0]} for list_of in rounds]
    print(f"| {model.name}, tokens/s | " + " | ".join(r.name for r in runners) + " | "
          + " | ".join(f"ratio to {r.name}" for r in runners[1:]) + " |")
    print("|---" * (2 * len(runners)) + "|")
    for key, ours in medians[0].items():
        theirs = [m.get(key) for m in medians[1:]]
        cells = [f"{ours:.1f}"] + [f"{x:.1f}" if x else "-" for x in theirs]
        cells += [f"**{ours / x:.2f} x**" if x else "-" for x in theirs]
        print(f"| {key} | " + " | ".join(cells) + " |")
    if options.json:
        known = json.loads(options.json.read_text()) if options.json.exists() else {}
        known[model.name] = {runner.name: median for runner, median in zip(runners, medians)}
        options.json.write_text(json.dumps(known, indent=1) + "\n")
    if runners[0].share:
        print(f"\nShare of the read bandwidth measured in the same run, decode: {statistics.median(runners[0].share):.0%}")
        runners[0].share.clear()
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--ours", required=True, help="llminfer-bench")
    parser.add_argument("--isa", default="", help="of ours: avx2, avxvnni, avx512, avx512bf16, amx, portable")
    parser.add_argument("--device", default="cpu", help="of ours: cpu, or cuda or the file of a plug-in, and the peers "
                        "then have all layers on the GPU")
    parser.add_argument("--json", type=pathlib.Path, help="write the medians there as well")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=128)
    parser.add_argument("--batch", default="1,8,16,32", help="numbers of sequences, or nothing")
    parser.add_argument("--batch-prompt", type=int, default=128, help="of the peer; ours has 128")
    parser.add_argument("--batch-generate", type=int, default=64, help="likewise 64")
    options = parser.parse_args()
    options.batch = [int(n) for n in options.batch.split(",") if n]
    runners = [Ours(options.ours, options.isa, options.device)] + [Peer(*peer.split("=", 1)) for peer in options.peer]
    print(f"{processor()}, {options.threads} threads, medians of {options.rounds} alternating rounds\n")
    for model in options.models:
        compare(options, runners, model)


if __name__ == "__main__":
    main()
