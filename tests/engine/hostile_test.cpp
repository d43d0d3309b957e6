// Never a different word: random arrivals, cancellations, a tiny pool and tiny steps, against each request alone.
#include <random>

#include "api/batcher_body.h"
#include "batcher_fixture.h"
#include "catch.h"

using namespace llminfer;
using tests::Alone;
using tests::some_tokens;

namespace {

struct Hostility {
  int requests = 0;
  int pages = 0;
  int longest_prompt = 0;
  int longest_answer = 0;
  int step_tokens = 16;
  int swap_pages = 0;
};

struct Request {
  std::vector<Token> prompt;
  GenerateOptions options;
  std::optional<Generator> generator;
  std::vector<Token> got;
  int cancel_after = -1;
};

/// One client that submits in bursts, reads at random and cancels some; what it gets must be what each request gives
/// alone, and so must the logits after the last token.
class Client {
 public:
  Client(const Model& model, const Hostility& hostility)
      : model_(model), hostility_(hostility), all_(static_cast<std::size_t>(hostility.requests)) {
    BatcherOptions options = tests::small(model, hostility.pages);
    options.step_tokens = hostility.step_tokens;
    options.swap_bytes = tests::kv_bytes(model, hostility.swap_pages);
    batcher_.emplace(std::make_shared<Batcher::Body>(model, options, std::make_shared<const runtime::SteadyClock>(),
                                                     hostility.swap_pages > 0));
    common_ = some_tokens(hostility.longest_prompt, model.info().vocabulary, 99);
  }

  void run() {
    std::size_t done = 0;
    while (done < all_.size()) {
      for (int burst = upto(4); burst > 0 && submitted_ < all_.size(); --burst) submit(all_[submitted_++]);
      for (std::size_t i = 0; i < submitted_; ++i) {
        if (!all_[i].generator || upto(3) != 0 || !read(all_[i])) continue;
        check_end(all_[i]);
        ++done;
      }
    }
    if (hostility_.requests >= 60) CHECK(batcher_->stats().preemptions > 0);  // few may miss each other
    CHECK(batcher_->stats().failed == 0);
    if (hostility_.swap_pages > 0) CHECK(batcher_->stats().swapped_in > 0);
    CHECK(batcher_->stats().swapped_out >= batcher_->stats().swapped_in);
    REQUIRE(tests::all_pages_back(*batcher_));
  }

 private:
  int upto(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void submit(Request& r) {
    const auto seed = static_cast<std::uint32_t>(random_());
    r.prompt = some_tokens(1 + upto(hostility_.longest_prompt), model_.info().vocabulary, seed);
    // Half of them begin alike, so that pages can be found again.
    if (upto(2) == 0) std::copy_n(common_.begin(), r.prompt.size() - r.prompt.size() / 4, r.prompt.begin());
    r.options = tests::random_options(1 + upto(hostility_.longest_answer), random_());
    r.options.priority = upto(3);
    r.options.weight = 1 + upto(2);
    r.options.caller = static_cast<std::uint64_t>(upto(3));
    if (upto(4) == 0) r.cancel_after = upto(10);
    r.generator = batcher_->submit(tests::ready_session(*batcher_, r.prompt), r.options).value();
  }

  /// One piece; true at the end.
  bool read(Request& r) {
    if (static_cast<int>(r.got.size()) == r.cancel_after) return true;
    const Piece* piece = r.generator->next().value();
    if (piece != nullptr) r.got.push_back(piece->token);
    return piece == nullptr;
  }

  void check_end(Request& r) {
    const Alone expected = tests::alone(model_, r.prompt, r.options);
    Session session = std::move(*r.generator).release().value();
    r.generator.reset();
    std::vector<Token> wanted = expected.history;
    if (r.cancel_after >= 0 && static_cast<std::size_t>(r.cancel_after) < wanted.size() - r.prompt.size()) {
      wanted.resize(r.prompt.size() + r.got.size());
    } else {
      const Result<void> computed = session.prefill();
      if (computed) REQUIRE(std::equal(expected.logits.begin(), expected.logits.end(), session.logits().begin()));
      if (!computed) REQUIRE(computed.error().code == ErrorCode::out_of_pages);  // the others have them
    }
    REQUIRE(tests::history(session) == wanted);
    std::vector<Token> whole = r.prompt;
    whole.insert(whole.end(), r.got.begin(), r.got.end());
    REQUIRE(whole == wanted);
  }

  const Model& model_;
  const Hostility hostility_;
  std::optional<Batcher> batcher_;
  std::mt19937 random_{11};
  std::vector<Token> common_;
  std::vector<Request> all_;
  std::size_t submitted_ = 0;
};

/// A model of the cache; none where it is not there.
std::optional<Model> real_model(const char* name) {
  const char* folder = std::getenv("LLMINFER_MODELS");
  if (folder == nullptr || LLMINFER_TESTS_TINY != 0) return {};
  const std::filesystem::path file = std::filesystem::path(folder) / name;
  if (!std::filesystem::exists(file)) return {};
  LoadOptions options;
  options.devices = {tests::cpu(2)};
  options.context = 256;
  options.max_step_tokens = 64;
  options.max_sequences = 8;
  return Model::open(ModelSource::file(file), options).value();
}

void run_real(const char* name, const Hostility& hostility) {
  const std::optional<Model> model = real_model(name);
  if (!model) {
    WARN(name << " is not in the model cache");
    return;
  }
  Client(*model, hostility).run();
}

}  // namespace

TEST_CASE("a hostile schedule changes no token and no logit") {
  Client(tests::open_tiny(), {150, 12, 100, 40, 16}).run();
  Client(tests::open_tiny(), {60, 5, 60, 60, 3}).run();
  run_real("smollm2-135m-q4_1.gguf", {10, 4, 40, 30, 16});
}

TEST_CASE("nor does it where pages are swapped") {
  Client(tests::open_tiny(), {150, 12, 100, 40, 16, 20}).run();
  Client(tests::open_tiny(), {60, 5, 60, 60, 3, 3}).run();
}

TEST_CASE("64 sequences of each of three real models through a hostile schedule", "[.long]") {
  run_real("smollm2-135m-q4_1.gguf", {64, 8, 100, 40, 16});
  run_real("qwen2.5-0.5b-q4_k_m.gguf", {64, 7, 60, 24, 12});
  run_real("gemma3-270m-q4_k_m.gguf", {64, 7, 60, 24, 12, 10});
}
