// Lines of an input that Ctrl-C can break off.
#pragma once

#include <string>

namespace examples {

class LineReader {
 public:
  enum class Event {
    line,         ///< a line was read; the last one of the input need not end in a newline
    end,          ///< the input is over (Ctrl-D)
    interrupted,  ///< Ctrl-C; what was typed before it is dropped
  };

  /// Reads `input`; a byte from `interrupts` (CtrlC::fd()) is a Ctrl-C. Both stay the caller's.
  LineReader(int input, int interrupts) noexcept : input_(input), interrupts_(interrupts) {}

  /// Waits for the next event; `line` is filled for Event::line, without its newline.
  Event read(std::string& line);

 private:
  bool take(std::string& line);
  void fill();

  int input_;
  int interrupts_;
  std::string buffer_;  // read, but not handed out
  bool ended_ = false;
};

}  // namespace examples
