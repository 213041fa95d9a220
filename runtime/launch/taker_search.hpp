// The search by which donated memory finds a taker: in links (context/giving.hpp) and in calls of
// executors (executor/donation.hpp). Used by one thread.
#pragma once

#include <cstddef>
#include <optional>

namespace heddle::rt {

/// Finds takers for donors, one by one. A donor gets the next taker that may have its memory,
/// searched in a circle from the taker after the last match. Donors and takers mostly come in the
/// same order, and then the first candidate fits.
class TakerSearch {
 public:
  /// `may_take(taker)`: the taker is free, and may have the donor's memory. none: no taker may.
  template <class MayTake>
  [[nodiscard]] std::optional<std::size_t> next(std::size_t num_takers, const MayTake& may_take) {
    for (std::size_t asked = 0; asked < num_takers; ++asked) {
      const std::size_t taker = next_;
      if (++next_ == num_takers) next_ = 0;
      if (may_take(taker)) return taker;
    }
    return {};
  }

 private:
  std::size_t next_ = 0;
};

}  // namespace heddle::rt
