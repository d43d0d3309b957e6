// The tile registers of AMX. Instructions by hand: the tile number of an intrinsic must be a literal for gcc, whose
// intrinsics that load say nothing of the memory that they read either. Included inside a target region.
//
// A tile is 16 rows of 64 bytes at most. Of a product c += a * b, row m of a holds bf16 [k], row k / 2 of b pairs
// [column][2] and row m of c floats [column]; of bytes, row m of a holds int8 [k], row k / 4 of b fours [column][4] and
// row m of c int32 [column].

/// What ldtilecfg reads.
struct TileConfig {
  std::uint8_t palette;
  std::uint8_t start_row;
  std::uint8_t reserved[14];
  std::uint16_t bytes[16];  // of a row
  std::uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

static inline void configure_tiles(const TileConfig& config) {
  __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
}
static inline void release_tiles() { __asm__ volatile("tilerelease" : : : "memory"); }

template <int tile>
static inline __attribute__((always_inline)) void load_tile(const void* from, std::int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
static inline __attribute__((always_inline)) void store_tile(void* to, std::int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
static inline __attribute__((always_inline)) void clear_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile));
}
template <int c, int a, int b>
static inline __attribute__((always_inline)) void multiply_tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
}
template <int c, int a, int b>
static inline __attribute__((always_inline)) void multiply_byte_tiles() {
  __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
}
