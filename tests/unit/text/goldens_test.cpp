// Pre-tokenizers that no vocabulary at hand names: ids of the reference (see tests/golden/text/make_pre_tokenizers.py).
#include <nlohmann/json.hpp>
#include <set>

#include "catch.h"
#include "text/pre_tokenizer.h"
#include "vocab_files.h"

namespace llminfer::test {

TEST_CASE("every pre-tokenizer gives the reference's ids") {
  const auto shared = shared_folder();
  if (!shared) return;
  const text::TokenizerSpec gpt2 = read_spec(*shared / "vocab" / "ggml-vocab-gpt-2.gguf");
  const auto goldens = nlohmann::json::parse(read_text(std::string(LLMINFER_TEXT_GOLDENS) + "/pre_tokenizers.json"));
  const auto texts = goldens.at("texts").get<std::vector<std::string>>();
  REQUIRE(texts.size() >= 40);
  std::set<std::string> seen;
  for (const auto& golden : goldens.at("goldens")) {
    const auto names = golden.at("names").get<std::vector<std::string>>();
    const auto ids = golden.at("ids").get<std::vector<std::vector<Token>>>();
    REQUIRE(ids.size() == texts.size());
    std::set<const text::PreRules*> built;  // names of the same rules need no second look
    for (const std::string& name : names) {
      INFO(name);
      seen.insert(name);
      REQUIRE(text::find_pre_rules(name));
      if (!built.insert(text::find_pre_rules(name)).second) continue;
      text::TokenizerSpec spec = gpt2;
      spec.pre = name;
      const text::Tokenizer tokenizer(std::move(spec));
      for (std::size_t i = 0; i < texts.size(); ++i) {
        INFO(texts[i]);
        CHECK(tokenizer.encode(texts[i], bare) == ids[i]);
      }
    }
  }
  CHECK(seen.size() == 30);
}

}  // namespace llminfer::test
