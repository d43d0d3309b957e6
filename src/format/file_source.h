// A regular file read by pread, or mapped.
#pragma once

#include "format/source.h"

namespace llminfer::format {

class FileSource final : public Source {
 public:
  FileSource(const std::filesystem::path& path, bool map);
  ~FileSource() override;

 private:
  void do_read(std::uint64_t offset, std::span<std::byte> out) const override;
  int file_ = -1;
};

}  // namespace llminfer::format
