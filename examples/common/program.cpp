#include "program.h"

#include <cstdio>
#include <llminfer/error.hpp>

namespace examples {
namespace {

int report(const CLI::App& app, int code, const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), message.c_str());
  return code;
}

int parse_and_run(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return report(app, exit_usage, std::string(error.what()) + " (see --help)");
  }
  return body();
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  app.footer("Exit codes: 0 done, 1 an error while running, 2 a wrong command line, 130 interrupted.");
  app.get_formatter()->column_width(34);
  try {
    const int code = parse_and_run(app, argc, argv, body);
    if (std::fflush(stdout) != 0) return report(app, exit_run_error, "standard output cannot be written");
    return code;
  } catch (const UsageError& error) {
    return report(app, exit_usage, error.what());
  } catch (const llminfer::Exception& error) {
    const llminfer::Error& e = error.error();
    return report(app, exit_run_error, e.message + " (" + e.where + ": " + llminfer::to_string(e.code) + ")");
  } catch (const std::exception& error) {
    return report(app, exit_run_error, error.what());
  }
}

}  // namespace examples
