// Rows of one workload: heddle against each of several anchors. One thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/bench/rivals.hpp"

namespace heddle::bench {

/// Collects the rows.
class Against {
 public:
  /// `like`: names, subject and slice of every row.
  Against(std::vector<Row>& rows, Case like) : rows_(rows), like_(std::move(like)) {}

  void operator()(Contender anchor) {
    Case row = like_;
    row.anchor = std::move(anchor);
    rows_.push_back(std::move(row));
  }
  /// Each rival with a comparable contender.
  void operator()(Contender Rival::* part) {
    for (Rival& rival : rivals()) {
      if ((rival.*part).slice) (*this)(std::move(rival.*part));
    }
  }

 private:
  std::vector<Row>& rows_;
  const Case like_;
};

}  // namespace heddle::bench
