// The results of one call, and their memory: of their own, or promised by a donated argument. Used
// by one thread.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <memory>
#include <span>

#include "heddle/executor.hpp"
#include "runtime/executor/donation.hpp"
#include "runtime/executor/record.hpp"
#include "runtime/memory/array_state.hpp"

namespace heddle::rt {

struct CallTarget;

/// The way of a launch to the device.
enum class LaunchWay {
  slot,       ///< by the fast path; the task fits in the queue's slot
  record,     ///< by the fast path; the slot points to a record
  door,       ///< by the general path
  recording,  ///< into a recording: the memory of results exists before a run, filled with zeros
};

class CallResults {
 public:
  /// Takes from the site, under the device lock, the handles of the results and (unless `way` is
  /// slot) a record. Throws exhausted where there is no memory, and unavailable in a forked child
  /// whose device lock another thread of the parent held.
  CallResults(const CallTarget& target, const CallArguments& arguments, const Donation& donation,
              LaunchWay way);
  CallResults(const CallResults&) = delete;
  CallResults& operator=(const CallResults&) = delete;
  ~CallResults();

  /// In the order of CompiledGraph::results.
  [[nodiscard]] std::span<executors::Result> arrays() noexcept { return {arrays_.data(), size()}; }
  [[nodiscard]] std::size_t size() const noexcept { return states_.size(); }
  [[nodiscard]] const BufferView& view(std::size_t r) const noexcept { return states_[r]->view; }
  /// The buffer to which the memory of a gift goes.
  [[nodiscard]] BufferState& taker(std::size_t gift) const noexcept {
    return *takers_[gift].buffer;
  }
  /// Names the task that fills the results. Called while all of their arrays are alive.
  void set_event(const Event& event) noexcept {
    for (ArrayState* const state : states_) state->event = event;
  }
  [[nodiscard]] std::unique_ptr<CallRecord> take_record() noexcept { return std::move(record_); }

 private:
  struct Taker {
    BufferState* buffer;
    std::shared_ptr<BufferState> nobody{};  ///< the buffer, where no result takes the memory
  };
  explicit CallResults(Site& site) noexcept : site_(site) {}
  [[nodiscard]] ResultCell& begin_cell(std::size_t result) noexcept;

  Site& site_;
  std::unique_ptr<CallRecord> record_;
  boost::container::small_vector<ResultCell*, 4> cells_;  // taken cells of the results
  std::size_t num_begun_ = 0;                             // cells that have begun
  boost::container::small_vector<ArrayState*, 4> states_;
  boost::container::small_vector<executors::Result, 4> arrays_;
  boost::container::small_vector<Taker, 2> takers_;  // of each gift
};

}  // namespace heddle::rt
