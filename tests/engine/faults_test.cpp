// Every allocation of a load and of a generation fails in turn: an error each time, nothing leaks, what was there still
// works.
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "catch.h"
#include "engine_fixture.h"

namespace {

// Counts live blocks and fails the n-th allocation. Plain globals of the test program: operator new has no other place.
std::atomic<long> fail_in{0};  // 1: the next one fails; 0: none
std::atomic<long> live{0};
std::atomic<bool> watched{false};             // whether `large` counts
std::atomic<long> large{0};                   // blocks over 4 KiB
constexpr std::size_t large_from = 4096 + 1;  // bytes

void* take(std::size_t bytes, std::size_t alignment) noexcept {
  long left = fail_in.load(std::memory_order_relaxed);
  while (left > 0 && !fail_in.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 1) return nullptr;
  void* p =
      std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment + (bytes == 0 ? alignment : 0));
  if (p != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return p;
}

void give(void* p) noexcept {
  if (p != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(p);  // NOLINT(cppcoreguidelines-no-malloc)
}

/// For containers and objects; core/memory asks without exceptions.
void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  if (bytes >= large_from && watched.load(std::memory_order_relaxed)) large.fetch_add(1, std::memory_order_relaxed);
  void* p = take(bytes, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

constexpr std::size_t plain = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

void* operator new(std::size_t n) { return take_or_throw(n, plain); }
void* operator new[](std::size_t n) { return take_or_throw(n, plain); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return take(n, plain); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return take(n, plain); }
void* operator new(std::size_t n, std::align_val_t a) { return take_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return take_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return take(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return take(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { give(p); }
void operator delete[](void* p) noexcept { give(p); }
void operator delete(void* p, std::size_t) noexcept { give(p); }
void operator delete[](void* p, std::size_t) noexcept { give(p); }
void operator delete(void* p, std::align_val_t) noexcept { give(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { give(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { give(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { give(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { give(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { give(p); }

using namespace llminfer;

namespace {

/// Runs `body` with allocation n failing for n = 1, 2, ... until one run meets no failure. `body` returns the error
/// code, or nothing on success. Returns how many runs failed. Catch's own allocations stay outside.
template <class Body>
long fail_each(Body body) {
  long failures = 0;
  for (long n = 1;; ++n) {
    const long before = live.load();
    fail_in.store(n);
    const std::optional<ErrorCode> code = body();
    const bool met = fail_in.exchange(0) <= 0;
    const long after = live.load();
    REQUIRE(after == before);
    if (!met) {
      REQUIRE_FALSE(code.has_value());
      return failures;
    }
    // An allocation may be one that the library can do without; but if there is an error it says what it is.
    if (code) REQUIRE((*code == ErrorCode::out_of_memory || *code == ErrorCode::unavailable));
    failures += code.has_value() ? 1 : 0;
  }
}

std::optional<ErrorCode> code_of(const Error& error) { return error.code; }

}  // namespace

TEST_CASE("loading survives each allocation that fails") {
  const ModelSource source = ModelSource::memory(tests::tiny_bytes());  // its own allocation may throw, as documented
  for (const bool reference : {false, true}) {
    const Device device = reference ? Device::reference().value() : tests::cpu(1);
    const long failures = fail_each([&]() -> std::optional<ErrorCode> {
      LoadOptions options;
      try {
        options.devices.push_back(device);
      } catch (const std::bad_alloc&) {
        return ErrorCode::out_of_memory;  // the caller's own vector
      }
      const Result<Model> model = Model::open(source, std::move(options));
      return model ? std::nullopt : code_of(model.error());
    });
    CHECK(failures > 50);
    CHECK(Model::open(source));
  }
}

TEST_CASE("opening a device survives each allocation that fails") {
  const long failures = fail_each([]() -> std::optional<ErrorCode> {
    const Result<Device> device = Device::cpu();
    return device ? std::nullopt : code_of(device.error());
  });
  CHECK(failures > 3);
}

TEST_CASE("sessions and generations survive each allocation that fails") {
  const Model model = tests::tiny_model(tests::cpu(1));
  const std::vector<Token> prompt = tests::some_tokens(20, 16);
  Session kept = Session::open(model).value();
  kept.append(prompt).value();
  kept.prefill().value();
  const std::vector<float> expected(kept.logits().begin(), kept.logits().end());

  const long failures = fail_each([&]() -> std::optional<ErrorCode> {
    Result<Session> session = Session::open(model);
    if (!session) return session.error().code;
    const Result<void> appended = session->append(prompt);
    if (!appended) return appended.error().code;
    GenerateOptions options;
    options.max_tokens = 6;
    options.ignore_end_of_text = true;
    Result<Generator> generator = session->generate(std::move(options));
    if (!generator) return generator.error().code;
    for (;;) {
      const Result<const Piece*> piece = generator->next();
      if (!piece) return piece.error().code;
      if (*piece == nullptr) return std::nullopt;
    }
  });
  CHECK(failures > 10);
  CHECK(std::equal(expected.begin(), expected.end(), kept.logits().begin()));
  Session again = Session::open(model).value();
  again.append(prompt).value();
  again.prefill().value();
  CHECK(std::equal(expected.begin(), expected.end(), again.logits().begin()));
}

TEST_CASE("a step allocates nothing") {
  const Model model = tests::tiny_model(tests::cpu(2));
  Session session = Session::open(model).value();
  session.append(tests::some_tokens(20, 16)).value();
  GenerateOptions options;
  options.max_tokens = 40;
  options.ignore_end_of_text = true;
  options.sampling.temperature = 0.8F;
  options.sampling.top_k = 5;
  options.sampling.top_p = 0.9F;
  Generator generator = session.generate(options).value();
  fail_in.store(1L << 40);
  int pieces = 0;
  for (;;) {
    const Result<const Piece*> piece = generator.next();
    if (!piece || *piece == nullptr) break;
    ++pieces;
  }
  const long left = fail_in.exchange(0);
  CHECK(left == 1L << 40);
  CHECK(pieces == 40);
}

TEST_CASE("blocks over 4 KiB come from core/memory") {
  const auto file = tests::smollm2();
  if (!file) {
    WARN("SmolLM2 is not in the model cache: skipped");
    return;
  }
  const std::string text = "Once upon a time there was a token that";
  for (const bool reference : {false, true}) {
    const Device device = reference ? Device::reference().value() : tests::cpu(2);
    LoadOptions load;
    load.devices = {device};
    load.context = 256;
    load.max_step_tokens = 32;
    large.store(0);
    watched.store(true);
    {
      const Model model = Model::open(ModelSource::file(*file), load).value();
      Session session = Session::open(model).value();
      session.append(model.tokenizer().encode(text).value()).value();
      GenerateOptions options;
      options.max_tokens = 3;
      options.sampling.temperature = 0.7F;
      options.sampling.top_k = 40;
      CHECK(session.generate(options).value().run([](const Piece&) { return true; }));
    }
    watched.store(false);
    INFO("device " << device.info().value().kind);
    CHECK(large.load() == 0);
  }
}

TEST_CASE("a batcher survives each allocation that fails") {
  LoadOptions load;
  load.max_sequences = 4;
  const Model model = tests::tiny_model(tests::cpu(1), load);
  const std::vector<Token> prompt = tests::some_tokens(20, 16);
  BatcherOptions options;
  options.kv_bytes = static_cast<std::size_t>(model.info().memory.kv_per_token) * 32 * 6;
  options.max_sequences = 4;
  options.pieces_ahead = 2;
  const long failures = fail_each([&]() -> std::optional<ErrorCode> {
    Result<Batcher> batcher = Batcher::start(model, options);
    if (!batcher) return batcher.error().code;
    Result<Session> session = batcher->open_session();
    if (!session) return session.error().code;
    const Result<void> appended = session->append(prompt);
    if (!appended) return appended.error().code;
    GenerateOptions generate;
    generate.max_tokens = 6;
    generate.ignore_end_of_text = true;
    try {
      generate.stop = {"a stop string that is longer than a short one"};
    } catch (const std::bad_alloc&) {
      return ErrorCode::out_of_memory;  // the caller's own vector
    }
    Result<Generator> generator = batcher->submit(std::move(*session), std::move(generate));
    if (!generator) return session->tokens().size() == prompt.size() ? generator.error().code : ErrorCode::corrupt;
    for (;;) {
      const Result<const Piece*> piece = generator->next();
      if (!piece) return piece.error().code;
      if (*piece == nullptr) return std::nullopt;
    }
  });
  CHECK(failures > 20);
}

TEST_CASE("continuations, beams, callbacks and statistics survive each allocation that fails") {
  LoadOptions load;
  load.max_sequences = 4;
  const Model model = tests::tiny_model(tests::cpu(1), load);
  const std::vector<Token> prompt = tests::some_tokens(20, 16);
  BatcherOptions options;
  options.kv_bytes = static_cast<std::size_t>(model.info().memory.kv_per_token) * 32 * 6;
  options.max_sequences = 4;
  options.pieces_ahead = 2;
  options.queue = 8;
  const long failures = fail_each([&]() -> std::optional<ErrorCode> {
    Result<Batcher> batcher = Batcher::start(model, options);
    if (!batcher) return batcher.error().code;
    const auto open = [&]() -> Result<Session> {
      Result<Session> session = batcher->open_session();
      if (!session) return session;
      const Result<void> appended = session->append(prompt);
      if (!appended) return appended.error();
      return session;
    };
    GenerateOptions generate;
    generate.max_tokens = 4;
    generate.ignore_end_of_text = true;
    Result<Session> session = open();
    if (!session) return session.error().code;
    Result<std::vector<Generator>> many = batcher->submit_many(std::move(*session), 3, generate);
    if (!many) return session->tokens().size() == prompt.size() ? many.error().code : ErrorCode::corrupt;
    for (Generator& generator : *many) {
      for (;;) {
        const Result<const Piece*> piece = generator.next();
        if (!piece) return piece.error().code;
        if (*piece == nullptr) break;
      }
    }
    session = open();
    if (!session) return session.error().code;
    BeamOptions beams;
    beams.beams = beams.results = 3;
    beams.max_tokens = 3;
    Result<BeamSearch> search = batcher->submit_beams(std::move(*session), beams);
    if (!search) return session->tokens().size() == prompt.size() ? search.error().code : ErrorCode::corrupt;
    const Result<std::vector<Hypothesis>> found = search->wait();
    if (!found) return found.error().code;
    session = open();
    if (!session) return session.error().code;
    std::atomic<int> end{-1};  // of the callbacks: the error's code, or 1000
    Result<Ticket> ticket = Error{};
    try {
      ticket = batcher->submit(
          std::move(*session), generate, [](const Piece&) { return true; },
          [&](Result<Outcome> outcome, Session) { end = outcome ? 1000 : static_cast<int>(outcome.error().code); });
    } catch (const std::bad_alloc&) {
      return ErrorCode::out_of_memory;  // the caller's own functions
    }
    if (!ticket) return session->tokens().size() == prompt.size() ? ticket.error().code : ErrorCode::corrupt;
    while (end < 0) std::this_thread::yield();
    if (end != 1000) return static_cast<ErrorCode>(end.load());
    const Result<std::string> text = to_prometheus(batcher->stats());
    return text ? std::nullopt : code_of(text.error());
  });
  CHECK(failures > 60);
}

TEST_CASE("a batcher's steps allocate nothing") {
  LoadOptions load;
  load.max_sequences = 4;
  const Model model = tests::tiny_model(tests::cpu(2), load);
  BatcherOptions options;
  options.kv_bytes = static_cast<std::size_t>(model.info().memory.kv_per_token) * 32 * 6;  // too few: preemptions too
  options.max_sequences = 4;
  options.pieces_ahead = 8;
  Batcher batcher = Batcher::start(model, options).value();
  std::vector<Generator> generators;
  for (int i = 0; i < 4; ++i) {
    Session session = batcher.open_session().value();
    session.append(tests::some_tokens(20, 16)).value();
    GenerateOptions generate;
    generate.max_tokens = 80;
    generate.ignore_end_of_text = true;
    generate.sampling.temperature = 0.8F;
    generators.push_back(batcher.submit(std::move(session), generate).value());
  }
  Session shared = batcher.open_session().value();
  shared.append(tests::some_tokens(20, 16)).value();
  BeamOptions beams;
  beams.beams = 5;
  beams.max_tokens = 30;
  BeamSearch search = batcher.submit_beams(shared.fork().value(), beams).value();
  GenerateOptions short_ones;
  short_ones.max_tokens = 6;
  const std::vector<Generator> many = batcher.submit_many(std::move(shared), 3, short_ones).value();
  fail_in.store(1L << 40);
  int pieces = 0;
  for (int i = 0; i < 4 * 80; ++i) {
    const Result<const Piece*> piece = generators[static_cast<std::size_t>(i % 4)].next();
    if (!piece || *piece == nullptr) break;
    ++pieces;
  }
  while (batcher.stats().completed < 8) std::this_thread::yield();
  const long left = fail_in.exchange(0);
  CHECK(left == 1L << 40);
  CHECK(pieces == 4 * 80);
  CHECK(batcher.stats().preemptions > 0);
}
