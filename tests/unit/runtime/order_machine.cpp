// See order_machine.hpp.
#include "tests/unit/runtime/order_machine.hpp"

#include <array>
#include <deque>
#include <map>
#include <span>
#include <utility>

namespace heddle {
namespace {

Dims dims_of(std::size_t size) { return {static_cast<std::int64_t>(size)}; }
ArrayType type_of(std::size_t size) { return {u8, dims_of(size)}; }

/// A line for each step.
// clang-format off
constexpr std::array<std::source_location, OrderProgram::steps_max> places{
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current(),
    std::source_location::current()};
// clang-format on

/// Programs that write x, read y, or both, of one size.
struct SizedCodes {
  SizedCodes(const Backend& backend, std::size_t size)
      : x("x", u8, dims_of(size)), y("y", u8, dims_of(size)) {
    const Index i;
    const Tensor kept("kept", u8, dims_of(size));
    std::vector<Program> all{Program("writes"), Program("reads"), Program("adds"),
                             Program("joins")};
    all[0] << (x(i) += 1);
    all[1] << (kept(i) = Expr(y(i)));
    all[2] << (x(i) += y(i));
    all[3] << (x(i) += merge(y)(i));
    const CodeBatch batch = backend.compile_batch(all);
    for (std::size_t k = 0; k < all.size(); ++k) codes.push_back(*batch[k]);
  }
  Tensor x, y;
  std::vector<Code> codes{};
};

/// For backends of that name.
const SizedCodes& codes_of(const std::string& name, std::size_t size) {
  static std::map<std::pair<std::string, std::size_t>, SizedCodes> all;
  const std::pair key(name, size);
  auto at = all.find(key);
  if (at == all.end()) {
    BackendOptions options;
    options.name = name;  // one that does not check: it may stay
    options.sync = Sync::manual;
    at = all.emplace(key, SizedCodes(Backend::open(options), size)).first;
  }
  return at->second;
}

}  // namespace

/// One run, with memory of its own, of which nothing was told yet.
class OrderMachine::Run {
 public:
  Run(const OrderMachine& machine, const OrderProgram& program)
      : machine_(machine), program_(program) {
    for (std::size_t k = 0; k < OrderProgram::buffers; ++k)
      buffers_.push_back(Buffer::allocate(machine_.devices_[0], type_of(OrderProgram::bytes)));
  }

  /// The next one.
  void step() {
    const Step& step = program_.steps[events_.size()];
    for (const StepEdge& edge : step.after) wait(step, edge);
    for (const StepEdge& edge : step.left_out)
      wait_unseen(machine_.devices_[program_.steps[edge.before].device]);
    where_ = place(events_.size());
    events_.push_back(ask(step));
    transfer_.after.clear();
    inside_.clear();
  }

 private:
  void wait(const Step& step, const StepEdge& edge) {
    const Event& before = events_[edge.before];
    switch (edge.how) {
      case StepWait::listed:
        return transfer_.after.push_back(before);
      case StepWait::device_waits:
        machine_.devices_[step.device].wait(before);
        return;
      case StepWait::inside:
        return inside_.push_back(before);
      case StepWait::host_waits:
        return throw_if_failed(before.wait());
    }
  }

  /// Its event; none where the call waits for its end.
  Event ask(const Step& step) {
    const Device& device = machine_.devices_[step.device];
    switch (step.kind) {
      case StepKind::own:
        return ask_own(step, device);
      case StepKind::routine:
      case StepKind::consume:
        return routine(step).schedule({}, {.after = transfer_.after}, where_);
      case StepKind::merge:
      case StepKind::load:
        return ask_merge(step, device);
      case StepKind::replay:
        return ask_replay(step);
      case StepKind::copy:
      case StepKind::from_host:
      case StepKind::to_host:
        return ask_transfer(step, device).event;
      case StepKind::copy_view:
        return view(step.touches[0]).copy_from(device, view(step.touches[1]), where_);
      case StepKind::view_from_host:
        return view(step.touches[0]).from_host(device, unwatched(step.touches[0]), where_);
      case StepKind::view_to_host:
        return view(step.touches[0]).to_host(device, unwatched(step.touches[0]), where_);
      default:
        ask_host(step);
        return {};
    }
  }
  Event ask_own(const Step& step, const Device& device) {
    Touches touches;
    for (const StepBytes& each : step.touches) {
      if (each.memory == OrderProgram::host_array) {
        (each.writes ? touches.host_writes : touches.host_reads).push_back(array_);
      } else {
        (each.writes ? touches.writes : touches.reads).push_back(view(each));
      }
    }
    sched::SubmitOptions options;
    options.after = transfer_.after;
    options.site = where_;
    const auto wait = [inside = inside_] {
      for (const Event& each : inside) throw_if_failed(this_task::await(each));
    };
    const auto label = sched::Label::intern(OrderMachine::label(step, events_.size()));
    return device.submit(label, touches, wait, options);
  }
  Event ask_merge(const Step& step, const Device& device) {
    const MergeMode mode = step.streams ? MergeMode::stream : MergeMode::copy;
    const StepBytes& from = step.touches.back();
    const Tensor& y = codes(from).y;
    const Context source = context(step, y, from);
    if (step.kind == StepKind::load)
      return load_merge(device, y, source, mode, transfer_, where_).event;
    return merge(routine(step), source, mode, {}, transfer_, where_);
  }
  Event ask_replay(const Step& step) {
    const Tensor& x = codes(step.touches[0]).x;
    Recording recording("replay");
    recording.copy(x, context(step, x, step.touches[1]), context(step, x, step.touches[0]));
    recording.schedule(linked(step, 0, step.touches));
    ReplayOptions options;
    options.after = transfer_.after;
    return recording.finish().run({}, options, where_).at(0);
  }
  Transfer ask_transfer(const Step& step, const Device& device) {
    if (step.kind == StepKind::copy) {
      const Tensor& x = codes(step.touches[0]).x;
      const Context to = context(step, x, step.touches[0]);
      return copy(x, context(step, x, step.touches[1]), to, transfer_, where_);
    }
    const bool up = step.kind == StepKind::from_host;
    const Context there = Context(device).with(stored_, view(step.touches[up ? 0 : 1]));
    return up ? there.from_host(stored_, transfer_, where_)
              : there.to_host(stored_, transfer_, where_);
  }
  void ask_host(const Step& step) {
    const StepBytes& touch = step.touches[0];
    if (step.kind == StepKind::host_reads) return static_cast<void>(array_.at(0, where_));
    if (step.kind == StepKind::host_writes) return array_.set(0, 1, where_);
    const Tensor& x = codes(touch).x;
    const Context there = context(step, x, touch);
    if (step.kind == StepKind::read) return static_cast<void>(there.read<std::uint8_t>(x, where_));
    there.write(x, std::vector<std::uint8_t>(touch.end - touch.begin), where_);
  }

  [[nodiscard]] BufferView view(const StepBytes& touch) const {
    return {buffers_[touch.memory], type_of(touch.end - touch.begin), touch.begin};
  }
  [[nodiscard]] const SizedCodes& codes(const StepBytes& touch) const {
    return codes_of(machine_.backend_.name(), touch.end - touch.begin);
  }
  [[nodiscard]] Context context(const Step& step, const Tensor& tensor,
                                const StepBytes& touch) const {
    return Context(machine_.devices_[step.device]).with(tensor, view(touch));
  }
  /// The code of that number, with x and y where the touches say.
  [[nodiscard]] Routine linked(const Step& step, std::size_t code,
                               std::span<const StepBytes> touches) const {
    const SizedCodes& sized = codes(touches[0]);
    Context there(machine_.devices_[step.device]);
    for (const StepBytes& each : touches)
      there = there.with(each.writes ? sized.x : sized.y, view(each));
    return there.link(sized.codes[code]);
  }
  [[nodiscard]] Routine routine(const Step& step) const {
    const std::span<const StepBytes> touches(step.touches);
    if (step.kind != StepKind::routine) return linked(step, 3, touches.first(1));
    if (touches.size() == 2) return linked(step, 2, touches);
    return linked(step, touches[0].writes ? 0 : 1, touches);
  }
  /// Memory of the host's whose order is the caller's.
  [[nodiscard]] std::span<std::byte> unwatched(const StepBytes& touch) {
    return std::span(unwatched_.emplace_back()).first(touch.end - touch.begin);
  }

  const OrderMachine& machine_;
  const OrderProgram& program_;
  std::vector<Buffer> buffers_;
  const HostArray array_{type_of(OrderProgram::bytes)};
  const Tensor stored_{"stored", array_};
  std::deque<std::array<std::byte, OrderProgram::bytes>> unwatched_;
  std::vector<Event> events_;
  // Of the step:
  std::source_location where_;
  TransferOptions transfer_;
  std::vector<Event> inside_;
};

OrderMachine::OrderMachine(const std::string& backend) : backend_(found_.open(backend)) {
  for (int k = 0; k < 4; ++k) devices_.push_back(backend_.physical_device(0).new_virtual_device());
}

std::vector<MissingOrder> OrderMachine::run(const OrderProgram& program) const {
  Run run(*this, program);
  for (std::size_t k = 0; k < program.steps.size(); ++k) run.step();
  for (const Device& each : devices_) each.await();
  return found_.take();
}

StepPair OrderMachine::pair(const MissingOrder& missing) {
  const auto step = [](const MissingOrder::Use& use) {
    return std::size_t{use.site.line()} - places[0].line();
  };
  return {step(missing.before), step(missing.after)};
}

std::set<StepPair> OrderMachine::pairs(const std::vector<MissingOrder>& all) {
  std::set<StepPair> result;
  for (const MissingOrder& each : all) result.insert(pair(each));
  return result;
}

std::source_location OrderMachine::place(std::size_t step) { return places.at(step); }

std::string OrderMachine::label(const Step& step, std::size_t number) {
  switch (step.kind) {
    case StepKind::own:
      return "task " + std::to_string(number);
    case StepKind::routine:
      return step.touches.size() == 2 ? "adds" : step.touches[0].writes ? "writes" : "reads";
    case StepKind::merge:
    case StepKind::consume:
      return "joins";
    case StepKind::load:
      return "merge";
    case StepKind::copy:
    case StepKind::copy_view:
      return "copy";
    case StepKind::replay:
      return "replay";
    case StepKind::from_host:
    case StepKind::view_from_host:
    case StepKind::write:
      return "from_host";
    case StepKind::to_host:
    case StepKind::view_to_host:
    case StepKind::read:
      return "to_host";
    case StepKind::host_reads:
      return "read of a HostArray";
    case StepKind::host_writes:
      return "write of a HostArray";
  }
  return {};
}

std::string OrderMachine::doer(const Step& step) const {
  return step.is_of_host() ? "the host" : devices_[step.device].name();
}

}  // namespace heddle
