// What became of the file where a device may keep a model's weights in its own layout.
#pragma once

#include <cstdint>

namespace llminfer {
inline namespace v0 {

enum class WeightCache : std::uint8_t {
  unused,      ///< no file was named, or the device keeps none
  read,        ///< the weights are the file's pages
  written,     ///< there was none that fits; there is now
  not_written  ///< there was none that fits, and none could be written: no folder, no permission, no room, or the model
               ///< file changed while it was read
};

}  // namespace v0
}  // namespace llminfer
