// See loop/position.hpp. Pure; any thread.
#include "jit/loop/position.hpp"

#include "jit/value/int128.hpp"

namespace heddle::jit {
namespace {

Int128 number(const Scalar& scalar) {
  return scalar.dtype == DType::u64 ? static_cast<Int128>(static_cast<std::uint64_t>(scalar.i))
                                    : static_cast<Int128>(scalar.i);
}

}  // namespace

PositionBounds position_bounds(const Stmt& at) {
  const DType type = at.value->dtype;
  const Int128 least = number(*neutral(Op::max, type));
  const Int128 most = number(*neutral(Op::min, type));
  const std::int64_t last = at.to - 1;
  PositionBounds bounds;
  if (most < at.from) {
    bounds.only = at.from;
  } else if (least > last) {
    bounds.only = last;
  } else {
    if (least < at.from) bounds.lowest = Scalar::of_int(type, at.from);
    if (most > last) bounds.highest = Scalar::of_int(type, last);
  }
  return bounds;
}

}  // namespace heddle::jit
