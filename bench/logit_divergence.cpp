// How far the next-token distributions of the cpu device, and of llama.cpp, are from those of the reference device:
// the Kullback-Leibler divergence of the full distributions, in nats, at every position of the golden texts.
//
// logit_divergence MODEL GOLDEN [--isa ISA] [--kv TYPE] [PEER]
//   GOLDEN   lines of JSON with "tokens", as in shared/golden
//   ISA      kernels of the cpu device, else the best
//   TYPE     of its cache: f32, f16, bf16, q8_0 or q4_0, else its default
//   PEER     the program peer_logits
// Prints a markdown table, a row for each.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <llminfer/llminfer.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Tokens = std::vector<llminfer::Token>;

std::vector<Tokens> read_golden(const char* path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(std::string(path) + " cannot be read");
  std::vector<Tokens> lines;
  for (std::string text; std::getline(in, text);) lines.push_back(nlohmann::json::parse(text).at("tokens"));
  return lines;
}

/// log(sum(exp(row)))
double log_sum(std::span<const float> row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

/// KL(truth || other)
double divergence(std::span<const float> truth, double truth_sum, std::span<const float> other) {
  const double other_sum = log_sum(other);
  double kl = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double log_p = static_cast<double>(truth[i]) - truth_sum;
    kl += std::exp(log_p) * (log_p - (static_cast<double>(other[i]) - other_sum));
  }
  return std::max(kl, 0.0);
}

std::size_t best_of(std::span<const float> row) {
  return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

class Figures {
 public:
  explicit Figures(std::string name) : name_(std::move(name)) {}
  void add(double kl, bool same_best) {
    all_.push_back(kl);
    same_best_ += same_best ? 1 : 0;
  }
  void print() {
    std::sort(all_.begin(), all_.end());
    double sum = 0;
    for (const double kl : all_) sum += kl;
    const double n = static_cast<double>(all_.size());
    std::printf("| %s | %zu | %.5f | %.5f | %.4f | %.3f | %.2f %% |\n", name_.c_str(), all_.size(), sum / n,
                all_[all_.size() / 2], all_[all_.size() * 99 / 100], all_.back(),
                100 * static_cast<double>(same_best_) / n);
  }

 private:
  std::string name_;
  std::vector<double> all_{};
  std::size_t same_best_ = 0;
};

/// The reference's logits of one text.
struct Truth {
  std::vector<float> rows{};
  std::vector<double> sums{};
  std::size_t vocabulary = 0;

  std::span<const float> row(std::size_t i) const { return std::span(rows).subspan(i * vocabulary, vocabulary); }
  void compare(std::size_t i, std::span<const float> other, Figures& figures) const {
    figures.add(divergence(row(i), sums[i], other), best_of(row(i)) == best_of(other));
  }
};

template <class OnRow>
void score(const llminfer::Model& model, const Tokens& tokens, OnRow on_row) {
  llminfer::SessionOptions options;
  options.context = static_cast<int>(tokens.size());
  llminfer::Session session = llminfer::Session::open(model, options).value();
  session
      .score(tokens,
             [&](int position, std::span<const float> row) {
               on_row(static_cast<std::size_t>(position), row);
               return true;
             })
      .value();
}

Truth truth_of(const llminfer::Model& model, const Tokens& tokens) {
  Truth truth;
  truth.vocabulary = static_cast<std::size_t>(model.info().vocabulary);
  truth.rows.reserve(tokens.size() * truth.vocabulary);
  score(model, tokens, [&](std::size_t, std::span<const float> row) {
    truth.rows.insert(truth.rows.end(), row.begin(), row.end());
    truth.sums.push_back(log_sum(row));
  });
  return truth;
}

/// peer_logits at work: its rows come in the order of the texts.
class Peer {
 public:
  Peer(const std::string& program, const std::string& model, const std::vector<Tokens>& lines) {
    const int file = mkstemp(ids_);
    if (file < 0) throw std::runtime_error("no temporary file");
    close(file);
    std::ofstream out(ids_);
    for (const Tokens& tokens : lines) {
      for (const llminfer::Token id : tokens) out << id << ' ';
      out << '\n';
    }
    out.close();
    pipe_ = popen(("'" + program + "' '" + model + "' 2 < " + ids_).c_str(), "r");
    if (pipe_ == nullptr) throw std::runtime_error("cannot run " + program);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() {
    pclose(pipe_);
    unlink(ids_);
  }
  void read(std::span<float> row) {
    if (std::fread(row.data(), sizeof(float), row.size(), pipe_) != row.size()) {
      throw std::runtime_error("the peer ended early");
    }
  }

 private:
  char ids_[32] = "/tmp/golden-ids-XXXXXX";
  std::FILE* pipe_ = nullptr;
};

llminfer::KvType kv_type(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(llminfer::KvType::q4_0); ++i) {
    if (name == llminfer::to_string(static_cast<llminfer::KvType>(i))) return static_cast<llminfer::KvType>(i);
  }
  throw std::runtime_error("unknown cache type " + name);
}

llminfer::Model open(const char* path, llminfer::Device device, llminfer::KvType kv) {
  llminfer::LoadOptions options;
  options.k = options.v = kv;
  options.devices = {std::move(device)};
  return llminfer::Model::open(llminfer::ModelSource::file(path), options).value();
}

struct Arguments {
  std::vector<const char*> files{};
  std::string isa = "auto";
  llminfer::KvType kv = llminfer::KvType::automatic;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name.rfind("--", 0) != 0) {
      out.files.push_back(argv[i]);
    } else if (i + 1 == argc || (name != "--isa" && name != "--kv")) {
      throw std::runtime_error("what is " + name + "?");
    } else if (name == "--isa") {
      out.isa = argv[++i];
    } else {
      out.kv = kv_type(argv[++i]);
    }
  }
  return out;
}

void run(const Arguments& arguments) {
  const char* model_path = arguments.files[0];
  const std::vector<Tokens> lines = read_golden(arguments.files[1]);
  const llminfer::Model reference =
      open(model_path, llminfer::Device::reference().value(), llminfer::KvType::automatic);
  const llminfer::Device device = llminfer::Device::cpu({.isa = arguments.isa}).value();
  const llminfer::Model cpu = open(model_path, device, arguments.kv);
  std::unique_ptr<Peer> peer;
  if (arguments.files.size() == 3) peer = std::make_unique<Peer>(arguments.files[2], model_path, lines);
  Figures ours("llminfer, " + device.info().value().isa + ", " + llminfer::to_string(cpu.info().k)),
      theirs("llama.cpp");
  std::vector<float> row(static_cast<std::size_t>(reference.info().vocabulary));
  for (const Tokens& tokens : lines) {
    const Truth truth = truth_of(reference, tokens);
    score(cpu, tokens, [&](std::size_t i, std::span<const float> logits) { truth.compare(i, logits, ours); });
    for (std::size_t i = 0; peer != nullptr && i < tokens.size(); ++i) {
      peer->read(row);
      truth.compare(i, row, theirs);
    }
    std::fprintf(stderr, "%zu tokens\n", tokens.size());
  }
  std::printf("| against the reference device | positions | mean KL | median | 99 %% | largest | same best token |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  ours.print();
  if (peer != nullptr) theirs.print();
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments arguments = parse(argc, argv);
  if (arguments.files.size() != 2 && arguments.files.size() != 3) {
    std::fprintf(stderr, "usage: logit_divergence MODEL GOLDEN [--isa ISA] [--kv TYPE] [PEER]\n");
    return 2;
  }
  run(arguments);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
