#include "console.h"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "../common/format.h"
#include "../common/program.h"
#include "../common/stopwatch.h"
#include "transcript.h"

namespace examples {
namespace {

constexpr const char* fence = "\"\"\"";
constexpr const char* help =
    "/reset      start over; the system prompt stays\n"
    "/undo       take back the last question and its answer\n"
    "/save FILE  write the conversation as JSON\n"
    "/quit       leave; so does Ctrl-D\n"
    "/help       this list\n"
    "//...       a message that begins with a slash\n"
    "\"\"\"         alone on a line, begins and ends a message of several lines\n"
    "Ctrl-C cancels an answer; twice at the prompt it leaves.\n";

void note(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "[%s]\n", text.c_str());
}

void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

Console::Console(Conversation& conversation, CtrlC& ctrl_c, std::string model, llminfer::GenerateOptions generate,
                 bool stats)
    : conversation_(conversation),
      ctrl_c_(ctrl_c),
      reader_(STDIN_FILENO, ctrl_c.fd()),
      model_(std::move(model)),
      generate_(std::move(generate)),
      stats_(stats),
      terminal_(isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) {}

int Console::run() {
  if (terminal_) note(model_ + ", context " + std::to_string(conversation_.context()) + "; /help lists commands");
  for (bool interrupted = false;;) {
    const Message message = read();
    if (message.event == LineReader::Event::line) {
      interrupted = false;
      if (!handle(message)) return exit_ok;
      continue;
    }
    prompt("\n");
    if (message.event == LineReader::Event::end) return exit_ok;
    if (std::exchange(interrupted, true)) return exit_interrupted;
    note("Ctrl-C again, or Ctrl-D, to leave");
  }
}

void Console::prompt(const char* text) const {
  if (terminal_) write(text);
}

Console::Message Console::read() {
  prompt("> ");
  Message message;
  message.event = reader_.read(message.text);
  return message.event == LineReader::Event::line && message.text == fence ? read_fenced() : message;
}

// The lines up to the next fence, or to the end of the input.
Console::Message Console::read_fenced() {
  Message message{LineReader::Event::line, {}, true};
  for (std::string line;;) {
    prompt(". ");
    const LineReader::Event event = reader_.read(line);
    if (event == LineReader::Event::interrupted) return {event};
    if (event == LineReader::Event::end || line == fence) return message;
    if (!message.text.empty()) message.text += '\n';
    message.text += line;
  }
}

bool Console::handle(const Message& message) {
  const std::string& text = message.text;
  if (text.empty()) return true;
  const bool slash = !message.fenced && text[0] == '/';
  if (slash && text.rfind("//", 0) != 0) return command(text);
  ask(slash ? text.substr(1) : text);
  return true;
}

bool Console::command(const std::string& line) {
  const std::string name = line.substr(0, line.find(' '));
  const std::size_t argument = line.find_first_not_of(' ', name.size());
  if (name == "/quit") return false;
  if (name == "/help") {
    std::fputs(help, stderr);
  } else if (name == "/reset") {
    conversation_.reset();
    note("started over");
  } else if (name == "/undo") {
    undo();
  } else if (name == "/save") {
    save(argument == std::string::npos ? "" : line.substr(argument));
  } else {
    note("there is no command " + name + "; /help lists them, and // begins a message with a slash");
  }
  return true;
}

void Console::undo() {
  const bool done = conversation_.undo();
  note(done ? "took back the last question and its answer" : "there is nothing to take back");
}

void Console::save(const std::string& path) {
  if (path.empty()) return note("/save needs the name of a file");
  try {
    save_transcript(path, model_, conversation_.messages());
    note("saved " + std::to_string(conversation_.messages().size()) + " messages to " + path);
  } catch (const std::runtime_error& error) {
    note(error.what());
  }
}

// What goes wrong with one question ends that question.
void Console::ask(const std::string& text) {
  began_ = false;
  try {
    answer(text);
  } catch (const std::exception& error) {
    if (began_) write("\n");
    note(std::string(error.what()) + "; the question is taken back");
  }
  prompt("\n");
}

void Console::answer(const std::string& text) {
  const CtrlC::Work work(ctrl_c_);
  const Stopwatch watch;
  const auto show = [this](std::string_view piece) {
    write(piece);
    began_ = true;
  };
  const llminfer::Outcome outcome = conversation_.ask(text, generate_, show, work.token());
  write("\n");
  if (outcome.finish == llminfer::Finish::cancelled) {
    note(began_ ? "cancelled" : "cancelled; the question is taken back");
  } else if (outcome.finish == llminfer::Finish::context_full) {
    note("the answer ends here: the context of " + std::to_string(conversation_.context()) +
         " tokens is full. /undo or /reset make room");
  } else if (outcome.finish == llminfer::Finish::length) {
    note("the answer ends here: --max-tokens");
  }
  if (stats_) show_stats(outcome, watch.seconds());
}

void Console::show_stats(const llminfer::Outcome& outcome, double seconds) const {
  note(print("prompt: %d tokens, %d of them known; new: %d tokens; %.2f s; context: %d of %d tokens",
             outcome.prompt_tokens, outcome.reused_tokens, outcome.new_tokens, seconds, conversation_.tokens(),
             conversation_.context()));
}

}  // namespace examples
