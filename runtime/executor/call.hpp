// One call of an executor, of a known entry: checks, memory of results, the launch. Nothing of what
// it is given changes before the device has accepted it.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/executor.hpp"
#include "heddle/status.hpp"
#include "runtime/door/submit.hpp"
#include "runtime/executor/entry.hpp"
#include "runtime/executor/gifts.hpp"
#include "runtime/executor/record.hpp"
#include "runtime/memory/array_state.hpp"
#include "scheduler/device/ticket_guard.hpp"

namespace heddle::rt {

class ExecutorState;
class PlainUses;
class RecordingState;
struct Recorded;

class ExecutorCall final : private Condition {
 public:
  ExecutorCall(ExecutorState& executor, const Device& device, Site& site);
  ExecutorCall(const ExecutorCall&) = delete;
  ExecutorCall& operator=(const ExecutorCall&) = delete;
  ~ExecutorCall();

  /// What the call is given, leaf by leaf, and the first leaf of each argument. Throws where it
  /// cannot be.
  void take(std::span<const executors::Leaf> leaves, std::span<const std::size_t> first_of);
  /// Makes results, gives them to the sink, launches.
  void run(executors::Sink& sink);
  /// Once it was refused: variables are others by now than those that it took, and a new call is to
  /// be made of the same.
  [[nodiscard]] bool is_outdated() noexcept;
  /// Makes results, gives them to the sink, and adds the call to the recording.
  void record(RecordingState& recording, executors::Sink& sink);
  /// After run(): has the logger told.
  void tell() const;

  // On the fast path, as submit_plainly() of door/fast_path.hpp asks:
  [[nodiscard]] bool look(PlainUses& uses);
  void accepted(const Event& event);
  [[nodiscard]] const sched::TaskOps& ops() const noexcept;
  [[nodiscard]] sched::Label put(void* place, const Event& event);

 private:
  struct Given {
    const ArrayState* array;  ///< null: it is still to be made, of values of the host
    bool donated;
    bool ours = false;       ///< made here
    std::uint32_t gift = 0;  ///< where it is donated, once that was planned
  };
  struct Other {
    std::optional<Array> array;
    bool donated = false;
  };
  /// A variable as it was taken.
  struct Seen {
    VariableState* variable;
    std::uint64_t changes = 0, looks = 0;
    bool donated = false;                 ///< some of its arrays are
    std::unique_lock<std::mutex> lock{};  ///< while the call is accepted
  };
  static constexpr std::size_t no_result = ~std::size_t{0};
  /// A donated argument.
  struct Gift {
    std::size_t parameter;
    std::size_t result;                     ///< that has its memory; or none
    BufferState* taker = nullptr;           ///< of that
    std::shared_ptr<BufferState> nobody{};  ///< instead, where no result has it
  };

  void add(const Array* array, bool donated);
  void take_others();
  void set_sides(std::size_t first);
  void see_variables();
  void tell_in_vain(std::size_t k) const;
  [[nodiscard]] bool tells_nodes() const;
  void keep_marked();
  void keep_values();
  void keep_value(VariableState& variable, std::size_t parameter, std::size_t result);
  [[nodiscard]] bool hold() noexcept override;
  void release(const Event* taken) noexcept override;
  [[nodiscard]] std::shared_ptr<const Recorded> recorded();
  void note_donated(std::size_t num_leaves, std::span<const std::size_t> first_of);
  void check_spaces() const;
  void check_states();
  void check_donation(std::size_t k, const BufferState& buffer);
  void bring();
  [[nodiscard]] Array brought(std::size_t k);
  void ask_hook(SideParameters& sides) const;
  void plan_donation();
  void plan_gift(std::size_t k);
  void add_gift(std::size_t k, std::size_t result);
  [[nodiscard]] ResultCell& begin_cell(std::size_t result);
  [[nodiscard]] bool is_plain_gift(std::size_t k);
  [[nodiscard]] const std::string& text_of(const Gift& gift) const;
  void make_results();
  void fill_tables();
  void add_accesses(Accesses& accesses) const;
  [[nodiscard]] bool submit_plainly();
  [[nodiscard]] BufferState& giver(const Gift& gift) const;
  [[nodiscard]] std::size_t num_given(const BufferState& buffer);
  void submit_carefully();
  [[nodiscard]] std::string user() const;
  [[nodiscard]] std::string name_of(std::size_t k) const;
  [[noreturn]] void refuse(std::size_t k, ErrorCode code, std::string_view why,
                           Status cause = {}) const;

  ExecutorState& executor_;
  const Device& device_;
  Execution& execution_;
  const CompiledGraph& graph_;
  Site& site_;
  bool plain_ = false;  // all that it is given is of its own device, and stays or lies in results
  bool small_ = false;  // of them, those that lie in the queue itself
  bool recorded_ = false;  // its results are there before it runs: as zeros
  std::span<const executors::Leaf> leaves_;
  executors::Few<Given, 16> given_;
  std::vector<const BufferState*> buffers_;  // of these, sorted, once it was asked for many
  std::vector<Array> made_;  // of values of the host, and of arrays of other devices
  std::vector<Array> left_;  // donated arrays of other devices, of which copies were made
  boost::container::small_vector<Other, 4> others_;  // parameters beyond those of arguments
  boost::container::small_vector<Seen, 2> seen_;  // variables, in the order in which all lock them
  boost::container::small_vector<Array, 4> updates_;  // of the variables that it updates, in order
  std::vector<Array> marked_;
  Gifts pairs_;
  boost::container::small_vector<Gift, 2> gifts_;
  std::unique_ptr<CallRecord> record_;
  boost::container::small_vector<ResultCell*, 4> cells_;  // taken; those of results that are made
  std::size_t num_begun_ = 0;                             // of them have begun
  boost::container::small_vector<ArrayState*, 4> states_;
  boost::container::small_vector<executors::Result, 4> arrays_;  // these, until the sink has them
};

}  // namespace heddle::rt
