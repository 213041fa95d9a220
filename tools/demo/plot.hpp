// The curve of a training run as an SVG drawing. Pure function; any thread.
#pragma once

#include <span>
#include <string>

#include "tools/demo/training.hpp"

namespace heddle::demo {

/// Loss (left axis, logarithmic) and test accuracy (right axis) over epochs. Self-contained: no
/// scripts, no fonts to load. `title` is escaped.
[[nodiscard]] std::string plot_svg(std::span<const EpochReport> epochs, const std::string& title);

}  // namespace heddle::demo
