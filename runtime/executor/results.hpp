// The results of one call, and their memory: of their own, or promised by a donated argument. Used
// by one thread.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <memory>
#include <span>

#include "heddle/executor.hpp"
#include "heddle/few.hpp"
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
  [[nodiscard]] std::size_t size() const noexcept { return results_.size(); }
  [[nodiscard]] const BufferView& view(std::size_t r) const noexcept {
    return results_[r].array->view;
  }
  /// The buffer to which the memory of a gift goes.
  [[nodiscard]] BufferState& taker(std::size_t gift) const noexcept {
    return *takers_[gift].buffer;
  }
  /// Names the task that fills the results. Called while all of their arrays are alive.
  void set_event(const Event& event) noexcept {
    for (const OneResult& each : results_) each.array->event = event;
  }
  [[nodiscard]] std::unique_ptr<CallRecord> take_record() noexcept { return std::move(record_); }

 private:
  struct Taker {
    BufferState* buffer;
    std::shared_ptr<BufferState> nobody{};  ///< the buffer, where no result takes the memory
  };
  struct OneResult {
    ResultCell* cell;   ///< taken, and not begun yet, or null
    ArrayState* array;  ///< once begun
  };
  explicit CallResults(Site& site) noexcept : site_(site) {}
  [[nodiscard]] std::shared_ptr<ArrayState> begin(const CallTarget& target,
                                                  const CallArguments& arguments,
                                                  const Donation& donation, LaunchWay way,
                                                  std::size_t result);

  Site& site_;
  std::unique_ptr<CallRecord> record_;
  executors::Few<OneResult, 4> results_;
  boost::container::small_vector<executors::Result, 4> arrays_;
  boost::container::small_vector<Taker, 2> takers_;  // of each gift
};

}  // namespace heddle::rt
