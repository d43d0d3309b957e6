// A report for people at a terminal, and for programs.
#include <fmt/format.h>

#include <array>
#include <llminfer/ceilings.hpp>
#include <llminfer/profile_report.hpp>

#include "profile/json_writer.h"

namespace llminfer {
inline namespace v0 {
namespace {

using profile::JsonWriter;

double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

void add_ops(std::string& out, const PhaseReport& phase, const std::vector<OpSummary>& ops, const char* what) {
  if (ops.empty()) return;
  out += fmt::format("  {:<16} {:>6} {:>9} {:>9} {:>8} {:>6} {:>11}\n", what, "time", "GB/s", "GFLOP/s", "FLOP/B",
                     "roof", "x forecast");
  for (const OpSummary& op : ops) {
    out += fmt::format("  {:<16} {:>4.1f} % {:>9.1f} {:>9.1f} {:>8.1f} {:>4.0f} % {:>11.2f}  {}\n", op.name,
                       share(op.seconds, phase.seconds), op.bytes_per_s() / 1e9, op.flops_per_s() / 1e9, op.intensity(),
                       100 * op.roof_share(), op.times_expected(), op.compute_bound ? "compute" : "memory");
  }
}

void add_phase(std::string& out, const PhaseReport& phase) {
  out += fmt::format("\n{}: bound by {}\n  {}.\n", to_string(phase.kind), to_string(phase.bound), phase.evidence);
  out +=
      fmt::format("  {} tokens in {} step{} of {:.1f} sequences after {:.0f} tokens: {:.1f} tokens/s\n", phase.tokens,
                  phase.steps, phase.steps == 1 ? "" : "s", phase.sequences, phase.context, phase.tokens_per_s());
  out += fmt::format(
      "  ops {:.1f} %, barriers {:.1f} %, dispatch {:.1f} %, sampling {:.1f} %, scheduling {:.1f} %, "
      "application {:.1f} %\n",
      share(phase.all.seconds, phase.seconds), share(phase.barrier_seconds, phase.seconds),
      share(phase.dispatch_seconds, phase.seconds), share(phase.sampling_seconds, phase.seconds),
      share(phase.scheduling_seconds, phase.seconds), share(phase.outside_seconds, phase.seconds));
  add_ops(out, phase, phase.by_op, "op");
  add_ops(out, phase, phase.by_type, "weights");
}

void write(JsonWriter& json, std::string_view key, const std::vector<OpSummary>& ops) {
  json.begin_array(key);
  for (const OpSummary& op : ops) {
    json.begin_object();
    json.text("name", op.name);
    json.number("seconds", op.seconds);
    json.count("weight_bytes", op.weight_bytes);
    json.count("activation_bytes", op.activation_bytes);
    json.count("kv_bytes", op.kv_bytes);
    json.count("flops", op.flops);
    json.number("gb_s", op.bytes_per_s() / 1e9);
    json.number("gflop_s", op.flops_per_s() / 1e9);
    json.number("intensity", op.intensity());
    json.number("roof_share", op.roof_share());
    json.number("expected_seconds", op.expected_seconds);
    json.text("roof", op.compute_bound ? "compute" : "memory");
    json.end_object();
  }
  json.end_array();
}

void write(JsonWriter& json, const PhaseReport& phase) {
  json.begin_object();
  json.text("phase", to_string(phase.kind));
  json.text("bound", to_string(phase.bound));
  json.text("evidence", phase.evidence);
  json.count("steps", phase.steps);
  json.count("tokens", phase.tokens);
  json.number("sequences", phase.sequences);
  json.number("context", phase.context);
  json.number("tokens_per_s", phase.tokens_per_s());
  json.number("seconds", phase.seconds);
  json.number("step_seconds", phase.step_seconds);
  json.number("ops_seconds", phase.all.seconds);
  json.number("barrier_seconds", phase.barrier_seconds);
  json.number("dispatch_seconds", phase.dispatch_seconds);
  json.number("sampling_seconds", phase.sampling_seconds);
  json.number("scheduling_seconds", phase.scheduling_seconds);
  json.number("outside_seconds", phase.outside_seconds);
  write(json, "by_op", phase.by_op);
  write(json, "by_type", phase.by_type);
  write(json, "by_layer", phase.by_layer);
  json.end_object();
}

}  // namespace

const char* to_string(PhaseKind phase) noexcept {
  static constexpr std::array<const char*, 3> names = {"prefill", "decode", "mixed"};
  const auto i = static_cast<std::size_t>(phase);
  return i < names.size() ? names[i] : "unknown";
}

const char* to_string(Bound bound) noexcept {
  static constexpr std::array<const char*, 7> names = {"memory bandwidth", "compute", "KV reads",     "overhead",
                                                       "waiting",          "threads", "a slow kernel"};
  const auto i = static_cast<std::size_t>(bound);
  return i < names.size() ? names[i] : "unknown";
}

std::string warning(const Ceilings& ceilings) {
  if (!ceilings.busy) return {};
  const ThreadCeilings& all = ceilings.all();
  return fmt::format(
      "the machine was busy while its ceilings were measured: half of the rounds lay {:.0f} % (memory) and {:.0f} % "
      "(arithmetic) or more below the best; shares of the roof are uncertain",
      100 * all.read.spread, 100 * all.f32.spread);
}

std::string ProfileReport::text() const {
  std::string out = fmt::format("{} on {}\n", model, device);
  out += fmt::format(
      "roofs: memory {:.1f} GB/s, last cache {:.1f} GB/s, 8-bit products {:.0f} GOP/s, f32 {:.0f} GFLOP/s\n",
      memory_rate / 1e9, cache_rate / 1e9, int8_rate / 1e9, f32_rate / 1e9);
  if (!warning.empty()) out += fmt::format("note: {}\n", warning);
  out += fmt::format(
      "wall {:.3f} s: ops {:.1f} %, barriers {:.1f} %, dispatch {:.1f} %, sampling {:.1f} %, scheduling "
      "{:.1f} %, application {:.1f} %, idle {:.1f} %\n",
      time.wall, share(time.ops, time.wall), share(time.barriers, time.wall), share(time.dispatch, time.wall),
      share(time.sampling, time.wall), share(time.scheduling, time.wall), share(time.outside, time.wall),
      share(time.idle, time.wall));
  for (const PhaseReport& phase : phases) add_phase(out, phase);
  if (phases.empty()) out += "\nnothing was computed\n";
  if (!advice.empty()) out += "\nwhat would help, as forecast:\n";
  for (const Advice& a : advice) {
    out += fmt::format("  {:>7.2f} x {:<8} {} ({})\n", a.gain, to_string(a.phase), a.move, a.why);
  }
  return out;
}

std::string ProfileReport::json() const {
  JsonWriter json;
  json.begin_object();
  json.text("model", model);
  json.text("device", device);
  json.integer("threads", threads);
  json.text("warning", warning);
  json.begin_object("roofs");
  json.number("memory_gb_s", memory_rate / 1e9);
  json.number("cache_gb_s", cache_rate / 1e9);
  json.number("int8_gop_s", int8_rate / 1e9);
  json.number("f32_gflop_s", f32_rate / 1e9);
  json.end_object();
  json.begin_object("time");
  json.number("wall", time.wall);
  json.number("ops", time.ops);
  json.number("barriers", time.barriers);
  json.number("dispatch", time.dispatch);
  json.number("sampling", time.sampling);
  json.number("scheduling", time.scheduling);
  json.number("outside", time.outside);
  json.number("idle", time.idle);
  json.end_object();
  json.begin_array("phases");
  for (const PhaseReport& phase : phases) write(json, phase);
  json.end_array();
  json.begin_array("advice");
  for (const Advice& a : advice) {
    json.begin_object();
    json.text("phase", to_string(a.phase));
    json.text("move", a.move);
    json.number("gain", a.gain);
    json.text("why", a.why);
    json.end_object();
  }
  json.end_array();
  json.begin_array("batches");
  for (const BatchPoint& p : batches) {
    json.begin_object();
    json.integer("sequences", p.sequences);
    json.number("tokens_per_s", p.tokens_per_s);
    json.end_object();
  }
  json.end_array();
  json.integer("knee", knee);
  json.begin_object("memory");
  json.begin_object("weights");
  for (const auto& [type, bytes] : memory.weights) json.count(describe(type).name, bytes);
  json.end_object();
  json.count("activations", memory.activations);
  json.count("kv_used", memory.kv_used);
  json.count("kv_free", memory.kv_free);
  json.end_object();
  json.end_object();
  return std::move(json).take();
}

}  // namespace v0
}  // namespace llminfer
