// A report as one page: style and pictures inside, nothing fetched.
#include <fmt/format.h>

#include <llminfer/profile_report.hpp>

#include "profile/pictures.h"
#include "profile/svg.h"

namespace llminfer {
inline namespace v0 {
namespace {

using profile::escaped;

constexpr std::string_view style = R"(
body{font:16px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;color:#222;background:#fff;max-width:900px;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .5rem}p.sub{color:#555;margin:.2rem 0 1.2rem}
.verdict{border:1px solid #bbb;border-left:6px solid #222;border-radius:4px;padding:.7rem 1rem;margin:.7rem 0}
.verdict b{font-size:1.1rem}.note{border:1px dashed #777;padding:.5rem .8rem}
table{border-collapse:collapse;width:100%;font-size:.88rem;margin:.4rem 0 1.2rem}
th{text-align:right;border-bottom:2px solid #222;padding:.25rem .5rem;font-weight:600}
td{text-align:right;border-bottom:1px solid #ddd;padding:.25rem .5rem;font-variant-numeric:tabular-nums}
th:first-child,td:first-child,td.l,th.l{text-align:left}
svg{width:100%;height:auto;display:block}figure{margin:.5rem 0}figcaption{color:#555;font-size:.88rem}
@media print{body{margin:0}h2{break-after:avoid}figure,table{break-inside:avoid}}
)";

void add_verdict(std::string& out, const PhaseReport& phase) {
  out += fmt::format(
      "<div class=\"verdict\"><b>{}: bound by {}</b><br>{}.<br>{} tokens in {} step{} of {:.1f} sequences after {:.0f} "
      "tokens: {:.1f} tokens/s.</div>\n",
      to_string(phase.kind), to_string(phase.bound), escaped(phase.evidence), phase.tokens, phase.steps,
      phase.steps == 1 ? "" : "s", phase.sequences, phase.context, phase.tokens_per_s());
}

void add_table(std::string& out, const PhaseReport& phase, const std::vector<OpSummary>& ops, const char* what) {
  if (ops.empty()) return;
  out += fmt::format(
      "<table><tr><th>{}, {}</th><th>time</th><th>ms</th><th>GB/s</th><th>GFLOP/s</th><th>FLOP/byte</th>"
      "<th>of the roof</th><th>× forecast</th><th class=\"l\">roof</th></tr>\n",
      to_string(phase.kind), what);
  for (const OpSummary& op : ops) {
    const double share = phase.seconds > 0 ? 100 * op.seconds / phase.seconds : 0;
    out += fmt::format(
        "<tr><td>{}</td><td>{:.1f} %</td><td>{:.2f}</td><td>{:.1f}</td><td>{:.1f}</td><td>{:.1f}</td><td>{:.0f} %</td>"
        "<td>{:.2f}</td><td class=\"l\">{}</td></tr>\n",
        escaped(op.name), share, 1e3 * op.seconds, op.bytes_per_s() / 1e9, op.flops_per_s() / 1e9, op.intensity(),
        100 * op.roof_share(), op.times_expected(), op.compute_bound ? "compute" : "memory");
  }
  out += "</table>\n";
}

void add_advice(std::string& out, const std::vector<Advice>& advice) {
  if (advice.empty()) {
    out += "<p>No move of the list is forecast to gain 5 % or more.</p>\n";
    return;
  }
  out += "<table><tr><th>move</th><th>gain</th><th class=\"l\">phase</th><th class=\"l\">because</th></tr>\n";
  for (const Advice& a : advice) {
    out += fmt::format("<tr><td>{}</td><td>{:.2f}&nbsp;×</td><td class=\"l\">{}</td><td class=\"l\">{}</td></tr>\n",
                       escaped(a.move), a.gain, to_string(a.phase), escaped(a.why));
  }
  out += "</table>\n";
}

void add_figure(std::string& out, const std::string& picture, std::string_view caption) {
  out += fmt::format("<figure>\n{}<figcaption>{}</figcaption></figure>\n", picture, caption);
}

}  // namespace

std::string ProfileReport::svg(std::string_view picture) const {
  if (picture == "roofline") return profile::roofline_picture(*this);
  if (picture == "time") return profile::time_picture(*this);
  if (picture == "memory") return profile::memory_picture(*this);
  if (picture == "batch") return profile::batch_picture(*this);
  return {};
}

std::string ProfileReport::html() const {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{} on {}</title><style>{}</style></head><body>\n",
      escaped(model), escaped(device), style);
  out += fmt::format(
      "<h1>{}</h1>\n<p class=\"sub\">{}. Roofs: memory {:.1f} GB/s, last cache {:.0f} GB/s, 8-bit products {:.0f} "
      "GOP/s, "
      "f32 {:.0f} GFLOP/s. Wall time {:.3f} s, idle {:.1f} %.</p>\n",
      escaped(model), escaped(device), memory_rate / 1e9, cache_rate / 1e9, int8_rate / 1e9, f32_rate / 1e9, time.wall,
      time.wall > 0 ? 100 * time.idle / time.wall : 0);
  if (!warning.empty()) out += fmt::format("<p class=\"note\">Note: {}.</p>\n", escaped(warning));
  for (const PhaseReport& phase : phases) add_verdict(out, phase);
  out += "<h2>What would help</h2>\n";
  add_advice(out, advice);
  out += "<h2>Roofline</h2>\n";
  add_figure(
      out, svg("roofline"),
      "Below the slope an op waits for bytes, below the flat line for multiply-adds. Activations live in caches, so "
      "that small ops may stand above the slope of main memory.");
  out += "<h2>Where the time went</h2>\n";
  add_figure(out, svg("time"), "Ops at work; barriers are threads that wait for each other.");
  out += "<h2>Throughput over batch size, as forecast</h2>\n";
  add_figure(out, svg("batch"), "Decoding at the recorded depth.");
  out += "<h2>Memory</h2>\n";
  add_figure(out, svg("memory"), "Weights as stored; the cache as of the last step.");
  out += "<h2>Figures</h2>\n";
  for (const PhaseReport& phase : phases) {
    add_table(out, phase, phase.by_op, "by op");
    add_table(out, phase, phase.by_type, "by weight type");
  }
  out += "</body></html>\n";
  return out;
}

}  // namespace v0
}  // namespace llminfer
