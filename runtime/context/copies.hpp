// Copies of tensors between contexts. Any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "heddle/routine.hpp"

namespace heddle::rt {

/// The two views of a copy between contexts.
struct CopyPlan {
  std::shared_ptr<const BufferView> from, to;
  std::string nothing{};  ///< why there is nothing to copy; otherwise empty
};
/// Throws not_found where the source lacks the tensor, and failed_precondition where the
/// destination's memory must not be written, or the device was finalised.
[[nodiscard]] CopyPlan plan_copy(const Tensor& tensor, const Context& source,
                                 const Context& destination);

/// The source context's view of the tensor. Throws not_found, naming tensor and context.
[[nodiscard]] std::shared_ptr<const BufferView> require_source(const Tensor& tensor,
                                                               const Context& source,
                                                               std::string_view what);

}  // namespace heddle::rt
