// Arguments that are numbers without a type of their own.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "heddle/executor_arguments.hpp"
#include "heddle/status.hpp"
#include "jit/value/element.hpp"
#include "runtime/executor/key.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle::executors {

/// Gives such a number the common type of the float arguments, as a number in a graph has.
void Arguments::fit_numbers() {
  std::optional<DType> met;
  for (const Leaf& leaf : leaves_) {
    const DType dtype = rt::type_of(leaf).dtype;
    if (leaf.is_number || !is_floating(dtype)) continue;
    met = met ? jit::promote(*met, dtype) : dtype;
    if (!met) return;
  }
  if (!met || *met == DType::f64) return;
  const sched::DefaultFloating floating;
  for (Leaf& leaf : leaves_) {
    if (!leaf.is_number) continue;
    const double number = *static_cast<const double*>(leaf.data);
    jit::store_element(*met, leaf.own, 0, jit::Scalar::of_float(DType::f64, number));
    if (std::isfinite(number) && !std::isfinite(jit::load_element(*met, leaf.own, 0).f)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("an executor is called with the number {}, which is too large for "
                              "{}, the type of the floats that it is given with; give it as an "
                              "array of f64",
                              number, name(*met)));
    }
    leaf.data = leaf.own;
    leaf.dtype = *met;
  }
}

}  // namespace heddle::executors
