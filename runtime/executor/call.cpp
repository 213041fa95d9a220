// See runtime/executor/call.hpp.
#include "runtime/executor/call.hpp"

#include <fmt/format.h>
#include <boost/container/small_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/door/fast_path.hpp"
#include "runtime/executor/donation.hpp"
#include "runtime/executor/results.hpp"
#include "runtime/executor/state.hpp"
#include "runtime/executor/variable_state.hpp"
#include "runtime/replay/recording.hpp"
#include "runtime/transfer/transfer.hpp"
#include "scheduler/device/clocks.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::rt {
namespace {

[[nodiscard]] LaunchWay way_of(const CallTarget& target, const CallArguments& arguments,
                               const Donation& donation) noexcept {
  if (!arguments.are_plain() || !donation.keeps_memory()) return LaunchWay::door;
  return target.site.small ? LaunchWay::slot : LaunchWay::record;
}

/// Fills the tables of a record with the addresses of arguments and results.
void fill_tables(CallRecord& record, const CallTarget& target, const CallArguments& arguments,
                 const CallResults& results) {
  const CompiledGraph& graph = target.graph();
  std::vector<heddle_kernel_buffer>& entries = record.tables.entries();
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const BufferView& view = arguments.view(k);
    if (const auto& entry = graph.parameters[k].entry)
      entries[*entry] = {Inside::of(view.buffer())->data + view.offset(),
                         graph.parameters[k].bytes};
  }
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (const auto& entry = graph.results[r].entry)
      entries[*entry] = {Inside::of(results.view(r).buffer())->data, graph.results[r].bytes};
  }
  record.tables.end(target.site.loaded);
}

/// The last stage before the device: offers the call to the fast path, then to the door.
class Launch final : private Condition {
 public:
  Launch(const CallTarget& target, const CallArguments& arguments, const Donation& donation,
         LaunchWay way, CallResults& results, VariableSnapshot& variables);

  /// Throws if the device does not accept the call.
  void submit();

  // Called by submit_plainly() of door/fast_path.hpp (the fast path):
  [[nodiscard]] bool look(PlainUses& uses);
  void accepted(const Event& event);
  [[nodiscard]] const sched::TaskOps& ops() const noexcept;
  [[nodiscard]] sched::Label put(void* place, const Event& event);

 private:
  [[nodiscard]] bool submit_plainly();
  void submit_carefully();
  void build_task(void* place) noexcept;
  void keep_values(CallRecord& record) const;
  void add_accesses(Accesses& accesses) const;
  [[nodiscard]] bool hold() noexcept override;
  void release(const Event* taken) noexcept override;
  [[nodiscard]] const std::string& text_of(const Gift& gift) const;

  const CallTarget& target_;
  const CompiledGraph& graph_;
  const CallArguments& arguments_;
  const Donation& donation_;
  CallResults& results_;
  VariableSnapshot& variables_;
  const LaunchWay way_;
  std::unique_ptr<CallRecord> record_;  // null: the task is a SmallCall
  // new arrays of updated variables, in order; the only handles, hence the next call may update
  // them in place
  boost::container::small_vector<executors::Result, 4> updates_;
};

Launch::Launch(const CallTarget& target, const CallArguments& arguments, const Donation& donation,
               LaunchWay way, CallResults& results, VariableSnapshot& variables)
    : target_(target),
      graph_(target.graph()),
      arguments_(arguments),
      donation_(donation),
      results_(results),
      variables_(variables),
      way_(way),
      record_(results.take_record()) {
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    for (std::size_t k = 0; use.first_result && k < use.variable->types.size(); ++k)
      updates_.push_back(std::move(results.arrays()[*use.first_result + k]));
  }
  if (record_) fill_tables(*record_, target, arguments, results);
}

void Launch::submit() {
  if (!submit_plainly()) submit_carefully();
}

/// Tries the fast path: the values of every buffer are present, on the device itself, and there is
/// nothing to wait for.
bool Launch::submit_plainly() {
  if (way_ == LaunchWay::door || sched::Clocks::on()) return false;
  if (!variables_.empty() && !hold()) return false;
  if (rt::submit_plainly(*Inside::of(target_.device), *this)) return true;
  variables_.unlock();
  return false;
}

bool Launch::look(PlainUses& uses) {
  const std::uint64_t timeline = target_.site.timeline;
  const dev::MemoryCache& cache = *target_.execution().memory;
  const auto add = [&](const BufferView& view, std::size_t bytes, Use use) {
    BufferState& buffer = *Inside::of(view.buffer());
    // The task does not keep memory alive. Memory of another device could go with that device, and
    // borrowed memory with its array.
    if (!is_there(buffer) || !buffer.memory->is_of(cache)) return false;
    if (use == Use::change && !buffer.may_be_handed_over()) return false;
    PlainUses::OneUse& one = uses.add();
    one.next.timeline = timeline;
    one.next.disturbances = uses.disturbances();
    one.next.range.begin = view.offset();
    one.next.range.end = view.offset() + bytes;
    one.next.use = use;
    one.next.automatic = true;
    auto record = buffer.hazards().plain(one.next, 1);
    // At the first use of a buffer, each read of the buffer may need one record more.
    if (record && *record == nullptr && use == Use::read)
      record = buffer.hazards().plain(one.next, arguments_.num_in(buffer));
    if (!record) return false;
    one.hazards = &buffer.hazards();
    one.record = *record;
    one.unkept = buffer.memory.get();
    return true;
  };
  for (std::size_t k = 0; k < arguments_.size(); ++k) {
    const Use use = arguments_[k].donated ? Use::change : Use::read;
    if (!add(arguments_.view(k), graph_.parameters[k].bytes, use)) return false;
  }
  for (std::size_t r = 0; r < results_.size(); ++r) {
    if (donation_.gift_to(r) == Donation::no_gift &&
        !add(results_.view(r), graph_.results[r].bytes, Use::overwrite))
      return false;
  }
  for (const Gift& gift : donation_.gifts())
    arguments_.buffer(gift.parameter).prepare_hand_over(text_of(gift), {});
  return true;
}

void Launch::accepted(const Event& /*event*/) {
  for (std::size_t g = 0; g < donation_.size(); ++g) {
    const Gift& gift = donation_.gifts()[g];
    arguments_.buffer(gift.parameter).hand_over(results_.taker(g), {});
  }
  target_.site.launches.begin();
}

const sched::TaskOps& Launch::ops() const noexcept {
  return record_ ? CallRecord::ops(target_.site) : SmallCall::ops(target_.site);
}

/// Builds the task before the variables are released: another thread may then replace their new
/// arrays, and free them. With variables, writes the slot last: its line comes from the worker, and
/// the atomic operations of the release would wait for the write.
sched::Label Launch::put(void* place, const Event& event) {
  if (variables_.empty()) {
    build_task(place);
    results_.set_event(event);
  } else {
    alignas(16) std::byte task[sched::task_bytes_max] = {};
    build_task(task);
    release(&event);
    std::memcpy(place, task, sizeof task);
  }
  return target_.site.label;
}

/// Builds a SmallCall or a CallRecord*; both may be copied byte by byte.
void Launch::build_task(void* place) noexcept {
  if (record_) {
    *static_cast<CallRecord**>(place) = record_.release();
    return;
  }
  auto* const call = ::new (place) SmallCall{&target_.site, {}};
  const SmallBuffers& small = *target_.site.small;
  for (std::uint32_t k = 0; k < small.num_buffers; ++k) {
    const auto& buffer = small.buffers[k];
    const BufferView& view =
        buffer.result ? results_.view(buffer.number) : arguments_.view(buffer.number);
    call->data[k] = Inside::of(view.buffer())->data + view.offset();
  }
}

/// At the moment of acceptance: checks that the variables are unchanged since the call read them.
bool Launch::hold() noexcept { return variables_.hold(); }

/// Names the task in the results, and installs the new arrays of variables, for later calls to
/// read. The launch and the call keep the old arrays, which are destroyed without a lock.
void Launch::release(const Event* taken) noexcept {
  if (taken != nullptr) {
    results_.set_event(*taken);
    variables_.install({updates_.data(), updates_.size()});
  }
  variables_.unlock();
}

const std::string& Launch::text_of(const Gift& gift) const {
  return gift.result == Gift::no_result ? target_.site.freed_text
                                        : target_.site.taken_texts[gift.result];
}

void Launch::submit_carefully() {
  arguments_.check();
  if (!record_) {
    {
      const std::lock_guard lock(*target_.execution().ledger);
      record_ = CallRecord::make(target_.site);
    }
    fill_tables(*record_, target_, arguments_, results_);
  }
  keep_values(*record_);
  add_accesses(record_->accesses);
  SubmitOptions options;
  options.lists_events = false;
  options.sync = Sync::automatic;
  for (std::size_t k = 0; k < arguments_.size(); ++k) {
    const ArrayState& array = *arguments_[k].array;
    if (array.is_awaited()) options.after.push_back(array.event);
  }
  const Accesses& accesses = record_->accesses;
  Work work{target_.site.label, std::move(record_), accesses};
  if (!variables_.empty()) work.condition = this;
  const Event event = rt::submit(*Inside::of(target_.device), std::move(work), options);
  // With variables, release() has set the events already, and other threads may have the results.
  if (variables_.empty()) results_.set_event(event);
  arguments_.take_copied();
}

/// For a skipped call: plans how variables get their old values back.
void Launch::keep_values(CallRecord& record) const {
  const auto keep = [&](VariableState& variable, std::size_t parameter, std::size_t result) {
    const CallArguments::Argument& old = arguments_[parameter];
    CallRecord::Kept kept{&variable, old.array->event, old.made, {}};
    const std::uint32_t gift = donation_.gift_to(result);
    const bool stays = gift != Donation::no_gift && donation_.gifts()[gift].parameter == parameter;
    if (!stays) {
      kept.move =
          plan_move(target_.execution(), place_of(old.array->view), place_of(results_.view(result)),
                    graph_.results[result].bytes, "update");
    }
    record.kept.push_back(std::move(kept));
  };
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    for (std::size_t k = 0; use.first_result && k < use.variable->types.size(); ++k)
      keep(*use.variable, use.first_parameter + k, *use.first_result + k);
  }
}

void Launch::add_accesses(Accesses& accesses) const {
  accesses.add(*target_.execution().ledger);
  boost::container::small_vector<std::size_t, 16> gift_of(arguments_.size(), donation_.size());
  for (std::size_t g = 0; g < donation_.size(); ++g) gift_of[donation_.gifts()[g].parameter] = g;
  for (std::size_t k = 0; k < arguments_.size(); ++k) {
    Access access{&arguments_.view(k), Use::read,
                  k < graph_.lowered.parameters.size() ? &graph_.lowered.parameters[k] : nullptr};
    if (const std::size_t g = gift_of[k]; g < donation_.size()) {
      access.use = Use::change;
      access.taker = &results_.taker(g);
      access.taker_text = &text_of(donation_.gifts()[g]);
    } else if (!graph_.parameters[k].entry && !graph_.parameters[k].update) {
      continue;
    }
    accesses.add(access);
  }
  for (std::size_t r = 0; r < results_.size(); ++r) {
    if (donation_.gift_to(r) == Donation::no_gift && graph_.results[r].entry) {
      accesses.add(
          {&results_.view(r), graph_.results[r].zeros ? Use::change : Use::overwrite, nullptr});
    }
  }
}

/// Passes the results of the function to the sink.
void give(CallResults& results, const CompiledGraph& graph, executors::Sink& sink) {
  sink.take(graph.traced.results(), results.arrays().first(graph.num_function_results));
}

/// Tells whether a logger or the search for NaN asks for marked nodes.
bool tells_nodes(const CallTarget& target) noexcept {
  const ExecutorState& executor = target.executor;
  return executor.options.nan_check || executor.always_tells ||
         (executor.options.logger && !target.graph().marks.results.empty());
}

/// The arrays of the marked nodes; none where the call tells none.
std::optional<std::vector<Array>> marked_arrays(const CallTarget& target, CallResults& results) {
  if (!tells_nodes(target)) return {};
  std::vector<Array> marked;
  for (const std::size_t number : target.graph().marks.results)
    marked.push_back(results.arrays()[number].copy());
  return marked;
}

/// The side parameters, set by the hook, and room for variables.
OtherArguments others_of(const CallTarget& target) {
  const CompiledGraph& graph = target.graph();
  if (graph.parameters.size() == graph.num_arguments) return {};
  return SideHook::ask(target);
}

/// One attempt at a call. Returns the marked nodes, see marked_arrays().
std::optional<std::vector<Array>> attempt(const CallTarget& target, const PassedArguments& passed,
                                          const OtherArguments& others, VariableSnapshot& variables,
                                          executors::Sink& sink) {
  const CallArguments arguments(target, passed, others);
  const Donation donation(arguments);
  const LaunchWay way = way_of(target, arguments, donation);
  CallResults results(target, arguments, donation, way);
  auto marked = marked_arrays(target, results);
  Launch launch(target, arguments, donation, way, results, variables);
  give(results, target.graph(), sink);
  launch.submit();
  return marked;
}

/// The call as a part of a recording, with memory of its own, as a routine has.
std::shared_ptr<const Recorded> recorded(const CallTarget& target, const CallArguments& arguments,
                                         CallResults& results) {
  const CompiledGraph& graph = target.graph();
  const std::unique_ptr<CallRecord> record = results.take_record();
  fill_tables(*record, target, arguments, results);
  std::vector<std::optional<BufferView>> entries(record->tables.entries().size());
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    if (const auto& entry = graph.parameters[k].entry) entries[*entry] = arguments.view(k);
  }
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (const auto& entry = graph.results[r].entry) entries[*entry] = results.view(r);
  }
  auto linked = make_linked(target.site.loaded, std::move(entries), target.site.execution);
  linked->scratch = target.site.scratch;
  linked->tables = record->tables;
  const jit::CodeData& code = *Inside::of(graph.code);
  for (std::size_t e = 0; e < linked->entries.size(); ++e) {
    const auto& view = linked->entries[e];
    if (!view) continue;
    linked->accesses.add({&*view, use_of(code.signature().entries[e]), code.tensor(e)});
    linked->memories.push_back(Inside::of(view->buffer())->memory);
  }
  auto call = std::make_shared<Recorded>();
  call->device = Inside::of(target.device);
  call->linked = linked;
  call->statics.emplace(graph.code, BindingsView());
  call->what = fmt::format("executor '{}'", target.executor.name());
  call->accesses.add(*target.execution().ledger);
  call->accesses.then(linked->accesses);
  call->accesses.be_of(call->what);
  return call;
}

}  // namespace

void call(const CallTarget& target, const PassedArguments& passed, executors::Sink& sink) {
  OtherArguments others = others_of(target);
  const auto marked = [&] {
    while (true) {
      VariableSnapshot variables(target.graph(), others);
      try {
        return attempt(target, passed, others, variables, sink);
      } catch (const Error&) {
        if (!variables.is_outdated()) throw;
        variables.drop(others);  // a call of another thread updated a variable: try again
      }
    }
  }();
  if (!marked) return;
  const ExecutorState::UserCode inside(target.executor);
  target.executor.tell(target.graph(), *marked);
}

void record(const CallTarget& target, const PassedArguments& passed, RecordingState& recording,
            executors::Sink& sink) {
  const CompiledGraph& graph = target.graph();
  OtherArguments others = others_of(target);
  const VariableSnapshot variables(graph, others);
  const CallArguments arguments(target, passed, others);
  for (const CompiledGraph::VariableUse& use : graph.variables) {
    if (!use.first_result) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: a recording cannot have a call that updates variable '{}'; take "
                            "and give it as an array",
                            target.user(), use.variable->name));
  }
  arguments.refuse_donated();
  arguments.check();
  arguments.refuse_awaited();
  CallResults results(target, arguments, Donation(graph), LaunchWay::recording);
  give(results, graph, sink);
  recording.add(recorded(target, arguments, results));
}

}  // namespace heddle::rt
