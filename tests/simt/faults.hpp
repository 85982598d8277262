// How tests of the emulator's findings are written: a kernel that makes a mistake, and a comment
// `//! name` at the line that is to be named.
#pragma once

#include <algorithm>
#include <fstream>
#include <string>

#include "tests/catch.hpp"
#include "tests/simt/device_array.hpp"

namespace fa::test {

/// The line of these files that ends with the comment `//! name`.
inline int line_of(const std::string& name) {
  const std::string mark = "//! " + name;
  for (const char* source : {"/faults.cpp", "/faults_tma.cpp"}) {
    std::ifstream file(std::string(FA_FAULTS_FOLDER) + source);  // __FILE__ may be a relative path
    std::string line;
    for (int number = 1; std::getline(file, line); ++number)
      if (line.size() >= mark.size() &&
          line.compare(line.size() - mark.size(), mark.size(), mark) == 0)
        return number;
  }
  FAIL("no line is marked " << name);
  return 0;
}

template <auto kernel, class... Arguments>
simt::Report run(unsigned blocks,
                 unsigned threads,
                 std::size_t shared_bytes,
                 const simt::Options& options,
                 Arguments&&... arguments) {
  simt::Session session(options);
  launch<kernel>(dim3(blocks), dim3(threads), shared_bytes, std::forward<Arguments>(arguments)...);
  return session.report();
}

inline void check_finds(const simt::Report& report, simt::Fault fault, const std::string& mark) {
  INFO(report.text());
  REQUIRE(!report.ok());
  CHECK(report.violations[0].fault == fault);
  CHECK(simt::line_of_site(report.violations[0].site) == line_of(mark));
}

/// A race has two lines; which of them is found to collide with the other is chance.
inline void check_finds_race(const simt::Report& report,
                             const std::string& one,
                             const std::string& other) {
  INFO(report.text());
  REQUIRE(!report.ok());
  CHECK(report.violations[0].fault == simt::Fault::race);
  const int a = simt::line_of_site(report.violations[0].site);
  const int b = simt::line_of_site(report.violations[0].other_site);
  CHECK(std::minmax({a, b}) == std::minmax({line_of(one), line_of(other)}));
}

inline void check_passes(const simt::Report& report) {
  INFO(report.text());
  CHECK(report.ok());
}

}  // namespace fa::test
