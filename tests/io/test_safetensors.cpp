#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "common/io/safetensors.hpp"
#include "tests/io/files.hpp"

using namespace fa;
using Catch::Matchers::ContainsSubstring;

namespace {
// A file by hand: length, header, data.
std::string file_of(const std::string& header, const std::string& data = "") {
  return little_endian(header.size(), 8) + header + data;
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
}

struct Folder {
  TemporaryDirectory directory;
  std::filesystem::path path = directory / "x.safetensors";

  SafetensorsFile read(const std::string& bytes, const std::vector<std::string>& only = {}) {
    write_bytes(path, bytes);
    return read_safetensors(path, only);
  }

  Storage read_q(const std::string& bytes) {
    SafetensorsFile file = read(bytes, {"q"});
    return std::move(file.tensors.at("q"));
  }

  // The message without the file's name, which every message must begin with.
  std::string refusal_of(const std::string& bytes, const std::vector<std::string>& only = {}) {
    const std::string line = refusal([&] { read(bytes, only); });
    REQUIRE(line.substr(0, path.string().size() + 2) == path.string() + ": ");
    return line.substr(path.string().size() + 2);
  }
};

// One tensor "q" and 16 bytes of data.
std::string with_q(const std::string& q) {
  return file_of(R"({"q":)" + q + "}", std::string(16, '\1'));
}

const std::string kGood = entry("F32", "[2,2]", "[0,16]");
}  // namespace

TEST_CASE("safetensors: a file written by hand", "[io][safetensors]") {
  Folder folder;
  // 1, -2, 0.5 in the three types; -0; a signalling and a quiet NaN with payload; infinity.
  const std::string q = words({0x3f800000, 0xc0000000, 0x3f000000, 0x80000000}, 4);
  const std::string k = words({0x3c00, 0xc000, 0x3800, 0x8000, 0x7c01, 0xfe55}, 2);
  const std::string v = words({0x3f80, 0xc000, 0x3f00, 0x8000, 0x7f81, 0x7f80}, 2);
  const std::string header = R"({"__metadata__":{"causal":"true","scale":"0.125","é":""},)"
                             R"("v":{"dtype":"BF16","shape":[1,3,1,2],"data_offsets":[28,40]},)"
                             R"("q":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                             R"("k":{"dtype":"F16","shape":[3,1,2],"data_offsets":[16,28]}} )";
  const SafetensorsFile file = folder.read(file_of(header, q + k + v));

  REQUIRE(file.tensors.size() == 3);
  const Storage& Q = file.tensors.at("q");
  CHECK(Q.view().dtype == DType::float32);
  CHECK(axes_of(Q) == std::vector<Index>{1, 1, 2, 2});
  CHECK(values_of(Q) == std::vector<float>{1, -2, 0.5f, -0.0f});
  CHECK(bytes_of_tensor(Q) == q);
  const Storage& K = file.tensors.at("k");
  CHECK(K.view().dtype == DType::float16);
  CHECK(axes_of(K) == std::vector<Index>{1, 3, 1, 2});
  CHECK(K.view().at(0, 1, 0, 0) == 0.5f);
  CHECK(bytes_of_tensor(K) == k);
  const Storage& V = file.tensors.at("v");
  CHECK(V.view().dtype == DType::bfloat16);
  CHECK(axes_of(V) == std::vector<Index>{1, 3, 1, 2});
  CHECK(V.view().at(0, 0, 0, 1) == -2.0f);
  CHECK(bytes_of_tensor(V) == v);
  CHECK(file.metadata ==
        std::map<std::string, std::string>{{"causal", "true"}, {"scale", "0.125"}, {"é", ""}});
  CHECK(file.contents.at("k") == "F16 [3, 1, 2]");
}

TEST_CASE("safetensors: legal though unusual", "[io][safetensors]") {
  Folder folder;
  SECTION("header lengths that are and aren't multiples of 8") {
    for (std::size_t spaces = 0; spaces < 8; ++spaces) {
      const std::string header = R"({"q":)" + kGood + "}" + std::string(spaces, ' ');
      CHECK(folder.read(file_of(header, std::string(16, '\0'))).tensors.size() == 1);
    }
  }
  SECTION("no tensors") {
    CHECK(folder.read(file_of("{}")).contents.empty());
    CHECK(folder.read(file_of(R"({"__metadata__":{}})")).metadata.empty());
  }
  SECTION("white space, escapes and extra fields") {
    const std::string header =
        "{ \"\\u0071\" :\n{\"dtype\":\"F32\", \"shape\":[2 , "
        "2],\"data_offsets\":[0,16],\"note\":1}}\n";
    CHECK(axes_of(folder.read_q(file_of(header, std::string(16, '\0')))) ==
          std::vector<Index>{1, 1, 2, 2});
  }
  SECTION("empty tensors, wherever they lie") {
    const std::string header = R"({"a":)" + entry("F32", "[0,4]", "[16,16]") + R"(,"q":)" + kGood +
                               R"(,"b":)" + entry("F16", "[3,0,5]", "[0,0]") + "}";
    const SafetensorsFile file = folder.read(file_of(header, std::string(16, '\0')));
    CHECK(axes_of(require(file, "a")) == std::vector<Index>{1, 1, 0, 4});
    CHECK(axes_of(require(file, "b")) == std::vector<Index>{1, 3, 0, 5});
  }
  SECTION("tensors that aren't asked for may have any type and number of axes") {
    const std::string header = R"({"ids":)" + entry("I64", "[2]", "[0,16]") + R"(,"q":)" +
                               entry("F32", "[2,2]", "[16,32]") + "}";
    const std::string bytes = file_of(header, std::string(16, '\1') + std::string(16, '\2'));
    const SafetensorsFile file = folder.read(bytes, {"q", "k"});
    CHECK(file.tensors.size() == 1);
    CHECK(bytes_of_tensor(require(file, "q")) == std::string(16, '\2'));
    CHECK(file.contents.size() == 2);
    CHECK_THAT(folder.refusal_of(bytes), ContainsSubstring("tensor \"ids\": dtype is \"I64\""));
  }
  SECTION("odd offsets: data that isn't aligned to its elements") {
    const std::string header = R"({"a":)" + entry("U8", "[3]", "[0,3]") + R"(,"q":)" +
                               entry("F32", "[1,2]", "[3,11]") + "}";
    const std::string data = "xyz" + words({0x3f800000, 0x40000000}, 4);
    CHECK(values_of(folder.read_q(file_of(header, data))) == std::vector<float>{1, 2});
  }
}

TEST_CASE("safetensors: files that aren't there or aren't files", "[io][safetensors]") {
  TemporaryDirectory directory;
  const std::filesystem::path path = directory / "none.safetensors";
  CHECK(refusal([&] { read_safetensors(path); }) == path.string() + ": no such file");
  CHECK_THAT(refusal([&] { read_safetensors(directory.path()); }),
             ContainsSubstring("found a directory"));
  CHECK_THAT(refusal([&] { read_safetensors(path / "x"); }), ContainsSubstring("no such file"));

  const std::filesystem::path pipe = directory / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(refusal([&] { read_safetensors(pipe); }), ContainsSubstring("found a pipe or device"));
  CHECK_THAT(refusal([&] { read_safetensors("/dev/zero"); }),
             ContainsSubstring("found a pipe or device"));

  if (::geteuid() != 0) {  // the superuser may read everything
    write_bytes(path, "x");
    REQUIRE(::chmod(path.c_str(), 0) == 0);
    CHECK_THAT(refusal([&] { read_safetensors(path); }), ContainsSubstring("Permission denied"));
  }
}

TEST_CASE("safetensors: broken headers", "[io][safetensors]") {
  Folder folder;
  SECTION("too short for a length") {
    CHECK(folder.refusal_of("") == "found 0 bytes, expected a safetensors file: at least 8");
    CHECK(folder.refusal_of("1234567") == "found 7 bytes, expected a safetensors file: at least 8");
  }
  SECTION("length") {
    CHECK(folder.refusal_of(std::string(8, '\0') + "{}") ==
          "not a safetensors file: found a header length of 0, expected 1 to 2 (all that the file "
          "has)");
    CHECK_THAT(folder.refusal_of(little_endian(3, 8) + "{}"),
               ContainsSubstring("length of 3, expected 1 to 2"));
    CHECK_THAT(folder.refusal_of(std::string(8, '\xff') + "{}"),
               ContainsSubstring("found a header length of 18446744073709551615"));
    CHECK_THAT(folder.refusal_of(std::string("\x93NUMPY\1\0v\0{'descr'", 18)),
               ContainsSubstring("not a safetensors file"));
  }
  SECTION("length beyond 100 MB, in a file that has it") {
    write_bytes(folder.path, little_endian(100'000'001, 8));
    std::filesystem::resize_file(folder.path, 100'000'009);  // sparse
    CHECK_THAT(refusal([&] { read_safetensors(folder.path); }),
               ContainsSubstring("found a header length of 100000001, expected 1 to 100000000"));
  }
  SECTION("not JSON") {
    CHECK(folder.refusal_of(file_of("{hello}")) ==
          "header isn't JSON: error at byte 9 of the file");
    for (const char* header : {"{",
                               "{]",
                               R"({"q":})",
                               R"({"q":1,})",
                               R"({} {})",
                               "{}x",
                               "{\"\xff\":{}}",
                               "{'q':1}",
                               "{\"q\n\":1}",
                               "{\"q\":NaN}"})
      CHECK_THAT(folder.refusal_of(file_of(header)), ContainsSubstring("isn't JSON"));
    CHECK_THAT(folder.refusal_of(file_of(std::string("{}\0garbage", 10))),
               ContainsSubstring("isn't JSON"));
    CHECK_THAT(folder.refusal_of(file_of("{\"q\":1e999}")),
               ContainsSubstring("beyond double's range"));
  }
  SECTION("not an object") {
    CHECK(folder.refusal_of(file_of("[1, 2]")) == "header begins with byte 0x5b, expected '{'");
    for (const char* header : {"\"q\"", "null", "hello", " {}", "\xef\xbb\xbf{}"})
      CHECK_THAT(folder.refusal_of(file_of(header)), ContainsSubstring("header begins with byte"));
    CHECK_THAT(folder.refusal_of(file_of(std::string(1, '\0'))), ContainsSubstring("byte 0x00"));
  }
  SECTION("repeated keys") {
    CHECK(folder.refusal_of(file_of(R"({"q":)" + kGood + R"(,"q":)" + kGood + "}")) ==
          "header has the key \"q\" twice");
    CHECK_THAT(folder.refusal_of(with_q(R"({"dtype":"F32","dtype":"F16"})")),
               ContainsSubstring("\"dtype\" twice"));
    CHECK_THAT(folder.refusal_of(file_of(R"({"__metadata__":{"a":"1","a":"2"}})")),
               ContainsSubstring("\"a\" twice"));
  }
  SECTION("nesting") {
    CHECK_THAT(folder.refusal_of(file_of(R"({"q":)" + std::string(100000, '['))),
               ContainsSubstring("nested more than 3 deep"));
    CHECK_THAT(folder.refusal_of(with_q(R"({"dtype":"F32","shape":[[2]],"data_offsets":[0,16]})")),
               ContainsSubstring("nested"));
  }
  SECTION("metadata") {
    CHECK(folder.refusal_of(file_of(R"({"__metadata__":["a"]})")) ==
          "__metadata__ is [\"a\"], expected an object of strings");
    CHECK(folder.refusal_of(file_of(R"({"__metadata__":{"scale":0.125}})")) ==
          "__metadata__: \"scale\" is 0.125, expected a string");
    CHECK_THAT(folder.refusal_of(file_of(R"({"__metadata__":null})")),
               ContainsSubstring("object of strings"));
  }
  SECTION("names can't break the line or flood it") {
    CHECK_THAT(folder.refusal_of(file_of("{\"a\\n\\u001b[31m\\u009b\x7f\":1}")),
               ContainsSubstring(R"(tensor "a\n\u001b[31m\u009b\u007f")"));
    CHECK(folder.refusal_of(file_of("{\"" + std::string(100000, 'x') + "\":1}")).size() < 300);
  }
}

TEST_CASE("safetensors: broken tensors", "[io][safetensors]") {
  Folder folder;
  REQUIRE_NOTHROW(folder.read(with_q(kGood)));

  SECTION("fields") {
    CHECK_THAT(folder.refusal_of(with_q("[1]")),
               ContainsSubstring("header has [1] for it, expected an object"));
    CHECK(folder.refusal_of(with_q(R"({"shape":[2,2],"data_offsets":[0,16]})")) ==
          "tensor \"q\": header has no \"dtype\" for it");
    CHECK_THAT(folder.refusal_of(with_q(R"({"dtype":"F32","data_offsets":[0,16]})")),
               ContainsSubstring("no \"shape\""));
    CHECK_THAT(folder.refusal_of(with_q(R"({"dtype":"F32","shape":[2,2]})")),
               ContainsSubstring("no \"data_offsets\""));
  }
  SECTION("types") {
    CHECK(folder.refusal_of(with_q(entry("F64", "[1,2]", "[0,16]"))) ==
          "tensor \"q\": dtype is \"F64\", expected F32, F16 or BF16");
    for (const char* dtype : {"I64", "f32", "", "F8_E4M3", "bool"})
      CHECK_THAT(folder.refusal_of(with_q(entry(dtype, "[2,2]", "[0,16]"))),
                 ContainsSubstring(fmt::format("dtype is \"{}\"", dtype)));
    CHECK_THAT(folder.refusal_of(with_q(R"({"dtype":32,"shape":[2,2],"data_offsets":[0,16]})")),
               ContainsSubstring("dtype is 32"));
  }
  SECTION("shapes") {
    CHECK(folder.refusal_of(with_q(entry("F32", "[4]", "[0,16]"))) ==
          "tensor \"q\": found shape [4], expected 2 to 4 axes: [N, d], [H, N, d] or [B, H, N, d]");
    CHECK_THAT(folder.refusal_of(with_q(entry("F32", "[1,1,1,2,2]", "[0,16]"))),
               ContainsSubstring("[1, 1, 1, 2, 2], expected 2 to 4 axes"));
    CHECK_THAT(folder.refusal_of(file_of(R"({"q":)" + entry("F32", "[]", "[0,4]") + "}", "1234")),
               ContainsSubstring("found shape [], expected 2 to 4 axes"));
    for (const char* shape : {"[-2,-2]",
                              "[2,-0]",
                              "[2,2.0]",
                              "[2,2e0]",
                              "[2,true]",
                              "[2,\"2\"]",
                              "[2,null]",
                              "4",
                              "\"[2,2]\"",
                              "null",
                              "{}",
                              "[9223372036854775808,2]",
                              "[18446744073709551616,2]"})
      CHECK_THAT(folder.refusal_of(with_q(entry("F32", shape, "[0,16]"))),
                 ContainsSubstring("expected an array of integers from 0 to 2^63 - 1"));
  }
  SECTION("shapes that overflow") {
    // 2^32 · 2^32 and 2^62 · 4 · 4 are 0 modulo 2^64; 2^63 + 2 elements of 2 bytes are 4.
    for (const char* shape : {"[4294967296,4294967296]",
                              "[4611686018427387904,2,2]",
                              "[9223372036854775807,9223372036854775807]",
                              "[0,9223372036854775807,9223372036854775807]",
                              "[281474976710657,1]"})
      CHECK_THAT(folder.refusal_of(with_q(entry("F32", shape, "[0,0]"))),
                 ContainsSubstring("is too large"));
    CHECK_THAT(folder.refusal_of(with_q(entry("F32", "[281474976710656,1]", "[0,16]"))),
               ContainsSubstring("needs 1125899906842624"));
  }
  SECTION("offsets") {
    CHECK(folder.refusal_of(with_q(entry("F32", "[2,3]", "[0,24]"))) ==
          "tensor \"q\": data_offsets are [0, 24], the file has 16 bytes of data");
    CHECK_THAT(folder.refusal_of(with_q(entry("F32",
                                              "[2,2]",
                                              "[9223372036854775791,"
                                              "9223372036854775807]"))),
               ContainsSubstring("the file has 16 bytes"));
    CHECK(folder.refusal_of(with_q(entry("F32", "[2,2]", "[16,0]"))) ==
          "tensor \"q\": data_offsets are [16,0], expected [begin, end] with begin <= end");
    CHECK(folder.refusal_of(with_q(entry("F32", "[2,3]", "[0,16]"))) ==
          "tensor \"q\": data_offsets [0, 16] hold 16 bytes, F32 [2, 3] needs 24");
    for (const char* offsets : {"[]", "[0]", "[0,8,16]"})
      CHECK_THAT(folder.refusal_of(with_q(entry("F32", "[2,2]", offsets))),
                 ContainsSubstring("expected [begin, end]"));
    for (const char* offsets :
         {"[-16,0]", "[0,16.0]", "[0,\"16\"]", "16", "null", "[0,18446744073709551615]"})
      CHECK_THAT(folder.refusal_of(with_q(entry("F32", "[2,2]", offsets))),
                 ContainsSubstring("expected an array of integers"));
  }
  SECTION("overlap, holes, trailing and missing data") {
    const auto two = [](const std::string& a, const std::string& b, std::size_t bytes) {
      return file_of(
          R"({"a":)" + entry("F32", "[2,2]", a) + R"(,"b":)" + entry("F32", "[2,2]", b) + "}",
          std::string(bytes, '\0'));
    };
    CHECK_NOTHROW(folder.read(two("[16,32]", "[0,16]", 32)));
    CHECK(folder.refusal_of(two("[0,16]", "[8,24]", 24)) ==
          "tensor \"b\": its data begin at byte 8, expected 16: it overlaps another tensor");
    CHECK_THAT(folder.refusal_of(two("[0,16]", "[0,16]", 16)), ContainsSubstring("overlaps"));
    CHECK(folder.refusal_of(two("[0,16]", "[20,36]", 36)) ==
          "tensor \"b\": its data begin at byte 20, expected 16: the bytes before belong to no "
          "tensor");
    CHECK_THAT(folder.refusal_of(two("[4,20]", "[20,36]", 36)),
               ContainsSubstring("belong to no tensor"));
    CHECK(folder.refusal_of(two("[0,16]", "[16,32]", 33)) ==
          "trailing data: found 33 bytes after the header, expected 32");
    CHECK(folder.refusal_of(two("[0,16]", "[16,32]", 31)) ==
          "tensor \"b\": data_offsets are [16, 32], the file has 31 bytes of data");
    CHECK_THAT(folder.refusal_of(two("[0,16]", "[16,32]", 0)),
               ContainsSubstring("the file has 0 bytes"));
  }
}

TEST_CASE("safetensors: more than the machine's memory", "[io][safetensors]") {
  Folder folder;
  const std::string header =
      R"({"q":)" + entry("F32", "[1048576,1048576]", "[0,4398046511104]") + "}";
  write_bytes(folder.path, file_of(header));
  std::error_code error;  // sparse, where the file system knows that and such sizes
  std::filesystem::resize_file(folder.path, 8 + header.size() + 4398046511104, error);
  if (error) return;
  CHECK_THAT(refusal([&] { read_safetensors(folder.path); }),
             ContainsSubstring("need 4398046511104 bytes, this machine has"));
}

TEST_CASE("safetensors: a missing tensor is answered with what there is", "[io][safetensors]") {
  Folder folder;
  const auto message = [&](const SafetensorsFile& file) {
    return refusal([&] { require(file, "q"); }).substr(folder.path.string().size());
  };
  CHECK(message(folder.read(file_of("{}"))) == ": no tensor \"q\": the file has none");
  const std::string header = R"({"key":)" + entry("F32", "[2,2]", "[0,16]") + R"(,"Q":)" +
                             entry("I8", "[2,8]", "[16,32]") + "}";
  CHECK(message(folder.read(file_of(header, std::string(32, '\0')), {"q"})) ==
        ": no tensor \"q\": the file has \"Q\" I8 [2, 8], \"key\" F32 [2, 2]");

  std::string many = "{";
  for (int i = 10; i < 40; ++i)
    many += fmt::format("{}\"t{}\":{}", i > 10 ? "," : "", i, entry("F32", "[0,1]", "[0,0]"));
  CHECK_THAT(message(folder.read(file_of(many + "}"))),
             ContainsSubstring("\"t19\" F32 [0, 1], 20 more"));
}

TEST_CASE("safetensors: what is written", "[io][safetensors]") {
  Folder folder;
  Storage O(DType::float16, 1, 2, 1, 3);
  const std::string o = words({0x3c00, 0xc000, 0x7c01, 0xfdff, 0x8000, 0x0001}, 2);
  std::memcpy(O.view().data, o.data(), o.size());
  const std::vector<float> lse = {1.5f, -INFINITY};
  write_safetensors(folder.path,
                    {{"o", O.view()}, {"lse", {DType::float32, {1, 2, 1}, lse.data()}}},
                    {{"causal", "true"}});

  SECTION("byte by byte") {
    // lse first: float32 stays aligned.
    const std::string header = R"({"__metadata__":{"causal":"true"},)"
                               R"("lse":{"dtype":"F32","shape":[1,2,1],"data_offsets":[0,8]},)"
                               R"("o":{"dtype":"F16","shape":[1,2,1,3],"data_offsets":[8,20]}})";
    const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
    CHECK(read_bytes(folder.path) == file_of(padded, words({0x3fc00000, 0xff800000}, 4) + o));
  }
  SECTION("read back") {
    const SafetensorsFile file = read_safetensors(folder.path);
    CHECK(bytes_of_tensor(require(file, "o")) == o);
    CHECK(axes_of(require(file, "o")) == std::vector<Index>{1, 2, 1, 3});
    CHECK(values_of(require(file, "lse")) == lse);
    CHECK(file.metadata.at("causal") == "true");
  }
  SECTION("names and metadata that need escapes, and bytes that aren't UTF-8") {
    write_safetensors(folder.path, {{"a\"\n", O.view()}}, {{"k\\", "\xff"}});
    const SafetensorsFile file = read_safetensors(folder.path);
    CHECK(file.tensors.count("a\"\n") == 1);
    CHECK(file.metadata.at("k\\") == "\xef\xbf\xbd");  // the replacement character
  }
  SECTION("misuse") {
    CHECK_THROWS_AS(write_safetensors(folder.path, {{"o", O.view()}, {"o", O.view()}}),
                    std::invalid_argument);
    CHECK_THROWS_AS(write_safetensors(folder.path, {{"__metadata__", O.view()}}),
                    std::invalid_argument);
    CHECK(bytes_of_tensor(read_safetensors(folder.path).tensors.at("o")) == o);  // untouched
  }
}

TEST_CASE("safetensors: every 16-bit pattern survives", "[io][safetensors]") {
  Folder folder;
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    Storage X(dtype, 2, 2, 128, 128);
    auto* const bits = static_cast<std::uint16_t*>(X.view().data);
    for (int i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
    write_safetensors(folder.path, {{"x", X.view()}});
    const SafetensorsFile file = read_safetensors(folder.path);
    CHECK(require(file, "x").view().dtype == dtype);
    CHECK(bytes_of_tensor(require(file, "x")) == bytes_of_tensor(X));
  }
}

TEST_CASE("safetensors: strided views are written in the file's order", "[io][safetensors]") {
  Folder folder;
  // [B, N, H, d] storage seen as [B, H, N, d], with 2 of 3 columns.
  Storage memory(DType::float32, 2, 4, 2, 3);
  auto* const x = static_cast<float*>(memory.view().data);
  for (int i = 0; i < 48; ++i) x[i] = static_cast<float>(i);
  const AnyTensor view = {x, DType::float32, 2, 2, 4, 2, 24, 3, 6};
  write_safetensors(folder.path, {{"x", view}});

  const SafetensorsFile file = read_safetensors(folder.path);
  const Storage& X = file.tensors.at("x");
  REQUIRE(axes_of(X) == std::vector<Index>{2, 2, 4, 2});
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 2; ++h)
      for (Index i = 0; i < 4; ++i)
        for (Index c = 0; c < 2; ++c)
          CHECK(X.view().at(b, h, i, c) == static_cast<float>(24 * b + 6 * i + 3 * h + c));
}
