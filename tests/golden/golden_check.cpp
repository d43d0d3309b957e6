// Runs llminfer-eval on the texts of a golden file and compares what it says.
// usage: golden_check EVAL MODEL GOLDEN DEVICE WORK [MAX_TOKENS [GREEDY]]
//   DEVICE      cpu, cpu:f16 (the format of its cache) or reference: its limits
//   WORK        a file to write the texts to
//   MAX_TOKENS  leaves out longer lines; 0: none. GREEDY: tokens of each continuation, 48 if not given
// Exit code 77, with the reason, where the model or the golden file is absent.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "golden/compare.h"

namespace {

using nlohmann::json;

struct Arguments {
  std::string eval, model, golden, device, kv, work;
  std::size_t max_tokens = 0;
  int greedy = 48;
};

// A program whose output is read line by line.
class Pipe {
 public:
  explicit Pipe(const std::string& command) : file_(popen(command.c_str(), "r")) {
    if (file_ == nullptr) throw std::runtime_error("cannot run " + command);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() { close(); }

  bool line(std::string& text) {
    text.clear();
    for (int c; (c = std::getc(file_)) != EOF && c != '\n';) text += static_cast<char>(c);
    return !text.empty();
  }
  int close() {
    const int status = file_ == nullptr ? 0 : pclose(file_);
    file_ = nullptr;
    return status;
  }

 private:
  std::FILE* file_;
};

std::string quoted(const std::string& argument) {
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// The lines that are compared, also written to `work` as the program's input.
std::vector<json> read_golden(const Arguments& arguments) {
  std::vector<json> lines;
  std::ifstream in(arguments.golden);
  std::ofstream out(arguments.work);
  for (std::string text; std::getline(in, text);) {
    json line = json::parse(text);
    if (arguments.max_tokens > 0 && line.at("tokens").size() > arguments.max_tokens) continue;
    out << json{{"text", line.at("text")}}.dump() << '\n';
    lines.push_back(std::move(line));
  }
  out.close();
  if (!in.eof() || !out) throw std::runtime_error("cannot copy " + arguments.golden + " to " + arguments.work);
  return lines;
}

int check(const Arguments& arguments) {
  golden::Limits limits = golden::limits_of(arguments.device, arguments.kv);
  limits.greedy = arguments.greedy;
  golden::Comparison comparison(limits);
  const std::vector<json> lines = read_golden(arguments);
  Pipe eval(quoted(arguments.eval) + " " + quoted(arguments.model) + " --jsonl " + quoted(arguments.work) +
            " --device " + arguments.device + " --kv " + arguments.kv + " --top 16 --greedy " +
            std::to_string(arguments.greedy));
  for (const json& expected : lines) {
    std::string text;
    if (!eval.line(text)) throw std::runtime_error("llminfer-eval ended early");
    comparison.add(expected, json::parse(text));
  }
  if (const int status = eval.close(); status != 0) throw std::runtime_error("llminfer-eval failed");
  comparison.finish();
  std::printf("%s", comparison.report().c_str());
  for (const std::string& failure : comparison.failures()) std::printf("FAILED %s\n", failure.c_str());
  return comparison.failures().empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 6 || argc > 8) {
    std::fprintf(stderr, "usage: golden_check EVAL MODEL GOLDEN DEVICE WORK [MAX_TOKENS [GREEDY]]\n");
    return 2;
  }
  Arguments arguments{
      .eval = argv[1], .model = argv[2], .golden = argv[3], .device = argv[4], .kv = "automatic", .work = argv[5]};
  if (const std::size_t colon = arguments.device.find(':'); colon != std::string::npos) {
    arguments.kv = arguments.device.substr(colon + 1);
    arguments.device.resize(colon);
  }
  if (argc > 6) arguments.max_tokens = std::stoul(argv[6]);
  if (argc > 7) arguments.greedy = std::stoi(argv[7]);
  for (const std::string& file : {arguments.model, arguments.golden}) {
    if (std::filesystem::exists(file)) continue;
    std::printf("skipped: %s is absent\n", file.c_str());
    return 77;
  }
  return check(arguments);
} catch (const std::exception& error) {
  std::printf("FAILED %s\n", error.what());
  return 1;
}
