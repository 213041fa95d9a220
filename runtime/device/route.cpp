// See runtime/device/route.hpp.
#include "runtime/device/route.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle::rt {

Place place_of(const BufferView& view) {
  const BufferState& buffer = *Inside::of(view.buffer());
  return {buffer.physical, buffer.data + view.offset(), buffer.device};
}

namespace {

std::string_view name_of(const Place& place) {
  return place.device ? std::string_view(*place.device) : "the host";
}

}  // namespace

std::shared_ptr<Stream> queue_for(Execution& by, const Place& place) {
  if (place.space() == by.physical->properties().memory_space) return by.queue;
  std::shared_ptr<Stream> queue;
  throw_if_failed(by.staging.queue(place.physical, &queue));
  return queue;
}

void log_missing(Execution& execution, Status status) noexcept {
  Status done = execution.queue->settle();
  if (status.ok()) status = std::move(done);
  if (status.ok()) return;
  sched::log_made(LogLevel::error, [&] {
    return fmt::format("{}: memory has no first values: {}", execution.name, status.to_string());
  });
}

Route route(const Place& from, const Place& to, std::size_t bytes) noexcept {
  const bool one_space = from.space() == to.space();
  if (bytes == 0 || (one_space && from.data == to.data)) return Route::none;
  if (!from.physical || !to.physical) return Route::pinned;
  // A device copies only between ranges without overlap.
  if (one_space)
    return ranges_overlap(to.data, bytes, from.data, bytes) ? Route::staged : Route::shared;
  if (from.is_in_host_memory() || to.is_in_host_memory()) return Route::pinned;
  const bool peers =
      to.physical->is_peer_of(*from.physical) || from.physical->is_peer_of(*to.physical);
  return peers ? Route::peer : Route::staged;
}

Move plan_move(Execution& by, const Place& from, const Place& to, std::size_t bytes,
               std::string_view what, const Tensor* tensor) try {
  Move move{route(from, to, bytes), to.data, from.data, bytes, by.queue};
  switch (move.route) {
    case Route::none:
    case Route::fill:
      break;
    case Route::shared:
      move.writer = queue_for(by, to);
      break;
    case Route::peer:
      move.writer = queue_for(by, to.physical->is_peer_of(*from.physical) ? to : from);
      break;
    case Route::pinned: {
      const bool into_host = !to.physical || (from.physical && to.is_in_host_memory());
      (into_host ? move.reader : move.writer) = queue_for(by, into_host ? from : to);
      break;
    }
    case Route::staged:
      move.reader = queue_for(by, from);
      move.writer = queue_for(by, to);
      move.staging = by.staging.memory(bytes);
      if (!move.staging) throw Error(ErrorCode::exhausted, "no host memory to stage it");
      break;
  }
  return move;
} catch (const Error& e) {
  throw Error(Status(
      e.code(),
      [&] {
        const std::string text = tensor == nullptr
                                     ? std::string(what)
                                     : fmt::format("{} tensor '{}' {}", what, tensor->label(),
                                                   tensor->type().to_string());
        return fmt::format("{}, {} bytes from {} to {}: {}", text, bytes, name_of(from),
                           name_of(to), e.status().message());
      },
      e.status()));
}

Status Move::run() const noexcept {
  if (route == Route::staged) return stage();
  if (route == Route::none) return {};
  Stream& queue = writer ? *writer : *reader;
  Status status = queue.follow(*own);
  if (status.ok()) status = ask(queue.queue());
  Status joined = own->join(queue);
  return status.ok() ? std::move(joined) : status;
}

Status Move::ask(dev::Queue& queue) const noexcept {
  switch (route) {
    case Route::fill:
      return queue.zero(to, bytes);
    case Route::shared:
    case Route::peer:
      return queue.copy(to, from, bytes);
    case Route::pinned:
      return reader ? queue.to_host(to, from, bytes) : queue.from_host(to, from, bytes);
    case Route::none:
    case Route::staged:
      break;
  }
  return {};
}

/// Copies piece by piece; a piece is read while the previous piece is written.
Status Move::stage() const noexcept {
  const std::size_t piece = staging->block_bytes;
  const std::size_t pieces = (bytes + piece - 1) / piece;
  // With overlap, the direction ensures that bytes are read before they are overwritten.
  const bool upward = !std::less<>()(from, to);
  Status status = reader->follow(*own);
  for (std::size_t k = 0; k < pieces && status.ok(); ++k) {
    const std::size_t at = (upward ? k : pieces - 1 - k) * piece;
    const std::size_t some = std::min(piece, bytes - at);
    status = reader->queue().to_host(staging->block(k), from + at, some);
    if (status.ok()) status = writer->follow(*reader);
    if (status.ok()) status = reader->follow(*writer);  // the writer has emptied the other block
    if (status.ok()) status = writer->queue().from_host(to + at, staging->block(k), some);
  }
  Status read = own->join(*reader);
  Status written = writer == reader ? Status() : own->join(*writer);
  if (status.ok()) status = std::move(read);
  return status.ok() ? std::move(written) : status;
}

}  // namespace heddle::rt
