// See runtime/launch/statics.hpp.
#include "runtime/launch/statics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"

namespace heddle::rt {
namespace {

/// The static indices of a code, and their owner for messages.
struct OfCode {
  const Code& code;

  [[nodiscard]] std::size_t size() const noexcept {
    return Inside::of(code)->signature().statics.size();
  }
  [[nodiscard]] const StaticIndex& operator[](std::size_t k) const {
    return Inside::of(code)->static_index(k);
  }
  [[nodiscard]] std::string owner() const { return "routine '" + code.name() + "'"; }
  static constexpr const char* call = "schedule";
};

/// The open static indices of a replay's routines.
struct OfReplay {
  std::string_view name;
  std::span<const StaticIndex> indices;

  [[nodiscard]] std::size_t size() const noexcept { return indices.size(); }
  [[nodiscard]] const StaticIndex& operator[](std::size_t k) const { return indices[k]; }
  [[nodiscard]] std::string owner() const { return fmt::format("replay '{}'", name); }
  static constexpr const char* call = "run";
};

template <class Indices>
[[noreturn]] void refuse_binding(const Indices& indices, const StaticIndex& index,
                                 const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: static index '{}' {}", indices.owner(), index.label(), why));
}

template <class Indices>
[[noreturn]] void refuse_unbound(const Indices& indices, const StaticIndex& index) {
  refuse_binding(
      indices, index,
      fmt::format("is not bound; give its value: {}({{{{index, value}}}})", Indices::call));
}

void require_inside(const Code& code, std::size_t k, std::int64_t value) {
  const jit::CodeData& data = *Inside::of(code);
  const jit::StaticBounds& bounds = data.signature().statics[k];
  if (value >= bounds.lowest && value <= bounds.highest) [[likely]]
    return;
  const std::string range = bounds.lowest > bounds.highest
                                ? "no value fits its uses"
                                : fmt::format("expected {} to {}", bounds.lowest, bounds.highest);
  refuse_binding(OfCode{code}, data.static_index(k),
                 fmt::format("is bound to {} ({})", value, range));
}

template <class Indices>
std::size_t position(const Indices& indices, const StaticIndex& index) {
  std::size_t k = 0;
  while (k < indices.size() && !(indices[k] == index)) ++k;
  return k;
}

bool is_bound(std::span<const Binding> bindings, const StaticIndex& index) {
  return std::ranges::any_of(bindings, [&](const auto& each) { return each.first == index; });
}

/// Calls `bound(k, value)` for every index. `k`: the index's position.
template <class Indices, class Bound>
void each_bound(const Indices& indices, std::span<const Binding> bindings, const Bound& bound) {
  for (auto at = bindings.begin(); at != bindings.end(); ++at) {
    const auto& [index, value] = *at;
    const std::size_t k = position(indices, index);
    if (k == indices.size()) refuse_binding(indices, index, "is bound, but there is none such");
    if (is_bound({bindings.begin(), at}, index)) refuse_binding(indices, index, "is bound twice");
    bound(k, value);
  }
  for (std::size_t k = 0; bindings.size() < indices.size() && k < indices.size(); ++k) {
    if (!is_bound(bindings, indices[k])) refuse_unbound(indices, indices[k]);
  }
}

template <class Indices, class Value, class Bound>
void each_bound(const Indices& indices, std::span<const Value> values, const Bound& bound) {
  if (values.size() > indices.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} values for its {} static indices", indices.owner(),
                            values.size(), indices.size()));
  }
  if (values.size() < indices.size()) refuse_unbound(indices, indices[values.size()]);
  for (std::size_t k = 0; k < values.size(); ++k) bound(k, values[k]);
}

template <class Indices>
void take_given(const Indices& indices, BindingsView bindings, std::span<std::int64_t> values) {
  const auto note = [&](std::size_t k, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, BoundValue>) {
      if (const std::string mistake = value.mistake(); !mistake.empty())
        refuse_binding(indices, indices[k], "is bound to " + mistake);
      values[k] = value.now();
    } else {
      values[k] = value;
    }
  };
  std::visit([&](const auto& given) { each_bound(indices, given, note); }, bindings.given());
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
  std::visit([&](const auto& given) { each_bound(OfCode{code}, given, note_cell); },
             bindings.given());
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
  take_given(OfCode{code}, given_, values);
  for (std::size_t k = 0; k < OfCode{code}.size(); ++k) require_inside(code, k, values[k]);
}

namespace {

/// Positions of the code's indices without a binding.
std::vector<std::size_t> open_in(const Code& code, BindingsView bindings) {
  std::vector<std::size_t> open;
  const auto* const by_index = std::get_if<std::span<const Binding>>(&bindings.given());
  for (std::size_t k = 0; by_index != nullptr && k < OfCode{code}.size(); ++k) {
    if (!is_bound(*by_index, OfCode{code}[k])) open.push_back(k);
  }
  return open;
}

/// Binds open indices to their lowest values.
BoundStatics bind_most(const Code& code, BindingsView bindings,
                       const std::vector<std::size_t>& open) {
  if (open.empty()) return {code, bindings};
  const auto given = std::get<std::span<const Binding>>(bindings.given());
  Bindings all(given.begin(), given.end());
  for (const std::size_t k : open)
    all.emplace_back(OfCode{code}[k], Inside::of(code)->signature().statics[k].lowest);
  return {code, all};
}

}  // namespace

RecordedStatics::RecordedStatics(const Code& code, BindingsView bindings)
    : open_(open_in(code, bindings)), bound_(bind_most(code, bindings, open_)) {}

void RecordedStatics::take(const Code& code, std::span<const std::int64_t> open_values,
                           std::span<std::int64_t> values) const {
  bound_.take(code, values);
  for (std::size_t k = 0; k < open_.size(); ++k) {
    require_inside(code, open_[k], open_values[k]);
    values[open_[k]] = open_values[k];
  }
}

void take_statics(std::string_view owner, std::span<const StaticIndex> indices,
                  BindingsView bindings, std::span<std::int64_t> values) {
  take_given(OfReplay{owner, indices}, bindings, values);
}

}  // namespace heddle::rt
