#include "common/io/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "common/attention/problem.hpp"
#include "common/io/input_file.hpp"

namespace fa {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {
constexpr Index kLengthBytes = 8;
constexpr Index kMaxHeaderBytes = 100'000'000;  // as in the reference implementation
constexpr int kMaxDepth = 3;                    // header { tensor { shape [ number
constexpr std::size_t kMaxShown = 60;           // characters of a value from the file
constexpr std::size_t kMaxListed = 10;          // tensors in a message

const char* const kMetadata = "__metadata__";
const char* const kAllowed = "F32, F16 or BF16";

struct Entry {
  std::string name;
  std::string where;  // "FILE: tensor "NAME"", for messages
  std::string dtype;
  Shape shape;
  Index begin = 0;
  Index end = 0;

  Index bytes() const { return end - begin; }
};

// A value of the file for a message: one line, printable, not endless.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

std::optional<DType> dtype_named(const std::string& name) {
  if (name == "F32") return DType::float32;
  if (name == "F16") return DType::float16;
  if (name == "BF16") return DType::bfloat16;
  return std::nullopt;
}

const char* file_name_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return "F16";
    case DType::bfloat16:
      return "BF16";
    case DType::float32:
      break;
  }
  return "F32";
}

// Throws for what the JSON library lets pass: a repeated key (it would keep the last one, other
// readers the first), and nesting that no header has (it costs a hundred bytes of memory a byte).
class HeaderRules {
 public:
  explicit HeaderRules(std::string where) : where_(std::move(where)) {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    if ((event == Event::object_start || event == Event::array_start) && depth >= kMaxDepth)
      throw Refused(fmt::format("{}: header is nested more than {} deep", where_, kMaxDepth));
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second)
      throw Refused(fmt::format("{}: header has the key {} twice", where_, shown(parsed)));
    return true;
  }

 private:
  std::string where_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

json parse_header(const std::string& where, const std::string& text) {
  const auto not_json = [&](std::size_t at) {
    return Refused(fmt::format("{}: header isn't JSON: error at byte {} of the file",
                               where,
                               static_cast<std::size_t>(kLengthBytes) + at));
  };
  if (text[0] != '{')  // the format allows nothing before it, and so the header is an object
    throw Refused(fmt::format("{}: header begins with byte 0x{:02x}, expected '{{'",
                              where,
                              static_cast<unsigned char>(text[0])));
  // The JSON library takes a zero byte for the end of the text and would not see what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string::npos) throw not_json(zero);
  try {
    return json::parse(text, HeaderRules(where));
  } catch (const json::parse_error& error) {
    throw not_json(error.byte > 0 ? error.byte - 1 : 0);
  } catch (const json::exception&) {
    throw Refused(fmt::format("{}: header holds a number beyond double's range", where));
  }
}

// The header, and in *data_begin where the data begins.
json read_header(const InputFile& file, Index* data_begin) {
  if (file.size() < kLengthBytes)
    throw Refused(fmt::format("{}: found {} bytes, expected a safetensors file: at least {}",
                              file.name(),
                              file.size(),
                              kLengthBytes));
  std::uint64_t length = 0;
  file.read(0, &length, kLengthBytes);
  const Index most = std::min(file.size() - kLengthBytes, kMaxHeaderBytes);
  if (length == 0 || length > static_cast<std::uint64_t>(most))
    throw Refused(
        fmt::format("{}: not a safetensors file: found a header length of {}, expected 1 to {}{}",
                    file.name(),
                    length,
                    most,
                    most < kMaxHeaderBytes ? " (all that the file has)" : ""));

  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(kLengthBytes, text.data(), static_cast<Index>(length));
  *data_begin = kLengthBytes + static_cast<Index>(length);
  return parse_header(file.name(), text);
}

std::map<std::string, std::string> parse_metadata(const std::string& where, const json& value) {
  if (!value.is_object())
    throw Refused(
        fmt::format("{}: {} is {}, expected an object of strings", where, kMetadata, shown(value)));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      throw Refused(fmt::format(
          "{}: {}: {} is {}, expected a string", where, kMetadata, shown(key), shown(text)));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

const json& field(const Entry& entry, const json& value, const char* key) {
  const auto found = value.find(key);
  if (found == value.end())
    throw Refused(fmt::format("{}: header has no \"{}\" for it", entry.where, key));
  return *found;
}

std::vector<Index> parse_sizes(const Entry& entry, const char* key, const json& value) {
  bool right = value.is_array();
  std::vector<Index> sizes;
  if (right)
    for (const json& size : value) {
      // A number is unsigned here if it is written without sign, fraction and exponent.
      right = right && size.is_number_unsigned() &&
              size.get<std::uint64_t>() <= std::numeric_limits<Index>::max();
      if (right) sizes.push_back(size.get<Index>());
    }
  if (!right)
    throw Refused(fmt::format("{}: {} is {}, expected an array of integers from 0 to 2^63 - 1",
                              entry.where,
                              key,
                              shown(value)));
  return sizes;
}

Entry parse_entry(const InputFile& file, const std::string& name, const json& value) {
  Entry entry;
  entry.name = name;
  entry.where = fmt::format("{}: tensor {}", file.name(), shown(name));
  if (!value.is_object())
    throw Refused(
        fmt::format("{}: header has {} for it, expected an object", entry.where, shown(value)));

  const json& dtype = field(entry, value, "dtype");
  if (!dtype.is_string())
    throw Refused(fmt::format("{}: dtype is {}, expected {}", entry.where, shown(dtype), kAllowed));
  entry.dtype = dtype.get<std::string>();
  entry.shape = parse_sizes(entry, "shape", field(entry, value, "shape"));

  const json& offsets = field(entry, value, "data_offsets");
  const std::vector<Index> range = parse_sizes(entry, "data_offsets", offsets);
  if (range.size() != 2 || range[0] > range[1])
    throw Refused(fmt::format("{}: data_offsets are {}, expected [begin, end] with begin <= end",
                              entry.where,
                              shown(offsets)));
  entry.begin = range[0];
  entry.end = range[1];
  return entry;
}

// Each tensor inside the file and as long as its shape says; no byte in two tensors or in none.
void check_layout(const InputFile& file, std::vector<Entry>& entries, Index data_bytes) {
  for (const Entry& entry : entries) {
    if (entry.end > data_bytes)
      throw Refused(fmt::format("{}: data_offsets are [{}, {}], the file has {} bytes of data",
                                entry.where,
                                entry.begin,
                                entry.end,
                                data_bytes));
    const std::optional<DType> dtype = dtype_named(entry.dtype);
    if (!dtype) continue;  // refused where it is asked for
    const Index expected = elements_of(entry.where, entry.shape) * bytes_of(*dtype);
    if (entry.bytes() != expected)
      throw Refused(fmt::format("{}: data_offsets [{}, {}] hold {} bytes, {} {} needs {}",
                                entry.where,
                                entry.begin,
                                entry.end,
                                entry.bytes(),
                                entry.dtype,
                                describe(entry.shape),
                                expected));
  }

  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  Index covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered)
      throw Refused(fmt::format("{}: its data begin at byte {}, expected {}: {}",
                                entry.where,
                                entry.begin,
                                covered,
                                entry.begin < covered ? "it overlaps another tensor"
                                                      : "the bytes before belong to no tensor"));
    covered = entry.end;
  }
  if (covered != data_bytes)
    throw Refused(fmt::format("{}: trailing data: found {} bytes after the header, expected {}",
                              file.name(),
                              data_bytes,
                              covered));
}
}  // namespace

SafetensorsFile read_safetensors(const std::filesystem::path& path,
                                 const std::vector<std::string>& only) {
  const InputFile file(path);
  Index data_begin = 0;
  const json header = read_header(file, &data_begin);

  SafetensorsFile result;
  result.name = file.name();
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata)
      result.metadata = parse_metadata(file.name(), value);
    else
      entries.push_back(parse_entry(file, name, value));
  }
  check_layout(file, entries, file.size() - data_begin);

  struct Wanted {
    const Entry* entry;
    DType dtype;
    std::array<Index, 4> axes;
  };
  std::vector<Wanted> wanted;
  Index bytes = 0;
  for (const Entry& entry : entries) {
    // Through shown(): a type's name in the file may hold anything.
    const std::string dtype = shown(entry.dtype);
    result.contents[entry.name] =
        fmt::format("{} {}", dtype.substr(1, dtype.size() - 2), describe(entry.shape));
    if (!only.empty() && std::find(only.begin(), only.end(), entry.name) == only.end()) continue;
    const std::optional<DType> known = dtype_named(entry.dtype);
    if (!known)
      throw Refused(fmt::format("{}: dtype is {}, expected {}", entry.where, dtype, kAllowed));
    wanted.push_back({&entry, *known, four_axes(entry.where, entry.shape)});
    bytes += entry.bytes();
  }

  file.require_memory(bytes);
  for (const Wanted& w : wanted) {
    Storage X = storage_for(w.dtype, w.axes);
    file.read(data_begin + w.entry->begin, X.view().data, w.entry->bytes());
    result.tensors.emplace(w.entry->name, std::move(X));
  }
  return result;
}

const Storage& require(const SafetensorsFile& file, const std::string& name) {
  const auto found = file.tensors.find(name);
  if (found != file.tensors.end()) return found->second;

  std::vector<std::string> listed;
  for (const auto& [other, what] : file.contents) {
    if (listed.size() == kMaxListed) {
      listed.push_back(fmt::format("{} more", file.contents.size() - kMaxListed));
      break;
    }
    listed.push_back(fmt::format("{} {}", shown(other), what));
  }
  throw Refused(fmt::format("{}: no tensor {}: the file has {}",
                            file.name,
                            shown(name),
                            listed.empty() ? "none" : fmt::format("{}", fmt::join(listed, ", "))));
}

void write_safetensors(OutputFile& file,
                       const std::vector<std::pair<std::string, NamedArray>>& arrays,
                       const std::map<std::string, std::string>& metadata) {
  // float32 before 16-bit types, so that every tensor is aligned to its elements.
  std::vector<const std::pair<std::string, NamedArray>*> order;
  for (const auto& array : arrays) order.push_back(&array);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return bytes_of(a->second.dtype) > bytes_of(b->second.dtype);
  });

  ordered_json header = ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  Index offset = 0;
  for (const auto* named : order) {
    const auto& [name, array] = *named;
    if (name == kMetadata || header.contains(name))
      throw std::invalid_argument(
          fmt::format("tensor name {}: reserved or used twice", shown(name)));
    const Index bytes = array.view.elements() * bytes_of(array.dtype);
    header[name] = {{"dtype", file_name_of(array.dtype)},
                    {"shape", array.shape},
                    {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }

  std::string text = header.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  while (text.size() % 8 != 0) text += ' ';  // the format's own padding: it aligns the data
  const std::uint64_t length = text.size();
  file.write(&length, kLengthBytes);
  file.write(text.data(), static_cast<Index>(text.size()));
  for (const auto* named : order) write_elements(file, named->second.view);
}

void write_safetensors(const std::filesystem::path& path,
                       const std::vector<std::pair<std::string, NamedArray>>& arrays,
                       const std::map<std::string, std::string>& metadata) {
  OutputFile file(path);
  write_safetensors(file, arrays, metadata);
  file.commit();
}

}  // namespace fa
