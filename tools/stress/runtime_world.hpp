// The world of a random run of the tensor runtime: devices, memory and the rights to it, and how
// hosts ask for work as a careful user would, so that what memory must hold is known. For who holds
// its stage.
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

/// The right to a buffer, which donation takes away. Order between devices is the user's: a host
/// that asks for work on it claims it until it has the event, and comes after the uses on other
/// devices. A donation claims nothing: the runtime orders what comes after it.
struct Right {
  std::size_t memory = 0;   ///< in the model
  std::uint64_t space = 0;  ///< that of devices that reach it
  bool runs_ahead = false;  ///< the device whose it is, which moves may use beside their own
  bool claimed = false, donated = false;
  bool replayed = false;             ///< claimed by a run of a replay
  std::optional<BufferView> view{};  ///< all of it; none: memory of the host's
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
  /// Whether they have cells in common, or all.
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
  std::uint64_t space;  ///< 0: the host's
  bool runs_ahead;
  bool gone = false;    ///< somebody finalises it
  bool closed = false;  ///< somebody has: nothing is accepted
  /// What its merge buffer holds, but where a merge() has cleared it since.
  struct Slot {
    bool claimed = false;
    struct Load {
      Operand tensor;
      Part source;  ///< what the consumer reads
      bool streamed;
      Event event;
    };
    std::optional<Load> load{};
    std::uint64_t cleared_by = 0;  ///< a ticket
    bool unknown = false;          ///< perhaps cleared
  } slot{};
};

struct Touch {
  std::shared_ptr<Right> right;
  bool writes;
};

class World {
 public:
  /// `tell`: what is told of each work; empty: nothing.
  World(Stage& stage, std::function<void(const std::string&)> tell,
        Planted planted = Planted::nothing);

  [[nodiscard]] Stage& stage() noexcept { return stage_; }
  [[nodiscard]] RuntimeModel& model() noexcept { return model_; }
  [[nodiscard]] std::uint64_t draw(std::uint64_t bound) { return stage_.draw(bound); }
  /// What the runtime is asked for by `call`. Others come in meanwhile.
  template <class Call>
  decltype(auto) have(const Call& call) {
    return meanwhile(stage_, call);
  }

  /// Empty, or what does not fit: an order that hosts did not give, where that is checked, or what
  /// memory holds. When all has ended.
  [[nodiscard]] std::string check();

  /// Whether heddle sees to the order between devices.
  [[nodiscard]] bool automatic() const noexcept { return sync_ == Sync::automatic; }
  [[nodiscard]] bool checked() const noexcept { return sync_ == Sync::check; }
  void open_backend();
  /// A new virtual device of a backend.
  std::shared_ptr<Seat> open_seat(std::size_t backend);
  [[nodiscard]] const Backend& backend(std::size_t k) const { return backends_[k].backend; }
  /// Somebody finalises it: devices that are being opened are gone with it.
  void backend_goes(std::size_t k) { backends_[k].gone = true; }
  [[nodiscard]] std::size_t num_backends() const noexcept { return backends_.size(); }
  /// The devices that were opened.
  [[nodiscard]] const std::vector<std::shared_ptr<Seat>>& seats() const noexcept { return seats_; }
  /// Lets go of what it has beside the model.
  void close();

  /// Memory of a buffer that was made just now, on that device.
  [[nodiscard]] std::shared_ptr<Right> new_right(const Seat& seat, BufferView view,
                                                 std::size_t cells);
  void zero(const Part& part);

  /// Something that is asked for: `call` is given what it has to come after, and returns the event,
  /// or throws. Whether it was accepted. Nothing happens where somebody has a claim.
  struct Work {
    std::shared_ptr<Seat> seat;
    std::vector<Touch> touches;
    Request request;
    bool may_be_refused = false;  ///< as failed_precondition
    bool must_be_refused = false;
    std::function<bool()> finalized{};  ///< a context that it needs; unset: it needs none
    bool waits = false;                 ///< the call returns when it has ended
  };
  bool ask(Work work, const std::function<Event(const std::vector<Event>&)>& call);
  /// The same for several at once, in that order: `call` returns an event for each. Where it throws
  /// `partly` says whether some of them may have been accepted.
  using Events = std::vector<Event>;
  bool ask_all(const std::vector<Work>& works, const std::function<Events(const Events&)>& call,
               const bool& partly);
  /// Whether `status` is one of these; else the run has failed.
  bool expect(const Status& status, std::initializer_list<ErrorCode> codes, const char* what);

  std::uint64_t accepted = 0, refused = 0;
  std::deque<Values> host_memory;  ///< that transfers use
  /// What is no request happens to memory.
  void tell_of(const char* what, const Part& part);
  void publish(const Event& event);
  /// A copy: others may publish meanwhile.
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
  /// What Sync::check told first, on whatever thread.
  struct Missing {
    std::mutex mutex;
    std::string first;
  };

  const Planted planted_;
  const Sync sync_;
  bool left_out_ = false;  // what was planted
  const std::shared_ptr<Missing> missing_ = std::make_shared<Missing>();
  RuntimeModel model_;
  std::vector<Event> events_;  // some
  std::deque<Opened> backends_;
  std::vector<std::shared_ptr<Seat>> seats_;  // on threads, as a device goes with its last handle
};

[[nodiscard]] Request read_request(const char* name, const Part& from, const Values& seen);
[[nodiscard]] Request copy_request(const char* name, const Part& to, const Part& from);
[[nodiscard]] Request values_request(const char* name, const Part& to, const Values& values);

/// What `call` throws.
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
