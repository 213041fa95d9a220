// One call of an executor with a known entry: checks, memory of results, the launch. The arguments
// stay unchanged until the device has accepted the call. Used by one thread.
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

  /// Takes the arguments, leaf by leaf, and the index of the first leaf of each argument. Throws
  /// where an argument cannot be used.
  void take(std::span<const executors::Leaf> leaves, std::span<const std::size_t> first_of);
  /// Makes the results, gives the results to the sink, and launches.
  void run(executors::Sink& sink);
  /// After a refusal: the variables changed since the call read them, and the caller must start a
  /// new call with the same arguments.
  [[nodiscard]] bool is_outdated() noexcept;
  /// Makes the results, gives the results to the sink, and adds the call to the recording.
  void record(RecordingState& recording, executors::Sink& sink);
  /// After run(): passes the marked nodes to the logger.
  void tell() const;

  // Called by submit_plainly() of door/fast_path.hpp (the fast path):
  [[nodiscard]] bool look(PlainUses& uses);
  void accepted(const Event& event);
  [[nodiscard]] const sched::TaskOps& ops() const noexcept;
  [[nodiscard]] sched::Label put(void* place, const Event& event);

 private:
  struct Given {
    const ArrayState* array;  ///< null: a host value, not converted yet
    bool donated;
    bool ours = false;       ///< made by this call
    std::uint32_t gift = 0;  ///< index in `gifts_`, once the donation plan is made
  };
  struct Other {
    std::optional<Array> array;
    bool donated = false;
  };
  /// The state in which the call read a variable.
  struct Seen {
    VariableState* variable;
    std::uint64_t changes = 0, looks = 0;
    bool donated = false;                 ///< some arrays of the variable are donated
    std::unique_lock<std::mutex> lock{};  ///< held while the device accepts the call
  };
  static constexpr std::size_t no_result = ~std::size_t{0};
  /// The donation plan of one argument ("gift").
  struct Gift {
    std::size_t parameter;
    std::size_t result;                     ///< the result that takes the memory, or `no_result`
    BufferState* taker = nullptr;           ///< the buffer of that result
    std::shared_ptr<BufferState> nobody{};  ///< the taker where no result takes the memory
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
  void put_small(void* place) const noexcept;
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
  // fast path: every argument is an array of the call's device, and donated memory goes to results
  bool plain_ = false;
  bool small_ = false;  // a plain call whose task fits in the queue's slot
  // recorded: the memory of results exists before the run, filled with zeros
  bool recorded_ = false;
  std::span<const executors::Leaf> leaves_;
  executors::Few<Given, 16> given_;
  // sorted buffers of `given_`, made on demand for many arguments
  std::vector<const BufferState*> buffers_;
  std::vector<Array> made_;  // arrays made of host values, and copies of arrays of other devices
  std::vector<Array> left_;  // donated arrays of other devices, copied by the call
  // parameters after the arguments: side parameters and variables
  boost::container::small_vector<Other, 4> others_;
  boost::container::small_vector<Seen, 2> seen_;  // variables, in lock order
  // the new arrays of updated variables, in order
  boost::container::small_vector<Array, 4> updates_;
  std::vector<Array> marked_;
  Gifts pairs_;
  boost::container::small_vector<Gift, 2> gifts_;
  std::unique_ptr<CallRecord> record_;
  boost::container::small_vector<ResultCell*, 4> cells_;  // taken cells of the results
  std::size_t num_begun_ = 0;                             // cells that have begun
  boost::container::small_vector<ArrayState*, 4> states_;
  boost::container::small_vector<executors::Result, 4> arrays_;  // results, until the sink has them
};

}  // namespace heddle::rt
