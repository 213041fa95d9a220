// The world of a random run of the tensor runtime: devices, memory and the rights to memory. Hosts
// submit work as a careful user would, so that the expected contents of memory are known. Callers
// hold the stage.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "heddle/backend.hpp"
#include "heddle/routine.hpp"
#include "tools/stress/planted.hpp"
#include "tools/stress/runtime_model.hpp"
#include "tools/stress/runtime_stage.hpp"

namespace heddle::stress {

/// The right to a buffer, ended by donation. The user orders devices: a host that submits work on
/// the buffer claims it until the host has the event, and comes after the uses on other devices. A
/// donation claims no right: the runtime orders later work after the donation.
struct Right {
  std::size_t memory = 0;   ///< in the model
  std::uint64_t space = 0;  ///< the space of devices that reach the memory
  bool runs_ahead = false;  ///< of the owning device; moves may use the device beside their own
  bool claimed = false, donated = false;
  bool replayed = false;             ///< claimed by a run of a replay
  std::optional<BufferView> view{};  ///< the whole buffer; empty: memory of the host
  struct Use {
    Event event;
    bool writes;
  };
  std::vector<Use> uses{};
};

/// A tensor in a context, or an array in a buffer.
struct Part {
  std::shared_ptr<Right> right;
  std::size_t at = 0, cells = num_cells;
  [[nodiscard]] Slice slice() const noexcept { return {right->memory, at, cells}; }
  [[nodiscard]] BufferView view() const;
  /// Whether the parts share cells.
  [[nodiscard]] bool overlaps(const Part& other) const noexcept {
    return right->memory == other.right->memory &&
           std::max(at, other.at) < std::min(at + cells, other.at + other.cells);
  }
  [[nodiscard]] bool is_place_of(const Part& other) const noexcept {
    return right->memory == other.right->memory && at == other.at;
  }
};

/// A virtual device.
struct Seat {
  Device device;
  std::size_t backend;
  std::uint64_t space;  ///< 0: the host's space
  bool runs_ahead;
  bool gone = false;    ///< being finalised
  bool closed = false;  ///< finalised: accepts no work
  /// The contents of the merge buffer, unless a merge() has cleared it since.
  struct Slot {
    bool claimed = false;
    struct Load {
      Operand tensor;
      Part source;  ///< read by the consumer
      bool streamed;
      Event event;
    };
    std::optional<Load> load{};
    std::uint64_t cleared_by = 0;  ///< a ticket
    bool unknown = false;          ///< may be cleared
  } slot{};
};

struct Touch {
  std::shared_ptr<Right> right;
  bool writes;
};

class World {
 public:
  /// `tell`: receives a line per work; empty: no output.
  World(Stage& stage, std::function<void(const std::string&)> tell,
        Planted planted = Planted::nothing);

  [[nodiscard]] Stage& stage() noexcept { return stage_; }
  [[nodiscard]] RuntimeModel& model() noexcept { return model_; }
  [[nodiscard]] std::uint64_t draw(std::uint64_t bound) { return stage_.draw(bound); }
  /// Runs a runtime call. Other hosts may run meanwhile.
  template <class Call>
  decltype(auto) have(const Call& call) {
    return meanwhile(stage_, call);
  }

  /// Returns an empty string, or the error: a missing order, where orders are checked, or a
  /// mismatch of memory. Call after all work has ended.
  [[nodiscard]] std::string check();

  /// Whether heddle orders devices.
  [[nodiscard]] bool automatic() const noexcept { return sync_ == Sync::automatic; }
  [[nodiscard]] bool checked() const noexcept { return sync_ == Sync::check; }
  void open_backend();
  /// A new virtual device of a backend.
  std::shared_ptr<Seat> open_seat(std::size_t backend);
  [[nodiscard]] const Backend& backend(std::size_t k) const { return backends_[k].backend; }
  /// Marks a backend as being finalised: devices being opened are closed with it.
  void backend_goes(std::size_t k) { backends_[k].gone = true; }
  [[nodiscard]] std::size_t num_backends() const noexcept { return backends_.size(); }
  /// The open devices.
  [[nodiscard]] const std::vector<std::shared_ptr<Seat>>& seats() const noexcept { return seats_; }
  /// Releases all handles that are not part of the model.
  void close();

  /// Adds the memory of a new buffer on that device.
  [[nodiscard]] std::shared_ptr<Right> new_right(const Seat& seat, BufferView view,
                                                 std::size_t cells);
  void zero(const Part& part);

  /// A request: `call` receives the events that it must come after, and returns its event, or
  /// throws. Returns whether the request was accepted. A request on claimed memory does nothing.
  struct Work {
    std::shared_ptr<Seat> seat;
    std::vector<Touch> touches;
    Request request;
    bool may_be_refused = false;  ///< with failed_precondition
    bool must_be_refused = false;
    /// whether a required context is finalised; empty: no context is required
    std::function<bool()> finalized{};
    bool waits = false;  ///< the call returns after the work has ended
  };
  bool ask(Work work, const std::function<Event(const std::vector<Event>&)>& call);
  /// The same for several requests at once, in that order: `call` returns an event for each. If the
  /// call throws, `partly` says whether some requests may have been accepted.
  using Events = std::vector<Event>;
  bool ask_all(const std::vector<Work>& works, const std::function<Events(const Events&)>& call,
               const bool& partly);
  /// Whether `status` is one of these; otherwise the run fails.
  bool expect(const Status& status, std::initializer_list<ErrorCode> codes, const char* what);

  std::uint64_t accepted = 0, refused = 0;
  std::deque<Values> host_memory;  ///< used by transfers
  /// Reports a change of memory that is not a request.
  void tell_of(const char* what, const Part& part);
  void publish(const Event& event);
  /// Returns a copy: other hosts may publish meanwhile.
  [[nodiscard]] Event any_event();

 private:
  struct Opened {
    Backend backend;
    bool gone = false;
  };
  [[nodiscard]] std::vector<Event> comes_after(const Work& work);
  void leave_out_one(std::vector<Event>& events_before, const Work& work);
  void note(const Work& work, const Event& event);
  void tell(const Request& request, const Seat& seat, const Event& event, const Status& refusal);

  Stage& stage_;
  const std::function<void(const std::string&)> tell_;
  /// The first report of Sync::check, from any thread.
  struct Missing {
    std::mutex mutex;
    std::string first;
  };

  const Planted planted_;
  const Sync sync_;
  bool left_out_ = false;  // the planted bug has been applied
  const std::shared_ptr<Missing> missing_ = std::make_shared<Missing>();
  RuntimeModel model_;
  std::vector<Event> events_;  // a sample of events
  std::deque<Opened> backends_;
  // used on threads, because a device ends with its last handle
  std::vector<std::shared_ptr<Seat>> seats_;
};

[[nodiscard]] Request read_request(const char* name, const Part& from, const Values& seen);
[[nodiscard]] Request copy_request(const char* name, const Part& to, const Part& from);
[[nodiscard]] Request values_request(const char* name, const Part& to, const Values& values);

/// The error thrown by `call`.
template <class Call>
Status attempt(const Call& call) {
  try {
    call();
    return {};
  } catch (const Error& e) {
    return e.status();
  }
}

}  // namespace heddle::stress
