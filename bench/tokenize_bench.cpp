// Tokenizer speed in MB/s on English, code and Chinese, or on given files; side by side with llama.cpp's where the
// program peer_tokenize (see bench/CMakeLists.txt, option LLMINFER_PEER) is named.
//
// tokenize_bench VOCABULARY [--peer PROGRAM] [FILE...]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <llminfer/model_source.hpp>
#include <llminfer/tokenizer.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t text_bytes = 1000000;

// A small generator: the same text on every run and machine.
struct Random {
  std::uint64_t state = 88172645463325252u;
  std::size_t below(std::size_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<std::size_t>(state % limit);
  }
  // Small numbers more often, as words of a language are used.
  std::size_t skewed(std::size_t limit) { return below(below(limit) + 1); }
};

std::vector<std::string> made_up_words(Random& random, const std::vector<std::string>& syllables, std::size_t count,
                                       std::size_t longest) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < count; ++i) {
    std::string word;
    for (std::size_t n = 1 + random.below(longest); n > 0; --n) word += syllables[random.skewed(syllables.size())];
    words.push_back(word);
  }
  return words;
}

std::string english() {
  Random random;
  const std::vector<std::string> common{
      "the",   "of",   "and",   "to",     "in",    "a",        "is",         "that",      "for",     "it",   "was",
      "on",    "with", "as",    "be",     "by",    "at",       "this",       "from",      "they",    "have", "not",
      "which", "when", "there", "people", "water", "question", "government", "something", "language"};
  const std::vector<std::string> syllables{"con", "er",   "ing",  "tion", "re",  "de",  "in",  "al",
                                           "is",  "ment", "able", "pro",  "com", "ter", "per", "ous",
                                           "ly",  "est",  "ar",   "or",   "an",  "en",  "st",  "gr"};
  const std::vector<std::string> rare = made_up_words(random, syllables, 4000, 4);
  std::string text;
  bool start = true;
  while (text.size() < text_bytes) {
    std::string word = random.below(5) < 3 ? common[random.skewed(common.size())] : rare[random.skewed(rare.size())];
    if (start) word[0] = static_cast<char>(word[0] - 'a' + 'A');
    text += word;
    start = random.below(14) == 0;
    text += start ? (random.below(6) == 0 ? ".\n\n" : ". ") : random.below(12) == 0 ? ", " : " ";
    if (random.below(60) == 0) text += std::to_string(random.below(3000)) + " ";
  }
  return text;
}

std::string code() {
  Random random;
  const std::vector<std::string> syllables{"get",  "set",  "value", "Index", "count",  "_",    "Buffer",
                                           "size", "Node", "tmp",   "i",     "ptr",    "name", "Map",
                                           "is",   "key",  "data",  "Error", "result", "x"};
  const std::vector<std::string> names = made_up_words(random, syllables, 1500, 3);
  const auto name = [&] { return names[random.skewed(names.size())]; };
  std::string text;
  int depth = 0;
  while (text.size() < text_bytes) {
    text.append(static_cast<std::size_t>(depth) * 4, ' ');
    switch (random.below(7)) {
      case 0:
        text += "if (" + name() + " != " + name() + "[" + std::to_string(random.below(64)) + "]) {\n";
        ++depth;
        break;
      case 1:
        text += "return " + name() + "(" + name() + ", 0x" + std::to_string(random.below(9999)) + ");\n";
        break;
      case 2:
        text += "// " + name() + ": the " + name() + " of " + name() + "\n";
        break;
      case 3:
        text += "const auto " + name() + " = " + name() + "->" + name() + "() + 1;\n";
        break;
      case 4:
        text += "std::vector<" + name() + "> " + name() + "{};\n";
        break;
      case 5:
        text += name() + " += \"" + name() + "\\n\";\n";
        break;
      default:
        if (depth > 0) --depth;
        text += "}\n";
    }
    if (depth > 6) depth = 0;
  }
  return text;
}

std::string chinese() {
  Random random;
  const std::string_view characters =
      "的一是不了在人有我他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十"
      "用发天如然作方"
      "成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从知全工实动情高问手重明新已点特门走利"
      "象";
  std::string text;
  while (text.size() < text_bytes) {
    text += characters.substr(random.skewed(characters.size() / 3) * 3, 3);
    if (random.below(12) == 0) text += random.below(4) == 0 ? "。" : "，";
    if (random.below(300) == 0) text += "\n";
    if (random.below(200) == 0) text += std::to_string(random.below(2030)) + "年";
  }
  return text;
}

std::string read_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

struct Timing {
  std::size_t tokens = 0;
  double seconds = 0;
};

Timing time_own(const llminfer::Tokenizer& tokenizer, const std::string& text) {
  Timing best{0, 1e9};
  llminfer::EncodeOptions options;
  options.bos = options.eos = llminfer::AddToken::no;
  for (int run = 0; run < 3; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const std::size_t tokens = tokenizer.encode(text, options).value().size();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (seconds < best.seconds) best = {tokens, seconds};
  }
  return best;
}

std::map<std::string, Timing> time_peer(const std::string& program, const std::string& vocabulary,
                                        const std::vector<std::string>& files) {
  std::string command = "'" + program + "' time '" + vocabulary + "'";
  for (const std::string& file : files) command += " '" + file + "'";
  std::map<std::string, Timing> timings;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return timings;
  char name[4096];
  Timing timing;
  while (std::fscanf(pipe, "%4095s %zu %lf", name, &timing.tokens, &timing.seconds) == 3) timings[name] = timing;
  pclose(pipe);
  return timings;
}

int run(const std::string& vocabulary, const std::string& peer, std::vector<std::string> files) {
  const auto start = std::chrono::steady_clock::now();
  const llminfer::Tokenizer tokenizer = llminfer::Tokenizer::open(llminfer::ModelSource::file(vocabulary)).value();
  const double load = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%s: %d tokens, opened in %.0f ms\n", vocabulary.c_str(), tokenizer.size(), load * 1e3);
  if (files.empty()) {
    const auto folder = std::filesystem::temp_directory_path() / "llminfer-tokenize-bench";
    std::filesystem::create_directories(folder);
    for (const auto& [name, text] :
         {std::pair{"english", english()}, std::pair{"code", code()}, std::pair{"chinese", chinese()}}) {
      files.push_back((folder / name).string());
      std::ofstream(files.back(), std::ios::binary) << text;
    }
  }
  const std::map<std::string, Timing> others =
      peer.empty() ? std::map<std::string, Timing>{} : time_peer(peer, vocabulary, files);
  std::printf("%-24s %10s %10s %10s %10s %8s\n", "text", "bytes", "tokens", "MB/s", "peer MB/s", "ratio");
  for (const std::string& file : files) {
    const std::string text = read_file(file);
    const Timing own = time_own(tokenizer, text);
    const double speed = static_cast<double>(text.size()) / own.seconds / 1e6;
    std::printf("%-24s %10zu %10zu %10.2f", std::filesystem::path(file).filename().c_str(), text.size(), own.tokens,
                speed);
    const auto other = others.find(file);
    if (other != others.end()) {
      const double peer_speed = static_cast<double>(text.size()) / other->second.seconds / 1e6;
      std::printf(" %10.2f %8.1f%s", peer_speed, speed / peer_speed,
                  other->second.tokens == own.tokens ? "" : "  (the peer has another number of tokens)");
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string vocabulary, peer;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--peer" && i + 1 < argc) {
      peer = argv[++i];
    } else if (vocabulary.empty()) {
      vocabulary = argument;
    } else {
      files.push_back(argument);
    }
  }
  if (vocabulary.empty()) {
    std::fprintf(stderr, "usage: tokenize_bench VOCABULARY [--peer PROGRAM] [FILE...]\n");
    return 2;
  }
  try {
    return run(vocabulary, peer, files);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenize_bench: %s\n", error.what());
    return 1;
  }
}
