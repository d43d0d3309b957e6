#include "device/cpu/weight_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "core/checked.h"
#include "core/fail.h"
#include "core/fast_hash.h"
#include "core/new_file.h"

namespace llminfer::cpu {
namespace {

/// Raised with every change of the packed layout, of the arena's order, or of how weights are converted while loading.
constexpr std::uint64_t layout_version = 1;
constexpr std::array<char, 8> magic = {'l', 'l', 'm', 'i', 'p', 'a', 'c', 'k'};
constexpr std::size_t header_bytes = 4096;  // a page, so that the arena is aligned in a mapping
constexpr std::size_t piece_bytes = std::size_t{4} << 20;

struct Header {
  std::array<char, 8> name = magic;
  std::uint64_t version = layout_version;
  std::uint64_t plan = 0;      ///< hash of the weights' names, types, shapes and places
  std::uint64_t content = 0;   ///< WeightReader::content_hash
  std::uint64_t identity = 0;  ///< WeightReader::identity; 0: it was not settled
  std::uint64_t bytes = 0;     ///< of the arena
  std::uint64_t arena = 0;     ///< its checksum
  std::uint64_t header = 0;    ///< checksum of the fields above

  std::uint64_t own_checksum() const noexcept {
    return core::fast_hash(std::as_bytes(std::span(this, 1)).first(offsetof(Header, header)));
  }
};
static_assert(sizeof(Header) == 64 && std::has_unique_object_representations_v<Header>);

std::uint64_t plan_hash(const backend::Graph& graph, const WeightPlan& plan) noexcept {
  core::FastHasher hasher;
  for (std::size_t i = 0; i < plan.weights.size(); ++i) {
    const backend::Weight& w = graph.weights[i];
    const PlacedWeight& p = plan.weights[i];
    hasher.update(std::as_bytes(std::span(w.name)));
    const std::uint64_t fields[] = {w.name.size(),
                                    static_cast<std::uint64_t>(w.type),
                                    static_cast<std::uint64_t>(w.columns),
                                    static_cast<std::uint64_t>(w.rows),
                                    static_cast<std::uint64_t>(w.experts),
                                    p.matrix ? 1U : 0U,
                                    p.vector ? 1U : 0U,
                                    p.panels_at,
                                    p.values_at};
    hasher.update(std::as_bytes(std::span(fields)));
  }
  hasher.update_value(plan.bytes);
  return hasher.finish();
}

/// Checksum of the arena, by all threads: hash of the hashes of its pieces. 0 after a stop request.
std::uint64_t arena_checksum(std::span<const std::byte> arena, const core::MappedFile* file, core::ThreadPool& pool,
                             const std::stop_token& stop, const std::shared_ptr<core::Memory>& memory) {
  core::Vector<std::uint64_t> hashes((arena.size() + piece_bytes - 1) / piece_bytes, std::uint64_t{0}, memory);
  std::atomic<std::size_t> next{0};
  core::parallel(pool, [&](int, int) noexcept {
    while (!stop.stop_requested()) {
      const std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= hashes.size()) return;
      const std::size_t at = i * piece_bytes, bytes = std::min(piece_bytes, arena.size() - at);
      if (file != nullptr) file->populate(header_bytes + at, bytes);
      hashes[i] = core::fast_hash(arena.subspan(at, bytes));
    }
  });
  if (stop.stop_requested()) return 0;
  return core::fast_hash(std::as_bytes(std::span<const std::uint64_t>(hashes)));
}

class Cache {
 public:
  Cache(const backend::Graph& graph, const WeightPlan& plan, const backend::WeightReader& reader,
        const backend::CompileOptions& options, core::ThreadPool& pool, std::shared_ptr<core::Memory> memory)
      : reader_(reader), options_(options), pool_(pool), memory_(std::move(memory)), bytes_(plan.bytes) {
    wanted_.plan = plan_hash(graph, plan);
    wanted_.bytes = plan.bytes;
  }

  /// The arena in the file, if that is there, whole and of these weights.
  std::optional<PackedWeights> find() {
    const std::optional<core::File> file = open();
    if (!file) return std::nullopt;
    const std::optional<Header> header = read_header(*file);
    if (!header || !is_of_source(*header)) return std::nullopt;
    core::MappedFile map(*file);
    const std::span<const std::byte> arena = map.bytes().subspan(header_bytes);
    if (arena_checksum(arena, &map, pool_, options_.stop, memory_) != header->arena) return std::nullopt;
    return PackedWeights(std::move(map), header_bytes);
  }

  /// Before the weights are read, so that write() knows whether somebody changed them meanwhile.
  void begin() { before_ = reader_.identity().value(); }

  /// Whether the file is there now. Fails with no error: the weights are in memory.
  bool write(const core::Buffer& arena) noexcept {
    try {
      Header header = wanted_;
      header.content = reader_.content_hash().value();
      header.identity = before_.settled ? before_.hash : 0;
      header.arena = arena_checksum(arena.span(), nullptr, pool_, options_.stop, memory_);
      header.header = header.own_checksum();
      if (options_.stop.stop_requested() || reader_.identity().value().hash != before_.hash) return false;
      std::array<std::byte, header_bytes> page{};
      std::memcpy(page.data(), &header, sizeof header);
      core::NewFile file(options_.weight_cache);
      file.append(page);
      file.append(arena.span());
      file.commit();
      return true;
    } catch (...) {
      return false;
    }
  }

 private:
  std::optional<core::File> open() const {
    try {
      return core::File(options_.weight_cache);
    } catch (const Exception& error) {
      if (error.error().code == ErrorCode::invalid_argument) throw;
      return std::nullopt;
    }
  }

  /// Throws invalid_argument for a file that never was a cache: it would be replaced.
  std::optional<Header> read_header(const core::File& file) const {
    Header header;
    const auto bytes = std::as_writable_bytes(std::span(&header, 1));
    const auto there = static_cast<std::size_t>(std::min<std::uint64_t>(sizeof header, file.size()));
    try {
      file.read_at(0, bytes.first(there));
    } catch (const Exception&) {  // somebody shortens it, or the disk fails
      return std::nullopt;
    }
    if (std::memcmp(header.name.data(), magic.data(), std::min(there, magic.size())) != 0) {
      core::fail(ErrorCode::invalid_argument, "weight_cache: '{}' is no weight cache and will not be replaced by one",
                 file.path().string());
    }
    const bool good = there == sizeof header && header.header == header.own_checksum() &&
                      header.version == wanted_.version && header.plan == wanted_.plan &&
                      header.bytes == wanted_.bytes && file.size() == header_bytes + bytes_;
    return good ? std::optional(header) : std::nullopt;
  }

  /// By what the system says of the model's files, else by their bytes.
  bool is_of_source(const Header& header) const {
    const backend::SourceIdentity identity = reader_.identity().value();
    if (identity.hash != 0 && identity.hash == header.identity) return true;
    const Result<std::uint64_t> content = reader_.content_hash();
    return content.has_value() && content.value() == header.content;
  }

  const backend::WeightReader& reader_;
  const backend::CompileOptions& options_;
  core::ThreadPool& pool_;
  std::shared_ptr<core::Memory> memory_;
  std::uint64_t bytes_;
  Header wanted_{};
  backend::SourceIdentity before_{};
};

}  // namespace

LoadedWeights load_weights(const backend::Graph& graph, const WeightPlan& plan, const backend::WeightReader& reader,
                           const backend::CompileOptions& options, core::ThreadPool& pool,
                           const std::shared_ptr<core::Memory>& memory) {
  const auto pack = [&] { return pack_weights(graph, plan, reader, options, pool, memory); };
  if (options.weight_cache.empty() || plan.bytes == 0) return {PackedWeights(pack()), WeightCache::unused};
  Cache cache(graph, plan, reader, options, pool, memory);
  if (std::optional<PackedWeights> found = cache.find()) {
    if (options.progress) options.progress(1.0);
    return {std::move(*found), WeightCache::read};
  }
  cache.begin();
  core::Buffer arena = pack();
  const bool written = cache.write(arena);
  return {PackedWeights(std::move(arena)), written ? WeightCache::written : WeightCache::not_written};
}

}  // namespace llminfer::cpu
