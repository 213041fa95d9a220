// Tensors of several devices that share memory, whole or in part, and host work on part of such
// memory.
#include <algorithm>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "tools/stress/runtime_hosts.hpp"

namespace heddle::stress {
namespace {

/// A task done by the host: to[k] = 3 * to[k] + from[k] + number.
struct HostWork {
  std::uint64_t* to;
  const std::uint64_t* from;
  std::size_t cells;
  std::uint64_t number;
  bool fails;

  Status operator()() const {
    if (fails) return Status(ErrorCode::device_failed, "planted by the host");
    Values read{};  // both ranges may overlap
    std::copy_n(from, cells, read.begin());
    for (std::size_t k = 0; k < cells; ++k) to[k] = 3 * to[k] + read[k] + number;
    return {};
  }
};

std::uint64_t* cells_of(const Part& part) {
  const auto& buffer = Inside::of(part.right->view->buffer());
  return reinterpret_cast<std::uint64_t*>(buffer->data) + part.at;
}

bool is_reached(const Part& part) { return part.right->space == 0; }

}  // namespace

/// The memory of a tensor, or some cells of an array.
std::optional<Part> RuntimeHosts::any_part() {
  if (!arrays_.empty() && draw(2) == 0) return some_of(arrays_[draw(arrays_.size())], num_cells);
  const PlacePointer place = any_place();
  const auto tensor = any_tensor(*place);
  return tensor ? place->parts[static_cast<std::size_t>(*tensor)] : std::nullopt;
}

Part RuntimeHosts::some_of(Part part, std::size_t cells) {
  part.at += draw(part.cells - cells + 1);
  part.cells = cells;
  return part;
}

/// Puts existing memory into a context, of this device or another device that reaches it.
void RuntimeHosts::share() {
  auto part = any_part();
  const auto k = draw(num_tensors);
  const std::size_t cells = cells_of(static_cast<Operand>(k));
  const PlacePointer place = any_place();
  if (!part || part->cells < cells) return;
  part = some_of(*part, cells);
  if (place->seat->space != part->right->space) return;
  const bool extends = !place->parts[k] && draw(2) == 0;
  auto child = extends ? std::make_shared<Place>(*place)
                       : std::make_shared<Place>(Place{place->seat, place->context});
  child->routine.reset();
  child->formula = nullptr;
  const Status put = attempt([&] {
    const Context before = extends ? place->context : Context(place->seat->device);
    child->context = before.with(programs_.tensors[k], part->view());
  });
  const bool may = place->seat->gone || part->right->donated || (extends && place->finalized);
  if (may && put.code() == ErrorCode::failed_precondition) return;
  if (!world_.expect(put, {ErrorCode::ok}, "with()")) return;
  child->finalized = false;
  child->parts[k] = part;
  add(std::move(child));
  ++shared;
}

/// On part of memory that a launch may use whole, where the host reaches the memory.
void RuntimeHosts::host_work() {
  auto to = any_part(), from = any_part();
  if (!to || !from || !is_reached(*to) || !is_reached(*from)) return;
  const std::size_t cells = 1 + draw(std::min(to->cells, from->cells));
  to = some_of(*to, cells);
  from = some_of(*from, cells);
  const auto seat = any_seat();
  World::Work work{seat, {{from->right, false}}, {}};
  Touches touches;
  std::function<Status()> does;
  if (draw(3) == 0) {
    Values& seen = world_.host_memory.emplace_back();
    work.request = read_request("host reads", *from, seen);
    does = [source = cells_of(*from), cells, &seen]() -> Status {
      std::copy_n(source, cells, seen.begin());
      return {};
    };
  } else {
    work.request = copy_request("host changes", *to, *from);
    work.request.kind = Request::Kind::change;
    work.touches.push_back({to->right, true});
    const std::uint64_t number = draw(1000);
    work.request.numbers.fill(number);
    touches.writes = {to->view()};
    does = HostWork{cells_of(*to), cells_of(*from), cells, number, draw(16) == 0};
  }
  touches.reads = {from->view()};
  sched::SubmitOptions options;
  options.contain = draw(4) != 0;
  if (draw(4) == 0) options.full = sched::FullPolicy::fail;
  world_.ask(std::move(work), [&](const Events& after) {
    options.after = after;
    return world_.have([&] { return seat->device.submit("host work", touches, does, options); });
  });
}

}  // namespace heddle::stress
