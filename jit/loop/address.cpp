// See loop/address.hpp. Pure functions; any thread.
#include "jit/loop/address.hpp"

#include <map>
#include <utility>

namespace heddle::jit {
namespace {

std::int64_t wrapping_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace

Affine flatten(const ArrayType& type, const std::vector<Affine>& subscripts) {
  std::map<std::pair<AffineTerm::Kind, std::uint32_t>, std::int64_t> terms;
  Affine flat;
  std::int64_t stride = 1;
  for (std::size_t axis = subscripts.size(); axis-- > 0;) {
    const Affine& at = subscripts[axis];
    flat.constant = wrapping_add(flat.constant, wrapping_mul(at.constant, stride));
    for (const AffineTerm& term : at.terms) {
      std::int64_t& sum = terms[{term.kind, term.id}];
      sum = wrapping_add(sum, wrapping_mul(term.coefficient, stride));
    }
    stride = wrapping_mul(stride, type.dims[axis]);
  }
  for (const auto& [key, coefficient] : terms) {
    if (coefficient != 0) flat.terms.push_back({key.first, key.second, coefficient});
  }
  return flat;
}

}  // namespace heddle::jit
