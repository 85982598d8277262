#include "common/course/fragment_example.hpp"

#include <fmt/format.h>

#include <vector>

#include "common/course/table.hpp"
#include "common/harness/units.hpp"
#include "common/simt/fragments.hpp"

namespace fa::course {

namespace {

using simt::fragments::Element;

/// Which lane has an element, and in which register.
struct Owner {
  int lane = -1, register_ = -1;
};

/// The owners of a matrix's elements, filled from what registers hold.
class Owners {
 public:
  Owners(int rows, int columns)
      : rows_(rows), columns_(columns), owner_(static_cast<std::size_t>(rows * columns)) {}

  void add(Element e, Owner owner) {
    if (e.row >= rows_ || e.column >= columns_ || at(e.row, e.column).lane >= 0)
      twice_ = true;
    else
      at(e.row, e.column) = owner;
  }
  Owner& at(int row, int column) {
    return owner_[static_cast<std::size_t>(row * columns_ + column)];
  }
  /// Has every element one owner, the one that `formula` says?
  template <class Formula>
  bool are(Formula formula) {
    bool right = !twice_;
    for (int row = 0; row < rows_; ++row)
      for (int column = 0; column < columns_; ++column) {
        const Owner is = at(row, column), should = formula(row, column);
        right = right && is.lane == should.lane && is.register_ == should.register_;
      }
    return right;
  }

 private:
  int rows_, columns_;
  bool twice_ = false;
  std::vector<Owner> owner_;
};

template <class Registers>
Owners owners(const Registers& registers, int rows, int columns) {
  Owners result(rows, columns);
  for (std::size_t lane = 0; lane < registers.size(); ++lane)
    for (std::size_t r = 0; r < registers[lane].size(); ++r)
      for (const Element& e : registers[lane][r])
        result.add(e, {static_cast<int>(lane), static_cast<int>(r)});
  return result;
}

/// Two neighbours of a row share a cell: "9 a0".
std::string pairs(Owners& of,
                  const std::string& down,
                  const std::string& across,
                  int columns,
                  const std::vector<int>& rows,
                  const std::vector<std::string>& names) {
  Table table;
  table.heads = {down};
  for (int x = 0; x < columns; x += 2)
    table.heads.push_back(fmt::format("{}{},{}", x == 0 ? across + " " : "", x, x + 1));
  table.left.assign(table.heads.size(), false);
  for (const int row : rows) {
    std::vector<std::string> cells(table.heads.size(), ":");
    for (int x = 0; x < columns && row >= 0; x += 2) {
      const Owner owner = of.at(row, x);
      cells[static_cast<std::size_t>(x / 2 + 1)] =
          fmt::format("{} {}", owner.lane, names[static_cast<std::size_t>(owner.register_)]);
    }
    if (row >= 0) cells[0] = std::to_string(row);
    table.rows.push_back(cells);
  }
  return table.text(2);
}

constexpr int kGap = -1;  // a row of the drawing that stands for those left out

std::string draw_fragments(std::string& failure) {
  const simt::fragments::Loaded loaded = simt::fragments::loaded();
  Owners A = owners(loaded.A, 16, 16), K = owners(loaded.K, 8, 16), V = owners(loaded.V, 16, 8);
  const auto left = simt::fragments::accumulated();
  Owners C(16, 8);
  for (std::size_t lane = 0; lane < 32; ++lane)
    for (std::size_t c = 0; c < 4; ++c)
      C.add(left[lane][c], {static_cast<int>(lane), static_cast<int>(c)});

  // The formulas that the kernels rely on: lane 4 g + t.
  const auto a = [](int i, int x) { return Owner{i % 8 * 4 + x % 8 / 2, i / 8 + x / 8 * 2}; };
  if (!A.are(a)) failure += "A isn't where the kernels take it to be\n";
  if (!K.are([](int n, int x) { return Owner{n * 4 + x % 8 / 2, x / 8}; }))
    failure += "B of K isn't where the kernels take it to be\n";
  if (!V.are([](int k, int y) { return Owner{y * 4 + k % 8 / 2, k / 8}; }))
    failure += "B of V isn't where the kernels take it to be\n";
  if (!C.are([](int i, int n) { return Owner{i % 8 * 4 + n / 2, i / 8 * 2 + n % 2}; }))
    failure += "C isn't where the kernels take it to be\n";

  const std::vector<int> rows = {0, 1, kGap, 7, 8, 9, kGap, 15};
  std::string text =
      "A: 16 queries by 16 components, as ldmatrix.x4 brings them. A cell is two neighbours in "
      "one\n"
      "register, the left one in its low half: lane, register.\n\n" +
      pairs(A, "query", "component", 16, rows, {"a0", "a1", "a2", "a3"}) +
      "\nB of Q Kᵀ: column n of Kᵀ is key n, a row of K in memory.\n\n" +
      pairs(K, "key", "component", 16, {0, 1, kGap, 7}, {"b0", "b1"}) +
      "\nB of P V: two neighbours are two keys now, that is two rows of V: ldmatrix.x4.trans.\n\n";
  Table v{{"keys"}, {}, {false}};
  for (int y = 0; y < 8; ++y) {
    v.heads.push_back(fmt::format("{}{}", y == 0 ? "column " : "", y));
    v.left.push_back(false);
  }
  for (int k = 0; k < 16; k += 2) {
    std::vector<std::string> cells = {fmt::format("{},{}", k, k + 1)};
    for (int y = 0; y < 8; ++y)
      cells.push_back(fmt::format("{} b{}", V.at(k, y).lane, V.at(k, y).register_));
    v.rows.push_back(cells);
  }
  text += v.text(2);

  // Two pieces of C beside each other: where A is the same cells.
  Table s{{"query"}, {}, {false}};
  bool same = true;
  for (int n = 0; n < 16; n += 2) {
    s.heads.push_back(fmt::format("{}{},{}", n == 0 ? "key " : "", n, n + 1));
    s.left.push_back(false);
  }
  for (const int i : rows) {
    std::vector<std::string> cells = {i >= 0 ? std::to_string(i) : ":"};
    for (int n = 0; n < 16; n += 2) {
      if (i < 0) {
        cells.push_back(":");
        continue;
      }
      const Owner c = C.at(i, n % 8);
      same = same && A.at(i, n).lane == c.lane;
      cells.push_back(
          fmt::format("{} c{}c{}{}", c.lane, c.register_, c.register_ + 1, n < 8 ? "" : "'"));
    }
    s.rows.push_back(cells);
  }
  if (!same) failure += "a lane's part of S isn't its part of P\n";
  text +=
      "\nC of Q Kᵀ, two pieces of 8 keys beside each other (the second's registers with a dash). "
      "The\n"
      "same lanes in the same cells as in A above: rounded in pairs, c0c1 is a0, c2c3 is a1, c0c1' "
      "is\n"
      "a2, c2c3' is a3 of P V.\n\n" +
      s.text(2);
  const int right = simt::fragments::right_in_chain();
  if (right != 128) failure += fmt::format("S V, S used where it is: {} of 128 right\n", right);
  text += fmt::format(
      "\n(Q Kᵀ) V with the accumulator handed on so, in whole numbers: {} of 128 elements\n"
      "are those of the definition.\n",
      right);
  return text;
}

std::string draw_banks() {
  const std::vector<simt::fragments::Layout> layouts = simt::fragments::layouts();
  std::string text =
      "\nA tile of 64 keys by 64 components in 16 bits. A piece is 8 components, 16 bytes, 4 "
      "banks. Which\n"
      "piece of row i lies in which banks (ldmatrix fetches the same piece of 8 rows: [2], "
      "say):\n\n";
  std::string line = "        ";
  for (const auto& layout : layouts) line += fmt::format("{:<29}", layout.name);
  const auto add = [&] {
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    line.clear();
  };
  add();
  line = "  bank  ";
  for (std::size_t n = 0; n < layouts.size(); ++n) {
    for (int b = 0; b < 32; b += 4) line += fmt::format("{:<3}", b);
    line += "     ";
  }
  add();
  for (std::size_t i = 0; i < 8; ++i) {
    line = fmt::format("  row {} ", i);
    for (const auto& layout : layouts) {
      for (int b = 0; b < 32; b += 4) {
        std::string cell = "?";
        for (std::size_t p = 0; p < 8; ++p)
          if (layout.bank[i][p] == b) cell = p == 2 ? "[2]" : fmt::format(" {} ", p);
        line += cell;
      }
      line += "     ";
    }
    add();
  }
  Table table{{"all fragments of K, once",
               "bytes",
               "ldmatrix",
               "cycles",
               "conflicts",
               "4-byte loads",
               "cycles",
               "conflicts"},
              {},
              {true, false, false, false, false, false, false, false}};
  for (const auto& layout : layouts)
    table.rows.push_back(
        {layout.name,
         count_text(layout.bytes),
         count_text(static_cast<Index>(layout.fetched.ldmatrix_requests)),
         count_text(static_cast<Index>(layout.fetched.ldmatrix_wavefronts)),
         count_text(static_cast<Index>(layout.fetched.ldmatrix_conflicts)),
         count_text(static_cast<Index>(layout.fetched_singly.shared_load_requests)),
         count_text(static_cast<Index>(layout.fetched_singly.shared_load_wavefronts)),
         count_text(static_cast<Index>(layout.fetched_singly.shared_load_conflicts))});
  return text + "\n" + table.text();
}

}  // namespace

WorkedExample fragment_example() {
  WorkedExample example;
  example.text = draw_fragments(example.failure) + draw_banks();
  return example;
}

}  // namespace fa::course
