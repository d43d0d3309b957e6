#!/usr/bin/env python3
"""Writes a GGUF file of a published shape with random weights and a vocabulary of made-up words: to measure speed with.

usage: random_model.py SHAPE FILE     SHAPE: tiny, llama-1b, llama-8b
Types are about those of llama.cpp's Q4_K_M. Needs nothing but Python; blocks of random weights are used again and again.
"""
import os
import random
import struct
import sys

# From the models' config.json: context, width, layers, feed-forward width, heads, heads of keys and values, vocabulary.
SHAPES = {
    "tiny": (512, 256, 2, 512, 4, 2, 512),
    "llama-1b": (131072, 2048, 16, 8192, 32, 8, 128256),
    "llama-8b": (131072, 4096, 32, 14336, 32, 8, 128256),
}
# Name: (GGUF's number, weights of a block, bytes of a block).
F32, Q4_K, Q6_K = (0, 1, 4), (12, 256, 144), (14, 256, 210)
ALIGNMENT = 32
STRING, UINT32, FLOAT32, INT32, ARRAY = 8, 4, 6, 5, 9


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, value):
    if isinstance(value, str):
        return text(name) + struct.pack("<I", STRING) + text(value)
    if isinstance(value, float):
        return text(name) + struct.pack("<If", FLOAT32, value)
    if isinstance(value, list):
        kind = STRING if isinstance(value[0], str) else INT32
        head = text(name) + struct.pack("<IIQ", ARRAY, kind, len(value))
        return head + b"".join(text(v) if kind == STRING else struct.pack("<i", v) for v in value)
    return text(name) + struct.pack("<II", UINT32, value)


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


def tensors(width, layers, feed_forward, heads, heads_kv, vocabulary):
    kv = width // heads * heads_kv
    yield "token_embd.weight", (width, vocabulary), Q4_K
    for i in range(layers):
        fine = Q6_K if i % 2 == 0 else Q4_K
        yield f"blk.{i}.attn_norm.weight", (width,), F32
        yield f"blk.{i}.attn_q.weight", (width, width), Q4_K
        yield f"blk.{i}.attn_k.weight", (width, kv), Q4_K
        yield f"blk.{i}.attn_v.weight", (width, kv), fine
        yield f"blk.{i}.attn_output.weight", (width, width), Q4_K
        yield f"blk.{i}.ffn_norm.weight", (width,), F32
        yield f"blk.{i}.ffn_gate.weight", (width, feed_forward), Q4_K
        yield f"blk.{i}.ffn_up.weight", (width, feed_forward), Q4_K
        yield f"blk.{i}.ffn_down.weight", (feed_forward, width), fine
    yield "output_norm.weight", (width,), F32
    yield "output.weight", (width, vocabulary), Q6_K


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


def write_tensor(file, kind, dims, source):
    _, block, block_bytes = kind
    total = block_bytes
    for n, size in enumerate(dims):
        total *= size // block if n == 0 else size
    piece = random_blocks(kind, dims[0], min(1021, max(1, total // block_bytes)), source)
    piece *= max(1, (1 << 20) // len(piece))
    left = total
    while left > 0:
        left -= file.write(piece[:left])
    file.write(bytes(-total % ALIGNMENT))
    return total + -total % ALIGNMENT


def write(name, path):
    context, width, layers, feed_forward, heads, heads_kv, vocabulary = SHAPES[name]
    keys = [key("general.architecture", "llama"), key("general.name", f"random {name}"),
            key("llama.context_length", context), key("llama.embedding_length", width),
            key("llama.block_count", layers), key("llama.feed_forward_length", feed_forward),
            key("llama.attention.head_count", heads), key("llama.attention.head_count_kv", heads_kv),
            key("llama.attention.layer_norm_rms_epsilon", 1e-5), key("llama.rope.freq_base", 500000.0),
            key("llama.vocab_size", vocabulary), *vocabulary_keys(vocabulary)]
    infos, offset, listed = [], 0, list(tensors(width, layers, feed_forward, heads, heads_kv, vocabulary))
    for tensor, dims, (number, block, block_bytes) in listed:
        infos.append(text(tensor) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, offset))
        count = 1
        for size in dims:
            count *= size
        offset += -(-count // block * block_bytes // ALIGNMENT) * ALIGNMENT
    header = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys) + b"".join(infos)
    source = random.Random(name)
    # Under another name until it is whole: what is there may be used.
    with open(path + ".part", "wb") as file:
        file.write(header + bytes(-len(header) % ALIGNMENT))
        written = sum(write_tensor(file, kind, dims, source) for _, dims, kind in listed)
    if written != offset:
        raise AssertionError(f"{written} bytes of tensors, not {offset}")
    os.rename(path + ".part", path)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        sys.exit(__doc__)
    write(sys.argv[1], sys.argv[2])
