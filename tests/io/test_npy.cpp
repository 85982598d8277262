#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "common/io/npy.hpp"
#include "tests/io/files.hpp"

using namespace fa;
using Catch::Matchers::ContainsSubstring;

namespace {
// A file by hand.
std::string file_of(const std::string& header, const std::string& data, int major = 1) {
  return "\x93NUMPY" + little_endian(static_cast<unsigned>(major), 2) +
         little_endian(header.size(), major == 1 ? 2 : 4) + header + data;
}

std::string header_of(const std::string& descr,
                      const std::string& shape,
                      const char* fortran = "False") {
  return fmt::format(
      "{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n", descr, fortran, shape);
}

std::string doubles(const std::vector<double>& values) {
  std::string bytes;
  for (const double value : values) {
    unsigned long long bits;
    std::memcpy(&bits, &value, sizeof bits);
    bytes += little_endian(bits, 8);
  }
  return bytes;
}

std::string reversed(const std::string& bytes, std::size_t each) {
  std::string result;
  for (std::size_t i = 0; i < bytes.size(); i += each) {
    const std::string one = bytes.substr(i, each);
    result.append(one.rbegin(), one.rend());
  }
  return result;
}

struct Folder {
  TemporaryDirectory directory;
  std::filesystem::path path = directory / "q.npy";
  std::string note = "stale";

  Storage read(const std::string& bytes) {
    write_bytes(path, bytes);
    return read_npy(path, &note);
  }

  std::string refusal_of(const std::string& bytes) {
    const std::string line = refusal([&] { read(bytes); });
    REQUIRE(line.substr(0, path.string().size() + 2) == path.string() + ": ");
    return line.substr(path.string().size() + 2);
  }
};

const std::string kData = words({0x3f800000, 0xc0000000, 0x7f800001, 0x80000000, 0xffc12345, 1}, 4);
}  // namespace

TEST_CASE("npy: versions 1, 2 and 3, written by hand", "[io][npy]") {
  Folder folder;
  for (const int major : {1, 2, 3}) {
    const Storage X = folder.read(file_of(header_of("<f4", "(3, 2)"), kData, major));
    CHECK(X.view().dtype == DType::float32);
    CHECK(axes_of(X) == std::vector<Index>{1, 1, 3, 2});
    CHECK(bytes_of_tensor(X) == kData);
    CHECK(folder.note.empty());
  }
  CHECK_THAT(folder.refusal_of(file_of(header_of("<f4", "(3, 2)"), kData, 4)),
             ContainsSubstring("found .npy version 4.0, expected 1.0, 2.0 or 3.0"));
  CHECK_THAT(folder.refusal_of(file_of(header_of("<f4", "(3, 2)"), kData, 0)),
             ContainsSubstring("version 0.0"));
  std::string minor = file_of(header_of("<f4", "(3, 2)"), kData);
  minor[7] = 1;
  CHECK_THAT(folder.refusal_of(minor), ContainsSubstring("version 1.1"));
}

TEST_CASE("npy: axes", "[io][npy]") {
  Folder folder;
  CHECK(axes_of(folder.read(file_of(header_of("<f4", "(3, 1, 2)"), kData))) ==
        std::vector<Index>{1, 3, 1, 2});
  CHECK(axes_of(folder.read(file_of(header_of("<f4", "(3, 1, 2, 1)"), kData))) ==
        std::vector<Index>{3, 1, 2, 1});
  CHECK(axes_of(folder.read(file_of(header_of("<f4", "(0, 5)"), ""))) ==
        std::vector<Index>{1, 1, 0, 5});
  CHECK(axes_of(folder.read(file_of(header_of("<f8", "(7, 0, 5)", "True"), ""))) ==
        std::vector<Index>{1, 7, 0, 5});
  CHECK(folder.refusal_of(file_of(header_of("<f4", "(6,)"), kData)) ==
        "found shape [6], expected 2 to 4 axes: [N, d], [H, N, d] or [B, H, N, d]");
  CHECK_THAT(folder.refusal_of(file_of(header_of("<f4", "()"), "1234")),
             ContainsSubstring("found shape []"));
  CHECK_THAT(folder.refusal_of(file_of(header_of("<f4", "(1, 1, 1, 3, 2)"), kData)),
             ContainsSubstring("[1, 1, 1, 3, 2], expected 2 to 4 axes"));
}

TEST_CASE("npy: types", "[io][npy]") {
  Folder folder;
  SECTION("'<f2' bit by bit") {
    const std::string data = words({0x3c00, 0xc000, 0x7c01, 0xfe55, 0x8000, 0x0001}, 2);
    const Storage X = folder.read(file_of(header_of("<f2", "(2, 3)"), data));
    CHECK(X.view().dtype == DType::float16);
    CHECK(bytes_of_tensor(X) == data);
    CHECK(folder.note.empty());
  }
  SECTION("big-endian files are turned round") {
    const Storage X = folder.read(file_of(header_of(">f4", "(3, 2)"), reversed(kData, 4)));
    CHECK(bytes_of_tensor(X) == kData);
    const std::string halves = words({0x3c00, 0xc000, 0x7c01, 0xfe55}, 2);
    const Storage Y = folder.read(file_of(header_of(">f2", "(2, 2)"), reversed(halves, 2)));
    CHECK(bytes_of_tensor(Y) == halves);
    const Storage Z =
        folder.read(file_of(header_of(">f8", "(1, 2)"), reversed(doubles({1.5, -3}), 8)));
    CHECK(values_of(Z) == std::vector<float>{1.5f, -3});
    CHECK_THAT(folder.note, ContainsSubstring("'>f8' converted to float32"));
  }
  SECTION("'<f8' is converted, and said") {
    const Storage X =
        folder.read(file_of(header_of("<f8", "(1, 3)"), doubles({1.5, 0.1, -INFINITY})));
    CHECK(X.view().dtype == DType::float32);
    CHECK(values_of(X) == std::vector<float>{1.5f, 0.1f, -INFINITY});
    CHECK(folder.note == folder.path.string() + ": '<f8' converted to float32");
    CHECK_NOTHROW(read_npy(folder.path, nullptr));
    CHECK_NOTHROW(read_npy(folder.path));
  }
  SECTION("'<f8' beyond float32's range") {
    const double most = std::numeric_limits<float>::max();
    const Storage X = folder.read(
        file_of(header_of("<f8", "(2, 3)"), doubles({1e39, -1e300, INFINITY, NAN, most, 1e-300})));
    const std::vector<float> values = values_of(X);
    CHECK(values[0] == INFINITY);
    CHECK(values[1] == -INFINITY);
    CHECK(values[2] == INFINITY);
    CHECK(std::isnan(values[3]));
    CHECK(values[4] == std::numeric_limits<float>::max());
    CHECK(values[5] == 0);
    CHECK_THAT(folder.note,
               ContainsSubstring("; 2 of 6 values lie beyond its range and became infinite"));
  }
  SECTION("'<f8' longer than the piece that is converted at once") {
    std::vector<double> values(70000 * 2);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    const Storage X = folder.read(file_of(header_of("<f8", "(70000, 2)"), doubles(values)));
    CHECK(X.view().at(0, 0, 0, 1) == 1);
    CHECK(X.view().at(0, 0, 32768, 0) == 65536);
    CHECK(X.view().at(0, 0, 69999, 1) == 139999);
  }
  SECTION("others are refused by name") {
    CHECK(folder.refusal_of(file_of(header_of("<i8", "(3, 2)"), std::string(48, '\0'))) ==
          "found type '<i8', expected '<f4', '<f2' or '<f8'");
    for (const char* descr :
         {"|u1", "<c8", "|b1", "<f16", "f4", "=f4", "|f4", "<f", "", "<", "<U3", "<f4 ", "<F4"})
      CHECK_THAT(folder.refusal_of(file_of(header_of(descr, "(3, 2)"), kData)),
                 ContainsSubstring(fmt::format("found type '{}'", descr)));
    CHECK_THAT(folder.refusal_of(file_of(header_of("|O", "(3, 2)"), "\x80\3cos\nsystem")),
               ContainsSubstring("found type '|O', expected '<f4', '<f2' or '<f8' (pickled"));
    CHECK_THAT(folder.refusal_of(file_of(header_of("<V2", "(3, 2)"), std::string(12, '\0'))),
               ContainsSubstring("bfloat16?"));
    CHECK_THAT(folder.refusal_of(file_of("{'descr': [('x', '<f4')], 'fortran_order': False, "
                                         "'shape': (3, 2), }",
                                         kData)),
               ContainsSubstring("found a structured type"));
  }
}

TEST_CASE("npy: Fortran order is transposed", "[io][npy]") {
  Folder folder;
  // Element (b, h, i, x) has the value bhix in decimal, and the first axis varies fastest.
  const std::vector<std::vector<Index>> shapes = {{1, 1, 4, 3}, {1, 2, 3, 4}, {2, 3, 2, 5}};
  for (const std::vector<Index>& s : shapes) {
    std::vector<double> values;
    for (Index x = 0; x < s[3]; ++x)
      for (Index i = 0; i < s[2]; ++i)
        for (Index h = 0; h < s[1]; ++h)
          for (Index b = 0; b < s[0]; ++b)
            values.push_back(static_cast<double>(1000 * b + 100 * h + 10 * i + x));
    std::string f4, f2;
    for (const double value : values) {
      f4 += words({detail::bits_of(static_cast<float>(value))}, 4);
      f2 += words({float16(static_cast<float>(value)).bits}, 2);
    }
    const std::string four = fmt::format("({}, {}, {}, {})", s[0], s[1], s[2], s[3]);
    const std::string three = fmt::format("({}, {}, {})", s[1], s[2], s[3]);
    const std::string two = fmt::format("({}, {})", s[2], s[3]);
    std::vector<std::string> files = {file_of(header_of("<f4", four, "True"), f4),
                                      file_of(header_of("<f2", four, "True"), f2),
                                      file_of(header_of(">f4", four, "True"), reversed(f4, 4)),
                                      file_of(header_of("<f8", four, "True"), doubles(values))};
    if (s[0] == 1) files.push_back(file_of(header_of("<f4", three, "True"), f4));
    if (s[0] * s[1] == 1) files.push_back(file_of(header_of("<f4", two, "True"), f4));
    for (const std::string& bytes : files) {
      const Storage X = folder.read(bytes);
      REQUIRE(axes_of(X) == s);
      for (Index b = 0; b < s[0]; ++b)
        for (Index h = 0; h < s[1]; ++h)
          for (Index i = 0; i < s[2]; ++i)
            for (Index x = 0; x < s[3]; ++x)
              REQUIRE(X.view().at(b, h, i, x) ==
                      static_cast<float>(1000 * b + 100 * h + 10 * i + x));
    }
  }
}

TEST_CASE("npy: the header is a Python dictionary", "[io][npy]") {
  Folder folder;
  const auto file = [](const std::string& header) { return file_of(header, kData); };
  SECTION("spellings that mean the same") {
    for (const char* header :
         {"{'shape': (3, 2), 'fortran_order': False, 'descr': '<f4'}",
          R"({"descr":"<f4","fortran_order":False,"shape":(3,2)})",
          " \t{ 'descr' : '<f4' ,\n'fortran_order' :False, 'shape':( 3 , 2 , ) , } \r\n",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 2L), }"})
      CHECK(axes_of(folder.read(file(header))) == std::vector<Index>{1, 1, 3, 2});
  }
  SECTION("spellings that mean nothing") {
    for (const char* header : {"",
                               "{",
                               "}",
                               "hello",
                               "{'descr'}",
                               "{'descr': }",
                               "{'descr': '<f4'",
                               "{'descr': '<f4",
                               "{'descr': '<f4\"}",
                               "{'descr': '<f4' 'shape': (3, 2)}",
                               "{,}",
                               "{'descr': '<f4',, 'shape': (3, 2)}",
                               "{'shape': (3 2)}",
                               "{'shape': (3, 2}",
                               "{'shape': (,)}",
                               "{'shape': (3,,2)}",
                               "{'shape': (-3, 2)}",
                               "{'shape': (3.0, 2)}",
                               "{'shape': (03, 2)}",
                               "{'shape': (3)}",
                               "{'shape': 3}",
                               "{'shape': [3, 2]}",
                               "{'shape': (3, 2)l}",
                               "{'shape': (9223372036854775808, 2)}",
                               "{'shape': (99999999999999999999999999, 2)}",
                               "{'fortran_order': false}",
                               "{'fortran_order': 0}",
                               "{'fortran_order': 'False'}",
                               "{'descr': '<f\\x34'}",
                               "{'descr': '<f4\n'}",
                               "{'descr': \"\x1b[31m\"}",
                               "{descr: '<f4'}",
                               "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)} x",
                               "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}{}"})
      CHECK_THAT(folder.refusal_of(file(header)),
                 ContainsSubstring("header isn't a .npy dictionary: found "));
    CHECK(folder.refusal_of(file("{'shape': (3, 2.5)}")) ==
          "header isn't a .npy dictionary: found . at its byte 15, expected ',' or "
          "')'");
    CHECK_THAT(folder.refusal_of(file(header_of("<f4", "(3, 2)") + std::string(3, '\0'))),
               ContainsSubstring("found \\x00"));
    CHECK_THAT(folder.refusal_of(file("{'" + std::string(5000, 'x'))),
               ContainsSubstring("short plain string"));
    CHECK_THAT(folder.refusal_of(file("{'shape': (" + std::string(30000, '(') + "")),
               ContainsSubstring("expected an integer"));
    std::string axes = "(";
    for (int i = 0; i < 100; ++i) axes += "1,";
    CHECK_THAT(folder.refusal_of(file(header_of("<f4", axes + ")"))),
               ContainsSubstring("at most 64 axes"));
  }
  SECTION("keys") {
    CHECK(folder.refusal_of(file("{'descr': '<f4', 'shape': (3, 2)}")) ==
          "header has no key 'fortran_order'");
    CHECK_THAT(folder.refusal_of(file("{}")), ContainsSubstring("no key 'descr'"));
    CHECK(folder.refusal_of(file("{'descr': '<f4', 'descr': '<f2'}")) ==
          "header has the key 'descr' twice");
    CHECK(folder.refusal_of(file("{'descr': '<f4', 'evil': 1}")) ==
          "header has the key 'evil', expected descr, fortran_order and shape");
  }
}

TEST_CASE("npy: sizes that don't fit", "[io][npy]") {
  Folder folder;
  const std::string good = file_of(header_of("<f4", "(3, 2)"), kData);
  SECTION("every truncation is refused") {
    for (std::size_t size = 0; size < good.size(); ++size) {
      CAPTURE(size);
      folder.refusal_of(good.substr(0, size));
    }
    CHECK(folder.refusal_of("") ==
          "not a .npy file: found 0 bytes, expected \\x93NUMPY, a version and a header");
    CHECK_THAT(folder.refusal_of(good.substr(0, 30)),
               ContainsSubstring(
                   "found a header length of 60, expected at most 20 (all that the file has)"));
    CHECK(folder.refusal_of(good.substr(0, good.size() - 1)) ==
          "truncated data: found 23 bytes after the header, <f4 [3, 2] needs 24");
    const std::string second = file_of(header_of("<f4", "(3, 2)"), kData, 2);
    for (std::size_t size = 0; size < 20; ++size) folder.refusal_of(second.substr(0, size));
  }
  SECTION("trailing data") {
    CHECK(folder.refusal_of(good + "x") ==
          "trailing data: found 25 bytes after the header, <f4 [3, 2] needs 24");
    CHECK_THAT(folder.refusal_of(good + good), ContainsSubstring("trailing"));
  }
  SECTION("other files") {
    CHECK_THAT(folder.refusal_of("PK\3\4 and so on"),
               ContainsSubstring("found a zip archive (.npz?"));
    CHECK_THAT(folder.refusal_of("hello, world"), ContainsSubstring("found other first bytes"));
    CHECK_THAT(folder.refusal_of("\x93NUMPX" + good.substr(6)),
               ContainsSubstring("found other first bytes"));
  }
  SECTION("header lengths") {
    const std::string start = std::string("\x93NUMPY\2\0", 8);
    CHECK_THAT(folder.refusal_of(start + "\xff\xff\xff\xff"),
               ContainsSubstring("found a header length of 4294967295"));
    write_bytes(folder.path, start + little_endian(1 << 21, 4));
    std::filesystem::resize_file(folder.path, 1 << 22);
    CHECK_THAT(refusal([&] { read_npy(folder.path); }),
               ContainsSubstring("expected at most 1048576"));
  }
  SECTION("shapes that overflow") {
    for (const char* shape : {"(4294967296, 4294967296)",
                              "(4611686018427387904, 2, 2)",
                              "(9223372036854775807, 9223372036854775807)",
                              "(0, 9223372036854775807, 9223372036854775807)"})
      CHECK_THAT(folder.refusal_of(file_of(header_of("<f4", shape), "")),
                 ContainsSubstring("is too large"));
    CHECK_THAT(folder.refusal_of(file_of(header_of("<f8", "(281474976710656, 1)"), kData)),
               ContainsSubstring("truncated data: found 24 bytes after the header"));
  }
  SECTION("more than the machine's memory") {
    const std::string header = header_of("<f2", "(1048576, 1048576)");
    write_bytes(folder.path, file_of(header, ""));
    std::error_code error;  // sparse, where the file system knows that and such sizes
    std::filesystem::resize_file(folder.path, 10 + header.size() + 2199023255552, error);
    if (!error)
      CHECK_THAT(refusal([&] { read_npy(folder.path); }),
                 ContainsSubstring("need 2199023255552 bytes"));
  }
}

TEST_CASE("npy: files that aren't there or aren't files", "[io][npy]") {
  TemporaryDirectory directory;
  const std::filesystem::path path = directory / "none.npy";
  CHECK(refusal([&] { read_npy(path); }) == path.string() + ": no such file");
  CHECK_THAT(refusal([&] { read_npy(directory.path()); }), ContainsSubstring("found a directory"));
}

TEST_CASE("npy: what is written", "[io][npy]") {
  Folder folder;
  Storage X(DType::float16, 1, 2, 1, 3);
  const std::string data = words({0x3c00, 0xc000, 0x7c01, 0xfdff, 0x8000, 0x0001}, 2);
  std::memcpy(X.view().data, data.data(), data.size());
  SECTION("byte by byte, as numpy writes it") {
    write_npy(folder.path, X.view());
    const std::string header = "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2, 1, 3), }";
    CHECK(read_bytes(folder.path) ==
          file_of(header + std::string(128 - 10 - header.size() - 1, ' ') + "\n", data));
    CHECK(bytes_of_tensor(read_npy(folder.path)) == data);
  }
  SECTION("any shape") {
    const std::vector<float> lse = {1.5f, -INFINITY};
    write_npy(folder.path, {DType::float32, {1, 2, 1}, lse.data()});
    CHECK(values_of(read_npy(folder.path)) == lse);
    write_npy(folder.path, {DType::float32, {2}, lse.data()});
    CHECK_THAT(read_bytes(folder.path), ContainsSubstring("'shape': (2,), }"));
  }
  SECTION("bfloat16 becomes float32, exactly") {
    Storage Y(DType::bfloat16, 2, 2, 128, 128);
    auto* const bits = static_cast<std::uint16_t*>(Y.view().data);
    for (int i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
    write_npy(folder.path, Y.view());
    const Storage back = read_npy(folder.path);
    REQUIRE(back.view().dtype == DType::float32);
    const auto* const wide = static_cast<const std::uint32_t*>(back.view().data);
    for (std::uint32_t i = 0; i < 65536; ++i) REQUIRE(wide[i] == i << 16);
  }
  SECTION("strided views") {
    const AnyTensor view = {X.view().data, DType::float16, 1, 1, 2, 2, 6, 6, 3};
    write_npy(folder.path, view);
    CHECK(bytes_of_tensor(read_npy(folder.path)) == words({0x3c00, 0xc000, 0xfdff, 0x8000}, 2));
  }
  SECTION("nothing") {
    write_npy(folder.path, Storage(DType::float32, 1, 1, 0, 64).view());
    CHECK(axes_of(read_npy(folder.path)) == std::vector<Index>{1, 1, 0, 64});
  }
}
