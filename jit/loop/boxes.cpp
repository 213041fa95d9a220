// See loop/boxes.hpp.
#include "jit/loop/boxes.hpp"

#include <algorithm>

namespace heddle::jit {
namespace {

/// A new box is compared with all others.
constexpr std::size_t boxes_max = 256;

bool is_inside(const Box& inner, const Box& outer) {
  return std::ranges::equal(inner, outer, [](const Interval& a, const Interval& b) {
    return b.lowest <= a.lowest && a.highest <= b.highest;
  });
}

bool meet(const Box& a, const Box& b) {
  return std::ranges::equal(a, b, [](const Interval& x, const Interval& y) {
    return x.lowest <= y.highest && y.lowest <= x.highest;
  });
}

/// True if the union of both is a box; `a` then becomes the union.
bool unite(Box& a, const Box& b) {
  std::size_t differs = a.size();  // the only axis on which the boxes differ
  for (std::size_t axis = 0; axis < a.size(); ++axis) {
    if (a[axis].lowest == b[axis].lowest && a[axis].highest == b[axis].highest) continue;
    if (differs != a.size()) return false;
    differs = axis;
  }
  if (differs == a.size()) return false;
  Interval& along = a[differs];
  const Interval& other = b[differs];
  if (along.highest + 1 != other.lowest && other.highest + 1 != along.lowest) return false;
  along = {std::min(along.lowest, other.lowest), std::max(along.highest, other.highest)};
  return true;
}

}  // namespace

bool is_dense(std::vector<std::pair<Int128, std::int64_t>> steps) {
  std::ranges::sort(steps);
  Int128 reach = 0;
  for (const auto& [size, count] : steps) {
    if (count == 1) continue;
    if (size > reach + 1) return false;
    reach += size * (count - 1);
  }
  return true;
}

void Cover::add(Box box) {
  for (const Box& known : boxes_) {
    if (is_inside(box, known) || (meet(box, known) && !is_inside(known, box))) return;
  }
  std::erase_if(boxes_, [&box](const Box& known) { return is_inside(known, box); });
  while (std::erase_if(boxes_, [&box](const Box& known) { return unite(box, known); }) != 0) {
  }
  if (boxes_.size() < boxes_max) boxes_.push_back(std::move(box));
}

bool Cover::contains(const Box& box) const {
  return std::ranges::any_of(boxes_, [&box](const Box& known) { return is_inside(box, known); });
}

bool Cover::is_whole(const Dims& dims) const {
  if (std::ranges::find(dims, 0) != dims.end()) return true;
  Int128 missing = 1;  // below 2^63, as the buffer is
  for (const std::int64_t extent : dims) missing *= extent;
  for (const Box& box : boxes_) {
    Int128 volume = 1;
    for (const Interval& axis : box) volume *= axis.highest - axis.lowest + 1;
    missing -= volume;
  }
  return missing == 0;
}

}  // namespace heddle::jit
