// No step allocates: counted below operator new of the whole program.
#include <atomic>
#include <cstdlib>
#include <new>

#include "catch.h"
#include "fixtures.h"

namespace {
std::atomic<long> allocations{0};

void* counted(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept { return operator new(bytes, tag); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

using namespace sampling_test;

TEST_CASE("Sampling, accepting and rolling back allocate nothing") {
  const Letters letters;
  constexpr int vocabulary = 2000;
  const std::vector<std::vector<SamplerSpec>> chains{
      {},
      {Temperature{0.9f}},
      {RepetitionPenalty{}, PresencePenalty{1}, FrequencyPenalty{1}, NoRepeatNgram{}, Dry{}, LogitBias{{{5, 1.0f}}},
       TopNSigma{2}, TopK{1000}, TypicalP{}, TopP{}, MinP{}, Xtc{1, 0.01f}, DynamicTemperature{}},
      {TypicalP{0.9f}},
      {TopP{0.999f}},
      {Mirostat{}},
      {MirostatV2{}},
      {AdaptiveP{}},
  };
  SamplerWorkspace workspace(vocabulary);
  std::vector<std::vector<float>> rows;
  for (std::uint32_t row = 0; row < 30; ++row) rows.push_back(logits_row(row, vocabulary));
  for (const auto& specs : chains) {
    SamplingOptions options{.chain = specs, .banned_tokens = {3}, .banned_strings = {"abc", "z"}, .min_new_tokens = 3};
    auto setup = setup_for(vocabulary, &letters);
    setup.top_logprobs = 20;
    SamplerChain chain(options, setup);
    std::vector<Token> history{1, 2, 1, 2, 1};
    history.reserve(100);
    const long before = allocations.load();
    bool ok = true;
    for (const auto& logits : rows) {
      Draw draw;
      ok = ok && chain.sample(workspace, logits, history, draw) == SampleStatus::ok;
      history.push_back(draw.token);
      const Accepted accepted = chain.accept(history);
      history.resize(history.size() - static_cast<std::size_t>(accepted.take_back));
    }
    ok = ok && chain.rollback(5) == SampleStatus::ok;
    const long after = allocations.load();
    CHECK(ok);
    CHECK(after == before);
  }
}

TEST_CASE("The workspace takes its memory from the resource it is given") {
  class Counting final : public std::pmr::memory_resource {
   public:
    std::size_t bytes = 0;

   private:
    void* do_allocate(std::size_t size, std::size_t alignment) override {
      bytes += size;
      return std::pmr::new_delete_resource()->allocate(size, alignment);
    }
    void do_deallocate(void* p, std::size_t size, std::size_t alignment) override {
      bytes -= size;
      std::pmr::new_delete_resource()->deallocate(p, size, alignment);
    }
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  } memory;
  {
    const SamplerWorkspace workspace(100000, &memory);
    CHECK(memory.bytes > 3000000);
    CHECK(memory.bytes < 4500000);
    auto setup = setup_for(100000);
    setup.memory = &memory;
    const std::size_t before = memory.bytes;
    const SamplerChain chain({.chain = {AdaptiveP{}}}, setup);
    CHECK(memory.bytes >= before + 400000);
    const SamplerChain copy(chain);
    CHECK(memory.bytes >= before + 800000);
  }
  CHECK(memory.bytes == 0);
}
