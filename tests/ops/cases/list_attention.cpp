// paged_attention: head shapes, cache formats, windows, caps, sinks, mixed batches, long contexts.
#include <cmath>

#include "case_builder.h"
#include "limits.h"

namespace llminfer::op_cases {
namespace {

enum class Pattern {
  mixed,         ///< three sequences: chunks of prompts and single tokens together
  medium,        ///< over 128 keys: two blocks of softmax
  whole,         ///< each sequence in one piece
  long_context,  ///< over 1,024 keys: two ranges that are merged
};

struct Shape {
  std::int32_t heads = 4;
  std::int32_t kv_heads = 1;
  std::int32_t k_width = 64;
  std::int32_t v_width = 64;
  std::int32_t window = 0;
  float cap = 0;
  bool sinks = false;
  backend::AttentionMode mode = backend::AttentionMode::causal;
  backend::KvFormat kv{KvType::f16, KvType::f16};
  Pattern pattern = Pattern::mixed;
  double size = 1;  ///< of queries: large ones make softmax pick single keys
};

void add_steps(CaseBuilder& b, Pattern pattern) {
  switch (pattern) {
    case Pattern::mixed:
      b.step({{0, 0, 40}, {1, 0, 7}});
      b.step({{1, 7, 26}, {2, 0, 33}, {0, 40, 1}});
      b.step({{0, 41, 1}, {1, 33, 1}, {2, 33, 1}});
      b.step({{2, 34, 3}, {0, 42, 1}}).output_rows = {2, 3};
      break;
    case Pattern::medium:
      b.step({{0, 0, 127}, {1, 0, 1}});
      b.step({{0, 127, 1}, {1, 1, 140}});
      b.step({{0, 128, 1}, {1, 141, 1}});
      b.step({{0, 129, 20}, {1, 142, 1}});
      break;
    case Pattern::whole:
      b.step({{0, 0, 40}, {1, 0, 7}, {2, 0, 1}});
      break;
    case Pattern::long_context:
      for (std::int32_t start = 0; start < 1000; start += 250) b.step(250, start).output_rows = {249};
      b.step({{0, 1000, 70}, {1, 0, 9}});
      b.step({{1, 9, 1}, {0, 1070, 1}});
      break;
  }
}

OpCase attention(const std::string& name, const Shape& s) {
  CaseBuilder b(name);
  const std::int32_t q = s.heads * s.k_width;
  const std::int32_t k = s.kv_heads * s.k_width;
  const std::int32_t v = s.kv_heads * s.v_width;
  const ValueId in = b.input(q + k + v, 257);
  const backend::StateSlot slot = b.state(s.window, s.kv_heads, s.k_width, s.v_width);
  b.push(backend::KvWrite{b.slice(in, q, k), b.slice(in, q + k, v), slot});
  backend::PagedAttention op;
  op.q = b.slice(in, 0, q);
  op.slot = slot;
  op.heads = s.heads;
  op.scale = static_cast<float>(s.size / std::sqrt(s.k_width));
  op.cap = s.cap;
  op.mode = s.mode;
  if (s.sinks) op.sinks = b.vector(s.heads, 1.0, 2.0);
  const ValueId out = b.add(op, in, s.heads * s.v_width);
  add_steps(b, s.pattern);
  b.kv = s.kv;
  return b.finish(out, limits::attention(s.kv));
}

void add(CaseList& list, const std::string& name, const Shape& shape, bool slow = false) {
  list.push_back({"paged_attention/" + name, slow, [=](const std::string& n) { return attention(n, shape); }});
}

void add_head_shapes(CaseList& list) {
  for (const std::int32_t width : {8, 64, 80, 96, 128, 256}) {
    for (const std::int32_t group : {1, 3, 4, 8}) {
      Shape s;
      s.kv_heads = 2;
      s.heads = 2 * group;
      s.k_width = s.v_width = width;
      add(list, "head " + std::to_string(width) + " gqa " + std::to_string(group), s);
    }
  }
  struct Widths {
    std::int32_t k, v;
  };
  for (const Widths w : {Widths{1, 1}, {5, 3}, {96, 64}, {64, 128}, {192, 128}}) {
    Shape s;
    s.k_width = w.k;
    s.v_width = w.v;
    add(list, "k " + std::to_string(w.k) + " v " + std::to_string(w.v), s);
  }
}

void add_formats(CaseList& list) {
  constexpr KvType types[] = {KvType::f32, KvType::f16, KvType::bf16, KvType::q8_0, KvType::q4_0};
  for (const KvType k : types) {
    for (const KvType v : types) {
      for (const std::int32_t width : {64, 80}) {
        Shape s;
        s.heads = 6;
        s.kv_heads = 2;
        s.k_width = s.v_width = width;
        s.kv = {k, v};
        const std::string name = std::string(to_string(k)) + " " + to_string(v) + " head " + std::to_string(width);
        add(list, name, s);
        if (k == v && width == 64) {
          s.pattern = Pattern::medium;
          add(list, name + " over 128 keys", s);
        }
      }
    }
  }
}

void add_rules(CaseList& list) {
  for (const Pattern pattern : {Pattern::mixed, Pattern::medium}) {
    const std::string suffix = pattern == Pattern::medium ? " over 128 keys" : "";
    for (const std::int32_t window : {1, 5, 32, 100}) {
      Shape s;
      s.pattern = pattern;
      s.window = window;
      add(list, "window " + std::to_string(window) + suffix, s);
      s.sinks = true;
      s.kv = {KvType::f32, KvType::f32};
      add(list, "window " + std::to_string(window) + " sinks f32" + suffix, s);
    }
    Shape s;
    s.pattern = pattern;
    s.cap = 2;
    add(list, "cap" + suffix, s);
    s.sinks = true;
    add(list, "cap sinks" + suffix, s);
    s.cap = 0;
    add(list, "sinks" + suffix, s);
    s.sinks = false;
    s.size = 40;
    s.kv = {KvType::f32, KvType::f32};
    add(list, "sharp" + suffix, s);
    s.cap = 30;
    add(list, "sharp cap" + suffix, s);
  }
  Shape s;
  s.pattern = Pattern::whole;
  s.mode = backend::AttentionMode::full;
  add(list, "full", s);
  s.sinks = true;
  add(list, "full sinks", s);
}

void add_long(CaseList& list) {
  Shape s;
  s.pattern = Pattern::long_context;
  s.heads = 2;
  s.k_width = s.v_width = 32;
  add(list, "over 1024 keys", s);
  s.window = 600;
  s.sinks = true;
  s.kv = {KvType::f32, KvType::f32};
  add(list, "over 1024 keys window sinks f32", s);
  s = {};
  s.pattern = Pattern::long_context;
  s.heads = 9;
  s.kv_heads = 3;
  for (const KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::q8_0, KvType::q4_0}) {
    s.kv = {type, type};
    add(list, "over 1024 keys gqa 3 " + std::string(to_string(type)), s, true);
  }
  s.window = 512;
  s.k_width = s.v_width = 256;
  add(list, "over 1024 keys gqa 3 window 512 head 256", s, true);
}

}  // namespace

void add_attention_cases(CaseList& list) {
  add_head_shapes(list);
  add_formats(list);
  add_rules(list);
  add_long(list);
}

}  // namespace llminfer::op_cases
