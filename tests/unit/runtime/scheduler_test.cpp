// Thousands of random traces through the scheduler, against a plain model of requests and pages.
#include "runtime/scheduler.h"

#include <algorithm>
#include <map>
#include <random>

#include "catch.h"

using namespace llminfer;
using runtime::Schedule;
using runtime::ScheduledRequest;
using runtime::SchedulerLimits;

namespace {

struct Job {
  ScheduledRequest view;
  std::int32_t prompt = 0, wanted = 0;  // tokens to generate
  std::int32_t generated = 0;
  double weight = 1;
  int caller = 0;
  std::int32_t charged = 0;
};

/// One pool and its jobs: applies plans as an engine does, and requires of each plan what must always hold.
class Trace {
 public:
  Trace(SchedulerLimits limits, std::int32_t page_size)
      : limits_(limits), page_size_(page_size), free_(limits.total_pages[0]) {
    plan_.reserve(4096);
  }

  void add(Job job) {
    job.view.arrival = arrivals_++;
    job.view.arrival_step = step_;
    job.view.tokens = job.prompt;
    job.view.ready = true;
    double least = jobs_.empty() ? 0 : jobs_.front().view.served;
    for (const Job& j : jobs_) least = std::min(least, j.view.served);
    job.view.served = least;
    if (job.caller != 0 && callers_.count(job.caller) == 0) callers_[job.caller] = 0;
    jobs_.push_back(job);
  }

  void step() {
    std::vector<ScheduledRequest> views;
    for (Job& job : jobs_) {
      job.view.caller_served = callers_[job.caller];
      job.view.missing = missing(job);
      views.push_back(job.view);
    }
    runtime::schedule(limits_, {views, free_, step_}, plan_);
    apply();
    ++step_;
    collect();
  }

  void cancel(std::size_t index) {
    Job& job = jobs_[index];
    job.wanted = job.generated;
    collect();
  }

  std::vector<Job>& jobs() { return jobs_; }
  int ended() const { return ended_; }
  int failed() const { return failed_; }
  std::uint64_t longest() const { return longest_; }  // steps from arrival to end
  std::uint64_t steps() const { return step_; }
  std::int64_t preemptions() const { return preemptions_; }
  std::int64_t free() const { return free_; }

 private:
  std::int64_t missing(const Job& j) const {
    return std::max<std::int64_t>(0, pages_for(j.view.tokens) - j.view.pages[0]);
  }
  std::int32_t pages_for(std::int32_t tokens) const { return (tokens + page_size_ - 1) / page_size_; }
  Job& job(std::int32_t i) { return jobs_[static_cast<std::size_t>(i)]; }

  void apply() {
    for (const std::int32_t i : plan_.preempt) {
      ++preemptions_;
      drop_pages(job(i));
      job(i).view.running = false;
    }
    for (const std::int32_t i : plan_.admit) {
      REQUIRE_FALSE(job(i).view.running);
      REQUIRE(job(i).view.ready);
      job(i).view.running = true;
    }
    for (const std::int32_t i : plan_.fail) {
      REQUIRE(pages_for(job(i).view.tokens) > limits_.total_pages[0]);  // else it could have run alone
      drop_pages(job(i));
      job(i).generated = job(i).wanted = 0;
      job(i).view.running = false;
      ++failed_;
      gone_.push_back(job(i).view.arrival);
    }
    const auto running = std::count_if(jobs_.begin(), jobs_.end(), [](const Job& j) { return j.view.running; });
    REQUIRE(running <= limits_.max_sequences);
    run_items();
  }

  void run_items() {
    std::int32_t tokens = 0;
    std::vector<std::int32_t> seen;
    for (const Schedule::Item& item : plan_.items) {
      Job& j = job(item.request);
      REQUIRE((j.view.running && j.view.ready));
      REQUIRE(std::find(seen.begin(), seen.end(), item.request) == seen.end());
      seen.push_back(item.request);
      REQUIRE((item.count > 0 && item.count <= j.view.tokens - j.view.computed));
      tokens += item.count;
      const std::int64_t take = missing(j);
      REQUIRE(take <= free_);  // pages were there
      free_ -= take;
      j.view.pages += take;
      j.view.computed += item.count;
      if (j.view.computed > j.charged) {
        j.view.served += (j.view.computed - j.charged) / j.weight;
        callers_[j.caller] += (j.view.computed - j.charged) / j.weight;
      }
      j.charged = std::max(j.charged, j.view.computed);
      if (j.view.computed == j.view.tokens) {
        ++j.generated;
        ++j.view.tokens;
      }
    }
    REQUIRE(tokens <= limits_.step_tokens);
    const bool waits = std::any_of(jobs_.begin(), jobs_.end(), [](const Job& j) { return j.view.ready; });
    if (waits) REQUIRE((tokens > 0 || !plan_.empty()));  // somebody gets on
  }

  void drop_pages(Job& j) {
    free_ += j.view.pages[0];
    j.view.pages = 0;
    j.view.computed = 0;
  }

  void collect() {
    for (std::size_t i = 0; i < jobs_.size();) {
      Job& j = jobs_[i];
      const bool failed = std::find(gone_.begin(), gone_.end(), j.view.arrival) != gone_.end();
      if (!failed && j.generated < j.wanted) {
        ++i;
        continue;
      }
      longest_ = std::max(longest_, step_ - j.view.arrival_step);
      if (!failed) {
        REQUIRE(j.generated == j.wanted);
        REQUIRE(j.view.tokens == j.prompt + j.wanted);
        ++ended_;
      }
      drop_pages(j);
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    gone_.clear();
  }

  SchedulerLimits limits_;
  std::int32_t page_size_;
  std::int64_t free_;
  std::vector<Job> jobs_;
  std::vector<std::uint64_t> gone_;
  std::map<int, double> callers_;
  Schedule plan_;
  std::uint64_t step_ = 0, arrivals_ = 0;
  std::int64_t preemptions_ = 0;
  int ended_ = 0, failed_ = 0;
  std::uint64_t longest_ = 0;
};

Job job_of(std::int32_t prompt, std::int32_t wanted, int priority = 0, double weight = 1) {
  Job job;
  job.prompt = prompt;
  job.wanted = wanted;
  job.weight = weight;
  job.view.priority = priority;
  return job;
}

}  // namespace

TEST_CASE("random traces: every request ends, nothing exceeds its limit") {
  std::mt19937 random(7);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::int64_t preemptions = 0;
  int failed = 0;
  for (int trace = 0; trace < 3000; ++trace) {
    SchedulerLimits limits;
    limits.step_tokens = 1 + upto(trace % 2 == 0 ? 4 : 60);
    limits.max_sequences = 1 + upto(8);
    limits.total_pages = 2 + upto(12);
    limits.aging = trace % 3 == 0 ? 50 : 4096;
    Trace t(limits, 4);
    const int jobs = 1 + upto(20);
    int added = 0;
    while (added < jobs || !t.jobs().empty()) {
      if (added < jobs && upto(3) == 0) {
        t.add(job_of(1 + upto(30), 1 + upto(20), upto(3) - 1, 1 + upto(3)));
        ++added;
      }
      // A client that stops reading for a while, and one that goes.
      if (!t.jobs().empty() && upto(6) == 0) {
        Job& j = t.jobs()[static_cast<std::size_t>(upto(static_cast<int>(t.jobs().size())))];
        j.view.ready = !j.view.ready;
      }
      if (!t.jobs().empty() && upto(40) == 0) {
        t.cancel(static_cast<std::size_t>(upto(static_cast<int>(t.jobs().size()))));
      }
      if (t.steps() > 4000) {
        for (Job& j : t.jobs()) j.view.ready = true;
      }
      t.step();
      REQUIRE(t.steps() < 12000);
    }
    REQUIRE(t.ended() + t.failed() == jobs);
    REQUIRE(t.free() == limits.total_pages[0]);
    preemptions += t.preemptions();
    failed += t.failed();
  }
  CHECK(preemptions > 1000);
  CHECK(failed > 100);  // some prompts exceed the whole pool
}

TEST_CASE("weights share the tokens of a full step") {
  SchedulerLimits limits;
  limits.step_tokens = 4;
  limits.max_sequences = 8;
  limits.total_pages = 10000;
  Trace t(limits, 4);
  for (int i = 0; i < 8; ++i) t.add(job_of(1, 4000, 0, i < 4 ? 2 : 1));
  for (int step = 0; step < 1200; ++step) t.step();
  double heavy = 0;
  double light = 0;
  for (const Job& j : t.jobs()) (j.weight > 1.5 ? heavy : light) += j.generated;
  CHECK(heavy / light == Approx(2.0).margin(0.05));
}

TEST_CASE("weights share the tokens among callers, however many requests they have") {
  SchedulerLimits limits;
  limits.step_tokens = 64;  // more than all running can use: what counts is who is admitted
  limits.max_sequences = 8;
  limits.total_pages = 200;
  Trace t(limits, 4);
  std::mt19937 random(3);
  std::map<int, std::int64_t> tokens;
  for (int step = 0; step < 20000; ++step) {
    std::map<int, int> waiting;
    for (const Job& j : t.jobs()) waiting[j.caller] += 1;
    for (const int caller : {1, 2, 3}) {  // never out of work; the third has many more requests than the others
      for (int n = waiting[caller]; n < (caller == 3 ? 40 : 12); ++n) {
        Job job =
            job_of(1 + static_cast<int>(random() % 30), 1 + static_cast<int>(random() % 40), 0, caller == 2 ? 2 : 1);
        job.caller = caller;
        t.add(job);
      }
    }
    std::map<std::uint64_t, std::int32_t> before;
    for (const Job& j : t.jobs()) before[j.view.arrival] = j.charged;
    t.step();
    for (const Job& j : t.jobs()) tokens[j.caller] += j.charged - before[j.view.arrival];
  }
  CHECK(static_cast<double>(tokens[2]) / static_cast<double>(tokens[1]) == Approx(2.0).margin(0.2));
  CHECK(static_cast<double>(tokens[3]) / static_cast<double>(tokens[1]) == Approx(1.0).margin(0.1));
}

TEST_CASE("a million requests: each ends, none waits for ever", "[.long]") {
  SchedulerLimits limits;
  limits.step_tokens = 48;
  limits.max_sequences = 16;
  limits.total_pages = 90;
  limits.aging = 512;
  Trace t(limits, 4);
  std::mt19937 random(5);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  constexpr int all = 1'000'000;
  int added = 0;
  while (added < all || !t.jobs().empty()) {
    const std::size_t room = t.jobs().size() < 60 ? 60 - t.jobs().size() : 0;
    for (std::size_t n = std::min<std::size_t>(room, static_cast<std::size_t>(upto(6))); n > 0 && added < all; --n) {
      Job job = job_of(1 + upto(40), 1 + upto(12), upto(3) - 1, 1 + upto(3));
      job.caller = 1 + upto(4);
      t.add(job);
      ++added;
    }
    if (!t.jobs().empty() && upto(50) == 0) {
      t.cancel(static_cast<std::size_t>(upto(static_cast<int>(t.jobs().size()))));
    }
    t.step();
  }
  CHECK(t.ended() + t.failed() == all);
  CHECK(t.failed() == 0);
  CHECK(t.free() == limits.total_pages);
  CHECK(t.preemptions() > 1000);
  CHECK(t.longest() < 6000);  // a few levels of age
}

TEST_CASE("generating sequences and a long prompt go on side by side") {
  SchedulerLimits limits;
  limits.step_tokens = 16;
  limits.max_sequences = 8;
  limits.total_pages = 10000;
  Trace t(limits, 4);
  for (int i = 0; i < 7; ++i) t.add(job_of(1, 500));
  for (int step = 0; step < 10; ++step) t.step();
  t.add(job_of(900, 10));
  for (int step = 0; step < 101; ++step) t.step();
  for (const Job& j : t.jobs()) CHECK(j.generated >= (j.prompt == 900 ? 1 : 111));
}

TEST_CASE("a higher priority pushes out, and age brings the lower one to its turn") {
  SchedulerLimits limits;
  limits.step_tokens = 8;
  limits.max_sequences = 1;
  limits.total_pages = 100;
  limits.aging = 100;
  Trace t(limits, 4);
  t.add(job_of(4, 50, 0));
  t.step();
  int added = 0;
  bool low_there = true;
  while (low_there) {
    if (t.jobs().size() < 3) {
      t.add(job_of(4, 20, 2));
      ++added;
    }
    t.step();
    low_there = std::any_of(t.jobs().begin(), t.jobs().end(), [](const Job& j) { return j.view.priority == 0; });
    REQUIRE(t.steps() < 2000);
  }
  CHECK(added >= 5);
  CHECK(t.preemptions() >= 1);
}
