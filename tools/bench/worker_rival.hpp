// A rival whose worker fits the shape in workers.hpp.
#pragma once

#include "tools/bench/rivals.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {

/// All workloads of a Worker; a rival removes the workloads that do not suit it.
template <class Worker>
[[nodiscard]] Rival worker_rival() {
  Rival rival;
  rival.submit = submit_contender<Worker>();
  rival.submit_by_two = shared_submit_contender<Worker>(2);
  rival.submit_by_four = shared_submit_contender<Worker>(4);
  rival.round_trip = round_trip_contender<Worker>();
  rival.parked = parked_contender<Worker>(rival_pause);
  rival.posted_hop = posted_hop_contender<Worker>();
  rival.fan = posted_fan_contender<Worker>();
  rival.open = open_contender<Worker>();
  return rival;
}

}  // namespace heddle::bench
