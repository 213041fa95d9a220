// Side parameters, as seen by the hook that sets them.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/executor.hpp"
#include "heddle/status.hpp"

namespace heddle {

const SideParameters::Slot& SideParameters::slot(std::size_t k) const {
  if (k < slots_.size()) return slots_[k];
  throw Error(ErrorCode::invalid_argument,
              fmt::format("side parameter {} of graph '{}', which has {}, from 0 on", k,
                          graph_.name(), slots_.size()));
}

const std::string& SideParameters::name(std::size_t k) const { return *slot(k).name; }
const ArrayType& SideParameters::type(std::size_t k) const { return *slot(k).type; }

void SideParameters::put(std::size_t k, const Array& array, bool donated) {
  static_cast<void>(slot(k));
  slots_[k].array.emplace(array);
  slots_[k].donated = donated;
}

std::size_t SideParameters::find(std::string_view name) const {
  const auto at =
      std::ranges::find_if(slots_, [&](const Slot& each) { return *each.name == name; });
  if (at != slots_.end()) return static_cast<std::size_t>(at - slots_.begin());
  std::string names;
  for (const Slot& each : slots_)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", *each.name);
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("graph '{}' has no side parameter '{}'; it has {}", graph_.name(), name, names));
}

}  // namespace heddle
