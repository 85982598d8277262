// Small things about text and files that several parts of the course need.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fa::course {

/// The whole file. Throws Refused when it can't be read.
std::string read_text(const std::filesystem::path& path);

/// Writes the file in one step: a reader sees the old text or the new one, never a part. Throws
/// Refused when it can't be written.
void write_text(const std::filesystem::path& path, const std::string& text);

/// Lines without their line ends; a last line without one counts too.
std::vector<std::string> lines_of(const std::string& text);

/// The lines, each with a line end.
std::string joined(const std::vector<std::string>& lines);

/// The text without spaces and tabs at either end.
std::string trimmed(const std::string& text);

/// The lines moved left as far as the least indented of them allows; blank lines come out empty.
std::vector<std::string> dedented(std::vector<std::string> lines);

/// Columns that UTF-8 text takes in a terminal, every character counted as one.
int width_of(const std::string& text);

/// Text broken at spaces so that no line is wider than `width`.
std::vector<std::string> wrapped(const std::string& text, int width);

}  // namespace fa::course
