// Windows that give pages back, prefixes that come from the cache, and saved sessions: never another bit.
#include <unistd.h>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "api/model_body.h"
#include "api/session_body.h"
#include "batcher_fixture.h"
#include "catch.h"

using namespace llminfer;
using tests::history;
using tests::last_logits;
using tests::random_options;
using tests::some_tokens;

namespace {

/// The tiny model with a window of 40 tokens in every other layer.
const test::Bytes& windowed_bytes() {
  static const test::Bytes bytes = [] {
    test::GgufBuilder file = test::tiny_llama();
    file.number("llama.context_length", std::uint32_t{2048});
    file.number("llama.attention.sliding_window", std::uint32_t{40});
    file.number("llama.attention.sliding_window_pattern", std::uint32_t{2});
    return file.build();
  }();
  return bytes;
}

Model windowed(int chunk = 64, Device device = tests::cpu(2), KvType kv = KvType::automatic) {
  LoadOptions options;
  options.devices = {std::move(device)};
  options.max_step_tokens = chunk;
  options.max_sequences = 8;
  options.k = options.v = kv;
  return Model::open(ModelSource::memory(windowed_bytes()), options).value();
}

std::vector<float> logits_after(const Model& model, std::span<const Token> tokens) {
  Session s = Session::open(model).value();
  s.append(tokens).value();
  return last_logits(s);
}

std::string saved(const Session& session) {
  std::ostringstream out;
  session.save(out).value();
  return out.str();
}

Result<Session> restored(const Model& model, const std::string& bytes, SessionOptions options = {}) {
  std::istringstream in(bytes);
  return Session::restore(model, in, options);
}

}  // namespace

TEST_CASE("a window's pages come back; chunks, threads and ways back change no bit") {
  const std::vector<Token> tokens = some_tokens(700, 16);
  const Model whole = windowed(1000, tests::cpu(1));
  REQUIRE(whole.body()->graph->states.size() == 2);
  const std::vector<float> expected = logits_after(whole, tokens);
  for (const int chunk : {1, 7, 64}) CHECK(logits_after(windowed(chunk), tokens) == expected);
  const std::vector<float> halves = logits_after(windowed(64, tests::cpu(1), KvType::f16), tokens),
                           reference = logits_after(windowed(64, Device::reference().value(), KvType::f16), tokens);
  for (std::size_t i = 0; i < reference.size(); ++i) CHECK(halves[i] == Approx(reference[i]).margin(5e-3));

  const Model model = windowed();
  Session s = Session::open(model).value();
  s.append(tokens).value();
  s.prefill().value();
  for (const int back : {699, 690, 650, 300, 20, 0}) {
    s.rewind(back).value();
    s.append(some_tokens(30, 16, 9)).value();
    s.prefill().value();
    s.rewind(back).value();
    s.append(std::span(tokens).subspan(static_cast<std::size_t>(back))).value();
    CHECK(last_logits(s) == expected);
  }
}

TEST_CASE("the same bytes serve longer texts in a windowed model") {
  const Model model = windowed(64);
  const MemoryPlan& plan = model.info().memory;
  const std::uint64_t page_of_both = plan.kv_per_token * 32;
  CHECK(plan.kv < 64 * page_of_both * 3 / 5);  // 64 pages of one group, a few of the other
  SessionOptions options;
  options.kv_bytes = static_cast<std::size_t>(40 * page_of_both);  // 1,280 tokens if both kept everything
  Session s = Session::open(model, options).value();
  s.append(some_tokens(2000, 16)).value();
  s.prefill().value();
  CHECK(s.fork());
  CHECK(s.rewind(1990));
  CHECK(s.append(some_tokens(20, 16)));
  CHECK(s.prefill());
}

TEST_CASE("a share of the free memory, taken once") {
  const Model model = tests::open_tiny();
  const std::uint64_t free = Device::cpu().value().info()->free_memory;
  REQUIRE(free > 0);
  SessionOptions options;
  options.kv_share = 1e-4;
  const double wanted = static_cast<double>(free) * options.kv_share;
  const Session s = Session::open(model, options).value();
  const double taken = static_cast<double>(s.body()->pool->total_pages()[0]) * 32 *
                       static_cast<double>(model.info().memory.kv_per_token);
  CHECK(taken == Approx(wanted).epsilon(0.5));  // others take and give memory meanwhile
  BatcherOptions batch = tests::small(model, 1);
  batch.kv_bytes = 0;
  batch.kv_share = 1e-4;
  CHECK(Batcher::start(model, batch).value().stats().pages_total > 0);
  const auto refused = [](auto result, const char* field) {
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::invalid_argument);
    CHECK(result.error().message.find(field) != std::string::npos);
  };
  for (const double share : {-0.5, 1.5}) {
    options.kv_share = batch.kv_share = share;
    refused(Session::open(model, options), "SessionOptions::kv_share");
    refused(Batcher::start(model, batch), "BatcherOptions::kv_share");
  }
  options.kv_share = 0.1;
  options.kv_bytes = 1 << 20;
  refused(Session::open(model, options), "kv_bytes");
  refused(Model::plan_memory(ModelSource::memory(tests::tiny_bytes()), {.devices = {tests::cpu()}}, options),
          "kv_share");
}

TEST_CASE("forks of a windowed session are as alone") {
  const Model model = windowed();
  SessionOptions options;
  options.kv_bytes = 5 * static_cast<std::size_t>(model.info().memory.kv);
  Session a = Session::open(model, options).value();
  const std::vector<Token> prompt = some_tokens(500, 16);
  a.append(prompt).value();
  a.prefill().value();
  std::vector<Session> forks;
  for (int i = 0; i < 3; ++i) forks.push_back(a.fork().value());
  for (int i = 0; i < 3; ++i) {
    std::vector<Token> all = prompt;
    const std::vector<Token> more = some_tokens(150, 16, 20 + static_cast<std::uint32_t>(i));
    all.insert(all.end(), more.begin(), more.end());
    forks[static_cast<std::size_t>(i)].append(more).value();
    CHECK(last_logits(forks[static_cast<std::size_t>(i)]) == logits_after(model, all));
  }
  a.rewind(100).value();
  CHECK(last_logits(a) == logits_after(model, std::span(prompt).first(100)));
}

TEST_CASE("a prefix from the cache changes no bit, and another salt has none of it") {
  for (const Model& model : {windowed(), tests::open_tiny()}) {
    Batcher batcher = Batcher::start(model, tests::small(model, 40)).value();
    const std::vector<Token> prompt = some_tokens(100, 16);
    const auto run = [&](const std::vector<Token>& tokens, std::uint64_t salt, int reused) {
      GenerateOptions options = random_options(12, 3);
      options.salt = salt;
      Generator generator = batcher.submit(tests::ready_session(batcher, tokens), options).value();
      const Outcome outcome = generator.run([](const Piece&) { return true; }).value();
      CHECK(outcome.reused_tokens == reused);
      CHECK(outcome.prompt_tokens == static_cast<int>(tokens.size()));
      Session session = std::move(generator).release().value();
      const tests::Alone expected = tests::alone(model, tokens, random_options(12, 3));
      CHECK(history(session) == expected.history);
      CHECK(last_logits(session) == expected.logits);
    };
    run(prompt, 0, 0);
    run(prompt, 0, 96);
    run({prompt.begin(), prompt.begin() + 97}, 0, 96);
    run({prompt.begin(), prompt.begin() + 96}, 0, 64);  // the last token is computed
    run(prompt, 7, 0);
    run(prompt, 7, 96);
    std::vector<Token> other(prompt.begin(), prompt.begin() + 70);
    const std::vector<Token> tail = some_tokens(20, 16, 5);
    other.insert(other.end(), tail.begin(), tail.end());
    run(other, 0, 64);
    CHECK(batcher.stats().prefix_hits == 5);
    CHECK(batcher.stats().reused_tokens == 96 + 96 + 64 + 96 + 64);
    CHECK(batcher.stats().pages_cached > 0);
  }
  const Model model = tests::open_tiny();
  BatcherOptions none = tests::small(model, 40);
  none.prefix_cache = false;
  Batcher batcher = Batcher::start(model, none).value();
  for (int i = 0; i < 2; ++i) {
    Generator generator =
        batcher.submit(tests::ready_session(batcher, some_tokens(100, 16)), random_options(5, 3)).value();
    CHECK(generator.run([](const Piece&) { return true; })->reused_tokens == 0);
  }
}

TEST_CASE("hostile company with common beginnings, in a pool that is too small") {
  for (const Model& model : {windowed(16), tests::open_tiny()}) {
    std::mt19937 random(3);
    const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    Batcher batcher = Batcher::start(model, tests::small(model, 9)).value();
    struct Request {
      std::vector<Token> prompt;
      GenerateOptions options;
      std::optional<Generator> generator;
    };
    std::vector<Request> requests(40);
    std::int64_t reused = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Request& r = requests[i];
      r.prompt = some_tokens(33 + upto(40), 16, static_cast<std::uint32_t>(upto(2)));
      const std::vector<Token> tail = some_tokens(upto(10), 16, static_cast<std::uint32_t>(random()));
      r.prompt.insert(r.prompt.end(), tail.begin(), tail.end());
      r.options = random_options(1 + upto(40), random());
      r.options.priority = upto(2);
      r.options.salt = static_cast<std::uint64_t>(upto(2));
      r.generator = batcher.submit(tests::ready_session(batcher, r.prompt), r.options).value();
      if (i < 8) continue;
      Request& old = requests[i - 8];
      if (upto(5) == 0) {
        old.generator.reset();
        continue;
      }
      const Outcome outcome = old.generator->run([](const Piece&) { return true; }).value();
      reused += outcome.reused_tokens;
      Session session = std::move(*old.generator).release().value();
      const tests::Alone expected = tests::alone(model, old.prompt, old.options);
      CHECK(history(session) == expected.history);
    }
    CHECK(reused > 200);
    requests.clear();
    CHECK(tests::all_pages_back(batcher));
  }
}

TEST_CASE("a saved session goes on as if nothing had happened") {
  for (const KvType kv : {KvType::automatic, KvType::f32, KvType::q8_0, KvType::q4_0}) {
    for (const Device& device : {tests::cpu(2), Device::reference().value()}) {
      const Model model = windowed(64, device, kv);
      Session s = Session::open(model).value();
      s.append(some_tokens(333, 16)).value();
      s.prefill().value();
      s.append(some_tokens(7, 16, 4)).value();  // not computed
      const std::string bytes = saved(s);
      const Model again = windowed(17, device, kv);
      Session t = restored(again, bytes + "more").value();
      CHECK(history(t) == history(s));
      CHECK(t.body()->sequence->computed() == 333);
      CHECK(t.logits().empty());
      CHECK(last_logits(t) == last_logits(s));
      for (int i = 0; i < 2; ++i) {
        const std::vector<Token> more = some_tokens(60, 16, 30 + static_cast<std::uint32_t>(i));
        s.append(more).value();
        t.append(more).value();
        CHECK(last_logits(t) == last_logits(s));
      }
      Session third = restored(model, saved(t)).value();
      // Its last token is computed again, alone, which only the cpu device promises to do with the same bits.
      const std::vector<float> expected = last_logits(s);
      const std::vector<float> found = last_logits(third);
      const bool exact = device.info().value().kind == "cpu";
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK((exact ? found[i] == expected[i] : found[i] == Approx(expected[i]).margin(1e-5)));
      }
    }
  }
  const Model model = windowed();
  Session empty = Session::open(model).value();
  CHECK(restored(model, saved(empty))->tokens().empty());
  // After a way back that its window did not survive there is nothing computed to save.
  Session s = Session::open(model).value();
  s.append(some_tokens(333, 16)).value();
  s.prefill().value();
  s.rewind(100).value();
  Session t = restored(model, saved(s)).value();
  CHECK(last_logits(t) == last_logits(s));
  // From the memory of a batcher.
  Batcher batcher = Batcher::start(model, tests::small(model, 40)).value();
  Generator generator =
      batcher.submit(tests::ready_session(batcher, some_tokens(90, 16)), random_options(20, 1)).value();
  CHECK(generator.run([](const Piece&) { return true; }));
  Session back = std::move(generator).release().value();
  Session copy = restored(model, saved(back)).value();
  CHECK(copy.body()->sequence->computed() >= 100);
  CHECK(last_logits(copy) == logits_after(model, back.tokens()));
  back.rewind(50).value();  // its window is gone: score() hands out rows of what it appends, not of what comes first
  std::vector<int> positions;
  back.score(some_tokens(40, 16, 6),
             [&](int position, std::span<const float>) {
               positions.push_back(position);
               return true;
             })
      .value();
  CHECK((positions.size() == 40 && positions.front() == 50 && positions.back() == 89));
  CHECK(last_logits(back) == logits_after(model, back.tokens()));
}

/// Run by the next test in a process of its own.
TEST_CASE("the other process", "[.child]") {
  const char* folder = std::getenv("LLMINFER_TEST_FOLDER");
  REQUIRE(folder != nullptr);
  std::ifstream in(std::filesystem::path(folder) / "session", std::ios::binary);
  Session s = Session::restore(windowed(32), in).value();
  s.append(some_tokens(40, 16, 8)).value();
  const std::vector<float> logits = last_logits(s);
  std::ofstream out(std::filesystem::path(folder) / "logits", std::ios::binary);
  out.write(reinterpret_cast<const char*>(logits.data()), static_cast<std::streamsize>(logits.size() * sizeof(float)));
  REQUIRE(out.flush());
}

TEST_CASE("a saved session goes on in another process") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("llminfer_session_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const Model model = windowed();
  Session s = Session::open(model).value();
  s.append(some_tokens(333, 16)).value();
  s.prefill().value();
  {
    std::ofstream out(folder / "session", std::ios::binary);
    s.save(out).value();
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      "LLMINFER_TEST_FOLDER='" + folder.string() + "' '" + self + "' '[child]' > '" + (folder / "log").string() + "'";
  CHECK(std::system(command.c_str()) == 0);
  std::vector<float> theirs(16);
  std::ifstream in(folder / "logits", std::ios::binary);
  CHECK(in.read(reinterpret_cast<char*>(theirs.data()), static_cast<std::streamsize>(theirs.size() * sizeof(float))));
  in.close();
  std::filesystem::remove_all(folder);
  s.append(some_tokens(40, 16, 8)).value();
  CHECK(theirs == last_logits(s));
}

TEST_CASE("saved bytes that do not belong here are refused by name") {
  const Model model = windowed(64, tests::cpu(2), KvType::f16);  // whatever the processor's default is
  Session s = Session::open(model).value();
  s.append(some_tokens(100, 16)).value();
  s.prefill().value();
  const std::string bytes = saved(s);
  const auto refused = [&](const Model& by, const std::string& what, ErrorCode code, const char* name,
                           SessionOptions options = {}) {
    const Result<Session> t = restored(by, what, options);
    REQUIRE_FALSE(t);
    CHECK(t.error().code == code);
    CHECK(t.error().message.find(name) != std::string::npos);
    CHECK(std::string(t.error().where) == "Session::restore");
  };
  refused(tests::open_tiny(), bytes, ErrorCode::mismatch, "fingerprint");
  refused(windowed(64, tests::cpu(2), KvType::q8_0), bytes, ErrorCode::mismatch, "K type");
  refused(windowed(64, Device::reference().value(), KvType::f16), bytes, ErrorCode::mismatch, "layout");
  test::GgufBuilder other = test::tiny_llama();  // the same shapes, other weights
  other.number("llama.context_length", std::uint32_t{2048}).number("llama.attention.sliding_window", std::uint32_t{40});
  other.number("llama.attention.sliding_window_pattern", std::uint32_t{2});
  other.at("blk.1.ffn_up.weight").data = test::float_data(32 * 64, 99);
  const test::Bytes other_bytes = other.build();
  refused(Model::open(ModelSource::memory(other_bytes), {.devices = {tests::cpu()}}).value(), bytes,
          ErrorCode::mismatch, "fingerprint");
  SessionOptions short_context;
  short_context.context = 99;
  refused(model, bytes, ErrorCode::context_overflow, "100", short_context);
  std::string version = bytes;
  version[8] = 2;
  refused(model, version, ErrorCode::mismatch, "version");
  std::string magic = bytes;
  magic[0] = 'x';
  refused(model, magic, ErrorCode::corrupt, "magic");
  refused(model, "", ErrorCode::truncated, "magic");
  refused(model, bytes.substr(0, bytes.size() - 1), ErrorCode::truncated, "checksum");

  // Whatever is cut or changed: an error, or (never for the bytes that are hashed) the session.
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::string wrong = bytes;
    const std::size_t at = i < 150 ? static_cast<std::size_t>(i) : random() % bytes.size();
    if (i % 2 == 0) {
      wrong.resize(at);
    } else {
      wrong[at] = static_cast<char>(wrong[at] ^ static_cast<char>(1 + random() % 255));
    }
    const Result<Session> t = restored(model, wrong);
    REQUIRE_FALSE(t);
    const ErrorCode code = t.error().code;
    CHECK((code == ErrorCode::truncated || code == ErrorCode::corrupt || code == ErrorCode::mismatch));
  }
  std::ostringstream full;
  full.setstate(std::ios::badbit);
  const Result<void> failed = s.save(full);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == ErrorCode::unavailable);
}
