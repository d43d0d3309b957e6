// Profiles, ceilings and forecasts through the public interface.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "catch.h"
#include "engine_fixture.h"

using namespace llminfer;

namespace {

/// A file of the temporary folder that goes with the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const char* name) : path_(std::filesystem::temp_directory_path() / name) { remove(); }
  ~TemporaryFile() { remove(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::filesystem::path path_;
};

/// Round figures: no test of this file measures for itself but the one that says so.
Ceilings made_ceilings(int threads) {
  Ceilings out;
  out.threads = threads;
  ThreadCeilings at;
  at.threads = threads;
  at.read.best = 20e9;
  at.f32.best = 200e9;
  at.int8.best = 600e9;
  at.caches = {{3, std::uint64_t{32} << 20, {60e9, 0}}};
  out.at = {at};
  out.op_overhead_s = 5e-7;
  return out;
}

double sum(const TimeParts& t) {
  return t.ops + t.barriers + t.dispatch + t.sampling + t.scheduling + t.outside + t.idle;
}

const PhaseReport& phase(const ProfileReport& report, PhaseKind kind) {
  for (const PhaseReport& p : report.phases) {
    if (p.kind == kind) return p;
  }
  throw std::logic_error("no such phase");
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("a session's profile: every moment has its part") {
  const Model model = tests::tiny_model(tests::cpu(2));
  Profile profile = Profile::open(model, {made_ceilings(2)}).value();
  Session session = Session::open(model, {.profile = profile}).value();
  REQUIRE(session.append(tests::some_tokens(20, model.info().vocabulary)));
  const auto before = std::chrono::steady_clock::now();
  profile.reset().value();
  const auto start = std::chrono::steady_clock::now();
  Generator generator = session.generate({.max_tokens = 30, .ignore_end_of_text = true}).value();
  REQUIRE(generator.run([](const Piece&) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return true;
  }));
  const double least = seconds_since(start);
  const ProfileReport report = profile.report().value();
  CHECK(report.time.wall >= least);
  CHECK(report.time.wall <= seconds_since(before));
  CHECK(sum(report.time) == Approx(report.time.wall).epsilon(0.001));
  CHECK(report.time.outside > 0.005);
  CHECK(phase(report, PhaseKind::prefill).tokens == 20);
  CHECK(phase(report, PhaseKind::decode).tokens == 29);
  CHECK(phase(report, PhaseKind::decode).steps == 29);
  CHECK(phase(report, PhaseKind::decode).sampling_seconds > 0);
  CHECK(report.memory.kv_used > 0);
  CHECK(report.memory.kv_free > 0);
}

TEST_CASE("a callback that sleeps is what a batcher waits for") {
  const Model model = tests::tiny_model(tests::cpu(1));  // on a busy machine two would wait for each other instead
  const Profile profile = Profile::open(model, {made_ceilings(1)}).value();
  Batcher batcher = Batcher::start(model, {.kv_bytes = 1 << 20, .max_sequences = 4, .profile = profile}).value();
  std::atomic<int> ended{0};
  for (int i = 0; i < 2; ++i) {
    Session session = batcher.open_session().value();
    session.append(tests::some_tokens(8, model.info().vocabulary, static_cast<unsigned>(i))).value();
    const auto sleepy = [](const Piece&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return true;
    };
    batcher
        .submit(std::move(session), {.max_tokens = 10, .ignore_end_of_text = true}, sleepy,
                [&](Result<Outcome>, Session) { ++ended; })
        .value();
  }
  while (ended.load() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const ProfileReport report = profile.report().value();
  const PhaseReport& decode = phase(report, PhaseKind::decode);
  CHECK(decode.bound == Bound::waiting);
  CHECK(decode.evidence.find("application") != std::string::npos);
  CHECK(report.time.outside > 0.03);
  CHECK(sum(report.time) == Approx(report.time.wall).epsilon(0.001));
}

TEST_CASE("what a profile refuses") {
  const Model model = tests::tiny_model(tests::cpu(1)), other = tests::tiny_model(tests::cpu(1));
  CHECK(Profile::open(model, {}).error().code == ErrorCode::invalid_argument);
  CHECK(Profile::open(model, {made_ceilings(2)}).error().code == ErrorCode::invalid_argument);
  CHECK(Profile().report().error().code == ErrorCode::invalid_argument);
  Profile profile = Profile::open(model, {made_ceilings(1)}).value();
  CHECK(Session::open(other, {.profile = profile}).error().code == ErrorCode::mismatch);
  {
    const Session session = Session::open(model, {.profile = profile}).value();
    CHECK(Session::open(model, {.profile = profile}).error().code == ErrorCode::invalid_argument);
    CHECK(Batcher::start(model, {.kv_bytes = 1 << 20, .profile = profile}).error().code == ErrorCode::invalid_argument);
  }
  CHECK(Session::open(model, {.profile = profile}));
  CHECK(profile.report().value().phases.empty());
}

TEST_CASE("ceilings are measured once and kept in the caller's file") {
  const TemporaryFile file("llminfer-profile-test.json");
  CeilingsOptions options{.seconds = 0.05, .cache = file.path()};
  const Ceilings first = measure_ceilings(tests::cpu(1), options).value();
  CHECK(first.threads == 1);
  CHECK(first.all().read.best > 1e8);
  CHECK(first.all().f32.best > 1e8);
  CHECK(first.all().copy.best > 1e8);
  CHECK(std::filesystem::file_size(file.path()) > 100);
  const Ceilings again = measure_ceilings(tests::cpu(1), options).value();
  CHECK(again.all().read.best == Approx(first.all().read.best).epsilon(1e-5));  // read, not measured
  Ceilings other = measure_ceilings(tests::cpu(2), options).value();            // other threads: anew
  CHECK(other.threads == 2);
  CHECK(calibrate_again(tests::cpu(2), other));  // of nothing
  CHECK(other.efficiencies.empty());
  CHECK(calibrate_again(tests::cpu(1), other).error().code == ErrorCode::mismatch);
  std::ofstream(file.path()) << "{\"format\": 3}";
  CHECK(measure_ceilings(tests::cpu(1), options).value().threads == 1);
  CHECK(measure_ceilings(Device::reference().value(), options).error().code == ErrorCode::unavailable);
  CHECK(measure_ceilings(tests::cpu(1), {.seconds = 0}).error().code == ErrorCode::invalid_argument);
  CHECK(measure_ceilings(tests::cpu(1), {.seconds = 0.05, .cache = "/nowhere/x/y"}).error().code ==
        ErrorCode::unavailable);
}

TEST_CASE("a forecast needs metadata alone") {
  const ModelSource source = ModelSource::memory(tests::tiny_bytes());
  const Workload workload{.batches = {1, 4}, .prompt = 32, .generate = 8};
  const Forecast here = forecast(source, made_ceilings(2), workload, 1 << 30).value();
  REQUIRE(here.rows.size() == 2);
  CHECK(here.rows[1].decode_tokens_per_s > here.rows[0].decode_tokens_per_s);
  CHECK(here.rows[0].first_token_s > 0);
  CHECK(here.rows[1].memory > here.rows[0].memory);
  CHECK(here.largest_batch > 100);
  CHECK_FALSE(here.calibrated);
  const auto types = weight_types(source).value();
  CHECK_FALSE(types.empty());
  CHECK(forecast(source, Ceilings{}, workload).error().code == ErrorCode::invalid_argument);
  CHECK(forecast(source, made_ceilings(1), {.prompt = 0}).error().code == ErrorCode::invalid_argument);
  CHECK(forecast(source, made_ceilings(1), {.batches = {0}}).error().code == ErrorCode::invalid_argument);
  CHECK(forecast(ModelSource::file("/nowhere"), made_ceilings(1), workload).error().code == ErrorCode::not_found);
}
