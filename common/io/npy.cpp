#include "common/io/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/attention/problem.hpp"
#include "common/io/input_file.hpp"
#include "common/io/npy_header.hpp"

namespace fa {

namespace {
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr Index kMaxHeaderBytes = 1 << 20;  // ours has 60; version 1 can't have more than 65,535
constexpr Index kAlignment = 64;            // of the data, as the format asks

struct ElementType {
  Index bytes = 4;  // in the file; 8: double
  bool big_endian = false;

  DType dtype() const { return bytes == 2 ? DType::float16 : DType::float32; }
};

ElementType parse_type(const std::string& where, const std::string& descr) {
  const std::string_view kind =
      std::string_view(descr).substr(std::min<std::size_t>(1, descr.size()));
  if (descr.size() == 3 && (descr[0] == '<' || descr[0] == '>') &&
      (kind == "f2" || kind == "f4" || kind == "f8"))
    return {descr[2] - '0', descr[0] == '>'};

  const char* hint = "";
  if (kind == "O") hint = " (pickled Python objects are never loaded)";
  if (kind == "V2") hint = " (bfloat16? .npy has no such type: save it as float32 or safetensors)";
  throw Refused(
      fmt::format("{}: found type '{}', expected '<f4', '<f2' or '<f8'{}", where, descr, hint));
}

// The header, and in *data_begin where the data begins.
NpyHeader read_header(const InputFile& file, Index* data_begin) {
  unsigned char start[12] = {};
  const Index available = std::min<Index>(file.size(), sizeof start);
  file.read(0, start, available);
  if (available < 10 || std::memcmp(start, kMagic.data(), kMagic.size()) != 0) {
    std::string found = "other first bytes";
    if (available < 10) found = fmt::format("{} bytes", file.size());
    if (std::memcmp(start, "PK", 2) == 0) found = "a zip archive (.npz? save each array as .npy)";
    throw Refused(
        fmt::format("{}: not a .npy file: found {}, expected \\x93NUMPY, a version and a "
                    "header",
                    file.name(),
                    found));
  }
  const int major = start[6], minor = start[7];
  if (major < 1 || major > 3 || minor != 0)
    throw Refused(fmt::format(
        "{}: found .npy version {}.{}, expected 1.0, 2.0 or 3.0", file.name(), major, minor));

  const Index begin = major == 1 ? 10 : 12;
  Index length = start[8] + 256 * start[9];
  if (major > 1) length += (Index{start[10]} << 16) + (Index{start[11]} << 24);
  const Index most = std::min(file.size() - begin, kMaxHeaderBytes);
  if (length > most)
    throw Refused(fmt::format("{}: found a header length of {}, expected at most {}{}",
                              file.name(),
                              length,
                              std::max<Index>(most, 0),
                              most < kMaxHeaderBytes ? " (all that the file has)" : ""));

  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(begin, text.data(), length);
  *data_begin = begin + length;
  return parse_npy_header(file.name(), text);
}

// Reverses the bytes of each element.
void swap_bytes(void* data, Index elements, Index element_bytes) {
  auto* at = static_cast<unsigned char*>(data);
  for (Index e = 0; e < elements; ++e, at += element_bytes) std::reverse(at, at + element_bytes);
}

// Doubles into float32, a piece at a time. Returns how many finite ones became infinite.
Index read_doubles(const InputFile& file, Index offset, bool big_endian, const AnyTensor& X) {
  constexpr Index kPiece = 1 << 16;
  std::vector<double> piece(static_cast<std::size_t>(std::min(kPiece, X.elements())));
  auto* out = static_cast<float*>(X.data);
  Index overflowed = 0;
  for (Index first = 0; first < X.elements(); first += kPiece) {
    const Index count = std::min(kPiece, X.elements() - first);
    file.read(offset + 8 * first, piece.data(), 8 * count);
    if (big_endian) swap_bytes(piece.data(), count, 8);
    for (Index e = 0; e < count; ++e) {
      const double x = piece[static_cast<std::size_t>(e)];
      out[first + e] = static_cast<float>(x);
      if (std::isfinite(x) && std::isinf(out[first + e])) ++overflowed;
    }
  }
  return overflowed;
}

// In Fortran order the first axis is contiguous. `in` holds the elements in that order, whatever
// its own shape says.
Storage from_fortran_order(const Storage& in) {
  const AnyTensor& X = in.view();
  Storage out(X.dtype, X.B, X.H, X.N, X.d);
  const Index bytes = bytes_of(X.dtype);
  auto* to = static_cast<unsigned char*>(out.view().data);
  const auto* const from = static_cast<const unsigned char*>(X.data);
  for (Index b = 0; b < X.B; ++b)
    for (Index h = 0; h < X.H; ++h)
      for (Index i = 0; i < X.N; ++i)
        for (Index x = 0; x < X.d; ++x, to += bytes)
          std::memcpy(to,
                      from + (b + X.B * (h + X.H * (i + X.N * x))) * bytes,
                      static_cast<std::size_t>(bytes));
  return out;
}

Storage to_float32(const AnyTensor& X) {
  Storage out(DType::float32, X.B, X.H, X.N, X.d);
  const Tensor<float> O = out.view().as<float>();
  for (Index b = 0; b < X.B; ++b)
    for (Index h = 0; h < X.H; ++h)
      for (Index i = 0; i < X.N; ++i)
        for (Index x = 0; x < X.d; ++x) O.head(b, h)[i][x] = X.at(b, h, i, x);
  return out;
}
}  // namespace

Storage read_npy(const std::filesystem::path& path, std::string* note) {
  if (note) note->clear();
  const InputFile file(path);
  Index data_begin = 0;
  const NpyHeader header = read_header(file, &data_begin);
  const ElementType type = parse_type(file.name(), header.descr);
  const std::array<Index, 4> axes = four_axes(file.name(), header.shape);

  const Index elements = elements_of(file.name(), header.shape);
  const Index found = file.size() - data_begin;
  if (found != elements * type.bytes)
    throw Refused(fmt::format("{}: {} data: found {} bytes after the header, {} {} needs {}",
                              file.name(),
                              found < elements * type.bytes ? "truncated" : "trailing",
                              found,
                              header.descr,
                              describe(header.shape),
                              elements * type.bytes));

  file.require_memory(elements * bytes_of(type.dtype()) * (header.fortran_order ? 2 : 1));
  Storage X = storage_for(type.dtype(), axes);
  if (type.bytes == 8) {
    const Index overflowed = read_doubles(file, data_begin, type.big_endian, X.view());
    if (note) {
      *note = fmt::format("{}: '{}' converted to float32", file.name(), header.descr);
      if (overflowed > 0)
        *note += fmt::format(
            "; {} of {} values lie beyond its range and became infinite", overflowed, elements);
    }
  } else {
    file.read(data_begin, X.view().data, found);
    if (type.big_endian) swap_bytes(X.view().data, elements, type.bytes);
  }
  return header.fortran_order ? from_fortran_order(X) : std::move(X);
}

void write_npy(OutputFile& file, const NamedArray& X) {
  NpyHeader header;
  header.descr = X.dtype == DType::float16 ? "<f2" : "<f4";
  header.shape = X.shape;
  std::string text = npy_header_text(header);
  const Index before = static_cast<Index>(kMagic.size()) + 4;  // version and length
  while ((before + static_cast<Index>(text.size()) + 1) % kAlignment != 0) text += ' ';
  text += '\n';

  std::string start(kMagic);
  start += {'\1', '\0', static_cast<char>(text.size() % 256), static_cast<char>(text.size() / 256)};
  file.write(start.data(), static_cast<Index>(start.size()));
  file.write(text.data(), static_cast<Index>(text.size()));
  if (X.dtype == DType::bfloat16)
    write_elements(file, to_float32(X.view).view());
  else
    write_elements(file, X.view);
}

void write_npy(const std::filesystem::path& path, const NamedArray& X) {
  OutputFile file(path);
  write_npy(file, X);
  file.commit();
}

}  // namespace fa
