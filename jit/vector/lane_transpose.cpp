// See vector/lane_transpose.hpp. Instructions: Intel 64 and IA-32 Architectures Software
// Developer's Manual, volume 2. The interleaving instructions work on each 16 bytes of a vector
// separately.
#include "jit/vector/lane_transpose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace heddle::jit {
namespace {

class Network {
 public:
  Network(DType type, const Target& target)
      : wide_(size_of(type) == 8),
        avx512_(target.isa >= Isa::avx512),
        rows_(static_cast<std::size_t>(target.lanes(type))),
        quarter_(wide_ ? 2 : 4) {}

  std::vector<LaneShuffle> build() {
    for (std::size_t row = 0; row < rows_; row += quarter_) columns_of(row);
    // Part p of vector (group, c) is the group's piece of column quarter_ * p + c.
    const auto at = [this](std::size_t group, std::size_t c) {
      return made_[group * quarter_ + c];
    };
    if (!avx512_) {
      for (std::size_t column = 0; column < rows_; ++column) {
        const std::size_t c = column % quarter_;
        halves(column < quarter_ ? 0x20 : 0x31, at(0, c), at(1, c));
      }
      return std::move(shuffles_);
    }
    // parts of two groups: c of the lower groups, then of the upper
    std::vector<std::size_t> even, odd;
    for (const std::size_t group : {0U, 2U}) {
      for (std::size_t c = 0; c < quarter_; ++c) {
        even.push_back(parts(0x88, at(group, c), at(group + 1, c)));
        odd.push_back(parts(0xdd, at(group, c), at(group + 1, c)));
      }
    }
    for (std::size_t column = 0; column < rows_; ++column) {
      const std::size_t part = column / quarter_;
      const std::size_t c = column % quarter_;
      const std::vector<std::size_t>& from = part % 2 == 0 ? even : odd;
      parts(part < 2 ? 0x88 : 0xdd, from[c], from[quarter_ + c]);
    }
    return std::move(shuffles_);
  }

 private:
  std::size_t add(std::string instruction, std::size_t first, std::size_t second) {
    shuffles_.push_back({std::move(instruction), first, second});
    return rows_ + shuffles_.size() - 1;
  }
  /// Interleaves elements of two vectors, from the lower or the upper half of each 16 bytes.
  std::size_t interleave(std::string_view half, std::size_t first, std::size_t second) {
    return add(fmt::format("vunpck{} %2, %1, %0", half), first, second);
  }
  /// Selects two of the 16-byte parts of each vector.
  std::size_t parts(int which, std::size_t first, std::size_t second) {
    return add(fmt::format("vshuff{} ${:#x}, %2, %1, %0", wide_ ? "64x2" : "32x4", which), first,
               second);
  }
  std::size_t halves(int which, std::size_t first, std::size_t second) {
    return add(fmt::format("vperm2f128 ${:#x}, %2, %1, %0", which), first, second);
  }

  /// Makes the columns of the rows from `row` on, for as many rows as elements fit in 16 bytes.
  void columns_of(std::size_t row) {
    if (wide_) {
      made_.push_back(interleave("lpd", row, row + 1));
      made_.push_back(interleave("hpd", row, row + 1));
      return;
    }
    for (const std::string_view half : {"lps", "hps"}) {
      const std::size_t upper = interleave(half, row, row + 1);
      const std::size_t lower = interleave(half, row + 2, row + 3);
      made_.push_back(interleave("lpd", upper, lower));
      made_.push_back(interleave("hpd", upper, lower));
    }
  }

  const bool wide_, avx512_;
  const std::size_t rows_, quarter_;
  std::vector<LaneShuffle> shuffles_;
  std::vector<std::size_t> made_;
};

}  // namespace

std::vector<LaneShuffle> lane_transpose(DType type, const Target& target) {
  const bool fits = size_of(type) == 4 || size_of(type) == 8;
  if (!fits || target.isa < Isa::avx2) return {};
  return Network(type, target).build();
}

}  // namespace heddle::jit
