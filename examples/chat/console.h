// The person's side of a chat: lines and commands in, answers and notes out.
#pragma once

#include <llminfer/generator.hpp>
#include <string>

#include "conversation.h"
#include "ctrl_c.h"
#include "line_reader.h"

namespace examples {

/// Reads standard input. Answers go to standard output, each ended by a newline, notes in brackets to standard error;
/// a prompt is shown on a terminal only.
class Console {
 public:
  /// Borrows `conversation` and `ctrl_c`. `model`: its name, for people and transcripts. `stats`: a line of counts and
  /// times after each answer.
  Console(Conversation& conversation, CtrlC& ctrl_c, std::string model, llminfer::GenerateOptions generate, bool stats);

  /// Until the input is over, /quit, or Ctrl-C twice; returns the program's exit code.
  int run();

 private:
  struct Message {
    LineReader::Event event = LineReader::Event::end;
    std::string text{};
    bool fenced = false;  // of several lines, and never a command
  };

  void prompt(const char* text) const;
  Message read();
  Message read_fenced();
  /// False: leave.
  bool handle(const Message& message);
  bool command(const std::string& line);
  void undo();
  void save(const std::string& path);
  void ask(const std::string& text);
  void answer(const std::string& text);
  void show_stats(const llminfer::Outcome& outcome, double seconds) const;

  Conversation& conversation_;
  CtrlC& ctrl_c_;
  LineReader reader_;
  std::string model_;
  llminfer::GenerateOptions generate_;
  bool stats_;
  bool terminal_;
  bool began_ = false;  // the answer has some text
};

}  // namespace examples
