#include "format/cursor.h"

#include <algorithm>

#include "core/fail.h"
#include "format/printable.h"

namespace llminfer::format {

Cursor::Cursor(const Source& source, std::stop_token stop, std::shared_ptr<core::Memory> memory)
    : source_(source), stop_(std::move(stop)), memory_(std::move(memory)), buffer_(memory_) {
  if (!source.mapping().empty()) {
    data_ = source.mapping().data();
    filled_ = source.mapping().size();
  } else {
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(window, source.size())));
    data_ = buffer_.data();
  }
}

std::string Cursor::subject() const { return name_.empty() ? kind_ : fmt::format("{} '{}'", kind_, printable(name_)); }

void Cursor::check_stop() const {
  if (stop_.stop_requested()) core::fail(ErrorCode::cancelled, "loading was cancelled in the {}", subject());
}

void Cursor::require(std::uint64_t count) const {
  if (count <= remaining()) return;
  core::fail(ErrorCode::truncated, "{} needs {} bytes from byte {} on, but the file has only {}", subject(), count,
             position(), size());
}

void Cursor::refill(std::size_t count) {
  require(count);
  check_stop();
  if (count > window) core::fail(ErrorCode::invalid_argument, "{}: a read of {} bytes at once", subject(), count);
  const std::uint64_t offset = position();
  const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), size() - offset));
  window_offset_ = offset;
  at_ = filled_ = 0;
  source_.read_at(offset, std::span(buffer_).first(want));
  filled_ = want;
}

void Cursor::append_to(std::string& out, std::uint64_t count) {
  require(count);
  while (count > 0) {
    const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(count, window));
    out.append(reinterpret_cast<const char*>(take(piece)), piece);
    count -= piece;
  }
}

void Cursor::append_to(core::Vector<std::byte>& out, std::uint64_t count) {
  require(count);
  while (count > 0) {
    const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(count, window));
    const std::byte* bytes = take(piece);
    out.insert(out.end(), bytes, bytes + piece);
    count -= piece;
  }
}

}  // namespace llminfer::format
