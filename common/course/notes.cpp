#include "common/course/notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/attention/problem.hpp"
#include "common/course/diff_text.hpp"
#include "common/course/example.hpp"
#include "common/course/fault.hpp"
#include "common/course/regions.hpp"
#include "common/course/results.hpp"
#include "common/course/stages.hpp"
#include "common/course/table.hpp"
#include "common/course/text.hpp"

namespace fa::course {

namespace {

using Words = std::vector<std::string>;

const std::string kStart = "<!-- fill: ";
const std::string kStartEnd = " -->";
const std::string kEnd = "<!-- end fill -->";

/// Words at spaces; double quotes keep spaces in a word.
Words split(const std::string& text) {
  Words words;
  std::string word;
  bool quoted = false, started = false;
  for (const char c : text) {
    if (c == '"') {
      quoted = !quoted;
      started = true;
    } else if (c == ' ' && !quoted) {
      if (started) words.push_back(word);
      word.clear();
      started = false;
    } else {
      word += c;
      started = true;
    }
  }
  if (started) words.push_back(word);
  return words;
}

std::string fenced(const std::string& language, const std::string& text) {
  return "```" + language + "\n" + text + "```\n";
}

std::string fill_region(const std::filesystem::path& root, const Words& words) {
  if (words.size() < 3) throw Refused("region needs a file and a region's name");
  const std::string& file = words[1];
  const std::vector<Region> regions = parse_regions(read_text(root / file), file);
  std::vector<std::string> lines = {"// " + file};
  for (std::size_t w = 2; w < words.size(); ++w) {
    const Region& region = find_region(regions, words[w], file);
    lines.push_back("// " + region.name + (region.caption.empty() ? "" : ": " + region.caption));
    const std::vector<std::string> text = dedented(region.lines);
    lines.insert(lines.end(), text.begin(), text.end());
  }
  return fenced("cpp", joined(lines));
}

int stage_number(const Words& words, std::size_t at) {
  if (at >= words.size() || words[at].size() != 1 || words[at][0] < '1' || words[at][0] > '9')
    throw Refused(fmt::format("{} needs a stage's number", words[0]));
  return words[at][0] - '0';
}

const std::string& stage_label(const Words& words, std::size_t at) {
  if (at >= words.size()) throw Refused(fmt::format("{} needs a stage's number", words[0]));
  return words[at];
}

std::string diff_of(const std::filesystem::path& root, const Words& words, std::size_t at) {
  const std::string &before = stage_label(words, at), &after = stage_label(words, at + 1);
  return diff_text(root, before, after, false);
}

std::string fill_run(const std::filesystem::path& root, const Words& words) {
  if (words.size() < 3 || words[1] != "./learn") throw Refused("run needs ./learn and a command");
  std::string command, output;
  for (std::size_t w = 1; w < words.size(); ++w) command += (w == 1 ? "" : " ") + words[w];
  if (words[2] == "example") {
    output = worked_example(stage_number(words, 3)).text;
  } else if (words[2] == "fault") {
    output = fault_text(words.size() > 3 ? words[3] : "");
  } else if (words[2] == "diff") {
    output = diff_of(root, words, 3);
  } else {
    throw Refused(fmt::format(
        "run ./learn {}: only example, fault and diff print the same everywhere", words[2]));
  }
  return fenced("text", "$ " + command + "\n" + output);
}

/// Nobody has recorded these results yet.
struct NotRecorded : std::runtime_error {
  using std::runtime_error::runtime_error;
};

nlohmann::json results(const std::filesystem::path& root, const Words& words) {
  if (words.size() < 2) throw Refused(words[0] + " needs a results file");
  const std::filesystem::path file = std::filesystem::path("notes/results") / (words[1] + ".json");
  if (!std::filesystem::exists(root / file)) throw NotRecorded("waits for " + file.string());
  return read_results(root / file);
}

std::string fill_costs(const std::filesystem::path& root, const Words& words) {
  const nlohmann::json recorded = results(root, words);
  if (words.size() < 4) throw Refused("costs needs a results file, a shape and stages");

  Table table{
      {"", "FLOP", "extra memory, predicted", "measured", "traffic, predicted", "time", "GFLOP/s"},
      {},
      {true, false, false, false, false, false, false}};
  for (std::size_t w = 3; w < words.size(); ++w) {
    const std::string run = fmt::format("/runs/{}/stage{}/", words[2], words[w]);
    const auto cell = [&](const char* key, const char* format) {
      return formatted(number_at(recorded, run + key), format);
    };
    table.rows.push_back({fmt::format("stage {}", words[w]),
                          cell("flop", "flop"),
                          cell("extra_bytes_predicted", "bytes"),
                          cell("extra_bytes", "bytes"),
                          cell("traffic_bytes", "bytes"),
                          cell("seconds", "time"),
                          cell("gflops", "{:.2f}")});
  }
  return table.markdown();
}

std::string fill_result(const std::filesystem::path& root, const Words& words) {
  const nlohmann::json recorded = results(root, words);
  if (words.size() != 4 && !(words.size() == 6 && words[4] == "/"))
    throw Refused(
        "result needs a results file, a format and a key, or two keys with a / between them");
  double value = number_at(recorded, words[3]);
  if (words.size() == 6) value /= number_at(recorded, words[5]);
  return formatted(value, words[2]);
}

/// A table of the recorded "rows", or in FILE/summary of "summary", one column for each COLUMN=format;
/// words and booleans as they are, and nothing where a row has no such number (but some row must).
std::string fill_rows(const std::filesystem::path& root, const Words& words) {
  if (words.size() < 3) throw Refused("rows needs a results file and columns, KEY=FORMAT");
  const std::size_t slash = words[1].find('/');
  const std::string list = slash == std::string::npos ? "rows" : words[1].substr(slash + 1);
  const nlohmann::json recorded = results(root, {words[0], words[1].substr(0, slash)});
  Table table;
  for (std::size_t w = 2; w < words.size(); ++w) {
    table.heads.push_back(words[w].substr(0, words[w].find('=')));
    table.left.push_back(false);
  }
  const nlohmann::json& rows = recorded.at(list);
  for (const std::string& key : table.heads)
    if (std::none_of(rows.begin(), rows.end(), [&](const auto& row) { return row.contains(key); }))
      throw Refused(fmt::format("{}: no row has '{}'", words[1], key));
  for (const nlohmann::json& row : rows) {
    std::vector<std::string> cells;
    for (std::size_t w = 2; w < words.size(); ++w) {
      const std::string key = table.heads[w - 2];
      const std::size_t format = key.size() + 1;
      const nlohmann::json value = row.contains(key) ? row.at(key) : nlohmann::json("");
      if (value.is_boolean())
        cells.push_back(value.get<bool>() ? "yes" : "");
      else if (value.is_string())
        cells.push_back(value.get<std::string>());
      else
        cells.push_back(formatted(value.get<double>(),
                                  format < words[w].size() ? words[w].substr(format) : "{:.0f}"));
    }
    table.rows.push_back(cells);
  }
  for (std::string& name : table.heads) std::replace(name.begin(), name.end(), '_', ' ');
  return table.markdown();
}

std::string fill_recorded(const std::filesystem::path& root, const Words& words) {
  if (words.size() != 3 || words[1] != "run")
    throw Refused("recorded needs the word run and a results file");
  const nlohmann::json recorded = results(root, {words[0], words[2]});
  std::string text = "$ " + recorded.at("command").get<std::string>() + "\n";
  for (const auto& line : recorded.at("output")) text += line.get<std::string>() + "\n";
  return fenced("text", text);
}

/// What belongs between the markers of "KIND arguments".
std::string generate(const std::filesystem::path& root, const std::string& what) {
  const Words words = split(what);
  const std::string kind = words.empty() ? "" : words[0];
  if (kind == "region") return fill_region(root, words);
  if (kind == "diff") return fenced("diff", diff_of(root, words, 1));
  if (kind == "run") return fill_run(root, words);
  if (kind == "costs") return fill_costs(root, words);
  if (kind == "result") return fill_result(root, words);
  if (kind == "rows") return fill_rows(root, words);
  if (kind == "recorded") return fill_recorded(root, words);
  if (kind == "where") return provenance(results(root, words));
  throw Refused(fmt::format(
      "fill: {}: must be region, diff, run, recorded, costs, rows, result or where", kind));
}

/// Where two texts first differ, in a few words.
std::string difference(const std::string& has, const std::string& should) {
  const std::vector<std::string> a = lines_of(has), b = lines_of(should);
  for (std::size_t line = 0; line < std::max(a.size(), b.size()); ++line) {
    const std::string x = line < a.size() ? a[line] : "(nothing)",
                      y = line < b.size() ? b[line] : "(nothing)";
    if (x != y) return fmt::format("has '{}', should have '{}'", trimmed(x), trimmed(y));
  }
  return "differs in its line ends";
}

class Filler {
 public:
  Filler(const std::filesystem::path& root, std::string name)
      : root_(root), name_(std::move(name)) {}

  FilledPage fill(const std::string& text) {
    const std::vector<std::string> lines = lines_of(text);
    bool fence = false;
    for (std::size_t at = 0; at < lines.size(); ++at) {
      line_ = static_cast<int>(at) + 1;
      const std::string& line = lines[at];
      const std::string start = trimmed(line);
      if (start.compare(0, 3, "```") == 0) fence = !fence;
      if (fence || line.find("<!-- ") == std::string::npos) {
        page_.text += line + "\n";
      } else if (start.compare(0, kStart.size(), kStart) == 0 &&
                 line.find(kEnd) == std::string::npos) {
        const int start_line = line_;
        std::string has;
        std::size_t end = at + 1;
        for (; end < lines.size() && trimmed(lines[end]) != kEnd; ++end) {
          line_ = static_cast<int>(end) + 1;
          if (trimmed(lines[end]).compare(0, kStart.size(), kStart) == 0)
            fail("fill begins inside another");
          has += lines[end] + "\n";
        }
        line_ = start_line;
        if (end == lines.size()) fail("fill has no end: a line <!-- end fill -->");
        const std::size_t stop = start.rfind("-->");
        if (stop == std::string::npos || stop < kStart.size()) fail("the marker has no -->");
        page_.text += line + "\n" +
                      current(start.substr(kStart.size(), stop - kStart.size()), has, true) + kEnd +
                      "\n";
        at = end;
      } else {
        page_.text += inline_parts(line) + "\n";
      }
    }
    return page_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw MarkerError(fmt::format("{}:{}: {}", name_, line_, what));
  }

  /// The generated text; notes it when it isn't what the page has.
  std::string current(const std::string& what, const std::string& has, bool block) {
    try {
      std::string should = generate(root_, what);
      if (block && should.back() != '\n') should += "\n";
      if (has != should)
        page_.stale.push_back(
            fmt::format("{}:{}: {}: {}", name_, line_, trimmed(what), difference(has, should)));
      return should;
    } catch (const NotRecorded& missing) {
      page_.waiting.push_back(
          fmt::format("{}:{}: {}: {}", name_, line_, trimmed(what), missing.what()));
      return has;
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

  std::string inline_parts(const std::string& line) {
    std::string result;
    std::size_t at = 0;
    for (;;) {
      const std::size_t start = line.find(kStart, at);
      const std::size_t end = line.find(kEnd, at);
      if (start == std::string::npos) {
        if (end != std::string::npos) fail("end fill without a fill");
        return result + line.substr(at);
      }
      const std::size_t stop = line.find(kStartEnd, start);
      if (end == std::string::npos || stop == std::string::npos || !(start < stop && stop < end))
        fail("fill and end fill must stand in one line, or each alone in its line");
      const std::size_t body = stop + kStartEnd.size();
      result += line.substr(at, body - at);
      result += current(line.substr(start + kStart.size(), stop - start - kStart.size()),
                        line.substr(body, end - body),
                        false);
      result += kEnd;
      at = end + kEnd.size();
    }
  }

  const std::filesystem::path& root_;
  std::string name_;
  int line_ = 0;
  FilledPage page_;
};

}  // namespace

FilledPage fill_page(const std::filesystem::path& root,
                     const std::string& name,
                     const std::string& text) {
  return Filler(root, name).fill(text);
}

std::vector<std::filesystem::path> pages(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> result;
  const auto add = [&](const std::filesystem::path& page) {
    if (std::filesystem::is_regular_file(root / page)) result.push_back(page);
  };
  add("README.md");
  std::error_code none;
  std::vector<std::filesystem::path> notes;
  for (const auto& entry : std::filesystem::directory_iterator(root / "notes", none))
    if (entry.path().extension() == ".md")
      notes.push_back(std::filesystem::path("notes") / entry.path().filename());
  std::sort(notes.begin(), notes.end());
  std::for_each(notes.begin(), notes.end(), add);
  for (const CourseStage& stage : stages())
    for (const char* page : {"README.md", "hints.md"})
      add(std::filesystem::path(stage.folder) / page);
  return result;
}

}  // namespace fa::course
