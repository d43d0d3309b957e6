#!/usr/bin/env python3
"""Compares the scalar truth of every weight format with the `gguf` Python package (needs gguf and numpy).

    compare_with_gguf.py --checker build/tests/unit/quant/quant_check_cases    random blocks, every half as a scale
    compare_with_gguf.py --write tests/golden/quant/rows.bin                   the small file for unit_quant_golden

Cases are in the format of case_file.h. What is not compared, because the package's own result there depends on the CPU
or is a cast without a defined value: packing of blocks with NaN, infinity or a reciprocal that overflows, the
sign of a zero minimum (Q4_1, Q5_1) where the block has zeros of both signs, and the payload of NaNs.
"""
import argparse
import io
import subprocess
import sys

try:
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type
    from gguf.quants import dequantize, quantize
except ImportError as error:
    print(f"skipped: {error} (needs the Python packages gguf and numpy)")
    sys.exit(77)

# Type: byte offsets of the halves in a block, what they scale being the rest of the block's bytes.
HALVES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.IQ4_NL: [0], Type.IQ4_XS: [0], Type.F16: [0], Type.BF16: [0], Type.MXFP4: [], Type.F32: [],
}
PACKED = [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0]
RANGED = [Type.Q4_1, Type.Q5_1]
# Zeros, least and greatest subnormal, least normal, one, greatest, infinities, quiet and signalling NaNs.
SPECIAL_HALVES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF,
                  0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01]
# Zero, ends of the subnormals, around a half's greatest (65504) and its limit (65520), greatest, infinity, NaN.
SPECIAL_FLOATS = [0, 1, 0x007FFFFF, 0x00800000, 0x33000000, 0x33000001, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x477FFFFF,
                  0x7F7FFFFF, 0x7F800000, 0x7FC00000]


def random_blocks(rng, kind, scales):
    """One block for each value in `scales` (the first half; a second half gets the same values in another order)."""
    size = GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, (len(scales), size), dtype=np.uint8)
    for number, offset in enumerate(HALVES[kind]):
        values = scales if number == 0 else rng.permutation(scales)
        blocks[:, offset:offset + 2] = np.asarray(values, dtype="<u2").view(np.uint8).reshape(-1, 2)
    if kind == Type.MXFP4:  # the scale is a byte
        blocks[:, 0] = np.arange(len(scales)) % 256
    return blocks


def extreme_blocks(kind):
    """All payload bits clear, all set, for each special scale."""
    blocks = np.concatenate([random_blocks(np.random.default_rng(0), kind, SPECIAL_HALVES)] * 2)
    keep = [offset + i for offset in HALVES[kind] for i in (0, 1)] or ([0] if kind == Type.MXFP4 else [])
    payload = np.setdiff1d(np.arange(blocks.shape[1]), keep)
    half = len(blocks) // 2
    blocks[:half, payload] = 0
    blocks[half:, payload] = 255
    return blocks


def write_unpack(out, kind, blocks):
    with np.errstate(all="ignore"):
        floats = dequantize(np.ascontiguousarray(blocks), kind).astype("<f4")
    out.write(f"unpack {kind.name} {floats.size}\n".encode() + blocks.tobytes() + floats.tobytes())


def write_pack(out, kind, floats):
    floats = np.ascontiguousarray(floats, dtype=np.float32)
    with np.errstate(all="ignore"):
        blocks = quantize(floats, kind)
    out.write(f"pack {kind.name} {floats.size}\n".encode() + floats.tobytes() + blocks.tobytes())


def rows_to_pack(rng, kind, count):
    """Blocks of 32 finite weights: normal ones of many magnitudes, and shapes where rounding is decided."""
    rows = rng.standard_normal((count, 32)).astype(np.float32)
    magnitude = np.exp2(rng.integers(-112, 124, (count, 1))).astype(np.float32)
    magnitude[: count // 2] = np.exp2(rng.integers(-16, 4, (count // 2, 1)))
    rows = rows * magnitude
    grid = rng.integers(-16, 17, (count // 4, 32)).astype(np.float32) / np.float32(2)  # ties of levels and of extremes
    halves = rng.integers(-253, 254, (8 + count // 16, 32)).astype(np.float32) / np.float32(2)  # ties of Q8_0's levels
    halves[:, 5] = np.float32(127)
    near = []  # numbers next to the ties of Q4_1's and Q5_1's levels
    for top in (15, 31):
        near.append(np.resize((np.arange(top) + 0.5) / top, 32) * rng.uniform(0.5, 2, (4 + count // 16, 1)))
        near[-1][:, 0] = 0
        near[-1][:, 31] = near[-1][:, 1] * top / 1.5
    flat = np.repeat(rng.standard_normal((16, 1)).astype(np.float32), 32, axis=1)
    single = np.zeros((32, 32), dtype=np.float32)
    np.fill_diagonal(single, rng.standard_normal(32))
    zeros = np.zeros((2, 32), dtype=np.float32)
    zeros[1] = -0.0
    rows = np.concatenate([rows, grid, np.abs(grid) + 1, halves, *near, flat, single, zeros]).astype(np.float32)
    rows = rows[np.isfinite(rows).all(axis=1)]
    if kind in RANGED:
        return rows[(np.ptp(rows.astype(np.float64), axis=1) < 3e38)]
    return rows


def with_both_signs(*bits):
    bits = np.concatenate(bits)
    return np.concatenate([bits, bits | np.uint32(0x80000000)]).view(np.float32)


def floats_to_pack(kind, thorough):
    """Numbers around every boundary of rounding to 16 bits, and the float32 special values."""
    if kind == Type.F16:
        exact = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    else:
        exact = (np.arange(0x7F80, dtype=np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):
        middle = ((exact[:-1].astype(np.float64) + exact[1:]) / 2).astype(np.float32)
    bits = np.concatenate([exact, middle]).view(np.uint32)
    bits = np.concatenate([bits, bits + 1, bits[bits > 0] - 1])
    return with_both_signs(bits if thorough else bits[:: len(bits) // 700], np.array(SPECIAL_FLOATS, dtype=np.uint32))


def write_cases(out, kind, rng, thorough):
    big = GGML_QUANT_SIZES[kind][0] == 256
    write_unpack(out, kind, extreme_blocks(kind) if thorough or not big else extreme_blocks(kind)[[3, 9, 25]])
    if thorough:
        for start in range(0, 65536, 8192):
            write_unpack(out, kind, random_blocks(rng, kind, np.arange(start, start + 8192)))
        write_unpack(out, kind, random_blocks(rng, kind, rng.integers(0x2000, 0x3000, 512)))
    else:
        count = 8 if big else 256 if kind == Type.MXFP4 else 32
        scales = np.concatenate([SPECIAL_HALVES, rng.integers(0, 65536, max(0, count - 16))])
        write_unpack(out, kind, random_blocks(rng, kind, scales if not big else scales[2:14]))
    if kind not in PACKED:
        return
    if GGML_QUANT_SIZES[kind][0] == 1:
        write_pack(out, kind, floats_to_pack(kind if kind != Type.F32 else Type.F16, thorough))
    else:
        write_pack(out, kind, rows_to_pack(rng, kind, 40000 if thorough else 48))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--checker", help="the program quant_check_cases")
    options.add_argument("--write", metavar="FILE", help="write the small set of cases")
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()
    if options.write:
        rng = np.random.default_rng(options.seed)
        with open(options.write, "wb") as out:
            for kind in HALVES:
                write_cases(out, kind, rng, thorough=False)
    failed = []
    if options.checker:
        for kind in HALVES:
            cases = io.BytesIO()
            write_cases(cases, kind, np.random.default_rng([options.seed, kind.value]), thorough=True)
            done = subprocess.run([options.checker], input=cases.getbuffer(), stdout=subprocess.PIPE)
            print(done.stdout.decode(), end="", flush=True)
            if done.returncode != 0:
                failed.append(kind.name)
    if failed:
        print("differs:", " ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
