#include "line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace examples {

LineReader::Event LineReader::read(std::string& line) {
  for (;;) {
    if (take(line)) return Event::line;
    if (ended_) return Event::end;
    pollfd fds[2] = {{interrupts_, POLLIN, 0}, {input_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category(), "waiting for standard input");
    }
    char byte = 0;
    if (fds[0].revents != 0 && ::read(interrupts_, &byte, 1) == 1) {
      buffer_.clear();
      return Event::interrupted;
    }
    if (fds[1].revents != 0) fill();
  }
}

bool LineReader::take(std::string& line) {
  const std::size_t newline = buffer_.find('\n');
  if (newline == std::string::npos && !(ended_ && !buffer_.empty())) return false;
  line = buffer_.substr(0, newline);
  buffer_.erase(0, newline == std::string::npos ? newline : newline + 1);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

void LineReader::fill() {
  char bytes[4096];
  const ssize_t count = ::read(input_, bytes, sizeof(bytes));
  if (count < 0 && errno != EINTR && errno != EAGAIN) {
    throw std::system_error(errno, std::generic_category(), "reading standard input");
  }
  if (count == 0) ended_ = true;
  if (count > 0) buffer_.append(bytes, static_cast<std::size_t>(count));
}

}  // namespace examples
