#include "common/io/npy_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <set>

#include "common/attention/problem.hpp"

namespace fa {

namespace {
constexpr std::size_t kMaxString = 60;  // longer than every key and every type that we read
constexpr std::size_t kMaxAxes = 64;    // as in numpy

bool is_digit(char c) { return '0' <= c && c <= '9'; }

// The part of Python's grammar that the header needs.
class Literals {
 public:
  Literals(const std::string& where, std::string_view text) : where_(where), text_(text) {}

  // The next character that isn't white space; '\0' at the end.
  char peek() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    if (at_end() || peek() != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}'", c));
  }

  bool at_end() {
    peek();
    return at_ == text_.size();
  }

  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("a string");
    std::string value;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      const char c = text_[at_];
      // No key and no type has any other character, and messages stay one printable line.
      if (c < ' ' || c > '~' || c == '\\' || value.size() == kMaxString)
        fail("a short plain string");
      value += c;
    }
    expect(quote);
    return value;
  }

  bool boolean() {
    peek();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return word == "True";
      }
    fail("True or False");
  }

  // "()", "(3,)", "(3, 4)", "(3L, 4L)": Python 2 wrote long integers with an L.
  Shape tuple() {
    Shape values;
    expect('(');
    bool comma = true;
    while (!accept(')')) {
      if (!comma) fail("',' or ')'");
      if (values.size() == kMaxAxes) fail("at most 64 axes");
      values.push_back(integer());
      comma = accept(',');
    }
    if (values.size() == 1 && !comma) fail("',' before ')': (3) is a number, (3,) a shape");
    return values;
  }

  [[noreturn]] void fail(const std::string& expected) {
    std::string found = "the end";
    if (!at_end())
      found = ' ' <= text_[at_] && text_[at_] <= '~'
                  ? fmt::format("{}", text_.substr(at_, 1))
                  : fmt::format("\\x{:02x}", static_cast<unsigned char>(text_[at_]));
    throw Refused(
        fmt::format("{}: header isn't a .npy dictionary: found {} at its byte {}, expected {}",
                    where_,
                    found,
                    at_,
                    expected));
  }

 private:
  Index integer() {
    if (!is_digit(peek())) fail("an integer from 0 on");
    const std::size_t start = at_;
    Index value = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      const Index digit = text_[at_] - '0';
      if (value > (std::numeric_limits<Index>::max() - digit) / 10) fail("an integer below 2^63");
      value = 10 * value + digit;
    }
    if (text_[start] == '0' && at_ - start > 1) fail("an integer without leading zeros");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;
    return value;
  }

  const std::string& where_;
  std::string_view text_;
  std::size_t at_ = 0;
};
}  // namespace

NpyHeader parse_npy_header(const std::string& where, std::string_view text) {
  Literals in(where, text);
  NpyHeader header;
  std::set<std::string> seen;
  in.expect('{');
  bool comma = true;
  while (!in.accept('}')) {
    if (!comma) in.fail("',' or '}'");
    const std::string key = in.string();
    in.expect(':');
    if (!seen.insert(key).second)
      throw Refused(fmt::format("{}: header has the key '{}' twice", where, key));
    if (key == "descr") {
      if (in.peek() == '[')
        throw Refused(fmt::format("{}: found a structured type, expected plain numbers", where));
      header.descr = in.string();
    } else if (key == "fortran_order") {
      header.fortran_order = in.boolean();
    } else if (key == "shape") {
      header.shape = in.tuple();
    } else {
      throw Refused(fmt::format(
          "{}: header has the key '{}', expected descr, fortran_order and shape", where, key));
    }
    comma = in.accept(',');
  }
  if (!in.at_end()) in.fail("nothing after '}'");
  for (const char* key : {"descr", "fortran_order", "shape"})
    if (seen.count(key) == 0) throw Refused(fmt::format("{}: header has no key '{}'", where, key));
  return header;
}

std::string npy_header_text(const NpyHeader& header) {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}{}), }}",
                     header.descr,
                     header.fortran_order ? "True" : "False",
                     fmt::join(header.shape, ", "),
                     header.shape.size() == 1 ? "," : "");
}

}  // namespace fa
