#include "common/harness/suggest.hpp"
#include "common/harness/units.hpp"
#include "tests/catch.hpp"

using namespace fa;

TEST_CASE("the nearest flag", "[cli]") {
  const std::vector<std::string> names = {"--causal", "--window", "--kv-heads", "-N", "-d", "--br"};
  CHECK(nearest("--casual", names) == "--causal");
  CHECK(nearest("--win", names) == "--window");
  CHECK(nearest("--KV_heads", names) == "--kv-heads");
  CHECK(nearest("--n", names) == "-N");
  CHECK(nearest("-D", names) == "-d");
  CHECK(nearest("--b", names) == "");
  CHECK(nearest("--zebra", names) == "");
  CHECK(nearest("--", names) == "");
  CHECK(nearest("", names) == "");
  CHECK(nearest(std::string(100'000, 'x'), names) == "");
}

TEST_CASE("numbers for people have three digits that count", "[cli]") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(8388608) == "8.39 MB");
  CHECK(bytes_text(34.4e9) == "34.4 GB");
  CHECK(bytes_text(999'999) == "1.00 MB");
  CHECK(seconds_text(0) == "0.00 us");
  CHECK(seconds_text(0.0123) == "12.3 ms");
  CHECK(seconds_text(123.4) == "123 s");
  CHECK(rate_text(714.2) == "714 GFLOP/s");
  CHECK(rate_text(5010) == "5.01 TFLOP/s");
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(65536) == "65,536");
  CHECK(count_text(-1234567) == "-1,234,567");
  CHECK(one_line("a\nb\tc\x7f") == "a b c ");
}
