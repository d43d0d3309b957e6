#!/usr/bin/env python3
"""Writes a GGUF file of a published shape with random weights and a vocabulary of made-up words: to measure speed with.

usage: random_model.py SHAPE FILE     SHAPE: one of scripts/shape_model.py
Types are about those of llama.cpp's Q4_K_M. Needs nothing but Python; blocks of random weights are used again and again.
"""
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts"))
from shape_model import ALIGNMENT, F32, Q4_K, SHAPES, header_of, key  # noqa: E402


def byte_symbols():
    """The printable stand-ins for the 256 bytes of byte-pair vocabularies."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    symbols, extra = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in symbols:
            symbols[b] = chr(256 + extra)
            extra += 1
    return [symbols[b] for b in range(256)]


def vocabulary_keys(size):
    tokens = byte_symbols()
    tokens += [f"<|made up {n}|>" for n in range(size - 257)] + ["<|end|>"]
    kinds = [1] * 256 + [4] * (size - 257) + [3]
    return [key("tokenizer.ggml.model", "gpt2"), key("tokenizer.ggml.pre", "llama-bpe"),
            key("tokenizer.ggml.tokens", tokens), key("tokenizer.ggml.token_type", kinds),
            key("tokenizer.ggml.merges", ["a b"]), key("tokenizer.ggml.bos_token_id", size - 1),
            key("tokenizer.ggml.eos_token_id", size - 1)]


def half(value):
    return struct.pack("<e", value)


def random_blocks(kind, width, count, source):
    """`count` blocks whose weights have a spread of about 1 / sqrt(width)."""
    out = bytearray()
    spread = width ** -0.5
    for _ in range(count):
        if kind == F32:
            out += struct.pack("<f", 1.0)
        elif kind == Q4_K:  # weight = d * scale * level - dmin * minimum; levels 0 .. 15
            scales = bytes(source.choice((32, 33, 34)) for _ in range(4))
            packed = scales + scales + bytes(4)
            out += half(spread / 4 / 32) + half(spread / 4 / 32 * 7.5) + packed + source.randbytes(128)
        else:  # weight = d * scale * (level - 32)
            out += source.randbytes(192) + bytes([1] * 16) + half(spread / 18)
    return bytes(out)


def write_tensor(file, kind, dims, size, source):
    _, block, block_bytes = kind
    total = block_bytes
    for n, dim in enumerate(dims):
        total *= dim // block if n == 0 else dim
    piece = random_blocks(kind, dims[0], min(1021, max(1, total // block_bytes)), source)
    piece *= max(1, (1 << 20) // len(piece))
    left = total
    while left > 0:
        left -= file.write(piece[:left])
    file.write(bytes(size - total))


def write(name, path):
    header, sizes = header_of(name, f"random {name}", vocabulary_keys(SHAPES[name][-1]))
    source = random.Random(name)
    # Under another name until it is whole: what is there may be used.
    with open(path + ".part", "wb") as file:
        file.write(header)
        for kind, dims, size in sizes:
            write_tensor(file, kind, dims, size, source)
    os.rename(path + ".part", path)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        sys.exit(__doc__)
    write(sys.argv[1], sys.argv[2])
