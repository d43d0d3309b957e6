// What all programs share: parsing, errors, exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <stdexcept>
#include <string>

namespace examples {

/// Exit codes of every program, as --help lists them.
enum ExitCode : int { exit_ok = 0, exit_run_error = 1, exit_usage = 2, exit_interrupted = 130 };

/// Options that do not go together: reported like an unknown option, exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parses the command line and calls `body`, which returns the exit code. What is thrown becomes one line on standard
/// error that begins with the program's name, and an exit code.
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

}  // namespace examples
