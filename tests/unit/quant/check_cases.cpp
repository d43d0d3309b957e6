// Checks the cases on standard input (case_file.h); prints what differs and a count a type; exit status 1 on a
// difference.
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <string>

#include "case_file.h"

int main() try {
  std::map<std::string, std::size_t> weights;
  int failures = 0;
  while (const auto record = quant_test::read_case(std::cin)) {
    const std::string title = (record->packs ? "pack " : "unpack ") + std::string(record->type->info.name);
    if (record->packs && record->type->pack_row == nullptr) {
      std::printf("%s: no packer\n", title.c_str());
      ++failures;
      continue;
    }
    weights[title] += record->floats.size();
    if (const auto at = quant_test::first_difference(*record)) {
      std::printf("%s: differs at %s %zu\n", title.c_str(), record->packs ? "byte" : "weight", *at);
      ++failures;
    }
  }
  for (const auto& [title, count] : weights) std::printf("%s: %zu weights\n", title.c_str(), count);
  if (weights.empty()) std::printf("no cases\n");
  return failures != 0 || weights.empty() ? 1 : 0;
} catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}
