// Good files with a few bytes changed: each is read or refused with one line, and nothing else
// happens. Under the sanitizers this also shows that no read leaves its memory.
#include <random>

#include "common/io/npy.hpp"
#include "common/io/safetensors.hpp"
#include "tests/io/files.hpp"

using namespace fa;

namespace {
constexpr int kFiles = 3000;

// What headers are made of: replacing one by another gets further than random bytes do.
const std::vector<std::string> kPieces = {"0",
                                          "1",
                                          "-1",
                                          "2",
                                          "16",
                                          "4294967296",
                                          "9223372036854775807",
                                          "18446744073709551616",
                                          "1e9",
                                          "[",
                                          "]",
                                          "{",
                                          "}",
                                          "(",
                                          ")",
                                          ",",
                                          ":",
                                          "'",
                                          "\"",
                                          "\\",
                                          " ",
                                          "\n",
                                          "F32",
                                          "F16",
                                          "BF16",
                                          "F64",
                                          "'<f4'",
                                          "'>f8'",
                                          "'|O'",
                                          "True",
                                          "False",
                                          "null",
                                          "\"shape\"",
                                          "\"data_offsets\"",
                                          "\"__metadata__\"",
                                          "'shape'",
                                          std::string(1, '\0'),
                                          "\xff",
                                          "\x93NUMPY"};

std::string mutated(std::string bytes, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const std::size_t at = below(bytes.size() + 1);
    const std::size_t length = std::min(below(8), bytes.size() - at);
    switch (below(4)) {
      case 0:
        bytes.replace(at, length, kPieces[below(kPieces.size())]);
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(below(bytes.size() + 1), length));
        break;
      case 3:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
    }
  }
  return bytes;
}

template <class Read>
void try_mutations(const std::string& good, Read read) {
  std::mt19937 random(1);
  TemporaryDirectory directory;
  const std::filesystem::path path = directory / "x";
  int refused = 0;
  for (int i = 0; i < kFiles; ++i) {
    write_bytes(path, mutated(good, random));
    bool was_read = true;
    try {
      read(path);
    } catch (const Refused&) {
      was_read = false;
    }
    if (was_read) continue;
    ++refused;
    refusal([&] { read(path); });
  }
  CHECK(refused > kFiles / 4);
  CHECK(refused < kFiles);
}
}  // namespace

TEST_CASE("mutations: safetensors", "[io][safetensors]") {
  TemporaryDirectory directory;
  const Storage Q(DType::float32, 1, 2, 3, 2), K(DType::float16, 1, 1, 2, 2);
  write_safetensors(directory / "x", {{"q", Q.view()}, {"k", K.view()}}, {{"causal", "true"}});
  try_mutations(read_bytes(directory / "x"), [](const auto& path) {
    for (const auto& [name, X] : read_safetensors(path).tensors) values_of(X);
  });
}

TEST_CASE("mutations: npy", "[io][npy]") {
  TemporaryDirectory directory;
  write_npy(directory / "x", Storage(DType::float32, 1, 2, 3, 2).view());
  std::string good = read_bytes(directory / "x");
  for (const char* type : {"<f4", ">f4"}) {
    good.replace(good.find("f4") - 1, 3, type);
    try_mutations(good, [](const auto& path) { values_of(read_npy(path)); });
  }
}
