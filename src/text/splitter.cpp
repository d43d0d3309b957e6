#include "text/splitter.h"

#include "core/fail.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace llminfer::text {
namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const noexcept { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* data) const noexcept { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const noexcept { pcre2_match_context_free(context); }
};

enum class PassKind { pattern, threes, thousands };

// PCRE2's own \s has U+180E, which is not White_Space.
constexpr std::string_view white_space =
    R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// Writes out \s and \S; inside brackets only \s occurs.
std::string with_white_space(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next != 's' && next != 'S') {
        out += c;
        out += next;
      } else if (in_class) {
        out += white_space;
      } else {
        out += next == 's' ? "[" : "[^";
        out += white_space;
        out += ']';
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::unique_ptr<pcre2_code, FreeCode> compile(std::string_view pattern) {
  const std::string text = with_white_space(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  std::unique_ptr<pcre2_code, FreeCode> code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                                           PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &at,
                                                           nullptr));
  if (!code) {
    core::fail(ErrorCode::unsupported_type, "pre-tokenizer pattern \"{}\": PCRE2 error {} at {}", pattern, error, at);
  }
  return code;
}

}  // namespace

struct Splitter::Pass {
  PassKind kind = PassKind::pattern;
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool jit = false;
};

struct Splitter::Scratch::Body {
  std::unique_ptr<pcre2_match_data, FreeMatch> match;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
  std::string repaired;
  std::vector<std::size_t> origin;  // of each byte of repaired, and of its end
};

Splitter::Scratch::Scratch(const Splitter&) : body_(std::make_unique<Body>()) {
  body_->match.reset(pcre2_match_data_create(1, nullptr));
  body_->context.reset(pcre2_match_context_create(nullptr));
  if (!body_->match || !body_->context) throw std::bad_alloc();
  // The patterns are ours and need linear time; a limit on steps would only refuse long texts.
  pcre2_set_match_limit(body_->context.get(), 0xFFFFFFFFu);
}

Splitter::Scratch::~Scratch() = default;

Splitter::Splitter(std::span<const std::string_view> passes, bool jit) {
  for (const std::string_view pattern : passes) {
    Pass pass;
    if (pattern == digits_in_threes_from_the_right) {
      pass.kind = PassKind::threes;
      pass.code = compile(R"(\p{N}+)");
    } else if (pattern == ascii_thousands_boundaries) {
      pass.kind = PassKind::thousands;
      pass.code = compile("[0-9]+");
    } else {
      pass.code = compile(pattern);
    }
    pass.jit = jit && pcre2_jit_compile(pass.code.get(), PCRE2_JIT_COMPLETE) == 0;
    passes_.push_back(std::move(pass));
  }
}

Splitter::~Splitter() = default;

void Splitter::split(std::string_view text, Scratch& scratch, std::vector<std::size_t>& ends) const {
  ends.clear();
  if (text.empty()) return;
  ends.push_back(text.size());
  for (const Pass& pass : passes_) run(pass, text, scratch, ends);
}

void Splitter::split_bytes(std::string_view text, Scratch& scratch, std::vector<std::size_t>& ends) const {
  if (utf8_valid(text)) return split(text, scratch, ends);
  std::string& repaired = scratch.body_->repaired;
  std::vector<std::size_t>& origin = scratch.body_->origin;
  repaired.clear();
  origin.clear();
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    repaired.append(step.valid ? text.substr(at, step.length) : replacement_utf8);
    origin.resize(repaired.size(), at);
    at += step.length;
  }
  origin.push_back(text.size());
  split(repaired, scratch, ends);
  for (std::size_t& end : ends) end = origin[end];
}

namespace {

// Cuts [begin, end), a run of digits, so that the pieces after the first have three characters each.
void cut_in_threes(std::string_view text, std::size_t begin, std::size_t end, std::vector<std::size_t>& ends) {
  std::size_t count = 0;
  for (std::size_t i = begin; i < end; ++i) count += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
  std::size_t in_piece = count % 3 == 0 ? 0 : 3 - count % 3;
  for (std::size_t i = begin; i < end; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;
    if (in_piece == 3) {
      ends.push_back(i);
      in_piece = 0;
    }
    ++in_piece;
  }
}

}  // namespace

void Splitter::run(const Pass& pass, std::string_view text, Scratch& scratch, std::vector<std::size_t>& ends) const {
  std::vector<std::size_t>& before = scratch.before_;
  before.swap(ends);
  ends.clear();
  pcre2_match_data* match = scratch.body_->match.get();
  pcre2_match_context* context = scratch.body_->context.get();
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match);
  std::size_t begin = 0;
  for (const std::size_t end : before) {
    const auto* piece = reinterpret_cast<PCRE2_SPTR>(text.data() + begin);
    const std::size_t size = end - begin;
    std::size_t at = 0;
    while (at < size) {
      int result = pass.jit ? pcre2_jit_match(pass.code.get(), piece, size, at, 0, match, context)
                            : pcre2_match(pass.code.get(), piece, size, at, PCRE2_NO_UTF_CHECK, match, context);
      if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
        result = pcre2_match(pass.code.get(), piece, size, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, context);
      }
      if (result == PCRE2_ERROR_NOMATCH) break;
      if (result < 0)
        core::fail(ErrorCode::out_of_memory, "splitting a text of {} bytes: PCRE2 error {}", size, result);
      const std::size_t from = found[0], to = found[1];
      if (pass.kind == PassKind::thousands) {
        const std::size_t first = from + (to - from) % 3;
        for (std::size_t cut = first; cut < to; cut += 3) {
          if (cut > 0) ends.push_back(begin + cut);
        }
      } else {
        if (from > at) ends.push_back(begin + from);
        if (pass.kind == PassKind::threes) cut_in_threes(text, begin + from, begin + to, ends);
        ends.push_back(begin + to);
      }
      at = to;
    }
    if (ends.empty() || ends.back() < end) ends.push_back(end);
    begin = end;
  }
}

}  // namespace llminfer::text
