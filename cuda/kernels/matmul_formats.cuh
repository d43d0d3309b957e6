// The formats by the names of their types.
#pragma once

#include "kernels/matmul_chunk.cuh"

namespace llminfer::cuda {

using Q40Format = WeightFormat<FourBits<8>, HalfScales>;
using Q41Format = WeightFormat<FourBits<0>, HalfMinimumScales>;
using Q50Format = WeightFormat<FiveBits<16>, HalfScales>;
using Q51Format = WeightFormat<FiveBits<0>, HalfMinimumScales>;
using Q80Format = WeightFormat<EightBits, HalfScales>;
using Iq4NlFormat = WeightFormat<TableBits<Iq4Table>, HalfScales>;
using Mxfp4Format = WeightFormat<TableBits<Mxfp4Table>, ExponentScales>;
using F16Format = WeightFormat<SixteenBits<false>, NoScales>;
using Bf16Format = WeightFormat<SixteenBits<true>, NoScales>;

constexpr int minima_bytes = 640;  // behind a piece
using Q2KFormat = WeightFormat<TwoBits, NibbleScales, minima_bytes>;
using Q3KFormat = WeightFormat<ThreeBits, SixBitScales>;
using Q4KFormat = WeightFormat<FourBits<0>, ByteScales<false>, minima_bytes>;
using Q5KFormat = WeightFormat<FiveBits<0>, ByteScales<false>, minima_bytes>;
using Q6KFormat = WeightFormat<SixBits, TwoByteScales>;
using Iq4XsFormat = WeightFormat<TableBits<Iq4Table>, ByteScales<true>>;

}  // namespace llminfer::cuda
