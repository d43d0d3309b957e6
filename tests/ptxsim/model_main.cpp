// A whole model on the CUDA device in the simulator, by way of the public interface:  ptxsim_model FILE [TOKENS]
// Its greedy tokens must be those of the reference device, as far as the two best logits lie apart; no check may
// report.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <llminfer/backend/backend.hpp>
#include <llminfer/llminfer.hpp>

#include "host/cuda_backend.h"
#include "runtime/device.h"

namespace {

using namespace llminfer;

/// Where the best token leads the second by less than this, the devices may choose differently.
constexpr float close_call = 0.05F;

struct Chosen {
  Token token = 0;
  float lead = 0;  ///< in log-probability
};

std::vector<Chosen> generate(const ModelSource& source, Device device, int tokens) {
  LoadOptions load;
  load.devices = {std::move(device)};
  load.context = 64;
  load.max_step_tokens = 32;
  load.max_sequences = 1;
  const Model model = Model::open(source, load).value();
  Session session = Session::open(model).value();
  session.append(model.tokenizer().encode("The capital of France is").value()).value();
  GenerateOptions options;
  options.max_tokens = tokens;
  options.top_logprobs = 2;
  options.ignore_end_of_text = true;
  std::vector<Chosen> out;
  for (const Piece& piece : session.generate(options).value()) {
    out.push_back({piece.token, piece.top[0].logprob - piece.top[1].logprob});
    std::printf("%d (%.3f) ", piece.token, static_cast<double>(out.back().lead));
    std::fflush(stdout);
  }
  std::printf("\n");
  return out;
}

int compare(const std::vector<Chosen>& simulated, const std::vector<Chosen>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i < simulated.size() && simulated[i].token == expected[i].token) continue;
    if (expected[i].lead < close_call) {
      std::printf("token %zu differs where the two best are %.3f apart: the texts go their own ways\n", i,
                  static_cast<double>(expected[i].lead));
      return i >= 4 ? 0 : 1;  // too early to have shown anything
    }
    std::printf("token %zu differs\n", i);
    return 1;
  }
  std::printf("%zu tokens are equal\n", expected.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FILE [TOKENS]\n", argv[0]);
    return 2;
  }
  if (!std::filesystem::exists(argv[1])) {
    std::printf("skipped: there is no %s\n", argv[1]);
    return 77;
  }
  const int tokens = argc > 2 ? std::atoi(argv[2]) : 16;
  try {
    const ModelSource source = ModelSource::file(argv[1]);
    const std::vector<Chosen> expected = generate(source, Device::reference().value(), tokens);
    ptxsim::simulated_device().options.check_races = false;  // the op cases do that; here it would take minutes
    ptxsim::simulated_device().options.count_accesses = false;
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Chosen> simulated = generate(source, Device::wrap(cuda::make_cuda_backend(0)).value(), tokens);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto& findings = ptxsim::simulated_device().findings;
    for (const ptxsim::Finding& f : findings)
      std::printf("%s %s %s\n", name_of(f.check), f.source.c_str(), f.text.c_str());
    const ptxsim::CallCounts& calls = ptxsim::simulated_device().calls;
    std::printf("%.1f s, %llu launches, %zu findings, %.0f M lane instructions in a second\n", seconds,
                static_cast<unsigned long long>(calls.launches), findings.size(),
                static_cast<double>(calls.lane_instructions) / 1e6 / calls.seconds);
    return findings.empty() ? compare(simulated, expected) : 1;
  } catch (const Exception& e) {
    std::printf("%s: %s\n", to_string(e.error().code), e.what());
    return 1;
  }
}
