// A PTX module decoded for the interpreter.
//
// Registers live in one array a warp, lane by lane: a 32-bit register is 32 consecutive words, a 16-bit one 32
// halfwords, a 64-bit one 32 doublewords. Predicates are masks of 32 bits. Constants are spread over 32 lanes once a
// kernel, so that an operand is a file (registers or constants) and an offset, and no handler has to ask which it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ptxsim {

class Warp;
struct Instruction;

/// Runs one instruction for the lanes of `mask`.
using Execute = void (*)(Warp& warp, const Instruction& instruction, std::uint32_t mask);

enum class Type : std::uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  f32,
  f64
};
int bytes_of(Type type) noexcept;  ///< 0 for pred and none
bool is_signed(Type type) noexcept;
bool is_float(Type type) noexcept;  ///< f32 and f64

/// `cluster`: shared memory of any block of the cluster.
enum class Space : std::uint8_t { generic, global, shared, cluster, local, param, constant };

/// What the loop over instructions does itself; all else is `next`.
enum class Flow : std::uint8_t { next, branch, table, exit, barrier, yield };

/// Modes of a barrier.
enum BarrierMode : std::int32_t { block_sync, block_arrive, cluster_arrive, cluster_wait };

/// For the counts.
enum class OpClass : std::uint8_t {
  integer,
  floating,
  half,
  convert,
  move,
  control,
  global,
  shared,
  local,
  collective,
  matrix,
  async,
  atomic
};
constexpr int op_classes = 13;
const char* name_of(OpClass c) noexcept;

/// A register or constant. Predicates: `at` is their number and bytes is 0.
struct Operand {
  std::uint32_t at = 0;
  std::uint8_t file = 0;  ///< 0 registers, 1 constants
  std::uint8_t bytes = 0;
};

/// Lines as nvcc -lineinfo gives them; 0: none. For code of an inlined function also the line that called it.
struct SourcePlace {
  std::uint32_t file = 0, line = 0;
  std::uint32_t call_file = 0, call_line = 0;
};

struct Instruction {
  Execute run = nullptr;
  Flow flow = Flow::next;
  OpClass op_class = OpClass::move;
  Type type = Type::none;
  Type from = Type::none;  ///< source type of conversions
  Space space = Space::generic;
  std::uint8_t vector = 1;  ///< elements of a load or store
  std::uint8_t count = 0;   ///< operands
  std::uint8_t flags = 0;   ///< meaning by handler
  std::int32_t mode = 0;    ///< meaning by handler
  std::int32_t guard = -1;  ///< predicate, -1: none
  bool guard_negated = false;
  std::int32_t target = -1;  ///< of a branch; index of a table
  std::int64_t offset = 0;   ///< added to the address
  std::int64_t offset2 = 0;  ///< of a second address
  std::int64_t offset3 = 0;  ///< of a third one
  std::array<Operand, 16> operands{};
  SourcePlace at{};
  std::uint32_t text = 0;  ///< index into Kernel::texts
};

struct Parameter {
  std::string name{};
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

/// What a kernel may ask of its place in the launch. Their names in PTX: symbols.cpp, in the same order.
enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  smid,
  nsmid,
  dynamic_smem_size,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_ctarank,
  cluster_nctarank,
  clock
};

/// A special register that the kernel reads.
struct SpecialRegister {
  Special which = Special::tid_x;
  Operand at{};
};

struct Kernel {
  std::string name{};
  std::vector<Parameter> parameters{};
  std::uint32_t parameter_bytes = 0;
  std::vector<Instruction> code{};
  std::vector<std::string> texts{};
  std::vector<std::vector<std::int32_t>> tables{};  ///< of brx.idx
  std::vector<std::uint64_t> constants{};           ///< spread: one entry of 32 lanes x 8 bytes each, see constant_at
  std::vector<std::byte> constant_lanes{};
  std::uint32_t register_bytes = 0;
  std::uint32_t predicates = 0;
  std::uint32_t shared_bytes = 0;  ///< static; dynamic shared memory follows, aligned to 16
  std::uint32_t local_bytes = 0;
  std::uint32_t max_threads = 0;  ///< 0: not stated
  std::vector<SpecialRegister> specials{};
  const std::vector<std::string>* files = nullptr;  ///< source files by number
};

/// Module-scope variables keep their bytes here; the addresses are those of a GPU's global memory.
struct Variable {
  std::unique_ptr<std::byte[]> bytes{};
  std::size_t size = 0;
};

struct Module {
  std::map<std::string, Kernel, std::less<>> kernels{};
  std::map<std::string, Variable, std::less<>> variables{};
  std::unique_ptr<std::vector<std::string>> files = std::make_unique<std::vector<std::string>>();
};

/// Tags of generic addresses. Global addresses are the host's.
constexpr std::uint64_t shared_window = std::uint64_t{0x70} << 56;
constexpr std::uint64_t local_window = std::uint64_t{0x60} << 56;
constexpr std::uint64_t window_mask = std::uint64_t{0xff} << 56;

/// Addresses of shared memory of a cluster: from this bit on the block's rank and one; zero is the own block.
constexpr int rank_bit = 24;
constexpr std::uint64_t shared_offset_mask = (std::uint64_t{1} << rank_bit) - 1;

}  // namespace ptxsim
