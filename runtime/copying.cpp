// See copying.hpp.
#include "runtime/copying.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <new>

#include "heddle/host_memory.hpp"
#include "heddle/status.hpp"

namespace heddle::rt {

Place place_of(const BufferView& view) {
  const BufferState& buffer = *view.buffer().state();
  return {buffer.physical, buffer.device, buffer.data + view.offset()};
}

namespace {

/// std::less: addresses of different blocks.
bool ranges_overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b,
                    std::size_t b_bytes) noexcept {
  const std::less<> before;
  return a_bytes != 0 && b_bytes != 0 && before(a, b + b_bytes) && before(b, a + a_bytes);
}

}  // namespace

bool overlap(const BufferView& a, const BufferView& b) noexcept {
  const BufferState& one = *a.buffer().state();
  const BufferState& other = *b.buffer().state();
  return one.physical->properties().memory_space == other.physical->properties().memory_space &&
         ranges_overlap(one.data + a.offset(), a.num_bytes(), other.data + b.offset(),
                        b.num_bytes());
}

Route Copy::route(const dev::PhysicalDevice& device) const noexcept {
  const std::uint64_t here = device.properties().memory_space;
  const std::uint64_t source = from.physical->properties().memory_space;
  const std::uint64_t target = to.physical->properties().memory_space;
  if (bytes == 0 || (source == target && to.data == from.data)) return Route::none;
  // Devices copy between separate places.
  if (source != target || ranges_overlap(to.data, bytes, from.data, bytes)) return Route::staged;
  return source == here ? Route::here : Route::there;
}

Status Copy::operator()(const Execution& execution) const noexcept {
  const auto on = [this](dev::Queue& queue) {
    Status status = queue.copy(to.data, from.data, bytes);
    return status.ok() ? queue.synchronize() : status;
  };
  try {
    switch (route(*execution.physical)) {
      case Route::none:
        return {};
      case Route::here:
        return on(*execution.queue);
      case Route::there:
        return on(*to.physical->new_queue());
      case Route::staged:
        return stage(execution);
    }
    return {};
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, [&] {
      return fmt::format("{}: no host memory for a queue between {} and {} ({} bytes)", what,
                         *from.device, *to.device, bytes);
    });
  } catch (const std::exception& e) {
    return Status(ErrorCode::device_failed, [&] {
      return fmt::format("{}: no queue between {} and {}: {}", what, *from.device, *to.device,
                         e.what());
    });
  }
}

Status Copy::stage(const Execution& execution) const {
  const std::uint64_t here = execution.physical->properties().memory_space;
  std::unique_ptr<dev::Queue> theirs[2];  // kept while they are used
  const auto queue_for = [&](const Place& place, std::unique_ptr<dev::Queue>& own) -> dev::Queue& {
    if (place.physical->properties().memory_space == here) return *execution.queue;
    own = place.physical->new_queue();
    return *own;
  };
  dev::Queue& reader = queue_for(from, theirs[0]);
  dev::Queue& writer = queue_for(to, theirs[1]);
  const std::unique_ptr<void, decltype(&std::free)> host(allocate_host(bytes), &std::free);
  if (!host) {
    return Status(ErrorCode::exhausted,
                  fmt::format("{}: no host memory to stage {} bytes from {} to {}", what, bytes,
                              *from.device, *to.device));
  }
  Status status = reader.to_host(host.get(), from.data, bytes);
  if (status.ok()) status = reader.synchronize();
  if (status.ok()) status = writer.from_host(to.data, host.get(), bytes);
  if (status.ok()) status = writer.synchronize();  // before the host memory goes
  return status;
}

}  // namespace heddle::rt
