#include "interpreter/symbols.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "interpreter/parser.h"
#include "interpreter/text.h"

namespace ptxsim {
namespace {

/// In the order of enum Special.
constexpr std::string_view special_names[] = {
    "%tid.x",
    "%tid.y",
    "%tid.z",
    "%ntid.x",
    "%ntid.y",
    "%ntid.z",
    "%ctaid.x",
    "%ctaid.y",
    "%ctaid.z",
    "%nctaid.x",
    "%nctaid.y",
    "%nctaid.z",
    "%laneid",
    "%warpid",
    "%lanemask_eq",
    "%lanemask_lt",
    "%lanemask_le",
    "%lanemask_gt",
    "%lanemask_ge",
    "%smid",
    "%nsmid",
    "%dynamic_smem_size",
    "%cluster_ctaid.x",
    "%cluster_ctaid.y",
    "%cluster_ctaid.z",
    "%cluster_nctaid.x",
    "%cluster_nctaid.y",
    "%cluster_nctaid.z",
    "%clusterid.x",
    "%clusterid.y",
    "%clusterid.z",
    "%nclusterid.x",
    "%nclusterid.y",
    "%nclusterid.z",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%clock",
};
static_assert(std::size(special_names) == static_cast<std::size_t>(Special::clock) + 1);

std::optional<std::uint64_t> literal(std::string_view s) {
  const std::string text(s);
  if (text.size() > 2 && text[0] == '0' && std::strchr("fFdD", text[1]) != nullptr) {
    return std::strtoull(text.c_str() + 2, nullptr, 16);
  }
  const std::size_t digits = text[0] == '-' ? 1 : 0;
  if (digits >= text.size() || std::isdigit(static_cast<unsigned char>(text[digits])) == 0) return std::nullopt;
  if (digits == 0) return std::strtoull(text.c_str(), nullptr, 0);
  return static_cast<std::uint64_t>(std::strtoll(text.c_str(), nullptr, 0));
}

}  // namespace

Symbols::Symbols(Kernel& kernel, const Module& module) : kernel_(kernel), module_(module), scopes_(1) {}

void Symbols::close_scope() {
  if (scopes_.size() == 1) throw ParseError("a scope is closed that was not opened");
  scopes_.pop_back();
}

Operand Symbols::allocate(Type type) {
  if (type == Type::pred) return {kernel_.predicates++, 0, 0};
  const int bytes = std::max(2, bytes_of(type));
  const std::uint32_t at = kernel_.register_bytes;
  kernel_.register_bytes += static_cast<std::uint32_t>(32 * bytes);
  return {at, 0, static_cast<std::uint8_t>(bytes)};
}

void Symbols::add_registers(std::string_view statement) {
  const std::vector<std::string_view> w = words(statement);
  std::size_t t = 1;
  while (t < w.size() && type_named(w[t].substr(1)) == Type::none) ++t;
  if (t >= w.size()) throw ParseError("registers without a type: " + std::string(statement));
  const Type type = type_named(w[t].substr(1));
  const std::size_t names = static_cast<std::size_t>(w[t].data() + w[t].size() - statement.data());
  for (std::string_view name : split_operands(statement.substr(names))) {
    const std::size_t angle = name.find('<');
    if (angle == std::string_view::npos) {
      scopes_.back().names[std::string(name)] = allocate(type);
      continue;
    }
    Family f;
    f.type = type;
    f.count = static_cast<std::uint32_t>(std::strtoul(std::string(name.substr(angle + 1)).c_str(), nullptr, 10));
    if (f.count > 1000000) throw ParseError("too many registers: " + std::string(statement));
    for (std::uint32_t i = 0; i < f.count; ++i) {
      const Operand o = allocate(type);
      if (i == 0) f.first = o.at;
    }
    scopes_.back().families[std::string(name.substr(0, angle))] = f;
  }
}

void Symbols::add_shared(const Declaration& d) {
  if (d.open) {
    dynamic_[d.name] = true;
    return;
  }
  const auto size = static_cast<std::uint32_t>(bytes_of(d.type));
  const std::uint32_t align = std::max({d.align, size, 1U});
  kernel_.shared_bytes = (kernel_.shared_bytes + align - 1) / align * align;
  shared_[d.name] = kernel_.shared_bytes;
  kernel_.shared_bytes += size * d.count;
}

void Symbols::add_local(const Declaration& d) {
  const std::uint32_t align = std::max(d.align, 8U);
  kernel_.local_bytes = (kernel_.local_bytes + align - 1) / align * align;
  local_[d.name] = kernel_.local_bytes;
  kernel_.local_bytes += static_cast<std::uint32_t>(bytes_of(d.type)) * d.count;
}

std::optional<Operand> Symbols::in_family(const Family& f, std::string_view digits) {
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  const auto n = static_cast<std::uint32_t>(std::strtoul(std::string(digits).c_str(), nullptr, 10));
  if (n >= f.count) return std::nullopt;
  if (f.type == Type::pred) return Operand{f.first + n, 0, 0};
  const int bytes = std::max(2, bytes_of(f.type));
  return Operand{f.first + n * static_cast<std::uint32_t>(32 * bytes), 0, static_cast<std::uint8_t>(bytes)};
}

/// A special register gets its place when it is first used.
std::optional<Operand> Symbols::find_special(std::string_view name) {
  for (std::size_t n = 0; n < std::size(special_names); ++n) {
    if (special_names[n] != name) continue;
    const auto which = static_cast<Special>(n);
    for (const SpecialRegister& s : kernel_.specials) {
      if (s.which == which) return s.at;
    }
    kernel_.specials.push_back({which, allocate(Type::u32)});
    return kernel_.specials.back().at;
  }
  return std::nullopt;
}

std::optional<Operand> Symbols::find_register(std::string_view name) {
  const std::size_t stem = name.find_last_not_of("0123456789") + 1;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto one = scope->names.find(name);
    if (one != scope->names.end()) return one->second;
    const auto family = scope->families.find(name.substr(0, stem));
    if (family != scope->families.end()) {
      if (auto o = in_family(family->second, name.substr(stem))) return o;
    }
  }
  return find_special(name);
}

std::optional<std::uint64_t> Symbols::variable(std::string_view name) {
  if (const auto it = shared_.find(name); it != shared_.end()) return it->second;
  if (const auto it = local_.find(name); it != local_.end()) return it->second;
  if (const auto it = module_.variables.find(name); it != module_.variables.end()) {
    return reinterpret_cast<std::uint64_t>(it->second.bytes.get());
  }
  return std::nullopt;
}

Operand Symbols::constant(std::uint64_t value, int bytes) {
  const auto [it, added] = constants_.try_emplace({value, bytes});
  if (added) {
    it->second = {static_cast<std::uint32_t>(kernel_.constants.size() * 256), 1, static_cast<std::uint8_t>(bytes)};
    kernel_.constants.push_back(value);
  }
  return it->second;
}

Operand Symbols::scratch(int bytes) {
  const auto [it, added] = scratch_.try_emplace(bytes);
  if (added) {
    it->second = allocate(bytes == 0 ? Type::pred : bytes == 8 ? Type::b64 : bytes == 4 ? Type::b32 : Type::b16);
  }
  return it->second;
}

std::optional<std::int64_t> Symbols::parameter(std::string_view name) const {
  for (const Parameter& p : kernel_.parameters) {
    if (p.name == name) return p.offset;
  }
  return std::nullopt;
}

Operand Symbols::operand(std::string_view text, int bytes) {
  if (text == "_") return scratch(bytes);
  if (const auto r = find_register(text)) return *r;
  if (const auto v = literal(text)) return constant(*v, bytes);
  if (dynamic_.contains(text)) {
    // An own entry: its value is known at the end only.
    Operand o{static_cast<std::uint32_t>(kernel_.constants.size() * 256), 1, static_cast<std::uint8_t>(bytes)};
    kernel_.constants.push_back(0);
    dynamic_uses_.push_back(o);
    return o;
  }
  if (const auto v = variable(text)) return constant(*v, bytes);
  if (const auto p = parameter(text)) return constant(static_cast<std::uint64_t>(*p), bytes);
  throw ParseError("unknown name " + std::string(text));
}

void Symbols::finish() {
  for (const Operand& o : dynamic_uses_) kernel_.constants[o.at / 256] = (kernel_.shared_bytes + 15) / 16 * 16;
  kernel_.constant_lanes.resize(kernel_.constants.size() * 256);
  const auto spread = [&](const Operand& o) {
    const std::uint64_t value = kernel_.constants[o.at / 256];
    for (std::size_t lane = 0; lane < 32; ++lane) {
      std::memcpy(kernel_.constant_lanes.data() + o.at + lane * o.bytes, &value, o.bytes);
    }
  };
  for (const auto& [key, o] : constants_) spread(o);
  for (const Operand& o : dynamic_uses_) spread(o);
}

}  // namespace ptxsim
