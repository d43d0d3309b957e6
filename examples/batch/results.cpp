#include "results.h"

#include <nlohmann/json.hpp>

namespace examples {

using json = nlohmann::ordered_json;

std::size_t Results::add(int count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.push_back({std::vector<Answer>(static_cast<std::size_t>(count)), count, {}});
  ++open_;
  return first_ + entries_.size() - 1;
}

void Results::add_error(const std::string& message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.push_back({{}, 0, message});
  ++failed_;
  write_ready();
}

void Results::append(std::size_t prompt, int answer, std::string_view text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  at(prompt).answers[static_cast<std::size_t>(answer)].text += text;
  ++new_tokens_;
}

void Results::end(std::size_t prompt, int answer, llminfer::Result<llminfer::Outcome> outcome) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = at(prompt);
  Answer& ended = entry.answers[static_cast<std::size_t>(answer)];
  failed_ += outcome ? 0 : 1;
  ended.outcome = std::move(outcome);
  ended.ended = true;
  if (--entry.to_come > 0) return;
  --open_;
  write_ready();
  changed_.notify_all();
}

bool Results::wait(std::size_t open, std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, most, [&] { return open_ <= open; });
}

void Results::write_ready() {
  while (!entries_.empty() && entries_.front().to_come == 0) {
    write(first_, entries_.front());
    entries_.pop_front();
    ++first_;
  }
}

void Results::write(std::size_t prompt, const Entry& entry) {
  const auto put = [this](const json& line) {
    const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    std::fwrite(text.data(), 1, text.size(), out_);
  };
  if (!entry.error.empty()) put({{"index", prompt}, {"error", entry.error}});
  for (std::size_t i = 0; i < entry.answers.size(); ++i) {
    const Answer& answer = entry.answers[i];
    json line = {{"index", prompt}};
    if (entry.answers.size() > 1) line["choice"] = i;
    line["text"] = answer.text;
    if (answer.outcome) {
      line["finish"] = llminfer::to_string(answer.outcome->finish);
      line["prompt_tokens"] = answer.outcome->prompt_tokens;
      line["reused_tokens"] = answer.outcome->reused_tokens;
      line["new_tokens"] = answer.outcome->new_tokens;
    } else {
      line["error"] = answer.outcome.error().message;
    }
    put(line);
  }
  std::fflush(out_);
}

std::size_t Results::done() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_ + entries_.size() - open_;
}
std::size_t Results::all() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_ + entries_.size();
}
std::size_t Results::failed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failed_;
}
std::size_t Results::new_tokens() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return new_tokens_;
}

}  // namespace examples
