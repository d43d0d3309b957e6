// What came out of simulations: a table, JSON, and charts.
#pragma once

#include <llminfer/simulate.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace examples {

struct SimulatedRun {
  std::string policy{};
  double rate = 0;  ///< of arrivals, a second
  llminfer::SimulationReport report{};
};

/// One line a run; latencies in milliseconds.
std::string table(const std::vector<SimulatedRun>& runs);

nlohmann::ordered_json to_json(const SimulatedRun& run);

/// Over the rates if there are several, else over time.
std::string svg(const std::string& title, const std::vector<std::string>& lines, const std::vector<SimulatedRun>& runs);

}  // namespace examples
