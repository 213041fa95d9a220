// State of the host storage of tensors: the uses by tasks of every device, and the constants that
// devices read in place. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "heddle/host_array.hpp"
#include "heddle/status.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/memory/hazards.hpp"
#include "runtime/memory/ledger.hpp"

namespace heddle {
class Tensor;
}

namespace heddle::rt {

struct Execution;

struct Access;

struct HostUses {
  /// A constant that devices read in place: its text for messages, and the memory object of the
  /// device's buffer for it. Dead once the memory is released.
  struct Constant {
    std::string text;
    std::weak_ptr<const Memory> memory;
  };

  Ledger ledger;  ///< guards the members below
  Hazards hazards;
  std::vector<Constant> constants;
};

/// The uses of an array, shared by its copies and by every device.
[[nodiscard]] std::shared_ptr<HostUses> uses_of(const HostArray& host);

/// Called before the current values of `host` are used as a tensor's initial values. Returns when
/// the tasks that write these values have ended. With Sync::manual and Sync::check the caller must
/// order the writes, and the call does not wait; with Sync::check it reports writes that are not
/// ordered. Throws failed_precondition, naming the tensor, if a write failed, and the status of an
/// interrupted wait. `where`: the link's call site.
void await_values(const Execution& execution, const HostArray& host, const Tensor& tensor,
                  const std::source_location& where);

/// Marks the storage as a constant that devices read in place: the storage is not writable until
/// the buffer's memory is released. Then calls await_values().
void note_constant(const Execution& execution, const HostArray& host, const BufferState& buffer,
                   const Tensor& tensor, const std::source_location& where);
/// failed_precondition, naming the memory and the constant, if devices read the storage in place;
/// otherwise ok. Under the ledger.
[[nodiscard]] Status host_writable(const HostUses& uses, const Access& access);

}  // namespace heddle::rt
