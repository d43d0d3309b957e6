#include <algorithm>
#include <cstring>
#include <limits>
#include <llminfer/session.hpp>
#include <stdexcept>
#include <thread>

#include "catch.h"
#include "engine_fixture.h"

using namespace llminfer;
using tests::some_tokens;
using tests::tiny_model;

namespace {

Session open_with(const Model& model, int tokens, SessionOptions options = {}) {
  Session s = Session::open(model, options).value();
  s.append(some_tokens(tokens, model.info().vocabulary)).value();
  return s;
}

std::vector<Token> pieces_of(Session& session, GenerateOptions options) {
  std::vector<Token> out;
  for (const Piece& piece : session.generate(std::move(options)).value()) out.push_back(piece.token);
  return out;
}

GenerateOptions forever(int max_tokens) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.ignore_end_of_text = true;
  return options;
}

}  // namespace

TEST_CASE("append refuses what does not fit and changes nothing") {
  const Model model = tiny_model(tests::cpu());
  SessionOptions options;
  options.context = 40;
  Session s = open_with(model, 30, options);
  const Result<void> overflow = s.append(some_tokens(11, 16));
  REQUIRE_FALSE(overflow);
  CHECK(overflow.error().code == ErrorCode::context_overflow);
  CHECK(overflow.error().needed == 41);
  CHECK(overflow.error().available == 40);
  for (const Token bad : {-1, 16, 2147483647}) {
    const Result<void> outside = s.append(std::vector<Token>{1, bad});
    REQUIRE_FALSE(outside);
    CHECK(outside.error().code == ErrorCode::invalid_argument);
    CHECK(outside.error().message.find(std::to_string(bad)) != std::string::npos);
  }
  CHECK(s.tokens().size() == 30);
  CHECK(s.append({}));
  CHECK(s.prefill());
  CHECK(s.logits().size() == 16);
}

TEST_CASE("options out of range are errors that name the field") {
  const auto refused = [](LoadOptions options, const char* field) {
    const Result<Model> model = Model::open(ModelSource::memory(tests::tiny_bytes()), options);
    REQUIRE_FALSE(model);
    CHECK(model.error().code == ErrorCode::invalid_argument);
    CHECK(model.error().message.find(field) != std::string::npos);
    CHECK(std::string(model.error().where) == "Model::open");
  };
  LoadOptions o;
  o.context = -1, refused(o, "context"), o = {};
  o.context = 1 << 30, refused(o, "context"), o = {};
  o.max_step_tokens = 0, refused(o, "max_step_tokens"), o = {};
  o.max_step_tokens = -5, refused(o, "max_step_tokens"), o = {};
  o.max_sequences = 0, refused(o, "max_sequences"), o = {};
  o.max_sequences = 1 << 30, refused(o, "max_sequences"), o = {};
  o.weight_type = WeightType::q4_k, refused(o, "weight_type"), o = {};
  o.k = static_cast<KvType>(77), refused(o, "k is"), o = {};
  for (const int threads : {-1, 100000}) {
    const Result<Device> device = Device::cpu({threads, "auto", true});
    REQUIRE_FALSE(device);
    CHECK(device.error().code == ErrorCode::invalid_argument);
    CHECK(device.error().message.find("threads") != std::string::npos);
  }
  const Result<Device> isa = Device::cpu({1, "avx4096", true});
  REQUIRE_FALSE(isa);
  CHECK(isa.error().message.find("avx4096") != std::string::npos);
  CHECK_FALSE(Device::wrap(nullptr));

  const Model model = tiny_model(tests::cpu());
  for (const int context : {-1, 129, 1 << 30}) {
    SessionOptions session;
    session.context = context;
    const Result<Session> opened = Session::open(model, session);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().message.find("context") != std::string::npos);
  }
  SessionOptions starved;
  starved.kv_bytes = 1;
  CHECK_FALSE(Session::open(model, starved));

  Session s = open_with(model, 4);
  const auto bad = [&](GenerateOptions options, const char* field) {
    const Result<Generator> g = s.generate(std::move(options));
    REQUIRE_FALSE(g);
    CHECK(g.error().code == ErrorCode::invalid_argument);
    CHECK(g.error().message.find(field) != std::string::npos);
  };
  GenerateOptions g;
  g.max_tokens = -2, bad(g, "max_tokens"), g = {};
  g.top_logprobs = 100000, bad(g, "top_logprobs"), g = {};
  g.stop = {""}, bad(g, "stop"), g = {};
  g.stop.assign(65, "x"), bad(g, "stop"), g = {};
  g.stop_tokens = {16}, bad(g, "stop_tokens"), g = {};
  g.deadlines.whole = std::chrono::nanoseconds(-1), bad(g, "deadlines"), g = {};
  g.sampling.temperature = -1.0F, bad(g, "temperature"), g = {};
  Session empty = Session::open(model).value();
  CHECK_FALSE(empty.generate());
}

TEST_CASE("score hands out the rows that stepping gives") {
  for (const Device& device : {tests::cpu(), Device::reference().value()}) {
    LoadOptions load;
    load.max_sequences = 5;  // rows come in chunks of 5
    const Model model = tiny_model(device, load);
    const std::vector<Token> tokens = some_tokens(23, 16);
    Session stepped = Session::open(model).value();
    Session scored = Session::open(model).value();
    std::vector<std::vector<float>> rows;
    scored
        .score(tokens,
               [&](int position, std::span<const float> row) {
                 CHECK(position == static_cast<int>(rows.size()));
                 rows.emplace_back(row.begin(), row.end());
                 return true;
               })
        .value();
    REQUIRE(rows.size() == tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      stepped.append({&tokens[i], 1}).value();
      stepped.prefill().value();
      const std::vector<float> row(stepped.logits().begin(), stepped.logits().end());
      if (device.info()->kind == "cpu") CHECK(row == rows[i]);  // bit for bit
      for (std::size_t j = 0; j < row.size(); ++j) CHECK(row[j] == Approx(rows[i][j]).margin(1e-4));
    }
    CHECK(std::vector<float>(scored.logits().begin(), scored.logits().end()) == rows.back());
  }
}

TEST_CASE("score stops when told and reports what a callback throws") {
  const Model model = tiny_model(tests::cpu());
  Session s = Session::open(model).value();
  int seen = 0;
  CHECK(s.score(some_tokens(50, 16), [&](int, std::span<const float>) { return ++seen < 3; }));
  CHECK(seen == 3);
  CHECK(s.tokens().size() == 50);
  const Result<void> thrown =
      s.score(some_tokens(5, 16), [](int, std::span<const float>) -> bool { throw std::runtime_error("boom"); });
  REQUIRE_FALSE(thrown);
  CHECK(thrown.error().code == ErrorCode::callback_failed);
  CHECK(thrown.error().message.find("boom") != std::string::npos);
  CHECK(s.prefill());
}

TEST_CASE("a generation is the arg-max of each step and ends at its limit") {
  const Model model = tiny_model(tests::cpu());
  Session s = open_with(model, 5);
  Session by_hand = open_with(model, 5);
  GenerateOptions options;
  options.max_tokens = 12;
  std::vector<Token> expected;
  bool ended = false;
  for (int i = 0; i < 12 && !ended; ++i) {
    by_hand.prefill().value();
    const std::span<const float> logits = by_hand.logits();
    const Token best = static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    expected.push_back(best);
    by_hand.append({&best, 1}).value();
    ended = best == 2;  // </s>
  }
  Generator g = s.generate(options).value();
  std::vector<Token> got;
  for (const Piece& piece : g) got.push_back(piece.token);
  CHECK(got == expected);
  CHECK(g.outcome().finish == (ended ? Finish::end_of_text : Finish::length));
  CHECK(g.outcome().prompt_tokens == 5);
  CHECK(g.outcome().new_tokens == static_cast<int>(expected.size()));
  CHECK(s.tokens().size() == 5 + expected.size());
}

TEST_CASE("greedy tokens are the same whether the device or the host looks for the best logit") {
  const Model model = tiny_model(tests::cpu());
  GenerateOptions options = forever(12);
  for (int bans = 0; bans < 4; ++bans) {
    Session s = open_with(model, 5), other = open_with(model, 5);
    options.logprobs = true;  // the host reads all logits
    const std::vector<Token> expected = pieces_of(s, options);
    options.logprobs = false;
    REQUIRE(expected.size() == 12);
    CHECK(pieces_of(other, options) == expected);
    CHECK(other.logits().empty() == s.logits().empty());
    s.prefill().value();
    other.prefill().value();
    CHECK(std::equal(s.logits().begin(), s.logits().end(), other.logits().begin(), other.logits().end()));
    // The best token of a later step is forbidden the next time.
    options.sampling.banned_tokens.push_back(expected[static_cast<std::size_t>(3 + bans)]);
  }
}

TEST_CASE("tokens and log-probabilities are the same whether the device or the host looks for the k best logits") {
  std::vector<SamplingOptions> chains(5);
  chains[0].top_k = 5;
  chains[1].top_k = 3, chains[1].temperature = 1.7F, chains[1].top_p = 0.8F;
  chains[2].chain = {Temperature{2}, TopK{15}, MinP{0.02F}, Temperature{0.9F}};
  chains[3].chain = {TopK{4}, TypicalP{0.7F}};
  chains[4].chain = {Temperature{0.5F}, Greedy{}};
  for (const Device& device : {tests::cpu(), Device::reference().value()}) {
    const Model model = tiny_model(device);
    for (std::size_t c = 0; c < chains.size(); ++c) {
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        INFO("chain " << c << ", seed " << seed);
        GenerateOptions options = forever(20);
        options.sampling = chains[c];
        options.sampling.seed = seed;
        if (seed % 2 == 1) options.sampling.banned_tokens = {3, 4, 9};
        options.sampling.min_new_tokens = static_cast<int>(seed);
        Session host = open_with(model, 5), top = open_with(model, 5);
        options.logprobs = true;  // the host reads all logits
        Generator expected = host.generate(options).value();
        options.logprobs = false;
        Generator got = top.generate(options).value();
        for (int i = 0; i < 20; ++i) {
          const Piece* const a = expected.next().value();
          const Piece* const b = got.next().value();
          REQUIRE(a != nullptr);
          REQUIRE(b != nullptr);
          REQUIRE(b->token == a->token);
          REQUIRE(b->sampled_logprob == a->sampled_logprob);
          REQUIRE(b->text == a->text);
          REQUIRE(top.logits().empty());  // of the token handed out: not computed yet
        }
        REQUIRE(got.next().value() == nullptr);
      }
    }
  }
}

TEST_CASE("logits that are no numbers are an error whoever looks at them") {
  test::GgufBuilder file = test::tiny_llama();
  const auto table = [&]() -> test::GgufTensor& {
    return *std::find_if(file.tensors.begin(), file.tensors.end(),
                         [](const test::GgufTensor& t) { return t.name == "token_embd.weight"; });
  };
  test::GgufTensor output = table();
  output.name = "output.weight";
  file.tensors.push_back(output);
  const auto run = [&](const GenerateOptions& options, std::vector<Token>& out) {
    LoadOptions load;
    load.devices = {tests::cpu()};
    Session s = Session::open(Model::open(ModelSource::memory(file.build()), load).value()).value();
    s.append(std::vector<Token>{1, 3}).value();
    return s.generate(options).value().run([&](const Piece& piece) {
      out.push_back(piece.token);
      return true;
    });
  };
  std::vector<GenerateOptions> ways(3, forever(12));  // arg-max, k best, all
  ways[1].sampling.top_k = 5;
  ways[1].sampling.temperature = 1e-3F;
  ways[2].logprobs = true;
  std::vector<Token> sound;
  REQUIRE(run(ways[0], sound));
  std::size_t at = 1;  // of a token that was not there before
  const auto before = [&] { return sound.begin() + static_cast<std::ptrdiff_t>(at); };
  while (at < sound.size() && (sound[at] == 3 || std::find(sound.begin(), before(), sound[at]) != before())) ++at;
  REQUIRE(at < sound.size());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(table().data.data() + static_cast<std::size_t>(sound[at]) * 32 * sizeof(float), &nan, sizeof nan);
  for (const GenerateOptions& options : ways) {
    std::vector<Token> got;
    const Result<Outcome> end = run(options, got);
    REQUIRE_FALSE(end);
    CHECK(end.error().code == ErrorCode::invalid_logits);
    CHECK(got == std::vector<Token>(sound.begin(), before() + 1));
  }
}

TEST_CASE("a way back to where the device kept all logits but the best shows none of them") {
  const Model model = tiny_model(tests::cpu());
  Session s = open_with(model, 5);
  s.prefill().value();
  GenerateOptions options = forever(-1);
  options.sampling.banned_tokens = {3};
  options.sampling.top_k = 4;
  {
    Generator g = s.generate(options).value();
    REQUIRE(g.next().value() != nullptr);
    REQUIRE(g.next().value() != nullptr);
  }
  s.rewind(5).value();
  CHECK(s.logits().empty());
  s.prefill().value();
  Session fresh = open_with(model, 5);
  fresh.prefill().value();
  CHECK(std::equal(s.logits().begin(), s.logits().end(), fresh.logits().begin(), fresh.logits().end()));
}

TEST_CASE("ends: length zero, context full, stop token, deadline, cancel, callback") {
  const Model model = tiny_model(tests::cpu());
  SECTION("length zero") {
    Session s = open_with(model, 5);
    Generator g = s.generate(forever(0)).value();
    CHECK(g.next().value() == nullptr);
    CHECK(g.next().value() == nullptr);
    CHECK(g.outcome().finish == Finish::length);
  }
  SECTION("context full") {
    SessionOptions small;
    small.context = 9;
    Session s = open_with(model, 5, small);
    Generator g = s.generate(forever(-1)).value();
    int n = 0;
    while (g.next().value() != nullptr) ++n;
    CHECK(n == 4);
    CHECK(g.outcome().finish == Finish::context_full);
    CHECK(s.tokens().size() == 9);
  }
  SECTION("stop token") {
    Session probe = open_with(model, 5);
    const std::vector<Token> free_run = pieces_of(probe, forever(8));
    Session s = open_with(model, 5);
    GenerateOptions options = forever(8);
    options.stop_tokens = {free_run[2]};
    Generator g = s.generate(options).value();
    std::vector<Token> got;
    for (const Piece& p : g) got.push_back(p.token);
    const auto first = std::find(free_run.begin(), free_run.end(), free_run[2]);
    CHECK(got == std::vector<Token>(free_run.begin(), first + 1));
    CHECK(g.outcome().finish == Finish::stop_token);
  }
  SECTION("deadline") {
    Session s = open_with(model, 5);
    GenerateOptions options = forever(-1);
    options.deadlines.first_token = std::chrono::nanoseconds(1);
    Generator g = s.generate(options).value();
    CHECK(g.next().value() == nullptr);
    CHECK(g.outcome().finish == Finish::deadline);
    CHECK(s.tokens().size() == 5);
  }
  SECTION("cancel from another thread") {
    Session s = open_with(model, 5);
    Generator g = s.generate(forever(-1)).value();
    REQUIRE(g.next().value() != nullptr);
    std::thread([&] { g.cancel(); }).join();
    CHECK(g.next().value() == nullptr);
    CHECK(g.outcome().finish == Finish::cancelled);
    CHECK(s.tokens().size() == 6);
    CHECK(pieces_of(s, forever(3)).size() == 3);
  }
  SECTION("stop request") {
    Session s = open_with(model, 5);
    std::stop_source source;
    source.request_stop();
    const Result<void> prefill = s.prefill(source.get_token());
    REQUIRE_FALSE(prefill);
    CHECK(prefill.error().code == ErrorCode::cancelled);
    CHECK(s.tokens().size() == 5);
    Generator g = s.generate(forever(-1)).value();
    CHECK(g.next(source.get_token()).value() == nullptr);
    CHECK(g.outcome().finish == Finish::cancelled);
    CHECK(s.prefill());
  }
  SECTION("callbacks") {
    Session s = open_with(model, 5);
    int n = 0;
    const Outcome outcome = s.generate(forever(-1)).value().run([&](const Piece&) { return ++n < 4; }).value();
    CHECK(outcome.finish == Finish::cancelled);
    CHECK(outcome.new_tokens == 4);
    CHECK(s.tokens().size() == 9);
    const Result<Outcome> thrown = s.generate(forever(-1)).value().run([](const Piece&) -> bool { throw 7; });
    REQUIRE_FALSE(thrown);
    CHECK(thrown.error().code == ErrorCode::callback_failed);
    CHECK(s.tokens().size() == 10);
    CHECK(pieces_of(s, forever(2)).size() == 2);
  }
}

TEST_CASE("a session is busy until its generator has ended") {
  const Model model = tiny_model(tests::cpu());
  Session s = open_with(model, 5);
  {
    Generator g = s.generate(forever(-1)).value();
    REQUIRE(g.next().value() != nullptr);
    CHECK(s.append(some_tokens(1, 16)).error().code == ErrorCode::invalid_argument);
    CHECK(s.rewind(0).error().code == ErrorCode::invalid_argument);
    CHECK(s.prefill().error().code == ErrorCode::invalid_argument);
    CHECK_FALSE(s.fork());
    CHECK_FALSE(s.generate());
    CHECK(s.tokens().size() == 6);
  }
  CHECK(s.append(some_tokens(1, 16)));
  // A generator outlives its session without harm.
  Generator orphan = [&] {
    Session gone = open_with(model, 3);
    return gone.generate(forever(4)).value();
  }();
  int n = 0;
  while (orphan.next().value() != nullptr) ++n;
  CHECK(n == 4);
}

TEST_CASE("stop strings never show, and what waited comes out at the end") {
  const Model model = tiny_model(tests::cpu());
  Session probe = open_with(model, 5);
  std::string text;
  for (const Piece& p : probe.generate(forever(24)).value()) text += p.text;
  REQUIRE(text.size() > 6);
  const std::string stop = text.substr(text.size() / 2, 3);
  Session s = open_with(model, 5);
  GenerateOptions options = forever(24);
  options.stop = {"not there", stop};
  Generator g = s.generate(options).value();
  std::string got;
  for (const Piece& p : g) got += p.text;
  CHECK(got == text.substr(0, text.find(stop)));
  CHECK(g.outcome().finish == Finish::stop_string);
  CHECK(g.outcome().stop_string == stop);

  Session t = open_with(model, 5);
  options.stop = {text.substr(text.size() - 3) + "never"};  // a prefix of it waits at the end
  std::string all;
  for (const Piece& p : t.generate(options).value()) all += p.text;
  CHECK(all == text);
}

TEST_CASE("banned strings are taken back before anybody sees them") {
  const Model model = tiny_model(tests::cpu());
  Session probe = open_with(model, 5);
  std::string text;
  for (const Piece& p : probe.generate(forever(24)).value()) text += p.text;
  const std::string banned = text.substr(text.size() / 2, 2);
  Session s = open_with(model, 5);
  GenerateOptions options = forever(24);
  options.sampling.banned_strings = {banned};
  Generator g = s.generate(options).value();
  std::string got;
  std::vector<Token> tokens;
  for (const Piece& p : g) {
    got += p.text;
    tokens.push_back(p.token);
  }
  CHECK(got.find(banned) == std::string::npos);
  CHECK(tokens.size() == 24);
  CHECK(std::equal(tokens.begin(), tokens.end(), s.tokens().begin() + 5, s.tokens().end()));
}

TEST_CASE("forks go their own ways, rewind goes back") {
  const Model model = tiny_model(tests::cpu());
  SessionOptions roomy;
  roomy.kv_bytes = 16 * model.info().memory.kv;
  Session a = open_with(model, 37, roomy);
  a.prefill().value();
  Session b = a.fork().value();
  CHECK(std::equal(a.logits().begin(), a.logits().end(), b.logits().begin(), b.logits().end()));
  const std::vector<Token> from_a = pieces_of(a, forever(20));
  const Token other = from_a[0] == 3 ? 4 : 3;
  b.append({&other, 1}).value();
  const std::vector<Token> from_b = pieces_of(b, forever(20));
  // Alone, without any sharing, both give the same.
  Session alone_a = open_with(model, 37);
  CHECK(pieces_of(alone_a, forever(20)) == from_a);
  Session alone_b = open_with(model, 37);
  alone_b.append({&other, 1}).value();
  CHECK(pieces_of(alone_b, forever(20)) == from_b);

  a.rewind(37).value();
  CHECK(a.logits().empty());
  CHECK(pieces_of(a, forever(20)) == from_a);
  a.rewind(0).value();
  CHECK(a.tokens().empty());
  CHECK_FALSE(a.rewind(1));
  CHECK_FALSE(a.rewind(-1));
}

TEST_CASE("seeded draws repeat, other seeds differ") {
  const Model model = tiny_model(tests::cpu());
  const auto run = [&](std::uint64_t seed) {
    Session s = open_with(model, 5);
    GenerateOptions options = forever(40);
    options.sampling.temperature = 1.5F;
    options.sampling.seed = seed;
    return pieces_of(s, options);
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}
