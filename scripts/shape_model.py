#!/usr/bin/env python3
"""Writes a model file of a published shape without any weights: for llminfer-simulate and memory plans, not to run.

usage: shape_model.py SHAPE FILE     SHAPE: tiny, llama-3.2-1b, llama-3.1-8b, llama-3.1-70b
The file is sparse: it has the size of the real one and takes some kilobytes of the disk. gpu/random_model.py writes the
same shapes with weights.
"""
import struct
import sys

# From the models' config.json: context, width, layers, feed-forward width, heads, heads of keys and values, vocabulary.
SHAPES = {
    "tiny": (2048, 256, 2, 768, 4, 2, 1024),
    "llama-3.2-1b": (131072, 2048, 16, 8192, 32, 8, 128256),
    "llama-3.1-8b": (131072, 4096, 32, 14336, 32, 8, 128256),
    "llama-3.1-70b": (131072, 8192, 80, 28672, 64, 8, 128256),
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


def tensors(width, layers, feed_forward, heads, heads_kv, vocabulary):
    """Types about as llama.cpp's Q4_K_M: half of the values and down projections, and the head, in Q6_K."""
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


def header_of(name, title, more=()):
    """The file up to its weights, with the keys `more` too; and of each tensor (kind, dims, bytes with what fills up)."""
    context, width, layers, feed_forward, heads, heads_kv, vocabulary = SHAPES[name]
    keys = [key("general.architecture", "llama"), key("general.name", title),
            key("llama.context_length", context), key("llama.embedding_length", width),
            key("llama.block_count", layers), key("llama.feed_forward_length", feed_forward),
            key("llama.attention.head_count", heads), key("llama.attention.head_count_kv", heads_kv),
            key("llama.attention.layer_norm_rms_epsilon", 1e-5), key("llama.rope.freq_base", 500000.0),
            key("llama.vocab_size", vocabulary), *more]
    infos, sizes, offset = [], [], 0
    for tensor, dims, kind in tensors(width, layers, feed_forward, heads, heads_kv, vocabulary):
        number, block, block_bytes = kind
        infos.append(text(tensor) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, offset))
        count = 1
        for size in dims:
            count *= size
        size = -(-count // block * block_bytes // ALIGNMENT) * ALIGNMENT
        sizes.append((kind, dims, size))
        offset += size
    header = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys) + b"".join(infos)
    return header + b"\0" * (-len(header) % ALIGNMENT), sizes


def write(name, path):
    header, sizes = header_of(name, f"shape of {name}")
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(len(header) + sum(size for _, _, size in sizes))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        sys.exit(__doc__)
    write(sys.argv[1], sys.argv[2])
