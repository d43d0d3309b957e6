// Bars of time and of memory: parts of a whole side by side, with a list below that names all of them.
#include <fmt/format.h>

#include <algorithm>

#include "profile/pictures.h"
#include "profile/svg.h"

namespace llminfer::profile {
namespace {

constexpr int width = 860;
constexpr double left = 20, right = 840, bar_height = 40;
constexpr double legend_row = 22;
constexpr int legend_columns = 4;

struct Slice {
  std::string name{};
  double amount = 0;
  std::string label{};  // of the amount
  std::size_t fill = 0;
};

void bar(Svg& svg, double y, const std::vector<Slice>& slices) {
  double all = 0;
  for (const Slice& s : slices) all += s.amount;
  if (all <= 0) return;
  double x = left;
  for (const Slice& s : slices) {
    const double w = (right - left) * s.amount / all;
    svg.rect(x, y, w, bar_height, svg.fill(s.fill));
    const double needed = 6.6 * static_cast<double>(std::max(s.name.size(), s.label.size())) + 8;
    if (w > needed) {
      svg.rect(x + (w - needed) / 2, y + 4, needed, bar_height - 8, "fill=\"#fff\"");
      svg.text(x + w / 2, y + 17, s.name, Anchor::middle, "font-size=\"12\"");
      svg.text(x + w / 2, y + 32, s.label, Anchor::middle, "font-size=\"12\"");
    }
    x += w;
  }
}

double legend_height(std::size_t slices) {
  const std::size_t rows = (slices + legend_columns - 1) / legend_columns;
  return legend_row * static_cast<double>(rows);
}

void legend(Svg& svg, double y, const std::vector<Slice>& slices) {
  constexpr double column = (right - left) / legend_columns;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const double x = left + column * static_cast<double>(i % legend_columns);
    const std::size_t rows_before = i / legend_columns;
    const double row = y + legend_row * static_cast<double>(rows_before);
    svg.rect(x, row, 14, 14, svg.fill(slices[i].fill));
    svg.text(x + 20, row + 12, fmt::format("{} {}", slices[i].name, slices[i].label), Anchor::start,
             "font-size=\"12\"");
  }
}

/// The same name has the same fill in all phases.
class FillOf {
 public:
  std::size_t operator()(const std::string& name) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at != names_.end()) return static_cast<std::size_t>(at - names_.begin());
    names_.push_back(name);
    return names_.size() - 1;
  }

 private:
  std::vector<std::string> names_;
};

std::vector<Slice> slices_of(const PhaseReport& phase, FillOf& fill_of) {
  std::vector<Slice> out;
  const auto add = [&](const std::string& name, double seconds) {
    const double share = phase.seconds > 0 ? seconds / phase.seconds : 0;
    if (share >= 0.002) out.push_back({name, seconds, fmt::format("{:.1f} %", 100 * share), fill_of(name)});
  };
  for (const OpSummary& op : phase.by_op) add(op.name, op.seconds);
  add("barriers", phase.barrier_seconds);
  add("dispatch", phase.dispatch_seconds);
  add("sampling", phase.sampling_seconds);
  add("scheduling", phase.scheduling_seconds);
  add("application", phase.outside_seconds);
  return out;
}

}  // namespace

std::string time_picture(const ProfileReport& report) {
  FillOf fill_of;
  std::vector<std::vector<Slice>> rows;
  double height = 16;
  for (const PhaseReport& phase : report.phases) {
    rows.push_back(slices_of(phase, fill_of));
    height += 24 + bar_height + 10 + legend_height(rows.back().size()) + 16;
  }
  Svg svg("time", width, static_cast<int>(std::max(height, 60.0)), "Time by phase and kind of op");
  double y = 16;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PhaseReport& phase = report.phases[i];
    svg.text(left, y + 14,
             fmt::format("{}: {:.3f} s, {:.1f} tokens/s, bound by {}", to_string(phase.kind), phase.seconds,
                         phase.tokens_per_s(), to_string(phase.bound)),
             Anchor::start, "font-weight=\"600\"");
    y += 24;
    bar(svg, y, rows[i]);
    y += bar_height + 10;
    legend(svg, y, rows[i]);
    y += legend_height(rows[i].size()) + 16;
  }
  if (rows.empty()) svg.text(left, 36, "nothing was computed");
  return std::move(svg).take();
}

std::string memory_picture(const ProfileReport& report) {
  std::vector<Slice> slices;
  const auto add = [&](const std::string& name, std::uint64_t bytes) {
    const auto amount = static_cast<double>(bytes);
    if (bytes > 0) slices.push_back({name, amount, bytes_text(amount), slices.size()});
  };
  for (const auto& [type, bytes] : report.memory.weights) add("weights " + std::string(describe(type).name), bytes);
  add("activations", report.memory.activations);
  add("cache used", report.memory.kv_used);
  add("cache free", report.memory.kv_free);
  double all = 0;
  for (const Slice& s : slices) all += s.amount;
  const double height = 16 + 24 + bar_height + 10 + legend_height(slices.size()) + 6;
  Svg svg("memory", width, static_cast<int>(height), "Memory map");
  svg.text(left, 30, fmt::format("{} in all", bytes_text(all)), Anchor::start, "font-weight=\"600\"");
  bar(svg, 40, slices);
  legend(svg, 40 + bar_height + 10, slices);
  return std::move(svg).take();
}

}  // namespace llminfer::profile
