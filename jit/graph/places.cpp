// See graph/places.hpp.
#include "jit/graph/places.hpp"

#include <algorithm>

namespace heddle::jit {
namespace {

/// A digit times a positive step; `down`: the digit counted from its end.
struct Term {
  std::uint32_t index;
  std::int64_t step;
  bool down;
};

/// A row-major position whose terms all have positive steps.
struct Flat {
  std::int64_t constant = 0;
  std::vector<Term> terms;
};

Flat rising(const NodePlace& place, const Digits& digits) {
  Flat flat{place.constant, {}};
  for (const auto& [index, coefficient] : place.terms) {
    if (coefficient < 0) flat.constant += coefficient * (digits.extent(index) - 1);
    flat.terms.push_back({index, std::abs(coefficient), coefficient < 0});
  }
  return flat;
}

/// Divides `flat` by `stride`: returns the quotient and leaves the remainder in `flat`.
std::variant<NodePlace, Cut, NotAffine> take(Flat& flat, std::int64_t stride,
                                             const Digits& digits) {
  NodePlace taken{flat.constant / stride, {}};
  Flat rest{flat.constant % stride, {}};
  std::int64_t reach = rest.constant;
  for (const Term& term : flat.terms) {
    const std::int64_t extent = digits.extent(term.index);
    if (term.step % stride == 0) {
      const std::int64_t factor = term.step / stride;
      taken = add(taken, {term.down ? factor * (extent - 1) : 0,
                          {{term.index, term.down ? -factor : factor}}});
      continue;
    }
    if (term.step * (extent - 1) >= stride) {
      const std::int64_t low = stride / term.step;
      if (stride % term.step != 0 || low < 2 || extent % low != 0) return NotAffine{};
      return Cut{term.index, low};
    }
    reach += term.step * (extent - 1);
    rest.terms.push_back(term);
  }
  if (reach >= stride) return NotAffine{};
  flat = std::move(rest);
  return taken;
}

std::int64_t stride_of(const Dims& dims, std::size_t axis) {
  std::int64_t stride = 1;
  for (std::size_t k = axis + 1; k < dims.size(); ++k) stride *= dims[k];
  return stride;
}

}  // namespace

NodePlace add(const NodePlace& a, const NodePlace& b, std::int64_t factor) {
  NodePlace sum = a;
  sum.constant += factor * b.constant;
  for (const auto& [index, coefficient] : b.terms) {
    const auto at =
        std::ranges::lower_bound(sum.terms, index, {}, [](const auto& term) { return term.first; });
    if (at == sum.terms.end() || at->first != index) {
      sum.terms.insert(at, {index, factor * coefficient});
    } else {
      at->second += factor * coefficient;
    }
  }
  std::erase_if(sum.terms, [](const auto& term) { return term.second == 0; });
  return sum;
}

NodePlace scale(const NodePlace& a, std::int64_t factor) { return add({}, a, factor); }

Digits::Digits(const Dims& extents) : extents_(extents), rank_(extents.size()) {
  for (std::size_t axis = 0; axis < rank_; ++axis) axes_.push_back(axis);
}

NodePlaces Digits::places() const {
  NodePlaces places(rank_);
  std::vector<std::int64_t> strides(rank_, 1);
  for (std::size_t k = extents_.size(); k-- > 0;) {
    const std::size_t axis = axes_[k];
    // The place along an axis of one element is 0.
    if (extents_[k] != 1)
      places[axis] = add(places[axis], {0, {{static_cast<std::uint32_t>(k), strides[axis]}}});
    strides[axis] *= extents_[k];
  }
  return places;
}

void Digits::cut(std::uint32_t index, std::int64_t low) {
  extents_[index] /= low;
  extents_.insert(extents_.begin() + index + 1, low);
  axes_.insert(axes_.begin() + index + 1, axes_[index]);
}

NodePlace row_major(const NodePlaces& places, const Dims& dims) {
  NodePlace place;
  for (std::size_t axis = 0; axis < dims.size(); ++axis)
    place = add(place, places[axis], stride_of(dims, axis));
  return place;
}

std::variant<NodePlaces, Cut, NotAffine> reshaped(const NodePlaces& places, const Dims& to,
                                                  const Dims& from, const Digits& digits) {
  Flat rest = rising(row_major(places, to), digits);
  NodePlaces result;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] == 1) {
      result.emplace_back();
      continue;
    }
    auto taken = take(rest, stride_of(from, axis), digits);
    if (const Cut* const cut = std::get_if<Cut>(&taken)) return *cut;
    if (std::holds_alternative<NotAffine>(taken)) return NotAffine{};
    result.push_back(std::move(std::get<NodePlace>(taken)));
  }
  return result;
}

}  // namespace heddle::jit
