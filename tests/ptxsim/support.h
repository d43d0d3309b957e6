// Kernels under test: loading PTX, parameters, a run in every order.
#pragma once

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "interpreter/launch.h"
#include "interpreter/parser.h"

namespace ptxsim::tests {

inline std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A parameter buffer of these values, each on a multiple of its size.
template <class... T>
std::vector<std::byte> parameters(T... values) {
  std::vector<std::byte> out;
  const auto add = [&](auto v) {
    out.resize((out.size() + sizeof(v) - 1) / sizeof(v) * sizeof(v));
    const std::size_t at = out.size();
    out.resize(at + sizeof(v));
    std::memcpy(out.data() + at, &v, sizeof(v));
  };
  (add(values), ...);
  return out;
}

/// Device memory with the values of `init`.
template <class T>
T* upload(DeviceMemory& memory, const std::vector<T>& init) {
  auto* p = static_cast<T*>(memory.allocate(init.size() * sizeof(T)));
  std::memcpy(p, init.data(), init.size() * sizeof(T));
  return p;
}

/// What was loaded by way of the pointer at `offset` of the kernel's first parameter; null where nothing was.
inline const ArgumentCounts* argument(const Counters& c, std::size_t offset) {
  for (const ArgumentCounts& a : c.arguments) {
    if (a.parameter == offset && a.requests != 0) return &a;
  }
  return nullptr;
}

/// Three orders times two ways of asynchronous copies.
inline std::vector<Options> all_modes() {
  std::vector<Options> out;
  for (const Order order : {Order::ascending, Order::descending, Order::seeded}) {
    for (const AsyncMode async : {AsyncMode::early, AsyncMode::late}) {
      Options o;
      o.order = order;
      o.async = async;
      o.limit = 20'000'000;
      o.patience = 100'000;
      out.push_back(o);
    }
  }
  return out;
}

}  // namespace ptxsim::tests
