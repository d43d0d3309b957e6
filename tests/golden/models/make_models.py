#!/usr/bin/env python3
"""Writes the tiny random models of this folder, and llama.cpp's logits for them.

Needs the packages gguf and numpy. Models alone:      make_models.py
Goldens too, with llama_logits.cpp compiled against a llama.cpp tree (headers in include/ and ggml/include/, libraries
llama, ggml, ggml-base):                              make_models.py --logits ./llama_logits

llama.cpp multiplies quantized (and 16-bit) weights with activations that it rounds too. So it is given a twin of each
model, the same weights as float32, and what it computes is the true answer for both within float32's rounding.
"""
import argparse
import pathlib
import subprocess
import tempfile

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T, quants

HERE = pathlib.Path(__file__).resolve().parent
VOCABULARY = 96
TOKENS = 80   # more than every window
EVERY = 6     # logits are kept of each 6th position and of the last


class Model:
    """Tensors and keys of one file. Weights are drawn from one generator per model, seeded by its name."""

    def __init__(self, name, arch, width=64, layers=2, heads=4, kv_heads=2, head=16, ff=64, context=512):
        self.name, self.arch, self.width, self.layers = name, arch, width, layers
        self.heads, self.kv_heads, self.head, self.ff, self.context = heads, kv_heads, head, ff, context
        self.keys, self.tensors = [], []  # (function name of GGUFWriter, key, value), (name, packed, type, shape)
        self.random = np.random.default_rng(sum(name.encode()) * 7919)
        self.contexts = [256]
        self.key("uint32", "context_length", context)
        self.key("uint32", "embedding_length", width)
        self.key("uint32", "block_count", layers)
        self.key("uint32", "feed_forward_length", ff)
        self.key("uint32", "attention.head_count", heads)
        self.key("uint32", "attention.head_count_kv", kv_heads)
        self.key("uint32", "attention.key_length", head)
        self.key("uint32", "attention.value_length", head)
        self.key("float32", "attention.layer_norm_rms_epsilon", 1e-5)
        self.key("uint32", "rope.dimension_count", head)

    def key(self, kind, name, value):
        self.keys = [k for k in self.keys if k[1] != name] + [(kind, name, value)]

    def without(self, name):
        self.keys = [k for k in self.keys if k[1] != name]

    def add(self, name, values, kind=T.F32):
        values = np.asarray(values, np.float32)
        packed = self.pack(values, kind)
        self.tensors.append((name, packed, kind, values.shape))

    def pack(self, values, kind):
        """Quantizes; formats that the package cannot pack get random blocks with scales that suit the values."""
        if kind in (T.F32, T.F16):
            return values.astype(np.float32 if kind == T.F32 else np.float16)
        try:
            return quants.quantize(values, kind)
        except NotImplementedError:
            return self.random_blocks(values, kind)

    def random_blocks(self, values, kind):
        size, length = gguf.GGML_QUANT_SIZES[kind]
        rows, blocks = values.size // values.shape[-1], values.shape[-1] // size
        raw = self.random.integers(0, 256, (rows, blocks, length), dtype=np.uint8)
        # Where the halves lie: d, and dmin where the format has one.
        halves = {T.Q2_K: (80, 82), T.Q3_K: (108,), T.Q4_K: (0, 2), T.Q5_K: (0, 2), T.Q6_K: (208,), T.IQ4_XS: (0,),
                  T.IQ4_NL: (0,)}[kind]
        d = np.ones((rows, blocks))
        for _ in range(3):  # find the scale that gives the wanted spread
            for at in halves:
                raw[:, :, at:at + 2] = (d * 0.01).astype(np.float16)[..., None].view(np.uint8).reshape(rows, blocks, 2)
            have = quants.dequantize(raw.reshape(rows, blocks * length), kind).std()
            d = d * values.std() / have
        return raw.reshape(*values.shape[:-1], blocks * length)

    def matrix(self, name, *shape, kind=T.F16, gain=1.0):
        """shape: outermost first; the last is the reduction dimension."""
        self.add(name, self.random.standard_normal(shape) * gain / np.sqrt(shape[-1]), kind)

    def vector(self, name, size, mean=0.0, spread=0.3):
        self.add(name, mean + spread * self.random.standard_normal(size))

    def norm(self, name, size):
        self.vector(name, size, mean=1.0, spread=0.2)

    # Shared pieces -------------------------------------------------------------------------------------------------
    def embeddings(self, output=True, kind=T.F16, embedding=1.0):
        self.add("token_embd.weight", self.random.standard_normal((VOCABULARY, self.width)) * embedding, kind)
        self.norm("output_norm.weight", self.width)
        if output:
            self.matrix("output.weight", VOCABULARY, self.width, kind=kind, gain=3.0)

    def attention(self, l, biases=(), qk_norm=False, fused=False, kind=T.F16):
        q, kv = self.heads * self.head, self.kv_heads * self.head
        p = f"blk.{l}."
        self.norm(p + "attn_norm.weight", self.width)
        if fused:
            self.matrix(p + "attn_qkv.weight", q + 2 * kv, self.width, kind=kind, gain=1.7)
        else:
            for part, rows, gain in (("q", q, 1.7), ("k", kv, 1.7), ("v", kv, 1.0)):
                self.matrix(p + f"attn_{part}.weight", rows, self.width, kind=kind, gain=gain)
                if part in biases:
                    self.vector(p + f"attn_{part}.bias", rows)
        if qk_norm:
            self.vector(p + "attn_q_norm.weight", self.head, mean=1.5)
            self.vector(p + "attn_k_norm.weight", self.head, mean=1.5)
        self.matrix(p + "attn_output.weight", self.width, q, kind=kind)
        if "output" in biases:
            self.vector(p + "attn_output.bias", self.width)

    def feed_forward(self, l, norm="ffn_norm", fused=False, kind=T.F16):
        p = f"blk.{l}."
        self.norm(p + norm + ".weight", self.width)
        if fused:
            self.matrix(p + "ffn_up.weight", 2 * self.ff, self.width, kind=kind)
        else:
            self.matrix(p + "ffn_gate.weight", self.ff, self.width, kind=kind)
            self.matrix(p + "ffn_up.weight", self.ff, self.width, kind=kind)
        self.matrix(p + "ffn_down.weight", self.width, self.ff, kind=kind)

    def experts(self, l, count, width, norm="ffn_norm", biases=False, kind=T.F16):
        p = f"blk.{l}."
        self.norm(p + norm + ".weight", self.width)
        self.matrix(p + "ffn_gate_inp.weight", count, self.width, kind=T.F32, gain=1.5)
        self.matrix(p + "ffn_gate_exps.weight", count, width, self.width, kind=kind)
        self.matrix(p + "ffn_up_exps.weight", count, width, self.width, kind=kind)
        self.matrix(p + "ffn_down_exps.weight", count, self.width, width, kind=kind)
        if biases:
            self.vector(p + "ffn_gate_inp.bias", count)
            self.vector(p + "ffn_gate_exps.bias", (count, width))
            self.vector(p + "ffn_up_exps.bias", (count, width))
            self.vector(p + "ffn_down_exps.bias", (count, self.width))

    def plain(self, **attention):
        self.embeddings()
        for l in range(self.layers):
            self.attention(l, **attention)
            self.feed_forward(l)
        return self

    # Files ---------------------------------------------------------------------------------------------------------
    def write(self, path, as_f32=False):
        w = gguf.GGUFWriter(path, self.arch)
        w.add_name("tiny " + self.name.replace("3", " 3"))  # llama.cpp expects more of files named phi3
        for kind, name, value in self.keys:
            getattr(w, "add_" + kind)(f"{self.arch}.{name}", value)
        pieces = ["<unk>", "<s>", "</s>", "<0x0A>", "\u2581"] + [chr(c) for c in range(33, 127)]
        pieces = pieces[:VOCABULARY]
        w.add_tokenizer_model("llama")
        w.add_token_list(pieces)
        w.add_token_scores([float(-i) for i in range(len(pieces))])
        w.add_token_types([2, 3, 3, 6] + [1] * (len(pieces) - 4))
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_unk_token_id(0)
        for name, packed, kind, shape in self.tensors:
            if as_f32:
                values = packed if kind == T.F32 else quants.dequantize(packed, kind)
                w.add_tensor(name, np.ascontiguousarray(values, np.float32).reshape(shape))
            elif kind in (T.F32, T.F16):
                w.add_tensor(name, packed)
            else:
                w.add_tensor(name, np.ascontiguousarray(packed), raw_dtype=kind)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()

    def tokens(self):
        return [1] + [int(t) for t in self.random.integers(3, VOCABULARY, TOKENS - 1)]


def llama():
    """GQA, neighbouring RoPE pairs, output matrix."""
    return Model("llama", "llama").plain()


def llama_biases():
    """Biases, one KV head, output tied to the embedding, 16-bit brain floats; head_count_kv, key_length absent."""
    m = Model("llama-biases", "llama", kv_heads=4)
    for name in ("attention.head_count_kv", "attention.key_length", "attention.value_length", "rope.dimension_count"):
        m.without(name)
    m.embeddings(output=False, embedding=0.4)
    for l in range(m.layers):
        m.attention(l, biases=("q", "k", "v", "output"), kind=T.BF16)
        m.feed_forward(l, kind=T.BF16)
    return m


def llama3_factors():
    """Llama 3.1's scaling: a tensor of divisors."""
    m = Model("llama3-factors", "llama")
    m.key("float32", "rope.freq_base", 500000.0)
    m.add("rope_freqs.weight", [1, 1, 1.1, 1.6, 2.7, 4.5, 8, 8])
    return m.plain()


def llama_linear():
    m = Model("llama-linear", "llama")
    m.key("string", "rope.scaling.type", "linear")
    m.key("float32", "rope.scaling.factor", 4.0)
    return m.plain()


def llama_yarn():
    m = Model("llama-yarn", "llama", head=32, heads=2, kv_heads=1)
    m.key("string", "rope.scaling.type", "yarn")
    m.key("float32", "rope.scaling.factor", 8.0)
    m.key("uint32", "rope.scaling.original_context_length", 64)
    return m.plain()


def mixtral():
    m = Model("mixtral", "llama")
    m.key("uint32", "expert_count", 4)
    m.key("uint32", "expert_used_count", 2)
    m.embeddings(kind=T.Q8_0)
    for l in range(m.layers):
        m.attention(l, kind=T.Q8_0)
        m.experts(l, 4, m.ff, kind=T.Q5_1)
    return m


def llama_quants():
    """Wide enough for blocks of 256: the formats that real files mix."""
    m = Model("llama-quants", "llama", width=256, layers=1, heads=4, kv_heads=2, head=64, ff=256)
    m.add("token_embd.weight", m.random.standard_normal((VOCABULARY, 256)), T.Q4_0)
    m.norm("output_norm.weight", 256)
    m.matrix("output.weight", VOCABULARY, 256, kind=T.Q6_K, gain=3.0)
    m.norm("blk.0.attn_norm.weight", 256)
    m.matrix("blk.0.attn_q.weight", 256, 256, kind=T.Q4_K, gain=1.7)
    m.matrix("blk.0.attn_k.weight", 128, 256, kind=T.IQ4_XS, gain=1.7)
    m.matrix("blk.0.attn_v.weight", 128, 256, kind=T.Q5_K)
    m.matrix("blk.0.attn_output.weight", 256, 256, kind=T.Q3_K)
    m.norm("blk.0.ffn_norm.weight", 256)
    m.matrix("blk.0.ffn_gate.weight", 256, 256, kind=T.Q2_K)
    m.matrix("blk.0.ffn_up.weight", 256, 256, kind=T.IQ4_NL)
    m.matrix("blk.0.ffn_down.weight", 256, 256, kind=T.Q5_0)
    return m


def qwen2():
    return Model("qwen2", "qwen2").plain(biases=("q", "k", "v"))


def qwen3():
    """Heads wider than width / heads."""
    return Model("qwen3", "qwen3", heads=4, kv_heads=1, head=32).plain(qk_norm=True)


def qwen3moe():
    m = Model("qwen3moe", "qwen3moe", head=24)
    m.key("uint32", "expert_count", 6)
    m.key("uint32", "expert_used_count", 3)
    m.key("uint32", "expert_feed_forward_length", 32)
    m.embeddings(kind=T.Q8_0)
    for l in range(m.layers):
        m.attention(l, qk_norm=True)
        m.experts(l, 6, 32, kind=T.Q4_1)
    return m


def gemma_layer(m, l, **attention):
    m.attention(l, **attention)
    m.norm(f"blk.{l}.post_attention_norm.weight", m.width)
    m.feed_forward(l, kind=attention["kind"])
    m.norm(f"blk.{l}.post_ffw_norm.weight", m.width)


def gemma2():
    """Windows on even layers, both caps."""
    m = Model("gemma2", "gemma2", layers=3)
    m.key("uint32", "attention.sliding_window", 8)
    m.key("float32", "attn_logit_softcapping", 4.0)
    m.key("float32", "final_logit_softcapping", 12.0)
    m.embeddings(output=False, embedding=0.4)
    for l in range(m.layers):
        gemma_layer(m, l, kind=T.F16)
    return m


def gemma3():
    """The default pattern (5 windowed, 1 full), scaled RoPE in the full layers, its own base in the others."""
    m = Model("gemma3", "gemma3", width=32, layers=7, heads=2, kv_heads=1, head=32)
    m.key("uint32", "attention.sliding_window", 12)
    m.key("float32", "rope.freq_base", 1000000.0)
    m.key("string", "rope.scaling.type", "linear")
    m.key("float32", "rope.scaling.factor", 8.0)
    m.embeddings(output=False, embedding=0.5)
    for l in range(m.layers):
        gemma_layer(m, l, qk_norm=True, kind=T.Q8_0)
    return m


def phi3():
    """Fused matrices, part of each head rotated, LongRoPE: short factors up to 256 tokens of context, long above."""
    m = Model("phi3", "phi3", heads=4, kv_heads=2)
    m.key("uint32", "rope.dimension_count", 12)
    m.key("string", "rope.scaling.type", "longrope")
    m.key("uint32", "rope.scaling.original_context_length", 256)
    m.key("float32", "rope.scaling.attn_factor", 1.19)
    m.add("rope_factors_short.weight", [1, 1.05, 1.1, 1.2, 1.5, 2])
    m.add("rope_factors_long.weight", [1.1, 1.5, 3, 8, 20, 40])
    m.embeddings()
    for l in range(m.layers):
        m.attention(l, fused=True)
        m.feed_forward(l, fused=True)
    m.contexts = [256, 512]
    return m


def gpt_oss():
    m = Model("gpt-oss", "gpt-oss", layers=3, ff=32)
    m.key("uint32", "attention.sliding_window", 16)
    m.key("string", "rope.scaling.type", "yarn")
    m.key("float32", "rope.scaling.factor", 32.0)
    m.key("uint32", "rope.scaling.original_context_length", 128)
    m.key("float32", "rope.freq_base", 150000.0)
    m.key("uint32", "expert_count", 4)
    m.key("uint32", "expert_used_count", 2)
    m.key("uint32", "expert_feed_forward_length", 32)
    m.embeddings()
    for l in range(m.layers):
        m.attention(l, biases=("q", "k", "v", "output"), kind=T.BF16)
        m.vector(f"blk.{l}.attn_sinks.weight", m.heads, spread=1.5)
        m.experts(l, 4, 32, norm="post_attention_norm", biases=True, kind=T.MXFP4)
    return m


MODELS = (llama, llama_biases, llama3_factors, llama_linear, llama_yarn, mixtral, llama_quants, qwen2, qwen3, qwen3moe,
          gemma2, gemma3, phi3, gpt_oss)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logits", help="the compiled llama_logits: write goldens too")
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    options = parser.parse_args()
    for make in MODELS:
        m = make()
        path = options.out / f"{m.name}.gguf"
        m.write(path)
        print(f"{m.name:16} {path.stat().st_size:8} bytes")
        tokens = m.tokens()
        if not options.logits:
            continue
        with tempfile.TemporaryDirectory() as folder:
            twin = pathlib.Path(folder) / "twin.gguf"
            m.write(twin, as_f32=True)
            for context in m.contexts:
                out = options.out / f"{m.name}-{context}.golden"
                command = [options.logits, twin, context, ",".join(map(str, tokens)), EVERY, out]
                subprocess.run([str(part) for part in command], check=True)
                rows = np.frombuffer(out.read_bytes(), np.int32)[3 + TOKENS + 2:].reshape(-1, 1 + VOCABULARY)
                logits = rows[:, 1:].copy().view(np.float32)
                print(f"  {out.name}: {len(rows)} rows, spread {logits.std():.2f}, |max| {np.abs(logits).max():.2f}")


if __name__ == "__main__":
    main()
