// See statics.hpp.
#include "runtime/statics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"

namespace heddle::rt {
namespace {

[[noreturn]] void refuse_binding(const Code& code, const StaticIndex& index,
                                 const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("routine '{}': static index '{}' {}", code.name(), index.label(), why));
}

[[noreturn]] void refuse_unbound(const Code& code, const StaticIndex& index) {
  refuse_binding(code, index, "is not bound; give its value: schedule({{index, value}})");
}

void require_inside(const Code& code, std::size_t k, std::int64_t value) {
  const jit::CodeData& data = *Inside::of(code);
  const jit::StaticBounds& bounds = data.signature().statics[k];
  if (value >= bounds.lowest && value <= bounds.highest) [[likely]]
    return;
  const std::string range = bounds.lowest > bounds.highest
                                ? "no value fits its uses"
                                : fmt::format("expected {} to {}", bounds.lowest, bounds.highest);
  refuse_binding(code, data.static_index(k), fmt::format("is bound to {} ({})", value, range));
}

std::int64_t checked(const Code& code, std::size_t k, const BoundValue& value) {
  if (const std::string mistake = value.mistake(); !mistake.empty())
    refuse_binding(code, Inside::of(code)->static_index(k), "is bound to " + mistake);
  return value.now();
}

/// Tells `bound(k, value)` of each index, by its position.
template <class Bound>
void each_bound(const Code& code, std::span<const Binding> bindings, const Bound& bound) {
  const jit::CodeData& data = *Inside::of(code);
  const std::size_t count = data.signature().statics.size();
  for (auto at = bindings.begin(); at != bindings.end(); ++at) {
    const auto& [index, value] = *at;
    std::size_t k = 0;
    while (k < count && !(data.static_index(k) == index)) ++k;
    if (k == count) refuse_binding(code, index, "is bound, but the routine has none such");
    if (std::any_of(bindings.begin(), at,
                    [&](const auto& before) { return before.first == index; }))
      refuse_binding(code, index, "is bound twice");
    bound(k, value);
  }
  for (std::size_t k = 0; bindings.size() < count && k < count; ++k) {
    const StaticIndex& index = data.static_index(k);
    if (std::ranges::none_of(bindings, [&](const auto& each) { return each.first == index; }))
      refuse_unbound(code, index);
  }
}

template <class Value, class Bound>
void each_bound(const Code& code, std::span<const Value> values, const Bound& bound) {
  const jit::CodeData& data = *Inside::of(code);
  const std::size_t count = data.signature().statics.size();
  if (values.size() > count) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("routine '{}': {} values for its {} static indices", code.name(),
                            values.size(), count));
  }
  if (values.size() < count) refuse_unbound(code, data.static_index(values.size()));
  for (std::size_t k = 0; k < count; ++k) bound(k, values[k]);
}

}  // namespace

BoundStatics::BoundStatics(const Code& code, BindingsView bindings)
    : values_(Inside::of(code)->signature().statics.size()) {
  Statics(bindings).take(code, values_);
  const auto note_cell = [&](std::size_t k, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, BoundValue>) {
      if (value.cell() != nullptr) cells_.emplace_back(k, value.cell());
    }
  };
  std::visit([&](const auto& given) { each_bound(code, given, note_cell); }, bindings.given());
}

void BoundStatics::take(const Code& code, std::span<std::int64_t> values) const {
  std::ranges::copy(values_, values.begin());
  for (const auto& [k, cell] : cells_) {
    values[k] = *cell;
    require_inside(code, k, values[k]);
  }
}

void Statics::take(const Code& code, std::span<std::int64_t> values) const {
  if (bound_ != nullptr) return bound_->take(code, values);
  const auto note = [&](std::size_t k, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, BoundValue>) {
      values[k] = checked(code, k, value);
    } else {
      values[k] = value;
    }
  };
  std::visit([&](const auto& given) { each_bound(code, given, note); }, given_.given());
  for (std::size_t k = 0; k < Inside::of(code)->signature().statics.size(); ++k)
    require_inside(code, k, values[k]);
}

}  // namespace heddle::rt
