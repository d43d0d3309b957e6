#!/usr/bin/env python3
"""Speed at which OpenVINO GenAI reads a prompt from a GGUF file: a peer in prefill, for docs/performance.md.

Needs the Python package openvino-genai. Prompts are random token numbers, a new one each time, for it keeps what it has
read; the first runs, in which it compiles, are left out. ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 keeps it off AMX.

  openvino_prefill.py MODEL.gguf [--threads 2] [--prompt 512] [--rounds 5]
"""
import argparse
import random
import statistics
import time

import numpy
import openvino
import openvino_genai


def prompt_of(length, vocabulary, source):
    ids = numpy.array([[source.randrange(vocabulary) for _ in range(length)]], dtype=numpy.int64)
    return openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--vocabulary", type=int, default=30000, help="token numbers below this one")
    options = parser.parse_args()

    pipeline = openvino_genai.LLMPipeline(options.model, "CPU", INFERENCE_NUM_THREADS=options.threads)
    one_token = openvino_genai.GenerationConfig(max_new_tokens=1, do_sample=False, ignore_eos=True)
    source = random.Random(1)
    speeds = []
    for _ in range(2 + options.rounds):
        prompt = prompt_of(options.prompt, options.vocabulary, source)
        start = time.perf_counter()
        pipeline.generate(prompt, one_token)
        speeds.append(options.prompt / (time.perf_counter() - start))
    print(f"{statistics.median(speeds[2:]):.1f} tokens/s")


if __name__ == "__main__":
    main()
